//! Hardware scheduling: its log, priority bands, suspension.

use bitfield_struct::bitfield;

use crate::types::{D3DGPU_VIRTUAL_ADDRESS, HANDLE};

/// The write position as two numbers. Arm of [`DXGK_SCHEDULING_LOG_HEADER`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_SCHEDULING_LOG_HEADER_FirstFreeEntryIndexGroup {
    pub FirstFreeEntryIndex: u32,
    pub WraparoundCount: u32,
}

/// Union of [`DXGK_SCHEDULING_LOG_HEADER`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_SCHEDULING_LOG_HEADER_Union {
    pub FirstFreeEntryIndexGroup: DXGK_SCHEDULING_LOG_HEADER_FirstFreeEntryIndexGroup,
    pub AtomicWraparoundAndEntryIndex: u64,
}

/// Start of a scheduling log; the position is advanced in one 64-bit write. [d3dkmddi: DXGK_SCHEDULING_LOG_HEADER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_SCHEDULING_LOG_HEADER {
    pub u: DXGK_SCHEDULING_LOG_HEADER_Union,
    pub NumberOfEntries: u64,
    pub Reserved: [u64; 2],
}

/// State of a hardware context in the scheduling log. [d3dkmddi: DXGK_SCHEDULING_LOG_CONTEXT_STATE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_SCHEDULING_LOG_CONTEXT_STATE(pub i32);

impl DXGK_SCHEDULING_LOG_CONTEXT_STATE {
    pub const DXGK_SCHEDULING_LOG_CONTEXT_STATE_IDLE: Self = Self(0);
    pub const DXGK_SCHEDULING_LOG_CONTEXT_STATE_RUNNING: Self = Self(1);
    pub const DXGK_SCHEDULING_LOG_CONTEXT_STATE_READY: Self = Self(2);
    pub const DXGK_SCHEDULING_LOG_CONTEXT_STATE_READY_STANDBY: Self = Self(3);
}

/// A hardware context changed its state. [d3dkmddi: DXGK_SCHEDULING_LOG_CONTEXT_STATE_CHANGE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_SCHEDULING_LOG_CONTEXT_STATE_CHANGE {
    pub hKmdContext: HANDLE,
    pub newContextState: DXGK_SCHEDULING_LOG_CONTEXT_STATE,
}

/// Kind of a log entry. Bits of [`DXGK_SCHEDULING_LOG_ENTRY`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_SCHEDULING_LOG_ENTRY_Bits {
    #[bits(32)]
    pub OperationType: u32,
}

/// Reserved word of a log entry. Bits of [`DXGK_SCHEDULING_LOG_ENTRY`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_SCHEDULING_LOG_ENTRY_Bits1 {
    #[bits(32)]
    __ReservedOperationTypeBits: u32,
}

/// Union of [`DXGK_SCHEDULING_LOG_ENTRY`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGK_SCHEDULING_LOG_ENTRY_Union2 {
    pub ContextStateChange: DXGK_SCHEDULING_LOG_CONTEXT_STATE_CHANGE,
    pub ReservedOperationData: [u64; 2],
}

/// One decision of the hardware scheduler. [d3dkmddi: DXGK_SCHEDULING_LOG_ENTRY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_SCHEDULING_LOG_ENTRY {
    /// In ticks of the GPU clock.
    pub GpuTimeStamp: u64,
    pub Bits: DXGK_SCHEDULING_LOG_ENTRY_Bits,
    pub Bits1: DXGK_SCHEDULING_LOG_ENTRY_Bits1,
    pub u2: DXGK_SCHEDULING_LOG_ENTRY_Union2,
}

/// A scheduling log: the header, then as many entries as the header says. [d3dkmddi: DXGK_SCHEDULING_LOG_BUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_SCHEDULING_LOG_BUFFER {
    pub Header: DXGK_SCHEDULING_LOG_HEADER,
    pub Entries: [DXGK_SCHEDULING_LOG_ENTRY; 1],
}

/// Argument of `DxgkDdiSetSchedulingLogBuffer`: the log of an engine changes during the call.
/// [d3dkmddi: DXGKARG_SETSCHEDULINGLOGBUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETSCHEDULINGLOGBUFFER {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub NumberOfEntries: u32,
    pub LogBufferCpuVa: *mut DXGK_SCHEDULING_LOG_BUFFER,
    pub LogBufferGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    /// Entry whose writing raises an interrupt.
    pub InterruptEntry: u32,
}

/// Argument of `DxgkDdiSetupPriorityBands`: times in units of 100 ns, one for each band.
/// [d3dkmddi: DXGKARG_SETUPPRIORITYBANDS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETUPPRIORITYBANDS {
    pub gracePeriodForBand: [u64; 4],
    pub processQuantumForBand: [u64; 4],
    pub processGracePeriodForBand: [u64; 4],
    /// Share of the normal band while higher ones are busy, 0 to 50.
    pub targetNormalBandPercentage: u32,
}

/// Class of work; a higher band goes first. [d3dkmddi: DXGK_SCHEDULING_PRIORITY_BAND]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_SCHEDULING_PRIORITY_BAND(pub i32);

impl DXGK_SCHEDULING_PRIORITY_BAND {
    pub const DXGK_SCHEDULING_PRIORITY_BAND_IDLE: Self = Self(0);
    pub const DXGK_SCHEDULING_PRIORITY_BAND_NORMAL: Self = Self(1);
    pub const DXGK_SCHEDULING_PRIORITY_BAND_FOCUS: Self = Self(2);
    pub const DXGK_SCHEDULING_PRIORITY_BAND_REALTIME: Self = Self(3);
    pub const DXGK_SCHEDULING_PRIORITY_BAND_COUNT: Self = Self(4);
}

/// Argument of `DxgkDdiSetContextSchedulingProperties`: times in units of 100 ns.
/// [d3dkmddi: DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES {
    pub hContext: HANDLE,
    pub priorityBand: DXGK_SCHEDULING_PRIORITY_BAND,
    /// 0 to 31, in the realtime band.
    pub realtimeBandPriorityLevel: i32,
    /// -7 to 7, among contexts of one process.
    pub inProcessPriority: i32,
    pub quantum: u64,
    /// Time to finish before work of the same priority takes over.
    pub gracePeriodSamePriority: u64,
    /// Time to finish before work of higher priority takes over.
    pub gracePeriodLowerPriority: u64,
}

/// Argument of `DxgkDdiSuspendContext`: STATUS_PENDING means that an interrupt follows with the same fence.
/// [d3dkmddi: DXGKARG_SUSPENDCONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SUSPENDCONTEXT {
    pub hContext: HANDLE,
    /// Grows with each request of the context.
    pub contextSuspendFence: u64,
}

/// Argument of `DxgkDdiResumeContext`. [d3dkmddi: DXGKARG_RESUMECONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_RESUMECONTEXT {
    pub hContext: HANDLE,
}

zeroed! {
    DXGK_SCHEDULING_LOG_HEADER_FirstFreeEntryIndexGroup,
    DXGK_SCHEDULING_LOG_HEADER_Union,
    DXGK_SCHEDULING_LOG_HEADER,
    DXGK_SCHEDULING_LOG_CONTEXT_STATE,
    DXGK_SCHEDULING_LOG_CONTEXT_STATE_CHANGE,
    DXGK_SCHEDULING_LOG_ENTRY_Bits,
    DXGK_SCHEDULING_LOG_ENTRY_Bits1,
    DXGK_SCHEDULING_LOG_ENTRY_Union2,
    DXGK_SCHEDULING_LOG_ENTRY,
    DXGK_SCHEDULING_LOG_BUFFER,
    DXGKARG_SETSCHEDULINGLOGBUFFER,
    DXGKARG_SETUPPRIORITYBANDS,
    DXGK_SCHEDULING_PRIORITY_BAND,
    DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES,
    DXGKARG_SUSPENDCONTEXT,
    DXGKARG_RESUMECONTEXT,
}
