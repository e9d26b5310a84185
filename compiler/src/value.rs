//! Values and pointers: the meanings that the ids of a SPIR-V module can have.

use rspirv::spirv::BuiltIn;

use crate::ir::{Src, V};
use crate::types::MatrixLayout;

/// Meaning of a SPIR-V id: the registers of a value, a pointer, an image or a sampler.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// The scalars of a value.
    Data(Vec<Src>),
    Pointer(Pointer),
    Opaque(Opaque),
}

/// An image, a sampler or both: the registers with the addresses of their records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opaque {
    pub(crate) image: V,
    pub(crate) sampler: V,
    /// The type of the image.
    pub(crate) ty: u32,
}

/// Memory that a pointer points into.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Registers of a variable, from a scalar on.
    Registers { first: u32, variable: usize },
    /// The lane's scratch memory: offset plus constant.
    Scratch(Src, u32),
    /// Workgroup memory: offset plus constant.
    Shared(Src, u32),
    /// A buffer: its address and size, the address that indices led to, a constant that is added to that, and the strides of these indices in all.
    Buffer { base: Src, size: Src, address: Src, constant: u64, reach: u32 },
    /// An address plus a constant.
    Address(Src, i64),
    /// Descriptors in the argument block: offset of the first, and how many there are.
    Descriptors { offset: u32, count: u32 },
    /// A built-in variable, or one of its components.
    BuiltIn(BuiltIn, Option<Src>),
}

/// A pointer.
#[derive(Clone, Debug)]
pub(crate) struct Pointer {
    pub(crate) place: Place,
    /// The type that it points to.
    pub(crate) ty: u32,
    /// True if the module says how types lie there.
    pub(crate) explicit: bool,
    pub(crate) matrix: MatrixLayout,
    /// Distance of the components of a vector that is a column of a row-major matrix; 0 if they follow one another.
    pub(crate) apart: u32,
}

impl Pointer {
    pub(crate) fn new(place: Place, ty: u32, explicit: bool) -> Self {
        Self { place, ty, explicit, matrix: MatrixLayout::default(), apart: 0 }
    }
}
