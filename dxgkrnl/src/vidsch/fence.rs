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
//! A fence of several adapters is one of these on each of them, see [`super::cross_adapter`].
//!
//! Processes use a fence through what they have open of it ([`SyncObject`]); it lives as long as one of these, or a kernel
//! handle of it, is left. [native-gpu-fence-objects: global and local handles]

use std::sync::{Arc, Weak};

use nt::lock::{Mutex, MutexGuard, lock};
use wddm_ddi::status::*;

use crate::kmd_handle::KmdHandle;
use crate::rank;
use crate::refusal::{Failure, refused};
use crate::vidmm::Protection;
use crate::vidsch::RenderAdapter;

use super::VidSch;
use super::batch;
use super::cross_adapter::{self, CrossAdapter};
use super::fence32::Fence32;
use super::native_fence::FenceOptions;
use super::storage::{FenceKind, Frames, Home, View, Word};
use super::sync_object::SyncObject;
use crate::fence::{MonitoredWaits, Values};

/// Waiters of a fence, and the conditions under which further ones are accepted.
pub(super) struct Waits {
    pub(super) watch: MonitoredWaits,
    /// Nobody can wait any more.
    pub(super) closed: bool,
    /// Every condition is true for good: the devices are lost.
    pub(super) always_signaled: bool,
    /// The scheduler looks at the fence when a report names none; always at one of several adapters, or with a 32-bit value.
    pub(super) watched: bool,
}

/// A process by its address, and how its GPU has the current value; `None` if it does not.
type Viewer = (usize, Option<Protection>);

/// How the fence is opened and closed, which the driver and the memory manager take part in.
#[derive(Default)]
struct Opens {
    /// Pages as processes see them.
    views: Vec<(Viewer, Weak<View>)>,
    /// Open instances and kernel handles; the last one destroys the fence.
    references: usize,
}

/// A fence.
pub(crate) struct Fence {
    adapter: Arc<RenderAdapter>,
    /// Our handle; the driver gets that of a native fence.
    system: KmdHandle,
    /// The driver's handle of a native fence.
    global: Option<KmdHandle>,
    kind: FenceKind,
    /// Other processes may open it.
    shareable: bool,
    /// The value stays as it is when the devices are lost.
    keeps_value: bool,
    /// True if waits continue when the handle is closed through which they were made (UnwaitCpuWaitersOnlyOnDestroy).
    waiters_stay: bool,
    /// State that the fence shares with its counterparts on other adapters; `None` for a fence of one adapter.
    cross: Option<Arc<CrossAdapter>>,
    current: Word,
    /// The whole value, where the GPU writes the low half of `current` only.
    fence32: Option<Fence32>,
    monitored: Word,
    /// Byte offset of both values on their pages.
    offset: u64,
    /// `None` once the fence is destroyed.
    home: Mutex<Option<Home>, rank::FenceHome>,
    /// Held while the fence is opened, closed and destroyed on the driver.
    opens: Mutex<Opens, rank::FenceOpens>,
    /// Where it is open. A lock of its own: interrupts ask for it, and whoever opens or closes the fence may wait for one.
    open_objects: Mutex<Vec<Weak<SyncObject>>>,
    /// Several are locked by `system`. Never taken at device level.
    waits: Mutex<Waits, rank::FenceWaits>,
}

impl Values for Fence {
    fn current(&self) -> u64 {
        Self::current(self)
    }

    fn write_monitored(&self, value: u64) {
        batch::write_monitored(&[(self, value)]);
    }
}

impl Fence {
    pub(super) fn new(
        adapter: &Arc<RenderAdapter>,
        system: KmdHandle,
        global: Option<KmdHandle>,
        kind: FenceKind,
        home: Home,
        options: FenceOptions,
        cross: Option<&Arc<CrossAdapter>>,
    ) -> Arc<Self> {
        let watch =
            if cross.is_some() { MonitoredWaits::fixed(cross_adapter::MONITORED) } else { MonitoredWaits::new() };
        let fence32 = (cross.is_none() && !adapter.has_64_bit_fences()).then(|| Fence32::new(options.initial));
        let watched = cross.is_some() || fence32.is_some();
        let fence = Arc::new(Self {
            adapter: Arc::clone(adapter),
            system,
            global,
            kind,
            shareable: options.shareable,
            keeps_value: options.keeps_value,
            waiters_stay: options.waiters_stay,
            cross: cross.cloned(),
            current: home.current(),
            fence32,
            monitored: home.monitored(),
            offset: home.offset(),
            home: Mutex::new(Some(home)),
            opens: Mutex::default(),
            open_objects: Mutex::default(),
            waits: Mutex::new(Waits { watch, closed: false, always_signaled: false, watched }),
        });
        adapter.vidsch().fences.publish(system, &fence);
        if watched {
            adapter.vidsch().watch(&fence);
        }
        fence
    }

    /// The adapter.
    pub(crate) fn adapter(&self) -> &Arc<RenderAdapter> {
        &self.adapter
    }

    pub(super) fn sch(&self) -> &Arc<VidSch> {
        self.adapter.vidsch()
    }

    /// Our handle.
    pub(super) fn system(&self) -> KmdHandle {
        self.system
    }

    /// The driver's handle; `None` for a monitored fence.
    pub(super) fn global(&self) -> Option<KmdHandle> {
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
    pub(super) fn waiters_stay(&self) -> bool {
        self.waiters_stay
    }

    /// True if a CPU may wait for it and signal it.
    pub(crate) fn is_for_cpu(&self) -> bool {
        self.kind != FenceKind::IntraGpu
    }

    /// Whether current and monitored value lie in local memory; neither does for a fence that is destroyed.
    pub(super) fn is_local(&self) -> (bool, bool) {
        lock(&self.home).as_ref().map_or((false, false), Home::is_local)
    }

    /// True if one of its values lies in memory of the device.
    pub(crate) fn is_on_device(&self) -> bool {
        let (current, monitored) = self.is_local();
        current || monitored
    }

    /// State that the fence shares with its counterparts on other adapters; `None` for a fence of one adapter.
    pub(super) fn cross_adapter(&self) -> Option<&Arc<CrossAdapter>> {
        self.cross.as_ref()
    }

    /// True if the driver knows it no more.
    pub(super) fn is_destroyed(&self) -> bool {
        lock(&self.home).is_none()
    }

    /// CurrentValue.
    pub(crate) fn current(&self) -> u64 {
        self.fence32.as_ref().map_or_else(|| self.current.load(), |fence32| fence32.load(&self.current))
    }

    /// The processor writes the CurrentValue of a monitored fence.
    pub(super) fn write_current(&self, value: u64) {
        match &self.fence32 {
            Some(fence32) => fence32.store(&self.current, value),
            None => self.current.store(value),
        }
    }

    /// True if the GPU writes 32 bits of the value at once.
    pub(super) fn has_32_bits(&self) -> bool {
        self.fence32.is_some()
    }

    /// True if the scheduler looks at it though nobody waits here.
    fn is_always_watched(&self) -> bool {
        self.cross.is_some() || self.has_32_bits()
    }

    /// CurrentValue where the kernel finds it.
    pub(super) fn current_word(&self) -> &Word {
        &self.current
    }

    /// MonitoredValue where the kernel finds it.
    pub(super) fn monitored_word(&self) -> &Word {
        &self.monitored
    }

    /// Byte offset of both values on their pages.
    pub(super) fn offset(&self) -> u64 {
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
    pub(super) fn waited(&self) -> Option<(u64, usize)> {
        let waits = self.lock_waits();
        waits.watch.list.least().map(|value| (value, waits.watch.list.len()))
    }

    pub(super) fn lock_waits(&self) -> MutexGuard<'_, Waits, rank::FenceWaits> {
        self.waits.lock_in_order(self.system.raw().addr() as u64)
    }

    /// True if the fence has reached `value`.
    pub(crate) fn is_reached(&self, value: u64) -> bool {
        self.current() >= value || self.lock_waits().always_signaled
    }

    /// Forgets waits that are over for another reason.
    pub(super) fn remove_over(&self) {
        let mut waits = self.lock_waits();
        waits.watch.list.remove_over();
        self.settle(&mut waits);
    }

    /// CurrentValue may have changed: wakes those whose value is reached. Returns how many conditions came true.
    pub(super) fn evaluate(&self) -> usize {
        let mut waits = self.lock_waits();
        self.settle(&mut waits)
    }

    /// MonitoredValue may have been lost: writes it again.
    pub(super) fn renew(&self) {
        let mut waits = self.lock_waits();
        if !self.is_destroyed() {
            batch::write_monitored(&[(self, waits.watch.monitored())]);
            self.settle(&mut waits);
        }
    }

    /// CurrentValue was written by another adapter: the GPU of this one looks at the queues that wait for it, and whose value is
    /// reached is woken.
    pub(super) fn written_elsewhere(&self) {
        let mut waits = self.lock_waits();
        // Destroyed under this lock, so that the driver knows the handle until it is released.
        if !self.is_destroyed() {
            batch::notify(self);
            self.settle(&mut waits);
        }
    }

    pub(super) fn settle(&self, waits: &mut Waits) -> usize {
        let woken = waits.watch.settle(self);
        self.look_after(waits);
        woken
    }

    /// The least value that somebody waits for, while it is reached.
    pub(super) fn overdue(&self) -> Option<u64> {
        let waits = self.lock_waits();
        waits.watch.list.least().filter(|least| !waits.closed && *least <= self.current())
    }

    /// True if somebody waits for a value that it does not have.
    pub(crate) fn is_awaited(&self) -> bool {
        let waits = self.lock_waits();
        !waits.closed && waits.watch.list.least().is_some_and(|least| least > self.current())
    }

    /// True if somebody waits for it.
    pub(super) fn is_watched(&self) -> bool {
        self.lock_waits().watched
    }

    /// The scheduler need not look at a fence that nobody waits for.
    pub(super) fn look_after(&self, waits: &mut Waits) {
        if waits.watched && waits.watch.list.len() == 0 && (!self.is_always_watched() || waits.closed) {
            waits.watched = false;
            self.sch().unwatch(self);
        }
    }

    /// Nobody can wait any more; waiters are released with `status`.
    fn end(&self, status: NTSTATUS) {
        let mut waits = self.lock_waits();
        waits.closed = true;
        for wait in waits.watch.list.take_all() {
            wait.finish(status);
        }
        self.settle(&mut waits);
    }

    /// A device on which the fence is open is lost. When all are, on every adapter, GPU waits on the fence fall through from
    /// now on, unless it was to keep its value; until then it still serves the others.
    pub(super) fn device_lost(&self) {
        if self.keeps_value {
            return;
        }
        let members = self.cross.as_ref().map(|cross| cross.members()).unwrap_or_default();
        let used = |fence: &Self| fence.opened().iter().any(|open| !open.is_ended());
        if used(self) || members.iter().any(|member| used(member)) {
            return;
        }
        self.fall_through();
        for member in members {
            member.fall_through();
        }
    }

    /// GPU waits on the fence fall through from now on: nobody is left who could signal it.
    pub(super) fn fall_through(&self) {
        let mut waits = self.lock_waits();
        if !waits.always_signaled && !self.is_destroyed() {
            waits.always_signaled = true;
            batch::write_always_signaled(self);
            // Queues that the kernel holds wait here.
            self.settle(&mut waits);
        }
    }

    /// Everything that is open of it.
    pub(super) fn opened(&self) -> Vec<Arc<SyncObject>> {
        lock(&self.open_objects).iter().filter_map(Weak::upgrade).collect()
    }

    /// Opens the fence: `open` gets the pages as `viewer` sees them, a process by its address and how its GPU has the
    /// current value; from `map` if nobody has them yet.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if the fence is destroyed; what `map` and `open` answered.
    pub(super) fn open(
        &self,
        viewer: Viewer,
        map: impl FnOnce(&Arc<Frames>) -> Result<Arc<View>, Failure>,
        open: impl FnOnce(Arc<View>) -> Result<Arc<SyncObject>, Failure>,
    ) -> Result<Arc<SyncObject>, Failure> {
        let mut opens = lock(&self.opens);
        let frames = lock(&self.home).as_ref().map(|home| Arc::clone(home.frames()));
        let frames = frames.ok_or(STATUS_INVALID_HANDLE)?;
        opens.views.retain(|(_, view)| view.strong_count() > 0);
        let known = opens.views.iter().find(|(owner, _)| *owner == viewer).and_then(|(_, view)| view.upgrade());
        let view = match known {
            Some(view) => view,
            None => {
                let view = map(&frames)?;
                opens.views.push((viewer, Arc::downgrade(&view)));
                view
            }
        };
        let opened = open(view)?;
        lock(&self.open_objects).push(Arc::downgrade(&opened));
        opens.references += 1;
        Ok(opened)
    }

    /// Takes something open away: `close` does so on the driver, and says whether that was still to be done. The last
    /// reference destroys the fence.
    pub(super) fn close(&self, close: impl FnOnce() -> bool) {
        let mut opens = lock(&self.opens);
        if !close() {
            return;
        }
        // An object is freed outside of the lock that looks at it.
        let open: Vec<_> = self.opened().into_iter().filter(|open| !open.is_closed()).collect();
        *lock(&self.open_objects) = open.iter().map(Arc::downgrade).collect();
        self.release(&mut opens);
    }

    fn release(&self, opens: &mut Opens) {
        opens.references = opens.references.saturating_sub(1);
        if opens.references == 0 {
            self.destroy();
        }
    }

    /// Destroys the fence on the driver, if that has not happened.
    fn destroy(&self) {
        self.end(STATUS_CANCELLED);
        let taken = {
            // Whoever still writes through the driver's handle holds this lock.
            let _waits = self.lock_waits();
            lock(&self.home).take()
        };
        let Some(home) = taken else { return };
        if let Some(global) = self.global {
            super::native_fence::destroy_global(&self.adapter, global);
        }
        // A report of the handle from now on is a broken contract.
        self.sch().fences.retire(self.system);
        if let Some(cross) = &self.cross {
            cross.remove(self);
        }
        home.release();
        if let Some(cross) = &self.cross {
            // What the GPU here signalled last is reported under a name that nobody knows any more.
            cross.tell();
        }
    }

    /// The adapter stops: the fence leaves the driver whatever kernel handles there are. They can be closed later.
    pub(super) fn abandon(&self) {
        for open in self.opened() {
            open.end(STATUS_DEVICE_REMOVED);
            open.destroy();
        }
        // Waits of those who have closed it end, too.
        self.end(STATUS_DEVICE_REMOVED);
        let _opens = lock(&self.opens);
        self.destroy();
    }
}

/// What a kernel handle of a fence stands for: the fence exists as long as this.
pub(crate) enum SharedFence {
    /// A fence of one adapter.
    OneAdapter(Reference),
    /// The value of a fence of several adapters, whether or not it is open on one of them.
    CrossAdapter(Arc<CrossAdapter>),
}

/// A reference to a fence beside those of the processes that have it open.
pub(crate) struct Reference(Arc<Fence>);

impl SharedFence {
    /// Another reference to `fence`.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if the fence is destroyed; STATUS_INVALID_PARAMETER if it is not made to be shared.
    pub(crate) fn new(fence: &Arc<Fence>) -> Result<Arc<Self>, Failure> {
        if !fence.is_shareable() {
            return Err(refused(STATUS_INVALID_PARAMETER, "the fence was not created with Flags.Shared"));
        }
        let reference = Reference::new(fence)?;
        // The reference goes when the value has been found: it is alive without a member on this adapter.
        Ok(Arc::new(match &fence.cross {
            Some(cross) => Self::CrossAdapter(Arc::clone(cross)),
            None => Self::OneAdapter(reference),
        }))
    }
}

impl Reference {
    /// Another reference to `fence`, on its own adapter.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if the fence is destroyed.
    pub(super) fn new(fence: &Arc<Fence>) -> Result<Self, NTSTATUS> {
        let mut opens = lock(&fence.opens);
        if fence.is_destroyed() {
            return Err(STATUS_INVALID_HANDLE);
        }
        opens.references += 1;
        Ok(Self(Arc::clone(fence)))
    }

    /// The fence.
    pub(crate) fn fence(&self) -> &Arc<Fence> {
        &self.0
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let mut opens = lock(&self.0.opens);
        self.0.release(&mut opens);
    }
}
