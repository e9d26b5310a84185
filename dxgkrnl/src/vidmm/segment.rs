//! Memory: segments of the adapter and pages of the machine.

use std::collections::BTreeSet;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use wddm_ddi::status::*;

use crate::caps::Segment;
use crate::port::{BarOwner, NO_BAR_OWNER};
use crate::vidmm::aperture_pages::HostAperture;
use crate::vidmm::budget_group::Group;
use crate::vidmm::table::{Blank, Table, TablePlace};
use crate::vidmm::table_operation::TableWork;
use nt::page::PAGE_SIZE;
use nt::ram::Ram;
use nt::range::RangeAllocator;

/// A segment that holds memory (not an aperture).
pub(crate) struct MemorySegment {
    /// Bytes.
    pub(crate) size: u64,
    /// Kernel address of its start, when the CPU reaches it.
    pub(crate) kernel: Option<NonNull<u8>>,
    /// Bus address of its start, when the CPU reaches it.
    pub(crate) cpu_address: Option<u64>,
    /// The budget it counts for.
    pub(crate) group: Option<Group>,
    /// Window on it, when the CPU does not reach it otherwise.
    pub(crate) host_aperture: Option<HostAperture>,
    /// Its memory is managed in 64-KiB pages. [d3dkmddi: DXGK_SEGMENTFLAGS::Use64KBPages]
    pub(crate) medium_pages: bool,
    /// GPU-physical address of its start.
    pub(crate) base: u64,
    /// The driver keeps its contents while the device is in D3, and while the machine hibernates.
    preserved: (bool, bool),
    /// Bytes that left it with their contents.
    pub(super) evicted: u64,
    /// Number of allocations that left it so.
    pub(super) evictions: u32,
    free: RangeAllocator,
    /// Offsets at which page tables begin.
    tables: BTreeSet<u64>,
}

// SAFETY: `kernel` is the adapter's shared mapping, which outlives its memory manager; it is accessed by raw pointer only.
unsafe impl Send for MemorySegment {}

/// What of a segment may be used: whole pages, without the invalid ones, which are never given back.
fn usable(segment: &Segment) -> RangeAllocator {
    let mut free = RangeAllocator::new(0, segment.size & !(PAGE_SIZE - 1));
    for (offset, len) in &segment.invalid {
        free.allocate_at(*offset, *len);
    }
    free
}

/// Has bytes at a bus address belong to an owner.
type GiveBarPages = Arc<dyn Fn(u64, u64, &BarOwner) -> io::Result<()> + Send + Sync>;

/// The memory that allocations and page tables come from.
pub(crate) struct Segments {
    /// System memory.
    pub(crate) ram: Arc<Ram>,
    /// Those of every engine, one engine after the other, by identifier - 1; `None` for apertures. The identifier here is that place.
    list: Vec<Option<MemorySegment>>,
    /// Segments of one engine.
    of_engine: usize,
    /// Bytes of a large page, where there are some.
    large: Option<u64>,
    /// Has pages that the CPU reaches belong to those that see them.
    giver: Option<GiveBarPages>,
    /// Where the GPU writes page tables: what it is to do about them and was not given yet.
    pub(crate) table_work: Option<Vec<TableWork>>,
}

impl Segments {
    /// The segments that the driver described, in order of engine and identifier.
    pub(crate) fn new(ram: Arc<Ram>, described: &[Segment]) -> Self {
        let of_engine = described.iter().filter(|segment| segment.engine == 0).count();
        let list = described.iter().map(|segment| {
            (!segment.flags.Aperture()).then(|| MemorySegment {
                size: segment.size,
                kernel: segment.kernel,
                cpu_address: segment.cpu_address,
                group: Group::of_segment(segment.flags),
                host_aperture: segment.host_aperture.map(|(address, pages)| HostAperture::new(address, pages)),
                medium_pages: segment.flags.Use64KBPages(),
                base: segment.base_address,
                preserved: (
                    segment.flags.PreservedDuringStandby(),
                    segment.flags.PreservedDuringStandby() && segment.flags.PreservedDuringHibernate(),
                ),
                evicted: 0,
                evictions: 0,
                free: usable(segment),
                tables: BTreeSet::new(),
            })
        });
        Self { ram, list: list.collect(), of_engine, large: None, giver: None, table_work: None }
    }

    /// The same for a GPU with large pages of so many bytes.
    pub(crate) fn with_large_pages(mut self, bytes: Option<u64>) -> Self {
        self.large = bytes;
        self
    }

    /// The same where pages that the CPU reaches belong to those that see them, by this function.
    pub(crate) fn with_owners(mut self, giver: GiveBarPages) -> Self {
        self.giver = Some(giver);
        self
    }

    /// The segment with this identifier, if it holds memory.
    pub(crate) fn memory(&self, id: u32) -> Option<&MemorySegment> {
        self.list.get((id as usize).checked_sub(1)?)?.as_ref()
    }

    pub(super) fn memory_mut(&mut self, id: u32) -> Option<&mut MemorySegment> {
        self.list.get_mut((id as usize).checked_sub(1)?)?.as_mut()
    }

    /// True if the contents of a segment are lost outside D0; system memory's are not.
    pub(crate) fn loses(&self, id: u32, hibernates: bool) -> bool {
        self.memory(id).is_some_and(|segment| !if hibernates { segment.preserved.1 } else { segment.preserved.0 })
    }

    /// Says that all memory segments keep their contents in D3, or none.
    #[cfg(test)]
    pub(crate) fn preserve(&mut self, preserved: bool) {
        self.list.iter_mut().flatten().for_each(|segment| segment.preserved = (preserved, false));
    }

    /// Identifier here of segment 1 of an engine; `None` if there is no such engine.
    pub(crate) fn first_of(&self, engine: u32) -> Option<u32> {
        let first = (engine as usize).checked_mul(self.of_engine).filter(|first| *first < self.list.len())?;
        Some(first as u32 + 1)
    }

    /// Identifier here of segment 1 of the engine that has the segment `id`.
    pub(super) fn first_beside(&self, id: u32) -> u32 {
        let of_engine = (self.of_engine as u32).max(1);
        id.saturating_sub(1) / of_engine * of_engine + 1
    }

    /// Bit mask of the apertures of an engine, which are the same for each, bit 0 for segment 1.
    pub(crate) fn apertures(&self) -> u32 {
        self.mask(|segment| segment.is_none())
    }

    /// Bit mask of all segments of an engine.
    pub(crate) fn all(&self) -> u32 {
        self.mask(|_| true)
    }

    fn mask(&self, wanted: impl Fn(&Option<MemorySegment>) -> bool) -> u32 {
        let places = (0u32..32).zip(self.list.iter().take(self.of_engine));
        places.filter(|(_, segment)| wanted(segment)).fold(0, |mask, (bit, _)| mask | 1 << bit)
    }

    /// Kernel address of a page of a segment that the CPU reaches.
    pub(crate) fn page(&self, id: u32, offset: u64) -> Option<NonNull<u8>> {
        let memory = self.memory(id)?;
        let base = memory.kernel.filter(|_| offset.checked_add(PAGE_SIZE).is_some_and(|end| end <= memory.size))?;
        // SAFETY: the kernel mapping shows the whole segment, and the page lies in it.
        Some(unsafe { base.add(offset as usize) })
    }

    /// Takes `len` bytes from the bottom of a segment for an owner, where large pages could map them if there is such a place.
    pub(crate) fn allocate(&mut self, id: u32, len: u64, align: u64, owner: &BarOwner) -> Option<u64> {
        let large = self.large.filter(|large| len >= *large && *large > align);
        let free = &mut self.memory_mut(id)?.free;
        let offset = large.and_then(|large| free.allocate(len, large)).or_else(|| free.allocate(len, align))?;
        self.give(id, offset, len, owner)
    }

    /// Has memory that was just taken belong to an owner, as far as the CPU reaches it. Where that cannot be, the memory is free again.
    fn give(&mut self, id: u32, offset: u64, len: u64, owner: &BarOwner) -> Option<u64> {
        let address = self.memory(id)?.cpu_address.and_then(|start| start.checked_add(offset));
        let given = self.giver.as_ref().zip(address).map(|(give, address)| give(address, len, owner));
        if given.is_some_and(|given| given.is_err()) {
            self.release(id, offset, len);
            return None;
        }
        Some(offset)
    }

    /// Gives a range of a segment back.
    pub(crate) fn release(&mut self, id: u32, offset: u64, len: u64) {
        if let Some(segment) = self.memory_mut(id) {
            segment.free.release(offset, len);
        }
    }

    /// Bytes that are free in a segment, in whatever pieces.
    pub(crate) fn free_bytes(&self, id: u32) -> u64 {
        self.memory(id).map_or(0, |segment| segment.free.free_bytes())
    }

    /// Bytes of all memory segments and of system memory: nothing larger can ever exist.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity_of_device().saturating_add(self.ram.size())
    }

    /// Bytes of all memory segments.
    pub(crate) fn capacity_of_device(&self) -> u64 {
        self.list.iter().flatten().map(|segment| segment.size).sum()
    }

    /// Identifiers of the memory segments that count for a budget.
    pub(crate) fn of_group(&self, group: Group) -> impl Iterator<Item = u32> {
        let segments = (1..).zip(&self.list);
        segments
            .filter(move |(_, segment)| segment.as_ref().is_some_and(|one| one.group == Some(group)))
            .map(|(id, _)| id)
    }

    /// Takes memory for a page table, from the top of a segment or, for segment 0, from system memory.
    ///
    /// # Errors
    /// STATUS_GRAPHICS_NO_VIDEO_MEMORY or STATUS_NO_MEMORY.
    pub(crate) fn allocate_table(&mut self, segment: u32, len: u64, align: u64) -> Result<Table, NTSTATUS> {
        if segment == 0 {
            let pages = self.ram.allocate(len, align).ok_or(STATUS_NO_MEMORY)?;
            let kernel = Some(pages.kernel_address());
            return Ok(Table { kernel, place: TablePlace::System(pages), blank: Blank::default() });
        }
        let memory = self.memory_mut(segment).ok_or(STATUS_INVALID_PARAMETER)?;
        let base = memory.kernel;
        let offset = memory.free.allocate_top(len, align.max(PAGE_SIZE));
        let given = offset.and_then(|offset| self.give(segment, offset, len, &NO_BAR_OWNER));
        let offset = given.ok_or(STATUS_GRAPHICS_NO_VIDEO_MEMORY)?;
        self.memory_mut(segment).into_iter().for_each(|memory| _ = memory.tables.insert(offset));
        // SAFETY: the kernel mapping shows the whole segment, and the range lies in it.
        let kernel = base.map(|base| unsafe { base.add(offset as usize) });
        Ok(Table { kernel, place: TablePlace::Segment { segment, offset, len }, blank: Blank::default() })
    }

    /// Gives a page table's memory back; where the GPU writes tables, behind what it is to write before.
    pub(crate) fn release_table(&mut self, table: Table) {
        match &mut self.table_work {
            Some(work) => work.push(TableWork::Release(table)),
            None => self.release_table_now(table),
        }
    }

    /// Gives a page table's memory back that nothing reads or writes any more.
    pub(crate) fn release_table_now(&mut self, table: Table) {
        if let TablePlace::Segment { segment, offset, len } = table.place {
            self.memory_mut(segment).into_iter().for_each(|memory| _ = memory.tables.remove(&offset));
            self.release(segment, offset, len);
        }
    }

    /// Kernel address of the page behind a page table of a segment, if none but those who write page tables may write there: it is free, or another table's, for which the
    /// answer has true.
    pub(crate) fn behind_table(&self, table: &Table) -> Option<(NonNull<u8>, bool)> {
        let TablePlace::Segment { segment, offset, len } = table.place else { return None };
        let (memory, end) = (self.memory(segment)?, offset.checked_add(len)?);
        let of_table = memory.tables.contains(&end);
        let known = of_table || memory.free.is_free(end, PAGE_SIZE);
        self.page(segment, end).filter(|_| known).map(|at| (at, of_table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_a_page_table_is_known_if_it_is_free_or_a_table() {
        let mut bytes = vec![0_u8; 4 * PAGE_SIZE as usize];
        let kernel = NonNull::new(bytes.as_mut_ptr());
        let segment = Segment { id: 1, size: 4 * PAGE_SIZE, kernel, ..Segment::default() };
        let mut segments = Segments::new(Ram::new(1 << 20).unwrap(), &[segment]);
        let mut table = || segments.allocate_table(1, PAGE_SIZE, PAGE_SIZE).unwrap();
        let (last, next, third) = (table(), table(), table());
        let at = |page: usize| kernel.map(|start| start.addr().get() + page * PAGE_SIZE as usize);
        let behind = |segments: &Segments, table: &Table| {
            segments.behind_table(table).map(|(at, of_table)| (at.addr().get(), of_table))
        };
        assert_eq!(behind(&segments, &last), None, "the segment ends there");
        assert_eq!(behind(&segments, &next), at(3).map(|at| (at, true)));
        segments.release_table_now(last);
        assert_eq!(behind(&segments, &next), at(3).map(|at| (at, false)));
        segments.release_table_now(next);
        let other = segments.allocate(1, 2 * PAGE_SIZE, PAGE_SIZE, &NO_BAR_OWNER);
        assert_eq!(other, Some(2 * PAGE_SIZE));
        assert_eq!(behind(&segments, &third), None, "an allocation, which engines write");
    }

    #[test]
    fn invalid_ranges_of_a_segment_are_never_handed_out() {
        let segment = Segment {
            id: 1,
            size: 8 * PAGE_SIZE,
            invalid: vec![(2 * PAGE_SIZE, PAGE_SIZE), (5 * PAGE_SIZE, 2 * PAGE_SIZE)],
            ..Segment::default()
        };
        let mut segments = Segments::new(Ram::new(1 << 20).unwrap(), &[segment]);
        assert_eq!(segments.free_bytes(1), 5 * PAGE_SIZE);
        let pages: Vec<u64> =
            std::iter::from_fn(|| segments.allocate(1, PAGE_SIZE, PAGE_SIZE, &NO_BAR_OWNER)).collect();
        assert_eq!(pages, [0, 1, 3, 4, 7].map(|page| page * PAGE_SIZE));
    }
}
