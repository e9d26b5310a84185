//! What a driver says of itself, of its memory and of a context at start: where it breaks a rule, the error names field, value, rule and page.
//! [d3dkmddi: DXGK_DRIVERCAPS, DXGK_SEGMENTDESCRIPTOR4, DXGK_GPUMMUCAPS, DXGK_CONTEXTINFO; d3dkmdt: DXGK_NODEMETADATA_FLAGS]

use std::ffi::c_void;
use std::mem::offset_of;

use dxgkrnl::{LoadError, MachineConfig, StartError};
use wddm_ddi::km::*;
use wddm_ddi::status::{STATUS_BUFFER_TOO_SMALL, STATUS_UNSUCCESSFUL};
use wddm_ddi::types::*;

use super::failures::answer_some_caps;
use super::minimal::{Bench, Mutant, SOUND, answers, driver};

/// The text of the error with which a driver does not start.
fn refused(mutant: Mutant) -> String {
    let config = MachineConfig { ram: 64 << 20, ..MachineConfig::default() };
    let bench = Bench::with_config(mutant, config).unwrap();
    let error = bench.start().expect_err("the mutant must be refused");
    assert_eq!(bench.machine.bugcheck(), None);
    error.to_string()
}

/// The error of each mutant has each of its parts.
fn each_names(rows: &[(Mutant, &[&str])]) {
    for (mutant, parts) in rows {
        let text = refused(*mutant);
        for part in *parts {
            assert!(text.contains(part), "{part:?}: {text}");
        }
    }
}

fn placed(segments: &mut [DXGK_SEGMENTDESCRIPTOR4; 2], address: i64, size: usize) {
    let memory = &mut segments[1];
    memory.u.CpuTranslatedAddress = LARGE_INTEGER { QuadPart: address };
    (memory.Size, memory.CommitLimit) = (size, size);
    memory.BaseAddress = LARGE_INTEGER { QuadPart: 0x7000_0000 };
}

/// The first BAR of the device: registers, which are accessed by calls.
const REGISTERS: i64 = (1 << 40) + (1 << 32);

/// Knows DXGK_DRIVERCAPS as the newest version has it, whatever its own version is.
unsafe extern "win64" fn wants_the_newest_caps(context: HANDLE, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let asked = unsafe { args.read() };
    let is_of_caps = asked.Type == DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_DRIVERCAPS;
    if is_of_caps && (asked.OutputDataSize as usize) < size_of::<DXGK_DRIVERCAPS>() {
        return STATUS_BUFFER_TOO_SMALL;
    }
    // SAFETY: the arguments are the system's.
    unsafe { answers::query_adapter_info(context, args) }
}

#[test]
fn a_driver_that_wants_the_answer_of_another_version_is_told_the_size_that_it_was_offered_and_both_versions() {
    let version = INTERFACE_VERSIONS.iter().find(|version| version.name == "WDDM 2.1").unwrap();
    let mutant =
        Mutant { version, table: |table| table.DxgkDdiQueryAdapterInfo = Some(wants_the_newest_caps), ..SOUND };
    let whole = size_of::<DXGK_DRIVERCAPS>();
    let offered = bytes_in_version("DXGK_DRIVERCAPS", whole, version.version);
    assert!(offered < whole);
    let expected = format!(
        "DxgkDdiQueryAdapterInfo(DRIVERCAPS) failed with STATUS_BUFFER_TOO_SMALL (0xc0000023); OutputDataSize was {offered}, the bytes of the answer in WDDM 2.1, which is the version of \
         the DDI table; it has {whole} in WDDM 3.2 [d3dkmddi: DXGK_QUERYADAPTERINFOTYPE]"
    );
    assert_eq!(refused(mutant), expected);
}

/// A driver that hands out its interface of features with one member changed.
macro_rules! hands_out {
    ($member:ident, $value:expr) => {{
        unsafe extern "win64" fn query_interface(context: *mut c_void, query: *mut QUERY_INTERFACE) -> NTSTATUS {
            // SAFETY: the arguments are the system's.
            let status = unsafe { driver::query_interface(context, query) };
            // SAFETY: the system passes the structure.
            let place = unsafe { (*query).Interface }.cast::<DXGKDDI_FEATURE_INTERFACE>();
            // SAFETY: the place has the interface that was just written.
            unsafe { (*place).$member = $value };
            status
        }
        Mutant { table: |table| table.DxgkDdiQueryInterface = Some(query_interface), ..SOUND }
    }};
}

/// DxgkDdiQueryInterface sets Size and Version and initialises both routines and every other function of the interface. [dispmprt: DXGKDDI_QUERY_INTERFACE] That
/// the start is refused is a rule of this system.
#[test]
fn an_interface_of_features_that_is_not_filled_in_refuses_the_start_by_the_name_of_the_member() {
    const SIZE: u16 = size_of::<DXGKDDI_FEATURE_INTERFACE>() as u16;
    for (mutant, rule) in [
        (hands_out!(Size, 0), "Size is 0, and 48 was asked for"),
        (hands_out!(Size, SIZE + 1), "Size is 49, and 48 was asked for"),
        (hands_out!(Version, 0), "Version is 0, and 1 was asked for"),
        (hands_out!(Version, 2), "Version is 2, and 1 was asked for"),
        (hands_out!(InterfaceReference, None), "InterfaceReference is NULL"),
        (hands_out!(InterfaceDereference, None), "InterfaceDereference is NULL"),
        (hands_out!(QueryFeatureSupport, None), "QueryFeatureSupport is NULL"),
        (hands_out!(QueryFeatureInterface, None), "QueryFeatureInterface is NULL"),
    ] {
        let expected = format!(
            "DxgkDdiQueryInterface answered STATUS_SUCCESS for GUID_WDDM_INTERFACE_FEATURE, and in DXGKDDI_FEATURE_INTERFACE {rule} [dispmprt: DXGKDDI_QUERY_INTERFACE]"
        );
        assert_eq!(refused(mutant), expected);
    }
}

#[test]
fn descriptors_of_segments_closer_together_than_the_stride_are_named_with_it() {
    let too_close: fn(&mut DXGK_QUERYSEGMENTOUT4) =
        |out| out.SegmentDescriptorStride = size_of::<DXGK_SEGMENTDESCRIPTOR4>();
    each_names(&[(
        Mutant { segment_out: too_close, ..SOUND },
        &[
            "segment 1: the bytes behind its descriptor are written",
            "descriptors are SegmentDescriptorStride (0x",
            "[d3dkmddi: DXGK_QUERYSEGMENTOUT4]",
        ],
    )]);
}

#[test]
fn a_memory_segment_that_is_no_mapped_memory_of_a_bar_is_named_with_its_place_the_bar_and_the_rule() {
    const PAGE: &str = "[d3dkmddi: DXGK_SEGMENTDESCRIPTOR4]";
    let larger: fn(&mut [DXGK_SEGMENTDESCRIPTOR4; 2]) = |segments| {
        (segments[1].Size, segments[1].CommitLimit) = (16 << 20, 16 << 20);
    };
    each_names(&[
        (
            Mutant { segments: larger, ..SOUND },
            &[
                "segment 2: it is CpuVisible, and CpuTranslatedAddress 0x",
                "with Size 0x1000000 (BaseAddress 0x0) reaches past the end of BAR2, which has 0x800000 bytes at 0x",
                PAGE,
            ],
        ),
        (
            Mutant { segments: |segments| placed(segments, 0x1234_5000, 0x1000), ..SOUND },
            &[
                "CpuTranslatedAddress 0x12345000 with Size 0x1000 (BaseAddress 0x70000000) is of no BAR of the device",
                "BAR0 at 0x",
                PAGE,
            ],
        ),
        (
            Mutant { segments: |segments| placed(segments, REGISTERS, 0x1000), ..SOUND },
            &["(BaseAddress 0x70000000) is in BAR0, which has 0x1000 bytes at 0x10100000000 and is not mapped", PAGE],
        ),
        (
            Mutant {
                segments: |segments| {
                    placed(segments, 0, 8 << 20);
                    segments[1].Flags = DXGK_SEGMENTFLAGS::new().with_SupportsCpuHostAperture(true);
                    let aperture = DXGK_CPUHOSTAPERTURE { PhysicalAddress: 0x5000, SizeInPages: 3 };
                    segments[1].u = DXGK_SEGMENTDESCRIPTOR4_Union { CpuHostAperture: aperture };
                },
                ..SOUND
            },
            &[
                "segment 2: CpuHostAperture.PhysicalAddress 0x5000 with SizeInPages 0x3",
                "is of no BAR of the device",
                PAGE,
            ],
        ),
    ]);
}

unsafe extern "win64" fn never_opened(_: HANDLE, _: *const DXGKARG_MAPCPUHOSTAPERTURE) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

unsafe extern "win64" fn never_closed(_: HANDLE, _: *const DXGKARG_UNMAPCPUHOSTAPERTURE) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

/// [d3dkmddi: DXGK_SEGMENTFLAGS, DXGK_PAGE_TABLE_LEVEL_DESC]
#[test]
fn page_tables_that_the_processor_would_write_through_a_cpu_host_aperture_are_refused_with_that_reason() {
    const TOLD: &str = "this system does not reach page tables through a CPU host aperture (SupportsCpuHostAperture of DXGK_SEGMENTFLAGS)";
    const WINDOWED: Mutant = Mutant {
        table: |table| {
            table.DxgkDdiMapCpuHostAperture = Some(never_opened);
            table.DxgkDdiUnmapCpuHostAperture = Some(never_closed);
        },
        segments: |[_, vram]| {
            vram.Flags = DXGK_SEGMENTFLAGS::new().with_SupportsCpuHostAperture(true);
            // SAFETY: the minimal driver has filled this arm.
            let address = unsafe { vram.u.CpuTranslatedAddress };
            vram.u.CpuHostAperture = DXGK_CPUHOSTAPERTURE { PhysicalAddress: address.QuadPart as u64, SizeInPages: 64 };
        },
        ..SOUND
    };
    const BY_GPU: Mutant = Mutant {
        mmu: |caps| caps.PageTableUpdateMode = DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL,
        ..WINDOWED
    };
    each_names(&[
        (WINDOWED, &["page tables: PageTableSegmentId of level 0 is 2: the CPU writes the tables", TOLD]),
        (BY_GPU, &["page tables: PagingProcessPageTableSegmentId of level 0 is 2: the CPU writes the tables", TOLD]),
    ]);
}

#[test]
fn reserved_bits_of_an_answer_are_named_with_member_value_and_page() {
    each_names(&[
        (
            Mutant {
                caps: |caps| {
                    caps.SchedulingCaps = DXGK_VIDSCHCAPS::from_bits(caps.SchedulingCaps.into_bits() | 1 << 20);
                },
                ..SOUND
            },
            &[
                "DXGK_DRIVERCAPS.SchedulingCaps is 0x100045",
                "the bits 0x100000 of it are reserved, and expected is 0",
                "[d3dkmddi: DXGK_VIDSCHCAPS]",
            ],
        ),
        (
            Mutant {
                caps: |caps| {
                    let known = caps.MemoryManagementCaps.Bits.into_bits();
                    caps.MemoryManagementCaps.Bits = DXGK_VIDMMCAPS_Bits::from_bits(known | 1 << 31);
                },
                ..SOUND
            },
            &["DXGK_DRIVERCAPS.MemoryManagementCaps", "the bits 0x80000000", "[d3dkmddi: DXGK_VIDMMCAPS]"],
        ),
        (
            Mutant {
                caps: |caps| {
                    caps.MiscCaps = DXGK_DRIVERCAPS_MiscCaps::from_bits(caps.MiscCaps.into_bits() | 1 << 9);
                },
                ..SOUND
            },
            &["DXGK_DRIVERCAPS.MiscCaps", "the bits 0x200 ", "[d3dkmddi: DXGK_DRIVERCAPS]"],
        ),
        (
            Mutant { caps: |caps| caps.GpuEngineTopology.Reserved[63] = 7, ..SOUND },
            &["GpuEngineTopology.Reserved[63] is 0x7", "reserved", "[d3dkmddi: DXGK_GPUENGINETOPOLOGY]"],
        ),
        (
            Mutant {
                mmu: |caps| caps.Bits = DXGK_GPUMMUCAPS_Bits::from_bits(caps.Bits.into_bits() | 1 << 30),
                ..SOUND
            },
            &["the first word of DXGK_GPUMMUCAPS is 0x40000001", "the bits 0x40000000", "[d3dkmddi: DXGK_GPUMMUCAPS]"],
        ),
    ]);
}

#[test]
fn reserved_bits_of_a_node_and_a_segment_are_named_with_their_number_value_and_page() {
    each_names(&[
        (
            Mutant {
                node: |node| node.Flags = DXGK_NODEMETADATA_FLAGS::from_bits({ node.Flags }.into_bits() | 1 << 8),
                ..SOUND
            },
            &["DXGK_NODEMETADATA.Flags of node 0 is 0x103", "the bits 0x100 ", "[d3dkmdt: DXGK_NODEMETADATA_FLAGS]"],
        ),
        (
            Mutant {
                segments: |segments| {
                    segments[1].Flags = DXGK_SEGMENTFLAGS::from_bits(segments[1].Flags.into_bits() | 1 << 22);
                },
                ..SOUND
            },
            &["DXGK_SEGMENTDESCRIPTOR4.Flags of segment 2", "the bits 0x400000 ", "[d3dkmddi: DXGK_SEGMENTFLAGS]"],
        ),
    ]);
}

/// Fills the answer to DRIVERCAPS up to SchedulingCaps, and answers everything else.
unsafe extern "win64" fn caps_in_part(context: HANDLE, args: *const DXGKARG_QUERYADAPTERINFO) -> NTSTATUS {
    // SAFETY: the arguments are the system's.
    unsafe { answer_some_caps(context, args, |place, _| place < offset_of!(DXGK_DRIVERCAPS, SchedulingCaps)) }
}

#[test]
fn caps_that_were_written_in_part_are_named_by_the_first_member_that_was_left_out() {
    let mutant = Mutant { table: |table| table.DxgkDdiQueryAdapterInfo = Some(caps_in_part), ..SOUND };
    let text = refused(mutant);
    let part = offset_of!(DXGK_DRIVERCAPS, SchedulingCaps);
    let size = size_of::<DXGK_DRIVERCAPS>();
    for told in [
        format!("DxgkDdiQueryAdapterInfo(DRIVERCAPS) wrote {part} of the {size} bytes of pOutputData"),
        "the first member that it did not write is DXGK_DRIVERCAPS.SchedulingCaps".to_owned(),
        "DRIVERCAPS.WDDMVersion says version 0x0".to_owned(),
        "[d3dkmddi: DXGKDDI_QUERYADAPTERINFO]".to_owned(),
    ] {
        assert!(text.contains(&told), "{told:?}: {text}");
    }
    // One that is whole is not said to be written in part.
    let text = refused(Mutant { caps: |caps| caps.SupportPerEngineTDR = 0, ..SOUND });
    assert!(text.starts_with("SupportPerEngineTDR is not set") && !text.contains("did not write"), "{text}");
}

#[test]
fn what_a_driver_says_of_a_context_names_the_member_that_cannot_be() {
    type Create = unsafe extern "win64" fn(HANDLE, *mut DXGKARG_CREATECONTEXT) -> NTSTATUS;
    macro_rules! with {
        ($member:ident, $value:expr) => {{
            unsafe extern "win64" fn create(device: HANDLE, args: *mut DXGKARG_CREATECONTEXT) -> NTSTATUS {
                // SAFETY: the arguments are the system's.
                let status = unsafe { driver::create_context(device, args) };
                // SAFETY: as above.
                unsafe { (*args).ContextInfo.$member = $value };
                status
            }
            create
        }};
    }
    const PAGE: &str = "[d3dkmddi: DXGK_CONTEXTINFO]";
    type Change = fn(&mut DRIVER_INITIALIZATION_DATA);
    let rows: [(Change, &[&str]); 5] = [
        (
            |table| table.DxgkDdiCreateContext = Some(with!(AllocationListSize, u32::MAX) as Create),
            &["DxgkDdiCreateContext on node 0", "ContextInfo.AllocationListSize 0xffffffff", "at most 0x10000", PAGE],
        ),
        (
            |table| table.DxgkDdiCreateContext = Some(with!(PatchLocationListSize, 0x1_0001) as Create),
            &["ContextInfo.PatchLocationListSize 0x10001", "at most 0x10000", PAGE],
        ),
        (
            |table| table.DxgkDdiCreateContext = Some(with!(Reserved, 3) as Create),
            &["ContextInfo.Reserved 0x3", "reserved, and expected is 0", PAGE],
        ),
        (
            |table| {
                table.DxgkDdiCreateContext = Some(with!(Caps, DXGK_CONTEXTINFO_CAPS::from_bits(0x11)) as Create);
            },
            &["ContextInfo.Caps 0x11", "the bits 0x10 of it are reserved, and expected is 0", PAGE],
        ),
        (
            |table| table.DxgkDdiCreateContext = Some(with!(PagingCompanionNodeId, 1) as Create),
            &["ContextInfo.PagingCompanionNodeId 0x1", "the adapter has 1 node", PAGE],
        ),
    ];
    for (table, parts) in rows {
        each_names(&[(Mutant { table, ..SOUND }, parts)]);
    }
}

/// Headings of a document, as addresses of its sections.
fn sections(document: &str) -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(document);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{document}: {error}"));
    let headings =
        text.lines().filter_map(|line| line.strip_prefix('#')).map(|line| line.trim_start_matches('#').trim());
    let letters = |heading: &str| {
        heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -".contains(*c)).collect::<String>()
    };
    headings.map(|heading| letters(heading).replace(' ', "-")).collect()
}

/// The text ends with a page, and one of this repository is there.
fn names_a_page(text: &str) {
    let page = text.rsplit_once('[').and_then(|(_, page)| page.strip_suffix(']'));
    let page = page.unwrap_or_else(|| panic!("no page at the end: {text}"));
    for document in page.split("; ").filter(|page| page.starts_with("docs/")) {
        let (file, section) = document.split_once('#').unwrap_or((document, ""));
        assert!(section.is_empty() || sections(file).iter().any(|found| found == section), "{document}: {text}");
    }
}

#[test]
fn every_error_of_loading_and_starting_names_a_page() {
    use dxgkrnl::verifier::Bugcheck;
    use wddm_ddi::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_UNSUCCESSFUL};
    for error in [
        LoadError::Entry(STATUS_UNSUCCESSFUL),
        LoadError::NotRegistered,
        LoadError::WrongDriverObject,
        LoadError::Version(0x5023),
        LoadError::MissingSlot("DxgkDdiAddDevice"),
        LoadError::NullArgument("RegistryPath"),
        LoadError::ForbiddenSlot { slot: "DxgkDdiRecommendFunctionalVidPn", version: 0x5023 },
        LoadError::Stopped(Some(Bugcheck::fatal("a rule"))),
        LoadError::Stopped(None),
    ] {
        names_a_page(&error.to_string());
    }
    let unresolved = dxgkrnl::ImageError::UnresolvedImports { first: vec!["ntoskrnl.exe!Nobody".to_owned()], all: 1 };
    let text = LoadError::Image(unresolved).to_string();
    assert!(text.contains("docs/kernel-services.md"), "{text}");
    names_a_page(&text);
    names_a_page(&LoadError::Image(dxgkrnl::ImageError::NotAnImage("it is short".to_owned())).to_string());
    for error in [
        StartError::NoSuchDevice,
        StartError::NoSuchDriver,
        StartError::AlreadyStarted,
        StartError::OtherDriver,
        StartError::Stopped(None),
        StartError::Resources("no memory".to_owned()),
        StartError::Pci(dxgkrnl::PciError::Absent),
        StartError::RenderCore { status: STATUS_INSUFFICIENT_RESOURCES, why: String::new() },
        StartError::StartDevice(STATUS_UNSUCCESSFUL),
    ] {
        names_a_page(&error.to_string());
    }
}
