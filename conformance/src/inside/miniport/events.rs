//! What the device writes into the event ring, whatever it is.

use campanile_hw::event::{self, EventKind};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::rig::{Rig, VA};
use super::system::*;
use crate::simulated::Case;
use crate::{Boot, Failure};
use testbed::debug::DebugInformation;

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.CollapsedEventsStandForEveryFence" on Boot::Shared, "dxgkargcb_notify_interrupt_data":
        "When the device says that events of fences were collapsed, or its write pointer cannot be true, every node is reported as one on which some fence was signalled: native ones where they are claimed, and monitored ones. That they may be collapsed is a rule of the GPU's manual."
        => events_that_were_collapsed_stand_for_every_fence_of_every_node;
    "Miniport.EventsThatNameNothingArePassedOver" on Boot::Shared, "dxgkargcb_notify_interrupt_data":
        "An event of a kind that there is not, or of a node or a queue that there is not, is reported to nobody and counted in the debug information."
        => events_that_name_nothing_are_passed_over_and_counted;
    "Miniport.DebugInformationNamesTheObjects" on Boot::Shared, "dxgkddi_collectdbginfo":
        "Debug information names queues, doorbells and fences by the handles of system and driver, with the progress value and the submissions of a queue that wait, the queue of a doorbell, and whether a fence is signalled for good."
        => debug_information_names_queues_doorbells_and_fences;
}

/// Calls DxgkDdiCollectDbgInfo with space for all of it, and decodes the answer.
fn information(rig: &Rig) -> Result<DebugInformation, Failure> {
    let mut buffer = vec![0u64; 8192];
    let mut args = DXGKARG_COLLECTDBGINFO::zeroed();
    (args.pBuffer, args.BufferSize) = (buffer.as_mut_ptr().cast(), size_of_val(&buffer[..]));
    ensure_eq!(ddi!(rig.system, DxgkDdiCollectDbgInfo, rig.system.adapter, &raw const args), STATUS_SUCCESS);
    let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_le_bytes()).collect();
    DebugInformation::decode(&bytes).map_err(|error| Failure::new(error.to_string()))
}

/// The number of events that the driver has ignored for this reason, from its debug information.
fn passed_over(rig: &Rig, reason: &str) -> Result<u64, Failure> {
    let information = information(rig)?;
    let found = information.reasons.iter().find(|found| found.reason == reason);
    Ok(found.map_or(0, |found| found.passed_over))
}

fn events_that_were_collapsed_stand_for_every_fence_of_every_node(case: &mut Case<'_>) -> Result<(), Failure> {
    for native_fence in [true, false] {
        let rig = Rig::new(case, Features { native_fence, ..ALL }, 4);
        let of_node = |node| {
            let native = native_fence.then(|| Report::Native { node, fences: vec![] });
            native.into_iter().chain([Report::Monitored { node }])
        };
        let every: Vec<Report> = (0..3).flat_map(of_node).collect();
        rig.system.set_ring_word(event::OVERFLOWS, 5);
        rig.system.interrupt();
        ensure_eq!(reports(), every, "events were collapsed");
        rig.system.interrupt();
        ensure_eq!(reports(), [], "none was collapsed since");
        rig.system.set_ring_word(event::WRITE_POINTER, 1 << 40);
        rig.system.interrupt();
        ensure_eq!(reports(), every, "a write pointer that cannot be true");
        ensure_eq!(passed_over(&rig, "EventsLost")?, 1);
        ensure_eq!(rig.system.ring_pointers(), [1 << 40; 2], "and the ring goes on there");
    }
    Ok(())
}

fn events_that_name_nothing_are_passed_over_and_counted(case: &mut Case<'_>) -> Result<(), Failure> {
    use EventKind::{Fault, FenceSignaled, NodeIdle, Preempted, Progress, Retired, Suspended};
    /// A queue that the hardware does not have.
    const NOBODY: u32 = 77;
    let rig = Rig::new(case, ALL, 4);
    let (last, beyond) = (2, 3);
    for (count, (kind, node, queue)) in (1..).zip([
        (Retired as u8, 0, NOBODY),
        (Suspended as u8, 0, NOBODY),
        (Preempted as u8, 0, NOBODY),
        (Fault as u8, 0, NOBODY),
        (Progress as u8, beyond, 0),
        (FenceSignaled as u8, beyond, 0),
        (NodeIdle as u8, u8::MAX, event::NO_QUEUE),
        (0, 0, 0),
        (200, last, 0),
    ]) {
        rig.system.record(kind, node, queue, [1, 0]);
        rig.system.interrupt();
        ensure_eq!(reports(), [], "kind {kind} of node {node} and queue {queue}");
        ensure_eq!(passed_over(&rig, "DeviceEvent")?, count, "events passed over with that one");
    }
    // One that may have been of any fence is not passed over.
    rig.system.event(FenceSignaled, last, NOBODY, [0x8000, 1]);
    rig.system.event(Progress, last, NOBODY, [0x8000, 1]);
    rig.system.interrupt();
    ensure_eq!(reports(), [Report::Native { node: 2, fences: vec![] }, Report::Monitored { node: 2 }]);
    Ok(())
}

fn debug_information_names_queues_doorbells_and_fences(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    let (user, doorbell) = rig.user_queue(context, 1);
    let (global, _) = rig.fence(0xf1, 0x8000);
    let (_, kernel) = rig.hw_queue(context, 0x6000, 0x8000, false);
    // Five more than the ring takes.
    for fence in 0..133 {
        let mut args = DXGKARG_SUBMITCOMMANDTOHWQUEUE::zeroed();
        (args.hHwQueue, args.HwQueueProgressFenceId, args.DmaBufferVirtualAddress) = (kernel, fence, VA);
        let submit = || ddi!(rig.system, DxgkDdiSubmitCommandToHwQueue, rig.system.adapter, &raw const args);
        ensure_eq!(level(2, submit), STATUS_SUCCESS);
    }
    for always_signaled in [false, true] {
        let found = information(&rig)?;
        let bits = |handle: HANDLE| handle.addr() as u64;
        let queue = |queue: HANDLE| {
            let found = found.queues.iter().find(|found| found.handle == bits(queue));
            found.map(|found| (found.system, found.user_mode, found.waiting, found.doorbell, found.progress))
        };
        ensure_eq!(queue(user), Some((0x6001, true, 0, bits(doorbell), VA + 0x10_0000)), "the queue of user mode");
        ensure_eq!(queue(kernel), Some((0x6000, false, 5, 0, 0x8000)), "the queue of the kernel");
        let doorbells: Vec<_> = found.doorbells.iter().map(|it| (it.handle, it.system, it.queue)).collect();
        ensure_eq!(doorbells, [(bits(doorbell), 0x7001, bits(user))], "doorbells");
        let fence = found.fences.iter().find(|found| found.handle == bits(global));
        let fence = fence.map(|found| (found.system, found.always_signaled));
        ensure_eq!(fence, Some((0xf1, always_signaled)), "the fence");
        let (mut value, mut storage, mut fence) = (0u64, 0u64, global);
        let mut address: *mut std::ffi::c_void = (&raw mut storage).cast();
        let mut args = DXGKARG_UPDATECURRENTVALUESFROMCPU::zeroed();
        (args.NumFences, args.NativeFenceArray) = (1, &raw mut fence);
        (args.UpdatedValueArray, args.CurrentValueKernelCpuVa) = (&raw mut value, &raw mut address);
        args.Flags.set_AlwaysSignaled(true);
        let update = || ddi!(rig.system, DxgkDdiUpdateCurrentValuesFromCpu, &raw const args);
        ensure_eq!(level(2, update), STATUS_SUCCESS);
    }
    Ok(())
}
