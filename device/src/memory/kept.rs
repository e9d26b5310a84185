//! Words that an engine writes to in slice after slice, such as a fence log, found again without a search of the ranges.
//!
//! UNSAFETY: an address is kept longer than the lock under which it was found. It becomes references again under that lock only, and only
//! while nothing has changed that the lock guards.

use super::Access;
use campanile_hw::queue::Location;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// 64-bit words that were resolved for writing once and are valid in later slices too, until the generation of memory changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptWords {
    first: NonNull<AtomicU64>,
    count: usize,
    shape: u64,
}

// SAFETY: an address that only [`Access::reopen`] makes references of; the mapping behind it belongs to the process, not to a thread.
unsafe impl Send for KeptWords {}

impl KeptWords {
    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        size_of::<AtomicU64>() as u64 * self.count as u64
    }
}

impl Access<'_> {
    /// The words of up to `len` bytes at a location, 8-aligned, for an engine that writes there again and again; `None` when the location
    /// leads nowhere.
    pub(crate) fn resolve_to_keep(&self, location: Location, len: u64) -> Option<KeptWords> {
        let span = self.resolve(location, len, true)?;
        let words = span.words(0, span.len / size_of::<AtomicU64>())?;
        Some(KeptWords { first: NonNull::from(words).cast(), count: words.len(), shape: self.system.shape })
    }

    /// The generation of memory, which stays as long as this view lives: under another one addresses of the host may be gone.
    pub(crate) fn shape(&self) -> u64 {
        self.system.shape
    }

    /// True if the words are still where they were found, because the generation of memory has not changed.
    #[inline]
    pub(crate) fn has_kept(&self, kept: &KeptWords) -> bool {
        kept.shape == self.system.shape
    }

    /// The words that were kept; `None` once the generation of memory has changed.
    #[inline]
    pub(crate) fn reopen(&self, kept: &KeptWords) -> Option<&[AtomicU64]> {
        if !self.has_kept(kept) {
            return None;
        }
        // SAFETY: `resolve_to_keep` had these words from memory of this shape, so from this very memory: the mapping, VRAM's or one of a
        // range, is there and stays while the lock is held; and an atomic may change at any time.
        Some(unsafe { std::slice::from_raw_parts(kept.first.as_ptr(), kept.count) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::store;
    use super::super::tests::{at, memory};
    use super::*;
    use campanile_hw::queue::SYSTEM_PAGE_SIZE;

    #[test]
    fn kept_words_are_where_they_were_until_memory_has_another_shape() {
        let (memory, file) = memory();
        let (other, _) = super::super::tests::memory();
        memory.map(0, &file, 0, 2 * SYSTEM_PAGE_SIZE, true).expect("mapped");
        memory.map(4 * SYSTEM_PAGE_SIZE, &file, 4 * SYSTEM_PAGE_SIZE, SYSTEM_PAGE_SIZE, false).expect("mapped");
        let keep = |page| memory.access().resolve_to_keep(at(page), SYSTEM_PAGE_SIZE);
        assert!(keep(4).is_none(), "read-only");
        assert!(keep(2).is_none(), "nothing there");
        assert!(memory.access().resolve_to_keep(at(0).with_address(4), SYSTEM_PAGE_SIZE).is_none(), "misaligned");
        let vram = || memory.access().resolve_to_keep(Location::new(), 16);
        let changes: [&dyn Fn(); 5] = [
            &|| memory.map(8 * SYSTEM_PAGE_SIZE, &file, 0, SYSTEM_PAGE_SIZE, true).expect("mapped"),
            &|| memory.unmap(8 * SYSTEM_PAGE_SIZE, SYSTEM_PAGE_SIZE),
            &|| memory.unmap(0, SYSTEM_PAGE_SIZE),
            &|| memory.enable(true),
            &|| memory.enable(false),
        ];
        for (value, change) in (1..).zip(changes) {
            let (system, vram) = (keep(1).expect("kept"), vram().expect("kept"));
            assert_eq!((system.len(), vram.len()), (SYSTEM_PAGE_SIZE, 16));
            let access = memory.access();
            let [words, other_words] = [&system, &vram].map(|kept| access.reopen(kept).expect("as it was"));
            words.iter().chain(other_words).for_each(|word| store(word, value));
            assert_eq!(access.resolve(at(1), 8, false).and_then(|span| span.load(0)), Some(value));
            assert_eq!(access.resolve(Location::new(), 16, false).and_then(|span| span.load(8)), Some(value));
            assert!(!other.access().has_kept(&system) && other.access().reopen(&vram).is_none(), "another memory");
            drop(access);
            change();
            let access = memory.access();
            assert!(!access.has_kept(&system) && access.reopen(&system).is_none() && access.reopen(&vram).is_none());
        }
        assert!(keep(1).is_none(), "no access at all");
    }
}
