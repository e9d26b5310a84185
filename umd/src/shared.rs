//! Memory that the GPU or the operating system reads and writes while we do.
//!
//! Such memory is never behind a Rust reference to plain data: words are atomics, ranges are raw.

use core::{
    ffi::c_void,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

pub(crate) use core::sync::atomic::fence;

/// One 64-bit word.
#[derive(Clone, Copy)]
pub(crate) struct SharedWord(NonNull<AtomicU64>);

// SAFETY: an atomic may be used from every thread; that it stays mapped is promised to `SharedWord::new`.
unsafe impl Send for SharedWord {}
// SAFETY: as for Send.
unsafe impl Sync for SharedWord {}

impl SharedWord {
    /// The word at `address`; `None` if the address is null or not a multiple of 8.
    ///
    /// # Safety
    /// Eight bytes at `address` stay mapped while a copy of the word is used, writable if it is stored to.
    pub(crate) unsafe fn new(address: *mut c_void) -> Option<Self> {
        NonNull::new(address.cast::<AtomicU64>()).filter(|word| word.is_aligned()).map(Self)
    }

    pub(crate) fn as_ptr(&self) -> *const u64 {
        self.0.as_ptr().cast()
    }

    #[inline(always)]
    fn atomic(&self) -> &AtomicU64 {
        // SAFETY: mapped and aligned by the promise given to `new`.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.atomic().load(order)
    }

    #[inline(always)]
    pub(crate) fn store(&self, value: u64, order: Ordering) {
        self.atomic().store(value, order);
    }

    /// Stores `value` with a full barrier: visible before any later load is made.
    #[inline(always)]
    pub(crate) fn store_and_fence(&self, value: u64) {
        // Not an exchange, which is both in one instruction: where memory is uncached that locks the bus.
        self.atomic().store(value, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

/// A range of words that we write and the GPU reads.
#[derive(Clone, Copy)]
pub(crate) struct SharedRange {
    base: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: accessed by atomics only; that it stays mapped is promised to `SharedRange::new`.
unsafe impl Send for SharedRange {}

impl SharedRange {
    /// The range of `bytes` at `address`.
    ///
    /// # Safety
    /// The address is a multiple of 8, and the range stays mapped and writable while a copy of it is used.
    pub(crate) unsafe fn new(address: NonNull<u8>, bytes: usize) -> Self {
        Self { base: address.cast(), bytes }
    }

    /// Bytes in the range.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes whole words from byte `offset`, a multiple of 8.
    ///
    /// # Safety
    /// `offset + 8 * N` is at most [`SharedRange::bytes`].
    #[inline(always)]
    pub(crate) unsafe fn write<const N: usize>(&self, offset: usize, words: [u64; N]) {
        debug_assert!(offset.is_multiple_of(8) && offset + N * 8 <= self.bytes);
        for (index, word) in words.into_iter().enumerate() {
            // SAFETY: inside the range by the caller's promise.
            let slot = unsafe { self.base.add(offset / 8 + index) };
            // SAFETY: mapped and aligned by the promise given to `new`.
            let slot = unsafe { slot.as_ref() };
            // Ordered against the device by the code that publishes the words.
            slot.store(word, Ordering::Relaxed);
        }
    }

    /// Moves `bytes`, a multiple of 8, from `from` down to the start of the range.
    pub(crate) fn move_to_start(&self, from: usize, bytes: usize) {
        let words = bytes.min(self.bytes.saturating_sub(from)) / 8;
        for index in 0..words {
            // SAFETY: `from / 8 + index` lies inside the range, because `words` was cut to it.
            let source = unsafe { self.base.add(from / 8 + index) };
            // SAFETY: `index` is not above the source's.
            let target = unsafe { self.base.add(index) };
            // SAFETY: mapped and aligned by the promise given to `new`.
            let source = unsafe { source.as_ref() };
            // SAFETY: as above.
            let target = unsafe { target.as_ref() };
            target.store(source.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
