//! Hardware queues that stand still although their context leaves its engine whenever that is asked: what is told of them, and which of them stop the machine.
//! [d3dkmddi: DXGKDDI_SUBMITCOMMANDTOHWQUEUE, DXGKDDI_SUSPENDCONTEXT; d3dkmdt: D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY; debugger: 0x116]

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::minimal::queue::{Queue, call, open};
use crate::minimal::{Bench, Mutant, SOUND, driver};
use dxgkrnl::{Clock, MachineConfig, Rescue, TdrSettings, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{BOOLEAN, HANDLE, NTSTATUS};

/// The statics below belong to one test at a time.
static ONE: Mutex<()> = Mutex::new(());
/// The suspension that is to be reported: the driver's handle of the context, and the fence.
static SUSPENDED: (AtomicUsize, AtomicU64) = (AtomicUsize::new(0), AtomicU64::new(0));

/// The submission is lost: the hardware never gets it.
unsafe extern "win64" fn loses(_: HANDLE, _: *const DXGKARG_SUBMITCOMMANDTOHWQUEUE) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "win64" fn report_suspension(context: *mut c_void) -> BOOLEAN {
    let adapter = driver::adapter(context);
    let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
    data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED;
    data.u.SuspendContextCompleted.hContext = std::ptr::without_provenance_mut(SUSPENDED.0.load(Ordering::Acquire));
    data.u.SuspendContextCompleted.ContextSuspendFence = SUSPENDED.1.load(Ordering::Acquire);
    // SAFETY: handle and data are good.
    unsafe { adapter.interface.DxgkCbNotifyInterrupt.unwrap()(adapter.handle, &raw const data) };
    // SAFETY: the handle is good.
    unsafe { adapter.interface.DxgkCbQueueDpc.unwrap()(adapter.handle) };
    1
}

/// The context leaves its engine at once, and that is reported.
unsafe extern "win64" fn suspends(context: HANDLE, args: *const DXGKARG_SUSPENDCONTEXT) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    SUSPENDED.0.store(args.hContext.addr(), Ordering::Release);
    SUSPENDED.1.store(args.contextSuspendFence, Ordering::Release);
    let adapter = driver::adapter(context);
    let mut result = 0;
    let synchronize = adapter.interface.DxgkCbSynchronizeExecution.unwrap();
    // SAFETY: the routine is given the adapter.
    let status = unsafe { synchronize(adapter.handle, Some(report_suspension), context, 0, &raw mut result) };
    assert!(status.is_success());
    STATUS_PENDING
}

/// As if the context were suspended already.
unsafe extern "win64" fn always_suspended(_: HANDLE, _: *const DXGKARG_SUSPENDCONTEXT) -> NTSTATUS {
    STATUS_SUCCESS
}

fn started(mutant: Mutant) -> (Bench, Queue) {
    let config = MachineConfig { ram: 64 << 20, clock: Clock::manual(), ..MachineConfig::default() };
    let bench = Bench::with_config(mutant, config).unwrap();
    let luid = bench.start().unwrap();
    let queue = open(&bench, luid).unwrap();
    (bench, queue)
}

/// Ends the process whatever is asserted after: its work is never done.
fn stop(queue: &Queue) {
    queue.process.terminate();
}

/// Moves the clock on by so many TdrDelay, unless the machine stops.
fn stand(bench: &Bench, delays: u32) {
    for _ in 0..delays {
        if bench.machine.bugcheck().is_none() {
            bench.machine.advance(TdrSettings::default().delay);
        }
    }
}

const LOSES: Mutant = Mutant {
    table: |table| {
        table.DxgkDdiSubmitCommandToHwQueue = Some(loses);
        table.DxgkDdiSuspendContext = Some(suspends);
    },
    ..SOUND
};

/// Holds that the log tells once of a queue that stands still, and with these parts.
fn told_once(bench: &Bench, parts: &[&str]) {
    let log = bench.machine.debug_log();
    let told: Vec<_> = log.iter().filter(|line| line.contains("has done nothing for")).collect();
    assert_eq!(told.len(), 1, "{log:#?}");
    for part in parts {
        assert!(told[0].contains(part), "{part:?}: {}", told[0]);
    }
}

/// The adapter cannot stop a command buffer that runs: one that leaves its engine unfinished was not begun, and nothing else is on the node.
#[test]
fn a_queue_whose_submission_was_lost_is_0x116_with_what_was_expected() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (bench, queue) = started(LOSES);
    queue.submit(9).unwrap();
    stand(&bench, 5 * TdrSettings::default().limit_count);
    stop(&queue);
    let bugcheck = bench.machine.bugcheck().expect("the queue never goes on");
    assert_eq!((bugcheck.code, bugcheck.parameters[2]), (0x116, u64::from(STATUS_TIMEOUT.0 as u32)), "{bugcheck}");
    for part in [
        "DxgkDdiSubmitCommandToHwQueue",
        "node 0",
        "progress fence has 0x0, and expected is 0x9",
        "D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY",
    ] {
        assert!(bugcheck.reason.contains(part), "{part:?}: {bugcheck}");
    }
}

/// Loses the submissions of one value, as a driver does that keeps a fault to itself, and carries out all others.
unsafe extern "win64" fn loses_nine(context: HANDLE, args: *const DXGKARG_SUBMITCOMMANDTOHWQUEUE) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    if unsafe { (*args).HwQueueProgressFenceId } == 9 {
        return STATUS_SUCCESS;
    }
    // SAFETY: the arguments are the system's.
    unsafe { driver::submit_command_to_hw_queue(context, args) }
}

/// A node that does other work proves no less: its engine cannot stop what it has begun, and has left the context unfinished whenever that was asked. That the machine goes on, and that
/// the finding fails a conformance case, is this system's rule; the pages have none.
#[test]
fn a_submission_that_is_lost_on_a_node_that_does_other_work_is_a_finding_that_names_it() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| {
        table.DxgkDdiSubmitCommandToHwQueue = Some(loses_nine);
        table.DxgkDdiSuspendContext = Some(suspends);
    };
    let config = MachineConfig { ram: 64 << 20, clock: Clock::manual(), ..MachineConfig::default() };
    let bench = Bench::with_config(Mutant { table, ..SOUND }, config).unwrap();
    let luid = bench.start().unwrap();
    let (lost, busy) = (open(&bench, luid).unwrap(), open(&bench, luid).unwrap());
    lost.submit(9).unwrap();
    for value in (10..).take(5 * TdrSettings::default().limit_count as usize) {
        busy.submit(value).unwrap();
        busy.wait(value).unwrap();
        stand(&bench, 1);
    }
    stop(&lost);
    stop(&busy);
    assert_eq!(bench.machine.bugcheck(), None);
    let rescues = bench.machine.take_rescues();
    assert_eq!(rescues, [(Rescue::LostSubmission, 1)], "{:#?}", bench.machine.debug_log());
    told_once(
        &bench,
        &[
            "node 0",
            "DxgkDdiSubmitCommandToHwQueue",
            "progress fence has 0x0, and expected is 0x9",
            "its submission is lost, a fault of it was not reported with DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED, or the hardware has never given it the engine",
            "[d3dkmddi: DXGKARG_SUBMITCOMMANDTOHWQUEUE]",
        ],
    );
}

/// Work that can be stopped anywhere may take as long as it likes: the system cannot tell, says so once, and goes on.
#[test]
fn a_queue_that_may_be_long_is_told_once_and_the_machine_goes_on() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let caps = |caps: &mut DXGK_DRIVERCAPS| {
        caps.PreemptionCaps.ComputePreemptionGranularity =
            D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY::D3DKMDT_COMPUTE_PREEMPTION_SHADER_BOUNDARY;
    };
    let (bench, queue) = started(Mutant { caps, ..LOSES });
    queue.submit(9).unwrap();
    stand(&bench, 5 * TdrSettings::default().limit_count);
    stop(&queue);
    assert_eq!(bench.machine.bugcheck(), None);
    told_once(
        &bench,
        &[
            "node 0",
            "DxgkDdiSubmitCommandToHwQueue",
            "progress fence has 0x0, and expected is 0x9",
            "long, waits in hardware or is lost, which the system cannot tell",
        ],
    );
}

/// What waits in the system has not been handed to the driver, and is nobody's fault.
#[test]
fn a_queue_that_waits_for_a_fence_that_nobody_has_signalled_is_told_as_that_and_goes_on_later() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (bench, queue) = started(Mutant { table: |table| table.DxgkDdiSuspendContext = Some(suspends), ..SOUND });
    let attached = queue.process.attach();
    let mut made = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { hDevice: queue.device, ..Zeroed::zeroed() };
    made.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
    let mut fence = call(thunks().D3DKMTCreateSynchronizationObject2, made).unwrap().hSyncObject;
    let mut value = 1;
    let wait = D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE {
        hHwQueue: queue.queue,
        ObjectCount: 1,
        ObjectHandleArray: &raw mut fence,
        FenceValueArray: &raw mut value,
    };
    call(thunks().D3DKMTSubmitWaitForSyncObjectsToHwQueue, wait).unwrap();
    drop(attached);
    queue.submit(9).unwrap();
    stand(&bench, 5 * TdrSettings::default().limit_count);
    assert_eq!(bench.machine.bugcheck(), None);
    let log = bench.machine.debug_log();
    let told: Vec<_> = log.iter().filter(|line| line.contains("has done nothing for")).collect();
    assert!(told.iter().all(|line| line.contains("waits in the system for a fence")) && told.len() < 2, "{log:#?}");
    let attached = queue.process.attach();
    let signal = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
        hDevice: queue.device,
        ObjectCount: 1,
        ObjectHandleArray: &raw mut fence,
        FenceValueArray: &raw mut value,
        ..Zeroed::zeroed()
    };
    call(thunks().D3DKMTSignalSynchronizationObjectFromCpu, signal).unwrap();
    drop(attached);
    queue.wait(9).unwrap();
    stop(&queue);
}

/// "STATUS_SUCCESS" is for a context that is suspended already; one that runs is never off its engine then. [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]
#[test]
fn suspensions_that_are_granted_early_again_and_again_are_0x116() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let caps = |caps: &mut DXGK_DRIVERCAPS| {
        caps.PreemptionCaps.ComputePreemptionGranularity =
            D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY::D3DKMDT_COMPUTE_PREEMPTION_SHADER_BOUNDARY;
    };
    let table = |table: &mut DRIVER_INITIALIZATION_DATA| {
        table.DxgkDdiSubmitCommandToHwQueue = Some(loses);
        table.DxgkDdiSuspendContext = Some(always_suspended);
    };
    let (bench, queue) = started(Mutant { caps, table, ..SOUND });
    queue.submit(9).unwrap();
    stand(&bench, 5 * TdrSettings::default().limit_count);
    stop(&queue);
    let bugcheck = bench.machine.bugcheck().expect("the suspensions are never done");
    assert_eq!((bugcheck.code, bugcheck.parameters[2]), (0x116, u64::from(STATUS_TIMEOUT.0 as u32)), "{bugcheck}");
    for part in ["DxgkDdiSuspendContext", "node 0", "STATUS_PENDING", "progress fence has 0x0, and expected is 0x9"] {
        assert!(bugcheck.reason.contains(part), "{part:?}: {bugcheck}");
    }
}
