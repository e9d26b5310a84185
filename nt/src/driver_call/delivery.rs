// UNSAFETY: builds frames on the stacks of driver images, and leaves frames of this process without returning through them.
//! Exceptions of driver images: a fault of an image, or one that a service raises, is offered to the handlers of the image's frames; what none of them
//! handles ends the call as it would without them.
//!
//! Handlers run on the image's stack, below the frame that the exception is of. [learn: structured exception handling]

use std::cell::Cell;

use wddm_ddi::nt::{EXCEPTION_NONCONTINUABLE, EXCEPTION_RECORD};

use super::{LANDED, LANDING, Landed, THREAD, Thread, current, leave, place, stored_stack, switch};
use crate::bugcheck::Bugcheck;
use crate::exception;
use crate::fault::signal::{self, Registers, Site};
use crate::fault::{Caller, Fault};
use crate::image::Image;
use crate::irql;
use crate::seh;
use crate::unwind::{CallSite, Context, nt_raise};

/// An exception on its way, on the stack of the image that it is of.
#[repr(C)]
struct Raised {
    context: Context,
    record: EXCEPTION_RECORD,
    /// The end of the call if nobody handles it.
    landed: Landed,
}

/// Bytes of the image's stack that handlers have at least, the kernel's part of the delivery included.
const RESERVE: usize = 8 << 10;

thread_local! {
    /// Where the service was called that follows a pointer of the image on the image's stack, while it does.
    static CALL_SITE: Cell<Option<*const CallSite>> = const { Cell::new(None) };
}

/// Sets where a service was called, for another call of a driver on this thread; answers what was set.
pub(super) fn replace_call_site(site: Option<*const CallSite>) -> Option<*const CallSite> {
    CALL_SITE.replace(site)
}

/// Does `act`, whose faults are exceptions of the image at this call of a service. It holds nothing that has to be dropped.
pub(crate) fn at_call_site<R>(site: *const CallSite, act: impl FnOnce() -> R) -> R {
    let outer = CALL_SITE.replace((!site.is_null()).then_some(site));
    let result = act();
    CALL_SITE.set(outer);
    result
}

/// The call of the service that [`at_call_site`] is in.
pub(super) fn caller() -> Option<Caller> {
    // SAFETY: the service has not returned, so that it is where its call has put it.
    let (instruction, function) = unsafe { &*CALL_SITE.get()? }.call();
    Some(Caller { instruction, function })
}

/// In the signal handler: has the exception that a fault stands for delivered, if there is one that an image can handle. What ends the call otherwise was
/// noted before.
pub(super) fn begin(fault: &Fault, site: &Site, registers: &mut Registers) -> bool {
    let (Some(landing), Some(landed)) = (LANDING.get().filter(|landing| landing.unwinds), LANDED.get()) else {
        return false;
    };
    let by_image = landing.image().contains(&fault.instruction);
    let call_site = CALL_SITE.get().filter(|_| !by_image);
    if !by_image && call_site.is_none() || !landing.stack.holds(site.stack_pointer & !7) {
        return false;
    }
    let Some(driver) = current() else { return false };
    let Some(mut record) = exception::record(fault, &driver, irql::current()) else { return false };
    // A service that was left does not go on.
    record.ExceptionFlags |= if by_image { 0 } else { EXCEPTION_NONCONTINUABLE };
    // Below what a function of this process may use without moving its stack pointer.
    let address = (site.stack_pointer - 256 - size_of::<Raised>()) & !15;
    if !landing.stack.holds(address.saturating_sub(RESERVE)) {
        return false;
    }
    let context = match call_site {
        // SAFETY: the service has not returned, so that its caller's registers are where it has put them.
        Some(call_site) => unsafe { &*call_site }.context(),
        None => Context::new(signal::general(registers), fault.instruction as u64, signal::flags(registers)),
    };
    let raised = std::ptr::with_exposed_provenance_mut::<Raised>(address);
    // SAFETY: the place is on the image's stack, below all that is in use there.
    unsafe { raised.write(Raised { context, record, landed }) };
    LANDED.set(None);
    CALL_SITE.set(None);
    match call_site {
        // The registers of the call site are complete.
        Some(_) => signal::resume_at(registers, deliver as *const () as usize, address - 8, [address, 0]),
        None => {
            let arguments = [address, deliver as *const () as usize];
            signal::resume_at(registers, nt_raise as *const () as usize, address, arguments);
        }
    }
    true
}

/// On the image's stack: offers an exception to the image's handlers; returns to none of the frames above.
extern "sysv64" fn deliver(raised: *mut Context) -> ! {
    let raised = raised.cast::<Raised>();
    // SAFETY: `begin` has put it there, and nothing but handlers runs on this stack meanwhile.
    let Raised { context, record, landed } = unsafe { &mut *raised };
    if let Some(image) = image() {
        // SAFETY: they are those of the exception, on the image's stack above this frame.
        unsafe { seh::dispatch(image, record, context) };
    }
    LANDED.set(Some(*landed));
    let stack = LANDING.get().map(|landing| stored_stack(landing.host));
    // SAFETY: an image runs on this thread, and `enter` is on the host's stack and stored the value.
    unsafe { leave(stack.unwrap_or_default()) }
}

/// The image that runs on this thread, for as long as its call: frames of handlers are left without a word, so that nobody could give up a reference to
/// its driver.
fn image<'a>() -> Option<&'a Image> {
    let of = |thread: &Thread| {
        let loaded = thread.frames.last()?.driver.image()?;
        Some(&raw const loaded.image)
    };
    let image = THREAD.with_borrow(of)?;
    // SAFETY: the thread's innermost call keeps its driver, which keeps the image where it is.
    Some(unsafe { &*image })
}

/// Raises an exception of the image that called a service at `site`, which is null if no image did. A service asks for this on the image's stack, and
/// holds nothing that has to be dropped. What nobody handles stops the machine with the bug check that `unhandled` makes of it.
pub(crate) fn raise(site: *const CallSite, code: u32, arguments: &[usize], unhandled: impl FnOnce() -> Bugcheck) -> ! {
    let mut caller = None;
    // SAFETY: the service that passes it has not returned.
    if let (Some(site), Some(image)) = (unsafe { site.as_ref() }, image()) {
        let mut context = site.context();
        let (instruction, function) = site.call();
        caller = Some(Caller { instruction, function });
        let mut record = exception::record_of(code, context.instruction as usize, arguments);
        record.ExceptionFlags |= EXCEPTION_NONCONTINUABLE;
        // SAFETY: both are on the image's stack, and nobody else knows them.
        unsafe { seh::dispatch(image, &raw mut record, &raw mut context) };
    }
    switch(|| {
        if let Some(driver) = current() {
            driver.verifier().raise(unhandled().at(place(&driver, caller)));
        }
    });
    super::abandon("a kernel service raised an exception")
}

/// Goes on in the frame `target` of the running image, at an address of it, after all frames below it were unwound.
///
/// # Safety
/// Record and context are those of an exception that is being delivered to the image.
pub(crate) unsafe fn unwind_to(place: seh::Place, record: *mut EXCEPTION_RECORD, context: *mut Context) -> ! {
    if let Some(image) = image() {
        // SAFETY: the caller says so.
        unsafe { seh::unwind_to(image, place, record, context) };
    }
    super::stop(Bugcheck::fatal("the frames of the driver cannot be unwound to the one that handles an exception"))
}
