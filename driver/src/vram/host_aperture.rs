//! The CPU host aperture: pages of BAR4, each of which shows the page of segment 3 that DxgkDdiMapCpuHostAperture names.
//!
//! What each page shows is kept here as well, because the device forgets it when it is reset.

use core::ptr::NonNull;

use campanile_hw::registers;
use wddm_ddi::km::{DXGKARG_MAPCPUHOSTAPERTURE, DXGKARG_UNMAPCPUHOSTAPERTURE};

use crate::irql::Passive;
use crate::lock::PushLock;
use crate::mmio::Registers;
use crate::pool::{OutOfMemory, PoolVec, Tag};
use crate::refusal::{Reason, Refused, refused};
use crate::vram::segments::{Layout, VRAM_HIDDEN};

/// A page that shows nothing, here and in the device.
const NONE: u32 = u32::MAX;

/// The pages of the aperture of one engine: the VRAM page that each shows.
pub(crate) struct HostAperture {
    pub(crate) registers: Registers,
    pages: PushLock<PoolVec<u32>>,
}

/// Reads the array of a request.
///
/// # Safety
/// `array` must be NULL or have `count` elements that are not written during the call.
unsafe fn list<'a, T>(array: *const T, count: u64) -> Result<&'a [T], Refused> {
    let array = NonNull::new(array.cast_mut()).ok_or(refused(Reason::NullPointer))?;
    let count = usize::try_from(count).map_err(|_| refused(Reason::Size))?;
    // SAFETY: as the caller says.
    Ok(unsafe { core::slice::from_raw_parts(array.as_ptr(), count) })
}

impl HostAperture {
    /// The aperture of `pages` pages that the registers told of; nothing is shown.
    pub(crate) fn new(registers: Registers, pages: u32) -> Result<Self, OutOfMemory> {
        let pages = PoolVec::filled(pages as usize, Tag::APERTURE, |_| NONE)?;
        Ok(Self { registers, pages: PushLock::new(pages) })
    }

    /// DxgkDdiMapCpuHostAperture: maps every page of the request or none. `runs` is true if the device runs, so that its registers are written now.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for another segment, a page outside the aperture or the segment, or no aperture.
    pub(crate) fn map(
        &self,
        irql: &Passive,
        layout: &Layout,
        runs: bool,
        args: &DXGKARG_MAPCPUHOSTAPERTURE,
    ) -> Result<(), Refused> {
        check_segment(args.SegmentId)?;
        let mut pages = self.pages.lock(irql);
        if args.NumberOfPages > pages.len() as u64 {
            return Err(refused(Reason::AperturePage));
        }
        // SAFETY: the operating system passes arrays of NumberOfPages elements.
        let places = unsafe { list(args.pCpuHostAperturePages, args.NumberOfPages) }?;
        // SAFETY: as above.
        let shown = unsafe { list(args.pMemorySegmentPages, args.NumberOfPages) }?;
        let target = |page: &u64| layout.hidden_page(*page).ok_or(refused(Reason::AperturePage));
        for (place, page) in places.iter().zip(shown) {
            target(page)?;
            pages.get(*place as usize).ok_or(refused(Reason::AperturePage))?;
        }
        let pairs = places.iter().zip(shown).filter_map(|(place, page)| Some((*place, target(page).ok()?)));
        self.write(&mut pages, runs, pairs);
        Ok(())
    }

    /// DxgkDdiUnmapCpuHostAperture: unmaps every page of the request or none.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER as for [`HostAperture::map`].
    pub(crate) fn unmap(&self, irql: &Passive, runs: bool, args: &DXGKARG_UNMAPCPUHOSTAPERTURE) -> Result<(), Refused> {
        check_segment(args.SegmentId)?;
        let mut pages = self.pages.lock(irql);
        if args.NumberOfPages > pages.len() as u64 {
            return Err(refused(Reason::AperturePage));
        }
        // SAFETY: the operating system passes an array of NumberOfPages elements.
        let places = unsafe { list(args.pCpuHostAperturePages, args.NumberOfPages) }?;
        if places.iter().any(|place| pages.get(*place as usize).is_none()) {
            return Err(refused(Reason::AperturePage));
        }
        self.write(&mut pages, runs, places.iter().map(|place| (*place, NONE)));
        Ok(())
    }

    /// Tells the device everything again after a reset.
    pub(crate) fn restore(&self, irql: &Passive) {
        let mut next = NONE;
        let pages = self.pages.lock(irql);
        for (place, target) in (0..).zip(pages.iter()).filter(|(_, target)| **target != NONE) {
            self.show(&mut next, place, *target);
        }
        self.flush(next);
    }

    /// Stores pairs of page and target that were checked, and writes them to a device that runs. One that does not run gets them by
    /// [`HostAperture::restore`].
    fn write(&self, pages: &mut PoolVec<u32>, runs: bool, pairs: impl Iterator<Item = (u32, u32)>) {
        let mut next = NONE;
        for (place, target) in pairs {
            if let Some(page) = pages.get_mut(place as usize) {
                *page = target;
                if runs {
                    self.show(&mut next, place, target);
                }
            }
        }
        self.flush(next);
    }

    /// Waits until the device has carried the writes out, which are posted: only a read guarantees that. Without it, an access through the pages
    /// might still reach the pages of VRAM that they showed before.
    fn flush(&self, next: u32) {
        if next != NONE {
            self.registers.read32(registers::HOST_APERTURE_INDEX);
        }
    }

    /// Makes page `place` show page `target` of VRAM. `next` is the page that the device's index register stands at.
    fn show(&self, next: &mut u32, place: u32, target: u32) {
        if *next != place {
            self.registers.write32(registers::HOST_APERTURE_INDEX, place);
        }
        self.registers.write32(registers::HOST_APERTURE_TARGET, target);
        *next = place.wrapping_add(1);
    }
}

/// The caller has chosen the engine.
fn check_segment(segment: u16) -> Result<(), Refused> {
    if u32::from(segment) == VRAM_HIDDEN { Ok(()) } else { Err(refused(Reason::AperturePage)) }
}
