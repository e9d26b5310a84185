//! Engine and adapter reset.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::*;
#[allow(unused_imports)] // the modules share one flat namespace, as the headers do
use crate::{km::*, kmt::*};

/// [d3dkmddi: DXGKARG_QUERYDEPENDENTENGINEGROUP]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_QUERYDEPENDENTENGINEGROUP {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub DependentNodeOrdinalMask: u64,
}

/// [d3dkmddi: DXGK_ENGINESTATUS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_ENGINESTATUS {
    pub Responsive: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_QUERYENGINESTATUS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_QUERYENGINESTATUS {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub EngineStatus: DXGK_ENGINESTATUS,
}

/// [d3dkmddi: DXGKARG_RESETENGINE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_RESETENGINE {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub LastAbortedFenceId: u32,
}

/// [d3dkmddi: DXGKARG_RESETHWENGINE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_RESETHWENGINE {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// [d3dkmddi: DXGKARG_RESUMEHWENGINE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_RESUMEHWENGINE {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// [d3dkmddi: DXGKARG_COLLECTDBGINFO_EXT]
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

/// [d3dkmddi: DXGKARG_COLLECTDBGINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_COLLECTDBGINFO {
    pub Reason: u32,
    pub pBuffer: *mut c_void,
    pub BufferSize: usize,
    pub pExtension: *mut DXGKARG_COLLECTDBGINFO_EXT,
}

/// [d3dkmddi: DXGK_INVALIDATEHWCONTEXTFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_INVALIDATEHWCONTEXTFLAGS {
    pub CollateralDamage: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARGCB_INVALIDATEHWCONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_INVALIDATEHWCONTEXT {
    pub hAdapter: HANDLE,
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
    DXGK_INVALIDATEHWCONTEXTFLAGS,
    DXGKARGCB_INVALIDATEHWCONTEXT,
}
