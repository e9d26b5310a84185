//! What a doorbell is made of: the user range that shows it, and the memory of its ring.

use std::sync::Arc;

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use crate::bar_place::BarPlace;
use crate::vidmm::{Allocation, UserMapping};
use crate::vidsch::ProcessAdapter;
use nt::page::PAGE_SIZE;
use nt::ram::Pages;

/// A user range that shows a physical doorbell or the dummy page.
pub(super) struct DoorbellWindow {
    dummy: Pages,
    pub(super) mapping: UserMapping,
}

impl DoorbellWindow {
    /// One of `size` bytes that shows the dummy page.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn new(process: &ProcessAdapter, size: u32) -> Result<Self, NTSTATUS> {
        let dummy = process.adapter.machine.ram().allocate(u64::from(size), PAGE_SIZE).ok_or(STATUS_NO_MEMORY)?;
        dummy.zero();
        let mapping = UserMapping::of_pages(process.kept.user(), &dummy, true).map_err(|_| STATUS_NO_MEMORY)?;
        // Who rings a function that sleeps or is gone, before the doorbell is taken away, stores nowhere.
        mapping.answer_for_function().map_err(|_| STATUS_NO_MEMORY)?;
        Ok(Self { dummy, mapping })
    }

    /// Shows the dummy page.
    pub(super) fn hide(&self) -> std::io::Result<()> {
        self.mapping.rotate(self.dummy.ram().file(), self.dummy.address(), true)
    }

    /// Shows the physical doorbell.
    pub(super) fn show(&self, place: &BarPlace) -> std::io::Result<()> {
        self.mapping.rotate(&place.file, place.offset, true)
    }
}

/// Ring and ring control of a doorbell, which are not destroyed before it.
pub(super) struct Rings(Mutex<Vec<Arc<Allocation>>>);

impl Rings {
    /// Refers to both.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for one that is being destroyed; nothing is referred to then.
    pub(super) fn new(both: [&Arc<Allocation>; 2]) -> Result<Self, NTSTATUS> {
        let rings = Self(Mutex::default());
        for allocation in both {
            allocation.add_doorbell_reference()?;
            lock(&rings.0).push(Arc::clone(allocation));
        }
        Ok(rings)
    }

    /// The doorbell is gone.
    pub(super) fn release(&self) {
        let rings = std::mem::take(&mut *lock(&self.0));
        rings.iter().for_each(|allocation| allocation.release_doorbell_reference());
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.release();
    }
}
