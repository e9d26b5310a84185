//! Putting the package together: the images, the stamped INF, the scripts, the catalog, and test signatures over all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use time::{Date, UtcDateTime};

use crate::catalog::{self, Member};
use crate::image::{authenticode_digest, exports, file_version};
use crate::inf::Inf;
use crate::lint::{self, Finding};
pub use crate::lint::{BILL, PROGRAM};
use crate::resource::driver_version;
use crate::sign::{Certificate, Tools};

/// The images, which the INF installs; each has a PDB of the same name.
pub const IMAGES: [&str; 3] = ["campanile_kmd.sys", "campanile_umd.dll", "campanile_vulkan.dll"];
/// The manifest by which the Vulkan loader finds the Vulkan driver. The INF installs it, too.
pub const MANIFEST: &str = "campanile_vulkan.json";
/// Scripts for the machine that the package is taken to.
pub const SCRIPTS: [&str; 3] = ["install.ps1", "uninstall.ps1", "verify.ps1"];
const INF: &str = "campanile.inf";
const CATALOG: &str = "campanile.cat";
/// The public half of the certificate that signed the package.
const CERTIFICATE: &str = "campanile_test.cer";

/// Names of all files of a package.
#[must_use]
pub fn names() -> BTreeSet<String> {
    let pdbs = IMAGES.map(|image| image.replace(".sys", ".pdb").replace(".dll", ".pdb"));
    let own = [INF, CATALOG, CERTIFICATE, PROGRAM, BILL, MANIFEST]
        .into_iter()
        .chain(IMAGES)
        .chain(SCRIPTS)
        .map(str::to_owned);
    own.chain(pdbs).collect()
}

/// Hardware ids of the device, the longest first.
#[must_use]
pub fn hardware_ids() -> [String; 2] {
    let device = "PCI\\VEN_CA3E&DEV_0032";
    [format!("{device}&SUBSYS_0001CA3E&REV_01"), device.to_owned()]
}

/// The INF with architecture, date and version filled in, as Windows' stampinf does it.
#[must_use]
pub fn stamp(source: &str, date: Date, version: [u16; 4]) -> String {
    let version = version.map(|field| field.to_string()).join(".");
    let date = format!("{:02}/{:02}/{:04}", u8::from(date.month()), date.day(), date.year());
    let line = |line: &str| {
        let (before, rest) = line.split_once('=').unwrap_or((line, "x"));
        let stamped = before.trim_end() == "DriverVer" && rest.trim().is_empty();
        let text = if stamped { format!("{before}= {date},{version}") } else { line.to_owned() };
        text.replace("$ARCH$", "amd64") + "\n"
    };
    source.lines().map(line).collect()
}

/// Input of a package.
#[derive(Clone, Debug)]
pub struct Sources<'a> {
    /// The repository.
    pub root: &'a Path,
    /// Folder of the images and their PDBs, the program and the bill of materials.
    pub images: &'a Path,
    /// Version of the crates.
    pub version: &'a str,
    /// Day and time of the package, in seconds since 1970.
    pub time: u64,
}

/// A package that was made, signed and read back.
#[derive(Debug)]
pub struct Made {
    pub folder: PathBuf,
    pub files: BTreeSet<String>,
    pub version: [u16; 4],
    /// The checks that passed, a sentence each.
    pub verified: Vec<String>,
}

/// Makes the package in `folder`, which is emptied first. It is signed with the certificate and key in `keys`, which are made there if there are none.
///
/// # Errors
/// One text that says what is missing or wrong and what to do; a rule that the INF breaks is named with its line. `folder` holds no catalog then.
pub fn make(sources: &Sources<'_>, folder: &Path, keys: &Path) -> Result<Made, String> {
    let tools = Tools::find()?;
    let version = driver_version(sources.version)?;
    empty(folder)?;
    for image in IMAGES {
        let pdb = Path::new(image).with_extension("pdb");
        copy(&sources.images.join(image), &folder.join(image))?;
        copy(&sources.images.join(&pdb), &folder.join(&pdb))?;
    }
    for beside in [PROGRAM, BILL] {
        copy(&sources.images.join(beside), &folder.join(beside))?;
    }
    for file in SCRIPTS.into_iter().chain([MANIFEST]) {
        copy(&sources.root.join("inf").join(file), &folder.join(file))?;
    }
    let date = UtcDateTime::from_unix_timestamp(i64::try_from(sources.time).unwrap_or(i64::MAX))
        .map_err(|error| format!("the package's time: {error}"))?
        .date();
    let source = read(&sources.root.join("inf").join("campanile.inx"))?;
    let text = stamp(&String::from_utf8_lossy(&source), date, version);
    write(&folder.join(INF), text.as_bytes())?;

    let certificate = Certificate::find_or_make(&tools, keys)?;
    certificate.publish(&tools, &folder.join(CERTIFICATE))?;
    for image in IMAGES {
        tools.sign(&certificate, &folder.join(image))?;
    }
    let inf = Inf::parse(&text)?;
    let members = members(folder)?;
    let unsigned = catalog::catalog(&inf, &members, identifier(&members), sources.time)?;
    write(&folder.join(CATALOG), &unsigned)?;
    tools.sign(&certificate, &folder.join(CATALOG))?;

    let broken = check(folder)?;
    if !broken.is_empty() {
        // A package that breaks a rule is not left behind as if it were good.
        fs::remove_file(folder.join(CATALOG)).map_err(|error| error.to_string())?;
        let texts: Vec<String> = broken.iter().map(ToString::to_string).collect();
        return Err(format!("{INF} breaks the rules:\n{}", texts.join("\n")));
    }
    let verified = verify(folder)?;
    Ok(Made { folder: folder.to_path_buf(), files: files(folder)?, version, verified })
}

/// What a package's INF breaks, read back from its folder.
///
/// # Errors
/// One sentence, if the folder is no package.
pub fn check(folder: &Path) -> Result<Vec<Finding>, String> {
    let (mut versions, mut exported) = (BTreeMap::new(), BTreeMap::new());
    for image in IMAGES {
        let path = folder.join(image);
        let bytes = read(&path)?;
        let failed = |error| format!("{}: {error}", path.display());
        versions.insert(image.to_owned(), file_version(&bytes).map_err(failed)?);
        exported.insert(image.to_owned(), exports(&bytes).map_err(failed)?);
    }
    let package =
        lint::Package { files: files(folder)?, versions, exports: exported, hardware_ids: hardware_ids().into() };
    lint::lint(&String::from_utf8_lossy(&read(&folder.join(INF))?), &package)
}

/// Verifies the signatures of the images and of the catalog, and that each image is in the catalog, by a program that is not ours and against the
/// certificate in the package. A sentence for each that holds.
///
/// # Errors
/// The first that does not hold, with what that program said.
pub fn verify(folder: &Path) -> Result<Vec<String>, String> {
    let tools = Tools::find()?;
    let trusted = tools.readable(&folder.join(CERTIFICATE))?;
    let mut verified = Vec::new();
    for image in IMAGES {
        tools.verify(&trusted, &folder.join(image), None)?;
        verified.push(format!("{image} is signed"));
        tools.verify(&trusted, &folder.join(image), Some(&folder.join(CATALOG)))?;
        verified.push(format!("{image} is in {CATALOG}, which is signed"));
    }
    Ok(verified)
}

/// The files that the catalog covers: what the INF installs, and the INF.
fn members(folder: &Path) -> Result<Vec<Member>, String> {
    let mut members = Vec::new();
    for name in IMAGES {
        let digest = authenticode_digest(&read(&folder.join(name))?)?;
        members.push(Member { name: name.to_owned(), digest, image: true });
    }
    for name in [INF, MANIFEST] {
        let digest = Sha256::digest(read(&folder.join(name))?).into();
        members.push(Member { name: name.to_owned(), digest, image: false });
    }
    // As Inf2Cat orders them.
    members.sort_by_key(|member| member.digest);
    Ok(members)
}

/// Sixteen bytes that other files' catalog does not have.
fn identifier(members: &[Member]) -> [u8; 16] {
    let digest = members.iter().fold(Sha256::new(), |digest, member| digest.chain_update(member.digest)).finalize();
    let mut identifier = [0; 16];
    identifier.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    identifier
}

fn files(folder: &Path) -> Result<BTreeSet<String>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// Makes `folder` an empty folder, unless it holds what no package does.
fn empty(folder: &Path) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let ends = [".sys", ".dll", ".pdb", ".inf", ".cat", ".ps1", ".cer"];
    let ours = |name: &String| {
        [PROGRAM, BILL, MANIFEST].contains(&name.as_str()) || ends.iter().any(|end| name.ends_with(end))
    };
    let names = files(folder)?;
    if let Some(name) = names.iter().find(|name| !ours(name)) {
        return Err(format!("{} holds {name}, which is no part of a package: name another folder", folder.display()));
    }
    names.iter().try_for_each(|name| fs::remove_file(folder.join(name)).map_err(failed))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| format!("{}: {error}; `cargo xtask pe` builds the images", from.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}
