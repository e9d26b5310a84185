//! A driver that is loaded and registered, for whoever calls its DDIs in an order of its own and answers its callbacks: no adapter, scheduler or memory manager of
//! this crate takes part.

use core::ffi::c_void;
use std::sync::Arc;

use nt::bugcheck::Bugcheck;
use nt::device_object::{self, DeviceObject, Location};
use nt::driver_call;
use nt::page::PAGE_SIZE;
use nt::ram::{Pages, Ram};
use wddm_ddi::km::DRIVER_INITIALIZATION_DATA;

use crate::miniport::{DDIS, Miniport};

/// A driver by the table that it registered. The kernel services that it calls are those of its machine, with all their checks.
pub struct RegisteredDriver {
    miniport: Arc<Miniport>,
    ram: Arc<Ram>,
    object: DeviceObject,
}

/// Pages of the machine's memory, contiguous, as DxgkCbAllocateContiguousMemory hands them out; given back when this is dropped.
pub struct ContiguousMemory(Pages);

impl ContiguousMemory {
    /// Address that devices use.
    pub fn physical_address(&self) -> u64 {
        self.0.address()
    }

    /// Address that the driver uses.
    pub fn kernel_address(&self) -> *mut u8 {
        self.0.kernel_address().as_ptr()
    }
}

impl RegisteredDriver {
    pub(crate) fn new(miniport: Arc<Miniport>, ram: Arc<Ram>) -> Self {
        let location = Location { bus: device_object::next_bus(), device: 0, function: 0 };
        Self { miniport, ram, object: DeviceObject::new(location, None) }
    }

    /// A physical device object for DxgkDdiAddDevice. Nothing is known of its device but where it sits.
    pub fn device_object(&self) -> *mut c_void {
        core::ptr::with_exposed_provenance_mut(self.object.address())
    }

    /// The table that the driver passed to DxgkInitialize.
    pub fn table(&self) -> &DRIVER_INITIALIZATION_DATA {
        self.miniport.table()
    }

    /// Calls the function `name` of the driver, a DDI or a routine that it passed to a callback, at the level of the thread. `None` if the machine has stopped, or
    /// stops in the call.
    pub fn call<R>(&self, name: &'static str, call: impl FnOnce() -> R) -> Option<R> {
        let verifier = self.miniport.driver().verifier();
        if verifier.is_stopped() {
            return None;
        }
        if let Some((_, offset)) = DDIS.iter().find(|(ddi, _)| *ddi == name) {
            self.miniport.calls().add(*offset);
        }
        let (result, leftovers) = driver_call::run(self.miniport.driver(), name, call);
        leftovers.check(name, verifier);
        result
    }

    /// Serves a callback: whatever of this process' libraries runs in one has to run here, since a driver image calls on a kernel stack of its own.
    pub fn serve<R>(answer: impl FnOnce() -> R) -> R {
        driver_call::on_host_stack(answer)
    }

    /// Blocks of pool that the driver has.
    pub fn pool_blocks(&self) -> usize {
        self.miniport.driver().pool().blocks().len()
    }

    /// Lines of the machine's debug log, where DbgPrintEx writes, behind the first `position` ones, and the position for the next time.
    pub fn debug_log_since(&self, position: u64) -> (Vec<String>, u64) {
        self.miniport.driver().verifier().log_lines_since(position)
    }

    /// The event that stopped the machine, if it has stopped.
    pub fn bugcheck(&self) -> Option<Bugcheck> {
        self.miniport.driver().verifier().bugcheck()
    }

    /// `bytes` of contiguous memory; `None` if there are not so many in one piece.
    pub fn allocate_contiguous(&self, bytes: usize) -> Option<ContiguousMemory> {
        self.ram.allocate(bytes as u64, PAGE_SIZE).map(ContiguousMemory)
    }
}
