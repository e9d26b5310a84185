//! The whole package, from the images in `target/pe`: made, signed, verified, and refused once a byte of it is another.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use campanile_inf::image::{authenticode_digest, exports, file_version};
use campanile_inf::package::{IMAGES, MANIFEST, Sources, check, make, names, verify};
use campanile_inf::resource::driver_version;
use campanile_inf::stamp::stamp;
use sha2::{Digest, Sha256};
use time::PrimitiveDateTime;

/// 22 November 2026, noon.
const NOON: u64 = 1_795_348_800;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository")
}

/// A folder with a package in `package` and its keys beside it, gone with the value.
struct Made(PathBuf);

impl Made {
    fn new(name: &str) -> Self {
        let made = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id())));
        made.again().expect("a package is made");
        made
    }

    fn again(&self) -> Result<(), String> {
        let images = root().join("target").join("pe");
        let sources = Sources { root: root(), images: &images, version: env!("CARGO_PKG_VERSION"), time: NOON };
        make(&sources, &self.folder(), &self.0.join("keys")).map(drop)
    }

    fn folder(&self) -> PathBuf {
        self.0.join("package")
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder().join(name)).expect("the file is there")
    }

    /// Changes one byte of a file.
    fn change(&self, name: &str, at: usize) {
        let mut bytes = self.read(name);
        bytes[at] ^= 0x20;
        fs::write(self.folder().join(name), bytes).expect("the file can be written");
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_package_holds_the_files_that_the_inf_names_and_verifies() {
    let made = Made::new("good");
    assert_eq!(check(&made.folder()), Ok(Vec::new()));
    assert_eq!(verify(&made.folder()).map(|sentences| sentences.len()), Ok(6));
    let found: BTreeSet<String> =
        fs::read_dir(made.folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, names());
    // The key stays outside.
    assert!(made.0.join("keys").join("campanile_test.key").exists());
}

/// What the INF says of UserModeDriverName: this DLL is no driver of Direct3D.
#[test]
fn the_dll_has_its_c_interface_and_no_function_that_a_runtime_of_direct3d_calls() {
    let made = Made::new("exports");
    let exports = exports(&made.read("campanile_umd.dll")).unwrap();
    assert!(exports.contains("campanile_submit"), "{exports:?}");
    assert!(!exports.iter().any(|name| name.starts_with("OpenAdapter")), "{exports:?}");
    let inf = String::from_utf8(made.read("campanile.inf")).unwrap();
    let values = ["UserModeDriverName", "InstalledDisplayDrivers"];
    assert!(
        !inf.lines().any(|line| !line.starts_with(';') && values.iter().any(|value| line.contains(value))),
        "{inf}"
    );
}

/// A guest whose clock is behind refuses a certificate of its future.
#[test]
fn the_certificate_is_valid_from_two_days_before_it_is_made() {
    let now = || i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    let before = now();
    let made = Made::new("dates");
    let after = now();
    let certificate = made.folder().join("campanile_test.cer");
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-inform", "DER", "-noout", "-startdate", "-enddate", "-dateopt", "iso_8601", "-in"]);
    let output = openssl.arg(certificate).output().expect("openssl starts");
    let text = String::from_utf8(output.stdout).expect("dates are text");
    let format = time::macros::format_description!("[year]-[month]-[day] [hour]:[minute]:[second]Z");
    let date = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
        PrimitiveDateTime::parse(line, format).expect("a date").assume_utc().unix_timestamp()
    };
    let day = 24 * 60 * 60;
    let first = date("notBefore=");
    assert!((before..=after).contains(&(first + 2 * day)), "{text}");
    assert_eq!(date("notAfter=") - first, 732 * day, "{text}");
}

#[test]
fn the_date_and_the_version_of_the_inf_are_those_of_package_and_images() {
    let made = Made::new("stamped");
    let inf = String::from_utf8(made.read("campanile.inf")).unwrap();
    assert!(inf.contains("DriverVer   = 11/22/2026,32.0.1.0\n"), "{inf}");
    assert!(inf.contains("[Models.NTamd64.10.0...26100]"), "{inf}");
    for image in IMAGES {
        assert_eq!(file_version(&made.read(image)), driver_version(env!("CARGO_PKG_VERSION")), "{image}");
    }
}

#[test]
fn a_signature_changes_the_file_but_not_what_the_catalog_covers() {
    let made = Made::new("digest");
    for image in IMAGES {
        let built = fs::read(root().join("target/pe").join(image)).unwrap();
        assert_ne!(built, made.read(image));
        assert_eq!(authenticode_digest(&built), authenticode_digest(&made.read(image)), "{image}");
    }
    // Every member is in the catalog by its digest; the INF, too, which osslsigncode cannot look up.
    let catalog = made.read("campanile.cat");
    let images = IMAGES.map(|image| authenticode_digest(&made.read(image)).unwrap());
    let others = ["campanile.inf", MANIFEST].map(|name| <[u8; 32]>::from(Sha256::digest(made.read(name))));
    for digest in images.into_iter().chain(others) {
        assert!(catalog.windows(32).any(|bytes| bytes == digest));
    }
}

#[test]
fn a_byte_that_changed_after_signing_is_found() {
    let made = Made::new("changed");
    for (file, at) in [
        ("campanile_kmd.sys", 0x1000),
        ("campanile_umd.dll", 0x1000),
        ("campanile_vulkan.dll", 0x1000),
        ("campanile.cat", 0x100),
    ] {
        let before = made.read(file);
        made.change(file, at);
        let refused = verify(&made.folder()).expect_err("a changed file does not verify");
        assert!(refused.contains("did not verify"), "{file}: {refused}");
        fs::write(made.folder().join(file), before).unwrap();
    }
    assert!(verify(&made.folder()).is_ok());
}

#[test]
fn a_package_signed_by_somebody_else_is_found() {
    let (ours, theirs) = (Made::new("ours"), Made::new("theirs"));
    fs::write(ours.folder().join("campanile_test.cer"), theirs.read("campanile_test.cer")).unwrap();
    assert!(verify(&ours.folder()).is_err());
}

#[test]
fn a_folder_with_other_files_is_not_emptied() {
    let made = Made::new("foreign");
    fs::write(made.folder().join("thesis.odt"), "years of work").unwrap();
    let before = made.read("campanile_kmd.sys");
    let refused = made.again().expect_err("the folder holds something else");
    assert!(refused.contains("thesis.odt") && refused.contains("name another folder"), "{refused}");
    assert_eq!(made.read("thesis.odt"), b"years of work");
    assert_eq!(made.read("campanile_kmd.sys"), before);
}

/// Image and PDB as `cargo xtask pe` made them.
fn built(name: &str) -> [Vec<u8>; 2] {
    let path = root().join("target").join("pe").join(name);
    [path.clone(), path.with_extension("pdb")]
        .map(|path| fs::read(path).expect("`cargo xtask pe` has built the images"))
}

/// Offset of the GUID that the image names its PDB by.
fn guid(image: &[u8]) -> usize {
    4 + image.windows(4).position(|bytes| bytes == b"RSDS").expect("the image names a PDB")
}

/// What a build in another folder changes: the linker takes its numbers from the PDB, which has paths in it. `cargo xtask pe --again` builds there.
#[test]
fn an_image_does_not_tell_where_it_was_built() {
    for name in IMAGES {
        let [image, pdb] = built(name);
        let folder = root().to_str().expect("the path is UTF-8").as_bytes();
        assert!(!image.windows(folder.len()).any(|bytes| bytes == folder), "{name} has a path in it");
        let (mut linked, mut symbols) = (image.clone(), pdb.clone());
        let at = guid(&image);
        let old = &image[at..at + 16];
        let in_pdb = pdb.windows(16).position(|bytes| bytes == old).expect("the PDB is the image's");
        let header = u32::from_le_bytes(*image[0x3C..].first_chunk().unwrap()) as usize;
        // The time in the header, and the checksum.
        for place in [at..at + 16, header + 8..header + 12, header + 88..header + 92] {
            linked[place].fill(0xA5);
        }
        symbols[in_pdb..in_pdb + 16].fill(0xA5);
        assert!(linked != image && symbols != pdb);
        stamp(&mut linked, &mut symbols).expect("they belong together");
        assert!(linked == image && symbols == pdb, "{name}: the numbers are of the image alone");
    }
}

#[test]
fn what_is_no_image_or_anothers_pdb_is_refused_and_stays_as_it_was() {
    let [image, pdb] = built(IMAGES[0]);
    let [_, other] = built(IMAGES[1]);
    for (image, pdb) in
        [(image.clone(), other), (image.clone(), Vec::new()), (Vec::new(), pdb.clone()), (image[..700].to_vec(), pdb)]
    {
        let (mut after, mut symbols) = (image.clone(), pdb.clone());
        assert!(stamp(&mut after, &mut symbols).is_err());
        assert!(after == image && symbols == pdb);
    }
}
