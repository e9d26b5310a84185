//! Page tables that the GPU writes: changes become work of the paging node, in the order in which they were decided.
//!
//! A driver that claims GPU_VIRTUAL or GPU_PHYSICAL is given a buffer for each change. What the processor has decided is noted first and
//! given to the driver when the tables are whole again here; from then on it has one order with everything else the paging node does:
//! memory is moved behind the entries that showed it and before those that will, translations are forgotten behind the entries they came
//! from, and a table's memory is free behind both. Tables of the paging process are the exception. They are written with the processor,
//! before the call returns: packets could not look through them otherwise. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE::UpdateMode]

use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::ddi_buffer::DdiArray;
use crate::vidmm::driver::{Operation, building};
use crate::vidmm::memory::Memory;
use crate::vidmm::table_operation::{Flush, TableWork, UpdateArguments};
use nt::bugcheck::Bugcheck;

impl Memory {
    /// Has the paging node do what was decided about page tables so far. Where adapters are linked, it has done it when the call returns:
    /// what follows may be for another node.
    ///
    /// # Errors
    /// The machine has stopped, or is about to be reset, after which every table is written anew.
    pub(crate) fn write_tables(&mut self) -> Result<(), NTSTATUS> {
        let work = match &mut self.segments.table_work {
            Some(work) if !work.is_empty() => std::mem::take(work),
            _ => return Ok(()),
        };
        let mut written = Ok(());
        for work in work {
            match work {
                TableWork::Update { update, table, len, entries } if written.is_ok() => {
                    written = self.emit_update(&update, table, len, &entries);
                }
                TableWork::Flush(flush) if written.is_ok() => written = self.emit_flush(&flush),
                TableWork::Update { .. } | TableWork::Flush(_) => {}
                // Also when nothing was written any more: nobody uses the table then.
                TableWork::Release(table) => self.release_table_behind(table),
            }
        }
        if self.driver.engines > 1 { written.and_then(|()| self.finish_moves()) } else { written }
    }

    /// The GPU finds in page tables what was decided so far when the call returns.
    ///
    /// # Errors
    /// As [`Memory::write_tables`].
    pub(crate) fn finish_tables(&mut self) -> Result<(), NTSTATUS> {
        self.write_tables()?;
        if self.segments.table_work.is_some() { self.finish_moves() } else { Ok(()) }
    }

    fn emit_update(
        &mut self,
        update: &UpdateArguments,
        table: (u32, u64),
        len: u64,
        entries: &[DXGK_PTE],
    ) -> Result<(), NTSTATUS> {
        let mode = self.driver.mmu.PageTableUpdateMode;
        let address = if mode == DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL {
            DXGK_PAGETABLEUPDATEADDRESS { GpuVirtual: self.window_onto_table(update.engine, table, len)? }
        } else {
            let (segment, _) = self.driver.segment_of(table.0);
            let physical = D3DGPU_PHYSICAL_ADDRESS { SegmentId: segment, Padding: 0, SegmentOffset: table.1 };
            DXGK_PAGETABLEUPDATEADDRESS { GpuPhysical: physical }
        };
        let mut lent = DdiArray::new(entries.to_vec());
        let u = update.with(&mut lent, mode, address);
        let emitted = self.emit_table_operation(update.engine, Operation::DXGK_OPERATION_UPDATE_PAGE_TABLE, u);
        self.driver.check_entries(update.engine, &lent);
        emitted
    }

    fn emit_flush(&mut self, flush: &Flush) -> Result<(), NTSTATUS> {
        if self.paging.node().is_none() {
            // Nothing is under way, and nothing will be.
            return self.driver.flush_at_once(flush);
        }
        let u = self.driver.flush_arguments(flush);
        self.emit_table_operation(flush.engine, Operation::DXGK_OPERATION_FLUSH_TLB, u)
    }

    fn emit_table_operation(
        &mut self,
        engine: u32,
        operation: Operation,
        u: DXGKARG_BUILDPAGINGBUFFER_Union,
    ) -> Result<(), NTSTATUS> {
        self.emit(engine, operation, u).map_err(|status| {
            if status == STATUS_GRAPHICS_ALLOCATION_BUSY && !self.driver.verifier.is_stopped() {
                // It was asked a second time when nothing was under way that it could be waiting for.
                let reason = format!("{} answered {status} with nothing under way", building(engine, operation));
                let parameters = (operation.0 as u32 as u64, u64::from(status.0 as u32));
                self.driver.verifier.raise(Bugcheck::memory(0x30, parameters.0, parameters.1, 0, reason));
                return STATUS_DEVICE_REMOVED;
            }
            status
        })
    }
}
