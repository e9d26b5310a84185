//! The next step of a node: a packet is handed to the driver, or packets are taken off the hardware.

use std::time::Duration;

use super::node::{NodeState, RENDER_DEPTH};
use super::packet::{Next, Packet};
use super::priority::PacketPriority;

impl NodeState {
    /// Decides what to do. A packet to be handed over is on the hardware from now on, since it may complete before the driver
    /// returns. `preemptible`: the driver takes preemptions.
    pub(in crate::vidsch) fn next(&mut self, preemptible: bool, now: Duration) -> Next {
        if self.preemption.is_some() || self.held {
            return Next::Nothing;
        }
        if let Some(oldest) = self.probing.take()
            && preemptible
            && !self.flight.is_empty()
        {
            return self.preempt(now, Some(oldest));
        }
        if let Some(packet) = self.paging.pop_front() {
            return self.fly(packet);
        }
        if core::mem::take(&mut self.evicting) && preemptible && self.has_render() {
            return self.preempt(now, None);
        }
        if self.paused {
            return Next::Nothing;
        }
        let mut dropped = Vec::new();
        self.queued.retain_mut(|queued| {
            let lost = queued.context.is_lost();
            if lost {
                dropped.extend(queued.packets.drain(..));
            }
            !lost
        });
        self.drop_packets(dropped);
        let Some((best, standing)) = self.best() else { return Next::Nothing };
        let outranked =
            |packet: &Packet| packet.context().is_some_and(|context| standing.outranks(context.packet_priority()));
        if preemptible && self.flight.iter().any(outranked) {
            return self.preempt(now, None);
        }
        if self.flight.iter().filter(|packet| packet.context().is_some()).count() >= RENDER_DEPTH {
            return Next::Nothing;
        }
        let packet = self.queued.get_mut(best).and_then(|queued| queued.packets.pop_front());
        self.move_behind_equals(best, standing);
        self.queued.retain(|queued| !queued.packets.is_empty());
        let Some(mut packet) = packet else { return Next::Nothing };
        packet.id = self.fences.submit();
        self.fly(packet)
    }

    /// The place of the context that goes next, and where it stands: of the highest ones the first, or one of the same process with a
    /// higher priority in that.
    fn best(&self) -> Option<(usize, PacketPriority)> {
        let mut best: Option<(usize, PacketPriority)> = None;
        for (place, queued) in self.queued.iter().enumerate().filter(|(_, queued)| !queued.context.is_away()) {
            let standing = queued.context.packet_priority();
            if best.is_none_or(|(_, best)| standing.outranks(best)) {
                best = Some((place, standing));
            }
        }
        best
    }

    fn fly(&mut self, packet: Packet) -> Next {
        self.resubmitted += u64::from(packet.again);
        self.running.begins(packet.device().map(|device| &device.process));
        self.flight.push_back(packet.clone());
        self.give_to_head();
        Next::Submit(packet)
    }
}
