//! The few kernel services that a miniport imports besides the graphics callbacks.
//!
//! On Windows they are imports from `ntoskrnl.exe` (and `displib` for `DxgkInitialize`); a driver linked into a test process
//! takes them from an [`NtImports`] table instead. Prototypes are those of `wdm.h`.

use core::ffi::c_void;

use crate::km::DRIVER_INITIALIZATION_DATA;
use crate::types::*;

/// Pool flags of `ExAllocatePool2`: nonpaged memory. [wdm: POOL_FLAG_NON_PAGED]
pub const POOL_FLAG_NON_PAGED: u64 = 0x40;
/// Pool flags of `ExAllocatePool2`: what fails raises an exception. [wdm: POOL_FLAG_RAISE_ON_FAILURE]
pub const POOL_FLAG_RAISE_ON_FAILURE: u64 = 0x20;
/// Pool flags of `ExAllocatePool2`: memory is not zeroed. [wdm: POOL_FLAG_UNINITIALIZED]
pub const POOL_FLAG_UNINITIALIZED: u64 = 0x2;

/// No restriction. [wdm: PASSIVE_LEVEL]
pub const PASSIVE_LEVEL: KIRQL = 0;
/// Asynchronous procedure calls are not delivered. [wdm: APC_LEVEL]
pub const APC_LEVEL: KIRQL = 1;
/// The thread is not preempted: no waiting, no paging. [wdm: DISPATCH_LEVEL]
pub const DISPATCH_LEVEL: KIRQL = 2;

/// Component of video drivers in `DbgPrintEx`. [dpfilter: DPFLTR_VIDEO_ID]
pub const DPFLTR_VIDEO_ID: u32 = 27;
/// Error level of `DbgPrintEx`. [dpfilter: DPFLTR_ERROR_LEVEL]
pub const DPFLTR_ERROR_LEVEL: u32 = 0;
/// Information level of `DbgPrintEx`. [dpfilter: DPFLTR_INFO_LEVEL]
pub const DPFLTR_INFO_LEVEL: u32 = 3;

/// `IoGetDeviceProperty`: hardware identifiers, strings of 16-bit units, each with its NUL and one more behind the last. The first is
/// the most specific. [wdm: DevicePropertyHardwareID]
pub const DEVICE_PROPERTY_HARDWARE_ID: i32 = 1;
/// `IoGetDeviceProperty`: number of the bus, 32 bits. [wdm: DevicePropertyBusNumber]
pub const DEVICE_PROPERTY_BUS_NUMBER: i32 = 14;
/// `IoGetDeviceProperty`: address on the bus, 32 bits; for PCI the device number in the upper half, the function number in the lower.
/// [wdm: DevicePropertyAddress]
pub const DEVICE_PROPERTY_ADDRESS: i32 = 16;

/// `IoOpenDeviceRegistryKey`: the device's hardware key. [wdm: PLUGPLAY_REGKEY_DEVICE]
pub const PLUGPLAY_REGKEY_DEVICE: u32 = 1;
/// `IoOpenDeviceRegistryKey`: the software key of the device's driver. [wdm: PLUGPLAY_REGKEY_DRIVER]
pub const PLUGPLAY_REGKEY_DRIVER: u32 = 2;
/// `IoOpenDeviceRegistryKey`: either key as it is in the current hardware profile. [wdm: PLUGPLAY_REGKEY_CURRENT_HWPROFILE]
pub const PLUGPLAY_REGKEY_CURRENT_HWPROFILE: u32 = 4;

/// Access to a key: its values may be read. [wdm: KEY_QUERY_VALUE]
pub const KEY_QUERY_VALUE: u32 = 1;

/// `ZwQueryValueKey`: type and name. [wdm: KeyValueBasicInformation]
pub const KEY_VALUE_BASIC_INFORMATION_CLASS: i32 = 0;
/// `ZwQueryValueKey`: type, name and data. [wdm: KeyValueFullInformation]
pub const KEY_VALUE_FULL_INFORMATION_CLASS: i32 = 1;
/// `ZwQueryValueKey`: type and data, a [`KEY_VALUE_PARTIAL_INFORMATION`]. [wdm: KeyValuePartialInformation]
pub const KEY_VALUE_PARTIAL_INFORMATION_CLASS: i32 = 2;

/// Type of a value: a number of 32 bits. [wdm: REG_DWORD]
pub const REG_DWORD: u32 = 4;

/// Type and data of a value; there is space for `BYTES` bytes of data. [wdm: KEY_VALUE_PARTIAL_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KEY_VALUE_PARTIAL_INFORMATION<const BYTES: usize> {
    /// Of no use to drivers.
    pub TitleIndex: u32,
    /// For example [`REG_DWORD`].
    pub Type: u32,
    /// Bytes of data, also if there are more than fit.
    pub DataLength: u32,
    /// As many as there are and fit.
    pub Data: [u8; BYTES],
}

/// Outcome of a request to a device. [wdm: IO_STATUS_BLOCK]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IO_STATUS_BLOCK {
    /// STATUS_PENDING while the request is under way.
    pub Status: NTSTATUS,
    /// Depends on the request; bytes that were transferred, for most.
    pub Information: usize,
}

/// Why a thread or a process cannot go on. [winnt: EXCEPTION_RECORD]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EXCEPTION_RECORD {
    /// Kind of exception.
    pub ExceptionCode: u32,
    /// For example [`EXCEPTION_NONCONTINUABLE`].
    pub ExceptionFlags: u32,
    /// The exception during which this one was raised, or null.
    pub ExceptionRecord: *mut EXCEPTION_RECORD,
    /// Address of the instruction.
    pub ExceptionAddress: *mut c_void,
    /// Number of entries of `ExceptionInformation` that are valid.
    pub NumberParameters: u32,
    /// Arguments that depend on the kind.
    pub ExceptionInformation: [usize; 15],
}

/// The thread cannot be continued. [winnt: EXCEPTION_NONCONTINUABLE]
pub const EXCEPTION_NONCONTINUABLE: u32 = 1;

/// Registers a miniport with the graphics kernel. [dispmprt: DxgkInitialize]
pub type PDXGK_INITIALIZE = unsafe extern "win64" fn(
    DriverObject: PDRIVER_OBJECT,
    RegistryPath: *mut UNICODE_STRING,
    DriverInitializationData: *mut DRIVER_INITIALIZATION_DATA,
) -> NTSTATUS;

/// Internal control request by which the graphics kernel of Windows 7 hands out `DxgkInitialize`; the output is one function pointer.
/// Video device type 0x23, function 0xf, METHOD_NEITHER. [dispmprt: IOCTL_VIDEO_DDI_FUNC_REGISTER]
pub const IOCTL_VIDEO_DDI_FUNC_REGISTER: u32 = 0x0023_003f;
/// The same request to the graphics kernel of Windows 8 and later: function 0x11. No header has it; open filter drivers ask with it first, and with the
/// one of Windows 7 when the answer is STATUS_INVALID_DEVICE_REQUEST. [dispmprt: IOCTL_VIDEO_DDI_FUNC_REGISTER]
pub const IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8: u32 = 0x0023_0047;

/// Control code of a provider's enable callback: no session wants its events any more.
/// [evntprov: EVENT_CONTROL_CODE_DISABLE_PROVIDER]
pub const EVENT_CONTROL_CODE_DISABLE_PROVIDER: u32 = 0;
/// A session wants its events, or others than before. [evntprov: EVENT_CONTROL_CODE_ENABLE_PROVIDER]
pub const EVENT_CONTROL_CODE_ENABLE_PROVIDER: u32 = 1;
/// A session asks for the provider's state. [evntprov: EVENT_CONTROL_CODE_CAPTURE_STATE]
pub const EVENT_CONTROL_CODE_CAPTURE_STATE: u32 = 2;

/// Information class of `EtwSetInformation`: name and traits of the provider. [evntprov: EventProviderSetTraits]
pub const EVENT_PROVIDER_SET_TRAITS: u32 = 2;

/// Channel of events that describe themselves. [winmeta: WINEVENT_CHANNEL_TRACELOGGING]
pub const WINEVENT_CHANNEL_TRACELOGGING: u8 = 11;

/// Type of a part of an event's data: bytes of the payload. [evntprov: EVENT_DATA_DESCRIPTOR_TYPE_NONE]
pub const EVENT_DATA_DESCRIPTOR_TYPE_NONE: u32 = 0;
/// Description of the event. [evntprov: EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA]
pub const EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA: u32 = 1;
/// Description of the provider. [evntprov: EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA]
pub const EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA: u32 = 2;

/// What an event is. [evntprov: EVENT_DESCRIPTOR]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EVENT_DESCRIPTOR {
    pub Id: u16,
    pub Version: u8,
    pub Channel: u8,
    pub Level: u8,
    pub Opcode: u8,
    pub Task: u16,
    pub Keyword: u64,
}

/// Part of an event's data. `Type` is the low byte of what C calls `Reserved`. [evntprov: EVENT_DATA_DESCRIPTOR]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EVENT_DATA_DESCRIPTOR {
    pub Ptr: u64,
    pub Size: u32,
    pub Type: u32,
}

/// Called when a session begins or ends to want a provider's events. [wdm: PETWENABLECALLBACK]
pub type PETWENABLECALLBACK = unsafe extern "win64" fn(
    SourceId: *const GUID,
    ControlCode: u32,
    Level: u8,
    MatchAnyKeyword: u64,
    MatchAllKeyword: u64,
    FilterData: *mut c_void,
    CallbackContext: *mut c_void,
);

macro_rules! nt_imports {
    ($( $(#[doc = $doc:literal])* $name:ident: $ty:ty, )*) => {
        /// Kernel services by name.
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct NtImports {
            $( $(#[doc = $doc])* pub $name: $ty, )*
        }

        impl NtImports {
            /// Names in the order of the table.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Address of the service with this name, for an image loader.
            pub fn address_of(&self, name: &str) -> Option<usize> {
                match name {
                    $( stringify!($name) => Some(self.$name as usize), )*
                    _ => None,
                }
            }

            /// Name of the service at this address.
            pub fn name_of(&self, address: usize) -> Option<&'static str> {
                $( if address == self.$name as usize { return Some(stringify!($name)); } )*
                None
            }
        }
    };
}

nt_imports! {
    /// [dispmprt: DxgkInitialize]
    DxgkInitialize: PDXGK_INITIALIZE,
    /// [wdm: ExAllocatePool2] NULL when out of memory.
    ExAllocatePool2: unsafe extern "win64" fn(Flags: u64, NumberOfBytes: usize, Tag: u32) -> *mut c_void,
    /// [wdm: ExFreePoolWithTag]
    ExFreePoolWithTag: unsafe extern "win64" fn(P: *mut c_void, Tag: u32),
    /// [wdm: KeGetCurrentIrql]
    KeGetCurrentIrql: unsafe extern "win64" fn() -> KIRQL,
    /// [wdm: KeAcquireSpinLockRaiseToDpc]
    KeAcquireSpinLockRaiseToDpc: unsafe extern "win64" fn(SpinLock: *mut usize) -> KIRQL,
    /// [wdm: KeReleaseSpinLock]
    KeReleaseSpinLock: unsafe extern "win64" fn(SpinLock: *mut usize, NewIrql: KIRQL),
    /// [wdm: KeEnterCriticalRegion]
    KeEnterCriticalRegion: unsafe extern "win64" fn(),
    /// [wdm: KeLeaveCriticalRegion]
    KeLeaveCriticalRegion: unsafe extern "win64" fn(),
    /// [ntifs: ExAcquirePushLockExclusiveEx] `Flags` is 0.
    ExAcquirePushLockExclusiveEx: unsafe extern "win64" fn(PushLock: *mut usize, Flags: u32),
    /// [ntifs: ExReleasePushLockExclusiveEx] `Flags` is 0.
    ExReleasePushLockExclusiveEx: unsafe extern "win64" fn(PushLock: *mut usize, Flags: u32),
    /// [wdm: KeQueryPerformanceCounter]
    KeQueryPerformanceCounter: unsafe extern "win64" fn(PerformanceFrequency: *mut LARGE_INTEGER) -> LARGE_INTEGER,
    /// [wdm: MmGetPhysicalAddress] Bus address of a nonpaged kernel address, such as memory of
    /// `DxgkCbAllocateContiguousMemory`.
    MmGetPhysicalAddress: unsafe extern "win64" fn(BaseAddress: *mut c_void) -> PHYSICAL_ADDRESS,
    /// [wdm: KeGetCurrentProcessorNumberEx] The system-wide number of the processor; `ProcNumber` is NULL.
    KeGetCurrentProcessorNumberEx: unsafe extern "win64" fn(ProcNumber: *mut c_void) -> u32,
    /// [wdm: EtwRegister] PASSIVE_LEVEL.
    EtwRegister: unsafe extern "win64" fn(
        ProviderId: *const GUID,
        EnableCallback: Option<PETWENABLECALLBACK>,
        CallbackContext: *mut c_void,
        RegHandle: *mut u64,
    ) -> NTSTATUS,
    /// [wdm: EtwUnregister] PASSIVE_LEVEL; no callback runs any more when it returns.
    EtwUnregister: unsafe extern "win64" fn(RegHandle: u64) -> NTSTATUS,
    /// [wdm: EtwSetInformation] PASSIVE_LEVEL.
    EtwSetInformation: unsafe extern "win64" fn(
        RegHandle: u64,
        InformationClass: u32,
        EventInformation: *const c_void,
        InformationLength: u32,
    ) -> NTSTATUS,
    /// [wdm: EtwWriteTransfer] Any level, if no part of the data is paged.
    EtwWriteTransfer: unsafe extern "win64" fn(
        RegHandle: u64,
        EventDescriptor: *const EVENT_DESCRIPTOR,
        ActivityId: *const GUID,
        RelatedActivityId: *const GUID,
        UserDataCount: u32,
        UserData: *const EVENT_DATA_DESCRIPTOR,
    ) -> NTSTATUS,
    /// [wdm: IoGetDeviceProperty] What plug and play knows of a device; STATUS_BUFFER_TOO_SMALL with the length that is needed.
    IoGetDeviceProperty: unsafe extern "win64" fn(
        DeviceObject: *mut c_void,
        DeviceProperty: i32,
        BufferLength: u32,
        PropertyBuffer: *mut c_void,
        ResultLength: *mut u32,
    ) -> NTSTATUS,
    /// [wdm: IoOpenDeviceRegistryKey] PASSIVE_LEVEL in a system thread. Opens a key of a physical device object; STATUS_INVALID_PARAMETER for a
    /// combination of `DevInstKeyType` that there is not, STATUS_INVALID_DEVICE_REQUEST for an object that plug and play does not know.
    IoOpenDeviceRegistryKey: unsafe extern "win64" fn(
        DeviceObject: *mut c_void,
        DevInstKeyType: u32,
        DesiredAccess: u32,
        DeviceRegKey: *mut HANDLE,
    ) -> NTSTATUS,
    /// [wdm: ZwQueryValueKey] PASSIVE_LEVEL. STATUS_OBJECT_NAME_NOT_FOUND without such a value; STATUS_BUFFER_TOO_SMALL if nothing fits and
    /// STATUS_BUFFER_OVERFLOW if not all of it does, each with the length that is needed.
    ZwQueryValueKey: unsafe extern "win64" fn(
        KeyHandle: HANDLE,
        ValueName: *mut UNICODE_STRING,
        KeyValueInformationClass: i32,
        KeyValueInformation: *mut c_void,
        Length: u32,
        ResultLength: *mut u32,
    ) -> NTSTATUS,
    /// [wdm: ZwClose] PASSIVE_LEVEL. Closes a handle.
    ZwClose: unsafe extern "win64" fn(Handle: HANDLE) -> NTSTATUS,
    /// [wdm: KeBugCheckEx]
    KeBugCheckEx: unsafe extern "win64" fn(Code: u32, P1: usize, P2: usize, P3: usize, P4: usize) -> !,
    /// [wdm: DbgPrintEx] Variadic in C; `Format` is "%s" and the first argument a NUL-terminated string.
    DbgPrintEx: unsafe extern "win64" fn(ComponentId: u32, Level: u32, Format: *const u8, Text: *const u8) -> u32,
}
