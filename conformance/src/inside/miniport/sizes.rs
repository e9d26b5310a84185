//! Structures that have grown: an older system's are shorter, and nothing lies behind them.

use std::ffi::c_void;
use std::mem::offset_of;

use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{GUID, NTSTATUS, QUERY_INTERFACE};

use super::rig::Rig;
use super::system::*;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.ShorterAnswersAreTheBeginningOfTheWhole" on Boot::Shared, "dxgkarg_queryadapterinfo":
        "An answer of DxgkDdiQueryAdapterInfo to a buffer shorter than its structure is the beginning of the whole one, for structures grow at their end; to a longer one it ends in zeroes. Nothing is written behind OutputDataSize bytes. That the driver cuts rather than refuses is its own rule."
        => shorter_answers_are_the_beginning_of_the_whole;
    "Miniport.ShorterQuestionsAreRefused" on Boot::Shared, "dxgkarg_queryadapterinfo":
        "A question of DxgkDdiQueryAdapterInfo that is shorter than its structure is refused as an invalid parameter, and nothing is answered."
        => shorter_questions_are_refused;
    "Miniport.SegmentsOfAnotherSizeKeepTheirDistance" on Boot::Shared, "dxgk_querysegmentout4":
        "Segment descriptors lie SegmentDescriptorStride bytes apart, which a newer system has larger than the descriptor, and between them nothing is written; a smaller stride, or a header that is too short, is refused and nothing is written."
        => segments_lie_at_the_distance_that_the_system_says;
    "Miniport.TableOfCallbacksEndsWhereItsSizeSays" on Boot::Shared, "dxgkrnl_interface":
        "The driver reads as much of the table of callbacks as its Size says: a table that ends before a callback without which the driver cannot work is refused as another revision, one that ends before another has the driver do without it, and one that goes on behind the last known is no other."
        => the_table_of_callbacks_ends_where_its_size_says;
    "Miniport.InterfaceThatDoesNotFitIsRefused" on Boot::Shared, "ns-video-_query_interface":
        "DxgkDdiQueryInterface returns no interface that is larger than Size bytes: a shorter buffer is refused with STATUS_BUFFER_TOO_SMALL and nothing is written, a longer one is taken, the interface says its own size, and nothing is written behind that. Another version and another interface are not supported."
        => an_interface_is_never_larger_than_its_buffer;
    "Miniport.FeatureInterfaceThatDoesNotFitIsRefused" on Boot::Shared, "ns-d3dkmddi-dxgkarg_queryfeatureinterface":
        "The interface of a feature is written if InterfaceSize bytes hold it, and InterfaceSize says then how many bytes it has; a shorter buffer is refused with STATUS_BUFFER_TOO_SMALL, and neither the buffer nor InterfaceSize changes."
        => the_interface_of_a_feature_is_never_larger_than_its_buffer;
}

use DXGK_QUERYADAPTERINFOTYPE as Q;

/// What the driver is asked: the question, the structure of this kit, and its size.
struct Question {
    of: DXGK_QUERYADAPTERINFOTYPE,
    input: u32,
    size: usize,
}

/// Questions that are answered by a structure, each with the bytes of its own question, which are zero: of the first engine, level and component.
const QUESTIONS: [Question; 15] = [
    Question { of: Q::DXGKQAITYPE_DRIVERCAPS, input: 0, size: size_of::<DXGK_DRIVERCAPS>() },
    Question { of: Q::DXGKQAITYPE_WDDMDEVICECAPS, input: 0, size: size_of::<DXGK_WDDMDEVICECAPS>() },
    Question { of: Q::DXGKQAITYPE_PHYSICAL_MEMORY_CAPS, input: 0, size: size_of::<DXGK_PHYSICAL_MEMORY_CAPS>() },
    Question { of: Q::DXGKQAITYPE_IOMMU_CAPS, input: 0, size: size_of::<DXGK_IOMMU_CAPS>() },
    Question { of: Q::DXGKQAITYPE_NUMPOWERCOMPONENTS, input: 0, size: 4 },
    Question { of: Q::DXGKQAITYPE_GPUVERSION, input: 0, size: size_of::<DXGK_GPUVERSION>() },
    Question { of: Q::DXGKQAITYPE_NODEPERFDATA, input: 4, size: size_of::<DXGK_NODE_PERFDATA>() },
    Question { of: Q::DXGKQAITYPE_ADAPTERPERFDATA, input: 4, size: size_of::<DXGK_ADAPTER_PERFDATA>() },
    Question { of: Q::DXGKQAITYPE_ADAPTERPERFDATA_CAPS, input: 4, size: size_of::<DXGK_ADAPTER_PERFDATACAPS>() },
    Question { of: Q::DXGKQAITYPE_NATIVE_FENCE_CAPS, input: 0, size: size_of::<DXGK_NATIVE_FENCE_CAPS>() },
    Question { of: Q::DXGKQAITYPE_USERMODESUBMISSION_CAPS, input: 0, size: size_of::<DXGK_USERMODESUBMISSION_CAPS>() },
    Question { of: Q::DXGKQAITYPE_GPUMMUCAPS, input: 4, size: size_of::<DXGK_GPUMMUCAPS>() },
    Question { of: Q::DXGKQAITYPE_PHYSICALADAPTERCAPS, input: 4, size: size_of::<DXGK_PHYSICALADAPTERCAPS>() },
    Question { of: Q::DXGKQAITYPE_PAGETABLELEVELDESC, input: 4, size: size_of::<DXGK_PAGE_TABLE_LEVEL_DESC>() },
    Question { of: Q::DXGKQAITYPE_POWERCOMPONENTINFO, input: 4, size: size_of::<DXGK_POWER_RUNTIME_COMPONENT>() },
];

/// Byte that no answer writes.
const CANARY: u8 = 0xa5;

/// Asks with a buffer of `size` bytes at the beginning of `memory`.
fn ask(rig: &Rig, of: DXGK_QUERYADAPTERINFOTYPE, input: u32, memory: &mut [u64], size: usize) -> NTSTATUS {
    let mut question = [0_u64; 4];
    let mut args = DXGKARG_QUERYADAPTERINFO::zeroed();
    args.Type = of;
    if input != 0 {
        (args.pInputData, args.InputDataSize) = (question.as_mut_ptr().cast::<c_void>(), input);
    }
    (args.pOutputData, args.OutputDataSize) = (memory.as_mut_ptr().cast::<c_void>(), size as u32);
    ddi!(rig.system, DxgkDdiQueryAdapterInfo, rig.system.adapter, &raw const args)
}

/// Memory for a structure of `size` bytes, with some behind it.
fn memory(size: usize) -> Vec<u64> {
    vec![u64::from_ne_bytes([CANARY; 8]); size / 8 + 8]
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn shorter_answers_are_the_beginning_of_the_whole(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    for Question { of, input, size } in QUESTIONS {
        let mut whole = memory(size);
        ensure_eq!(ask(&rig, of, input, &mut whole, size), STATUS_SUCCESS, "{of:?}");
        let whole = bytes(&whole);
        for length in (0..=size + 16).step_by(4) {
            let mut part = memory(size);
            ensure_eq!(ask(&rig, of, input, &mut part, length), STATUS_SUCCESS, "{of:?} in {length} bytes");
            let part = bytes(&part);
            ensure!(
                part[..length.min(size)] == whole[..length.min(size)],
                "{of:?} in {length} bytes is another answer"
            );
            ensure!(part[length.min(size)..length].iter().all(|byte| *byte == 0), "{of:?} in {length} bytes");
            ensure!(part[length..].iter().all(|byte| *byte == CANARY), "{of:?} writes behind {length} bytes");
        }
    }
    Ok(())
}

fn shorter_questions_are_refused(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    for Question { of, input, size } in QUESTIONS.into_iter().filter(|question| question.input != 0) {
        for length in 0..input {
            let mut answer = memory(size);
            ensure_eq!(ask(&rig, of, length, &mut answer, size), STATUS_INVALID_PARAMETER, "{of:?} of {length} bytes");
            ensure!(bytes(&answer).iter().all(|byte| *byte == CANARY), "{of:?} of {length} bytes is answered");
        }
    }
    Ok(())
}

fn segments_lie_at_the_distance_that_the_system_says(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let descriptor = size_of::<DXGK_SEGMENTDESCRIPTOR4>();
    let ask = |out: &mut DXGK_QUERYSEGMENTOUT4, header: usize| {
        let mut args = DXGKARG_QUERYADAPTERINFO::zeroed();
        args.Type = Q::DXGKQAITYPE_QUERYSEGMENT4;
        (args.pOutputData, args.OutputDataSize) = (std::ptr::from_mut(out).cast(), header as u32);
        ddi!(rig.system, DxgkDdiQueryAdapterInfo, rig.system.adapter, &raw const args)
    };
    let whole = size_of::<DXGK_QUERYSEGMENTOUT4>();
    let mut out = DXGK_QUERYSEGMENTOUT4::zeroed();
    ensure_eq!(ask(&mut out, whole), STATUS_SUCCESS);
    let count = out.NbSegment as usize;
    ensure!(count >= 2);
    for (stride, header, status) in [
        (descriptor, whole, STATUS_SUCCESS),
        (descriptor + 8, whole, STATUS_SUCCESS),
        (descriptor + 64, whole, STATUS_SUCCESS),
        (descriptor - 8, whole, STATUS_INVALID_PARAMETER),
        (0, whole, STATUS_INVALID_PARAMETER),
        (descriptor, whole - 8, STATUS_INVALID_PARAMETER),
        (descriptor, 0, STATUS_INVALID_PARAMETER),
    ] {
        let mut descriptors = memory(count * (descriptor + 64));
        let mut out = DXGK_QUERYSEGMENTOUT4::zeroed();
        out.pSegmentDescriptor = descriptors.as_mut_ptr().cast();
        (out.NbSegment, out.SegmentDescriptorStride) = (count as u32, stride);
        ensure_eq!(ask(&mut out, header), status, "descriptors of {stride} bytes behind a header of {header}");
        for (place, byte) in bytes(&descriptors).into_iter().enumerate() {
            let written = status.is_success() && place / stride < count && place % stride < descriptor;
            ensure!(written || byte == CANARY, "byte {place} is written at a distance of {stride}");
        }
        let sizes = (0..if status.is_success() { count } else { 0 })
            .map(|index| descriptors[(index * stride + offset_of!(DXGK_SEGMENTDESCRIPTOR4, Size)) / 8]);
        ensure!(sizes.into_iter().all(|size| size != 0 && size != u64::from_ne_bytes([CANARY; 8])));
    }
    Ok(())
}

fn the_table_of_callbacks_ends_where_its_size_says(case: &mut Case<'_>) -> Result<(), Failure> {
    let whole = size_of::<DXGKRNL_INTERFACE>();
    // Ends of the tables of earlier models: before contiguous memory, in the middle of it, and before doorbells.
    let contiguous = offset_of!(DXGKRNL_INTERFACE, DxgkCbAllocateContiguousMemory);
    for size in [4, 16, contiguous, contiguous + 8, contiguous + 15] {
        let mut system = System::added(case, ALL, 1);
        ensure_eq!(system.start_with_table_of(size), STATUS_REVISION_MISMATCH, "a table of {size} bytes");
        system.remove_stopped();
    }
    let doorbells = offset_of!(DXGKRNL_INTERFACE, DxgkCbDisconnectDoorbell);
    for (size, told) in [(doorbells, 0), (doorbells + 7, 0), (whole, 1), (whole + 64, 1)] {
        let mut system = System::added(case, ALL, 1);
        ensure_eq!(system.start_with_table_of(size), STATUS_SUCCESS, "a table of {size} bytes");
        let mut rig = Rig::on(system);
        // Two queues on one physical doorbell: the second takes it from the first, of which the system is told where it can be.
        let context = rig.hw_context(0x4000, 0);
        let (_, first) = rig.user_queue(context, 1);
        let (_, second) = rig.user_queue(context, 2);
        ensure_eq!(rig.connect(first).0, STATUS_SUCCESS);
        ensure_eq!(rig.connect(second).0, STATUS_SUCCESS);
        ensure_eq!(log(|log| std::mem::take(&mut log.disconnected)).len(), told, "a table of {size} bytes");
        rig.system.remove();
    }
    Ok(())
}

/// Asks for the interface of the driver's features, at the beginning of `memory`.
fn interface_in(
    system: &System,
    (guid, version): (GUID, u16),
    memory: &mut [u64],
    size: usize,
) -> (NTSTATUS, QUERY_INTERFACE) {
    let mut query = QUERY_INTERFACE::zeroed();
    query.InterfaceType = &raw const guid;
    (query.Version, query.Size) = (version, size as u16);
    query.Interface = memory.as_mut_ptr().cast();
    (ddi!(system, DxgkDdiQueryInterface, system.adapter.cast(), &raw mut query), query)
}

fn an_interface_is_never_larger_than_its_buffer(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    let whole = size_of::<DXGKDDI_FEATURE_INTERFACE>();
    let feature = (GUID_WDDM_INTERFACE_FEATURE, DXGKDDI_FEATURE_INTERFACE_VERSION_1);
    for size in (0..whole).chain([whole, whole + 1, whole + 64]) {
        let mut buffer = memory(whole + 64);
        let expected = if size < whole { STATUS_BUFFER_TOO_SMALL } else { STATUS_SUCCESS };
        let (status, query) = interface_in(&system, feature, &mut buffer, size);
        ensure_eq!((status, usize::from(query.Size)), (expected, size), "a buffer of {size} bytes");
        let written = if status.is_success() { whole } else { 0 };
        let bytes = bytes(&buffer);
        ensure!(
            bytes[written..].iter().all(|byte| *byte == CANARY),
            "a buffer of {size} bytes is written behind {written}"
        );
        if written != 0 {
            let said = u16::from_ne_bytes([bytes[0], bytes[1]]);
            ensure_eq!(usize::from(said), whole, "the size that the interface says");
            ensure!(bytes[8..whole].iter().any(|byte| *byte != CANARY), "an interface without functions");
        }
    }
    let other = GUID { Data1: feature.0.Data1 ^ 1, ..feature.0 };
    for kind in [(feature.0, feature.1 + 1), (feature.0, 0), (other, feature.1)] {
        let mut buffer = memory(whole + 64);
        ensure_eq!(interface_in(&system, kind, &mut buffer, whole).0, STATUS_NOT_SUPPORTED, "version {}", kind.1);
        ensure!(bytes(&buffer).iter().all(|byte| *byte == CANARY), "version {} is written", kind.1);
    }
    system.remove();
    Ok(())
}

fn the_interface_of_a_feature_is_never_larger_than_its_buffer(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    let mut interface = DXGKDDI_FEATURE_INTERFACE::zeroed();
    let mut query = QUERY_INTERFACE::zeroed();
    let guid = GUID_WDDM_INTERFACE_FEATURE;
    query.InterfaceType = &raw const guid;
    query.Version = DXGKDDI_FEATURE_INTERFACE_VERSION_1;
    (query.Size, query.Interface) = (size_of::<DXGKDDI_FEATURE_INTERFACE>() as u16, (&raw mut interface).cast());
    ensure_eq!(ddi!(system, DxgkDdiQueryInterface, system.adapter.cast(), &raw mut query), STATUS_SUCCESS);
    let ask = interface.QueryFeatureInterface.ok_or_else(|| Failure::new("the interface has no such function"))?;
    let whole = size_of::<DXGKDDI_KERNELMODETESTINGINTERFACE>();
    for size in (0..whole).chain([whole, whole + 1, whole + 64]) {
        let mut buffer = memory(whole + 64);
        let mut args = DXGKARG_QUERYFEATUREINTERFACE::zeroed();
        (args.FeatureId, args.Version) = (DXGK_FEATURE_ID::DXGK_FEATURE_KERNEL_MODE_TESTING, 1);
        (args.InterfaceSize, args.Interface) = (size as u16, buffer.as_mut_ptr().cast());
        // SAFETY: the driver's own function; the arguments are what its prototype asks for.
        let call = || unsafe { ask(system.adapter, &raw mut args) };
        let status = called(&system.driver, "DxgkDdiQueryFeatureInterface", call);
        let (expected, says) = if size < whole { (STATUS_BUFFER_TOO_SMALL, size) } else { (STATUS_SUCCESS, whole) };
        ensure_eq!((status, usize::from(args.InterfaceSize)), (expected, says), "a buffer of {size} bytes");
        let written = if status.is_success() { whole } else { 0 };
        let bytes = bytes(&buffer);
        ensure!(
            bytes[written..].iter().all(|byte| *byte == CANARY),
            "a buffer of {size} bytes is written behind {written}"
        );
        ensure!(written == 0 || bytes[..whole] != [CANARY; size_of::<DXGKDDI_KERNELMODETESTINGINTERFACE>()]);
    }
    system.remove();
    Ok(())
}
