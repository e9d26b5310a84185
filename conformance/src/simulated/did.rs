//! What a case must have done to have found out what its name says, by the calls of the driver.
//!
//! A case that passes although nothing of it ran, because its machine was another one than it believes or a loop in it is empty, says nothing. So
//! each word of a name that promises something stands here with the DDIs of which one must have been called while the case ran. A case without such a word is
//! of an area, or has a reason of its own, for which nothing is promised.

use crate::CaseInfo;

/// DDIs by which work reaches the GPU: a packet, a submission through the kernel, or a doorbell for user mode.
const WORK: &[&str] = &["DxgkDdiSubmitCommandVirtual", "DxgkDdiSubmitCommandToHwQueue", "DxgkDdiConnectDoorbell"];
const FENCES: &[&str] = &["DxgkDdiCreateNativeFence"];
const PAGING: &[&str] = &["DxgkDdiBuildPagingBuffer"];
const ALLOCATIONS: &[&str] = &["DxgkDdiCreateAllocation"];
const CONTEXTS: &[&str] = &["DxgkDdiCreateContext", "DxgkDdiCreateHwContext"];
/// Objects of which a process has at least one that does more than ask.
const OBJECTS: &[&str] =
    &["DxgkDdiCreateAllocation", "DxgkDdiCreateContext", "DxgkDdiCreateHwContext", "DxgkDdiCreateNativeFence"];

/// Words in `Area.Name` of a case, and the DDIs of which one must have been called.
const PROMISES: &[(&str, &[&str])] = &[
    ("Interrupt", &["DxgkDdiInterruptRoutine"]),
    ("Reset", &["DxgkDdiResetEngine", "DxgkDdiResetHwEngine", "DxgkDdiResetFromTimeout"]),
    ("Submission.", WORK),
    ("HardwareQueue.", WORK),
    ("AnyDriver.HardwareQueue", &["DxgkDdiSubmitCommandToHwQueue"]),
    ("AnyDriver.EnginesRest", &["DxgkDdiSetPowerComponentFState"]),
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
    ("Miniport.", &["DxgkDdiStartDevice"]),
    ("AnyDriver.", WORK),
    ("Compute.", WORK),
    ("Destruction.", WORK),
    ("FenceFeatures.", WORK),
    ("FenceInterrupts.", WORK),
    ("FenceRights.", WORK),
    ("FenceSystemProcess.", WORK),
    ("GpuUpdate.", WORK),
    ("Hostile.", WORK),
    ("Inside.", WORK),
    ("Lifecycle.", WORK),
    ("Linked.", WORK),
    ("Offer.", WORK),
    ("OptimisedFenceInterrupt.", WORK),
    ("PageTables.", WORK),
    ("PostedWrites.", WORK),
    ("Preemption.", WORK),
    ("Process.", WORK),
    ("Races.", WORK),
    ("Scale.", WORK),
    ("SurpriseRemoval.", WORK),
    ("VideoMemory.", WORK),
    ("CrossAdapterFence.", FENCES),
    ("FenceStorage.", FENCES),
    ("NativeFenceRules.", FENCES),
    ("DynamicBuffer.", ALLOCATIONS),
    ("ExistingMemory.", ALLOCATIONS),
    ("GpuAddress.", ALLOCATIONS),
    ("IoCoherency.", ALLOCATIONS),
    ("Lock2.", ALLOCATIONS),
    ("MemoryForms.", ALLOCATIONS),
    ("MonitoredFence.", ALLOCATIONS),
    ("SharedObjects.", ALLOCATIONS),
    ("SharedResource.", ALLOCATIONS),
    ("BadPointers.", CONTEXTS),
    ("OlderSync.", CONTEXTS),
    ("Testing.", CONTEXTS),
    ("Statistics.", OBJECTS),
];

/// Beginnings of the names of cases that promise no call of the driver, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("Adapter.", ASKED),
    ("AdapterInformation.", ASKED),
    ("AdapterRegistry.", ASKED),
    ("Capabilities.", ASKED),
    ("Control.", ASKED),
    ("DebugName.", SYSTEM),
    ("KernelDescriptor.", SYSTEM),
    ("KeyedMutex.", SYSTEM),
    ("SyncFile.", SYSTEM),
    ("SyncObject.", SYSTEM),
    ("Gpu.", "It works on the registers of a GPU without a driver."),
];

const ASKED: &str = "The system answers from what the driver told it when the adapter was started.";
const SYSTEM: &str = "The system keeps the object; the driver sees nothing of it, or of some machines' fences only.";

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
    ("AnyDriver.AdapterTellsWhatItIs", ANSWERS),
    ("AnyDriver.CapabilitiesAgreeWithEachOther", ANSWERS),
    ("AnyDriver.DevicesAndContextsComeAndGo", NO_WORK),
    (
        "AnyDriver.NativeFencesAreAsTheCapabilitiesSay",
        "Where there are no native fences it finds that they are refused, and submits nothing.",
    ),
    ("CrossAdapterFence.IsOfTheDefaultTypeAndShared", PLAIN),
    ("CrossAdapterFence.OutlivesItsInstances", PLAIN),
    ("Destruction.ReservedFlagsAreRefused", REFUSED),
    ("FenceRights.FlagsOfOtherObjectsAreRefused", REFUSED),
    ("Inside.RefusalIsNamedAndCounted", REFUSED),
    ("Inside.NewerRegistrationRequestGoesFirst", NO_WORK),
    ("Inside.OlderRegistrationRequestIsTheSecond", NO_WORK),
    ("Lifecycle.ThunksOnAStoppedAdapterAreRefused", REFUSED),
    ("Linked.TwoGpusAreOneAdapter", ANSWERS),
    ("PageTables.ProcessorWritesBeforeTheCallReturns", "The processor writes the tables, without a packet."),
    ("Preemption.CapsSayWhatTheHardwareDoes", ANSWERS),
    ("Process.ExitEndsWaitsThatStay", "Its waits are of the processor."),
    ("VideoMemory.BadQuestionsAreRefused", REFUSED),
    ("VideoMemory.ReservationsAreBounded", SET),
    ("VideoMemory.BadBudgetRegistrationsAreRefused", REFUSED),
    ("FenceStorage.IntraGpuFenceIsForOneAdapter", REFUSED),
    ("FenceStorage.UserModeQueueNeedsNativeProgress", REFUSED),
    ("FenceStorage.NativeProgressNeedsTheFeature", "Its machine has no native fences."),
    ("NativeFenceRules.UnknownTypeIsRefused", REFUSED),
    ("MonitoredFence.ProcessorSignalIsSeenAtOnce", MONITORED),
    ("MonitoredFence.ProcessorWaitsForAnyOrAll", MONITORED),
    ("MonitoredFence.ArgumentsOfCreationAreChecked", REFUSED),
    ("OlderSync.NamedFencesAreFound", MONITORED),
    ("OlderSync.NamedObjectsAreFound", MONITORED),
    ("OlderSync.DriverNotifiesNobody", MONITORED),
    ("Statistics.SegmentsAndNodesAreCounted", ANSWERS),
    ("Statistics.FiguresAreTheDriversOwn", ANSWERS),
    ("Statistics.BadQuestionsAreRefused", REFUSED),
];

const PLAIN: &str =
    "On adapters without native fences its fences are monitored ones, which the system keeps by itself.";
const ANSWERS: &str = "It compares answers about the adapter.";
const NO_WORK: &str = "It makes objects and starts adapters, and submits nothing.";
const MONITORED: &str = "The system keeps such objects by itself.";

const REFUSED: &str = "What it asks for is refused before the driver sees it.";
const SET: &str = "It reads and writes what work would be scheduled by.";
const INNER: &str = "It boots machines of its own, which stop or are gone when it ends.";

/// Why a case has found out nothing, though it passed: what it promises did not happen in `calls`.
pub(super) fn nothing(case: &CaseInfo, calls: &[(&str, u64)]) -> Option<String> {
    let name = case.short_name();
    if OTHERWISE.iter().any(|(other, _)| *other == name) || WITHOUT.iter().any(|(area, _)| name.starts_with(area)) {
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

    #[test]
    fn every_case_promises_something_or_says_why_it_does_not() {
        let without = |case: &CaseInfo| {
            let of_area = WITHOUT.iter().any(|(area, _)| case.short_name().starts_with(area));
            of_area || OTHERWISE.iter().any(|(name, _)| *name == case.short_name())
        };
        let silent = cases().filter(|case| !promises(case) && !without(case));
        let silent: Vec<&str> = silent.map(CaseInfo::short_name).collect();
        assert!(silent.is_empty(), "{silent:#?}");
        for (area, reason) in WITHOUT {
            assert!(cases().any(|case| case.short_name().starts_with(area)) && reason.ends_with('.'), "{area}");
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
