// UNSAFETY: switches the stack pointer back to the kernel's side of a driver call.
//! The boundary between the kernel and a driver on one thread.
//!
//! A stop of a Windows machine never returns to the driver that caused it. A linked driver lives in the process of the test, so the machine
//! stops and only this one call ends: [`run`] remembers where the kernel stood, and [`abandon`] goes back there over the driver's frames.
//! Nothing in those frames runs any more, and their locks are never released (a spin lock that others wait for makes them [`abandon`] too,
//! see [`services`](crate::services)), and no DDI of the machine is called afterwards.
//!
//! A driver image runs on a kernel stack of its own, see [`kernel_stack`], and what it calls in the kernel goes back to the
//! host's stack ([`on_host_stack`]). What faults on the image's stack, the image or a service that follows its pointer, is an exception of the image if
//! it can be one (`delivery`), or else, and if nobody handles it, ends the call with the bugcheck that the fault stands for: the signal handler sends the
//! thread to `landing`. A service therefore holds no lock while it is on that stack.
//!
//! Calls nest: driver → callback → driver. Each layer of the kernel is returned to, in order, so that it can release its locks and objects
//! before it abandons the layer above.

mod bookkeeping;
mod delivery;
mod spin_locks;
mod switch;

pub use bookkeeping::{
    HeldMutex, drop_mutex, drop_push_lock, enter_critical_region, held_mutex, hold_mutex, hold_push_lock,
    holds_push_lock, in_critical_region, leave_critical_region,
};
pub(crate) use delivery::{at_call_site, raise, unwind_to};
pub use spin_locks::HeldSpinLock;
pub(crate) use spin_locks::{
    hold as hold_spin_lock, holder as spin_lock_holder, holds as holds_spin_lock, lacks as lacks_spin_lock,
    release as release_spin_lock,
};

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use wddm_ddi::types::KIRQL;

use crate::bugcheck::{Bugcheck, CodeLocation};
use crate::bus::trap;
use crate::calls;
use crate::driver::Driver;
use crate::exception::{self, By};
use crate::fault::signal::{self, Claim, Interrupted, Registers, Site};
use crate::fault::{self, Access, Caller, Cause, Fault};
use crate::irql;
use crate::kernel_stack::{self, KernelStack, Layout};
use crate::seh;
use crate::verifier::Verifier;
use crate::watchdog;

pub use crate::calls::{InService, in_service};
use switch::{DOWNWARDS, LEFT, clear_direction, enter, leave};

/// One driver call on a thread's stack.
struct Frame {
    driver: Arc<Driver>,
    /// The function of the driver.
    name: &'static str,
    /// Address at which [`enter`] stored the stack pointer of the host.
    stack: *const usize,
    /// Depth of critical regions at entry.
    critical_regions: u32,
}

/// State by which the current call into a driver image is ended from its kernel stack.
#[derive(Clone, Copy)]
struct Landing {
    /// Address at which [`enter`] stored the stack pointer of the host.
    host: *const usize,
    stack: Layout,
    /// First address of the image and the one behind it.
    image: (usize, usize),
    /// The image says how its functions are unwound, so that exceptions can be delivered to it.
    unwinds: bool,
}

impl Landing {
    fn image(&self) -> Range<usize> {
        self.image.0..self.image.1
    }
}

/// The event that ended a call into a driver before it returned.
#[derive(Clone, Copy)]
enum Landed {
    /// A fault, and the instruction of the image that did it, or that called what did it.
    Fault(Fault, Caller),
    /// The watchdog, at this instruction of the image.
    Late(usize),
}

#[derive(Default)]
struct Thread {
    frames: Vec<Frame>,
    /// KeEnterCriticalRegion calls not yet left.
    critical_regions: u32,
    /// Addresses of the push locks that the thread has.
    push_locks: Vec<usize>,
    /// The mutexes that the thread has, one as often as it has acquired it.
    mutexes: Vec<HeldMutex>,
    /// Kernel stacks that no call uses.
    spare_stacks: Vec<KernelStack>,
}

/// True once a driver image has run in this process, which can have written to any memory of it.
static IMAGE_HAS_RUN: AtomicBool = AtomicBool::new(false);

thread_local! {
    static THREAD: RefCell<Thread> = RefCell::new(Thread::default());
    /// Set while the thread runs on the kernel stack of an image. For the signal handler, which must not find anything borrowed.
    static LANDING: Cell<Option<Landing>> = const { Cell::new(None) };
    /// True while the thread is in a service that the innermost call asked for.
    static IN_SERVICE: Cell<bool> = const { Cell::new(false) };
    /// The event that ended the innermost call into a driver, until it is reported.
    static LANDED: Cell<Option<Landed>> = const { Cell::new(None) };
}

/// State of the thread that a driver call should have restored and has not.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// IRQL at entry and at return, if they differ.
    pub irql: Option<(KIRQL, KIRQL)>,
    /// Critical regions entered and not left.
    pub critical_regions: u32,
    /// Address of a push lock that was not released.
    pub push_lock: Option<usize>,
    /// A mutex that was not released, in words.
    pub mutex: Option<String>,
    /// A spin lock that was not released, in words.
    pub spin_lock: Option<String>,
    /// The direction flag was set.
    pub downwards: bool,
}

impl Leftovers {
    /// A driver must leave the thread as it found it; `name` is the function that returned.
    pub fn check(&self, name: &str, verifier: &Verifier) {
        if let Some((entered, left)) = self.irql {
            let lock = self.spin_lock.as_ref().map_or_else(String::new, |lock| format!(", with {lock}"));
            verifier.raise(Bugcheck::new(
                Bugcheck::IRQL_UNEXPECTED_VALUE,
                [u64::from(left) << 16 | u64::from(entered) << 8, 0, 0, 0],
                format!("{name} was entered at IRQL {entered} and returned at {left}{lock}"),
            ));
        } else if let Some(lock) = &self.spin_lock {
            verifier.raise(Bugcheck::fatal(format!("{name} returned with {lock}")));
        }
        if self.downwards {
            verifier.raise(Bugcheck::fatal(format!("{name} returned with the direction flag set{CONVENTION}")));
        }
        if let Some(push_lock) = self.push_lock {
            verifier.raise(Bugcheck::fatal(format!("{name} returned with push lock {push_lock:#x} held")));
        }
        if let Some(mutex) = &self.mutex {
            let reason = format!("{name} returned with {mutex}: that disables normal kernel APCs");
            verifier.raise(Bugcheck::new(Bugcheck::APC_INDEX_MISMATCH, [0, 0, APCS_DISABLED, 0], reason));
        }
        if self.critical_regions > 0 {
            let count = self.critical_regions;
            let reason = format!("{name} returned without leaving {count} critical region(s)");
            let disabled = u64::from((count as u16).wrapping_neg());
            verifier.raise(Bugcheck::new(Bugcheck::APC_INDEX_MISMATCH, [0, 0, disabled, 0], reason));
        }
    }
}

/// Kernel APCs of a thread were disabled once and not enabled again: a count of 16 bits with a sign. [debugger: 0x1]
pub const APCS_DISABLED: u64 = 0xffff;

/// The rule of the direction flag, in words.
const CONVENTION: &str = ", which the x64 calling convention wants clear on entry to a function and on return from it";

/// A call on its way through [`enter`].
struct Call<F, R> {
    call: Option<F>,
    result: Option<R>,
}
/// Runs the call.
///
/// # Safety
/// `data` is a `Call<F, R>` that is not used elsewhere.
unsafe extern "sysv64" fn trampoline<F: FnOnce() -> R, R>(data: *mut c_void) {
    // SAFETY: `run` passes its own local, exclusively.
    let data = unsafe { &mut *data.cast::<Call<F, R>>() };
    if let Some(call) = data.call.take() {
        data.result = Some(call());
    }
}
fn of<F: FnOnce() -> R, R>(_: &Call<F, R>) -> unsafe extern "sysv64" fn(*mut c_void) {
    trampoline::<F, R>
}

/// Has faults of drivers end their calls, from now on.
fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        signal::claim(Claim::DriverImage, land);
        signal::claim(Claim::StrayAccess, stray);
        signal::set_caller(signal::Caller { interrupted, describe: describe_unanswered });
    });
}

/// Prepares the process for calls into drivers.
///
/// # Errors
/// The host refuses the signal handlers.
pub fn prepare() -> io::Result<()> {
    listen();
    signal::install()
}

/// Calls the function `name` of a driver, with the watchdog looking. `None` if the call was abandoned.
pub fn run<R>(driver: &Arc<Driver>, name: &'static str, call: impl FnOnce() -> R) -> (Option<R>, Leftovers) {
    listen();
    let _watched = driver.enter_call(name);
    run_thread(driver, name, call)
}

/// As [`run`], without the watchdog: for the start routine of a thread, which may run as long as the machine.
pub fn run_thread<R>(driver: &Arc<Driver>, name: &'static str, call: impl FnOnce() -> R) -> (Option<R>, Leftovers) {
    listen();
    let kernel_stack = driver.image().is_some().then(|| {
        let spare = THREAD.with_borrow_mut(|thread| thread.spare_stacks.pop());
        spare.unwrap_or_else(KernelStack::new)
    });
    kernel_stack::ensure_signal_stack();
    let top = kernel_stack.as_ref().map_or(0, KernelStack::top);
    let mut data = Call { call: Some(call), result: None };
    let function = of(&data);
    let mut stack = 0_usize;
    let entered_at = irql::current();
    let (regions, locks, mutexes) = THREAD.with_borrow_mut(|thread| {
        let critical_regions = thread.critical_regions;
        thread.frames.push(Frame { driver: Arc::clone(driver), name, stack: &raw const stack, critical_regions });
        (critical_regions, thread.push_locks.len(), thread.mutexes.len())
    });
    let landing = driver.image().zip(kernel_stack.as_ref()).map(|(loaded, kernel_stack)| {
        let base = loaded.image.base();
        let image = (base, base + loaded.image.size());
        let unwinds = loaded.image.has_functions();
        Landing { host: &raw const stack, stack: kernel_stack.layout(), image, unwinds }
    });
    let (locks_held, spin_locks) = (crate::lock::held(), spin_locks::held());
    if landing.is_some() {
        IMAGE_HAS_RUN.store(true, Ordering::Relaxed);
    }
    let outer = LANDING.replace(landing);
    let was_in_service = IN_SERVICE.replace(false);
    let call_site = delivery::replace_call_site(None);
    let handlers = seh::replace_calls(seh::Calls::default());
    // SAFETY: `stack` and `data` outlive the call, and the frame that names `stack` is popped right after it.
    let outcome = unsafe { enter(&raw mut stack, function, (&raw mut data).cast(), top) };
    let abandoned = outcome == LEFT;
    LANDING.set(outer);
    IN_SERVICE.set(was_in_service);
    delivery::replace_call_site(call_site);
    seh::replace_calls(handlers);
    let left_at = irql::set(entered_at);
    let leftovers = THREAD.with_borrow_mut(|thread| {
        thread.frames.pop();
        thread.spare_stacks.extend(kernel_stack);
        let leftovers = Leftovers {
            irql: (left_at != entered_at).then_some((entered_at, left_at)),
            critical_regions: thread.critical_regions.saturating_sub(regions),
            push_lock: left(&mut thread.push_locks, locks),
            mutex: left(&mut thread.mutexes, mutexes).map(|held| held.describe(driver)),
            spin_lock: spin_locks::forget_others(&spin_locks).map(|held| held.describe(driver)),
            downwards: outcome == DOWNWARDS,
        };
        thread.critical_regions = regions;
        leftovers
    });
    if let Some(bugcheck) = LANDED.take().and_then(|landed| describe(driver, landed, left_at)) {
        driver.verifier().raise(within(bugcheck, name));
    }
    if abandoned {
        crate::lock::forget_down_to(locks_held);
        return (None, Leftovers::default());
    }
    (data.result, leftovers)
}

/// The first of what a call has acquired and not released, where so much was held before it; it is forgotten.
fn left<Lock: Copy>(held: &mut Vec<Lock>, before: usize) -> Option<Lock> {
    let first = held.get(before).copied();
    held.truncate(before);
    first
}

/// Ends the innermost driver call of this thread; its [`run`] returns `None`. Without one the process ends, because there is
/// no call to end and the machine of the caller is unknown.
pub fn abandon(reason: &str) -> ! {
    let stack = THREAD.with_borrow(|thread| thread.frames.last().map(|frame| frame.stack));
    match stack {
        Some(slot) => {
            let stack = stored_stack(slot);
            // SAFETY: `enter` is on this stack below us and stored the value.
            unsafe { leave(stack) }
        }
        None => {
            let _ = writeln!(io::stderr(), "*** STOP outside a driver call: {reason}");
            std::process::abort();
        }
    }
}

/// Stops the machine of the calling driver and ends its call.
pub fn stop(bugcheck: Bugcheck) -> ! {
    stop_with(|_, _| bugcheck)
}

/// The instruction of the image that called the service which this thread is in: an address inside of it, or 0 if no image called. For services on the
/// image's stack.
pub fn calling_instruction() -> usize {
    calling().map_or(0, |caller| caller.instruction)
}

fn calling() -> Option<Caller> {
    LANDING.get().and_then(|landing| fault::caller(landing.image()))
}

/// Ends the call of an image that is late for the watchdog. For services on the image's stack that wait, and hold nothing meanwhile.
pub(crate) fn check_late() {
    if calls::is_ending() {
        stop_late();
    }
}

/// The bug check of a call that is late, with the service that it is in.
fn stop_late() -> ! {
    let Some(mut bugcheck) = current().and_then(|driver| driver.verifier().calls().verdict()) else {
        abandon("the call was late")
    };
    stop_with(|driver, caller| {
        let service = caller.and_then(|caller| driver.services().name_of(caller.function));
        if let Some(service) = service.filter(|_| !bugcheck.reason.contains(": it is in ")) {
            bugcheck.reason = format!("{}: it is in {service}", bugcheck.reason);
        }
        bugcheck
    })
}

/// As [`stop`], for a pointer of the driver that a service could not follow.
pub fn stop_for_pointer(service: &str, fault: Fault) -> ! {
    let level = irql::current();
    stop_with(|driver, _| exception::bugcheck(fault, By::Service(service), driver, level))
}

/// The bug check for a driver's pointer that could not be followed, for a service that still has locks or objects to release. See [`stop_for_pointer`].
pub fn bad_pointer(service: &str, fault: Fault) -> Bugcheck {
    match current() {
        Some(driver) => exception::bugcheck(fault, By::Service(service), &driver, irql::current()),
        None => Bugcheck::fatal(format!("{service} with a bad pointer outside a driver call")),
    }
}

/// A service that an image called asks for this on the image's stack, where the calling instruction can be found.
fn stop_with(bugcheck: impl FnOnce(&Driver, Option<Caller>) -> Bugcheck) -> ! {
    let caller = calling();
    switch(|| {
        if let Some(driver) = current() {
            let bugcheck = bugcheck(&driver, caller).at(place(&driver, caller));
            driver.verifier().raise(within(bugcheck, current_name().unwrap_or_default()));
        }
    });
    abandon("a kernel service was called wrongly")
}

/// The bug check of a call of the function `name`, which its reason names.
fn within(mut bugcheck: Bugcheck, name: &str) -> Bugcheck {
    if !bugcheck.reason.contains(name) {
        bugcheck.reason = format!("{}, in {name}", bugcheck.reason);
    }
    bugcheck
}

fn place(driver: &Driver, caller: Option<Caller>) -> Option<CodeLocation> {
    // No function of the image lies at 0: the callers are those that this one was compiled into.
    driver.place_of([caller?.instruction, 0, 0])
}

/// In the signal handler: ends the call of a driver image whose own instruction faulted, or the instruction of a service that it called on its stack.
fn land(site: &Site, registers: &mut Registers) -> bool {
    let mut fault = Fault { cause: site.cause(), instruction: site.instruction };
    if fault.cause == Cause::Breakpoint {
        // A breakpoint is reported behind its instruction.
        fault.instruction -= 1;
    }
    let Some((function, argument)) = landing(fault, site.stack_pointer) else { return false };
    if !delivery::begin(&fault, site, registers) {
        signal::resume(registers, function, argument);
    }
    true
}

/// In the signal handler: an access of a linked driver to reserved addresses that no mapping covers is fatal for the driver, and its call does not go on.
fn stray(site: &Site, registers: &mut Registers) -> bool {
    let address = site.address;
    if site.signal != libc::SIGSEGV || !trap::is_reserved(address) {
        return false;
    }
    let Some(driver) = current() else { return false };
    driver.verifier().raise(Bugcheck::new(
        Bugcheck::PAGE_FAULT_IN_NONPAGED_AREA,
        [address as u64, 0, site.instruction as u64, 0],
        format!("device memory at {address:#x} accessed outside any mapping of DxgkCbMapMemory"),
    ));
    signal::enter(registers, abandon_stray as *const () as usize);
    true
}

extern "C" fn abandon_stray() -> ! {
    abandon("access to unmapped device memory")
}

/// In the signal handler: where a thread goes on that the watchdog interrupted.
fn interrupted(instruction: usize) -> Interrupted {
    if !calls::is_ending() {
        return Interrupted::NotOurs;
    }
    landing_of_late(instruction).map_or(Interrupted::GoesOn, Interrupted::Lands)
}

/// In the signal handler: describes the driver call in which a fault happened that no module handles.
fn describe_unanswered(site: &Site, text: &mut [u8]) -> usize {
    let signal = match site.signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        _ => return 0,
    };
    let length = text.len();
    let mut rest = text;
    let (address, instruction) = (site.address, site.instruction);
    let inside = |name: &str, driver: &str| {
        let at = format_args!("*** {signal} at instruction {instruction:#x}, address {address:#x}");
        writeln!(rest, "{at}, inside {name} of driver {driver}, in code that is not a driver image's").is_ok()
    };
    if in_innermost(inside).is_none() && IMAGE_HAS_RUN.load(Ordering::Relaxed) {
        let at = format_args!("*** {signal} at instruction {instruction:#x}, address {address:#x}");
        let _ = writeln!(
            rest,
            "{at}, in no call into a driver; a driver image may have overwritten memory of this process, for example \
             what it was lent for an earlier call: with --special-pool such an access stops at its instruction"
        );
    }
    length - rest.len()
}

/// Where a signal handler resumes a thread whose driver image faulted, or a service on the image's stack: instruction pointer and value
/// for RDI. Notes the fault for the call that ends. `None` if no image runs on this thread.
fn landing(mut fault: Fault, stack_pointer: usize) -> Option<(usize, usize)> {
    if LANDED.get().is_some() {
        // It faults on its return.
        lost();
    }
    let Some(landing) = LANDING.get() else { return linked_jump(fault) };
    if let Cause::Memory { address, .. } = fault.cause
        && landing.stack.guards(address)
    {
        fault.cause = Cause::Stack { address };
    }
    let itself = Caller { instruction: fault.instruction, function: 0 };
    let caller = match fault.cause {
        // The thread is where it jumped to; the caller has left the address to return to.
        Cause::Memory { address, access: Access::Execute, .. } if address == fault.instruction => {
            let returns_to = landing.stack.holds(stack_pointer).then(|| {
                let top = std::ptr::with_exposed_provenance::<usize>(stack_pointer);
                // SAFETY: the word lies on the kernel stack of this thread's call.
                unsafe { top.read() }
            });
            returns_to.map_or(itself, |address| Caller { instruction: address.wrapping_sub(1), function: 0 })
        }
        _ if landing.image().contains(&fault.instruction) => itself,
        _ => delivery::caller().or_else(|| fault::caller(landing.image())).unwrap_or(itself),
    };
    LANDED.set(Some(Landed::Fault(fault, caller)));
    Some((leave as *const () as usize, stored_stack(landing.host)))
}

/// As [`landing`], for a thread that the watchdog has interrupted at an instruction. `None` unless it runs code of its image: what it
/// does in the kernel it has to end first, see [`on_host_stack`].
fn landing_of_late(instruction: usize) -> Option<(usize, usize)> {
    // Code of the image runs only after `enter` has stored where to go back to.
    let landing = LANDING.get().filter(|landing| calls::is_ending() && landing.image().contains(&instruction))?;
    LANDED.set(Some(Landed::Late(instruction)));
    Some((leave as *const () as usize, stored_stack(landing.host)))
}

/// As [`landing`], for a linked driver that jumped to where no code is. Other faults of its code cannot be told from the test's own.
fn linked_jump(fault: Fault) -> Option<(usize, usize)> {
    match fault.cause {
        Cause::Memory { address, access: Access::Execute, .. } if address == fault.instruction => {}
        _ => return None,
    }
    let slot = THREAD.with(|thread| thread.try_borrow().ok()?.frames.last().map(|frame| frame.stack))?;
    LANDED.set(Some(Landed::Fault(fault, Caller::default())));
    Some((leave as *const () as usize, stored_stack(slot)))
}

/// The stack pointer that [`enter`] stored for a call in progress. A driver can write anywhere in this process; if it has overwritten the value,
/// the thread cannot return to the kernel's stack, and the process ends.
fn stored_stack(slot: *const usize) -> usize {
    /// More than the frame of [`run`] has.
    const NEAR: usize = 64 << 10;
    // SAFETY: `run` keeps the slot alive until its call is over.
    let stack = unsafe { slot.read() };
    if slot.addr().checked_sub(stack).is_none_or(|distance| distance > NEAR) {
        lost();
    }
    stack
}

/// Ends the process, because the call of this thread cannot be ended.
fn lost() -> ! {
    let who = in_innermost(|name, driver| format!("{name} of driver {driver}"));
    let who = who.unwrap_or_else(|| "a driver".to_owned());
    watchdog::end(&format!("{who} has overwritten the stack of the kernel"))
}

/// The bugcheck of what ended a call at `level`.
fn describe(driver: &Driver, landed: Landed, level: KIRQL) -> Option<Bugcheck> {
    let (bugcheck, caller) = match landed {
        Landed::Fault(fault, caller) => {
            let by = match driver.services().name_of(caller.function) {
                Some(service) => By::Service(service),
                None => By::Driver,
            };
            (exception::bugcheck(fault, by, driver, level), caller)
        }
        Landed::Late(instruction) => (driver.verifier().calls().verdict()?, Caller { instruction, function: 0 }),
    };
    Some(bugcheck.at(place(driver, Some(caller))))
}

/// Runs `call` on the stack of the kernel's side, when the driver that called runs on one of its own. Ends the driver's call if that is
/// late for the watchdog, unless this is part of another service, which may have locks.
pub fn on_host_stack<R>(call: impl FnOnce() -> R) -> R {
    if LANDING.get().is_some() && clear_direction() {
        stop(Bugcheck::fatal(format!("a kernel service called with the direction flag set{CONVENTION}")));
    }
    let outer = IN_SERVICE.replace(true);
    let result = switch(call);
    IN_SERVICE.set(outer);
    if !outer && calls::is_ending() {
        stop_late();
    }
    result
}

/// Runs `call` on the stack of the kernel's side, when the thread is on that of an image.
fn switch<R>(call: impl FnOnce() -> R) -> R {
    let landing = LANDING.take();
    let Some(host) = landing.map(|landing| stored_stack(landing.host)) else { return call() };
    let mut data = Call { call: Some(call), result: None };
    let function = of(&data);
    let mut slot = 0_usize;
    // Below the red zone of the frame that `enter` saved.
    let top = (host - 256) & !15;
    // SAFETY: `slot` and `data` outlive the call; nothing runs on the host's stack below the saved frame meanwhile.
    unsafe { enter(&raw mut slot, function, (&raw mut data).cast(), top) };
    LANDING.set(landing);
    match data.result {
        Some(result) => result,
        None => abandon("a kernel service did not return"),
    }
}

/// The driver whose call is innermost on this thread.
pub fn current() -> Option<Arc<Driver>> {
    THREAD.with_borrow(|thread| thread.frames.last().map(|frame| Arc::clone(&frame.driver)))
}

/// Calls `tell` with the names of function and driver of the innermost call of this thread. For the signal handler: takes no memory.
fn in_innermost<R>(tell: impl FnOnce(&str, &str) -> R) -> Option<R> {
    let innermost = |thread: &RefCell<Thread>| {
        let thread = thread.try_borrow().ok()?;
        thread.frames.last().map(|frame| tell(frame.name, frame.driver.name()))
    };
    THREAD.try_with(innermost).ok().flatten()
}

/// The name of the innermost call of this thread.
pub(crate) fn current_name() -> Option<&'static str> {
    THREAD.with_borrow(|thread| thread.frames.last().map(|frame| frame.name))
}

/// True if this thread is inside a driver call.
#[cfg(test)]
fn is_inside() -> bool {
    THREAD.with_borrow(|thread| !thread.frames.is_empty())
}

#[cfg(test)]
mod tests;
