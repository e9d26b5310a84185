//! Bits and words that the pages reserve in what a driver answers at start: "should be set to zero". That a driver which sets one is not started is this system's rule; a later version of
//! the interface gives such a bit a meaning, which the driver cannot mean here.

use wddm_ddi::km::*;

use crate::caps::{NodeCaps, Segment};
use crate::start_error::StartError;

/// An error for bits of a member that are reserved.
///
/// # Errors
/// [`StartError::ReservedBits`]
fn check(member: impl Into<String>, found: u32, reserved: u32, page: &'static str) -> Result<(), StartError> {
    match found & reserved {
        0 => Ok(()),
        reserved => Err(StartError::ReservedBits { member: member.into(), found, reserved, page }),
    }
}

/// Bits from `first` on.
const fn from(first: u32) -> u32 {
    u32::MAX << first
}

/// # Errors
/// [`StartError::ReservedBits`]
pub(super) fn check_driver_caps(caps: &DXGK_DRIVERCAPS) -> Result<(), StartError> {
    let scheduling = caps.SchedulingCaps.into_bits();
    check("DXGK_DRIVERCAPS.SchedulingCaps", scheduling, from(13), "d3dkmddi: DXGK_VIDSCHCAPS")?;
    let memory = caps.MemoryManagementCaps.Bits.into_bits();
    check("DXGK_DRIVERCAPS.MemoryManagementCaps", memory, from(18), "d3dkmddi: DXGK_VIDMMCAPS")?;
    check("DXGK_DRIVERCAPS.FlipCaps", caps.FlipCaps.into_bits(), from(7), "d3dkmddi: DXGK_FLIPCAPS")?;
    check("DXGK_DRIVERCAPS.MiscCaps", caps.MiscCaps.into_bits(), from(9), "d3dkmddi: DXGK_DRIVERCAPS")?;
    for (place, word) in caps.GpuEngineTopology.Reserved.into_iter().enumerate() {
        let member = format!("DXGK_DRIVERCAPS.GpuEngineTopology.Reserved[{place}]");
        check(member, word, from(0), "d3dkmddi: DXGK_GPUENGINETOPOLOGY")?;
    }
    Ok(())
}

/// # Errors
/// [`StartError::ReservedBits`]
pub(super) fn check_page_tables(caps: &DXGK_GPUMMUCAPS) -> Result<(), StartError> {
    const PAGE: &str = "d3dkmddi: DXGK_GPUMMUCAPS";
    check("the first word of DXGK_GPUMMUCAPS", caps.Bits.into_bits(), from(13), PAGE)?;
    check("DXGK_GPUMMUCAPS.LegacyBehaviors", caps.LegacyBehaviors.into_bits(), from(1), PAGE)
}

/// # Errors
/// [`StartError::ReservedBits`]
pub(super) fn check_physical_adapter(caps: &DXGK_PHYSICALADAPTERCAPS) -> Result<(), StartError> {
    let flags = caps.Flags.into_bits();
    check("DXGK_PHYSICALADAPTERCAPS.Flags", flags, from(9), "d3dkmddi: DXGK_PHYSICALADAPTERFLAGS")
}

/// # Errors
/// [`StartError::ReservedBits`]
pub(super) fn check_nodes(nodes: &[NodeCaps]) -> Result<(), StartError> {
    (0..).zip(nodes).try_for_each(|(node, caps): (u32, _)| {
        let flags = caps.metadata.Flags;
        let member = format!("DXGK_NODEMETADATA.Flags of node {node}");
        check(member, flags.into_bits(), 0xffe0, "d3dkmdt: DXGK_NODEMETADATA_FLAGS")
    })
}

/// # Errors
/// [`StartError::ReservedBits`]
pub(super) fn check_segments(segments: &[Segment]) -> Result<(), StartError> {
    segments.iter().try_for_each(|segment| {
        let member = format!("DXGK_SEGMENTDESCRIPTOR4.Flags of segment {}", segment.id);
        check(member, segment.flags.into_bits(), from(22) | 1 << 12, "d3dkmddi: DXGK_SEGMENTFLAGS")
    })
}

#[cfg(test)]
mod tests {
    use wddm_ddi::Zeroed;

    use super::*;

    /// The last bit that each page declares is none of the reserved ones, and the next one is.
    #[test]
    fn every_declared_bit_may_be_set() {
        let mut caps = DXGK_GPUMMUCAPS::zeroed();
        caps.Bits = DXGK_GPUMMUCAPS_Bits::new().with_CachedPageTables(true);
        caps.LegacyBehaviors = DXGK_GPUMMUCAPS_LegacyBehaviors::new().with_SourcePageTableVaInTransfer(true);
        assert!(check_page_tables(&caps).is_ok());
        caps.Bits = DXGK_GPUMMUCAPS_Bits::from_bits(caps.Bits.into_bits() << 1);
        assert!(check_page_tables(&caps).is_err());
        caps.Bits = DXGK_GPUMMUCAPS_Bits::new();
        caps.LegacyBehaviors = DXGK_GPUMMUCAPS_LegacyBehaviors::from_bits(2);
        assert!(check_page_tables(&caps).is_err());
    }
}
