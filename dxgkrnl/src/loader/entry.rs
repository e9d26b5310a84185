//! DriverEntry: the call, and the registration that must happen during it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wddm_ddi::km::DRIVER_INITIALIZATION_DATA;
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::{PDRIVER_INITIALIZE, PDRIVER_OBJECT, UNICODE_STRING};

use super::{Driver, LoadError, check_table};
use crate::driver_call;

/// DriverEntry of this thread, as DxgkInitialize sees it.
struct Loading {
    driver_object: usize,
    outcome: Result<Box<DRIVER_INITIALIZATION_DATA>, LoadError>,
}

thread_local! {
    static LOADING: RefCell<Option<Loading>> = const { RefCell::new(None) };
}

/// Driver objects are numbers that no address has.
static NEXT_DRIVER_OBJECT: AtomicUsize = AtomicUsize::new(0xd0b1_0000_0000_0010);

/// Runs DriverEntry and takes the table it registers.
pub(crate) fn load(
    driver: &Arc<Driver>,
    entry: PDRIVER_INITIALIZE,
) -> Result<Box<DRIVER_INITIALIZATION_DATA>, LoadError> {
    const NAME: &str = "DriverEntry";
    let driver_object = NEXT_DRIVER_OBJECT.fetch_add(0x10, Ordering::Relaxed);
    LOADING.set(Some(Loading { driver_object, outcome: Err(LoadError::NotRegistered) }));
    let path = format!("\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Services\\{}", driver.name());
    let mut path = path.encode_utf16().take(0x7fff).collect::<Vec<u16>>();
    let bytes = u16::try_from(path.len() * 2).unwrap_or(u16::MAX - 1);
    let mut path = UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: path.as_mut_ptr() };
    let (status, leftovers) = driver_call::run(driver, NAME, || {
        // SAFETY: the image names this function as its DriverEntry; both arguments live across the call.
        unsafe { entry(core::ptr::without_provenance_mut(driver_object), &raw mut path) }
    });
    let outcome = LOADING.take().map_or(Err(LoadError::NotRegistered), |loading| loading.outcome);
    let verifier = driver.verifier();
    leftovers.check(NAME, verifier);
    let result = match status {
        _ if verifier.is_stopped() => Err(LoadError::Stopped(verifier.bugcheck())),
        None => Err(LoadError::Stopped(verifier.bugcheck())),
        Some(status) if !status.is_success() => Err(match outcome {
            Ok(_) | Err(LoadError::NotRegistered) => LoadError::Entry(status),
            Err(refused) => refused,
        }),
        Some(_) => outcome,
    };
    if result.is_err() {
        driver.check_unloaded();
    }
    result
}

/// DxgkInitialize of the thread's DriverEntry.
pub(crate) fn register(driver_object: PDRIVER_OBJECT, table: &DRIVER_INITIALIZATION_DATA) -> Result<(), NTSTATUS> {
    LOADING.with_borrow_mut(|loading| {
        let Some(loading) = loading.as_mut() else { return Err(LoadError::WrongDriverObject.status()) };
        let once = matches!(loading.outcome, Err(LoadError::NotRegistered));
        let outcome = if once && driver_object.addr() == loading.driver_object {
            check_table(table)
        } else {
            Err(LoadError::WrongDriverObject)
        };
        let result = outcome.as_ref().map_err(LoadError::status).copied();
        loading.outcome = outcome.map(|()| Box::new(*table));
        result
    })
}
