// UNSAFETY: raw arguments of callbacks.
//! DxgkCbIsDevicePresent: is there such a PCI function in the machine?

use nt::device_object::Location;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::call::{Level, answer, argument, invalid, on_link, wrong_place};
use crate::adapter::{Adapter, adapters_beside};

/// What is known of the function that is looked for. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
#[repr(C)]
#[derive(Clone, Copy)]
#[expect(non_snake_case, reason = "the names of wdm.h")]
struct PCI_DEVICE_PRESENCE_PARAMETERS {
    Size: u32,
    Flags: u32,
    VendorID: u16,
    DeviceID: u16,
    RevisionID: u8,
    SubVendorID: u16,
    SubSystemID: u16,
    BaseClass: u8,
    SubClass: u8,
    ProgIf: u8,
}

/// Which members count. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
const PCI_USE_SUBSYSTEM_IDS: u32 = 0x1;
const PCI_USE_REVISION: u32 = 0x2;
const PCI_USE_VENDEV_IDS: u32 = 0x4;
const PCI_USE_CLASS_SUBCLASS: u32 = 0x8;
const PCI_USE_PROGIF: u32 = 0x10;
const PCI_USE_LOCAL_BUS: u32 = 0x20;
const PCI_USE_LOCAL_DEVICE: u32 = 0x40;
const FLAGS: u32 = PCI_USE_SUBSYSTEM_IDS
    | PCI_USE_REVISION
    | PCI_USE_VENDEV_IDS
    | PCI_USE_CLASS_SUBCLASS
    | PCI_USE_PROGIF
    | PCI_USE_LOCAL_BUS
    | PCI_USE_LOCAL_DEVICE;

/// What a function says of itself in configuration space: the words with identity, class and subsystem.
#[derive(Clone, Copy)]
struct Identity {
    identity: u32,
    class: u32,
    subsystem: u32,
}

impl PCI_DEVICE_PRESENCE_PARAMETERS {
    /// The member of the question that the page rules out, with its value, in words; `None` if there is none.
    fn wrong(&self) -> Option<String> {
        let flags = self.Flags;
        let without = |needs: u32| flags & needs == 0;
        if (self.Size as usize) < size_of::<Self>() {
            return Some(format!("Size is {}, and expected are at least {} bytes", self.Size, size_of::<Self>()));
        }
        if flags & !FLAGS != 0 || without(PCI_USE_VENDEV_IDS | PCI_USE_CLASS_SUBCLASS) {
            return Some(format!(
                "Flags is {flags:#x}, and expected are PCI_USE_VENDEV_IDS or PCI_USE_CLASS_SUBCLASS, and flags of wdm.h"
            ));
        }
        if flags & (PCI_USE_SUBSYSTEM_IDS | PCI_USE_REVISION) != 0 && without(PCI_USE_VENDEV_IDS) {
            return Some(format!(
                "Flags is {flags:#x}: PCI_USE_SUBSYSTEM_IDS and PCI_USE_REVISION go with PCI_USE_VENDEV_IDS"
            ));
        }
        let alone = flags & PCI_USE_PROGIF != 0 && without(PCI_USE_CLASS_SUBCLASS);
        alone.then(|| format!("Flags is {flags:#x}: PCI_USE_PROGIF goes with PCI_USE_CLASS_SUBCLASS"))
    }

    /// True if the function is one that is looked for.
    fn is(&self, found: Identity) -> bool {
        let agrees = |flag: u32, found: u32, asked: u32| self.Flags & flag == 0 || found == asked;
        let class = u32::from(self.BaseClass) << 8 | u32::from(self.SubClass);
        let pair = |low: u16, high: u16| u32::from(high) << 16 | u32::from(low);
        agrees(PCI_USE_VENDEV_IDS, found.identity, pair(self.VendorID, self.DeviceID))
            && agrees(PCI_USE_REVISION, found.class & 0xff, self.RevisionID.into())
            && agrees(PCI_USE_SUBSYSTEM_IDS, found.subsystem, pair(self.SubVendorID, self.SubSystemID))
            && agrees(PCI_USE_CLASS_SUBCLASS, found.class >> 16, class)
            && agrees(PCI_USE_PROGIF, found.class >> 8 & 0xff, self.ProgIf.into())
    }
}

/// The functions of started adapters, and of those that are being started: others of the machine are not looked at, which is this system's limit.
fn is_present(adapter: &Adapter, asked: &PCI_DEVICE_PRESENCE_PARAMETERS, here: Location) -> bool {
    adapters_beside(adapter).iter().flat_map(|beside| beside.links()).any(|link| {
        let local_bus = asked.Flags & PCI_USE_LOCAL_BUS == 0 || link.location.bus == here.bus;
        let same_device = (link.location.bus, link.location.device) == (here.bus, here.device);
        let local_device = asked.Flags & PCI_USE_LOCAL_DEVICE == 0 || same_device;
        let word = |offset| link.function.bus.config_read(offset, 4);
        local_bus && local_device && asked.is(Identity { identity: word(0), class: word(8), subsystem: word(0x2c) })
    })
}

/// [dispmprt: DXGKCB_IS_DEVICE_PRESENT]
unsafe extern "win64" fn is_device_present(
    handle: HANDLE,
    parameters: *const PCI_DEVICE_PRESENCE_PARAMETERS,
    present: *mut BOOLEAN,
) -> NTSTATUS {
    const NAME: &str = "DxgkCbIsDevicePresent";
    on_link(NAME, Level::Passive, handle, |adapter, _, link| {
        let wrong = |what: String| invalid(NAME, adapter, format!("{what} [dispmprt: DXGKCB_IS_DEVICE_PRESENT]"));
        if let Some(why) = wrong_place("DevicePresenceParameters", parameters) {
            return Ok(wrong(why));
        }
        if let Some(why) = wrong_place("DevicePresent", present) {
            return Ok(wrong(why));
        }
        // SAFETY: numbers, which any bytes are.
        let asked = unsafe { argument(NAME, parameters) }?;
        if let Some(why) = asked.wrong() {
            return Ok(wrong(format!("DevicePresenceParameters: {why}")));
        }
        let found = BOOLEAN::from(is_present(adapter, &asked, link.location));
        // SAFETY: the driver passes a place for the answer.
        unsafe { answer(NAME, present, found) }?;
        Ok(STATUS_SUCCESS)
    })
}

/// The function as the slot has it.
pub(super) const IS_DEVICE_PRESENT: UnusedSlot = {
    type IsPresent = unsafe extern "win64" fn(HANDLE, *const PCI_DEVICE_PRESENCE_PARAMETERS, *mut BOOLEAN) -> NTSTATUS;
    // SAFETY: both are addresses of functions; its caller knows its prototype, which is that of the page.
    Some(unsafe { std::mem::transmute::<IsPresent, unsafe extern "win64" fn()>(is_device_present) })
};
