//! Rings that only the kernel writes: a control page and the entries behind it, in VRAM or in contiguous system memory.

use core::sync::atomic::Ordering;

use campanile_hw::queue::{
    CONTROL_READ_POINTER, CONTROL_SIZE, CONTROL_WRITE_POINTER, Location, QueueDescriptor, QueueFlags, RING_ENTRY_SIZE,
    RingEntry, RingGeometry,
};

use crate::mmio::Mapping;
use crate::node::priority::Priority;

/// Entries of a kernel ring: one page of them.
pub(crate) const RING_ENTRIES: u32 = 128;
/// Bytes of the memory of a ring.
pub(crate) const RING_SIZE: u64 = CONTROL_SIZE + RING_ENTRIES as u64 * RING_ENTRY_SIZE;
/// Bytes of the memory of a node's ring.
pub(crate) const NODE_RING_SIZE: u64 = RING_SIZE;

const GEOMETRY: RingGeometry = match RingGeometry::new(RING_ENTRIES) {
    Some(geometry) => geometry,
    None => panic!("not a legal ring"),
};

/// The memory for the state of a DISPATCH while its queue is off the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SaveArea {
    pub(crate) location: Location,
    /// Bytes.
    pub(crate) size: u32,
}

/// A kernel ring.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    control: Mapping,
    entries: Mapping,
    location: Location,
    /// The memory for the state of a DISPATCH that was preempted.
    save_area: Option<SaveArea>,
}

impl Ring {
    /// A ring in `memory`, which the device knows as `location`; `None` if it is too small.
    pub(crate) fn new(memory: Mapping, location: Location) -> Option<Self> {
        let control = memory.part(0, CONTROL_SIZE)?;
        let entries = memory.part(CONTROL_SIZE, RING_SIZE - CONTROL_SIZE)?;
        Some(Self { control, entries, location, save_area: None })
    }

    /// The same ring, for a queue with this save area.
    pub(crate) fn with_save_area(self, save_area: Option<SaveArea>) -> Self {
        Self { save_area, ..self }
    }

    /// Descriptor of a queue with this ring, in the normal band and of no process.
    pub(crate) fn descriptor(&self, node: u32) -> QueueDescriptor {
        QueueDescriptor {
            ring: self.location.with_address(self.location.address() + CONTROL_SIZE).into_bits(),
            control: self.location.into_bits(),
            ring_entries: RING_ENTRIES,
            flags: QueueFlags::new().with_privileged(true).with_physical_ring(true).into_bits(),
            node,
            rank: Priority::normal().rank.into_bits(),
            save_area: self.save_area.map_or(0, |area| area.location.into_bits()),
            save_size: self.save_area.map_or(0, |area| area.size),
            ..QueueDescriptor::ZERO
        }
    }

    /// Starts over: nothing written, nothing read. The queue must not be mapped.
    pub(crate) fn reset(&self) {
        self.control.clear();
    }

    /// Writes entry number `number`; it counts once published.
    pub(crate) fn write(&self, number: u64, entry: &RingEntry) {
        self.entries.write_bytes(GEOMETRY.slot(number), &entry.to_bytes());
    }

    /// Publishes every entry before number `end`.
    pub(crate) fn publish(&self, end: u64) {
        if let Some(word) = self.control.word(CONTROL_WRITE_POINTER) {
            word.store(end, Ordering::Release);
        }
    }

    /// True if the ring has a free entry for number `next`. A read pointer that cannot be right makes the ring count as full.
    pub(crate) fn has_free_entry(&self, next: u64) -> bool {
        GEOMETRY.free(next, self.read_pointer()) != 0
    }

    fn read_pointer(&self) -> u64 {
        self.control.word(CONTROL_READ_POINTER).map_or(u64::MAX, |word| word.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::NonNull;

    #[test]
    fn a_ring_is_full_until_the_device_reads() {
        let mut memory = vec![0u64; RING_SIZE as usize / 8];
        // SAFETY: the memory outlives the ring and is not borrowed meanwhile.
        let mapping = unsafe { Mapping::new(NonNull::from(&mut memory[..]).cast(), RING_SIZE) };
        let ring = Ring::new(mapping, Location::new().with_address(0x8000)).unwrap();
        assert!((0..u64::from(RING_ENTRIES)).all(|number| ring.has_free_entry(number)));
        assert!(!ring.has_free_entry(u64::from(RING_ENTRIES)));
        mapping.write64(CONTROL_READ_POINTER, 1);
        assert!(ring.has_free_entry(u64::from(RING_ENTRIES)));
        mapping.write64(CONTROL_READ_POINTER, u64::MAX);
        assert!(!ring.has_free_entry(1));
        let descriptor = ring.descriptor(2);
        assert_eq!((descriptor.control, descriptor.ring, descriptor.ring_entries), (0x8000, 0x9000, 128));
        ring.write(129, &RingEntry { commands: 0x10, size: 16, flags: 1, tag: 7, root: 9 });
        ring.publish(130);
        assert_eq!(mapping.read64(CONTROL_WRITE_POINTER), 130);
        assert_eq!(mapping.read64(CONTROL_SIZE + 32), 0x10);
        assert_eq!(mapping.read64(CONTROL_SIZE + 48), 7);
        assert!(Ring::new(mapping.part(0, RING_SIZE - 8).unwrap(), Location::new()).is_none());
    }
}
