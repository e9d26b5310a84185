//! Clearing and copying the memory of allocations on a paging node, through windows of the paging process. [d3dkmddi:
//! DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL, DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL]

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::kmd_handle::KmdHandle;
use crate::vidmm::driver::Operation;
use crate::vidmm::location::Location;
use crate::vidmm::memory::Memory;
use crate::vidmm::page_size::Shown;
use nt::page::PAGE_SIZE;

/// Largest part of an allocation that one window shows.
const WINDOW_MAX: u64 = 8 << 20;

impl Memory {
    /// Shows part of a place in a window of an engine.
    fn look_at(&mut self, engine: u32, window: u64, place: &Location, first: u64, len: u64) -> Result<(), NTSTATUS> {
        let shown = match place {
            Location::Uncommitted => return Err(STATUS_INTERNAL_ERROR),
            Location::Local { offset, segment } => {
                Shown::Frames { segment: *segment, first: offset / PAGE_SIZE + first }
            }
            Location::System(memory) => Shown::System { memory, first },
        };
        let space = self.paging_space(engine)?;
        self.show_frames(space, window, len / PAGE_SIZE, &shown)
    }

    /// Fills a place with zero.
    pub(crate) fn fill_zero(&mut self, allocation: KmdHandle, place: &Location, size: u64) -> Result<(), NTSTATUS> {
        let engine = self.engine_of(place);
        for (at, len) in pieces(size) {
            let [window] = self.take_windows(engine, len, PAGE_SIZE)?;
            self.look_at(engine, window, place, at / PAGE_SIZE, len)?;
            let mut fill = DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL::zeroed();
            fill.DestinationVirtualAddress = window;
            fill.hAllocation = allocation.raw();
            fill.AllocationOffsetInBytes = at;
            fill.FillSizeInBytes = len;
            let u = DXGKARG_BUILDPAGINGBUFFER_Union { FillVirtual: fill };
            self.emit(engine, Operation::DXGK_OPERATION_VIRTUAL_FILL, u)?;
        }
        Ok(())
    }

    /// Copies one place to another of the same size.
    pub(crate) fn transfer(
        &mut self,
        allocation: KmdHandle,
        from: &Location,
        to: &Location,
        size: u64,
    ) -> Result<(), NTSTATUS> {
        let direction = match (from, to) {
            (Location::System(_), _) => DXGK_MEMORY_TRANSFER_DIRECTION::DXGK_MEMORY_TRANSFER_SYSTEM_TO_LOCAL,
            (_, Location::System(_)) => DXGK_MEMORY_TRANSFER_DIRECTION::DXGK_MEMORY_TRANSFER_LOCAL_TO_SYSTEM,
            _ => DXGK_MEMORY_TRANSFER_DIRECTION::DXGK_MEMORY_TRANSFER_LOCAL_TO_LOCAL,
        };
        let engine = self.engine_of(from).max(self.engine_of(to));
        for (at, len) in pieces(size) {
            let [source, destination] = self.take_windows(engine, len, PAGE_SIZE)?;
            self.look_at(engine, source, from, at / PAGE_SIZE, len)?;
            self.look_at(engine, destination, to, at / PAGE_SIZE, len)?;
            let mut transfer = DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL::zeroed();
            transfer.SourceVirtualAddress = source;
            transfer.DestinationVirtualAddress = destination;
            transfer.hAllocation = allocation.raw();
            transfer.AllocationOffsetInBytes = at;
            transfer.TransferSizeInBytes = len;
            transfer.TransferDirection = direction;
            let u = DXGKARG_BUILDPAGINGBUFFER_Union { TransferVirtual: transfer };
            self.emit(engine, Operation::DXGK_OPERATION_VIRTUAL_TRANSFER, u)?;
        }
        Ok(())
    }
}

/// Cuts a size into parts that a window can show.
fn pieces(size: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..size.div_ceil(WINDOW_MAX)).map(move |piece| {
        let at = piece * WINDOW_MAX;
        (at, WINDOW_MAX.min(size - at))
    })
}
