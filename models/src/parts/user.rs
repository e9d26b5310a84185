//! Stand-ins for the parts of the user-mode driver on which its ring depends.

/// Mappings of ring and control page.
pub(crate) mod buffer {
    use super::shared::{Entries, UserMemory, SharedRange};
    use std::ptr::NonNull;

    /// Memory that user mode has mapped; whoever makes one keeps what it shows.
    pub(crate) struct Mapping {
        start: NonNull<u8>,
        len: usize,
    }

    impl Mapping {
        /// A ring.
        pub(crate) fn of_ring(entries: &Entries) -> Self {
            Self { start: NonNull::from(entries).cast(), len: entries.bytes() }
        }

        /// A control page that holds the write pointer.
        pub(crate) fn of_control(write_pointer: &UserMemory) -> Self {
            const { assert!(campanile_hw::queue::CONTROL_WRITE_POINTER == 0) };
            Self {
                start: NonNull::from(write_pointer).cast(),
                len: campanile_hw::queue::CONTROL_SIZE as usize,
            }
        }

        pub(crate) fn as_ptr(&self) -> *mut u8 {
            self.start.as_ptr()
        }

        pub(crate) fn len(&self) -> usize {
            self.len
        }

        /// # Safety
        /// Called for a ring, which outlives the range.
        pub(crate) unsafe fn words(&self) -> SharedRange {
            SharedRange::new(self.start.cast())
        }
    }
}

/// Errors.
pub(crate) mod error {
    pub(crate) type Result<T> = core::result::Result<T, Error>;

    #[derive(Debug)]
    pub(crate) enum Error {
        BadAnswer(#[allow(dead_code, reason = "shown when the ring of a model is not legal")] &'static str),
    }
}

/// Memory shared with the operating system and the device.
pub(crate) mod shared {
    pub(crate) use super::super::sync::fence;
    use super::super::sync::{AtomicU64, EntryWord, Page};
    use crate::{Fault, left_out};
    use std::ffi::c_void;
    use std::ptr::NonNull;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    /// Words of a ring entry.
    const ENTRY_WORDS: usize = campanile_hw::queue::RingEntry::SIZE / 8;

    /// A location in user-mode memory.
    pub(crate) enum UserMemory {
        /// Ordinary memory.
        Word(AtomicU64),
        /// The page of a doorbell, which a process turns that may be another one.
        Doorbell(Arc<Page>),
    }

    impl UserMemory {
        pub(crate) fn zero() -> Self {
            Self::Word(AtomicU64::new(0))
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            match self {
                Self::Word(word) => word.load(order),
                Self::Doorbell(_) => unreachable!("nobody reads a doorbell"),
            }
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            match self {
                Self::Word(word) => word.store(value, order),
                Self::Doorbell(page) => page.store(value),
            }
        }

        fn store_and_fence(&self, value: u64) {
            match self {
                Self::Word(word) if left_out(Fault::SubmitBarrier) => word.store(value, Ordering::Release),
                Self::Word(word) => {
                    word.swap(value, Ordering::SeqCst);
                    fence(Ordering::SeqCst);
                }
                Self::Doorbell(_) => unreachable!("a doorbell needs no barrier"),
            }
        }
    }

    /// An address of user mode.
    #[derive(Clone, Copy)]
    pub(crate) struct SharedWord(NonNull<UserMemory>);

    // SAFETY: a place may be used from every thread; that it stays is promised to `new` and `of`.
    unsafe impl Send for SharedWord {}
    // SAFETY: as for Send.
    unsafe impl Sync for SharedWord {}

    impl SharedWord {
        /// # Safety
        /// A [`UserMemory`] at this address outlives all copies of the word.
        pub(crate) unsafe fn new(address: *mut c_void) -> Option<Self> {
            NonNull::new(address.cast()).map(Self)
        }

        /// The address of `place`, which outlives all copies of the word.
        pub(crate) fn of(place: &UserMemory) -> Self {
            Self(NonNull::from(place))
        }

        fn place(&self) -> &UserMemory {
            // SAFETY: the place outlives the word by the promise given when it was made.
            unsafe { self.0.as_ref() }
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            self.place().load(order)
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            self.place().store(value, order);
        }

        pub(crate) fn store_and_fence(&self, value: u64) {
            self.place().store_and_fence(value);
        }
    }

    /// The entries of a ring.
    pub(crate) struct Entries(Vec<[EntryWord; ENTRY_WORDS]>);

    impl Entries {
        pub(crate) fn new(count: u32) -> Self {
            Self((0..count).map(|_| std::array::from_fn(|_| EntryWord::new(0))).collect())
        }

        pub(crate) fn bytes(&self) -> usize {
            self.0.len() * ENTRY_WORDS * 8
        }

        /// The address of the commands in the entry at byte `offset`.
        pub(crate) fn commands(&self, offset: u64) -> u64 {
            let entry = offset as usize / (ENTRY_WORDS * 8);
            self.0[entry][0].load(Ordering::Relaxed)
        }
    }

    /// The entries as user mode writes them.
    #[derive(Clone, Copy)]
    pub(crate) struct SharedRange(NonNull<Entries>);

    // SAFETY: made of atomics; that it stays is promised to `Mapping::words`.
    unsafe impl Send for SharedRange {}

    impl SharedRange {
        pub(crate) fn new(entries: NonNull<Entries>) -> Self {
            Self(entries)
        }

        /// # Safety
        /// The offset is that of an entry of the ring.
        pub(crate) unsafe fn write<const N: usize>(&self, offset: usize, words: [u64; N]) {
            // SAFETY: the entries outlive the range by the promise given to `Mapping::words`.
            let entries = unsafe { self.0.as_ref() };
            let entry = &entries.0[offset / (ENTRY_WORDS * 8)];
            for (slot, word) in entry.iter().zip(words) {
                slot.store(word, Ordering::Relaxed);
            }
        }
    }
}
