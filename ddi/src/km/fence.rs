//! Native GPU fences and their log buffers.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::km::D3DDDI_NATIVEFENCE_TYPE;
use crate::types::{D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE, HANDLE};

/// No flags are defined: reserved, zero. [d3dkmddi: DXGKARG_CREATENATIVEFENCE_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_CREATENATIVEFENCE_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiCreateNativeFence`: a fence of the adapter; its values get addresses when it is opened.
/// [d3dkmddi: DXGKARG_CREATENATIVEFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATENATIVEFENCE {
    /// In: the operating system's handle, which interrupts name; out: the driver's.
    pub hGlobalNativeFence: HANDLE,
    pub Type: D3DDDI_NATIVEFENCE_TYPE,
    /// Address in the paging process, only with `MapToGpuSystemProcess`.
    pub CurrentValueSystemProcessGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    /// Address in the paging process, only with `MapToGpuSystemProcess`.
    pub MonitoredValueSystemProcessGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    /// Data of the user-mode driver, written back.
    pub pPrivateDriverData: [u8; 64],
    pub Flags: DXGKARG_CREATENATIVEFENCE_FLAGS,
    pub Reserved: [u8; 32],
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGK_OPENNATIVEFENCE_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_OPENNATIVEFENCE_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiOpenNativeFence`: a fence in one process, the creator's included.
/// [d3dkmddi: DXGKARG_OPENNATIVEFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_OPENNATIVEFENCE {
    /// The driver's handle from creation.
    pub hGlobalNativeFence: HANDLE,
    /// In: the operating system's handle; out: the driver's.
    pub hLocalNativeFence: HANDLE,
    /// The driver's device.
    pub hDevice: HANDLE,
    /// Address of the current value in this process, 8-aligned.
    pub CurrentValueGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    /// Address of the monitored value in this process, 8-aligned.
    pub MonitoredValueGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub Flags: DXGK_OPENNATIVEFENCE_FLAGS,
    pub pPrivateDriverData: [u8; 64],
    pub Reserved: [u8; 32],
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGK_CLOSENATIVEFENCE_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CLOSENATIVEFENCE_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiCloseNativeFence`: the process lets go. Must succeed, after a reset too.
/// [d3dkmddi: DXGKARG_CLOSENATIVEFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CLOSENATIVEFENCE {
    /// The driver's handle from opening.
    pub hLocalNativeFence: HANDLE,
    pub Flags: DXGK_CLOSENATIVEFENCE_FLAGS,
    pub Reserved: [u8; 32],
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGK_DESTROYNATIVEFENCE_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_DESTROYNATIVEFENCE_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiDestroyNativeFence`: the storage is freed next; no interrupt may name the fence any more.
/// [d3dkmddi: DXGKARG_DESTROYNATIVEFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_DESTROYNATIVEFENCE {
    /// The driver's handle from creation.
    pub hGlobalNativeFence: HANDLE,
    pub Flags: DXGK_DESTROYNATIVEFENCE_FLAGS,
    pub Reserved: [u8; 32],
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGKARG_UPDATEMONITOREDVALUES_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_UPDATEMONITOREDVALUES_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiUpdateMonitoredValues`: arrays of `NumFences` elements.
/// [d3dkmddi: DXGKARG_UPDATEMONITOREDVALUES]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_UPDATEMONITOREDVALUES {
    /// The driver's handles.
    pub NativeFenceArray: *mut HANDLE,
    /// New monitored values.
    pub UpdatedValueArray: *mut u64,
    /// Where to write them; valid during the call only.
    pub MonitoredValueKernelCpuVa: *mut *mut c_void,
    pub NumFences: u32,
    pub Flags: DXGKARG_UPDATEMONITOREDVALUES_FLAGS,
    pub Reserved: [u8; 28],
}

/// Variants of `DxgkDdiUpdateCurrentValuesFromCpu`. [d3dkmddi: DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS {
    /// The fence counts as reached from now on; its storage must not be touched any more.
    pub AlwaysSignaled: bool,
    /// The values are written already: waiting queues only need to be looked at.
    pub NotificationOnly: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiUpdateCurrentValuesFromCpu`: arrays of `NumFences` elements.
/// [d3dkmddi: DXGKARG_UPDATECURRENTVALUESFROMCPU]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_UPDATECURRENTVALUESFROMCPU {
    /// The driver's handles.
    pub NativeFenceArray: *mut HANDLE,
    /// New current values.
    pub UpdatedValueArray: *mut u64,
    /// Where to write them; valid during the call only.
    pub CurrentValueKernelCpuVa: *mut *mut c_void,
    pub NumFences: u32,
    pub Flags: DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS,
    pub Reserved: [u8; 28],
}

/// What a log buffer records. [d3dukmdt: DXGK_NATIVE_FENCE_LOG_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_NATIVE_FENCE_LOG_TYPE(pub i32);

impl DXGK_NATIVE_FENCE_LOG_TYPE {
    pub const DXGK_NATIVE_FENCE_LOG_TYPE_WAITS: Self = Self(1);
    pub const DXGK_NATIVE_FENCE_LOG_TYPE_SIGNALS: Self = Self(2);
}

/// The write position as two numbers. Arm of [`DXGK_NATIVE_FENCE_LOG_HEADER`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_NATIVE_FENCE_LOG_HEADER_FirstFreeEntryIndexGroup {
    /// Next entry to be written.
    pub FirstFreeEntryIndex: u32,
    /// Number of times that the index wrapped to zero.
    pub WraparoundCount: u32,
}

/// Union of [`DXGK_NATIVE_FENCE_LOG_HEADER`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_NATIVE_FENCE_LOG_HEADER_Union {
    pub FirstFreeEntryIndexGroup: DXGK_NATIVE_FENCE_LOG_HEADER_FirstFreeEntryIndexGroup,
    /// Both as one word, the index in the low half.
    pub AtomicWraparoundAndEntryIndex: u64,
}

/// Start of a log buffer; the position is advanced by the GPU in one 64-bit write.
/// [d3dukmdt: DXGK_NATIVE_FENCE_LOG_HEADER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_NATIVE_FENCE_LOG_HEADER {
    pub u: DXGK_NATIVE_FENCE_LOG_HEADER_Union,
    /// Waits or signals.
    pub Type: DXGK_NATIVE_FENCE_LOG_TYPE,
    /// Entries that fit; writing wraps around after the last.
    pub NumberOfEntries: u64,
    pub Reserved: [u64; 2],
}

/// One wait or signal. [d3dukmdt: DXGK_NATIVE_FENCE_LOG_ENTRY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_NATIVE_FENCE_LOG_ENTRY {
    pub FenceValue: u64,
    /// Handle that user mode knows the fence by.
    pub hNativeFence: D3DKMT_HANDLE,
    /// A [`DXGK_NATIVE_FENCE_LOG_OPERATION`].
    pub OperationType: u32,
    pub Reserved0: u64,
    /// When a wait began to stall, in ticks of the GPU clock.
    pub FenceObservedGpuTimestamp: u64,
    pub Reserved1: u64,
    /// When the operation was done, in ticks of the GPU clock.
    pub FenceEndGpuTimestamp: u64,
}

/// A log buffer: the header, then as many entries as the header says. [d3dukmdt: DXGK_NATIVE_FENCE_LOG_BUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_NATIVE_FENCE_LOG_BUFFER {
    pub Header: DXGK_NATIVE_FENCE_LOG_HEADER,
    pub Entries: [DXGK_NATIVE_FENCE_LOG_ENTRY; 1],
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGKARG_SETNATIVEFENCELOGBUFFER_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_SETNATIVEFENCELOGBUFFER_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiSetNativeFenceLogBuffer`: gives a queue one of its two logs, also while it runs.
/// [d3dkmddi: DXGKARG_SETNATIVEFENCELOGBUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETNATIVEFENCELOGBUFFER {
    pub hHwQueue: HANDLE,
    /// Entries that fit.
    pub NumberOfEntries: u32,
    /// Kernel address.
    pub LogBufferCpuVa: *mut DXGK_NATIVE_FENCE_LOG_BUFFER,
    /// Address in the queue's process.
    pub LogBufferGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    /// Address in the paging process.
    pub LogBufferSystemProcessGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub Flags: DXGKARG_SETNATIVEFENCELOGBUFFER_FLAGS,
    pub Reserved: [u8; 32],
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGKARG_UPDATENATIVEFENCELOGS_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_UPDATENATIVEFENCELOGS_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiUpdateNativeFenceLogs`: on return the CPU sees everything these queues have logged.
/// [d3dkmddi: DXGKARG_UPDATENATIVEFENCELOGS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_UPDATENATIVEFENCELOGS {
    pub NumberOfQueues: u32,
    /// Array of the driver's queue handles.
    pub hHWQueue: *mut HANDLE,
    pub Flags: DXGKARG_UPDATENATIVEFENCELOGS_FLAGS,
    pub Reserved: [u8; 32],
}

/// What a log entry tells. [d3dukmdt: DXGK_NATIVE_FENCE_LOG_OPERATION]
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
