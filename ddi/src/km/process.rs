//! Processes and devices.

use bitfield_struct::bitfield;

use crate::types::HANDLE;

/// Kind of a process. [d3dkmddi: DXGK_CREATEPROCESSFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CREATEPROCESSFLAGS {
    /// The process that paging runs in.
    pub SystemProcess: bool,
    pub GdiProcess: bool,
    pub VirtualMachineProcess: bool,
    pub VirtualMachineWorkerProcess: bool,
    pub SessionIsolatedContainer: bool,
    #[bits(27)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiCreateProcess`. [d3dkmddi: DXGKARG_CREATEPROCESS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEPROCESS {
    /// The operating system's handle.
    pub hDxgkProcess: HANDLE,
    /// Out: the driver's handle.
    pub hKmdProcess: HANDLE,
    pub Flags: DXGK_CREATEPROCESSFLAGS,
    pub NumPasid: u32,
    /// Address-space identifiers, one for each physical adapter; only with IOMMU addressing.
    pub pPasid: *mut u32,
    pub hKmdVmWorkerProcess: HANDLE,
    /// Bytes of the name.
    pub ProcessNameLength: u32,
    /// UTF-16 name for logs; valid during the call only.
    pub pProcessName: *mut u16,
}

/// Kind of a device. [d3dkmddi: DXGK_CREATEDEVICEFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CREATEDEVICEFLAGS {
    /// A device of the operating system itself.
    pub SystemDevice: bool,
    pub GdiDevice: bool,
    #[bits(29)]
    __Reserved: u32,
    #[bits(1)]
    __Reserved0: u8,
}

/// Properties of buffers of drivers without contexts. [d3dkmddi: DXGK_DEVICEINFOFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DEVICEINFOFLAGS {
    pub GuaranteedDmaBufferContract: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Sizes of buffers of drivers without contexts. [d3dkmddi: DXGK_DEVICEINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_DEVICEINFO {
    pub DmaBufferSize: u32,
    pub DmaBufferSegmentSet: u32,
    pub DmaBufferPrivateDataSize: u32,
    pub AllocationListSize: u32,
    pub PatchLocationListSize: u32,
    pub Flags: DXGK_DEVICEINFOFLAGS,
}

/// Union of [`DXGKARG_CREATEDEVICE`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARG_CREATEDEVICE_Union {
    pub Flags: DXGK_CREATEDEVICEFLAGS,
    pub pInfo: *mut DXGK_DEVICEINFO,
}

/// Argument of `DxgkDdiCreateDevice`. [d3dkmddi: DXGKARG_CREATEDEVICE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEDEVICE {
    /// In: the operating system's handle; out: the driver's.
    pub hDevice: HANDLE,
    pub u: DXGKARG_CREATEDEVICE_Union,
    /// Address-space identifier; only with IOMMU addressing.
    pub Pasid: u32,
    /// The driver's handle of the owning process.
    pub hKmdProcess: HANDLE,
}

zeroed! {
    DXGK_CREATEPROCESSFLAGS,
    DXGKARG_CREATEPROCESS,
    DXGK_CREATEDEVICEFLAGS,
    DXGK_DEVICEINFOFLAGS,
    DXGK_DEVICEINFO,
    DXGKARG_CREATEDEVICE_Union,
    DXGKARG_CREATEDEVICE,
}
