//! Resets of an engine and of the adapter: what is reported, when, and what counts as complete.

use campanile_hw::event::{EventKind, FaultInfo, FaultKind};
use campanile_hw::registers::{self, Command, Control};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use super::rig::{Rig, VA, completed, handle};
use super::system::*;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.EngineResetAbortsTheRunningPacket" on Boot::Shared, "tdr-changes-in-windows-8":
        "DxgkDdiResetEngine reports what completed before, names the packet that ran as aborted, forgets those behind it and the events of before the reset; the id that it names is the last completed one from then on."
        holds [Tdr 26, Tdr 28]
        => an_engine_reset_aborts_the_running_packet_and_forgets_the_others;
    "Miniport.SignalsWaitForTheResumption" on Boot::Shared, "tdr-changes-in-windows-8":
        "Between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine nothing is reported; completions and signals of that time are reported after it."
        holds [Tdr 35, Tdr 36]
        => nothing_is_reported_between_engine_reset_and_resume;
    "Miniport.FaultsWaitForTheResumption" on Boot::Shared, "tdr-changes-in-windows-8":
        "A fault between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine is reported after the resumption, of a packet as of a queue, and what was behind the packet runs on."
        holds [Tdr 35]
        => faults_between_engine_reset_and_resume_are_reported_after_it;
    "Miniport.SuspensionsWaitForTheResumption" on Boot::Shared, "tdr-changes-in-windows-8":
        "A suspension that completes between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine is reported after the resumption."
        holds [Tdr 35]
        => suspensions_between_engine_reset_and_resume_are_reported_after_it;
    "Miniport.EngineResetDuringAPreemption" on Boot::Shared, "tdr-changes-in-windows-8":
        "An engine that is reset while a preemption is under way names the packet that ran as aborted and reports nothing of the preemption."
        holds [Tdr 26]
        => an_engine_reset_during_a_preemption_names_the_packet_that_ran;
    "Miniport.ContextOfALostQueueIsInvalidated" on Boot::Shared, "tdr-changes-in-windows-8":
        "A hardware context whose queue DxgkDdiResetEngine takes along is invalidated as collateral damage."
        holds [Tdr 33]
        => a_hardware_context_that_an_engine_reset_takes_along_is_named;
    "Miniport.AdapterResetCompletesWhatWasSubmitted" on Boot::Shared, "tdr-changes-in-windows-8":
        "After DxgkDdiResetFromTimeout everything that was submitted counts as complete, doorbells connect no more until DxgkDdiRestartFromTimeout, and DxgkDdiCollectDbgInfo answers within the buffer that it is given."
        holds [Tdr 2, Tdr 28, Tdr 47]
        => after_an_adapter_reset_everything_submitted_counts_as_complete;
    "Miniport.AdapterResetTakesTheDoorbells" on Boot::Shared, "tdr-changes-in-windows-8":
        "After the reset of the adapter every physical doorbell is free: one that is connected then is told to the hardware, whether it was connected before or not, and no other is taken away for it."
        holds [Tdr 45]
        => after_an_adapter_reset_every_doorbell_is_free;
    "Miniport.AdapterResetKeepsFencesOfThePagingProcess" on Boot::Shared, "native-gpu-fence-objects":
        "A scheduler that reaches fences through the paging process is told of every open fence again when it runs after the reset of the adapter."
        holds [NativeFence 34]
        => after_an_adapter_reset_the_scheduler_is_told_of_every_open_fence;
}

fn an_engine_reset_aborts_the_running_packet_and_forgets_the_others(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.context(0);
    for fence in 1..=6 {
        ensure_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    rig.system.retire(0, 1, 1);
    let info = FaultInfo::new().with_kind(FaultKind::Reset as u8).into_bits();
    rig.system.event(EventKind::Fault, 0, 0, [0, info]);
    let mut args = DXGKARG_RESETENGINE::zeroed();
    ensure_eq!(ddi!(rig.system, DxgkDdiResetEngine, rig.system.adapter, &raw mut args), STATUS_SUCCESS);
    ensure_eq!(args.LastAbortedFenceId, 2);
    ensure_eq!(reports(), [completed(0, 1)]);
    // An event from before the reset names nothing now.
    rig.system.retire(0, 2, 1);
    rig.system.interrupt();
    ensure_eq!(reports(), []);
    // The last completed one is the aborted one before anything else completes.
    rig.preempt(0, 90);
    ensure_eq!(reports(), [Report::Preempted { node: 0, preemption: 90, completed: 2 }]);
    ensure_eq!(rig.submit(context, 7, 16), STATUS_SUCCESS);
    rig.system.retire(0, 7, 2);
    rig.system.interrupt();
    ensure_eq!(reports(), [completed(0, 7)]);
    ensure_eq!(ddi!(rig.system, DxgkDdiResetEngine, rig.system.adapter, &raw mut args), STATUS_SUCCESS);
    ensure_eq!(args.LastAbortedFenceId, 7, "nothing ran: the last completed one");
    Ok(())
}

fn nothing_is_reported_between_engine_reset_and_resume(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let packets = rig.context(0);
    let context = rig.hw_context(0x4000, 0);
    let (_queue, _) = rig.user_queue(context, 1);
    ensure_eq!(rig.submit(packets, 1, 16), STATUS_SUCCESS);
    // The user-mode queue got the first number behind the nodes.
    rig.system.set(registers::CMP_RESULT, 3);
    let mut reset = DXGKARG_RESETHWENGINE::zeroed();
    ensure_eq!(ddi!(rig.system, DxgkDdiResetHwEngine, rig.system.adapter, &raw mut reset), STATUS_SUCCESS);
    ensure_eq!(log(|log| std::mem::take(&mut log.invalidated)), [0x4000]);
    rig.system.retire(0, 1, 1);
    rig.system.event(EventKind::FenceSignaled, 0, 3, [VA + 0x10_0000, 5]);
    rig.system.interrupt();
    ensure_eq!(reports(), []);
    let mut resume = DXGKARG_RESUMEHWENGINE::zeroed();
    ensure_eq!(ddi!(rig.system, DxgkDdiResumeHwEngine, rig.system.adapter, &raw mut resume), STATUS_SUCCESS);
    let made = reports();
    ensure_eq!(made, [completed(0, 1), Report::Native { node: 0, fences: vec![] }, Report::Monitored { node: 0 }]);
    Ok(())
}

fn faults_between_engine_reset_and_resume_are_reported_after_it(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let packets = rig.context(0);
    let context = rig.hw_context(0x4000, 0);
    let (_queue, _) = rig.user_queue(context, 1);
    for fence in 1..=4 {
        ensure_eq!(rig.submit(packets, fence, 16), STATUS_SUCCESS);
    }
    rig.system.set(registers::CMP_RESULT, u64::from(u32::MAX));
    let mut reset = DXGKARG_RESETHWENGINE::zeroed();
    ensure_eq!(ddi!(rig.system, DxgkDdiResetHwEngine, rig.system.adapter, &raw mut reset), STATUS_SUCCESS);
    rig.system.retire(0, 1, 1);
    let info = FaultInfo::new().with_kind(FaultKind::PageFault as u8).into_bits();
    rig.system.event(EventKind::Fault, 0, 0, [0xdead_0000, info]);
    rig.system.event(EventKind::Fault, 0, 3, [0xbeef_0000, info]);
    rig.system.interrupt();
    ensure_eq!(reports(), []);
    let mut resume = DXGKARG_RESUMEHWENGINE::zeroed();
    ensure_eq!(ddi!(rig.system, DxgkDdiResumeHwEngine, rig.system.adapter, &raw mut resume), STATUS_SUCCESS);
    let made = reports();
    let fault = Report::Faulted { node: 0, fence: 2, address: 0xdead_0000, process: 0x9000 };
    ensure_eq!(made.first(), Some(&fault), "it completes what was before it");
    ensure!(matches!(made[1], Report::QueueFaulted { address: 0xbeef_0000, .. }), "{made:?}");
    ensure_eq!(made.iter().filter(|report| matches!(report, Report::Completed { .. })).count(), 0, "{made:?}");
    // Work behind the fault is executed.
    rig.system.retire(0, 3, 1);
    rig.system.retire(0, 4, 1);
    rig.system.interrupt();
    ensure_eq!(reports(), [completed(0, 4)]);
    Ok(())
}

fn suspensions_between_engine_reset_and_resume_are_reported_after_it(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    rig.user_queue(context, 1);
    ensure_eq!(rig.suspend(context, 11), STATUS_PENDING);
    rig.system.set(registers::CMP_RESULT, u64::from(u32::MAX));
    let mut reset = DXGKARG_RESETHWENGINE::zeroed();
    ensure_eq!(ddi!(rig.system, DxgkDdiResetHwEngine, rig.system.adapter, &raw mut reset), STATUS_SUCCESS);
    ensure_eq!(reports(), []);
    rig.system.event(EventKind::Suspended, 0, 3, [1, 0]);
    rig.system.interrupt();
    ensure_eq!(reports(), [], "reports before the resumption");
    let mut resume = DXGKARG_RESUMEHWENGINE::zeroed();
    ensure_eq!(ddi!(rig.system, DxgkDdiResumeHwEngine, rig.system.adapter, &raw mut resume), STATUS_SUCCESS);
    let suspended = |report: &Report| matches!(report, Report::Suspended { .. });
    let made: Vec<Report> = reports().into_iter().filter(suspended).collect();
    ensure_eq!(made, [Report::Suspended { context: 0x4000, fence: 11 }], "suspensions reported after it");
    Ok(())
}

fn an_engine_reset_during_a_preemption_names_the_packet_that_ran(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.context(0);
    for fence in 1..=6 {
        ensure_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    rig.system.retire(0, 1, 1);
    rig.preempt(0, 9);
    let info = FaultInfo::new().with_kind(FaultKind::Reset as u8).into_bits();
    rig.system.event(EventKind::Fault, 0, 0, [0, info]);
    let mut args = DXGKARG_RESETENGINE::zeroed();
    ensure_eq!(ddi!(rig.system, DxgkDdiResetEngine, rig.system.adapter, &raw mut args), STATUS_SUCCESS);
    ensure_eq!((args.LastAbortedFenceId, reports()), (2, vec![completed(0, 1)]));
    // The preemption is over, and nothing is reported of it.
    ensure_eq!(rig.submit(context, 7, 16), STATUS_SUCCESS);
    rig.system.retire(0, 7, 2);
    rig.system.interrupt();
    ensure_eq!(reports(), [completed(0, 7)]);
    Ok(())
}

fn a_hardware_context_that_an_engine_reset_takes_along_is_named(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let packets = rig.context(0);
    let context = rig.hw_context(0x4000, 0);
    let (_queue, _) = rig.user_queue(context, 1);
    ensure_eq!(rig.submit(packets, 1, 16), STATUS_SUCCESS);
    // Every queue that is asked about has faulted.
    rig.system.set(registers::CMP_RESULT, 5);
    let mut args = DXGKARG_RESETENGINE::zeroed();
    ensure_eq!(ddi!(rig.system, DxgkDdiResetEngine, rig.system.adapter, &raw mut args), STATUS_SUCCESS);
    ensure_eq!(args.LastAbortedFenceId, 1);
    ensure_eq!(log(|log| std::mem::take(&mut log.invalidated)), [0x4000]);
    Ok(())
}

fn after_an_adapter_reset_everything_submitted_counts_as_complete(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 1);
    let context = rig.context(2);
    let hw_context = rig.hw_context(0x4000, 0);
    let (_, doorbell) = rig.user_queue(hw_context, 1);
    ensure_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
    for fence in 1..=6 {
        ensure_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    ensure_eq!(ddi!(rig.system, DxgkDdiResetFromTimeout, rig.system.adapter), STATUS_SUCCESS);
    ensure!(Control::from_bits(rig.system.get(registers::CONTROL) as u32).reset());
    ensure_eq!(rig.connect(doorbell).0, STATUS_DEVICE_REMOVED);
    ensure_eq!(ddi!(rig.system, DxgkDdiRestartFromTimeout, rig.system.adapter), STATUS_SUCCESS);
    let mut buffer = [0u64; 20];
    let mut args = DXGKARG_COLLECTDBGINFO::zeroed();
    args.pBuffer = buffer.as_mut_ptr().cast();
    args.BufferSize = 17 * 8 + 1;
    ensure_eq!(ddi!(rig.system, DxgkDdiCollectDbgInfo, rig.system.adapter, &raw const args), STATUS_SUCCESS);
    ensure_eq!((buffer[0], buffer[1]), (campanile_hw::debug::MAGIC, 17), "magic, words");
    assert_ne!(buffer[2] & campanile_hw::debug::CUT, 0, "there is more than fits");
    ensure_eq!(buffer[15], 6 | 6 << 32, "node 2: submitted, completed");
    ensure_eq!(buffer[17], 0, "beyond the size given");
    rig.preempt(2, 90);
    ensure_eq!(reports(), [Report::Preempted { node: 2, preemption: 90, completed: 6 }]);
    ensure_eq!(rig.submit(context, 7, 16), STATUS_SUCCESS);
    rig.system.retire(2, 7, 2);
    rig.system.interrupt();
    ensure_eq!(reports(), [completed(2, 7)]);
    Ok(())
}

fn reset_adapter(rig: &Rig) {
    assert_eq!(ddi!(rig.system, DxgkDdiResetFromTimeout, rig.system.adapter), STATUS_SUCCESS);
    assert_eq!(ddi!(rig.system, DxgkDdiRestartFromTimeout, rig.system.adapter), STATUS_SUCCESS);
}

fn after_an_adapter_reset_every_doorbell_is_free(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 1);
    let context = rig.hw_context(0x4000, 0);
    let doorbells = [1, 2].map(|number| rig.user_queue(context, number).1);
    let page = rig.connect(doorbells[0]).1;
    reset_adapter(&rig);
    ensure_eq!(rig.connect(doorbells[0]), (STATUS_SUCCESS, page));
    let told = [registers::CMP_COMMAND, registers::CMP_ARG0, registers::CMP_ARG1].map(|at| rig.system.get(at));
    ensure_eq!(told, [Command::ConnectDoorbell as u64, 0, 3], "the last command: doorbell, queue");
    reset_adapter(&rig);
    ensure_eq!(rig.connect(doorbells[1]), (STATUS_SUCCESS, page));
    ensure_eq!(log(|log| std::mem::take(&mut log.disconnected)), [], "doorbells taken away");
    Ok(())
}

fn after_an_adapter_reset_the_scheduler_is_told_of_every_open_fence(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::with_system_fences(case);
    // The paging process has its page table, and so has the process that opens the fence.
    rig.context(2);
    let mut create = DXGKARG_CREATENATIVEFENCE::zeroed();
    create.hGlobalNativeFence = handle(0xf1);
    (create.CurrentValueSystemProcessGpuVa, create.MonitoredValueSystemProcessGpuVa) = (0x1_8000, 0x1_9000);
    ensure_eq!(ddi!(rig.system, DxgkDdiCreateNativeFence, rig.system.adapter, &raw mut create), STATUS_SUCCESS);
    rig.open(rig.device, create.hGlobalNativeFence, 0x8000);
    let told = || {
        use registers::{CMP_ARG1, CMP_ARG2, CMP_ARG3, CMP_ARG4, CMP_COMMAND};
        [CMP_COMMAND, CMP_ARG1, CMP_ARG2, CMP_ARG3, CMP_ARG4].map(|at| rig.system.get(at))
    };
    let fence = [Command::MapFence as u64, 0x8000, 0x9000, 0x1_8000, 0x1_9000];
    ensure_eq!(told(), fence);
    reset_adapter(&rig);
    ensure_eq!(told(), fence, "the last command after the restart");
    Ok(())
}
