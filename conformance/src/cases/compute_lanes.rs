//! DISPATCH: what lanes do together - branches, workgroup memory, atomics, subgroups.
//!
//! The requirement is the instruction set, in the chapter on it of the hardware manual.

use campanile_hw::isa::LANES;
use campanile_hw::packet::Packet;
use campanile_hw::registers::NODE_COMPUTE;

use super::compute_lab::Lab;
use crate::rig::wait_until;
use crate::{Boot, Case, Failure};

cases! { thunks "Compute", needs HardwareScheduling;
    "Compute.EveryLaneOfTheGridRunsOnce" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Each lane of a grid in three dimensions of workgroups in three dimensions runs once and knows its place; the lanes of no other place run."
        => every_lane;
    "Compute.DivergentLanesMeetAgain" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Lanes that take different branches, leave a loop after different numbers of iterations or continue early each compute what they would alone, and go on together behind the block."
        => divergence;
    "Compute.FunctionsReturnLaneByLane" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Lanes that return from a function early wait for the others behind the call, and lanes that did not call it are not changed."
        => functions;
    "Compute.BarriersOrderWorkgroupMemory" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "What the lanes of one subgroup store to workgroup memory before a barrier all subgroups of the workgroup load behind it, and no other workgroup does."
        => barriers;
    "Compute.WorkgroupMemoryStartsAsZero" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Workgroup memory and scratch memory are zero when a workgroup starts, whatever a workgroup or a process before it left there."
        => starts_as_zero;
    "Compute.ScratchIsOfOneLane" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Each lane reads from its scratch memory what it wrote there itself."
        => scratch;
    "Compute.AtomicsCountExactly" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Atomic additions of all lanes of many workgroups, of 32 and 64 bits, to memory and to workgroup memory, lose none."
        => atomics;
    "Compute.AtomicsOfTwoQueuesCountExactly" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Atomic additions of dispatches on two queues that have the node in turn lose none."
        => atomics_of_two_queues;
    "Compute.AtomicsReturnWhatWasThere" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "An atomic operation returns the value before it: of additions of 1 each value comes once; a compare-exchange stores only where the comparand was there."
        => atomics_return;
    "Compute.SubgroupsLookAcrossLanes" needs UserModeSubmission on Boot::Shared, "docs/hardware.md":
        "Ballot, votes, shuffles, reductions and scans combine the active lanes of a subgroup and no others."
        => subgroups;
}

fn every_lane(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    // 4 x 3 x 2 workgroups of 5 x 3 x 3 lanes: 20 x 9 x 6 places, each counts 1 and its own place.
    let text = ".workgroup 5, 3, 3
        arguments d0
        system.global_id_x w0\nsystem.global_id_y w1\nsystem.global_id_z w2
        mul.i32 w3, w2, 9\nadd.i32 w3, w3, w1\nmul.i32 w3, w3, 20\nadd.i32 w3, w3, w0
        index d1, d0, w3, 8
        mov.i32 w4, 1
        atomic.i32.add.device.relaxed w4, [d1], w4
        store.w1 [d1 + 4], w3
        exit";
    let report = lab.run(text, [4, 3, 2])?;
    ensure_eq!(report.lanes, 20 * 9 * 6, "lanes");
    for place in 0..20 * 9 * 6 {
        ensure_eq!(
            lab.words(2 * place, 2),
            [1, place as u32],
            "times that place {place} ran, and what it took itself for"
        );
    }
    ensure_eq!(lab.words(2 * 20 * 9 * 6, 64), [0; 64], "what lies behind the grid");
    Ok(())
}

fn divergence(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    // Of n: the sum of the odd ones of 1..=n but 7, and a branch in a branch; then the lanes that are together behind it all.
    let text = ".workgroup 64, 1, 1
        arguments d0
        system.global_id_x w0
        mov.i32 w1, 0
        mov.i32 w2, 0
        loop
            cmp.i32.ge_u p0, w2, w0
            break_if p0
            add.i32 w2, w2, 1
            and.i32 w3, w2, 1
            cmp.i32.eq p0, w3, 0
            continue_if p0
            cmp.i32.eq p0, w2, 7
            if p0
                continue
            end_if
            add.i32 w1, w1, w2
        end_loop
        cmp.i32.gt_u p0, w0, 40
        if p0
            add.i32 w1, w1, 1000
            and.i32 w3, w0, 3
            cmp.i32.eq p1, w3, 2
            if p1
                mul.i32 w1, w1, 3
            else
                sub.i32 w1, w1, 5
            end_if
        else
            xor.i32 w1, w1, 21845
        end_if
        cmp.i32.eq p0, w0, w0
        ballot w4, p0
        index d1, d0, w0, 8
        store.w2 [d1], w1
        store.w1 [d1 + 4], w4
        exit";
    lab.run(text, [2, 1, 1])?;
    for lane in 0..128_u32 {
        let sum: u32 = (1..=lane).filter(|number| number % 2 == 1 && *number != 7).sum();
        let expected = match (lane > 40, lane % 4 == 2) {
            (true, true) => (sum + 1000) * 3,
            (true, false) => sum + 1000 - 5,
            (false, _) => sum ^ 0x5555,
        };
        ensure_eq!(lab.words(2 * u64::from(lane), 2), [expected, u32::MAX], "result of lane {lane}, and lanes with it");
    }
    Ok(())
}

fn functions(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    let text = ".workgroup 32, 1, 1
        .function main
        arguments d0
        system.global_id_x w0
        mov.i32 w1, 1
        cmp.i32.ge_u p0, w0, 8
        if p0
            call outer
            add.i32 w1, w1, 10000
        end_if
        index d1, d0, w0, 4
        store.w1 [d1], w1
        exit
        .function outer
        cmp.i32.lt_u p1, w0, 16
        if p1
            add.i32 w1, w1, 100
            ret
        end_if
        call inner
        call inner
        ret
        .function inner
        add.i32 w1, w1, w0
        ret";
    lab.run(text, [1, 1, 1])?;
    for lane in 0..32_u32 {
        let expected = match lane {
            0..8 => 1,
            8..16 => 10_101,
            _ => 10_001 + 2 * lane,
        };
        ensure_eq!(lab.word(lane.into()), expected, "result of lane {lane}");
    }
    Ok(())
}

fn barriers(case: &Case) -> Result<(), Failure> {
    const SIZE: u64 = 256;
    const GROUPS: u64 = 6;
    let mut lab = Lab::new(case)?;
    // Each lane leaves its number; then lane n adds what lane 255 - n has to what it has itself, for some rounds.
    let text = ".workgroup 256, 1, 1
        .shared 2048
        arguments d0
        system.local_index w0
        system.global_id_x w1
        mul.i32 w2, w0, 4
        sub.i32 w3, w0, 255\nneg.i32 w3, w3\nmul.i32 w3, w3, 4
        mul.i32 w4, w1, 7
        mov.i32 w6, 0
        loop
            cmp.i32.ge_u p0, w6, 5
            break_if p0
            store_shared.w1 [w2], w4
            barrier.workgroup.acquire_release
            load_shared.w1 w5, [w3]
            add.i32 w4, w4, w5
            add.i32 w4, w4, w0
            barrier.workgroup.acquire_release
            add.i32 w6, w6, 1
        end_loop
        index d1, d0, w1, 4
        store.w1 [d1], w4
        exit";
    lab.run(text, [GROUPS as u32, 1, 1])?;
    for group in 0..GROUPS {
        let mut values: Vec<u32> = (0..SIZE).map(|lane| (group * SIZE + lane) as u32 * 7).collect();
        for _ in 0..5 {
            let before = values.clone();
            for (lane, value) in (0u32..).zip(&mut values) {
                *value = value.wrapping_add(before[SIZE as usize - 1 - lane as usize]).wrapping_add(lane);
            }
        }
        ensure_eq!(lab.words(group * SIZE, SIZE), values, "what workgroup {group} came to");
    }
    Ok(())
}

fn starts_as_zero(case: &Case) -> Result<(), Failure> {
    // Every workgroup adds up what it finds, and leaves something else.
    let text = ".workgroup 32, 1, 1
        .shared 256
        .scratch 64
        arguments d0
        system.lane_id w0
        mul.i32 w1, w0, 8
        load_shared.w2 w2, [w1]
        mov.i32 w4, 8
        load_scratch.w2 w5, [w4]
        or.i32 w2, w2, w3\nor.i32 w2, w2, w5\nor.i32 w2, w2, w6
        mov.i32 w3, 1431655765
        store_shared.w2 [w1], w3
        store_scratch.w2 [w4], w3
        store_shared.w1 [w1], w3
        store_scratch.w1 [w4], w3
        atomic.i32.or.device.relaxed w7, [d0], w2
        atomic.i32.add.device.relaxed w7, [d0 + 4], w3
        exit";
    for _ in 0..2 {
        let mut lab = Lab::new(case)?;
        for _ in 0..2 {
            lab.run(text, [8, 1, 1])?;
        }
        ensure_eq!(lab.word(0), 0, "bits that some workgroup found");
        ensure_eq!(lab.word(1), 0x5555_5555_u32.wrapping_mul(2 * 8 * 32), "sum of what the lanes left");
    }
    Ok(())
}

fn scratch(case: &Case) -> Result<(), Failure> {
    let mut lab = Lab::new(case)?;
    let text = ".workgroup 64, 1, 1
        .scratch 32
        arguments d0
        system.global_id_x w0
        mov.i32 w1, 0
        mul.i32 w2, w0, 3
        store_scratch.w1 [w1 + 24], w2
        store_scratch.u8 [w1 + 28], w0
        barrier.workgroup.acquire_release
        load_scratch.w1 w3, [w1 + 24]
        load_scratch.s8 w4, [w1 + 28]
        index d1, d0, w0, 8
        store.w2 [d1], w3
        exit";
    lab.run(text, [4, 1, 1])?;
    for lane in 0..256_u32 {
        let byte = lane as u8 as i8 as u32;
        ensure_eq!(lab.words(2 * u64::from(lane), 2), [lane * 3, byte], "what lane {lane} read");
    }
    Ok(())
}

/// Adds 1 to a word and the place to a double, in memory and by way of workgroup memory.
const ADDING: &str = ".workgroup 96, 1, 1
    .shared 8
    arguments d0
    system.global_id_x w0
    widen_u d1, w0
    mov.i32 w1, 1
    atomic.i32.add.device.relaxed w2, [d0], w1
    atomic.i64.add.device.relaxed d2, [d0 + 8], d1
    mov.i32 w3, 0
    atomic_shared.i32.add.workgroup.relaxed w2, [w3], w1
    barrier.workgroup.acquire_release
    system.local_index w4
    cmp.i32.eq p0, w4, 0
    if p0
        load_shared.w1 w5, [w3]
        atomic.i32.add.device.relaxed w2, [d0 + 4], w5
    end_if
    exit";

fn atomics(case: &Case) -> Result<(), Failure> {
    const GROUPS: u32 = 200;
    let lanes = 96 * GROUPS;
    let mut lab = Lab::new(case)?;
    let report = lab.run(ADDING, [GROUPS, 1, 1])?;
    ensure_eq!(lab.words(0, 2), [lanes, lanes], "additions to memory, and by way of workgroup memory");
    ensure_eq!(lab.double(1), u64::from(lanes) * u64::from(lanes - 1) / 2, "sum of the places");
    ensure_eq!(report.atomics, u64::from(3 * lanes + GROUPS), "atomic operations");
    Ok(())
}

fn atomics_of_two_queues(case: &Case) -> Result<(), Failure> {
    const GROUPS: u32 = 60;
    let mut lab = Lab::new(case)?;
    let mut other = lab.rig.queue(NODE_COMPUTE)?;
    let dispatch = Packet::Dispatch(campanile_hw::packet::Dispatch { report: 0, ..lab.load(ADDING, [GROUPS, 1, 1])? });
    for _ in 0..3 {
        lab.rig.submit(&mut lab.queue, &[dispatch])?;
        lab.rig.submit(&mut other, &[dispatch])?;
    }
    wait_until("both queues", || lab.queue.progress.load() >= 3 && other.progress.load() >= 3)?;
    let lanes = 6 * 96 * GROUPS;
    ensure_eq!(lab.words(0, 2), [lanes, lanes], "additions to memory, and by way of workgroup memory");
    Ok(())
}

fn atomics_return(case: &Case) -> Result<(), Failure> {
    const LANES_ALL: u32 = 64 * 16;
    let mut lab = Lab::new(case)?;
    // Each lane marks the ticket that it drew; the one whose compare-exchange of 5 comes first adds to a third word.
    let text = ".workgroup 64, 1, 1
        arguments d0
        mov.i32 w1, 1
        atomic.i32.add.device.relaxed w2, [d0], w1
        index d1, d0, w2, 4
        atomic.i32.add.device.relaxed w3, [d1 + 256], w1
        mov.i32 w4, 9
        mov.i32 w5, 5
        atomic.i32.compare_exchange.device.acquire_release w6, [d0 + 4], w4, w5
        cmp.i32.eq p0, w6, w5
        if p0
            atomic.i32.add.device.relaxed w3, [d0 + 8], w1
        end_if
        exit";
    lab.set_word(1, 5);
    lab.run(text, [16, 1, 1])?;
    ensure_eq!(lab.words(0, 3), [LANES_ALL, 9, 1], "tickets, the word that was exchanged, exchanges");
    ensure_eq!(lab.words(64, LANES_ALL.into()), vec![1; LANES_ALL as usize], "how often each ticket was drawn");
    Ok(())
}

fn subgroups(case: &Case) -> Result<(), Failure> {
    const FIELDS: u64 = 9;
    let mut lab = Lab::new(case)?;
    // The lanes whose number modulo 3 is not 1 are active.
    let text = ".workgroup 64, 1, 1
        arguments d0
        system.global_id_x w0
        system.lane_id w1
        rem_u.i32 w2, w0, 3
        cmp.i32.ne p0, w2, 1
        cmp.i32.gt_u p1, w0, 20
        index d1, d0, w0, 64
        mul.i32 w3, w0, w0
        if p0
            ballot w4, p1
            reduce.i32.add w5, w3
            scan_inclusive.i32.max_u w6, w3
            scan_exclusive.i32.add w7, w3
            store.w4 [d1], w4
            shuffle_xor.i32 w4, w3, 1
            broadcast_first.i32 w5, w3
            shuffle.i32 w6, w3, 5
            store.w3 [d1 + 16], w4
            vote_all p2, p1
            vote_any p3, p1
            mov.i32 w4, 1
            mov.i32 w5, 0
            select.i32 w6, w4, w5, p2
            select.i32 w7, w4, w5, p3
            store.w2 [d1 + 28], w6
        end_if
        exit";
    lab.run(text, [1, 1, 1])?;
    for first in [0, LANES as u32] {
        let active: Vec<u32> = (first..first + LANES as u32).filter(|lane| lane % 3 != 1).collect();
        let of = |lane: u32| if lane % 3 != 1 { lane * lane } else { 0 };
        let above = |lane: &&u32| **lane > 20;
        for lane in first..first + LANES as u32 {
            let before = active.iter().filter(|other| **other < lane);
            let expected = [
                active.iter().filter(above).fold(0, |mask, lane| mask | 1 << (lane - first)),
                active.iter().map(|lane| of(*lane)).sum(),
                of(lane),
                before.map(|lane| of(*lane)).sum(),
                of(lane ^ 1),
                of(active[0]),
                of(first + 5),
                active.iter().all(|lane| *lane > 20).into(),
                active.iter().any(|lane| *lane > 20).into(),
            ];
            let expected = if active.contains(&lane) { expected } else { [0; FIELDS as usize] };
            ensure_eq!(lab.words(16 * u64::from(lane), FIELDS), expected, "what lane {lane} found");
        }
    }
    Ok(())
}
