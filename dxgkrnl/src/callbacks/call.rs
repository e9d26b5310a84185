// UNSAFETY: raw arguments of callbacks.
//! The call of a callback: IRQL, the adapter that a handle names, arguments in and answers out.
//!
//! A callback that breaks a rule stops the machine and does not return to the driver, see [`driver_call`].

use std::ffi::c_void;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL, PASSIVE_LEVEL};
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER};
use wddm_ddi::types::HANDLE;

use crate::adapter::{Adapter, adapter_of};
use crate::port::Link;
use crate::rescue::Rescue;
use nt::bugcheck::Bugcheck;
use nt::driver::Driver;
use nt::driver_call;
use nt::fault::{Access, guarded};
use nt::irql::{self, DEVICE_LEVEL};
use nt::pool::Owned;

/// At which levels a callback may be called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Passive,
    UpToApc,
    UpToDispatch,
    Dispatch,
    Device,
    Any,
}

impl Level {
    /// Errors: what is allowed, in words, if the level is not.
    fn allows(self, level: u8) -> Result<(), &'static str> {
        let (allowed, rule) = match self {
            Self::Passive => (level == PASSIVE_LEVEL, "PASSIVE_LEVEL"),
            Self::UpToApc => (level <= APC_LEVEL, "at most APC_LEVEL"),
            Self::UpToDispatch => (level <= DISPATCH_LEVEL, "at most DISPATCH_LEVEL"),
            Self::Dispatch => (level == DISPATCH_LEVEL, "DISPATCH_LEVEL"),
            Self::Device => (level == DEVICE_LEVEL, "device level"),
            Self::Any => (true, "any level"),
        };
        if allowed { Ok(()) } else { Err(rule) }
    }
}

/// Runs a callback that names its adapter.
pub(super) fn on_adapter<R>(
    name: &'static str,
    level: Level,
    handle: HANDLE,
    body: impl FnOnce(&Arc<Adapter>) -> Result<R, Bugcheck>,
) -> R {
    on_driver(name, level, |driver| body(&named_adapter(name, driver, handle)?))
}

/// As [`on_adapter`], for what concerns one of its functions: the body gets its place among them too.
pub(super) fn on_link<R>(
    name: &'static str,
    level: Level,
    handle: HANDLE,
    body: impl FnOnce(&Arc<Adapter>, u32, &Link) -> Result<R, Bugcheck>,
) -> R {
    on_adapter(name, level, handle, |adapter| {
        let found = adapter.link_of(handle);
        let (place, link) = found.ok_or_else(|| Bugcheck::fatal(format!("{name} with a handle that names nothing")))?;
        body(adapter, place, link)
    })
}

/// A callback answers STATUS_INVALID_PARAMETER for an argument that its page rules out: that is a finding, and the log has the argument and the rule.
pub(super) fn invalid(name: &str, adapter: &Adapter, why: impl Display) -> NTSTATUS {
    adapter.machine.rescues().add(Rescue::MisusedCallback, 1);
    refused(name, adapter, STATUS_INVALID_PARAMETER, why)
}

/// As [`invalid`], of a callback that answers nothing.
pub(super) fn ignored(name: &str, adapter: &Adapter, why: impl Display) {
    adapter.machine.rescues().add(Rescue::MisusedCallback, 1);
    adapter.machine.verifier().log(format!("{name} does nothing: {why}"));
}

/// A callback does what it was asked for in a way that its page rules out: that is a finding, and the log has `told`.
pub(super) fn misused(adapter: &Adapter, told: String) {
    adapter.machine.rescues().add(Rescue::MisusedCallback, 1);
    adapter.machine.verifier().log(told);
}

/// A callback answers an error for what is no mistake of the driver's: no finding, but the log has the reason.
pub(super) fn refused(name: &str, adapter: &Adapter, status: NTSTATUS, why: impl Display) -> NTSTATUS {
    adapter.machine.verifier().log(format!("{name} answers {status}: {why}"));
    status
}

/// What is wrong with the address of a structure that a callback reads and fills, in words; None if it may be read.
pub(super) fn wrong_place<T>(argument: &str, address: *const T) -> Option<String> {
    (address.is_null() || !address.is_aligned()).then(|| {
        format!("{argument} is {address:p}, and expected is an address that is a multiple of {}", align_of::<T>())
    })
}

/// The adapter that a driver names by its device handle.
pub(super) fn named_adapter(
    name: &'static str,
    driver: &Arc<Driver>,
    handle: HANDLE,
) -> Result<Arc<Adapter>, Bugcheck> {
    adapter_of(driver, handle).ok_or_else(|| {
        Bugcheck::fatal(format!("{name} with device handle {handle:p}, which this driver was not given"))
    })
}

/// Runs a callback; a bugcheck it answers with, or one raised meanwhile, ends the driver's call.
pub(super) fn on_driver<R>(
    name: &'static str,
    level: Level,
    body: impl FnOnce(&Arc<Driver>) -> Result<R, Bugcheck>,
) -> R {
    match driver_call::on_host_stack(|| attempt(name, level, body)) {
        Ok(result) => result,
        // Back on the driver's stack, where the instruction that called can be found.
        Err(Some(bugcheck)) => driver_call::stop(bugcheck),
        Err(None) => driver_call::abandon(name),
    }
}

/// An error without a bugcheck means that the machine has stopped already, or that no driver called.
fn attempt<R>(
    name: &'static str,
    level: Level,
    body: impl FnOnce(&Arc<Driver>) -> Result<R, Bugcheck>,
) -> Result<R, Option<Bugcheck>> {
    let driver = driver_call::current().ok_or(None)?;
    let verifier = driver.verifier();
    if verifier.is_stopped() {
        return Err(None);
    }
    if let Err(rule) = level.allows(irql::current()) {
        let at = u64::from(irql::current());
        let reason = format!("{name} called at IRQL {at}; {rule} is required");
        return Err(Some(Bugcheck::new(Bugcheck::DRIVER_IRQL_NOT_LESS_OR_EQUAL, [0, at, 0, 0], reason)));
    }
    let _inside = driver_call::in_service(name);
    let result = match catch_unwind(AssertUnwindSafe(|| body(&driver))) {
        Ok(result) => result.map_err(Some)?,
        Err(_) => return Err(Some(Bugcheck::fatal(format!("internal error in {name}")))),
    };
    if verifier.is_stopped() { Err(None) } else { Ok(result) }
}

/// What is wrong with a range that a driver passed to a service, as far as its pool can tell.
pub(super) fn check_range(name: &str, address: usize, bytes: usize, access: Access) -> Result<(), Bugcheck> {
    let Some(driver) = driver_call::current() else { return Ok(()) };
    let Some((wrong, owned)) = driver.pool().check_range(address, bytes) else { return Ok(()) };
    let code = match owned {
        Owned::Freed { .. } => Bugcheck::PAGE_FAULT_IN_FREED_SPECIAL_POOL,
        Owned::Outside { .. } => Bugcheck::PAGE_FAULT_BEYOND_END_OF_ALLOCATION,
    };
    let driver = driver.name();
    let reason =
        format!("{name} with a pointer of driver {driver} to {bytes} bytes at {address:#x}, which reach {owned}");
    Err(Bugcheck::new(code, [wrong as u64, access.parameter(), 0, 0], reason))
}

/// Reads a structure that a driver passed by address.
///
/// # Safety
/// Any bytes are a `T`.
pub(super) unsafe fn argument<T: Copy>(name: &'static str, address: *const T) -> Result<T, Bugcheck> {
    if address.is_null() || !address.is_aligned() {
        let driver = driver_call::current();
        let driver = driver.as_ref().map_or("?", |driver| driver.name());
        return Err(Bugcheck::fatal(format!("{name} with argument pointer {address:p} of driver {driver}")));
    }
    check_range(name, address.addr(), size_of::<T>(), Access::Read)?;
    // SAFETY: the caller vouches for the type.
    unsafe { guarded::read(address) }.map_err(|fault| driver_call::bad_pointer(name, fault))
}

/// Writes an answer where the driver wants it; false if the place is NULL or unaligned.
///
/// # Safety
/// The driver passed the address as a place for a `T`.
pub(super) unsafe fn answer<T: Copy>(name: &'static str, address: *mut T, value: T) -> Result<bool, Bugcheck> {
    if address.is_null() || !address.is_aligned() {
        return Ok(false);
    }
    check_range(name, address.addr(), size_of::<T>(), Access::Write)?;
    // SAFETY: the caller vouches for the place.
    unsafe { guarded::write(address, value) }.map_err(|fault| driver_call::bad_pointer(name, fault))?;
    Ok(true)
}

/// Interfaces handed to drivers live as long as the machine, so their reference counts decide nothing.
pub(super) unsafe extern "win64" fn no_reference(_context: *mut c_void) {}
