//! DXGKRNL_INTERFACE: what a driver may ask of the system, with the IRQL and handle checks of each callback.
//!
//! A callback that breaks a rule stops the machine and does not return to the driver, see [`driver_call`].

mod device;
mod feature;
mod interrupt;
mod memory;
mod scheduling;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, Weak};

use wddm_ddi::Zeroed;
use wddm_ddi::km::{DXGKDDI_INTERFACE_VERSION_WDDM3_2, DXGKRNL_INTERFACE};
use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL, PASSIVE_LEVEL};
use wddm_ddi::types::HANDLE;

use crate::adapter::Adapter;
use crate::driver_call;
use crate::irql::{self, DEVICE_LEVEL};
use crate::loader::Driver;
use crate::verifier::{Bugcheck, Verifier};

/// Device handles are numbers that no address has.
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(0xdad0_0000_0000_0010);
static ADAPTERS: RwLock<BTreeMap<usize, Weak<Adapter>>> = RwLock::new(BTreeMap::new());

/// Gives an adapter its device handle.
pub(crate) fn register(adapter: Weak<Adapter>) -> usize {
    let handle = NEXT_HANDLE.fetch_add(0x10, Ordering::Relaxed);
    ADAPTERS.write().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(handle, adapter);
    handle
}

/// The device handle means nothing any more.
pub(crate) fn unregister(handle: usize) {
    ADAPTERS.write().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&handle);
}

/// The adapter with this device handle, if it belongs to the driver.
fn adapter_of(driver: &Arc<Driver>, handle: HANDLE) -> Option<Arc<Adapter>> {
    let adapters = ADAPTERS.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    let adapter = adapters.get(&handle.addr())?.upgrade()?;
    drop(adapters);
    Arc::ptr_eq(adapter.miniport.driver(), driver).then_some(adapter)
}

/// Every adapter of a driver, for callbacks that name none.
fn adapters_of(driver: &Arc<Driver>) -> Vec<Arc<Adapter>> {
    let adapters = ADAPTERS.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    let adapters: Vec<Arc<Adapter>> = adapters.values().filter_map(Weak::upgrade).collect();
    adapters.into_iter().filter(|adapter| Arc::ptr_eq(adapter.miniport.driver(), driver)).collect()
}

/// At which levels a callback may be called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Passive,
    UpToApc,
    UpToDispatch,
    Dispatch,
    Device,
    Any,
}

impl Level {
    /// Whether the level is allowed, and how to say what is.
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
fn on_adapter<R>(name: &'static str, level: Level, handle: HANDLE, body: impl FnOnce(&Arc<Adapter>) -> R) -> R {
    on_driver(name, level, |driver| match adapter_of(driver, handle) {
        Some(adapter) => Ok(body(&adapter)),
        None => Err(Bugcheck::fatal(format!("{name} with device handle {handle:p}, which this driver was not given"))),
    })
}

/// Runs a callback; a bugcheck it answers with, or one raised meanwhile, ends the driver's call.
fn on_driver<R>(name: &'static str, level: Level, body: impl FnOnce(&Arc<Driver>) -> Result<R, Bugcheck>) -> R {
    match driver_call::on_host_stack(|| attempt(name, level, body)) {
        Some(result) => result,
        None => driver_call::abandon(name),
    }
}

fn attempt<R>(name: &'static str, level: Level, body: impl FnOnce(&Arc<Driver>) -> Result<R, Bugcheck>) -> Option<R> {
    let driver = driver_call::current()?;
    let verifier = driver.verifier();
    if verifier.is_stopped() {
        return None;
    }
    if let Err(rule) = level.allows(irql::current()) {
        let at = u64::from(irql::current());
        let reason = format!("{name} called at IRQL {at}; {rule} is required");
        verifier.raise(Bugcheck::new(Bugcheck::DRIVER_IRQL_NOT_LESS_OR_EQUAL, [0, at, 0, 0], reason));
        return None;
    }
    match catch_unwind(AssertUnwindSafe(|| body(&driver))) {
        Ok(Ok(result)) => (!verifier.is_stopped()).then_some(result),
        Ok(Err(bugcheck)) => {
            verifier.raise(bugcheck);
            None
        }
        Err(_) => {
            verifier.raise(Bugcheck::fatal(format!("internal error in {name}")));
            None
        }
    }
}

/// Reads a structure that a driver passed by address.
///
/// # Safety
/// Unless NULL, the address holds a `T`.
unsafe fn argument<T: Copy>(name: &'static str, address: *const T) -> Result<T, Bugcheck> {
    if address.is_null() || !address.is_aligned() {
        return Err(Bugcheck::fatal(format!("{name} with argument pointer {address:p}")));
    }
    // SAFETY: the caller vouches for the contents.
    Ok(unsafe { address.read() })
}

/// Stops the machine of the calling driver for an argument pointer that is no pointer.
fn bad_argument(name: &'static str) -> ! {
    if let Some(verifier) = Verifier::current() {
        verifier.raise(Bugcheck::fatal(format!("{name} with a NULL or unaligned argument pointer")));
    }
    driver_call::abandon(name)
}

/// The table for one adapter.
pub(crate) fn interface(handle: HANDLE) -> DXGKRNL_INTERFACE {
    let mut interface = DXGKRNL_INTERFACE::zeroed();
    interface.Size = size_of::<DXGKRNL_INTERFACE>() as u32;
    interface.Version = DXGKDDI_INTERFACE_VERSION_WDDM3_2;
    interface.DeviceHandle = handle;
    interface.DxgkCbGetDeviceInformation = Some(device::get_device_information);
    interface.DxgkCbMapMemory = Some(device::map_memory);
    interface.DxgkCbUnmapMemory = Some(device::unmap_memory);
    interface.DxgkCbReadDeviceSpace = Some(device::read_device_space);
    interface.DxgkCbWriteDeviceSpace = Some(device::write_device_space);
    interface.DxgkCbQueueDpc = Some(interrupt::queue_dpc);
    interface.DxgkCbSynchronizeExecution = Some(interrupt::synchronize_execution);
    interface.DxgkCbNotifyInterrupt = Some(interrupt::notify_interrupt);
    interface.DxgkCbNotifyDpc = Some(interrupt::notify_dpc);
    interface.DxgkCbQueryServices = Some(feature::query_services);
    interface.DxgkCbIsFeatureEnabled = Some(feature::is_feature_enabled);
    interface.DxgkCbQueryFeatureSupport = Some(feature::query_feature_support);
    interface.DxgkCbGetHandleData = Some(memory::get_handle_data);
    interface.DxgkCbAcquireHandleData = Some(memory::acquire_handle_data);
    interface.DxgkCbReleaseHandleData = Some(memory::release_handle_data);
    interface.DxgkCbAllocateContiguousMemory = Some(memory::allocate_contiguous_memory);
    interface.DxgkCbFreeContiguousMemory = Some(memory::free_contiguous_memory);
    interface.DxgkCbInvalidateHwContext = Some(scheduling::invalidate_hw_context);
    interface.DxgkCbDisconnectDoorbell = Some(scheduling::disconnect_doorbell);
    interface.DxgkCbSetPowerComponentActive = Some(scheduling::set_power_component_active);
    interface.DxgkCbSetPowerComponentIdle = Some(scheduling::set_power_component_idle);
    interface.DxgkCbCompleteFStateTransition = Some(scheduling::complete_f_state_transition);
    interface
}

/// Writes an answer where the driver wants it, if that is a usable place.
///
/// # Safety
/// Unless NULL, the address has room for a `T`.
unsafe fn answer<T>(address: *mut T, value: T) -> bool {
    if address.is_null() || !address.is_aligned() {
        return false;
    }
    // SAFETY: the caller vouches for the place.
    unsafe { address.write(value) };
    true
}

/// Interfaces handed to drivers live as long as the machine, so their reference counts decide nothing.
unsafe extern "win64" fn no_reference(_context: *mut c_void) {}
