//! The tables of instructions, which are rspirv's.
//!
//! Its parser is not used: it panics where OpSpecConstantOp names certain instructions, and does not read the repeated operands of those that it may name.

use std::collections::HashMap;
use std::sync::LazyLock;

use rspirv::grammar::{INSTRUCTION_TABLE, Instruction};

/// Operands of an instruction by its opcode, from Khronos' grammar; `None` for an opcode that the grammar does not have.
pub(crate) fn class(number: u32) -> Option<&'static Instruction<'static>> {
    static CLASSES: LazyLock<HashMap<u32, &'static Instruction<'static>>> =
        LazyLock::new(|| INSTRUCTION_TABLE.iter().map(|class| (class.opcode as u32, class)).collect());
    CLASSES.get(&number).copied()
}
