//! Contexts, hardware contexts and hardware queues.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::types::{D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE, HANDLE};

/// Kind of a context. [d3dkmddi: DXGK_CREATECONTEXTFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CREATECONTEXTFLAGS {
    /// For work of the operating system.
    pub SystemContext: bool,
    pub GdiContext: bool,
    /// Commands use GPU virtual addresses.
    pub VirtualAddressing: bool,
    pub SystemProtectedContext: bool,
    /// The node schedules in hardware.
    pub HwQueueSupported: bool,
    /// For the kernel-mode test interface; there is no private data.
    pub TestContext: bool,
    #[bits(26)]
    __Reserved: u32,
}

/// How the driver wants to work with a context. [d3dkmddi: DXGK_CONTEXTINFO_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_CONTEXTINFO_CAPS {
    /// No addresses to patch; must be set for virtual addressing.
    pub NoPatchingRequired: bool,
    pub DriverManagesResidency: bool,
    pub UseIoMmu: bool,
    #[bits(29)]
    __Reserved: u32,
}

/// What the driver wants for a context. Filled by the driver. [d3dkmddi: DXGK_CONTEXTINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGK_CONTEXTINFO {
    /// Bytes of a kernel-built command buffer.
    pub DmaBufferSize: u32,
    /// Aperture segments for them, 0 for system memory.
    pub DmaBufferSegmentSet: u32,
    pub DmaBufferPrivateDataSize: u32,
    pub AllocationListSize: u32,
    pub PatchLocationListSize: u32,
    pub Reserved: u32,
    pub Caps: DXGK_CONTEXTINFO_CAPS,
    /// Node for paging on behalf of the context.
    pub PagingCompanionNodeId: u32,
}

/// Argument of `DxgkDdiCreateContext`; may fail only for memory or a driver mismatch. [d3dkmddi: DXGKARG_CREATECONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATECONTEXT {
    /// In: the operating system's handle; out: the driver's.
    pub hContext: HANDLE,
    pub NodeOrdinal: u32,
    /// Engines of the node, a bit each.
    pub EngineAffinity: u32,
    pub Flags: DXGK_CREATECONTEXTFLAGS,
    /// Data of the user-mode driver; untrusted.
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    /// Out.
    pub ContextInfo: DXGK_CONTEXTINFO,
}

/// No flags are defined: reserved, zero. [d3dukmdt: D3DDDI_CREATEHWCONTEXTFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_CREATEHWCONTEXTFLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// How the driver wants to work with a hardware context. [d3dkmddi: DXGK_HWCONTEXT_CAPS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_HWCONTEXT_CAPS {
    pub UseIoMmu: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiCreateHwContext`: a group of queues on one node that is scheduled together. It starts resumed.
/// [d3dkmddi: DXGKARG_CREATEHWCONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEHWCONTEXT {
    /// In: the operating system's handle; out: the driver's.
    pub hHwContext: HANDLE,
    pub NodeOrdinal: u32,
    pub EngineAffinity: u32,
    pub Flags: D3DDDI_CREATEHWCONTEXTFLAGS,
    pub PrivateDriverDataSize: u32,
    /// Data of the user-mode driver; untrusted, written back.
    pub pPrivateDriverData: *mut c_void,
    /// Out.
    pub ContextCaps: DXGK_HWCONTEXT_CAPS,
}

/// Kind of a hardware queue. [d3dukmdt: D3DDDI_CREATEHWQUEUEFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_CREATEHWQUEUEFLAGS {
    /// Work may run longer than the time-out.
    pub DisableGpuTimeout: bool,
    /// Not part of signals to several queues.
    pub NoBroadcastSignal: bool,
    /// Not part of waits of several queues.
    pub NoBroadcastWait: bool,
    /// Submissions are not shown to the driver.
    pub NoKmdAccess: bool,
    /// The queue gets its work through a doorbell only.
    pub UserModeSubmission: bool,
    /// The progress fence is a native fence.
    pub NativeProgressFence: bool,
    /// For the kernel-mode test interface.
    pub TestQueue: bool,
    #[bits(25)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiCreateHwQueue`; a queue that cannot run is refused here, not later.
/// [d3dkmddi: DXGKARG_CREATEHWQUEUE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_CREATEHWQUEUE {
    /// In: the operating system's handle; out: the driver's.
    pub hHwQueue: HANDLE,
    pub Flags: D3DDDI_CREATEHWQUEUEFLAGS,
    pub PrivateDriverDataSize: u32,
    /// Data of the user-mode driver; untrusted, written back.
    pub pPrivateDriverData: *mut c_void,
    /// The progress fence: the driver's handle with `NativeProgressFence`, otherwise a monitored fence.
    pub hHwQueueProgressFence: D3DKMT_HANDLE,
    /// Kernel address of its value, read-only.
    pub HwQueueProgressFenceCPUVirtualAddress: *mut c_void,
    /// Address of its value in the process.
    pub HwQueueProgressFenceGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// What a buffer is. [d3dkmddi: DXGK_SUBMITCOMMANDFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_SUBMITCOMMANDFLAGS {
    /// Work of the memory manager.
    pub Paging: bool,
    pub Present: bool,
    pub RedirectedPresent: bool,
    /// To be completed without being run.
    pub NullRendering: bool,
    pub Flip: bool,
    pub FlipWithNoWait: bool,
    /// No commands, only a change of context.
    pub ContextSwitch: bool,
    /// It was submitted before and preempted.
    pub Resubmission: bool,
    pub VirtualMachineData: bool,
    #[bits(23)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiSubmitCommandToHwQueue`: one buffer for a queue without doorbell.
/// [d3dkmddi: DXGKARG_SUBMITCOMMANDTOHWQUEUE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SUBMITCOMMANDTOHWQUEUE {
    pub hHwQueue: HANDLE,
    /// Value that the fence gets when the buffer is done.
    pub HwQueueProgressFenceId: u64,
    pub DmaBufferVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub DmaBufferSize: u32,
    pub DmaBufferPrivateDataSize: u32,
    /// Valid during the call only.
    pub pDmaBufferPrivateData: *mut c_void,
    pub Flags: DXGK_SUBMITCOMMANDFLAGS,
    pub HwQueueProgressFenceGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub HwQueueProgressFenceCpuVa: *mut c_void,
}

/// Argument of `DxgkDdiSwitchToHwContextList`: the contexts an engine may run; NULL makes it idle.
/// [d3dkmddi: DXGKARG_SWITCHTOHWCONTEXTLIST]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_SWITCHTOHWCONTEXTLIST {
    pub hHwContextFirst: HANDLE,
    pub hHwContextSecond: HANDLE,
    pub NodeOrdinal: u32,
    pub EngineOrdinal: u32,
}

/// New state of a hardware context. [d3dkmddi: DXGK_UPDATEHWCONTEXTSTATE_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DXGK_UPDATEHWCONTEXTSTATE_FLAGS {
    pub Suspended: bool,
    pub InterruptOnSwitchCompletion: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Argument of `DxgkDdiUpdateHwContextState`. [d3dkmddi: DXGKARG_UPDATEHWCONTEXTSTATE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DXGKARG_UPDATEHWCONTEXTSTATE {
    pub hHwContext: HANDLE,
    pub ContextSwitchFence: u64,
    pub Priority: u32,
    pub Flags: DXGK_UPDATEHWCONTEXTSTATE_FLAGS,
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
}
