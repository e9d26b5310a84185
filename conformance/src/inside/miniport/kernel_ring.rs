// UNSAFETY: reads and writes memory that a driver shares with its device.
//! Rings that the kernel writes for queues that the hardware schedules, as the device sees them.

use campanile_hw::queue::{CONTROL_READ_POINTER, CONTROL_SIZE, CONTROL_WRITE_POINTER, RING_ENTRY_SIZE};

/// The ring of a queue that the kernel writes, in the memory that the driver gave the device.
#[derive(Clone, Copy)]
pub(crate) struct KernelRing(*mut u64);

impl KernelRing {
    /// The ring whose control page is at this address.
    pub(super) fn at(control: *mut u64) -> Self {
        Self(control)
    }

    fn word(self, offset: u64) -> *mut u64 {
        self.0.wrapping_add(offset as usize / 8)
    }

    /// Number of entries that the driver has written: the write pointer.
    pub(crate) fn written(self) -> u64 {
        // SAFETY: a word of the control page.
        unsafe { self.word(CONTROL_WRITE_POINTER).read_volatile() }
    }

    /// Says that the device has read this many entries.
    pub(crate) fn read(self, entries: u64) {
        // SAFETY: as above.
        unsafe { self.word(CONTROL_READ_POINTER).write_volatile(entries) };
    }

    /// Size of the command buffer of the entry in this slot, and its tag.
    pub(crate) fn entry(self, slot: u64) -> (u32, u64) {
        let [size, tag] = [8, 16].map(|offset| {
            let place = self.word(CONTROL_SIZE + slot * RING_ENTRY_SIZE + offset);
            // SAFETY: a word of an entry.
            unsafe { place.read_volatile() }
        });
        (size as u32, tag)
    }
}
