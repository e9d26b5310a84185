//! Base types of the Windows kernel and user headers that the display interface is built from.

use core::ffi::c_void;

pub use crate::status::NTSTATUS;

/// Opaque handle of pointer size. [winnt: HANDLE]
pub type HANDLE = *mut c_void;
/// Kernel boolean, one byte; any value other than zero is true. [wdm: BOOLEAN]
pub type BOOLEAN = u8;
/// GPU virtual address of a process. [d3dukmdt: D3DGPU_VIRTUAL_ADDRESS]
pub type D3DGPU_VIRTUAL_ADDRESS = u64;
/// Size in a GPU address space. [d3dukmdt: D3DGPU_SIZE_T]
pub type D3DGPU_SIZE_T = u64;
/// Handle of a graphics kernel object in a process, 0 for none. [d3dukmdt: D3DKMT_HANDLE]
pub type D3DKMT_HANDLE = u32;
/// Size as the thunks carry it. [d3dkmthk: D3DKMT_SIZE_T]
pub type D3DKMT_SIZE_T = usize;
/// Version number of one negotiable feature. [d3dukmdt: DXGK_FEATURE_VERSION]
pub type DXGK_FEATURE_VERSION = u16;
/// Video present source; compute-only adapters have none. [d3dukmdt: D3DDDI_VIDEO_PRESENT_SOURCE_ID]
pub type D3DDDI_VIDEO_PRESENT_SOURCE_ID = u32;
/// Page frame number in an address descriptor list. [d3dkmddi: DXGK_PAGE_NUMBER]
pub type DXGK_PAGE_NUMBER = usize;

/// A table slot that this crate gives no prototype, because no driver here fills or calls it.
pub type UnusedSlot = Option<unsafe extern "win64" fn()>;

/// 64-bit quantity with a 32-bit view in C; only the whole is declared. [winnt: LARGE_INTEGER]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LARGE_INTEGER {
    pub QuadPart: i64,
}

/// Physical or bus address. [wdm: PHYSICAL_ADDRESS]
pub type PHYSICAL_ADDRESS = LARGE_INTEGER;

/// Locally unique identifier of an adapter. [winnt: LUID]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LUID {
    pub LowPart: u32,
    pub HighPart: i32,
}

/// Globally unique identifier. [guiddef: GUID]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GUID {
    pub Data1: u32,
    pub Data2: u16,
    pub Data3: u16,
    pub Data4: [u8; 8],
}

/// Rectangle in pixels, right and bottom exclusive. [windef: RECT]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RECT {
    pub left: i32,
    pub top: i32,
    pub right: i32,
    pub bottom: i32,
}

/// Counted UTF-16 string, lengths in bytes. [ntdef: UNICODE_STRING]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UNICODE_STRING {
    pub Length: u16,
    pub MaximumLength: u16,
    pub Buffer: *mut u16,
}

/// Header of a memory descriptor list; the page frame numbers (`usize` each) follow it. [wdm: MDL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MDL {
    pub Next: *mut MDL,
    pub Size: i16,
    pub MdlFlags: i16,
    pub Process: *mut c_void,
    pub MappedSystemVa: *mut c_void,
    pub StartVa: *mut c_void,
    pub ByteCount: u32,
    pub ByteOffset: u32,
}

/// One translated hardware resource of a device. The C type is a union packed to 4 bytes; the arms used by PCIe functions are
/// memory ranges and interrupts, which share this shape: (start or vector data, length). [wdm: CM_PARTIAL_RESOURCE_DESCRIPTOR]
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub struct CM_PARTIAL_RESOURCE_DESCRIPTOR {
    /// [`Self::MEMORY`], [`Self::MEMORY_LARGE`] or [`Self::INTERRUPT`].
    pub Type: u8,
    pub ShareDisposition: u8,
    /// For interrupts bit 1 says message signalled.
    pub Flags: u16,
    /// Memory: translated bus address. Interrupt: level, vector, affinity.
    pub u: CM_PARTIAL_RESOURCE_DESCRIPTOR_U,
}

impl CM_PARTIAL_RESOURCE_DESCRIPTOR {
    /// `CmResourceTypeInterrupt`.
    pub const INTERRUPT: u8 = 2;
    /// `CmResourceTypeMemory`: length in bytes.
    pub const MEMORY: u8 = 3;
    /// `CmResourceTypeMemoryLarge`: `Length` counts units chosen by `Flags` (256 bytes, 64 KiB or 4 GiB).
    pub const MEMORY_LARGE: u8 = 7;
    /// Memory flag `CM_RESOURCE_MEMORY_LARGE_40`: the length is in units of 256 bytes.
    pub const FLAG_MEMORY_LARGE_40: u16 = 0x200;
    /// Interrupt flags `CM_RESOURCE_INTERRUPT_LEVEL_SENSITIVE`: a line, and no flag at all.
    pub const FLAG_INTERRUPT_LEVEL_SENSITIVE: u16 = 0;
    /// Interrupt flag `CM_RESOURCE_INTERRUPT_MESSAGE`.
    pub const FLAG_INTERRUPT_MESSAGE: u16 = 0x2;
}

/// Arms of [`CM_PARTIAL_RESOURCE_DESCRIPTOR`].
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub union CM_PARTIAL_RESOURCE_DESCRIPTOR_U {
    pub Memory: CM_MEMORY_RESOURCE,
    pub MessageInterrupt: CM_MESSAGE_INTERRUPT_RESOURCE,
}

/// Memory range of a device. [wdm: CM_PARTIAL_RESOURCE_DESCRIPTOR]
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub struct CM_MEMORY_RESOURCE {
    pub Start: PHYSICAL_ADDRESS,
    pub Length: u32,
}

/// Translated message-signalled interrupt. [wdm: CM_PARTIAL_RESOURCE_DESCRIPTOR]
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub struct CM_MESSAGE_INTERRUPT_RESOURCE {
    pub Level: u32,
    pub Vector: u32,
    pub Affinity: usize,
}

/// Resource list of one bus interface with up to eight descriptors; C declares a trailing array of one and the count says how
/// many follow. [wdm: CM_RESOURCE_LIST]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CM_RESOURCE_LIST {
    /// Always 1 here.
    pub Count: u32,
    pub InterfaceType: u32,
    pub BusNumber: u32,
    pub Version: u16,
    pub Revision: u16,
    pub PartialCount: u32,
    pub PartialDescriptors: [CM_PARTIAL_RESOURCE_DESCRIPTOR; 8],
}

/// Common head of every interface that one driver asks of another. [wdm: INTERFACE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct INTERFACE {
    pub Size: u16,
    pub Version: u16,
    pub Context: *mut c_void,
    pub InterfaceReference: PINTERFACE_REFERENCE,
    pub InterfaceDereference: PINTERFACE_REFERENCE,
}

/// Counts a reference on an interface up or down. [wdm: PINTERFACE_REFERENCE]
pub type PINTERFACE_REFERENCE = Option<unsafe extern "win64" fn(Context: *mut c_void)>;

/// Question for an interface by GUID. [video: QUERY_INTERFACE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct QUERY_INTERFACE {
    pub InterfaceType: *const GUID,
    pub Size: u16,
    pub Version: u16,
    pub Interface: *mut INTERFACE,
    pub InterfaceSpecificData: *mut c_void,
    pub DeviceUid: u32,
}

/// What is known of a PCI function that a driver looks for; `Flags` says which members count. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PCI_DEVICE_PRESENCE_PARAMETERS {
    pub Size: u32,
    pub Flags: u32,
    pub VendorID: u16,
    pub DeviceID: u16,
    pub RevisionID: u8,
    pub SubVendorID: u16,
    pub SubSystemID: u16,
    pub BaseClass: u8,
    pub SubClass: u8,
    pub ProgIf: u8,
}

/// `Flags` of [`PCI_DEVICE_PRESENCE_PARAMETERS`]: SubVendorID and SubSystemID count. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
pub const PCI_USE_SUBSYSTEM_IDS: u32 = 0x1;
/// RevisionID counts. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
pub const PCI_USE_REVISION: u32 = 0x2;
/// VendorID and DeviceID count. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
pub const PCI_USE_VENDEV_IDS: u32 = 0x4;
/// BaseClass and SubClass count. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
pub const PCI_USE_CLASS_SUBCLASS: u32 = 0x8;
/// ProgIf counts. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
pub const PCI_USE_PROGIF: u32 = 0x10;
/// Functions on the bus of the one that asks are looked at. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
pub const PCI_USE_LOCAL_BUS: u32 = 0x20;
/// Functions of the device of the one that asks are looked at. [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
pub const PCI_USE_LOCAL_DEVICE: u32 = 0x40;

/// Cache attribute of a kernel mapping. [wdm: MEMORY_CACHING_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MEMORY_CACHING_TYPE(pub i32);

impl MEMORY_CACHING_TYPE {
    pub const MmNonCached: Self = Self(0);
    pub const MmCached: Self = Self(1);
    pub const MmWriteCombined: Self = Self(2);
    pub const MmHardwareCoherentCached: Self = Self(3);
    pub const MmNonCachedUnordered: Self = Self(4);
    pub const MmUSWCCached: Self = Self(5);
    pub const MmNotMapped: Self = Self(-1);
}

/// Interrupt request level. [wdm: KIRQL]
pub type KIRQL = u8;

/// PCI configuration space in `DxgkCbReadDeviceSpace` (`DXGK_WHICHSPACE_CONFIG`). [dispmprt: DXGKCB_READ_DEVICE_SPACE]
pub const DXGK_WHICHSPACE_CONFIG: u32 = 0;

/// Driver object as far as a miniport sees it: an opaque block. [wdm: DRIVER_OBJECT]
pub type PDRIVER_OBJECT = *mut c_void;

/// Entry point of a driver image. [wdm: DRIVER_INITIALIZE]
pub type PDRIVER_INITIALIZE =
    unsafe extern "win64" fn(DriverObject: PDRIVER_OBJECT, RegistryPath: *mut UNICODE_STRING) -> NTSTATUS;

zeroed! {
    LARGE_INTEGER, LUID, GUID, RECT, UNICODE_STRING, MDL, CM_PARTIAL_RESOURCE_DESCRIPTOR, CM_RESOURCE_LIST, INTERFACE,
    QUERY_INTERFACE, PCI_DEVICE_PRESENCE_PARAMETERS,
}
