//! Standard output.

use std::io::{Error, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use testbed::exit::{EXIT_INPUT, EXIT_OK};

/// True once something could not be written to standard output.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Writes text and a line end to standard output. A reader that went away is not an error: it has seen what it wanted. Any other failure, for example a
/// full device, is reported once, and [`exit_code`] tells the caller of the program.
pub(crate) fn print(text: &str) {
    is_printed(text);
}

/// As [`print`]. False if it was not written, and nothing that follows can be: the reader went away, or there is no space.
pub(crate) fn is_printed(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.inspect_err(not_written).is_ok()
}

fn not_written(error: &Error) {
    if error.kind() != ErrorKind::BrokenPipe && !FAILED.swap(true, Ordering::Relaxed) {
        testbed::complain!(
            "campanile: cannot write to standard output: {error}; the result is not complete, redirect it to a file system with free space"
        );
    }
}

/// Prints what clap says instead of running a command: help and version to standard output, where they are the result, an error to standard error. The
/// exit code of the program.
pub(crate) fn usage(error: &clap::Error) -> u8 {
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    if error.use_stderr() {
        return EXIT_INPUT;
    }
    if let Err(error) = printed {
        not_written(&error);
    }
    exit_code(EXIT_OK)
}

/// The exit code of the program whose command ended with `code`: a result that could not be written is [`EXIT_INPUT`], whatever it was.
pub(crate) fn exit_code(code: u8) -> u8 {
    if FAILED.load(Ordering::Relaxed) { EXIT_INPUT } else { code }
}
