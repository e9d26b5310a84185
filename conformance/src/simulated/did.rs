//! What a case must have done to have found out what its name says, by the calls of the driver.
//!
//! A case that passes although nothing of it ran, because its machine was another one than it believes or a loop in it is empty, says nothing. So
//! each word of a name that promises something stands here with the DDIs of which one must have been called while the case ran.

use crate::CaseInfo;

/// DDIs by which work reaches the GPU: a packet, a submission through the kernel, or a doorbell for user mode.
const WORK: &[&str] = &["DxgkDdiSubmitCommandVirtual", "DxgkDdiSubmitCommandToHwQueue", "DxgkDdiConnectDoorbell"];
const FENCES: &[&str] = &["DxgkDdiCreateNativeFence"];
const PAGING: &[&str] = &["DxgkDdiBuildPagingBuffer"];

/// Words in `Area.Name` of a case, and the DDIs of which one must have been called.
const PROMISES: &[(&str, &[&str])] = &[
    ("Interrupt", &["DxgkDdiInterruptRoutine"]),
    ("Reset", &["DxgkDdiResetEngine", "DxgkDdiResetHwEngine", "DxgkDdiResetFromTimeout"]),
    ("Submission.", WORK),
    ("HardwareQueue.", WORK),
    ("AnyDriver.HardwareQueue", &["DxgkDdiSubmitCommandToHwQueue"]),
    ("Packet.", WORK),
    ("Scheduling.", WORK),
    ("Fault.", WORK),
    ("Tdr.", WORK),
    ("Exit.", WORK),
    ("Doorbell.", &["DxgkDdiCreateDoorbell"]),
    ("NativeFence.", FENCES),
    ("SharedFence.", FENCES),
    ("FenceWaits.", FENCES),
    ("FenceOrder.", FENCES),
    ("FenceBatches.", FENCES),
    ("FenceLog.", FENCES),
    ("Suspension.", &["DxgkDdiSuspendContext"]),
    ("Power.", &["DxgkDdiSetPowerState", "DxgkDdiSetPowerComponentFState"]),
    ("Residency.", PAGING),
    ("Memory.", PAGING),
    ("CpuHostAperture.", &["DxgkDdiMapCpuHostAperture"]),
];

/// Cases that keep a word of [`PROMISES`] without such a call, and why.
const OTHERWISE: &[(&str, &str)] = &[
    ("HardwareQueue.NodeBeyondTheLastIsRefused", REFUSED),
    ("HardwareQueue.PagingNodeTakesNoUserModeQueue", REFUSED),
    ("HardwareQueue.KernelModeQueueRefusesDoorbells", REFUSED),
    ("HardwareQueue.StaleAndForeignHandlesAreRefused", REFUSED),
    ("Packet.HandlesAreChecked", REFUSED),
    ("Scheduling.PrioritiesAreReadBack", SET),
    ("Scheduling.RefusedPrioritiesChangeNothing", SET),
    ("Scheduling.HighBandsTakeARight", SET),
    ("Scheduling.ClassesAreCheckedAndReadBack", SET),
    ("NativeFence.UnwatchedSignalsRaiseNoInterrupt", "It asks for no interrupt."),
    ("NativeFence.DeviceWithoutAtomicsStarts", "The device has no native fences."),
    ("Power.EveryEngineIsAComponent", "It reads what the start of the adapter registered."),
    ("Power.HungEngineCostsItsUsersTheirDevices", "The engine says that it hangs instead of that it is idle."),
    ("Tdr.LostInterruptIsMadeUpFor", "The interrupt is lost."),
    ("Tdr.LimitCountEndsInABugCheck", INNER),
    ("Tdr.PacketLimitCountEndsInABugCheck", INNER),
    ("Tdr.SlowDriverIsABugCheck", INNER),
    ("Tdr.SlowPacketResetIsABugCheck", INNER),
    ("Tdr.SettingsDecide", INNER),
    ("Tdr.StoppedMachineResetsItsDevices", INNER),
];

const REFUSED: &str = "What it asks for is refused before the driver sees it.";
const SET: &str = "It reads and writes what work would be scheduled by.";
const INNER: &str = "It boots machines of its own, which stop or are gone when it ends.";

/// Why a case has found out nothing, though it passed: what it promises did not happen in `calls`.
pub(super) fn nothing(case: &CaseInfo, calls: &[(&str, u64)]) -> Option<String> {
    let name = case.short_name();
    if OTHERWISE.iter().any(|(other, _)| *other == name) {
        return None;
    }
    let called = |ddis: &[&str]| calls.iter().any(|(ddi, _)| ddis.contains(ddi));
    let (word, ddis) = PROMISES.iter().find(|(word, ddis)| name.contains(word) && !called(ddis))?;
    Some(format!("did nothing: `{word}` in its name, and none of {} was called", ddis.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::cases;

    #[test]
    fn every_word_is_of_a_case_and_every_exception_is_one() {
        for (word, _) in PROMISES {
            assert!(cases().any(|case| case.short_name().contains(word)), "{word}");
        }
        for (name, reason) in OTHERWISE {
            let case = cases().find(|case| case.short_name() == *name);
            assert!(case.is_some_and(promises) && reason.ends_with('.'), "{name}");
        }
    }

    /// True if the names of the case promise something.
    fn promises(case: &CaseInfo) -> bool {
        PROMISES.iter().any(|(word, _)| case.short_name().contains(word))
    }

    #[test]
    fn a_case_without_the_calls_that_its_name_promises_did_nothing() {
        let case = cases().find(|case| case.short_name() == "Tdr.EngineResetFollowsThePage").unwrap();
        let (work, reset) = (("DxgkDdiConnectDoorbell", 1), ("DxgkDdiResetHwEngine", 1));
        assert_eq!(nothing(case, &[work, reset]), None);
        for (calls, word) in [([work].as_slice(), "`Reset`"), (&[reset], "`Tdr.`"), (&[], "`Reset`")] {
            let reason = nothing(case, calls).unwrap();
            assert!(reason.starts_with("did nothing") && reason.contains(word), "{reason}");
        }
    }
}
