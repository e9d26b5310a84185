//! Memory segments, as the driver describes them and as the CPU reaches them.

use std::ptr::NonNull;

use nt::page::PAGE_SIZE;
use wddm_ddi::km::DXGK_SEGMENTDESCRIPTOR4;

use super::{Adapter, Segment};

impl Adapter {
    pub(super) fn describe_segment(&self, engine: u32, id: u32, descriptor: &DXGK_SEGMENTDESCRIPTOR4) -> Segment {
        let flags = descriptor.Flags;
        let size = descriptor.Size as u64;
        let visible = flags.CpuVisible() && !flags.Aperture() && !flags.SupportsCpuHostAperture();
        // SAFETY: both arms are integers; without a CPU host aperture the address is the one in use.
        let address = unsafe { descriptor.u.CpuTranslatedAddress }.QuadPart as u64;
        // SAFETY: both arms are integers; with a CPU host aperture it is the one in use.
        let aperture = unsafe { descriptor.u.CpuHostAperture };
        let host_aperture = flags.SupportsCpuHostAperture().then_some((aperture.PhysicalAddress, aperture.SizeInPages));
        Segment {
            engine,
            id,
            base_address: descriptor.BaseAddress.QuadPart as u64,
            size,
            commit_limit: descriptor.CommitLimit as u64,
            flags,
            cpu_address: visible.then_some(address),
            kernel: if visible { self.kernel_view(address, size) } else { None },
            host_aperture: host_aperture.filter(|(address, pages)| self.is_window(*address, *pages)),
            invalid: Vec::new(),
            unreached: match host_aperture {
                Some((address, pages)) => format!(
                    "CpuHostAperture.PhysicalAddress {address:#x} with SizeInPages {pages:#x} {}",
                    self.why_no_memory(address, u64::from(pages) * PAGE_SIZE)
                ),
                None => format!(
                    "CpuTranslatedAddress {address:#x} with Size {size:#x} (BaseAddress {:#x}) {}",
                    descriptor.BaseAddress.QuadPart,
                    self.why_no_memory(address, size)
                ),
            },
        }
    }

    /// True if so many pages from a translated address are memory of this device.
    fn is_window(&self, address: u64, pages: u32) -> bool {
        pages > 0 && self.kernel_view(address, u64::from(pages) * PAGE_SIZE).is_some()
    }

    /// Kernel address of `len` bytes at a translated address, if they are plain memory of a function.
    fn kernel_view(&self, address: u64, len: u64) -> Option<NonNull<u8>> {
        self.links().iter().find_map(|link| link.resources.kernel_view(address, len))
    }

    /// The rule for which a range is no mapped memory of a function, as the rest of a sentence about it.
    fn why_no_memory(&self, address: u64, len: u64) -> String {
        let begins = self.links().iter().find(|link| link.function.bar_at(address, 1).is_some());
        let link = begins.or_else(|| self.links().first());
        link.map_or_else(String::new, |link| link.resources.why_no_memory(address, len))
    }
}
