//! Places of registers in the memory of the host.

use campanile_hw::isa::LANES;
use cranelift_codegen::ir::Value;

/// Bytes of a word of all lanes.
pub(crate) const WORD: i32 = LANES as i32 * 4;
/// Bytes of a double of all lanes.
pub(crate) const DOUBLE: i32 = LANES as i32 * 8;

/// Registers of a subgroup, by address, the address of the argument block, of the places of the lanes, and of the [`Context`](crate::context::Context).
#[derive(Clone, Copy)]
pub(crate) struct Files {
    pub(crate) words: Value,
    pub(crate) doubles: Value,
    pub(crate) predicates: Value,
    pub(crate) arguments: Value,
    pub(crate) local: Value,
    pub(crate) context: Value,
}
