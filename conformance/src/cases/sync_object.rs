//! Waits of the processor for a shared fence, after the handle was closed through which they were made.

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::{D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as Flags, D3DDDI_SYNCHRONIZATIONOBJECT_TYPE as Type, *};
use wddm_ddi::status::NTSTATUS;

use crate::kmt::BAD_HANDLE;
use crate::rig::{KernelHandle, RawFence, Rig, shared_flags};
use crate::{Boot, Case, Event, Failure, granted, refused};

cases! { thunks "SyncObject";
    "SyncObject.ReleasesWhoWaitsThroughWhatIsClosed" on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "A waiter for a shared fence through one opening is released when that is closed, though the fence is still open elsewhere; others still wait."
        => releases;
    "SyncObject.WaitersStayUntilTheFenceIsDestroyed" on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "With UnwaitCpuWaitersOnlyOnDestroy a waiter through what is closed still waits, for the signal of another opening, or until nothing of the shared fence is left; nobody can wait through it any more."
        => stays;
    "SyncObject.WaitersStayByTheFlagOfTheirOpening" on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "An opening with UnwaitCpuWaitersOnlyOnDestroy keeps those that wait through it, and not those of the creator, whose fence has no such flag."
        => of_opening;
    "SyncObject.DeviceThatIsDestroyedLeavesThemToo" on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "A device that is destroyed closes what it has open as any other closing does: with the flag a waiter for the shared fence still waits."
        => of_device;
    "SyncObject.NativeFencesKeepTheirWaitersToo" needs NativeFence on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "A native fence is created and opened with UnwaitCpuWaitersOnlyOnDestroy as a monitored one is, and its waiters still wait."
        => native;
    "SyncObject.ObjectsWithoutWaitersTakeTheFlag" on Boot::Shared, "d3dddi_synchronizationobject_flags":
        "Mutexes, semaphores and fences without an address, for which no processor waits, are created with the flag and without."
        => older;
}

fn stays_flag() -> Flags {
    shared_flags().with_UnwaitCpuWaitersOnlyOnDestroy(true)
}

/// A shared monitored fence with value 0, and a kernel handle of it.
fn shared(rig: &Rig, flags: Flags) -> Result<(RawFence, KernelHandle), Failure> {
    let fence = rig.monitored_fence(0, flags)?;
    let handle = rig.share(&[fence.handle]).map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    Ok((fence, handle))
}

fn open(rig: &Rig, handle: KernelHandle, flags: Flags) -> Result<RawFence, Failure> {
    let opened = rig.try_open_monitored_with(handle, flags);
    opened.map_err(|status| Failure::new(format!("D3DKMTOpenSyncObjectFromNtHandle2 with {flags:?}: {status}")))
}

/// An event that waits for a fence to become 1.
fn waiter(rig: &Rig, fence: &RawFence) -> Result<Event, Failure> {
    let event = Event::new()?;
    granted(rig.wait_with_event(&[fence.handle], &[1], false, Some(event.number())), "a wait with an event")?;
    ensure!(!event.is_set()?, "the event of a wait is set at once");
    Ok(event)
}

fn releases(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (fence, handle) = shared(&rig, shared_flags())?;
    let again = open(&rig, handle, Flags::new())?;
    let (through_first, through_second) = (waiter(&rig, &fence)?, waiter(&rig, &again)?);
    granted(rig.destroy_fence(fence.handle), "closing the first")?;
    through_first.wait()?;
    ensure!(!through_second.is_set()?, "a waiter through another opening was released");
    granted(rig.signal(&[again.handle], &[1]), "a signal")?;
    through_second.wait()
}

fn stays(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (fence, handle) = shared(&rig, stays_flag())?;
    // What only says how it is shared has the flag of the fence.
    let again = open(&rig, handle, shared_flags())?;
    let signalled = waiter(&rig, &fence)?;
    granted(rig.destroy_fence(fence.handle), "closing the first")?;
    ensure!(!signalled.is_set()?, "a waiter through what was closed was released");
    let late = Event::new()?;
    let late = rig.wait_with_event(&[fence.handle], &[1], false, Some(late.number()));
    refused(late, BAD_HANDLE, "a wait through what was closed")?;
    granted(rig.signal(&[again.handle], &[1]), "a signal of another opening")?;
    signalled.wait()?;
    // Nobody signals the second one.
    let (fence, handle) = shared(&rig, stays_flag())?;
    let again = open(&rig, handle, Flags::new())?;
    let (first, second) = (waiter(&rig, &fence)?, waiter(&rig, &again)?);
    granted(rig.destroy_fence(again.handle), "closing the second opening")?;
    granted(rig.destroy_fence(fence.handle), "closing the first")?;
    ensure!(!first.is_set()? && !second.is_set()?, "the kernel handle has the fence still");
    granted(handle.close(), "closing the kernel handle")?;
    first.wait()?;
    second.wait()
}

fn of_opening(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (fence, handle) = shared(&rig, shared_flags())?;
    let flagged = open(&rig, handle, stays_flag())?;
    let (through_first, through_second) = (waiter(&rig, &fence)?, waiter(&rig, &flagged)?);
    granted(rig.destroy_fence(flagged.handle), "closing the opening with the flag")?;
    ensure!(!through_second.is_set()?, "a waiter through the opening with the flag was released");
    granted(rig.destroy_fence(fence.handle), "closing the creator's")?;
    through_first.wait()?;
    ensure!(!through_second.is_set()?, "the kernel handle has the fence still");
    let again = open(&rig, handle, Flags::new())?;
    granted(rig.signal(&[again.handle], &[1]), "a signal")?;
    through_second.wait()
}

fn of_device(case: &Case) -> Result<(), Failure> {
    let (rig, other) = (case.rig()?, case.rig()?);
    let (_, handle) = shared(&rig, stays_flag())?;
    let theirs = open(&other, handle, Flags::new())?;
    let waiting = waiter(&other, &theirs)?;
    granted(other.destroy(), "destroying the device of the wait")?;
    ensure!(!waiting.is_set()?, "a waiter through a device that was destroyed was released");
    let again = open(&rig, handle, Flags::new())?;
    granted(rig.signal(&[again.handle], &[1]), "a signal")?;
    waiting.wait()
}

fn native(case: &Case) -> Result<(), Failure> {
    let text = |what: &'static str| move |status: NTSTATUS| Failure::new(format!("{what}: {status}"));
    let rig = case.rig()?;
    let fence = rig.shared_fence_with(0, stays_flag())?;
    let handle = rig.share(&[fence.handle]).map_err(text("D3DKMTShareObjects"))?;
    let again = rig.open_flagged(handle, stays_flag()).map_err(text("D3DKMTOpenNativeFenceFromNtHandle"))?;
    let waiting = waiter(&rig, &fence)?;
    granted(rig.destroy_fence(fence.handle), "closing the first")?;
    ensure!(!waiting.is_set()?, "a waiter through what was closed was released");
    granted(rig.signal(&[again.handle], &[1]), "a signal of another opening")?;
    waiting.wait()
}

fn older(case: &Case) -> Result<(), Failure> {
    let rig = case.rig()?;
    let counts = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore { MaxCount: 1, InitialCount: 1 };
    for kind in [Type::D3DDDI_SYNCHRONIZATION_MUTEX, Type::D3DDDI_SEMAPHORE, Type::D3DDDI_FENCE] {
        for flags in [Flags::new(), Flags::new().with_UnwaitCpuWaitersOnlyOnDestroy(true)] {
            let mut arguments = D3DKMT_CREATESYNCHRONIZATIONOBJECT2::zeroed();
            (arguments.hDevice, arguments.Info.Type, arguments.Info.Flags) = (rig.device, kind, flags);
            arguments.Info.u.Semaphore = counts;
            let status = rig.kmt.call(rig.kmt.table().D3DKMTCreateSynchronizationObject2, &mut arguments);
            granted(status, &format!("creating a {kind:?} with {flags:?}"))?;
            granted(rig.destroy_fence(arguments.hSyncObject), "destroying it")?;
        }
    }
    Ok(())
}
