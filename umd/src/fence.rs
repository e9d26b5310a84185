//! Native fences: values that GPU queues signal and wait for without the kernel, and that the CPU can wait for.

use alloc::sync::Arc;
use core::{hint::spin_loop, sync::atomic::Ordering, time::Duration};

use campanile_hw::packet;
use wddm_ddi::{
    Zeroed,
    km::D3DDDI_NATIVEFENCE_TYPE,
    kmt::*,
    types::{D3DKMT_HANDLE, HANDLE, LUID},
};

use crate::{
    device::Device,
    error::{Error, Result},
    event::Event,
    share::{Access, SharedHandle, shared_flags},
    shared::SharedWord,
    thunks::{call, invoke},
};

/// The physical adapters of a link that may touch an object; the GPU is the only one of its link.
pub(crate) const FIRST_ADAPTER: u32 = 1;

/// A native fence. Clones share it; it is destroyed with the last of them.
///
/// Keep it until the submissions that name it are done: the GPU faults a queue that signals a destroyed fence.
#[derive(Clone)]
pub struct Fence {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    handle: D3DKMT_HANDLE,
    luid: LUID,
    /// The current value, read-only for us.
    value: SharedWord,
    current: u64,
    monitored: u64,
    /// Whether it has kernel handles.
    shared: bool,
    access: Access,
}

impl Fence {
    /// Creates a fence whose value is `initial`. It stays in this process and on its device's adapter.
    ///
    /// # Errors
    /// [`Error::NativeFencesDisabled`], [`Error::Status`], [`Error::BadAnswer`], [`Error::DeviceLost`].
    /// [d3dkmthk: D3DKMTCreateNativeFence]
    pub fn new(device: &Device, initial: u64) -> Result<Self> {
        Self::create(device, initial, None)
    }

    /// As [`Fence::new`], for a fence that [`Fence::share`] gives to other devices of the adapter and to other processes.
    ///
    /// # Errors
    /// As [`Fence::new`].
    pub fn new_shared(device: &Device, initial: u64) -> Result<Self> {
        Self::create(device, initial, Some(shared_flags()))
    }

    /// As [`Fence::new_shared`], for a fence that devices of other adapters open too. There is one value, in system memory, and every
    /// signal of a GPU interrupts the processor, which tells the other adapters: use it only between adapters.
    ///
    /// # Errors
    /// As [`Fence::new`].
    pub fn new_cross_adapter(device: &Device, initial: u64) -> Result<Self> {
        Self::create(device, initial, Some(shared_flags().with_CrossAdapter(true)))
    }

    /// `shared` are the flags of a fence that has kernel handles.
    fn create(device: &Device, initial: u64, shared: Option<D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS>) -> Result<Self> {
        if !device.adapter().native_fences() {
            return Err(Error::NativeFencesDisabled);
        }
        let mut create = D3DKMT_CREATENATIVEFENCE::zeroed();
        create.hDevice = device.handle();
        create.Info.InitialFenceValue = initial;
        create.Info.EngineAffinity = FIRST_ADAPTER;
        create.Info.Type = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_DEFAULT;
        if let Some(flags) = shared {
            create.Info.Flags = flags;
        }
        invoke!(device.thunks(), D3DKMTCreateNativeFence, &mut create)?;
        let mapping = &create.Info.NativeFenceMapping;
        let mapped = Self::mapped(device, create.hSyncObject, mapping, shared.is_some(), Access::Full);
        mapped.ok_or(Error::BadAnswer("D3DKMTCreateNativeFence gave no fence addresses"))
    }

    /// Opens a shared fence on `device`, which lies on the fence's adapter, or on any if the fence is one of several adapters, by a kernel
    /// handle of this process; the handle stays the caller's. Everything that has the fence open sees one value. The opening has no right that the handle does not grant: ask
    /// for the access that it was shared with, for a signal that the system refuses faults the queue.
    ///
    /// # Errors
    /// [`Error::NativeFencesDisabled`]; [`Error::Status`] with STATUS_INVALID_HANDLE if `handle` is no handle of a fence in this
    /// process, and with STATUS_INVALID_PARAMETER for a fence of another adapter alone; [`Error::BadAnswer`], [`Error::DeviceLost`].
    /// [d3dkmthk: D3DKMTOpenNativeFenceFromNtHandle]
    pub fn open(device: &Device, handle: HANDLE, access: Access) -> Result<Self> {
        if !device.adapter().native_fences() {
            return Err(Error::NativeFencesDisabled);
        }
        let mut open = D3DKMT_OPENNATIVEFENCEFROMNTHANDLE::zeroed();
        open.hNtHandle = handle;
        open.hDevice = device.handle();
        open.EngineAffinity = FIRST_ADAPTER;
        open.Flags = access.flags();
        invoke!(device.thunks(), D3DKMTOpenNativeFenceFromNtHandle, &mut open)?;
        let mapped = Self::mapped(device, open.hSyncObject, &open.NativeFenceMapping, true, access);
        mapped.ok_or(Error::BadAnswer("D3DKMTOpenNativeFenceFromNtHandle gave no fence addresses"))
    }

    /// The fence behind `handle`; destroys it and gives `None` if the mapping lacks an address.
    fn mapped(
        device: &Device,
        handle: D3DKMT_HANDLE,
        mapping: &D3DDDI_NATIVEFENCEMAPPING,
        shared: bool,
        access: Access,
    ) -> Option<Self> {
        // SAFETY: the system maps the current value, 8 bytes and 8-aligned, until the fence is destroyed.
        let value = unsafe { SharedWord::new(mapping.CurrentValueCpuVa) };
        let (current, monitored) = (mapping.CurrentValueGpuVa, mapping.MonitoredValueGpuVa);
        match value {
            Some(value) if current != 0 && current % 8 == 0 && monitored % 8 == 0 => {
                let (device, luid) = (device.clone(), device.adapter().luid());
                Some(Self {
                    inner: Arc::new(Inner { device, handle, luid, value, current, monitored, shared, access }),
                })
            }
            _ => {
                destroy(device, handle);
                None
            }
        }
    }

    /// Gives the fence a kernel handle in this process, by which it is opened with at most `access`.
    ///
    /// # Errors
    /// [`Error::NotShared`] if it was created by [`Fence::new`]; [`Error::WaitOnlyFence`] for more access than this opening has;
    /// [`Error::Status`], [`Error::BadAnswer`], [`Error::DeviceLost`]. [d3dkmthk: D3DKMTShareObjects]
    pub fn share(&self, access: Access) -> Result<SharedHandle> {
        if !self.inner.shared {
            return Err(Error::NotShared);
        }
        if access == Access::Full {
            self.check_signal()?;
        }
        SharedHandle::new(&self.inner.device, self.inner.handle, access)
    }

    /// The current value. Never blocks and never enters the kernel.
    #[inline]
    pub fn value(&self) -> u64 {
        self.inner.value.load(Ordering::Acquire)
    }

    /// Where the current value can be read until the fence is destroyed; only the GPU and the operating system write it.
    pub fn mapping(&self) -> *const u64 {
        self.inner.value.as_ptr()
    }

    /// Looks at the value up to `looks` times, pausing in between, and says whether it reached `value`.
    #[inline]
    pub fn spin(&self, value: u64, looks: u32) -> bool {
        for _ in 0..looks {
            if self.value() >= value {
                return true;
            }
            spin_loop();
        }
        false
    }

    /// Waits until the current value is at least `value`; `None` waits as long as the device lives. Enters the kernel only if
    /// the value is not there yet.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::DeviceLost`], [`Error::Status`]. [d3dkmthk: D3DKMTWaitForSynchronizationObjectFromCpu]
    pub fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        wait(&self.inner.device, self.inner.handle, self.inner.value, value, timeout)
    }

    /// Sets the value from the CPU and releases GPU and CPU waiters.
    ///
    /// # Errors
    /// [`Error::WaitOnlyFence`], [`Error::Status`], [`Error::DeviceLost`]. [d3dkmthk: D3DKMTSignalSynchronizationObjectFromCpu]
    pub fn signal(&self, value: u64) -> Result<()> {
        self.check_signal()?;
        let (mut handle, mut value) = (self.inner.handle, value);
        let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: self.inner.device.handle(),
            ObjectCount: 1,
            ObjectHandleArray: &mut handle,
            FenceValueArray: &mut value,
            Flags: D3DDDICB_SIGNALFLAGS::new(),
        };
        invoke!(self.inner.device.thunks(), D3DKMTSignalSynchronizationObjectFromCpu, &mut args)
    }

    /// Refuses signals of who may only wait.
    #[inline(always)]
    pub(crate) fn check_signal(&self) -> Result<()> {
        if self.inner.access == Access::Full { Ok(()) } else { Err(Error::WaitOnlyFence) }
    }

    /// The device it was created or opened on.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// Its handle, by which logs and traces name it.
    #[inline]
    pub fn handle(&self) -> D3DKMT_HANDLE {
        self.inner.handle
    }

    /// Its current value.
    pub(crate) fn word(&self) -> SharedWord {
        self.inner.value
    }

    /// GPU virtual address of the current value.
    pub fn gpu_address(&self) -> u64 {
        self.inner.current
    }

    #[inline]
    pub(crate) fn luid(&self) -> LUID {
        self.inner.luid
    }

    #[inline]
    pub(crate) fn signal_packet(&self, value: u64) -> packet::Signal {
        let Inner { handle, current, monitored, .. } = *self.inner;
        packet::Signal { handle, current, monitored, value }
    }

    #[inline]
    pub(crate) fn wait_packet(&self, value: u64) -> packet::Wait {
        packet::Wait { handle: self.inner.handle, current: self.inner.current, value }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        destroy(&self.device, self.handle);
    }
}

fn destroy(device: &Device, handle: D3DKMT_HANDLE) {
    let mut args = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: handle };
    device.adapter().given_back(call!(device.thunks(), D3DKMTDestroySynchronizationObject, &mut args));
}

/// Waits until `object`, whose value shows in `current`, is at least `value`.
pub(crate) fn wait(
    device: &Device,
    object: D3DKMT_HANDLE,
    current: SharedWord,
    value: u64,
    timeout: Option<Duration>,
) -> Result<()> {
    let now = current.load(Ordering::Acquire);
    if now >= value && now != u64::MAX {
        return Ok(());
    }
    let Some(limit) = timeout else {
        return device.wait_blocking(object, current, value);
    };
    if now < value {
        if limit.is_zero() {
            return Err(Error::Timeout);
        }
        let event = Event::new()?;
        device.wait_thunk(object, value, event.handle())?;
        // The value may arrive in the same moment as the time limit; the value counts.
        if !event.wait(limit)? && current.load(Ordering::Acquire) < value {
            return Err(Error::Timeout);
        }
    }
    device.reached(current, value)
}
