//! Processes whose work is done rest when others need the memory that their engines work with.
//!
//! To rest, every doorbell of the process is disconnected, so that user mode reads RETRY and comes back here with its next submission, and
//! every context that runs is suspended; a process with work under way, or held, does not rest. Whoever then gives it work wakes it
//! first: what left memory comes back, contexts are resumed, and only then the doorbell is connected or the buffer handed over. In between
//! the GPU walks no page table of the process, reads none of its rings and writes none of its fences, so that all of them may move.
//! [user-mode-work-submission: doorbells; d3dkmddi: DXGKARG_SUSPENDCONTEXT]

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, Weak};
use std::time::Duration;

use wddm_ddi::status::*;

use crate::device::Device;
use crate::vidmm::AddressSpace;

use super::VidSch;
use super::hw_context::HwContext;
use super::packet_context::PacketContext;

/// How long somebody sleeps while another thread wakes the process or puts it to rest.
const NAP: Duration = Duration::from_micros(50);

/// Contexts that are suspended because their process rests; `None` while it works.
type Resting = Option<Vec<Weak<HwContext>>>;

/// Whether the work of a process rests. Lock order: after `VidSch::stopped`, before `teardown` of a context; nobody waits to write, so
/// that a reader may read twice. One that is written while another one is written is only tried.
#[derive(Default)]
pub(crate) struct Rest(RwLock<Resting>);

/// The process does not rest before this is dropped.
pub(crate) struct AtWork<'a> {
    _guard: RwLockReadGuard<'a, Resting>,
}

impl Rest {
    fn read(&self) -> RwLockReadGuard<'_, Resting> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_write(&self) -> Option<RwLockWriteGuard<'_, Resting>> {
        match self.0.try_write() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether it does.
    pub(crate) fn rests(&self) -> bool {
        // Somebody who is putting it to rest or waking it holds the lock.
        self.0.try_read().map_or(true, |resting| resting.is_some())
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
            if guard.is_none() {
                return Ok(AtWork { _guard: guard });
            }
            drop(guard);
            let Some(mut resting) = space.rest.try_write() else {
                std::thread::sleep(NAP);
                continue;
            };
            if resting.is_some() {
                device.check()?;
                device.adapter.vidmm().wake(space, || device.error().is_none())?;
                let contexts = resting.take().unwrap_or_default();
                for context in contexts.iter().filter_map(Weak::upgrade) {
                    if !context.is_destroyed() && context.device().error().is_none() {
                        context.resume();
                    }
                }
            }
            return Ok(AtWork { _guard: RwLockWriteGuard::downgrade(resting) });
        }
    }

    /// Puts a process to rest if its work is done; `note` is called when it rests, before anybody can wake it. True if it rests now; false
    /// if it goes on working, or is being woken, or the device is not in D0.
    pub(crate) fn rest(&self, space: &AddressSpace, note: impl FnOnce()) -> bool {
        let Ok(adapter) = self.adapter() else { return false };
        if adapter.machine.gate().is_asleep() || self.tdr.is_abandoning() || adapter.is_gone() {
            return false;
        }
        let Some(mut resting) = space.rest.try_write() else { return false };
        if resting.is_some() {
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
        let asked: Vec<_> = contexts.iter().map(|context| (context, context.begin_suspension())).collect();
        let left = asked.iter().all(|(context, asked)| context.leaves(*asked, limit));
        // Those that somebody else has suspended stay suspended.
        let suspended = asked.into_iter().filter(|(_, asked)| matches!(asked, Ok(Some(_)))).map(|(context, _)| context);
        if !left {
            suspended.filter(|context| context.device().error().is_none()).for_each(|context| context.resume());
            return false;
        }
        *resting = Some(suspended.map(Arc::downgrade).collect());
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
