//! The driver through its registered table: what it reports, in which order, and what it gives back.

mod engine_status;
mod function_reset;
mod packets;
mod page_table_updates;
mod paging;
mod power;
mod rig;
mod roots;
#[path = "../system/mod.rs"]
mod system;

use std::ptr::null_mut;

use campanile_hw::event::{self, EventKind, FaultInfo, FaultKind};
use campanile_hw::private::{AdapterData, MAGIC};
use campanile_hw::queue::QueueRank;
use campanile_hw::registers::{self, Command, Control};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::nt::DISPATCH_LEVEL;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use rig::{Rig, VA, completed, connect, handle};
use system::{ALL, Features, Report, System, allocations, ddi, level, log, on_disconnect, reports};

fn driver_caps(system: &System) -> DXGK_DRIVERCAPS {
    let mut caps = DXGK_DRIVERCAPS::zeroed();
    let mut args = DXGKARG_QUERYADAPTERINFO::zeroed();
    args.Type = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_DRIVERCAPS;
    args.pOutputData = (&raw mut caps).cast();
    args.OutputDataSize = size_of::<DXGK_DRIVERCAPS>() as u32;
    assert_eq!(ddi!(system, DxgkDdiQueryAdapterInfo, system.adapter, &raw const args), STATUS_SUCCESS);
    caps
}

#[test]
fn every_subset_of_features_starts_and_gives_everything_back() {
    for bits in 0..8 {
        let before = allocations();
        let features = Features { scheduling: bits & 1 != 0, native_fence: bits & 2 != 0, user_mode: bits & 4 != 0 };
        let mut rig = Rig::new(features, 4);
        assert_eq!(driver_caps(&rig.system).SchedulingCaps.NativeGpuFence(), features.native_fence);
        let mut metadata = DXGK_NODEMETADATA::zeroed();
        assert_eq!(ddi!(rig.system, DxgkDdiGetNodeMetadata, rig.system.adapter, 0, &raw mut metadata), STATUS_SUCCESS);
        let flags = metadata.Flags;
        assert_eq!(flags.UserModeSubmission(), bits == 7);
        assert_eq!(
            ddi!(rig.system, DxgkDdiGetNodeMetadata, rig.system.adapter, 3, &raw mut metadata),
            STATUS_INVALID_PARAMETER
        );
        rig.system.remove();
        assert_eq!(allocations(), before, "{features:?}");
    }
}

#[test]
fn a_device_that_is_another_one_or_does_not_run_is_refused_without_leaks() {
    let before = allocations();
    for (register, value) in [(registers::ID, 0), (registers::ID, u64::MAX), (registers::VRAM_WINDOW_SIZE, 4096)] {
        let mut system = System::added(ALL, 4);
        system.set(register, value);
        assert!(!system.start().is_success());
        assert_eq!(ddi!(system, DxgkDdiRemoveDevice, system.adapter), STATUS_SUCCESS);
        assert_eq!(allocations(), before);
    }
}

#[test]
fn an_adapter_starts_again_after_a_stop() {
    let before = allocations();
    let mut rig = Rig::new(ALL, 4);
    assert_eq!(ddi!(rig.system, DxgkDdiStopDevice, rig.system.adapter), STATUS_SUCCESS);
    assert_eq!(rig.submit(handle(1), 1, 16), STATUS_INVALID_PARAMETER);
    assert_eq!(ddi!(rig.system, DxgkDdiStopDevice, rig.system.adapter), STATUS_SUCCESS);
    assert_eq!(rig.system.start(), STATUS_SUCCESS);
    let context = rig.context(2);
    assert_eq!(rig.submit(context, 1, 16), STATUS_SUCCESS);
    rig.system.retire(2, 1, 1);
    rig.system.interrupt();
    assert_eq!(reports(), [completed(2, 1)]);
    rig.system.remove();
    assert_eq!(allocations(), before);
}

#[test]
fn an_engine_reset_aborts_the_running_packet_and_forgets_the_others() {
    let rig = Rig::new(ALL, 4);
    let context = rig.context(0);
    for fence in 1..=6 {
        assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    rig.system.retire(0, 1, 1);
    let info = FaultInfo::new().with_kind(FaultKind::Reset as u8).into_bits();
    rig.system.event(EventKind::Fault, 0, 0, [0, info]);
    let mut args = DXGKARG_RESETENGINE::zeroed();
    assert_eq!(ddi!(rig.system, DxgkDdiResetEngine, rig.system.adapter, &raw mut args), STATUS_SUCCESS);
    assert_eq!(args.LastAbortedFenceId, 2);
    assert_eq!(reports(), [completed(0, 1)]);
    // An event from before the reset names nothing now.
    rig.system.retire(0, 2, 1);
    rig.system.interrupt();
    assert_eq!(reports(), []);
    // The last completed one is the aborted one before anything else completes.
    rig.preempt(0, 90);
    assert_eq!(reports(), [Report::Preempted { node: 0, preemption: 90, completed: 2 }]);
    assert_eq!(rig.submit(context, 7, 16), STATUS_SUCCESS);
    rig.system.retire(0, 7, 2);
    rig.system.interrupt();
    assert_eq!(reports(), [completed(0, 7)]);
    assert_eq!(ddi!(rig.system, DxgkDdiResetEngine, rig.system.adapter, &raw mut args), STATUS_SUCCESS);
    assert_eq!(args.LastAbortedFenceId, 7, "nothing ran: the last completed one");
}

#[test]
fn nothing_is_reported_between_engine_reset_and_resume() {
    let mut rig = Rig::new(ALL, 4);
    let packets = rig.context(0);
    let context = rig.hw_context(0x4000, 0);
    let (_queue, _) = rig.user_queue(context, 1);
    assert_eq!(rig.submit(packets, 1, 16), STATUS_SUCCESS);
    // The user-mode queue got the first number behind the nodes.
    rig.system.set(registers::CMP_RESULT, 3);
    let mut reset = DXGKARG_RESETHWENGINE::zeroed();
    assert_eq!(ddi!(rig.system, DxgkDdiResetHwEngine, rig.system.adapter, &raw mut reset), STATUS_SUCCESS);
    assert_eq!(log(|log| std::mem::take(&mut log.invalidated)), [0x4000]);
    rig.system.retire(0, 1, 1);
    rig.system.event(EventKind::FenceSignaled, 0, 3, [VA + 0x10_0000, 5]);
    rig.system.interrupt();
    assert_eq!(reports(), []);
    let mut resume = DXGKARG_RESUMEHWENGINE::zeroed();
    assert_eq!(ddi!(rig.system, DxgkDdiResumeHwEngine, rig.system.adapter, &raw mut resume), STATUS_SUCCESS);
    let made = reports();
    assert_eq!(made, [completed(0, 1), Report::Native { node: 0, fences: vec![] }, Report::Monitored { node: 0 }]);
}

#[test]
fn faults_between_engine_reset_and_resume_are_reported_after_it() {
    let mut rig = Rig::new(ALL, 4);
    let packets = rig.context(0);
    let context = rig.hw_context(0x4000, 0);
    let (_queue, _) = rig.user_queue(context, 1);
    for fence in 1..=4 {
        assert_eq!(rig.submit(packets, fence, 16), STATUS_SUCCESS);
    }
    rig.system.set(registers::CMP_RESULT, u64::from(u32::MAX));
    let mut reset = DXGKARG_RESETHWENGINE::zeroed();
    assert_eq!(ddi!(rig.system, DxgkDdiResetHwEngine, rig.system.adapter, &raw mut reset), STATUS_SUCCESS);
    rig.system.retire(0, 1, 1);
    let info = FaultInfo::new().with_kind(FaultKind::PageFault as u8).into_bits();
    rig.system.event(EventKind::Fault, 0, 0, [0xdead_0000, info]);
    rig.system.event(EventKind::Fault, 0, 3, [0xbeef_0000, info]);
    rig.system.interrupt();
    assert_eq!(reports(), []);
    let mut resume = DXGKARG_RESUMEHWENGINE::zeroed();
    assert_eq!(ddi!(rig.system, DxgkDdiResumeHwEngine, rig.system.adapter, &raw mut resume), STATUS_SUCCESS);
    let made = reports();
    assert_eq!(made[0], Report::Faulted { node: 0, fence: 2, address: 0xdead_0000 }, "it completes what was before it");
    assert!(matches!(made[1], Report::QueueFaulted { address: 0xbeef_0000, .. }), "{made:?}");
    assert_eq!(made.iter().filter(|report| matches!(report, Report::Completed { .. })).count(), 0, "{made:?}");
    // What was behind the fault runs on.
    rig.system.retire(0, 3, 1);
    rig.system.retire(0, 4, 1);
    rig.system.interrupt();
    assert_eq!(reports(), [completed(0, 4)]);
}

#[test]
fn an_engine_reset_during_a_preemption_names_the_packet_that_ran() {
    let rig = Rig::new(ALL, 4);
    let context = rig.context(0);
    for fence in 1..=6 {
        assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    rig.system.retire(0, 1, 1);
    rig.preempt(0, 9);
    let info = FaultInfo::new().with_kind(FaultKind::Reset as u8).into_bits();
    rig.system.event(EventKind::Fault, 0, 0, [0, info]);
    let mut args = DXGKARG_RESETENGINE::zeroed();
    assert_eq!(ddi!(rig.system, DxgkDdiResetEngine, rig.system.adapter, &raw mut args), STATUS_SUCCESS);
    assert_eq!((args.LastAbortedFenceId, reports()), (2, vec![completed(0, 1)]));
    // The preemption is over, and nothing is reported of it.
    assert_eq!(rig.submit(context, 7, 16), STATUS_SUCCESS);
    rig.system.retire(0, 7, 2);
    rig.system.interrupt();
    assert_eq!(reports(), [completed(0, 7)]);
}

#[test]
fn a_hardware_context_that_an_engine_reset_takes_along_is_named() {
    let mut rig = Rig::new(ALL, 4);
    let packets = rig.context(0);
    let context = rig.hw_context(0x4000, 0);
    let (_queue, _) = rig.user_queue(context, 1);
    assert_eq!(rig.submit(packets, 1, 16), STATUS_SUCCESS);
    // Every queue that is asked about has faulted.
    rig.system.set(registers::CMP_RESULT, 5);
    let mut args = DXGKARG_RESETENGINE::zeroed();
    assert_eq!(ddi!(rig.system, DxgkDdiResetEngine, rig.system.adapter, &raw mut args), STATUS_SUCCESS);
    assert_eq!(args.LastAbortedFenceId, 1);
    assert_eq!(log(|log| std::mem::take(&mut log.invalidated)), [0x4000]);
}

#[test]
fn after_an_adapter_reset_everything_submitted_counts_as_complete() {
    let rig = Rig::new(ALL, 1);
    let context = rig.context(2);
    let hw_context = rig.hw_context(0x4000, 0);
    let (_, doorbell) = rig.user_queue(hw_context, 1);
    assert_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
    for fence in 1..=6 {
        assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    assert_eq!(ddi!(rig.system, DxgkDdiResetFromTimeout, rig.system.adapter), STATUS_SUCCESS);
    assert!(Control::from_bits(rig.system.get(registers::CONTROL) as u32).reset());
    assert_eq!(rig.connect(doorbell).0, STATUS_DEVICE_REMOVED);
    assert_eq!(ddi!(rig.system, DxgkDdiRestartFromTimeout, rig.system.adapter), STATUS_SUCCESS);
    let mut buffer = [0u64; 20];
    let mut args = DXGKARG_COLLECTDBGINFO::zeroed();
    args.pBuffer = buffer.as_mut_ptr().cast();
    args.BufferSize = 17 * 8 + 1;
    assert_eq!(ddi!(rig.system, DxgkDdiCollectDbgInfo, rig.system.adapter, &raw const args), STATUS_SUCCESS);
    assert_eq!((buffer[0], buffer[1]), (campanile_hw::debug::MAGIC, 17), "magic, words");
    assert_ne!(buffer[2] & campanile_hw::debug::CUT, 0, "there is more than fits");
    assert_eq!(buffer[15], 6 | 6 << 32, "node 2: submitted, completed");
    assert_eq!(buffer[17], 0, "beyond the size given");
    rig.preempt(2, 90);
    assert_eq!(reports(), [Report::Preempted { node: 2, preemption: 90, completed: 6 }]);
    assert_eq!(rig.submit(context, 7, 16), STATUS_SUCCESS);
    rig.system.retire(2, 7, 2);
    rig.system.interrupt();
    assert_eq!(reports(), [completed(2, 7)]);
}

#[test]
fn fences_are_reported_by_the_handles_the_system_gave_them() {
    let rig = Rig::new(ALL, 4);
    let context = rig.hw_context(0x4000, 1);
    let (_, _) = rig.user_queue(context, 1);
    let (first, first_open) = rig.fence(0xf1, 0x8000);
    rig.fence(0xf2, 0x8008);
    for address in [0x8000, 0x8008, 0x8000] {
        rig.system.event(EventKind::FenceSignaled, 1, 3, [address, 1]);
    }
    rig.system.interrupt();
    assert_eq!(reports(), [Report::Native { node: 1, fences: vec![0xf1, 0xf2] }]);
    // Once closed, a late event does not name it.
    assert_eq!((rig.close(first_open), rig.destroy(first)), (STATUS_SUCCESS, STATUS_SUCCESS));
    rig.system.event(EventKind::FenceSignaled, 1, 3, [0x8000, 2]);
    rig.system.interrupt();
    assert_eq!(reports(), [Report::Native { node: 1, fences: vec![] }]);
    assert_eq!((rig.close(first_open), rig.destroy(first)), (STATUS_INVALID_HANDLE, STATUS_INVALID_HANDLE));
}

#[test]
fn fences_outlive_the_adapter_without_harm() {
    let before = allocations();
    let mut rig = Rig::new(ALL, 4);
    let (global, local) = rig.fence(0xf1, 0x8000);
    rig.system.remove();
    assert_eq!((rig.close(local), rig.destroy(global)), (STATUS_SUCCESS, STATUS_SUCCESS));
    assert_eq!(allocations(), before);
}

#[test]
fn monitored_and_current_values_are_written_where_the_system_says() {
    let rig = Rig::new(ALL, 4);
    let (global, _) = rig.fence(0xf1, 0x8000);
    let (mut value, mut storage, mut fence) = (41u64, 0u64, global);
    let mut address: *mut std::ffi::c_void = (&raw mut storage).cast();
    let mut args = DXGKARG_UPDATEMONITOREDVALUES::zeroed();
    args.NumFences = 1;
    args.NativeFenceArray = &raw mut fence;
    args.UpdatedValueArray = &raw mut value;
    args.MonitoredValueKernelCpuVa = &raw mut address;
    let update = || ddi!(rig.system, DxgkDdiUpdateMonitoredValues, &raw const args);
    assert_eq!(level(5, update), STATUS_SUCCESS);
    // SAFETY: a local that the driver wrote through a pointer.
    assert_eq!(unsafe { (&raw const storage).read_volatile() }, 41);

    let write = |flags: DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS, mut value: u64, mut fence: HANDLE| {
        let mut storage = 7u64;
        let mut address: *mut std::ffi::c_void = (&raw mut storage).cast();
        let mut args = DXGKARG_UPDATECURRENTVALUESFROMCPU::zeroed();
        args.NumFences = 1;
        args.Flags = flags;
        args.NativeFenceArray = &raw mut fence;
        args.UpdatedValueArray = &raw mut value;
        args.CurrentValueKernelCpuVa = &raw mut address;
        let update = || ddi!(rig.system, DxgkDdiUpdateCurrentValuesFromCpu, &raw const args);
        assert_eq!(level(2, update), STATUS_SUCCESS);
        // SAFETY: a local that the driver wrote through a pointer.
        unsafe { (&raw const storage).read_volatile() }
    };
    let flags = DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS::new();
    assert_eq!(write(flags, 42, global), 42);
    assert_eq!(write(flags.with_NotificationOnly(true), 43, global), 7);
    assert_eq!(write(flags, 44, handle(0x1234)), 7, "a handle that names nothing changes nothing");
    assert_eq!(write(flags.with_AlwaysSignaled(true), 0, global), u64::MAX);
    assert_eq!(write(flags, 45, global), u64::MAX, "and stays so");
}

#[test]
fn the_least_recently_connected_doorbell_is_the_victim() {
    let rig = Rig::new(ALL, 2);
    let context = rig.hw_context(0x4000, 0);
    let doorbells: Vec<HANDLE> = (1..=3).map(|number| rig.user_queue(context, number).1).collect();
    let (first, second) = (rig.connect(doorbells[0]).1, rig.connect(doorbells[1]).1);
    assert_eq!(second - first, 4096);
    assert_eq!(rig.connect(doorbells[0]).1, first, "connected already");
    assert_eq!(rig.connect(doorbells[2]).1, second);
    assert_eq!(log(|log| std::mem::take(&mut log.disconnected)), [(0x6002, 0x7002)]);
    // The victim takes the page of the one that connected before the last.
    assert_eq!(rig.connect(doorbells[1]).1, first);
    assert_eq!(log(|log| std::mem::take(&mut log.disconnected)), [(0x6001, 0x7001)]);
}

#[test]
fn the_system_may_disconnect_the_victim_while_it_is_told() {
    let rig = Rig::new(ALL, 1);
    let context = rig.hw_context(0x4000, 0);
    let doorbells: Vec<HANDLE> = (1..=2).map(|number| rig.user_queue(context, number).1).collect();
    let page = rig.connect(doorbells[0]).1;
    let (table, victim) = (rig.system.table, doorbells[0]);
    on_disconnect(move || {
        let args = DXGKARG_DISCONNECTDOORBELL { hDoorbell: victim, Flags: DXGKARG_DISCONNECTDOORBELL_FLAGS::new() };
        let entry = table.DxgkDdiDisconnectDoorbell.expect("filled");
        // SAFETY: the driver's own entry point with a local structure.
        assert_eq!(unsafe { entry(&raw const args) }, STATUS_SUCCESS);
    });
    assert_eq!(rig.connect(doorbells[1]), (STATUS_SUCCESS, page));
}

#[test]
fn a_victim_that_reconnects_meanwhile_is_told_again() {
    let rig = Rig::new(ALL, 1);
    let context = rig.hw_context(0x4000, 0);
    let doorbells: Vec<HANDLE> = (1..=2).map(|number| rig.user_queue(context, number).1).collect();
    let page = rig.connect(doorbells[0]).1;
    let (table, victim) = (rig.system.table, doorbells[0]);
    on_disconnect(move || assert_eq!(connect(&table, victim), (STATUS_SUCCESS, page)));
    assert_eq!(rig.connect(doorbells[1]), (STATUS_SUCCESS, page));
    assert_eq!(log(|log| std::mem::take(&mut log.disconnected)).len(), 2);
}

#[test]
fn a_context_is_suspended_when_every_queue_has_stopped() {
    let rig = Rig::new(ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    let (queue, doorbell) = rig.user_queue(context, 1);
    rig.user_queue(context, 2);
    assert_eq!(rig.suspend(context, 11), STATUS_PENDING);
    rig.system.event(EventKind::Suspended, 0, 3, [1, 0]);
    rig.system.interrupt();
    assert_eq!(reports(), []);
    rig.system.event(EventKind::Suspended, 0, 4, [1, 0]);
    rig.system.interrupt();
    assert_eq!(reports(), [Report::Suspended { context: 0x4000, fence: 11 }]);
    assert_eq!(rig.suspend(context, 12), STATUS_SUCCESS);
    let resume = DXGKARG_RESUMECONTEXT { hContext: context };
    assert_eq!(ddi!(rig.system, DxgkDdiResumeContext, rig.system.adapter, &raw const resume), STATUS_SUCCESS);
    // Queues that go before they answer do not hold the context up.
    assert_eq!(rig.suspend(context, 13), STATUS_PENDING);
    rig.system.event(EventKind::Suspended, 0, 4, [2, 0]);
    rig.system.interrupt();
    assert_eq!(reports(), []);
    let destroy = DXGKARG_DESTROYDOORBELL { hDoorbell: doorbell };
    assert_eq!(ddi!(rig.system, DxgkDdiDestroyDoorbell, &raw const destroy), STATUS_SUCCESS);
    assert_eq!(reports(), [Report::Suspended { context: 0x4000, fence: 13 }]);
    assert_eq!(ddi!(rig.system, DxgkDdiDestroyHwQueue, queue), STATUS_SUCCESS);
}

#[test]
fn a_context_without_queues_is_suspended_at_once_but_says_so() {
    let rig = Rig::new(ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    assert_eq!(rig.suspend(context, 5), STATUS_PENDING);
    assert_eq!(reports(), [Report::Suspended { context: 0x4000, fence: 5 }]);
    let mut args = DXGKARG_UPDATEHWCONTEXTSTATE::zeroed();
    args.hHwContext = context;
    args.ContextSwitchFence = 9;
    args.Flags = DXGK_UPDATEHWCONTEXTSTATE_FLAGS::new().with_InterruptOnSwitchCompletion(true);
    assert_eq!(ddi!(rig.system, DxgkDdiUpdateHwContextState, rig.system.adapter, &raw const args), STATUS_SUCCESS);
    assert_eq!(reports(), [Report::Switched { node: 0, fence: 9 }]);
}

#[test]
fn a_queue_that_could_not_run_is_refused_when_it_is_created() {
    let rig = Rig::new(ALL, 4);
    let (compute, paging) = (rig.hw_context(0x4000, 0), rig.hw_context(0x4001, 2));
    rig.fence(0xf1, 0x8000);
    assert_eq!(rig.hw_queue(compute, 1, 0x9000, true).0, STATUS_INVALID_PARAMETER, "its fence is not open here");
    assert_eq!(rig.hw_queue(paging, 1, 0x8000, true).0, STATUS_INVALID_PARAMETER, "not a node for user mode");
    assert_eq!(rig.hw_queue(compute, 1, 0x8004, true).0, STATUS_INVALID_PARAMETER, "not aligned");
    assert_eq!(rig.hw_queue(compute, 1, 0x8000, true).0, STATUS_SUCCESS);
    let without = Rig::new(Features { user_mode: false, ..ALL }, 4);
    let context = without.hw_context(0x4000, 0);
    without.fence(0xf1, 0x8000);
    assert_eq!(without.hw_queue(context, 1, 0x8000, true).0, STATUS_INVALID_PARAMETER, "not claimed");
    assert_eq!(without.hw_queue(context, 1, 0x8000, false).0, STATUS_SUCCESS);
}

#[test]
fn kernel_queues_accept_every_submission_and_name_the_one_that_faults() {
    let rig = Rig::new(ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    rig.fence(0xf1, 0x8000);
    let (status, queue) = rig.hw_queue(context, 0x6000, 0x8000, false);
    assert_eq!(status, STATUS_SUCCESS);
    for fence in 1..=300u64 {
        let mut args = DXGKARG_SUBMITCOMMANDTOHWQUEUE::zeroed();
        args.hHwQueue = queue;
        args.HwQueueProgressFenceId = 1000 + fence;
        args.DmaBufferVirtualAddress = VA;
        args.DmaBufferSize = 16;
        let submit = || ddi!(rig.system, DxgkDdiSubmitCommandToHwQueue, rig.system.adapter, &raw const args);
        assert_eq!(level(2, submit), STATUS_SUCCESS);
    }
    let info = FaultInfo::new().with_kind(FaultKind::ReadOnly as u8).with_write(true).with_entry(4).into_bits();
    rig.system.event(EventKind::Fault, 0, 3, [0x7000, info]);
    rig.system.interrupt();
    assert_eq!(reports(), [Report::QueueFaulted { queue: 0x6000, fence: 1005, address: 0x7000 }]);
}

#[test]
fn handles_of_other_kinds_and_of_nothing_are_refused() {
    let mut rig = Rig::new(ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    for wrong in [null_mut(), rig.system.adapter, rig.process, rig.device, handle(0xdead_beef)] {
        assert_eq!(ddi!(rig.system, DxgkDdiDestroyHwContext, wrong), STATUS_INVALID_HANDLE);
        assert_eq!(ddi!(rig.system, DxgkDdiDestroyHwQueue, wrong), STATUS_INVALID_HANDLE);
        assert_eq!(rig.connect(wrong).0, STATUS_INVALID_HANDLE);
        assert_eq!(rig.suspend(wrong, 1), STATUS_INVALID_HANDLE);
    }
    assert_eq!(ddi!(rig.system, DxgkDdiDestroyHwContext, context), STATUS_SUCCESS);
    assert_eq!(ddi!(rig.system, DxgkDdiDestroyHwContext, context), STATUS_INVALID_HANDLE);
    rig.system.remove();
    assert_eq!(ddi!(rig.system, DxgkDdiStopDevice, rig.system.adapter), STATUS_INVALID_HANDLE);
}

#[test]
fn idle_and_hung_nodes_are_reported_after_what_they_did_before() {
    let rig = Rig::new(ALL, 4);
    let context = rig.context(0);
    assert_eq!(rig.submit(context, 1, 16), STATUS_SUCCESS);
    rig.system.retire(0, 1, 1);
    rig.system.event(EventKind::NodeIdle, 0, event::NO_QUEUE, [0; 2]);
    rig.system.event(EventKind::NodeHung, 1, event::NO_QUEUE, [0; 2]);
    rig.system.event(EventKind::NodeIdle, 3, event::NO_QUEUE, [0; 2]);
    rig.system.interrupt();
    let state = |node, state| Report::EngineState { node, state };
    assert_eq!(reports(), [completed(0, 1), state(0, 1), state(1, 2)]);
}

#[test]
fn f_states_of_declared_components_are_programmed_and_completed() {
    let rig = Rig::new(ALL, 4);
    let fstate = |component, state| {
        level(DISPATCH_LEVEL, || ddi!(rig.system, DxgkDdiSetPowerComponentFState, rig.system.adapter, component, state))
    };
    for (component, state) in [(2, 1), (2, 0), (0, 1)] {
        assert_eq!(fstate(component, state), STATUS_SUCCESS);
        assert_eq!(rig.system.get(registers::CMP_COMMAND) as u32, Command::SetNodePower as u32);
        let arguments = [rig.system.get(registers::CMP_ARG0), rig.system.get(registers::CMP_ARG1)];
        assert_eq!(arguments, [u64::from(component), u64::from(state)]);
    }
    assert_eq!(log(|log| std::mem::take(&mut log.completed_components)), [2, 2, 0]);
    // The transition to D3, of which the hardware is not told.
    let before = rig.system.get(registers::CMP_ARG1);
    for state in [1, 0] {
        assert_eq!(fstate(3, state), STATUS_SUCCESS);
        assert_eq!(rig.system.get(registers::CMP_ARG1), before);
    }
    assert_eq!(log(|log| std::mem::take(&mut log.completed_components)), [3, 3]);
    for (component, state) in [(4, 1), (3, 2), (u32::MAX, 0), (0, 2)] {
        assert_eq!(fstate(component, state), STATUS_INVALID_PARAMETER);
    }
    assert!(log(|log| log.completed_components.is_empty()), "what was not begun is not completed");
}

#[test]
fn scheduling_properties_reach_mapped_queues_and_bad_ones_reach_nothing() {
    let rig = Rig::new(ALL, 4);
    let context = rig.hw_context(0x5000, 0);
    let (_global, _local) = rig.fence(0x5100, VA);
    assert_eq!(rig.hw_queue(context, 0x5200, VA, false).0, STATUS_SUCCESS);
    let set = |band, level, in_process, quantum| {
        let mut args = DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES::zeroed();
        (args.hContext, args.priorityBand) = (context, DXGK_SCHEDULING_PRIORITY_BAND(band));
        (args.realtimeBandPriorityLevel, args.inProcessPriority, args.quantum) = (level, in_process, quantum);
        (args.gracePeriodSamePriority, args.gracePeriodLowerPriority) = (quantum / 2, quantum / 4);
        ddi!(rig.system, DxgkDdiSetContextSchedulingProperties, rig.system.adapter, &raw const args)
    };
    let told = || {
        use registers::{CMP_ARG1, CMP_ARG2, CMP_ARG3, CMP_ARG4, CMP_COMMAND};
        [CMP_COMMAND, CMP_ARG1, CMP_ARG2, CMP_ARG3, CMP_ARG4].map(|at| rig.system.get(at))
    };
    let number = Command::SetQueuePriority as u64;
    let word = |band, level, in_process| {
        let rank = QueueRank::new().with_band(band).with_level(level).with_in_process(in_process);
        u64::from(rank.into_bits())
    };
    let most = u64::from(u32::MAX);
    for ((band, level, in_process, quantum), rank, packets) in [
        ((3, 31, 7, 200_000), word(3, 31, 7), [200, 100, 50]),
        ((0, 0, -7, 1), word(0, 0, -7), [1, 0, 0]),
        ((2, -1, 0, u64::MAX), word(2, 0, 0), [most; 3]),
        ((1, 99, 0, 0), word(1, 0, 0), [0; 3]),
    ] {
        assert_eq!(set(band, level, in_process, quantum), STATUS_SUCCESS);
        let [turn, same, lower] = packets;
        assert_eq!(told(), [number, rank, turn, same, lower]);
    }
    for (band, level, in_process) in
        [(4, 0, 0), (-1, 0, 0), (3, 32, 0), (3, -1, 0), (3, 256, 0), (0, 0, 8), (0, 0, -8), (0, 0, 256)]
    {
        assert_eq!(set(band, level, in_process, 5), STATUS_INVALID_PARAMETER);
        let still = [number, word(1, 0, 0), 0, 0, 0];
        assert_eq!(told(), still, "band {band}, level {level}, {in_process} in its process");
    }
    let bands = |percent| {
        let mut args = DXGKARG_SETUPPRIORITYBANDS::zeroed();
        args.targetNormalBandPercentage = percent;
        let status = ddi!(rig.system, DxgkDdiSetupPriorityBands, rig.system.adapter, &raw const args);
        (status, rig.system.get(registers::CMP_COMMAND), rig.system.get(registers::CMP_ARG0))
    };
    assert_eq!(bands(50), (STATUS_SUCCESS, Command::SetBandShare as u64, 50));
    assert_eq!(bands(51), (STATUS_INVALID_PARAMETER, Command::SetBandShare as u64, 50));
}

#[test]
fn power_control_requests_are_known_or_not_supported() {
    let rig = Rig::new(ALL, 4);
    for (code, status) in [
        (GUID_DXGKDDI_POWER_MANAGEMENT_PREPARE_TO_START, STATUS_SUCCESS),
        (GUID_DXGKDDI_POWER_MANAGEMENT_STARTED, STATUS_SUCCESS),
        (GUID_DXGKDDI_POWER_MANAGEMENT_STOPPED, STATUS_SUCCESS),
        (GUID_WDDM_INTERFACE_FEATURE, STATUS_NOT_SUPPORTED),
    ] {
        let (none, mut returned) = (null_mut(), 7usize);
        let (adapter, returned_at) = (rig.system.adapter, &raw mut returned);
        let answer = ddi!(
            rig.system,
            DxgkDdiPowerRuntimeControlRequest,
            adapter,
            &raw const code,
            none,
            0,
            none,
            0,
            returned_at,
        );
        assert_eq!((answer, returned), (status, 0));
    }
}

#[test]
fn low_power_states_stop_the_scheduler_and_d0_starts_the_event_ring_over() {
    let rig = Rig::new(ALL, 4);
    let context = rig.context(0);
    let power = |state| ddi!(rig.system, DxgkDdiSetPowerState, rig.system.adapter, DISPLAY_ADAPTER_HW_ID, state, 0);
    assert_eq!(rig.submit(context, 1, 16), STATUS_SUCCESS);
    rig.system.retire(0, 1, 1);
    assert_eq!(power(DEVICE_POWER_STATE::PowerDeviceD3), STATUS_SUCCESS);
    assert_eq!(rig.system.get(registers::CONTROL) as u32, 0);
    assert_eq!(reports(), [completed(0, 1)], "what happened before is told");
    assert_eq!(rig.system.ring_pointers(), [1, 1]);
    assert_eq!(power(DEVICE_POWER_STATE::PowerDeviceD0), STATUS_SUCCESS);
    assert_eq!(rig.system.ring_pointers(), [0, 0], "the device counts from zero when RUN is set");
    assert!(Control::from_bits(rig.system.get(registers::CONTROL) as u32).run());
    assert_eq!(rig.submit(context, 2, 16), STATUS_SUCCESS);
    rig.system.retire(0, 2, 1);
    rig.system.interrupt();
    assert_eq!(reports(), [completed(0, 2)]);
}

#[test]
fn the_user_mode_driver_is_told_what_is_claimed() {
    let rig = Rig::new(Features { user_mode: false, ..ALL }, 4);
    let mut bytes = [0xffu8; 80];
    let mut args = DXGKARG_QUERYADAPTERINFO::zeroed();
    args.Type = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_UMDRIVERPRIVATE;
    args.pOutputData = bytes.as_mut_ptr().cast();
    for (size, status) in [(0, STATUS_INVALID_PARAMETER), (63, STATUS_INVALID_PARAMETER), (72, STATUS_SUCCESS)] {
        args.OutputDataSize = size;
        assert_eq!(ddi!(rig.system, DxgkDdiQueryAdapterInfo, rig.system.adapter, &raw const args), status);
    }
    let data = AdapterData::from_bytes(bytes.first_chunk().expect("long enough"));
    assert_eq!((data.magic, data.features, data.doorbells), (MAGIC, 0b01, 4));
    assert!(bytes[64..72].iter().all(|byte| *byte == 0) && bytes[72..].iter().all(|byte| *byte == 0xff));
}

/// A started adapter with a window of half of VRAM and a host aperture of 16 pages behind it.
fn with_host_aperture() -> Box<System> {
    let mut system = System::added(ALL, 1);
    let vram = system.get(registers::VRAM_SIZE);
    system.set(registers::VRAM_WINDOW_SIZE, vram / 2);
    system.set(registers::HOST_APERTURE_PAGES, 16);
    assert_eq!(system.start(), STATUS_SUCCESS);
    system
}

fn map_aperture(system: &System, segment: u16, places: &mut [u32], pages: &mut [u64]) -> NTSTATUS {
    let mut args = DXGKARG_MAPCPUHOSTAPERTURE::zeroed();
    args.SegmentId = segment;
    args.NumberOfPages = places.len() as u64;
    args.pCpuHostAperturePages = places.as_mut_ptr();
    args.pMemorySegmentPages = pages.as_mut_ptr();
    ddi!(system, DxgkDdiMapCpuHostAperture, system.adapter, &raw const args)
}

fn unmap_aperture(system: &System, places: &mut [u32]) -> NTSTATUS {
    let mut args = DXGKARG_UNMAPCPUHOSTAPERTURE::zeroed();
    args.SegmentId = 3;
    args.NumberOfPages = places.len() as u64;
    args.pCpuHostAperturePages = places.as_mut_ptr();
    ddi!(system, DxgkDdiUnmapCpuHostAperture, system.adapter, &raw const args)
}

#[test]
fn the_host_aperture_is_pointed_at_pages_of_the_hidden_segment() {
    let mut system = with_host_aperture();
    let hidden = system.get(registers::VRAM_SIZE) / 2 / 4096;
    // The registers are plain memory here: the last page that was pointed somewhere is what they hold.
    let last = |system: &System| {
        ((system.get(registers::HOST_APERTURE_PAGES) >> 32) as u32, system.get(registers::HOST_APERTURE_TARGET) as u32)
    };
    assert_eq!(map_aperture(&system, 3, &mut [9, 4], &mut [1, 7]), STATUS_SUCCESS);
    assert_eq!(last(&system), (4, (hidden + 7) as u32));
    assert_eq!(unmap_aperture(&system, &mut [9]), STATUS_SUCCESS);
    assert_eq!(last(&system), (9, u32::MAX));
    system.remove();
}

#[test]
fn what_the_host_aperture_showed_it_shows_again_after_an_adapter_reset() {
    let mut system = with_host_aperture();
    let hidden = system.get(registers::VRAM_SIZE) / 2 / 4096;
    assert_eq!(map_aperture(&system, 3, &mut [9, 4], &mut [1, 7]), STATUS_SUCCESS);
    assert_eq!(unmap_aperture(&system, &mut [9]), STATUS_SUCCESS);
    assert_eq!(ddi!(system, DxgkDdiResetFromTimeout, system.adapter), STATUS_SUCCESS);
    // Pages that are pointed somewhere meanwhile are told to the device when it runs.
    let told = system.get(registers::HOST_APERTURE_TARGET);
    assert_eq!(map_aperture(&system, 3, &mut [2], &mut [5]), STATUS_SUCCESS);
    assert_eq!(system.get(registers::HOST_APERTURE_TARGET), told, "told to a device that is being reset");
    assert_eq!(ddi!(system, DxgkDdiRestartFromTimeout, system.adapter), STATUS_SUCCESS);
    // In the order of the pages; the registers hold the last one.
    let place = (system.get(registers::HOST_APERTURE_PAGES) >> 32) as u32;
    assert_eq!((place, system.get(registers::HOST_APERTURE_TARGET) as u32), (4, (hidden + 7) as u32));
    system.remove();
}

#[test]
fn a_bad_page_of_the_host_aperture_changes_nothing() {
    let mut system = with_host_aperture();
    let (hidden, bad) = (system.get(registers::VRAM_SIZE) / 2 / 4096, STATUS_INVALID_PARAMETER);
    let before = [registers::HOST_APERTURE_PAGES, registers::HOST_APERTURE_TARGET].map(|offset| system.get(offset));
    assert_eq!(map_aperture(&system, 2, &mut [0], &mut [0]), bad, "another segment");
    assert_eq!(map_aperture(&system, 3, &mut [0, 16], &mut [0, 1]), bad, "a page outside the aperture");
    assert_eq!(map_aperture(&system, 3, &mut [0, 1], &mut [0, hidden]), bad, "a page outside the segment");
    assert_eq!(map_aperture(&system, 3, &mut [0, 1], &mut [0, u64::MAX]), bad, "a page that overflows");
    assert_eq!(map_aperture(&system, 3, &mut [0; 17], &mut [0; 17]), bad, "more pages than there are");
    assert_eq!(unmap_aperture(&system, &mut [3, u32::MAX]), bad);
    let mut args = DXGKARG_MAPCPUHOSTAPERTURE::zeroed();
    (args.SegmentId, args.NumberOfPages) = (3, 1);
    assert_eq!(ddi!(system, DxgkDdiMapCpuHostAperture, system.adapter, &raw const args), bad, "no arrays");
    let after = [registers::HOST_APERTURE_PAGES, registers::HOST_APERTURE_TARGET].map(|offset| system.get(offset));
    assert_eq!(after, before);
    system.remove();
}
