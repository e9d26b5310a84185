//! What the package takes from an image: its version, what it exports, and the digest that a catalog and a signature cover.

use core::mem::offset_of;
use std::collections::BTreeSet;

use object::LittleEndian as LE;
use object::pe;
use object::read::pe::{PeFile64, ResourceDirectoryEntryData};
use sha2::{Digest, Sha256};

/// SHA-256 of everything of an image that its signature protects.
///
/// # Errors
/// One sentence, if these bytes are no image of 64 bits.
pub fn authenticode_digest(bytes: &[u8]) -> Result<[u8; 32], String> {
    let file = parse(bytes)?;
    let optional = file.dos_header().nt_headers_offset() as usize + size_of::<pe::ImageNtHeaders64>()
        - size_of::<pe::ImageOptionalHeader64>();
    let checksum = optional + offset_of!(pe::ImageOptionalHeader64, check_sum);
    let entry = optional + size_of::<pe::ImageOptionalHeader64>() + 8 * pe::IMAGE_DIRECTORY_ENTRY_SECURITY;
    // The certificates stand at the end of the file, if there are any; their address is an offset in the file.
    let certificates =
        file.data_directory(pe::IMAGE_DIRECTORY_ENTRY_SECURITY).map(|entry| entry.virtual_address.get(LE));
    let end = certificates.filter(|&start| start != 0).map_or(bytes.len(), |start| start as usize);
    let mut digest = Sha256::new();
    for part in [0..checksum, checksum + 4..entry, entry + 8..end] {
        digest.update(bytes.get(part).ok_or("the image ends before its headers do")?);
    }
    Ok(digest.finalize().into())
}

/// File version in the version resource.
///
/// # Errors
/// One sentence, if there is none.
pub fn file_version(bytes: &[u8]) -> Result<[u16; 4], String> {
    let resource = version_resource(&parse(bytes)?).ok_or("the image has no version resource")?;
    // Length, length of the value, kind, and the key of 16 letters with its end are 40 bytes; then VS_FIXEDFILEINFO.
    let word = |at: usize| Some(u32::from_le_bytes(resource.get(at..)?.first_chunk().copied()?));
    let half = |at: usize| Some(u16::from_le_bytes(resource.get(at..)?.first_chunk().copied()?));
    // Each word of the version has its higher field last.
    let fields = || (word(40)? == 0xFEEF_04BD).then_some([half(50)?, half(48)?, half(54)?, half(52)?]);
    fields().ok_or_else(|| "the version resource is cut off or of another kind".to_owned())
}

/// A text of the version resource, such as `FileDescription`, in whatever language comes first.
///
/// # Errors
/// One sentence, if there is none.
pub fn version_text(bytes: &[u8], name: &str) -> Result<String, String> {
    let resource = version_resource(&parse(bytes)?).ok_or("the image has no version resource")?;
    text_of(resource, name).ok_or_else(|| format!("the version resource has no {name}"))
}

/// The text with this key of a version resource: lengths of block and value, kind of the value, key, value, each part on a boundary of four bytes. [verrsrc: String]
fn text_of(resource: &[u8], name: &str) -> Option<String> {
    let units: Vec<u16> = resource.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    let key: Vec<u16> = name.encode_utf16().chain([0]).collect();
    let at = units.windows(key.len()).position(|window| window == key)?;
    let length = usize::from(*units.get(at.checked_sub(2)?)?);
    let start = (at + key.len()).next_multiple_of(2);
    let value = units.get(start..start.checked_add(length)?)?;
    Some(String::from_utf16_lossy(value.split(|unit| *unit == 0).next()?))
}

/// Names that an image exports.
///
/// # Errors
/// One sentence, if these bytes are no image of 64 bits or its table of exports is broken.
pub fn exports(bytes: &[u8]) -> Result<BTreeSet<String>, String> {
    let file = parse(bytes)?;
    let broken = |error| format!("the table of exports is broken: {error}");
    let Some(table) = file.export_table().map_err(broken)? else { return Ok(BTreeSet::new()) };
    let names = table.exports().map_err(broken)?.into_iter().filter_map(|export| export.name);
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

fn parse(bytes: &[u8]) -> Result<PeFile64<'_>, String> {
    PeFile64::parse(bytes).map_err(|error| format!("no 64-bit image: {error}"))
}

/// Bytes of the first resource of the kind RT_VERSION.
fn version_resource<'a>(file: &PeFile64<'a>) -> Option<&'a [u8]> {
    let data = file.data();
    let sections = file.section_table();
    let directory = file.data_directories().resource_directory(data, &sections).ok()??;
    let mut entry = directory.root().ok()?.entries.iter().find(|entry| entry.name_or_id().id() == Some(16))?;
    for _ in 0..2 {
        entry = entry.data(directory).ok()?.table()?.entries.first()?;
    }
    let ResourceDirectoryEntryData::Data(found) = entry.data(directory).ok()? else { return None };
    let pe::ImageResourceDataEntry { offset_to_data, size, .. } = found;
    sections.pe_data_at(data, offset_to_data.get(LE))?.get(..size.get(LE).try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{Kind, Version, resource};

    #[test]
    fn a_text_of_the_version_is_found_by_its_key_and_a_resource_that_is_cut_off_has_none() {
        let version =
            Version { kind: Kind::DisplayDriver, number: [1, 2, 3, 4], file: "some.sys", description: "Some GPU" };
        let file = resource(&version);
        // Two headers of 32 bytes stand before the data.
        let data = &file[64..];
        for (name, text) in
            [("FileDescription", "Some GPU"), ("OriginalFilename", "some.sys"), ("ProductVersion", "1.2.3.4")]
        {
            assert_eq!(text_of(data, name).as_deref(), Some(text), "{name}");
        }
        assert_eq!(text_of(data, "Comments"), None);
        let place = data.windows(8).position(|window| window == b"S\0o\0m\0e\0").expect("the description");
        for length in [0, 1, place, place + 3] {
            assert_eq!(text_of(&data[..length], "FileDescription"), None, "{length} bytes");
        }
    }
}
