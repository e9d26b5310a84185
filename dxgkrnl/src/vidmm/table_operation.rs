//! Operations on page tables that the GPU is to carry out.

use nt::page::PAGE_SIZE;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;

use crate::ddi_buffer::DdiArray;
use crate::kmd_handle::KmdHandle;
use crate::vidmm::table::Table;

/// What is to be done about page tables, in order.
pub(crate) enum TableWork {
    /// Entries are written.
    Update {
        /// Arguments of the paging operation.
        update: UpdateArguments,
        /// Segment and offset of the table.
        table: (u32, u64),
        /// Bytes of it.
        len: u64,
        /// The entries, one if all are the same.
        entries: Vec<DXGK_PTE>,
    },
    /// Translations are forgotten.
    Flush(Flush),
    /// A table's memory is given back.
    Release(Table),
}

/// Translations between two addresses (end exclusive), or all of them for two zeros. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_FLUSHTLB]
#[derive(Clone, Copy)]
pub(crate) struct Flush {
    pub(crate) engine: u32,
    /// The driver's handle of the process.
    pub(crate) process: KmdHandle,
    /// Root table, by a segment among all.
    pub(crate) root: (u32, u64),
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// An update without its entries and without where the table is. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE]
#[derive(Clone, Copy)]
pub(crate) struct UpdateArguments {
    pub(crate) engine: u32,
    /// The driver's handle of the process.
    pub(crate) process: KmdHandle,
    pub(crate) level: u32,
    pub(crate) start: u32,
    /// Entries that are written.
    pub(crate) count: u32,
    pub(crate) flags: DXGK_UPDATEPAGETABLEFLAGS,
    pub(crate) first_page: u64,
    /// The driver's handle of the allocation, NULL for none.
    pub(crate) allocation: KmdHandle,
    pub(crate) allocation_offset: u64,
    pub(crate) driver_protection: u64,
}

impl UpdateArguments {
    /// The arguments of the operation; the entries must be there until it is built.
    pub(crate) fn with(
        &self,
        entries: &mut DdiArray<DXGK_PTE>,
        mode: DXGK_PAGETABLEUPDATEMODE,
        table: DXGK_PAGETABLEUPDATEADDRESS,
    ) -> DXGKARG_BUILDPAGINGBUFFER_Union {
        let mut args = DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE::zeroed();
        args.pPageTableEntries = entries.address();
        args.NumPageTableEntries = self.count;
        args.Flags = self.flags;
        args.PageTableLevel = self.level;
        args.PageTableAddress = table;
        args.StartIndex = self.start;
        args.hProcess = self.process.raw();
        args.UpdateMode = mode;
        args.FirstPteVirtualAddress = self.first_page * PAGE_SIZE;
        args.hAllocation = self.allocation.raw();
        args.AllocationOffsetInBytes = self.allocation_offset;
        args.DriverProtection = self.driver_protection;
        DXGKARG_BUILDPAGINGBUFFER_Union { UpdatePageTable: args }
    }
}
