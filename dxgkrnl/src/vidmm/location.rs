//! The place of the contents of an allocation.

use crate::vidmm::system_memory::SystemMemory;

/// Memory that holds the contents of an allocation.
pub(crate) enum Location {
    /// Nowhere yet: all zero.
    Uncommitted,
    /// In system memory.
    System(SystemMemory),
    /// In a memory segment.
    Local {
        /// Segment.
        segment: u32,
        /// Byte offset in it.
        offset: u64,
    },
}
