//! Native GPU fences and their log buffers.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::*;
#[allow(unused_imports)] // the modules share one flat namespace, as the headers do
use crate::{km::*, kmt::*};

/// [d3dkmddi: DXGKARG_CREATENATIVEFENCE_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_CREATENATIVEFENCE_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_CREATENATIVEFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATENATIVEFENCE {
    pub hGlobalNativeFence: HANDLE,
    pub Type: D3DDDI_NATIVEFENCE_TYPE,
    pub CurrentValueSystemProcessGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub MonitoredValueSystemProcessGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub pPrivateDriverData: [u8; 64],
    pub Flags: DXGKARG_CREATENATIVEFENCE_FLAGS,
    pub Reserved: [u8; 32],
}

/// [d3dkmddi: DXGK_OPENNATIVEFENCE_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_OPENNATIVEFENCE_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_OPENNATIVEFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_OPENNATIVEFENCE {
    pub hGlobalNativeFence: HANDLE,
    pub hLocalNativeFence: HANDLE,
    pub hDevice: HANDLE,
    pub CurrentValueGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub MonitoredValueGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub Flags: DXGK_OPENNATIVEFENCE_FLAGS,
    pub pPrivateDriverData: [u8; 64],
    pub Reserved: [u8; 32],
}

/// [d3dkmddi: DXGK_CLOSENATIVEFENCE_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CLOSENATIVEFENCE_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_CLOSENATIVEFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CLOSENATIVEFENCE {
    pub hLocalNativeFence: HANDLE,
    pub Flags: DXGK_CLOSENATIVEFENCE_FLAGS,
    pub Reserved: [u8; 32],
}

/// [d3dkmddi: DXGK_DESTROYNATIVEFENCE_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DESTROYNATIVEFENCE_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_DESTROYNATIVEFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_DESTROYNATIVEFENCE {
    pub hGlobalNativeFence: HANDLE,
    pub Flags: DXGK_DESTROYNATIVEFENCE_FLAGS,
    pub Reserved: [u8; 32],
}

/// [d3dkmddi: DXGKARG_UPDATEMONITOREDVALUES_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_UPDATEMONITOREDVALUES_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_UPDATEMONITOREDVALUES]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_UPDATEMONITOREDVALUES {
    pub NativeFenceArray: *mut HANDLE,
    pub UpdatedValueArray: *mut u64,
    pub MonitoredValueKernelCpuVa: *mut *mut c_void,
    pub NumFences: u32,
    pub Flags: DXGKARG_UPDATEMONITOREDVALUES_FLAGS,
    pub Reserved: [u8; 28],
}

/// [d3dkmddi: DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS {
    pub AlwaysSignaled: bool,
    pub NotificationOnly: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_UPDATECURRENTVALUESFROMCPU]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_UPDATECURRENTVALUESFROMCPU {
    pub NativeFenceArray: *mut HANDLE,
    pub UpdatedValueArray: *mut u64,
    pub CurrentValueKernelCpuVa: *mut *mut c_void,
    pub NumFences: u32,
    pub Flags: DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS,
    pub Reserved: [u8; 28],
}

/// [d3dukmdt: DXGK_NATIVE_FENCE_LOG_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_NATIVE_FENCE_LOG_TYPE(pub i32);

impl DXGK_NATIVE_FENCE_LOG_TYPE {
    pub const DXGK_NATIVE_FENCE_LOG_TYPE_WAITS: Self = Self(1);
    pub const DXGK_NATIVE_FENCE_LOG_TYPE_SIGNALS: Self = Self(2);
}

/// Arm of [`DXGK_NATIVE_FENCE_LOG_HEADER`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_NATIVE_FENCE_LOG_HEADER_FirstFreeEntryIndexGroup {
    pub FirstFreeEntryIndex: u32,
    pub WraparoundCount: u32,
}

/// Union of [`DXGK_NATIVE_FENCE_LOG_HEADER`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_NATIVE_FENCE_LOG_HEADER_Union {
    pub FirstFreeEntryIndexGroup: DXGK_NATIVE_FENCE_LOG_HEADER_FirstFreeEntryIndexGroup,
    pub AtomicWraparoundAndEntryIndex: u64,
}

/// [d3dukmdt: DXGK_NATIVE_FENCE_LOG_HEADER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_NATIVE_FENCE_LOG_HEADER {
    pub u: DXGK_NATIVE_FENCE_LOG_HEADER_Union,
    pub Type: DXGK_NATIVE_FENCE_LOG_TYPE,
    pub NumberOfEntries: u64,
    pub Reserved: [u64; 2],
}

/// [d3dukmdt: DXGK_NATIVE_FENCE_LOG_ENTRY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_NATIVE_FENCE_LOG_ENTRY {
    pub FenceValue: u64,
    pub hNativeFence: D3DKMT_HANDLE,
    pub OperationType: u32,
    pub Reserved0: u64,
    pub FenceObservedGpuTimestamp: u64,
    pub Reserved1: u64,
    pub FenceEndGpuTimestamp: u64,
}

/// [d3dukmdt: DXGK_NATIVE_FENCE_LOG_BUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_NATIVE_FENCE_LOG_BUFFER {
    pub Header: DXGK_NATIVE_FENCE_LOG_HEADER,
    pub Entries: [DXGK_NATIVE_FENCE_LOG_ENTRY; 1],
}

/// [d3dkmddi: DXGKARG_SETNATIVEFENCELOGBUFFER_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_SETNATIVEFENCELOGBUFFER_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_SETNATIVEFENCELOGBUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETNATIVEFENCELOGBUFFER {
    pub hHwQueue: HANDLE,
    pub NumberOfEntries: u32,
    pub LogBufferCpuVa: *mut DXGK_NATIVE_FENCE_LOG_BUFFER,
    pub LogBufferGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub LogBufferSystemProcessGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub Flags: DXGKARG_SETNATIVEFENCELOGBUFFER_FLAGS,
    pub Reserved: [u8; 32],
}

/// [d3dkmddi: DXGKARG_UPDATENATIVEFENCELOGS_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_UPDATENATIVEFENCELOGS_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_UPDATENATIVEFENCELOGS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_UPDATENATIVEFENCELOGS {
    pub NumberOfQueues: u32,
    pub hHWQueue: *mut HANDLE,
    pub Flags: DXGKARG_UPDATENATIVEFENCELOGS_FLAGS,
    pub Reserved: [u8; 32],
}

/// [d3dukmdt: DXGK_NATIVE_FENCE_LOG_OPERATION]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_NATIVE_FENCE_LOG_OPERATION(pub i32);

impl DXGK_NATIVE_FENCE_LOG_OPERATION {
    pub const DXGK_NATIVE_FENCE_LOG_OPERATION_SIGNAL_EXECUTED: Self = Self(0);
    pub const DXGK_NATIVE_FENCE_LOG_OPERATION_WAIT_UNBLOCKED: Self = Self(1);
}

zeroed! {
    DXGKARG_CREATENATIVEFENCE_FLAGS,
    DXGKARG_CREATENATIVEFENCE,
    DXGK_OPENNATIVEFENCE_FLAGS,
    DXGKARG_OPENNATIVEFENCE,
    DXGK_CLOSENATIVEFENCE_FLAGS,
    DXGKARG_CLOSENATIVEFENCE,
    DXGK_DESTROYNATIVEFENCE_FLAGS,
    DXGKARG_DESTROYNATIVEFENCE,
    DXGKARG_UPDATEMONITOREDVALUES_FLAGS,
    DXGKARG_UPDATEMONITOREDVALUES,
    DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS,
    DXGKARG_UPDATECURRENTVALUESFROMCPU,
    DXGK_NATIVE_FENCE_LOG_TYPE,
    DXGK_NATIVE_FENCE_LOG_HEADER_FirstFreeEntryIndexGroup,
    DXGK_NATIVE_FENCE_LOG_HEADER_Union,
    DXGK_NATIVE_FENCE_LOG_HEADER,
    DXGK_NATIVE_FENCE_LOG_ENTRY,
    DXGK_NATIVE_FENCE_LOG_BUFFER,
    DXGKARG_SETNATIVEFENCELOGBUFFER_FLAGS,
    DXGKARG_SETNATIVEFENCELOGBUFFER,
    DXGKARG_UPDATENATIVEFENCELOGS_FLAGS,
    DXGKARG_UPDATENATIVEFENCELOGS,
    DXGK_NATIVE_FENCE_LOG_OPERATION,
}
