//! What a doorbell is made of: the user range that shows it, and the memory of its ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nt::lock::{Mutex, lock};
use nt::page::PAGE_SIZE;
use nt::ram::{Owner, Pages};
use wddm_ddi::status::*;

use crate::bar_place::BarPlace;
use crate::refusal::{Failure, refused};
use crate::vidmm::{Allocation, UserMapping, VidMm};

use super::process_adapter::ProcessAdapter;

/// A user range that shows a physical doorbell or the dummy page.
pub(in crate::vidsch) struct DoorbellWindow {
    dummy: Pages,
    pub(in crate::vidsch) mapping: UserMapping,
    /// It may show a physical doorbell. Changed with the state of the doorbell locked.
    shown: AtomicBool,
}

impl DoorbellWindow {
    /// One of `size` bytes that shows the dummy page.
    ///
    /// # Errors
    /// No memory.
    pub(in crate::vidsch) fn new(process: &ProcessAdapter, size: u32) -> Result<Self, NTSTATUS> {
        let owner = process.kept.memory().written(process.adapter.machine.ram())?;
        let dummy = owner.allocate(u64::from(size), PAGE_SIZE).ok_or(STATUS_NO_MEMORY)?;
        dummy.zero();
        let mapping = UserMapping::of_pages(process.kept.user(), &dummy).map_err(|_| STATUS_NO_MEMORY)?;
        // A process that rings a function that sleeps or is gone, before the doorbell is taken away, stores nowhere.
        mapping.answer_for_function().map_err(|_| STATUS_NO_MEMORY)?;
        Ok(Self { dummy, mapping, shown: AtomicBool::new(false) })
    }

    /// Shows the dummy page, or memory of the process' own where the host does not let it. A process that refuses both is ended.
    ///
    /// # Errors
    /// It is this process, which cannot be ended.
    pub(in crate::vidsch) fn hide(&self) -> std::io::Result<()> {
        if !self.shown.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.mapping.must(|mapping| mapping.show_pages(0, &self.dummy).or_else(|_| mapping.blank()))?;
        self.shown.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the process the pages of a BAR at which the driver has a physical doorbell; the answer is where they lie. `None` for what is no such pages.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY.
    pub(in crate::vidsch) fn place(
        &self,
        process: &ProcessAdapter,
        address: usize,
    ) -> Result<Option<BarPlace>, NTSTATUS> {
        let (adapter, len) = (&process.adapter, self.mapping.len());
        let place = || adapter.bar_at_kernel_address(address);
        let whole = |place: &BarPlace| place.offset.is_multiple_of(PAGE_SIZE) && place.len >= len;
        if !place().is_some_and(|place| place.offset.is_multiple_of(PAGE_SIZE)) {
            return Ok(None);
        }
        match adapter.give_mapped_bar_pages(address, len, process.kept.bar_owner()) {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(None),
            Err(_) => Err(STATUS_NO_MEMORY),
            Ok(()) => Ok(place().filter(whole)),
        }
    }

    /// Shows the physical doorbell.
    pub(in crate::vidsch) fn show(&self, place: &BarPlace) -> std::io::Result<()> {
        // Also if it is refused: part of what was asked for may have been done.
        self.shown.store(true, Ordering::Relaxed);
        self.mapping.rotate(&place.file, place.offset, true)
    }
}

/// A word that the kernel and user mode share, on a page of its own.
pub(in crate::vidsch) struct DoorbellWord {
    page: Pages,
    /// Addresses of the page in user mode.
    pub(in crate::vidsch) mapping: UserMapping,
}

impl DoorbellWord {
    /// One that is 0, in memory of `owner`, which is the process.
    ///
    /// # Errors
    /// No memory.
    pub(in crate::vidsch) fn new(process: &ProcessAdapter, owner: &Arc<Owner>) -> Result<Self, NTSTATUS> {
        let page = owner.allocate(PAGE_SIZE, PAGE_SIZE).ok_or(STATUS_NO_MEMORY)?;
        page.zero();
        let mapping = UserMapping::of_pages(process.kept.user(), &page).map_err(|_| STATUS_NO_MEMORY)?;
        Ok(Self { page, mapping })
    }

    /// The word.
    pub(in crate::vidsch) fn get(&self) -> &AtomicU64 {
        // SAFETY: page-aligned, mapped as long as the page, and accessed as 64 bits at once by everyone.
        unsafe { AtomicU64::from_ptr(self.page.kernel_address().as_ptr().cast()) }
    }
}

/// Ring and ring control of a doorbell, which are not destroyed before it.
pub(in crate::vidsch) struct Rings {
    vidmm: Arc<VidMm>,
    allocations: Mutex<Vec<Arc<Allocation>>>,
}

impl Rings {
    /// Refers to both, which are allocations of this memory manager.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for one that is being destroyed, STATUS_INVALID_PARAMETER for one that is not resident; nothing is referred to then.
    pub(in crate::vidsch) fn new(vidmm: &Arc<VidMm>, both: [&Arc<Allocation>; 2]) -> Result<Self, Failure> {
        let rings = Self { vidmm: Arc::clone(vidmm), allocations: Mutex::default() };
        for allocation in both {
            vidmm.add_doorbell_reference(allocation)?;
            lock(&rings.allocations).push(Arc::clone(allocation));
        }
        if both.iter().any(|allocation| !vidmm.is_resident(allocation)) {
            return Err(refused(STATUS_INVALID_PARAMETER, "hRingBuffer or hRingBufferControl is not resident"));
        }
        Ok(rings)
    }

    /// The doorbell is gone.
    pub(in crate::vidsch) fn release(&self) {
        let rings = std::mem::take(&mut *lock(&self.allocations));
        rings.iter().for_each(|allocation| self.vidmm.release_doorbell_reference(allocation));
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.release();
    }
}
