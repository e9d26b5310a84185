//! Statistics of an adapter as a whole.

use bitfield_struct::bitfield;

use super::{D3DKMT_ADAPTER_PERFDATA, D3DKMT_ADAPTER_PERFDATACAPS, D3DKMT_GPUVERSION};

/// Statistics: adapter information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION {
    pub NbSegments: u32,
    pub NodeCount: u32,
    pub VidPnSourceCount: u32,
    pub VSyncEnabled: u32,
    pub TdrDetectedCount: u32,
    pub ZeroLengthDmaBuffers: i64,
    pub RestartedPeriod: u64,
    pub ReferenceDmaBuffer: D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER,
    pub Renaming: D3DKMT_QUERYSTATSTICS_RENAMING,
    pub Preparation: D3DKMT_QUERYSTATSTICS_PREPRATION,
    pub PagingFault: D3DKMT_QUERYSTATSTICS_PAGING_FAULT,
    pub PagingTransfer: D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER,
    pub SwizzlingRange: D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE,
    pub Locks: D3DKMT_QUERYSTATSTICS_LOCKS,
    pub Allocations: D3DKMT_QUERYSTATSTICS_ALLOCATIONS,
    pub Terminations: D3DKMT_QUERYSTATSTICS_TERMINATIONS,
    pub Flags: D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS,
    pub Reserved: [u64; 7],
}

/// Statistics: adapter information flags. [d3dkmthk: D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS]
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS {
    #[bits(2)]
    pub NumberOfMemoryGroups: u8,
    pub SupportsDemotion: bool,
    #[bits(61)]
    __Reserved: u64,
}

/// Statistics: counter. [d3dkmthk: D3DKMT_QUERYSTATISTICS_COUNTER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_COUNTER {
    pub Count: u32,
    pub Bytes: u64,
}

/// Statistics: physical adapter information. [d3dkmthk: D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION {
    pub AdapterPerfData: D3DKMT_ADAPTER_PERFDATA,
    pub AdapterPerfDataCaps: D3DKMT_ADAPTER_PERFDATACAPS,
    pub GpuVersion: D3DKMT_GPUVERSION,
}

/// Statistics: allocations. [d3dkmthk: D3DKMT_QUERYSTATSTICS_ALLOCATIONS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATSTICS_ALLOCATIONS {
    pub Created: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub Destroyed: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub Opened: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub Closed: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub MigratedSuccess: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub MigratedFail: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub MigratedAbandoned: D3DKMT_QUERYSTATISTICS_COUNTER,
}

/// Statistics: locks. [d3dkmthk: D3DKMT_QUERYSTATSTICS_LOCKS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATSTICS_LOCKS {
    pub NbLocks: u32,
    pub NbLocksWaitFlag: u32,
    pub NbLocksDiscardFlag: u32,
    pub NbLocksNoOverwrite: u32,
    pub NbLocksNoReadSync: u32,
    pub NbLocksLinearization: u32,
    pub NbComplexLocks: u32,
}

/// Statistics: paging fault. [d3dkmthk: D3DKMT_QUERYSTATSTICS_PAGING_FAULT]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATSTICS_PAGING_FAULT {
    pub Faults: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub FaultsFirstTimeAccess: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub FaultsReclaimed: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub FaultsMigration: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub FaultsIncorrectResource: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub FaultsLostContent: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub FaultsEvicted: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub AllocationsMEM_RESET: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub AllocationsUnresetSuccess: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub AllocationsUnresetFail: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub AllocationsUnresetSuccessRead: u32,
    pub AllocationsUnresetFailRead: u32,
    pub Evictions: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub EvictionsDueToPreparation: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub EvictionsDueToLock: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub EvictionsDueToClose: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub EvictionsDueToPurge: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub EvictionsDueToSuspendCPUAccess: D3DKMT_QUERYSTATISTICS_COUNTER,
}

/// Statistics: paging transfer. [d3dkmthk: D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER {
    pub BytesFilled: u64,
    pub BytesDiscarded: u64,
    pub BytesMappedIntoAperture: u64,
    pub BytesUnmappedFromAperture: u64,
    pub BytesTransferredFromMdlToMemory: u64,
    pub BytesTransferredFromMemoryToMdl: u64,
    pub BytesTransferredFromApertureToMemory: u64,
    pub BytesTransferredFromMemoryToAperture: u64,
}

/// Statistics: prepration. [d3dkmthk: D3DKMT_QUERYSTATSTICS_PREPRATION]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATSTICS_PREPRATION {
    pub BroadcastStall: u32,
    pub NbDMAPrepared: u32,
    pub NbDMAPreparedLongPath: u32,
    pub ImmediateHighestPreparationPass: u32,
    pub AllocationsTrimmed: D3DKMT_QUERYSTATISTICS_COUNTER,
}

/// Statistics: reference dma buffer. [d3dkmthk: D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER {
    pub NbCall: u32,
    pub NbAllocationsReferenced: u32,
    pub MaxNbAllocationsReferenced: u32,
    pub NbNULLReference: u32,
    pub NbWriteReference: u32,
    pub NbRenamedAllocationsReferenced: u32,
    pub NbIterationSearchingRenamedAllocation: u32,
    pub NbLockedAllocationReferenced: u32,
    pub NbAllocationWithValidPrepatchingInfoReferenced: u32,
    pub NbAllocationWithInvalidPrepatchingInfoReferenced: u32,
    pub NbDMABufferSuccessfullyPrePatched: u32,
    pub NbPrimariesReferencesOverflow: u32,
    pub NbAllocationWithNonPreferredResources: u32,
    pub NbAllocationInsertedInMigrationTable: u32,
}

/// Statistics: renaming. [d3dkmthk: D3DKMT_QUERYSTATSTICS_RENAMING]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATSTICS_RENAMING {
    pub NbAllocationsRenamed: u32,
    pub NbAllocationsShrinked: u32,
    pub NbRenamedBuffer: u32,
    pub MaxRenamingListLength: u32,
    pub NbFailuresDueToRenamingLimit: u32,
    pub NbFailuresDueToCreateAllocation: u32,
    pub NbFailuresDueToOpenAllocation: u32,
    pub NbFailuresDueToLowResource: u32,
    pub NbFailuresDueToNonRetiredLimit: u32,
}

/// Statistics: swizzling range. [d3dkmthk: D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE {
    pub NbRangesAcquired: u32,
    pub NbRangesReleased: u32,
}

/// Statistics: terminations. [d3dkmthk: D3DKMT_QUERYSTATSTICS_TERMINATIONS]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct D3DKMT_QUERYSTATSTICS_TERMINATIONS {
    pub TerminatedShared: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub TerminatedNonShared: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub DestroyedShared: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub DestroyedNonShared: D3DKMT_QUERYSTATISTICS_COUNTER,
}

zeroed! {
    D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION,
    D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS,
    D3DKMT_QUERYSTATISTICS_COUNTER,
    D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION,
    D3DKMT_QUERYSTATSTICS_ALLOCATIONS,
    D3DKMT_QUERYSTATSTICS_LOCKS,
    D3DKMT_QUERYSTATSTICS_PAGING_FAULT,
    D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER,
    D3DKMT_QUERYSTATSTICS_PREPRATION,
    D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER,
    D3DKMT_QUERYSTATSTICS_RENAMING,
    D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE,
    D3DKMT_QUERYSTATSTICS_TERMINATIONS,
}
