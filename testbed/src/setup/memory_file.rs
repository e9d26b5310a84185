//! The memory of a machine as one file, which a function in another process is given.

use std::fs::File;
use std::io;

use dxgkrnl::Ram;

/// The file of all memory of a machine, for a function that is given one file.
///
/// # Errors
/// Owners of the memory have files of their own.
pub(super) fn file_of(memory: &Ram) -> io::Result<&File> {
    memory
        .file()
        .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "the memory of the machine is in several files"))
}
