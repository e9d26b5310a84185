// UNSAFETY: arguments that another thread passes on.
//! The machine behind the thunks of a process: booted by the first call, gone with the process. Or, with CAMPANILE_MACHINE, one that another process
//! serves to many (`campanile machine`); what the other variables pick is then as that process was told.
//!
//! | variable | what it picks | default |
//! | --- | --- | --- |
//! | `CAMPANILE_MACHINE` | a machine: the socket at which it is served | not set: one of this process |
//! | `CAMPANILE_DRIVER` | the kernel-mode driver: `linked`, `pe`, or the path of an image | `linked` |
//! | `CAMPANILE_BUS` | where the GPU is: `direct`, `vfio-user`, `vfio-user-process=PROGRAM` or `vfio-user=SOCKET` | `direct` |
//! | `CAMPANILE_DEVICE_VARIANT` | the GPU, such as `doorbells=4,vram=64M` | `default` |
//! | `CAMPANILE_SPECIAL_POOL` | pool of the driver: `off`, `end` or `start` | `off` |
//! | `CAMPANILE_DRIVER_LIMIT` | seconds that a call into the driver may take | 300 |
//! | `CAMPANILE_TDR` | values below Control\GraphicsDrivers, such as `TdrDelay=60,TdrTestMode=1` | those of Windows |
//! | `CAMPANILE_USER_MODE_DRIVER_NAME` | UserModeDriverName in the driver's software key | not set |
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
use remote::client::SignalsHeld;
use testbed::setup::{
    BusChoice, DriverChoice, DriverLimit, LOG_VARIABLE, MachineOptions, PoolChoice, SetupError, System, TdrChoice,
    VariantOptions, shows_log,
};
use wddm_ddi::status::*;

use crate::fork::{self, Caller};

/// Environment variable that names the variant of the GPU.
pub const VARIANT_VARIABLE: &str = "CAMPANILE_DEVICE_VARIANT";

/// The machine, and the process on it that this process is.
struct Booted {
    system: System,
    process: Arc<Process>,
}

/// The machine: one of this process or of another one.
enum Place {
    Here(Booted),
    /// At a socket that this process is connected to.
    Elsewhere,
}

/// Why there is none: what is answered, and what was told.
struct Refusal(NTSTATUS);

static MACHINE: OnceLock<Result<Place, Refusal>> = OnceLock::new();

/// Calls a thunk in the process of the machine; the closure calls it with arguments of the caller, and nothing else.
pub(crate) fn call(name: &str, thunk: impl FnOnce() -> NTSTATUS) -> NTSTATUS {
    match fork::caller() {
        Ok(Caller::First) => {}
        Ok(Caller::Child) => {
            return refuse_child(
                "the machine stays with the process that called first; a child of fork has none until it calls exec",
            );
        }
        Ok(Caller::Sharing) => {
            return refuse_child(
                "this process has the memory of another one (vfork, or clone with CLONE_VM), which is to call first; it has no machine of its own until it calls exec",
            );
        }
        Err(error) => return refuse(STATUS_NO_SUCH_DEVICE, &format_args!("no memory for a mark: {error}")).0,
    }
    let booted = match MACHINE.get_or_init(find) {
        Ok(Place::Here(booted)) => booted,
        Ok(Place::Elsewhere) => return thunk(),
        Err(Refusal(status)) => return *status,
    };
    let status = enter(&booted.process, thunk);
    if status == STATUS_DEVICE_REMOVED || status == STATUS_INTERNAL_ERROR {
        tell_bugcheck(&booted.system);
    }
    if !status.is_success() {
        advise(name, status);
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

/// What a child is answered: a copy of the machine has no threads, and one that the child made in memory of its parent would lose them with the child.
#[cold]
fn refuse_child(why: &str) -> NTSTATUS {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        tell(&why);
    }
    STATUS_ACCESS_DENIED
}

/// Tells once, of the first error with somebody else's driver, how to see what driver and system say of it.
#[cold]
fn advise(name: &str, status: NTSTATUS) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if DriverChoice::selected().is_foreign() && !shows_log() && !TOLD.swap(true, Ordering::Relaxed) {
        tell(&format_args!(
            "{name} answered {status}; with {LOG_VARIABLE}=1 what driver and system say of it is printed"
        ));
    }
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

/// True if the machine is in another process.
pub(crate) fn is_elsewhere() -> bool {
    matches!(MACHINE.get(), Some(Ok(Place::Elsewhere)))
}

fn find() -> Result<Place, Refusal> {
    match remote::client::named() {
        None => boot().map(Place::Here),
        Some(path) => {
            let connected = remote::client::connect(&path, &program_name());
            connected.map_err(|error| refuse(STATUS_NO_SUCH_DEVICE, &error))?;
            Ok(Place::Elsewhere)
        }
    }
}

fn program_name() -> String {
    let name = env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| "a program in C".to_owned())
}

fn boot() -> Result<Booted, Refusal> {
    let wrong = |text: String| refuse(STATUS_INVALID_PARAMETER, &text);
    let variant = variant().map_err(wrong)?;
    BusChoice::selected().map_err(wrong)?;
    PoolChoice::selected().map_err(wrong)?;
    DriverLimit::selected().map_err(wrong)?;
    TdrChoice::selected().map_err(wrong)?;
    let options = MachineOptions { variant, ..MachineOptions::default() }.in_use().system();
    // What ends a call into a driver that does not return must arrive too.
    let threads = SignalsHeld::new(&[dxgkrnl::INTERRUPT]);
    let booted = catch_unwind(AssertUnwindSafe(|| System::boot(&options)));
    drop(threads);
    let failed = |error: SetupError| {
        if !shows_log() {
            error.log().iter().for_each(|line| tell(line));
        }
        let status = if error.is_input() { STATUS_INVALID_PARAMETER } else { STATUS_NO_SUCH_DEVICE };
        refuse(status, &error)
    };
    let panicked = |_| refuse(STATUS_INTERNAL_ERROR, &"the machine could not be booted, see above");
    let system = booted.map_err(panicked)?.map_err(failed)?;
    let process = Process::of_program(system.machine(), &program_name());
    Ok(Booted { system, process })
}
