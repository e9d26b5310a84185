//! The packets of a node: those that wait for a place in its hardware ring, and those that are there.

use campanile_hw::event::FaultInfo;
use campanile_hw::queue::Location;

use crate::node::shift;
use crate::pool::{OutOfMemory, PoolVec, Tag};

/// Buffers of a node in its hardware ring.
pub(super) const NODE_DEPTH: usize = 4;

/// One submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Address of the command buffer.
    pub(crate) commands: u64,
    /// Its size, a multiple of 16.
    pub(crate) size: u32,
    /// Address space it runs in.
    pub(crate) root: Location,
    /// Id that the operating system gave it.
    pub(crate) fence: u32,
    /// True if the submission was refused, so that the operating system counts it as complete: it only keeps its place in the order.
    pub(crate) silent: bool,
    /// True for a paging buffer, whose packets may write page tables.
    pub(crate) paging: bool,
    /// The process it belongs to: the driver's handle bits, and the operating system's handle as an address. 0 if unknown.
    pub(crate) process: u64,
    pub(crate) dxgk_process: usize,
    /// Handle bits of its context, 0 for none, and the bytes of the buffer that ran before a preemption: `commands` begins behind them.
    pub(crate) context: u64,
    pub(crate) executed: u32,
}

/// A buffer that was preempted at a WAIT after a part of it had run; the rest runs when it is submitted again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PreemptedBuffer {
    /// GPU virtual address of the command buffer.
    pub(crate) buffer: u64,
    /// Bytes from the start of the buffer that were executed before the preemption.
    pub(crate) executed: u32,
}

impl Packet {
    /// The packet's context, and how much of its buffer has run, `more` bytes since this submission; `None` without context or if none has run.
    pub(super) fn preempted_buffer(&self, more: u32) -> Option<(u64, PreemptedBuffer)> {
        let executed = self.executed.saturating_add(more);
        let buffer = self.commands.wrapping_sub(self.executed.into());
        (executed != 0 && self.context != 0).then_some((self.context, PreemptedBuffer { buffer, executed }))
    }
}

/// A packet that faulted: where, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketFault {
    pub(crate) packet: Packet,
    pub(crate) address: u64,
    pub(crate) info: FaultInfo,
}

/// A preemption under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preemption {
    pub(super) id: u32,
    /// True once the ring is empty.
    pub(super) done: bool,
}

/// Bits of a tag: fence id, then epoch, so that an event from before a reset is recognised.
pub(super) const fn tag(fence: u32, epoch: u32) -> u64 {
    fence as u64 | (epoch as u64) << 32
}

/// Packets that wait for a free place in the hardware ring, in order.
pub(super) struct Fifo {
    items: PoolVec<Packet>,
    first: usize,
}

impl Fifo {
    pub(super) const fn new() -> Self {
        Self { items: PoolVec::new(Tag::QUEUE), first: 0 }
    }

    pub(super) fn push(&mut self, packet: Packet) -> Result<(), OutOfMemory> {
        if self.first != 0 && self.first >= self.items.len() / 2 {
            self.items.remove_front(self.first);
            self.first = 0;
        }
        self.items.push(packet)
    }

    pub(super) fn front(&self) -> Option<Packet> {
        self.items.get(self.first).copied()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Packet> {
        self.items.iter().skip(self.first)
    }

    pub(super) fn pop(&mut self) {
        self.first += 1;
        if self.first >= self.items.len() {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.first = 0;
    }
}

/// Packets in the hardware ring that have not retired, in no order, and the preemption that was asked for while they ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) packets: [Option<Packet>; NODE_DEPTH],
    pub(super) epoch: u32,
    pub(super) preemption: Option<Preemption>,
}

impl Flight {
    pub(super) const fn new() -> Self {
        Self { packets: [None; NODE_DEPTH], epoch: 1, preemption: None }
    }

    /// Takes `packet` in if a place is free and no preemption waits; returns the tag for its entry.
    pub(super) fn enter(&mut self, packet: Packet) -> Option<u64> {
        if self.preemption.is_some() {
            return None;
        }
        let place = self.packets.iter_mut().find(|place| place.is_none())?;
        *place = Some(packet);
        Some(tag(packet.fence, self.epoch))
    }

    /// The oldest packet.
    pub(super) fn oldest(&self) -> Option<Packet> {
        self.packets.first().copied().flatten()
    }

    /// Takes the oldest packet out.
    pub(super) fn leave(&mut self) -> Option<Packet> {
        let oldest = self.oldest()?;
        shift(&mut self.packets);
        Some(oldest)
    }

    /// The ring is empty for the preemption under way, if there is one: returns what is left in it. Of that only the oldest began.
    pub(super) fn stop(&mut self) -> [Option<Packet>; NODE_DEPTH] {
        let Some(preemption) = self.preemption.as_mut() else { return [None; NODE_DEPTH] };
        preemption.done = true;
        core::mem::replace(&mut self.packets, [None; NODE_DEPTH])
    }

    /// The preemption that can be reported now.
    pub(super) fn preempted(&mut self) -> Option<u32> {
        self.preemption.take_if(|preemption| preemption.done).map(|preemption| preemption.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn packet(fence: u32) -> Packet {
        Packet {
            commands: 0x1000,
            size: 16,
            root: Location::new(),
            fence,
            silent: false,
            paging: false,
            process: u64::from(fence),
            dxgk_process: 0,
            context: 1,
            executed: 0,
        }
    }

    #[test]
    fn the_ring_takes_its_depth_and_gives_packets_back_in_order() {
        let mut flight = Flight::new();
        for fence in 0..NODE_DEPTH as u32 {
            assert_eq!(flight.enter(packet(fence)), Some(tag(fence, 1)));
        }
        assert_eq!(flight.enter(packet(9)), None);
        assert_eq!(flight.leave(), Some(packet(0)));
        assert!(flight.enter(packet(9)).is_some());
        let rest: Vec<_> = core::iter::from_fn(|| flight.leave()).map(|packet| packet.fence).collect();
        assert_eq!(rest, [1, 2, 3, 9]);
    }

    #[test]
    fn a_preemption_waits_for_the_ring_and_lets_nothing_in() {
        let mut flight = Flight::new();
        for fence in 1..=2 {
            flight.enter(packet(fence));
        }
        assert_eq!(flight.stop(), [None; NODE_DEPTH], "nothing is being preempted");
        flight.preemption = Some(Preemption { id: 77, done: false });
        assert_eq!((flight.preempted(), flight.enter(packet(3))), (None, None));
        flight.leave();
        assert_eq!(flight.stop().into_iter().flatten().collect::<Vec<_>>(), [packet(2)]);
        assert_eq!((flight.preempted(), flight.preempted(), flight.oldest()), (Some(77), None, None));
        assert!(flight.enter(packet(2)).is_some());
    }

    #[test]
    fn the_fifo_keeps_order_and_does_not_grow_with_what_went_through_it() {
        testing::bind();
        let mut fifo = Fifo::new();
        let mut next = 0;
        for fence in 0..1000 {
            fifo.push(packet(fence)).unwrap();
            if fence % 3 != 0 {
                assert_eq!(fifo.front().map(|packet| packet.fence), Some(next));
                fifo.pop();
                next += 1;
            }
            assert!(fifo.items.len() <= 2 * (fence - next + 2) as usize + 4, "{} items", fifo.items.len());
        }
        let rest: Vec<_> = core::iter::from_fn(|| {
            let front = fifo.front();
            fifo.pop();
            front
        })
        .map(|packet| packet.fence)
        .collect();
        assert_eq!(rest, (next..1000).collect::<Vec<_>>());
    }
}
