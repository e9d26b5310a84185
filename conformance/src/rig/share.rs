//! Fences between processes: kernel handles and what is opened by them.

use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::STATUS_UNSUCCESSFUL;
use wddm_ddi::types::*;

use super::{RawFence, Rig};
use crate::Failure;
use crate::kmt::{Kmt, Word};

/// A kernel handle, which may be told to other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelHandle(pub usize);

impl KernelHandle {
    /// As thunks take it.
    pub fn raw(self) -> HANDLE {
        std::ptr::without_provenance_mut(self.0)
    }

    /// Closes the handle in the calling process.
    pub fn close(self) -> NTSTATUS {
        // SAFETY: takes any handle.
        unsafe { (Kmt::new().table().NtClose)(self.raw()) }
    }
}

/// Flags of a fence that other processes may open.
pub fn shared_flags() -> D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS {
    D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new().with_Shared(true).with_NtSecuritySharing(true)
}

impl RawFence {
    /// A fence as its creation or opening returned it.
    pub fn new(handle: D3DKMT_HANDLE, mapping: &D3DDDI_NATIVEFENCEMAPPING) -> Result<Self, Failure> {
        Ok(Self {
            handle,
            value: Word::new(mapping.CurrentValueCpuVa, "the fence's current value")?,
            current: mapping.CurrentValueGpuVa,
            monitored: mapping.MonitoredValueGpuVa,
        })
    }
}

impl Rig {
    /// Creates a native fence with these flags; what the thunk returned.
    pub fn create_flagged(
        &self,
        initial: u64,
        flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    ) -> Result<D3DKMT_CREATENATIVEFENCE, NTSTATUS> {
        let mut arguments = D3DKMT_CREATENATIVEFENCE::zeroed();
        arguments.hDevice = self.device;
        arguments.Info.InitialFenceValue = initial;
        arguments.Info.EngineAffinity = self.affinity();
        arguments.Info.Flags = flags;
        self.kmt.call(self.kmt.table().D3DKMTCreateNativeFence, &mut arguments).ok()?;
        Ok(arguments)
    }

    /// Creates a fence that other processes may open.
    pub fn shared_fence(&self, initial: u64) -> Result<RawFence, Failure> {
        self.shared_fence_with(initial, shared_flags())
    }

    /// Creates a fence with these flags.
    pub fn shared_fence_with(
        &self,
        initial: u64,
        flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    ) -> Result<RawFence, Failure> {
        let created = self
            .create_flagged(initial, flags)
            .map_err(|status| Failure::new(format!("D3DKMTCreateNativeFence of a shared fence: {status}")))?;
        RawFence::new(created.hSyncObject, &created.Info.NativeFenceMapping)
    }

    /// Gives objects a kernel handle with every right.
    pub fn share(&self, objects: &[D3DKMT_HANDLE]) -> Result<KernelHandle, NTSTATUS> {
        self.share_with(objects, 0x1000_0000)
    }

    /// Gives objects a kernel handle with this access.
    pub fn share_with(&self, objects: &[D3DKMT_HANDLE], access: u32) -> Result<KernelHandle, NTSTATUS> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the thunk checks its pointers, which live across the call.
        let status = unsafe {
            (self.kmt.table().D3DKMTShareObjects)(
                objects.len() as u32,
                objects.as_ptr(),
                std::ptr::null(),
                access,
                &raw mut handle,
            )
        };
        status.ok().map(|()| KernelHandle(handle.addr()))
    }

    /// Opens a fence by a kernel handle; what the thunk returned.
    pub fn try_open(&self, handle: KernelHandle) -> Result<D3DKMT_OPENNATIVEFENCEFROMNTHANDLE, NTSTATUS> {
        self.try_open_flagged(handle, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new())
    }

    /// Opens a fence with these flags; what the thunk returned.
    pub fn try_open_flagged(
        &self,
        handle: KernelHandle,
        flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    ) -> Result<D3DKMT_OPENNATIVEFENCEFROMNTHANDLE, NTSTATUS> {
        let mut arguments = D3DKMT_OPENNATIVEFENCEFROMNTHANDLE::zeroed();
        arguments.hNtHandle = handle.raw();
        arguments.hDevice = self.device;
        arguments.EngineAffinity = self.affinity();
        arguments.Flags = flags;
        self.kmt.call(self.kmt.table().D3DKMTOpenNativeFenceFromNtHandle, &mut arguments).ok()?;
        Ok(arguments)
    }

    /// Opens a fence by a kernel handle.
    pub fn open_fence(&self, handle: KernelHandle) -> Result<RawFence, Failure> {
        let opened = self
            .try_open(handle)
            .map_err(|status| Failure::new(format!("D3DKMTOpenNativeFenceFromNtHandle: {status}")))?;
        RawFence::new(opened.hSyncObject, &opened.NativeFenceMapping)
    }

    /// Opens a fence by a kernel handle, with flags.
    pub fn open_flagged(
        &self,
        handle: KernelHandle,
        flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
    ) -> Result<RawFence, NTSTATUS> {
        let opened = self.try_open_flagged(handle, flags)?;
        RawFence::new(opened.hSyncObject, &opened.NativeFenceMapping).map_err(|_| STATUS_UNSUCCESSFUL)
    }
}
