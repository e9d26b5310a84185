//! Pages of a CPU host aperture, free and in use.

use std::sync::Arc;

use nt::page::PAGE_SIZE;
use wddm_ddi::status::*;

use crate::bar_place::BarPlace;
use crate::vidmm::user_mapping::Part;

/// The pages of a segment's window that nobody uses.
pub(crate) struct HostAperture {
    /// Bus address of the first page.
    pub(super) address: u64,
    pub(super) free: Vec<u32>,
}

impl HostAperture {
    /// A window of `pages` pages at a translated bus address.
    pub(crate) fn new(address: u64, pages: u32) -> Self {
        Self { address, free: (0..pages).rev().collect() }
    }

    /// Pages that nobody uses.
    pub(crate) fn free_pages(&self) -> u64 {
        self.free.len() as u64
    }

    pub(super) fn take(&mut self, pages: u64) -> Option<Vec<u32>> {
        let left = self.free.len().checked_sub(usize::try_from(pages).ok()?)?;
        Some(self.free.split_off(left))
    }
}

/// Pages of a window that show an allocation.
#[must_use]
pub(crate) struct ApertureWindow {
    pub(super) segment: u32,
    pub(super) address: u64,
    pub(super) pages: Vec<u32>,
}

impl ApertureWindow {
    /// What a user address is to show, which is what the window shows.
    ///
    /// # Errors
    /// STATUS_GRAPHICS_CANT_LOCK_MEMORY if the bus does not know a page.
    pub(crate) fn parts(&self, bars: &BarFiles) -> Result<Vec<Part>, NTSTATUS> {
        let part = |(index, page): (u64, &u32)| {
            let place = bars(self.address + u64::from(*page) * PAGE_SIZE).ok_or(STATUS_GRAPHICS_CANT_LOCK_MEMORY)?;
            let (at, file, offset) = (index * PAGE_SIZE, place.file, place.offset);
            Ok(Part { at, file, offset, len: PAGE_SIZE, writable: true })
        };
        (0..).zip(&self.pages).map(part).collect()
    }
}

/// Finds the file behind a bus address of a BAR as it is mapped now.
pub(crate) type BarFiles = Arc<dyn Fn(u64) -> Option<BarPlace> + Send + Sync>;
