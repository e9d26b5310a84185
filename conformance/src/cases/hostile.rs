//! Hostile user mode: whatever a process writes where it may write, its own queue alone pays.

use std::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::packet::Header;
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use fastrand::Rng;
use wddm_ddi::kmt::D3DKMT_DEVICEEXECUTION_STATE;

use super::fault::{Bystander, ring_for_error, wait_for_error};
use crate::kmt::DEVICE_LOST;
use crate::rig::{RING_ENTRIES, RawDoorbell, Rig, fill, wait_until};
use crate::{Boot, Case, Failure, granted, seed};

cases! { thunks "Hostile", needs HardwareScheduling;
    "Hostile.RandomRingsCostTheirOwner" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "Rings of random bytes with random write pointers put their device in error and no other."
        holds [UserModeSubmission 65]
        => random_rings;
    "Hostile.RandomCommandsCostTheirOwner" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "Command buffers of random bytes, and of packets with random fields, put their device in error or run, and disturb no other."
        holds [UserModeSubmission 65]
        => random_commands;
    "Hostile.RingTakenAwayUnderTheGpu" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A process that frees the GPU address of its ring or ring control while the GPU works on it puts its device in error and no other."
        holds [UserModeSubmission 27]
        => ring_taken_away;
    "Hostile.LastQueuedLiesCostTheLiar" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A last queued value that is never reached costs the device of whoever wrote it, when the queue is destroyed, and no other."
        holds [UserModeSubmission 36]
        => last_queued_lies;
    "Hostile.OldDoorbellValuesCostNobody" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "A doorbell that shows a value of before, as one rung late does, costs its queue nothing: the write pointer in memory counts, and the work of everybody goes on."
        holds [UserModeSubmission 66]
        => old_values;
    "Hostile.HammeredDoorbellsHoldNobodyUp" needs UserModeSubmission on Boot::Shared, "user-mode-work-submission":
        "While four threads store random values to their own doorbells without pause, another queue completes exactly what it was given."
        holds [UserModeSubmission 66]
        => hammered;
}

pub const ACTIVE: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;

/// Bytes without meaning, the same in every run.
fn bytes(random: &mut Rng, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    random.fill(&mut bytes);
    bytes
}

fn random_rings(case: &Case) -> Result<(), Failure> {
    let first = case.rig()?;
    let mut bystander = Bystander::new(&first)?;
    let mut random = Rng::with_seed(seed::of(1));
    for round in 0..40 {
        let rig = case.rig()?;
        let queue = rig.queue(if round % 2 == 0 { NODE_COMPUTE } else { NODE_COPY })?;
        queue.ring_view.write(0, &bytes(&mut random, queue.ring.size as usize));
        queue.commands_view.write(0, &bytes(&mut random, 4096));
        // In the ring, just outside it, and anywhere.
        let pointer = match round % 3 {
            0 => random.u64(..u64::from(RING_ENTRIES)) + 1,
            1 => u64::from(RING_ENTRIES) + random.u64(..3) + 1,
            _ => random.u64(..) | 1 << 20,
        };
        queue.control_view.write(0, &bytes(&mut random, 4096));
        queue.set_write_pointer(pointer);
        rig.ring_doomed(&queue)?;
        ring_for_error(&rig, &queue, pointer).map_err(|failure| Failure::new(format!("round {round}: {failure}")))?;
        queue.stands_at(0, &format!("round {round}"))?;
        bystander.works()?;
    }
    Ok(())
}

fn random_commands(case: &Case) -> Result<(), Failure> {
    let first = case.rig()?;
    let mut bystander = Bystander::new(&first)?;
    let mut random = Rng::with_seed(seed::of(2));
    let mut rigs = Vec::new();
    for round in 0..80_u32 {
        let rig = case.rig()?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        let mut commands = bytes(&mut random, 256);
        if round % 2 == 0 {
            // A believable head, so that the fields behind it are looked at.
            let opcode = (round / 2 % 12) as u8;
            let length = random.u8(1..=4);
            commands[..8]
                .copy_from_slice(&Header::new().with_opcode(opcode).with_length(length).into_bits().to_le_bytes());
        }
        queue.append_bytes(&commands)?;
        rig.ring_doomed(&queue)?;
        // Random bytes may make a WAIT that never ends, which is nobody else's matter.
        bystander.works()?;
        rigs.push(rig);
    }
    let in_error = |rig: &&Rig| rig.kmt.execution_state(rig.device).is_ok_and(|state| state != ACTIVE);
    wait_until("an error of every second device at least", || 2 * rigs.iter().filter(in_error).count() >= rigs.len())?;
    Ok(())
}

fn ring_taken_away(case: &Case) -> Result<(), Failure> {
    let first = case.rig()?;
    let mut bystander = Bystander::new(&first)?;
    for of_ring in [true, false] {
        let rig = case.rig()?;
        let mut queue = rig.queue(NODE_COPY)?;
        let target = rig.memory(1 << 20, Placement::System)?;
        for round in 0..20 {
            rig.submit(&mut queue, &[fill(target.address, 1 << 20, round)])?;
        }
        let held = rig.fence(0)?;
        rig.submit(&mut queue, &[held.wait(1)])?;
        let taken = if of_ring { queue.ring } else { queue.control };
        granted(rig.free(taken.address, taken.size), "freeing the address of the ring or its control")?;
        let mut is_read = true;
        for _ in 0..3 {
            // The error may come at any moment from here on.
            queue.append(&[])?;
            // An engine that was idle before may have given up the doorbell, which is not connected to a ring that the GPU cannot read.
            is_read &= rig.ring_unreadable(&queue)?;
        }
        let signalled = rig.signal(&[held.handle], &[1]);
        let lost = DEVICE_LOST.contains(&signalled);
        ensure!(lost || signalled.is_success(), "signalling what the queue waits for answered {signalled}");
        if is_read {
            wait_for_error(rig.kmt, rig.device)?;
        }
        bystander.works()?;
        ensure!(!rig.destroy_allocation(taken.handle).is_success(), "memory of a ring was freed under its doorbell");
    }
    Ok(())
}

fn last_queued_lies(case: &Case) -> Result<(), Failure> {
    let first = case.rig()?;
    let mut bystander = Bystander::new(&first)?;
    // Too small a value is only noted; too large a one is waited for when the queue goes.
    for (value, lost) in [(0, false), (1, false), (2, false), (3, true), (u64::MAX, true)] {
        let rig = case.rig()?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        for _ in 0..2 {
            rig.execute(&mut queue, &[])?;
        }
        queue.doorbell.last_queued.store(value);
        granted(rig.destroy_queue(&queue), "destroying the liar's queue")?;
        let state = rig.kmt.execution_state(rig.device)?;
        ensure_eq!(state != ACTIVE, lost, "device in error after the last queued value {value}");
        bystander.works()?;
    }
    Ok(())
}

fn old_values(case: &Case) -> Result<(), Failure> {
    const ROUNDS: u64 = 50;
    let rig = case.rig()?;
    let mut bystander = Bystander::new(&rig)?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    for _ in 0..2 {
        rig.execute(&mut queue, &[])?;
    }
    for round in 0..ROUNDS {
        queue.doorbell.store(1 + round % 2);
        // Whoever executes this has looked at the doorbells.
        bystander.works()?;
        ensure_eq!(rig.kmt.execution_state(rig.device)?, ACTIVE, "state after an old value");
    }
    rig.execute(&mut queue, &[])?;
    ensure_eq!(queue.progress.load(), 3, "progress behind the old values");
    Ok(())
}

/// Stores random values to a doorbell until told to stop, and says when it has begun; its queue's write pointer stays what it was.
fn hammer(rig: &Rig, doorbell: RawDoorbell, seed: u64, [begun, stop]: [&AtomicU64; 2]) -> Result<(), Failure> {
    let mut random = Rng::with_seed(seed);
    while stop.load(Ordering::Relaxed) == 0 {
        for _ in 0..1000 {
            doorbell.store(random.u64(..));
        }
        begun.fetch_add(1, Ordering::Relaxed);
        // The first one it believes costs the queue its device; the page can be stored to all the same.
        rig.kmt.execution_state(rig.device)?;
    }
    Ok(())
}

fn hammered(case: &Case) -> Result<(), Failure> {
    const ROUNDS: u64 = 100;
    let rig = case.rig()?;
    let mut queue = rig.queue(NODE_COMPUTE)?;
    let fence = rig.fence(0)?;
    let hands = (0..4).map(|_| {
        let rig = case.rig()?;
        let queue = rig.queue(NODE_COMPUTE)?;
        granted(rig.connect(queue.doorbell), "D3DKMTConnectDoorbell")?;
        Ok((rig, queue.doorbell))
    });
    let hands = hands.collect::<Result<Vec<_>, Failure>>()?;
    let (begun, stop) = ([(); 4].map(|()| AtomicU64::new(0)), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stop = &stop;
        let start = |((rig, doorbell), begun): ((Rig, RawDoorbell), _)| {
            let (words, drawn) = ([begun, stop], seed::of(u64::from(doorbell.handle)));
            scope.spawn(move || case.on_thread(|| hammer(&rig, doorbell, drawn, words)))
        };
        let threads: Vec<_> = hands.into_iter().zip(&begun).map(start).collect();
        let struck = || begun.iter().all(|hand| hand.load(Ordering::Relaxed) > 0);
        let begun = wait_until("the first strike of every hand", struck);
        let work = (1..=ROUNDS).try_for_each(|value| rig.execute(&mut queue, &[fence.signal(value)]));
        stop.store(1, Ordering::Relaxed);
        for thread in threads {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a hammering thread panicked")))?;
        }
        begun.and(work)
    })?;
    ensure_eq!((queue.progress.load(), fence.value.load()), (ROUNDS, ROUNDS), "progress and fence");
    ensure_eq!(rig.kmt.execution_state(rig.device)?, ACTIVE, "state of the innocent device");
    Ok(())
}
