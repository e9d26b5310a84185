// UNSAFETY: a static text that is written and read at different times.
//! What happened, as lines of text that a program reads.

use core::cell::UnsafeCell;
use core::fmt::{Arguments, Result, Write};
use core::sync::atomic::{AtomicUsize, Ordering};

use wddm_ddi::status::{STATUS_BUFFER_TOO_SMALL, STATUS_SUCCESS};
use wddm_ddi::types::NTSTATUS;

const SIZE: usize = 0x8000;

struct Text(UnsafeCell<[u8; SIZE]>);

// SAFETY: each byte is written once, by the line that reserved it, and read below `WRITTEN` by requests that come after the line.
unsafe impl Sync for Text {}

static TEXT: Text = Text(UnsafeCell::new([0; SIZE]));
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

struct Writer;

impl Write for Writer {
    fn write_str(&mut self, text: &str) -> Result {
        let at = WRITTEN.fetch_add(text.len(), Ordering::AcqRel);
        if at + text.len() > SIZE {
            WRITTEN.store(SIZE, Ordering::Release);
            return Err(core::fmt::Error);
        }
        // SAFETY: within the array.
        let to = unsafe { TEXT.0.get().cast::<u8>().add(at) };
        // SAFETY: these bytes were reserved by the addition above.
        unsafe { to.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        Ok(())
    }
}

/// Adds a line. What does not fit is left out, which the program sees because the text is full then.
pub(crate) fn line(arguments: Arguments<'_>) {
    let _ = Writer.write_fmt(arguments).and_then(|()| Writer.write_str("\n"));
}

/// UTF-16 text with ASCII characters, as text.
pub(crate) struct Wide<'a>(pub(crate) &'a [u16]);

impl core::fmt::Display for Wide<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> Result {
        self.0.iter().try_for_each(|unit| f.write_char(u8::try_from(*unit).map_or('?', char::from)))
    }
}

/// Copies the text to a buffer of so many bytes; status and number of bytes of the request.
pub(crate) fn copy(buffer: *mut u8, size: usize) -> (NTSTATUS, usize) {
    let written = WRITTEN.load(Ordering::Acquire).min(SIZE);
    if size < written {
        return (STATUS_BUFFER_TOO_SMALL, 0);
    }
    // SAFETY: the request has a buffer of this size, and so many bytes are written.
    unsafe { buffer.copy_from_nonoverlapping(TEXT.0.get().cast::<u8>(), written) };
    (STATUS_SUCCESS, written)
}
