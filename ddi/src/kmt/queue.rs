//! Contexts, hardware queues, submission and doorbells.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::km::{D3DDDI_CREATEHWCONTEXTFLAGS, D3DDDI_CREATEHWQUEUEFLAGS};
use crate::types::{D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE};

/// Kind of a context. [d3dukmdt: D3DDDI_CREATECONTEXTFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_CREATECONTEXTFLAGS {
    pub NullRendering: bool,
    pub InitialData: bool,
    pub DisableGpuTimeout: bool,
    /// The context only waits and signals.
    pub SynchronizationOnly: bool,
    pub HwQueueSupported: bool,
    pub NoKmdAccess: bool,
    pub TestContext: bool,
    #[bits(25)]
    __Reserved: u32,
}

/// Which programming interface a context is for. [d3dkmthk: D3DKMT_CLIENTHINT]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_CLIENTHINT(pub i32);

impl D3DKMT_CLIENTHINT {
    pub const D3DKMT_CLIENTHINT_UNKNOWN: Self = Self(0);
    pub const D3DKMT_CLIENTHINT_OPENGL: Self = Self(1);
    pub const D3DKMT_CLIENTHINT_CDD: Self = Self(2);
    pub const D3DKMT_CLIENTHINT_OPENCL: Self = Self(3);
    pub const D3DKMT_CLIENTHINT_VULKAN: Self = Self(4);
    pub const D3DKMT_CLIENTHINT_CUDA: Self = Self(5);
    pub const D3DKMT_CLIENTHINT_RESERVED: Self = Self(6);
    pub const D3DKMT_CLIENTHINT_DX7: Self = Self(7);
    pub const D3DKMT_CLIENTHINT_DX8: Self = Self(8);
    pub const D3DKMT_CLIENTHINT_DX9: Self = Self(9);
    pub const D3DKMT_CLIENTHINT_DX10: Self = Self(10);
    pub const D3DKMT_CLIENTHINT_DX11: Self = Self(11);
    pub const D3DKMT_CLIENTHINT_DX12: Self = Self(12);
    pub const D3DKMT_CLIENTHINT_9ON12: Self = Self(13);
    pub const D3DKMT_CLIENTHINT_11ON12: Self = Self(14);
    pub const D3DKMT_CLIENTHINT_MFT_ENCODE: Self = Self(15);
    pub const D3DKMT_CLIENTHINT_GLON12: Self = Self(16);
    pub const D3DKMT_CLIENTHINT_CLON12: Self = Self(17);
    pub const D3DKMT_CLIENTHINT_DML_TENSORFLOW: Self = Self(18);
    pub const D3DKMT_CLIENTHINT_ONEAPI_LEVEL0: Self = Self(19);
    pub const D3DKMT_CLIENTHINT_DML_PYTORCH: Self = Self(20);
    pub const D3DKMT_CLIENTHINT_VKON12: Self = Self(21);
    pub const D3DKMT_CLIENTHINT_FASTRPC: Self = Self(22);
    pub const D3DKMT_CLIENTHINT_SNPE: Self = Self(23);
    pub const D3DKMT_CLIENTHINT_QNN: Self = Self(24);
    pub const D3DKMT_CLIENTHINT_VITIS: Self = Self(25);
    pub const D3DKMT_CLIENTHINT_FFMPEG: Self = Self(26);
    pub const D3DKMT_CLIENTHINT_OPEN_VINO: Self = Self(27);
}

/// Argument of `D3DKMTCreateContextVirtual`. [d3dkmthk: D3DKMT_CREATECONTEXTVIRTUAL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATECONTEXTVIRTUAL {
    pub hDevice: D3DKMT_HANDLE,
    pub NodeOrdinal: u32,
    pub EngineAffinity: u32,
    pub Flags: D3DDDI_CREATECONTEXTFLAGS,
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub ClientHint: D3DKMT_CLIENTHINT,
    pub hContext: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTDestroyContext`. [d3dkmthk: D3DKMT_DESTROYCONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DESTROYCONTEXT {
    pub hContext: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTCreateHwContext`. [d3dkmthk: D3DKMT_CREATEHWCONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATEHWCONTEXT {
    pub hDevice: D3DKMT_HANDLE,
    pub NodeOrdinal: u32,
    pub EngineAffinity: u32,
    pub Flags: D3DDDI_CREATEHWCONTEXTFLAGS,
    pub PrivateDriverDataSize: u32,
    /// For the kernel-mode driver; written back.
    pub pPrivateDriverData: *mut c_void,
    /// Out.
    pub hHwContext: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTSetContextSchedulingPriority`. [d3dkmthk: D3DKMT_SETCONTEXTSCHEDULINGPRIORITY]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SETCONTEXTSCHEDULINGPRIORITY {
    pub hContext: D3DKMT_HANDLE,
    /// Among the contexts of all processes.
    pub Priority: i32,
}

/// Argument of `D3DKMTGetContextSchedulingPriority`. [d3dkmthk: D3DKMT_GETCONTEXTSCHEDULINGPRIORITY]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_GETCONTEXTSCHEDULINGPRIORITY {
    pub hContext: D3DKMT_HANDLE,
    /// Among the contexts of all processes.
    pub Priority: i32,
}

/// Argument of `D3DKMTSetContextInProcessSchedulingPriority`. [d3dkmthk: D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY {
    pub hContext: D3DKMT_HANDLE,
    /// Among the contexts of the process.
    pub Priority: i32,
}

/// Argument of `D3DKMTGetContextInProcessSchedulingPriority`. [d3dkmthk: D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY {
    pub hContext: D3DKMT_HANDLE,
    /// Among the contexts of the process.
    pub Priority: i32,
}

/// How the contexts of a process stand among those of others, argument of `D3DKMTSetProcessSchedulingPriorityClass`.
/// [d3dkmthk: D3DKMT_SCHEDULINGPRIORITYCLASS]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_SCHEDULINGPRIORITYCLASS(pub i32);

impl D3DKMT_SCHEDULINGPRIORITYCLASS {
    pub const D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE: Self = Self(0);
    pub const D3DKMT_SCHEDULINGPRIORITYCLASS_BELOW_NORMAL: Self = Self(1);
    pub const D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL: Self = Self(2);
    pub const D3DKMT_SCHEDULINGPRIORITYCLASS_ABOVE_NORMAL: Self = Self(3);
    pub const D3DKMT_SCHEDULINGPRIORITYCLASS_HIGH: Self = Self(4);
    pub const D3DKMT_SCHEDULINGPRIORITYCLASS_REALTIME: Self = Self(5);
}

/// Argument of `D3DKMTDestroyHwContext`. [d3dkmthk: D3DKMT_DESTROYHWCONTEXT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DESTROYHWCONTEXT {
    pub hHwContext: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTCreateHwQueue`. [d3dkmthk: D3DKMT_CREATEHWQUEUE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATEHWQUEUE {
    pub hHwContext: D3DKMT_HANDLE,
    pub Flags: D3DDDI_CREATEHWQUEUEFLAGS,
    pub PrivateDriverDataSize: u32,
    /// For the kernel-mode driver; written back.
    pub pPrivateDriverData: *mut c_void,
    /// Out.
    pub hHwQueue: D3DKMT_HANDLE,
    /// Out: the queue's progress fence.
    pub hHwQueueProgressFence: D3DKMT_HANDLE,
    /// Out: where the CPU reads its value.
    pub HwQueueProgressFenceCPUVirtualAddress: *mut c_void,
    /// Out: where the GPU writes its value.
    pub HwQueueProgressFenceGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

/// Argument of `D3DKMTDestroyHwQueue`. [d3dkmthk: D3DKMT_DESTROYHWQUEUE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DESTROYHWQUEUE {
    pub hHwQueue: D3DKMT_HANDLE,
}

/// What a buffer is. [d3dkmthk: D3DKMT_SUBMITCOMMANDFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_SUBMITCOMMANDFLAGS {
    pub NullRendering: bool,
    pub PresentRedirected: bool,
    pub NoKmdAccess: bool,
    #[bits(29)]
    __Reserved: u32,
}

/// Argument of `D3DKMTSubmitCommand`, for contexts of packet scheduling. [d3dkmthk: D3DKMT_SUBMITCOMMAND]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SUBMITCOMMAND {
    pub Commands: D3DGPU_VIRTUAL_ADDRESS,
    pub CommandLength: u32,
    pub Flags: D3DKMT_SUBMITCOMMANDFLAGS,
    pub PresentHistoryToken: u64,
    pub BroadcastContextCount: u32,
    pub BroadcastContext: [D3DKMT_HANDLE; 64],
    pub pPrivateDriverData: *mut c_void,
    pub PrivateDriverDataSize: u32,
    pub NumPrimaries: u32,
    pub WrittenPrimaries: [D3DKMT_HANDLE; 16],
    pub NumHistoryBuffers: u32,
    pub HistoryBufferArray: *mut D3DKMT_HANDLE,
}

/// Argument of `D3DKMTSubmitCommandToHwQueue`. [d3dkmthk: D3DKMT_SUBMITCOMMANDTOHWQUEUE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SUBMITCOMMANDTOHWQUEUE {
    pub hHwQueue: D3DKMT_HANDLE,
    /// Value that the progress fence gets when the buffer is done.
    pub HwQueueProgressFenceId: u64,
    /// Address of the commands in the process.
    pub CommandBuffer: D3DGPU_VIRTUAL_ADDRESS,
    pub CommandLength: u32,
    pub PrivateDriverDataSize: u32,
    pub pPrivateDriverData: *mut c_void,
    pub NumPrimaries: u32,
    pub WrittenPrimaries: *mut D3DKMT_HANDLE,
}

/// Kind of a doorbell. [d3dkmthk: D3DKMT_CREATE_DOORBELL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_CREATE_DOORBELL_FLAGS {
    pub RequireSecondaryCpuVA: bool,
    pub ResizeRingBufferOperation: bool,
    #[bits(30)]
    __Reserved: u32,
}

/// Argument of `D3DKMTCreateDoorbell`; ring and ring-control allocations must be resident.
/// [d3dkmthk: D3DKMT_CREATE_DOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATE_DOORBELL {
    pub hHwQueue: D3DKMT_HANDLE,
    /// Allocation with the ring.
    pub hRingBuffer: D3DKMT_HANDLE,
    /// Allocation with the ring's pointers.
    pub hRingBufferControl: D3DKMT_HANDLE,
    pub Flags: D3DKMT_CREATE_DOORBELL_FLAGS,
    pub PrivateDriverDataSize: u32,
    /// For the kernel-mode driver; written back.
    pub PrivateDriverData: *mut c_void,
    /// Out: where to store; a dummy page until it is connected.
    pub DoorbellCPUVirtualAddress: *mut c_void,
    pub DoorbellSecondaryCPUVirtualAddress: *mut c_void,
    /// Out: a 64-bit `D3DDDI_DOORBELLSTATUS` word, read-only.
    pub DoorbellStatusCPUVirtualAddress: *mut c_void,
    /// Out: where the process writes the progress value of its latest work before it becomes visible.
    pub HwQueueProgressFenceLastQueuedValueCPUVirtualAddress: *mut c_void,
    /// Out.
    pub hDoorbell: D3DKMT_HANDLE,
}

/// No flags are defined: reserved, zero. [d3dkmthk: D3DKMT_CONNECT_DOORBELL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_CONNECT_DOORBELL_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `D3DKMTConnectDoorbell`. [d3dkmthk: D3DKMT_CONNECT_DOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CONNECT_DOORBELL {
    pub hDoorbell: D3DKMT_HANDLE,
    pub Flags: D3DKMT_CONNECT_DOORBELL_FLAGS,
}

/// Argument of `D3DKMTDestroyDoorbell`. [d3dkmthk: D3DKMT_DESTROY_DOORBELL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DESTROY_DOORBELL {
    pub hDoorbell: D3DKMT_HANDLE,
}

/// No flags are defined: reserved, zero. [d3dkmthk: D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `D3DKMTNotifyWorkSubmission`. [d3dkmthk: D3DKMT_NOTIFY_WORK_SUBMISSION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_NOTIFY_WORK_SUBMISSION {
    pub hDoorbell: D3DKMT_HANDLE,
    pub Flags: D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS,
}

/// No flags are defined: reserved, zero. [d3dkmthk: D3DKMT_GETNATIVEFENCELOGDETAIL_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_GETNATIVEFENCELOGDETAIL_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `D3DKMTGetNativeFenceLogDetail`. [d3dkmthk: D3DKMT_GETNATIVEFENCELOGDETAIL]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_GETNATIVEFENCELOGDETAIL {
    pub hHwQueue: D3DKMT_HANDLE,
    pub Flags: D3DKMT_GETNATIVEFENCELOGDETAIL_FLAGS,
    /// Out: entries of the log of waits.
    pub WaitLogNumberOfEntries: u32,
    /// Out: entries of the log of signals.
    pub SignalLogNumberOfEntries: u32,
    /// Out: address of the log of waits, which begins with its header, in the process.
    pub WaitLogGpuBaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// Out: address of the log of signals, which begins with its header, in the process.
    pub SignalLogGpuBaseAddress: D3DGPU_VIRTUAL_ADDRESS,
    pub Reserved: [u8; 64],
}

zeroed! {
    D3DKMT_GETNATIVEFENCELOGDETAIL_FLAGS,
    D3DKMT_GETNATIVEFENCELOGDETAIL,
    D3DDDI_CREATECONTEXTFLAGS,
    D3DKMT_CLIENTHINT,
    D3DKMT_CREATECONTEXTVIRTUAL,
    D3DKMT_DESTROYCONTEXT,
    D3DKMT_CREATEHWCONTEXT,
    D3DKMT_DESTROYHWCONTEXT,
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY,
    D3DKMT_GETCONTEXTSCHEDULINGPRIORITY,
    D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY,
    D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY,
    D3DKMT_SCHEDULINGPRIORITYCLASS,
    D3DKMT_CREATEHWQUEUE,
    D3DKMT_DESTROYHWQUEUE,
    D3DKMT_SUBMITCOMMANDFLAGS,
    D3DKMT_SUBMITCOMMAND,
    D3DKMT_SUBMITCOMMANDTOHWQUEUE,
    D3DKMT_CREATE_DOORBELL_FLAGS,
    D3DKMT_CREATE_DOORBELL,
    D3DKMT_CONNECT_DOORBELL_FLAGS,
    D3DKMT_CONNECT_DOORBELL,
    D3DKMT_DESTROY_DOORBELL,
    D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS,
    D3DKMT_NOTIFY_WORK_SUBMISSION,
}
