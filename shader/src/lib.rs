//! Runs programs of the compute engine, exactly as the instruction set says.
//!
//! [`evaluate`] is what an arithmetic instruction means for one lane; every executor takes it from here, so that all give the same bits. [`Dispatch`] is the
//! interpreter: it runs workgroup after workgroup, in each subgroup after subgroup until that comes to a barrier or its end, in an order that does not depend on
//! where the budget of instructions runs out. It can be stopped there, written to bytes ([`Dispatch::save`]) and read back.
//!
//! The interpreter knows no page tables: it reaches memory through [`GlobalMemory`], and hands back the faults of that as they are.
//!
//! Floating point: rounding to nearest even, subnormal numbers kept, an arithmetic result that is not a number is the canonical NaN (0x7e00, 0x7fc00000,
//! 0x7ff8000000000000). MOV, SELECT, NEG, ABS, shuffles, loads and stores do not change the bits of a NaN, but for the sign that NEG and ABS are about.

#![forbid(unsafe_code)]

mod aligned;
mod code;
mod dispatch;
mod evaluate;
mod float;
mod grid;
mod group;
mod kernel;
mod memory;
mod save;
mod subgroup;

pub use code::{Code, NoCode, State};
pub use dispatch::{Dispatch, Outcome, Position};
pub use evaluate::{compare, convert, evaluate, reduce, reduction_start, update};
pub use grid::{Counters, Place};
pub use kernel::Kernel;
pub use memory::{Cause, GlobalMemory, ShaderFault};
pub use save::{BadSave, saved_counters};
pub use subgroup::{Frame, FrameKind};
