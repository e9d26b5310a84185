//! Monitored fences, and the waits and signals that the kernel schedules for kernel-mode queues.

use crate::cases::fence_monitored::{private, queue_signal, queue_wait};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::{Clock, Process, TdrSettings};
use wddm_ddi::km::D3DDDI_CREATEHWQUEUEFLAGS;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmt::WRONG_KIND;
use crate::rig::{KernelHandle, Rig, fill, shared_flags, wait_until};
use crate::simulated::{Case, on_thread, with_gpu};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::{System, SystemOptions};

cases! { inside "MonitoredFence", needs HardwareScheduling, behind "it is several processes at a time, or moves the clock on";
    "MonitoredFence.WaitHoldsWhatComesAfterIt" on Boot::Shared, "context-monitoring":
        "A wait of a context returns at once; work submitted before it runs, work submitted after it runs when it is satisfied."
        holds [NativeFence 78, ContextMonitoring 15, ContextMonitoring 16]
        => wait_holds;
    "MonitoredFence.WorksWithoutNativeFences" on Boot::With(without_native), "context-monitoring":
        "Waits and signals of contexts work on a GPU without native fences."
        holds [NativeFence 78, ContextMonitoring 1]
        => wait_holds;
    "MonitoredFence.SignalComesAfterTheWork" on Boot::Shared, "context-monitoring":
        "A signal of a context is written when everything that was submitted before it is done, and not earlier."
        holds [NativeFence 78, ContextMonitoring 10]
        => signal_after_work;
    "MonitoredFence.BlockedQueueBlocksNoOther" on Boot::Shared, "context-monitoring":
        "A blocked queue blocks neither another queue of its context's device nor one of another process."
        holds [NativeFence 78, ContextMonitoring 16]
        => others_run;
    "MonitoredFence.OpensInAnotherProcess" on Boot::Shared, "d3dkmtopensyncobjectfromnthandle2":
        "A shared monitored fence is opened by another process, which waits for it and signals it."
        holds [NativeFence 78, ContextMonitoring 3, ContextMonitoring 18]
        => shared;
    "MonitoredFence.BadRequestsAreRefused" needs UserModeSubmission on Boot::Shared, "d3dkmtcreatesynchronizationobject2":
        "Objects of other kinds, flags that contradict each other, and waits of what cannot wait are refused and change nothing."
        holds [NativeFence 78, ContextMonitoring 2]
        => refusals;
    "MonitoredFence.ExitDropsBlockedWork" on Boot::With(by_hand), "context-monitoring":
        "The exit of a process with blocked work ends without any time having passed, and none of the blocked work runs or signals."
        holds [NativeFence 78, UserModeSubmission 44, ContextMonitoring 17]
        => exit;
    "MonitoredFence.ExitRunsWhatItsOwnWorkReleases" on Boot::With(by_hand), "context-monitoring":
        "Work of an exiting process that waits for a fence which other work of the process signals runs to its end, however long that other work takes."
        holds [NativeFence 78, UserModeSubmission 44, ContextMonitoring 17]
        => exit_runs_released;
}

fn without_native() -> SystemOptions {
    with_gpu(|gpu| gpu.native_fence = false)
}

/// A machine whose time stands still.
fn by_hand() -> SystemOptions {
    SystemOptions { clock: Clock::manual(), ..SystemOptions::default() }
}

fn wait_holds(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = private(&rig, 0)?;
    let (early, late) = (rig.memory(4096, Placement::System)?, rig.memory(4096, Placement::System)?);
    let (early_view, late_view) = (rig.view(early)?, rig.view(late)?);
    let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
    for round in 1..=20 {
        early_view.fill(0);
        late_view.fill(0);
        let before = rig.kernel_submit(&mut queue, &[fill(early.address, 4096, u32::MAX)])?;
        if round % 2 == 0 {
            queue_wait(&rig, &queue, &fence, 2 * round)?;
        } else {
            granted(rig.context_wait(queue.context, &[(fence.handle, 2 * round)]), "the wait of the context")?;
        }
        let after = rig.kernel_submit(&mut queue, &[fill(late.address, 4096, u32::MAX)])?;
        wait_until("the work before the wait", || queue.progress.load() >= before)?;
        ensure!(early_view.read(0, 4096).iter().all(|byte| *byte == 0xff), "work before the wait is not done");
        granted(rig.signal(&[fence.handle], &[2 * round - 1]), "a signal of too little")?;
        ensure!(late_view.read(0, 4096).iter().all(|byte| *byte == 0), "work behind the wait ran too early");
        ensure_eq!(queue.progress.load(), before, "progress while the queue is blocked");
        granted(rig.signal(&[fence.handle], &[2 * round]), "the signal")?;
        wait_until("the work behind the wait", || queue.progress.load() >= after)?;
        ensure!(late_view.read(0, 4096).iter().all(|byte| *byte == 0xff), "work behind the wait is not done");
    }
    Ok(())
}

fn signal_after_work(case: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 1 << 20;
    let rig = case.rig()?;
    let fence = private(&rig, 0)?;
    let memory = rig.memory(SIZE, Placement::System)?;
    let view = rig.view(memory)?;
    let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
    for round in 1..=20 {
        rig.kernel_submit(&mut queue, &[fill(memory.address, SIZE, round as u32)])?;
        match round % 3 {
            0 => queue_signal(&rig, &queue, &fence, round)?,
            1 => granted(rig.context_signal(queue.context, &[(fence.handle, round)]), "the context's signal")?,
            _ => {
                let flags = D3DDDICB_SIGNALFLAGS::new();
                let status = rig.context_signal2(&[queue.context], &[(fence.handle, round)], flags);
                granted(status, "D3DKMTSignalSynchronizationObjectFromGpu2")?;
            }
        }
        granted(rig.wait(&[fence.handle], &[round], false), "the wait of the processor")?;
        let last = view.read(SIZE - 4, 4);
        ensure!(last == (round as u32).to_le_bytes(), "the signal of {round} came before the work: {last:?}");
        ensure_eq!(fence.value.load(), round, "value after the wait");
    }
    Ok(())
}

fn others_run(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let fence = private(&rig, 0)?;
    let (mut held, mut free) = (rig.kernel_queue(NODE_COMPUTE)?, rig.kernel_queue(NODE_COMPUTE)?);
    queue_wait(&rig, &held, &fence, 1)?;
    let value = rig.kernel_submit(&mut held, &[])?;
    let done = rig.kernel_submit(&mut free, &[])?;
    wait_until("the other queue", || free.progress.load() >= done)?;
    case.in_other_process(|system| {
        let other = Rig::open(system.luid())?;
        let mut queue = other.kernel_queue(NODE_COMPUTE)?;
        let done = other.kernel_submit(&mut queue, &[])?;
        wait_until("the other process", || queue.progress.load() >= done)
    })?;
    ensure!(held.progress.load() < value, "the blocked queue ran");
    granted(rig.signal(&[fence.handle], &[1]), "signal")?;
    wait_until("the blocked queue", || held.progress.load() >= value)
}

fn shared(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mine = rig.monitored_fence(1, shared_flags())?;
    let handle = rig.share(&[mine.handle]).map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    let other = Process::new(case.system.machine(), "beside");
    let theirs = case.process.duplicate_handle(handle.raw(), &other);
    let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
    let theirs = KernelHandle(theirs.addr());
    let luid = case.system.luid();
    let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
    queue_wait(&rig, &queue, &mine, 2)?;
    let value = rig.kernel_submit(&mut queue, &[])?;
    let outcome = on_thread(&other, || {
        let rig = Rig::open(luid)?;
        let fence = rig.open_monitored(theirs)?;
        ensure_eq!(fence.value.load(), 1, "value that the other process reads");
        ensure!(fence.value.address() != mine.value.address(), "both processes have the value at one address");
        granted(rig.signal(&[fence.handle], &[2]), "signal of the other process")
    });
    other.exit();
    outcome?;
    wait_until("the queue", || queue.progress.load() >= value)?;
    ensure_eq!(mine.value.load(), 2, "value after the other process signalled");
    granted(handle.close(), "closing the kernel handle")
}

fn refusals(case: &mut Case<'_>) -> Result<(), Failure> {
    type Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE;
    let rig = case.rig()?;
    let none = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new();
    let before = case.process.handle_count();
    let unknown = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::from_bits(1 << 20);
    for (kind, flags, expected) in [
        (0, none, STATUS_INVALID_PARAMETER),
        (8, none, STATUS_INVALID_PARAMETER),
        (-1, none, STATUS_INVALID_PARAMETER),
        (Type::D3DDDI_NATIVE_FENCE.0, none, STATUS_NOT_SUPPORTED),
        (Type::D3DDDI_MONITORED_FENCE.0, unknown, STATUS_INVALID_PARAMETER),
        (Type::D3DDDI_MONITORED_FENCE.0, none.with_Shared(true), STATUS_INVALID_PARAMETER),
        (Type::D3DDDI_MONITORED_FENCE.0, none.with_NtSecuritySharing(true), STATUS_INVALID_PARAMETER),
    ] {
        match rig.create_sync_object(D3DDDI_SYNCHRONIZATIONOBJECT_TYPE(kind), 0, flags) {
            Ok(_) => return Err(Failure::new(format!("an object of kind {kind} with {flags:?} was created"))),
            Err(status) => refused(status, &[expected], &format!("an object of kind {kind} with {flags:?}"))?,
        }
    }
    ensure_eq!(case.process.handle_count(), before, "handles after refusals");
    let fence = private(&rig, 0)?;
    let pair = [(fence.handle, 1)];
    let invalid = &[STATUS_INVALID_PARAMETER];
    let (user, kernel) = (rig.queue(NODE_COMPUTE)?, rig.kernel_queue(NODE_COMPUTE)?);
    let plain = D3DDDICB_SIGNALFLAGS::new();
    refused(rig.queue_wait(user.queue, &pair), invalid, "a wait of a user-mode queue")?;
    refused(rig.queue_signal(&[user.queue], &pair, plain), invalid, "a signal of a user-mode queue")?;
    refused(rig.queue_wait(kernel.context, &pair), WRONG_KIND, "a wait of a context as a queue")?;
    refused(rig.context_wait(kernel.queue, &pair), WRONG_KIND, "a wait of a queue as a context")?;
    refused(rig.queue_wait(kernel.queue, &[]), invalid, "a wait for nothing")?;
    refused(rig.queue_wait(kernel.queue, &[(fence.handle, 1); 65]), invalid, "a wait for too many")?;
    refused(rig.queue_wait(kernel.queue, &[(rig.device, 1)]), WRONG_KIND, "a wait for a device")?;
    refused(rig.queue_signal(&[], &pair, plain), invalid, "a signal of no queue")?;
    let event = plain.with_EnqueueCpuEvent(true);
    refused(rig.queue_signal(&[kernel.queue], &pair, event), invalid, "an event where the structure has none")?;
    let progress = [(user.progress_fence, 9)];
    refused(rig.queue_signal(&[kernel.queue], &progress, plain), invalid, "a signal of a progress fence")?;
    contexts(&rig, &pair)?;
    ensure_eq!(fence.value.load(), 0, "value after refusals");
    Ok(())
}

/// A context stands for its queue only if that is the only one.
fn contexts(rig: &Rig, pair: &[(D3DKMT_HANDLE, u64)]) -> Result<(), Failure> {
    let context = rig.context(NODE_COMPUTE).map_err(|status| Failure::new(format!("a context: {status}")))?;
    let queue = |what| {
        let created = rig.hw_queue(context, D3DDDI_CREATEHWQUEUEFLAGS::new());
        created.map(drop).map_err(|status| Failure::new(format!("{what}: {status}")))
    };
    let invalid = &[STATUS_INVALID_PARAMETER];
    refused(rig.context_wait(context, pair), invalid, "a wait of a context without queues")?;
    queue("a queue")?;
    granted(rig.context_wait(context, &[(pair[0].0, 0)]), "a wait of a context with one queue")?;
    queue("another queue")?;
    refused(rig.context_wait(context, pair), invalid, "a wait of a context with two queues")?;
    refused(rig.context_signal(context, pair), invalid, "a signal of a context with two queues")
}

/// Runs `work` in a process that exits then, on a machine whose time stands still: whoever waited for time would wait for ever.
fn exits(
    system: &System,
    name: &str,
    work: impl FnOnce(&Process, &Rig) -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    let machine = system.machine();
    let process = Process::new(machine, name);
    let outcome = on_thread(&process, || work(&process, &Rig::open(system.luid())?));
    let ended = std::thread::scope(|scope| {
        let ending = scope.spawn(|| process.exit());
        let ended = wait_until("the end of the process in no time", || ending.is_finished());
        // A process that waits for time is to end all the same.
        while !ending.is_finished() {
            machine.advance(TdrSettings::default().delay);
        }
        ended
    });
    outcome.and(ended)
}

fn exit(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    for packets in [false, true] {
        let mine = rig.monitored_fence(0, shared_flags())?;
        let handle = rig.share(&[mine.handle]);
        let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
        exits(case.system, "beside", |process, rig| {
            let theirs = case.process.duplicate_handle(handle.raw(), process);
            let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
            let fence = rig.open_monitored(KernelHandle(theirs.addr()))?;
            if packets {
                let mut queue = rig.packet_queue(NODE_COMPUTE)?;
                granted(rig.context_wait(queue.context, &[(fence.handle, 5)]), "a wait")?;
                rig.packet_submit(&mut queue, &[])?;
                return granted(rig.context_signal(queue.context, &[(fence.handle, 9)]), "a signal");
            }
            let mut queue = rig.kernel_queue(NODE_COMPUTE)?;
            queue_wait(rig, &queue, &fence, 5)?;
            rig.kernel_submit(&mut queue, &[])?;
            queue_signal(rig, &queue, &fence, 9)
        })?;
        ensure_eq!(mine.value.load(), 0, "value after the exit");
        granted(rig.signal(&[mine.handle], &[5]), "signal")?;
        ensure_eq!(mine.value.load(), 5, "value after what was waited for");
        granted(handle.close(), "closing the kernel handle")?;
    }
    Ok(())
}

fn exit_runs_released(case: &mut Case<'_>) -> Result<(), Failure> {
    const SIZE: u64 = 8 << 20;
    let rig = case.rig()?;
    let done = rig.monitored_fence(0, shared_flags())?;
    let handle = rig.share(&[done.handle]);
    let handle = handle.map_err(|status| Failure::new(format!("D3DKMTShareObjects: {status}")))?;
    exits(case.system, "releasing", |process, rig| {
        let theirs = case.process.duplicate_handle(handle.raw(), process);
        let theirs = theirs.map_err(|status| Failure::new(format!("duplicating the handle: {status}")))?;
        let (done, gate) = (rig.open_monitored(KernelHandle(theirs.addr()))?, private(rig, 0)?);
        let (mut first, mut held) = (rig.kernel_queue(NODE_COPY)?, rig.kernel_queue(NODE_COMPUTE)?);
        let mut packets = rig.packet_queue(NODE_COMPUTE)?;
        let memory = rig.memory(SIZE, Placement::System)?;
        for round in 0..4 {
            rig.kernel_submit(&mut first, &[fill(memory.address, SIZE, round)])?;
        }
        queue_signal(rig, &first, &gate, 1)?;
        queue_wait(rig, &held, &gate, 1)?;
        rig.kernel_submit(&mut held, &[])?;
        queue_signal(rig, &held, &gate, 2)?;
        granted(rig.context_wait(packets.context, &[(gate.handle, 2)]), "a wait")?;
        rig.packet_submit(&mut packets, &[])?;
        granted(rig.context_signal(packets.context, &[(done.handle, 7)]), "a signal")
    })?;
    ensure_eq!(done.value.load(), 7, "value that the last of the released work signals");
    granted(handle.close(), "closing the kernel handle")
}
