//! Processes whose work is done rest when others need the memory that their engines work with, and processes that work are suspended when
//! nobody else is left.
//!
//! To rest, every doorbell of the process is disconnected, so that user mode reads RETRY and comes back here with its next submission, and
//! every context that runs is suspended; unless it is suspended by force, a process with work under way, or held, does not rest. By force
//! its packets are taken off their nodes as well, and stay queued. Whoever gives a process at rest work wakes it
//! first: what left memory comes back, contexts are resumed, packets run again, and only then the doorbell is connected or the buffer handed over. In between
//! the GPU walks no page table of the process, reads none of its rings and writes none of its fences, so that all of them may move.
//! One that was suspended with work to do is woken by itself, in its turn ([`super::turns`]).
//! [user-mode-work-submission: doorbells; d3dkmddi: DXGKARG_SUSPENDCONTEXT, DXGKARG_PREEMPTCOMMAND]

use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::Duration;

use nt::lock::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard, lock};
use wddm_ddi::status::*;

use crate::device::Device;
use crate::rank;
use crate::vidmm::{AddressSpace, Search};

use super::VidSch;
use super::hw_context::HwContext;
use super::packet_context::PacketContext;
use super::priority::Priority;
use super::tdr::{Subject, TdrReason};
use super::turns::{TURN, TURN_WORK};
use super::worker::Work;

/// How long somebody sleeps while another thread wakes the process or puts it to rest.
const NAP: Duration = Duration::from_micros(50);

/// Whether the work of a process rests.
#[derive(Default)]
pub(crate) struct Rest {
    /// True while the process is suspended. One that is written while another one is written is only tried.
    rests: RwLock<bool, rank::Suspended>,
    /// Contexts that are resumed when the process works again; `None` while it works.
    owed: Mutex<Option<Vec<Weak<HwContext>>>, rank::ContextsToResume>,
    /// Since it was suspended last.
    turn: Mutex<Turn, rank::Turn>,
}

/// What a process that was suspended is entitled to.
#[derive(Clone, Copy, Debug, Default)]
enum Turn {
    /// It was not suspended since it last had its turn.
    #[default]
    Over,
    /// It is suspended.
    Waits,
    /// It has been back since this time of the machine's clock, and had done so much then.
    Has { since: Duration, done: u64 },
}

/// What became of an attempt to suspend a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rested {
    /// It rests.
    Rests,
    /// Its turn is not over.
    HasItsTurn,
    /// Somebody is just giving it work, waking it or putting it to rest.
    IsHeld,
    /// It works on, and does not leave its engines.
    Works,
}

/// A context does not run: it is new, or its process rests and nobody wakes it meanwhile.
pub(super) struct Standstill<'a> {
    _rests: PhantomData<&'a RwLockWriteGuard<'a, bool, rank::Suspended>>,
}

impl<'a> Standstill<'a> {
    /// Of a context for which nobody had work yet.
    pub(super) fn of_new_context() -> Self {
        Self { _rests: PhantomData }
    }

    /// Of the contexts of a process at rest.
    fn of(rests: &'a RwLockWriteGuard<'_, bool, rank::Suspended>) -> Option<Self> {
        rests.then_some(Self { _rests: PhantomData })
    }
}

/// The process does not rest before this is dropped.
pub(crate) struct AtWork<'a> {
    /// Whose contexts are still suspended since the process was woken: they are resumed when this is dropped.
    woken: Option<(&'a Rest, Contexts)>,
    _guard: RwLockReadGuard<'a, bool, rank::Suspended>,
}

impl AtWork<'_> {
    /// Resumes the contexts of a process that was woken.
    fn go_on(mut self) -> Self {
        self.resume();
        self
    }

    fn resume(&mut self) {
        if let Some((rest, contexts)) = self.woken.take() {
            rest.let_go(&contexts);
        }
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.resume();
    }
}

impl Rest {
    fn read(&self) -> RwLockReadGuard<'_, bool, rank::Suspended> {
        self.rests.read()
    }

    fn try_write(&self) -> Option<RwLockWriteGuard<'_, bool, rank::Suspended>> {
        self.rests.try_write()
    }

    /// It does not come back by itself any more.
    pub(super) fn give_up_turn(&self) {
        let mut turn = lock(&self.turn);
        if matches!(*turn, Turn::Waits) {
            *turn = Turn::Over;
        }
    }

    /// Nobody resumes a context of the process from now on.
    fn hold_contexts(&self) {
        *lock(&self.owed) = Some(Vec::new());
    }

    /// The contexts of the process go on.
    fn let_go(&self, contexts: &Contexts) {
        let owed = lock(&self.owed).take().unwrap_or_default();
        for context in owed.iter().filter_map(Weak::upgrade) {
            if context.device().error().is_none() {
                context.resume();
            }
        }
        contexts.packets.iter().for_each(|context| context.set_away(false));
    }

    /// Resumes a context that was asked off its engine, or has it resumed with its process.
    pub(super) fn put_back(&self, context: &Arc<HwContext>) {
        let mut owed = lock(&self.owed);
        match &mut *owed {
            Some(owed) => owed.push(Arc::downgrade(context)),
            None => context.resume(),
        }
    }

    /// True while the process is suspended.
    pub(crate) fn rests(&self) -> bool {
        // Somebody who is putting it to rest or waking it holds the lock.
        self.rests.try_read().is_none_or(|rests| *rests)
    }
}

impl VidSch {
    /// Keeps the process of a device at work, or wakes it.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when what its engines need finds no room; the device is lost.
    pub(crate) fn at_work<'a>(&self, device: &'a Device) -> Result<AtWork<'a>, NTSTATUS> {
        self.at_work_by(device, Search::default()).map(AtWork::go_on)
    }

    /// As [`VidSch::at_work`]; contexts of a process that is woken by this are resumed when the answer is dropped.
    ///
    /// # Errors
    /// As there.
    pub(super) fn at_work_before_contexts<'a>(&self, device: &'a Device) -> Result<AtWork<'a>, NTSTATUS> {
        self.at_work_by(device, Search::default())
    }

    /// As [`VidSch::at_work_before_contexts`] where nobody has to be waited for and nobody else has to give up memory; else `None`, and
    /// the process rests on.
    pub(super) fn at_work_if_room<'a>(&self, device: &'a Device) -> Option<AtWork<'a>> {
        let rest = &device.process.space.rest;
        if let Some(guard) = rest.rests.try_read()
            && !*guard
        {
            return Some(AtWork { woken: None, _guard: guard });
        }
        let mut rests = rest.try_write().filter(|_| device.error().is_none())?;
        let woken = if *rests {
            let contexts = self.wake(&device.process.space, &mut rests, &mut Search::polite())?.ok()?;
            Some((rest, contexts))
        } else {
            None
        };
        Some(AtWork { woken, _guard: RwLockWriteGuard::downgrade(rests) })
    }

    /// As [`VidSch::at_work`] where that needs nobody suspended. A process that was suspended with work to do waits for its turn.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when there is no room for what the process needs; it goes on resting.
    pub(crate) fn at_work_politely<'a>(&self, device: &'a Device) -> Result<AtWork<'a>, NTSTATUS> {
        self.at_work_by(device, Search::polite()).map(AtWork::go_on)
    }

    fn at_work_by<'a>(&self, device: &'a Device, mut search: Search) -> Result<AtWork<'a>, NTSTATUS> {
        let space = &device.process.space;
        loop {
            let guard = space.rest.read();
            if !*guard {
                return Ok(AtWork { woken: None, _guard: guard });
            }
            drop(guard);
            device.check()?;
            let Some(mut rests) = space.rest.try_write() else {
                std::thread::sleep(NAP);
                continue;
            };
            let woken = if *rests {
                self.wake(space, &mut rests, &mut search).map(|woken| woken.map(Some))
            } else {
                Some(Ok(None))
            };
            match woken {
                Some(Ok(contexts)) => {
                    let woken = contexts.map(|contexts| (&space.rest, contexts));
                    return Ok(AtWork { woken, _guard: RwLockWriteGuard::downgrade(rests) });
                }
                Some(Err(STATUS_NO_MEMORY)) if search.is_polite() && self.waits_for_turn(space) => drop(rests),
                Some(Err(status)) => return Err(status),
                None => drop(rests),
            }
            if !self.may_wait() || self.verifier.is_stopped() {
                return Err(STATUS_DEVICE_REMOVED);
            }
            device.adapter.vidmm().pause_for_room();
        }
    }

    /// Whether a process that rests comes back by itself.
    fn waits_for_turn(&self, space: &AddressSpace) -> bool {
        matches!(*lock(&space.rest.turn), Turn::Waits) && self.has_work(space)
    }

    /// Tells the driver of every context of a process at rest where its root page table is.
    fn tell_roots(&self, contexts: &Contexts, rests: &RwLockWriteGuard<'_, bool, rank::Suspended>) {
        let Some(stands) = Standstill::of(rests) else { return };
        contexts.hardware.iter().for_each(|context| context.follow_root(&stands));
        contexts.packets.iter().for_each(|context| context.follow_root(&stands));
    }

    /// Wakes a process that rests, if nobody else is about to. `None` if its memory, or somebody, has to be waited for.
    ///
    /// # Errors
    /// As [`VidMm::try_wake`](crate::vidmm::VidMm::try_wake).
    pub(super) fn try_to_wake(&self, space: &AddressSpace, search: &mut Search) -> Option<Result<(), NTSTATUS>> {
        let mut rests = space.rest.try_write()?;
        if !*rests {
            return Some(Ok(()));
        }
        Some(self.wake(space, &mut rests, search)?.map(|contexts| space.rest.let_go(&contexts)))
    }

    /// Its contexts, which are still suspended.
    fn wake(
        &self,
        space: &AddressSpace,
        rests: &mut RwLockWriteGuard<'_, bool, rank::Suspended>,
        search: &mut Search,
    ) -> Option<Result<Contexts, NTSTATUS>> {
        let Ok(adapter) = self.adapter() else { return Some(Err(STATUS_DEVICE_REMOVED)) };
        let moved = match adapter.vidmm().try_wake(space, search)? {
            Ok(moved) => moved,
            Err(status) => return Some(Err(status)),
        };
        search.leave_line();
        let contexts = self.of_process(space);
        if moved {
            self.tell_roots(&contexts, rests);
        }
        {
            let mut turn = lock(&space.rest.turn);
            if matches!(*turn, Turn::Waits) {
                *turn = Turn::Has { since: self.tdr.clock().now(), done: contexts.done() };
            }
        }
        **rests = false;
        Some(Ok(contexts))
    }

    /// Keeps the process of a device at work while its queues are emptied: one that is suspended is woken for it, if it has `work`.
    pub(super) fn stay_at_work<'a>(&self, device: &'a Device, work: impl FnOnce() -> bool) -> Option<AtWork<'a>> {
        let guard = device.process.space.rest.read();
        if !*guard {
            return Some(AtWork { woken: None, _guard: guard });
        }
        drop(guard);
        (device.error().is_none() && work()).then(|| self.at_work(device).ok())?
    }

    /// Puts a process to rest if its work is done; `note` is called when it rests, before anybody can wake it. True if it rests now; false
    /// if it goes on working, or is being woken, or the device is not in D0.
    pub(crate) fn rest(&self, space: &Arc<AddressSpace>, note: impl FnOnce()) -> bool {
        let Some(mut rests) = space.rest.try_write().filter(|_| self.may_suspend()) else { return false };
        if *rests {
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
        *rests = true;
        note();
        true
    }

    /// Suspends a process that works, if its turn is over, as [`VidSch::rest`] does one whose work is done. What does not leave its engine
    /// within TdrDelay hangs.
    pub(crate) fn suspend(&self, space: &Arc<AddressSpace>, note: impl FnOnce()) -> Rested {
        let Some(mut rests) = space.rest.try_write().filter(|_| self.may_suspend()) else { return Rested::IsHeld };
        if *rests {
            return Rested::Rests;
        }
        let contexts = self.of_process(space);
        if let Turn::Has { since, done } = *lock(&space.rest.turn)
            && self.tdr.clock().now().saturating_sub(since) < TURN
            && contexts.done().saturating_sub(done) < TURN_WORK
            && !contexts.are_done()
        {
            return Rested::HasItsTurn;
        }
        self.suspend_now(space, &contexts, &mut rests, note)
    }

    /// Takes a process off its engines, or leaves it where it rests already, does `act`, and has it go on in its turn. What does not leave its
    /// engine within TdrDelay hangs, and `act` is not done unless the answer is [`Rested::Rests`]; it is told whether the process worked before.
    pub(crate) fn while_suspended(&self, space: &Arc<AddressSpace>, act: impl FnOnce(bool)) -> Rested {
        let Some(mut rests) = space.rest.try_write().filter(|_| self.may_suspend()) else { return Rested::IsHeld };
        if *rests {
            act(false);
            return Rested::Rests;
        }
        self.suspend_now(space, &self.of_process(space), &mut rests, || act(true))
    }

    fn suspend_now(
        &self,
        space: &Arc<AddressSpace>,
        contexts: &Contexts,
        rests: &mut RwLockWriteGuard<'_, bool, rank::Suspended>,
        note: impl FnOnce(),
    ) -> Rested {
        contexts.disconnect();
        if !self.take_off(space, contexts) {
            return Rested::Works;
        }
        **rests = true;
        note();
        if !contexts.are_done() {
            *lock(&space.rest.turn) = Turn::Waits;
            self.note_suspended(space);
        }
        Rested::Rests
    }

    fn may_suspend(&self) -> bool {
        self.adapter()
            .is_ok_and(|adapter| !adapter.machine.gate().is_asleep() && !self.tdr.is_abandoning() && !adapter.is_gone())
    }

    /// Takes everything of a process off its engines; true when nothing of it touches memory any more. Else it goes on.
    fn take_off(&self, space: &AddressSpace, contexts: &Contexts) -> bool {
        let limit = self.tdr.limit();
        space.rest.hold_contexts();
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
        // Those that somebody else has suspended stay suspended.
        let suspended = asked.into_iter().filter(|(_, asked)| matches!(asked.answer, Ok(Some(_))));
        suspended.for_each(|(context, _)| space.rest.put_back(context));
        if !left {
            space.rest.let_go(contexts);
        }
        left
    }

    /// A context did not leave its engine, which is a hang unless it may run as long as it likes.
    fn complain(&self, context: &Arc<HwContext>) {
        let unlimited = context.queues().iter().any(|queue| queue.flags().DisableGpuTimeout());
        let abandons = self.tdr.is_abandoning() || self.verifier.is_stopped();
        let subject = Subject::Context(Arc::clone(context));
        let complaint = self.tdr.complaint_about(context.node(), TdrReason::SuspensionTimeout, subject);
        if !unlimited && !abandons && !complaint.is_of_lost_device() {
            self.worker.add(Work::Recover(complaint));
        }
    }

    fn of_process(&self, space: &AddressSpace) -> Contexts {
        let hardware = self.contexts.all().into_iter().filter(|context| is_of(context.device(), space));
        let packets = self.packet_contexts.all().into_iter().filter(|context| is_of(context.device(), space));
        Contexts { hardware: hardware.collect(), packets: packets.collect() }
    }

    /// Whether work of a process is not done that still can be.
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

    /// Processes in the order in which they give way: those of the lowest priority first, of the same priority as they come.
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

    /// Whether nothing is under way or held. What is left of lost devices has left the engines.
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
