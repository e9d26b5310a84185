//! Memory segments, and where the driver's own part of VRAM lies.
//!
//! VRAM from offset 0: the queue descriptor table, the rings of the kernel's packet queues, a record of one queue's state, the save area of the compute node's packet queue, then segment 2
//! up to the end of the window that the processor sees, then segment 3 up to the end of VRAM, which a host aperture shows page by page if
//! there is one. Segment 1 is the aperture onto system memory; it has no place in VRAM, and its contents are a table in the driver.

use campanile_hw::page_table::{PAGE_2M, PAGE_64K};
use campanile_hw::queue::{Location, QueueDescriptor, SYSTEM_PAGE_SIZE};
use campanile_hw::registers::{NODES, VRAM_PAGE_SIZE};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::types::LARGE_INTEGER;

use crate::caps::{Hardware, PAGING_BUFFER_SIZE};
use crate::node::ring::{NODE_RING_SIZE, SaveArea};
pub(crate) use crate::segment::{APERTURE, APERTURE_SIZE, VRAM, VRAM_HIDDEN};
use crate::vram::aperture::Aperture;

/// Bytes of the save area of the compute node's packet queue: enough for a workgroup of 1024 lanes with 200 bytes of registers and scratch memory each.
const NODE_SAVE_SIZE: u32 = 256 << 10;

/// Division of VRAM between the driver, segment 2 (which the CPU sees through BAR4) and segment 3 (which it does not).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Descriptors in the queue table.
    pub(crate) queues: u32,
    /// VRAM offset of the first node's ring; the others follow.
    pub(crate) rings: u64,
    /// VRAM offset of the record in which SaveQueue and RestoreQueue pass a queue's state, one page.
    pub(crate) record: u64,
    /// Bytes of the save area behind the record, 0 without one.
    pub(crate) save_size: u32,
    /// Bytes of VRAM that belong to the driver, a multiple of 2 MiB so that large pages of segment 2 are aligned in VRAM.
    pub(crate) reserved: u64,
    /// End of segment 2, a multiple of 4 KiB.
    pub(crate) visible_end: u64,
    /// End of segment 3.
    pub(crate) vram_end: u64,
    /// Offset in BAR4 and pages of the host aperture on segment 3.
    pub(crate) host_aperture: Option<(u64, u32)>,
    /// True if DMA snoops the processor's caches.
    pub(crate) coherent: bool,
    /// True if VRAM keeps its contents in D3.
    pub(crate) kept: bool,
}

impl Layout {
    /// Memory type of what the hardware and the driver share in system memory: cached where the hardware snoops.
    pub(crate) fn caching(&self) -> DXGK_MEMORY_CACHING_TYPE {
        match self.coherent {
            true => DXGK_MEMORY_CACHING_TYPE::DXGK_MEMORY_CACHING_TYPE_CACHED,
            false => DXGK_MEMORY_CACHING_TYPE::DXGK_MEMORY_CACHING_TYPE_NON_CACHED,
        }
    }

    /// Lays out VRAM; `None` if this variant has too little of it.
    pub(crate) fn new(hardware: &Hardware) -> Option<Self> {
        let queues = hardware.queue_limit.min(1 << 16);
        if queues <= NODES {
            return None;
        }
        let table = u64::from(queues).checked_mul(QueueDescriptor::SIZE as u64)?.next_multiple_of(VRAM_PAGE_SIZE);
        let record = table + u64::from(NODES) * NODE_RING_SIZE;
        let save_size = hardware.save_size.min(NODE_SAVE_SIZE);
        let reserved = (record + VRAM_PAGE_SIZE + u64::from(save_size)).next_multiple_of(PAGE_2M);
        let vram_end = hardware.vram_size / VRAM_PAGE_SIZE * VRAM_PAGE_SIZE;
        let visible_end = (hardware.vram_window / VRAM_PAGE_SIZE * VRAM_PAGE_SIZE).min(vram_end);
        // Page tables of a few processes must fit, or no process could ever run.
        const LEAST: u64 = 1 << 20;
        if visible_end > 1 << 52 || visible_end < reserved + LEAST || vram_end > 1 << 52 {
            return None;
        }
        let pages = hardware.host_aperture_pages;
        let host_aperture = (pages > 0 && vram_end > visible_end).then_some((hardware.vram_window, pages));
        let coherent = !hardware.caps.non_coherent();
        let kept = hardware.caps.vram_kept_in_d3();
        Some(Self {
            queues,
            rings: table,
            record,
            save_size,
            reserved,
            visible_end,
            vram_end,
            host_aperture,
            coherent,
            kept,
        })
    }

    /// The save area of the compute node's packet queue.
    pub(crate) fn save_area(&self) -> Option<SaveArea> {
        let location = Location::new().with_address(self.record + VRAM_PAGE_SIZE);
        (self.save_size != 0).then_some(SaveArea { location, size: self.save_size })
    }

    /// VRAM range of a segment.
    fn vram(&self, segment: u32) -> Option<(u64, u64)> {
        match segment {
            VRAM => Some((self.reserved, self.visible_end)),
            VRAM_HIDDEN if self.vram_end > self.visible_end => Some((self.visible_end, self.vram_end)),
            _ => None,
        }
    }

    /// VRAM page behind page `page` of segment 3.
    pub(crate) fn hidden_page(&self, page: u64) -> Option<u32> {
        let (start, end) = self.vram(VRAM_HIDDEN)?;
        let page = (start / VRAM_PAGE_SIZE).checked_add(page).filter(|page| *page < end / VRAM_PAGE_SIZE)?;
        u32::try_from(page).ok()
    }

    /// True if a segment is managed in 64-KiB pages. This is the one for large allocations only, if it starts at such a page.
    pub(crate) fn in_medium_pages(&self, segment: u32) -> bool {
        segment == VRAM_HIDDEN && self.vram(segment).is_some_and(|(start, _)| start.is_multiple_of(PAGE_64K))
    }

    /// Number of segments.
    pub(crate) fn segments(&self) -> u32 {
        if self.vram(VRAM_HIDDEN).is_some() { VRAM_HIDDEN } else { VRAM }
    }

    /// Bytes of VRAM that allocations can use.
    pub(crate) fn usable_vram(&self) -> u64 {
        self.vram_end - self.reserved
    }

    /// Segments (a mask with bit 0 for segment 1) of VRAM, with or without the part the processor does not see.
    pub(crate) fn vram_set(&self, hidden: bool) -> u32 {
        let visible = 1 << (VRAM - 1);
        if hidden && self.vram(VRAM_HIDDEN).is_some() { visible | 1 << (VRAM_HIDDEN - 1) } else { visible }
    }

    /// Bytes of the largest segment an allocation may be placed in.
    pub(crate) fn largest_vram(&self, hidden: bool) -> u64 {
        let size = |(start, end)| end - start;
        let visible = self.vram(VRAM).map_or(0, size);
        if hidden { self.vram(VRAM_HIDDEN).map_or(0, size).max(visible) } else { visible }
    }

    /// Where `size` bytes from `offset` of a segment are, as the device addresses them. Segment 0 is host memory by physical
    /// address. `None` if the range is not inside the segment, or is of the aperture and not mapped.
    pub(crate) fn locate(&self, aperture: &Aperture, segment: u32, offset: u64, size: u64) -> Option<Location> {
        let end = offset.checked_add(size)?;
        let system = |address: u64| Location::new().with_address(address).with_system(true);
        match segment {
            0 if end <= 1 << 52 => Some(system(offset)),
            // Pages of the aperture are scattered: only within one page is the range contiguous.
            APERTURE if Some(offset / SYSTEM_PAGE_SIZE) == end.checked_sub(1).map(|last| last / SYSTEM_PAGE_SIZE) => {
                Some(system(aperture.resolve(offset / SYSTEM_PAGE_SIZE)? + offset % SYSTEM_PAGE_SIZE))
            }
            VRAM | VRAM_HIDDEN => {
                let (start, limit) = self.vram(segment)?;
                (start.checked_add(end)? <= limit).then(|| Location::new().with_address(start + offset))
            }
            _ => None,
        }
    }

    /// Descriptor of a segment; `window` is the translated bus address of the VRAM window.
    pub(crate) fn descriptor(&self, segment: u32, window: u64) -> Option<DXGK_SEGMENTDESCRIPTOR4> {
        let mut descriptor = DXGK_SEGMENTDESCRIPTOR4::zeroed();
        if segment == APERTURE {
            descriptor.Flags = DXGK_SEGMENTFLAGS::new().with_Aperture(true).with_CacheCoherent(self.coherent);
            descriptor.Size = APERTURE_SIZE as usize;
            descriptor.CommitLimit = APERTURE_SIZE as usize;
            return Some(descriptor);
        }
        let (start, end) = self.vram(segment)?;
        let visible = segment == VRAM;
        // While the machine hibernates the device has no power, so nothing is preserved then.
        descriptor.Flags = DXGK_SEGMENTFLAGS::new()
            .with_CpuVisible(visible)
            .with_PreservedDuringStandby(self.kept)
            .with_Use64KBPages(self.in_medium_pages(segment))
            .with_ApplicationTarget(true)
            .with_LocalBudgetGroup(true);
        descriptor.BaseAddress = LARGE_INTEGER { QuadPart: start.cast_signed() };
        descriptor.Size = usize::try_from(end - start).ok()?;
        if visible {
            let address = window.checked_add(start)?;
            descriptor.u.CpuTranslatedAddress = LARGE_INTEGER { QuadPart: address.cast_signed() };
        } else if let Some((offset, pages)) = self.host_aperture {
            descriptor.Flags.set_SupportsCpuHostAperture(true);
            let address = window.checked_add(offset)?;
            descriptor.u.CpuHostAperture = DXGK_CPUHOSTAPERTURE { PhysicalAddress: address, SizeInPages: pages };
        }
        Some(descriptor)
    }

    /// Header of QUERYSEGMENT4.
    pub(crate) fn fill_header(&self, out: &mut DXGK_QUERYSEGMENTOUT4) {
        out.NbSegment = self.segments();
        out.PagingBufferSegmentId = APERTURE;
        out.PagingBufferSize = PAGING_BUFFER_SIZE;
        out.PagingBufferPrivateDataSize = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn layout(size: u64, window: u64, queue_limit: u32) -> Option<Layout> {
        Layout::new(&Hardware { queue_limit, ..Hardware::for_tests(size, window) })
    }

    #[test]
    fn the_driver_takes_the_start_and_large_pages_stay_aligned() {
        let layout = layout(256 << 20, 256 << 20, 16384).unwrap();
        assert_eq!((layout.rings, layout.reserved), (2 << 20, 4 << 20));
        assert_eq!((layout.segments(), layout.usable_vram()), (2, 252 << 20));
        let descriptor = layout.descriptor(VRAM, 1 << 40).unwrap();
        assert!(descriptor.Flags.CpuVisible());
        assert_eq!(descriptor.Size, 252 << 20);
        assert_eq!(layout.record, (2 << 20) + u64::from(NODES) * NODE_RING_SIZE);
        assert_eq!(layout.save_area(), None, "no dispatch of this hardware is left");
        // SAFETY: the arm of a CPU-visible segment.
        assert_eq!(unsafe { descriptor.u.CpuTranslatedAddress.QuadPart }, (1 << 40) + (4 << 20));
        assert!(layout.descriptor(VRAM_HIDDEN, 1 << 40).is_none());
    }

    #[test]
    fn the_save_area_lies_between_the_record_and_the_segments() {
        let hardware = Hardware { save_size: 7 << 20, ..Hardware::for_tests(256 << 20, 256 << 20) };
        let layout = Layout::new(&hardware).unwrap();
        let area = layout.save_area().unwrap();
        assert_eq!((area.location.address(), area.size), (layout.record + VRAM_PAGE_SIZE, NODE_SAVE_SIZE));
        assert!(area.location.address() + u64::from(area.size) <= layout.reserved);
    }

    #[test]
    fn a_smaller_window_makes_a_hidden_segment() {
        let layout = layout(256 << 20, 64 << 20, 1024).unwrap();
        assert_eq!(layout.segments(), 3);
        assert_eq!((layout.vram_set(false), layout.vram_set(true)), (0b010, 0b110));
        assert_eq!(layout.largest_vram(true), 192 << 20);
        let hidden = layout.descriptor(VRAM_HIDDEN, 1 << 40).unwrap();
        assert_eq!((hidden.Flags.CpuVisible(), hidden.Size), (false, 192 << 20));
        assert_eq!(hidden.BaseAddress.QuadPart, 64 << 20);
        let visible = layout.descriptor(VRAM, 1 << 40).unwrap();
        assert_eq!((hidden.Flags.Use64KBPages(), visible.Flags.Use64KBPages()), (true, false));
    }

    #[test]
    fn a_segment_that_starts_inside_a_64_kib_page_is_not_managed_in_such_pages() {
        for (window, medium) in [(64 << 20, true), ((64 << 20) + (60 << 10), false)] {
            let layout = layout(256 << 20, window, 1024).unwrap();
            assert_eq!(layout.descriptor(VRAM_HIDDEN, 0).unwrap().Flags.Use64KBPages(), medium);
            assert_eq!(layout.in_medium_pages(VRAM_HIDDEN), medium);
        }
    }

    #[test]
    fn a_host_aperture_belongs_to_the_hidden_segment_and_lies_behind_the_window() {
        let mut hardware = Hardware { host_aperture_pages: 4096, ..Hardware::for_tests(256 << 20, 48 << 20) };
        let layout = Layout::new(&hardware).unwrap();
        let hidden = layout.descriptor(VRAM_HIDDEN, 1 << 40).unwrap();
        assert!(hidden.Flags.SupportsCpuHostAperture() && !hidden.Flags.CpuVisible());
        // SAFETY: the arm of a segment with a host aperture.
        let aperture = unsafe { hidden.u.CpuHostAperture };
        assert_eq!((aperture.PhysicalAddress, aperture.SizeInPages), ((1 << 40) + (48 << 20), 4096));
        assert_eq!(layout.hidden_page(0), Some((48 << 20) / 4096));
        assert_eq!(layout.hidden_page((208 << 20) / 4096 - 1), Some((256 << 20) / 4096 - 1));
        assert_eq!((layout.hidden_page((208 << 20) / 4096), layout.hidden_page(u64::MAX)), (None, None));
        // All of VRAM is in the window: nothing to show.
        hardware.vram_window = 256 << 20;
        assert!(Layout::new(&hardware).unwrap().host_aperture.is_none());
    }

    #[test]
    fn segments_are_preserved_as_the_hardware_says_and_never_while_hibernating() {
        let mut layout = layout(256 << 20, 64 << 20, 1024).unwrap();
        for kept in [false, true] {
            layout.kept = kept;
            for segment in [VRAM, VRAM_HIDDEN] {
                let flags = layout.descriptor(segment, 0).unwrap().Flags;
                assert_eq!((flags.PreservedDuringStandby(), flags.PreservedDuringHibernate()), (kept, false));
            }
            assert!(!layout.descriptor(APERTURE, 0).unwrap().Flags.PreservedDuringStandby());
        }
    }

    #[test]
    fn every_flag_of_a_segment_is_the_hardwares_and_no_other_is_set() {
        let mut layout = layout(256 << 20, 64 << 20, 1024).unwrap();
        let plain = DXGK_SEGMENTFLAGS::new().with_ApplicationTarget(true).with_LocalBudgetGroup(true);
        for (coherent, window) in [(true, None), (true, Some((64 << 20, 16))), (false, Some((64 << 20, 16)))] {
            (layout.coherent, layout.host_aperture, layout.kept) = (coherent, window, false);
            let flags = |segment| layout.descriptor(segment, 1 << 40).unwrap().Flags;
            let aperture = DXGK_SEGMENTFLAGS::new().with_Aperture(true).with_CacheCoherent(coherent);
            assert_eq!(flags(APERTURE), aperture);
            assert_eq!(flags(VRAM), plain.with_CpuVisible(true));
            assert_eq!(
                flags(VRAM_HIDDEN),
                plain.with_Use64KBPages(true).with_SupportsCpuHostAperture(window.is_some())
            );
            assert!(
                layout.descriptor(VRAM_HIDDEN + 1, 1 << 40).is_none(),
                "the segment of the host aperture is the last"
            );
        }
    }

    #[test]
    fn variants_without_room_are_refused() {
        assert!(layout(4 << 20, 4 << 20, 16384).is_none());
        assert!(layout(256 << 20, 4 << 20, 16384).is_none());
        assert!(layout(256 << 20, 256 << 20, NODES).is_none());
        assert!(layout(u64::MAX, u64::MAX, 16384).is_none());
        assert!(layout(8 << 20, 8 << 20, 16384).is_some());
    }

    #[test]
    fn offsets_are_relative_to_their_segment_and_stay_inside() {
        testing::bind();
        let layout = layout(256 << 20, 64 << 20, 16384).unwrap();
        let aperture = Aperture::new().unwrap();
        let locate = |segment, offset, size| layout.locate(&aperture, segment, offset, size);
        let vram = |address| Some(Location::new().with_address(address));
        let system = |address| Some(Location::new().with_address(address).with_system(true));
        assert_eq!(locate(0, 0x5000, 4096), system(0x5000));
        assert_eq!(locate(VRAM, 0, 4096), vram(4 << 20));
        assert_eq!(locate(VRAM, (60 << 20) - 4096, 4096), vram((64 << 20) - 4096));
        assert_eq!(locate(VRAM, (60 << 20) - 4095, 4096), None);
        assert_eq!(locate(VRAM_HIDDEN, 0, 4096), vram(64 << 20));
        assert_eq!(locate(APERTURE, 0x3000, 4096), None);
        aperture.map(3, 0x77_000);
        assert_eq!(locate(APERTURE, 0x3000, 4096), system(0x77_000));
        assert_eq!(locate(APERTURE, 0x3010, 16), system(0x77_010));
        assert_eq!(locate(APERTURE, 0x3010, 4096), None);
        assert_eq!(locate(4, 0, 4096), None);
        assert_eq!(locate(VRAM, u64::MAX, 4096), None);
    }
}
