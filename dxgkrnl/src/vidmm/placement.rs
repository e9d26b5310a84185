//! The segments that a driver names for memory, and the order in which they are tried.

use crate::table_shape::MEDIUM;
use crate::vidmm::segment::Segments;
use nt::page::PAGE_SIZE;
use wddm_ddi::km::DXGK_ALLOCATIONINFO;

/// Bytes of a 64-KiB page.
pub(super) const MEDIUM_SIZE: u64 = MEDIUM * PAGE_SIZE;

/// The rule that the description of an allocation breaks, with what the driver wrote into it.
pub(super) fn told(place: usize, rule: &str, info: &DXGK_ALLOCATIONINFO, segments: &Segments) -> String {
    format!(
        "DxgkDdiCreateAllocation broke a rule in pAllocationInfo[{place}]: {rule} (Size {:#x}, SupportedWriteSegmentSet {:#x}, \
         EvictionSegmentSet {:#x}, PreferredSegment {:#x}; the segments that exist are {:#x}, the apertures of them {:#x}) \
         [d3dkmddi: DXGK_ALLOCATIONINFO]",
        info.Size,
        info.SupportedWriteSegmentSet,
        info.EvictionSegmentSet,
        info.PreferredSegment.into_bits(),
        segments.all(),
        segments.apertures()
    )
}

/// Segments of an engine in the order the driver prefers, by their identifiers among all, 0 for the rest; the text names the rule that the answer breaks. [d3dkmddi:
/// DXGK_ALLOCATIONINFO]
pub(super) fn order(info: &DXGK_ALLOCATIONINFO, engine: u32, segments: &Segments) -> Result<[u8; 32], &'static str> {
    let first = segments.first_of(engine).ok_or("PhysicalAdapterIndex names no physical adapter")?;
    let (all, apertures, write) = (segments.all(), segments.apertures(), info.SupportedWriteSegmentSet);
    if write == 0 || write & !all != 0 {
        return Err("SupportedWriteSegmentSet is empty or names a segment that does not exist");
    }
    if info.EvictionSegmentSet & !apertures != 0 {
        return Err("EvictionSegmentSet names a segment that is no aperture");
    }
    let preferred = info.PreferredSegment;
    let preferred = [
        preferred.SegmentId0(),
        preferred.SegmentId1(),
        preferred.SegmentId2(),
        preferred.SegmentId3(),
        preferred.SegmentId4(),
    ];
    let mut order = Vec::with_capacity(32);
    for id in preferred.into_iter().filter(|id| *id != 0) {
        if write >> (id - 1) & 1 == 0 {
            return Err("PreferredSegment names a segment outside SupportedWriteSegmentSet");
        }
        if !order.contains(&id) {
            order.push(id);
        }
    }
    // What the driver left open: memory before apertures, so that local memory is used while there is any.
    for aperture in [false, true] {
        for id in 1..=32u8 {
            let bit = 1u32 << (id - 1);
            if write & bit != 0 && (apertures & bit != 0) == aperture && !order.contains(&id) {
                order.push(id);
            }
        }
    }
    let mut places = [0; 32];
    for (place, id) in places.iter_mut().zip(order) {
        *place =
            u8::try_from(first - 1 + u32::from(id)).map_err(|_| "there are more segments than this system counts")?;
    }
    Ok(places)
}
