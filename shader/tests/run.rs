//! Programs run as the instruction set says, and give the same bits wherever they are stopped.

#[path = "kit/flat.rs"]
mod flat;
mod random;

use campanile_hw::isa::{LANES, Program, SavedBlock, SavedDispatch, SavedSubgroup, SavedWorkgroup};
use campanile_isa::assemble;
use campanile_shader::{Cause, Counters, Dispatch, Kernel, Outcome, ShaderFault};
use flat::{BASE, Flat, Outside};
use proptest::prelude::*;
use random::{REACH, choices, program};

fn kernel(text: &str) -> Kernel {
    let bytes = assemble(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Kernel::new(&Program::validate(&bytes).expect("valid"))
}

impl Flat {
    fn word(&self, place: usize) -> u32 {
        u32::from_le_bytes(*self.0[place * 4..].first_chunk().expect("inside"))
    }
}

/// Runs a program to its end on `words` words of memory, whose address is that of the arguments.
fn run(text: &str, grid: [u32; 3], words: usize) -> (Flat, Counters) {
    let (kernel, mut memory) = (kernel(text), Flat(vec![0; words * 4]));
    let mut dispatch = Dispatch::new(grid, BASE);
    let mut budget = 10_000_000;
    assert_eq!(dispatch.run(&kernel, &mut memory, &mut budget), Outcome::Done);
    (memory, *dispatch.counters())
}

fn fault(text: &str) -> ShaderFault<Outside> {
    let (kernel, mut memory) = (kernel(text), Flat(vec![0; 4096]));
    match Dispatch::new([2, 1, 1], BASE).run(&kernel, &mut memory, &mut 100_000) {
        Outcome::Fault(fault) => fault,
        other => panic!("{other:?}"),
    }
}

/// Stores `w1` of each lane at its place in the grid.
const STORE: &str = "arguments d0\nsystem.global_id_x w0\nindex d0, d0, w0, 4\nstore.w1 [d0], w1\nexit\n";

#[test]
fn every_lane_of_every_workgroup_runs_once() {
    let text = format!(".workgroup 40, 1, 1\nsystem.global_id_x w1\nmul.i32 w1, w1, 3\n{STORE}");
    let (memory, counters) = run(&text, [5, 1, 1], 200);
    assert!((0..200).all(|place| memory.word(place) == place as u32 * 3));
    assert_eq!((counters.lanes, counters.stores, counters.loads), (200, 200, 0));
    assert_eq!(counters.instructions, 5 * 2 * 7, "two subgroups of each workgroup");
}

#[test]
fn lanes_part_and_meet_again() {
    let text = format!(
        ".workgroup 32, 1, 1
        system.lane_id w0
        cmp.i32.lt_u p0, w0, 10
        if p0
            add.i32 w1, w0, 100
            cmp.i32.eq p1, w0, 3
            if p1
                exit
            end_if
        else
            loop
                add.i32 w1, w1, 1
                cmp.i32.eq p1, w0, 20
                cmp.i32.eq p2, w1, 2
                and.b1 p1, p1, p2
                if p1
                    mov.i32 w1, 777
                    break
                end_if
                and.i32 w2, w0, 1
                cmp.i32.ne p1, w2, 0
                continue_if p1
                add.i32 w3, w3, 1
            continuing
                cmp.i32.ge_u p1, w1, w0
                break_if p1
            end_loop
            shl.i32 w3, w3, 16
            or.i32 w1, w1, w3
        end_if
        ballot w4, p0
        {STORE}"
    );
    let (memory, _) = run(&text, [1, 1, 1], 32);
    for lane in 0..32u32 {
        let expected = match lane {
            3 => 0,
            0..10 => lane + 100,
            20 => 777 | 1 << 16,
            _ if lane % 2 == 1 => lane,
            _ => lane | lane << 16,
        };
        assert_eq!(memory.word(lane as usize), expected, "lane {lane}");
    }
}

#[test]
fn a_function_returns_lane_by_lane() {
    let text = format!(
        ".workgroup 32, 1, 1\n.function main\nsystem.lane_id w2\ncall early\nadd.i32 w1, w1, 1000\n{STORE}
        .function early
        loop
            cmp.i32.ge_u p0, w1, w2
            if p0
                ret
            end_if
            add.i32 w1, w1, 1
        end_loop
        ret"
    );
    let (memory, _) = run(&text, [1, 1, 1], 32);
    assert!((0..32).all(|lane| memory.word(lane) == 1000 + lane as u32));
}

#[test]
fn a_barrier_separates_what_subgroups_do_to_workgroup_memory() {
    let text = format!(
        ".workgroup 128, 1, 1\n.shared 512
        system.local_index w2
        mul.i32 w3, w2, 4
        store_shared.w1 [w3], w2
        barrier.workgroup.acquire_release
        xor.i32 w3, w2, 127
        mul.i32 w3, w3, 4
        load_shared.w1 w1, [w3]
        {STORE}"
    );
    let (memory, _) = run(&text, [1, 1, 1], 128);
    assert!((0..128).all(|lane| memory.word(lane) == 127 - lane as u32));
}

#[test]
fn subgroups_reduce_scan_and_shuffle_over_active_lanes() {
    let text = |what: &str| {
        format!(".workgroup 32, 1, 1\nsystem.lane_id w0\ncmp.i32.ge_u p0, w0, 8\nif p0\n{what}\nend_if\n{STORE}")
    };
    let words = |what: &str| (0..32).map(|lane| run(&text(what), [1, 1, 1], 32).0.word(lane)).collect::<Vec<_>>();
    let sum: u32 = (8..32).sum();
    assert_eq!(words("reduce.i32.add w1, w0")[8..], [sum; 24]);
    assert_eq!(words("reduce.i32.add w1, w0")[..8], [0; 8], "lanes that are not active keep what they have");
    let scan = words("scan_exclusive.i32.add w1, w0");
    assert!((8..32u32).all(|lane| scan[lane as usize] == (8..lane).sum::<u32>()));
    let scan = words("scan_inclusive.i32.max_u w1, w0");
    assert!((8..32u32).all(|lane| scan[lane as usize] == lane));
    let shuffle = words("shuffle_xor.i32 w1, w0, 15");
    assert!((8..32u32).all(|lane| shuffle[lane as usize] == if lane ^ 15 < 8 { 0 } else { lane ^ 15 }));
    assert_eq!(words("broadcast_first.i32 w1, w0")[8..], [8; 24]);
    assert_eq!(words("ballot w1, p0")[8..], [0xffff_ff00; 24]);
}

#[test]
fn division_never_faults() {
    let quotient = |op: &str, a: &str, b: &str| {
        run(&format!(".workgroup 1, 1, 1\nmov.i32 w1, {a}\n{op}.i32 w1, w1, {b}\n{STORE}"), [1, 1, 1], 1).0.word(0)
    };
    assert_eq!(quotient("div_s", "-7", "2") as i32, -3);
    assert_eq!(quotient("rem_s", "-7", "2") as i32, -1);
    assert_eq!(quotient("div_s", "7", "0"), u32::MAX);
    assert_eq!(quotient("rem_u", "7", "0"), 7);
    assert_eq!(quotient("div_s", "-2147483648", "-1"), 0x8000_0000);
    assert_eq!(quotient("rem_s", "-2147483648", "-1"), 0);
}

#[test]
fn what_may_not_be_done_is_named_with_instruction_and_lane() {
    let at = |text: &str| {
        let fault = fault(&format!(".workgroup 64, 1, 1\n.shared 64\n.scratch 8\n{text}\nexit\n"));
        (fault.cause, fault.instruction, fault.lane, fault.workgroup)
    };
    let first = [0, 0, 0];
    assert_eq!(at("arguments d0\nload.w1 w0, [d0 + 4096]"), (Cause::Memory(Outside(BASE + 4096)), 1, 0, first));
    assert_eq!(at("arguments d0\nload.w4 w0, [d0 + 2]"), (Cause::Misaligned(BASE + 2), 1, 0, first));
    let atomic = "arguments d0\natomic.i64.add.device.relaxed d1, [d0 + 4], d1";
    assert_eq!(at(atomic), (Cause::Misaligned(BASE + 4), 1, 0, first));
    let shared = "system.local_index w0\nmul.i32 w0, w0, 4\nstore_shared.w1 [w0], w0";
    assert_eq!(at(shared), (Cause::SharedRange(64), 2, 16, first));
    assert_eq!(at("load_scratch.d1 d0, [w0 - 8]"), (Cause::ScratchRange(u64::MAX - 7), 0, 0, first));
    let second = "system.workgroup_id_x w0\ncmp.i32.eq p0, w0, 1\nif p0\nload_scratch.w1 w0, [w0 + 7]\nend_if";
    assert_eq!(at(second), (Cause::ScratchRange(8), 3, 0, [1, 0, 0]));
}

/// Registers and memory of a workgroup are cleared when it begins, which takes longer than a short program.
#[test]
fn the_beginning_of_a_workgroup_counts_by_what_is_cleared() {
    let runs = |header: &str| {
        let kernel = kernel(&format!(".workgroup 1024, 1, 1\n{header}\nexit\n"));
        let (mut dispatch, mut memory, mut runs) = (Dispatch::new([64, 1, 1], BASE), Flat(vec![0; REACH]), 1);
        while dispatch.run(&kernel, &mut memory, &mut 2048) != Outcome::Done {
            runs += 1;
        }
        assert_eq!(dispatch.counters().instructions, 64 * 32, "the program's own instructions alone");
        runs
    };
    let (small, large) = (runs(""), runs(".registers 256, 256, 256\n.shared 65536\n.scratch 4096"));
    assert!(small <= 4, "{small} runs");
    assert!(large >= 64, "{large} runs: none has two such workgroups");
}

#[test]
fn counts_that_no_dispatch_reaches_are_no_state() {
    let kernel = kernel("mov.i32 w0, 1\nexit\n");
    let saved = Dispatch::new([1, 1, 1], BASE).save(&kernel, 0);
    assert!(Dispatch::restore(&kernel, &saved).is_ok());
    let head = SavedDispatch::from_bytes(saved.first_chunk().expect("a head"));
    let large = u64::MAX;
    for head in [
        SavedDispatch { instructions: large, ..head },
        SavedDispatch { lanes: large, ..head },
        SavedDispatch { loads: large, ..head },
        SavedDispatch { stores: large, ..head },
        SavedDispatch { atomics: large, ..head },
    ] {
        assert!(Dispatch::restore(&kernel, &head.to_bytes()).is_err(), "{head:?}");
    }
}

/// A function that is called in a loop in a block, and has a block.
const NESTED: &str = ".workgroup 32, 1, 1
    .function main
    system.lane_id w0
    cmp.i32.lt_u p0, w0, 16
    if p0
        loop
            call inner
            add.i32 w1, w1, 1
            cmp.i32.eq p1, w1, 5
            break_if p1
        end_loop
    end_if
    exit
    .function inner
    if p0
        mov.i32 w2, 3
    end_if
    ret";

#[test]
fn blocks_that_the_program_does_not_have_open_are_no_state() {
    let kernel = kernel(NESTED);
    let (mut dispatch, mut memory) = (Dispatch::new([1, 1, 1], BASE), Flat(vec![0; REACH]));
    while dispatch.position().is_none_or(|position| position.instruction != 12) {
        assert_eq!(dispatch.run(&kernel, &mut memory, &mut 1), Outcome::Paused);
    }
    let saved = dispatch.save(&kernel, 0);
    assert!(Dispatch::restore(&kernel, &saved).is_ok_and(|(restored, _)| restored == dispatch));
    let subgroup = SavedDispatch::SIZE + SavedWorkgroup::SIZE;
    let block = |number: usize| subgroup + SavedSubgroup::SIZE + number * SavedBlock::SIZE;
    let (alive, open, back) = (subgroup + 0x08, subgroup + 0x10, block(2) + 0x0c);
    for (what, damage) in [
        ("no instruction", &[(subgroup, 15)][..]),
        ("the instruction behind the innermost block", &[(subgroup, 14)]),
        ("an instruction of the loop", &[(subgroup, 5)]),
        ("the last instruction", &[(subgroup, 10)]),
        ("no block", &[(open, 0)]),
        ("without the innermost block", &[(open, 3)]),
        ("one block more", &[(open, 5), (block(4), 1)]),
        ("as many blocks as there can be", &[(open, 64)]),
        ("a loop that is an IF", &[(block(1), 1)]),
        ("an IF that is a loop", &[(block(3), 2)]),
        ("a call that is an IF", &[(block(2), 1)]),
        ("a call that goes back to no instruction", &[(back, 16)]),
        ("a call that goes back to the beginning", &[(back, 0)]),
        ("a call that goes back to behind another instruction", &[(back, 6)]),
        ("a lane that goes on behind no block", &[(block(0) + 4, 0xffff)]),
        ("lanes that have ended and wait for ELSE", &[(alive, 0xffff), (block(0) + 4, 0xffff)]),
        ("lanes that have ended and go on", &[(alive, 0xffff), (block(0) + 8, 0)]),
    ] {
        let mut saved = saved.clone();
        for (at, value) in damage {
            saved[*at..*at + 4].copy_from_slice(&u32::to_le_bytes(*value));
        }
        assert!(Dispatch::restore(&kernel, &saved).is_err(), "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn wherever_a_program_is_stopped_it_gives_the_same_bits(choices in choices(), budgets in prop::collection::vec(1u64..60, 1..40)) {
        let bytes = program(&choices);
        let kernel = Kernel::new(&Program::validate(&bytes).expect("valid"));
        let mut whole = Flat(vec![0; REACH]);
        let mut dispatch = Dispatch::new([2, 2, 1], BASE);
        prop_assert_eq!(dispatch.run(&kernel, &mut whole, &mut 10_000_000), Outcome::Done);
        let mut pieces = Flat(vec![0; REACH]);
        let mut stopped = Dispatch::new([2, 2, 1], BASE);
        for budget in budgets.iter().cycle() {
            let mut budget = *budget;
            if stopped.run(&kernel, &mut pieces, &mut budget) == Outcome::Done {
                break;
            }
            let saved = stopped.save(&kernel, 77);
            prop_assert!(saved.len() <= kernel.header().save_size() as usize);
            let (restored, begun) = Dispatch::restore(&kernel, &saved).expect("its own state");
            prop_assert_eq!(begun, 77);
            prop_assert_eq!(&restored, &stopped);
            stopped = restored;
        }
        prop_assert!(whole == pieces, "memory differs");
        prop_assert_eq!(dispatch.counters(), stopped.counters());
    }

    #[test]
    fn a_damaged_state_does_no_harm(choices in choices(), stop in 1u64..400, damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let bytes = program(&choices);
        let kernel = Kernel::new(&Program::validate(&bytes).expect("valid"));
        let mut memory = Flat(vec![0; REACH]);
        let mut dispatch = Dispatch::new([2, 1, 1], BASE);
        let mut budget = stop;
        let _ = dispatch.run(&kernel, &mut memory, &mut budget);
        let mut saved = dispatch.save(&kernel, 77);
        for (place, value) in damage {
            // Most of a state is registers: damage its first part more often.
            let place = place.index(saved.len());
            let place = if value & 1 == 0 { place % 400 % saved.len() } else { place };
            saved[place] = value;
        }
        if let Ok((mut restored, _)) = Dispatch::restore(&kernel, &saved) {
            let outcome = restored.run(&kernel, &mut memory, &mut 5_000);
            let lost = matches!(outcome, Outcome::Fault(ShaderFault { cause: Cause::State, .. }));
            prop_assert!(!lost, "{outcome:?}");
        }
        for len in (0..saved.len()).step_by(97) {
            let _ = Dispatch::restore(&kernel, &saved[..len]);
        }
    }
}

#[test]
fn a_subgroup_has_the_lanes_that_its_workgroup_leaves_for_it() {
    let (memory, _) = run(&format!(".workgroup 33, 1, 1\nmov.b1 p0, 1\nballot w1, p0\n{STORE}"), [1, 1, 1], 33);
    assert_eq!((memory.word(0), memory.word(LANES)), (u32::MAX, 1));
}
