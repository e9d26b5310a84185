<#
.SYNOPSIS
    Removes the Campanile driver package from a test machine. Not yet run by anyone on Windows.
.DESCRIPTION
    Tells the Vulkan loader that the Vulkan driver is gone, uninstalls the package from its device, deletes it from the driver store, and stops
    trusting the package's test certificate.
    -WhatIf says what would be done.
.EXAMPLE
    .\uninstall.ps1 -WhatIf
#>
[CmdletBinding(SupportsShouldProcess, ConfirmImpact = 'High')]
param(
    [string] $Certificate = (Join-Path $PSScriptRoot '*.cer' -Resolve | Select-Object -First 1)
)

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$principal = [Security.Principal.WindowsPrincipal] [Security.Principal.WindowsIdentity]::GetCurrent()
$administrator = $principal.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)
if (-not $administrator -and -not $WhatIfPreference) { throw 'uninstalling needs an elevated PowerShell' }

$drivers = 'HKLM:\SOFTWARE\Khronos\Vulkan\Drivers'
if (Test-Path $drivers) {
    foreach ($manifest in (Get-Item $drivers).Property | Where-Object { $_ -like '*\campanile_vulkan.json' }) {
        if ($PSCmdlet.ShouldProcess($drivers, "remove $manifest")) { Remove-ItemProperty -LiteralPath $drivers -Name $manifest }
    }
}

# The driver store calls the package oemN.inf.
$packages = @(Get-WindowsDriver -Online | Where-Object { (Split-Path -Leaf $_.OriginalFileName) -eq 'campanile.inf' })
if ($packages.Count -eq 0) { Write-Warning 'the driver store holds no campanile.inf' }
foreach ($package in $packages) {
    if ($PSCmdlet.ShouldProcess("$($package.Driver), version $($package.Version)", 'pnputil /delete-driver /uninstall')) {
        & pnputil.exe /delete-driver $package.Driver /uninstall
        if ($LASTEXITCODE -notin 0, 3010) { throw "pnputil ended with $LASTEXITCODE; see $env:windir\INF\setupapi.dev.log" }
        if ($LASTEXITCODE -eq 3010) { Write-Warning 'restart the machine to finish' }
    }
}

if ($Certificate -and (Test-Path -LiteralPath $Certificate)) {
    $thumbprint = (New-Object Security.Cryptography.X509Certificates.X509Certificate2 $Certificate).Thumbprint
    foreach ($store in 'Root', 'TrustedPublisher') {
        $path = "Cert:\LocalMachine\$store\$thumbprint"
        if ((Test-Path $path) -and $PSCmdlet.ShouldProcess($path, 'no longer trust')) { Remove-Item -Path $path }
    }
}
