//! The root from which a debugger finds everything that the driver records of itself.

use campanile_hw::trace::Component;
use campanile_hw::trace::event::EventId;
use campanile_hw::trace::reason::Reason;

use crate::adapter::slots::{self, AdapterSlot};
use crate::handle;
use crate::refusal::Ddi;
use crate::trace::{self, DriverTrace};

/// Where a debugger begins. Every type that it leads to has its layout in the PDB.
#[repr(C)]
pub(crate) struct DebugRoot {
    /// "CPROOT01", whose digits are the version of this structure.
    magic: [u8; 8],
    /// Bytes of this structure.
    size: u32,
    /// Number of places for adapters.
    adapter_slots: u32,
    /// The places, of [`AdapterSlot`]; bit 0 of a place's state says that there is an adapter.
    adapters: &'static [AdapterSlot; slots::ADAPTERS],
    /// Trace of events that belong to no adapter, such as DriverEntry.
    driver: &'static DriverTrace,
    /// Names of these numbers are in the PDB because the root names the types. NULL.
    names: Option<&'static Names>,
}

/// The types of numbers in events.
#[repr(C)]
pub(crate) struct Names {
    event: EventId,
    reason: Reason,
    component: Component,
    ddi: Ddi,
    kind: handle::Kind,
}

/// The root, exported so that it is found without symbols too.
#[cfg_attr(windows, unsafe(no_mangle))]
#[used]
pub(crate) static CAMPANILE_DEBUG_ROOT: DebugRoot = DebugRoot {
    magic: *b"CPROOT01",
    size: size_of::<DebugRoot>() as u32,
    adapter_slots: slots::ADAPTERS as u32,
    adapters: &slots::ADAPTER_SLOTS,
    driver: &trace::DRIVER,
    names: None,
};
