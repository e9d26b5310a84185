//! What `wddm-ddi` declares, as the compiler measures it.

#![allow(non_camel_case_types, non_upper_case_globals)]

use std::mem::{align_of, offset_of, size_of};

use ddi_layout::{Enumeration, Exceptions, Measured, Record, open, record};
use wddm_ddi::{km::*, kmt::*, nt, status, types::*};

// Written from the sources of wddm-ddi; a test of that crate fails when it is stale.
#[rustfmt::skip]
#[path = "../../tests/layout/generated.rs"]
mod generated;

const EXCEPTIONS: &str = include_str!("../../tests/layout/exceptions.json");

/// One side of the comparison.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Types, values and slots that the table of facts knows too.
    pub measured: Measured,
    /// Types of the base headers, of which `wddm-ddi` declares only what it uses.
    pub base: Vec<BaseRecord>,
    /// Members that are deliberately not declared, with reasons.
    pub exceptions: Exceptions,
}

/// A type of a base header; members that only the header has are no difference.
#[derive(Clone, Copy, Debug)]
pub struct BaseRecord {
    /// Name.
    pub name: &'static str,
    /// Size and alignment in bytes, where both sides declare the whole type.
    pub whole: Option<(usize, usize)>,
    /// Members: path in C, offset and size in bytes.
    pub fields: &'static [(&'static str, usize, usize)],
}

impl Declared {
    /// Measures every declaration.
    ///
    /// # Errors
    /// A sentence if the list of exceptions, which is part of the sources, cannot be read.
    pub fn measure() -> Result<Self, String> {
        let guids = generated::GUIDS.iter().map(|(name, guid)| (*name, spelling(guid))).collect();
        let measured = Measured {
            records: generated::RECORDS.to_vec(),
            enumerations: generated::ENUMERATIONS.to_vec(),
            constants: constants(),
            guids,
            typedefs: generated::TYPEDEFS.to_vec(),
            slot_names: SLOT_NAMES.to_vec(),
        };
        Ok(Self { measured, base: BASE.to_vec(), exceptions: Exceptions::from_text(EXCEPTIONS)? })
    }

    /// Names of all constants, for [`probes`](crate::probes).
    pub fn constant_names(&self) -> impl Iterator<Item = &'static str> {
        self.measured.constants.iter().map(|(name, _)| *name)
    }
}

/// Constants of the table, and those of the base headers. `IOCTL_VIDEO_DDI_FUNC_REGISTER` is not among them: no header of a kit
/// has it, it belongs to the inside of `displib.lib`.
fn constants() -> Vec<(&'static str, i64)> {
    let mut all = generated::CONSTANTS.to_vec();
    all.extend([
        ("DISPLAY_ADAPTER_HW_ID", i64::from(DISPLAY_ADAPTER_HW_ID)),
        ("POOL_FLAG_NON_PAGED", nt::POOL_FLAG_NON_PAGED as i64),
        ("POOL_FLAG_UNINITIALIZED", nt::POOL_FLAG_UNINITIALIZED as i64),
        ("PASSIVE_LEVEL", i64::from(nt::PASSIVE_LEVEL)),
        ("APC_LEVEL", i64::from(nt::APC_LEVEL)),
        ("DISPATCH_LEVEL", i64::from(nt::DISPATCH_LEVEL)),
        ("DPFLTR_VIDEO_ID", i64::from(nt::DPFLTR_VIDEO_ID)),
        ("DPFLTR_ERROR_LEVEL", i64::from(nt::DPFLTR_ERROR_LEVEL)),
        ("DPFLTR_INFO_LEVEL", i64::from(nt::DPFLTR_INFO_LEVEL)),
    ]);
    all.extend(status::NAMES.iter().map(|(status, name)| (*name, i64::from(status.0))));
    all
}

/// The usual spelling of a GUID.
fn spelling(guid: &GUID) -> String {
    let [a, b, rest @ ..] = guid.Data4;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{:08x}-{:04x}-{:04x}-{a:02x}{b:02x}-{rest}", guid.Data1, guid.Data2, guid.Data3)
}

/// A member of a base type: its path in C, its path here and its type.
macro_rules! base {
    ($name:ident, $whole:expr, [$($path:literal = $($field:ident).+: $type:ty),* $(,)?]) => {
        BaseRecord {
            name: stringify!($name),
            whole: $whole,
            fields: &[$(($path, offset_of!($name, $($field).+), size_of::<$type>())),*],
        }
    };
}

/// Size and alignment.
macro_rules! whole {
    ($name:ty) => {
        Some((size_of::<$name>(), align_of::<$name>()))
    };
}

const BASE: &[BaseRecord] = &[
    base!(MDL, whole!(MDL), [
        "Next" = Next: *mut MDL,
        "Size" = Size: i16,
        "MdlFlags" = MdlFlags: i16,
        "Process" = Process: *mut u8,
        "MappedSystemVa" = MappedSystemVa: *mut u8,
        "StartVa" = StartVa: *mut u8,
        "ByteCount" = ByteCount: u32,
        "ByteOffset" = ByteOffset: u32,
    ]),
    base!(CM_PARTIAL_RESOURCE_DESCRIPTOR, whole!(CM_PARTIAL_RESOURCE_DESCRIPTOR), [
        "Type" = Type: u8,
        "ShareDisposition" = ShareDisposition: u8,
        "Flags" = Flags: u16,
        "u" = u: CM_PARTIAL_RESOURCE_DESCRIPTOR_U,
        "u.Memory.Start" = u.Memory.Start: PHYSICAL_ADDRESS,
        "u.Memory.Length" = u.Memory.Length: u32,
        "u.MessageInterrupt.Translated.Level" = u.MessageInterrupt.Level: u32,
        "u.MessageInterrupt.Translated.Vector" = u.MessageInterrupt.Vector: u32,
        "u.MessageInterrupt.Translated.Affinity" = u.MessageInterrupt.Affinity: usize,
    ]),
    // C nests three records where Rust has one, and ends in an array of one.
    base!(CM_RESOURCE_LIST, None, [
        "Count" = Count: u32,
        "List.InterfaceType" = InterfaceType: u32,
        "List.BusNumber" = BusNumber: u32,
        "List.PartialResourceList.Version" = Version: u16,
        "List.PartialResourceList.Revision" = Revision: u16,
        "List.PartialResourceList.Count" = PartialCount: u32,
        "List.PartialResourceList.PartialDescriptors" = PartialDescriptors: CM_PARTIAL_RESOURCE_DESCRIPTOR,
    ]),
    base!(QUERY_INTERFACE, whole!(QUERY_INTERFACE), [
        "InterfaceType" = InterfaceType: *const GUID,
        "Size" = Size: u16,
        "Version" = Version: u16,
        "Interface" = Interface: *mut INTERFACE,
        "InterfaceSpecificData" = InterfaceSpecificData: *mut u8,
        "DeviceUid" = DeviceUid: u32,
    ]),
    base!(PCI_DEVICE_PRESENCE_PARAMETERS, whole!(PCI_DEVICE_PRESENCE_PARAMETERS), [
        "Size" = Size: u32,
        "Flags" = Flags: u32,
        "VendorID" = VendorID: u16,
        "DeviceID" = DeviceID: u16,
        "RevisionID" = RevisionID: u8,
        "SubVendorID" = SubVendorID: u16,
        "SubSystemID" = SubSystemID: u16,
        "BaseClass" = BaseClass: u8,
        "SubClass" = SubClass: u8,
        "ProgIf" = ProgIf: u8,
    ]),
];
