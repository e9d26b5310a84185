//! The event ring: appending records, collapsing fence events, keeping the others until the ring has a free entry.

use crate::lock::lock;
use crate::memory::Access;
use campanile_hw::event::{self, Event, EventKind};
use campanile_hw::queue::{Location, SYSTEM_PAGE_SIZE};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Debug, Default)]
struct Ring {
    /// Bus address of the header.
    base: u64,
    /// Records, 0 before the first start.
    entries: u32,
    write: u64,
    overflows: u64,
    /// Events that found the ring full, oldest first.
    waiting: VecDeque<Event>,
}

impl Ring {
    fn at(&self, offset: u64) -> Location {
        Location::new().with_address(self.base.wrapping_add(offset) & ((1 << 52) - 1)).with_system(true)
    }

    fn load(&self, memory: &Access<'_>, offset: u64) -> Option<u64> {
        memory.resolve(self.at(offset), 8, false)?.load(0)
    }

    fn store(&self, memory: &Access<'_>, offset: u64, value: u64) -> bool {
        memory.resolve(self.at(offset), 8, true).is_some_and(|span| span.store(0, value))
    }

    /// Appends a record; false when the ring is full or cannot be reached.
    fn append(&mut self, memory: &Access<'_>, event: &Event) -> bool {
        if self.entries == 0 {
            return false;
        }
        let Some(read) = self.load(memory, event::READ_POINTER) else { return false };
        // The read pointer is the driver's word: one that lies ahead makes the ring full, never writable.
        if self.write.checked_sub(read).is_none_or(|used| used >= u64::from(self.entries)) {
            return false;
        }
        let slot = (self.write & (u64::from(self.entries) - 1)) * Event::SIZE as u64;
        let Some(span) = memory.resolve(self.at(event::HEADER_SIZE + slot), Event::SIZE as u64, true) else {
            return false;
        };
        for (index, word) in event.to_bytes().chunks_exact(8).enumerate() {
            let mut raw = [0u8; 8];
            raw.copy_from_slice(word);
            if !span.store(index as u64 * 8, u64::from_le_bytes(raw)) {
                return false;
            }
        }
        self.write += 1;
        self.store(memory, event::WRITE_POINTER, self.write)
    }

    fn flush(&mut self, memory: &Access<'_>) -> bool {
        let mut moved = false;
        while let Some(event) = self.waiting.front().copied() {
            if !self.append(memory, &event) {
                break;
            }
            self.waiting.pop_front();
            moved = true;
        }
        moved
    }
}

/// State of the event ring, for tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    /// Records, 0 for no ring.
    pub(crate) entries: u32,
    /// Records written.
    pub(crate) index: u64,
    /// The number of events that wait for a free entry of the ring.
    pub(crate) waiting: usize,
    /// True if a message is due.
    pub(crate) announcement: bool,
}

/// The function's events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    ring: Mutex<Ring>,
    /// True while the ring has an event of which no message has told the driver.
    announce: AtomicBool,
    waiting: AtomicUsize,
}

impl Events {
    /// Takes a ring into use. False, and nothing changed, if it breaks a rule or is not writable system memory throughout.
    pub(crate) fn start(&self, memory: &Access<'_>, base: u64, entries: u32) -> bool {
        let legal = entries.is_power_of_two() && (event::ENTRIES_MIN..=event::ENTRIES_MAX).contains(&entries);
        let size = event::HEADER_SIZE + u64::from(entries) * Event::SIZE as u64;
        if !legal || !base.is_multiple_of(SYSTEM_PAGE_SIZE) || base.checked_add(size).is_none_or(|end| end > 1 << 52) {
            return false;
        }
        let mut ring = lock(&self.ring);
        let candidate = Ring { base, entries, ..Ring::default() };
        let mapped = (0..size)
            .step_by(SYSTEM_PAGE_SIZE as usize)
            .all(|offset| memory.resolve(candidate.at(offset), 8, true).is_some());
        // A pointer that an earlier owner left would make the ring look full.
        let header = [event::WRITE_POINTER, event::READ_POINTER, event::OVERFLOWS];
        if !mapped || !header.into_iter().all(|word| candidate.store(memory, word, 0)) {
            return false;
        }
        let waiting = std::mem::take(&mut ring.waiting);
        *ring = Ring { waiting, ..candidate };
        true
    }

    /// Reports an event. When this returns it is in the ring, counted as collapsed, or waiting for a free entry.
    pub(crate) fn push(&self, memory: &Access<'_>, event: Event) {
        let mut ring = lock(&self.ring);
        ring.flush(memory);
        if !ring.waiting.is_empty() || !ring.append(memory, &event) {
            let fence = [EventKind::FenceSignaled as u8, EventKind::Progress as u8];
            if fence.contains(&event.kind) {
                ring.overflows += 1;
                ring.store(memory, event::OVERFLOWS, ring.overflows);
            } else {
                ring.waiting.push_back(event);
            }
        }
        self.waiting.store(ring.waiting.len(), Ordering::Release);
        self.announce.store(true, Ordering::Release);
    }

    /// Moves waiting events into the ring. True if the ring had a free entry for one.
    pub(crate) fn flush(&self, memory: &Access<'_>) -> bool {
        let mut ring = lock(&self.ring);
        let moved = ring.flush(memory);
        self.waiting.store(ring.waiting.len(), Ordering::Release);
        if moved {
            self.announce.store(true, Ordering::Release);
        }
        moved
    }

    /// True while events wait for a free entry of the ring.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) != 0
    }

    /// True while so many events wait that command buffers which end in one must wait too.
    pub(crate) fn stalled(&self) -> bool {
        self.waiting.load(Ordering::Acquire) >= event::WAITING_STALLS
    }

    /// True while so many events wait that no command may cause another one.
    pub(crate) fn full(&self) -> bool {
        self.waiting.load(Ordering::Acquire) >= event::WAITING_MAX
    }

    /// True if an interrupt message has to be sent for events in the ring.
    pub(crate) fn has_announcement(&self) -> bool {
        self.announce.load(Ordering::Acquire)
    }

    /// True for one caller if an interrupt message has to be sent, which that caller then sends.
    pub(crate) fn take_announcement(&self) -> bool {
        self.announce.load(Ordering::Acquire) && self.announce.swap(false, Ordering::AcqRel)
    }

    /// State of the event ring, to see in tests that a function holds nothing of a driver that has left.
    pub(crate) fn holding(&self) -> Holding {
        let ring = lock(&self.ring);
        Holding {
            entries: ring.entries,
            index: ring.write,
            waiting: ring.waiting.len(),
            announcement: self.has_announcement(),
        }
    }

    /// Forgets the ring and everything in it.
    pub(crate) fn reset(&self) {
        *lock(&self.ring) = Ring::default();
        self.waiting.store(0, Ordering::Release);
        self.announce.store(false, Ordering::Release);
    }
}
