//! Suspension of processes: an idle process is suspended when another one needs the memory that its engines work with, and a process with
//! work when no idle one is left.
//!
//! To suspend a process, every doorbell of it is disconnected, so that user mode reads RETRY and calls the kernel with its next submission,
//! and every context that runs is suspended. A process with work under way, or with submissions that wait in the system, is suspended only by force:
//! then its packets are preempted as well, and stay queued. A process that is given new work is resumed first: what left memory
//! comes back, contexts are resumed, packets run again, and only then the doorbell is connected or the buffer handed over. In between
//! the GPU walks no page table of the process, reads none of its rings and writes none of its fences, so that all of them may move.
//! A process that was suspended with work to do is resumed without being asked, in its time slice ([`super::residency_slices`]).
//! [user-mode-work-submission: doorbells; d3dkmddi: DXGKARG_SUSPENDCONTEXT, DXGKARG_PREEMPTCOMMAND]

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use nt::lock::{RwLockReadGuard, RwLockWriteGuard, lock};
use wddm_ddi::status::*;

use crate::rank;
use crate::suspension::{ProcessSuspension, SuspendedContext, TimeSlice};
use crate::vidmm::{AddressSpace, EvictionSearch, SuspendOutcome};
use crate::vidsch::Device;

use super::VidSch;
use super::hw_context::HwContext;
use super::packet_context::PacketContext;
use super::priority::Priority;
use super::residency_slices::{SLICE, SLICE_WORK};
use super::timeouts::Subject;
use super::worker::Work;
use crate::tdr_report::TdrReason;

/// Interval at which a thread polls a process that another thread is suspending or resuming.
const NAP: Duration = Duration::from_micros(50);

/// Proof that a context does not run: it is new, or its process is suspended and stays so while this exists.
pub(super) struct NotRunning<'a> {
    _suspended: PhantomData<&'a RwLockWriteGuard<'a, bool, rank::Suspended>>,
}

impl<'a> NotRunning<'a> {
    /// For a context that never had work.
    pub(super) fn of_new_context() -> Self {
        Self { _suspended: PhantomData }
    }

    /// For the contexts of a suspended process.
    fn of(suspended: &'a RwLockWriteGuard<'_, bool, rank::Suspended>) -> Option<Self> {
        suspended.then_some(Self { _suspended: PhantomData })
    }
}

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

    /// Suspends a process if its work is done; `note` is called when it is suspended, before any thread can resume it. True if it is suspended
    /// now; false if it goes on running, or is being resumed, or the device is not in D0.
    pub(crate) fn suspend_idle(&self, space: &Arc<AddressSpace>, note: impl FnOnce()) -> bool {
        let Some(mut suspended) = space.suspension.try_write().filter(|_| self.may_suspend()) else { return false };
        if *suspended {
            return true;
        }
        let contexts = self.of_process(space);
        if !contexts.are_done() {
            return false;
        }
        contexts.disconnect();
        // What was rung until then was announced before.
        if !contexts.are_done() || !self.take_off(space, &contexts) {
            return false;
        }
        *suspended = true;
        note();
        true
    }

    /// Suspends a process with work, if its time slice is over, as [`VidSch::suspend_idle`] does one whose work is done. What does not leave its
    /// engine within TdrDelay is a timeout.
    pub(crate) fn suspend(&self, space: &Arc<AddressSpace>, note: impl FnOnce()) -> SuspendOutcome {
        let Some(mut suspended) = space.suspension.try_write().filter(|_| self.may_suspend()) else {
            return SuspendOutcome::Locked;
        };
        if *suspended {
            return SuspendOutcome::Suspended;
        }
        let contexts = self.of_process(space);
        if let TimeSlice::Current { since, done } = *lock(&space.suspension.time_slice)
            && self.timeouts.clock().now().saturating_sub(since) < SLICE
            && contexts.done().saturating_sub(done) < SLICE_WORK
            && !contexts.are_done()
        {
            return SuspendOutcome::HasTimeSlice;
        }
        self.suspend_now(space, &contexts, &mut suspended, note)
    }

    /// Does `act` while the process is suspended, and has it resumed in its time slice if it has work. What does not leave its
    /// engine within TdrDelay is a timeout, and `act` is not done unless the answer is [`SuspendOutcome::Suspended`]; it is told whether the process ran before.
    pub(crate) fn while_suspended(&self, space: &Arc<AddressSpace>, act: impl FnOnce(bool)) -> SuspendOutcome {
        let Some(mut suspended) = space.suspension.try_write().filter(|_| self.may_suspend()) else {
            return SuspendOutcome::Locked;
        };
        if *suspended {
            act(false);
            return SuspendOutcome::Suspended;
        }
        self.suspend_now(space, &self.of_process(space), &mut suspended, || act(true))
    }

    fn suspend_now(
        &self,
        space: &Arc<AddressSpace>,
        contexts: &Contexts,
        suspended: &mut RwLockWriteGuard<'_, bool, rank::Suspended>,
        note: impl FnOnce(),
    ) -> SuspendOutcome {
        contexts.disconnect();
        if !self.take_off(space, contexts) {
            return SuspendOutcome::StillRunning;
        }
        **suspended = true;
        note();
        if !contexts.are_done() {
            *lock(&space.suspension.time_slice) = TimeSlice::Queued;
            self.note_suspended(space);
        }
        SuspendOutcome::Suspended
    }

    fn may_suspend(&self) -> bool {
        self.adapter().is_ok_and(|adapter| {
            !adapter.machine.gate().is_asleep() && !self.timeouts.is_abandoning() && !adapter.is_gone()
        })
    }

    /// Takes everything of a process off its engines; true when nothing of it touches memory any more. Else its contexts are resumed.
    fn take_off(&self, space: &AddressSpace, contexts: &Contexts) -> bool {
        let limit = self.timeouts.limit();
        space.suspension.hold_contexts();
        let asked: Vec<_> = contexts.hardware.iter().map(|context| (context, context.ask_off())).collect();
        for context in &contexts.packets {
            context.set_away(true);
        }
        let mut left = true;
        for (context, asked) in &asked {
            if !context.leaves(asked, limit) {
                left = false;
                self.complain(context);
            }
        }
        left &= contexts.packets.iter().all(|context| context.has_left(limit));
        // Contexts that were suspended before stay suspended.
        let suspended = asked.into_iter().filter(|(_, asked)| matches!(asked.answer, Ok(Some(_))));
        suspended.for_each(|(context, _)| space.suspension.resume_with_process(context));
        if !left {
            contexts.resume(&space.suspension);
        }
        left
    }

    /// Reports a timeout of a context that did not leave its engine, unless one of its queues has no time limit (DisableGpuTimeout).
    fn complain(&self, context: &Arc<HwContext>) {
        let unlimited = context.queues().iter().any(|queue| queue.flags().DisableGpuTimeout());
        let abandons = self.timeouts.is_abandoning() || self.verifier.is_stopped();
        let subject = Subject::Context(Arc::clone(context));
        let complaint = self.timeouts.complaint_about(context.node(), TdrReason::SuspensionTimeout, subject);
        if !unlimited && !abandons && !complaint.is_of_lost_device() {
            self.worker.add(Work::Recover(complaint));
        }
    }

    fn of_process(&self, space: &AddressSpace) -> Contexts {
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
struct Contexts {
    hardware: Vec<Arc<HwContext>>,
    packets: Vec<Arc<PacketContext>>,
}

impl Contexts {
    /// Resumes what was suspended with the process.
    fn resume(&self, suspension: &ProcessSuspension) {
        suspension.resume_contexts();
        self.packets.iter().for_each(|context| context.set_away(false));
    }

    fn disconnect(&self) {
        let queues = self.hardware.iter().flat_map(|context| context.queues());
        queues.filter_map(|queue| queue.doorbell()).for_each(|doorbell| doorbell.disconnect());
    }

    /// How much work they have done, as a number that grows with it.
    fn done(&self) -> u64 {
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
    fn are_done(&self) -> bool {
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

fn is_of(device: &Device, space: &AddressSpace) -> bool {
    core::ptr::eq(&*device.process.space, space)
}
