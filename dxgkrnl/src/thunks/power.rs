//! What each thunk needs of the device, and so which of them wake one that is in D3.
//!
//! Only what needs the hardware wakes it: submission, whatever is made on the GPU, and whatever moves memory or writes page tables.
//! Questions, objects of software alone, and what the processor does in system memory leave it where it is. A signal wakes it only if
//! it has unfinished work, which may wait for that. [user-mode-work-submission: D-state transitions]

use crate::platform::Use;
use crate::process::Process;

/// Power state that a thunk needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// A device in D0.
    Device,
    /// Nothing of the device.
    Nothing,
    /// Its arguments say: a device in D0, or nothing.
    Depends,
    /// It sees to power itself: one wakes the device in an order of its own, the others may block for as long as the device sleeps.
    Own,
}

/// Every thunk. One that is not here needs the device.
const NEEDS: &[(&str, Need)] = &[
    ("D3DKMTEnumAdapters3", Need::Nothing),
    ("D3DKMTEnumAdapters2", Need::Nothing),
    ("D3DKMTOpenAdapterFromLuid", Need::Nothing),
    ("D3DKMTCloseAdapter", Need::Nothing),
    // The driver answers UMDRIVERPRIVATE from what it knows.
    ("D3DKMTQueryAdapterInfo", Need::Nothing),
    ("D3DKMTGetDeviceState", Need::Nothing),
    ("D3DKMTGetContextSchedulingPriority", Need::Nothing),
    ("D3DKMTGetContextInProcessSchedulingPriority", Need::Nothing),
    ("D3DKMTShareObjects", Need::Nothing),
    ("D3DKMTInvalidateCache", Need::Nothing),
    ("D3DKMTQueryAllocationResidency", Need::Nothing),
    ("D3DKMTGetAllocationPriority", Need::Nothing),
    ("D3DKMTQueryProcessOfferInfo", Need::Nothing),
    ("D3DKMTQueryStatistics", Need::Nothing),
    ("D3DKMTQueryResourceInfo", Need::Nothing),
    ("D3DKMTQueryResourceInfoFromNtHandle", Need::Nothing),
    ("D3DKMTGetSharedResourceAdapterLuid", Need::Nothing),
    ("D3DKMTCheckSharedResourceAccess", Need::Nothing),
    ("D3DKMTConfigureSharedResource", Need::Nothing),
    ("D3DKMTGetRuntimeData", Need::Nothing),
    ("D3DKMTOpenNtHandleFromName", Need::Nothing),
    ("D3DKMTOpenSyncObjectNtHandleFromName", Need::Nothing),
    ("D3DKMTOpenSyncObjectFromNtHandle", Need::Nothing),
    ("D3DKMTOpenSynchronizationObject", Need::Nothing),
    ("NtOpenProcess", Need::Nothing),
    ("D3DKMTEnumAdapters", Need::Nothing),
    ("D3DKMTCreateSyncFile", Need::Nothing),
    ("D3DKMTOpenAdapterFromDeviceName", Need::Nothing),
    ("D3DKMTIsFeatureEnabled", Need::Nothing),
    ("D3DKMTGetProcessDeviceRemovalSupport", Need::Nothing),
    ("D3DKMTOpenKeyedMutex", Need::Nothing),
    ("D3DKMTOpenKeyedMutex2", Need::Nothing),
    ("D3DKMTOpenKeyedMutexFromNtHandle", Need::Nothing),
    ("D3DKMTSetAllocationPriority", Need::Nothing),
    ("D3DKMTCreateContext", Need::Nothing),
    ("D3DKMTRender", Need::Nothing),
    ("D3DKMTSetQueuedLimit", Need::Nothing),
    ("D3DKMTCreateSynchronizationObject", Need::Nothing),
    ("D3DKMTCreateKeyedMutex", Need::Nothing),
    ("D3DKMTCreateKeyedMutex2", Need::Nothing),
    ("D3DKMTReleaseKeyedMutex", Need::Nothing),
    ("D3DKMTReleaseKeyedMutex2", Need::Nothing),
    ("D3DKMTDestroyKeyedMutex", Need::Nothing),
    ("D3DKMTUpdateAllocationProperty", Need::Nothing),
    ("D3DKMTRegisterBudgetChangeNotification", Need::Nothing),
    // An allocation has no memory before it is resident or locked; one that cannot be told to user mode is destroyed.
    ("D3DKMTCreateAllocation2", Need::Depends),
    ("D3DKMTCreateAllocation", Need::Depends),
    // The first use of an adapter by a process makes its page tables.
    ("D3DKMTCreateDevice", Need::Depends),
    ("D3DKMTQueryVideoMemoryInfo", Need::Depends),
    // A reservation that reads as zero is written to page tables.
    ("D3DKMTReserveGpuVirtualAddress", Need::Depends),
    // Memory of the device moves, or is reached through it.
    ("D3DKMTLock2", Need::Depends),
    ("D3DKMTUnlock2", Need::Depends),
    ("D3DKMTLock", Need::Depends),
    ("D3DKMTUnlock", Need::Depends),
    // Fences may have their values in memory of the device, and work that was unfinished when it went to D3 may wait for them.
    ("D3DKMTSignalSynchronizationObjectFromCpu", Need::Depends),
    ("D3DKMTWaitForSynchronizationObjectFromCpu", Need::Own),
    // A forced timeout waits until nobody is in the driver; what is for the driver is inside.
    ("D3DKMTEscape", Need::Depends),
    // It waits for a function of user mode, which may call thunks.
    ("D3DKMTUnregisterTrimNotification", Need::Own),
    ("D3DKMTUnregisterBudgetChangeNotification", Need::Own),
    ("D3DKMTConnectDoorbell", Need::Own),
    // They wait for others as long as that takes.
    ("D3DKMTAcquireKeyedMutex", Need::Own),
    ("D3DKMTAcquireKeyedMutex2", Need::Own),
    ("D3DKMTWaitForIdle", Need::Own),
    ("D3DKMTDestroyContext", Need::Own),
    ("D3DKMTDestroyHwQueue", Need::Own),
    ("D3DKMTDestroyHwContext", Need::Own),
    // It may wait until fewer updates are queued, which fences hold.
    ("D3DKMTUpdateGpuVirtualAddress", Need::Own),
];

fn need_of(name: &str) -> Need {
    NEEDS.iter().find(|(thunk, _)| *thunk == name).map_or(Need::Device, |(_, need)| *need)
}

/// Power as one thunk needs it.
pub(super) struct Powered<'a> {
    process: &'a Process,
    counts: bool,
    _inside: Option<Use<'a>>,
}

impl<'a> Powered<'a> {
    /// Lets a thunk in; [`Need::Depends`] comes to [`where_needed`] when it knows.
    pub(super) fn enter(process: &'a Process, name: &str) -> Self {
        let machine = process.machine();
        let gate = machine.gate();
        let need = need_of(name);
        let inside = match need {
            Need::Own | Need::Depends => None,
            Need::Nothing => Some(gate.stay()),
            Need::Device => Some(gate.enter(machine)),
        };
        let counts = need == Need::Own;
        if counts {
            gate.note_use();
        }
        Self { process, counts, _inside: inside }
    }
}

impl Drop for Powered<'_> {
    fn drop(&mut self) {
        // Whoever was waiting is awake now, and may have work for the device.
        if self.counts {
            self.process.machine().gate().note_use();
        }
    }
}

/// No device leaves D0 until the answer is dropped, and all are woken if `needs_device` says so. What it answers `false` for does
/// not come to need a device meanwhile, unless somebody else has woken that.
pub(super) fn where_needed(process: &Process, needs_device: impl FnOnce() -> bool) -> Use<'_> {
    let machine = process.machine();
    let inside = machine.gate().stay();
    if !needs_device() {
        return inside;
    }
    drop(inside);
    machine.gate().enter(machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thunks_are_there_once_and_what_is_not_there_needs_the_device() {
        let mut names: Vec<&str> = NEEDS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair.first() != pair.last()));
        assert_eq!(need_of("D3DKMTSubmitCommandToHwQueue"), Need::Device);
        assert_eq!(need_of("D3DKMTConnectDoorbell"), Need::Own);
    }
}
