//! How large the pages are that map something: as large as its segment, its place and its address allow.
//!
//! 64-KiB pages map segments that the driver manages in such pages, and system memory if it says that they may; large pages map memory
//! that is contiguous for so long. Nothing is mapped by a larger page whose address and place differ below the size of that page.
//! [support-for-64kb-pages; gpu-virtual-address: Physical page size; d3dkmddi: DXGK_GPUMMUCAPS]

use std::ops::Range;

use crate::table_shape::MEDIUM;
use crate::vidmm::driver::Driver;
use crate::vidmm::segment::Segments;
use crate::vidmm::system_memory::SystemMemory;
use crate::vidmm::table_memory::Fit;
use nt::page::PAGE_SIZE;

/// Facts that decide on the page size of a whole mapping.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    allowed: Fit,
    /// Pages of a large page.
    large: u64,
    /// Page frame at which the segment starts.
    base: u64,
    /// Pages from which on a new table of 64-KiB pages pays. Segments in such pages have them always, by contract.
    least: u64,
    /// Large pages may lie anywhere. [d3dkmddi: DXGK_GPUMMUCAPS::AllowNonAlignedLargePageAddress]
    anywhere: bool,
}

impl Sizes {
    /// The sizes for what is shown, by what driver and segment say.
    pub(crate) fn of(driver: &Driver, segments: &Segments, shown: &Shown<'_>) -> Self {
        let mmu = driver.mmu.Bits;
        let medium = driver.has_medium_pages();
        let of_system = Fit {
            medium: medium && mmu.SysMem64KBPageSupported(),
            large: mmu.LargePageSupported() && mmu.SysMemLargePageSupported(),
            pays: true,
        };
        let large = driver.shape.large();
        let some = large / 4;
        let (allowed, base, least) = match shown {
            Shown::Nothing => (Fit::default(), 0, 0),
            Shown::Zero => (Fit { medium, large: mmu.LargePageSupported(), pays: true }, 0, some),
            Shown::System { .. } | Shown::Frames { segment: 0, .. } => (of_system, 0, some),
            Shown::Frames { segment, .. } => match segments.memory(*segment) {
                Some(segment) => {
                    let medium = medium && segment.medium_pages;
                    (Fit { medium, large: mmu.LargePageSupported(), pays: true }, segment.base / PAGE_SIZE, 0)
                }
                None => (Fit::default(), 0, 0),
            },
        };
        Self { allowed, large, base, least, anywhere: mmu.AllowNonAlignedLargePageAddress() }
    }

    /// The sizes for pages `part`, all below one leaf table, of a mapping whose first is `first`.
    pub(crate) fn fit(&self, shown: &Shown<'_>, first: u64, part: Range<u64>) -> Fit {
        let holds = |page: u64, size: u64, anywhere: bool| {
            let (frame, run) = shown.run(page - first);
            run >= size && (anywhere || (self.base + frame).is_multiple_of(size))
        };
        let whole = part.start.is_multiple_of(self.large) && part.end - part.start == self.large;
        let large = self.allowed.large && whole && holds(part.start, self.large, self.anywhere);
        let edges = part.start.is_multiple_of(MEDIUM) && part.end.is_multiple_of(MEDIUM);
        let pays = part.end - part.start >= self.least;
        let medium =
            self.allowed.medium && edges && part.step_by(MEDIUM as usize).all(|page| holds(page, MEDIUM, false));
        Fit { medium, large, pays }
    }
}

impl Shown<'_> {
    /// Where page `page` is, and how many contiguous pages at least start there.
    fn run(&self, page: u64) -> (u64, u64) {
        match self {
            Self::Nothing => (0, 0),
            // As good as any place.
            Self::Zero => (0, u64::MAX),
            Self::System { memory, first } => memory.run(first + page),
            Self::Frames { first, .. } => (first + page, u64::MAX),
        }
    }
}

/// Source of the pages of a mapping.
pub(crate) enum Shown<'a> {
    Nothing,
    System { memory: &'a SystemMemory, first: u64 },
    Frames { segment: u32, first: u64 },
    Zero,
}
