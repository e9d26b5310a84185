//! What the adapter tells user mode about itself, for every set of enabled features.

use crate::cases::caps::{fences_supported, scheduling, submits_from_user_mode};
use campanile_hw::registers::NODE_COMPUTE;
use dxgkrnl::{FeaturePolicy, Process, RegistryValue};
use wddm_ddi::km::*;
use wddm_ddi::nt::REG_DWORD;
use wddm_ddi::status::*;

use crate::rig::user_mode_flags;
use crate::simulated::Case;
use crate::{Boot, Failure, refused};
use testbed::setup::{System, SystemOptions};

cases! { inside "Capabilities", behind "it chooses what hardware and system support";
    "Capabilities.WithoutNativeFencesNoneCanBeCreated" on Boot::With(without_native_fences), "native-gpu-fence-objects":
        "When the system keeps the native fence feature off, the adapter starts, user mode is told so, and creating a native fence is not supported."
        holds [NativeFence 29]
        => without_fences;
    "Capabilities.WithoutUserModeSubmissionKernelQueuesRemain" on Boot::With(without_user_submission), "user-mode-work-submission":
        "When user-mode submission is off, queues that ask for it are refused while queues for kernel-mode submission can still be created."
        holds [UserModeSubmission 10]
        => without_submission;
    "Capabilities.WithoutHardwareSchedulingNoHardwareQueues" on Boot::With(without_scheduling), "querying-wddm-feature-support-and-enablement":
        "When hardware scheduling is off, the adapter starts all the same, and hardware contexts are not supported."
        => without_hardware_scheduling;
    "Capabilities.SoftwareKeyWithholdsHardwareScheduling" on Boot::With(withheld), "docs/windows.md":
        "DisableHardwareScheduling in the device's software key has the driver offer no hardware scheduling, so that the system, which is willing, enables neither it nor user-mode submission, says so, and creates no hardware context; the driver prints why."
        => withheld_by_software_key;
    "Capabilities.SoftwareKeyOfOtherValuesWithholdsNothing" on Boot::Fresh, "docs/windows.md":
        "DisableHardwareScheduling of 0 withholds nothing. Neither does a value that is no REG_DWORD of four bytes, which the driver prints."
        => not_withheld;
}

fn without(change: impl FnOnce(&mut FeaturePolicy)) -> SystemOptions {
    let mut options = SystemOptions::default();
    change(&mut options.features);
    options
}

fn without_native_fences() -> SystemOptions {
    without(|features| features.native_fence = false)
}

fn without_user_submission() -> SystemOptions {
    without(|features| features.user_mode_submission = false)
}

fn without_scheduling() -> SystemOptions {
    without(|features| features.hardware_scheduling = false)
}

const SWITCH: &str = "DisableHardwareScheduling";

fn software_key(value: RegistryValue) -> SystemOptions {
    SystemOptions { software: vec![(SWITCH, value)], ..SystemOptions::default() }
}

fn withheld() -> SystemOptions {
    software_key(RegistryValue::Number(1))
}

/// Lines that the driver printed about the value.
fn printed(case: &Case<'_>) -> usize {
    case.system.machine().debug_log().iter().filter(|line| line.contains(SWITCH)).count()
}

fn withheld_by_software_key(case: &mut Case<'_>) -> Result<(), Failure> {
    let caps = scheduling(case)?;
    ensure!(!caps.HwSchSupported(), "hardware scheduling is told as supported although the driver withholds it");
    ensure!(
        !submits_from_user_mode(case)?,
        "a node takes work from user mode although hardware scheduling is withheld"
    );
    ensure_eq!(printed(case), 1, "lines that the driver printed about the value");
    without_hardware_scheduling(case)
}

fn not_withheld(_: &mut Case<'_>) -> Result<(), Failure> {
    let number = |bytes: &[u8]| RegistryValue::Other { kind: REG_DWORD, bytes: bytes.to_vec() };
    let values = [
        (RegistryValue::Number(0), 0),
        (RegistryValue::Text("1".into()), 1),
        (number(&[]), 1),
        (number(&[1, 0]), 1),
        (number(&[1, 0, 0, 0, 0, 0, 0, 0]), 1),
    ];
    for (value, lines) in values {
        let what = format!("{value:?}");
        let mut system = System::boot(&software_key(value))?;
        let process = Process::new(system.machine(), "software key");
        let outcome = {
            let _attached = process.attach();
            enabled_in_spite_of(&Case::new(&mut system, &process), &what, lines)
        };
        process.exit();
        let ended = system.shutdown();
        outcome?;
        ended?;
    }
    Ok(())
}

fn enabled_in_spite_of(case: &Case<'_>, value: &str, lines: usize) -> Result<(), Failure> {
    let caps = scheduling(case)?;
    ensure!(caps.HwSchSupported() && caps.HwSchEnabled(), "{value} withholds hardware scheduling");
    ensure!(submits_from_user_mode(case)?, "{value} withholds user-mode submission");
    ensure_eq!(printed(case), lines, "lines that the driver printed about {value}");
    Ok(())
}

fn without_fences(case: &mut Case<'_>) -> Result<(), Failure> {
    ensure!(!fences_supported(case)?, "native fences are told although the feature is off");
    match case.rig()?.create_fence(0) {
        Ok(_) => Err(Failure::new("a native fence was created although the feature is off")),
        Err(status) => refused(status, &[STATUS_NOT_SUPPORTED], "creating a native fence"),
    }
}

fn without_submission(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("context: {status}")))?;
    match rig.hw_queue(context, user_mode_flags()) {
        Ok(_) => return Err(Failure::new("a user-mode queue was created although the feature is off")),
        Err(status) => {
            refused(status, &[STATUS_NOT_SUPPORTED, STATUS_INVALID_PARAMETER], "creating a user-mode queue")?;
        }
    }
    let kernel = rig.hw_queue(context, D3DDDI_CREATEHWQUEUEFLAGS::new());
    kernel.map(drop).map_err(|status| Failure::new(format!("a queue for kernel-mode submission: {status}")))
}

fn without_hardware_scheduling(case: &mut Case<'_>) -> Result<(), Failure> {
    ensure!(!scheduling(case)?.HwSchEnabled(), "hardware scheduling is told as enabled although it is off");
    match case.rig()?.context(NODE_COMPUTE) {
        Ok(_) => Err(Failure::new("a hardware context was created although hardware scheduling is off")),
        Err(status) => refused(status, &[STATUS_NOT_SUPPORTED], "creating a hardware context"),
    }
}
