//! What is asked of the compiler, and what a program asks of whoever runs it.

use core::ops::Range;
use std::collections::HashMap;

/// Options of a compilation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the entry point.
    pub entry_point: String,
    /// Bits of specialization constants, by SpecId; what is not named keeps its default. A Boolean is true unless its bits are 0.
    pub specialization: HashMap<u32, u64>,
    /// Byte offset of the push constants in the argument block.
    pub push_constant_offset: u32,
    /// Places of the first descriptors of bindings. A binding that is not named comes behind everything that is, by set and binding.
    pub bindings: Vec<Binding>,
    /// True if every access to a buffer is checked against the buffer's size: a load that does not lie wholly inside gives zeros, and such a store does nothing.
    pub robust: bool,
    /// Where in the argument block the place of the first workgroup lies, three words, a multiple of 4; without it workgroups are counted from 0 on.
    pub workgroup_base: Option<u32>,
}

impl Default for Options {
    /// The entry point `main`, no specialization, a layout of the compiler's own, checked accesses.
    fn default() -> Self {
        Self {
            entry_point: "main".into(),
            specialization: HashMap::new(),
            push_constant_offset: 0,
            bindings: Vec::new(),
            robust: true,
            workgroup_base: None,
        }
    }
}

/// Place of the descriptors of one binding in the argument block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Descriptor set.
    pub set: u32,
    /// Binding.
    pub binding: u32,
    /// Offset of the first descriptor in the argument block, a multiple of 8.
    pub offset: u32,
    /// Number of descriptors; it bounds runtime arrays of them.
    pub count: u32,
}

/// The descriptors of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Descriptor set.
    pub set: u32,
    /// Binding.
    pub binding: u32,
    /// Offset of the first descriptor in the argument block.
    pub offset: u32,
    /// Number of descriptors, one behind the other.
    pub count: u32,
    /// Id of the variable in the module.
    pub variable: u32,
}

/// Layout of the argument block that a program reads: push constants, descriptors and the first workgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentLayout {
    /// Bytes of the block.
    pub size: u32,
    /// Place of the push constants.
    pub push_constants: Range<u32>,
    /// Descriptors of 16 bytes each.
    pub descriptors: Vec<Descriptor>,
}
