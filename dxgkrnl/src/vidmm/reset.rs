//! The memory manager after a reset of the adapter.
//!
//! Whatever lay in a segment is lost with DxgkDdiResetFromTimeout. Until DxgkDdiRestartFromTimeout the driver is told of each allocation that
//! it leaves its segment, as of any eviction, with nothing to move: 0 bytes and no addresses. The page names the call and its size, and does not say that there is no buffer for commands; a
//! driver that looks for room before it looks at the size finds it. What it writes there runs on no engine, because the GPU may not be touched: that is this system's rule. The allocation is
//! nowhere then, as a new one is. Only what user mode has locked keeps its place, since its address is in use: it shows what happens to lie there.
//! [thread-synchronization-and-tdr; d3dkmddi: DXGKDDI_RESETFROMTIMEOUT]

use nt::lock::lock;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::kmd_handle::KmdHandle;
use crate::vidmm::driver::{Operation, building};
use crate::vidmm::ids::AllocationId;
use crate::vidmm::location::Location;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::{AllocationState, Memory};
use crate::vidmm::paging_work::Batch;
use nt::bugcheck::Bugcheck;

impl Memory {
    /// Everything in the segments leaves them without a copy. No engine works, and every paging packet counts as complete.
    ///
    /// # Errors
    /// The machine has stopped.
    fn lose_contents(&mut self) -> Result<(), NTSTATUS> {
        let is_lost = |state: &AllocationState| matches!(state.place, Location::Local { .. }) && state.lock.is_none();
        let lost = self.allocations.iter().filter(|(_, state)| is_lost(state)).map(|(id, _)| *id);
        let lost: Vec<AllocationId> = lost.collect();
        // Every device is lost: nobody waits for what has left.
        self.allocations.values_mut().for_each(|state| state.away = false);
        self.some_away = false;
        lost.into_iter().try_for_each(|id| self.lose(id))
    }

    fn lose(&mut self, id: AllocationId) -> Result<(), NTSTATUS> {
        let Some(state) = self.allocations.get_mut(&id) else { return Ok(()) };
        let (kmd, size) = (state.allocation.kmd(), state.allocation.size());
        // Page tables are written anew when the adapter works again, without its entries.
        (state.accessible, state.busy) = (false, None);
        let place = std::mem::replace(&mut state.place, Location::Uncommitted);
        if let Some(offered) = &mut state.offered {
            offered.take();
        }
        let engine = match &place {
            Location::Local { segment, .. } => self.driver.segment_of(*segment).1,
            Location::Uncommitted | Location::System(_) => 0,
        };
        self.release_place(place, size);
        self.tell_of_loss(engine, kmd)
    }

    /// [d3dkmddi: DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL, DXGKARG_BUILDPAGINGBUFFER]
    fn tell_of_loss(&mut self, engine: u32, allocation: KmdHandle) -> Result<(), NTSTATUS> {
        let mut transfer = DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL::zeroed();
        transfer.hAllocation = allocation.raw();
        transfer.TransferDirection = DXGK_MEMORY_TRANSFER_DIRECTION::DXGK_MEMORY_TRANSFER_LOCAL_TO_SYSTEM;
        let (operation, size) = (Operation::DXGK_OPERATION_VIRTUAL_TRANSFER, self.paging.buffer_size);
        let buffer = self.paging.never_run.take().ok_or(STATUS_DEVICE_NOT_READY)?;
        let mut batch = Batch::new(engine, buffer);
        let mut args = batch.arguments(size);
        args.Operation = operation;
        args.u = DXGKARG_BUILDPAGINGBUFFER_Union { TransferVirtual: transfer };
        self.driver.miniport.trace_detail("eviction of 0 bytes".to_owned());
        let status = self.driver.build(engine, &mut args);
        let written = batch.take_back(engine, &args, size);
        self.paging.never_run = Some(batch.buffer);
        let bugcheck = match written {
            Ok(_) if status == STATUS_SUCCESS => return Ok(()),
            Ok(_) => {
                let reason = format!(
                    "{} answered an eviction of 0 bytes, for which it had an empty buffer of {size:#x} bytes, with {status}",
                    building(engine, operation)
                );
                let parameters = (operation.0 as u32 as u64, u64::from(status.0 as u32));
                Bugcheck::memory(0x9, parameters.0, parameters.1, 0, reason)
            }
            Err(bugcheck) => bugcheck,
        };
        if !self.driver.verifier.is_stopped() {
            self.driver.verifier.raise(bugcheck);
        }
        Err(STATUS_DEVICE_REMOVED)
    }
}

impl VidMm {
    /// Between DxgkDdiResetFromTimeout and DxgkDdiRestartFromTimeout, with nobody else inside.
    pub(crate) fn lose_contents(&self) {
        self.forget_unwritten_fences();
        let lost = lock(&self.memory).lose_contents();
        self.note_failure("evictions of a reset", lost);
    }
}
