// UNSAFETY: calls handlers of driver images, and goes on in their frames.
//! Structured exception handling: exceptions are offered to the handlers of an image's frames, and frames are unwound. [learn: x64 exception handling]
//!
//! A filter or a termination handler may raise an exception itself. The frames of this process that called it know no unwind data, so each such call is noted on
//! the stack ([`Call`]): a walk that leaves the image at one goes on where its work stands. That is in the frames of the exception that the filter was asked about, from
//! the one that raised it on (a nested exception), or in the frame that was being unwound, behind the termination handler that ran (a collided unwind).

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;

use wddm_ddi::nt::{EXCEPTION_NONCONTINUABLE, EXCEPTION_RECORD};

use crate::image::{Image, RuntimeFunction};
use crate::unwind::{Context, Frame, Handler, RAX, RSP, go_on, unwind};

/// Frames are being unwound. [winnt: EXCEPTION_UNWINDING]
pub(crate) const UNWINDING: u32 = 2;
/// The frame is the one that execution goes on in. [winnt: EXCEPTION_TARGET_UNWIND]
pub(crate) const TARGET_UNWIND: u32 = 0x20;
/// The frame is one of an exception whose handling raised this one. [winnt: EXCEPTION_NESTED_CALL]
const NESTED_CALL: u32 = 0x10;
/// The frame was being unwound already. [winnt: EXCEPTION_COLLIDED_UNWIND]
const COLLIDED_UNWIND: u32 = 0x40;

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

/// A call of a handler, on the image's stack for as long as it lasts.
struct Call {
    /// Passed to the handler, which counts in it the scopes that it has dealt with.
    told: Dispatcher,
    /// Registers with which a walk goes on that leaves the image here.
    context: *const Context,
    /// The frame is being unwound; else its filter is asked.
    unwinding: bool,
    /// The call at which that walk leaves the image next.
    next: Option<NonNull<Call>>,
    /// The call before this one that has not returned, higher on the stack.
    outer: Option<NonNull<Call>>,
}

thread_local! {
    /// The innermost call of a handler on the image's stack.
    static INNERMOST: Cell<Option<NonNull<Call>>> = const { Cell::new(None) };
}

/// The calls of handlers of this thread, which another call of a driver on it has none of.
#[derive(Clone, Copy, Default)]
pub(crate) struct Calls(Option<NonNull<Call>>);

/// Sets the calls of handlers that have not returned, for another call of a driver on this thread; answers what was set.
pub(crate) fn replace_calls(calls: Calls) -> Calls {
    Calls(INNERMOST.replace(calls.0))
}

/// Goes on in a frame above. The calls of handlers below it are left.
///
/// # Safety
/// As for [`go_on`].
unsafe fn leave_for(context: *const Context) -> ! {
    // SAFETY: the caller says that it is there.
    let top = unsafe { &*context }.general[RSP];
    let mut live = INNERMOST.get();
    while let Some(call) = live.filter(|call| (call.as_ptr().addr() as u64) < top) {
        // SAFETY: calls that have not returned are where they were made, below which this runs.
        live = unsafe { call.as_ref() }.outer;
    }
    INNERMOST.set(live);
    // SAFETY: the caller says that the frame is on this stack, above this one.
    unsafe { go_on(context) }
}

/// A way through the frames of an exception, from the one that it is of upwards.
struct Walk {
    context: Context,
    /// Scopes of the next function with a handler that were dealt with.
    scope: u32,
    /// The call of a handler at which it leaves the image next.
    next: Option<NonNull<Call>>,
    /// The frame up to which frames are those of an exception whose filter raised this one.
    nested: Option<u64>,
    collided: bool,
}

impl Walk {
    /// The next frame, its instruction, and its registers before those of its caller took their place. `None` at the end of the call of the driver.
    fn step(&mut self, image: &Image, before: &mut Context) -> Option<(u64, Option<Frame>)> {
        loop {
            self.context.clone_into(before);
            let control = self.context.instruction;
            if let Ok(frame) = unwind(image, &mut self.context) {
                return Some((control, frame));
            }
            let outside = usize::try_from(control).is_ok_and(|address| image.rva_of(address).is_none());
            // SAFETY: calls that have not returned are where they were made, below which this runs.
            let call = unsafe { self.next.filter(|_| outside)?.as_ref() };
            // SAFETY: what the call names is on the stack as long as the call is.
            unsafe { &*call.context }.clone_into(&mut self.context);
            self.next = call.next;
            (self.scope, self.collided) = if call.unwinding { (call.told.scope, true) } else { (0, false) };
            self.nested = (!call.unwinding).then_some(call.told.establisher).max(self.nested);
        }
    }

    /// Flags for the handler of a frame that are about the way here.
    fn flags(&mut self, frame: &Frame) -> u32 {
        let nested = if self.nested.is_some() { NESTED_CALL } else { 0 };
        self.nested = self.nested.filter(|last| frame.establisher < *last);
        nested | if std::mem::take(&mut self.collided) { COLLIDED_UNWIND } else { 0 }
    }
}

/// The arguments of a handler that are about the exception or the unwinding, and none of them about the frame that has the handler.
struct Asked {
    record: *mut EXCEPTION_RECORD,
    /// Registers of the exception; of the frame, while it is unwound.
    context: *mut Context,
    /// Instruction of the frame.
    control: u64,
    /// Where execution goes on, while frames are unwound.
    target: u64,
    unwinding: bool,
}

/// Calls the handler of a frame at which `walk` has arrived.
///
/// # Safety
/// Record and context are those of an exception of the image, on its stack above this frame.
unsafe fn call(image: &Image, (frame, handler): (&Frame, Handler), asked: &Asked, walk: &mut Walk) -> Option<i32> {
    let base = image.base() as u64;
    let address = image.base().checked_add(handler.rva as usize).filter(|at| image.rva_of(*at).is_some())?;
    let RuntimeFunction { begin, .. } = frame.function;
    let outer = INNERMOST.get();
    let mut made = Call {
        told: Dispatcher {
            control: asked.control,
            image: base,
            function: base + u64::from(begin),
            establisher: frame.establisher,
            target: asked.target,
            context: asked.context,
            handler: address as u64,
            data: base + u64::from(handler.data),
            history: 0,
            scope: std::mem::take(&mut walk.scope),
            padding: 0,
        },
        context: asked.context,
        unwinding: asked.unwinding,
        // A search goes through all frames of its exception again; what is unwound is gone.
        next: if asked.unwinding { walk.next } else { outer },
        outer,
    };
    let made = NonNull::from(&mut made);
    INNERMOST.set(Some(made));
    let address = std::ptr::with_exposed_provenance::<c_void>(address);
    // SAFETY: the image says that its handler is there; one that is none faults.
    let handler = unsafe { std::mem::transmute::<*const c_void, LanguageHandler>(address) };
    // SAFETY: the call lives as long as this function, and nobody else writes to it meanwhile.
    let told = unsafe { &raw mut (*made.as_ptr()).told };
    // SAFETY: the arguments are what a handler is called with.
    let answer = unsafe { handler(asked.record, frame.establisher, asked.context, told) };
    INNERMOST.set(outer);
    Some(answer)
}

/// Takes flags from a record, and gives it others.
///
/// # Safety
/// The record is there, and nobody else looks at it meanwhile.
unsafe fn change_flags(record: *mut EXCEPTION_RECORD, taken: u32, given: u32) {
    // SAFETY: the caller says so.
    let flags = unsafe { &mut (*record).ExceptionFlags };
    *flags = *flags & !taken | given;
}

/// Offers an exception to the handlers of the image's frames, from the one that it is of upwards. Returns if nobody handles it.
///
/// # Safety
/// `record` and `context` are those of an exception of `image` on this thread, whose stack this runs on, below the frame that the context is of.
pub(crate) unsafe fn dispatch(image: &Image, record: *mut EXCEPTION_RECORD, context: *mut Context) {
    // SAFETY: the caller says that it is there.
    let context_there = unsafe { &*context };
    let next = INNERMOST.get();
    let mut walk = Walk { context: context_there.clone(), scope: 0, next, nested: None, collided: false };
    let mut before = context_there.clone();
    for _ in 0..FRAMES_MAX {
        let Some((control, frame)) = walk.step(image, &mut before) else { return };
        let Some((frame, handler)) = frame.and_then(|frame| Some((frame, frame.handler?))) else { continue };
        if !handler.of_exceptions {
            continue;
        }
        let nested = walk.flags(&frame) & NESTED_CALL;
        // SAFETY: the record is there.
        unsafe { change_flags(record, NESTED_CALL, nested) };
        let asked = Asked { record, context, control, target: 0, unwinding: false };
        // SAFETY: they are those of the exception.
        match unsafe { call(image, (&frame, handler), &asked, &mut walk) } {
            Some(CONTINUE_SEARCH) => {}
            Some(CONTINUE_EXECUTION) => {
                // SAFETY: the record is there.
                if unsafe { &*record }.ExceptionFlags & EXCEPTION_NONCONTINUABLE != 0 {
                    return;
                }
                // SAFETY: the context is that of the image's frame on this stack, above this one.
                unsafe { leave_for(context) }
            }
            _ => return,
        }
    }
}

/// Unwinds the frames below a frame and goes on in that one. Returns if it is not found.
///
/// # Safety
/// As for [`dispatch`], whose call of a filter this is asked for in.
pub(crate) unsafe fn unwind_to(image: &Image, place: Place, record: *mut EXCEPTION_RECORD, context: *mut Context) {
    // The call of the filter, which the frames to unwind do not belong to.
    let Some(asked_in) = INNERMOST.get() else { return };
    // SAFETY: it has not returned.
    let next = unsafe { asked_in.as_ref() }.outer;
    // SAFETY: the caller says that it is there.
    let context = unsafe { &*context };
    let mut walk = Walk { context: context.clone(), scope: 0, next, nested: None, collided: false };
    let mut at = context.clone();
    for _ in 0..FRAMES_MAX {
        let Some((control, frame)) = walk.step(image, &mut at) else { return };
        let Some(frame) = frame else { continue };
        let is_target = frame.establisher == place.frame;
        if let Some(handler) = frame.handler.filter(|handler| handler.of_unwinding) {
            let way = walk.flags(&frame) & COLLIDED_UNWIND | if is_target { TARGET_UNWIND } else { 0 };
            // SAFETY: the record is there.
            unsafe { change_flags(record, COLLIDED_UNWIND, UNWINDING | way) };
            let asked = Asked { record, context: &raw mut at, control, target: place.instruction, unwinding: true };
            // SAFETY: they are those of the exception, and of this frame.
            if unsafe { call(image, (&frame, handler), &asked, &mut walk) } != Some(CONTINUE_SEARCH) {
                return;
            }
        }
        if is_target {
            (at.general[RAX], at.instruction) = (place.result, place.instruction);
            // SAFETY: the registers are those of the frame, which goes on at a place that its own function names.
            unsafe { leave_for(&raw const at) }
        }
    }
}
