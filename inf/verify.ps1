<#
.SYNOPSIS
    Says whether the Campanile driver is installed, running, and the one of this package. Not yet run by anyone on Windows.
.DESCRIPTION
    Changes nothing. Ends with exit code 0 if everything holds and 1 if something does not, after a line for each.
.EXAMPLE
    .\verify.ps1
#>
[CmdletBinding()]
param()

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$script:failed = $false
function Test-Claim([string] $claim, [bool] $holds, [string] $otherwise) {
    if ($holds) { Write-Output "ok    $claim" }
    else { Write-Output "FAIL  ${claim}: $otherwise"; $script:failed = $true }
}

foreach ($image in 'campanile_kmd.sys', 'campanile_umd.dll') {
    $signature = Get-AuthenticodeSignature -LiteralPath (Join-Path $PSScriptRoot $image)
    Test-Claim "$image in this package is signed and trusted" ($signature.Status -eq 'Valid') $signature.StatusMessage
}

$device = Get-PnpDevice -PresentOnly -ErrorAction SilentlyContinue |
    Where-Object { $_.InstanceId -like 'PCI\VEN_CA3E&DEV_0032*' } | Select-Object -First 1
Test-Claim 'the device is present' ($null -ne $device) 'no PCI function with the ids CA3E:0032'
if ($null -ne $device) {
    $problem = (Get-PnpDeviceProperty -InstanceId $device.InstanceId -KeyName DEVPKEY_Device_ProblemStatus).Data
    Test-Claim 'the device works' ($device.Status -eq 'OK') ('status {0}, problem {1}, NTSTATUS {2:X8}' -f $device.Status, $device.Problem, $problem)
    $installed = (Get-PnpDeviceProperty -InstanceId $device.InstanceId -KeyName DEVPKEY_Device_DriverVersion).Data
    $own = (Get-Item -LiteralPath (Join-Path $PSScriptRoot 'campanile_kmd.sys')).VersionInfo.FileVersion
    Test-Claim "the driver has this package's version" ($installed -eq $own) "installed is $installed, the package has $own"
}

$service = Get-CimInstance Win32_SystemDriver -Filter "Name='campanile_kmd'"
Test-Claim 'the driver runs' ($null -ne $service -and $service.State -eq 'Running') 'the service campanile_kmd is not running'

if ($script:failed) { exit 1 }
