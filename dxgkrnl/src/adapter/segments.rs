//! Memory segments, as the driver describes them and as the CPU reaches them.

use std::ptr::NonNull;

use nt::page::PAGE_SIZE;
use wddm_ddi::km::DXGK_SEGMENTDESCRIPTOR4;

use super::object::Adapter;
use crate::caps::Segment;

/// True if two ranges, of which either may be absent, have bytes in common.
fn meet(one: Option<u64>, other: Option<u64>, (size, other_size): (u64, u64)) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    one < other.saturating_add(other_size) && other < one.saturating_add(size)
}

/// Memory segments that share memory, by what their descriptors say: a line for each two. No page forbids it, so that it is not more than worth a line.
pub(super) fn overlaps(segments: &[Segment]) -> Vec<String> {
    let memory: Vec<&Segment> = segments.iter().filter(|segment| !segment.flags.Aperture()).collect();
    let pairs =
        memory.iter().enumerate().flat_map(|(place, one)| memory[place + 1..].iter().map(move |other| (*one, *other)));
    let told = pairs.filter_map(|(one, other)| {
        let sizes = (one.size, other.size);
        let (member, means) = match () {
            () if meet(one.cpu_address, other.cpu_address, sizes) => {
                ("CpuTranslatedAddress", "what is put into one changes the other")
            }
            () if meet(Some(one.base_address), Some(other.base_address), sizes) => {
                ("BaseAddress", "an address of the GPU is in both")
            }
            () => return None,
        };
        Some(format!(
            "segments {} and {} overlap by {member} and Size: {means} [d3dkmddi: DXGK_SEGMENTDESCRIPTOR4]",
            one.id, other.id
        ))
    });
    told.collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::km::DXGK_SEGMENTFLAGS;

    #[test]
    fn memory_segments_that_share_memory_are_told_two_by_two() {
        let segment = |id, base_address, cpu_address| Segment {
            id,
            base_address,
            cpu_address,
            size: 0x2000,
            ..Segment::default()
        };
        let aperture = Segment { flags: DXGK_SEGMENTFLAGS::new().with_Aperture(true), ..segment(1, 0, None) };
        let apart =
            [aperture, segment(2, 0, Some(0x10_0000)), segment(3, 0x2000, Some(0x10_2000)), segment(4, 0x4000, None)];
        assert_eq!(overlaps(&apart), Vec::<String>::new());
        let told =
            overlaps(&[segment(1, 0, Some(0x10_0000)), segment(2, 0x2000, Some(0x10_1000)), segment(3, 0x3000, None)]);
        let by = |line: &String, members: &str| line.starts_with(members);
        assert!(by(&told[0], "segments 1 and 2 overlap by CpuTranslatedAddress"), "{told:?}");
        assert!(by(&told[1], "segments 2 and 3 overlap by BaseAddress") && told.len() == 2, "{told:?}");
    }
}
