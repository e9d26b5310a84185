//! Fences, native and monitored, with waits and signals from CPU and GPU.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use crate::km::D3DDDI_NATIVEFENCE_TYPE;
use crate::types::{D3DGPU_VIRTUAL_ADDRESS, D3DKMT_HANDLE, HANDLE};

/// Who may use a synchronization object, and how. [d3dukmdt: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS {
    /// Other processes may open it.
    pub Shared: bool,
    /// Shared by a kernel handle with access rights.
    pub NtSecuritySharing: bool,
    pub CrossAdapter: bool,
    pub TopOfPipeline: bool,
    /// Not signalled through this handle.
    pub NoSignal: bool,
    /// Not waited for through this handle.
    pub NoWait: bool,
    /// Keeps its value when its device is lost; otherwise it becomes 2^64-1.
    pub NoSignalMaxValueOnTdr: bool,
    /// Only the CPU uses it.
    pub NoGPUAccess: bool,
    pub SignalByKmd: bool,
    pub Unused: bool,
    pub UnwaitCpuWaitersOnlyOnDestroy: bool,
    #[bits(20)]
    __Reserved: u32,
    #[bits(1)]
    __Reserved0: u8,
}

/// Where a native fence's values lie in a process. Filled by the operating system.
/// [d3dukmdt: D3DDDI_NATIVEFENCEMAPPING]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_NATIVEFENCEMAPPING {
    /// Read-only.
    pub CurrentValueCpuVa: *mut c_void,
    /// Read and written by the GPU.
    pub CurrentValueGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    /// Read by the GPU.
    pub MonitoredValueGpuVa: D3DGPU_VIRTUAL_ADDRESS,
    pub Reserved: [u8; 32],
}

/// What a new native fence is like. [d3dukmdt: D3DDDI_NATIVEFENCEINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_NATIVEFENCEINFO {
    pub InitialFenceValue: u64,
    /// Physical adapters that use the fence, a bit each.
    pub EngineAffinity: u32,
    pub Type: D3DDDI_NATIVEFENCE_TYPE,
    pub Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    /// Out.
    pub NativeFenceMapping: D3DDDI_NATIVEFENCEMAPPING,
    pub Reserved: [u8; 28],
}

/// No flags are defined: reserved, zero. [d3dkmthk: D3DKMT_CREATENATIVEFENCE_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_CREATENATIVEFENCE_FLAGS {
    #[bits(32)]
    __Reserved: u32,
}

/// Argument of `D3DKMTCreateNativeFence`. [d3dkmthk: D3DKMT_CREATENATIVEFENCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATENATIVEFENCE {
    pub hDevice: D3DKMT_HANDLE,
    /// Out.
    pub hSyncObject: D3DKMT_HANDLE,
    /// For the kernel-mode driver; written back.
    pub PrivateDriverData: [u8; 64],
    pub Info: D3DDDI_NATIVEFENCEINFO,
    pub Flags: D3DKMT_CREATENATIVEFENCE_FLAGS,
    pub Reserved: [u8; 28],
}

/// Argument of `D3DKMTOpenNativeFenceFromNtHandle`: a fence of another process.
/// [d3dkmthk: D3DKMT_OPENNATIVEFENCEFROMNTHANDLE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENNATIVEFENCEFROMNTHANDLE {
    pub hNtHandle: HANDLE,
    pub hDevice: D3DKMT_HANDLE,
    pub EngineAffinity: u32,
    pub Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    pub hSyncObject: D3DKMT_HANDLE,
    pub NativeFenceMapping: D3DDDI_NATIVEFENCEMAPPING,
    pub PrivateDriverData: [u8; 64],
    pub Reserved: [u8; 32],
}

/// Argument of `D3DKMTDestroySynchronizationObject`. [d3dkmthk: D3DKMT_DESTROYSYNCHRONIZATIONOBJECT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DESTROYSYNCHRONIZATIONOBJECT {
    pub hSyncObject: D3DKMT_HANDLE,
}

/// Variants of a CPU wait. [d3dukmdt: D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS {
    /// One of the fences is enough.
    pub WaitAny: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Argument of `D3DKMTWaitForSynchronizationObjectFromCpu`: arrays of `ObjectCount` elements.
/// [d3dkmthk: D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
    pub hDevice: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *mut D3DKMT_HANDLE,
    /// Values waited for.
    pub FenceValueArray: *mut u64,
    /// Null: the call blocks until the wait is satisfied. Otherwise the call returns at once and the event is set then; on Linux
    /// the handle is the descriptor of an eventfd, which the callee duplicates before it returns.
    pub hAsyncEvent: HANDLE,
    pub Flags: D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS,
}

/// Variants of a signal. [d3dukmdt: D3DDDICB_SIGNALFLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DDDICB_SIGNALFLAGS {
    pub SignalAtSubmission: bool,
    pub EnqueueCpuEvent: bool,
    /// The value may go back.
    pub AllowFenceRewind: bool,
    #[bits(28)]
    __Reserved: u32,
    pub DXGK_SIGNAL_FLAG_INTERNAL0: bool,
}

/// Argument of `D3DKMTSignalSynchronizationObjectFromCpu`: arrays of `ObjectCount` elements.
/// [d3dkmthk: D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
    pub hDevice: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *mut D3DKMT_HANDLE,
    /// Values to be written.
    pub FenceValueArray: *mut u64,
    pub Flags: D3DDDICB_SIGNALFLAGS,
}

/// Kinds of synchronization objects. [d3dukmdt: D3DDDI_SYNCHRONIZATIONOBJECT_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECT_TYPE(pub i32);

impl D3DDDI_SYNCHRONIZATIONOBJECT_TYPE {
    pub const D3DDDI_SYNCHRONIZATION_MUTEX: Self = Self(1);
    pub const D3DDDI_SEMAPHORE: Self = Self(2);
    pub const D3DDDI_FENCE: Self = Self(3);
    pub const D3DDDI_CPU_NOTIFICATION: Self = Self(4);
    pub const D3DDDI_MONITORED_FENCE: Self = Self(5);
    pub const D3DDDI_PERIODIC_MONITORED_FENCE: Self = Self(6);
    pub const D3DDDI_NATIVE_FENCE: Self = Self(7);
    pub const D3DDDI_SYNCHRONIZATION_TYPE_LIMIT: Self = Self(8);
}

/// A monitored fence in a request to create one. Arm of [`D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Union`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO2_MonitoredFence {
    pub InitialFenceValue: u64,
    /// Out. Read-only.
    pub FenceValueCPUVirtualAddress: *mut c_void,
    /// Out. Read and written by the GPU.
    pub FenceValueGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// Physical adapters that use the fence, a bit each.
    pub EngineAffinity: u32,
    pub Padding: u32,
}

/// A mutex in a request to create one. Arm of [`D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Union`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO2_SynchronizationMutex {
    /// TRUE for one that somebody owns.
    pub InitialState: i32,
}

/// A semaphore in a request to create one. Arm of [`D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Union`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore {
    pub MaxCount: u32,
    pub InitialCount: u32,
}

/// A fence without an address in a request to create one. Arm of [`D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Union`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Fence {
    /// Value to begin with.
    pub FenceValue: u64,
}

/// An event in a request to create an object whose signals set it. Arm of [`D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Union`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO2_CPUNotification {
    pub Event: HANDLE,
}

/// Union of [`D3DDDI_SYNCHRONIZATIONOBJECTINFO2`]. The arm of periodic fences, which are about displays, is not declared.
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Union {
    pub SynchronizationMutex: D3DDDI_SYNCHRONIZATIONOBJECTINFO2_SynchronizationMutex,
    pub Semaphore: D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore,
    pub Fence: D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Fence,
    pub CPUNotification: D3DDDI_SYNCHRONIZATIONOBJECTINFO2_CPUNotification,
    pub MonitoredFence: D3DDDI_SYNCHRONIZATIONOBJECTINFO2_MonitoredFence,
    pub Reserved: [u64; 8],
}

/// What a new synchronization object is like. [d3dukmdt: D3DDDI_SYNCHRONIZATIONOBJECTINFO2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO2 {
    pub Type: D3DDDI_SYNCHRONIZATIONOBJECT_TYPE,
    pub Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    pub u: D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Union,
    /// Out, for objects that are shared by handles without access rights.
    pub SharedHandle: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTCreateSynchronizationObject2`. [d3dkmthk: D3DKMT_CREATESYNCHRONIZATIONOBJECT2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATESYNCHRONIZATIONOBJECT2 {
    pub hDevice: D3DKMT_HANDLE,
    pub Info: D3DDDI_SYNCHRONIZATIONOBJECTINFO2,
    /// Out.
    pub hSyncObject: D3DKMT_HANDLE,
}

/// A monitored fence that is opened. Arm of [`D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_Union`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_MonitoredFence {
    /// Out. Read-only.
    pub FenceValueCPUVirtualAddress: *mut c_void,
    /// Out. Read and written by the GPU.
    pub FenceValueGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    /// Physical adapters that use the fence, a bit each.
    pub EngineAffinity: u32,
}

/// Union of [`D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_Union {
    pub MonitoredFence: D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_MonitoredFence,
    pub Reserved: [u64; 8],
}

/// Argument of `D3DKMTOpenSyncObjectFromNtHandle2`: a fence of another process or adapter.
/// [d3dkmthk: D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 {
    pub hNtHandle: HANDLE,
    pub hDevice: D3DKMT_HANDLE,
    pub Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    /// Out.
    pub hSyncObject: D3DKMT_HANDLE,
    pub u: D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_Union,
}

/// Values of a wait that a context makes. Union of [`D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU_Union {
    /// Values waited for, one of each object.
    pub MonitoredFenceValueArray: *mut u64,
    pub FenceValue: u64,
    pub Reserved: [u64; 8],
}

/// Argument of `D3DKMTWaitForSynchronizationObjectFromGpu`: arrays of `ObjectCount` elements.
/// [d3dkmthk: D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *mut D3DKMT_HANDLE,
    pub u: D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU_Union,
}

/// Values of a signal that a context makes. Union of [`D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU_Union {
    /// Values to be written, one of each object.
    pub MonitoredFenceValueArray: *mut u64,
    pub Reserved: [u64; 8],
}

/// Argument of `D3DKMTSignalSynchronizationObjectFromGpu`: arrays of `ObjectCount` elements.
/// [d3dkmthk: D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *mut D3DKMT_HANDLE,
    pub u: D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU_Union,
}

/// Values of a signal with flags. Union of [`D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2_Union {
    pub FenceValue: u64,
    pub CpuEventHandle: HANDLE,
    /// Values to be written, one of each object.
    pub MonitoredFenceValueArray: *mut u64,
    pub Reserved: [u64; 8],
}

/// Argument of `D3DKMTSignalSynchronizationObjectFromGpu2`. [d3dkmthk: D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 {
    pub ObjectCount: u32,
    pub ObjectHandleArray: *mut D3DKMT_HANDLE,
    pub Flags: D3DDDICB_SIGNALFLAGS,
    pub BroadcastContextCount: u32,
    /// Contexts that signal.
    pub BroadcastContextArray: *mut D3DKMT_HANDLE,
    pub u: D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2_Union,
}

/// Argument of `D3DKMTSubmitWaitForSyncObjectsToHwQueue`: arrays of `ObjectCount` elements.
/// [d3dkmthk: D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE {
    pub hHwQueue: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *mut D3DKMT_HANDLE,
    /// Values waited for.
    pub FenceValueArray: *mut u64,
}

/// Argument of `D3DKMTSubmitSignalSyncObjectsToHwQueue`: arrays of `ObjectCount` elements.
/// [d3dkmthk: D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE {
    pub Flags: D3DDDICB_SIGNALFLAGS,
    pub BroadcastHwQueueCount: u32,
    /// Queues that signal.
    pub BroadcastHwQueueArray: *mut D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: *mut D3DKMT_HANDLE,
    /// Values to be written.
    pub FenceValueArray: *mut u64,
}

zeroed! {
    D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    D3DDDI_NATIVEFENCEMAPPING,
    D3DDDI_NATIVEFENCEINFO,
    D3DKMT_CREATENATIVEFENCE_FLAGS,
    D3DKMT_CREATENATIVEFENCE,
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE,
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT,
    D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
    D3DDDICB_SIGNALFLAGS,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU,
    D3DDDI_SYNCHRONIZATIONOBJECT_TYPE,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO2_SynchronizationMutex,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Semaphore,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Fence,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO2_CPUNotification,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO2_MonitoredFence,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO2_Union,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO2,
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2,
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_MonitoredFence,
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_Union,
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU_Union,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU_Union,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2_Union,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2,
    D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE,
    D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE,
}
