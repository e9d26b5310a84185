//! The translations that compiled code uses without asking.

use std::ptr::NonNull;

/// Bytes that one entry covers.
pub(crate) const PAGE: u64 = 4096;
/// Entries.
pub(crate) const COUNT: usize = 512;
/// The place of an entry is the low bits of its page number exclusive-or the number shifted right by each of these: buffers like to be aligned to large powers of two.
pub(crate) const FOLDS: [u32; 2] = [9, 18];
/// No page has this number.
const NONE: u64 = u64::MAX;

/// A translation, as compiled code reads it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Page {
    /// Page number of the addresses that may be read.
    pub(crate) read: u64,
    /// Page number of the addresses that may be written.
    pub(crate) write: u64,
    /// Added to an address, modulo 2^64, it gives the place in the memory of the host.
    pub(crate) place: u64,
    unused: u64,
}

impl Page {
    const NOTHING: Self = Self { read: NONE, write: NONE, place: 0, unused: 0 };
}

/// Translations of pages of 4 KiB in front of the GPU's page tables. An access to a page that is not there is left to the interpreter.
#[derive(Debug)]
pub struct Pages(Box<[Page; COUNT]>);

impl Default for Pages {
    fn default() -> Self {
        Self(Box::new([Page::NOTHING; COUNT]))
    }
}

impl Pages {
    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.0.fill(Page::NOTHING);
    }

    /// Notes where the page of an address lies.
    ///
    /// # Safety
    /// Until [`Pages::clear`], whenever a program runs with these translations, the 4096 bytes from `place` on are memory of the process that nothing refers to but by
    /// atomic or raw accesses, and that may be read, and written if `writable` is set.
    pub unsafe fn insert(&mut self, address: u64, place: NonNull<u8>, writable: bool) {
        let number = address / PAGE;
        let folded = FOLDS.iter().fold(number, |folded, by| folded ^ number >> by);
        let Some(page) = self.0.get_mut(folded as usize % COUNT) else { return };
        let write = if writable { number } else { NONE };
        *page = Page { read: number, write, place: (place.as_ptr() as u64).wrapping_sub(number * PAGE), unused: 0 };
    }

    pub(crate) fn first(&self) -> *const Page {
        self.0.as_ptr()
    }
}
