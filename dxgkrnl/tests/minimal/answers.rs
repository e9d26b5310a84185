//! Answers of the minimal driver to DxgkDdiQueryAdapterInfo.

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::*;

use super::bus::VRAM_SIZE;
use super::driver::{Adapter, adapter};
use super::{Mutant, ReservedMemory};

/// Writes an answer if the output has space for it.
fn reply<T>(args: &DXGKARG_QUERYADAPTERINFO, value: T) -> NTSTATUS {
    if (args.OutputDataSize as usize) < size_of::<T>() {
        return STATUS_BUFFER_TOO_SMALL;
    }
    // SAFETY: the output has space for the value.
    unsafe { args.pOutputData.cast::<T>().write_unaligned(value) };
    STATUS_SUCCESS
}

/// Writes an answer that has grown, as long as the driver's version has it: the output is exactly so long.
fn reply_in_version<T>(args: &DXGKARG_QUERYADAPTERINFO, owner: &str, version: u32, value: &T) -> NTSTATUS {
    let bytes = bytes_in_version(owner, size_of::<T>(), version);
    assert_eq!(args.OutputDataSize as usize, bytes, "{owner} of version 0x{version:x}");
    // SAFETY: the output has space for so many bytes, and the value has them.
    unsafe { args.pOutputData.cast::<u8>().copy_from_nonoverlapping((&raw const *value).cast(), bytes) };
    STATUS_SUCCESS
}

fn driver_caps(mutant: &Mutant) -> DXGK_DRIVERCAPS {
    let mut caps = DXGK_DRIVERCAPS::zeroed();
    caps.HighestAcceptableAddress = LARGE_INTEGER { QuadPart: -1 };
    caps.WDDMVersion = mutant.version.model;
    caps.GpuEngineTopology.NbAsymetricProcessingNodes = 1;
    caps.MiscCaps.set_ComputeOnly(mutant.version.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_6);
    caps.SchedulingCaps =
        DXGK_VIDSCHCAPS::new().with_MultiEngineAware(true).with_PreemptionAware(true).with_LowIrqlPreemptCommand(true);
    caps.MemoryManagementCaps.Bits = DXGK_VIDMMCAPS_Bits::new()
        .with_VirtualAddressingSupported(true)
        .with_GpuMmuSupported(true)
        .with_ParavirtualizationSupported(mutant.version.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_2);
    caps.SupportPerEngineTDR = 1;
    caps.PreemptionCaps.ComputePreemptionGranularity =
        D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY::D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
    (mutant.caps)(&mut caps);
    caps
}

fn segments(adapter: &Adapter, args: &DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    let out = args.pOutputData.cast::<DXGK_QUERYSEGMENTOUT4>();
    // SAFETY: the output is this structure.
    let mut answer = unsafe { out.read() };
    answer.NbSegment = 2;
    answer.PagingBufferSegmentId = 1;
    answer.PagingBufferSize = 4096;
    (adapter.mutant.segment_out)(&mut answer);
    if !answer.pSegmentDescriptor.is_null() {
        let mut both = [DXGK_SEGMENTDESCRIPTOR4::zeroed(), DXGK_SEGMENTDESCRIPTOR4::zeroed()];
        let [aperture, vram] = &mut both;
        aperture.Flags = DXGK_SEGMENTFLAGS::new().with_Aperture(true).with_CacheCoherent(true);
        aperture.Size = 16 << 20;
        aperture.CommitLimit = 16 << 20;
        vram.Flags = DXGK_SEGMENTFLAGS::new().with_CpuVisible(true);
        vram.Size = VRAM_SIZE as usize;
        vram.u.CpuTranslatedAddress = LARGE_INTEGER { QuadPart: adapter.vram };
        (adapter.mutant.segments)(&mut both);
        for (index, descriptor) in both.into_iter().enumerate() {
            let place = answer.pSegmentDescriptor.wrapping_add(index * answer.SegmentDescriptorStride);
            // SAFETY: the system gave space for two descriptors at this distance.
            unsafe { place.cast::<DXGK_SEGMENTDESCRIPTOR4>().write_unaligned(descriptor) };
        }
    }
    // SAFETY: the output is this structure.
    unsafe { out.write(answer) };
    STATUS_SUCCESS
}

fn invalid_ranges(ranges: &[(u64, u64)], args: &DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    // SAFETY: the system passes the structure, which names the segment and an array for its ranges.
    let state = unsafe { &mut *args.pOutputData.cast::<DXGK_QUERYSEGMENTMEMORYSTATE>() };
    // SAFETY: both arms are a number.
    assert!(state.DriverSegmentId != 0 && unsafe { state.u.NumInvalidMemoryRanges } != 0);
    state.u.NumInvalidMemoryRanges = ranges.len() as u32;
    for (index, &(offset, bytes)) in ranges.iter().enumerate() {
        let range = DXGK_MEMORYRANGE { SegmentOffset: offset, SizeInBytes: bytes };
        // SAFETY: the array has as many elements as the descriptor said.
        unsafe { state.pMemoryRanges.wrapping_add(index).write(range) };
    }
    STATUS_SUCCESS
}

fn reserved_ranges(ranges: &[(i64, i64)], args: &DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let answer = unsafe { &mut *args.pOutputData.cast::<DXGK_HARDWARERESERVEDRANGES>() };
    answer.NumRanges = ranges.len() as u32;
    let number = |value| LARGE_INTEGER { QuadPart: value };
    for (index, &(address, bytes)) in ranges.iter().enumerate().filter(|_| !answer.pPhysicalRanges.is_null()) {
        let range = DXGK_PHYSICAL_MEMORY_RANGE { BaseAddress: number(address), NumberOfBytes: number(bytes) };
        // SAFETY: the array has as many elements as the first call said.
        unsafe { answer.pPhysicalRanges.wrapping_add(index).write(range) };
    }
    STATUS_SUCCESS
}

/// Memory that the system must leave alone; every other query is not served.
fn reserved_memory(reserved: ReservedMemory, args: &DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    use DXGK_QUERYADAPTERINFOTYPE as Kind;
    match (args.Type, reserved.save_size, reserved.ranges) {
        (Kind::DXGKQAITYPE_SEGMENTMEMORYSTATE, _, _) => invalid_ranges(reserved.invalid, args),
        (Kind::DXGKQAITYPE_FRAMEBUFFERSAVESIZE, Some(bytes), _) => {
            reply(args, DXGK_FRAMEBUFFERSAVEAREA { MaximumSize: bytes })
        }
        (Kind::DXGKQAITYPE_HARDWARERESERVEDRANGES, _, Some(ranges)) => reserved_ranges(ranges, args),
        _ => STATUS_NOT_SUPPORTED,
    }
}

pub(crate) unsafe extern "win64" fn query_adapter_info(
    context: HANDLE,
    args: *const DXGKARG_QUERYADAPTERINFO,
) -> NTSTATUS {
    use DXGK_QUERYADAPTERINFOTYPE as Kind;
    let adapter = adapter(context);
    let mutant = adapter.mutant;
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    if mutant.answers == Some(args.Type) {
        return STATUS_SUCCESS;
    }
    if mutant.refuses == Some(args.Type) {
        return STATUS_NOT_SUPPORTED;
    }
    match args.Type {
        Kind::DXGKQAITYPE_DRIVERCAPS => {
            reply_in_version(args, "DXGK_DRIVERCAPS", mutant.version.version, &driver_caps(&mutant))
        }
        Kind::DXGKQAITYPE_WDDMDEVICECAPS => {
            let mut caps = DXGK_WDDMDEVICECAPS { WDDMVersion: mutant.version.model };
            (mutant.device_caps)(&mut caps);
            reply(args, caps)
        }
        Kind::DXGKQAITYPE_NATIVE_FENCE_CAPS => match mutant.native_fence_caps {
            Some(caps) => reply(args, caps),
            None => STATUS_NOT_SUPPORTED,
        },
        Kind::DXGKQAITYPE_USERMODESUBMISSION_CAPS => match mutant.submission_caps {
            Some(caps) => reply(args, caps),
            None => STATUS_NOT_SUPPORTED,
        },
        Kind::DXGKQAITYPE_GPUMMUCAPS => {
            let mut caps = DXGK_GPUMMUCAPS::zeroed();
            caps.VirtualAddressBitCount = 39;
            caps.PageTableLevelCount = 3;
            caps.Bits.set_ReadOnlyMemorySupported(true);
            (mutant.mmu)(&mut caps);
            reply(args, caps)
        }
        Kind::DXGKQAITYPE_PAGETABLELEVELDESC => {
            let mut level = DXGK_PAGE_TABLE_LEVEL_DESC {
                PageTableIndexBitCount: 9,
                PageTableSegmentId: 2,
                PagingProcessPageTableSegmentId: 2,
                PageTableSizeInBytes: 4096,
                PageTableAlignmentInBytes: 4096,
            };
            (mutant.level)(&mut level);
            reply(args, level)
        }
        Kind::DXGKQAITYPE_QUERYSEGMENT4 => segments(adapter, args),
        // A word for each node.
        Kind::DXGKQAITYPE_HISTORYBUFFERPRECISION if args.OutputDataSize == 8 => reply(args, [mutant.precision; 2]),
        Kind::DXGKQAITYPE_HISTORYBUFFERPRECISION => reply(args, mutant.precision),
        Kind::DXGKQAITYPE_NUMPOWERCOMPONENTS => reply(args, (mutant.components)().len() as u32),
        Kind::DXGKQAITYPE_POWERCOMPONENTINFO => {
            // SAFETY: the system passes the index of the component.
            let index = unsafe { args.pInputData.cast::<u32>().read() };
            (mutant.components)().get(index as usize).map_or(STATUS_INVALID_PARAMETER, |info| reply(args, *info))
        }
        _ => reserved_memory(mutant.reserved, args),
    }
}

pub(crate) unsafe extern "win64" fn get_node_metadata(
    context: HANDLE,
    node: u32,
    metadata: *mut DXGK_NODEMETADATA,
) -> NTSTATUS {
    if node >= driver_caps(&adapter(context).mutant).GpuEngineTopology.NbAsymetricProcessingNodes {
        return STATUS_INVALID_PARAMETER;
    }
    let mut answer = DXGK_NODEMETADATA::zeroed();
    answer.Flags =
        DXGK_NODEMETADATA_FLAGS::new().with_ContextSchedulingSupported(true).with_RingBufferFenceRelease(true);
    // An engine of the type other has a name.
    answer.FriendlyName = std::array::from_fn(|place| b"minimal".get(place).map_or(0, |letter| u16::from(*letter)));
    answer.GpuMmuSupported = 1;
    (adapter(context).mutant.node)(&mut answer);
    // SAFETY: the system passes a place for the structure.
    unsafe { metadata.write(answer) };
    STATUS_SUCCESS
}
