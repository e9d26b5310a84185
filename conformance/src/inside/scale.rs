//! Very many queues on few doorbells.

use std::sync::Arc;

use campanile_device::Activity;
use campanile_hw::packet::{self, Packet};
use campanile_hw::private::Placement;
use campanile_hw::queue::RingEntry;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::Process;

use crate::kmt::Word;
use crate::rig::{RawDoorbell, Rig, user_mode_flags, wait_until};
use crate::simulated::{Case, with_gpu};
use crate::{Boot, Failure, granted};
use testbed::setup::{System, SystemOptions};

cases! { inside "Scale", needs UserModeSubmission, behind "it is hundreds of processes, and counts what the GPU executed";
    "Scale.ThousandsOfQueuesOnSixteenDoorbells" on Boot::With(sixteen_doorbells), "user-mode-work-submission":
        "Ten thousand queues of a hundred processes (a build without optimisations, or a GPU that is reached by messages, makes two thousand) share sixteen doorbells: each runs what it rang for, and idle ones change nothing in what a submission and a fence write touch."
        holds [UserModeSubmission 67]
        => many_doorbells;
    "Scale.HundredsOfQueuesOnTheGlobalDoorbell" on Boot::With(global_doorbell), "user-mode-work-submission":
        "Five hundred queues of twenty-five processes ring one doorbell for all, and each runs what it rang for."
        holds [UserModeSubmission 67]
        => one_doorbell;
}

fn sixteen_doorbells() -> SystemOptions {
    with_gpu(|gpu| gpu.doorbells = 16)
}

fn global_doorbell() -> SystemOptions {
    with_gpu(|gpu| gpu.global_doorbell = true)
}

/// Submissions whose costs are added up.
const SUBMISSIONS: u64 = 400;

/// A process with queues that run the same buffer from the same ring, each with its own progress.
struct Member {
    process: Arc<Process>,
    _rig: Rig,
    queues: Vec<(RawDoorbell, Word)>,
}

impl Member {
    fn new(system: &System, queues: u64) -> Result<Self, Failure> {
        let process = Process::new(system.machine(), "one of many");
        let attached = process.attach();
        let rig = Rig::open(system.luid())?;
        let [ring, control, commands] = [(); 3].map(|()| rig.memory(4096, Placement::System));
        let (ring, control, commands) = (ring?, control?, commands?);
        let done = Packet::Progress(packet::Progress { handle: 0, value: 1 });
        rig.view(commands)?.write(0, &done.encode()[..done.size()]);
        let entry = RingEntry { commands: commands.address, size: done.size() as u32, flags: 0, tag: 0, root: 0 };
        rig.view(ring)?.write(0, &entry.to_bytes());
        let mut made = Vec::new();
        for number in 0..queues {
            let refused = |what: &'static str| move |status| Failure::new(format!("queue {number}: {what}: {status}"));
            let node = if number % 2 == 0 { NODE_COMPUTE } else { NODE_COPY };
            let context = rig.context(node).map_err(refused("D3DKMTCreateHwContext"))?;
            let queue = rig.hw_queue(context, user_mode_flags()).map_err(refused("D3DKMTCreateHwQueue"))?;
            let doorbell = rig.doorbell(queue.hHwQueue, ring, control).map_err(refused("D3DKMTCreateDoorbell"))?;
            let progress = Word::new(queue.HwQueueProgressFenceCPUVirtualAddress, "the progress fence")?;
            made.push((RawDoorbell::new(&doorbell)?, progress));
        }
        // From here on every queue has one submission, of which it learns when it is rung or loses its doorbell.
        rig.view(control)?.store(campanile_hw::queue::CONTROL_WRITE_POINTER, 1);
        for (doorbell, _) in &made {
            doorbell.last_queued.store(1);
            granted(rig.connect(*doorbell), "D3DKMTConnectDoorbell")?;
            doorbell.store(1);
        }
        drop(attached);
        Ok(Self { process, _rig: rig, queues: made })
    }
}

/// What submissions of a queue touch, each of which signals a fence that another queue waits for.
fn cost(case: &Case<'_>) -> Result<Activity, Failure> {
    let rig = case.rig()?;
    let (mut queue, mut waiter) = (rig.queue(NODE_COMPUTE)?, rig.queue(NODE_COPY)?);
    let fence = rig.fence(0)?;
    let mut before = Activity::default();
    for value in 1..=SUBMISSIONS + 10 {
        if value == 11 {
            before = case.system.gpu().activity();
        }
        rig.submit(&mut waiter, &[fence.wait(value)])?;
        rig.execute(&mut queue, &[fence.signal(value)])?;
        wait_until("the waiting queue", || waiter.progress.load() == value)?;
    }
    let after = case.system.gpu().activity();
    Ok(Activity {
        queue_visits: after.queue_visits - before.queue_visits,
        waiter_visits: after.waiter_visits - before.waiter_visits,
        memory_accesses: after.memory_accesses - before.memory_accesses,
        table_walks: after.table_walks - before.table_walks,
        ..Activity::default()
    })
}

/// Processes, each with `queues` queues that have done their work.
fn crowd(case: &Case<'_>, processes: u64, queues: u64) -> Result<Vec<Member>, Failure> {
    let before = case.system.counters();
    let members = (0..processes).map(|_| Member::new(case.system, queues)).collect::<Result<Vec<_>, _>>()?;
    for (number, member) in members.iter().enumerate() {
        for (index, (_, progress)) in member.queues.iter().enumerate() {
            wait_until(&format!("the work of queue {index} of process {number}"), || progress.load() == 1)?;
        }
    }
    ensure_eq!(case.system.counters().since(&before).retired, processes * queues, "command buffers retired");
    Ok(members)
}

fn one_doorbell(case: &mut Case<'_>) -> Result<(), Failure> {
    crowd(case, 25, 20)?.iter().for_each(|member| member.process.exit());
    Ok(())
}

fn many_doorbells(case: &mut Case<'_>) -> Result<(), Failure> {
    let few = cfg!(debug_assertions) || case.system.is_by_messages();
    let (processes, queues) = if few { (40, 50) } else { (100, 100) };
    let alone = cost(case)?;
    let members = crowd(case, processes, queues)?;
    let crowded = cost(case)?;
    // Which of two nodes is faster decides about a look or two a submission; thousands of idle queues would add theirs to each.
    let most = |alone: u64| 2 * alone + 4 * SUBMISSIONS;
    for (what, crowded, alone) in [
        ("looks at queues", crowded.queue_visits, alone.queue_visits),
        ("looks at waiting queues", crowded.waiter_visits, alone.waiter_visits),
        ("memory accesses", crowded.memory_accesses, alone.memory_accesses),
        ("page-table walks", crowded.table_walks, alone.table_walks),
    ] {
        ensure!(crowded <= most(alone), "{SUBMISSIONS} submissions made {crowded} {what}, {alone} without the crowd");
    }
    members.iter().for_each(|member| member.process.exit());
    Ok(())
}
