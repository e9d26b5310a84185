//! A fence as the adapter has it: two values in shared memory, and the CPU waits on them.
//!
//! Two kinds share everything but their end towards the driver. A *native* fence has a MonitoredValue that the driver
//! compares with, so that only signals somebody waits for interrupt. A *monitored* fence has none: its interrupt says
//! that some fence was written, and every waiter is looked at.
//!
//! The race between a CPU that starts to wait and a GPU that signals is settled in [`MonitoredWaits`]: write MonitoredValue
//! (through the driver, at device level), then read CurrentValue again. [native-gpu-fence-objects: synchronization between
//! GPU and CPU]
//!
//! A fence of several adapters is one of these on each of them, see [`cross_adapter`](crate::vidsch::fences::cross_adapter).
//!
//! Processes use a fence through what they have open of it ([`SyncObject`]); it lives as long as one of these, or a kernel
//! handle of it, is left. [native-gpu-fence-objects: global and local handles]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use nt::lock::{Mutex, MutexGuard, lock};
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::account::Upkeep;
use crate::fence::{MonitoredWaits, Rights, Wait};
use crate::kmd_handle::KmdHandle;
use crate::rank;
use crate::vidmm::{FencePage, Protection};

use super::fence_options::FenceOptions;
use super::fence32::Fence32;
use super::process_adapter::LingeringWaits;
use super::render_adapter::RenderAdapter;
use super::storage::{FenceKind, GpuAddresses, Home, View, Word};

/// Waiters of a fence, and the conditions under which further ones are accepted.
pub(in crate::vidsch) struct Waits {
    pub(in crate::vidsch) watch: MonitoredWaits,
    /// Nobody can wait any more.
    pub(in crate::vidsch) closed: bool,
    /// Every condition is true for good: the devices are lost.
    pub(in crate::vidsch) always_signaled: bool,
    /// The scheduler looks at the fence when a report names none; always at one of several adapters, or with a 32-bit value.
    pub(in crate::vidsch) watched: bool,
}

/// A process by its address, and how its GPU has the current value; `None` if it does not.
pub(in crate::vidsch) type Viewer = (usize, Option<Protection>);

/// How the fence is opened and closed, which the driver and the memory manager take part in.
#[derive(Default)]
pub(in crate::vidsch) struct Opens {
    /// Pages as processes see them.
    pub(in crate::vidsch) views: Vec<(Viewer, Weak<View>)>,
    /// Open instances and kernel handles; the last one destroys the fence.
    pub(in crate::vidsch) references: usize,
}

/// A fence.
pub(crate) struct Fence {
    pub(in crate::vidsch) adapter: Arc<RenderAdapter>,
    /// Our handle; the driver gets that of a native fence.
    pub(in crate::vidsch) system: KmdHandle,
    /// The driver's handle of a native fence.
    pub(in crate::vidsch) global: Option<KmdHandle>,
    pub(in crate::vidsch) kind: FenceKind,
    /// Other processes may open it.
    pub(in crate::vidsch) shareable: bool,
    /// The value stays as it is when the devices are lost.
    pub(in crate::vidsch) keeps_value: bool,
    /// True if waits continue when the handle is closed through which they were made (UnwaitCpuWaitersOnlyOnDestroy).
    pub(in crate::vidsch) waiters_stay: bool,
    /// State that the fence shares with its counterparts on other adapters; `None` for a fence of one adapter.
    pub(in crate::vidsch) cross: Option<Arc<CrossAdapter>>,
    pub(in crate::vidsch) current: Word,
    /// The whole value, where the GPU writes the low half of `current` only.
    pub(in crate::vidsch) fence32: Option<Fence32>,
    pub(in crate::vidsch) monitored: Word,
    /// Byte offset of both values on their pages.
    pub(in crate::vidsch) offset: u64,
    /// `None` once the fence is destroyed.
    pub(in crate::vidsch) home: Mutex<Option<Home>, rank::FenceHome>,
    /// Held while the fence is opened, closed and destroyed on the driver.
    pub(in crate::vidsch) opens: Mutex<Opens, rank::FenceOpens>,
    /// Where it is open. A lock of its own: interrupts ask for it, and whoever opens or closes the fence may wait for one.
    pub(in crate::vidsch) open_objects: Mutex<Vec<Weak<SyncObject>>>,
    /// Several are locked by `system`. Never taken at device level.
    pub(in crate::vidsch) waits: Mutex<Waits, rank::FenceWaits>,
}

/// The waiters through this instance, and whether there may be new ones.
#[derive(Default)]
pub(in crate::vidsch) struct State {
    /// The status of every later wait and signal, once the object is closed or its device lost; `None` before.
    pub(in crate::vidsch) ended: Option<NTSTATUS>,
    pub(in crate::vidsch) waiters: Vec<Weak<Wait>>,
}

/// An open fence.
pub(crate) struct SyncObject {
    pub(in crate::vidsch) fence: Arc<Fence>,
    /// Identity of the device it was opened on.
    pub(in crate::vidsch) device: u64,
    /// The driver's handle of a native fence in this process.
    pub(in crate::vidsch) local: Option<KmdHandle>,
    /// The fence reports the progress of a queue and goes with it.
    pub(in crate::vidsch) of_queue: bool,
    pub(in crate::vidsch) user_address: usize,
    pub(in crate::vidsch) gpu: GpuAddresses,
    /// `None` once it is closed.
    pub(in crate::vidsch) view: Mutex<Option<Arc<View>>>,
    pub(in crate::vidsch) state: Mutex<State>,
    pub(in crate::vidsch) rights: Rights,
    /// Process and handle, once it has one.
    pub(in crate::vidsch) name: OnceLock<(u64, D3DKMT_HANDLE)>,
    /// True if waits through this handle continue when it is closed (UnwaitCpuWaitersOnlyOnDestroy).
    pub(in crate::vidsch) waiters_stay: AtomicBool,
    /// Those of the process that do.
    pub(in crate::vidsch) lingering: Arc<LingeringWaits>,
}

/// MonitoredValue of a member: every signal interrupts.
pub(in crate::vidsch) const MONITORED: u64 = 0;

/// State that the members of a cross-adapter fence share.
pub(crate) struct CrossAdapter {
    /// Order in which several are locked.
    pub(in crate::vidsch) number: u64,
    pub(in crate::vidsch) current: Arc<FencePage>,
    pub(in crate::vidsch) upkeep: Arc<Upkeep>,
    /// Properties of the members.
    pub(in crate::vidsch) options: FenceOptions,
    /// Held while the fence is opened on an adapter, so that it has one member of a kind there.
    pub(in crate::vidsch) making: Mutex<(), rank::MakingCrossAdapterFence>,
    /// Held while the processor signals. Several are locked by `number`.
    pub(in crate::vidsch) signalling: Mutex<(), rank::CrossAdapterSignal>,
    pub(in crate::vidsch) members: Mutex<Vec<Weak<Fence>>>,
    /// The value that the members were last told of.
    pub(in crate::vidsch) told: AtomicU64,
}

impl Fence {
    /// The adapter.
    pub(crate) fn adapter(&self) -> &Arc<RenderAdapter> {
        &self.adapter
    }

    /// Our handle.
    pub(in crate::vidsch) fn system(&self) -> KmdHandle {
        self.system
    }

    /// The driver's handle; `None` for a monitored fence.
    pub(in crate::vidsch) fn global(&self) -> Option<KmdHandle> {
        self.global
    }

    /// True if the driver compares with a MonitoredValue.
    pub(crate) fn is_native(&self) -> bool {
        self.global.is_some()
    }

    /// True if other processes may open it.
    pub(crate) fn is_shareable(&self) -> bool {
        self.shareable
    }

    /// True if waits continue when the handle is closed through which they were made.
    pub(in crate::vidsch) fn waiters_stay(&self) -> bool {
        self.waiters_stay
    }

    /// True if a CPU may wait for it and signal it.
    pub(crate) fn is_for_cpu(&self) -> bool {
        self.kind != FenceKind::IntraGpu
    }

    /// True if current and monitored value lie in local memory; neither does for a fence that is destroyed.
    pub(in crate::vidsch) fn is_local(&self) -> (bool, bool) {
        lock(&self.home).as_ref().map_or((false, false), Home::is_local)
    }

    /// True if one of its values lies in memory of the device.
    pub(crate) fn is_on_device(&self) -> bool {
        let (current, monitored) = self.is_local();
        current || monitored
    }

    /// State that the fence shares with its counterparts on other adapters; `None` for a fence of one adapter.
    pub(in crate::vidsch) fn cross_adapter(&self) -> Option<&Arc<CrossAdapter>> {
        self.cross.as_ref()
    }

    /// Descriptors, bytes and numbers that one takes that may be shared; `None` for another one, and once it is destroyed.
    pub(in crate::vidsch) fn upkeep(&self) -> Option<Arc<Upkeep>> {
        lock(&self.home).as_ref().and_then(Home::upkeep)
    }

    /// True if the driver knows it no more.
    pub(in crate::vidsch) fn is_destroyed(&self) -> bool {
        lock(&self.home).is_none()
    }

    /// CurrentValue.
    pub(crate) fn current(&self) -> u64 {
        self.fence32.as_ref().map_or_else(|| self.current.load(), |fence32| fence32.load(&self.current))
    }

    /// The processor writes the CurrentValue of a monitored fence.
    pub(in crate::vidsch) fn write_current(&self, value: u64) {
        match &self.fence32 {
            Some(fence32) => fence32.store(&self.current, value),
            None => self.current.store(value),
        }
    }

    /// True if the GPU writes 32 bits of the value at once.
    pub(in crate::vidsch) fn has_32_bits(&self) -> bool {
        self.fence32.is_some()
    }

    /// True if the scheduler looks at it though nobody waits here.
    pub(in crate::vidsch) fn is_always_watched(&self) -> bool {
        self.cross.is_some() || self.has_32_bits()
    }

    /// CurrentValue where the kernel finds it.
    pub(in crate::vidsch) fn current_word(&self) -> &Word {
        &self.current
    }

    /// MonitoredValue where the kernel finds it.
    pub(in crate::vidsch) fn monitored_word(&self) -> &Word {
        &self.monitored
    }

    /// Byte offset of both values on their pages.
    pub(in crate::vidsch) fn offset(&self) -> u64 {
        self.offset
    }

    /// MonitoredValue as the driver was told.
    pub(crate) fn monitored(&self) -> u64 {
        self.lock_waits().watch.monitored()
    }

    /// Conditions that are waited for.
    pub(crate) fn waiters(&self) -> usize {
        self.lock_waits().watch.list.len()
    }

    /// The least value that is waited for, and the number of conditions; `None` if nobody waits.
    pub(in crate::vidsch) fn waited(&self) -> Option<(u64, usize)> {
        let waits = self.lock_waits();
        waits.watch.list.least().map(|value| (value, waits.watch.list.len()))
    }

    pub(in crate::vidsch) fn lock_waits(&self) -> MutexGuard<'_, Waits, rank::FenceWaits> {
        self.waits.lock_in_order(self.system.raw().addr() as u64)
    }

    /// True if the fence has reached `value`.
    pub(crate) fn is_reached(&self, value: u64) -> bool {
        self.current() >= value || self.lock_waits().always_signaled
    }

    /// The least value that somebody waits for, while it is reached.
    pub(in crate::vidsch) fn overdue(&self) -> Option<u64> {
        let waits = self.lock_waits();
        waits.watch.list.least().filter(|least| !waits.closed && *least <= self.current())
    }

    /// True if somebody waits for a value that it does not have.
    pub(crate) fn is_awaited(&self) -> bool {
        let waits = self.lock_waits();
        !waits.closed && waits.watch.list.least().is_some_and(|least| least > self.current())
    }

    /// True if somebody waits for it.
    pub(in crate::vidsch) fn is_watched(&self) -> bool {
        self.lock_waits().watched
    }

    /// Everything that is open of it.
    pub(in crate::vidsch) fn opened(&self) -> Vec<Arc<SyncObject>> {
        lock(&self.open_objects).iter().filter_map(Weak::upgrade).collect()
    }
}

impl CrossAdapter {
    /// The fence on each adapter that has it.
    pub(in crate::vidsch) fn members(&self) -> Vec<Arc<Fence>> {
        lock(&self.members).iter().filter_map(Weak::upgrade).collect()
    }

    /// The member is gone.
    pub(in crate::vidsch) fn remove(&self, member: &Fence) {
        lock(&self.members).retain(|other| !core::ptr::eq(other.as_ptr(), member) && other.strong_count() > 0);
    }

    /// The value that the members were last told of, if that is not `current`.
    pub(in crate::vidsch) fn behind(&self, current: u64) -> Option<u64> {
        Some(self.told.load(Ordering::Acquire)).filter(|told| *told != current)
    }
}
