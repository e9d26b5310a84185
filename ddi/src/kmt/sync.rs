//! Native fences and waits from the CPU.

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
}
