//! The comparison against headers that are written here: equal ones agree, and every kind of difference is named.
//!
//! All of this runs bindgen, so it needs libclang; without it every test fails with the sentence that says what to install.

mod synthetic;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ddi_layout::Facts;
use ddi_layout::facts::Row;
use wddm_ddi_kit::{Agreement, Declared, Disagreement, Error, Failure, Headers, Kit, compare, kits, script};

static DECLARED: LazyLock<Declared> = LazyLock::new(|| Declared::measure().expect("the exceptions are well formed"));

fn facts() -> Facts {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/ddi-layout.json");
    let text = std::fs::read_to_string(table).expect("the table of facts is there");
    Facts::from_text(&text).expect("the table is well formed")
}

/// Facts with one or more changes.
fn changed(change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = facts();
    change(&mut facts);
    facts
}

fn row<'a>(facts: &'a mut Facts, owner: &str, name: &str) -> &'a mut Row {
    let of = facts.types.get_mut(owner).expect("the type is in the table");
    of.rows.iter_mut().find(|row| row.name == name).expect("the member is in the table")
}

/// Compares with headers in which `header` stands where the kit's text would.
#[track_caller]
fn outcome(header: &str) -> Result<Agreement, Disagreement> {
    let read = Headers::default().read(header, &DECLARED).unwrap_or_else(|error| panic!("{error}"));
    match compare(&read.bindings, &DECLARED) {
        Ok(agreement) => Ok(agreement),
        Err(Failure::Differs(disagreement)) => Err(disagreement),
        Err(failure) => panic!("{failure}"),
    }
}

/// The texts of all differences, in order.
#[track_caller]
fn differences(header: &str) -> Vec<String> {
    let disagreement = outcome(header).expect_err("the headers differ");
    disagreement.differences.iter().map(ToString::to_string).collect()
}

fn kit(name: &str) -> &'static Kit {
    let all = kits().expect("kits.json is well formed");
    all.iter().find(|kit| kit.name == name).expect("the kit is known")
}

/// Facts of another kit.
fn facts_of(kit: &Kit) -> Facts {
    changed(|facts| {
        for (name, of) in kit.types() {
            facts.types.insert(name.to_owned(), of.clone());
        }
        for (name, value) in kit.constants() {
            facts.constants.insert(name.to_owned(), value);
        }
        for (owner, name, value) in kit.values() {
            facts.enums.entry(owner.to_owned()).or_default().insert(name.to_owned(), value);
        }
    })
}

#[test]
fn headers_that_say_the_same_agree_in_every_declaration() {
    let agreement = outcome(&synthetic::header(&facts())).unwrap_or_else(|differs| panic!("{differs}"));
    assert_eq!((agreement.kit.name.as_str(), &agreement.kit.cfg), ("10.0.26100", &None));
    assert!(agreement.news.is_empty(), "{:?}", agreement.news);

    let measured = &DECLARED.measured;
    let types = measured.records.len() + measured.enumerations.len() + measured.typedefs.len() + DECLARED.base.len();
    let fields = measured.records.iter().map(|record| record.fields.len()).sum::<usize>()
        + DECLARED.base.iter().map(|base| base.fields.len()).sum::<usize>();
    let bits: usize = measured.records.iter().map(|record| record.bits.len()).sum();
    let values = measured.enumerations.iter().map(|enumeration| enumeration.values.len()).sum::<usize>()
        + measured.constants.len()
        + measured.guids.len();
    let counts = agreement.counts;
    assert_eq!((counts.types, counts.fields, counts.bits, counts.values), (types, fields, bits, values));
    assert!(types > 300 && fields > 1400 && bits > 500 && values > 600, "{counts}");
}

#[test]
fn the_first_difference_names_the_item_and_both_sides() {
    let facts = changed(|facts| row(facts, "DXGKARG_CREATEDOORBELL", "Flags").offset = 52);
    let disagreement = outcome(&synthetic::header(&facts)).expect_err("the headers differ");
    assert_eq!(
        disagreement.to_string(),
        "DXGKARG_CREATEDOORBELL.Flags: wddm-ddi says offset 48, the kit's header says 52"
    );
    assert_eq!(disagreement.kit.map(|kit| kit.name.as_str()), Some("10.0.26100"));
}

/// One of each kind, and what is said of it. The order is that of the declarations.
#[test]
fn every_kind_of_difference_is_named() {
    let facts = changed(|facts| {
        // A whole type: gone, larger, aligned otherwise.
        facts.types.remove("DXGKARG_DISCONNECTDOORBELL");
        facts.types.get_mut("DXGKARG_DESTROYDOORBELL").expect("in the table").size = 16;
        facts.types.get_mut("DXGK_SEGMENTDESCRIPTOR4").expect("in the table").align = 16;
        // Members: moved, of another width, renamed, gone, added, in a slot of a table, in an arm of a union.
        row(facts, "DXGKARG_CREATEDOORBELL", "Flags").offset = 52;
        row(facts, "DXGK_NATIVE_FENCE_CAPS", "MonitoredValueStride").name = "MonitoredValuePitch".into();
        *row(facts, "DXGKARG_HISTORYBUFFERPRECISION", "PrecisionBits") = whole("PrecisionBits", 0, 2, "USHORT");
        remove(facts, "DXGKARG_CONNECTDOORBELL", "Status");
        add(facts, "DXGKARG_DISCONNECTDOORBELL_FLAGS", bits("Quietly", 0, 1));
        *row(facts, "DXGKARG_DISCONNECTDOORBELL_FLAGS", "Reserved") = bits("Reserved", 1, 31);
        row(facts, "DRIVER_INITIALIZATION_DATA", "DxgkDdiCreateDoorbell").name = "DxgkDdiCreateBell".into();
        row(facts, "DXGKARGCB_NOTIFY_INTERRUPT_DATA", "NativeFenceSignaled.hHWQueue").name =
            "NativeFenceSignaled.hQueue".into();
        // Bit fields: moved, wider, renamed, no bit field any more.
        row(facts, "DXGK_VIDSCHCAPS", "NativeGpuFence").bits = Some((12, 1));
        row(facts, "DXGK_VIDSCHCAPS", "OptimizedNativeFenceSignaledInterrupt").bits = Some((13, 2));
        row(facts, "DXGK_VIDSCHCAPS", "Reserved").bits = Some((15, 17));
        row(facts, "DXGK_IOMMU_CAPS", "IommuIsolationRequired").name = "IsolationRequired".into();
        facts.types.get_mut("DXGK_GAMMARAMPCAPS").expect("in the table").rows =
            vec![whole("Gamma_Rgb256x3x16", 0, 4, "UINT")];
        // Values: another number, gone, an enumeration's, a constant's, a status, a GUID.
        let interrupts = facts.enums.get_mut("DXGK_INTERRUPT_TYPE").expect("in the table");
        interrupts.insert("DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED".into(), 21);
        interrupts.remove("DXGK_INTERRUPT_DMA_COMPLETED");
        facts.constants.insert("D3DDDI_NATIVE_FENCE_PDD_SIZE".into(), 128);
        facts.constants.remove("DXGK_MAX_DOORBELL_SIZE_BYTES");
        facts.guids.insert("GUID_WDDM_INTERFACE_FEATURE".into(), "94bb3993-c6c3-4da7-8949-a1138232e750".into());
    });
    let header = synthetic::header(&facts)
        .replace("#define STATUS_TIMEOUT ", "#define STATUS_TIME_OUT ")
        .replace("DPFLTR_VIDEO_ID = 27", "DPFLTR_VIDEO_ID = 28")
        .replace("short Size; short MdlFlags;", "int Size; short MdlFlags;");
    assert_eq!(
        differences(&header),
        [
            "DXGK_NATIVE_FENCE_CAPS.MonitoredValueStride: wddm-ddi says offset 0, the kit's header has no such name, but MonitoredValuePitch in that place",
            "DXGK_IOMMU_CAPS.IommuIsolationRequired: wddm-ddi says bit 1 at offset 0, the kit's header has no such name, but IsolationRequired in that place",
            "DXGKARG_HISTORYBUFFERPRECISION.PrecisionBits: wddm-ddi says size 4, the kit's header says 2",
            "DXGKARG_CREATEDOORBELL.Flags: wddm-ddi says offset 48, the kit's header says 52",
            "DXGKARG_CONNECTDOORBELL.Status: wddm-ddi says offset 32, the kit's header has no such name",
            "DXGKARG_DISCONNECTDOORBELL_FLAGS.Reserved: wddm-ddi says bits 0 to 31 at offset 0, the kit's header says bits 1 to 31 at offset 0",
            "DXGKARG_DISCONNECTDOORBELL_FLAGS.Quietly: wddm-ddi has no such name, the kit's header says bit 0 at offset 0",
            "DXGKARG_DISCONNECTDOORBELL: wddm-ddi says size 16, the kit's header has no such name",
            "DXGKARG_DESTROYDOORBELL: wddm-ddi says size 8, the kit's header says 16",
            "DXGK_GAMMARAMPCAPS.Gamma_Rgb256x3x16: wddm-ddi says bit 0 at offset 0, the kit's header says 4 bytes at offset 0",
            "DXGK_GAMMARAMPCAPS.Reserved: wddm-ddi says bits 1 to 31 at offset 0, the kit's header has no such name",
            "DXGK_VIDSCHCAPS.NativeGpuFence: wddm-ddi says bit 11 at offset 0, the kit's header says bit 12 at offset 0",
            "DXGK_VIDSCHCAPS.OptimizedNativeFenceSignaledInterrupt: wddm-ddi says bit 12 at offset 0, the kit's header says bits 13 to 14 at offset 0",
            "DXGK_VIDSCHCAPS.Reserved: wddm-ddi says bits 13 to 31 at offset 0, the kit's header says bits 15 to 31 at offset 0",
            "DXGKARGCB_NOTIFY_INTERRUPT_DATA.NativeFenceSignaled.hHWQueue: wddm-ddi says offset 32, the kit's header has no such name, but NativeFenceSignaled.hQueue in that place",
            "DXGK_SEGMENTDESCRIPTOR4: wddm-ddi says alignment 8, the kit's header says 16",
            "DRIVER_INITIALIZATION_DATA.DxgkDdiCreateDoorbell: wddm-ddi says offset 1328, the kit's header has no such name, but DxgkDdiCreateBell in that place",
            "MDL.Size: wddm-ddi says size 2, the kit's header says 4",
            "MDL.MdlFlags: wddm-ddi says offset 10, the kit's header says 12",
            "DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_COMPLETED: wddm-ddi says value 1, the kit's header has no such name",
            "DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED: wddm-ddi says value 19 (0x13), the kit's header says 21 (0x15)",
            "DXGK_MAX_DOORBELL_SIZE_BYTES: wddm-ddi says value 16384 (0x4000), the kit's header has no such name",
            "D3DDDI_NATIVE_FENCE_PDD_SIZE: wddm-ddi says value 64 (0x40), the kit's header says 128 (0x80)",
            "DPFLTR_VIDEO_ID: wddm-ddi says value 27 (0x1b), the kit's header says 28 (0x1c)",
            "STATUS_TIMEOUT: wddm-ddi says value 258 (0x102), the kit's header has no such name",
            "GUID_WDDM_INTERFACE_FEATURE: wddm-ddi says value 94bb3993-c6c3-4da7-8949-a1138232e759, the kit's header says 94bb3993-c6c3-4da7-8949-a1138232e750",
        ]
    );
}

#[test]
fn a_scalar_name_of_another_width_is_named_after_what_it_moves() {
    let facts = changed(|facts| facts.typedefs.extend([("DXGK_FEATURE_VERSION".to_owned(), 1)]));
    let all = differences(&synthetic::header(&facts));
    assert_eq!(
        all.last().map(String::as_str),
        Some("DXGK_FEATURE_VERSION: wddm-ddi says size 2, the kit's header says 1")
    );
    assert!(all[0].contains("FEATURE"), "{}", all[0]);
}

/// A member that is no bit field.
fn whole(name: &str, offset: usize, size: usize, ty: &str) -> Row {
    Row { name: name.into(), offset, size, ty: ty.into(), bits: None }
}

/// A bit field in the first word.
fn bits(name: &str, first: u32, count: u32) -> Row {
    Row { name: name.into(), offset: 0, size: 4, ty: "UINT".into(), bits: Some((first, count)) }
}

fn remove(facts: &mut Facts, owner: &str, name: &str) {
    facts.types.get_mut(owner).expect("the type is in the table").rows.retain(|row| row.name != name);
}

fn add(facts: &mut Facts, owner: &str, row: Row) {
    facts.types.get_mut(owner).expect("the type is in the table").rows.insert(0, row);
}

#[test]
fn a_difference_between_kits_that_is_known_selects_an_option_instead() {
    let later = kit("10.0.28000");
    let agreement = outcome(&synthetic::header(&facts_of(later))).unwrap_or_else(|differs| panic!("{differs}"));
    assert_eq!((agreement.kit.name.as_str(), agreement.kit.cfg.as_deref()), ("10.0.28000", Some("wdk_28000")));
    assert!(agreement.news.is_empty(), "{:?}", agreement.news);
    assert!(later.types().count() >= 8 && later.values().count() >= 11);
}

#[test]
fn a_kit_that_mixes_what_is_known_of_two_is_refused() {
    let later = kit("10.0.28000");
    let mut facts = facts_of(later);
    let earlier = self::facts();
    for name in ["DXGKARG_CREATEDOORBELL", "DXGK_NATIVE_FENCE_CAPS"] {
        facts.types.insert(name.into(), earlier.types[name].clone());
    }
    facts.enums.get_mut("DXGK_PAGE_FAULT_FLAGS").expect("in the table").remove("DXGK_PAGE_FAULT_AND_STALL");
    assert_eq!(
        differences(&synthetic::header(&facts)),
        [
            "DXGK_NATIVE_FENCE_CAPS.MonitoredValuePadding: for kit 10.0.28000 wddm-ddi expects offset 0, the kit's header has no such name, but MonitoredValueStride in that place",
            "DXGKARG_CREATEDOORBELL.PrivateDriverDataSize: for kit 10.0.28000 wddm-ddi expects offset 8, the kit's header says 16",
            "DXGKARG_CREATEDOORBELL.PrivateDriverData: for kit 10.0.28000 wddm-ddi expects offset 16, the kit's header says 24",
            "DXGKARG_CREATEDOORBELL.hRingBuffer: for kit 10.0.28000 wddm-ddi expects offset 24, the kit's header says 32",
            "DXGKARG_CREATEDOORBELL.hRingBufferControl: for kit 10.0.28000 wddm-ddi expects offset 32, the kit's header says 40",
            "DXGKARG_CREATEDOORBELL.Flags: for kit 10.0.28000 wddm-ddi expects offset 40, the kit's header says 48",
            "DXGKARG_CREATEDOORBELL.hDoorbell: wddm-ddi has no such name, the kit's header says offset 8",
            "DXGKARG_CREATEDOORBELL: for kit 10.0.28000 wddm-ddi expects size 48, the kit's header says 56",
            "DXGK_PAGE_FAULT_FLAGS::DXGK_PAGE_FAULT_AND_STALL: for kit 10.0.28000 wddm-ddi expects value 256 (0x100), the kit's header has no such name",
        ]
    );
}

#[test]
fn a_kit_that_nobody_knows_is_named_with_those_that_are() {
    let mut facts = facts();
    facts.constants.insert("DXGKDDI_INTERFACE_VERSION_WDDM3_2".into(), 0x11009);
    let disagreement = outcome(&synthetic::header(&facts)).expect_err("the kit is not known");
    assert!(disagreement.kit.is_none());
    assert_eq!(
        disagreement.to_string(),
        "DXGKDDI_INTERFACE_VERSION_WDDM3_2: wddm-ddi says value 69639 (0x11007), the kit's header says 69641 (0x11009) \
         (known kits are 10.0.26100 with 0x11007 and 10.0.28000 with 0x11008; install one of them)"
    );
    facts.constants.remove("DXGKDDI_INTERFACE_VERSION_WDDM3_2");
    let all = differences(&synthetic::header(&facts));
    assert_eq!(all.len(), 1);
    assert!(all[0].contains("the kit's header has no such name (known kits are 10.0.26100"), "{}", all[0]);
}

#[test]
fn headers_that_a_later_revision_replaced_are_recognised() {
    let facts = changed(|facts| {
        let of = facts.types.get_mut("DXGKARG_OPENNATIVEFENCE").expect("in the table");
        of.rows.retain(|row| row.name != "pPrivateDriverData");
        let reserved = of.rows.iter_mut().find(|row| row.name == "Reserved").expect("in the table");
        (reserved.offset, of.size) = (44, 80);
    });
    let all = differences(&synthetic::header(&facts));
    assert!(all[0].starts_with("DXGKARG_OPENNATIVEFENCE.pPrivateDriverData: wddm-ddi says offset 44"), "{}", all[0]);
    assert!(
        all[0].ends_with(
            "(so have the headers of the first 10.0.26100 kit, of October 2024; install a later release of the kit)"
        ),
        "{}",
        all[0]
    );
}

#[test]
fn values_that_an_enumeration_gained_are_news_and_no_obstacle() {
    let facts = changed(|facts| {
        facts.enums.get_mut("DXGK_ENGINE_TYPE").expect("in the table").insert("DXGK_ENGINE_TYPE_NPU".into(), 99);
    });
    let agreement = outcome(&synthetic::header(&facts)).unwrap_or_else(|differs| panic!("{differs}"));
    assert_eq!(agreement.news, ["DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_NPU = 99 (0x63)"]);
}

#[test]
fn headers_that_do_not_compile_are_reported_in_the_words_of_clang() {
    let error = Headers::default().read("typedef DXGK_UNHEARD_OF x;\n#include <ntddk.h>\n", &DECLARED);
    let Err(Error::Headers(messages)) = error else { panic!("{error:?}") };
    assert!(messages.contains("ntddk.h' file not found") && messages.contains("DXGK_UNHEARD_OF"), "{messages}");
}

/// A folder with the headers that a kit has, all of them empty but one. Gone when the test is.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, header: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wddm-ddi-kit-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the system has a folder for such");
        for name in ["windef.h", "dispmprt.h", "d3dkmthk.h"] {
            std::fs::write(path.join(name), "#pragma once\n").expect("the folder can be written");
        }
        // Not all of Microsoft's headers are UTF-8.
        std::fs::write(path.join("ntddk.h"), b"// \xa9\n").expect("the folder can be written");
        std::fs::write(
            path.join("d3dkmddi.h"),
            format!("#if KERNEL == 2 && defined(_KERNEL_MODE)\n{header}\n#endif\n"),
        )
        .expect("the folder can be written");
        Self(path)
    }

    fn headers(&self) -> Headers {
        Headers {
            folders: vec![self.0.clone()],
            definitions: vec![("KERNEL".into(), Some("2".into())), ("_KERNEL_MODE".into(), None)],
            arguments: vec!["--warn-=no-everything".into()],
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind is no failure of the test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_build_script_sets_the_option_of_the_kit_and_watches_its_headers() {
    let mut facts = facts_of(kit("10.0.28000"));
    facts.enums.get_mut("DXGK_ENGINE_TYPE").expect("in the table").insert("DXGK_ENGINE_TYPE_NPU".into(), 99);
    let folder = Folder::new("later", &synthetic::header(&facts));
    let lines = script(&folder.headers()).unwrap_or_else(|error| panic!("{error}"));
    let (cfg, rest) = lines.split_first().expect("there are lines");
    assert_eq!(cfg, "cargo::rustc-cfg=wdk_28000");
    let (news, watched) = rest.split_last().expect("there are more lines");
    assert_eq!(
        news,
        "cargo::warning=the kit has DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_NPU = 99 (0x63), which wddm-ddi does not know"
    );
    for name in ["ntddk.h", "windef.h", "dispmprt.h", "d3dkmddi.h", "d3dkmthk.h"] {
        let line = format!("cargo::rerun-if-changed={}", folder.0.join(name).display());
        assert!(watched.contains(&line), "{watched:?}");
    }
    assert_eq!(watched.len(), 5);
}

#[test]
fn a_build_script_stops_with_the_first_difference_on_the_first_line() {
    let facts = changed(|facts| row(facts, "DXGKARG_CREATEDOORBELL", "Flags").offset = 52);
    let folder = Folder::new("other", &synthetic::header(&facts));
    let text = script(&folder.headers()).expect_err("the headers differ");
    assert_eq!(text, "DXGKARG_CREATEDOORBELL.Flags: wddm-ddi says offset 48, the kit's header says 52");
}

#[test]
fn the_build_script_declares_the_option_of_every_kit() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build.rs");
    let text = std::fs::read_to_string(path).expect("the build script is there");
    for cfg in kits().expect("kits.json is well formed").iter().filter_map(|kit| kit.cfg.as_ref()) {
        assert!(text.contains(&format!("cargo::rustc-check-cfg=cfg({cfg})")), "build.rs does not declare {cfg}");
    }
}
