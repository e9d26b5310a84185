//! The host aperture: pages of BAR4 that show any page of VRAM.

use campanile_hw::registers::VRAM_PAGE_SIZE;
use std::sync::atomic::{AtomicU32, Ordering};

/// A page that shows nothing.
const NONE: u32 = u32::MAX;

/// Page table of the CPU host aperture: the VRAM page behind each page of it.
pub(crate) struct HostAperture {
    pages: Vec<AtomicU32>,
    vram_pages: u64,
}

impl HostAperture {
    /// An aperture of `size` bytes on VRAM of `vram` bytes, with nothing shown.
    pub(crate) fn new(size: u64, vram: u64) -> Self {
        let pages = (0..size / VRAM_PAGE_SIZE).map(|_| AtomicU32::new(NONE)).collect();
        Self { pages, vram_pages: vram / VRAM_PAGE_SIZE }
    }

    /// Number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    fn page(&self, index: u64) -> Option<&AtomicU32> {
        self.pages.get(usize::try_from(index).ok()?)
    }

    /// Makes page `index` show VRAM page `target`, or nothing if there is no such page.
    pub(crate) fn show(&self, index: u64, target: u32) {
        if let Some(page) = self.page(index) {
            page.store(if u64::from(target) < self.vram_pages { target } else { NONE }, Ordering::Release);
        }
    }

    /// The VRAM page that page `index` shows.
    pub(crate) fn shown(&self, index: u64) -> Option<u64> {
        let target = self.page(index)?.load(Ordering::Acquire);
        (target != NONE).then_some(target.into())
    }

    /// Makes all pages show nothing.
    pub(crate) fn clear(&self) {
        for page in &self.pages {
            page.store(NONE, Ordering::Release);
        }
    }
}
