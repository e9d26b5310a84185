<#
.SYNOPSIS
    Installs the Campanile driver package on a test machine. Not yet run by anyone on Windows.
.DESCRIPTION
    Trusts the package's test certificate on this machine, adds the package to the driver store and installs it on the device.
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
    & (Join-Path $PSScriptRoot 'verify.ps1') -Quick
}
