//! Doorbells: 4-KiB pages in BAR2 whose first 8 bytes are written by user mode.

/// Bytes of a doorbell page: the distance between doorbells in BAR2, and the part of BAR2 that a process with a connected doorbell sees.
pub const DOORBELL_PAGE_SIZE: u64 = 4096;
/// Offset of the doorbell word in its page. All other bytes of the page have no effect; ConnectDoorbell clears all of it.
pub const WORD_OFFSET: u64 = 0;

word! {
    /// Value stored to a doorbell, always as one 64-bit store.
    pub struct DoorbellValue: u64 {
        /// Write pointer of the ring after the new entries, modulo 2^48.
        48 write_pointer: u64,
        /// Queue number; read only from a global doorbell.
        16 queue: u16,
    }
}

impl DoorbellValue {
    /// What rings a dedicated doorbell for this write pointer, which is taken modulo 2^48.
    #[inline]
    pub const fn of_write_pointer(write_pointer: u64) -> Self {
        let mask = (1 << Self::WRITE_POINTER_BITS) - 1;
        Self((write_pointer & mask) << Self::WRITE_POINTER_OFFSET)
    }
}

const _: () = assert!(DoorbellValue::of_write_pointer((1 << 48) | 5).write_pointer() == 5);
const _: () = assert!(DoorbellValue::of_write_pointer(u64::MAX).queue() == 0);
