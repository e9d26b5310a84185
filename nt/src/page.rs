//! The unit in which the host maps memory, for all modules here and for `dxgkrnl`.

/// Bytes of a system page.
pub const PAGE_SIZE: u64 = 4096;
/// The same, for lengths of memory of this process.
pub(crate) const PAGE: usize = PAGE_SIZE as usize;
