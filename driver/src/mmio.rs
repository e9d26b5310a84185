//! Memory shared with the device: registers, doorbells, VRAM and rings. Every access is one volatile load or store.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use campanile_hw::registers::{self, Control};

/// A kernel mapping that the device can change or observe at any time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: u64,
}

// SAFETY: a mapping is only an address; all accesses are volatile or atomic.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// # Safety
    /// `len` bytes from `base` must be mapped, writable and 8-aligned for as long as the mapping or a part of it is used, and
    /// never be covered by a Rust reference.
    pub(crate) unsafe fn new(base: NonNull<u8>, len: u64) -> Self {
        Self { base, len }
    }

    /// Bytes.
    pub(crate) fn len(self) -> u64 {
        self.len
    }

    pub(crate) fn base(self) -> NonNull<u8> {
        self.base
    }

    /// The part from `offset` of `len` bytes, if it lies inside.
    pub(crate) fn part(self, offset: u64, len: u64) -> Option<Self> {
        let end = offset.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: the offset lies inside the mapping.
        let base = unsafe { self.base.add(usize::try_from(offset).ok()?) };
        Some(Self { base, len })
    }

    /// Address of an aligned word of `size` bytes, if it lies inside.
    fn place(self, offset: u64, size: u64) -> Option<NonNull<u8>> {
        if !offset.is_multiple_of(size) {
            return None;
        }
        Some(self.part(offset, size)?.base)
    }

    /// Reads 4 bytes; all ones outside the mapping.
    pub(crate) fn read32(self, offset: u64) -> u32 {
        match self.place(offset, 4) {
            // SAFETY: an aligned word inside the mapping.
            Some(place) => unsafe { place.cast::<u32>().read_volatile() },
            None => u32::MAX,
        }
    }

    /// Reads 8 bytes; all ones outside the mapping.
    pub(crate) fn read64(self, offset: u64) -> u64 {
        match self.place(offset, 8) {
            // SAFETY: an aligned word inside the mapping.
            Some(place) => unsafe { place.cast::<u64>().read_volatile() },
            None => u64::MAX,
        }
    }

    /// Writes 4 bytes; nothing outside the mapping.
    pub(crate) fn write32(self, offset: u64, value: u32) {
        if let Some(place) = self.place(offset, 4) {
            // SAFETY: an aligned word inside the mapping.
            unsafe { place.cast::<u32>().write_volatile(value) };
        }
    }

    /// Writes 8 bytes; nothing outside the mapping.
    pub(crate) fn write64(self, offset: u64, value: u64) {
        if let Some(place) = self.place(offset, 8) {
            // SAFETY: an aligned word inside the mapping.
            unsafe { place.cast::<u64>().write_volatile(value) };
        }
    }

    /// An 8-byte word with memory ordering; for plain memory only, not registers.
    pub(crate) fn word(self, offset: u64) -> Option<&'static AtomicU64> {
        let place = self.place(offset, 8)?;
        // SAFETY: an aligned word inside the mapping, which outlives its users; atomics may be shared with the device.
        Some(unsafe { place.cast::<AtomicU64>().as_ref() })
    }

    /// Writes whole 8-byte words from `offset`, which must be 8-aligned; bytes outside the mapping are dropped.
    pub(crate) fn write_bytes(self, offset: u64, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        for (index, word) in (0u64..).zip(words) {
            self.write64(offset + index * 8, u64::from_le_bytes(*word));
        }
    }

    /// Zeroes the mapping, whole words.
    pub(crate) fn clear(self) {
        for index in 0..self.len / 8 {
            self.write64(index * 8, 0);
        }
    }
}

/// Reads of a register after which the driver gives up waiting for the function. One takes 200 ns at least across PCI Express, so all of
/// them take longer than [`registers::COMMAND_LONGEST`].
const READS_MAX: u32 = 1_000_000;

/// The register BAR, until the function is known to be gone: then it is not touched any more, and everything reads as all ones, as it
/// does from a function that is gone before that is known.
#[derive(Debug)]
pub(crate) struct Registers {
    mapping: Mapping,
    gone: AtomicBool,
}

impl Registers {
    /// Registers that start at `mapping`.
    pub(crate) fn new(mapping: Mapping) -> Self {
        Self { mapping, gone: AtomicBool::new(false) }
    }

    /// The function was removed by surprise.
    pub(crate) fn lose(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// True if the function is gone, so that none of its registers may be touched.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(crate) fn read32(&self, register: u64) -> u32 {
        if self.is_gone() { u32::MAX } else { self.mapping.read32(register) }
    }

    pub(crate) fn read64(&self, register: u64) -> u64 {
        if self.is_gone() { u64::MAX } else { self.mapping.read64(register) }
    }

    pub(crate) fn write32(&self, register: u64, value: u32) {
        if !self.is_gone() {
            self.mapping.write32(register, value);
        }
    }

    pub(crate) fn write64(&self, register: u64, value: u64) {
        if !self.is_gone() {
            self.mapping.write64(register, value);
        }
    }

    /// Reads a register until it says what is awaited, or all ones. `None` if the function does not come to that.
    pub(crate) fn poll32(&self, register: u64, is_awaited: impl Fn(u32) -> bool) -> Option<u32> {
        let mut looks = (0..READS_MAX).map(|_| {
            core::hint::spin_loop();
            self.read32(register)
        });
        looks.find(|value| *value == u32::MAX || is_awaited(*value))
    }

    /// Waits until the last write of CONTROL is carried out: writes are posted, and only a read tells that they have arrived. What the
    /// register says then; `None` if that takes longer than a function may, or the function is gone.
    pub(crate) fn settle_control(&self) -> Option<Control> {
        let settled = self.poll32(registers::CONTROL, |value| !Control::from_bits(value).busy());
        settled.filter(|value| *value != u32::MAX).map(Control::from_bits)
    }

    /// False when the function is gone or is another one.
    pub(crate) fn is_present(&self) -> bool {
        self.read32(registers::ID) == registers::ID_VALUE
    }
}

/// Makes earlier stores visible before later loads, of this processor and to the device.
pub(crate) fn full_barrier() {
    core::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_outside_or_misaligned_read_ones_and_write_nothing() {
        let mut memory = [0u64; 4];
        // SAFETY: the array outlives the mapping and is only read after it.
        let mapping = unsafe { Mapping::new(NonNull::from(&mut memory).cast(), 32) };
        mapping.write64(24, 7);
        mapping.write64(32, 8);
        mapping.write64(28, 9);
        mapping.write32(8, 5);
        assert_eq!((mapping.read64(24), mapping.read32(8)), (7, 5));
        for offset in [32, 28, u64::MAX, u64::MAX - 7] {
            assert_eq!(mapping.read64(offset), u64::MAX);
        }
        let registers = Registers::new(mapping);
        assert_eq!((registers.read64(24), registers.read32(8)), (7, 5));
        assert_eq!([registers.poll32(8, |value| value == 5), registers.poll32(8, |value| value == 6)], [Some(5), None]);
        registers.lose();
        registers.write64(24, 1);
        registers.write32(8, 1);
        assert_eq!((registers.read64(24), registers.read32(8), registers.is_present()), (u64::MAX, u32::MAX, false));
        assert!(mapping.part(8, 24).is_some() && mapping.part(8, 25).is_none() && mapping.part(u64::MAX, 2).is_none());
        assert_eq!(memory, [0, 5, 0, 7]);
    }
}
