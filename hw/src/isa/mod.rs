//! The instruction set of the compute engine: what a program for it looks like, and which programs are valid.
//!
//! A program runs in workgroups; a workgroup is divided into subgroups of [`LANES`] lanes, which execute one instruction at a time
//! together under a mask of active lanes. Every lane has three files of registers, and the type of an instruction says which file an
//! operand lies in:
//!
//! | file | name | holds |
//! | --- | --- | --- |
//! | predicates | `p0`.. | one bit |
//! | words | `w0`.. | 32 bits: an integer, an `f32`, or an `f16` in the low half |
//! | doubles | `d0`.. | 64 bits: an integer, an address, or an `f64` |
//!
//! All instructions are 16 bytes wide: three sources and a destination of 8 bits each, an operation, a type and modifiers fill one half, and
//! the other half holds a constant of 64 bits, so that no constant needs a second instruction or a table. Eight bytes would not hold a
//! fused multiply-add with its modifiers beside any constant at all. Programs are copied and decoded once before they run, so the size
//! of the code costs no bandwidth while it runs.
//!
//! A subgroup has 32 lanes: the mask of active lanes and the result of a ballot are then one word, and an executor that works with shorter
//! vectors can run 32 lanes as several of them between two instructions that look across lanes.
//!
//! [`Instruction`] is one decoded instruction, [`FORMS`] the table that encoder, decoder, validator, assembler and manual share,
//! [`Program::validate`] the one check that a program passes before its first instruction runs.

mod half;
mod instruction;
mod modifier;
mod operation;
mod program;
mod save;
mod validate;

pub use half::{f16_to_f64, f64_to_f16};
pub use instruction::{BadInstruction, Instruction, Word};
pub use modifier::{
    AtomicOperation, Comparison, MemoryFormat, Order, OrderWord, Reduction, Scope, SystemValue, Type, Types,
};
pub use operation::{FORMS, Form, Immediate, ModifierKind, Op, Operand};
pub use program::{
    BadProgram, Layout, LineEntry, NO_INSTRUCTION, PROGRAM_MAGIC, PROGRAM_VERSION, Program, ProgramHeader, ProgramRule,
};
pub use save::{
    DispatchPosition, SAVE_MAGIC, SAVE_SIZE_MAX, SAVE_VERSION, SavedBlock, SavedDispatch, SavedSubgroup,
    SavedWorkgroup, program_digest,
};

/// Lanes of a subgroup.
pub const LANES: usize = 32;
/// Bytes of an instruction.
pub const INSTRUCTION_SIZE: usize = 16;
/// Most registers of one file.
pub const REGISTERS_MAX: u16 = 256;
/// Most instructions of a program.
pub const CODE_MAX: u32 = 1 << 16;
/// Most functions of a program.
pub const FUNCTIONS_MAX: u32 = 256;
/// Deepest nesting of IF, LOOP and CALL, counted through the functions that are called.
pub const DEPTH_MAX: u32 = 64;
/// Most lanes of a workgroup.
pub const WORKGROUP_MAX: u32 = 1024;
/// Most bytes of workgroup memory.
pub const SHARED_MAX: u32 = 64 << 10;
/// Most bytes of scratch memory of one lane.
pub const SCRATCH_MAX: u32 = 4096;
/// Most entries of the table of source lines.
pub const LINES_MAX: u32 = CODE_MAX;
/// Most workgroups of a dispatch in one dimension.
pub const GRID_MAX: u32 = 65535;
