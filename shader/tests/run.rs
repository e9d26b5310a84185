//! Programs run as the instruction set says, and give the same bits wherever they are stopped.

#[path = "../../hw/tests/kit/drawn.rs"]
mod drawn;

use campanile_hw::isa::{Instruction, LANES, Op, Order, OrderWord, Program, ProgramHeader, Scope, Type};
use campanile_isa::{Source, assemble, link};
use campanile_shader::{Cause, Counters, Dispatch, GlobalMemory, Kernel, Outcome, ShaderFault, save_size};
use proptest::prelude::*;

/// First address of the tests' memory.
const BASE: u64 = 0x1_0000;

#[derive(Clone, PartialEq)]
struct Flat(Vec<u8>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Outside(u64);

impl Flat {
    fn at(&mut self, address: u64, len: usize) -> Result<&mut [u8], Outside> {
        let start = address.checked_sub(BASE).ok_or(Outside(address))? as usize;
        self.0.get_mut(start..start.saturating_add(len)).ok_or(Outside(address))
    }

    fn word(&self, place: usize) -> u32 {
        u32::from_le_bytes(*self.0[place * 4..].first_chunk().expect("inside"))
    }
}

impl GlobalMemory for Flat {
    type Fault = Outside;

    fn load(&mut self, address: u64, element: usize, bytes: &mut [u8]) -> Result<(), Outside> {
        assert!(address.is_multiple_of(element as u64));
        bytes.copy_from_slice(self.at(address, bytes.len())?);
        Ok(())
    }

    fn store(&mut self, address: u64, element: usize, bytes: &[u8]) -> Result<(), Outside> {
        assert!(address.is_multiple_of(element as u64));
        self.at(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn atomic(
        &mut self,
        address: u64,
        size: usize,
        update: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<u64, Outside> {
        let place = self.at(address, size)?;
        let mut old = [0; 8];
        old[..size].copy_from_slice(place);
        let old = u64::from_le_bytes(old);
        if let Some(new) = update(old) {
            place.copy_from_slice(&new.to_le_bytes()[..size]);
        }
        Ok(old)
    }

    fn fence(&mut self, _: Scope, _: Order) {}
}

fn kernel(text: &str) -> Kernel {
    let bytes = assemble(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Kernel::new(&Program::validate(&bytes).expect("valid"))
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

/// A random program: straight instructions between blocks whose nesting is right, loops that end.
fn program(choices: &[(u8, usize, [u8; 8], u64)]) -> Vec<u8> {
    let source = |instruction| Source { instruction, line: 0 };
    let plain = |op| Instruction::new(op, Type::None);
    let mut code = Vec::new();
    let mut open: Vec<Op> = Vec::new();
    for lane in [0u8, 1] {
        code.push(source(Instruction { dst: lane, modifier: 18, ..plain(Op::System) }));
    }
    code.push(source(Instruction { dst: 7, ..plain(Op::Arguments) }));
    for (kind, row, numbers, immediate) in choices {
        let predicate = numbers[3] % 4;
        match kind % 12 {
            0 if open.len() < 6 => {
                code.push(source(Instruction { a: predicate, ..plain(Op::If) }));
                open.push(Op::If);
            }
            1 if open.last() == Some(&Op::If) => {
                code.push(source(plain(Op::Else)));
                open.pop();
                open.push(Op::Else);
            }
            2 if open.iter().filter(|op| **op == Op::Loop).count() < 2 && open.len() < 6 => {
                code.push(source(plain(Op::Loop)));
                open.push(Op::Loop);
            }
            3 if open.contains(&Op::Loop) => code.push(source(Instruction { a: predicate, ..plain(Op::BreakIf) })),
            4 if open.contains(&Op::Loop) => code.push(source(Instruction { a: predicate, ..plain(Op::ContinueIf) })),
            5 => close(&mut code, &mut open),
            _ => code.extend(straight(*row, *numbers, *immediate).map(source)),
        }
    }
    while !open.is_empty() {
        close(&mut code, &mut open);
    }
    // What the registers hold at the end counts: each lane stores some of it.
    for register in 0..8 {
        code.push(source(Instruction {
            a: 7,
            c: register,
            modifier: 4,
            immediate: u64::from(register) * 4,
            ..plain(Op::Store)
        }));
    }
    code.push(source(plain(Op::Exit)));
    let header = ProgramHeader {
        words: 12,
        doubles: 9,
        predicates: 4,
        workgroup_x: 40,
        shared: 64,
        scratch: 16,
        ..ProgramHeader::new()
    };
    link(&header, &[code]).expect("legal")
}

fn close(code: &mut Vec<Source>, open: &mut Vec<Op>) {
    let source = |instruction| Source { instruction, line: 0 };
    match open.pop() {
        Some(Op::Loop) => {
            // Word 15 counts the turns of all loops, so that they end.
            code.push(source(Instruction {
                dst: 15,
                a: 15,
                constant: true,
                immediate: 1,
                ..Instruction::new(Op::Add, Type::I32)
            }));
            let compare = Instruction::new(Op::Cmp, Type::I32);
            code.push(source(Instruction { dst: 5, a: 15, constant: true, immediate: 9, modifier: 9, ..compare }));
            code.push(source(Instruction::new(Op::Continuing, Type::None)));
            code.push(source(Instruction {
                dst: 15,
                a: 15,
                constant: true,
                immediate: 1,
                ..Instruction::new(Op::Add, Type::I32)
            }));
            code.push(source(Instruction { dst: 5, a: 15, constant: true, immediate: 9, modifier: 9, ..compare }));
            code.push(source(Instruction { a: 5, ..Instruction::new(Op::BreakIf, Type::None) }));
            code.push(source(Instruction::new(Op::EndLoop, Type::None)));
        }
        Some(_) => code.push(source(Instruction::new(Op::EndIf, Type::None))),
        None => {}
    }
}

/// An instruction without control flow that does not fault.
fn straight(row: usize, numbers: [u8; 8], immediate: u64) -> Option<Instruction> {
    let mut instruction = drawn::instruction(row, numbers, immediate, 0x3, |offset| offset % 4 * 16)?;
    match instruction.op {
        Op::Load | Op::Store | Op::Atomic => instruction.a = 7,
        // Word 11 is zero, so that the offset alone counts; scratch memory has only 16 bytes.
        Op::LoadShared | Op::StoreShared | Op::AtomicShared => instruction.a = 11,
        Op::LoadScratch | Op::StoreScratch => (instruction.a, instruction.immediate) = (11, 0),
        _ => {}
    }
    instruction.check().is_ok().then_some(instruction)
}

fn choices() -> impl Strategy<Value = Vec<(u8, usize, [u8; 8], u64)>> {
    prop::collection::vec((any::<u8>(), any::<usize>(), any::<[u8; 8]>(), any::<u64>()), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn wherever_a_program_is_stopped_it_gives_the_same_bits(choices in choices(), budgets in prop::collection::vec(1u64..60, 1..40)) {
        let bytes = program(&choices);
        let kernel = Kernel::new(&Program::validate(&bytes).expect("valid"));
        let mut whole = Flat(vec![0; 256]);
        let mut dispatch = Dispatch::new([2, 2, 1], BASE);
        prop_assert_eq!(dispatch.run(&kernel, &mut whole, &mut 10_000_000), Outcome::Done);
        let mut pieces = Flat(vec![0; 256]);
        let mut stopped = Dispatch::new([2, 2, 1], BASE);
        for budget in budgets.iter().cycle() {
            let mut budget = *budget;
            if stopped.run(&kernel, &mut pieces, &mut budget) == Outcome::Done {
                break;
            }
            let saved = stopped.save();
            prop_assert!(saved.len() <= save_size(kernel.header()));
            let restored = Dispatch::restore(&kernel, &saved).expect("its own state");
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
        let mut memory = Flat(vec![0; 256]);
        let mut dispatch = Dispatch::new([2, 1, 1], BASE);
        let mut budget = stop;
        let _ = dispatch.run(&kernel, &mut memory, &mut budget);
        let mut saved = dispatch.save();
        for (place, value) in damage {
            // Most of a state is registers: damage its first part more often.
            let place = place.index(saved.len());
            let place = if value & 1 == 0 { place % 400 % saved.len() } else { place };
            saved[place] = value;
        }
        if let Ok(mut restored) = Dispatch::restore(&kernel, &saved) {
            let _ = restored.run(&kernel, &mut memory, &mut 5_000);
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
