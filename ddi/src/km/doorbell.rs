//! Doorbells of user-mode work submission.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::HANDLE;

/// Variants of `DxgkDdiCreateDoorbell`. [d3dkmddi: DXGKARG_CREATEDOORBELL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_CREATEDOORBELL_FLAGS {
    /// Replaces the ring of a queue that has a doorbell already.
    pub ResizeRingBufferOperation: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiCreateDoorbell`: software state of a doorbell, no page is taken yet.
/// [d3dkmddi: DXGKARG_CREATEDOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEDOORBELL {
    /// The driver's queue handle.
    pub hHwQueue: HANDLE,
    /// In: the operating system's handle; out: the driver's.
    pub hDoorbell: HANDLE,
    pub PrivateDriverDataSize: u32,
    /// Data of the user-mode driver, at most `D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1` bytes; written back.
    pub PrivateDriverData: *mut c_void,
    /// The driver's handle of the ring's allocation, resident as long as the doorbell lives.
    pub hRingBuffer: HANDLE,
    /// The same for the allocation with the ring's pointers.
    pub hRingBufferControl: HANDLE,
    pub Flags: DXGKARG_CREATEDOORBELL_FLAGS,
}

/// Variants of `DxgkDdiConnectDoorbell`. [d3dkmddi: DXGKARG_CONNECTDOORBELL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_CONNECTDOORBELL_FLAGS {
    /// The queue uses the secondary doorbell as well.
    pub RequireSecondaryAddress: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// State of a doorbell as its process reads it after ringing. [d3dukmdt: D3DDDI_DOORBELLSTATUS]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_DOORBELLSTATUS(pub i32);

impl D3DDDI_DOORBELLSTATUS {
    /// The store reached the hardware.
    pub const D3DDDI_DOORBELLSTATUS_CONNECTED: Self = Self(0);
    /// It did, and the driver wants `NotifyWorkSubmission` too.
    pub const D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD: Self = Self(1);
    /// It may be lost: connect, then ring again.
    pub const D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY: Self = Self(2);
    /// The device is lost.
    pub const D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT: Self = Self(3);
}

/// Argument of `DxgkDdiConnectDoorbell`: the driver picks a page. May fail only when the GPU is lost.
/// [d3dkmddi: DXGKARG_CONNECTDOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CONNECTDOORBELL {
    /// The driver's handle.
    pub hDoorbell: HANDLE,
    pub Flags: DXGKARG_CONNECTDOORBELL_FLAGS,
    /// Out: kernel address of the page, which the operating system maps into the process.
    pub KernelCpuVirtualAddress: *mut c_void,
    /// Out: the same for the secondary doorbell.
    pub SecondaryKernelCpuVirtualAddress: *mut c_void,
    /// Out: connected, with or without notification.
    pub Status: D3DDDI_DOORBELLSTATUS,
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGKARG_DISCONNECTDOORBELL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_DISCONNECTDOORBELL_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiDisconnectDoorbell`: the page is free afterwards. Must succeed.
/// [d3dkmddi: DXGKARG_DISCONNECTDOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_DISCONNECTDOORBELL {
    pub hDoorbell: HANDLE,
    pub Flags: DXGKARG_DISCONNECTDOORBELL_FLAGS,
}

/// Argument of `DxgkDdiDestroyDoorbell`. Must succeed. [d3dkmddi: DXGKARG_DESTROYDOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_DESTROYDOORBELL {
    pub hDoorbell: HANDLE,
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGKARG_NOTIFYWORKSUBMISSION_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_NOTIFYWORKSUBMISSION_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiNotifyWorkSubmission`: the GPU must look at the queue. [d3dkmddi: DXGKARG_NOTIFYWORKSUBMISSION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_NOTIFYWORKSUBMISSION {
    /// The driver's queue handle.
    pub hHwQueue: HANDLE,
    pub Flags: DXGKARG_NOTIFYWORKSUBMISSION_FLAGS,
}

/// No flags are defined: reserved, zero. [d3dkmddi: DXGKARGCB_DISCONNECTDOORBELL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARGCB_DISCONNECTDOORBELL_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `DxgkCbDisconnectDoorbell`: the driver takes a doorbell away. The page may be reused when the call
/// returns. [d3dkmddi: DXGKARGCB_DISCONNECTDOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_DISCONNECTDOORBELL {
    /// The operating system's queue handle.
    pub hHwQueue: HANDLE,
    /// The operating system's doorbell handle.
    pub hDoorbell: HANDLE,
    pub Flags: DXGKARGCB_DISCONNECTDOORBELL_FLAGS,
    /// Status that the process reads at the doorbell afterwards: retry or abort.
    pub DisconnectReason: D3DDDI_DOORBELLSTATUS,
}

zeroed! {
    DXGKARG_CREATEDOORBELL_FLAGS,
    DXGKARG_CREATEDOORBELL,
    DXGKARG_CONNECTDOORBELL_FLAGS,
    D3DDDI_DOORBELLSTATUS,
    DXGKARG_CONNECTDOORBELL,
    DXGKARG_DISCONNECTDOORBELL_FLAGS,
    DXGKARG_DISCONNECTDOORBELL,
    DXGKARG_DESTROYDOORBELL,
    DXGKARG_NOTIFYWORKSUBMISSION_FLAGS,
    DXGKARG_NOTIFYWORKSUBMISSION,
    DXGKARGCB_DISCONNECTDOORBELL_FLAGS,
    DXGKARGCB_DISCONNECTDOORBELL,
}
