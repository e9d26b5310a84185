//! Processes are kept running, and resumed for new work: what left memory comes back, contexts are resumed, packets run again.

use std::sync::Arc;
use std::time::Duration;

use nt::lock::{RwLockReadGuard, RwLockWriteGuard, lock};
use wddm_ddi::status::*;

use crate::rank;
use crate::suspension::{ProcessSuspension, SuspendedContext, TimeSlice};
use crate::vidmm::{AddressSpace, EvictionSearch};

use super::not_running::NotRunning;
use super::objects::device::Device;
use super::objects::hardware::HwContext;
use super::objects::packet_context::PacketContext;
use super::objects::priority::Priority;
use super::scheduler::VidSch;

/// Interval at which a thread polls a process that another thread is suspending or resuming.
const NAP: Duration = Duration::from_micros(50);

/// Proof that the process is running; it is not suspended before this is dropped.
pub(crate) struct KeptRunning<'a> {
    /// The contexts of a process that was resumed for this. They are still suspended, and are resumed when this is dropped.
    resumed: Option<(&'a ProcessSuspension, Contexts)>,
    _guard: RwLockReadGuard<'a, bool, rank::Suspended>,
}

impl KeptRunning<'_> {
    /// Resumes the contexts now, instead of when this is dropped.
    fn resume_contexts(mut self) -> Self {
        self.resume();
        self
    }

    fn resume(&mut self) {
        if let Some((suspension, contexts)) = self.resumed.take() {
            contexts.resume(suspension);
        }
    }
}

impl Drop for KeptRunning<'_> {
    fn drop(&mut self) {
        self.resume();
    }
}

impl SuspendedContext for HwContext {
    fn resume(&self) {
        HwContext::resume(self);
    }

    fn resume_unless_lost(&self) {
        if self.device().error().is_none() {
            HwContext::resume(self);
        }
    }
}

impl VidSch {
    /// Keeps the process of a device running, and resumes it if it is suspended.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when there is no memory for what its engines need; else the error of a lost device.
    pub(crate) fn keep_running<'a>(&self, device: &'a Device) -> Result<KeptRunning<'a>, NTSTATUS> {
        self.keep_running_by(device, EvictionSearch::default()).map(KeptRunning::resume_contexts)
    }

    /// As [`VidSch::keep_running`]; contexts of a process that is resumed by this are resumed when the answer is dropped.
    ///
    /// # Errors
    /// As there.
    pub(super) fn keep_running_before_contexts<'a>(&self, device: &'a Device) -> Result<KeptRunning<'a>, NTSTATUS> {
        self.keep_running_by(device, EvictionSearch::default())
    }

    /// As [`VidSch::keep_running_before_contexts`], without waiting and without suspending another process; `None`, and the process stays
    /// suspended, where that does not suffice.
    pub(super) fn keep_running_if_memory<'a>(&self, device: &'a Device) -> Option<KeptRunning<'a>> {
        let suspension = &device.process.space.suspension;
        if let Some(guard) = suspension.suspended.try_read()
            && !*guard
        {
            return Some(KeptRunning { resumed: None, _guard: guard });
        }
        let mut suspended = suspension.try_write().filter(|_| device.error().is_none())?;
        let resumed = if *suspended {
            let contexts =
                self.resume(&device.process.space, &mut suspended, &mut EvictionSearch::without_suspending())?.ok()?;
            Some((suspension, contexts))
        } else {
            None
        };
        Some(KeptRunning { resumed, _guard: RwLockWriteGuard::downgrade(suspended) })
    }

    /// As [`VidSch::keep_running`], without suspending a process with work for it. A process that was suspended with work to do waits for its
    /// time slice.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when there is no memory for what the process needs; it stays suspended.
    pub(crate) fn keep_running_without_suspending<'a>(&self, device: &'a Device) -> Result<KeptRunning<'a>, NTSTATUS> {
        self.keep_running_by(device, EvictionSearch::without_suspending()).map(KeptRunning::resume_contexts)
    }

    fn keep_running_by<'a>(&self, device: &'a Device, mut search: EvictionSearch) -> Result<KeptRunning<'a>, NTSTATUS> {
        let space = &device.process.space;
        loop {
            let guard = space.suspension.read();
            if !*guard {
                return Ok(KeptRunning { resumed: None, _guard: guard });
            }
            drop(guard);
            device.check()?;
            let Some(mut suspended) = space.suspension.try_write() else {
                std::thread::sleep(NAP);
                continue;
            };
            let resumed = if *suspended {
                self.resume(space, &mut suspended, &mut search).map(|resumed| resumed.map(Some))
            } else {
                Some(Ok(None))
            };
            match resumed {
                Some(Ok(contexts)) => {
                    let resumed = contexts.map(|contexts| (&space.suspension, contexts));
                    return Ok(KeptRunning { resumed, _guard: RwLockWriteGuard::downgrade(suspended) });
                }
                Some(Err(STATUS_NO_MEMORY)) if search.never_suspends() && self.is_queued_for_time_slice(space) => {
                    drop(suspended)
                }
                Some(Err(status)) => return Err(status),
                None => drop(suspended),
            }
            if !self.may_wait() || self.verifier.is_stopped() {
                return Err(STATUS_DEVICE_REMOVED);
            }
            device.adapter.vidmm().pause_for_memory();
        }
    }

    /// True if a suspended process has work, and so is resumed when its time slice comes.
    fn is_queued_for_time_slice(&self, space: &AddressSpace) -> bool {
        matches!(*lock(&space.suspension.time_slice), TimeSlice::Queued) && self.has_work(space)
    }

    /// Tells the driver, for every context of a suspended process, where its root page table is.
    fn tell_roots(&self, contexts: &Contexts, suspended: &RwLockWriteGuard<'_, bool, rank::Suspended>) {
        let Some(stands) = NotRunning::of(suspended) else { return };
        contexts.hardware.iter().for_each(|context| context.follow_root(&stands));
        contexts.packets.iter().for_each(|context| context.follow_root(&stands));
    }

    /// Resumes a suspended process. `None` if another thread is suspending or resuming it, or its memory has to be waited for.
    ///
    /// # Errors
    /// As [`VidMm::try_resume`](crate::vidmm::VidMm::try_resume).
    pub(super) fn try_resume(&self, space: &AddressSpace, search: &mut EvictionSearch) -> Option<Result<(), NTSTATUS>> {
        let mut suspended = space.suspension.try_write()?;
        if !*suspended {
            return Some(Ok(()));
        }
        Some(self.resume(space, &mut suspended, search)?.map(|contexts| contexts.resume(&space.suspension)))
    }

    /// Resumes a process up to its contexts: the answer is its contexts, which are still suspended. `None` if memory has to be waited for.
    fn resume(
        &self,
        space: &AddressSpace,
        suspended: &mut RwLockWriteGuard<'_, bool, rank::Suspended>,
        search: &mut EvictionSearch,
    ) -> Option<Result<Contexts, NTSTATUS>> {
        let Ok(adapter) = self.adapter() else { return Some(Err(STATUS_DEVICE_REMOVED)) };
        let in_turn = matches!(*lock(&space.suspension.time_slice), TimeSlice::Queued);
        if in_turn && !adapter.vidmm().queue_behind_others(search) {
            return None;
        }
        let moved = match adapter.vidmm().try_resume(space, search)? {
            Ok(moved) => moved,
            Err(status) => return Some(Err(status)),
        };
        search.leave_queue();
        let contexts = self.of_process(space);
        if moved {
            self.tell_roots(&contexts, suspended);
        }
        {
            let mut slice = lock(&space.suspension.time_slice);
            if matches!(*slice, TimeSlice::Queued) {
                *slice = TimeSlice::Current { since: self.timeouts.clock().now(), done: contexts.done() };
            }
        }
        **suspended = false;
        Some(Ok(contexts))
    }

    /// Keeps the process of a device running while its queues are emptied: one that is suspended is resumed for it, if it has `work`.
    pub(super) fn keep_running_if_work<'a>(
        &self,
        device: &'a Device,
        work: impl FnOnce() -> bool,
    ) -> Option<KeptRunning<'a>> {
        let guard = device.process.space.suspension.read();
        if !*guard {
            return Some(KeptRunning { resumed: None, _guard: guard });
        }
        drop(guard);
        (device.error().is_none() && work()).then(|| self.keep_running(device).ok())?
    }

    pub(super) fn of_process(&self, space: &AddressSpace) -> Contexts {
        let hardware = self.contexts.all().into_iter().filter(|context| is_of(context.device(), space));
        let packets = self.packet_contexts.all().into_iter().filter(|context| is_of(context.device(), space));
        Contexts { hardware: hardware.collect(), packets: packets.collect() }
    }

    /// True if a process has work that is not done and still can be.
    pub(super) fn has_work(&self, space: &AddressSpace) -> bool {
        !self.of_process(space).are_done()
    }

    /// Devices of a process with contexts.
    pub(super) fn devices_at(&self, space: &AddressSpace) -> Vec<Arc<Device>> {
        let Contexts { hardware, packets } = self.of_process(space);
        let hardware = hardware.iter().map(|context| Arc::clone(context.device()));
        let mut all: Vec<_> = hardware.chain(packets.iter().map(|context| Arc::clone(context.device()))).collect();
        all.sort_by_key(|device| device.id());
        all.dedup_by_key(|device| device.id());
        all
    }

    /// Processes in the order in which they are suspended: those of the lowest priority first, of the same priority in the order given.
    pub(crate) fn by_rank(&self, spaces: Vec<Arc<AddressSpace>>) -> Vec<Arc<AddressSpace>> {
        let mut ranked: Vec<_> = spaces.into_iter().map(|space| (self.of_process(&space).rank(), space)).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, space)| space).collect()
    }
}

/// Contexts of one process.
pub(super) struct Contexts {
    pub(super) hardware: Vec<Arc<HwContext>>,
    pub(super) packets: Vec<Arc<PacketContext>>,
}

fn is_of(device: &Device, space: &AddressSpace) -> bool {
    core::ptr::eq(&*device.process.space, space)
}

impl Contexts {
    /// Resumes what was suspended with the process.
    pub(super) fn resume(&self, suspension: &ProcessSuspension) {
        suspension.resume_contexts();
        self.packets.iter().for_each(|context| context.set_away(false));
    }

    /// How much work they have done, as a number that grows with it.
    pub(super) fn done(&self) -> u64 {
        let queues = self.hardware.iter().flat_map(|context| context.queues());
        let queues = queues.map(|queue| queue.progress().current());
        queues.chain(self.packets.iter().map(|context| context.finished())).fold(0, u64::saturating_add)
    }

    /// The highest priority among all contexts that one of them has.
    fn rank(&self) -> Option<i32> {
        let of = |device: &Device, priority: Priority| priority.among_all(device.process.class.get());
        let hardware = self.hardware.iter().map(|context| of(context.device(), context.priority()));
        hardware.chain(self.packets.iter().map(|context| of(context.device(), context.priority()))).max()
    }

    /// True if no submission is under way or held. Of a lost device it is enough that its contexts have left the engines.
    pub(super) fn are_done(&self) -> bool {
        let queues = |context: &HwContext| match context.device().error() {
            Some(_) => context.has_left(),
            None => context.queues().iter().all(|queue| queue.is_idle()),
        };
        let packets = |context: &PacketContext| {
            let (finished, submitted) = context.progress();
            finished == submitted && context.held() == 0 && !context.runs()
        };
        self.hardware.iter().all(|context| queues(context)) && self.packets.iter().all(|context| packets(context))
    }
}

impl VidSch {
    /// True while it makes sense to wait for memory: the adapter is there, and recovery has not given it up.
    pub(crate) fn may_wait(&self) -> bool {
        !self.timeouts.is_abandoning() && self.adapter().is_ok_and(|adapter| !adapter.is_gone())
    }
}
