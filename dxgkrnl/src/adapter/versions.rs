//! What a version of the interface has: questions, answers and capabilities that came after WDDM 2.0.
//!
//! A driver is asked what its version knows, with answers as long as its version has them, and nothing else.

use wddm_ddi::km::DXGK_QUERYADAPTERINFOTYPE as Query;
use wddm_ddi::km::*;

use super::mcdm::{memory, misc, scheduling};
use crate::start_error::StartError;

/// The first question of each version that has new ones, from the newest; questions are numbered in the order in which they came, and those before all of these
/// are in every version here. That the one about 64-bit-only drivers came with WDDM 3.2 is inferred: the page does not say. [d3dkmddi: DXGK_QUERYADAPTERINFOTYPE]
const QUERIES_SINCE: [(Query, u32); 8] = [
    (Query::DXGKQAITYPE_DIRTYBITTRACKINGCAPS, DXGKDDI_INTERFACE_VERSION_WDDM3_2),
    (Query::DXGKQAITYPE_HARDWARERESERVEDRANGES2, DXGKDDI_INTERFACE_VERSION_WDDM3_1),
    (Query::DXGKQAITYPE_PHYSICAL_MEMORY_CAPS, DXGKDDI_INTERFACE_VERSION_WDDM2_9),
    (Query::DXGKQAITYPE_WDDMDEVICECAPS, DXGKDDI_INTERFACE_VERSION_WDDM2_6),
    (Query::DXGKQAITYPE_DEVICE_TYPE_CAPS, DXGKDDI_INTERFACE_VERSION_WDDM2_5),
    (Query::DXGKQAITYPE_FRAMEBUFFERSAVESIZE, DXGKDDI_INTERFACE_VERSION_WDDM2_4),
    (Query::DXGKQAITYPE_DISPLAYID_DESCRIPTOR, DXGKDDI_INTERFACE_VERSION_WDDM2_3),
    (Query::DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR, DXGKDDI_INTERFACE_VERSION_WDDM2_2),
];

/// True if a version of the interface has a question.
pub(super) fn has_query(kind: Query, version: u32) -> bool {
    QUERIES_SINCE.iter().find(|(first, _)| kind.0 >= first.0).is_none_or(|(_, since)| version >= *since)
}

/// Bytes of the answer to a question in a version of the interface: `whole` in the newest.
pub(super) fn answer_size(kind: Query, whole: usize, version: u32) -> usize {
    match kind {
        Query::DXGKQAITYPE_DRIVERCAPS => bytes_in_version("DXGK_DRIVERCAPS", whole, version),
        Query::DXGKQAITYPE_PHYSICALADAPTERCAPS => bytes_in_version("DXGK_PHYSICALADAPTERCAPS", whole, version),
        _ => whole,
    }
}

/// A bit of DRIVERCAPS that is reserved in versions older than the one that it came with.
struct CapSince {
    member: &'static str,
    since: u32,
    is_set: fn(&DXGK_DRIVERCAPS) -> bool,
}

macro_rules! bits {
    ($name:literal, $read:ident: $($bit:ident, $since:ident;)*) => {
        [$(CapSince {
            member: concat!($name, ".", stringify!($bit)),
            since: $since,
            is_set: |caps| $read(caps).$bit(),
        }),*]
    };
}

/// Bits that this system acts on. [d3dkmddi: DXGK_DRIVERCAPS; d3dkmddi: DXGK_VIDSCHCAPS; d3dkmddi: DXGK_VIDMMCAPS]
const MISC: [CapSince; 2] = bits! { "MiscCaps", misc:
    ComputeOnly, DXGKDDI_INTERFACE_VERSION_WDDM2_6;
    DisplayableSupport, DXGKDDI_INTERFACE_VERSION_WDDM3_0;
};
const SCHEDULING: [CapSince; 2] = bits! { "SchedulingCaps", scheduling:
    NativeGpuFence, DXGKDDI_INTERFACE_VERSION_WDDM3_1;
    OptimizedNativeFenceSignaledInterrupt, DXGKDDI_INTERFACE_VERSION_WDDM3_1;
};
const MEMORY: [CapSince; 4] = bits! { "MemoryManagementCaps", memory:
    ParavirtualizationSupported, DXGKDDI_INTERFACE_VERSION_WDDM2_2;
    IoMmuSecureModeSupported, DXGKDDI_INTERFACE_VERSION_WDDM2_4;
    IoMmuSecureModeRequired, DXGKDDI_INTERFACE_VERSION_WDDM2_7;
    MapAperture2Supported, DXGKDDI_INTERFACE_VERSION_WDDM2_9;
};

/// Bits of DRIVERCAPS that the driver's version does not have.
///
/// # Errors
/// [`StartError::CapOfLaterVersion`]
pub(super) fn check_caps(caps: &DXGK_DRIVERCAPS, version: &'static InterfaceVersion) -> Result<(), StartError> {
    let mut later = MISC.iter().chain(&SCHEDULING).chain(&MEMORY).filter(|cap| cap.since > version.version);
    match later.find(|cap| (cap.is_set)(caps)) {
        Some(cap) => Err(StartError::CapOfLaterVersion {
            member: cap.member,
            since: INTERFACE_VERSIONS.iter().find(|known| known.version == cap.since).map_or("?", |known| known.name),
            driver: version.name,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(kind: Query) -> &'static str {
        let version = INTERFACE_VERSIONS.iter().find(|version| has_query(kind, version.version));
        version.expect("the newest has it").name
    }

    #[test]
    fn a_question_is_there_from_its_version_on() {
        for (kind, name) in [
            (Query::DXGKQAITYPE_DRIVERCAPS, "WDDM 2.0"),
            (Query::DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION, "WDDM 2.0"),
            (Query::DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR, "WDDM 2.2"),
            (Query::DXGKQAITYPE_QUERYCOLORIMETRYOVERRIDES, "WDDM 2.2"),
            (Query::DXGKQAITYPE_DISPLAYID_DESCRIPTOR, "WDDM 2.3"),
            (Query::DXGKQAITYPE_FRAMEBUFFERSAVESIZE, "WDDM 2.4"),
            (Query::DXGKQAITYPE_GPUVERSION, "WDDM 2.4"),
            (Query::DXGKQAITYPE_DEVICE_TYPE_CAPS, "WDDM 2.5"),
            (Query::DXGKQAITYPE_WDDMDEVICECAPS, "WDDM 2.6"),
            (Query::DXGKQAITYPE_PHYSICAL_MEMORY_CAPS, "WDDM 2.9"),
            (Query::DXGKQAITYPE_IOMMU_CAPS, "WDDM 2.9"),
            (Query::DXGKQAITYPE_NATIVE_FENCE_CAPS, "WDDM 3.1"),
            (Query::DXGKQAITYPE_USERMODESUBMISSION_CAPS, "WDDM 3.1"),
            (Query::DXGKQAITYPE_DIRTYBITTRACKINGCAPS, "WDDM 3.2"),
            (Query::DXGKQAITYPE_64BITONLYCAPS, "WDDM 3.2"),
        ] {
            assert_eq!(first(kind), name, "{kind:?}");
        }
    }
}
