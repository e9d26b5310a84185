// UNSAFETY: signal masks, and arguments that another thread passes on.
//! The machine behind the thunks of a process: booted by the first call, gone with the process.
//!
//! | variable | what it picks | default |
//! | --- | --- | --- |
//! | `CAMPANILE_DRIVER` | the kernel-mode driver: `linked`, `pe`, or the path of an image | `linked` |
//! | `CAMPANILE_BUS` | where the GPU is: `direct`, `vfio-user`, `vfio-user-process=PROGRAM` or `vfio-user=SOCKET` | `direct` |
//! | `CAMPANILE_DEVICE_VARIANT` | the GPU, such as `doorbells=4,vram=64M` | `default` |
//! | `CAMPANILE_SPECIAL_POOL` | pool of the driver: `off`, `end` or `start` | `off` |
//! | `CAMPANILE_DRIVER_LIMIT` | seconds that a call into the driver may take | 300 |
//! | `CAMPANILE_LOG` | anything but 0 prints what driver and system log to standard error | not set |
//!
//! A value that is none is told on standard error, once, and every call is answered with STATUS_INVALID_PARAMETER. A machine that does not boot is told
//! likewise, and answered with STATUS_NO_SUCH_DEVICE.
//!
//! Nothing is done when the process ends: other threads may still ring doorbells then, and what `atexit` calls may still call thunks. Machine and GPU
//! end as the process does, and a GPU of another process sees its client leave.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::{env, fmt};

use dxgkrnl::Process;
use testbed::setup::{BusChoice, DriverLimit, MachineOptions, PoolChoice, SetupError, System, VariantOptions};
use wddm_ddi::status::*;

use crate::fork;

/// Environment variable that names the variant of the GPU.
pub const VARIANT_VARIABLE: &str = "CAMPANILE_DEVICE_VARIANT";

/// The machine, and the process on it that this process is.
struct Booted {
    system: System,
    process: Arc<Process>,
}

/// Why there is none: what is answered, and what was told.
struct Refusal(NTSTATUS);

static MACHINE: OnceLock<Result<Booted, Refusal>> = OnceLock::new();

/// Calls a thunk in the process of the machine; the closure calls it with arguments of the caller, and nothing else.
pub(crate) fn call(thunk: impl FnOnce() -> NTSTATUS) -> NTSTATUS {
    match fork::is_first_process() {
        Ok(true) => {}
        Ok(false) => return in_child(),
        Err(error) => return refuse(STATUS_NO_SUCH_DEVICE, &format_args!("no memory for a mark: {error}")).0,
    }
    let booted = match MACHINE.get_or_init(boot) {
        Ok(booted) => booted,
        Err(Refusal(status)) => return *status,
    };
    let status = enter(&booted.process, thunk);
    if status == STATUS_DEVICE_REMOVED || status == STATUS_INTERNAL_ERROR {
        tell_bugcheck(&booted.system);
    }
    status
}

/// Is there as long as what a thread has for itself.
struct OfThread;

impl Drop for OfThread {
    fn drop(&mut self) {}
}

thread_local! {
    static OF_THREAD: OfThread = const { OfThread };
}

/// Calls a thunk as the process, on this thread while it has what thunks need of one. A thread that ends may still call: what `atexit` runs,
/// and destructors in C++; for it another one does.
fn enter(process: &Arc<Process>, thunk: impl FnOnce() -> NTSTATUS) -> NTSTATUS {
    if OF_THREAD.try_with(|_| ()).is_ok() {
        let _attached = process.attach();
        return thunk();
    }
    let carried = Carried(thunk);
    std::thread::scope(|scope| {
        let called = std::thread::Builder::new().spawn_scoped(scope, move || {
            let _attached = process.attach();
            carried.call()
        });
        called.map_or(STATUS_NO_MEMORY, |thread| thread.join().unwrap_or(STATUS_INTERNAL_ERROR))
    })
}

/// A call that another thread makes while this one waits.
struct Carried<F>(F);

// SAFETY: thunks may be called on any thread with any arguments, and a call here is a thunk with its arguments.
unsafe impl<F> Send for Carried<F> {}

impl<F: FnOnce() -> NTSTATUS> Carried<F> {
    fn call(self) -> NTSTATUS {
        self.0()
    }
}

fn tell(text: &dyn fmt::Display) {
    let _ = writeln!(std::io::stderr(), "campanile_kmt: {text}");
}

fn refuse(status: NTSTATUS, text: &dyn fmt::Display) -> Refusal {
    tell(text);
    Refusal(status)
}

/// What a child of `fork` is answered: its copy of the machine has no threads, and whoever called stays the parent's.
#[cold]
fn in_child() -> NTSTATUS {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        tell(&"the machine stays with the process that called first; a child of fork has none until it calls exec");
    }
    STATUS_ACCESS_DENIED
}

/// Tells once why the machine has stopped, if it has.
#[cold]
fn tell_bugcheck(system: &System) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if let Some(bugcheck) = system.machine().bugcheck()
        && !TOLD.swap(true, Ordering::Relaxed)
    {
        tell(&format_args!("the machine stopped with a bugcheck: {bugcheck}"));
    }
}

/// The variant that the environment names.
fn variant() -> Result<VariantOptions, String> {
    match env::var(VARIANT_VARIABLE) {
        Ok(text) => text.parse().map_err(|error| format!("{VARIANT_VARIABLE}: {error}")),
        Err(env::VarError::NotPresent) => Ok(VariantOptions::default()),
        Err(error) => Err(format!("{VARIANT_VARIABLE}: {error}")),
    }
}

fn boot() -> Result<Booted, Refusal> {
    let wrong = |text: String| refuse(STATUS_INVALID_PARAMETER, &text);
    let variant = variant().map_err(wrong)?;
    BusChoice::selected().map_err(wrong)?;
    PoolChoice::selected().map_err(wrong)?;
    DriverLimit::selected().map_err(wrong)?;
    let options = MachineOptions { variant, ..MachineOptions::default() }.in_use().system();
    let threads = SignalsHeld::new();
    let booted = catch_unwind(AssertUnwindSafe(|| System::boot(&options)));
    drop(threads);
    let failed = |error: SetupError| {
        let status = if error.is_input() { STATUS_INVALID_PARAMETER } else { STATUS_NO_SUCH_DEVICE };
        refuse(status, &error)
    };
    let panicked = |_| refuse(STATUS_INTERNAL_ERROR, &"the machine could not be booted, see above");
    let system = booted.map_err(panicked)?.map_err(failed)?;
    let name = env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let process = Process::new(system.machine(), &name.unwrap_or_else(|| "a program in C".to_owned()));
    Ok(Booted { system, process })
}

/// While it lives, threads that this one starts get none of the process' signals: those are for the threads of the program, as without this library.
struct SignalsHeld {
    before: libc::sigset_t,
}

impl SignalsHeld {
    fn new() -> Self {
        // SAFETY: a set of signals is a plain number of bits, which the next call fills.
        let mut held: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: a set of this frame.
        unsafe { libc::sigfillset(&raw mut held) };
        // Faults are of the instruction that makes them, and must arrive, and so must what ends a call into a driver that does not return.
        for own in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, dxgkrnl::INTERRUPT] {
            // SAFETY: as above.
            unsafe { libc::sigdelset(&raw mut held, own) };
        }
        let mut before = held;
        // SAFETY: two sets of this frame.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, &raw mut before) };
        Self { before }
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        // SAFETY: a set of ours, and nothing to be given back.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}
