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
    D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY, DRIVER_INITIALIZATION_DATA, DXGK_DRIVERCAPS, DXGK_DRIVERCAPS_MiscCaps,
    DXGK_VIDMMCAPS_Bits, DXGK_VIDSCHCAPS,
};

use super::StartError;
use crate::registration::is_filled;

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

/// Queries that a driver of a compute-only adapter refuses.
pub(super) const UNANSWERED: [(Query, &str); 12] = [
    (Query::DXGKQAITYPE_QUERYSEGMENT, "QUERYSEGMENT"),
    (Query::DXGKQAITYPE_QUERYSEGMENT2, "QUERYSEGMENT2"),
    (Query::DXGKQAITYPE_QUERYSEGMENT3, "QUERYSEGMENT3"),
    (Query::DXGKQAITYPE_PREFERREDGPUNODE, "PREFERREDGPUNODE"),
    (Query::DXGKQAITYPE_POWERCOMPONENTPSTATEINFO, "POWERCOMPONENTPSTATEINFO"),
    (Query::DXGKQAITYPE_DISPLAY_DRIVERCAPS_EXTENSION, "DISPLAY_DRIVERCAPS_EXTENSION"),
    (Query::DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR, "INTEGRATED_DISPLAY_DESCRIPTOR"),
    (Query::DXGKQAITYPE_UEFIFRAMEBUFFERRANGES, "UEFIFRAMEBUFFERRANGES"),
    (Query::DXGKQAITYPE_QUERYCOLORIMETRYOVERRIDES, "QUERYCOLORIMETRYOVERRIDES"),
    (Query::DXGKQAITYPE_DISPLAYID_DESCRIPTOR, "DISPLAYID_DESCRIPTOR"),
    (Query::DXGKQAITYPE_INTEGRATED_DISPLAY_DESCRIPTOR2, "INTEGRATED_DISPLAY_DESCRIPTOR2"),
    (Query::DXGKQAITYPE_DEVICE_TYPE_CAPS, "DEVICE_TYPE_CAPS"),
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

fn misc(caps: &DXGK_DRIVERCAPS) -> DXGK_DRIVERCAPS_MiscCaps {
    caps.MiscCaps
}

fn scheduling(caps: &DXGK_DRIVERCAPS) -> DXGK_VIDSCHCAPS {
    caps.SchedulingCaps
}

fn memory(caps: &DXGK_DRIVERCAPS) -> DXGK_VIDMMCAPS_Bits {
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
        let queries: HashSet<i32> = UNANSWERED.iter().map(|(query, _)| query.0).collect();
        assert_eq!(queries.len(), UNANSWERED.len());
    }
}
