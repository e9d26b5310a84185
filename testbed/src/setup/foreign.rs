//! What setup writes to the registry for a driver that somebody else has made: what its own INF file says, if one lies beside the image; else what the image's version
//! resource says; else the name of the file. [inf-ddinstall-section, inf-addservice-directive, inf-addreg-directive]

use std::fs;
use std::path::Path;

use campanile_inf::image::{file_version, version_text};
use campanile_inf::inf::{Inf, InfLine, Section};
use dxgkrnl::{Image, Installation, RegistryKey, RegistryValue};

use crate::image_file;

/// Largest INF file that is read, in bytes.
const INF_MAX: usize = 1 << 20;

/// Flags of AddReg for the types of values. [inf-addreg-directive]
const REG_SZ: u32 = 0;
const REG_MULTI_SZ: u32 = 0x0001_0000;
const REG_DWORD: u32 = 0x0001_0001;

/// The keys of the driver whose image this is.
pub(super) fn installation(image: &Path) -> Installation {
    let file = image.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    inf_beside(image, &file).unwrap_or_else(|| without_inf(image, &file))
}

/// The keys of a driver that has no INF file here.
fn without_inf(image: &Path, file: &str) -> Installation {
    let bytes = image_file::read(image, Image::FILE_MAX).unwrap_or_default();
    let text = |name: &str| version_text(&bytes, name).ok().filter(|text| !text.is_empty());
    let description = text("FileDescription").unwrap_or_else(|| format!("{file}, a driver without INF file"));
    let version = file_version(&bytes).map_or_else(|_| "0.0.0.0".to_owned(), dotted);
    let software = RegistryKey::default()
        .with_text("DriverDesc", &description)
        .with_text("ProviderName", &text("CompanyName").unwrap_or_else(|| "unknown".to_owned()))
        .with_text("DriverVersion", &version)
        .with_text("HardwareInformation.AdapterString", &description)
        .with_text("HardwareInformation.ChipType", &description);
    Installation { software, service: service(&description, [1, 3, 0]) }
}

fn dotted(version: [u16; 4]) -> String {
    version.map(|field| field.to_string()).join(".")
}

fn service(name: &str, [kind, start, control]: [u32; 3]) -> RegistryKey {
    RegistryKey::default()
        .with_text("DisplayName", name)
        .with("Type", RegistryValue::Number(kind))
        .with("Start", RegistryValue::Number(start))
        .with("ErrorControl", RegistryValue::Number(control))
}

/// The keys as the first INF file beside the image writes them that installs it, by name.
fn inf_beside(image: &Path, file: &str) -> Option<Installation> {
    let folder = image.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files: Vec<_> = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| {
        path.extension().is_some_and(|end| end.eq_ignore_ascii_case("inf") || end.eq_ignore_ascii_case("inx"))
    });
    files.sort();
    files.iter().find_map(|path| {
        let bytes = image_file::read(path, INF_MAX).ok()?;
        of_inf(&Inf::parse(&text(&bytes)).ok()?, file)
    })
}

/// The text of an INF file, which is UTF-16 with a byte order mark, or ASCII and its kin.
fn text(bytes: &[u8]) -> String {
    let Some(units) = bytes.strip_prefix(&[0xff, 0xfe]) else { return String::from_utf8_lossy(bytes).into_owned() };
    let units: Vec<u16> = units.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    String::from_utf16_lossy(&units)
}

/// The keys that an INF file writes for its first device; `None` if no service of it is this file.
fn of_inf(inf: &Inf, file: &str) -> Option<Installation> {
    let runs = |section: &&Section| {
        let binary = section.value("ServiceBinary");
        binary.rsplit(['\\', '/']).next().is_some_and(|name| name.eq_ignore_ascii_case(file))
    };
    let of_service = inf.sections.iter().find(runs)?;
    let model = first_model(inf)?;
    let install = model.field(0);
    let description = inf.expand(model.key.as_deref().unwrap_or_default());
    let version = inf.section("Version")?;
    let numbers = version.with("DriverVer").next().map_or("", |line| line.field(1));
    let mut software = RegistryKey::default()
        .with_text("DriverDesc", &description)
        .with_text("ProviderName", &inf.expand(version.value("Provider")))
        .with_text("DriverVersion", if numbers.is_empty() { "0.0.0.0" } else { numbers })
        .with_text("InfSection", install);
    for line in added(inf, install) {
        software = match value(inf, line) {
            Some((name, value)) => software.with(name, value),
            None => software,
        };
    }
    let of = |key: &str, usual| number(&inf.expand(of_service.value(key))).unwrap_or(usual);
    let name = inf.expand(of_service.value("DisplayName"));
    let name = if name.is_empty() { &description } else { &name };
    let service = service(name, [of("ServiceType", 1), of("StartType", 3), of("ErrorControl", 0)]);
    Some(Installation { software, service })
}

/// The first device of the first manufacturer.
fn first_model(inf: &Inf) -> Option<&InfLine> {
    let line = inf.section("Manufacturer")?.lines.first()?;
    let (base, decorations) = line.fields.split_first()?;
    let decorated = decorations.iter().map(|decoration| format!("{base}.{decoration}"));
    let mut sections = decorated.chain([base.clone()]).filter_map(|name| inf.section(&name));
    sections.find_map(|section| section.lines.iter().find(|line| line.key.is_some()))
}

/// What the AddReg directives of an install section name, with its decorations or without.
fn added<'a>(inf: &'a Inf, install: &str) -> impl Iterator<Item = &'a InfLine> {
    let names = [".NTamd64", ".NT", ""].map(|end| format!("{install}{end}"));
    let section = names.iter().find_map(|name| inf.section(name));
    let lists = section.into_iter().flat_map(|section| section.with("AddReg"));
    lists.flat_map(|list| &list.fields).filter_map(|name| inf.section(name)).flat_map(|section| &section.lines)
}

/// Name and value of a line `HKR,, name, flags, value` for the software key itself.
fn value<'a>(inf: &Inf, line: &'a InfLine) -> Option<(&'a str, RegistryValue)> {
    if !line.field(0).eq_ignore_ascii_case("HKR") || !line.field(1).is_empty() || line.field(2).is_empty() {
        return None;
    }
    let text = |field: &String| inf.expand(field);
    let value = match number(&inf.expand(line.field(3))).unwrap_or(REG_SZ) {
        REG_SZ => RegistryValue::Text(inf.expand(line.field(4))),
        REG_DWORD => RegistryValue::Number(number(&inf.expand(line.field(4)))?),
        REG_MULTI_SZ => RegistryValue::Texts(line.fields.iter().skip(4).map(text).collect()),
        _ => return None,
    };
    Some((line.field(2), value))
}

/// A number, decimal or hexadecimal.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: &str = r#"; An INF file of another vendor.
[Version]
Signature = "$Windows NT$"
Provider = %Maker%
DriverVer = 01/02/2026, 31.0.101.5333
[Manufacturer]
%Maker% = Devices, NTamd64.10.0
[Devices.NTamd64.10.0]
%Name% = Some_Install, PCI\VEN_1234&DEV_CAFE
"Another device" = Other_Install, PCI\VEN_1234&DEV_CAFF
[Some_Install.NTamd64]
AddReg = Some.Software, Some.More
[Other_Install.NTamd64]
AddReg = Other.Software
[Some.Software]
HKR,, UserModeDriverName, %REG_MULTI_SZ%, some_umd.dll, some_umd.dll
HKR,, HardwareInformation.AdapterString,, %Name%
HKR, Sub, Elsewhere,, ignored
[Some.More]
HKR,, Number, 0x00010001, 0x2a
HKLM,, Machine,, ignored
[Other.Software]
HKR,, Foreign,, ignored
[Some_Install.NTamd64.Services]
AddService = some, 2, Some_Service
[Some_Service]
DisplayName = %Name%
ServiceType = 1
StartType = %Demand%
ErrorControl = 1
ServiceBinary = %13%\some.sys
[Strings]
Maker = "Maker Inc."
Name = "Maker's NPU"
REG_MULTI_SZ = 0x00010000
"#;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("campanile-foreign-keys-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn software(installed: &Installation, name: &str) -> String {
        installed.software.text(name).unwrap_or_else(|| panic!("no {name}"))
    }

    #[test]
    fn an_inf_file_beside_the_image_that_installs_it_says_what_is_written() {
        let folder = folder("inf");
        // Of another driver, and of none; as Windows likes INF files best, in UTF-16.
        fs::write(folder.join("a.inf"), INF.replace("some.sys", "other.sys")).unwrap();
        fs::write(folder.join("b.inf"), "[Version\n").unwrap();
        let units = INF.encode_utf16().flat_map(u16::to_le_bytes);
        fs::write(folder.join("c.INF"), [0xff, 0xfe].into_iter().chain(units).collect::<Vec<u8>>()).unwrap();
        let installed = installation(&folder.join("Some.sys"));
        for (name, text) in [
            ("DriverDesc", "Maker's NPU"),
            ("ProviderName", "Maker Inc."),
            ("DriverVersion", "31.0.101.5333"),
            ("InfSection", "Some_Install"),
            ("HardwareInformation.AdapterString", "Maker's NPU"),
        ] {
            assert_eq!(software(&installed, name), text, "{name}");
        }
        let names = RegistryValue::Texts(vec!["some_umd.dll".to_owned(); 2]);
        assert_eq!(installed.software.get("UserModeDriverName"), Some(names));
        assert_eq!(installed.software.get("Number"), Some(RegistryValue::Number(42)));
        for absent in ["Elsewhere", "Machine", "Foreign", "HardwareInformation.ChipType"] {
            assert_eq!(installed.software.get(absent), None, "{absent}");
        }
        assert_eq!(installed.service.text("DisplayName").as_deref(), Some("Maker's NPU"));
        assert_eq!(installed.service.get("ErrorControl"), Some(RegistryValue::Number(1)));
        assert_eq!(installed.service.get("Start"), Some(RegistryValue::Number(3)), "what is no number is the usual");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_driver_without_both_is_named_by_its_file_and_by_nothing_of_this_project() {
        let folder = folder("none");
        fs::write(folder.join("bare.sys"), "no image").unwrap();
        for file in ["bare.sys", "missing.sys"] {
            let installed = installation(&folder.join(file));
            assert_eq!(software(&installed, "DriverDesc"), format!("{file}, a driver without INF file"));
            assert_eq!(software(&installed, "DriverVersion"), "0.0.0.0");
            for name in ["ProviderName", "HardwareInformation.AdapterString", "HardwareInformation.ChipType"] {
                assert!(!software(&installed, name).to_lowercase().contains("campanile"), "{name}");
            }
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
