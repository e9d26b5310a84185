//! The state of a function that its driver has set up: queues, doorbells, waits, events and mappings. After a reset all of it is gone, so that the
//! next driver finds nothing of the last one; tests compare it with that of a fresh function.

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::event::Holding;
use crate::gpu::Gpu;
use crate::lock::lock;

/// The state that a driver has set up in a function, at one moment. Counters and the contents of VRAM are not part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// True if the scheduler runs.
    pub running: bool,
    /// Queues that are mapped.
    pub queues: usize,
    /// Doorbells that are connected to one.
    pub doorbells: usize,
    /// Doorbells whose page has a word that is not 0.
    pub rung: usize,
    /// Queues in the lists of those that wait for a fence.
    pub waits: usize,
    /// Entries of the event ring, 0 for none.
    pub event_ring: u32,
    /// The function's index of the event ring.
    pub event_index: u64,
    /// Events that wait for a free entry of the ring.
    pub events: usize,
    /// True if a message is due that announces events.
    pub announcement: bool,
    /// True if MSI-X is enabled.
    pub messages: bool,
    /// Vectors that are not masked, a bit each.
    pub open_vectors: u64,
    /// Vectors with a message that could not be sent yet, a bit each.
    pub pending_vectors: u64,
    /// Registers that keep what was written and are not zero.
    pub registers: usize,
    /// True if the function answers at its BARs.
    pub visible: bool,
    /// True if it may access system memory.
    pub bus_master: bool,
    /// Ranges of bus addresses that lead to memory, as first address and length; adjacent ones are one.
    pub dma: Vec<(u64, u64)>,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |set: bool| if set { "on" } else { "off" };
        let Self { queues, doorbells, rung, waits, event_ring, event_index, events, registers, .. } = self;
        let bytes: u64 = self.dma.iter().map(|(_, len)| len).sum();
        write!(
            f,
            "scheduler {}, {queues} queues, {doorbells} doorbells connected, {rung} rung, {waits} waits, event ring of {event_ring} at {event_index} \
             with {events} waiting, announcement {}, messages {}, vectors open {:#x} pending {:#x}, {registers} registers, BARs {}, bus master {}, \
             {bytes:#x} bytes of memory in {} ranges",
            word(self.running),
            word(self.announcement),
            word(self.messages),
            self.open_vectors,
            self.pending_vectors,
            word(self.visible),
            word(self.bus_master),
            self.dma.len(),
        )
    }
}

impl Gpu {
    /// The state that the driver has set up. Each part is read by itself: while work goes on, they need not be of the same moment.
    pub fn held(&self) -> Held {
        let config = lock(&self.config);
        let (doorbells, rung) = self.cmp.doorbells_held();
        let Holding { entries, index, waiting, announcement } = self.cmp.events().holding();
        let (bus_master, dma) = self.memory.held();
        let msix = lock(&self.msix);
        let (messages, open_vectors, pending_vectors) = msix.held();
        drop(msix);
        let registers = self.registers.lock().unwrap_or_else(PoisonError::into_inner).kept();
        drop(config);
        Held {
            running: self.cmp.running(),
            queues: self.cmp.queues_held(),
            doorbells,
            rung,
            waits: self.cmp.waits_held(),
            event_ring: entries,
            event_index: index,
            events: waiting,
            announcement,
            messages,
            open_vectors,
            pending_vectors,
            registers,
            visible: self.visible.load(Ordering::Acquire),
            bus_master,
            dma,
        }
    }
}
