// UNSAFETY: reads a union of capabilities.
//! The rules of Microsoft's guidelines for drivers of compute-only adapters (MCDM), as data: DDIs that must be there and DDIs that must not, what members of
//! the capabilities must be, and queries that must be refused. [mcdm-implementation-guidelines]
//!
//! A driver that breaks one is not started, and the error names the rule. That the real system goes so far for each of them is not known; a driver
//! that keeps to all of them is on the safe side. Two DDIs have no rule. The guidelines name DxgkDdiQueryConnectionChange both among those that must be there
//! and among those that must not. They name DxgkDdiPowerRuntimeSetDeviceHandle beside DxgkDdiPowerRuntimeControlRequest among those of power management,
//! but no page says what it is called with, and [dispmprt: DRIVER_INITIALIZATION_DATA] has nothing but its name.

use wddm_ddi::km::DXGK_QUERYADAPTERINFOTYPE as Query;
use wddm_ddi::km::{
    D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY, DRIVER_INITIALIZATION_DATA, DXGK_DISPLAY_DRIVERCAPS_EXTENSION,
    DXGK_DRIVERCAPS, DXGK_DRIVERCAPS_MiscCaps, DXGK_QUERYSEGMENTMEMORYSTATE, DXGK_VIDMMCAPS_Bits, DXGK_VIDSCHCAPS,
};

use crate::registration::is_filled;
use crate::start_error::StartError;

/// DDIs that every driver of a compute-only adapter has.
pub(super) const REQUIRED: [&str; 36] = [
    "DxgkDdiAddDevice",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiCalibrateGpuClock",
    "DxgkDdiCloseAllocation",
    "DxgkDdiCollectDbgInfo",
    "DxgkDdiCreateAllocation",
    "DxgkDdiCreateContext",
    "DxgkDdiCreateDevice",
    "DxgkDdiDescribeAllocation",
    "DxgkDdiDestroyAllocation",
    "DxgkDdiDestroyContext",
    "DxgkDdiDestroyDevice",
    "DxgkDdiDpcRoutine",
    "DxgkDdiFormatHistoryBuffer",
    "DxgkDdiGetNodeMetadata",
    "DxgkDdiGetStandardAllocationDriverData",
    "DxgkDdiInterruptRoutine",
    "DxgkDdiOpenAllocation",
    "DxgkDdiPreemptCommand",
    "DxgkDdiQueryAdapterInfo",
    "DxgkDdiQueryChildRelations",
    "DxgkDdiQueryChildStatus",
    "DxgkDdiQueryDependentEngineGroup",
    "DxgkDdiQueryDeviceDescriptor",
    "DxgkDdiQueryEngineStatus",
    "DxgkDdiRemoveDevice",
    "DxgkDdiResetDevice",
    "DxgkDdiResetEngine",
    "DxgkDdiResetFromTimeout",
    "DxgkDdiRestartFromTimeout",
    "DxgkDdiSetPowerState",
    "DxgkDdiSetStablePowerState",
    "DxgkDdiSetVirtualMachineData",
    "DxgkDdiStartDevice",
    "DxgkDdiStopDevice",
    "DxgkDdiUnload",
];

/// The DDI of power management that one of SupportRuntimePowerManagement has besides DxgkDdiSetPowerComponentFState, which any driver needs for it.
const POWER: &str = "DxgkDdiPowerRuntimeControlRequest";

/// DDIs that no driver of a compute-only adapter has: those of displays, of WDDM 1.x, and of platform events.
pub(super) const PROHIBITED: [&str; 61] = [
    "DxgkDdiAcquireSwizzlingRange",
    "DxgkDdiCheckMultiPlaneOverlaySupport",
    "DxgkDdiCheckMultiPlaneOverlaySupport2",
    "DxgkDdiCheckMultiPlaneOverlaySupport3",
    "DxgkDdiCommitVidPn",
    "DxgkDdiControlDiagnosticReporting",
    "DxgkDdiControlInterrupt",
    "DxgkDdiControlInterrupt2",
    "DxgkDdiControlModeBehavior",
    "DxgkDdiCreateOverlay",
    "DxgkDdiCreatePeriodicFrameNotification",
    "DxgkDdiCreateProtectedSession",
    "DxgkDdiDestroyOverlay",
    "DxgkDdiDestroyPeriodicFrameNotification",
    "DxgkDdiDestroyProtectedSession",
    "DxgkDdiDisplayDetectControl",
    "DxgkDdiEnumVidPnCofuncModality",
    "DxgkDdiExchangePreStartInfo",
    "DxgkDdiFlipOverlay",
    "DxgkDdiGetMultiPlaneOverlayCaps",
    "DxgkDdiGetPostCompositionCaps",
    "DxgkDdiGetScanLine",
    "DxgkDdiIsSupportedVidPn",
    "DxgkDdiNotifyAcpiEvent",
    "DxgkDdiNotifyFocusPresent",
    "DxgkDdiPostMultiPlaneOverlayPresent",
    "DxgkDdiPresent",
    "DxgkDdiQueryCurrentFence",
    "DxgkDdiQueryDiagnosticTypesSupport",
    "DxgkDdiQueryVidPnHWCapability",
    "DxgkDdiRecommendFunctionalVidPn",
    "DxgkDdiRecommendMonitorModes",
    "DxgkDdiRecommendVidPnTopology",
    "DxgkDdiReleaseSwizzlingRange",
    "DxgkDdiRenderGdi",
    "DxgkDdiRenderKm",
    "DxgkDdiSetDisplayPrivateDriverFormat",
    "DxgkDdiSetPalette",
    "DxgkDdiSetPointerPosition",
    "DxgkDdiSetPointerShape",
    "DxgkDdiSetPowerPState",
    "DxgkDdiSetTargetAdjustedColorimetry",
    "DxgkDdiSetTargetAdjustedColorimetry2",
    "DxgkDdiSetTargetAnalogCopyProtection",
    "DxgkDdiSetTargetContentType",
    "DxgkDdiSetTargetGamma",
    "DxgkDdiSetTimingsFromVidPn",
    "DxgkDdiSetVideoProtectedRegion",
    "DxgkDdiSetVidPnSourceAddress",
    "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay",
    "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2",
    "DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3",
    "DxgkDdiSetVidPnSourceVisibility",
    "DxgkDdiStopCapture",
    "DxgkDdiStopDeviceAndReleasePostDisplayOwnership",
    "DxgkDdiSubmitRender",
    "DxgkDdiSystemDisplayEnable",
    "DxgkDdiSystemDisplayWrite",
    "DxgkDdiUpdateActiveVidPnPresentPath",
    "DxgkDdiUpdateMonitorLinkInfo",
    "DxgkDdiUpdateOverlay",
];

/// A query that a driver of a compute-only adapter refuses, and how it is asked: a driver may insist on the sizes of the structures.
#[derive(Clone, Copy)]
pub(super) struct Unanswered {
    pub(super) kind: Query,
    pub(super) name: &'static str,
    /// Bytes of the question, which are zero: of the first target, component and engine.
    pub(super) input: usize,
    /// Bytes of the answer.
    pub(super) output: usize,
}

const fn unanswered(kind: Query, name: &'static str, input: usize, output: usize) -> Unanswered {
    Unanswered { kind, name, input, output }
}

/// No page says what the structure is: more than it can have.
const UNKNOWN: usize = 256;
/// Index of a component, or identifier of a target. [d3dkmddi: DXGK_QAITARGETIN]
const INDEX: usize = 4;
/// Base, size and flags of an aperture, with padding at the end. [d3dkmddi: DXGK_QUERYSEGMENTIN]
const SEGMENT_IN: usize = 24;
/// Number of segments, pointer to their descriptors, and three numbers about paging buffers. [d3dkmddi: DXGK_QUERYSEGMENTOUT]
const SEGMENT_OUT: usize = 32;
/// Number of segments and pointer to their descriptors; the page only reserves it. [d3dkmddi: DXGK_QUERYSEGMENTOUT2]
const SEGMENT_OUT2: usize = 16;
/// Number of states, 32 frequencies, and flags; the page only reserves it. [d3dkmddi: DXGK_POWER_P_COMPONENT]
const P_COMPONENT: usize = 136;
/// Four points of two numbers, three luminances, depths and flags. [d3dkmddi: DXGK_COLORIMETRY]
const COLORIMETRY: usize = 52;
/// Flags, timing (56 bytes at 8), link, colours (at 68), technology, usage, instance and kind of the descriptor.
/// [d3dkmddi: DXGK_QUERYINTEGRATEDDISPLAYOUT]
const DISPLAY: usize = 136;
/// Bytes of the shortest descriptor of a display, behind the rest of its answer: there is no child that says how long its own is.
const DESCRIPTOR: usize = 128;
/// The same without a descriptor, with the formats that are dithered, and padding at the end. [d3dkmddi: DXGK_QUERYINTEGRATEDDISPLAYOUT2]
const DISPLAY2: usize = 144;

/// Queries that a driver of a compute-only adapter refuses. What the question is says [d3dkmddi: DXGKARG_QUERYADAPTERINFO]: nothing, where it
/// has no word about one. What the answer is says [d3dkmddi: DXGK_QUERYADAPTERINFOTYPE].
pub(super) const UNANSWERED: [Unanswered; 12] = [
    unanswered(Query::DXGKQAITYPE_QUERYSEGMENT, "QUERYSEGMENT", SEGMENT_IN, SEGMENT_OUT),
    unanswered(Query::DXGKQAITYPE_QUERYSEGMENT2, "QUERYSEGMENT2", 0, SEGMENT_OUT2),
    unanswered(Query::DXGKQAITYPE_QUERYSEGMENT3, "QUERYSEGMENT3", 0, SEGMENT_OUT),
    unanswered(Query::DXGKQAITYPE_PREFERREDGPUNODE, "PREFERREDGPUNODE", 0, UNKNOWN),
    unanswered(Query::DXGKQAITYPE_POWERCOMPONENTPSTATEINFO, "POWERCOMPONENTPSTATEINFO", INDEX, P_COMPONENT),
    unanswered(
        Query::DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION,
        "DISPLAY_DRIVERCAPS_EXTENSION",
        0,
        size_of::<DXGK_DISPLAY_DRIVERCAPS_EXTENSION>(),
    ),
    unanswered(
        Query::DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR,
        "INTEGRATED_DISPLAY_DESCRIPTOR",
        INDEX,
        DISPLAY + DESCRIPTOR,
    ),
    // The ranges are those of a segment's state, which has a count of its own for them.
    unanswered(
        Query::DXGKQAITYPE_UEFIFRAMEBUFFERRANGES,
        "UEFIFRAMEBUFFERRANGES",
        0,
        size_of::<DXGK_QUERYSEGMENTMEMORYSTATE>(),
    ),
    unanswered(Query::DXGKQAITYPE_QUERYCOLORIMETRYOVERRIDES, "QUERYCOLORIMETRYOVERRIDES", INDEX, COLORIMETRY),
    unanswered(Query::DXGKQAITYPE_DISPLAYID_DESCRIPTOR, "DISPLAYID_DESCRIPTOR", INDEX, DISPLAY + DESCRIPTOR),
    unanswered(Query::DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR2, "INTEGRATED_DISPLAY_DESCRIPTOR2", INDEX, DISPLAY2),
    // A word of bits. [d3dkmddi: DXGK_DEVICE_TYPE_CAPS]
    unanswered(Query::DXGKQAITYPE_DEVICE_TYPE_CAPS, "DEVICE_TYPE_CAPS", 0, 4),
];

/// A rule about a member of DRIVERCAPS.
#[derive(Clone, Copy)]
pub(super) struct CapsRule {
    /// The member.
    pub(super) member: &'static str,
    /// The value that the guidelines demand of it, in words.
    pub(super) must_be: &'static str,
    holds: fn(&DXGK_DRIVERCAPS) -> bool,
}

const fn rule(member: &'static str, must_be: &'static str, holds: fn(&DXGK_DRIVERCAPS) -> bool) -> CapsRule {
    CapsRule { member, must_be, holds }
}

/// Members that are numbers or BOOLEANs.
macro_rules! zero {
    ($($member:ident),* $(,)?) => { [$(rule(stringify!($member), "0", |caps| caps.$member == 0)),*] };
}

/// Members that are made of bits.
macro_rules! clear {
    ($($member:ident),* $(,)?) => { [$(rule(stringify!($member), "0", |caps| caps.$member.into_bits() == 0)),*] };
}

/// Bits of the member that a function reads.
macro_rules! bits {
    ($name:literal, $read:expr, $value:literal: $($bit:ident),* $(,)?) => {
        [$(rule(concat!($name, ".", stringify!($bit)), if $value { "set" } else { "clear" }, |caps| {
            $read(caps).$bit() == $value
        })),*]
    };
}

pub(super) fn misc(caps: &DXGK_DRIVERCAPS) -> DXGK_DRIVERCAPS_MiscCaps {
    caps.MiscCaps
}

pub(super) fn scheduling(caps: &DXGK_DRIVERCAPS) -> DXGK_VIDSCHCAPS {
    caps.SchedulingCaps
}

pub(super) fn memory(caps: &DXGK_DRIVERCAPS) -> DXGK_VIDMMCAPS_Bits {
    caps.MemoryManagementCaps.Bits
}

const NUMBERS: [CapsRule; 18] = zero! {
    MaxAllocationListSlotId,
    ApertureSegmentCommitLimit,
    MaxPointerWidth,
    MaxPointerHeight,
    NumberOfSwizzlingRanges,
    MaxOverlays,
    MaxQueuedFlipOnVSync,
    SupportNonVGA,
    SupportSmoothRotation,
    SupportDirectFlip,
    SupportMultiPlaneOverlay,
    MaxOverlayPlanes,
    SupportMultiPlaneOverlayImmediateFlip,
    CursorScaledWithMultiPlaneOverlayPlane0,
    HybridAcpiChainingRequired,
    MaxQueuedMultiPlaneOverlayFlipVSync,
    HybridDiscrete,
    HybridIntegrated,
};
const WORDS: [CapsRule; 3] = clear! { PointerCaps, PresentationCaps, FlipCaps };
const MISC: [CapsRule; 2] = bits! { "MiscCaps", misc, false: SupportContextlessPresent, Detachable };
const SCHEDULING_SET: [CapsRule; 3] =
    bits! { "SchedulingCaps", scheduling, true: MultiEngineAware, PreemptionAware, LowIrqlPreemptCommand };
const SCHEDULING_CLEAR: [CapsRule; 2] =
    bits! { "SchedulingCaps", scheduling, false: VSyncPowerSaveAware, NoDmaPatching };
/// The page has drivers that split the GPU among virtual machines clear ParavirtualizationSupported: this system plays none of them.
const MEMORY_SET: [CapsRule; 2] =
    bits! { "MemoryManagementCaps", memory, true: VirtualAddressingSupported, ParavirtualizationSupported };
const MEMORY_CLEAR: [CapsRule; 6] = bits! { "MemoryManagementCaps", memory, false:
    OutOfOrderLock, DedicatedPagingEngine, PagingEngineCanSwizzle, SectionBackedPrimary, ReplicateGdiContent, NonCpuVisiblePrimary,
};
const OTHERS: [CapsRule; 4] = [
    rule("GammaRampCaps and ColorTransformCaps", "0", |caps| {
        // SAFETY: both members are 32 bits, for which every value is one.
        unsafe { caps.u.ColorTransformCaps }.into_bits() == 0
    }),
    rule("SchedulingCaps.HwQueuePacketCap", "0", |caps| caps.SchedulingCaps.HwQueuePacketCap() == 0),
    rule("PreemptionCaps.ComputePreemptionGranularity", "anything but D3DKMDT_COMPUTE_PREEMPTION_NONE", |caps| {
        let none = D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY::D3DKMDT_COMPUTE_PREEMPTION_NONE;
        caps.PreemptionCaps.ComputePreemptionGranularity != none
    }),
    rule("MemoryManagementCaps.GpuMmuSupported or IoMmuSupported", "set beside VirtualAddressingSupported", |caps| {
        memory(caps).GpuMmuSupported() || memory(caps).IoMmuSupported()
    }),
];

/// Every rule about DRIVERCAPS.
pub(super) fn caps_rules() -> impl Iterator<Item = CapsRule> {
    let scheduling = SCHEDULING_SET.into_iter().chain(SCHEDULING_CLEAR);
    let memory = MEMORY_SET.into_iter().chain(MEMORY_CLEAR);
    NUMBERS.into_iter().chain(WORDS).chain(MISC).chain(scheduling).chain(memory).chain(OTHERS)
}

/// The capabilities of a compute-only adapter.
///
/// # Errors
/// [`StartError::McdmCaps`]
pub(super) fn check_caps(caps: &DXGK_DRIVERCAPS) -> Result<(), StartError> {
    match caps_rules().find(|rule| !(rule.holds)(caps)) {
        Some(CapsRule { member, must_be, .. }) => Err(StartError::McdmCaps { member, must_be }),
        None => Ok(()),
    }
}

/// The slots of a driver of a compute-only adapter.
///
/// # Errors
/// [`StartError::ForbiddenDdi`], [`StartError::MissingDdi`].
pub(super) fn check_slots(table: &DRIVER_INITIALIZATION_DATA, caps: &DXGK_DRIVERCAPS) -> Result<(), StartError> {
    if let Some(slot) = PROHIBITED.into_iter().find(|slot| is_filled(table, slot)) {
        return Err(StartError::ForbiddenDdi(slot));
    }
    match REQUIRED.into_iter().find(|slot| !is_filled(table, slot)) {
        Some(slot) => Err(StartError::MissingDdi { slot, rule: "a compute-only adapter" }),
        None if caps.SupportRuntimePowerManagement != 0 && !is_filled(table, POWER) => {
            Err(StartError::MissingDdi { slot: POWER, rule: "SupportRuntimePowerManagement of a compute-only adapter" })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use wddm_ddi::km::SLOT_NAMES;

    #[test]
    fn every_ddi_of_a_rule_is_a_slot_and_no_slot_is_in_two_rules() {
        let mut seen = HashSet::new();
        for name in REQUIRED.into_iter().chain([POWER]).chain(PROHIBITED) {
            assert!(SLOT_NAMES.contains(&name), "{name} is no slot");
            assert!(seen.insert(name), "{name} is there twice");
        }
    }

    #[test]
    fn no_member_has_two_rules_and_no_query_is_there_twice() {
        let members: HashSet<&str> = caps_rules().map(|rule| rule.member).collect();
        assert_eq!(members.len(), caps_rules().count());
        let queries: HashSet<i32> = UNANSWERED.iter().map(|query| query.kind.0).collect();
        assert_eq!(queries.len(), UNANSWERED.len());
    }
}
