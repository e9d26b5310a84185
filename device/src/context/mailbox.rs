//! The mailbox of the command processor (CMP): what doorbells, wait lists and commands tell a node about a queue without taking the
//! node's lock.
//!
//! Each queue number has a slot of news. The thread that sets the first bit of a slot puts the queue's number into the node's inbox, so an
//! inbox has every queue at most once, however often user mode stores to a doorbell.

use super::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, lock};
use campanile_hw::registers::NODES;
use std::sync::atomic::Ordering;

const RUNG: u32 = 1;
const LOOK: u32 = 2;
const WAKE: u32 = 4;

#[derive(Debug, Default)]
struct Slot {
    /// Node number plus one; 0 while no such queue is mapped.
    node: AtomicU32,
    /// Doorbell number plus one; 0 while none is connected.
    doorbell: AtomicU32,
    bits: AtomicU32,
    write: AtomicU64,
    ticket: AtomicU64,
}

#[derive(Debug, Default)]
struct Inbox {
    queues: Mutex<Vec<u32>>,
    /// True while the node has something to do: its inbox is not empty, or the node itself has set this because a queue is runnable.
    pending: AtomicBool,
}

/// The mailbox's notices for one queue, taken out together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    /// The write pointer of the last store to the queue's doorbell; `None` if there was no store.
    pub(crate) rung: Option<u64>,
    /// True if the node has to read the write pointer in the ring-control page.
    pub(crate) look: bool,
    /// The ticket of the WAIT that the node has to evaluate again; `None` if no signal concerned it.
    pub(crate) wake: Option<u64>,
}

/// The mailbox of all nodes: a slot for each queue number and an inbox for each node.
#[derive(Debug)]
pub(crate) struct Mailbox {
    slots: Box<[Slot]>,
    inboxes: [Inbox; NODES as usize],
}

impl Mailbox {
    /// An empty mailbox for queue numbers below `queues`.
    pub(crate) fn new(queues: u32) -> Self {
        Self { slots: (0..queues).map(|_| Slot::default()).collect(), inboxes: Default::default() }
    }

    /// The number of queue numbers, which is the most queues that can be mapped.
    pub(crate) fn capacity(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// The number of queues that are mapped on a node.
    pub(crate) fn held(&self) -> usize {
        self.slots.iter().filter(|slot| slot.node.load(Ordering::Acquire) != 0).count()
    }

    fn slot(&self, queue: u32) -> Option<&Slot> {
        self.slots.get(queue as usize)
    }

    /// The node of a mapped queue; `None` if the queue is not mapped.
    pub(crate) fn node_of(&self, queue: u32) -> Option<u32> {
        self.slot(queue)?.node.load(Ordering::Acquire).checked_sub(1)
    }

    /// The doorbell that is connected to a queue; `None` if none is.
    pub(crate) fn doorbell_of(&self, queue: u32) -> Option<u32> {
        self.slot(queue)?.doorbell.load(Ordering::Acquire).checked_sub(1)
    }

    /// Sets the node on which a queue is mapped; `None` when it is not mapped.
    pub(crate) fn set_node(&self, queue: u32, node: Option<u32>) {
        if let Some(slot) = self.slot(queue) {
            slot.node.store(node.map_or(0, |node| node + 1), Ordering::Release);
        }
    }

    /// Takes a queue out of the mailbox. The caller has disconnected its doorbell and ended its waits, so no thread posts news about it any
    /// more.
    pub(crate) fn close(&self, queue: u32, node: u32) {
        self.set_node(queue, None);
        if let Some((slot, inbox)) = self.slot(queue).zip(self.inboxes.get(node as usize)) {
            lock(&inbox.queues).retain(|waiting| *waiting != queue);
            slot.bits.store(0, Ordering::Release);
        }
    }

    /// Sets which doorbell rings a queue; `None` when it is disconnected.
    pub(crate) fn set_doorbell(&self, queue: u32, doorbell: Option<u32>) {
        if let Some(slot) = self.slot(queue) {
            slot.doorbell.store(doorbell.map_or(0, |doorbell| doorbell + 1), Ordering::Release);
        }
    }

    fn post(&self, queue: u32, bit: u32) {
        let Some((slot, node)) = self.slot(queue).zip(self.node_of(queue)) else { return };
        let Some(inbox) = self.inboxes.get(node as usize) else { return };
        if slot.bits.fetch_or(bit, Ordering::AcqRel) == 0 {
            lock(&inbox.queues).push(queue);
        }
        // A node that has not seen the push clears this before it takes the lock of the inbox, so it stays set.
        inbox.pending.store(true, Ordering::Release);
    }

    /// Posts that the doorbell of `queue` was stored to. A later store replaces an earlier one.
    pub(crate) fn rung(&self, queue: u32, write: u64) {
        if let Some(slot) = self.slot(queue) {
            slot.write.store(write, Ordering::Release);
            self.post(queue, RUNG);
        }
    }

    /// Asks the node to read the write pointer of `queue` from its ring-control page.
    pub(crate) fn look(&self, queue: u32) {
        self.post(queue, LOOK);
    }

    /// Asks the node to evaluate the WAIT number `ticket` of `queue` again.
    pub(crate) fn wake(&self, queue: u32, ticket: u64) {
        if let Some(slot) = self.slot(queue) {
            slot.ticket.store(ticket, Ordering::Release);
            self.post(queue, WAKE);
        }
    }

    /// Moves the inbox of `node` into `into`, which is empty and keeps its capacity.
    pub(crate) fn take_inbox(&self, node: u32, into: &mut Vec<u32>) {
        if let Some(inbox) = self.inboxes.get(node as usize) {
            std::mem::swap(&mut *lock(&inbox.queues), into);
        }
    }

    /// Takes the news about one queue; `None` if there is no such queue number.
    pub(crate) fn open(&self, queue: u32) -> Option<News> {
        let slot = self.slot(queue)?;
        let bits = slot.bits.swap(0, Ordering::AcqRel);
        Some(News {
            rung: (bits & RUNG != 0).then(|| slot.write.load(Ordering::Acquire)),
            look: bits & LOOK != 0,
            wake: (bits & WAKE != 0).then(|| slot.ticket.load(Ordering::Acquire)),
        })
    }

    /// True while the node has something to do, so that the runner gives it a slice.
    pub(crate) fn pending(&self, node: u32) -> bool {
        self.inboxes.get(node as usize).is_some_and(|inbox| inbox.pending.load(Ordering::Acquire))
    }

    /// Notes that the node has something to do, or nothing. The node clears this before it reads its inbox, so that it misses no news.
    pub(crate) fn set_pending(&self, node: u32, pending: bool) {
        if let Some(inbox) = self.inboxes.get(node as usize) {
            inbox.pending.store(pending, Ordering::SeqCst);
        }
    }

    /// Forgets all queues and news.
    pub(crate) fn reset(&self) {
        for slot in &self.slots {
            slot.node.store(0, Ordering::Release);
            slot.doorbell.store(0, Ordering::Release);
            slot.bits.store(0, Ordering::Release);
        }
        for inbox in &self.inboxes {
            lock(&inbox.queues).clear();
            inbox.pending.store(false, Ordering::SeqCst);
        }
    }
}
