//! Every declaration of the crate agrees with the table of layout facts in `ddi-layout.json`.
//!
//! The table names sizes, alignments, offsets, bit ranges and values of the 10.0.26100 kit for x64. `layout/generated.rs` holds
//! what the compiler makes of the declarations (`cargo xtask ddi-layout` writes it), `layout/exceptions.json` what is
//! deliberately left out, with reasons.

#![allow(non_camel_case_types, non_upper_case_globals)]

use std::mem::{align_of, offset_of, size_of};
use std::path::Path;

use ddi_layout::{Enumeration, Exceptions, Facts, Measured, Record, Source, check, generate, open, record};
use wddm_ddi::nt::{
    EVENT_DATA_DESCRIPTOR, EVENT_DESCRIPTOR, EXCEPTION_RECORD, IO_STATUS_BLOCK, KEY_VALUE_PARTIAL_INFORMATION,
};
use wddm_ddi::{km::*, kmt::*, types::*};

#[rustfmt::skip]
#[path = "layout/generated.rs"]
mod generated;

const TABLE: &str = include_str!("ddi-layout.json");
const EXCEPTIONS: &str = include_str!("layout/exceptions.json");
const GENERATED: &str = include_str!("layout/generated.rs");

fn facts() -> Facts {
    Facts::from_text(TABLE).expect("the table is well formed")
}

fn exceptions() -> Exceptions {
    Exceptions::from_text(EXCEPTIONS).expect("the exceptions are well formed")
}

fn source() -> Source {
    Source::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("the sources are Rust")
}

fn measured() -> Measured {
    Measured {
        records: generated::RECORDS.to_vec(),
        enumerations: generated::ENUMERATIONS.to_vec(),
        constants: generated::CONSTANTS.to_vec(),
        guids: generated::GUIDS.iter().map(|(name, guid)| (*name, spelling(guid))).collect(),
        typedefs: generated::TYPEDEFS.to_vec(),
        slot_names: SLOT_NAMES.to_vec(),
    }
}

fn spelling(guid: &GUID) -> String {
    let [a, b, rest @ ..] = guid.Data4;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{:08x}-{:04x}-{:04x}-{a:02x}{b:02x}-{rest}", guid.Data1, guid.Data2, guid.Data3)
}

fn lines<T: ToString>(complaints: &[T]) -> String {
    complaints.iter().map(|complaint| format!("\n  {}", complaint.to_string())).collect()
}

#[test]
fn every_declaration_agrees_with_the_table() {
    let (differences, counts) = check::check(&measured(), &facts(), &exceptions());
    println!("{counts}");
    assert!(differences.is_empty(), "{} differences:{}", differences.len(), lines(&differences));
}

#[test]
fn every_declaration_is_in_the_table_or_excused() {
    let complaints = generate::uncovered(&source(), &facts(), &exceptions());
    assert!(complaints.is_empty(), "{}", lines(&complaints));
}

#[test]
fn every_field_has_the_type_that_the_table_names() {
    let complaints = generate::mistyped(&source(), &facts());
    assert!(complaints.is_empty(), "{}", lines(&complaints));
}

#[test]
fn every_type_says_what_it_is_and_names_its_page() {
    let complaints = generate::undocumented(&source(), &facts(), &exceptions());
    assert!(complaints.is_empty(), "{} items:{}", complaints.len(), lines(&complaints));
}

#[test]
fn the_generated_file_is_what_the_sources_say() {
    let fresh = generate::generate(&source(), &facts());
    assert!(fresh == GENERATED, "ddi/tests/layout/generated.rs is stale: run `cargo xtask ddi-layout`");
}

/// A copy of the table with one change makes the comparison complain, and only about that.
#[track_caller]
fn complains(change: impl FnOnce(&mut Facts), about: &[&str]) {
    let mut facts = facts();
    change(&mut facts);
    let (differences, _) = check::check(&measured(), &facts, &exceptions());
    let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(texts, about);
}

fn row<'a>(facts: &'a mut Facts, owner: &str, path: &str) -> &'a mut ddi_layout::facts::Row {
    let of = facts.types.get_mut(owner).expect("the type is in the table");
    of.rows.iter_mut().find(|row| row.name == path).expect("the member is in the table")
}

#[test]
fn a_wrong_size_or_alignment_is_found() {
    complains(
        |facts| facts.types.get_mut("DXGK_SEGMENTDESCRIPTOR4").expect("in the table").size = 88,
        &["size of DXGK_SEGMENTDESCRIPTOR4: 96 here, 88 in the table"],
    );
    complains(
        |facts| facts.types.get_mut("DXGK_NODEMETADATA").expect("in the table").align = 4,
        &["alignment of DXGK_NODEMETADATA: 1 here, 4 in the table"],
    );
}

#[test]
fn a_wrong_offset_or_width_is_found_in_nested_arms_too() {
    complains(
        |facts| row(facts, "DXGKARG_CREATEHWQUEUE", "hHwQueueProgressFence").offset += 4,
        &["offset of DXGKARG_CREATEHWQUEUE.hHwQueueProgressFence: 24 here, 28 in the table"],
    );
    complains(
        |facts| row(facts, "DXGKARGCB_NOTIFY_INTERRUPT_DATA", "NativeFenceSignaled.hHWQueue").size = 4,
        &["size of DXGKARGCB_NOTIFY_INTERRUPT_DATA.NativeFenceSignaled.hHWQueue: 8 here, 4 in the table"],
    );
}

#[test]
fn a_wrong_bit_is_found() {
    complains(
        |facts| row(facts, "DXGK_VIDSCHCAPS", "NativeGpuFence").bits = Some((12, 1)),
        &["bits of DXGK_VIDSCHCAPS.NativeGpuFence: 0x800 here, 0x1000 in the table"],
    );
    complains(
        |facts| row(facts, "DXGK_PTE", "Segment").bits = Some((5, 4)),
        &["bits of DXGK_PTE.Segment: 0x3e0 here, 0x1e0 in the table"],
    );
}

#[test]
fn a_wrong_value_is_found() {
    complains(
        |facts| {
            let values = facts.enums.get_mut("DXGK_INTERRUPT_TYPE").expect("in the table");
            values.insert("DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED".into(), 21);
        },
        &["DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED: 19 here, 21 in the table"],
    );
    complains(
        |facts| *facts.constants.get_mut("DXGKDDI_INTERFACE_VERSION_WDDM3_2").expect("in the table") += 1,
        &["DXGKDDI_INTERFACE_VERSION_WDDM3_2: 69639 here, 69640 in the table"],
    );
}

#[test]
fn a_moved_slot_is_found() {
    complains(
        |facts| facts.init_data_slots[16].1 += 8,
        &["offset of slot DRIVER_INITIALIZATION_DATA.DxgkDdiQueryAdapterInfo: 136 here, 144 in the table"],
    );
    complains(
        |facts| facts.interface_slots[4].1 += 8,
        &["offset of slot DXGKRNL_INTERFACE.DxgkCbGetDeviceInformation: 24 here, 32 in the table"],
    );
}

/// The version of the interface that a member came with; 0 for those of WDDM 2.0 and older ones.
fn since(facts: &Facts, owner: &str, member: &str) -> u32 {
    facts.since.get(&format!("{owner}.{member}")).map_or(0, |model| {
        u32::try_from(facts.constants[&format!("DXGKDDI_INTERFACE_VERSION_{model}")]).expect("a version")
    })
}

#[test]
fn both_tables_of_functions_have_the_length_of_each_version() {
    let facts = facts();
    let length = |owner: &str, slots: &[(String, usize)], version: u32| {
        let known = slots.iter().filter(|(name, _)| since(&facts, owner, name) <= version);
        known.map(|(_, offset)| offset + 8).max().expect("a slot")
    };
    for version in &INTERFACE_VERSIONS {
        let driver = length("DRIVER_INITIALIZATION_DATA", &facts.init_data_slots, version.version);
        let callbacks = length("DXGKRNL_INTERFACE", &facts.interface_slots, version.version);
        assert_eq!((version.driver_table, version.callback_table), (driver, callbacks), "{}", version.name);
    }
    let ascending = INTERFACE_VERSIONS
        .windows(2)
        .all(|pair| pair[0].version < pair[1].version && pair[0].model.0 < pair[1].model.0);
    assert!(ascending && facts.since.len() > 100);
}

#[test]
fn answers_have_the_length_of_each_version() {
    let bytes = |version| {
        let caps = bytes_in_version("DXGK_DRIVERCAPS", size_of::<DXGK_DRIVERCAPS>(), version);
        (caps, bytes_in_version("DXGK_PHYSICALADAPTERCAPS", size_of::<DXGK_PHYSICALADAPTERCAPS>(), version))
    };
    assert_eq!(bytes(DXGKDDI_INTERFACE_VERSION_WDDM2_0), (0x240, 24));
    assert_eq!(bytes(DXGKDDI_INTERFACE_VERSION_WDDM2_3), (0x240, 24));
    assert_eq!(bytes(DXGKDDI_INTERFACE_VERSION_WDDM2_6), (0x248, 24));
    assert_eq!(bytes(DXGKDDI_INTERFACE_VERSION_WDDM2_7), (0x248, 32));
    assert_eq!(bytes(DXGKDDI_INTERFACE_VERSION_WDDM2_9), (0x250, 32));
    assert_eq!(bytes(DXGKDDI_INTERFACE_VERSION_WDDM3_2), (0x250, 32));
}

#[test]
fn a_member_that_is_not_declared_is_found() {
    complains(
        |facts| {
            let mut extra = row(facts, "DXGK_ADL", "PageCount").clone();
            extra.name = "PageSize".into();
            facts.types.get_mut("DXGK_ADL").expect("in the table").rows.push(extra);
        },
        &["DXGK_ADL.PageSize: neither declared nor excused"],
    );
}

#[test]
fn a_type_that_the_table_lacks_is_found() {
    complains(|facts| drop(facts.types.remove("DXGK_ADL_FLAGS")), &["DXGK_ADL_FLAGS: not in the table"]);

    let mut source = source();
    source.add("new.rs", "#[repr(C)] pub struct DXGK_NOVELTY { pub Value: u32 }").expect("Rust");
    source.add("new.rs", "#[repr(transparent)] pub struct DXGK_KIND(pub i32);").expect("Rust");
    source.add("new.rs", "#[bitfield(u32)] pub struct DXGK_WORD { pub Set: bool, #[bits(31)] __: u32 }").expect("Rust");
    source.add("new.rs", "#[repr(C)] pub union DXGK_EITHER { pub A: u32, pub B: i32 }").expect("Rust");
    source.add("new.rs", "macro_rules! more { () => { #[repr(C)] pub struct Hidden {} } }").expect("Rust");
    source.add("new.rs", "pub struct Plain { pub not_a_layout: u32 }").expect("Rust");
    let complaints = generate::uncovered(&source, &facts(), &exceptions());
    assert_eq!(
        complaints,
        [
            "new.rs: DXGK_EITHER is neither in the table nor excused",
            "new.rs: DXGK_KIND is neither in the table nor excused",
            "new.rs: DXGK_NOVELTY is neither in the table nor excused",
            "new.rs: DXGK_WORD is neither in the table nor excused",
            "macro more is neither in the table nor excused",
        ]
    );
}

#[test]
fn an_exception_without_need_is_found() {
    let mut excuses = exceptions();
    excuses.types.insert("DXGK_ADL".into(), "a reason that no longer holds".into());
    excuses.types.insert("DXGK_GONE".into(), "a reason that no longer holds".into());
    assert_eq!(
        generate::uncovered(&source(), &facts(), &excuses),
        ["DXGK_ADL is excused although the table covers it", "DXGK_GONE is excused but not declared"]
    );
    let paths = excuses.omitted.entry("DXGK_ADL".into()).or_default();
    paths.insert("PageCount".into(), "a reason that no longer holds".into());
    let (differences, _) = check::check(&measured(), &facts(), &excuses);
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].to_string(), "DXGK_ADL.PageCount: excused without need");
    assert!(
        Exceptions::from_text(r#"{"types":{"A":""},"alignments":{},"constants":{},"macros":{},"omitted":{}}"#).is_err()
    );
}

/// [wdm: PCI_DEVICE_PRESENCE_PARAMETERS]
#[test]
fn the_question_for_a_pci_function_has_the_layout_of_wdm_h() {
    type Question = PCI_DEVICE_PRESENCE_PARAMETERS;
    assert_eq!((size_of::<Question>(), align_of::<Question>()), (24, 4));
    assert_eq!([offset_of!(Question, Size), offset_of!(Question, Flags)], [0, 4]);
    assert_eq!([offset_of!(Question, VendorID), offset_of!(Question, DeviceID)], [8, 10]);
    assert_eq!([offset_of!(Question, RevisionID), offset_of!(Question, SubVendorID)], [12, 14]);
    assert_eq!([offset_of!(Question, SubSystemID), offset_of!(Question, BaseClass)], [16, 18]);
    assert_eq!([offset_of!(Question, SubClass), offset_of!(Question, ProgIf)], [19, 20]);
}

#[test]
fn base_types_have_the_layout_of_the_windows_headers() {
    assert_eq!((size_of::<MDL>(), align_of::<MDL>()), (48, 8));
    assert_eq!(offset_of!(MDL, Size), 8);
    assert_eq!(offset_of!(MDL, MdlFlags), 10);
    assert_eq!(offset_of!(MDL, Process), 16);
    assert_eq!(offset_of!(MDL, MappedSystemVa), 24);
    assert_eq!(offset_of!(MDL, StartVa), 32);
    assert_eq!(offset_of!(MDL, ByteCount), 40);
    assert_eq!(offset_of!(MDL, ByteOffset), 44);
    assert_eq!((size_of::<CM_PARTIAL_RESOURCE_DESCRIPTOR>(), align_of::<CM_PARTIAL_RESOURCE_DESCRIPTOR>()), (20, 4));
    assert_eq!(offset_of!(CM_PARTIAL_RESOURCE_DESCRIPTOR, Flags), 2);
    assert_eq!(offset_of!(CM_PARTIAL_RESOURCE_DESCRIPTOR, u), 4);
    assert_eq!(size_of::<CM_PARTIAL_RESOURCE_DESCRIPTOR_U>(), 16);
    assert_eq!(size_of::<CM_MEMORY_RESOURCE>(), 12);
    assert_eq!(offset_of!(CM_MEMORY_RESOURCE, Length), 8);
    assert_eq!(size_of::<CM_MESSAGE_INTERRUPT_RESOURCE>(), 16);
    assert_eq!(offset_of!(CM_MESSAGE_INTERRUPT_RESOURCE, Vector), 4);
    assert_eq!(offset_of!(CM_MESSAGE_INTERRUPT_RESOURCE, Affinity), 8);
    assert_eq!(offset_of!(CM_RESOURCE_LIST, InterfaceType), 4);
    assert_eq!(offset_of!(CM_RESOURCE_LIST, BusNumber), 8);
    assert_eq!(offset_of!(CM_RESOURCE_LIST, Version), 12);
    assert_eq!(offset_of!(CM_RESOURCE_LIST, Revision), 14);
    assert_eq!(offset_of!(CM_RESOURCE_LIST, PartialCount), 16);
    assert_eq!(offset_of!(CM_RESOURCE_LIST, PartialDescriptors), 20);
    assert_eq!((size_of::<QUERY_INTERFACE>(), align_of::<QUERY_INTERFACE>()), (40, 8));
    assert_eq!(offset_of!(QUERY_INTERFACE, Size), 8);
    assert_eq!(offset_of!(QUERY_INTERFACE, Version), 10);
    assert_eq!(offset_of!(QUERY_INTERFACE, Interface), 16);
    assert_eq!(offset_of!(QUERY_INTERFACE, InterfaceSpecificData), 24);
    assert_eq!(offset_of!(QUERY_INTERFACE, DeviceUid), 32);
    assert_eq!((size_of::<EVENT_DESCRIPTOR>(), align_of::<EVENT_DESCRIPTOR>()), (16, 8));
    assert_eq!((size_of::<EVENT_DATA_DESCRIPTOR>(), align_of::<EVENT_DATA_DESCRIPTOR>()), (16, 8));
    assert_eq!(offset_of!(EVENT_DATA_DESCRIPTOR, Size), 8);
    assert_eq!(offset_of!(EVENT_DATA_DESCRIPTOR, Type), 12);
    type Value = KEY_VALUE_PARTIAL_INFORMATION<4>;
    assert_eq!((size_of::<Value>(), align_of::<Value>()), (16, 4));
    assert_eq!([offset_of!(Value, TitleIndex), offset_of!(Value, Type)], [0, 4]);
    assert_eq!([offset_of!(Value, DataLength), offset_of!(Value, Data)], [8, 12]);
    assert_eq!((size_of::<IO_STATUS_BLOCK>(), offset_of!(IO_STATUS_BLOCK, Information)), (16, 8));
    assert_eq!((size_of::<CLIENT_ID>(), offset_of!(CLIENT_ID, UniqueThread)), (16, 8));
    assert_eq!((size_of::<EXCEPTION_RECORD>(), align_of::<EXCEPTION_RECORD>()), (152, 8));
    assert_eq!(offset_of!(EXCEPTION_RECORD, NumberParameters), 24);
    assert_eq!(offset_of!(EXCEPTION_RECORD, ExceptionInformation), 32);
    assert_eq!((size_of::<NTSTATUS>(), align_of::<NTSTATUS>()), (4, 4));
}

#[test]
fn base_constants_have_the_values_of_the_windows_headers() {
    use wddm_ddi::{nt, status};
    let flags = [nt::POOL_FLAG_NON_PAGED, nt::POOL_FLAG_RAISE_ON_FAILURE, nt::POOL_FLAG_UNINITIALIZED];
    assert_eq!(flags, [0x40, 0x20, 0x2]);
    assert_eq!((nt::PASSIVE_LEVEL, nt::APC_LEVEL, nt::DISPATCH_LEVEL), (0, 1, 2));
    assert_eq!((nt::DPFLTR_VIDEO_ID, nt::DPFLTR_ERROR_LEVEL, nt::DPFLTR_INFO_LEVEL), (27, 0, 3));
    assert_eq!(DISPLAY_ADAPTER_HW_ID, u32::MAX);
    assert_eq!([PCI_USE_SUBSYSTEM_IDS, PCI_USE_REVISION, PCI_USE_VENDEV_IDS, PCI_USE_CLASS_SUBCLASS], [1, 2, 4, 8]);
    assert_eq!([PCI_USE_PROGIF, PCI_USE_LOCAL_BUS, PCI_USE_LOCAL_DEVICE], [0x10, 0x20, 0x40]);
    // CTL_CODE(FILE_DEVICE_VIDEO, 0xf, METHOD_NEITHER, FILE_ANY_ACCESS)
    assert_eq!(
        [nt::PLUGPLAY_REGKEY_DEVICE, nt::PLUGPLAY_REGKEY_DRIVER, nt::PLUGPLAY_REGKEY_CURRENT_HWPROFILE],
        [1, 2, 4]
    );
    assert_eq!((nt::KEY_QUERY_VALUE, nt::REG_DWORD, nt::EXCEPTION_NONCONTINUABLE), (1, 4, 1));
    assert_eq!(
        [
            nt::KEY_VALUE_BASIC_INFORMATION_CLASS,
            nt::KEY_VALUE_FULL_INFORMATION_CLASS,
            nt::KEY_VALUE_PARTIAL_INFORMATION_CLASS
        ],
        [0, 1, 2]
    );
    assert_eq!(nt::IOCTL_VIDEO_DDI_FUNC_REGISTER, 0x23 << 16 | 0xf << 2 | 3);
    assert_eq!(nt::IOCTL_VIDEO_DDI_FUNC_REGISTER_WINDOWS_8, 0x23 << 16 | 0x11 << 2 | 3);
    for (status, value) in [
        (status::STATUS_SUCCESS, 0),
        (status::STATUS_PENDING, 0x103),
        (status::STATUS_TIMEOUT, 0x102),
        (status::STATUS_BUFFER_TOO_SMALL, 0xc000_0023),
        (status::STATUS_INVALID_PARAMETER, 0xc000_000d),
        (status::STATUS_PROCEDURE_NOT_FOUND, 0xc000_007a),
        (status::STATUS_NOT_SUPPORTED, 0xc000_00bb),
        (status::STATUS_REVISION_MISMATCH, 0xc000_0059),
        (status::STATUS_DEVICE_REMOVED, 0xc000_02b6),
        (status::STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER, 0xc01e_0001),
        (status::STATUS_GRAPHICS_NO_VIDEO_MEMORY, 0xc01e_0100),
        (status::STATUS_GRAPHICS_ALLOCATION_BUSY, 0xc01e_0102),
    ] {
        assert_eq!(status.0 as u32, value, "{status}");
    }
}
