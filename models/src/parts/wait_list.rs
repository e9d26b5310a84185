//! A fence, the engines that signal it and a node whose queues wait for it.

use super::mailbox::Mailbox;
use super::memory::Access;
use super::race::{Full, Word};
use super::sync::AtomicU64;
use super::waits::Waits;
use crate::{Fault, left_out};
use campanile_hw::fence::{self, FenceWord, UNMONITORED};
use std::cell::Cell;

/// Key of the fence's list.
const KEY: u64 = 0x1000;
/// The node whose queues wait.
const NODE: u32 = 0;

/// A fence that nobody waits for but queues.
pub(crate) struct Fence {
    current: AtomicU64,
    waits: Waits,
    mailbox: Mailbox,
}

/// CurrentValue as a queue reads it.
struct Looked<'a>(&'a Fence, Cell<Option<u64>>);

impl FenceWord for Looked<'_> {
    fn load(&self) -> u64 {
        match self.1.get() {
            Some(seen) if left_out(Fault::SecondLook) => seen,
            _ => {
                let seen = self.0.current();
                self.1.set(Some(seen));
                seen
            }
        }
    }

    fn store(&self, value: u64) {
        Word(&self.0.current).store(value);
    }
}

/// No monitored value.
struct Unmonitored;

impl FenceWord for Unmonitored {
    fn load(&self) -> u64 {
        UNMONITORED
    }

    fn store(&self, _value: u64) {}
}

impl Fence {
    /// A fence for that many queues.
    pub(crate) fn new(queues: u32) -> Self {
        let mailbox = Mailbox::new(queues);
        (0..queues).for_each(|queue| mailbox.set_node(queue, Some(NODE)));
        Self { current: AtomicU64::new(0), waits: Waits::default(), mailbox }
    }

    pub(crate) fn current(&self) -> u64 {
        Word(&self.current).load()
    }

    /// A SIGNAL packet.
    pub(crate) fn signal(&self, value: u64) {
        let told = fence::signal(&Word(&self.current), &Unmonitored, &Full(Fault::SignalBarrier), value);
        assert!(!told.announce, "no CPU waits");
        self.waits.signalled(&self.mailbox, KEY, value);
    }

    /// The CPU signals, and the driver says so by command FenceChanged.
    pub(crate) fn signal_from_cpu(&self, value: u64) {
        Word(&self.current).store(value);
        self.waits.changed(&self.mailbox, &Access(&self.current), KEY);
    }

    /// Command RescanWaits.
    pub(crate) fn rescan(&self) {
        self.waits.rescan(&self.mailbox);
    }
}

/// A queue whose only packet is a WAIT.
struct Queue {
    value: u64,
    ticket: u64,
    held: bool,
    passed: u32,
}

/// The node: its engine evaluates a WAIT, or its scheduler reads the mailbox.
pub(crate) struct Node(Vec<Queue>);

impl Node {
    /// A node whose queues wait for these values.
    pub(crate) fn new(values: &[u64]) -> Self {
        Self(values.iter().map(|value| Queue { value: *value, ticket: 0, held: false, passed: 0 }).collect())
    }

    fn evaluate(queue: &mut Queue, number: u32, fence: &Fence) {
        let current = Looked(fence, Cell::new(None));
        let value = queue.value;
        let enter = || {
            queue.ticket += 1;
            fence.waits.enter(KEY, number, queue.ticket, value);
            queue.ticket
        };
        let reached = fence::wait(&current, value, enter, |ticket| fence.waits.leave(KEY, number, ticket));
        queue.held = !reached;
        queue.passed += u32::from(reached);
    }

    /// Every queue comes to its WAIT.
    pub(crate) fn begin(&mut self, fence: &Fence) {
        for (queue, number) in self.0.iter_mut().zip(0..) {
            Self::evaluate(queue, number, fence);
        }
    }

    /// Every blocked queue is suspended and resumed.
    pub(crate) fn suspend_and_resume(&mut self, fence: &Fence) {
        for (queue, number) in self.0.iter_mut().zip(0..).filter(|(queue, _)| queue.held) {
            fence.waits.leave(KEY, number, queue.ticket);
            Self::evaluate(queue, number, fence);
        }
    }

    /// Reads the mailbox once.
    pub(crate) fn drain(&mut self, fence: &Fence) {
        fence.mailbox.set_pending(NODE, false);
        let mut inbox = Vec::new();
        fence.mailbox.take_inbox(NODE, &mut inbox);
        for number in inbox {
            let ticket = fence.mailbox.open(number).and_then(|news| news.wake);
            if let Some(queue) = self.0.get_mut(number as usize)
                && queue.held
                && Some(queue.ticket) == ticket
            {
                Self::evaluate(queue, number, fence);
            }
        }
    }

    /// Nobody signals any more: once the mailbox is read, exactly the queues are through whose value is reached, each once.
    pub(crate) fn check(&mut self, fence: &Fence) {
        while fence.mailbox.pending(NODE) {
            self.drain(fence);
        }
        let current = fence.current();
        for queue in &self.0 {
            let expected = u32::from(current >= queue.value);
            assert_eq!(queue.passed, expected, "the queue that waits for {} at {current}", queue.value);
        }
    }
}
