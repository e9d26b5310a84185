//! Device handles: what drivers name the functions of their adapters by.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use nt::driver::Driver;
use nt::lock::{Innermost, RwLock};
use wddm_ddi::types::HANDLE;

use super::object::Adapter;
use crate::port::Link;

/// Device handles are numbers that no address has.
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(0xdad0_0000_0000_0010);
static ADAPTERS: RwLock<BTreeMap<usize, Weak<Adapter>>, Innermost> = RwLock::new(BTreeMap::new());

/// Gives a function of an adapter its device handle.
pub(super) fn register(adapter: Weak<Adapter>) -> usize {
    let handle = NEXT_HANDLE.fetch_add(0x10, Ordering::Relaxed);
    ADAPTERS.write().insert(handle, adapter);
    handle
}

/// The device handle means nothing any more.
pub(super) fn unregister(link: &Link) {
    ADAPTERS.write().remove(&link.handle().addr());
}

/// The adapter with this device handle, if it belongs to the driver.
pub(crate) fn adapter_of(driver: &Arc<Driver>, handle: HANDLE) -> Option<Arc<Adapter>> {
    let adapters = ADAPTERS.read();
    let adapter = adapters.get(&handle.addr())?.upgrade()?;
    drop(adapters);
    Arc::ptr_eq(adapter.miniport.driver(), driver).then_some(adapter)
}

/// Every adapter of the machine that an adapter is of, of whatever driver; itself is one.
pub(crate) fn adapters_beside(adapter: &Adapter) -> Vec<Arc<Adapter>> {
    let adapters = ADAPTERS.read();
    let mut adapters: Vec<Arc<Adapter>> = adapters.values().filter_map(Weak::upgrade).collect();
    adapters.retain(|beside| beside.machine.is_same(&adapter.machine));
    adapters
}

/// Every adapter of a driver, for callbacks that name none.
pub(crate) fn adapters_of(driver: &Arc<Driver>) -> Vec<Arc<Adapter>> {
    let adapters = ADAPTERS.read();
    let adapters: Vec<Arc<Adapter>> = adapters.values().filter_map(Weak::upgrade).collect();
    adapters.into_iter().filter(|adapter| Arc::ptr_eq(adapter.miniport.driver(), driver)).collect()
}
