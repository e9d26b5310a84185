// UNSAFETY: raw arguments of callbacks.
//! DxgkCbIsDevicePresent: is there such a PCI function in the machine?

use nt::device_object::Location;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::call::{Level, answer, argument, invalid, on_link, wrong_place};
use crate::adapter::{Adapter, adapters_beside};

/// Which members count. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
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

/// A question for a function.
struct Question(PCI_DEVICE_PRESENCE_PARAMETERS);

impl Question {
    /// The member that the page rules out, with its value, in words; `None` if there is none.
    fn wrong(&self) -> Option<String> {
        let (size, flags, whole) = (self.0.Size, self.0.Flags, size_of::<PCI_DEVICE_PRESENCE_PARAMETERS>());
        let without = |needs: u32| flags & needs == 0;
        if (size as usize) < whole {
            return Some(format!("Size is {size}, and expected are at least {whole} bytes"));
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
        let agrees = |flag: u32, found: u32, asked: u32| self.0.Flags & flag == 0 || found == asked;
        let class = u32::from(self.0.BaseClass) << 8 | u32::from(self.0.SubClass);
        let pair = |low: u16, high: u16| u32::from(high) << 16 | u32::from(low);
        agrees(PCI_USE_VENDEV_IDS, found.identity, pair(self.0.VendorID, self.0.DeviceID))
            && agrees(PCI_USE_REVISION, found.class & 0xff, self.0.RevisionID.into())
            && agrees(PCI_USE_SUBSYSTEM_IDS, found.subsystem, pair(self.0.SubVendorID, self.0.SubSystemID))
            && agrees(PCI_USE_CLASS_SUBCLASS, found.class >> 16, class)
            && agrees(PCI_USE_PROGIF, found.class >> 8 & 0xff, self.0.ProgIf.into())
    }
}

/// The functions of started adapters, and of those that are being started: others of the machine are not looked at, which is this system's limit.
fn is_present(adapter: &Adapter, asked: &Question, here: Location) -> bool {
    adapters_beside(adapter).iter().flat_map(|beside| beside.links()).any(|link| {
        let local_bus = asked.0.Flags & PCI_USE_LOCAL_BUS == 0 || link.location.bus == here.bus;
        let same_device = (link.location.bus, link.location.device) == (here.bus, here.device);
        let local_device = asked.0.Flags & PCI_USE_LOCAL_DEVICE == 0 || same_device;
        let word = |offset| link.function.bus.config_read(offset, 4);
        local_bus && local_device && asked.is(Identity { identity: word(0), class: word(8), subsystem: word(0x2c) })
    })
}

/// [dispmprt: DXGKCB_IS_DEVICE_PRESENT]
pub(super) unsafe extern "win64" fn is_device_present(
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
        let asked = Question(unsafe { argument(NAME, parameters) }?);
        if let Some(why) = asked.wrong() {
            return Ok(wrong(format!("DevicePresenceParameters: {why}")));
        }
        let found = BOOLEAN::from(is_present(adapter, &asked, link.location));
        // SAFETY: the driver passes a place for the answer.
        unsafe { answer(NAME, present, found) }?;
        Ok(STATUS_SUCCESS)
    })
}
