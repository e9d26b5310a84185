//! Kernel-mode testing: command buffers that a driver builds for tests that know nothing of its packets.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::status::NTSTATUS;
use crate::types::{D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE, HANDLE};

/// Most bytes of a test command buffer. [d3dukmdt: D3DDDI_MAXTESTBUFFERSIZE]
pub const D3DDDI_MAXTESTBUFFERSIZE: u32 = 4096;
/// Most bytes of private data beside one. [d3dukmdt: D3DDDI_MAXTESTBUFFERPRIVATEDRIVERDATASIZE]
pub const D3DDDI_MAXTESTBUFFERPRIVATEDRIVERDATASIZE: u32 = 1024;

/// What a test command buffer does. [d3dukmdt: D3DDDI_TESTCOMMANDBUFFEROP]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_TESTCOMMANDBUFFEROP(pub i32);

impl D3DDDI_TESTCOMMANDBUFFEROP {
    pub const D3DDDI_TESTCOMMANDBUFFEROP_INVALID: Self = Self(0);
    pub const D3DDDI_TESTCOMMANDBUFFEROP_COPY: Self = Self(1);
    pub const D3DDDI_TESTCOMMANDBUFFEROP_FILL: Self = Self(2);
    pub const D3DDDI_TESTCOMMANDBUFFEROP_INFINITE_LOOP: Self = Self(3);
    pub const D3DDDI_TESTCOMMANDBUFFEROP_INFINITE_PREEMPTABLE_LOOP: Self = Self(4);
    pub const D3DDDI_TESTCOMMANDBUFFEROP_MAX: Self = Self(5);
}

/// A copy between GPU virtual addresses of the context's process. [d3dukmdt: D3DDDI_TESTCOMMANDBUFFER_COPY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_TESTCOMMANDBUFFER_COPY {
    pub SrcAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DstAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// A multiple of 4.
    pub NumBytes: u32,
}

/// A fill with a word. [d3dukmdt: D3DDDI_TESTCOMMANDBUFFER_FILL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_TESTCOMMANDBUFFER_FILL {
    pub DstAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// A multiple of 4.
    pub NumBytes: u32,
    pub Pattern: u32,
}

/// Union of [`D3DDDI_TESTCOMMANDBUFFER`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DDDI_TESTCOMMANDBUFFER_Union {
    pub Copy: D3DDDI_TESTCOMMANDBUFFER_COPY,
    pub Fill: D3DDDI_TESTCOMMANDBUFFER_FILL,
    pub Reserved: [i8; 64],
}

/// A command, by its operation. [d3dukmdt: D3DDDI_TESTCOMMANDBUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_TESTCOMMANDBUFFER {
    pub u: D3DDDI_TESTCOMMANDBUFFER_Union,
    pub Operation: D3DDDI_TESTCOMMANDBUFFEROP,
    pub Reserved1: u32,
}

/// What the handle beside them is. [d3dukmdt: D3DDDI_BUILDTESTCOMMANDBUFFERFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_BUILDTESTCOMMANDBUFFERFLAGS {
    /// A hardware queue, else a context.
    pub HardwareQueue: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Argument of `BuildTestCommandBuffer`. STATUS_BUFFER_OVERFLOW with both sizes where one of the buffers is NULL or too small.
/// [d3dkmddi: DXGKARG_BUILDTESTCOMMANDBUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_BUILDTESTCOMMANDBUFFER {
    /// The driver's handle of a context or, by the flags, a hardware queue.
    pub hContext: HANDLE,
    pub Command: D3DDDI_TESTCOMMANDBUFFER,
    pub pDmaBuffer: *mut c_void,
    pub pDmaBufferPrivateData: *mut c_void,
    /// In: bytes at `pDmaBuffer`; out: bytes written or needed.
    pub DmaBufferSize: u32,
    /// In: bytes at `pDmaBufferPrivateData`; out: bytes written or needed.
    pub DmaBufferPrivateDataSize: u32,
    pub Flags: D3DDDI_BUILDTESTCOMMANDBUFFERFLAGS,
}

/// Writes the device's instructions for a test command; PASSIVE_LEVEL. [d3dkmddi: DXGKDDI_BUILDTESTCOMMANDBUFFER]
pub type PDXGKDDI_BUILDTESTCOMMANDBUFFER =
    unsafe extern "win64" fn(hAdapter: HANDLE, pArgs: *mut DXGKARG_BUILDTESTCOMMANDBUFFER) -> NTSTATUS;

/// The driver's table of DXGK_FEATURE_KERNEL_MODE_TESTING, version 1. [d3dkmddi: DXGKDDI_KERNELMODETESTINGINTERFACE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKDDI_KERNELMODETESTINGINTERFACE {
    pub pfnBuildTestCommandBuffer: Option<PDXGKDDI_BUILDTESTCOMMANDBUFFER>,
}

/// Escapes that the operating system answers with the driver's help. [d3dukmdt: D3DDDI_DRIVERESCAPETYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_DRIVERESCAPETYPE(pub i32);

impl D3DDDI_DRIVERESCAPETYPE {
    pub const D3DDDI_DRIVERESCAPETYPE_TRANSLATEALLOCATIONHANDLE: Self = Self(0);
    pub const D3DDDI_DRIVERESCAPETYPE_TRANSLATERESOURCEHANDLE: Self = Self(1);
    pub const D3DDDI_DRIVERESCAPETYPE_CPUEVENTUSAGE: Self = Self(2);
    pub const D3DDDI_DRIVERESCAPETYPE_BUILDTESTCOMMANDBUFFER: Self = Self(3);
    pub const D3DDDI_DRIVERESCAPETYPE_MAX: Self = Self(4);
}

/// Private data of an escape with `DriverKnownEscape` that has a test command buffer built.
/// [d3dukmdt: D3DDDI_DRIVERESCAPE_BUILDTESTCOMMANDBUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_DRIVERESCAPE_BUILDTESTCOMMANDBUFFER {
    pub EscapeType: D3DDDI_DRIVERESCAPETYPE,
    pub hDevice: D3DKMT_HANDLE,
    /// A context or, by the flags, a hardware queue; one that was created for tests.
    pub hContext: D3DKMT_HANDLE,
    pub Flags: D3DDDI_BUILDTESTCOMMANDBUFFERFLAGS,
    pub Command: D3DDDI_TESTCOMMANDBUFFER,
    pub pDmaBuffer: *mut c_void,
    pub pDmaBufferPrivateData: *mut c_void,
    /// In: bytes at `pDmaBuffer`, at most [`D3DDDI_MAXTESTBUFFERSIZE`]; out: bytes written or needed.
    pub DmaBufferSize: u32,
    /// In: bytes at `pDmaBufferPrivateData`, at most [`D3DDDI_MAXTESTBUFFERPRIVATEDRIVERDATASIZE`]; out: bytes written or needed.
    pub DmaBufferPrivateDataSize: u32,
}

zeroed! {
    D3DDDI_TESTCOMMANDBUFFEROP,
    D3DDDI_TESTCOMMANDBUFFER_COPY,
    D3DDDI_TESTCOMMANDBUFFER_FILL,
    D3DDDI_TESTCOMMANDBUFFER_Union,
    D3DDDI_TESTCOMMANDBUFFER,
    D3DDDI_BUILDTESTCOMMANDBUFFERFLAGS,
    DXGKARG_BUILDTESTCOMMANDBUFFER,
    DXGKDDI_KERNELMODETESTINGINTERFACE,
    D3DDDI_DRIVERESCAPETYPE,
    D3DDDI_DRIVERESCAPE_BUILDTESTCOMMANDBUFFER,
}
