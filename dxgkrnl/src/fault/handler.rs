// UNSAFETY: signal handlers and the interrupted thread's registers.
//! Signals that a fault arrives as, and where the thread goes on.
//!
//! In this order a fault is: of a store to user memory that is being moved, which waits (see [`frozen`]); of a guarded access (see [`super::guarded`]), which goes on with an error; a driver's access to device
//! memory, which is carried out, and one that the device does not answer (see [`trap`]); of a driver image on its own stack, whose call ends (see [`driver_call`]). Any
//! other goes to the handler that was installed before; what is known of it is said first.
//!
//! The signal of the watchdog (see [`watchdog`]) arrives at any instruction. It ends a call of a driver image that is late if that instruction
//! is one of the image, and does nothing else. While a fault is handled it waits.
//!
//! The handler runs on the signal stack that every thread gets when it enters a driver. It may take locks and allocate: the
//! interrupted instruction is a driver's or one that follows a driver's pointer, never code that holds an allocator or a lock of this
//! process' libraries.

use std::ffi::{c_int, c_void};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Access, Cause, Fault, frozen, guarded};
use crate::bus::trap;
use crate::driver_call;
use crate::watchdog::{self, INTERRUPT};

/// Signals that a fault arrives as, the one of the watchdog, and the handlers that were there before.
static PREVIOUS: [(c_int, OnceLock<libc::sigaction>); 6] = [
    (libc::SIGSEGV, OnceLock::new()),
    (libc::SIGBUS, OnceLock::new()),
    (libc::SIGILL, OnceLock::new()),
    (libc::SIGFPE, OnceLock::new()),
    (libc::SIGTRAP, OnceLock::new()),
    (INTERRUPT, OnceLock::new()),
];
static INSTALLED: AtomicBool = AtomicBool::new(false);
static SETUP: Mutex<()> = Mutex::new(());

/// Where and how a thread faulted.
pub(super) struct Site {
    signal: c_int,
    /// Address that was accessed, if the processor told.
    address: usize,
    trap: u64,
    error: u64,
    /// The system knows a mapping at the address, which does not allow the access.
    mapping: bool,
    pub(super) instruction: usize,
    stack_pointer: usize,
}

/// General-protection and page-fault exceptions of the processor.
const GENERAL_PROTECTION: u64 = 13;
const PAGE_FAULT: u64 = 14;

impl Site {
    fn new(signal: c_int, info: &libc::siginfo_t, gregs: &[i64; 23]) -> Self {
        const SEGV_ACCERR: c_int = 2;
        let word = |register: c_int| gregs.get(register as usize).copied().unwrap_or(0).cast_unsigned();
        // SAFETY: SIGSEGV and SIGBUS fill in the address; for others it is not looked at.
        let address = unsafe { info.si_addr() }.addr();
        Self {
            signal,
            address,
            mapping: signal == libc::SIGSEGV && info.si_code == SEGV_ACCERR,
            trap: word(libc::REG_TRAPNO),
            error: word(libc::REG_ERR),
            instruction: word(libc::REG_RIP) as usize,
            stack_pointer: word(libc::REG_RSP) as usize,
        }
    }

    /// What went wrong.
    pub(super) fn cause(&self) -> Cause {
        match self.signal {
            libc::SIGILL => Cause::Illegal,
            libc::SIGFPE => Cause::Divide,
            libc::SIGTRAP => Cause::Breakpoint,
            libc::SIGSEGV if self.trap == GENERAL_PROTECTION => Cause::General,
            _ => {
                let page_fault = self.trap == PAGE_FAULT;
                let access = match self.error {
                    error if page_fault && error & 0x10 != 0 => Access::Execute,
                    error if page_fault && error & 0x2 != 0 => Access::Write,
                    _ => Access::Read,
                };
                Cause::Memory {
                    address: self.address,
                    access,
                    mapped: page_fault && self.mapping && self.error & 1 != 0,
                }
            }
        }
    }
}

/// Installs the handlers, once in a process.
///
/// # Errors
/// The system refuses.
pub(crate) fn install() -> io::Result<()> {
    let _setup = SETUP.lock().unwrap_or_else(PoisonError::into_inner);
    if INSTALLED.load(Ordering::Acquire) {
        return Ok(());
    }
    PREVIOUS.iter().try_for_each(|(signal, previous)| install_one(*signal, previous))?;
    INSTALLED.store(true, Ordering::Release);
    Ok(())
}

/// As [`install`], for code that is about to fault. Without handlers a fault ends the process, as it would without this module.
pub(super) fn ensure_installed() {
    if !INSTALLED.load(Ordering::Acquire) {
        let _ = install();
    }
}

/// Installs the handler in front of the one that is there.
fn install_one(signal: c_int, place: &OnceLock<libc::sigaction>) -> io::Result<()> {
    // SAFETY: all zero is a valid initial value of the C structure.
    let mut previous: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks for the present action only.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut previous) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let _ = place.set(previous);
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a set of this frame.
    unsafe { libc::sigaddset(&raw mut action.sa_mask, INTERRUPT) };
    let (handler, flags) = match signal {
        INTERRUPT => (interrupt as *const (), libc::SA_RESTART),
        _ => (handle as *const (), libc::SA_NODEFER),
    };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for and stays valid.
    if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: no requirement; the C library gives every thread its error number.
    let errno_place = unsafe { libc::__errno_location() };
    // SAFETY: the place belongs to this thread.
    let errno = unsafe { errno_place.read() };
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let info_of_fault = unsafe { info.read() };
    // SAFETY: with SA_SIGINFO the third argument is the interrupted thread's context, ours until return.
    let gregs = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let site = Site::new(signal, &info_of_fault, gregs);
    let address = site.address;
    let ours = (signal == libc::SIGSEGV && !trap::is_reserved(address) && frozen::wait(address))
        || recover(&site, gregs)
        || (signal == libc::SIGSEGV && trap::serve(address, gregs))
        || (signal == libc::SIGBUS && trap::unanswered(address, gregs))
        || land(&site, gregs)
        || (signal == libc::SIGSEGV && trap::stray(address, gregs));
    // SAFETY: as above.
    unsafe { errno_place.write(errno) };
    if !ours {
        tell(&site);
        chain(signal, info, context);
    }
}

/// Says whose call a fault is in that nobody here answers for, which may be about to end the process. The stack is all the memory that it takes: the fault may be inside
/// the allocator.
fn tell(site: &Site) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let signal = match site.signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        _ => return,
    };
    if TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut text = [0_u8; 400];
    let mut rest = &mut text[..];
    let (address, instruction) = (site.address, site.instruction);
    let inside = |name: &str, driver: &str| {
        let at = format_args!("*** {signal} at instruction {instruction:#x}, address {address:#x}");
        writeln!(rest, "{at}, inside {name} of driver {driver}, in code that is not a driver image's").is_ok()
    };
    if driver_call::in_innermost(inside).is_none() && driver_call::image_has_run() {
        let at = format_args!("*** {signal} at instruction {instruction:#x}, address {address:#x}");
        let _ = writeln!(
            rest,
            "{at}, in no call into a driver; a driver image may have overwritten memory of this process"
        );
    }
    let length = 400 - rest.len();
    // SAFETY: the text is readable for as many bytes.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), length) };
}

/// Ends the call of a driver image that is late.
extern "C" fn interrupt(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if !watchdog::is_ending() {
        return chain(signal, info, context);
    }
    // SAFETY: with SA_SIGINFO the third argument is the interrupted thread's context, ours until return.
    let gregs = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let instruction = gregs.get(libc::REG_RIP as usize).copied().unwrap_or(0).cast_unsigned() as usize;
    if let Some(to) = driver_call::landing_of_late(instruction) {
        resume(gregs, to);
    }
}

/// Has the interrupted thread go on in a function with one argument.
fn resume(gregs: &mut [i64; 23], (function, argument): (usize, usize)) {
    set(gregs, libc::REG_RIP, function);
    set(gregs, libc::REG_RDI, argument);
}

fn set(gregs: &mut [i64; 23], register: c_int, value: usize) {
    if let Some(place) = gregs.get_mut(register as usize) {
        *place = value as i64;
    }
}

/// Lets a guarded access go on with an error.
fn recover(site: &Site, gregs: &mut [i64; 23]) -> bool {
    let after = guarded::recover(site);
    if let Some(after) = after {
        set(gregs, libc::REG_RIP, after);
    }
    after.is_some()
}

/// Ends the call of a driver image whose own instruction faulted, or the instruction of a service that it called on its stack.
fn land(site: &Site, gregs: &mut [i64; 23]) -> bool {
    let mut fault = Fault { cause: site.cause(), instruction: site.instruction };
    if fault.cause == Cause::Breakpoint {
        // A breakpoint is reported behind its instruction.
        fault.instruction -= 1;
    }
    let Some(to) = driver_call::landing(fault, site.stack_pointer) else { return false };
    resume(gregs, to);
    true
}

/// Passes a signal on to whoever handled the signal before.
fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(previous) = PREVIOUS.iter().find(|(known, _)| *known == signal).and_then(|(_, place)| place.get()) else {
        return;
    };
    match previous.sa_sigaction {
        // The default action of this signal is to ignore it.
        libc::SIG_DFL | libc::SIG_IGN if signal == INTERRUPT => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // The instruction faults again, now with the default action.
            // SAFETY: restores an action that was in force before.
            unsafe { libc::sigaction(signal, std::ptr::from_ref(previous), std::ptr::null_mut()) };
            // SAFETY: sets a default action.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            type Action = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: with SA_SIGINFO the stored number is a function of this type.
            let handler = unsafe { std::mem::transmute::<usize, Action>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO the stored number is a function of this type.
            let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::Driver;

    /// Runs this test again in a process that faults, which is `fault`, and returns what that said.
    fn said_by(test: &str, fault: impl FnOnce()) -> Option<String> {
        const CHILD: &str = "CAMPANILE_FAULT_OF_NOBODY";
        if std::env::var_os(CHILD).is_some() {
            install().expect("handlers");
            fault();
            return None;
        }
        let program = std::env::current_exe().expect("a test has a path");
        let name = format!("fault::handler::tests::{test}");
        let output = std::process::Command::new(program).args([&name, "--exact"]).env(CHILD, "1").output();
        let output = output.expect("the test starts");
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(libc::SIGSEGV), "{output:?}");
        Some(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn read_nothing() {
        let nowhere = std::ptr::without_provenance::<u64>(std::hint::black_box(0x40));
        // SAFETY: none; the process is here to end by this.
        std::hint::black_box(unsafe { nowhere.read_volatile() });
    }

    #[test]
    fn a_fault_that_cannot_be_told_from_the_kernels_own_names_the_call_it_is_in() {
        let test = "a_fault_that_cannot_be_told_from_the_kernels_own_names_the_call_it_is_in";
        let call = || drop(driver_call::run(&Driver::for_tests("wild"), "DxgkDdiEscape", read_nothing));
        let Some(said) = said_by(test, call) else { return };
        assert!(said.contains("*** SIGSEGV at instruction 0x"), "{said}");
        assert!(said.contains("address 0x40, inside DxgkDdiEscape of driver wild, "), "{said}");
    }

    #[test]
    fn a_fault_in_a_process_that_no_driver_image_ran_in_is_nobody_elses_business() {
        let test = "a_fault_in_a_process_that_no_driver_image_ran_in_is_nobody_elses_business";
        let Some(said) = said_by(test, read_nothing) else { return };
        assert!(!said.contains("***"), "{said}");
    }
}
