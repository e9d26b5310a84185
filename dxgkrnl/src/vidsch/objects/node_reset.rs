//! A node whose engine is taken to hang and is reset. [tdr-changes-in-windows-8: call sequence]

use std::sync::Arc;
use std::time::Duration;

use crate::fence::InvalidFence;

use super::device::DeviceError;
use super::node::NodeState;
use super::packet_context::PacketContext;
use super::running::Leaving;
use super::suspects::{GivenUp, Snapshot, Suspects};

/// Work that a reset of the engine gave up.
pub(crate) enum Aborted {
    /// Nothing is given up: the packet on the hardware is submitted again after the reset.
    Nothing,
    /// A packet of this context.
    Render(Arc<PacketContext>),
    /// The memory manager's packet, which cannot be given up.
    Paging,
}

impl NodeState {
    /// The driver has reset the engine: it reports nothing of that any more.
    pub(crate) fn end_adapter_reset(&mut self) {
        self.given_up = GivenUp::default();
    }

    /// The oldest packet on the hardware and the preemption that is under way, which a timeout is about; `None` if the node is idle. The answer to a
    /// preemption is owed also when all packets have ended before it: nothing is handed over without it.
    pub(crate) fn suspects(&self) -> Option<Suspects> {
        let preemption = self.preemption.map(|preemption| (preemption.id, preemption.since));
        let oldest = self.flight.front();
        if oldest.is_none() && preemption.is_none() {
            return None;
        }
        let unlimited = oldest.and_then(|oldest| oldest.context()).is_some_and(|context| context.is_unlimited());
        Some(Suspects { oldest: oldest.map(|oldest| oldest.id), preemption, unlimited, taken_back: self.taken_back })
    }

    /// Id of the last packet that the driver has reported as complete.
    pub(crate) fn last_completed(&self) -> u32 {
        self.fences.last_completed()
    }

    /// The preemption under way counts from now.
    pub(crate) fn renew_preemption(&mut self, now: Duration) {
        if let Some(preemption) = self.preemption.as_mut() {
            preemption.since = now;
        }
    }

    /// Whatever is on the hardware is to be taken off it once, to see whether it goes. `stood`: how long the oldest packet is there.
    pub(crate) fn probe(&mut self, stood: Duration) {
        let oldest = self.flight.front().filter(|_| self.preemption.is_none());
        self.probing = oldest.map(|oldest| (oldest.id, stood));
    }

    /// Holds the node for the reset of its engine, and takes down how far it has come; at device level, so that both are one. From now
    /// on nothing is handed over and nothing that the engine says is heard. `None`, and nothing changed, if the suspects
    /// are off the hardware.
    pub(crate) fn begin_reset(&mut self, suspects: &Suspects) -> Option<Snapshot> {
        let known = |other: &Suspects| other.oldest == suspects.oldest && other.preemption == suspects.preemption;
        self.suspects().filter(known)?;
        Some(self.hold())
    }

    /// As [`NodeState::begin_reset`], whatever is on the hardware; `None` if nothing is.
    pub(crate) fn begin_reset_of_all(&mut self) -> Option<Snapshot> {
        (!self.flight.is_empty()).then(|| self.hold())
    }

    fn hold(&mut self) -> Snapshot {
        self.held = true;
        Snapshot { last_completed: self.last_completed(), last_submitted: self.last_submitted() }
    }

    /// Id of the last packet that is on the hardware, or that was.
    pub(crate) fn last_submitted(&self) -> u32 {
        self.flight.back().map_or_else(|| self.last_completed(), |last| last.id)
    }

    /// True if the engine is being reset.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// The engine was reset: `aborted` is the last packet that was given up, which ends its device, or the last one completed. The packets
    /// before it have run, since a node runs them in their order; those behind it come back. A node whose paging packet was
    /// given up stays held, for the adapter is reset next.
    ///
    /// # Errors
    /// The id is neither that of a packet on the hardware nor the last one completed; nothing is changed.
    pub(crate) fn end_reset(&mut self, aborted: u32) -> Result<Aborted, InvalidFence> {
        if self.fences.is_abandoned() {
            self.held = false;
            return Ok(Aborted::Nothing);
        }
        let cost = match self.in_flight(aborted).map(|packet| packet.context()) {
            None if aborted == self.fences.last_completed() => Aborted::Nothing,
            None => return Err(self.fences.invalid(aborted)),
            Some(None) => return Ok(Aborted::Paging),
            Some(Some(context)) => {
                let context = Arc::clone(context);
                // Before anything of it could be handed over again.
                context.device().set_error(DeviceError::Hung);
                self.complete(aborted, Leaving::Faulted)?;
                Aborted::Render(context)
            }
        };
        (self.preemption, self.held) = (None, false);
        self.take_back();
        Ok(cost)
    }
}
