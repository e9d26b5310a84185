//! Contexts, hardware contexts and queues, and submission of both models.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::*;
#[allow(unused_imports)] // the modules share one flat namespace, as the headers do
use crate::{km::*, kmt::*};

/// [d3dkmddi: DXGK_CREATECONTEXTFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CREATECONTEXTFLAGS {
    pub SystemContext: bool,
    pub GdiContext: bool,
    pub VirtualAddressing: bool,
    pub SystemProtectedContext: bool,
    pub HwQueueSupported: bool,
    pub TestContext: bool,
    #[bits(26)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_CONTEXTINFO_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CONTEXTINFO_CAPS {
    pub NoPatchingRequired: bool,
    pub DriverManagesResidency: bool,
    pub UseIoMmu: bool,
    #[bits(29)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_CONTEXTINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_CONTEXTINFO {
    pub DmaBufferSize: u32,
    pub DmaBufferSegmentSet: u32,
    pub DmaBufferPrivateDataSize: u32,
    pub AllocationListSize: u32,
    pub PatchLocationListSize: u32,
    pub Reserved: u32,
    pub Caps: DXGK_CONTEXTINFO_CAPS,
    pub PagingCompanionNodeId: u32,
}

/// [d3dkmddi: DXGKARG_CREATECONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATECONTEXT {
    pub hContext: HANDLE,
    pub NodeOrdinal: u32,
    pub EngineAffinity: u32,
    pub Flags: DXGK_CREATECONTEXTFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub ContextInfo: DXGK_CONTEXTINFO,
}

/// [d3dukmdt: D3DDDI_CREATEHWCONTEXTFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_CREATEHWCONTEXTFLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGK_HWCONTEXT_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_HWCONTEXT_CAPS {
    pub UseIoMmu: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_CREATEHWCONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEHWCONTEXT {
    pub hHwContext: HANDLE,
    pub NodeOrdinal: u32,
    pub EngineAffinity: u32,
    pub Flags: D3DDDI_CREATEHWCONTEXTFLAGS,
    pub PrivateDriverDataSize: u32,
    pub pPrivateDriverData: *mut c_void,
    pub ContextCaps: DXGK_HWCONTEXT_CAPS,
}

/// [d3dukmdt: D3DDDI_CREATEHWQUEUEFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_CREATEHWQUEUEFLAGS {
    pub DisableGpuTimeout: bool,
    pub NoBroadcastSignal: bool,
    pub NoBroadcastWait: bool,
    pub NoKmdAccess: bool,
    pub UserModeSubmission: bool,
    pub NativeProgressFence: bool,
    pub TestQueue: bool,
    #[bits(25)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_CREATEHWQUEUE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEHWQUEUE {
    pub hHwQueue: HANDLE,
    pub Flags: D3DDDI_CREATEHWQUEUEFLAGS,
    pub PrivateDriverDataSize: u32,
    pub pPrivateDriverData: *mut c_void,
    pub hHwQueueProgressFence: D3DKMT_HANDLE,
    pub HwQueueProgressFenceCPUVirtualAddress: *mut c_void,
    pub HwQueueProgressFenceGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// [d3dkmddi: DXGK_SUBMITCOMMANDFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_SUBMITCOMMANDFLAGS {
    pub Paging: bool,
    pub Present: bool,
    pub RedirectedPresent: bool,
    pub NullRendering: bool,
    pub Flip: bool,
    pub FlipWithNoWait: bool,
    pub ContextSwitch: bool,
    pub Resubmission: bool,
    pub VirtualMachineData: bool,
    #[bits(23)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_SUBMITCOMMANDTOHWQUEUE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SUBMITCOMMANDTOHWQUEUE {
    pub hHwQueue: HANDLE,
    pub HwQueueProgressFenceId: u64,
    pub DmaBufferVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaBufferSize: u32,
    pub DmaBufferPrivateDataSize: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub Flags: DXGK_SUBMITCOMMANDFLAGS,
    pub HwQueueProgressFenceGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub HwQueueProgressFenceCpuVa: *mut c_void,
}

/// [d3dkmddi: DXGKARG_SWITCHTOHWCONTEXTLIST]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SWITCHTOHWCONTEXTLIST {
    pub hHwContextFirst: HANDLE,
    pub hHwContextSecond: HANDLE,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// [d3dkmddi: DXGK_UPDATEHWCONTEXTSTATE_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_UPDATEHWCONTEXTSTATE_FLAGS {
    pub Suspended: bool,
    pub InterruptOnSwitchCompletion: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_UPDATEHWCONTEXTSTATE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_UPDATEHWCONTEXTSTATE {
    pub hHwContext: HANDLE,
    pub ContextSwitchFence: u64,
    pub Priority: u32,
    pub Flags: DXGK_UPDATEHWCONTEXTSTATE_FLAGS,
}

/// Arm of [`DXGK_SCHEDULING_LOG_HEADER`].
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

/// [d3dkmddi: DXGK_SCHEDULING_LOG_HEADER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_SCHEDULING_LOG_HEADER {
    pub u: DXGK_SCHEDULING_LOG_HEADER_Union,
    pub NumberOfEntries: u64,
    pub Reserved: [u64; 2],
}

/// [d3dkmddi: DXGK_SCHEDULING_LOG_CONTEXT_STATE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_SCHEDULING_LOG_CONTEXT_STATE(pub i32);

impl DXGK_SCHEDULING_LOG_CONTEXT_STATE {
    pub const DXGK_SCHEDULING_LOG_CONTEXT_STATE_IDLE: Self = Self(0);
    pub const DXGK_SCHEDULING_LOG_CONTEXT_STATE_RUNNING: Self = Self(1);
    pub const DXGK_SCHEDULING_LOG_CONTEXT_STATE_READY: Self = Self(2);
    pub const DXGK_SCHEDULING_LOG_CONTEXT_STATE_READY_STANDBY: Self = Self(3);
}

/// [d3dkmddi: DXGK_SCHEDULING_LOG_CONTEXT_STATE_CHANGE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_SCHEDULING_LOG_CONTEXT_STATE_CHANGE {
    pub hKmdContext: HANDLE,
    pub newContextState: DXGK_SCHEDULING_LOG_CONTEXT_STATE,
}

/// Bits of [`DXGK_SCHEDULING_LOG_ENTRY`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_SCHEDULING_LOG_ENTRY_Bits {
    #[bits(32)]
    pub OperationType: u32,
}

/// Bits of [`DXGK_SCHEDULING_LOG_ENTRY`].
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

/// [d3dkmddi: DXGK_SCHEDULING_LOG_ENTRY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_SCHEDULING_LOG_ENTRY {
    pub GpuTimeStamp: u64,
    pub Bits: DXGK_SCHEDULING_LOG_ENTRY_Bits,
    pub Bits1: DXGK_SCHEDULING_LOG_ENTRY_Bits1,
    pub u2: DXGK_SCHEDULING_LOG_ENTRY_Union2,
}

/// [d3dkmddi: DXGK_SCHEDULING_LOG_BUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_SCHEDULING_LOG_BUFFER {
    pub Header: DXGK_SCHEDULING_LOG_HEADER,
    pub Entries: [DXGK_SCHEDULING_LOG_ENTRY; 1],
}

/// [d3dkmddi: DXGKARG_SETSCHEDULINGLOGBUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETSCHEDULINGLOGBUFFER {
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub NumberOfEntries: u32,
    pub LogBufferCpuVa: *mut DXGK_SCHEDULING_LOG_BUFFER,
    pub LogBufferGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub InterruptEntry: u32,
}

/// [d3dkmddi: DXGKARG_SETUPPRIORITYBANDS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETUPPRIORITYBANDS {
    pub gracePeriodForBand: [u64; 4],
    pub processQuantumForBand: [u64; 4],
    pub processGracePeriodForBand: [u64; 4],
    pub targetNormalBandPercentage: u32,
}

/// [d3dkmddi: DXGK_SCHEDULING_PRIORITY_BAND]
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

/// [d3dkmddi: DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES {
    pub hContext: HANDLE,
    pub priorityBand: DXGK_SCHEDULING_PRIORITY_BAND,
    pub realtimeBandPriorityLevel: i32,
    pub inProcessPriority: i32,
    pub quantum: u64,
    pub gracePeriodSamePriority: u64,
    pub gracePeriodLowerPriority: u64,
}

/// [d3dkmddi: DXGKARG_SUSPENDCONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SUSPENDCONTEXT {
    pub hContext: HANDLE,
    pub contextSuspendFence: u64,
}

/// [d3dkmddi: DXGKARG_RESUMECONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_RESUMECONTEXT {
    pub hContext: HANDLE,
}

/// [d3dukmdt: D3DDDI_FLIPINTERVAL_TYPE]
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

/// [d3dkmddi: DXGKARG_SUBMITCOMMAND]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SUBMITCOMMAND {
    pub u: DXGKARG_SUBMITCOMMAND_Union,
    pub DmaBufferSegmentId: u32,
    pub DmaBufferPhysicalAddress: PHYSICAL_ADDRESS,
    pub DmaBufferSize: u32,
    pub DmaBufferSubmissionStartOffset: u32,
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

/// [d3dkmddi: DXGKARG_SUBMITCOMMANDVIRTUAL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SUBMITCOMMANDVIRTUAL {
    pub hContext: HANDLE,
    pub DmaBufferVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaBufferSize: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub DmaBufferUmdPrivateDataSize: u32,
    pub SubmissionFenceId: u32,
    pub VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    pub FlipInterval: D3DDDI_FLIPINTERVAL_TYPE,
    pub Flags: DXGK_SUBMITCOMMANDFLAGS,
    pub EngineOrdinal: u32,
    pub NodeOrdinal: u32,
}

/// [d3dkmddi: DXGK_PREEMPTCOMMANDFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_PREEMPTCOMMANDFLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// [d3dkmddi: DXGKARG_PREEMPTCOMMAND]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_PREEMPTCOMMAND {
    pub PreemptionFenceId: u32,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
    pub Flags: DXGK_PREEMPTCOMMANDFLAGS,
}

/// [d3dkmddi: DXGK_KERNEL_SUBMISSION_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DXGK_KERNEL_SUBMISSION_TYPE(pub i32);

impl DXGK_KERNEL_SUBMISSION_TYPE {
    pub const DXGK_KERNEL_SUBMISSION_BUILD_PAGING_BUFFER: Self = Self(0);
    pub const DXGK_KERNEL_SUBMISSION_RENDERGDI: Self = Self(1);
    pub const DXGK_KERNEL_SUBMISSION_PRESENTBLT: Self = Self(2);
}

/// [d3dkmddi: DXGKARG_SIGNALMONITOREDFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SIGNALMONITOREDFENCE {
    pub KernelSubmissionType: DXGK_KERNEL_SUBMISSION_TYPE,
    pub pDmaBuffer: *mut c_void,
    pub DmaBufferGpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaSize: u32,
    pub pDmaBufferPrivateData: *mut c_void,
    pub DmaBufferPrivateDataSize: u32,
    pub MultipassOffset: u32,
    pub MonitoredFenceGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub MonitoredFenceValue: u64,
    pub MonitoredFenceCpuVa: *mut c_void,
    pub hHwQueue: HANDLE,
}

/// Bits of [`DXGK_ALLOCATIONLIST`].
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

/// [d3dkmddi: DXGK_ALLOCATIONLIST]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_ALLOCATIONLIST {
    pub hDeviceSpecificAllocation: HANDLE,
    pub Bits: DXGK_ALLOCATIONLIST_Bits,
    pub u1: DXGK_ALLOCATIONLIST_Union1,
}

/// Bits of [`D3DDDI_PATCHLOCATIONLIST`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_PATCHLOCATIONLIST_Bits {
    #[bits(24)]
    pub SlotId: u32,
    #[bits(8)]
    __Reserved: u8,
}

/// [d3dukmdt: D3DDDI_PATCHLOCATIONLIST]
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

/// [d3dkmddi: DXGKARG_CANCELCOMMAND]
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
    DXGK_CREATECONTEXTFLAGS,
    DXGK_CONTEXTINFO_CAPS,
    DXGK_CONTEXTINFO,
    DXGKARG_CREATECONTEXT,
    D3DDDI_CREATEHWCONTEXTFLAGS,
    DXGK_HWCONTEXT_CAPS,
    DXGKARG_CREATEHWCONTEXT,
    D3DDDI_CREATEHWQUEUEFLAGS,
    DXGKARG_CREATEHWQUEUE,
    DXGK_SUBMITCOMMANDFLAGS,
    DXGKARG_SUBMITCOMMANDTOHWQUEUE,
    DXGKARG_SWITCHTOHWCONTEXTLIST,
    DXGK_UPDATEHWCONTEXTSTATE_FLAGS,
    DXGKARG_UPDATEHWCONTEXTSTATE,
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
