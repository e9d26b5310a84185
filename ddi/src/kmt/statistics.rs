//! Statistics of adapters and processes: what a task manager shows.

use bitfield_struct::bitfield;

use super::statistics_adapter::*;
use super::{D3DKMT_CLIENTHINT, D3DKMT_MEMORY_SEGMENT_GROUP, D3DKMT_NODE_PERFDATA};
use crate::types::*;

/// Union of [`D3DKMT_QUERYSTATISTICS`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_QUERYSTATISTICS_Union {
    pub QuerySegment: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT,
    pub QueryProcessSegment: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT,
    pub QueryProcessSegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP,
    pub QueryNode: D3DKMT_QUERYSTATISTICS_QUERY_NODE,
    pub QueryProcessNode: D3DKMT_QUERYSTATISTICS_QUERY_NODE,
    pub QueryVidPnSource: D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE,
    pub QueryProcessVidPnSource: D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE,
    pub QueryPhysAdapter: D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER,
    pub QueryAdapter2: D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2,
    pub QuerySegment2: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2,
    pub QueryProcessAdapter2: D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2,
    pub QueryProcessSegment2: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2,
    pub QueryProcessSegmentGroup2: D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2,
    pub QuerySegmentUsage: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE,
    pub QuerySegmentGroupUsage: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE,
    pub QueryNode2: D3DKMT_QUERYSTATISTICS_QUERY_NODE2,
    pub QueryProcessNode2: D3DKMT_QUERYSTATISTICS_QUERY_NODE2,
}

/// Argument of `D3DKMTQueryStatistics`. [d3dkmthk: D3DKMT_QUERYSTATISTICS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS {
    pub Type: D3DKMT_QUERYSTATISTICS_TYPE,
    pub AdapterLuid: LUID,
    pub hProcess: HANDLE,
    pub QueryResult: D3DKMT_QUERYSTATISTICS_RESULT,
    pub u: D3DKMT_QUERYSTATISTICS_Union,
}

/// Statistics: allocation priority class. [d3dkmthk: D3DKMT_QUERYSTATISTICS_ALLOCATION_PRIORITY_CLASS]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_QUERYSTATISTICS_ALLOCATION_PRIORITY_CLASS(pub i32);

impl D3DKMT_QUERYSTATISTICS_ALLOCATION_PRIORITY_CLASS {
    pub const D3DKMT_AllocationPriorityClassMinimum: Self = Self(0);
    pub const D3DKMT_AllocationPriorityClassLow: Self = Self(1);
    pub const D3DKMT_AllocationPriorityClassNormal: Self = Self(2);
    pub const D3DKMT_AllocationPriorityClassHigh: Self = Self(3);
    pub const D3DKMT_AllocationPriorityClassMaximum: Self = Self(4);
    pub const D3DKMT_MaxAllocationPriorityClass: Self = Self(5);
}

/// Statistics: commitment data. [d3dkmthk: D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA {
    pub TotalBytesEvictedFromProcess: u64,
    pub BytesBySegmentPreference: [u64; 5],
}

/// Statistics: dma buffer. [d3dkmthk: D3DKMT_QUERYSTATISTICS_DMA_BUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_DMA_BUFFER {
    pub Size: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub AllocationListBytes: u32,
    pub PatchLocationListBytes: u32,
}

/// Statistics: dma packet type. [d3dkmthk: D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE(pub i32);

impl D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE {
    pub const D3DKMT_ClientRenderBuffer: Self = Self(0);
    pub const D3DKMT_ClientPagingBuffer: Self = Self(1);
    pub const D3DKMT_SystemPagingBuffer: Self = Self(2);
    pub const D3DKMT_SystemPreemptionBuffer: Self = Self(3);
    pub const D3DKMT_DmaPacketTypeMax: Self = Self(4);
}

/// Statistics: dma packet type information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION {
    pub PacketSubmited: u32,
    pub PacketCompleted: u32,
    pub PacketPreempted: u32,
    pub PacketFaulted: u32,
}

/// Statistics: memory. [d3dkmthk: D3DKMT_QUERYSTATISTICS_MEMORY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_MEMORY {
    pub TotalBytesEvicted: u64,
    pub AllocsCommitted: u32,
    pub AllocsResident: u32,
}

/// Statistics: memory usage. [d3dkmthk: D3DKMT_QUERYSTATISTICS_MEMORY_USAGE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_MEMORY_USAGE {
    pub AllocatedBytes: u64,
    pub FreeBytes: u64,
    pub ZeroBytes: u64,
    pub ModifiedBytes: u64,
    pub StandbyBytes: u64,
}

/// Statistics: node information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_NODE_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_NODE_INFORMATION {
    pub GlobalInformation: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION,
    pub SystemInformation: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION,
    pub NodePerfData: D3DKMT_NODE_PERFDATA,
    pub Reserved: [u32; 3],
}

/// Statistics: packet information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION {
    pub QueuePacket: [D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION; 8],
    pub DmaPacket: [D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION; 4],
}

/// Statistics: policy. [d3dkmthk: D3DKMT_QUERYSTATISTICS_POLICY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_POLICY {
    pub PreferApertureForRead: [u64; 5],
    pub PreferAperture: [u64; 5],
    pub MemResetOnPaging: u64,
    pub RemovePagesFromWorkingSetOnPaging: u64,
    pub MigrationEnabled: u64,
}

/// Statistics: preemption information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION {
    pub PreemptionCounter: [u32; 16],
}

/// Statistics: process adapter information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION {
    pub NbSegments: u32,
    pub NodeCount: u32,
    pub VidPnSourceCount: u32,
    pub VirtualMemoryUsage: u32,
    pub DmaBuffer: D3DKMT_QUERYSTATISTICS_DMA_BUFFER,
    pub CommitmentData: D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA,
    pub _Policy: D3DKMT_QUERYSTATISTICS_POLICY,
    pub ProcessInterferenceCounters: D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS,
    pub ClientHint: D3DKMT_CLIENTHINT,
}

/// Statistics: process information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION {
    pub NodeCount: u32,
    pub VidPnSourceCount: u32,
    pub SystemMemory: D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY,
    pub Reserved: [u64; 7],
}

/// Statistics: process interference counters. [d3dkmthk: D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS {
    pub InterferenceCount: [u64; 9],
}

/// Statistics: process node information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION {
    pub RunningTime: LARGE_INTEGER,
    pub ContextSwitch: u32,
    pub PreemptionStatistics: D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION,
    pub PacketStatistics: D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION,
    pub Reserved: [u64; 8],
}

/// Statistics: process segment group information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION {
    pub Budget: u64,
    pub Requested: u64,
    pub Usage: u64,
    pub Demoted: [u64; 5],
}

/// Statistics: process segment information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION {
    pub BytesCommitted: u64,
    pub MaximumWorkingSet: u64,
    pub MinimumWorkingSet: u64,
    pub NbReferencedAllocationEvictedInPeriod: u32,
    pub Padding: u32,
    pub VideoMemory: D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY,
    pub _Policy: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY,
    pub Reserved: [u64; 8],
}

/// Statistics: process segment policy. [d3dkmthk: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY {
    pub UseMRU: u64,
}

/// Statistics: process vidpnsource information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION {
    pub Frame: u32,
    pub CancelledFrame: u32,
    pub QueuedPresent: u32,
    pub Padding: u32,
    pub IsVSyncEnabled: u64,
    pub VSyncOnTotalTimeMs: u64,
    pub VSyncOffKeepPhaseTotalTimeMs: u64,
    pub VSyncOffNoPhaseTotalTimeMs: u64,
    pub Reserved: [u64; 4],
}

/// Statistics: query adapter2. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 {
    pub PhysicalAdapterIndex: u16,
}

/// Statistics: query node. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUERY_NODE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_NODE {
    pub NodeId: u32,
}

/// Statistics: query node2. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUERY_NODE2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_NODE2 {
    pub PhysicalAdapterIndex: u16,
    pub NodeOrdinal: u16,
}

/// Statistics: query physical adapter. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER {
    pub PhysicalAdapterIndex: u32,
}

/// Statistics: query process segment group2. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2 {
    pub PhysicalAdapterIndex: u16,
    pub SegmentGroup: u16,
}

/// Statistics: query segment. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT {
    pub SegmentId: u32,
}

/// Statistics: query segment2. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2 {
    pub PhysicalAdapterIndex: u16,
    pub SegmentId: u16,
}

/// Statistics: query segment group usage. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE {
    pub PhysicalAdapterIndex: u16,
    pub SegmentGroup: u16,
}

/// Statistics: query segment usage. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE {
    pub PhysicalAdapterIndex: u16,
    pub SegmentId: u16,
}

/// Statistics: query vidpnsource. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE {
    pub VidPnSourceId: u32,
}

/// Statistics: queue packet type. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE(pub i32);

impl D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE {
    pub const D3DKMT_RenderCommandBuffer: Self = Self(0);
    pub const D3DKMT_DeferredCommandBuffer: Self = Self(1);
    pub const D3DKMT_SystemCommandBuffer: Self = Self(2);
    pub const D3DKMT_MmIoFlipCommandBuffer: Self = Self(3);
    pub const D3DKMT_WaitCommandBuffer: Self = Self(4);
    pub const D3DKMT_SignalCommandBuffer: Self = Self(5);
    pub const D3DKMT_DeviceCommandBuffer: Self = Self(6);
    pub const D3DKMT_SoftwareCommandBuffer: Self = Self(7);
    pub const D3DKMT_QueuePacketTypeMax: Self = Self(8);
}

/// Statistics: queue packet type information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION {
    pub PacketSubmited: u32,
    pub PacketCompleted: u32,
}

/// Statistics: result. [d3dkmthk: D3DKMT_QUERYSTATISTICS_RESULT]
#[repr(C)]
#[derive(Clone, Copy)]
pub union D3DKMT_QUERYSTATISTICS_RESULT {
    pub AdapterInformation: D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION,
    pub PhysAdapterInformation: D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION,
    pub SegmentInformation: D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION,
    pub NodeInformation: D3DKMT_QUERYSTATISTICS_NODE_INFORMATION,
    pub VidPnSourceInformation: D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION,
    pub ProcessInformation: D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION,
    pub ProcessAdapterInformation: D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION,
    pub ProcessSegmentInformation: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION,
    pub ProcessNodeInformation: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION,
    pub ProcessVidPnSourceInformation: D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION,
    pub ProcessSegmentGroupInformation: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION,
    pub SegmentUsageInformation: D3DKMT_QUERYSTATISTICS_MEMORY_USAGE,
    pub SegmentGroupUsageInformation: D3DKMT_QUERYSTATISTICS_MEMORY_USAGE,
}

/// Member `PowerFlags` of [`D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION`].
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION_PowerFlags {
    pub PreservedDuringStandby: bool,
    pub PreservedDuringHibernate: bool,
    pub PartiallyPreservedDuringHibernate: bool,
    #[bits(61)]
    __Reserved: u64,
}

/// Member `SegmentProperties` of [`D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION`].
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION_SegmentProperties {
    pub SystemMemory: bool,
    pub PopulatedByReservedDDRByFirmware: bool,
    #[bits(4)]
    pub SegmentType: u8,
    #[bits(2)]
    pub SegmentGroup: u8,
    pub FullyCPUVisible: bool,
    #[bits(55)]
    __Reserved: u64,
}

/// Statistics: segment information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION {
    pub CommitLimit: u64,
    pub BytesCommitted: u64,
    pub BytesResident: u64,
    pub Memory: D3DKMT_QUERYSTATISTICS_MEMORY,
    pub Aperture: u32,
    pub TotalBytesEvictedByPriority: [u64; 5],
    pub SystemMemoryEndAddress: u64,
    pub PowerFlags: D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION_PowerFlags,
    pub SegmentProperties: D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION_SegmentProperties,
    pub Reserved: [u64; 5],
}

/// Statistics: segment type. [d3dkmthk: D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE(pub i32);

impl D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE {
    pub const D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_APERTURE: Self = Self(0);
    pub const D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_MEMORY: Self = Self(1);
    pub const D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE_SYSMEM: Self = Self(2);
}

/// Statistics: system memory. [d3dkmthk: D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY {
    pub BytesAllocated: u64,
    pub BytesReserved: u64,
    pub SmallAllocationBlocks: u32,
    pub LargeAllocationBlocks: u32,
    pub WriteCombinedBytesAllocated: u64,
    pub WriteCombinedBytesReserved: u64,
    pub CachedBytesAllocated: u64,
    pub CachedBytesReserved: u64,
    pub SectionBytesAllocated: u64,
    pub SectionBytesReserved: u64,
    pub BytesZeroed: u64,
}

/// What statistics are about. [d3dkmthk: D3DKMT_QUERYSTATISTICS_TYPE]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct D3DKMT_QUERYSTATISTICS_TYPE(pub i32);

impl D3DKMT_QUERYSTATISTICS_TYPE {
    pub const D3DKMT_QUERYSTATISTICS_ADAPTER: Self = Self(0);
    pub const D3DKMT_QUERYSTATISTICS_PROCESS: Self = Self(1);
    pub const D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER: Self = Self(2);
    pub const D3DKMT_QUERYSTATISTICS_SEGMENT: Self = Self(3);
    pub const D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT: Self = Self(4);
    pub const D3DKMT_QUERYSTATISTICS_NODE: Self = Self(5);
    pub const D3DKMT_QUERYSTATISTICS_PROCESS_NODE: Self = Self(6);
    pub const D3DKMT_QUERYSTATISTICS_VIDPNSOURCE: Self = Self(7);
    pub const D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE: Self = Self(8);
    pub const D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP: Self = Self(9);
    pub const D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER: Self = Self(10);
    pub const D3DKMT_QUERYSTATISTICS_ADAPTER2: Self = Self(11);
    pub const D3DKMT_QUERYSTATISTICS_SEGMENT2: Self = Self(12);
    pub const D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2: Self = Self(13);
    pub const D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2: Self = Self(14);
    pub const D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2: Self = Self(15);
    pub const D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE: Self = Self(16);
    pub const D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE: Self = Self(17);
    pub const D3DKMT_QUERYSTATISTICS_NODE2: Self = Self(18);
    pub const D3DKMT_QUERYSTATISTICS_PROCESS_NODE2: Self = Self(19);
}

/// Statistics: video memory. [d3dkmthk: D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY {
    pub AllocsCommitted: u32,
    pub AllocsResidentInP: [D3DKMT_QUERYSTATISTICS_COUNTER; 5],
    pub AllocsResidentInNonPreferred: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub TotalBytesEvictedDueToPreparation: u64,
}

/// Statistics: vidpnsource information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION {
    pub GlobalInformation: D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION,
    pub SystemInformation: D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION,
    pub Reserved: [u64; 8],
}

zeroed! {
    D3DKMT_QUERYSTATISTICS_Union,
    D3DKMT_QUERYSTATISTICS,
    D3DKMT_QUERYSTATISTICS_ALLOCATION_PRIORITY_CLASS,
    D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA,
    D3DKMT_QUERYSTATISTICS_DMA_BUFFER,
    D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE,
    D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION,
    D3DKMT_QUERYSTATISTICS_MEMORY,
    D3DKMT_QUERYSTATISTICS_MEMORY_USAGE,
    D3DKMT_QUERYSTATISTICS_NODE_INFORMATION,
    D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION,
    D3DKMT_QUERYSTATISTICS_POLICY,
    D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION,
    D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION,
    D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION,
    D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS,
    D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION,
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION,
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION,
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY,
    D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION,
    D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2,
    D3DKMT_QUERYSTATISTICS_QUERY_NODE,
    D3DKMT_QUERYSTATISTICS_QUERY_NODE2,
    D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER,
    D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2,
    D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT,
    D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2,
    D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE,
    D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE,
    D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE,
    D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE,
    D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION,
    D3DKMT_QUERYSTATISTICS_RESULT,
    D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION_PowerFlags,
    D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION_SegmentProperties,
    D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION,
    D3DKMT_QUERYSTATISTICS_SEGMENT_TYPE,
    D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY,
    D3DKMT_QUERYSTATISTICS_TYPE,
    D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY,
    D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION,
}
