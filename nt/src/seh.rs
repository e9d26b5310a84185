// UNSAFETY: calls handlers of driver images, and goes on in their frames.
//! Structured exception handling: exceptions are offered to the handlers of an image's frames, and frames are unwound. [learn: x64 exception handling]

use std::ffi::c_void;

use wddm_ddi::nt::{EXCEPTION_NONCONTINUABLE, EXCEPTION_RECORD};

use crate::image::{Image, RuntimeFunction};
use crate::unwind::{Context, Frame, Handler, RAX, go_on, unwind};

/// Frames are being unwound. [winnt: EXCEPTION_UNWINDING]
pub(crate) const UNWINDING: u32 = 2;
/// The frame is the one that execution goes on in. [winnt: EXCEPTION_TARGET_UNWIND]
pub(crate) const TARGET_UNWIND: u32 = 0x20;

/// Answers of a handler. [excpt: EXCEPTION_DISPOSITION]
pub(crate) const CONTINUE_EXECUTION: i32 = 0;
pub(crate) const CONTINUE_SEARCH: i32 = 1;

/// Frames of a call at most: a stack of 24 KiB has fewer.
const FRAMES_MAX: usize = 3072;

/// What a handler is told of the frame that it is of. [winnt: DISPATCHER_CONTEXT of x64]
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Dispatcher {
    /// Instruction of the frame.
    pub(crate) control: u64,
    /// First address of the image.
    pub(crate) image: u64,
    function: u64,
    establisher: u64,
    /// Where execution goes on, while frames are unwound.
    pub(crate) target: u64,
    context: *mut Context,
    handler: u64,
    /// Address of the data that the compiler leaves for the handler.
    pub(crate) data: u64,
    history: u64,
    /// Scopes of the function that were dealt with.
    pub(crate) scope: u32,
    padding: u32,
}

const _: () = assert!(size_of::<Dispatcher>() == 0x50);

/// A handler of a language: of C, `__C_specific_handler`.
type LanguageHandler = unsafe extern "win64" fn(*mut EXCEPTION_RECORD, u64, *mut Context, *mut Dispatcher) -> i32;

/// The frame and the address at which execution goes on after an exception.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The frame.
    pub(crate) frame: u64,
    pub(crate) instruction: u64,
    /// Value of RAX there.
    pub(crate) result: u64,
}

/// Calls the handler of a frame.
///
/// # Safety
/// Record and context are those of an exception of the image; `context` of the frame, while it is unwound.
unsafe fn call(
    image: &Image,
    (frame, handler): (&Frame, Handler),
    record: *mut EXCEPTION_RECORD,
    context: *mut Context,
    (control, target): (u64, u64),
) -> Option<i32> {
    let base = image.base() as u64;
    let address = image.base().checked_add(handler.rva as usize).filter(|at| image.rva_of(*at).is_some())?;
    let RuntimeFunction { begin, .. } = frame.function;
    let mut told = Dispatcher {
        control,
        image: base,
        function: base + u64::from(begin),
        establisher: frame.establisher,
        target,
        context,
        handler: address as u64,
        data: base + u64::from(handler.data),
        history: 0,
        scope: 0,
        padding: 0,
    };
    let address = std::ptr::with_exposed_provenance::<c_void>(address);
    // SAFETY: the image says that its handler is there; one that is none faults.
    let handler = unsafe { std::mem::transmute::<*const c_void, LanguageHandler>(address) };
    // SAFETY: the arguments are what a handler is called with.
    Some(unsafe { handler(record, frame.establisher, context, &raw mut told) })
}

/// Offers an exception to the handlers of the image's frames, from the one that it is of upwards. Returns if nobody handles it.
///
/// # Safety
/// `record` and `context` are those of an exception of `image` on this thread, whose stack this runs on, below the frame that the context is of.
pub(crate) unsafe fn dispatch(image: &Image, record: *mut EXCEPTION_RECORD, context: *mut Context) {
    // SAFETY: the caller says that it is there.
    let mut walk = unsafe { &*context }.clone();
    for _ in 0..FRAMES_MAX {
        let control = walk.instruction;
        let Ok(frame) = unwind(image, &mut walk) else { return };
        let Some((frame, handler)) = frame.and_then(|frame| Some((frame, frame.handler?))) else { continue };
        if !handler.of_exceptions {
            continue;
        }
        // SAFETY: they are those of the exception.
        match unsafe { call(image, (&frame, handler), record, context, (control, 0)) } {
            Some(CONTINUE_SEARCH) => {}
            Some(CONTINUE_EXECUTION) => {
                // SAFETY: the record is there.
                if unsafe { &*record }.ExceptionFlags & EXCEPTION_NONCONTINUABLE != 0 {
                    return;
                }
                // SAFETY: the context is that of the image's frame on this stack, above this one.
                unsafe { go_on(context) }
            }
            _ => return,
        }
    }
}

/// Unwinds the frames below a frame and goes on in that one. Returns if it is not found.
///
/// # Safety
/// As for [`dispatch`].
pub(crate) unsafe fn unwind_to(image: &Image, place: Place, record: *mut EXCEPTION_RECORD, context: *mut Context) {
    // SAFETY: the caller says that it is there.
    let mut at = unsafe { &*context }.clone();
    for _ in 0..FRAMES_MAX {
        let (control, mut above) = (at.instruction, at.clone());
        let Ok(frame) = unwind(image, &mut above) else { return };
        if let Some(frame) = frame {
            let is_target = frame.establisher == place.frame;
            if let Some(handler) = frame.handler.filter(|handler| handler.of_unwinding) {
                // SAFETY: the record is there.
                let flags = unsafe { &raw mut (*record).ExceptionFlags };
                // SAFETY: as above.
                unsafe { *flags |= UNWINDING | if is_target { TARGET_UNWIND } else { 0 } };
                let instructions = (control, place.instruction);
                // SAFETY: they are those of the exception, and of this frame.
                if unsafe { call(image, (&frame, handler), record, &raw mut at, instructions) } != Some(CONTINUE_SEARCH)
                {
                    return;
                }
            }
            if is_target {
                (at.general[RAX], at.instruction) = (place.result, place.instruction);
                // SAFETY: the registers are those of the frame, which goes on at a place that its own function names.
                unsafe { go_on(&raw const at) }
            }
        }
        at = above;
    }
}
