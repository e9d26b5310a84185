//! Standard output.

use std::io::{ErrorKind, Write};

/// Writes text and a line end to standard output. A reader that went away is not an error: it has seen what it wanted.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("campanile: standard output: {error}");
    }
}
