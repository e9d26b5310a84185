<#
.SYNOPSIS
    Says how the Campanile driver is on this machine, step by step, and packs what it found for a report. Not yet run by anyone on Windows.
.DESCRIPTION
    Each step prints what it found and, where something does not hold, what to do. A step that fails or cannot be made ends none of the others.
    Everything goes into one zip file, to be attached to a report. It holds what the steps printed, what hlk.exe and the tools of Windows said of this
    device and this package, the lines of setupapi.dev.log about them, and the trace of the driver. It holds no other files; names of this machine
    and of its user stand in the lines of the logs.

    Nothing of the machine is changed, unless -Restart is given or the device did not start: then an elevated run restarts it once, with the trace,
    because only that shows why.
.PARAMETER Report
    The zip file; in the user's folder if not given.
.PARAMETER Quick
    Runs no conformance case and records no trace.
.PARAMETER Restart
    Restarts the device in place of running the cases, and looks at device and adapter again afterwards. The trace then has the events of its start
    and the graphics kernel's reason for a refusal. An elevated run does so by itself for a device that did not start (problem codes 10, 31, 37 and
    43). With -Quick the restart is left out, too.
.PARAMETER Rest
    -h, --help and /? print this text.
.EXAMPLE
    .\verify.ps1
.EXAMPLE
    .\verify.ps1 -Restart -Report C:\report.zip
.NOTES
    Exit codes: 0 everything holds, 1 something does not, 2 the command line is wrong, 3 nothing failed but some steps could not be made.
#>
[CmdletBinding(SupportsShouldProcess, PositionalBinding = $false)]
param(
    [string] $Report = (Join-Path $env:USERPROFILE ('campanile-report-{0:yyyyMMdd-HHmmss}.zip' -f (Get-Date))),
    [switch] $Quick,
    [switch] $Restart,
    [Parameter(ValueFromRemainingArguments)]
    [string[]] $Rest
)

if ($Rest) {
    if ($Rest[0] -in '-h', '--help', '/?') {
        Get-Help -Full $PSCommandPath
        exit 0
    }
    Write-Output "verify.ps1 does not know $($Rest[0]); --help says what it knows"
    exit 2
}

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$hardwareId = 'PCI\VEN_CA3E&DEV_0032'
$provider = '{e62c1597-f203-56cd-0fb9-4e8106732d97}'
$keywords = '0x3007e'
# Microsoft-Windows-DxgKrnl, the graphics kernel, which says in words why it refuses a driver.
$dxgkrnl = '{802ec45a-1e99-4b83-9920-87c98277ba9d}'
$session = 'campanile-verify'
$hlk = Join-Path $PSScriptRoot 'hlk.exe'
$folder = Join-Path ([IO.Path]::GetTempPath()) ('campanile-verify-{0}' -f [Guid]::NewGuid())
New-Item -ItemType Directory -Path $folder -WhatIf:$false | Out-Null
$script:failed = 0
$script:unmade = 0
$script:device = $null
$script:problem = 0

$principal = [Security.Principal.WindowsPrincipal] [Security.Principal.WindowsIdentity]::GetCurrent()
$elevated = $principal.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)

function Write-Line([string] $text) {
    Write-Output $text
    Add-Content -LiteralPath (Join-Path $folder 'report.txt') -Value $text -WhatIf:$false
}

# A claim that holds, or does not; then with what to do.
function Test-Claim([string] $claim, [bool] $holds, [string] $otherwise, [string] $advice) {
    if ($holds) { Write-Line "ok    $claim" }
    else {
        $script:failed++
        Write-Line "FAIL  ${claim}: $otherwise"
        Write-Line "      what to do: $advice"
    }
}

# What could not be found out, and why.
function Write-Unmade([string] $what, [string] $why) {
    $script:unmade++
    Write-Line "?     $what was not checked: $why"
}

# Runs a step; whatever goes wrong in it, the next ones are made.
function Invoke-Step([string] $name, [scriptblock] $step) {
    Write-Line "== $name"
    try { & $step }
    catch {
        $script:unmade++
        Write-Line "?     this step broke off: $($_.Exception.Message)"
        Write-Line '      what to do: send the report all the same; the steps after this one are made'
    }
}

# Keeps what a tool says. A tool that writes to its stream of errors is none that fails.
function Save-Output([string] $file, [scriptblock] $command) {
    $ErrorActionPreference = 'Continue'
    $lines = @(& $command 2>&1 | ForEach-Object { "$_" })
    Set-Content -LiteralPath (Join-Path $folder $file) -Value $lines -WhatIf:$false
    return $lines
}

# Problem codes of a device that a driver can earn, as cfg.h names them, and what to do. [MS: device manager error messages]
$problems = @{
    1  = 'CM_PROB_NOT_CONFIGURED', 'no driver is installed: run install.ps1'
    10 = 'CM_PROB_FAILED_START', 'the driver did not start the device: send the report of an elevated run, which has the trace of a restart'
    12 = 'CM_PROB_NORMAL_CONFLICT', 'the device lacks memory or interrupts: give the virtual machine or the slot more address space'
    14 = 'CM_PROB_NEED_RESTART', 'restart the machine'
    18 = 'CM_PROB_REINSTALL', 'run install.ps1 again'
    21 = 'CM_PROB_WILL_BE_REMOVED', 'wait some seconds, then run verify.ps1 again'
    22 = 'CM_PROB_DISABLED', 'enable the device in the Device Manager'
    24 = 'CM_PROB_DEVICE_NOT_THERE', 'look whether the function is still in its slot, and restart the machine'
    28 = 'CM_PROB_FAILED_INSTALL', 'no driver is installed: run install.ps1, and look at setupapi.txt of the report'
    31 = 'CM_PROB_FAILED_ADD', 'the driver refused the device, or its version is not that of the INF: send the report of an elevated run'
    32 = 'CM_PROB_DISABLED_SERVICE', 'the service campanile_kmd is disabled: run install.ps1 again'
    37 = 'CM_PROB_FAILED_DRIVER_ENTRY', 'DriverEntry failed: Windows may be older than 24H2, or its graphics kernel refused the table of functions (NTSTATUS 0xC0000059); send the report of an elevated run'
    38 = 'CM_PROB_DRIVER_FAILED_PRIOR_UNLOAD', 'an older driver is still loaded: restart the machine'
    39 = 'CM_PROB_DRIVER_FAILED_LOAD', 'the driver was not loaded: look at the steps on signatures, and disable Memory integrity'
    43 = 'CM_PROB_FAILED_POST_START', 'the graphics kernel refused the driver after its start: send the report of an elevated run, which has the trace of a restart'
    47 = 'CM_PROB_HELD_FOR_EJECT', 'the device was ejected: restart the machine'
    48 = 'CM_PROB_DRIVER_BLOCKED', 'Windows blocks the driver: disable Memory integrity'
    52 = 'CM_PROB_UNSIGNED_DRIVER', 'the signature is not trusted: bcdedit /set testsigning on, Secure Boot off, restart, run install.ps1 again'
    54 = 'CM_PROB_DEVICE_RESET', 'the device is being reset: wait some seconds, then run verify.ps1 again'
}

Invoke-Step 'machine' {
    $version = Get-ItemProperty 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion'
    Write-Line "      Windows build $($version.CurrentBuild).$($version.UBR), PowerShell $($PSVersionTable.PSVersion), elevated: $elevated"
    Test-Claim 'this Windows has WDDM 3.2' ([int] $version.CurrentBuild -ge 26100) "its build is $($version.CurrentBuild)" 'install Windows 11 24H2 (build 26100) or later'
    $computer = Get-CimInstance Win32_ComputerSystem
    $memory = [Math]::Round($computer.TotalPhysicalMemory / 1048576)
    Write-Line "      $($computer.Manufacturer) $($computer.Model), $($computer.NumberOfLogicalProcessors) processors, $memory MiB"
    $guard = Get-CimInstance -Namespace root\Microsoft\Windows\DeviceGuard -ClassName Win32_DeviceGuard -ErrorAction SilentlyContinue
    if ($null -ne $guard) { Write-Line "      Memory integrity runs: $($guard.SecurityServicesRunning -contains 2)" }
    # With what this Windows was started; the registry says so to everybody, in any language. bcdedit says with what it will be started next.
    $options = "$((Get-ItemProperty 'HKLM:\SYSTEM\CurrentControlSet\Control').SystemStartOptions)"
    Test-Claim 'this start of Windows has test signing' ($options -match 'TESTSIGNING') "it was started with $options" 'switch Secure Boot off in the firmware, run "bcdedit /set testsigning on" as administrator, and restart'
    if ($elevated) {
        $entry = @(Save-Output 'boot.txt' { & bcdedit.exe /enum '{current}' } | Where-Object { $_ -match 'testsigning' })
        Test-Claim 'the next start has a setting of test signing' ($entry.Count -gt 0) 'bcdedit lists none' 'run "bcdedit /set testsigning on" as administrator, or the next restart ends test signing'
        foreach ($line in $entry) { Write-Line "      $line" }
    }
    else { Write-Unmade 'test signing of the next start' 'bcdedit needs an elevated PowerShell' }
}

Invoke-Step 'signatures of this package' {
    foreach ($image in 'campanile_kmd.sys', 'campanile_umd.dll', 'campanile_vulkan.dll', 'campanile.cat') {
        $signature = Get-AuthenticodeSignature -LiteralPath (Join-Path $PSScriptRoot $image)
        Test-Claim "$image is signed and trusted" ($signature.Status -eq 'Valid') "$($signature.Status): $($signature.StatusMessage)" 'copy the package again if its files changed; else run install.ps1, which trusts its certificate'
    }
    $certificates = @(Get-ChildItem -LiteralPath $PSScriptRoot -Filter '*.cer')
    Test-Claim 'the package has a certificate' ($certificates.Count -gt 0) 'no .cer file beside this script' 'copy the whole folder of the package'
    foreach ($file in $certificates) {
        $certificate = New-Object Security.Cryptography.X509Certificates.X509Certificate2 $file.FullName
        $now = Get-Date
        Test-Claim "$($file.Name) is valid now" ($certificate.NotBefore -le $now -and $now -le $certificate.NotAfter) "it is valid from $($certificate.NotBefore) to $($certificate.NotAfter), and the clock says $now" 'set the clock, or make the package again'
        foreach ($store in 'Root', 'TrustedPublisher') {
            Test-Claim "$($file.Name) is trusted in $store" (Test-Path "Cert:\LocalMachine\$store\$($certificate.Thumbprint)") 'it is not in that store of the machine' 'run install.ps1'
        }
    }
}

Invoke-Step 'driver store' {
    $lines = Save-Output 'driver-store.txt' { & pnputil.exe /enum-drivers /class ComputeAccelerator }
    Test-Claim 'the driver store holds campanile.inf' (($lines -join "`n") -match 'campanile\.inf') 'pnputil does not list it' 'run install.ps1, and look at setupapi.txt of the report'
}

# The device as it is now; its properties go into a file.
function Test-Device([string] $file) {
    $script:device = Get-PnpDevice -PresentOnly -ErrorAction SilentlyContinue |
        Where-Object { $_.InstanceId -like "$hardwareId*" } | Select-Object -First 1
    Test-Claim 'the device is present' ($null -ne $script:device) "there is no PCI function $hardwareId" 'look whether the virtual machine has the GPU, or the card is in its slot; then scan for hardware changes'
    if ($null -eq $script:device) { return }
    $properties = @(Get-PnpDeviceProperty -InstanceId $script:device.InstanceId)
    $properties | Sort-Object KeyName | Format-Table KeyName, Type, Data -AutoSize | Out-String -Width 400 |
        Set-Content -LiteralPath (Join-Path $folder $file) -WhatIf:$false
    $values = @{}
    foreach ($property in $properties) { $values[$property.KeyName] = $property.Data }
    $code = [int] $values['DEVPKEY_Device_ProblemCode']
    $script:problem = $code
    $status = '0x{0:X8}' -f $values['DEVPKEY_Device_ProblemStatus']
    $named = $problems[$code]
    if ($null -eq $named) { $named = 'a problem code that this script does not know', 'send the report' }
    Test-Claim 'the device works' ($code -eq 0 -and $script:device.Status -eq 'OK') "status $($script:device.Status), problem code $code, $($named[0]), NTSTATUS $status" $named[1]
    $own = (Get-Item -LiteralPath (Join-Path $PSScriptRoot 'campanile_kmd.sys')).VersionInfo.FileVersion
    $installed = $values['DEVPKEY_Device_DriverVersion']
    Test-Claim "the driver has this package's version" ($installed -eq $own) "installed is $installed, the package has $own" 'run install.ps1 of this package'
    $service = Get-CimInstance Win32_SystemDriver -Filter "Name='campanile_kmd'"
    Test-Claim 'the driver runs' ($null -ne $service -and $service.State -eq 'Running') 'the service campanile_kmd is not running' 'what the line on the device says'
}

Invoke-Step 'device' { Test-Device 'device.txt' }

Invoke-Step 'setupapi.dev.log' {
    $log = Join-Path $env:windir 'INF\setupapi.dev.log'
    # A section begins with >>> and its heading; lines with !!! are errors.
    $sections = @()
    $section = New-Object Collections.Generic.List[string]
    foreach ($line in @(Get-Content -LiteralPath $log) + '>>>  [') {
        if ($line.StartsWith('>>>  [')) {
            if (($section -join "`n") -match 'campanile|VEN_CA3E&DEV_0032') { $sections += , $section.ToArray() }
            $section = New-Object Collections.Generic.List[string]
        }
        $section.Add($line)
    }
    $last = @($sections | Select-Object -Last 8 | ForEach-Object { $_ })
    Set-Content -LiteralPath (Join-Path $folder 'setupapi.txt') -Value $last -WhatIf:$false
    Write-Line "      $($sections.Count) sections are about this package or device; the last 8 are in the report"
    $errors = @($sections | Select-Object -Last 1 | ForEach-Object { $_ } | Where-Object { $_ -match '^!!!' })
    $first = $errors | Select-Object -First 1
    Test-Claim 'the last of them has no error' ($errors.Count -eq 0) "$($errors.Count) errors, the first: $first" 'look at setupapi.txt of the report'
}

Invoke-Step 'bug checks and resets' {
    $query = @{ LogName = 'System'; ProviderName = 'Microsoft-Windows-WER-SystemErrorReporting', 'Display' }
    $events = @(Get-WinEvent -FilterHashtable $query -MaxEvents 20 -ErrorAction SilentlyContinue)
    $events | Format-List TimeCreated, ProviderName, Id, Message | Out-String -Width 400 |
        Set-Content -LiteralPath (Join-Path $folder 'bug-checks.txt') -WhatIf:$false
    Write-Line "      $($events.Count) events of the system log tell of bug checks or of timeouts of an adapter; they are in the report, of any driver"
}

# The adapter as programs find it now; what hlk.exe says goes into files whose names begin so.
function Test-Adapter([string] $files) {
    if (-not (Test-Path -LiteralPath $hlk)) { return Write-Unmade 'the adapter' 'hlk.exe is not beside this script: copy the whole folder of the package' }
    $lines = Save-Output "$files.txt" { & $hlk --adapter }
    $code = $LASTEXITCODE
    Test-Claim 'D3DKMTEnumAdapters3 lists an adapter of this driver' ($code -eq 0) "hlk.exe ended with ${code}: $($lines -join ' ')" 'exit code 4: the device has to work first, see above'
    if ($code -ne 0) { return }
    foreach ($line in $lines) { Write-Line "      $line" }
    foreach ($line in Save-Output "$files-submission.txt" { & $hlk --why }) { Write-Line "      $line" }
    foreach ($feature in 'native fences, granted to the driver', 'user-mode submission, granted to the driver', 'hardware scheduling, enabled') {
        Test-Claim $feature ($lines -contains "${feature}: yes") 'no' 'send the report: whether Windows grants it to this driver is what nobody knows yet'
    }
}

Invoke-Step 'adapter, features and nodes' { Test-Adapter 'adapter' }

Invoke-Step 'Vulkan driver' {
    $drivers = 'HKLM:\SOFTWARE\Khronos\Vulkan\Drivers'
    $names = @()
    if (Test-Path $drivers) { $names = @((Get-Item $drivers).Property | Where-Object { $_ -like '*\campanile_vulkan.json' }) }
    Test-Claim 'the Vulkan loader is told of one Campanile driver' ($names.Count -eq 1) "$drivers names $($names.Count)" 'run install.ps1'
    foreach ($name in $names) {
        Write-Line "      $name"
        foreach ($file in $name, [IO.Path]::ChangeExtension($name, 'dll')) {
            Test-Claim "$(Split-Path -Leaf $file) is where the loader looks" (Test-Path -LiteralPath $file) "$file is missing" 'run install.ps1'
        }
        Test-Claim 'it is not disabled' ((Get-ItemPropertyValue -LiteralPath $drivers -Name $name) -eq 0) 'its value is not 0' 'run install.ps1'
    }
}

function Invoke-Case {
    if ($null -eq $script:device) { return Write-Unmade 'the conformance cases' 'there is no device' }
    Write-Line '      this takes some minutes'
    $lines = Save-Output 'hlk.txt' { & $hlk --timeout 20 --junit (Join-Path $folder 'hlk.xml') }
    $code = $LASTEXITCODE
    foreach ($line in $lines | Select-Object -Last 3) { Write-Line "      $line" }
    Test-Claim 'the conformance cases pass' ($code -eq 0) "hlk.exe ended with $code" 'send the report; hlk.txt in it has the reason of each case'
}

function Restart-Adapter {
    if ($null -eq $script:device) { return Write-Unmade 'the restart' 'there is no device' }
    if ($PSCmdlet.ShouldProcess($script:device.InstanceId, 'pnputil /restart-device')) {
        Save-Output 'restart.txt' { & pnputil.exe /restart-device $script:device.InstanceId } | Out-Null
        Test-Claim 'the device restarts' ($LASTEXITCODE -in 0, 3010) "pnputil ended with $LASTEXITCODE" 'close programs that use the adapter, or restart the machine'
    }
}

# Waits until the device has a problem code that stays, at most half a minute: those of a device that comes and goes do not.
function Wait-Device {
    for ($second = 0; $second -lt 30; $second++) {
        $present = Get-PnpDevice -PresentOnly -ErrorAction SilentlyContinue | Where-Object { $_.InstanceId -like "$hardwareId*" } | Select-Object -First 1
        if ($null -ne $present) {
            $problem = Get-PnpDeviceProperty -InstanceId $present.InstanceId -KeyName 'DEVPKEY_Device_ProblemCode' -ErrorAction SilentlyContinue
            if ($null -ne $problem -and [int] $problem.Data -notin 14, 21, 22, 24, 54) { return }
        }
        Start-Sleep -Seconds 1
    }
}

function Start-Recording([string] $recording) {
    $providers = Join-Path $folder 'providers.txt'
    $lines = @("$provider $keywords 5")
    if ($Restart) { $lines += "$dxgkrnl 0xffffffffffffffff 5" }
    Set-Content -LiteralPath $providers -Value $lines -Encoding ASCII -WhatIf:$false
    # The last 32 MiB, however much there is.
    Save-Output 'trace-start.txt' { & logman.exe start $session -pf $providers -o $recording -mode Circular -f bincirc -max 32 -ets } | Out-Null
    return $LASTEXITCODE
}

function Stop-Recording([string] $recording) {
    Save-Output 'trace-stop.txt' { & logman.exe stop $session -ets } | Out-Null
    $text = Join-Path $folder 'trace.xml'
    Save-Output 'tracerpt.txt' { & tracerpt.exe $recording -o $text -of XML -y } | Out-Null
    $all = @(([xml] (Get-Content -LiteralPath $text -Raw)).SelectNodes("//*[local-name()='Event']"))
    $own = @($all | Where-Object { $_.OuterXml -like "*$provider*" })
    Test-Claim 'the driver tells events' ($own.Count -gt 0) "the trace has none of $provider" 'if the device works, send the report'
    Write-Line "      $($own.Count) events of the driver; the last 20 are in last-events.txt"
    $last = @($own | Select-Object -Last 20 | ForEach-Object { $_.OuterXml })
    Set-Content -LiteralPath (Join-Path $folder 'last-events.txt') -Value $last -WhatIf:$false
    # An event of each adapter that is added, so that it is in the trace of a restart only.
    if ($Restart) {
        $registered = @($own | Where-Object { $_.OuterXml -match 'RegisteredBy' } | Select-Object -Last 1 | ForEach-Object { $_.OuterXml })
        Set-Content -LiteralPath (Join-Path $folder 'registered-by.txt') -Value $registered -WhatIf:$false
        $answered = 'no event says by which'
        if ($registered -match '0x230047|2293831') { $answered = '0x230047, of Windows 8 and later' }
        if ($registered -match '0x23003F|2293823') { $answered = '0x23003F, of Windows 7' }
        if ($registered -match 'Name="request">\s*(0x0+|0)\s*<') { $answered = 'one that DxgkInitialize of the kit, which this driver was built with, does not tell' }
        Write-Line "      control request by which the graphics kernel registered the driver: $answered"
    }
    # With -Restart the graphics kernel's own events: those that say why it refused a driver.
    $words = @($all | Where-Object { $_.OuterXml -like '*AzureTriage*' } | ForEach-Object { $_.OuterXml })
    Set-Content -LiteralPath (Join-Path $folder 'graphics-kernel.txt') -Value $words -WhatIf:$false
    if ($words.Count -gt 0) { Write-Line "      the graphics kernel gave $($words.Count) reasons; they are in graphics-kernel.txt" }
    # It is much larger than the recording, which has all of it.
    [IO.File]::Delete($text)
}

# Cases would find no adapter; a restart shows what the driver and the graphics kernel say of the start.
if ($script:problem -in 10, 31, 37, 43 -and -not $Restart -and -not $Quick) {
    if ($elevated) {
        Write-Line "      the device did not start (problem code $($script:problem)): it is restarted with the trace, in place of running the cases"
        $Restart = $true
    }
    else { Write-Unmade 'why the device did not start' 'its restart and the trace of it need an elevated PowerShell' }
}

if ($Quick) { Write-Line '== conformance cases and trace: left out by -Quick' }
else {
    Invoke-Step 'conformance cases or restart, with the trace of the driver' {
        $recording = Join-Path $folder 'campanile.etl'
        $started = 1
        if ($elevated) { $started = Start-Recording $recording }
        if ($started -ne 0) { Write-Unmade 'the trace' 'recording needs an elevated PowerShell and logman.exe; trace-start.txt has what that said' }
        try {
            if ($Restart) { Restart-Adapter } else { Invoke-Case }
        }
        finally { if ($started -eq 0) { Stop-Recording $recording } }
    }
}
if ($Restart -and -not $Quick) {
    # What was found above is how the device was before; a restart may have mended it, or broken it.
    Invoke-Step 'device, after the restart' {
        Wait-Device
        Test-Device 'device-restarted.txt'
    }
    Invoke-Step 'adapter, features and nodes, after the restart' { Test-Adapter 'adapter-restarted' }
}

Write-Line "== $($script:failed) claims do not hold, $($script:unmade) were not checked"
try {
    Compress-Archive -Path (Join-Path $folder '*') -DestinationPath $Report -Force -WhatIf:$false
    [IO.Directory]::Delete($folder, $true)
    Write-Output "report: $Report"
}
catch {
    $script:unmade++
    Write-Output "?     the report was not packed: $($_.Exception.Message)"
    Write-Output "      what to do: send the files of $folder, or name another file with -Report"
}

if ($script:failed -gt 0) { exit 1 }
if ($script:unmade -gt 0) { exit 3 }
