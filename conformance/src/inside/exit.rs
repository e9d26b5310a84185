//! How processes end, in the documented order, and recovery after a device is lost.

use std::sync::OnceLock;

use crate::kmt::Word;
use campanile_hw::pci::BAR_DOORBELLS;
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;
use wddm_ddi::kmt::{D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS, D3DKMT_DESTROY_DOORBELL, D3DKMT_DEVICEEXECUTION_STATE};

use super::hang::{FATAL, Guest, arm, by_hand};
use super::power_device::power_down;
use crate::cases::context_destruction::joined;
use crate::rig::{RawQueue, Rig, fill, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted};
use testbed::setup::System;

cases! { inside "Exit", needs HardwareScheduling, behind "it ends processes and watches them end";
    "Exit.NormalWaitsForWhatWasQueued" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "A process that exits with work running is waited for: every submission is executed before its queue is destroyed."
        holds [UserModeSubmission 40]
        => normal_waits;
    "Exit.NormalFollowsThePage" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "At normal termination each doorbell is disconnected, then its last queued work completes, then the doorbell is destroyed, then its queue; nothing is suspended."
        holds [UserModeSubmission 40]
        => normal_order;
    "Exit.DoorbellsAreDisconnectedFirst" needs UserModeSubmission on Boot::With(by_hand), "user-mode-work-submission":
        "While the normal end of a process, or D3DKMTDestroyDoorbell, waits for work that the hardware has, the doorbell is disconnected already: its status says retry, what is stored to it reaches no hardware, and it is not destroyed before the work is done."
        holds [UserModeSubmission 40]
        => disconnected_first;
    "Exit.AbnormalFollowsThePage" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "At abnormal termination each context is suspended, then its doorbells are disconnected, then doorbells and queues are destroyed."
        holds [UserModeSubmission 42]
        => abnormal_order;
    "Exit.AbnormalWaitsForNothing" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "At abnormal termination work that runs, waits or is still in its ring is given up, and nothing of it is executed afterwards."
        holds [UserModeSubmission 42]
        => abnormal_waits_for_nothing;
    "Exit.WorkInRingsIsFoundAtNormalExit" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "Work that was written to a ring whose doorbell was never rung is found when the doorbell is disconnected, and executed."
        holds [UserModeSubmission 40]
        => work_in_rings;
    "Exit.BlockedWorkOfAGoneProcessFallsThrough" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "A process that exits while its queues wait for a fence that only its CPU could signal ends normally: the waits fall through and the work completes."
        holds [UserModeSubmission 42]
        => blocked_falls_through;
    "Exit.BlockedDestructionsEndWithTheirProcess" on Boot::Fresh, "pfnd3dddi_destroycontextcb":
        "A thread that waits in the destruction of a context or a hardware queue for work that nobody brings keeps no device awake, and ends with its process."
        => blocked_destructions;
    "Exit.OthersGoOn" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "Processes that end either way, with work of every kind, take nothing of another process with them."
        holds [UserModeSubmission 42]
        => others_go_on;
}

const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;

/// Cause of the end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Exit,
    Terminate,
}

/// Runs `work` in a new process, which then ends.
fn process_that(
    system: &System,
    end: End,
    work: impl FnOnce(&Rig) -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    let process = dxgkrnl::Process::new(system.machine(), "ending");
    let outcome = on_thread(&process, || work(&Rig::open(system.luid())?));
    match end {
        End::Exit => process.exit(),
        End::Terminate => process.terminate(),
    }
    outcome
}

/// The DDIs of `wanted` in the order of their calls while `work` runs and its process ends, several calls of one in a row as one: an
/// engine that enters F1 meanwhile disconnects the doorbell as well.
fn ddis(
    system: &System,
    end: End,
    wanted: &[&str],
    work: impl FnOnce(&Rig) -> Result<(), Failure> + Send,
) -> Result<Vec<String>, Failure> {
    let machine = system.machine();
    let process = dxgkrnl::Process::new(machine, "ending");
    let outcome = on_thread(&process, || work(&Rig::open(system.luid())?));
    machine.start_ddi_log(system.luid());
    match end {
        End::Exit => process.exit(),
        End::Terminate => process.terminate(),
    }
    let log = machine.take_ddi_log(system.luid());
    outcome?;
    let named = log.iter().filter_map(|name| name.strip_prefix("DxgkDdi"));
    let mut named: Vec<String> = named.filter(|name| wanted.contains(name)).map(str::to_owned).collect();
    named.dedup();
    Ok(named)
}

const TEARDOWN: &[&str] =
    &["SuspendContext", "DisconnectDoorbell", "DestroyDoorbell", "DestroyHwQueue", "DestroyHwContext"];

/// Bytes of one long fill.
const FILL: u64 = 1 << 20;

/// Long work: `count` fills of a large buffer.
fn long_work(rig: &Rig, queue: &mut RawQueue, count: u64) -> Result<(), Failure> {
    let large = rig.memory(FILL, Placement::Vram)?;
    (0..count).try_for_each(|_| rig.submit(queue, &[fill(large.address, FILL, 1)]).map(drop))
}

fn normal_waits(case: &mut Case<'_>) -> Result<(), Failure> {
    const EACH: u64 = 20;
    for node in [NODE_COMPUTE, NODE_COPY] {
        let (system, before) = (&*case.system, OnceLock::new());
        process_that(system, End::Exit, |rig| {
            let mut queue = rig.queue(node)?;
            let (large, fence) = (rig.memory(FILL, Placement::Vram)?, rig.fence(0)?);
            let _ = before.set(system.gpu().signals_ever());
            for value in 1..=EACH {
                rig.submit(&mut queue, &[fill(large.address, FILL, 1), fence.signal(value)])?;
            }
            Ok(())
        })?;
        let before = before.get().copied().unwrap_or_default();
        ensure_eq!(system.gpu().signals_ever() - before, EACH, "submissions executed at exit");
    }
    Ok(())
}

fn normal_order(case: &mut Case<'_>) -> Result<(), Failure> {
    let order = ddis(case.system, End::Exit, TEARDOWN, |rig| long_work(rig, &mut rig.queue(NODE_COMPUTE)?, 5))?;
    let expected = ["DisconnectDoorbell", "DestroyDoorbell", "DestroyHwQueue", "DestroyHwContext"];
    ensure_eq!(order, expected, "DDIs at normal termination");
    Ok(())
}

/// True if a word of the GPU's physical doorbells has this value.
fn reached_hardware(system: &System, value: u64) -> Result<bool, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("the doorbell pages of the GPU: {error}"));
    let size = system.gpu().bar_size(BAR_DOORBELLS).unwrap_or(0);
    let mut pages = vec![0; size as usize];
    system.gpu().read_bar(BAR_DOORBELLS, 0, &mut pages).map_err(failed)?;
    Ok(pages.chunks_exact(8).any(|word| word == value.to_ne_bytes()))
}

/// Object that ends while its work is on the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Process,
    Doorbell,
}

fn disconnected_first(case: &mut Case<'_>) -> Result<(), Failure> {
    // Behind the word that rings, where a page only keeps what is stored.
    const QUIET: usize = 1;
    let system = &*case.system;
    for (ending, mark) in [(Ending::Process, 0x1111_0000_0001), (Ending::Doorbell, 0x2222_0000_0001)] {
        let guest = Guest::new(system, "ending")?;
        let mut queue = guest.inside(|rig| rig.queue(NODE_COPY))?;
        // An engine that hangs does not rest, so that nothing else takes the doorbell away. Time is moved by nobody.
        let fault = arm(system, NODE_COPY, false);
        guest.inside(|rig| rig.submit(&mut queue, &[rig.fence(0)?.signal(FATAL)]))?;
        wait_until("the hang", || system.gpu().faults().fired(fault) == 1)?;
        let quiet = Word::new(queue.doorbell.page.address().wrapping_add(QUIET).cast(), "the doorbell page")?;
        quiet.store(mark);
        ensure!(reached_hardware(system, mark)?, "{ending:?}: the doorbell is not connected");
        system.machine().start_ddi_log(system.luid());
        let (seen, ended) = std::thread::scope(|scope| {
            let end = scope.spawn(|| match ending {
                Ending::Process => {
                    guest.process.exit();
                    Ok(())
                }
                Ending::Doorbell => guest.inside(|rig| {
                    let mut arguments = D3DKMT_DESTROY_DOORBELL { hDoorbell: queue.doorbell.handle };
                    granted(
                        rig.kmt.call(rig.kmt.table().D3DKMTDestroyDoorbell, &mut arguments),
                        "D3DKMTDestroyDoorbell",
                    )
                }),
            });
            let seen = wait_until("the doorbell is disconnected while its work goes on", || {
                queue.doorbell.state() == RETRY || end.is_finished()
            });
            let seen = seen.and_then(|()| {
                ensure!(!end.is_finished(), "{ending:?}: it ended before its work did");
                // The status is written first, so that nobody who finds the dummy page takes it for the hardware; then the page goes.
                let mut marks = mark + 1..;
                wait_until("a store reaches no hardware while the work goes on", || {
                    let Some(mark) = marks.next() else { return false };
                    quiet.store(mark);
                    end.is_finished() || matches!(reached_hardware(system, mark), Ok(false))
                })?;
                ensure!(!end.is_finished(), "{ending:?}: it ended before its work did");
                Ok(())
            });
            system.gpu().let_go(NODE_COPY);
            (seen, end.join().unwrap_or_else(|_| Err(Failure::new("the end panicked"))))
        });
        let log = system.machine().take_ddi_log(system.luid());
        seen.and(ended)?;
        let wanted = ["DxgkDdiDisconnectDoorbell", "DxgkDdiDestroyDoorbell"];
        let order: Vec<&str> = log.iter().map(String::as_str).filter(|name| wanted.contains(name)).collect();
        ensure_eq!(order, wanted, "DDIs of {ending:?}");
        guest.process.exit();
    }
    Ok(())
}

fn abnormal_order(case: &mut Case<'_>) -> Result<(), Failure> {
    let order = ddis(case.system, End::Terminate, TEARDOWN, |rig| {
        let gate = rig.fence(0)?;
        rig.submit(&mut rig.queue(NODE_COMPUTE)?, &[gate.wait(1)]).map(drop)
    })?;
    // An engine that entered F1 just before had disconnected the doorbell.
    let order: Vec<String> = order.into_iter().skip_while(|name| name != TEARDOWN[0]).collect();
    ensure_eq!(order, TEARDOWN, "DDIs at abnormal termination");
    Ok(())
}

fn abnormal_waits_for_nothing(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut after = rig.queue(NODE_COMPUTE)?;
    let before = case.system.gpu().signals_ever();
    process_that(case.system, End::Terminate, |rig| {
        let (gate, fence) = (rig.fence(0)?, rig.fence(0)?);
        let (mut waits, mut behind) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COMPUTE)?);
        rig.submit(&mut waits, &[gate.wait(1), fence.signal(1)])?;
        rig.submit(&mut waits, &[fence.signal(2)])?;
        // Written, and neither rung nor connected.
        behind.append(&[gate.wait(1), fence.signal(3)]).map(drop)
    })?;
    for _ in 0..20 {
        rig.execute(&mut after, &[])?;
    }
    ensure_eq!(case.system.gpu().signals_ever() - before, 0, "signals of the terminated process");
    Ok(())
}

fn work_in_rings(case: &mut Case<'_>) -> Result<(), Failure> {
    let before = case.system.gpu().signals_ever();
    process_that(case.system, End::Exit, |rig| {
        let fence = rig.fence(0)?;
        let mut queue = rig.queue(NODE_COPY)?;
        rig.execute(&mut queue, &[])?;
        for value in 1..=10 {
            queue.append(&[fence.signal(value)])?;
        }
        Ok(())
    })?;
    ensure_eq!(case.system.gpu().signals_ever() - before, 10, "submissions executed at exit");
    Ok(())
}

fn blocked_destructions(case: &mut Case<'_>) -> Result<(), Failure> {
    let system = &*case.system;
    for packets in [true, false] {
        let guest = Guest::new(system, "destroying")?;
        let queue = guest.inside(|rig| {
            let gate = rig.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())?.handle;
            if packets {
                let mut queue = rig.packet_queue(NODE_COPY)?;
                granted(rig.context_wait(queue.context, &[(gate, 1)]), "a wait of a context")?;
                rig.packet_submit(&mut queue, &[])?;
                return Ok(queue.context);
            }
            let mut queue = rig.kernel_queue(NODE_COPY)?;
            granted(rig.queue_wait(queue.queue, &[(gate, 1)]), "a wait of a hardware queue")?;
            rig.kernel_submit(&mut queue, &[])?;
            Ok(queue.queue)
        })?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                guest.inside(|rig| {
                    Ok(if packets { rig.destroy_packet_context(queue) } else { rig.destroy_hw_queue(queue) })
                })
            });
            wait_until("a thread that waits in the destruction", || guest.process.threads_in_thunks() == 1)?;
            let slept = power_down(system);
            let waited = !thread.is_finished();
            guest.process.exit();
            let status = joined(thread)?;
            slept?;
            ensure!(waited, "the destruction answered {status} while its work waited");
            ensure_eq!(guest.process.handle_count(), 0, "handles of a process that is gone");
            Ok(())
        })?;
    }
    let rig = case.rig()?;
    rig.packet_execute(&mut rig.packet_queue(NODE_COPY)?, &[])
}

fn blocked_falls_through(case: &mut Case<'_>) -> Result<(), Failure> {
    for node in [NODE_COMPUTE, NODE_COPY] {
        let before = case.system.gpu().signals_ever();
        let order = ddis(case.system, End::Exit, TEARDOWN, |rig| {
            let (gate, fence) = (rig.fence(0)?, rig.fence(0)?);
            let mut queue = rig.queue(node)?;
            rig.submit(&mut queue, &[gate.wait(1), fence.signal(1)])?;
            rig.submit(&mut queue, &[gate.wait(2), fence.signal(2)]).map(drop)
        })?;
        let expected = ["DisconnectDoorbell", "DestroyDoorbell", "DestroyHwQueue", "DestroyHwContext"];
        ensure_eq!(order, expected, "DDIs at the exit of a process with blocked work");
        ensure_eq!(case.system.gpu().signals_ever() - before, 2, "submissions executed at exit");
    }
    Ok(())
}

fn others_go_on(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut mine = [rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?];
    let memory = rig.memory(1 << 20, Placement::Vram)?;
    for round in 0..6_u32 {
        let end = if round % 2 == 0 { End::Exit } else { End::Terminate };
        for queue in &mut mine {
            rig.submit(queue, &[fill(memory.address, 1 << 20, round)])?;
        }
        process_that(case.system, end, |other| {
            let gate = other.fence(0)?;
            long_work(other, &mut other.queue(NODE_COPY)?, 3)?;
            other.submit(&mut other.queue(NODE_COMPUTE)?, &[gate.wait(1)])?;
            other.queue(NODE_COPY)?.append(&[]).map(drop)
        })?;
        for queue in &mut mine {
            rig.execute(queue, &[])?;
        }
    }
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    ensure_eq!(rig.kmt.execution_state(rig.device)?, active, "state of the device of the other process");
    Ok(())
}
