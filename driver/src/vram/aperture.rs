//! The aperture segment: a table from its pages to pages of system memory.
//!
//! The hardware has no such table. Page-table entries that name the aperture are written with the page that the table names at
//! that moment, so the memory manager must map a range before it writes entries for it and withdraw the entries before it unmaps
//! the range, as it does for every aperture.

use core::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::queue::SYSTEM_PAGE_SIZE;

use crate::pool::{OutOfMemory, PoolVec, Tag};
use crate::segment::APERTURE_SIZE;

const PAGES: u64 = APERTURE_SIZE / SYSTEM_PAGE_SIZE;
/// Marks a page as mapped; addresses are multiples of the page size.
const MAPPED: u64 = 1;

/// The table. Reads and writes of an entry are atomic; order between them is the memory manager's.
pub(crate) struct Aperture {
    pages: PoolVec<AtomicU64>,
}

impl Aperture {
    /// An aperture with nothing mapped. All memory it will ever need is taken here, because mapping must not fail.
    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        Ok(Self { pages: PoolVec::filled(PAGES as usize, Tag::APERTURE, |_| AtomicU64::new(0))? })
    }

    fn entry(&self, page: u64) -> Option<&AtomicU64> {
        self.pages.get(usize::try_from(page).ok()?)
    }

    /// True if `count` pages from `first` lie inside the aperture.
    pub(crate) fn contains(&self, first: u64, count: u64) -> bool {
        first.checked_add(count).is_some_and(|end| end <= PAGES)
    }

    /// Maps `page` to system memory at `address`, a multiple of the page size; false outside the aperture.
    pub(crate) fn map(&self, page: u64, address: u64) -> bool {
        let Some(entry) = self.entry(page) else { return false };
        entry.store((address / SYSTEM_PAGE_SIZE * SYSTEM_PAGE_SIZE) | MAPPED, Ordering::Release);
        true
    }

    /// Address of the system page that `page` is mapped to.
    pub(crate) fn resolve(&self, page: u64) -> Option<u64> {
        let entry = self.entry(page)?.load(Ordering::Acquire);
        (entry & MAPPED != 0).then_some(entry & !MAPPED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn pages_resolve_once_mapped_and_only_inside() {
        testing::bind();
        let aperture = Aperture::new().unwrap();
        assert_eq!(aperture.resolve(0), None);
        assert!(aperture.map(0, 0) && aperture.map(PAGES - 1, 0x1234_5000));
        assert_eq!((aperture.resolve(0), aperture.resolve(PAGES - 1)), (Some(0), Some(0x1234_5000)));
        assert!(!aperture.map(PAGES, 0x1000) && !aperture.map(u64::MAX, 0x1000));
        assert!(aperture.contains(0, PAGES) && !aperture.contains(1, PAGES) && !aperture.contains(u64::MAX, 2));
    }
}
