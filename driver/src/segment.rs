//! The segments that the driver declares, by their numbers.

/// The aperture segment: system memory.
pub(crate) const APERTURE: u32 = 1;
/// Segment of VRAM that the processor sees; page tables are in it.
pub(crate) const VRAM: u32 = 2;
/// Segment of VRAM beyond the window.
pub(crate) const VRAM_HIDDEN: u32 = 3;

/// Bytes of the aperture.
pub(crate) const APERTURE_SIZE: u64 = 256 << 20;
