//! The version resource of an image, as the linker takes it, written without a resource compiler.
//!
//! The build script of the images has this file too, so it depends on nothing.

/// Version of the package, of both images and of the INF, from the version of the crates.
///
/// Shipped WDDM drivers put the interface into the first field, 32 for WDDM 3.2, and the feature level of Direct3D into the second, of which a
/// compute-only driver has none. The third holds the crate's major and minor version, at least 1 and at most 9999; the fourth its patch.
///
/// # Errors
/// One sentence, if the crate's version does not fit.
pub fn driver_version(package: &str) -> Result<[u16; 4], String> {
    let refused = || {
        format!(
            "{package} makes no driver version: three numbers, the first at most 9, the second at most 999, are needed"
        )
    };
    let numbers: Vec<u16> = package.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| refused())?;
    match numbers[..] {
        [major @ 0..=9, minor @ 0..=999, patch @ 0..=9999] if major * 1000 + minor > 0 => {
            Ok([32, 0, major * 1000 + minor, patch])
        }
        _ => Err(refused()),
    }
}

/// What kind of file carries the resource. [verrsrc: VS_FIXEDFILEINFO.dwFileType]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A driver for a display adapter, as the graphics kernel counts every miniport.
    DisplayDriver,
    Dll,
    Program,
}

/// Contents of the version resource.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a> {
    pub kind: Kind,
    pub number: [u16; 4],
    /// Name of the file, with its extension.
    pub file: &'a str,
    pub description: &'a str,
}

/// English (United States) in Unicode, as a table of strings names it.
const LANGUAGE: (u16, u16, &str) = (0x0409, 0x04B0, "040904B0");
const SIGNATURE: u32 = 0xFEEF_04BD;
const STRUCTURE: u32 = 0x0001_0000;
/// VOS_NT_WINDOWS32.
const SYSTEM: u32 = 0x0004_0004;
const RT_VERSION: u16 = 16;

/// A resource file (`.res`) with that version as its only resource.
#[must_use]
pub fn resource(version: &Version<'_>) -> Vec<u8> {
    let data = block("VS_VERSION_INFO", Value::Bytes(&fixed(version)), &[strings(version), translation()]);
    // The resource that opens every such file and says that it is one of 32 bits.
    let mut file = header(0, 0, 0, 0, 0);
    file.extend(header(u32::try_from(data.len()).unwrap_or(u32::MAX), RT_VERSION, 1, 0x0030, LANGUAGE.0));
    file.extend(data);
    pad(&mut file);
    file
}

fn header(size: u32, kind: u16, name: u16, memory: u16, language: u16) -> Vec<u8> {
    let mut header = Vec::with_capacity(32);
    header.extend(size.to_le_bytes());
    header.extend(32_u32.to_le_bytes());
    for ordinal in [kind, name] {
        header.extend(0xFFFF_u16.to_le_bytes());
        header.extend(ordinal.to_le_bytes());
    }
    header.extend(0_u32.to_le_bytes());
    header.extend(memory.to_le_bytes());
    header.extend(language.to_le_bytes());
    header.extend([0; 8]);
    header
}

/// VS_FIXEDFILEINFO.
fn fixed(version: &Version<'_>) -> Vec<u8> {
    let [a, b, c, d] = version.number.map(u32::from);
    let (kind, subtype) = match version.kind {
        Kind::DisplayDriver => (3, 4),
        Kind::Dll => (2, 0),
        Kind::Program => (1, 0),
    };
    let (high, low) = (a << 16 | b, c << 16 | d);
    let words = [SIGNATURE, STRUCTURE, high, low, high, low, 0x3F, 0, SYSTEM, kind, subtype, 0, 0];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn strings(version: &Version<'_>) -> Vec<u8> {
    let number = version.number.map(|field| field.to_string()).join(".");
    let entries = [
        ("CompanyName", "Campanile"),
        ("FileDescription", version.description),
        ("FileVersion", &number),
        ("InternalName", version.file),
        ("LegalCopyright", "MIT OR Apache-2.0"),
        ("OriginalFilename", version.file),
        ("ProductName", "Campanile"),
        ("ProductVersion", &number),
    ];
    let entries = entries.map(|(key, value)| block(key, Value::Text(value), &[]));
    block("StringFileInfo", Value::None, &[block(LANGUAGE.2, Value::None, &entries)])
}

fn translation() -> Vec<u8> {
    let value: Vec<u8> = [LANGUAGE.0, LANGUAGE.1].into_iter().flat_map(u16::to_le_bytes).collect();
    block("VarFileInfo", Value::None, &[block("Translation", Value::Bytes(&value), &[])])
}

enum Value<'a> {
    None,
    Bytes(&'a [u8]),
    Text(&'a str),
}

/// One block of the tree that a version resource is: its length, the length and kind of its value, its key, the value, its children, each part on
/// a boundary of four bytes.
fn block(key: &str, value: Value<'_>, children: &[Vec<u8>]) -> Vec<u8> {
    let (bytes, length, kind) = match value {
        Value::None => (Vec::new(), 0, 1_u16),
        Value::Bytes(bytes) => (bytes.to_vec(), bytes.len(), 0),
        Value::Text(text) => (wide(text), text.encode_utf16().count() + 1, 1),
    };
    let mut block = vec![0, 0];
    block.extend(short(length));
    block.extend(kind.to_le_bytes());
    block.extend(wide(key));
    for part in core::iter::once(&bytes).chain(children).filter(|part| !part.is_empty()) {
        pad(&mut block);
        block.extend(part);
    }
    let length = short(block.len());
    block[..2].copy_from_slice(&length);
    block
}

/// A length. The texts here are short, so it always fits.
fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes()
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_version_follows_the_version_of_the_crates() {
        assert_eq!(driver_version("0.1.0"), Ok([32, 0, 1, 0]));
        assert_eq!(driver_version("2.14.7"), Ok([32, 0, 2014, 7]));
        for bad in ["0.0.1", "1.0", "1.0.0-rc.1", "10.0.0", "1.1000.0", "1.0.10000", "", "a.b.c"] {
            assert!(driver_version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_part_of_the_resource_begins_at_a_multiple_of_four_and_the_lengths_agree() {
        let version = Version { kind: Kind::Dll, number: [32, 0, 1, 0], file: "odd.dll", description: "An odd one" };
        let file = resource(&version);
        assert_eq!(file.len() % 4, 0);
        let size = u32::from_le_bytes(file[32..36].try_into().unwrap()) as usize;
        let data = &file[64..64 + size];
        assert_eq!(usize::from(u16::from_le_bytes([data[0], data[1]])), size);
        // Six bytes and the key of 16 letters are 38: the value begins at 40.
        assert_eq!(data[40..44], SIGNATURE.to_le_bytes());
    }
}
