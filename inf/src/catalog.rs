//! The catalog: a list of the package's files with the digests that their signature covers, as Inf2Cat writes it, before it is signed.
//!
//! It is a PKCS #7 message that carries a certificate trust list. Windows' programs publish the object identifiers in `wintrust.h` and `mscat.h`; how
//! the parts nest is read off from catalogs that Windows accepts. Nobody has shown one of this writer to Windows yet.

use der::asn1::{BmpString, Int, Null, ObjectIdentifier, OctetString, UtcTime};
use der::{DateTime, Encode, Header, Tag, TagNumber};

use crate::inf::Inf;

/// A file of the catalog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub name: String,
    pub digest: [u8; 32],
    /// An image, whose digest leaves out its signature; else the digest is that of all bytes.
    pub image: bool,
}

const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const CTL: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.10.1");
const CATALOG_LIST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.1.1");
const CATALOG_LIST_MEMBER_2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.1.3");
const CAT_NAMEVALUE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.2.1");
const CAT_MEMBERINFO_2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.2.3");
const SPC_INDIRECT_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.4");
const SPC_PE_IMAGE_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.15");
const SPC_CAB_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.25");
const SHA_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");

/// Windows 10 and later; the system that a member is for.
const SYSTEM: &str = "2:10.0";
/// Flags of a name and its value: text in UTF-16, authenticated by the catalog's signature.
const TEXT: i64 = 0x1001_0001;

/// The catalog of `members`, unsigned. `identifier` tells one catalog from another; `time` is seconds since 1970.
///
/// # Errors
/// One sentence, if something cannot be written as DER: a name outside the basic plane, a time before 1970 or after 2049.
pub fn catalog(inf: &Inf, members: &[Member], identifier: [u8; 16], time: u64) -> Result<Vec<u8>, String> {
    write(inf, members, identifier, time).map_err(|error| format!("the catalog cannot be written: {error}"))
}

fn write(inf: &Inf, members: &[Member], identifier: [u8; 16], time: u64) -> der::Result<Vec<u8>> {
    let date = DateTime::from_unix_duration(core::time::Duration::from_secs(time))?;
    let entries: Vec<Vec<u8>> = members.iter().map(entry).collect::<der::Result<_>>()?;
    let list = sequence(&[
        sequence(&[CATALOG_LIST.to_der()?])?,
        OctetString::new(identifier)?.to_der()?,
        UtcTime::from_date_time(date)?.to_der()?,
        sequence(&[CATALOG_LIST_MEMBER_2.to_der()?, Null.to_der()?])?,
        sequence(&entries)?,
        explicit(0, &sequence(&extensions(inf)?)?)?,
    ])?;
    let content = sequence(&[CTL.to_der()?, explicit(0, &list)?])?;
    // Version 1, no digest algorithms yet, the list, no signers yet.
    let message = sequence(&[integer(1)?, set(Vec::new())?, content, set(Vec::new())?])?;
    sequence(&[SIGNED_DATA.to_der()?, explicit(0, &message)?])
}

/// A member: its digest as its name in the list, and what is known of it.
fn entry(member: &Member) -> der::Result<Vec<u8>> {
    let link = explicit(2, &tagged(0, false, &[])?)?;
    let data = if member.image {
        // Everything of the image is covered: the flags of the structure, five bits of which are not used, and no link to another file.
        let flags = vec![0x03, 0x02, 0x05, 0xA0];
        sequence(&[SPC_PE_IMAGE_DATA.to_der()?, sequence(&[flags, explicit(0, &link)?])?])?
    } else {
        sequence(&[SPC_CAB_DATA.to_der()?, link])?
    };
    let algorithm = sequence(&[SHA_256.to_der()?, Null.to_der()?])?;
    let digest = sequence(&[algorithm, OctetString::new(member.digest)?.to_der()?])?;
    let attributes = set(vec![
        attribute(CAT_MEMBERINFO_2, tagged(2, false, &[])?)?,
        attribute(CAT_NAMEVALUE, name_value("OSAttr", SYSTEM, TEXT)?)?,
        attribute(CAT_NAMEVALUE, name_value("File", &member.name, TEXT)?)?,
        attribute(SPC_INDIRECT_DATA, sequence(&[data, digest])?)?,
    ])?;
    sequence(&[OctetString::new(member.digest)?.to_der()?, attributes])
}

/// What holds for the whole catalog: trusted for images, for which systems, for which devices.
fn extensions(inf: &Inf) -> der::Result<Vec<Vec<u8>>> {
    let extension = |name: &str, value: &str, flags| {
        sequence(&[CAT_NAMEVALUE.to_der()?, OctetString::new(name_value(name, value, flags)?)?.to_der()?])
    };
    let mut all = vec![extension("PE", "TRUSTED", 0x0001_0001)?];
    for system in systems(inf) {
        all.push(extension("OS", &system, TEXT)?);
    }
    for (index, id) in hardware_ids(inf).iter().enumerate().rev() {
        all.push(extension(&format!("HWID{}", index + 1), id, TEXT)?);
    }
    Ok(all)
}

/// Systems of the models' decorations, as a catalog names them: `_v100_X64` for Windows 10 and later on x64.
fn systems(inf: &Inf) -> Vec<String> {
    let lines = inf.section("Manufacturer").into_iter().flat_map(|section| &section.lines);
    let decorations = lines.flat_map(|line| line.fields.get(1..).unwrap_or_default());
    let amd64 = decorations.filter_map(|decoration| decoration.strip_prefix("NTamd64."));
    let versions = amd64.filter_map(|rest| {
        let mut numbers = rest.split('.');
        Some(format!("_v{}{}_X64", numbers.next()?, numbers.next()?))
    });
    let mut systems: Vec<String> = versions.collect();
    systems.dedup();
    systems
}

fn hardware_ids(inf: &Inf) -> Vec<String> {
    let lines = inf.section("Manufacturer").into_iter().flat_map(|section| &section.lines);
    let names =
        lines.flat_map(|line| line.fields.iter().skip(1).map(|decoration| format!("{}.{decoration}", line.field(0))));
    let models = names.filter_map(|name| inf.section(&name)).flat_map(|section| &section.lines);
    models.flat_map(|line| line.fields.iter().skip(1)).map(|id| id.to_lowercase()).collect()
}

fn name_value(name: &str, value: &str, flags: i64) -> der::Result<Vec<u8>> {
    let wide: Vec<u8> = value.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    sequence(&[BmpString::from_utf8(name)?.to_der()?, integer(flags)?, OctetString::new(wide)?.to_der()?])
}

fn attribute(kind: ObjectIdentifier, value: Vec<u8>) -> der::Result<Vec<u8>> {
    sequence(&[kind.to_der()?, set(vec![value])?])
}

fn integer(value: i64) -> der::Result<Vec<u8>> {
    let bytes = value.to_be_bytes();
    // The fewest bytes whose first bit is the sign.
    let start = bytes.windows(2).take_while(|pair| matches!(pair, [0, next] if next & 0x80 == 0)).count();
    Int::new(bytes.get(start..).unwrap_or_default())?.to_der()
}

fn sequence(parts: &[Vec<u8>]) -> der::Result<Vec<u8>> {
    wrap(Tag::Sequence, &parts.concat())
}

/// A set, whose parts stand in the order of their bytes.
fn set(mut parts: Vec<Vec<u8>>) -> der::Result<Vec<u8>> {
    parts.sort();
    wrap(Tag::Set, &parts.concat())
}

fn explicit(number: u32, inner: &[u8]) -> der::Result<Vec<u8>> {
    tagged(number, true, inner)
}

fn tagged(number: u32, constructed: bool, inner: &[u8]) -> der::Result<Vec<u8>> {
    wrap(Tag::ContextSpecific { number: TagNumber(number), constructed }, inner)
}

fn wrap(tag: Tag, inner: &[u8]) -> der::Result<Vec<u8>> {
    let mut bytes = Header::new(tag, inner.len().try_into()?).to_der()?;
    bytes.extend_from_slice(inner);
    Ok(bytes)
}
