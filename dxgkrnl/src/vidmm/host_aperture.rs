//! CPU host aperture: a window of the device whose pages show pages of a segment that the CPU does not see otherwise.
//!
//! The driver points each page of the window somewhere; pages need not be contiguous on either side. A window belongs to one lock from
//! the moment it is opened until the lock ends or the allocation moves away. [d3dkmddi: DXGKARG_MAPCPUHOSTAPERTURE]

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::kmd_handle::KmdHandle;
use crate::vidmm::aperture_pages::ApertureWindow;
use crate::vidmm::ids::AllocationId;
use crate::vidmm::location::Location;
use crate::vidmm::memory::Memory;
use nt::bugcheck::Bugcheck;
use nt::page::PAGE_SIZE;

impl Memory {
    /// True if `len` bytes of a segment's window are free; `None` if it has no window.
    pub(crate) fn window_of(&self, segment: u32, len: u64) -> Option<bool> {
        let aperture = self.segments.memory(segment)?.host_aperture.as_ref()?;
        Some(aperture.free_pages() >= len / PAGE_SIZE)
    }

    /// Opens a window on an allocation that is in a segment with one; `None` when the window, or what the driver needs for it, is
    /// exhausted. Any other failure of the driver stops the machine.
    pub(crate) fn open_window(&mut self, id: AllocationId) -> Result<Option<ApertureWindow>, NTSTATUS> {
        let state = self.allocations.get(&id).ok_or(STATUS_INVALID_HANDLE)?;
        let Location::Local { segment, offset } = state.place else { return Ok(None) };
        let (kmd, count) = (state.allocation.kmd(), state.allocation.size() / PAGE_SIZE);
        let Some(aperture) = self.segments.memory_mut(segment).and_then(|memory| memory.host_aperture.as_mut()) else {
            return Ok(None);
        };
        let address = aperture.address;
        let Some(pages) = aperture.take(count) else { return Ok(None) };
        let mut window = ApertureWindow { segment, address, pages };
        let mut shown: Vec<u64> = (0..count).map(|page| offset / PAGE_SIZE + page).collect();
        let status = self.map_window(kmd, &mut window, &mut shown);
        if status == STATUS_SUCCESS {
            return Ok(Some(window));
        }
        self.give_back(window);
        if status == STATUS_NO_MEMORY {
            return Ok(None);
        }
        self.broken(0x2d, "DxgkDdiMapCpuHostAperture", status);
        Err(STATUS_DEVICE_REMOVED)
    }

    fn map_window(&self, kmd: KmdHandle, window: &mut ApertureWindow, shown: &mut [u64]) -> NTSTATUS {
        let mut args = DXGKARG_MAPCPUHOSTAPERTURE::zeroed();
        args.hAllocation = kmd.raw();
        let (segment, engine) = self.driver.segment_of(window.segment);
        (args.SegmentId, args.PhysicalAdapterIndex) = (segment as u16, engine as u16);
        args.NumberOfPages = shown.len() as u64;
        args.pCpuHostAperturePages = window.pages.as_mut_ptr();
        args.pMemorySegmentPages = shown.as_mut_ptr();
        self.driver.miniport.map_cpu_host_aperture(self.driver.context.raw(), &args).status()
    }

    /// Closes a window. No user address shows it any more.
    pub(crate) fn close_window(&mut self, mut window: ApertureWindow) {
        let mut args = DXGKARG_UNMAPCPUHOSTAPERTURE::zeroed();
        args.NumberOfPages = window.pages.len() as u64;
        args.pCpuHostAperturePages = window.pages.as_mut_ptr();
        let (segment, engine) = self.driver.segment_of(window.segment);
        (args.SegmentId, args.PhysicalAdapterIndex) = (segment as u16, engine as u16);
        let status = self.driver.miniport.unmap_cpu_host_aperture(self.driver.context.raw(), &args).status();
        if status != STATUS_SUCCESS {
            self.broken(0x2e, "DxgkDdiUnmapCpuHostAperture", status);
        }
        self.give_back(window);
    }

    fn give_back(&mut self, window: ApertureWindow) {
        let memory = self.segments.memory_mut(window.segment);
        if let Some(aperture) = memory.and_then(|memory| memory.host_aperture.as_mut()) {
            aperture.free.extend(window.pages.iter().rev());
        }
    }

    fn broken(&self, subcode: u64, name: &str, status: NTSTATUS) {
        if !self.driver.verifier.is_stopped() {
            let reason = format!("{name} may not fail here, it answered {status}");
            self.driver.verifier.raise(Bugcheck::memory(subcode, u64::from(status.0 as u32), 0, 0, reason));
        }
    }
}
