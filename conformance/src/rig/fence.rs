//! Native fences, and waits and signals from the CPU.

use campanile_hw::packet::{self, Packet};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::STATUS_NOT_SUPPORTED;
use wddm_ddi::types::*;

use super::Rig;
use crate::kmt::Word;
use crate::wait::Wait;
use crate::{EventNumber, Failure};

/// A fence: a native one, or a monitored one, which has no monitored value in memory.
#[derive(Clone, Copy)]
pub struct RawFence {
    pub handle: D3DKMT_HANDLE,
    pub value: Word,
    pub current: u64,
    pub monitored: u64,
}

impl Rig {
    /// Creates a native fence.
    pub fn fence(&self, initial: u64) -> Result<RawFence, Failure> {
        let created =
            self.create_fence(initial).map_err(|status| Failure::new(format!("D3DKMTCreateNativeFence: {status}")))?;
        RawFence::of(&created)
    }

    /// A fence for the progress of a context: a native one, or a monitored one where native fences are not enabled.
    pub fn progress_fence(&self) -> Result<RawFence, Failure> {
        match self.create_fence(0) {
            Err(STATUS_NOT_SUPPORTED) => self.monitored_fence(0, D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new()),
            Err(status) => Err(Failure::new(format!("D3DKMTCreateNativeFence: {status}"))),
            Ok(created) => RawFence::of(&created),
        }
    }

    /// Creates a native fence; what the thunk returned.
    pub fn create_fence(&self, initial: u64) -> Result<D3DKMT_CREATENATIVEFENCE, NTSTATUS> {
        let mut arguments = D3DKMT_CREATENATIVEFENCE::zeroed();
        arguments.hDevice = self.device;
        arguments.Info.InitialFenceValue = initial;
        arguments.Info.EngineAffinity = self.affinity();
        arguments.Info.Type = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_DEFAULT;
        self.kmt.call(self.kmt.table().D3DKMTCreateNativeFence, &mut arguments).ok()?;
        Ok(arguments)
    }

    /// Destroys a fence.
    pub fn destroy_fence(&self, fence: D3DKMT_HANDLE) -> NTSTATUS {
        let mut arguments = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: fence };
        self.kmt.call(self.kmt.table().D3DKMTDestroySynchronizationObject, &mut arguments)
    }

    /// Signals fences from the CPU.
    pub fn signal(&self, fences: &[D3DKMT_HANDLE], values: &[u64]) -> NTSTATUS {
        let (mut fences, mut values) = (fences.to_vec(), values.to_vec());
        let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
        arguments.hDevice = self.device;
        arguments.ObjectCount = fences.len() as u32;
        arguments.ObjectHandleArray = fences.as_mut_ptr();
        arguments.FenceValueArray = values.as_mut_ptr();
        self.kmt.call(self.kmt.table().D3DKMTSignalSynchronizationObjectFromCpu, &mut arguments)
    }

    /// Addresses and sizes of a queue's fence logs, by D3DKMTGetNativeFenceLogDetail.
    pub fn fence_logs(&self, queue: D3DKMT_HANDLE) -> Result<D3DKMT_GETNATIVEFENCELOGDETAIL, NTSTATUS> {
        let mut arguments = D3DKMT_GETNATIVEFENCELOGDETAIL::zeroed();
        arguments.hHwQueue = queue;
        self.kmt.call(self.kmt.table().D3DKMTGetNativeFenceLogDetail, &mut arguments).ok()?;
        Ok(arguments)
    }

    /// Signals a fence from the CPU with a value that may be smaller than the one it has.
    pub fn rewind(&self, fence: &RawFence, value: u64) -> NTSTATUS {
        let (mut handle, mut value) = (fence.handle, value);
        let mut arguments = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
        arguments.hDevice = self.device;
        arguments.ObjectCount = 1;
        arguments.ObjectHandleArray = &raw mut handle;
        arguments.FenceValueArray = &raw mut value;
        arguments.Flags = D3DDDICB_SIGNALFLAGS::new().with_AllowFenceRewind(true);
        self.kmt.call(self.kmt.table().D3DKMTSignalSynchronizationObjectFromCpu, &mut arguments)
    }

    /// Waits on the CPU for all fences, or any of them.
    pub fn wait(&self, fences: &[D3DKMT_HANDLE], values: &[u64], any: bool) -> NTSTATUS {
        self.wait_with_event(fences, values, any, None)
    }

    /// Waits on the CPU; with an event the call returns at once.
    pub fn wait_with_event(
        &self,
        fences: &[D3DKMT_HANDLE],
        values: &[u64],
        any: bool,
        event: Option<EventNumber>,
    ) -> NTSTATUS {
        let (mut fences, mut values) = (fences.to_vec(), values.to_vec());
        let mut arguments = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU::zeroed();
        arguments.hDevice = self.device;
        arguments.ObjectCount = fences.len() as u32;
        arguments.ObjectHandleArray = fences.as_mut_ptr();
        arguments.FenceValueArray = values.as_mut_ptr();
        arguments.Flags = D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS::new().with_WaitAny(any);
        let _wait = event.is_none().then(|| {
            let which = if any { "one" } else { "all" };
            Wait::new(format!(
                "D3DKMTWaitForSynchronizationObjectFromCpu, for {which} of the fences {fences:x?} with the values {values:x?}"
            ))
        });
        arguments.hAsyncEvent = event.map_or(std::ptr::null_mut(), |fd| std::ptr::without_provenance_mut(fd as usize));
        self.kmt.call(self.kmt.table().D3DKMTWaitForSynchronizationObjectFromCpu, &mut arguments)
    }
}

impl RawFence {
    fn of(created: &D3DKMT_CREATENATIVEFENCE) -> Result<Self, Failure> {
        let mapping = created.Info.NativeFenceMapping;
        Ok(Self {
            handle: created.hSyncObject,
            value: Word::new(mapping.CurrentValueCpuVa, "the fence's current value")?,
            current: mapping.CurrentValueGpuVa,
            monitored: mapping.MonitoredValueGpuVa,
        })
    }

    /// A SIGNAL packet.
    pub fn signal(&self, value: u64) -> Packet {
        Packet::Signal(packet::Signal { handle: self.handle, current: self.current, monitored: self.monitored, value })
    }

    /// A WAIT packet.
    pub fn wait(&self, value: u64) -> Packet {
        Packet::Wait(packet::Wait { handle: self.handle, current: self.current, value })
    }
}
