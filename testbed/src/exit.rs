//! Exit codes of the programs that boot a machine.

/// Everything done.
pub const EXIT_OK: u8 = 0;
/// Bytes came back wrong, a conformance case failed.
pub const EXIT_FAILED: u8 = 1;
/// A file is missing or unreadable, a driver cannot be loaded, or the command line is wrong.
pub const EXIT_INPUT: u8 = 2;
/// The machine could not be booted, or stopped while in use.
pub const EXIT_MACHINE: u8 = dxgkrnl::EXIT_STUCK;
