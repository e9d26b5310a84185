//! Contexts and queues that the hardware schedules.

use campanile_hw::event::{self, EventKind, FaultInfo, FaultKind};
use campanile_hw::queue::QueueRank;
use campanile_hw::registers::{self, Command};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use super::rig::{Rig, VA, completed};
use super::system::*;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.SuspensionWaitsForEveryQueue" on Boot::Shared, "dxgkddi_suspendcontext":
        "A suspension is reported with its fence when every queue of the context has stopped or is gone, and a context that is suspended already is so at once."
        => a_context_is_suspended_when_every_queue_has_stopped;
    "Miniport.SuspensionFollowsWhatWasDone" on Boot::Shared, "dxgkddi_suspendcontext":
        "What a queue signalled and a packet completed before a queue stopped is reported before the suspension, with one interrupt for all of it."
        holds [UserModeSubmission 33]
        => a_suspension_is_reported_behind_what_was_done_before_it;
    "Miniport.ContextWithoutQueuesReportsItsSuspension" on Boot::Shared, "dxgkddi_suspendcontext":
        "The suspension of a context without queues, and its removal from the run list, are reported although nothing has to stop."
        => a_context_without_queues_is_suspended_at_once_but_says_so;
    "Miniport.QueuesThatCouldNotRunAreRefused" on Boot::Shared, "dxgkarg_createhwqueue":
        "A queue whose progress fence is not open in its device or is not aligned, a user-mode queue of a node without user-mode submission, and one where that is not enabled are refused when they are created."
        => a_queue_that_could_not_run_is_refused_when_it_is_created;
    "Miniport.KernelQueuesNameTheSubmissionThatFaults" on Boot::Shared, "dxgkarg_createhwqueue":
        "A queue of the kernel takes as many submissions as are handed over, in any number, and a fault names the submission that it is of."
        => kernel_queues_accept_every_submission_and_name_the_one_that_faults;
    "Miniport.EngineStatesFollowWhatWasDone" on Boot::Shared, "user-mode-work-submission":
        "An engine that is idle or hangs is reported as such after what it completed before; one that there is not is not reported."
        holds [UserModeSubmission 45]
        => idle_and_hung_nodes_are_reported_after_what_they_did_before;
    "Miniport.SchedulingPropertiesReachTheQueues" on Boot::Shared, "dxgkddi_setcontextschedulingproperties":
        "Band, level, in-process priority, quantum and grace periods of a context reach its queues; what is out of range is refused and reaches none, and so with the share of the normal band."
        => scheduling_properties_reach_mapped_queues_and_bad_ones_reach_nothing;
}

fn a_context_is_suspended_when_every_queue_has_stopped(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    let (queue, doorbell) = rig.user_queue(context, 1);
    rig.user_queue(context, 2);
    ensure_eq!(rig.suspend(context, 11), STATUS_PENDING);
    rig.system.event(EventKind::Suspended, 0, 3, [1, 0]);
    rig.system.interrupt();
    ensure_eq!(reports(), []);
    rig.system.event(EventKind::Suspended, 0, 4, [1, 0]);
    rig.system.interrupt();
    ensure_eq!(reports(), [Report::Suspended { context: 0x4000, fence: 11 }]);
    ensure_eq!(rig.suspend(context, 12), STATUS_SUCCESS);
    let resume = DXGKARG_RESUMECONTEXT { hContext: context };
    ensure_eq!(ddi!(rig.system, DxgkDdiResumeContext, rig.system.adapter, &raw const resume), STATUS_SUCCESS);
    // Queues that go before they answer do not block the context.
    ensure_eq!(rig.suspend(context, 13), STATUS_PENDING);
    rig.system.event(EventKind::Suspended, 0, 4, [2, 0]);
    rig.system.interrupt();
    ensure_eq!(reports(), []);
    let destroy = DXGKARG_DESTROYDOORBELL { hDoorbell: doorbell };
    ensure_eq!(ddi!(rig.system, DxgkDdiDestroyDoorbell, &raw const destroy), STATUS_SUCCESS);
    ensure_eq!(reports(), [Report::Suspended { context: 0x4000, fence: 13 }]);
    ensure_eq!(ddi!(rig.system, DxgkDdiDestroyHwQueue, queue), STATUS_SUCCESS);
    Ok(())
}

fn a_context_without_queues_is_suspended_at_once_but_says_so(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    ensure_eq!(rig.suspend(context, 5), STATUS_PENDING);
    ensure_eq!(reports(), [Report::Suspended { context: 0x4000, fence: 5 }]);
    let mut args = DXGKARG_UPDATEHWCONTEXTSTATE::zeroed();
    args.hHwContext = context;
    args.ContextSwitchFence = 9;
    args.Flags = DXGK_UPDATEHWCONTEXTSTATE_FLAGS::new().with_InterruptOnSwitchCompletion(true);
    ensure_eq!(ddi!(rig.system, DxgkDdiUpdateHwContextState, rig.system.adapter, &raw const args), STATUS_SUCCESS);
    ensure_eq!(reports(), [Report::Switched { node: 0, fence: 9 }]);
    Ok(())
}

fn a_queue_that_could_not_run_is_refused_when_it_is_created(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let (compute, paging) = (rig.hw_context(0x4000, 0), rig.hw_context(0x4001, 2));
    rig.fence(0xf1, 0x8000);
    ensure_eq!(rig.hw_queue(compute, 1, 0x9000, true).0, STATUS_INVALID_PARAMETER, "its fence is not open here");
    ensure_eq!(rig.hw_queue(paging, 1, 0x8000, true).0, STATUS_INVALID_PARAMETER, "not a node for user mode");
    ensure_eq!(rig.hw_queue(compute, 1, 0x8004, true).0, STATUS_INVALID_PARAMETER, "not aligned");
    ensure_eq!(rig.hw_queue(compute, 1, 0x8000, true).0, STATUS_SUCCESS);
    let without = Rig::new(case, Features { user_mode: false, ..ALL }, 4);
    let context = without.hw_context(0x4000, 0);
    without.fence(0xf1, 0x8000);
    ensure_eq!(without.hw_queue(context, 1, 0x8000, true).0, STATUS_INVALID_PARAMETER, "not claimed");
    ensure_eq!(without.hw_queue(context, 1, 0x8000, false).0, STATUS_SUCCESS);
    Ok(())
}

fn kernel_queues_accept_every_submission_and_name_the_one_that_faults(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    rig.fence(0xf1, 0x8000);
    let (status, queue) = rig.hw_queue(context, 0x6000, 0x8000, false);
    ensure_eq!(status, STATUS_SUCCESS);
    for fence in 1..=300u64 {
        let mut args = DXGKARG_SUBMITCOMMANDTOHWQUEUE::zeroed();
        args.hHwQueue = queue;
        args.HwQueueProgressFenceId = 1000 + fence;
        args.DmaBufferVirtualAddress = VA;
        args.DmaBufferSize = 16;
        let submit = || ddi!(rig.system, DxgkDdiSubmitCommandToHwQueue, rig.system.adapter, &raw const args);
        ensure_eq!(level(2, submit), STATUS_SUCCESS);
    }
    let info = FaultInfo::new().with_kind(FaultKind::ReadOnly as u8).with_write(true).with_entry(4).into_bits();
    rig.system.event(EventKind::Fault, 0, 3, [0x7000, info]);
    rig.system.interrupt();
    ensure_eq!(reports(), [Report::QueueFaulted { queue: 0x6000, fence: 1005, address: 0x7000 }]);
    Ok(())
}

fn idle_and_hung_nodes_are_reported_after_what_they_did_before(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.context(0);
    ensure_eq!(rig.submit(context, 1, 16), STATUS_SUCCESS);
    rig.system.retire(0, 1, 1);
    rig.system.event(EventKind::NodeIdle, 0, event::NO_QUEUE, [0; 2]);
    rig.system.event(EventKind::NodeHung, 1, event::NO_QUEUE, [0; 2]);
    rig.system.event(EventKind::NodeIdle, 3, event::NO_QUEUE, [0; 2]);
    rig.system.interrupt();
    let state = |node, state| Report::EngineState { node, state };
    ensure_eq!(reports(), [completed(0, 1), state(0, 1), state(1, 2)]);
    Ok(())
}

fn scheduling_properties_reach_mapped_queues_and_bad_ones_reach_nothing(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x5000, 0);
    let (_global, _local) = rig.fence(0x5100, VA);
    ensure_eq!(rig.hw_queue(context, 0x5200, VA, false).0, STATUS_SUCCESS);
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
        ensure_eq!(set(band, level, in_process, quantum), STATUS_SUCCESS);
        let [turn, same, lower] = packets;
        ensure_eq!(told(), [number, rank, turn, same, lower]);
    }
    for (band, level, in_process) in
        [(4, 0, 0), (-1, 0, 0), (3, 32, 0), (3, -1, 0), (3, 256, 0), (0, 0, 8), (0, 0, -8), (0, 0, 256)]
    {
        ensure_eq!(set(band, level, in_process, 5), STATUS_INVALID_PARAMETER);
        let still = [number, word(1, 0, 0), 0, 0, 0];
        ensure_eq!(told(), still, "band {band}, level {level}, {in_process} in its process");
    }
    let bands = |percent| {
        let mut args = DXGKARG_SETUPPRIORITYBANDS::zeroed();
        args.targetNormalBandPercentage = percent;
        let status = ddi!(rig.system, DxgkDdiSetupPriorityBands, rig.system.adapter, &raw const args);
        (status, rig.system.get(registers::CMP_COMMAND), rig.system.get(registers::CMP_ARG0))
    };
    ensure_eq!(bands(50), (STATUS_SUCCESS, Command::SetBandShare as u64, 50));
    ensure_eq!(bands(51), (STATUS_INVALID_PARAMETER, Command::SetBandShare as u64, 50));
    Ok(())
}

fn a_suspension_is_reported_behind_what_was_done_before_it(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let packets = rig.context(0);
    let context = rig.hw_context(0x4000, 0);
    rig.user_queue(context, 1);
    rig.fence(0xf1, 0x8000);
    ensure_eq!(rig.submit(packets, 1, 16), STATUS_SUCCESS);
    ensure_eq!(rig.suspend(context, 11), STATUS_PENDING);
    rig.system.retire(0, 1, 1);
    rig.system.event(EventKind::FenceSignaled, 0, 3, [0x8000, 1]);
    rig.system.event(EventKind::Suspended, 0, 3, [1, 0]);
    rig.system.interrupt();
    let signalled = Report::Native { node: 0, fences: vec![0xf1] };
    ensure_eq!(reports(), [completed(0, 1), signalled, Report::Suspended { context: 0x4000, fence: 11 }]);
    Ok(())
}
