//! The combinations of answers that the system rejects, and the slots that an adapter needs.

use wddm_ddi::km::*;
use wddm_ddi::types::LARGE_INTEGER;

use super::{mcdm, reserved_bits, versions};
use crate::caps::{EnabledFeatures, NodeCaps, Segment};
use crate::registration::is_filled;
use crate::start_error::LAST_ENGINE_TYPE;
use crate::start_error::StartError;

/// DDIs of every render or compute adapter with GPU virtual addresses.
const RENDER: [&str; 28] = [
    "DxgkDdiCreateDevice",
    "DxgkDdiDestroyDevice",
    "DxgkDdiCreateContext",
    "DxgkDdiDestroyContext",
    "DxgkDdiCreateAllocation",
    "DxgkDdiDestroyAllocation",
    "DxgkDdiOpenAllocation",
    "DxgkDdiCloseAllocation",
    "DxgkDdiDescribeAllocation",
    "DxgkDdiGetStandardAllocationDriverData",
    "DxgkDdiQueryAdapterInfo",
    "DxgkDdiBuildPagingBuffer",
    "DxgkDdiPreemptCommand",
    "DxgkDdiResetFromTimeout",
    "DxgkDdiRestartFromTimeout",
    "DxgkDdiQueryDependentEngineGroup",
    "DxgkDdiQueryEngineStatus",
    "DxgkDdiResetEngine",
    "DxgkDdiCollectDbgInfo",
    "DxgkDdiGetNodeMetadata",
    "DxgkDdiCalibrateGpuClock",
    "DxgkDdiFormatHistoryBuffer",
    "DxgkDdiSetStablePowerState",
    "DxgkDdiSubmitCommandVirtual",
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiGetRootPageTableSize",
    "DxgkDdiSetRootPageTable",
];

/// The adapters that need them, as an error names them.
const RENDERS: &str = "a render or compute adapter with GPU virtual addresses";

/// DDIs that every driver but that of a compute-only adapter has: there they are optional, or prohibited.
const BASE: [&str; 4] =
    ["DxgkDdiDispatchIoRequest", "DxgkDdiNotifyAcpiEvent", "DxgkDdiQueryInterface", "DxgkDdiControlEtwLogging"];

const PER_ENGINE_TDR: [&str; 4] =
    ["DxgkDdiQueryDependentEngineGroup", "DxgkDdiQueryEngineStatus", "DxgkDdiResetEngine", "DxgkDdiCollectDbgInfo"];

const HARDWARE_SCHEDULING: [&str; 16] = [
    "DxgkDdiCreateHwContext",
    "DxgkDdiDestroyHwContext",
    "DxgkDdiCreateHwQueue",
    "DxgkDdiDestroyHwQueue",
    "DxgkDdiSubmitCommandToHwQueue",
    "DxgkDdiSwitchToHwContextList",
    "DxgkDdiUpdateHwContextState",
    "DxgkDdiResetHwEngine",
    "DxgkDdiResumeHwEngine",
    "DxgkDdiSuspendContext",
    "DxgkDdiResumeContext",
    "DxgkDdiSetupPriorityBands",
    "DxgkDdiSetContextSchedulingProperties",
    "DxgkDdiSetSchedulingLogBuffer",
    "DxgkDdiSignalMonitoredFence",
    "DxgkDdiPresentToHwQueue",
];

/// Those by which a driver of WDDM 2.7 or 2.8 offers hardware scheduling.
const HARDWARE_QUEUES: [&str; 3] = ["DxgkDdiCreateHwContext", "DxgkDdiCreateHwQueue", "DxgkDdiSubmitCommandToHwQueue"];

const NATIVE_FENCE: [&str; 6] = [
    "DxgkDdiCreateNativeFence",
    "DxgkDdiDestroyNativeFence",
    "DxgkDdiOpenNativeFence",
    "DxgkDdiCloseNativeFence",
    "DxgkDdiUpdateMonitoredValues",
    "DxgkDdiUpdateCurrentValuesFromCpu",
];

const USER_MODE_SUBMISSION: [&str; 7] = [
    "DxgkDdiCreateDoorbell",
    "DxgkDdiConnectDoorbell",
    "DxgkDdiDisconnectDoorbell",
    "DxgkDdiDestroyDoorbell",
    "DxgkDdiNotifyWorkSubmission",
    "DxgkDdiSetNativeFenceLogBuffer",
    "DxgkDdiUpdateNativeFenceLogs",
];

/// DDIs between which the system changes what an IOMMU maps for the device. [iommu-based-gpu-isolation]
const EXCLUSIVE_ACCESS: [&str; 2] = ["DxgkDdiBeginExclusiveAccess", "DxgkDdiEndExclusiveAccess"];

const CPU_HOST_APERTURE: [&str; 2] = ["DxgkDdiMapCpuHostAperture", "DxgkDdiUnmapCpuHostAperture"];

fn need(
    table: &DRIVER_INITIALIZATION_DATA,
    slots: impl IntoIterator<Item = &'static str>,
    rule: &'static str,
) -> Result<(), StartError> {
    match slots.into_iter().find(|slot| !is_filled(table, slot)) {
        Some(slot) => Err(StartError::MissingDdi { slot, rule }),
        None => Ok(()),
    }
}

/// The slots that are called before [`check_slots`] knows what to look for.
pub(super) fn check_slots_of_queries(table: &DRIVER_INITIALIZATION_DATA) -> Result<(), StartError> {
    need(table, ["DxgkDdiQueryAdapterInfo", "DxgkDdiGetNodeMetadata"], RENDERS)
}

/// A node that takes hardware contexts needs what they are made of, whether the feature was negotiated or not: a driver that leaves the functions out does not offer the feature, and
/// its nodes must not claim it. Older drivers than those of WDDM 2.7 have no hardware queues. [d3dkmdt: DXGK_NODEMETADATA_FLAGS]
pub(super) fn check_slots_of_nodes(
    table: &DRIVER_INITIALIZATION_DATA,
    nodes: &[NodeCaps],
    version: &InterfaceVersion,
) -> Result<(), StartError> {
    if version.version < DXGKDDI_INTERFACE_VERSION_WDDM2_7 || !nodes.iter().any(|node| node.context_scheduling) {
        return Ok(());
    }
    need(table, HARDWARE_QUEUES, "ContextSchedulingSupported of a node")
}

/// The slots that the adapter's capabilities and features call for.
pub(super) fn check_slots(
    table: &DRIVER_INITIALIZATION_DATA,
    caps: &DXGK_DRIVERCAPS,
    features: EnabledFeatures,
    segments: &[Segment],
) -> Result<(), StartError> {
    if caps.SupportPerEngineTDR != 0
        && let Some(slot) = PER_ENGINE_TDR.into_iter().find(|slot| !is_filled(table, slot))
    {
        return Err(StartError::PerEngineTdrWithoutDdi(slot));
    }
    need(table, RENDER, RENDERS)?;
    if caps.SchedulingCaps.CancelCommandAware() {
        need(table, ["DxgkDdiCancelCommand"], "CancelCommandAware")?;
    }
    if features.hardware_scheduling {
        need(table, HARDWARE_SCHEDULING, "hardware scheduling")?;
    }
    if features.native_fence && caps.SchedulingCaps.NativeGpuFence() {
        need(table, NATIVE_FENCE, "NativeGpuFence")?;
    }
    if features.user_mode_submission {
        need(table, USER_MODE_SUBMISSION, "user-mode submission")?;
    }
    if segments.iter().any(|segment| segment.flags.SupportsCpuHostAperture()) {
        need(table, CPU_HOST_APERTURE, "SupportsCpuHostAperture")?;
    }
    if caps.MemoryManagementCaps.Bits.IoMmuSecureModeSupported() {
        need(table, EXCLUSIVE_ACCESS, "IoMmuSecureModeSupported")?;
    }
    if caps.SupportRuntimePowerManagement != 0 {
        need(table, ["DxgkDdiSetPowerComponentFState"], "SupportRuntimePowerManagement")?;
    }
    if caps.SupportSurpriseRemoval != 0 || caps.SupportSurpriseRemovalInHibernation != 0 {
        need(table, ["DxgkDdiNotifySurpriseRemoval"], "SupportSurpriseRemoval")?;
    }
    if caps.MiscCaps.ComputeOnly() {
        mcdm::check_slots(table, caps)
    } else {
        need(table, BASE, "an adapter that can have displays")
    }
}

/// The facts about the adapter with which the driver capabilities are compared.
pub(super) struct Surroundings {
    /// Bytes of physical memory.
    pub(super) memory: u64,
    /// A function of the adapter is taken for the one that showed the firmware's console.
    pub(super) is_post_device: bool,
    /// The driver's software key names a user-mode driver.
    pub(super) has_user_mode_driver: bool,
    pub(super) features: EnabledFeatures,
    /// The version of the interface that the driver is written for.
    pub(super) version: &'static InterfaceVersion,
}

/// DRIVERCAPS on their own.
pub(super) fn check_driver_caps(caps: &DXGK_DRIVERCAPS, around: &Surroundings) -> Result<(), StartError> {
    check_model("DRIVERCAPS.WDDMVersion", caps.WDDMVersion, around.version)?;
    versions::check_caps(caps, around.version)?;
    if !caps.MiscCaps.ComputeOnly() && !around.has_user_mode_driver {
        return Err(StartError::NoUserModeDriver);
    }
    if around.is_post_device {
        return Err(StartError::RenderOnlyOnPostDevice);
    }
    let LARGE_INTEGER { QuadPart: highest } = caps.HighestAcceptableAddress;
    let (found, needed) = (highest as u64, around.memory.saturating_sub(1));
    if found < needed {
        return Err(StartError::HighestAcceptableAddress { found, needed });
    }
    reserved_bits::check_driver_caps(caps)?;
    check_scheduling_caps(caps, around.features)?;
    if caps.SupportPerEngineTDR == 0 {
        return Err(StartError::PerEngineTdrRequired);
    }
    if caps.MiscCaps.ComputeOnly() {
        mcdm::check_caps(caps)?;
    }
    check_memory_caps(&caps.MemoryManagementCaps.Bits)?;
    let preemption = &caps.PreemptionCaps;
    for (member, found) in [
        ("GraphicsPreemptionGranularity", preemption.GraphicsPreemptionGranularity.0),
        ("ComputePreemptionGranularity", preemption.ComputePreemptionGranularity.0),
    ] {
        if !(0..=500).contains(&found) || found % 100 != 0 {
            return Err(StartError::PreemptionGranularity { member, found });
        }
    }
    let nodes = caps.GpuEngineTopology.NbAsymetricProcessingNodes;
    if !(1..=64).contains(&nodes) {
        return Err(StartError::NodeCount(nodes));
    }
    let paging = caps.MemoryManagementCaps.PagingNode;
    if paging >= nodes { Err(StartError::PagingNode(paging)) } else { Ok(()) }
}

fn check_scheduling_caps(caps: &DXGK_DRIVERCAPS, features: EnabledFeatures) -> Result<(), StartError> {
    let scheduling = caps.SchedulingCaps;
    if !scheduling.MultiEngineAware() {
        let needing = [
            (scheduling.PreemptionAware(), "PreemptionAware"),
            (scheduling.NoDmaPatching(), "NoDmaPatching"),
            (scheduling.CancelCommandAware(), "CancelCommandAware"),
        ];
        if let Some((_, cap)) = needing.into_iter().find(|(set, _)| *set) {
            return Err(StartError::SchedulingCapWithoutMultiEngine(cap));
        }
    }
    if scheduling.NoDmaPatching() && !scheduling.PreemptionAware() {
        return Err(StartError::NoDmaPatchingWithoutPreemption);
    }
    if scheduling.NativeGpuFence() && !features.native_fence {
        return Err(StartError::NativeFenceNotEnabled);
    }
    if scheduling.NativeGpuFence() && scheduling.No64BitAtomics() {
        return Err(StartError::NativeFenceWithout64BitAtomics);
    }
    if scheduling.OptimizedNativeFenceSignaledInterrupt() && !scheduling.NativeGpuFence() {
        return Err(StartError::OptimizedInterruptWithoutNativeFence);
    }
    Ok(())
}

fn check_memory_caps(caps: &DXGK_VIDMMCAPS_Bits) -> Result<(), StartError> {
    if caps.IoMmuSecureModeRequired() {
        return Err(StartError::IoMmuSecureModeRequired);
    }
    if caps.GpuMmuSupported() && !caps.VirtualAddressingSupported() {
        return Err(StartError::GpuMmuWithoutVirtualAddressing);
    }
    if caps.GpuMmuSupported() { Ok(()) } else { Err(StartError::NoGpuMmu) }
}

/// The driver model that belongs to the version of the interface, at one of the places where the driver names it.
fn check_model(site: &'static str, found: DXGK_WDDMVERSION, version: &InterfaceVersion) -> Result<(), StartError> {
    if found == version.model {
        return Ok(());
    }
    Err(StartError::VersionMismatch { site, found: found.0 as u32, expected: version.model.0 as u32 })
}

/// WDDMDEVICECAPS must repeat the version.
pub(super) fn check_device_caps(caps: &DXGK_WDDMDEVICECAPS, version: &InterfaceVersion) -> Result<(), StartError> {
    check_model("WDDMDEVICECAPS.WDDMVersion", caps.WDDMVersion, version)
}

/// PHYSICALADAPTERCAPS, if answered at all, must agree with DRIVERCAPS.
pub(super) fn check_physical_adapter(caps: &DXGK_PHYSICALADAPTERCAPS, nodes: u32) -> Result<(), StartError> {
    let refuse = |reason: String| Err(StartError::PhysicalAdapterCaps(reason));
    if u32::from(caps.NumExecutionNodes) != nodes {
        return refuse(format!("{} execution nodes, DRIVERCAPS has {nodes}", caps.NumExecutionNodes));
    }
    if u32::from(caps.PagingNodeIndex) >= nodes {
        return refuse(format!("paging node {} does not exist", caps.PagingNodeIndex));
    }
    if !caps.Flags.GpuMmuSupported() {
        return refuse("GpuMmuSupported is not set, but DRIVERCAPS has it".into());
    }
    Ok(())
}

/// NATIVE_FENCE_CAPS of an adapter with native fences.
pub(super) fn check_native_fence(caps: &DXGK_NATIVE_FENCE_CAPS) -> Result<(), StartError> {
    let (first, last) = (caps.MinimumAddress, caps.MaximumAddress);
    if first >= last {
        return Err(StartError::NativeFenceCaps(format!("addresses 0x{first:x} to 0x{last:x} are no range")));
    }
    if !caps.MonitoredValueStride.is_multiple_of(8) || caps.MonitoredValueStride > 4096 {
        return Err(StartError::NativeFenceCaps(format!(
            "monitored values {} bytes apart; a multiple of 8 up to 4096 is possible",
            caps.MonitoredValueStride
        )));
    }
    Ok(())
}

/// USERMODESUBMISSION_CAPS of an adapter with user-mode submission.
pub(super) fn check_user_mode_submission(caps: &DXGK_USERMODESUBMISSION_CAPS) -> Result<(), StartError> {
    let refuse = |reason: String| Err(StartError::UserModeSubmissionCaps(reason));
    if u32::from(caps.Flags) & !1 != 0 {
        return refuse(format!("reserved flags set: 0x{:x}", u32::from(caps.Flags)));
    }
    let secondary = caps.Flags.SecondaryDoorbellSupported();
    for (size, needed) in [(caps.DoorbellSizeInBytes, true), (caps.SecondaryDoorbellSizeInBytes, secondary)] {
        if size > DXGK_MAX_DOORBELL_SIZE_BYTES || (needed && size == 0) {
            return refuse(format!("a doorbell of {size} bytes; up to {DXGK_MAX_DOORBELL_SIZE_BYTES} are possible"));
        }
    }
    Ok(())
}

/// What a node is for, and its name: "A NULL-terminated string", which the driver "must provide" for a type other. [d3dkmdt: DXGK_NODEMETADATA]
fn check_description(node: u32, metadata: &DXGK_NODEMETADATA) -> Result<(), StartError> {
    let (kind, name) = (metadata.EngineType, metadata.FriendlyName);
    if !(0..=LAST_ENGINE_TYPE.0).contains(&kind.0) {
        return Err(StartError::NodeEngineType { node, found: kind.0 });
    }
    let refuse = |rule| Err(StartError::NodeFriendlyName { node, rule });
    match name.iter().position(|unit| *unit == 0) {
        None => refuse("none of its 32 characters is the zero at its end"),
        Some(0) if kind == DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_OTHER => {
            refuse("it is empty, and EngineType is DXGK_ENGINE_TYPE_OTHER, whose engines have one")
        }
        Some(_) => Ok(()),
    }
}

/// A node has the memory model of the IOMMU only where the adapter has it. [d3dkmdt: DXGK_NODEMETADATA]
pub(super) fn check_iommu(nodes: &[NodeCaps], driver: &DXGK_DRIVERCAPS) -> Result<(), StartError> {
    let has = |caps: &NodeCaps| caps.metadata.IoMmuSupported != 0;
    match nodes.iter().position(has) {
        Some(node) if !mcdm::memory(driver).IoMmuSupported() => Err(StartError::NodeIoMmu(node as u32)),
        _ => Ok(()),
    }
}

/// Nodes against the adapter's capabilities and features.
pub(super) fn check_nodes(nodes: &[NodeCaps], features: EnabledFeatures) -> Result<(), StartError> {
    for (node, caps) in (0..).zip(nodes) {
        check_description(node, &caps.metadata)?;
        if caps.metadata.GpuMmuSupported == 0 {
            return Err(StartError::NodeGpuMmu(node));
        }
        if caps.user_mode_submission && !features.user_mode_submission {
            return Err(StartError::UserModeSubmissionNotEnabled(node));
        }
        if caps.test_commands && !features.kernel_mode_testing {
            return Err(StartError::KernelModeTestingNotEnabled(node));
        }
    }
    Ok(())
}

/// Segments by themselves and as a list.
pub(super) fn check_segments(segments: &[Segment], paging_buffer: u32) -> Result<(), StartError> {
    let last = segments.last().map_or(0, |segment| segment.id);
    let mut apertures = 0;
    for segment in segments {
        let (id, flags) = (segment.id, segment.flags);
        let refuse = |reason: &str| Err(StartError::Segment { id, reason: reason.to_owned() });
        if flags.SupportsCpuHostAperture() && flags.CpuVisible() {
            return Err(StartError::CpuHostApertureCpuVisible(id));
        }
        if flags.SupportsCpuHostAperture() && id != last {
            return Err(StartError::CpuHostApertureNotLast(id));
        }
        if flags.SupportsCpuHostAperture() && flags.Aperture() {
            return refuse("SupportsCpuHostAperture is for memory segments only");
        }
        if flags.SupportsCpuHostAperture() && segment.host_aperture.is_none() {
            return refuse(&segment.unreached);
        }
        if flags.SupportsCachedCpuHostAperture() && !flags.SupportsCpuHostAperture() {
            return refuse("SupportsCachedCpuHostAperture needs SupportsCpuHostAperture");
        }
        if flags.Agp() {
            return refuse("Agp must not be set");
        }
        if flags.UseBanking() {
            return refuse("UseBanking must not be set: segments are linear");
        }
        if flags.CacheCoherent() && !flags.Aperture() {
            return refuse("CacheCoherent is for aperture segments only");
        }
        if flags.PreservedDuringHibernate() && !flags.PreservedDuringStandby() {
            return refuse("PreservedDuringHibernate needs PreservedDuringStandby");
        }
        if segment.size == 0 || !segment.size.is_multiple_of(4096) {
            return refuse(&format!("Size is {:#x}, not whole pages", segment.size));
        }
        if !segment.base_address.is_multiple_of(4096) {
            return refuse(&format!("BaseAddress is {:#x}, not the start of a page", segment.base_address));
        }
        if !flags.Aperture() && segment.commit_limit > segment.size {
            return refuse(&format!("CommitLimit is {:#x}, more than its Size", segment.commit_limit));
        }
        if flags.CpuVisible() && !flags.Aperture() && segment.kernel.is_none() {
            return refuse(&format!("it is CpuVisible, and {}", segment.unreached));
        }
        apertures += u32::from(flags.Aperture());
        if apertures > 1 {
            return refuse("a second aperture segment; one for system memory is the most");
        }
    }
    let aperture = |id: u32| segments.iter().any(|segment| segment.id == id && segment.flags.Aperture());
    if paging_buffer == 0 || aperture(paging_buffer) {
        Ok(())
    } else {
        Err(StartError::PagingBufferSegment(paging_buffer))
    }
}

/// History buffer precision of every node.
pub(super) fn check_history_precision(bits: &[u32]) -> Result<(), StartError> {
    match (0..).zip(bits).find(|(_, bits)| !(32..=64).contains(*bits)) {
        Some((node, bits)) => Err(StartError::HistoryBufferPrecision { node, bits: *bits }),
        None => Ok(()),
    }
}
