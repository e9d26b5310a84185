//! Rings whose doorbell was taken away: what user mode wrote to them since is executed, however they end.

use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;
use wddm_ddi::kmt::{D3DKMT_DESTROY_DOORBELL, D3DKMT_DEVICEEXECUTION_STATE};

use super::hang::Guest;
use super::power_device::power_down;
use crate::rig::{KernelHandle, RING_ENTRIES, RawFence, RawQueue, Rig, wait_until};
use crate::simulated::{Case, one_doorbell, with_gpu};
use crate::{Boot, Failure, granted};
use testbed::setup::{System, SystemOptions};

cases! { inside "Exit", needs HardwareScheduling, behind "it ends processes, puts devices to sleep and counts what the GPU executed";
    "Exit.DoorbellLostToF1CostsNoWork" needs UserModeSubmission on Boot::With(eager), "user-mode-work-submission":
        "What is in a ring whose doorbell an engine in transition to F1 lost is executed when the process exits, the doorbell is destroyed or the ring is replaced, for every queue of every context; the device stays active."
        holds [UserModeSubmission 41]
        => lost_to_f1;
    "Exit.DoorbellLostToAnotherQueueCostsNoWork" needs UserModeSubmission on Boot::With(one_doorbell), "user-mode-work-submission":
        "What is in a ring whose doorbell was given to another queue is executed when the process exits, the doorbell is destroyed or the ring is replaced, for every queue of every context; the device stays active."
        holds [UserModeSubmission 41]
        => lost_to_another;
    "Exit.DoorbellLostToD3CostsNoWork" needs UserModeSubmission on Boot::Fresh, "user-mode-work-submission":
        "What is in a ring whose doorbell a device in D3 lost is executed when the process exits, the doorbell is destroyed or the ring is replaced, for every queue of every context; the device stays active."
        holds [UserModeSubmission 41]
        => lost_to_d3;
    "Exit.NormalDisconnectsEveryQueue" needs UserModeSubmission on Boot::With(eager), "user-mode-work-submission":
        "At normal termination the driver is told to disconnect the doorbell of each queue once, also one that was taken away or never connected, before the first doorbell is destroyed."
        holds [UserModeSubmission 40]
        => normal_disconnects_every_queue;
    "Exit.AbnormalDisconnectsEveryQueue" needs UserModeSubmission on Boot::With(eager), "user-mode-work-submission":
        "At abnormal termination every context is suspended before the driver is told to disconnect the doorbell of each queue, also one that was taken away or never connected; nothing that is in the rings is executed."
        holds [UserModeSubmission 42]
        => abnormal_disconnects_every_queue;
}

const RETRY: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;

/// Submissions that each queue has in its ring at the end.
const EACH: u64 = 3;

/// Engines that are idle as soon as they have nothing to do.
fn eager() -> SystemOptions {
    with_gpu(|gpu| gpu.idle_ticks = 1)
}

/// Cause of the end of a ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    ProcessExits,
    DoorbellIsDestroyed,
    RingIsReplaced,
}

/// Two contexts on different nodes with two queues each, all of which have worked.
fn queues(rig: &Rig) -> Result<Vec<RawQueue>, Failure> {
    let mut queues = Vec::new();
    for node in [NODE_COMPUTE, NODE_COPY] {
        let context = rig.context(node).map_err(|status| Failure::new(format!("D3DKMTCreateHwContext: {status}")))?;
        for _ in 0..2 {
            let mut queue = rig.queue_on(context, RING_ENTRIES)?;
            rig.execute(&mut queue, &[])?;
            queues.push(queue);
        }
    }
    Ok(queues)
}

fn wait_for_retry(queues: &[RawQueue]) -> Result<(), Failure> {
    wait_until("every doorbell is disconnected", || queues.iter().all(|queue| queue.doorbell.state() == RETRY))
}

/// Fences of the case's process, whose values can be read when the guest's is gone, each with what the guest has of it.
fn fences(case: &Case<'_>, watcher: &Rig, guest: &Guest, count: usize) -> Result<Vec<(RawFence, RawFence)>, Failure> {
    let shared = |_| {
        let fence = watcher.shared_fence(0)?;
        let handle = watcher.share(&[fence.handle]);
        let handle = handle.and_then(|handle| case.process.duplicate_handle(handle.raw(), &guest.process));
        let handle = handle.map_err(|status| Failure::new(format!("sharing a fence: {status}")))?;
        Ok((fence, guest.inside(|rig| rig.open_fence(KernelHandle(handle.addr())))?))
    };
    (0..count).map(shared).collect()
}

fn values(fences: &[(RawFence, RawFence)]) -> Vec<u64> {
    fences.iter().map(|(fence, _)| fence.value.load()).collect()
}

/// Ends a ring, and checks that everything in it was executed first.
fn end(rig: &Rig, queue: &mut RawQueue, last: u64, ending: Ending) -> Result<(), Failure> {
    if ending == Ending::DoorbellIsDestroyed {
        let mut arguments = D3DKMT_DESTROY_DOORBELL { hDoorbell: queue.doorbell.handle };
        granted(rig.kmt.call(rig.kmt.table().D3DKMTDestroyDoorbell, &mut arguments), "D3DKMTDestroyDoorbell")?;
    }
    // After the doorbell was destroyed its queue gets a new one as well.
    granted(rig.resize(queue, 2 * RING_ENTRIES)?, "the next ring")?;
    ensure_eq!(queue.progress.load(), last, "progress when the ring had ended");
    rig.execute(queue, &[])?;
    let active = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
    ensure_eq!(rig.kmt.execution_state(rig.device)?, active, "state of the device");
    Ok(())
}

/// Loses the doorbells of a process by `lose`, rings all of them and ends the rings in every way.
fn lose_and_end(case: &Case<'_>, lose: impl FnMut(&System, &[RawQueue]) -> Result<(), Failure>) -> Result<(), Failure> {
    ring_and_end(case, RETRY, lose)
}

/// Has `prepare` bring the doorbells of a process to a state in which ringing is not enough, rings all of them and ends the rings in every
/// way.
pub(super) fn ring_and_end(
    case: &Case<'_>,
    state: D3DDDI_DOORBELLSTATUS,
    mut prepare: impl FnMut(&System, &[RawQueue]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (system, watcher) = (&*case.system, case.rig()?);
    for ending in [Ending::ProcessExits, Ending::DoorbellIsDestroyed, Ending::RingIsReplaced] {
        let guest = Guest::new(system, "ending")?;
        let mut queues = guest.inside(queues)?;
        let fences = fences(case, &watcher, &guest, queues.len())?;
        prepare(system, &queues)?;
        for (queue, (_, fence)) in queues.iter_mut().zip(&fences) {
            (1..=EACH).try_for_each(|value| queue.append(&[fence.signal(value)]).map(drop))?;
            queue.doorbell.store(queue.written());
        }
        ensure!(
            queues.iter().all(|queue| queue.doorbell.state() == state),
            "{ending:?}: a doorbell is not at {state:?}"
        );
        if ending != Ending::ProcessExits {
            guest.inside(|rig| queues.iter_mut().try_for_each(|queue| end(rig, queue, EACH + 1, ending)))?;
        }
        guest.process.exit();
        ensure_eq!(values(&fences), vec![EACH; queues.len()], "values that the queues signalled, {ending:?}");
    }
    Ok(())
}

fn lost_to_f1(case: &mut Case<'_>) -> Result<(), Failure> {
    lose_and_end(case, |_, queues| wait_for_retry(queues))
}

fn lost_to_another(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let mut thief = rig.queue(NODE_COPY)?;
    lose_and_end(case, |_, queues| {
        granted(rig.connect(thief.doorbell), "D3DKMTConnectDoorbell")?;
        rig.execute(&mut thief, &[])?;
        wait_for_retry(queues)
    })
}

fn lost_to_d3(case: &mut Case<'_>) -> Result<(), Failure> {
    lose_and_end(case, |system, queues| {
        power_down(system)?;
        wait_for_retry(queues)
    })
}

/// The DDIs about the end of queues while the process of a guest ends by `end`, and what its queues signal. All of them have a submission
/// in their rings, and the doorbell of one was never connected.
fn ddis_of_end(case: &Case<'_>, end: impl FnOnce(&Guest)) -> Result<(Vec<String>, Vec<u64>), Failure> {
    const WANTED: [&str; 3] = ["SuspendContext", "DisconnectDoorbell", "DestroyDoorbell"];
    let (system, watcher) = (&*case.system, case.rig()?);
    let guest = Guest::new(system, "ending")?;
    let mut queues = guest.inside(queues)?;
    let never = guest.inside(|rig| rig.queue(NODE_COPY))?;
    let fences = fences(case, &watcher, &guest, queues.len() + 1)?;
    // The status is written before the hardware looks at the ring, which may find what is written at once.
    let in_f1 =
        |node| system.machine().power_components(system.luid()).iter().any(|one| one.node == node && one.fstate == 1);
    wait_until("F1", || [NODE_COMPUTE, NODE_COPY].into_iter().all(|node| in_f1(Some(node))))?;
    wait_for_retry(&queues)?;
    queues.push(never);
    for (queue, (_, fence)) in queues.iter_mut().zip(&fences) {
        queue.append(&[fence.signal(EACH)])?;
    }
    system.machine().start_ddi_log(system.luid());
    end(&guest);
    let log = system.machine().take_ddi_log(system.luid());
    let named = log.iter().filter_map(|name| name.strip_prefix("DxgkDdi"));
    Ok((named.filter(|name| WANTED.contains(name)).map(str::to_owned).collect(), values(&fences)))
}

fn normal_disconnects_every_queue(case: &mut Case<'_>) -> Result<(), Failure> {
    let (order, values) = ddis_of_end(case, |guest| guest.process.exit())?;
    let expected = [["DisconnectDoorbell"; 5], ["DestroyDoorbell"; 5]].concat();
    ensure_eq!(order, expected, "DDIs at normal termination");
    ensure_eq!(values, [EACH; 5], "values signalled at normal termination");
    Ok(())
}

fn abnormal_disconnects_every_queue(case: &mut Case<'_>) -> Result<(), Failure> {
    let (order, values) = ddis_of_end(case, |guest| guest.process.terminate())?;
    let expected = [&["SuspendContext"; 3][..], &["DisconnectDoorbell"; 5], &["DestroyDoorbell"; 5]].concat();
    ensure_eq!(order, expected, "DDIs at abnormal termination");
    ensure_eq!(values, [0; 5], "values signalled at abnormal termination");
    Ok(())
}
