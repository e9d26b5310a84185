//! The kernel-mode driver of the Campanile GPU: a WDDM 3.2 compute-only (MCDM) miniport.
//!
//! [`DriverEntry`] registers the table of [`SLOTS`]. The functions in `entry` decode arguments and call the modules below, each of which knows
//! only those that stand below it: `reset`, `power` and `removal` stop the device and start it again; `interrupt` tells what happened;
//! `paging` carries out what the memory manager asks for; `queue`, `fence` and `memory` are the objects of an adapter, and `adapter` has
//! them in one table of handles, without knowing their types: each object names the adapter that it belongs to, so the adapter stands below its objects. `gpu` is the started device, made of `node`, `doorbells`, `fence_index`, `vram` and `events`; `caps` and `feature` are what it claims.
//!
//! Rules: the driver never panics and owns memory only through `pool`, where every allocation can fail. A function says by a token of
//! `irql` at which level it may run. Handles are numbers that are looked up, never followed. What several levels share is atomic or behind
//! a lock of `lock`; the order of locks is written on the fields.
//!
//! The crate is linked into a process and gets its kernel services from a table ([`bind_imports`]); the Windows image binds the
//! kernel's exports itself (`image`).

#![cfg_attr(not(test), no_std)]

#[cfg(test)]
extern crate std;

mod adapter;
mod caps;
mod cmp;
mod debug;
mod debug_root;
mod dispatches;
mod doorbells;
mod dxgk;
mod entry;
mod etw;
mod events;
mod feature;
mod fence;
mod fence_index;
mod gpu;
mod handle;
#[cfg(all(windows, not(test)))]
mod image;
mod interrupt;
mod irql;
mod link;
mod lock;
mod memory;
mod mmio;
mod node;
mod nt;
mod paging;
mod paging_report;
mod pci;
mod pool;
mod power;
mod progress;
mod queue;
mod refusal;
mod registry;
mod removal;
mod report;
mod reset;
mod reset_hw;
mod root_word;
mod scheduling_log;
mod segment;
mod slots;
mod stop;
mod table;
#[cfg(test)]
mod testing;
mod trace;
mod vram;

pub use nt::bind_imports;
pub use table::{Class, SLOTS, Slot};

use campanile_hw::trace::event::Event;
use wddm_ddi::status::STATUS_FAILED_DRIVER_ENTRY;
use wddm_ddi::types::{NTSTATUS, PDRIVER_OBJECT, UNICODE_STRING};

/// Entry point of the driver: registers the table of entry points, which [`SLOTS`] describes. PASSIVE_LEVEL. [wdm: DRIVER_INITIALIZE]
///
/// Answers STATUS_FAILED_DRIVER_ENTRY before [`bind_imports`], else what `DxgkInitialize` answers.
///
/// # Safety
/// The arguments must be those that the operating system passes to a driver's entry point.
#[allow(non_snake_case)] // the name the operating system knows
pub unsafe extern "win64" fn DriverEntry(
    driver_object: PDRIVER_OBJECT,
    registry_path: *mut UNICODE_STRING,
) -> NTSTATUS {
    let Some(imports) = nt::imports() else { return STATUS_FAILED_DRIVER_ENTRY };
    let mut data = table::table();
    trace::begin();
    // SAFETY: the caller's own arguments; the table may lie on the stack because it is copied.
    let status = unsafe { (imports.DxgkInitialize)(driver_object, registry_path, &raw mut data) };
    if status.is_success() {
        trace::note(&Event::Loaded { interface: data.Version });
    }
    status
}
