<#
.SYNOPSIS
    Installs the Campanile driver package on a test machine. Not yet run by anyone on Windows.
.DESCRIPTION
    Trusts the package's test certificate on this machine, adds the package to the driver store, installs it on the device, and tells the Vulkan
    loader of the Vulkan driver in it.
    Test signing must be on and Secure Boot off. -WhatIf says what would be done.
.PARAMETER Certificate
    The certificate that signed the package; the one beside this script if not given.
.EXAMPLE
    .\install.ps1 -WhatIf
#>
[CmdletBinding(SupportsShouldProcess, ConfirmImpact = 'High')]
param(
    [string] $Certificate = (Join-Path $PSScriptRoot '*.cer' -Resolve | Select-Object -First 1)
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$inf = Join-Path $PSScriptRoot 'campanile.inf'
foreach ($file in $inf, $Certificate) {
    if (-not $file -or -not (Test-Path -LiteralPath $file)) { throw "$file is missing: run this script in the package's folder" }
}

$principal = [Security.Principal.WindowsPrincipal] [Security.Principal.WindowsIdentity]::GetCurrent()
$administrator = $principal.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)
if (-not $administrator -and -not $WhatIfPreference) { throw 'installing needs an elevated PowerShell' }

$build = [int] (Get-ItemPropertyValue 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion' -Name CurrentBuild)
if ($build -lt 26100) { throw "Windows build $build is too old: WDDM 3.2 begins with 26100 (Windows 11 24H2)" }

# A test certificate is believed only where test signing is on.
$boot = (& bcdedit.exe /enum '{current}') -join "`n"
if ($boot -notmatch 'testsigning\s+Yes') {
    Write-Warning 'test signing is off: run "bcdedit /set testsigning on" as administrator, switch Secure Boot off, and restart'
}

foreach ($store in 'Root', 'TrustedPublisher') {
    if ($PSCmdlet.ShouldProcess("Cert:\LocalMachine\$store", "trust $Certificate")) {
        Import-Certificate -FilePath $Certificate -CertStoreLocation "Cert:\LocalMachine\$store" | Out-Null
    }
}

if ($PSCmdlet.ShouldProcess($inf, 'pnputil /add-driver /install')) {
    & pnputil.exe /add-driver $inf /install
    # 3010: done, and a restart is needed.
    if ($LASTEXITCODE -notin 0, 3010) { throw "pnputil ended with $LASTEXITCODE; see $env:windir\INF\setupapi.dev.log" }
    if ($LASTEXITCODE -eq 3010) { Write-Warning 'restart the machine to finish' }
}

# The Vulkan loader asks display adapters for their drivers, and this key for all others. Values of older packages name files that are gone.
$drivers = 'HKLM:\SOFTWARE\Khronos\Vulkan\Drivers'
$package = Get-WindowsDriver -Online | Where-Object { (Split-Path -Leaf $_.OriginalFileName) -eq 'campanile.inf' } |
    Sort-Object { [version] $_.Version } | Select-Object -Last 1
if ($null -ne $package) {
    $manifest = Join-Path (Split-Path -Parent $package.OriginalFileName) 'campanile_vulkan.json'
    if ($PSCmdlet.ShouldProcess($drivers, "register $manifest")) {
        if (-not (Test-Path $drivers)) { New-Item -Path $drivers -Force | Out-Null }
        foreach ($name in (Get-Item $drivers).Property | Where-Object { $_ -like '*\campanile_vulkan.json' -and $_ -ne $manifest }) {
            Remove-ItemProperty -LiteralPath $drivers -Name $name
        }
        New-ItemProperty -LiteralPath $drivers -Name $manifest -PropertyType DWord -Value 0 -Force | Out-Null
    }
}
elseif (-not $WhatIfPreference) { throw 'the driver store holds no campanile.inf' }

if (-not $WhatIfPreference) { & (Join-Path $PSScriptRoot 'verify.ps1') -Quick }
