//! Standard output.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use testbed::exit::EXIT_INPUT;

/// True once something could not be written to standard output.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Writes text and a line end to standard output. A reader that went away is not an error: it has seen what it wanted. Any other failure, for example a
/// full device, is reported once, and [`exit_code`] tells the caller of the program.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
        && !FAILED.swap(true, Ordering::Relaxed)
    {
        testbed::complain!(
            "campanile: cannot write to standard output: {error}; the result is not complete, redirect it to a file system with free space"
        );
    }
}

/// The exit code of the program whose command ended with `code`: a result that could not be written is [`EXIT_INPUT`], whatever it was.
pub(crate) fn exit_code(code: u8) -> u8 {
    if FAILED.load(Ordering::Relaxed) { EXIT_INPUT } else { code }
}
