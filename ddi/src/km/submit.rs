//! Packet scheduling: submission, preemption, cancellation.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::km::DXGK_SUBMITCOMMANDFLAGS;
use crate::types::{D3DDDI_VIDEO_PRESENT_SOURCE_ID, D3DGPU_VIRTUAL_ADDRESS, HANDLE, PHYSICAL_ADDRESS};

/// Display refreshes between flips; no meaning for compute. [d3dukmdt: D3DDDI_FLIPINTERVAL_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_FLIPINTERVAL_TYPE(pub i32);

impl D3DDDI_FLIPINTERVAL_TYPE {
    pub const D3DDDI_FLIPINTERVAL_IMMEDIATE: Self = Self(0);
    pub const D3DDDI_FLIPINTERVAL_ONE: Self = Self(1);
    pub const D3DDDI_FLIPINTERVAL_TWO: Self = Self(2);
    pub const D3DDDI_FLIPINTERVAL_THREE: Self = Self(3);
    pub const D3DDDI_FLIPINTERVAL_FOUR: Self = Self(4);
    pub const D3DDDI_FLIPINTERVAL_IMMEDIATE_ALLOW_TEARING: Self = Self(5);
}

/// Union of [`DXGKARG_SUBMITCOMMAND`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARG_SUBMITCOMMAND_Union {
    pub hDevice: HANDLE,
    pub hContext: HANDLE,
}

/// Argument of `DxgkDdiSubmitCommand`: one buffer of packet scheduling at physical addresses. An error is a bug check.
/// [d3dkmddi: DXGKARG_SUBMITCOMMAND]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SUBMITCOMMAND {
    pub u: DXGKARG_SUBMITCOMMAND_Union,
    pub DmaBufferSegmentId: u32,
    pub DmaBufferPhysicalAddress: PHYSICAL_ADDRESS,
    pub DmaBufferSize: u32,
    /// First byte to run.
    pub DmaBufferSubmissionStartOffset: u32,
    /// Behind the last byte to run.
    pub DmaBufferSubmissionEndOffset: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub DmaBufferPrivateDataSubmissionStartOffset: u32,
    pub DmaBufferPrivateDataSubmissionEndOffset: u32,
    pub SubmissionFenceId: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub FlipInterval: D3DDDI_FLIPINTERVAL_TYPE,
    pub Flags: DXGK_SUBMITCOMMANDFLAGS,
    pub EngineOrdinal: u32,
    pub DmaBufferVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub NodeOrdinal: u32,
}

/// Argument of `DxgkDdiSubmitCommandVirtual`: one buffer of packet scheduling at virtual addresses.
/// [d3dkmddi: DXGKARG_SUBMITCOMMANDVIRTUAL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SUBMITCOMMANDVIRTUAL {
    /// The driver's handle, NULL for a node's own work.
    pub hContext: HANDLE,
    pub DmaBufferVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaBufferSize: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    /// Bytes of driver data in all.
    pub DmaBufferPrivateDataSize: u32,
    /// Bytes of the private data that came from user mode.
    pub DmaBufferUmdPrivateDataSize: u32,
    /// Reported back when the buffer is done; never decreases on a node.
    pub SubmissionFenceId: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub FlipInterval: D3DDDI_FLIPINTERVAL_TYPE,
    pub Flags: DXGK_SUBMITCOMMANDFLAGS,
    pub EngineOrdinal: u32,
    pub NodeOrdinal: u32,
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGK_PREEMPTCOMMANDFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_PREEMPTCOMMANDFLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiPreemptCommand`: the node stops; an error is a bug check. [d3dkmddi: DXGKARG_PREEMPTCOMMAND]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_PREEMPTCOMMAND {
    pub PreemptionFenceId: u32,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub Flags: DXGK_PREEMPTCOMMANDFLAGS,
}

/// For which kernel-built buffer a signal is wanted. [d3dkmddi: DXGK_KERNEL_SUBMISSION_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_KERNEL_SUBMISSION_TYPE(pub i32);

impl DXGK_KERNEL_SUBMISSION_TYPE {
    pub const DXGK_KERNEL_SUBMISSION_BUILD_PAGING_BUFFER: Self = Self(0);
    pub const DXGK_KERNEL_SUBMISSION_RENDERGDI: Self = Self(1);
    pub const DXGK_KERNEL_SUBMISSION_PRESENTBLT: Self = Self(2);
}

/// Argument of `DxgkDdiSignalMonitoredFence`: appends "write this value here" to a kernel-built buffer.
/// [d3dkmddi: DXGKARG_SIGNALMONITOREDFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SIGNALMONITOREDFENCE {
    pub KernelSubmissionType: DXGK_KERNEL_SUBMISSION_TYPE,
    /// In: where commands may be written; out: behind the last one.
    pub pDmaBuffer: *mut c_void,
    pub DmaBufferGpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaSize: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub MultipassOffset: u32,
    /// GPU virtual address to which the GPU writes the value.
    pub MonitoredFenceGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub MonitoredFenceValue: u64,
    /// The same place for the CPU, for nodes without 64-bit writes.
    pub MonitoredFenceCpuVa: *mut c_void,
    /// The driver's queue handle, NULL on a context of packet scheduling.
    pub hHwQueue: HANDLE,
}

/// How a listed allocation is used. Bits of [`DXGK_ALLOCATIONLIST`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ALLOCATIONLIST_Bits {
    pub WriteOperation: bool,
    #[bits(5)]
    pub SegmentId: u8,
    #[bits(26)]
    __Reserved: u32,
}

/// Union of [`DXGK_ALLOCATIONLIST`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_ALLOCATIONLIST_Union1 {
    pub PhysicalAddress: PHYSICAL_ADDRESS,
    pub VirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// An allocation that a buffer of WDDM 1 refers to. [d3dkmddi: DXGK_ALLOCATIONLIST]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ALLOCATIONLIST {
    pub hDeviceSpecificAllocation: HANDLE,
    pub Bits: DXGK_ALLOCATIONLIST_Bits,
    pub u1: DXGK_ALLOCATIONLIST_Union1,
}

/// Slot of a patch location. Bits of [`D3DDDI_PATCHLOCATIONLIST`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_PATCHLOCATIONLIST_Bits {
    #[bits(24)]
    pub SlotId: u32,
    #[bits(8)]
    __Reserved: u8,
}

/// A place in a buffer of WDDM 1 that needs an address. [d3dukmdt: D3DDDI_PATCHLOCATIONLIST]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_PATCHLOCATIONLIST {
    pub AllocationIndex: u32,
    pub Bits: D3DDDI_PATCHLOCATIONLIST_Bits,
    pub DriverId: u32,
    pub AllocationOffset: u32,
    pub PatchOffset: u32,
    pub SplitOffset: u32,
}

/// Argument of `DxgkDdiCancelCommand`: a buffer that will never run. [d3dkmddi: DXGKARG_CANCELCOMMAND]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CANCELCOMMAND {
    pub hContext: HANDLE,
    pub pDmaBuffer: *mut c_void,
    pub DmaBufferSize: u32,
    pub DmaBufferSubmissionStartOffset: u32,
    pub DmaBufferSubmissionEndOffset: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub DmaBufferPrivateDataSubmissionStartOffset: u32,
    pub DmaBufferPrivateDataSubmissionEndOffset: u32,
    pub pAllocationList: *mut DXGK_ALLOCATIONLIST,
    pub AllocationListSize: u32,
    pub pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
    pub PatchLocationListSize: u32,
    pub PatchLocationListSubmissionStart: u32,
    pub PatchLocationListSubmissionLength: u32,
    pub DmaBufferVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaBufferUmdPrivateDataSize: u32,
}

zeroed! {
    D3DDDI_FLIPINTERVAL_TYPE,
    DXGKARG_SUBMITCOMMAND_Union,
    DXGKARG_SUBMITCOMMAND,
    DXGKARG_SUBMITCOMMANDVIRTUAL,
    DXGK_PREEMPTCOMMANDFLAGS,
    DXGKARG_PREEMPTCOMMAND,
    DXGK_KERNEL_SUBMISSION_TYPE,
    DXGKARG_SIGNALMONITOREDFENCE,
    DXGK_ALLOCATIONLIST_Bits,
    DXGK_ALLOCATIONLIST_Union1,
    DXGK_ALLOCATIONLIST,
    D3DDDI_PATCHLOCATIONLIST_Bits,
    D3DDDI_PATCHLOCATIONLIST,
    DXGKARG_CANCELCOMMAND,
}
