//! Engine and adapter reset.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::HANDLE;

/// Argument of `DxgkDdiQueryDependentEngineGroup`: which nodes a reset would hit too.
/// [d3dkmddi: DXGKARG_QUERYDEPENDENTENGINEGROUP]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_QUERYDEPENDENTENGINEGROUP {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    /// Out: a bit each, the node itself included.
    pub DependentNodeOrdinalMask: u64,
}

/// Whether an engine makes progress. [d3dkmddi: DXGK_ENGINESTATUS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ENGINESTATUS {
    pub Responsive: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiQueryEngineStatus`. [d3dkmddi: DXGKARG_QUERYENGINESTATUS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_QUERYENGINESTATUS {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub EngineStatus: DXGK_ENGINESTATUS,
}

/// Argument of `DxgkDdiResetEngine`, for packet scheduling. [d3dkmddi: DXGKARG_RESETENGINE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_RESETENGINE {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    /// Out: the last buffer that was thrown away.
    pub LastAbortedFenceId: u32,
}

/// Argument of `DxgkDdiResetHwEngine`: until it is resumed the engine raises no interrupt.
/// [d3dkmddi: DXGKARG_RESETHWENGINE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_RESETHWENGINE {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// Argument of `DxgkDdiResumeHwEngine`. [d3dkmddi: DXGKARG_RESUMEHWENGINE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_RESUMEHWENGINE {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// More facts for a debug report. [d3dkmddi: DXGKARG_COLLECTDBGINFO_EXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_COLLECTDBGINFO_EXT {
    pub BucketingKey: u32,
    pub CurrentDmaBufferOffset: u32,
    pub Reserved2: u32,
    pub Reserved3: u32,
    pub Reserved4: u32,
    pub Reserved5: u32,
    pub Reserved6: u32,
    pub Reserved7: u32,
}

/// Argument of `DxgkDdiCollectDbgInfo`: the driver writes what helps to explain a time-out.
/// [d3dkmddi: DXGKARG_COLLECTDBGINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_COLLECTDBGINFO {
    /// Bug-check or live-dump code.
    pub Reason: u32,
    pub pBuffer: *mut c_void,
    pub BufferSize: usize,
    pub pExtension: *mut DXGKARG_COLLECTDBGINFO_EXT,
}

/// Kind of a time-out. [d3dkmddi: DXGK_TDR_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_TDR_TYPE(pub i32);

impl DXGK_TDR_TYPE {
    pub const DXGK_TDR_TYPE_UNKNOWN: Self = Self(0);
    pub const DXGK_TDR_TYPE_FORCED: Self = Self(1);
    pub const DXGK_TDR_TYPE_PREEMPT_TIMEOUT: Self = Self(2);
    pub const DXGK_TDR_TYPE_VSYNC_TIMEOUT: Self = Self(3);
    pub const DXGK_TDR_TYPE_DOD_PRESENT_FORCED: Self = Self(4);
    pub const DXGK_TDR_TYPE_DOD_PRESENT_TIMEOUT: Self = Self(5);
    pub const DXGK_TDR_TYPE_ENGINE_TIMEOUT: Self = Self(6);
    pub const DXGK_TDR_TYPE_DOD_VSYNC_FORCED: Self = Self(7);
    pub const DXGK_TDR_TYPE_DOD_VSYNC_TIMEOUT: Self = Self(8);
    pub const DXGK_TDR_TYPE_ENGINE_TIMEOUT_PROMOTED: Self = Self(9);
    pub const DXGK_TDR_TYPE_PAGE_FAULT: Self = Self(10);
    pub const DXGK_TDR_TYPE_INVALID_FENCE: Self = Self(11);
    pub const DXGK_TDR_TYPE_ENGINE_PAGE_FAULT: Self = Self(12);
    pub const DXGK_TDR_TYPE_DISPLAY_ENGINE_FAULT: Self = Self(13);
}

/// What is known of an engine that is to be reset. [d3dkmddi: DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub LastHwCompletedFenceId: u64,
    pub LastHwSubmittedFenceId: u64,
    pub NumberOfPendingSuspendRequests: u32,
    pub NumberOfReadyInteractiveHwQueues: u32,
    /// Out: the context that the driver takes for the cause, NULL for none.
    pub hContext: HANDLE,
}

/// Argument of `DxgkDdiCollectDbgInfo2`, which begins as that of `DxgkDdiCollectDbgInfo`. [d3dkmddi: DXGKARG_COLLECTDBGINFO2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_COLLECTDBGINFO2 {
    /// Bug-check or live-dump code.
    pub Reason: u32,
    pub pBuffer: *mut c_void,
    pub BufferSize: usize,
    pub pExtension: *mut DXGKARG_COLLECTDBGINFO_EXT,
    pub TdrType: DXGK_TDR_TYPE,
    pub TdrPayloadSize: u32,
    /// Chosen by the type; may be NULL.
    pub TdrPayload: *mut c_void,
}

/// Who is to blame. [d3dkmddi: DXGK_INVALIDATEHWCONTEXTFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_INVALIDATEHWCONTEXTFLAGS {
    /// The context was lost only because its engine was reset.
    pub CollateralDamage: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Argument of `DxgkCbInvalidateHwContext`. [d3dkmddi: DXGKARGCB_INVALIDATEHWCONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_INVALIDATEHWCONTEXT {
    pub hAdapter: HANDLE,
    /// The operating system's handle.
    pub hHwContext: HANDLE,
    pub Flags: DXGK_INVALIDATEHWCONTEXTFLAGS,
}

zeroed! {
    DXGKARG_QUERYDEPENDENTENGINEGROUP,
    DXGK_ENGINESTATUS,
    DXGKARG_QUERYENGINESTATUS,
    DXGKARG_RESETENGINE,
    DXGKARG_RESETHWENGINE,
    DXGKARG_RESUMEHWENGINE,
    DXGKARG_COLLECTDBGINFO_EXT,
    DXGKARG_COLLECTDBGINFO,
    DXGK_TDR_TYPE,
    DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT,
    DXGKARG_COLLECTDBGINFO2,
    DXGK_INVALIDATEHWCONTEXTFLAGS,
    DXGKARGCB_INVALIDATEHWCONTEXT,
}
