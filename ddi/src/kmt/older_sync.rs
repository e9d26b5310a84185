//! Synchronization objects in the forms of before monitored fences, keyed mutexes, and files for synchronization.

use bitfield_struct::bitfield;
use core::ffi::c_void;

use super::{D3DDDI_SYNCHRONIZATIONOBJECT_TYPE, D3DDDICB_SIGNALFLAGS};
use crate::types::*;

/// Member `SynchronizationMutex` of [`D3DDDI_SYNCHRONIZATIONOBJECTINFO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO_SynchronizationMutex {
    pub InitialState: i32,
}

/// Member `Semaphore` of [`D3DDDI_SYNCHRONIZATIONOBJECTINFO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO_Semaphore {
    pub MaxCount: u32,
    pub InitialCount: u32,
}

/// Member `Reserved` of [`D3DDDI_SYNCHRONIZATIONOBJECTINFO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO_Reserved {
    pub Reserved: [u32; 16],
}

/// Union of [`D3DDDI_SYNCHRONIZATIONOBJECTINFO`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DDDI_SYNCHRONIZATIONOBJECTINFO_Union {
    pub SynchronizationMutex: D3DDDI_SYNCHRONIZATIONOBJECTINFO_SynchronizationMutex,
    pub Semaphore: D3DDDI_SYNCHRONIZATIONOBJECTINFO_Semaphore,
    pub Reserved: D3DDDI_SYNCHRONIZATIONOBJECTINFO_Reserved,
}

/// What a new mutex or semaphore is like. [d3dukmdt: D3DDDI_SYNCHRONIZATIONOBJECTINFO]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DDDI_SYNCHRONIZATIONOBJECTINFO {
    pub Type: D3DDDI_SYNCHRONIZATIONOBJECT_TYPE,
    pub u: D3DDDI_SYNCHRONIZATIONOBJECTINFO_Union,
}

/// Argument of `D3DKMTCreateSynchronizationObject`. [d3dkmthk: D3DKMT_CREATESYNCHRONIZATIONOBJECT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATESYNCHRONIZATIONOBJECT {
    pub hDevice: D3DKMT_HANDLE,
    pub Info: D3DDDI_SYNCHRONIZATIONOBJECTINFO,
    pub hSyncObject: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTOpenSynchronizationObject`. [d3dkmthk: D3DKMT_OPENSYNCHRONIZATIONOBJECT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENSYNCHRONIZATIONOBJECT {
    pub hSharedHandle: D3DKMT_HANDLE,
    pub hSyncObject: D3DKMT_HANDLE,
    pub Reserved: [u64; 8],
}

/// Argument of `D3DKMTOpenSyncObjectFromNtHandle`. [d3dkmthk: D3DKMT_OPENSYNCOBJECTFROMNTHANDLE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENSYNCOBJECTFROMNTHANDLE {
    pub hNtHandle: HANDLE,
    pub hSyncObject: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTSignalSynchronizationObject`. [d3dkmthk: D3DKMT_SIGNALSYNCHRONIZATIONOBJECT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECT {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; 32],
    pub Flags: D3DDDICB_SIGNALFLAGS,
}

/// Member `Fence` of [`D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_Fence {
    pub FenceValue: u64,
}

/// Union of [`D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_Union {
    pub Fence: D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_Fence,
    pub CpuEventHandle: HANDLE,
    pub Reserved: [u64; 8],
}

/// Argument of `D3DKMTSignalSynchronizationObject2`. [d3dkmthk: D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; 32],
    pub Flags: D3DDDICB_SIGNALFLAGS,
    pub BroadcastContextCount: u32,
    pub BroadcastContext: [D3DKMT_HANDLE; 64],
    pub u: D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_Union,
}

/// Argument of `D3DKMTWaitForSynchronizationObject`. [d3dkmthk: D3DKMT_WAITFORSYNCHRONIZATIONOBJECT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECT {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; 32],
}

/// Member `Fence` of [`D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_Fence {
    pub FenceValue: u64,
}

/// Union of [`D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_Union {
    pub Fence: D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_Fence,
    pub Reserved: [u64; 8],
}

/// Argument of `D3DKMTWaitForSynchronizationObject2`. [d3dkmthk: D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 {
    pub hContext: D3DKMT_HANDLE,
    pub ObjectCount: u32,
    pub ObjectHandleArray: [D3DKMT_HANDLE; 32],
    pub u: D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_Union,
}

/// Argument of `D3DKMTCreateKeyedMutex`. [d3dkmthk: D3DKMT_CREATEKEYEDMUTEX]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATEKEYEDMUTEX {
    pub InitialValue: u64,
    pub hSharedHandle: D3DKMT_HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
}

/// How a keyed mutex is shared. [d3dkmthk: D3DKMT_CREATEKEYEDMUTEX2_FLAGS]
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_CREATEKEYEDMUTEX2_FLAGS {
    pub NtSecuritySharing: bool,
    #[bits(31)]
    __Reserved: u32,
}

/// Argument of `D3DKMTCreateKeyedMutex2`. [d3dkmthk: D3DKMT_CREATEKEYEDMUTEX2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATEKEYEDMUTEX2 {
    pub InitialValue: u64,
    pub hSharedHandle: D3DKMT_HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
    pub Flags: D3DKMT_CREATEKEYEDMUTEX2_FLAGS,
}

/// Argument of `D3DKMTOpenKeyedMutex`. [d3dkmthk: D3DKMT_OPENKEYEDMUTEX]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENKEYEDMUTEX {
    pub hSharedHandle: D3DKMT_HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTOpenKeyedMutex2`. [d3dkmthk: D3DKMT_OPENKEYEDMUTEX2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENKEYEDMUTEX2 {
    pub hSharedHandle: D3DKMT_HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
}

/// Argument of `D3DKMTOpenKeyedMutexFromNtHandle`. [d3dkmthk: D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE {
    pub hNtHandle: HANDLE,
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
}

/// Argument of `D3DKMTAcquireKeyedMutex`. [d3dkmthk: D3DKMT_ACQUIREKEYEDMUTEX]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ACQUIREKEYEDMUTEX {
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub Key: u64,
    pub pTimeout: *mut LARGE_INTEGER,
    pub FenceValue: u64,
}

/// Argument of `D3DKMTAcquireKeyedMutex2`. [d3dkmthk: D3DKMT_ACQUIREKEYEDMUTEX2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_ACQUIREKEYEDMUTEX2 {
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub Key: u64,
    pub pTimeout: *mut LARGE_INTEGER,
    pub FenceValue: u64,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
}

/// Argument of `D3DKMTReleaseKeyedMutex`. [d3dkmthk: D3DKMT_RELEASEKEYEDMUTEX]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_RELEASEKEYEDMUTEX {
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub Key: u64,
    pub FenceValue: u64,
}

/// Argument of `D3DKMTReleaseKeyedMutex2`. [d3dkmthk: D3DKMT_RELEASEKEYEDMUTEX2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_RELEASEKEYEDMUTEX2 {
    pub hKeyedMutex: D3DKMT_HANDLE,
    pub Key: u64,
    pub FenceValue: u64,
    pub pPrivateRuntimeData: *mut c_void,
    pub PrivateRuntimeDataSize: u32,
}

/// Argument of `D3DKMTDestroyKeyedMutex`. [d3dkmthk: D3DKMT_DESTROYKEYEDMUTEX]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_DESTROYKEYEDMUTEX {
    pub hKeyedMutex: D3DKMT_HANDLE,
}

/// Argument of `D3DKMTCreateSyncFile`. [d3dkmthk: D3DKMT_CREATESYNCFILE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_CREATESYNCFILE {
    pub hDevice: D3DKMT_HANDLE,
    pub hMonitoredFence: D3DKMT_HANDLE,
    pub FenceValue: u64,
    pub hSyncFile: u64,
}

/// Argument of `D3DKMTWaitSyncFile`. [d3dkmthk: D3DKMT_WAITSYNCFILE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_WAITSYNCFILE {
    pub hSyncFile: u64,
    pub hContext: D3DKMT_HANDLE,
    pub Reserved: u32,
}

/// Argument of `D3DKMTOpenSyncObjectFromSyncFile`. [d3dkmthk: D3DKMT_OPENSYNCOBJECTFROMSYNCFILE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_OPENSYNCOBJECTFROMSYNCFILE {
    pub hSyncFile: u64,
    pub hDevice: D3DKMT_HANDLE,
    pub hSyncObject: D3DKMT_HANDLE,
    pub FenceValue: u64,
    pub FenceValueCPUVirtualAddress: *mut c_void,
    pub FenceValueGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
}

zeroed! {
    D3DDDI_SYNCHRONIZATIONOBJECTINFO_SynchronizationMutex,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO_Semaphore,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO_Reserved,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO_Union,
    D3DDDI_SYNCHRONIZATIONOBJECTINFO,
    D3DKMT_CREATESYNCHRONIZATIONOBJECT,
    D3DKMT_OPENSYNCHRONIZATIONOBJECT,
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_Fence,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_Union,
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECT,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_Fence,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_Union,
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2,
    D3DKMT_CREATEKEYEDMUTEX,
    D3DKMT_CREATEKEYEDMUTEX2_FLAGS,
    D3DKMT_CREATEKEYEDMUTEX2,
    D3DKMT_OPENKEYEDMUTEX,
    D3DKMT_OPENKEYEDMUTEX2,
    D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE,
    D3DKMT_ACQUIREKEYEDMUTEX,
    D3DKMT_ACQUIREKEYEDMUTEX2,
    D3DKMT_RELEASEKEYEDMUTEX,
    D3DKMT_RELEASEKEYEDMUTEX2,
    D3DKMT_DESTROYKEYEDMUTEX,
    D3DKMT_CREATESYNCFILE,
    D3DKMT_WAITSYNCFILE,
    D3DKMT_OPENSYNCOBJECTFROMSYNCFILE,
}
