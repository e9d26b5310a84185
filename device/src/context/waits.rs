//! Wait lists: the queues that wait in a WAIT, by the physical place of the fence's current value.
//!
//! The place, not the address, is the key, so that a fence shared between address spaces has one list. A queue enters its list and then
//! reads the value again; an engine that signals writes the value and then looks for waiters. With a full barrier between the two steps on
//! both sides, one of them sees the other.

use super::mailbox::Mailbox;
use super::sync::{Access, AtomicU64, AtomicUsize, Mutex, fence, lock};
use campanile_hw::queue::Location;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;

/// Key of waits on a page that reads as zero: no signal reaches them.
pub(crate) const NOWHERE: u64 = u64::MAX;

/// End of a chain.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Waiter {
    key: u64,
    queue: u32,
    ticket: u64,
    value: u64,
    next: u32,
}

/// Waiters in the order in which they came.
#[derive(Clone, Copy, Debug)]
struct Chain {
    head: u32,
    tail: u32,
}

/// Chains through a slab: entering and leaving allocate only when there were never so many waiters before.
#[derive(Debug, Default)]
struct Table {
    waiters: Vec<Option<Waiter>>,
    free: Vec<u32>,
    chains: HashMap<u64, Chain, RandomState>,
}

impl Table {
    fn enter(&mut self, waiter: Waiter) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.waiters.push(None);
            (self.waiters.len() - 1) as u32
        });
        let key = waiter.key;
        if let Some(slot) = self.waiters.get_mut(at as usize) {
            *slot = Some(waiter);
        }
        let chain = self.chains.entry(key).or_insert(Chain { head: at, tail: at });
        if chain.head != at {
            let tail = std::mem::replace(&mut chain.tail, at);
            if let Some(Some(last)) = self.waiters.get_mut(tail as usize) {
                last.next = at;
            }
        }
    }

    /// Takes the waiters that `ready` names out of the list of `key`. Returns how many were looked at and how many left.
    fn take(&mut self, key: u64, mut ready: impl FnMut(&Waiter) -> bool) -> (u64, usize) {
        let Entry::Occupied(mut entry) = self.chains.entry(key) else { return (0, 0) };
        let mut chain = *entry.get();
        let (mut at, mut before, mut seen, mut left) = (chain.head, NONE, 0, 0);
        while let Some(Some(waiter)) = self.waiters.get(at as usize).copied() {
            seen += 1;
            if ready(&waiter) {
                left += 1;
                if let Some(slot) = self.waiters.get_mut(at as usize) {
                    *slot = None;
                }
                self.free.push(at);
                match self.waiters.get_mut(before as usize) {
                    Some(Some(previous)) => previous.next = waiter.next,
                    _ => chain.head = waiter.next,
                }
                if chain.tail == at {
                    chain.tail = before;
                }
            } else {
                before = at;
            }
            at = waiter.next;
        }
        if chain.head == NONE {
            entry.remove();
        } else {
            entry.insert(chain);
        }
        (seen, left)
    }
}

/// All wait lists of the function.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    table: Mutex<Table>,
    /// The number of waiters in all lists, so that a signal without waiters takes no lock. Written under the lock only.
    count: AtomicUsize,
    /// Written under the lock only.
    visits: AtomicU64,
}

impl Waits {
    /// Puts a queue into the list of `key`. The caller must read the value again afterwards.
    pub(crate) fn enter(&self, key: u64, queue: u32, ticket: u64, value: u64) {
        let mut table = lock(&self.table);
        table.enter(Waiter { key, queue, ticket, value, next: NONE });
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        drop(table);
        fence(Ordering::SeqCst);
    }

    /// Takes a queue out of the list of `key`, if it is still there.
    pub(crate) fn leave(&self, key: u64, queue: u32, ticket: u64) {
        let mut table = lock(&self.table);
        let (seen, left) = table.take(key, |waiter| waiter.queue == queue && waiter.ticket == ticket);
        self.settle(&table, seen, left);
    }

    /// Counts what was done under the lock, which the caller still has.
    fn settle(&self, _table: &Table, seen: u64, left: usize) {
        self.visits.store(self.visits.load(Ordering::Relaxed) + seen, Ordering::Relaxed);
        self.count.store(self.count.load(Ordering::Relaxed) - left, Ordering::Relaxed);
    }

    /// The value at `key` is now `value`: wakes the queues that waited for it. The caller has written it and passed a full barrier.
    #[inline]
    pub(crate) fn signalled(&self, mailbox: &Mailbox, key: u64, value: u64) {
        if self.count.load(Ordering::Relaxed) != 0 {
            self.release(mailbox, key, value);
        }
    }

    fn release(&self, mailbox: &Mailbox, key: u64, value: u64) {
        let mut table = lock(&self.table);
        let (seen, left) = table.take(key, |waiter| {
            let ready = waiter.value <= value;
            if ready {
                mailbox.wake(waiter.queue, waiter.ticket);
            }
            ready
        });
        self.settle(&table, seen, left);
    }

    /// The processor or another function wrote the value at `key`: evaluates it for the queues that wait there.
    pub(crate) fn changed(&self, mailbox: &Mailbox, memory: &Access<'_>, key: u64) {
        fence(Ordering::SeqCst);
        let value = memory.resolve(Location::from_bits(key), 8, false).and_then(|span| span.load(0));
        // A value that cannot be read any more wakes the queue, which then faults by itself.
        self.release(mailbox, key, value.unwrap_or(u64::MAX));
    }

    /// True if no queue waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Looks at every value in system memory that has waiters. True if a queue waits no more.
    pub(crate) fn look(&self, mailbox: &Mailbox, memory: &Access<'_>) -> bool {
        let keys: Vec<u64> = lock(&self.table).chains.keys().copied().collect();
        let before = self.count.load(Ordering::Relaxed);
        for key in keys.into_iter().filter(|key| *key != NOWHERE && Location::from_bits(*key).system()) {
            self.changed(mailbox, memory, key);
        }
        self.count.load(Ordering::Relaxed) < before
    }

    /// Lets every waiting queue evaluate its WAIT again, translation included.
    pub(crate) fn rescan(&self, mailbox: &Mailbox) {
        let mut table = lock(&self.table);
        let all: Vec<Waiter> = table.waiters.iter().flatten().copied().collect();
        *table = Table::default();
        for waiter in &all {
            mailbox.wake(waiter.queue, waiter.ticket);
        }
        self.settle(&table, all.len() as u64, all.len());
    }

    /// Waiters looked at so far.
    pub(crate) fn visits(&self) -> u64 {
        self.visits.load(Ordering::Relaxed)
    }

    /// Waiters in all lists.
    pub(crate) fn held(&self) -> usize {
        lock(&self.table).waiters.iter().flatten().count()
    }

    /// Forgets all waiters.
    pub(crate) fn reset(&self) {
        let mut table = lock(&self.table);
        *table = Table::default();
        self.count.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The model is a plain list; the order of waiters on one key is the order in which they came.
        #[test]
        fn chains_agree_with_a_plain_list(steps in proptest::collection::vec((any::<bool>(), 0..4u64, 0..8u64), 1..80)) {
            let mut table = Table::default();
            let mut model: Vec<(u64, u32, u64)> = Vec::new();
            for (number, (enter, key, value)) in (0u32..).zip(steps) {
                if enter {
                    table.enter(Waiter { key, queue: number, ticket: 0, value, next: NONE });
                    model.push((key, number, value));
                    continue;
                }
                let mut woken = Vec::new();
                let (seen, left) = table.take(key, |waiter| {
                    let ready = waiter.value <= value;
                    if ready {
                        woken.push(waiter.queue);
                    }
                    ready
                });
                let on_key = model.iter().filter(|waiter| waiter.0 == key).count();
                let ready = |waiter: &&(u64, u32, u64)| waiter.0 == key && waiter.2 <= value;
                let expected: Vec<u32> = model.iter().filter(ready).map(|waiter| waiter.1).collect();
                prop_assert_eq!(&woken, &expected);
                prop_assert_eq!((seen, left), (on_key as u64, expected.len()));
                model.retain(|waiter| !ready(&waiter));
                prop_assert_eq!(table.chains.contains_key(&key), model.iter().any(|waiter| waiter.0 == key));
            }
            prop_assert_eq!(table.waiters.iter().flatten().count(), model.len());
            prop_assert_eq!(table.waiters.len(), model.len() + table.free.len(), "no slot is lost");
        }
    }
}
