//! A process that takes all memory which it gets, on an adapter with little of it.

use std::sync::Arc;

use campanile_hw::private::Placement;
use dxgkrnl::{Process, ResidencyCounts};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::fence_storage::local;
use crate::rig::Rig;
use crate::simulated::on_thread;
use crate::{Failure, granted};
use testbed::setup::{System, SystemOptions};

/// Options of an adapter with 8 MiB of VRAM, all of which the processor sees.
pub(super) fn small_vram() -> SystemOptions {
    let mut options = local();
    (options.variant.vram_size, options.variant.vram_window) = (8 << 20, 8 << 20);
    options.variant.queue_limit = 256;
    options
}

/// Counts of what the memory manager moved.
pub(super) fn counts(system: &System) -> ResidencyCounts {
    system.machine().residency(system.luid()).unwrap_or_default()
}

/// What MakeResident says of one allocation; a paging fence is waited for.
pub(super) fn make_resident(rig: &Rig, mut allocation: D3DKMT_HANDLE) -> Result<NTSTATUS, Failure> {
    let mut request = D3DDDI_MAKERESIDENT::zeroed();
    (request.hPagingQueue, request.NumAllocations) = (rig.paging_queue, 1);
    request.AllocationList = &mut allocation;
    let status = rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request);
    if status.is_success() {
        rig.settle(status, request.PagingFenceValue, "D3DKMTMakeResident")?;
    }
    Ok(status)
}

/// A process that takes all of VRAM that it gets.
pub(super) struct Hog {
    process: Arc<Process>,
    rig: Rig,
    /// With their sizes.
    all: Vec<(D3DKMT_HANDLE, u64)>,
}

impl Hog {
    pub(super) fn new(system: &System) -> Result<Self, Failure> {
        Self::on_engine(system, 0)
    }

    pub(super) fn on_engine(system: &System, engine: u32) -> Result<Self, Failure> {
        let process = Process::new(system.machine(), "hog");
        let rig = on_thread(&process, || {
            let first = Rig::open(system.luid())?;
            if engine == 0 { Ok(first) } else { Rig::on_engine(first.kmt, first.adapter, engine) }
        })?;
        Ok(Self { process, rig, all: Vec::new() })
    }

    /// Takes what it gets, down to the last page.
    pub(super) fn take(&mut self) -> Result<(), Failure> {
        let rig = &self.rig;
        let taken = on_thread(&self.process, || {
            let mut taken = Vec::new();
            for size in [1 << 20, 64 << 10, 4096] {
                loop {
                    let handle = rig.create(size, Placement::Vram);
                    let handle = handle.map_err(|status| Failure::new(format!("an allocation: {status}")))?;
                    match make_resident(rig, handle)? {
                        STATUS_NO_MEMORY => {
                            break granted(rig.destroy_allocation(handle), "destroying what did not fit")?;
                        }
                        status => granted(status, "D3DKMTMakeResident")?,
                    }
                    taken.push((handle, size));
                }
            }
            Ok(taken)
        })?;
        self.all.extend(taken);
        Ok(())
    }

    /// The sizes of its allocations.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.all.iter().map(|(_, size)| *size)
    }

    /// Bytes of all its allocations together.
    pub(super) fn taken(&self) -> u64 {
        self.sizes().sum()
    }

    /// Gives everything back.
    pub(super) fn give_back(&mut self) -> Result<(), Failure> {
        self.give_back_from(0)
    }

    /// Gives back what has `least` bytes. It keeps the holes between what others have, where a table was before.
    pub(super) fn give_back_from(&mut self, least: u64) -> Result<(), Failure> {
        let rig = &self.rig;
        let (back, kept) = std::mem::take(&mut self.all).into_iter().partition(|(_, size)| *size >= least);
        let (back, kept): (Vec<_>, Vec<_>) = (back, kept);
        self.all = kept;
        on_thread(&self.process, || {
            back.into_iter()
                .try_for_each(|(handle, _)| granted(rig.destroy_allocation(handle), "destroying an allocation"))
        })
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.process.exit();
    }
}
