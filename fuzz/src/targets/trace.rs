//! Traces in Perfetto's format, as somebody sends one in.

use campanile::timeline::{PAGE_BYTES_MAX, render};
use campanile::trace::perfetto::{read, write};

/// A trace is refused by an error that says why, or read; what was read is written, and read again, as the same trace, and drawn on a page that is not too large.
pub(crate) fn trace(data: &[u8]) {
    match read(data) {
        Ok(trace) => {
            let again = read(&write(&trace)).expect("a trace that was read is written as one");
            assert_eq!(again, trace);
            let page = render(&trace, "trace");
            assert!(page.html.len() <= PAGE_BYTES_MAX, "{} bytes", page.html.len());
        }
        Err(error) => assert!(!error.to_string().is_empty(), "{error:?} has no text"),
    }
}
