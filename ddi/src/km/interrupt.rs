//! Types of `DxgkCbNotifyInterrupt`, by which the driver reports what its device has done.

use bitfield_struct::bitfield;

use crate::types::{D3DGPU_VIRTUAL_ADDRESS, HANDLE, NTSTATUS};

/// What an interrupt reports; chooses the arm of [`DXGKARGCB_NOTIFY_INTERRUPT_DATA`]. [d3dkmddi: DXGK_INTERRUPT_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_INTERRUPT_TYPE(pub i32);

impl DXGK_INTERRUPT_TYPE {
    /// A buffer of packet scheduling is done.
    pub const DXGK_INTERRUPT_DMA_COMPLETED: Self = Self(1);
    /// A preemption request is answered.
    pub const DXGK_INTERRUPT_DMA_PREEMPTED: Self = Self(2);
    pub const DXGK_INTERRUPT_CRTC_VSYNC: Self = Self(3);
    /// A buffer of packet scheduling failed.
    pub const DXGK_INTERRUPT_DMA_FAULTED: Self = Self(4);
    pub const DXGK_INTERRUPT_DISPLAYONLY_VSYNC: Self = Self(5);
    pub const DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS: Self = Self(6);
    pub const DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY: Self = Self(7);
    pub const DXGK_INTERRUPT_MICACAST_CHUNK_PROCESSING_COMPLETE: Self = Self(8);
    pub const DXGK_INTERRUPT_DMA_PAGE_FAULTED: Self = Self(9);
    pub const DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2: Self = Self(10);
    /// A monitored fence was signalled; the operating system looks which.
    pub const DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED: Self = Self(11);
    /// A hardware queue failed.
    pub const DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED: Self = Self(12);
    pub const DXGK_INTERRUPT_HWCONTEXTLIST_SWITCH_COMPLETED: Self = Self(13);
    pub const DXGK_INTERRUPT_PERIODIC_MONITORED_FENCE_SIGNALED: Self = Self(14);
    pub const DXGK_INTERRUPT_SCHEDULING_LOG_INTERRUPT: Self = Self(15);
    pub const DXGK_INTERRUPT_GPU_ENGINE_TIMEOUT: Self = Self(16);
    /// A hardware context is suspended.
    pub const DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED: Self = Self(17);
    pub const DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY3: Self = Self(18);
    /// Native fences passed their monitored values.
    pub const DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED: Self = Self(19);
    /// The driver reports the state of an engine.
    pub const DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE: Self = Self(20);
}

/// Graphics stage in which a page fault happened; unknown for compute. [d3dkmdt: DXGK_RENDER_PIPELINE_STAGE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_RENDER_PIPELINE_STAGE(pub i32);

impl DXGK_RENDER_PIPELINE_STAGE {
    pub const DXGK_RENDER_PIPELINE_STAGE_UNKNOWN: Self = Self(0);
    pub const DXGK_RENDER_PIPELINE_STAGE_INPUT_ASSEMBLER: Self = Self(1);
    pub const DXGK_RENDER_PIPELINE_STAGE_VERTEX_SHADER: Self = Self(2);
    pub const DXGK_RENDER_PIPELINE_STAGE_GEOMETRY_SHADER: Self = Self(3);
    pub const DXGK_RENDER_PIPELINE_STAGE_STREAM_OUTPUT: Self = Self(4);
    pub const DXGK_RENDER_PIPELINE_STAGE_RASTERIZER: Self = Self(5);
    pub const DXGK_RENDER_PIPELINE_STAGE_PIXEL_SHADER: Self = Self(6);
    pub const DXGK_RENDER_PIPELINE_STAGE_OUTPUT_MERGER: Self = Self(7);
}

/// What is known about a page fault, as bits that may be combined. [d3dkmdt: DXGK_PAGE_FAULT_FLAGS]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_PAGE_FAULT_FLAGS(pub i32);

impl DXGK_PAGE_FAULT_FLAGS {
    /// The access was a write.
    pub const DXGK_PAGE_FAULT_WRITE: Self = Self(1);
    /// The fence at fault is not known.
    pub const DXGK_PAGE_FAULT_FENCE_INVALID: Self = Self(2);
    /// Only a reset of the adapter helps.
    pub const DXGK_PAGE_FAULT_ADAPTER_RESET_REQUIRED: Self = Self(4);
    /// Only a reset of the engine helps.
    pub const DXGK_PAGE_FAULT_ENGINE_RESET_REQUIRED: Self = Self(8);
    pub const DXGK_PAGE_FAULT_FATAL_HARDWARE_ERROR: Self = Self(16);
    pub const DXGK_PAGE_FAULT_IOMMU: Self = Self(32);
    pub const DXGK_PAGE_FAULT_HW_CONTEXT_VALID: Self = Self(64);
    pub const DXGK_PAGE_FAULT_PROCESS_HANDLE_VALID: Self = Self(128);
}

/// Reason of a fault: a general code, or one of the device when the first bit is set. [d3dkmdt: DXGK_FAULT_ERROR_CODE]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_FAULT_ERROR_CODE {
    /// The other bits are the device's own.
    pub IsDeviceSpecificCode: bool,
    #[bits(31)]
    pub GeneralErrorCode: u32,
}

/// State of an engine that the driver reports on its own. [d3dkmddi: DXGK_ENGINE_STATE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_ENGINE_STATE(pub i32);

impl DXGK_ENGINE_STATE {
    pub const DXGK_ENGINE_STATE_ACTIVE: Self = Self(0);
    /// The engine is idle: doorbells are disconnected, then it may leave F0.
    pub const DXGK_ENGINE_STATE_TRANSITION_TO_F1: Self = Self(1);
    /// The engine does not react: time-out recovery begins.
    pub const DXGK_ENGINE_STATE_HUNG: Self = Self(2);
}

/// What else an interrupt says. [d3dkmddi: DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS {
    pub ValidPhysicalAdapterMask: bool,
    pub HsyncFlipCompletion: bool,
    /// Monitored fences may have been signalled besides the native ones.
    pub EvaluateLegacyMonitoredFences: bool,
    #[bits(29)]
    __Reserved: u32,
}

/// A buffer of packet scheduling is done, and every one before it on the node.
/// [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::DmaCompleted]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaCompleted {
    /// Its fence, which never decreases on a node.
    pub SubmissionFenceId: u32,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// A preemption request is answered. [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::DmaPreempted]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaPreempted {
    /// The request.
    pub PreemptionFenceId: u32,
    /// Last buffer of the node that was completed.
    pub LastCompletedFenceId: u32,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// A buffer of packet scheduling failed. [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::DmaFaulted]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaFaulted {
    pub FaultedFenceId: u32,
    /// Error of the buffer.
    pub Status: NTSTATUS,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// A buffer of packet scheduling touched an address that does not translate.
/// [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::DmaPageFaulted]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaPageFaulted {
    pub FaultedFenceId: u32,
    pub FaultedPrimitiveAPISequenceNumber: u64,
    pub FaultedPipelineStage: DXGK_RENDER_PIPELINE_STAGE,
    pub FaultedBindTableEntry: u32,
    pub PageFaultFlags: DXGK_PAGE_FAULT_FLAGS,
    pub FaultedVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    /// Level whose entry was not valid, 0 for the leaf.
    pub PageTableLevel: u32,
    pub FaultErrorCode: DXGK_FAULT_ERROR_CODE,
    /// The process, when the flags say it is known.
    pub FaultedProcessHandle: HANDLE,
}

/// Some monitored fence of the engine was signalled.
/// [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::MonitoredFenceSignaled]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_MonitoredFenceSignaled {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// A switch to another list of hardware contexts is done.
/// [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::HwContextListSwitchCompleted]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwContextListSwitchCompleted {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    /// The request that is answered.
    pub ContextSwitchFence: u64,
}

/// Union of [`DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwQueuePageFaulted`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwQueuePageFaulted_Union {
    /// The operating system's queue handle, unless the flags say that only less is known.
    pub FaultedHwQueue: HANDLE,
    /// The operating system's context handle, with `DXGK_PAGE_FAULT_HW_CONTEXT_VALID`.
    pub FaultedHwContext: HANDLE,
    /// The operating system's process handle, with `DXGK_PAGE_FAULT_PROCESS_HANDLE_VALID`.
    pub FaultedProcessHandle: HANDLE,
}

/// A hardware queue failed. [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::HwQueuePageFaulted]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwQueuePageFaulted {
    /// Progress value of the buffer at fault, when known.
    pub FaultedFenceId: u64,
    pub FaultedVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub FaultedPrimitiveAPISequenceNumber: u64,
    pub u: DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwQueuePageFaulted_Union,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub FaultedPipelineStage: DXGK_RENDER_PIPELINE_STAGE,
    pub FaultedBindTableEntry: u32,
    pub PageFaultFlags: DXGK_PAGE_FAULT_FLAGS,
    pub PageTableLevel: u32,
    pub FaultErrorCode: DXGK_FAULT_ERROR_CODE,
}

/// The scheduling log reached the entry that was asked for.
/// [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::SchedulingLogInterrupt]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_SchedulingLogInterrupt {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// The GPU itself found an engine that does not react. [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::GpuEngineTimeout]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_GpuEngineTimeout {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// A hardware context is suspended. [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::SuspendContextCompleted]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_SuspendContextCompleted {
    /// The operating system's context handle.
    pub hContext: HANDLE,
    /// The request that is answered; requests are answered in order.
    pub ContextSuspendFence: u64,
}

/// Native fences passed their monitored values. [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::NativeFenceSignaled]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_NativeFenceSignaled {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    /// Elements of the array, 0 with a NULL array when the driver cannot tell which fences.
    pub SignaledNativeFenceCount: u32,
    /// The operating system's handles; read during the call only.
    pub pSignaledNativeFenceArray: *mut HANDLE,
    /// With the cap OptimizedNativeFenceSignaledInterrupt, instead of fences: the driver's handle of the queue that was running, NULL when
    /// it does not know.
    pub hHWQueue: HANDLE,
}

/// An engine wants to leave F0, or is hung. [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::EngineStateChange]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_EngineStateChange {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub NewState: DXGK_ENGINE_STATE,
}

/// Gives the union its size. [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA::Reserved]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA_Reserved {
    pub Reserved: [u32; 16],
}

/// Union of [`DXGKARGCB_NOTIFY_INTERRUPT_DATA`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union DXGKARGCB_NOTIFY_INTERRUPT_DATA_Union {
    pub DmaCompleted: DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaCompleted,
    pub DmaPreempted: DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaPreempted,
    pub DmaFaulted: DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaFaulted,
    pub DmaPageFaulted: DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaPageFaulted,
    pub MonitoredFenceSignaled: DXGKARGCB_NOTIFY_INTERRUPT_DATA_MonitoredFenceSignaled,
    pub HwContextListSwitchCompleted: DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwContextListSwitchCompleted,
    pub HwQueuePageFaulted: DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwQueuePageFaulted,
    pub SchedulingLogInterrupt: DXGKARGCB_NOTIFY_INTERRUPT_DATA_SchedulingLogInterrupt,
    pub GpuEngineTimeout: DXGKARGCB_NOTIFY_INTERRUPT_DATA_GpuEngineTimeout,
    pub SuspendContextCompleted: DXGKARGCB_NOTIFY_INTERRUPT_DATA_SuspendContextCompleted,
    pub NativeFenceSignaled: DXGKARGCB_NOTIFY_INTERRUPT_DATA_NativeFenceSignaled,
    pub EngineStateChange: DXGKARGCB_NOTIFY_INTERRUPT_DATA_EngineStateChange,
    pub Reserved: DXGKARGCB_NOTIFY_INTERRUPT_DATA_Reserved,
}

/// Argument of `DxgkCbNotifyInterrupt`. Filled by the driver at device interrupt level.
/// [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARGCB_NOTIFY_INTERRUPT_DATA {
    pub InterruptType: DXGK_INTERRUPT_TYPE,
    pub u: DXGKARGCB_NOTIFY_INTERRUPT_DATA_Union,
    pub Flags: DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS,
}

zeroed! {
    DXGK_INTERRUPT_TYPE,
    DXGK_RENDER_PIPELINE_STAGE,
    DXGK_PAGE_FAULT_FLAGS,
    DXGK_FAULT_ERROR_CODE,
    DXGK_ENGINE_STATE,
    DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaCompleted,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaPreempted,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaFaulted,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_DmaPageFaulted,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_MonitoredFenceSignaled,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwContextListSwitchCompleted,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwQueuePageFaulted_Union,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_HwQueuePageFaulted,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_SchedulingLogInterrupt,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_GpuEngineTimeout,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_SuspendContextCompleted,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_NativeFenceSignaled,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_EngineStateChange,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_Reserved,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA_Union,
    DXGKARGCB_NOTIFY_INTERRUPT_DATA,
}
