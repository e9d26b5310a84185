//! Local arrays, structures and matrices lie in registers where every index into them is known when the module is compiled.

use campanile_compiler::{Options, compile};
use campanile_hw::isa::{Instruction, Op, Program};

use crate::bench::wgsl;

/// The program of a module.
fn code(module: &[u32]) -> Vec<Instruction> {
    let compiled = compile(module, &Options::default()).expect("compiled");
    let program = Program::validate(&compiled.program).expect("valid");
    (0..).map_while(|number| program.instruction(number)).collect()
}

/// Loads and stores of scratch memory in a program.
fn scratch_accesses(module: &[u32]) -> usize {
    let accesses = |inst: &&Instruction| matches!(inst.op, Op::LoadScratch | Op::StoreScratch);
    code(module).iter().filter(accesses).count()
}

#[test]
fn the_state_of_chacha20_in_wgsl_lies_in_registers() {
    assert_eq!(scratch_accesses(&wgsl(include_str!("../../../src/bench/kernels/chacha20.wgsl"))), 0);
}

#[test]
fn the_state_and_message_of_blake3_in_wgsl_lie_in_registers() {
    assert_eq!(scratch_accesses(&wgsl(include_str!("../../../src/bench/kernels/blake3.wgsl"))), 0);
}
