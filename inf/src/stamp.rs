//! Makes an image the same bytes wherever it is built.
//!
//! A linker names each link: by a GUID that image and PDB share, and by numbers that pass for the time of the build. With `/Brepro` they come from the
//! contents of the PDB, in which the paths of the object files stand, so that they tell in which folder an image was built. Here they come from the image.

use core::mem::offset_of;
use std::ops::Range;

use object::LittleEndian as LE;
use object::pe;
use object::read::pe::PeFile64;
use sha2::{Digest, Sha256};

/// Bytes of a GUID.
const GUID: usize = 16;
/// What stands in a PDB before the GUID: version, signature and age.
const BEFORE_GUID: usize = 12;
/// The version of a PDB.
const PDB_VERSION: u32 = 20_000_404;

/// Places in an image that the linker fills by the PDB.
struct Places {
    checksum: Range<usize>,
    /// Numbers that pass for times.
    times: Vec<Range<usize>>,
    guid: Range<usize>,
}

/// Names image and PDB by a digest of what else the image holds, and makes the image's checksum right again. Doing it again changes nothing.
///
/// # Errors
/// One sentence, if the image is none with a PDB, or the PDB is not its. Neither is changed then.
pub fn stamp(image: &mut [u8], pdb: &mut [u8]) -> Result<(), String> {
    let places = places(image)?;
    let at = find(pdb, &image[places.guid.clone()])?;

    for place in places.times.iter().chain([&places.checksum, &places.guid]) {
        image[place.clone()].fill(0);
    }
    let digest: [u8; 32] = Sha256::digest(&*image).into();
    let (guid, rest) = digest.split_at(GUID);
    let time = &rest[..size_of::<u32>()];
    image[places.guid].copy_from_slice(guid);
    places.times.into_iter().for_each(|place| image[place].copy_from_slice(time));
    let sum = checksum(image);
    image[places.checksum].copy_from_slice(&sum.to_le_bytes());

    pdb[at..at + GUID].copy_from_slice(guid);
    // Version, then the signature, then the age.
    pdb[at - 8..at - 4].copy_from_slice(time);
    Ok(())
}

fn places(image: &[u8]) -> Result<Places, String> {
    let file = PeFile64::parse(image).map_err(|error| format!("no 64-bit image: {error}"))?;
    let headers = file.dos_header().nt_headers_offset() as usize;
    let header =
        headers + offset_of!(pe::ImageNtHeaders64, file_header) + offset_of!(pe::ImageFileHeader, time_date_stamp);
    let optional = headers + offset_of!(pe::ImageNtHeaders64, optional_header);
    let checksum = optional + offset_of!(pe::ImageOptionalHeader64, check_sum);
    let broken = || "the table of debug information is broken".to_owned();
    let entry = file.data_directory(pe::IMAGE_DIRECTORY_ENTRY_DEBUG).ok_or("the image has no debug information")?;
    let (table, _) = file.section_table().pe_file_range_at(entry.virtual_address.get(LE)).ok_or_else(broken)?;
    let size = size_of::<pe::ImageDebugDirectory>();
    let count = entry.size.get(LE) as usize / size;

    let word = |at: usize| Some(u32::from_le_bytes(image.get(at..)?.first_chunk().copied()?));
    let mut guid = None;
    let mut times = Vec::from([header].map(|at| at..at + 4));
    for at in (0..count).map(|index| table as usize + index * size) {
        let of = |offset: usize| word(at + offset).ok_or_else(broken);
        let time = at + offset_of!(pe::ImageDebugDirectory, time_date_stamp);
        times.push(time..time + 4);
        let data = of(offset_of!(pe::ImageDebugDirectory, pointer_to_raw_data))? as usize;
        if image.get(data..data + 4) == Some(b"RSDS") {
            guid = Some(data + 4..data + 4 + GUID);
        }
    }
    let guid = guid.filter(|guid| guid.end <= image.len()).ok_or("the image names no PDB")?;
    let inside = times.iter().all(|time| time.end <= image.len());
    if inside { Ok(Places { checksum: checksum..checksum + 4, times, guid }) } else { Err(broken()) }
}

/// Offset of the GUID in a PDB.
fn find(pdb: &[u8], guid: &[u8]) -> Result<usize, String> {
    let is_version = |at: usize| {
        let version = at.checked_sub(BEFORE_GUID).and_then(|start| pdb.get(start..)?.first_chunk().copied());
        version.map(u32::from_le_bytes) == Some(PDB_VERSION)
    };
    let mut places = pdb.windows(GUID).enumerate().filter(|(at, bytes)| *bytes == guid && is_version(*at));
    match (places.next(), places.next()) {
        (Some((at, _)), None) => Ok(at),
        _ => Err("the PDB is not the one that the image names".to_owned()),
    }
}

/// The sum over all 16-bit words with their carries, and the length; the words of the field itself are 0.
fn checksum(image: &[u8]) -> u32 {
    let words = image.chunks(2).map(|pair| u32::from(pair[0]) | u32::from(pair.get(1).copied().unwrap_or(0)) << 8);
    let sum = words.fold(0, |sum: u32, word| {
        let sum = sum + word;
        (sum & 0xFFFF) + (sum >> 16)
    });
    sum + image.len() as u32
}
