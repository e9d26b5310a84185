//! Why an adapter does not start, one name for each rule.

use std::fmt;

use wddm_ddi::km::{DXGK_ENGINE_TYPE, INTERFACE_VERSIONS};
use wddm_ddi::status::*;

use nt::bugcheck::Bugcheck;
use nt::pci::PciError;

/// STATUS_DEVICE_CONFIGURATION_ERROR. [ntstatus: STATUS_DEVICE_CONFIGURATION_ERROR]
const STATUS_DEVICE_CONFIGURATION_ERROR: NTSTATUS = NTSTATUS(0xc000_0182_u32 as i32);
/// STATUS_GRAPHICS_INVALID_DRIVER_MODEL. [ntstatus: STATUS_GRAPHICS_INVALID_DRIVER_MODEL]
const STATUS_GRAPHICS_INVALID_DRIVER_MODEL: NTSTATUS = NTSTATUS(0xc01e_0004_u32 as i32);

/// The last one before DXGK_ENGINE_TYPE_MAX. [d3dkmdt: DXGK_ENGINE_TYPE]
pub(crate) const LAST_ENGINE_TYPE: DXGK_ENGINE_TYPE = DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_VIDEO_CODEC;

/// Problem code that Device Manager shows for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemCode {
    /// Code 10, CM_PROB_FAILED_START: StartDevice failed.
    FailedStart = 10,
    /// Code 31, CM_PROB_FAILED_ADD: AddDevice failed.
    FailedAdd = 31,
    /// Code 43, CM_PROB_FAILED_POST_START: the driver started and was refused afterwards.
    FailedPostStart = 43,
}

/// Bytes of the answer to a question of DxgkDdiQueryAdapterInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputSize {
    /// OutputDataSize: what the answer has in the driver's version of the interface.
    pub offered: usize,
    /// Driver model of that version.
    pub version: &'static str,
    /// Bytes of the answer in the newest version.
    pub newest: usize,
}

impl fmt::Display for OutputSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offered, version, newest } = self;
        write!(
            f,
            "OutputDataSize was {offered}, the bytes of the answer in {version}, which is the version of the DDI table"
        )?;
        match INTERFACE_VERSIONS.last() {
            Some(last) if offered != newest => write!(f, "; it has {newest} in {}", last.name),
            _ => Ok(()),
        }
    }
}

macro_rules! start_errors {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident $( ( $($tuple:ident: $tuple_ty:ty),* ) )? $( { $( $(#[doc = $field_doc:literal])* $field:ident: $field_ty:ty ),* $(,)? } )? ,
        $status:expr, $problem:ident, $($text:literal),+ $(, $argument:expr)* ;
    )*) => {
        /// An adapter did not start. Each variant is one rule; the message says what the rule is.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum StartError {
            $( $(#[doc = $doc])* $name $( ( $($tuple_ty),* ) )? $( { $( $(#[doc = $field_doc])* $field: $field_ty ),* } )?, )*
        }

        impl StartError {
            /// The status that PnP keeps as the problem status.
            pub fn status(&self) -> NTSTATUS {
                match self {
                    $( Self::$name $( ( $($tuple),* ) )? $( { $($field),* } )? => { $( $(let _ = $tuple;)* )? $( $(let _ = $field;)* )? $status } )*
                }
            }

            /// The problem code of the device.
            pub fn problem(&self) -> ProblemCode {
                match self {
                    $( Self::$name { .. } => ProblemCode::$problem, )*
                }
            }
        }

        impl fmt::Display for StartError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$name $( ( $($tuple),* ) )? $( { $($field),* } )? => {
                        $( $(let _ = $tuple;)* )? $( $(let _ = $field;)* )?
                        write!(f, concat!($($text),+) $(, $argument)*)
                    } )*
                }?;
                self.page().map_or(Ok(()), |page| write!(f, " [{page}]"))
            }
        }
    };
}

start_errors! {
    /// No such device is plugged in.
    NoSuchDevice, STATUS_NO_SUCH_DEVICE, FailedStart, "no such device is plugged in";
    /// No such driver is loaded.
    NoSuchDriver, STATUS_OBJECT_NAME_NOT_FOUND, FailedAdd, "no such driver is loaded";
    /// The device is started already.
    AlreadyStarted, STATUS_INVALID_DEVICE_STATE, FailedStart, "the device is started already";
    /// The device was stopped under another driver and not removed.
    OtherDriver, STATUS_INVALID_DEVICE_STATE, FailedAdd, "the device still belongs to another driver; remove it first";
    /// The machine has stopped.
    Stopped(bugcheck: Option<Bugcheck>), STATUS_DEVICE_REMOVED, FailedPostStart, "the machine has stopped: {}",
        bugcheck.as_ref().map_or_else(|| "nothing is known of why".to_owned(), Bugcheck::to_string);
    /// Enumeration of the function failed.
    Pci(error: PciError), STATUS_NO_SUCH_DEVICE, FailedStart, "enumeration failed: {}", error;
    /// Memory or interrupts could not be set up on this host.
    Resources(reason: String), STATUS_INSUFFICIENT_RESOURCES, FailedStart, "host resources: {}", reason;
    /// AddDevice failed.
    AddDevice(status: NTSTATUS), *status, FailedAdd, "DxgkDdiAddDevice failed with {}", status;
    /// AddDevice returned no context: the driver does not support this function.
    NotSupportedByDriver, STATUS_NOT_SUPPORTED, FailedAdd, "DxgkDdiAddDevice succeeded with a NULL context, so the driver does not support this function";
    /// Devices that a chain of linked adapters needs are not there.
    LinkIncomplete {
        /// Identifier of the chain.
        chain: u32,
        /// Devices that are there.
        found: u32,
        /// Devices that belong to it.
        expected: u32,
    }, STATUS_NO_SUCH_DEVICE, FailedStart, "chain 0x{:x} of linked adapters has {} of its {} devices", chain, found, expected;
    /// The answers of DxgkDdiLinkDevice, or of the queries about linked adapters, do not form a chain.
    Linked(reason: String), STATUS_INVALID_PARAMETER, FailedStart, "linked adapters: {}", reason;
    /// StartDevice failed.
    StartDevice(status: NTSTATUS), *status, FailedStart, "DxgkDdiStartDevice failed with {}", status;
    /// Sources or children on an adapter that has no display.
    NotRenderOnly {
        /// Video present sources that StartDevice reported.
        sources: u32,
        /// Children that StartDevice reported.
        children: u32,
    }, STATUS_GRAPHICS_INVALID_DRIVER_MODEL, FailedPostStart, "DxgkDdiStartDevice reported {} sources and {} children; only render and compute adapters are supported, with 0 of each", sources, children;
    /// A DDI that the adapter's class needs is NULL.
    MissingDdi {
        /// Name of the slot.
        slot: &'static str,
        /// Capability or feature that requires the DDI.
        rule: &'static str,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "{} is NULL, but {} needs it", slot, rule;
    /// A DDI that a compute-only adapter must not have.
    ForbiddenDdi(slot: &'static str), STATUS_INVALID_PARAMETER, FailedPostStart, "{} must be NULL in the driver of a compute-only adapter", slot;
    /// A query that must succeed failed.
    Query {
        /// Which query.
        query: &'static str,
        /// Status that the driver returned.
        status: NTSTATUS,
        /// The size that it was offered.
        output: OutputSize,
    }, *status, FailedPostStart, "DxgkDdiQueryAdapterInfo({}) failed with {}; {}", query, status, output;
    /// A query was answered, but not all of the answer was written.
    ShortAnswer {
        /// Which query.
        query: &'static str,
        /// Bytes up to the last one that was written.
        written: usize,
        /// The size that it was offered.
        output: OutputSize,
        /// The first member of which nothing was written, if it is known.
        member: Option<&'static str>,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "DxgkDdiQueryAdapterInfo({}) succeeded, but wrote only {} of the {} bytes of pOutputData{}; no page promises zeros there; {}",
        query, written, output.offered, member.map_or_else(String::new, |member| format!(", and nothing of {member}")), output;
    /// An answer breaks a rule, and the driver did not write all of it.
    PartOfAnswer {
        /// The rule.
        broken: Box<StartError>,
        /// Which query.
        query: &'static str,
        /// Bytes up to the last one that was written.
        written: usize,
        /// Bytes of the answer.
        size: usize,
        /// The first member of which nothing was written.
        member: &'static str,
    }, broken.status(), FailedPostStart, "{}; DxgkDdiQueryAdapterInfo({}) wrote {} of the {} bytes of pOutputData, and the first member that it did not write is {}, which counts as zero",
        broken, query, written, size, member;
    /// Bits that are reserved are set.
    ReservedBits {
        /// The member, with its structure.
        member: String,
        /// Value that the driver reported.
        found: u32,
        /// Bits of it that are reserved.
        reserved: u32,
        /// The page of the member.
        page: &'static str,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "{} is 0x{:x}: the bits 0x{:x} of it are reserved, and expected is 0", member, found, reserved;
    /// Two places tell different WDDM versions.
    VersionMismatch {
        /// The place that disagrees.
        site: &'static str,
        /// The number that the driver reported.
        found: u32,
        /// Version that the driver's interface version implies.
        expected: u32,
    }, STATUS_GRAPHICS_DRIVER_MISMATCH, FailedPostStart, "{} says version 0x{:x}, the DDI table implies 0x{:x}", site, found, expected;
    /// A capability that the driver's version of the interface does not have.
    CapOfLaterVersion {
        /// The bit.
        member: &'static str,
        /// Driver model that it came with.
        since: &'static str,
        /// Driver model of the driver's interface version.
        driver: &'static str,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "DRIVERCAPS.{} is set, which came with {}: in the interface version of the DDI table ({}) the bit is reserved", member, since, driver;
    /// DxgkDdiQueryInterface has succeeded for the interface of features and handed out none.
    FeatureInterface(rule: String), STATUS_INVALID_PARAMETER, FailedPostStart, "DxgkDdiQueryInterface answered STATUS_SUCCESS for GUID_WDDM_INTERFACE_FEATURE, and in DXGKDDI_FEATURE_INTERFACE {}", rule;
    /// NativeGpuFence although the feature is not enabled.
    NativeFenceNotEnabled, STATUS_INVALID_PARAMETER, FailedPostStart, "SchedulingCaps.NativeGpuFence is set, but DXGK_FEATURE_NATIVE_FENCE is not enabled for this adapter";
    /// NativeGpuFence together with No64BitAtomics.
    NativeFenceWithout64BitAtomics, STATUS_INVALID_PARAMETER, FailedPostStart, "SchedulingCaps.NativeGpuFence needs 64-bit atomics, but No64BitAtomics is set";
    /// The optimised interrupt of fences that the adapter does not have.
    OptimizedInterruptWithoutNativeFence, STATUS_INVALID_PARAMETER, FailedPostStart, "SchedulingCaps.OptimizedNativeFenceSignaledInterrupt is set without NativeGpuFence";
    /// NATIVE_FENCE_CAPS failed or makes no sense.
    NativeFenceCaps(reason: String), STATUS_INVALID_PARAMETER, FailedPostStart, "NATIVE_FENCE_CAPS: {}", reason;
    /// A scheduling cap that needs MultiEngineAware.
    SchedulingCapWithoutMultiEngine(cap: &'static str), STATUS_INVALID_PARAMETER, FailedPostStart, "SchedulingCaps.{} is set without MultiEngineAware", cap;
    /// NoDmaPatching without PreemptionAware.
    NoDmaPatchingWithoutPreemption, STATUS_INVALID_PARAMETER, FailedPostStart, "SchedulingCaps.NoDmaPatching is set without PreemptionAware";
    /// Render-only and compute-only adapters must support engine resets.
    PerEngineTdrRequired, STATUS_INVALID_PARAMETER, FailedPostStart, "SupportPerEngineTDR is not set, which every render or compute adapter must set";
    /// SupportPerEngineTDR without one of its DDIs.
    PerEngineTdrWithoutDdi(slot: &'static str), STATUS_INVALID_PARAMETER, FailedPostStart, "SupportPerEngineTDR is set, but {} is NULL", slot;
    /// The adapter does not reach all memory.
    HighestAcceptableAddress {
        /// Value that the driver reported.
        found: u64,
        /// Last byte of installed memory.
        needed: u64,
    }, STATUS_DEVICE_CONFIGURATION_ERROR, FailedPostStart, "HighestAcceptableAddress 0x{:x} is below the end of memory 0x{:x}, and DMA is not remapped", found, needed;
    /// IoMmuSecureModeRequired without an IOMMU.
    IoMmuSecureModeRequired, STATUS_NOT_SUPPORTED, FailedPostStart, "IoMmuSecureModeRequired is set, but the machine has no IOMMU";
    /// An answer of IOMMU isolation breaks a rule.
    IoMmuIsolation(reason: String), STATUS_INVALID_PARAMETER, FailedPostStart, "IoMmuSecureModeSupported: {}", reason;
    /// A render-only driver on the display that firmware uses.
    RenderOnlyOnPostDevice, STATUS_GRAPHICS_INVALID_DRIVER_MODEL, FailedPostStart, "a driver without displays cannot take the boot display device, which here is any VGA-compatible function (PCI class 0300)";
    /// Not compute-only and no user-mode driver.
    NoUserModeDriver, STATUS_OBJECT_NAME_NOT_FOUND, FailedPostStart, "the driver's software key has no UserModeDriverName, which only compute-only adapters may lack";
    /// No or too many nodes.
    NodeCount(count: u32), STATUS_INVALID_PARAMETER, FailedPostStart, "DRIVERCAPS.GpuEngineTopology.NbAsymetricProcessingNodes is {}; 1 to 64 are allowed", count;
    /// A granularity of preemption that is none of its enumeration.
    PreemptionGranularity {
        /// Member of PreemptionCaps.
        member: &'static str,
        /// Value that the driver reported.
        found: i32,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "DRIVERCAPS.PreemptionCaps.{} is {}, which is none of its enumeration: hundreds from 0 to 500 are", member, found;
    /// GetNodeMetadata failed for a node that exists.
    NodeMetadata {
        /// The node.
        node: u32,
        /// Status that the driver returned.
        status: NTSTATUS,
    }, *status, FailedPostStart, "DxgkDdiGetNodeMetadata of node {} failed with {}", node, status;
    /// GpuMmuSupported of the adapter and of a node disagree.
    NodeGpuMmu(node: u32), STATUS_GRAPHICS_DRIVER_MISMATCH, FailedPostStart, "GpuMmuSupported is set for the adapter but not for node {}", node;
    /// The type of a node is none of the enumeration.
    NodeEngineType {
        /// The node.
        node: u32,
        /// Value that the driver reported.
        found: i32,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "DxgkDdiGetNodeMetadata of node {} answered EngineType {}, which is none of DXGK_ENGINE_TYPE: 0 to {} are known", node, found, LAST_ENGINE_TYPE.0;
    /// The name of a node is none.
    NodeFriendlyName {
        /// The node.
        node: u32,
        /// The rule.
        rule: &'static str,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "DxgkDdiGetNodeMetadata of node {} answered a FriendlyName that breaks a rule: {}", node, rule;
    /// A node has the IOMMU's memory model, and its adapter does not.
    NodeIoMmu(node: u32), STATUS_GRAPHICS_DRIVER_MISMATCH, FailedPostStart, "IoMmuSupported is set for node {} but not for the adapter (DRIVERCAPS.MemoryManagementCaps)", node;
    /// The paging node is none of the nodes.
    PagingNode(node: u32), STATUS_INVALID_PARAMETER, FailedPostStart, "paging node {} does not exist", node;
    /// A node with user-mode submission although the feature is not enabled.
    UserModeSubmissionNotEnabled(node: u32), STATUS_INVALID_PARAMETER, FailedPostStart, "node {} has UserModeSubmission set, but DXGK_FEATURE_USER_MODE_SUBMISSION is not enabled for this adapter", node;
    /// A node that builds test command buffers although the feature is not enabled.
    KernelModeTestingNotEnabled(node: u32), STATUS_INVALID_PARAMETER, FailedPostStart, "node {} has SupportBuildTestCommandBuffer set, but DXGK_FEATURE_KERNEL_MODE_TESTING is not enabled for this adapter", node;
    /// USERMODESUBMISSION_CAPS failed or makes no sense.
    UserModeSubmissionCaps(reason: String), STATUS_INVALID_PARAMETER, FailedPostStart, "USERMODESUBMISSION_CAPS: {}", reason;
    /// PHYSICALADAPTERCAPS contradicts the nodes.
    PhysicalAdapterCaps(reason: String), STATUS_INVALID_PARAMETER, FailedPostStart, "PHYSICALADAPTERCAPS: {}", reason;
    /// GpuMmuSupported without VirtualAddressingSupported.
    GpuMmuWithoutVirtualAddressing, STATUS_INVALID_PARAMETER, FailedPostStart, "GpuMmuSupported is set without VirtualAddressingSupported";
    /// Neither of the memory models that this system runs.
    NoGpuMmu, STATUS_NOT_SUPPORTED, FailedPostStart, "GpuMmuSupported is not set; adapters without GPU virtual addresses are not supported";
    /// Page-table description that makes no sense.
    PageTables(reason: String), STATUS_INVALID_PARAMETER, FailedPostStart, "page tables: {}", reason;
    /// DxgkDdiGetRootPageTableSize answered what no root page table has.
    RootPageTableSize {
        /// Entries that it was asked for.
        wanted: u32,
        /// Entries that it answered.
        given: u32,
        /// Bytes that it answered.
        size: usize,
        /// Size of the pages of the segment.
        page: usize,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "DxgkDdiGetRootPageTableSize was asked for NumberOfPte {} and answered {} in {} bytes; expected are at least as many entries as it was asked for, in whole pages of {} bytes", wanted, given, size, page;
    /// A member of DRIVERCAPS is not what the guidelines for compute-only adapters want.
    McdmCaps {
        /// The member.
        member: &'static str,
        /// The value that the guidelines demand of it, in words.
        must_be: &'static str,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "DRIVERCAPS.{} of a compute-only adapter must be {} [mcdm-implementation-guidelines]", member, must_be;
    /// A query was answered that the driver of a compute-only adapter must refuse.
    McdmQuery(query: &'static str), STATUS_INVALID_PARAMETER, FailedPostStart, "the driver of a compute-only adapter answered QueryAdapterInfo({}), which it must refuse [mcdm-implementation-guidelines]", query;
    /// No segments, or too many.
    SegmentCount(count: u32), STATUS_INVALID_PARAMETER, FailedPostStart, "NbSegment of DXGK_QUERYSEGMENTOUT4 is {}; 1 to 31 are allowed", count;
    /// The number of segments is another where they are described.
    SegmentCounts {
        /// The answer without descriptors.
        first: u32,
        /// The answer with them.
        second: u32,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "NbSegment of DXGK_QUERYSEGMENTOUT4 is {} where only the number is asked for, and {} where the descriptors are: both answers must be the same", first, second;
    /// A segment breaks a rule.
    Segment {
        /// 1-based identifier.
        id: u32,
        /// The rule.
        reason: String,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "segment {}: {}", id, reason;
    /// Paging buffers in a memory segment.
    PagingBufferSegment(id: u32), STATUS_INVALID_PARAMETER, FailedPostStart, "PagingBufferSegmentId {} is neither 0 nor an aperture segment", id;
    /// DMA buffers of a context in a memory segment.
    DmaBufferSegmentSet {
        /// Node of the context.
        node: u32,
        /// Bit 0 is segment 1.
        set: u32,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "DmaBufferSegmentSet of a context on node {} is 0x{:x}, which is not only aperture segments", node, set;
    /// A segment with a CPU host aperture before other segments.
    CpuHostApertureNotLast(id: u32), STATUS_INVALID_PARAMETER, FailedPostStart, "segment {} has SupportsCpuHostAperture and is not the last segment", id;
    /// A segment that is CPU visible and has a CPU host aperture.
    CpuHostApertureCpuVisible(id: u32), STATUS_INVALID_PARAMETER, FailedPostStart, "segment {} has both SupportsCpuHostAperture and CpuVisible", id;
    /// A history buffer precision out of range.
    HistoryBufferPrecision {
        /// The node.
        node: u32,
        /// Value that the driver reported.
        bits: u32,
    }, STATUS_DEVICE_CONFIGURATION_ERROR, FailedPostStart, "history buffer precision of node {} is {} bits; 32 to 64 are allowed", node, bits;
    /// A power component breaks a rule.
    PowerComponent {
        /// Number of the node.
        index: u32,
        /// The rule.
        rule: String,
    }, STATUS_INVALID_PARAMETER, FailedPostStart, "power component {}: {}", index, rule;
    /// The driver refused what the memory manager and the scheduler need at start, such as a device or a context of the system.
    Refused {
        /// The DDI.
        ddi: &'static str,
        /// A failure, which nobody here expects.
        status: NTSTATUS,
    }, *status, FailedPostStart, "{} answered {} when memory manager and scheduler were set up [d3dkmddi: {}]", ddi, status, ddi.to_uppercase().replacen("DXGKDDI", "DXGKDDI_", 1);
    /// Memory manager or scheduler could not be set up on the adapter.
    RenderCore {
        /// The status.
        status: NTSTATUS,
        /// The rule, with its page where the driver broke it; empty if the status says it all.
        why: String,
    }, *status, FailedPostStart, "memory manager and scheduler could not be set up: {} {}", status, why;
}

impl StartError {
    /// The page that states what the driver did not keep to, as its address has it behind the header, or the section of this project's documents that says what is needed; `None` where
    /// the text names the page.
    fn page(&self) -> Option<&'static str> {
        Some(match self {
            Self::Refused { .. } | Self::McdmCaps { .. } | Self::McdmQuery(_) => return None,
            Self::RenderCore { why, .. } if why.ends_with(']') => return None,
            Self::RenderCore { .. } => "docs/porting.md#what-your-driver-finds",
            Self::NoSuchDevice | Self::NoSuchDriver | Self::AlreadyStarted | Self::OtherDriver => {
                "wdm: IRP_MN_START_DEVICE"
            }
            Self::Stopped(_) => "docs/bug-checks.md",
            Self::Pci(_) | Self::Resources(_) => "docs/porting.md#the-function",
            Self::ReservedBits { page, .. } => page,
            Self::AddDevice(_) | Self::NotSupportedByDriver => "dispmprt: DXGKDDI_ADD_DEVICE",
            Self::LinkIncomplete { .. } | Self::Linked(_) => "dispmprt: DXGKDDI_LINK_DEVICE",
            Self::StartDevice(_) | Self::NotRenderOnly { .. } => "dispmprt: DXGKDDI_START_DEVICE",
            Self::MissingDdi { .. } => "dispmprt: DRIVER_INITIALIZATION_DATA",
            Self::ForbiddenDdi(_) => "mcdm-implementation-guidelines",
            Self::IoMmuIsolation(_) => "iommu-based-gpu-isolation",
            Self::FeatureInterface(_) => "dispmprt: DXGKDDI_QUERY_INTERFACE",
            Self::Query { .. } => "d3dkmddi: DXGK_QUERYADAPTERINFOTYPE",
            Self::ShortAnswer { .. } | Self::PartOfAnswer { .. } => "d3dkmddi: DXGKDDI_QUERYADAPTERINFO",
            Self::VersionMismatch { .. } => "d3dkmddi: DXGK_WDDMVERSION",
            Self::NativeFenceNotEnabled
            | Self::NativeFenceWithout64BitAtomics
            | Self::OptimizedInterruptWithoutNativeFence
            | Self::NoDmaPatchingWithoutPreemption
            | Self::SchedulingCapWithoutMultiEngine(_) => "d3dkmddi: DXGK_VIDSCHCAPS",
            Self::NativeFenceCaps(_) => "d3dkmddi: DXGK_NATIVE_FENCE_CAPS",
            Self::PerEngineTdrRequired | Self::PerEngineTdrWithoutDdi(_) => "tdr-changes-in-windows-8",
            Self::HighestAcceptableAddress { .. } | Self::NoUserModeDriver | Self::CapOfLaterVersion { .. } => {
                "d3dkmddi: DXGK_DRIVERCAPS"
            }
            Self::IoMmuSecureModeRequired
            | Self::GpuMmuWithoutVirtualAddressing
            | Self::NoGpuMmu
            | Self::PagingNode(_) => "d3dkmddi: DXGK_VIDMMCAPS",
            Self::RenderOnlyOnPostDevice => "d3dkmddi: DXGK_DRIVERCAPS",
            Self::NodeCount(_) => "d3dkmddi: DXGK_GPUENGINETOPOLOGY",
            Self::PreemptionGranularity { .. } => "d3dkmdt: D3DKMDT_PREEMPTION_CAPS",
            Self::NodeMetadata { .. }
            | Self::NodeGpuMmu(_)
            | Self::NodeIoMmu(_)
            | Self::NodeFriendlyName { .. }
            | Self::NodeEngineType { .. } => "d3dkmdt: DXGK_NODEMETADATA",
            Self::UserModeSubmissionNotEnabled(_) | Self::KernelModeTestingNotEnabled(_) => {
                "d3dkmdt: DXGK_NODEMETADATA_FLAGS"
            }
            Self::UserModeSubmissionCaps(_) => "d3dkmddi: DXGK_USERMODESUBMISSION_CAPS",
            Self::PhysicalAdapterCaps(_) => "d3dkmddi: DXGK_PHYSICALADAPTERCAPS",
            Self::PageTables(_) => "d3dkmddi: DXGK_GPUMMUCAPS",
            Self::RootPageTableSize { .. } => "d3dkmddi: DXGKDDI_GETROOTPAGETABLESIZE",
            Self::SegmentCount(_) | Self::SegmentCounts { .. } | Self::PagingBufferSegment(_) => {
                "d3dkmddi: DXGK_QUERYSEGMENTOUT4"
            }
            Self::Segment { .. } => "d3dkmddi: DXGK_SEGMENTDESCRIPTOR4",
            Self::DmaBufferSegmentSet { .. } => "d3dkmddi: DXGK_CONTEXTINFO",
            Self::CpuHostApertureNotLast(_) | Self::CpuHostApertureCpuVisible(_) => "d3dkmddi: DXGK_SEGMENTFLAGS",
            Self::HistoryBufferPrecision { .. } => "d3dkmddi: DXGKARG_HISTORYBUFFERPRECISION",
            Self::PowerComponent { .. } => "d3dkmddi: DXGK_POWER_RUNTIME_COMPONENT",
        })
    }
}

impl std::error::Error for StartError {}
