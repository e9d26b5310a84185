//! The event ring, in which the device reports what happened.

use core::sync::atomic::Ordering;

use campanile_hw::event::{self, Event};

use crate::dxgk::ContiguousMemory;
use crate::irql::{Device, Passive};
use crate::lock::{DeviceLock, PushLock};
use crate::mmio::Mapping;

/// Records of the event ring.
pub(crate) const EVENT_ENTRIES: u32 = 4096;
/// Bytes of the event ring.
pub(crate) const EVENT_RING_SIZE: u64 = event::HEADER_SIZE + EVENT_ENTRIES as u64 * Event::SIZE as u64;

/// The event ring and how far it was read.
pub(crate) struct EventRing {
    mapping: Mapping,
    /// Bus address of the ring.
    pub(crate) address: u64,
    memory: PushLock<Option<ContiguousMemory>>,
    cursor: DeviceLock<Cursor>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// Records consumed since RUN.
    read: u64,
    /// The ring's counter of collapsed fence events as it was handled last.
    overflows: u64,
}

/// The next entry of the event ring.
pub(crate) enum Next {
    Event(Event),
    /// Fence events were collapsed: any fence may have been signalled.
    Overflow,
    /// The write pointer is further ahead than the ring has entries; everything up to it was dropped.
    Lost,
}

impl EventRing {
    pub(crate) fn new(memory: ContiguousMemory) -> Self {
        Self {
            mapping: memory.mapping,
            address: memory.address,
            memory: PushLock::new(Some(memory)),
            cursor: DeviceLock::new(Cursor::default()),
        }
    }

    /// Takes the memory out, when neither the device nor the interrupt routine uses it any more.
    pub(crate) fn take_memory(&self, irql: &Passive) -> Option<ContiguousMemory> {
        self.memory.lock(irql).take()
    }

    /// Starts over, before RUN is set.
    pub(crate) fn reset(&self, irql: &Device) {
        self.cursor.with(irql, |cursor| *cursor = Cursor::default());
        self.mapping.clear();
    }

    /// Takes what is next.
    pub(crate) fn next(&self, irql: &Device) -> Option<Next> {
        self.cursor.with(irql, |cursor| next(self.mapping, cursor))
    }
}

fn next(ring: Mapping, cursor: &mut Cursor) -> Option<Next> {
    let overflows = ring.word(event::OVERFLOWS)?.load(Ordering::Acquire);
    if overflows != cursor.overflows {
        cursor.overflows = overflows;
        return Some(Next::Overflow);
    }
    let write = ring.word(event::WRITE_POINTER)?.load(Ordering::Acquire);
    let pending = write.wrapping_sub(cursor.read);
    if pending == 0 {
        return None;
    }
    let read_pointer = ring.word(event::READ_POINTER)?;
    if pending > u64::from(EVENT_ENTRIES) {
        cursor.read = write;
        read_pointer.store(write, Ordering::Release);
        return Some(Next::Lost);
    }
    let slot = cursor.read % u64::from(EVENT_ENTRIES) * Event::SIZE as u64;
    let mut bytes = [0u8; Event::SIZE];
    for (word, offset) in bytes.as_chunks_mut::<8>().0.iter_mut().zip((0u64..).step_by(8)) {
        *word = ring.read64(event::HEADER_SIZE + slot + offset).to_le_bytes();
    }
    cursor.read = cursor.read.wrapping_add(1);
    // The record is copied out before the device may overwrite it.
    read_pointer.store(cursor.read, Ordering::Release);
    Some(Next::Event(Event::from_bytes(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::NonNull;

    const WORDS: usize = EVENT_RING_SIZE as usize / 8;

    fn ring(memory: &mut [u64]) -> Mapping {
        let len = size_of_val(memory) as u64;
        // SAFETY: the slice outlives the mapping in each test and is not borrowed meanwhile.
        unsafe { Mapping::new(NonNull::from(memory).cast(), len) }
    }

    fn record(tag: u64) -> Event {
        Event { kind: 3, node: 1, queue: 1, data0: tag, data1: 0, timestamp: 0 }
    }

    fn append(ring: Mapping, tag: u64) {
        let write = ring.read64(event::WRITE_POINTER);
        let slot = write % u64::from(EVENT_ENTRIES) * Event::SIZE as u64;
        ring.write_bytes(event::HEADER_SIZE + slot, &record(tag).to_bytes());
        ring.write64(event::WRITE_POINTER, write + 1);
    }

    #[test]
    fn records_are_taken_in_order_across_the_wrap() {
        let mut memory = vec![0u64; WORDS];
        let ring = ring(&mut memory);
        let mut cursor = Cursor::default();
        for tag in 0..u64::from(EVENT_ENTRIES) + 10 {
            append(ring, tag);
            match next(ring, &mut cursor) {
                Some(Next::Event(event)) => assert_eq!(event, record(tag)),
                _ => panic!("a record"),
            }
            assert_eq!(ring.read64(event::READ_POINTER), tag + 1);
        }
        assert!(next(ring, &mut cursor).is_none());
    }

    #[test]
    fn an_overflow_is_answered_once() {
        let mut memory = vec![0u64; WORDS];
        let ring = ring(&mut memory);
        let mut cursor = Cursor::default();
        ring.write64(event::OVERFLOWS, 5);
        assert!(matches!(next(ring, &mut cursor), Some(Next::Overflow)));
        assert!(next(ring, &mut cursor).is_none());
    }

    #[test]
    fn a_write_pointer_that_cannot_be_true_drops_what_it_claims() {
        let mut memory = vec![0u64; WORDS];
        let ring = ring(&mut memory);
        let mut cursor = Cursor::default();
        ring.write64(event::WRITE_POINTER, u64::from(EVENT_ENTRIES) + 1);
        assert!(matches!(next(ring, &mut cursor), Some(Next::Lost)));
        assert!(next(ring, &mut cursor).is_none());
        append(ring, 7);
        assert!(matches!(next(ring, &mut cursor), Some(Next::Event(event)) if event.data0 == 7));
    }
}
