// UNSAFETY: the unwinder of the C compiler's runtime library.
//! Finds the instruction of a driver image that called the kernel service which this thread executes.

use std::ffi::c_void;
use std::ops::Range;

/// A call out of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// An address inside the calling instruction.
    pub(crate) instruction: usize,
    /// Address of the kernel's function that was called.
    pub(crate) function: usize,
}

struct Search {
    image: Range<usize>,
    /// Frames left to look at, so that a broken stack ends the search.
    left: u32,
    previous: usize,
    found: Option<usize>,
}

unsafe extern "C" {
    #[link_name = "_Unwind_Backtrace"]
    fn unwind_backtrace(frame: extern "C" fn(*mut c_void, *mut c_void) -> i32, data: *mut c_void) -> i32;
    #[link_name = "_Unwind_GetIP"]
    fn unwind_instruction(frame: *mut c_void) -> usize;
    #[link_name = "_Unwind_FindEnclosingFunction"]
    fn unwind_function(address: *mut c_void) -> *mut c_void;
}

extern "C" fn look(frame: *mut c_void, data: *mut c_void) -> i32 {
    const GO_ON: i32 = 0;
    const STOP: i32 = 4;
    // SAFETY: the unwinder passes one of its frames.
    let instruction = unsafe { unwind_instruction(frame) };
    // SAFETY: `caller` passes its own search, exclusively.
    let search = unsafe { &mut *data.cast::<Search>() };
    if search.image.contains(&instruction) {
        search.found = Some(instruction);
        return STOP;
    }
    search.previous = instruction;
    search.left -= 1;
    if search.left == 0 { STOP } else { GO_ON }
}

/// The innermost frame of this thread that runs code in `image`, and the function that it called. The frames above must be the kernel's
/// own, called on the image's stack: the unwinder knows nothing of images and ends there.
pub(crate) fn caller(image: Range<usize>) -> Option<Caller> {
    let mut search = Search { image, left: 64, previous: 0, found: None };
    // SAFETY: the function and its data fit each other and live across the call.
    unsafe { unwind_backtrace(look, (&raw mut search).cast()) };
    let returns_to = search.found?;
    // SAFETY: the function looks the address up and follows nothing.
    let function = unsafe { unwind_function(std::ptr::without_provenance_mut(search.previous)) };
    Some(Caller { instruction: returns_to - 1, function: function.addr() })
}
