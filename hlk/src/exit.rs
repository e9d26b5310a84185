//! Exit codes.

/// Every case passed, or was not applicable.
pub(crate) const EXIT_OK: u8 = 0;
/// A case failed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// The command line is wrong, no machine with an adapter is at the socket, or a file cannot be written.
pub(crate) const EXIT_INPUT: u8 = 2;
/// This is no Windows, or the machine has gone meanwhile.
pub(crate) const EXIT_SYSTEM: u8 = 3;
/// There is no adapter of this driver.
pub(crate) const EXIT_NO_ADAPTER: u8 = 4;
