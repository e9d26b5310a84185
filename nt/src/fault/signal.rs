// UNSAFETY: signal handlers and the interrupted thread's registers.
//! Signals that a fault arrives as, and where the thread goes on.
//!
//! A fault is offered to the modules that can handle one, in the order of [`Claim`]; each of them registers a function when it first may
//! have a fault to handle. A fault that none of them handles goes to the handler that was installed before; what is known of it is
//! printed first.
//!
//! The signal of the watchdog, [`INTERRUPT`], arrives at any instruction. The module that calls drivers decides if the thread goes on
//! elsewhere. While a fault is handled the signal waits.
//!
//! The handler runs on the signal stack that every thread gets when it enters a driver. It may take locks and allocate: the
//! interrupted instruction is a driver's or one that follows a driver's pointer, never code that holds an allocator or a lock of this
//! process' libraries.

use std::ffi::c_int;
use std::ffi::c_void;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Access, Cause};

/// The signal that interrupts a driver image. Where no handler is installed it is ignored.
pub const INTERRUPT: c_int = libc::SIGURG;

/// What a fault can be, in the order in which that is found out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim {
    /// An access to device memory that is trapped; it is carried out.
    TrappedBar,
    /// A store to user memory that is being moved; it waits and is made again.
    FrozenPage,
    /// An instruction that reaches processor or kernel without a call, as code of the WDK has some; it is carried out.
    Inline,
    /// A guarded access; the thread goes on with an error.
    GuardedAccess,
    /// An access to device memory that the device does not answer; it is carried out as one without a device.
    UnansweredBar,
    /// An instruction of a driver image, or of a service on its stack; the call of the driver ends.
    DriverImage,
    /// An access of a linked driver to device memory that is not mapped; the call of the driver ends.
    StrayAccess,
}

/// Registers of the interrupted thread, as the C library lays them out.
pub(crate) type Registers = [i64; 23];

/// Answers for a fault, and changes the registers with which the thread goes on. False if the fault is none of its own.
pub(crate) type Claimant = fn(&Site, &mut Registers) -> bool;

/// Continuation of an interrupted thread.
pub(crate) enum Interrupted {
    /// The signal is not for this thread's call.
    NotOurs,
    /// At the interrupted instruction.
    GoesOn,
    /// At this function, with this argument.
    Lands((usize, usize)),
}

/// Functions of the module that calls drivers, which the signal handler calls.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    /// Decides at which address a thread continues that [`INTERRUPT`] interrupted at this instruction.
    pub(crate) interrupted: fn(usize) -> Interrupted,
    /// Writes what is known of the driver call in which a fault happened that no module handles; returns the number of bytes. It allocates no memory, because the fault may be inside the allocator.
    pub(crate) describe: fn(&Site, &mut [u8]) -> usize,
}

static CLAIMANTS: [OnceLock<Claimant>; 7] = [const { OnceLock::new() }; 7];
static CALLER: OnceLock<Caller> = OnceLock::new();

/// Has faults of this kind offered to `claimant` from now on. The first one stays.
pub(crate) fn claim(claim: Claim, claimant: Claimant) {
    if let Some(place) = CLAIMANTS.get(claim as usize) {
        let _ = place.set(claimant);
    }
}

/// Has `caller` asked about threads that are inside calls of drivers. The first one stays.
pub(crate) fn set_caller(caller: Caller) {
    let _ = CALLER.set(caller);
}

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

/// Signal, address and registers of a fault.
pub(crate) struct Site {
    pub(crate) signal: c_int,
    /// Address that was accessed, if the processor told.
    pub(crate) address: usize,
    trap: u64,
    error: u64,
    /// The system knows a mapping at the address, which does not allow the access.
    mapping: bool,
    pub(crate) instruction: usize,
    pub(crate) stack_pointer: usize,
    /// ECX, where RtlFailFast passes its code.
    ecx: u32,
    /// Where the kernel has saved vector registers, until the handler returns; NULL if it has not.
    pub(crate) vectors: *mut u8,
}

/// General-protection and page-fault exceptions of the processor.
const GENERAL_PROTECTION: u64 = 13;
const PAGE_FAULT: u64 = 14;
/// Error code of a general-protection exception for INT 29h: the gate's number in bits 3 to 15, and bit 1 for a gate. [Intel SDM 3: 6.13]
const FAST_FAIL: u64 = 0x29 << 3 | 2;

impl Site {
    fn new(signal: c_int, info: &libc::siginfo_t, gregs: &Registers) -> Self {
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
            ecx: word(libc::REG_RCX) as u32,
            vectors: std::ptr::null_mut(),
        }
    }

    /// Cause of the fault.
    pub(crate) fn cause(&self) -> Cause {
        match self.signal {
            libc::SIGILL => Cause::Illegal,
            libc::SIGFPE => Cause::Divide,
            libc::SIGTRAP => Cause::Breakpoint,
            libc::SIGSEGV if self.trap == GENERAL_PROTECTION && self.error == FAST_FAIL => {
                Cause::FastFail { code: self.ecx }
            }
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
pub(crate) fn ensure_installed() {
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
    // SAFETY: as above.
    let vectors = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.fpregs };
    let site = Site { vectors: vectors.cast(), ..Site::new(signal, &info_of_fault, gregs) };
    let answered = CLAIMANTS.iter().filter_map(OnceLock::get).any(|claimant| claimant(&site, gregs));
    // SAFETY: as above.
    unsafe { errno_place.write(errno) };
    if !answered {
        tell(&site);
        chain(signal, info, context);
    }
}

/// Prints what is known of a fault that no module handles, which may be about to end the process.
fn tell(site: &Site) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let mut text = [0_u8; 400];
    let length = CALLER.get().map_or(0, |caller| (caller.describe)(site, &mut text));
    if length == 0 || TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the text is readable for as many bytes.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), length) };
}

/// Ends the call of a driver image that is late.
extern "C" fn interrupt(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(caller) = CALLER.get() else { return chain(signal, info, context) };
    // SAFETY: with SA_SIGINFO the third argument is the interrupted thread's context, ours until return.
    let gregs = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let instruction = gregs.get(libc::REG_RIP as usize).copied().unwrap_or(0).cast_unsigned() as usize;
    match (caller.interrupted)(instruction) {
        Interrupted::NotOurs => chain(signal, info, context),
        Interrupted::GoesOn => {}
        Interrupted::Lands((function, argument)) => resume(gregs, function, argument),
    }
}

/// Has the interrupted thread go on in a function with one argument.
pub(crate) fn resume(gregs: &mut Registers, function: usize, argument: usize) {
    set(gregs, libc::REG_RIP, function);
    set(gregs, libc::REG_RDI, argument);
}

/// Has the interrupted thread go on in a function that is entered as if called, on the thread's own stack, behind what its frame may use below the stack
/// pointer.
pub(crate) fn enter(gregs: &mut Registers, function: usize) {
    let stack = gregs.get(libc::REG_RSP as usize).copied().unwrap_or(0).cast_unsigned() as usize;
    set(gregs, libc::REG_RSP, ((stack - 256) & !0xf) - 8);
    set(gregs, libc::REG_RIP, function);
}

/// General registers of the interrupted thread, in the order in which instructions number them.
pub(crate) fn general(gregs: &Registers) -> [u64; 16] {
    const ORDER: [c_int; 16] = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];
    ORDER.map(|register| gregs.get(register as usize).map_or(0, |value| value.cast_unsigned()))
}

/// Flags of the interrupted thread.
pub(crate) fn flags(gregs: &Registers) -> u32 {
    gregs.get(libc::REG_EFL as usize).map_or(0, |flags| *flags as u32)
}

/// Has the interrupted thread go on in a function, with this stack pointer and two arguments.
pub(crate) fn resume_at(gregs: &mut Registers, function: usize, stack: usize, [first, second]: [usize; 2]) {
    set(gregs, libc::REG_RSP, stack);
    set(gregs, libc::REG_RSI, second);
    resume(gregs, function, first);
}

/// Sets a register of the interrupted thread.
pub(crate) fn set(gregs: &mut Registers, register: c_int, value: usize) {
    if let Some(place) = gregs.get_mut(register as usize) {
        *place = value as i64;
    }
}

/// Passes a signal on to the handler that was installed before.
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
