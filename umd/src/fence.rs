//! Fences: values that the GPU and the CPU signal and wait for.
//!
//! There are two kinds, and one type for them. The GPU itself waits for a native fence. For a monitored fence the operating system delays
//! work, between the command buffers that it is handed; so a queue with user-mode submission, of whose command buffers it learns nothing,
//! uses native fences only. [native-gpu-fence-objects; context-monitoring]

use alloc::{sync::Arc, vec::Vec};
use core::{ffi::c_void, hint::spin_loop, sync::atomic::Ordering, time::Duration};

use campanile_hw::{
    packet,
    private::{FenceData, MAGIC},
};
use wddm_ddi::{
    Zeroed,
    km::D3DDDI_NATIVEFENCE_TYPE,
    kmt::*,
    status::STATUS_INVALID_PARAMETER,
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
/// Largest distance from the last value of what is signalled or waited for where the GPU writes 32 bits: UINT_MAX / 2.
/// [context-monitoring: creating a monitored fence]
const REACH: u64 = (u32::MAX / 2) as u64;

/// Most fences of one D3DKMTWaitForSynchronizationObjectFromCpu.
const WAIT_OBJECTS_MAX: usize = 64;

/// Type of a fence in the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceKind {
    /// The GPU waits for it by itself. [d3dkmthk: D3DKMTCreateNativeFence]
    Native,
    /// The GPU signals it; the operating system delays work that waits for it. [d3dukmdt: D3DDDI_MONITORED_FENCE]
    Monitored,
}

/// The devices and processes that can have a fence besides the device it is created on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// No other device.
    Private,
    /// Devices of the same adapter, in this process and others, by [`Fence::share`].
    Adapter,
    /// Devices of other adapters too. There is one value, in system memory, and every signal of a GPU interrupts the processor.
    CrossAdapter,
}

/// Properties of a new fence.
#[derive(Clone, Copy, Debug)]
pub struct FenceOptions {
    /// The value at first.
    pub initial: u64,
    /// `None` takes a native fence where they are enabled, a monitored one elsewhere; `Some` insists.
    pub kind: Option<FenceKind>,
    /// The other devices and processes that can have it.
    pub sharing: Sharing,
    /// Access that this opening has: wait, signal, or both.
    pub access: Access,
    /// Keeps its value when its device is lost; the value of others becomes 2^64-1. [d3dukmdt: NoSignalMaxValueOnTdr]
    pub keeps_value: bool,
    /// A number that every opening of a native fence tells, for programs that share fences of several kinds: [`Fence::purpose`].
    pub purpose: u32,
}

impl Default for FenceOptions {
    fn default() -> Self {
        let (kind, sharing, access) = (None, Sharing::Private, Access::Full);
        Self { initial: 0, kind, sharing, access, keeps_value: false, purpose: 0 }
    }
}

impl FenceOptions {
    fn flags(&self) -> D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS {
        let flags = match self.sharing {
            Sharing::Private => D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new(),
            Sharing::Adapter => shared_flags(),
            Sharing::CrossAdapter => shared_flags().with_CrossAdapter(true),
        };
        self.access.limit(flags).with_NoSignalMaxValueOnTdr(self.keeps_value)
    }
}

/// A fence of either kind. Clones share it; it is destroyed with the last of them.
///
/// Keep it until the submissions that name it are done: the GPU faults a queue that signals a destroyed fence.
///
/// On a GPU that writes 32 bits at once the values of monitored fences go on beyond them, because the operating system supplies the upper
/// half: waits, and signals of the CPU and of the GPU, name whole values as everywhere. Then nothing may be signalled or waited for that is
/// further from the last value than UINT_MAX / 2 ([`Error::OutOfReach`]). When the GPU has passed a multiple of 2^32, [`Fence::value`]
/// shows the old upper half, a smaller value than there is, until the operating system has looked; a wait is for the whole value all the
/// same.
#[derive(Clone)]
pub struct Fence {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
    kind: FenceKind,
    handle: D3DKMT_HANDLE,
    luid: LUID,
    /// The current value, read-only for us.
    value: SharedWord,
    current: u64,
    /// 0 for a monitored fence, of which the GPU knows nothing but where its value is.
    monitored: u64,
    /// True if the fence can be given to other processes, by kernel handles.
    shared: bool,
    access: Access,
    purpose: u32,
}

/// The addresses and the handle of a fence that the operating system has created or opened.
struct Answer {
    kind: FenceKind,
    handle: D3DKMT_HANDLE,
    value: *mut c_void,
    current: u64,
    monitored: u64,
    purpose: u32,
}

impl Fence {
    /// Creates a fence whose value is `initial`, a native one where the adapter has them and a monitored one elsewhere. It stays in this
    /// process and on its device's adapter.
    ///
    /// # Errors
    /// [`Error::Status`], [`Error::BadAnswer`], [`Error::DeviceLost`].
    pub fn new(device: &Device, initial: u64) -> Result<Self> {
        Self::with_options(device, FenceOptions { initial, ..FenceOptions::default() })
    }

    /// As [`Fence::new`], for a fence that [`Fence::share`] gives to other devices of the adapter and to other processes.
    ///
    /// # Errors
    /// As [`Fence::new`].
    pub fn new_shared(device: &Device, initial: u64) -> Result<Self> {
        Self::with_options(device, FenceOptions { initial, sharing: Sharing::Adapter, ..FenceOptions::default() })
    }

    /// As [`Fence::new_shared`], for a fence that devices of other adapters open too. There is one value, in system memory, and every
    /// signal of a GPU interrupts the processor, which tells the other adapters: use it only between adapters.
    ///
    /// # Errors
    /// As [`Fence::new`]; STATUS_NOT_SUPPORTED from a GPU that writes 32 bits at once.
    pub fn new_cross_adapter(device: &Device, initial: u64) -> Result<Self> {
        Self::with_options(device, FenceOptions { initial, sharing: Sharing::CrossAdapter, ..FenceOptions::default() })
    }

    /// Creates a fence.
    ///
    /// # Errors
    /// [`Error::NativeFencesDisabled`] if a native one was asked for by name; as [`Fence::new`].
    /// [d3dkmthk: D3DKMTCreateNativeFence, D3DKMTCreateSynchronizationObject2]
    pub fn with_options(device: &Device, options: FenceOptions) -> Result<Self> {
        let native = device.adapter().native_fences();
        let answer = match options.kind {
            Some(FenceKind::Native) if !native => return Err(Error::NativeFencesDisabled),
            Some(FenceKind::Native) => Self::create_native(device, &options),
            None if native => Self::create_native(device, &options),
            _ => Self::create_monitored(device, &options),
        }?;
        let made = Self::made(device, answer, options.sharing != Sharing::Private, options.access);
        made.ok_or(Error::BadAnswer("the operating system created a fence without addresses"))
    }

    fn create_native(device: &Device, options: &FenceOptions) -> Result<Answer> {
        let mut create = D3DKMT_CREATENATIVEFENCE::zeroed();
        create.hDevice = device.handle();
        create.Info.InitialFenceValue = options.initial;
        create.Info.EngineAffinity = FIRST_ADAPTER;
        create.Info.Type = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_DEFAULT;
        create.Info.Flags = options.flags();
        create.PrivateDriverData = FenceData { magic: MAGIC, purpose: options.purpose }.to_bytes();
        invoke!(device.thunks(), D3DKMTCreateNativeFence, &mut create)?;
        Ok(Answer::native(create.hSyncObject, &create.Info.NativeFenceMapping, options.purpose))
    }

    fn create_monitored(device: &Device, options: &FenceOptions) -> Result<Answer> {
        let mut create = D3DKMT_CREATESYNCHRONIZATIONOBJECT2::zeroed();
        create.hDevice = device.handle();
        create.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
        create.Info.Flags = options.flags();
        let mut fence = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_MonitoredFence::zeroed();
        (fence.InitialFenceValue, fence.EngineAffinity) = (options.initial, FIRST_ADAPTER);
        create.Info.u.MonitoredFence = fence;
        invoke!(device.thunks(), D3DKMTCreateSynchronizationObject2, &mut create)?;
        // SAFETY: this arm was written above and is answered for the type asked; every bit pattern of it is a value.
        let made = unsafe { create.Info.u.MonitoredFence };
        Ok(Answer {
            kind: FenceKind::Monitored,
            handle: create.hSyncObject,
            value: made.FenceValueCPUVirtualAddress,
            current: made.FenceValueGPUVirtualAddress,
            monitored: 0,
            purpose: 0,
        })
    }

    /// Opens a shared fence on `device`, which lies on the fence's adapter, or on any if the fence is one of several adapters, by a kernel
    /// handle of this process; the handle stays the caller's. Everything that has the fence open sees one value. The opening has no right that the handle does not grant: ask
    /// for the access that it was shared with, for a signal that the system refuses faults the queue.
    ///
    /// The fence keeps its kind. One of several adapters is opened as a native fence where the adapter has them, and as a monitored one elsewhere.
    ///
    /// # Errors
    /// [`Error::Status`] with STATUS_INVALID_HANDLE if `handle` is no handle of a fence in this
    /// process, and with STATUS_INVALID_PARAMETER for a fence of another adapter alone; [`Error::BadAnswer`], [`Error::DeviceLost`].
    /// [d3dkmthk: D3DKMTOpenNativeFenceFromNtHandle, D3DKMTOpenSyncObjectFromNtHandle2]
    pub fn open(device: &Device, handle: HANDLE, access: Access) -> Result<Self> {
        let answer = if device.adapter().native_fences() {
            match open_native(device, handle, access) {
                // The handle does not say of which kind its fence is.
                Err(refusal @ Error::Status(STATUS_INVALID_PARAMETER, _)) => {
                    open_monitored(device, handle, access).map_err(|_| refusal)
                }
                opened => opened,
            }
        } else {
            open_monitored(device, handle, access)
        }?;
        let what = "the operating system opened a fence without addresses";
        Self::made(device, answer, true, access).ok_or(Error::BadAnswer(what))
    }

    /// The fence that the system answered; destroys it and gives `None` if the answer lacks an address.
    fn made(device: &Device, answer: Answer, shared: bool, access: Access) -> Option<Self> {
        let Answer { kind, handle, value, current, monitored, purpose } = answer;
        // SAFETY: the system maps the current value, 8 bytes and 8-aligned, until the fence is destroyed.
        let value = unsafe { SharedWord::new(value) };
        match value {
            Some(value) if current != 0 && current % 8 == 0 && monitored % 8 == 0 => {
                let (device, luid) = (device.clone(), device.adapter().luid());
                let inner = Inner { device, kind, handle, luid, value, current, monitored, shared, access, purpose };
                Some(Self { inner: Arc::new(inner) })
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
    /// [`Error::NotShared`] if it was created private; [`Error::WaitOnlyFence`] and [`Error::SignalOnlyFence`] for more access than this
    /// opening has; [`Error::Status`], [`Error::BadAnswer`], [`Error::DeviceLost`]. [d3dkmthk: D3DKMTShareObjects]
    pub fn share(&self, access: Access) -> Result<SharedHandle> {
        if !self.inner.shared {
            return Err(Error::NotShared);
        }
        if access != Access::Wait {
            self.check_signal()?;
        }
        if access != Access::Signal {
            self.check_wait()?;
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
    /// [`Error::Timeout`], [`Error::SignalOnlyFence`], [`Error::OutOfReach`], [`Error::DeviceLost`], [`Error::Status`].
    /// [d3dkmthk: D3DKMTWaitForSynchronizationObjectFromCpu]
    pub fn wait(&self, value: u64, timeout: Option<Duration>) -> Result<()> {
        self.check_wait()?;
        self.check_reach_up(value)?;
        wait(&self.inner.device, self.inner.handle, self.inner.value, value, timeout)
    }

    /// Waits until one of the fences, which are of one device, is at least at its value; `None` waits as long as the device lives. Enters the kernel only
    /// if none is.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for no fences; as [`Fence::wait`]. [d3dkmthk: D3DKMTWaitForSynchronizationObjectFromCpu]
    pub fn wait_any(fences: &[(Self, u64)], timeout: Option<Duration>) -> Result<()> {
        let Some((first, _)) = fences.first() else {
            return Err(Error::BadArgument("a wait for one of several fences names no fence"));
        };
        for (fence, value) in fences {
            fence.check_wait()?;
            fence.check_reach_up(*value)?;
        }
        let device = &first.inner.device;
        let reached = || fences.iter().find(|(fence, value)| fence.value() >= *value);
        if reached().is_none() {
            if timeout.is_some_and(|limit| limit.is_zero()) {
                return Err(Error::Timeout);
            }
            let event = Event::new()?;
            // One call of the thunk takes so many; all of them set the same event.
            for some in fences.chunks(WAIT_OBJECTS_MAX) {
                let (handles, values): (Vec<_>, Vec<_>) =
                    some.iter().map(|(fence, value)| (fence.handle(), *value)).unzip();
                device.wait_any_thunk(&handles, &values, event.handle())?;
            }
            let limit = timeout.unwrap_or(Duration::MAX);
            if !event.wait(limit)? && reached().is_none() {
                return Err(Error::Timeout);
            }
        }
        match reached() {
            Some((fence, value)) => device.reached(fence.inner.value, *value),
            None => {
                Err(device.explain(Error::BadAnswer("a wait for one of several fences ended before any had its value")))
            }
        }
    }

    /// Sets the value from the CPU and releases GPU and CPU waiters.
    ///
    /// # Errors
    /// [`Error::WaitOnlyFence`], [`Error::OutOfReach`], [`Error::Status`], [`Error::DeviceLost`]. [d3dkmthk: D3DKMTSignalSynchronizationObjectFromCpu]
    pub fn signal(&self, value: u64) -> Result<()> {
        self.signal_with(value, D3DDDICB_SIGNALFLAGS::new())
    }

    /// As [`Fence::signal`], with a value that may be smaller than the one before. Nobody may wait for the values in between any more.
    ///
    /// # Errors
    /// As [`Fence::signal`]. [d3dukmdt: D3DDDICB_SIGNALFLAGS::AllowFenceRewind]
    pub fn rewind(&self, value: u64) -> Result<()> {
        self.signal_with(value, D3DDDICB_SIGNALFLAGS::new().with_AllowFenceRewind(true))
    }

    fn signal_with(&self, value: u64, flags: D3DDDICB_SIGNALFLAGS) -> Result<()> {
        self.check_signal()?;
        self.check_reach(value)?;
        let (mut handle, mut value) = (self.inner.handle, value);
        let mut args = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
            hDevice: self.inner.device.handle(),
            ObjectCount: 1,
            ObjectHandleArray: &mut handle,
            FenceValueArray: &mut value,
            Flags: flags,
        };
        invoke!(self.inner.device.thunks(), D3DKMTSignalSynchronizationObjectFromCpu, &mut args)
    }

    /// Refuses a signal through a handle that may only wait.
    #[inline(always)]
    pub(crate) fn check_signal(&self) -> Result<()> {
        if self.inner.access != Access::Wait { Ok(()) } else { Err(Error::WaitOnlyFence) }
    }

    /// Refuses a wait through a handle that may only signal.
    #[inline(always)]
    pub(crate) fn check_wait(&self) -> Result<()> {
        if self.inner.access != Access::Signal { Ok(()) } else { Err(Error::SignalOnlyFence) }
    }

    /// Refuses a value to be signalled that a GPU which writes 32 bits cannot tell from another. For a signal in a command buffer only this
    /// check is early enough: the operating system sees the value when the GPU has written it.
    #[inline(always)]
    pub(crate) fn check_reach(&self, value: u64) -> Result<()> {
        if !self.is_32_bit() || self.value().abs_diff(value) <= REACH {
            Ok(())
        } else {
            self.look(value, u64::abs_diff)
        }
    }

    /// As [`Fence::check_reach`], for a value that is waited for: what is reached already is not outstanding.
    #[inline(always)]
    pub(crate) fn check_reach_up(&self, value: u64) -> Result<()> {
        if !self.is_32_bit() || value.saturating_sub(self.value()) <= REACH {
            return Ok(());
        }
        self.look(value, |last, value| value.saturating_sub(last))
    }

    /// True if the GPU writes only the lower 32 bits of its values.
    #[inline(always)]
    fn is_32_bit(&self) -> bool {
        self.inner.kind == FenceKind::Monitored && !self.inner.device.adapter().caps().atomics64()
    }

    /// Has the operating system update the value, whose upper half may be old, and measures the distance again.
    #[cold]
    fn look(&self, value: u64, distance: fn(u64, u64) -> u64) -> Result<()> {
        if self.inner.access != Access::Signal {
            self.inner.device.wait_thunk(self.inner.handle, 0, core::ptr::null_mut())?;
        }
        if distance(self.value(), value) <= REACH { Ok(()) } else { Err(Error::OutOfReach) }
    }

    /// Type of the fence in the operating system.
    pub fn kind(&self) -> FenceKind {
        self.inner.kind
    }

    /// The number that its creator gave it ([`FenceOptions::purpose`]); `None` for a monitored fence, whose kernel handle says nothing.
    pub fn purpose(&self) -> Option<u32> {
        (self.inner.kind == FenceKind::Native).then_some(self.inner.purpose)
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

    /// The current value, as a word that CPU and GPU share.
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
        let Inner { kind, handle, current, monitored, .. } = *self.inner;
        // To the GPU a monitored fence is a word that it writes; the handle would make it a native one.
        let handle = if kind == FenceKind::Native { handle } else { 0 };
        packet::Signal { handle, current, monitored, value }
    }

    #[inline]
    pub(crate) fn wait_packet(&self, value: u64) -> packet::Wait {
        packet::Wait { handle: self.inner.handle, current: self.inner.current, value }
    }
}

impl Answer {
    fn native(handle: D3DKMT_HANDLE, mapping: &D3DDDI_NATIVEFENCEMAPPING, purpose: u32) -> Self {
        Self {
            kind: FenceKind::Native,
            handle,
            value: mapping.CurrentValueCpuVa,
            current: mapping.CurrentValueGpuVa,
            monitored: mapping.MonitoredValueGpuVa,
            purpose,
        }
    }
}

fn open_native(device: &Device, handle: HANDLE, access: Access) -> Result<Answer> {
    let mut open = D3DKMT_OPENNATIVEFENCEFROMNTHANDLE::zeroed();
    open.hNtHandle = handle;
    open.hDevice = device.handle();
    open.EngineAffinity = FIRST_ADAPTER;
    open.Flags = access.limit(shared_flags());
    open.PrivateDriverData = FenceData { magic: MAGIC, purpose: 0 }.to_bytes();
    invoke!(device.thunks(), D3DKMTOpenNativeFenceFromNtHandle, &mut open)?;
    let data = FenceData::from_bytes(&open.PrivateDriverData);
    Ok(Answer::native(open.hSyncObject, &open.NativeFenceMapping, data.purpose))
}

fn open_monitored(device: &Device, handle: HANDLE, access: Access) -> Result<Answer> {
    let mut open = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2::zeroed();
    open.hNtHandle = handle;
    open.hDevice = device.handle();
    open.Flags = access.limit(shared_flags());
    open.u.MonitoredFence.EngineAffinity = FIRST_ADAPTER;
    invoke!(device.thunks(), D3DKMTOpenSyncObjectFromNtHandle2, &mut open)?;
    // SAFETY: this arm is the one that is answered; every bit pattern of it is a value.
    let made = unsafe { open.u.MonitoredFence };
    Ok(Answer {
        kind: FenceKind::Monitored,
        handle: open.hSyncObject,
        value: made.FenceValueCPUVirtualAddress,
        current: made.FenceValueGPUVirtualAddress,
        monitored: 0,
        purpose: 0,
    })
}

impl Drop for Inner {
    fn drop(&mut self) {
        destroy(&self.device, self.handle);
    }
}

fn destroy(device: &Device, handle: D3DKMT_HANDLE) {
    let mut args = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject: handle };
    device.adapter().count_teardown(call!(device.thunks(), D3DKMTDestroySynchronizationObject, &mut args));
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
