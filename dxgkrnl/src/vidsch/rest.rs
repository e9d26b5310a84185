//! Processes whose work is done rest when others need the memory that their engines work with.
//!
//! To rest, every doorbell of the process is disconnected, so that user mode reads RETRY and comes back here with its next submission, and
//! every context that runs is suspended; a process with work under way, or held, does not rest. Whoever then gives it work wakes it
//! first: what left memory comes back, contexts are resumed, and only then the doorbell is connected or the buffer handed over. In between
//! the GPU walks no page table of the process, reads none of its rings and writes none of its fences, so that all of them may move.
//! [user-mode-work-submission: doorbells; d3dkmddi: DXGKARG_SUSPENDCONTEXT]

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, Weak};
use std::time::Duration;

use wddm_ddi::status::*;

use crate::device::Device;
use crate::machine::lock;
use crate::vidmm::AddressSpace;

use super::VidSch;
use super::hw_context::HwContext;
use super::packet_context::PacketContext;

/// How long somebody sleeps while another thread wakes the process or puts it to rest.
const NAP: Duration = Duration::from_micros(50);

/// Whether the work of a process rests.
#[derive(Default)]
pub(crate) struct Rest {
    /// True while it does. Lock order: after `VidSch::stopped`, before `teardown` of a context; nobody waits to write, so that a reader may read
    /// twice. One that is written while another one is written is only tried.
    rests: RwLock<bool>,
    /// Contexts that are resumed when the process works again; `None` while it works. Lock order: before `HwContext::suspending`.
    owed: Mutex<Option<Vec<Weak<HwContext>>>>,
}

/// A context does not run: it is new, or its process rests and nobody wakes it meanwhile.
pub(super) struct Standstill<'a> {
    _rests: PhantomData<&'a RwLockWriteGuard<'a, bool>>,
}

impl<'a> Standstill<'a> {
    /// Of a context for which nobody had work yet.
    pub(super) fn of_new_context() -> Self {
        Self { _rests: PhantomData }
    }

    /// Of the contexts of a process at rest.
    fn of(rests: &'a RwLockWriteGuard<'_, bool>) -> Option<Self> {
        rests.then_some(Self { _rests: PhantomData })
    }
}

/// The process does not rest before this is dropped.
pub(crate) struct AtWork<'a> {
    _guard: RwLockReadGuard<'a, bool>,
}

impl Rest {
    fn read(&self) -> RwLockReadGuard<'_, bool> {
        self.rests.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_write(&self) -> Option<RwLockWriteGuard<'_, bool>> {
        match self.rests.try_write() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Nobody resumes a context of the process from now on.
    fn hold_contexts(&self) {
        *lock(&self.owed) = Some(Vec::new());
    }

    /// The contexts of the process go on.
    fn let_contexts_go(&self) {
        let owed = lock(&self.owed).take().unwrap_or_default();
        for context in owed.iter().filter_map(Weak::upgrade) {
            if !context.is_destroyed() && context.device().error().is_none() {
                context.resume();
            }
        }
    }

    /// Resumes a context that was asked off its engine, or has it resumed with its process.
    pub(super) fn put_back(&self, context: &Arc<HwContext>) {
        let mut owed = lock(&self.owed);
        match &mut *owed {
            Some(owed) => owed.push(Arc::downgrade(context)),
            None => context.resume(),
        }
    }

    /// Whether it does.
    pub(crate) fn rests(&self) -> bool {
        // Somebody who is putting it to rest or waking it holds the lock.
        self.rests.try_read().map_or(true, |rests| *rests)
    }
}

impl VidSch {
    /// Keeps the process of a device at work, or wakes it.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when what its engines need finds no room; the device is lost.
    pub(crate) fn at_work<'a>(&self, device: &'a Device) -> Result<AtWork<'a>, NTSTATUS> {
        let space = &device.process.space;
        loop {
            let guard = space.rest.read();
            if !*guard {
                return Ok(AtWork { _guard: guard });
            }
            drop(guard);
            let Some(mut rests) = space.rest.try_write() else {
                std::thread::sleep(NAP);
                continue;
            };
            if *rests {
                device.check()?;
                if device.adapter.vidmm().wake(space, || device.error().is_none())? {
                    self.tell_roots(space, &rests);
                }
                space.rest.let_contexts_go();
                *rests = false;
            }
            return Ok(AtWork { _guard: RwLockWriteGuard::downgrade(rests) });
        }
    }

    /// Tells the driver of every context of a process at rest where its root page table is.
    fn tell_roots(&self, space: &AddressSpace, rests: &RwLockWriteGuard<'_, bool>) {
        let Some(stands) = Standstill::of(rests) else { return };
        let contexts = self.contexts.all();
        contexts.iter().filter(|one| is_of(one.device(), space)).for_each(|context| context.follow_root(&stands));
        let contexts = self.packet_contexts.all();
        contexts.iter().filter(|one| is_of(one.device(), space)).for_each(|context| context.follow_root(&stands));
    }

    /// Puts a process to rest if its work is done; `note` is called when it rests, before anybody can wake it. True if it rests now; false
    /// if it goes on working, or is being woken, or the device is not in D0.
    pub(crate) fn rest(&self, space: &AddressSpace, note: impl FnOnce()) -> bool {
        let Ok(adapter) = self.adapter() else { return false };
        if adapter.machine.gate().is_asleep() || self.tdr.is_abandoning() || adapter.is_gone() {
            return false;
        }
        let Some(mut rests) = space.rest.try_write() else { return false };
        if *rests {
            return true;
        }
        let contexts: Vec<Arc<HwContext>> =
            self.contexts.all().into_iter().filter(|context| is_of(context.device(), space)).collect();
        if !self.is_done(space, &contexts) {
            return false;
        }
        let doorbells = contexts.iter().flat_map(|context| context.queues()).filter_map(|queue| queue.doorbell());
        doorbells.for_each(|doorbell| doorbell.disconnect());
        // What was rung until then was announced before.
        if !self.is_done(space, &contexts) {
            return false;
        }
        let limit = self.tdr.limit();
        space.rest.hold_contexts();
        let asked: Vec<_> = contexts.iter().map(|context| (context, context.begin_suspension())).collect();
        let left = asked.iter().all(|(context, asked)| context.leaves(*asked, limit));
        // Those that somebody else has suspended stay suspended.
        let suspended = asked.into_iter().filter(|(_, asked)| matches!(asked, Ok(Some(_))));
        suspended.for_each(|(context, _)| space.rest.put_back(context));
        if !left {
            space.rest.let_contexts_go();
            return false;
        }
        *rests = true;
        note();
        true
    }

    /// Whether nothing of a process is under way or held. What is left of lost devices has left the engines.
    fn is_done(&self, space: &AddressSpace, contexts: &[Arc<HwContext>]) -> bool {
        let queues = |context: &HwContext| match context.device().error() {
            Some(_) => context.has_left(),
            None => context.queues().iter().all(|queue| queue.is_idle()),
        };
        let packets = |context: &PacketContext| {
            let (finished, submitted) = context.progress();
            finished == submitted && context.held() == 0 && !context.runs()
        };
        let of_packets = self.packet_contexts.all();
        contexts.iter().all(|context| queues(context))
            && of_packets.iter().filter(|context| is_of(context.device(), space)).all(|context| packets(context))
    }
}

fn is_of(device: &Device, space: &AddressSpace) -> bool {
    core::ptr::eq(&*device.process.space, space)
}
