//! What start asks the driver of memory that is not the system's to use: invalid ranges of a segment, and what an IOMMU would have to map for the driver.

use wddm_ddi::Zeroed;
use wddm_ddi::km::DXGK_QUERYADAPTERINFOTYPE as Kind;
use wddm_ddi::km::*;
use wddm_ddi::types::LARGE_INTEGER;

use super::object::Adapter;
use super::query::Array;
use crate::caps::Segment;
use crate::start_error::StartError;
use nt::page::PAGE_SIZE;

/// Most ranges that a driver may name, in a segment or of physical memory; more make no sense on any hardware.
const RANGES_MAX: u32 = 4096;

const INVALID: (DXGK_QUERYADAPTERINFOTYPE, &str) = (Kind::DXGKQAITYPE_SEGMENTMEMORYSTATE, "SEGMENTMEMORYSTATE");
const RESERVED: (DXGK_QUERYADAPTERINFOTYPE, &str) =
    (Kind::DXGKQAITYPE_HARDWARERESERVEDRANGES, "HARDWARERESERVEDRANGES");

impl Adapter {
    /// The `count` ranges that the descriptor of a memory segment counts as invalid: nothing is ever put there. [d3dkmddi: DXGK_SEGMENTDESCRIPTOR4]
    ///
    /// # Errors
    /// [`StartError::Query`], [`StartError::Segment`]
    pub(super) fn query_invalid_ranges(&self, segment: &mut Segment, count: u32) -> Result<(), StartError> {
        let id = segment.id;
        let refuse = |reason: String| Err(StartError::Segment { id, reason });
        if count == 0 {
            return Ok(());
        }
        if segment.flags.Aperture() {
            return refuse("NumInvalidMemoryRanges is for memory segments only".to_owned());
        }
        if count > RANGES_MAX {
            return refuse(format!("{count} invalid ranges; {RANGES_MAX} are allowed"));
        }
        let mut ranges = Array::<DXGK_MEMORYRANGE>::new(count as usize);
        let mut state = DXGK_QUERYSEGMENTMEMORYSTATE {
            DriverSegmentId: id as u16,
            PhysicalAdapterIndex: segment.engine as u16,
            u: DXGK_QUERYSEGMENTMEMORYSTATE_Union { NumInvalidMemoryRanges: count },
            pMemoryRanges: ranges.as_mut_ptr(),
        };
        let ranges = self.require_elements(INVALID, &mut [], &mut state, &ranges)?;
        // SAFETY: both arms are a number.
        let answered = unsafe { state.u.NumInvalidMemoryRanges };
        if answered != count {
            return refuse(format!("SEGMENTMEMORYSTATE has {answered} invalid ranges, its descriptor {count}"));
        }
        match invalid_pages(&ranges, segment.size) {
            Some(invalid) => segment.invalid = invalid,
            None => return refuse("an invalid range is empty or not inside it".to_owned()),
        }
        Ok(())
    }

    /// What a driver answers that claims IoMmuSecureModeSupported. There is no IOMMU here, so that nothing is done with it. [iommu-based-gpu-isolation]
    ///
    /// # Errors
    /// [`StartError::Query`], [`StartError::IoMmuIsolation`]
    pub(super) fn query_iommu_isolation(&self) -> Result<(), StartError> {
        let refuse = |reason: String| Err(StartError::IoMmuIsolation(reason));
        for engine in 0..self.links().len() as u32 {
            let kind = Kind::DXGKQAITYPE_FRAMEBUFFERSAVESIZE;
            let area: DXGK_FRAMEBUFFERSAVEAREA = self.require(kind, "FRAMEBUFFERSAVESIZE", &mut [engine])?;
            if !(area.MaximumSize as u64).is_multiple_of(PAGE_SIZE) {
                return refuse(format!("FRAMEBUFFERSAVESIZE is {} bytes, not whole pages", area.MaximumSize));
            }
        }
        let mut answer = DXGK_HARDWARERESERVEDRANGES::zeroed();
        self.require_elements(RESERVED, &mut [], &mut answer, &Array::<DXGK_PHYSICAL_MEMORY_RANGE>::new(0))?;
        let count = answer.NumRanges;
        if count > RANGES_MAX {
            return refuse(format!("{count} HARDWARERESERVEDRANGES; {RANGES_MAX} are allowed"));
        }
        let mut ranges = Array::<DXGK_PHYSICAL_MEMORY_RANGE>::new(count as usize);
        answer.pPhysicalRanges = ranges.as_mut_ptr();
        let memory = self.machine.ram().size();
        let ranges = self.require_elements(RESERVED, &mut [], &mut answer, &ranges)?;
        if answer.NumRanges != count {
            return refuse(format!("{count} HARDWARERESERVEDRANGES, and {} when asked again", answer.NumRanges));
        }
        for range in ranges {
            let LARGE_INTEGER { QuadPart: start } = range.BaseAddress;
            if (start as u64) < memory {
                return refuse(format!("HARDWARERESERVEDRANGES has 0x{start:x}, which is memory of the system"));
            }
        }
        Ok(())
    }
}

/// The pages of a segment that ranges touch, in order and merged; `None` if a range is empty or not inside it.
fn invalid_pages(ranges: &[DXGK_MEMORYRANGE], size: u64) -> Option<Vec<(u64, u64)>> {
    let pages = |range: &DXGK_MEMORYRANGE| {
        let end = range.SegmentOffset.checked_add(range.SizeInBytes)?;
        let inside = range.SizeInBytes != 0 && end <= size;
        inside.then(|| (range.SegmentOffset & !(PAGE_SIZE - 1), end.next_multiple_of(PAGE_SIZE)))
    };
    let mut pages = ranges.iter().map(pages).collect::<Option<Vec<_>>>()?;
    pages.sort_unstable();
    pages.dedup_by(|next, before| {
        let touches = next.0 <= before.1;
        if touches {
            before.1 = before.1.max(next.1);
        }
        touches
    });
    Some(pages.into_iter().map(|(start, end)| (start, end - start)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_ranges_are_whole_pages_in_order_and_merged() {
        let ranges = [(0x5000, 0x1001), (0x800, 0x100), (0x6fff, 1), (0xf000, 0x1000)];
        let ranges = ranges.map(|(offset, bytes)| DXGK_MEMORYRANGE { SegmentOffset: offset, SizeInBytes: bytes });
        let merged = vec![(0, 0x1000), (0x5000, 0x2000), (0xf000, 0x1000)];
        assert_eq!(invalid_pages(&ranges, 0x1_0000), Some(merged));
        assert_eq!(invalid_pages(&ranges, 0xffff), None);
        assert_eq!(invalid_pages(&[DXGK_MEMORYRANGE { SegmentOffset: 0, SizeInBytes: 0 }], 0x1000), None);
        let past = DXGK_MEMORYRANGE { SegmentOffset: u64::MAX, SizeInBytes: 2 };
        assert_eq!(invalid_pages(&[past], u64::MAX), None);
    }
}
