//! Objects of the I/O manager as drivers see them. Macros and inline functions of the WDK look into driver and device objects, and drivers store into them; of what
//! they store, DriverUnload alone is read here. [wdm: DRIVER_OBJECT, DRIVER_EXTENSION, DEVICE_OBJECT]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_DEVICE_REQUEST};
use wddm_ddi::types::UNICODE_STRING;

/// Memory that drivers read and write, in words.
struct Words<const COUNT: usize>(Box<[AtomicU64; COUNT]>);

impl<const COUNT: usize> Words<COUNT> {
    /// Zeros but for the words at these offsets in bytes.
    fn new(words: &[(usize, u64)]) -> Self {
        let made = Self(Box::new([const { AtomicU64::new(0) }; COUNT]));
        for (offset, value) in words {
            made.set(*offset, *value);
        }
        made
    }

    fn set(&self, offset: usize, value: u64) {
        self.0[offset / 8].store(value, Ordering::Relaxed);
    }

    fn get(&self, offset: usize) -> u64 {
        self.0[offset / 8].load(Ordering::Relaxed)
    }

    fn address(&self) -> usize {
        self.0.as_ptr().expose_provenance()
    }
}

/// A text behind a counted string.
struct Text(Box<[u16]>);

impl Text {
    fn new(text: &str) -> Self {
        Self(text.encode_utf16().take(0x7fff).collect())
    }

    /// The two words of the counted string.
    fn words(&self) -> [u64; 2] {
        const { assert!(size_of::<UNICODE_STRING>() == 16) };
        let bytes = self.0.len() as u64 * 2;
        [bytes | bytes << 16, self.0.as_ptr().expose_provenance() as u64]
    }
}

/// Where a driver object has the routine that unloads the driver. [wdm: DRIVER_OBJECT]
const UNLOAD: usize = 0x68;
/// Where a driver object has its dispatch routines, and how many. [wdm: DRIVER_OBJECT, IRP_MJ_MAXIMUM_FUNCTION]
const MAJOR_FUNCTION: usize = 0x70;
const MAJOR_FUNCTIONS: usize = 28;

/// The dispatch routine of requests for which a driver has none. There are no requests here: whoever calls it is answered.
extern "win64" fn invalid_device_request(_device: *mut c_void, _irp: *mut c_void) -> NTSTATUS {
    STATUS_INVALID_DEVICE_REQUEST
}

/// Address of [`invalid_device_request`], taken in one place: a function may have several.
#[inline(never)]
fn no_dispatch_routine() -> u64 {
    invalid_device_request as *const () as usize as u64
}

/// The driver object of a driver, with its extension, for as long as the driver is loaded.
pub(crate) struct DriverObject {
    object: Words<42>,
    _extension: Words<5>,
    /// The counted string of the hardware database.
    _database: Words<2>,
    _texts: [Text; 3],
}

impl DriverObject {
    /// That of the service `name`, whose image begins at `start`, has `size` bytes and is entered at `entry`, or of a driver without an image for zeros.
    pub(crate) fn new(name: &str, [start, size, entry]: [usize; 3]) -> Self {
        const TYPE: u64 = 4;
        const SIZE: u64 = 0x150;
        let of_driver = Text::new(&format!("\\Driver\\{name}"));
        let (service, hardware) = (Text::new(name), Text::new("\\REGISTRY\\MACHINE\\HARDWARE\\DESCRIPTION\\SYSTEM"));
        let extension = Words::new(&[]);
        let object = Words::new(&[
            (0, TYPE | SIZE << 16),
            (0x18, start as u64),
            (0x20, size as u64),
            (0x30, extension.address() as u64),
            (0x58, entry as u64),
        ]);
        for function in 0..MAJOR_FUNCTIONS {
            object.set(MAJOR_FUNCTION + 8 * function, no_dispatch_routine());
        }
        let [lengths, text] = of_driver.words();
        object.set(0x38, lengths);
        object.set(0x40, text);
        extension.set(0, object.address() as u64);
        let [lengths, text] = service.words();
        extension.set(0x18, lengths);
        extension.set(0x20, text);
        let [lengths, text] = hardware.words();
        let database = Words::new(&[(0, lengths), (8, text)]);
        object.set(0x48, database.address() as u64);
        Self { object, _extension: extension, _database: database, _texts: [of_driver, service, hardware] }
    }

    pub(crate) fn address(&self) -> usize {
        self.object.address()
    }

    /// DriverUnload, 0 for none.
    pub(crate) fn unload_routine(&self) -> usize {
        self.object.get(UNLOAD) as usize
    }

    pub(crate) fn set_unload_routine(&self, routine: usize) {
        self.object.set(UNLOAD, routine as u64);
    }
}

/// A physical device object, with the driver object of its bus.
pub(crate) struct DeviceFields {
    device: Words<42>,
    _bus: DriverObject,
}

impl DeviceFields {
    /// One that a bus has found, with a stack of this one object.
    pub(crate) fn new() -> Self {
        const TYPE: u64 = 3;
        const SIZE: u64 = 0x150;
        const REFERENCES: u64 = 1;
        const BUS_ENUMERATED: u64 = 0x1000;
        const UNKNOWN: u64 = 0x22;
        let (header, kind) = (TYPE | SIZE << 16 | REFERENCES << 32, UNKNOWN | 1 << 32);
        let bus = DriverObject::new("pci", [0; 3]);
        let device = Words::new(&[(0, header), (8, bus.address() as u64), (0x30, BUS_ENUMERATED), (0x48, kind)]);
        bus.object.set(8, device.address() as u64);
        Self { device, _bus: bus }
    }

    pub(crate) fn address(&self) -> usize {
        self.device.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::guarded;

    fn word(address: usize, offset: usize) -> u64 {
        // SAFETY: any bytes are a number.
        unsafe { guarded::read(std::ptr::with_exposed_provenance::<u64>(address + offset)) }.unwrap()
    }

    fn text(address: usize, offset: usize) -> String {
        let (lengths, at) = (word(address, offset), word(address, offset + 8));
        let mut bytes = vec![0; (lengths & 0xffff) as usize];
        guarded::read_bytes(std::ptr::with_exposed_provenance(at as usize), &mut bytes).unwrap();
        let units: Vec<u16> = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
        String::from_utf16(&units).unwrap()
    }

    #[test]
    fn a_driver_object_tells_image_and_names_and_takes_what_the_driver_stores() {
        let driver = DriverObject::new("gpu", [0x1000, 0x2000, 0x1800]);
        let at = driver.address();
        assert_eq!(word(at, 0), 0x0150_0004, "type and size");
        assert_eq!([word(at, 0x18), word(at, 0x20), word(at, 0x58)], [0x1000, 0x2000, 0x1800]);
        assert_eq!(text(at, 0x38), "\\Driver\\gpu");
        let extension = word(at, 0x30) as usize;
        assert_eq!((word(extension, 0), text(extension, 0x18)), (at as u64, "gpu".to_owned()));
        assert!(text(word(at, 0x48) as usize, 0).ends_with("SYSTEM"));
        assert_eq!(word(at, 0x68), 0, "DriverUnload");
        for offset in (0x68..0x150).step_by(8) {
            assert!(offset == 0x68 || word(at, offset) == no_dispatch_routine());
            // SAFETY: memory of the object, for drivers to write.
            unsafe { guarded::write(std::ptr::with_exposed_provenance_mut::<u64>(at + offset), 7) }.unwrap();
        }
    }

    #[test]
    fn a_device_object_is_one_of_a_bus_with_a_stack_of_its_own() {
        let device = DeviceFields::new();
        let at = device.address();
        assert_eq!(word(at, 0), 1 << 32 | 0x0150_0003, "type, size and references");
        assert_eq!([word(at, 0x18), word(at, 0x40)], [0; 2], "nothing attached, no extension");
        let bus = word(at, 0x8) as usize;
        assert_eq!((word(bus, 0), word(bus, 8), text(bus, 0x38)), (0x0150_0004, at as u64, "\\Driver\\pci".to_owned()));
        assert_eq!((word(at, 0x30) as u32, word(at, 0x48)), (0x1000, 0x1_0000_0022));
    }
}
