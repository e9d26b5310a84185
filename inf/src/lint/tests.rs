use super::*;
use crate::package::{IMAGES, hardware_ids, stamp};

const VERSION: [u16; 4] = [32, 0, 1, 0];

/// The INF of the repository, stamped.
fn good() -> String {
    let source =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/campanile.inx")).expect("the INF is there");
    stamp(&source, time::macros::date!(2026 - 11 - 22), VERSION)
}

fn package() -> Package {
    let names = ["campanile.inf", "campanile.cat", "campanile_kmd.pdb", "campanile_vulkan.json", "hlk.exe"]
        .into_iter()
        .chain(IMAGES);
    let versions = IMAGES.map(|image| (image.to_owned(), VERSION));
    let exports = [("campanile_umd.dll".to_owned(), BTreeSet::from(["campanile_submit".to_owned()]))];
    Package {
        files: names.map(str::to_owned).collect(),
        versions: versions.into(),
        exports: exports.into(),
        hardware_ids: hardware_ids().into(),
    }
}

/// Rules that `text` breaks.
fn broken(text: &str, package: &Package) -> BTreeSet<Rule> {
    lint(text, package).expect("it can be read").into_iter().map(|finding| finding.rule).collect()
}

#[test]
fn the_inf_of_this_repository_breaks_no_rule() {
    assert_eq!(lint(&good(), &package()), Ok(Vec::new()));
}

#[test]
fn the_inf_names_the_device_as_the_silicon_identifies_itself() {
    use campanile_hw::pci;
    let device = format!("PCI\\VEN_{:04X}&DEV_{:04X}", pci::VENDOR_ID, pci::DEVICE_ID);
    let subsystem = u32::from(pci::SUBSYSTEM_ID) << 16 | u32::from(pci::SUBSYSTEM_VENDOR_ID);
    let longest = format!("{device}&SUBSYS_{subsystem:08X}&REV_{:02X}", pci::REVISION_ID);
    assert_eq!(hardware_ids(), [longest, device]);
}

/// The last line of the section that installs the device.
const SCORE: &str = "FeatureScore = FF\n";

/// The DLL registered for the four runtimes of Direct3D.
const REGISTERED: &str = "FeatureScore = FF\nAddReg = Software\n[Software]\nHKR,, UserModeDriverName, 0x00010000, \
     %13%\\campanile_umd.dll, %13%\\campanile_umd.dll, %13%\\campanile_umd.dll, %13%\\campanile_umd.dll\n\
     HKR,, InstalledDisplayDrivers, 0x00010000, campanile_umd\n";

/// A change of the good INF, and the one rule that it must break.
const CHANGES: &[(Rule, &str, &str)] = &[
    (Rule::Version, "$Windows NT$", "$Windows 95$"),
    (Rule::Version, "Provider    = %Provider%", "Provider    ="),
    (Rule::Version, "PnpLockdown = 1", "PnpLockdown = 0"),
    (Rule::Class, "ComputeAccelerator", "Display"),
    (Rule::Class, "{F01A9D53", "{4D36E968"),
    (Rule::DriverVer, "11/22/2026", "02/30/2026"),
    (Rule::DriverVer, "11/22/2026", "1/1/2026"),
    (Rule::DriverVer, ",32.0.1.0", ""),
    (Rule::DriverVer, ",32.0.1.0", ",32.0.1"),
    (Rule::FileVersion, "32.0.1.0", "32.0.1.1"),
    (Rule::MissingSection, "CopyFiles    = Campanile.Files", "CopyFiles    = Campanile.Files, Campanile.More"),
    (Rule::UnusedSection, "[SourceDisksNames]", "[Forgotten]\nx = 1\n[SourceDisksNames]"),
    (Rule::RepeatedSection, "[SourceDisksNames]", "[campanile.hw]\n[SourceDisksNames]"),
    (Rule::Strings, "%Disk%", "%Disc%"),
    (Rule::Strings, "[Strings]", "[Strings]\nUnused = \"x\""),
    (Rule::Strings, "[Strings]", "[Strings]\nDisk = \"x\""),
    (Rule::Decoration, "26100", "16299"),
    (Rule::HardwareId, "DEV_0032\n", "DEV_0033\n"),
    (Rule::Files, "campanile_umd.dll = 1", "campanile_umd.dll = 2"),
    (Rule::Files, "[SourceDisksFiles]", "[SourceDisksFiles]\nanother.sys = 1"),
    (Rule::Files, "[Campanile.Files]", "[Campanile.Files]\nanother.sys"),
    (Rule::DriverStore, "DefaultDestDir = 13", "DefaultDestDir = 12"),
    (Rule::DriverStore, "DefaultDestDir = 13", "Campanile.Files = 13"),
    (Rule::DriverStore, "%13%\\campanile_kmd.sys", "%11%\\campanile_kmd.sys"),
    (Rule::Service, "StartType     = 3", "StartType     = 0"),
    (Rule::Service, "ServiceType   = 1", "ServiceType   = 2"),
    (Rule::Service, "ErrorControl  = 0", "ErrorControl  = 3"),
    (Rule::Service, "0x00000002, Campanile.Service", "0x00000000, Campanile.Service"),
    (Rule::Service, "AddService = campanile_kmd", "AddService = campanile"),
    (Rule::Service, "%13%\\campanile_kmd.sys", "%13%\\campanile_kernel.sys"),
    (Rule::FeatureScore, "FeatureScore = FF", "FeatureScore = 255"),
    (Rule::FeatureScore, "FeatureScore = FF", ""),
    (Rule::UserModeDriver, SCORE, REGISTERED),
    (
        Rule::UserModeDriver,
        SCORE,
        "AddReg = Software\n[Software]\nHKR,, UserModeDriverNameWow, 0x00010000, %13%\\campanile_umd.dll\n",
    ),
    (
        Rule::UserModeDriver,
        SCORE,
        "AddReg = Software\n[Software]\nHKR,, InstalledDisplayDrivers, 0x00010000, campanile_umd\n",
    ),
    (Rule::Interrupts, "MSISupported, 0x00010001, 1", "MSISupported, 0x00010001, 0"),
    (Rule::Registry, "HKR, \"Interrupt Management\",,", "HKLM, \"Interrupt Management\",,"),
    (Rule::Registry, "[Campanile.Hardware]", "[Campanile.Hardware]\nHKR, \"Features\\37\", Enabled, 0x00010001, 1"),
    (Rule::Hyphen, "campanile_kmd, 0x", "campanile-kmd, 0x"),
    (Rule::Ascii, "Campanile GPU", "Campanile \u{2122} GPU"),
];

#[test]
fn every_rule_finds_what_breaks_it() {
    let mut seen = BTreeSet::new();
    for (rule, from, to) in CHANGES {
        let text = good().replace(from, to);
        assert_ne!(text, good(), "{from} is not in the INF");
        let broken = broken(&text, &package());
        assert!(broken.contains(rule), "{from} -> {to}: {rule:?} is not among {broken:?}");
        seen.insert(*rule);
    }
    // A change of the folder breaks this one, below.
    seen.insert(Rule::Folder);
    assert_eq!(seen, Rule::ALL.into(), "a rule without a case that breaks it");
}

#[test]
fn the_folder_holds_every_installed_file_and_nothing_strange() {
    for missing in ["campanile_kmd.sys", "campanile_umd.dll", "campanile.inf", "campanile.cat"] {
        let mut package = package();
        package.files.remove(missing);
        assert_eq!(broken(&good(), &package), [Rule::Folder].into(), "{missing}");
    }
    for strange in ["readme.txt", "other.cat", "second.inf", "key.pem", "setup.exe", "campanile_kmd.map"] {
        let mut package = package();
        package.files.insert(strange.to_owned());
        assert_eq!(broken(&good(), &package), [Rule::Folder].into(), "{strange}");
    }
}

/// The page: the runtime loads the DLL that UserModeDriverName gives it, and calls its function OpenAdapter by the table of exports.
#[test]
fn a_runtime_of_direct3d_finds_its_function_in_the_dll_that_is_registered_for_it() {
    let text = good().replace(SCORE, REGISTERED);
    let functions = ["OpenAdapter", "OpenAdapter10_2", "OpenAdapter12"].map(str::to_owned);
    let with = |exports: &[String]| {
        let mut package = package();
        package.exports.insert("campanile_umd.dll".to_owned(), exports.iter().cloned().collect());
        package
    };
    assert_eq!(lint(&text, &with(&functions)), Ok(Vec::new()));
    for lacking in 0..functions.len() {
        let mut others = functions.to_vec();
        let lacking = others.remove(lacking);
        let findings = lint(&text, &with(&others)).unwrap();
        let named = findings.iter().any(|finding| finding.text.contains(&lacking));
        assert!(findings.iter().all(|finding| finding.rule == Rule::UserModeDriver) && named, "{findings:?}");
    }
    for (from, to) in [
        (" %13%\\campanile_umd.dll,", ""),
        ("UserModeDriverName, 0x00010000", "UserModeDriverName, 0x00000000"),
        ("0x00010000, campanile_umd\n", "0x00010000, campanile_umd.dll\n"),
        ("0x00010000, campanile_umd\n", "0x00000000, campanile_umd\n"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from} is not in the INF");
        assert_eq!(broken(&changed, &with(&functions)), [Rule::UserModeDriver].into(), "{from} -> {to}");
    }
}

#[test]
fn an_image_of_another_version_or_one_that_is_not_copied_is_found() {
    let mut other = package();
    other.versions.insert("campanile_umd.dll".to_owned(), [32, 0, 0, 9]);
    assert_eq!(broken(&good(), &other), [Rule::FileVersion].into());
    let mut third = package();
    third.versions.insert("third.dll".to_owned(), VERSION);
    assert_eq!(broken(&good(), &third), [Rule::Files].into());
}

#[test]
fn a_finding_reads_as_a_sentence_with_its_line() {
    let findings = lint(&good().replace("DefaultDestDir = 13", "DefaultDestDir = 12"), &package()).unwrap();
    let line = good().lines().position(|line| line.starts_with("DefaultDestDir")).unwrap() + 1;
    let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(texts, [format!("line {line}: DriverStore: the folder is not the driver store, 13")]);
}
