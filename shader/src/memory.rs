//! The interface by which the interpreter accesses memory, and the faults of programs.

use campanile_hw::isa::{Order, Scope};

/// Memory by GPU virtual address. Addresses are aligned to the size of the element that is accessed.
pub trait GlobalMemory {
    /// The reason why an access cannot be made.
    type Fault: Copy + core::fmt::Debug + PartialEq;

    /// Reads elements of `element` bytes: 1, 2, 4 or 8. Each is read as one.
    ///
    /// # Errors
    /// The fault; the contents of `bytes` then do not count.
    fn load(&mut self, address: u64, element: usize, bytes: &mut [u8]) -> Result<(), Self::Fault>;

    /// Writes elements of `element` bytes: 1, 2, 4 or 8. Each is written as one.
    ///
    /// # Errors
    /// The fault; elements before the address of the fault may have been written.
    fn store(&mut self, address: u64, element: usize, bytes: &[u8]) -> Result<(), Self::Fault>;

    /// Changes a value of `size` bytes, 4 or 8, as one step, and returns what it was. `update` gives the new value, or nothing if none is to be stored; it may be
    /// called several times.
    ///
    /// # Errors
    /// The fault; nothing has changed then.
    fn atomic(
        &mut self,
        address: u64,
        size: usize,
        update: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<u64, Self::Fault>;

    /// Orders the accesses before it and those after it.
    fn fence(&mut self, scope: Scope, order: Order);
}

/// The reason why a program was stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause<F> {
    /// Memory could not be accessed.
    Memory(F),
    /// An address is not aligned to the size of its element.
    Misaligned(u64),
    /// An access outside workgroup memory, at this byte.
    SharedRange(u64),
    /// An access outside the scratch memory of the lane, at this byte.
    ScratchRange(u64),
    /// The state is not one that the program can be in. None that [`crate::Dispatch::restore`] gives leads there.
    State,
}

/// A fault, and where it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaderFault<F> {
    /// Cause of the fault.
    pub cause: Cause<F>,
    /// True if the instruction needs the right to write.
    pub write: bool,
    /// The instruction.
    pub instruction: u32,
    /// The workgroup, by its place in the grid.
    pub workgroup: [u32; 3],
    /// The lane, by its number in the workgroup. Lanes with smaller numbers in its subgroup have executed the instruction.
    pub lane: u32,
}
