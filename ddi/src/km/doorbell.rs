//! Doorbells of user-mode work submission.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::*;
#[allow(unused_imports)] // the modules share one flat namespace, as the headers do
use crate::{km::*, kmt::*};

/// [d3dkmddi: DXGKARG_CREATEDOORBELL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_CREATEDOORBELL_FLAGS {
    pub ResizeRingBufferOperation: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_CREATEDOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEDOORBELL {
    pub hHwQueue: HANDLE,
    pub hDoorbell: HANDLE,
    pub PrivateDriverDataSize: u32,
    pub PrivateDriverData: *mut c_void,
    pub hRingBuffer: HANDLE,
    pub hRingBufferControl: HANDLE,
    pub Flags: DXGKARG_CREATEDOORBELL_FLAGS,
}

/// [d3dkmddi: DXGKARG_CONNECTDOORBELL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_CONNECTDOORBELL_FLAGS {
    pub RequireSecondaryAddress: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dukmdt: D3DDDI_DOORBELLSTATUS]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_DOORBELLSTATUS(pub i32);

impl D3DDDI_DOORBELLSTATUS {
    pub const D3DDDI_DOORBELLSTATUS_CONNECTED: Self = Self(0);
    pub const D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD: Self = Self(1);
    pub const D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY: Self = Self(2);
    pub const D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT: Self = Self(3);
}

/// [d3dkmddi: DXGKARG_CONNECTDOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CONNECTDOORBELL {
    pub hDoorbell: HANDLE,
    pub Flags: DXGKARG_CONNECTDOORBELL_FLAGS,
    pub KernelCpuVirtualAddress: *mut c_void,
    pub SecondaryKernelCpuVirtualAddress: *mut c_void,
    pub Status: D3DDDI_DOORBELLSTATUS,
}

/// [d3dkmddi: DXGKARG_DISCONNECTDOORBELL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_DISCONNECTDOORBELL_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_DISCONNECTDOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_DISCONNECTDOORBELL {
    pub hDoorbell: HANDLE,
    pub Flags: DXGKARG_DISCONNECTDOORBELL_FLAGS,
}

/// [d3dkmddi: DXGKARG_DESTROYDOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_DESTROYDOORBELL {
    pub hDoorbell: HANDLE,
}

/// [d3dkmddi: DXGKARG_NOTIFYWORKSUBMISSION_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARG_NOTIFYWORKSUBMISSION_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_NOTIFYWORKSUBMISSION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_NOTIFYWORKSUBMISSION {
    pub hHwQueue: HANDLE,
    pub Flags: DXGKARG_NOTIFYWORKSUBMISSION_FLAGS,
}

/// [d3dkmddi: DXGKARGCB_DISCONNECTDOORBELL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKARGCB_DISCONNECTDOORBELL_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARGCB_DISCONNECTDOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_DISCONNECTDOORBELL {
    pub hHwQueue: HANDLE,
    pub hDoorbell: HANDLE,
    pub Flags: DXGKARGCB_DISCONNECTDOORBELL_FLAGS,
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
