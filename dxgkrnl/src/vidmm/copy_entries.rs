//! Page-table entries that the driver copies from table to table. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES]

use crate::vidmm::driver::{Operation, TableWriter};
use crate::vidmm::ids::SpaceId;
use crate::vidmm::memory::Memory;
use crate::vidmm::page_size::Shown;
use crate::vidmm::table::Table;
use crate::vidmm::table_memory::Subject;
use crate::vidmm::table_tree::Effects;
use nt::page::PAGE_SIZE;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

/// Tables begin at multiples of this in the paging process. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_COPY_RANGE]
const TABLE_ALIGN: u64 = 64 << 10;
/// Ranges of one operation.
const RANGES: usize = 4;
/// Windows of one operation: source and destination of each range.
const WINDOWS: usize = 2 * RANGES;

/// Entries of one table that become entries of another one.
#[derive(Clone, Copy)]
struct Part {
    /// Segment and offset of the tables.
    from: (u32, u64),
    to: (u32, u64),
    /// First entries.
    from_index: u32,
    to_index: u32,
    count: u32,
}

impl Memory {
    /// Has the paging node of a space's engine copy the entries of `pages` pages from `from` on to those from `to` on (page numbers), and waits
    /// until it has; the GPU may still know the old ones. False where that is no work for it, or it would not do it: ranges that intersect,
    /// tables that do not exist or are not of 4-KiB pages, no paging node, a driver that says it is busy. Entries of the destination may be
    /// anything then.
    ///
    /// # Errors
    /// The machine has stopped.
    pub(super) fn copy_entries(
        &mut self,
        id: SpaceId,
        from: u64,
        to: u64,
        pages: u64,
        done: &mut Effects<Table>,
    ) -> Result<bool, NTSTATUS> {
        let apart = from + pages <= to || to + pages <= from;
        if !apart || self.paging.node().is_none() {
            return Ok(false);
        }
        let Self { driver, segments, spaces, .. } = self;
        let Some(space) = spaces.get_mut(&id) else { return Ok(false) };
        let (engine, process, paging_process) = (space.engine, space.process, space.paging_process);
        let Some(tables) = &mut space.tables else { return Ok(false) };
        let mut writer = TableWriter { engine, driver, segments, process, paging_process, subject: Subject::NONE };
        match tables.demote(from..from + pages, &mut writer, done) {
            Ok(()) => {}
            // Larger pages stay where there is no memory for tables of small ones.
            Err(STATUS_GRAPHICS_NO_VIDEO_MEMORY | STATUS_NO_MEMORY) => return Ok(false),
            Err(status) => return Err(status),
        }
        let Some(parts) = self.parts(id, from, to, pages) else { return Ok(false) };
        // Where the GPU writes tables, what it is to write into these comes first.
        self.write_tables()?;
        let copied = parts.chunks(RANGES).try_for_each(|some| self.copy_parts(engine, some));
        // What has begun is over before anybody else writes there.
        self.finish_moves()?;
        match copied {
            Ok(()) => {
                if let Some(tables) = self.spaces.get_mut(&id).and_then(|space| space.tables.as_mut()) {
                    tables.note_copied(from, to, pages, done);
                }
                Ok(true)
            }
            Err(STATUS_GRAPHICS_ALLOCATION_BUSY | STATUS_NO_MEMORY) => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// The copies from table to table, if all tables exist.
    fn parts(&self, id: SpaceId, from: u64, to: u64, pages: u64) -> Option<Vec<Part>> {
        let tables = self.spaces.get(&id)?.tables.as_ref()?;
        let entries = tables.leaf_entries();
        let (mut parts, mut done) = (Vec::new(), 0);
        while done < pages {
            let ((source, from_index), (target, to_index)) = (tables.leaf(from + done)?, tables.leaf(to + done)?);
            let left = u64::from(entries - from_index.max(to_index));
            let count = left.min(pages - done);
            let (source, target): (&Table, &Table) = (source, target);
            parts.push(Part {
                from: source.address(),
                to: target.address(),
                from_index,
                to_index,
                count: count as u32,
            });
            done += count;
        }
        Some(parts)
    }

    fn copy_parts(&mut self, engine: u32, parts: &[Part]) -> Result<(), NTSTATUS> {
        let size = self.driver.levels.first().map_or(PAGE_SIZE, |level| u64::from(level.PageTableSizeInBytes));
        let windows: [u64; WINDOWS] = self.take_windows(engine, size.next_multiple_of(TABLE_ALIGN), TABLE_ALIGN)?;
        let space = self.paging_space(engine)?;
        let mut ranges = Vec::with_capacity(parts.len());
        for (part, pair) in parts.iter().zip(windows.chunks_exact(2)) {
            let &[source, target] = pair else { continue };
            for (window, (segment, offset)) in [(source, part.from), (target, part.to)] {
                let shown = Shown::Frames { segment, first: offset / PAGE_SIZE };
                self.show_frames(space, window, size.div_ceil(PAGE_SIZE), &shown)?;
            }
            ranges.push(DXGK_BUILDPAGINGBUFFER_COPY_RANGE {
                NumPageTableEntries: part.count,
                SrcPageTableAddress: source,
                DstPageTableAddress: target,
                SrcStartPteIndex: part.from_index,
                DstStartPteIndex: part.to_index,
            });
        }
        let copies = DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES {
            NumRanges: ranges.len() as u32,
            pRanges: ranges.as_mut_ptr(),
        };
        let u = DXGKARG_BUILDPAGINGBUFFER_Union { CopyPageTableEntries: copies };
        self.emit(engine, Operation::DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES, u)
    }
}
