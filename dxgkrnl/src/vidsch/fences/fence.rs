//! A fence is created, wakes its waiters, and is destroyed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use crate::fence::{MonitoredWaits, Values};
use crate::kmd_handle::KmdHandle;
use crate::refusal::Failure;

use super::{native_fence, values};
use crate::vidsch::objects::fence::{CrossAdapter, Fence, MONITORED, Opens, SyncObject, Viewer, Waits};
use crate::vidsch::objects::fence_options::FenceOptions;
use crate::vidsch::objects::fence32::Fence32;
use crate::vidsch::objects::render_adapter::RenderAdapter;
use crate::vidsch::objects::storage::{FenceKind, Frames, Home, View};

impl Fence {
    pub(in crate::vidsch) fn new(
        adapter: &Arc<RenderAdapter>,
        system: KmdHandle,
        global: Option<KmdHandle>,
        kind: FenceKind,
        home: Home,
        options: FenceOptions,
        cross: Option<&Arc<CrossAdapter>>,
    ) -> Arc<Self> {
        let watch = if cross.is_some() { MonitoredWaits::fixed(MONITORED) } else { MonitoredWaits::new() };
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
}

impl Values for Fence {
    fn current(&self) -> u64 {
        Self::current(self)
    }

    fn write_monitored(&self, value: u64) {
        values::write_monitored(&[(self, value)]);
    }
}

impl Fence {
    /// Forgets waits that are over for another reason.
    pub(in crate::vidsch) fn remove_over(&self) {
        let mut waits = self.lock_waits();
        waits.watch.list.remove_over();
        self.settle(&mut waits);
    }

    /// CurrentValue may have changed: wakes those whose value is reached. Returns how many conditions came true.
    pub(in crate::vidsch) fn evaluate(&self) -> usize {
        let mut waits = self.lock_waits();
        self.settle(&mut waits)
    }

    /// MonitoredValue may have been lost: writes it again.
    pub(in crate::vidsch) fn renew(&self) {
        let mut waits = self.lock_waits();
        if !self.is_destroyed() {
            values::write_monitored(&[(self, waits.watch.monitored())]);
            self.settle(&mut waits);
        }
    }

    /// CurrentValue was written by another adapter: the GPU of this one looks at the queues that wait for it, and whose value is
    /// reached is woken.
    pub(in crate::vidsch) fn written_elsewhere(&self) {
        let mut waits = self.lock_waits();
        // Destroyed under this lock, so that the driver knows the handle until it is released.
        if !self.is_destroyed() {
            values::notify(self);
            self.settle(&mut waits);
        }
    }

    pub(in crate::vidsch) fn settle(&self, waits: &mut Waits) -> usize {
        let woken = waits.watch.settle(self);
        self.look_after(waits);
        woken
    }

    /// The scheduler need not look at a fence that nobody waits for.
    pub(in crate::vidsch) fn look_after(&self, waits: &mut Waits) {
        if waits.watched && waits.watch.list.len() == 0 && (!self.is_always_watched() || waits.closed) {
            waits.watched = false;
            self.sch().unwatch(self);
        }
    }

    /// Nobody can wait any more; waiters are released with `status`.
    pub(in crate::vidsch) fn end(&self, status: NTSTATUS) {
        let mut waits = self.lock_waits();
        waits.closed = true;
        for wait in waits.watch.list.take_all() {
            wait.finish(status);
        }
        self.settle(&mut waits);
    }

    /// A device on which the fence is open is lost. When all are, on every adapter, GPU waits on the fence fall through from
    /// now on, unless it was to keep its value; until then it still serves the others.
    pub(in crate::vidsch) fn device_lost(&self) {
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
    pub(in crate::vidsch) fn fall_through(&self) {
        let mut waits = self.lock_waits();
        if !waits.always_signaled && !self.is_destroyed() {
            waits.always_signaled = true;
            values::write_always_signaled(self);
            // Queues that the kernel holds wait here.
            self.settle(&mut waits);
        }
    }

    /// Opens the fence: `open` gets the pages as `viewer` sees them, a process by its address and how its GPU has the
    /// current value; from `map` if nobody has them yet.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if the fence is destroyed; what `map` and `open` answered.
    pub(in crate::vidsch) fn open(
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
    pub(in crate::vidsch) fn close(&self, close: impl FnOnce() -> bool) {
        let mut opens = lock(&self.opens);
        if !close() {
            return;
        }
        // An object is freed outside of the lock that looks at it.
        let open: Vec<_> = self.opened().into_iter().filter(|open| !open.is_closed()).collect();
        *lock(&self.open_objects) = open.iter().map(Arc::downgrade).collect();
        self.release(&mut opens);
    }

    pub(in crate::vidsch) fn release(&self, opens: &mut Opens) {
        opens.references = opens.references.saturating_sub(1);
        if opens.references == 0 {
            self.destroy();
        }
    }

    /// Destroys the fence on the driver, if that has not happened.
    pub(in crate::vidsch) fn destroy(&self) {
        self.end(STATUS_CANCELLED);
        let taken = {
            // Whoever still writes through the driver's handle holds this lock.
            let _waits = self.lock_waits();
            lock(&self.home).take()
        };
        let Some(home) = taken else { return };
        if let Some(global) = self.global {
            native_fence::destroy_global(&self.adapter, global);
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
}

impl CrossAdapter {
    /// Tells every member that the value may have been written.
    pub(in crate::vidsch) fn tell(&self) {
        for member in self.members() {
            self.told.store(member.current(), Ordering::Release);
            member.written_elsewhere();
        }
    }
}
