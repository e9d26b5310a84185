//! Contexts of packets on a device that sleeps, is reset or is pulled out.

use std::sync::Arc;

use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY, NODE_PAGING};
use wddm_ddi::kmt::D3DKMT_DEVICEEXECUTION_STATE;
use wddm_ddi::status::STATUS_DEVICE_REMOVED;

use super::power_device::power_down;
use crate::kmt::{BAD_HANDLE, DEVICE_LOST};
use crate::rig::{Memory, PacketQueue, Rig, View, copy, fill, wait_until};
use crate::simulated::{Case, on_thread};
use crate::{Boot, Failure, granted, refused};

cases! { inside "Packet scheduling", behind "it changes power states, or pulls the GPU out";
    "Packet.WorkQueuedBeforeD3CompletesAfterIt" needs NativeFence on Boot::Fresh, "dxgkddi_setpowerstate":
        "Packets that wait in hardware, wait in the system for a fence or lie behind others when the device goes to D3 are executed after it, once and in order."
        => across_d3;
    "Packet.SubmissionInD3WakesTheDevice" on Boot::Fresh, "dxgkddi_setpowerstate":
        "A packet that is submitted to a device in D3 wakes it and runs, over and over, and what memory held before is there."
        => wakes;
    "Packet.RemovalReleasesWaiters" needs NativeFence on Boot::Fresh, "dxgkddi_notify_surprise_removal":
        "Packets of a GPU that is pulled out end where they are: threads that wait for them are released, nothing is submitted any more, and everything is closed once."
        => removal;
}

const STEPS: u64 = 12;

/// Memory in which each packet moves a word one place on: a lost packet leaves a gap, as one out of order does.
struct Chain {
    memory: Memory,
    view: View,
}

impl Chain {
    fn new(rig: &Rig) -> Result<Self, Failure> {
        let memory = rig.memory(4096, Placement::SystemUncached)?;
        let view = rig.view(memory)?;
        view.fill(0);
        Ok(Self { memory, view })
    }

    fn submit(&self, rig: &Rig, queue: &mut PacketQueue) -> Result<(), Failure> {
        rig.packet_submit(queue, &[fill(self.memory.address, 4, 0x77)])?;
        (1..STEPS).try_for_each(|step| {
            let at = self.memory.address + 4 * step;
            rig.packet_submit(queue, &[copy(at, at - 4, 4)]).map(drop)
        })
    }

    fn is_whole(&self) -> bool {
        self.view.read(0, 4 * STEPS).chunks(4).all(|word| word == 0x77_u32.to_le_bytes())
    }

    fn has_begun(&self) -> bool {
        self.view.read(0, 4) != [0; 4]
    }
}

fn across_d3(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let gate = rig.fence(0)?;
    let mut work = Vec::new();
    for node in [NODE_COMPUTE, NODE_COPY, NODE_PAGING] {
        // One waits in hardware, with packets behind it; the other one waits in the system.
        let (mut waits, mut held) = (rig.packet_queue(node)?, rig.packet_queue(node)?);
        let (first, second) = (Chain::new(&rig)?, Chain::new(&rig)?);
        rig.packet_submit(&mut waits, &[gate.wait(1)])?;
        first.submit(&rig, &mut waits)?;
        granted(rig.context_wait(held.context, &[(gate.handle, 1)]), "a wait of a context")?;
        second.submit(&rig, &mut held)?;
        work.extend([(waits, first), (held, second)]);
    }
    for _ in 0..2 {
        power_down(case.system)?;
        ensure!(!work.iter().any(|(_, chain)| chain.has_begun()), "something was executed before its fence");
        let woken = case.system.machine().power_up(case.system.luid());
        woken.map_err(|error| Failure::new(format!("the device was not powered up: {error}")))?;
    }
    // The GPU counts from the last power-up on, and nothing of this was executed before.
    let before = case.system.counters();
    granted(rig.signal(&[gate.handle], &[1]), "the signal of the CPU")?;
    let mut submissions = 0;
    for (queue, chain) in &work {
        rig.packet_wait(queue, queue.submitted)?;
        ensure!(chain.is_whole(), "packets were lost, or ran out of order");
        submissions += queue.submitted;
    }
    let signals = case.system.counters().since(&before).signals;
    ensure_eq!(signals, submissions, "signals of as many packets");
    Ok(())
}

fn wakes(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = case.rig()?;
    let (kept, seen) = (rig.memory(4096, Placement::Vram)?, rig.memory(4096, Placement::SystemUncached)?);
    let view = rig.view(seen)?;
    let mut queues = [rig.packet_queue(NODE_COMPUTE)?, rig.packet_queue(NODE_PAGING)?];
    for round in 1..=4 {
        for queue in &mut queues {
            rig.packet_execute(queue, &[fill(kept.address, 4096, round)])?;
            power_down(case.system)?;
            view.fill(0);
            rig.packet_execute(queue, &[copy(seen.address, kept.address, 4096)])?;
            let right = view.read(0, 4096).chunks(4).all(|word| word == round.to_le_bytes());
            ensure!(right, "memory was lost in sleep {round}");
        }
    }
    Ok(())
}

fn removal(case: &mut Case<'_>) -> Result<(), Failure> {
    // Where it is elsewhere the case ends here, before anybody waits for its removal.
    case.system.gpu();
    let rig = case.rig()?;
    let gate = rig.fence(0)?;
    let mut queues = Vec::new();
    for node in [NODE_COMPUTE, NODE_COPY, NODE_PAGING] {
        let (mut waits, mut held) = (rig.packet_queue(node)?, rig.packet_queue(node)?);
        rig.packet_submit(&mut waits, &[gate.wait(1)])?;
        granted(rig.context_wait(held.context, &[(gate.handle, 1)]), "a wait of a context")?;
        rig.packet_submit(&mut held, &[])?;
        queues.extend([waits, held]);
    }
    let process = Arc::clone(&case.process);
    std::thread::scope(|scope| {
        let wait = |queue: &PacketQueue| {
            let (process, rig, fence) = (&process, &rig, queue.progress.handle);
            scope.spawn(move || on_thread(process, || Ok(rig.wait(&[fence], &[1], false))))
        };
        let waiting: Vec<_> = queues.iter().map(wait).collect();
        let removed = case.system.pull_out(0).and_then(|()| case.system.notice_removal(0));
        for waiter in waiting {
            let status = waiter.join().map_err(|_| Failure::new("a waiter panicked"))??;
            refused(status, &[STATUS_DEVICE_REMOVED], "a wait for packets of a GPU that is gone")?;
        }
        Ok::<(), Failure>(removed?)
    })?;
    let stopped = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_STOPPED;
    ensure_eq!(rig.kmt.execution_state(rig.device)?, stopped, "state of the device");
    for queue in &queues {
        refused(rig.submit_buffer(queue.context, 0, 0), DEVICE_LOST, "a submission to a GPU that is gone")?;
        granted(rig.destroy_packet_context(queue.context), "destroying a context")?;
        refused(rig.destroy_packet_context(queue.context), BAD_HANDLE, "destroying it again")?;
    }
    granted(rig.destroy(), "destroying the device")?;
    case.system.start()?;
    let rig = case.rig()?;
    let mut queue = rig.packet_queue(NODE_COPY)?;
    let chain = Chain::new(&rig)?;
    chain.submit(&rig, &mut queue)?;
    rig.packet_wait(&queue, STEPS)?;
    ensure!(chain.is_whole(), "packets of the next adapter");
    wait_until("the end of the last packet", || queue.progress.value.load() == STEPS)
}
