//! The driver package as pefile, lief and signify read it: images, catalog and signatures. What they say is compared with what the tests here read, and with each
//! other's; none of it is compared with Windows.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::image::{built, imports, parse};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The package that `cargo xtask package` has made.
fn package() -> PathBuf {
    let folder = root().join("target/package");
    assert!(folder.join("campanile.cat").is_file(), "{}: run `cargo xtask package` first", folder.display());
    folder
}

/// What the three say about the package, asked once; `None` as of [`opinions_on`].
fn opinions() -> Option<&'static Value> {
    static OF_THE_PACKAGE: OnceLock<Option<Value>> = OnceLock::new();
    OF_THE_PACKAGE.get_or_init(|| opinions_on(&package(), &IMAGES.map(|image| image.file))).as_ref()
}

/// What the three say about a folder, pefile about `images` alone; `None` where they are not installed, which in CI is a failure.
fn opinions_on(folder: &Path, images: &[&str]) -> Option<Value> {
    let python = root().join("target/python/bin/python");
    if !root().join("target/python/installed.txt").is_file() {
        eprintln!(
            "NOT CHECKED: there are no pefile, lief and signify in {}, so nobody else read the package; `cargo xtask test` installs them",
            python.display()
        );
        assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty() || ci == "false"), "CI needs them");
        return None;
    }
    let output =
        Command::new(python).arg(root().join("tests/python/opinions.py")).arg(folder).args(images).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}")))
}

/// A copy of the package in which one byte of a file, at the place that `offset` finds in it, is another.
fn altered(name: &str, file: &str, offset: impl FnOnce(&[u8]) -> usize) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("opinions-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(package()).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    let mut bytes = fs::read(folder.join(file)).unwrap();
    let offset = offset(&bytes);
    bytes[offset] ^= 1;
    fs::write(folder.join(file), bytes).unwrap();
    folder
}

/// An image of the package: what pefile calls it, and what it warns of.
struct Expected {
    file: &'static str,
    kind: &'static str,
    /// True if the package signs it; a program that a tester starts by hand needs no signature.
    signed: bool,
    warnings: &'static [&'static str],
}

const IMAGES: [Expected; 4] = [
    Expected { file: "campanile_kmd.sys", kind: "driver", signed: true, warnings: &[] },
    Expected {
        file: "campanile_umd.dll",
        kind: "dll",
        signed: true,
        // A DLL may have no entry point, and then the address of it is 0, which pefile takes for one. [pe: AddressOfEntryPoint] Packers look functions up as this
        // DLL does its thunks, and have as few other imports.
        warnings: &[
            "SizeOfHeaders is smaller than AddressOfEntryPoint: this file cannot run under Windows 8.",
            "AddressOfEntryPoint lies outside the sections' boundaries. AddressOfEntryPoint: 0x0",
            "Imported symbols contain entries typical of packed executables.",
        ],
    },
    Expected { file: "campanile_vulkan.dll", kind: "dll", signed: true, warnings: &[] },
    Expected { file: "hlk.exe", kind: "exe", signed: false, warnings: &[] },
];

#[test]
fn others_read_the_images_as_the_tests_here_do_and_find_the_signatures_good() {
    let Some(found) = opinions() else { return };
    for Expected { file, kind, signed, warnings } in IMAGES {
        let (pefile, lief) = (&found["pefile"][file], &found["lief"][file]);
        assert_eq!(pefile["warnings"], json!(warnings), "{file}");
        assert_eq!((&pefile["checksum"], &lief["checksum"]), (&json!(true), &json!(true)), "{file}");
        // A driver is a DLL to the linker; pefile calls one what imports from the kernel.
        assert!(pefile["kinds"].as_array().unwrap().contains(&json!(kind)), "{file}: {}", pefile["kinds"]);
        for part in ["sections", "imports", "exports", "relocations", "pdbs"] {
            assert_eq!(pefile[part], lief[part], "{part} of {file}");
        }
        let ours: BTreeSet<String> = imports(&parse(&built(file)))
            .into_iter()
            .flat_map(|(module, names)| names.into_keys().map(move |name| format!("{module}!{name}")))
            .collect();
        assert_eq!(pefile["imports"], json!(ours), "{file}");
        assert_eq!(pefile["pdbs"], json!([Path::new(file).with_extension("pdb")]), "{file}");
        let (by_lief, by_signify) =
            if signed { ((1, "OK"), "OK") } else { ((0, "NO_SIGNATURE"), "AuthenticodeNotSignedError") };
        assert_eq!((&lief["signatures"], &lief["signature"]), (&json!(by_lief.0), &json!(by_lief.1)), "{file}");
        assert_eq!(found["signify"][file], json!({"embedded": by_signify, "catalog": by_signify}), "{file}");
    }
    // The INF and the Vulkan driver's manifest are text: the catalog alone signs them.
    for file in ["campanile.inf", "campanile_vulkan.json"] {
        assert_eq!(found["signify"][file]["catalog"], "OK", "{file}");
    }
    let catalog = &found["catalog"];
    assert_eq!((&catalog["is_catalog"], &catalog["signature"]), (&json!(true), &json!("OK")));
    assert_eq!(catalog["members"], json!(fs::read_dir(package()).unwrap().flatten().filter(listed).count()));
}

/// Files of a package that its catalog lists: what the INF copies, and the INF.
fn listed(entry: &fs::DirEntry) -> bool {
    let others = ["campanile_vulkan.dll", "campanile_vulkan.json", "campanile.inf"];
    ["campanile_kmd.sys", "campanile_umd.dll"].iter().chain(&others).any(|name| entry.file_name() == **name)
}

#[test]
fn a_signature_of_nobody_who_is_trusted_is_refused() {
    let Some(found) = opinions() else { return };
    assert_eq!(found["catalog"]["stranger"], "CertificateVerificationError");
    for Expected { file, .. } in IMAGES.iter().filter(|image| image.signed) {
        let refused = "CertificateVerificationError";
        assert_eq!(found["strangers"][file], json!({"embedded": refused, "catalog": refused}), "{file}");
    }
}

#[test]
fn one_changed_byte_of_an_image_breaks_its_signatures_and_no_other() {
    let signed: Vec<&str> = IMAGES.iter().filter(|image| image.signed).map(|image| image.file).collect();
    for file in &signed {
        let Some(found) = opinions_on(&altered("image", file, |_| 0x1234), &[file]) else { return };
        assert_eq!(found["pefile"][file]["checksum"], json!(false));
        assert_eq!(found["lief"][file]["signature"], "BAD_DIGEST|BAD_SIGNATURE", "{file}");
        // Its digest is not the one that it was signed with, and not among those of the catalog, which therefore says nothing of it.
        let refused = json!({"embedded": DIGEST, "catalog": "AuthenticodeNotSignedError"});
        assert_eq!(found["signify"][file], refused, "{file}");
        for other in signed.iter().filter(|other| *other != file) {
            assert_eq!(found["signify"][other], json!({"embedded": "OK", "catalog": "OK"}), "{other}");
            assert_eq!(found["lief"][other]["signature"], "OK", "{other}");
        }
        assert_eq!(found["catalog"]["signature"], "OK");
    }
}

/// What signify calls a digest that is not the one that was signed, and a signature that is not of its certificate.
const DIGEST: &str = "AuthenticodeInvalidDigestError";
const SIGNATURE: &str = "SignerInfoVerificationError";

#[test]
fn one_changed_byte_of_the_inf_takes_it_out_of_the_catalog() {
    let Some(found) = opinions_on(&altered("inf", "campanile.inf", |_| 10), &[]) else { return };
    assert_eq!(found["signify"]["campanile.inf"]["catalog"], "AuthenticodeNotSignedError");
    assert_eq!(found["signify"]["campanile_kmd.sys"], json!({"embedded": "OK", "catalog": "OK"}));
    assert_eq!(found["catalog"]["signature"], "OK");
}

#[test]
fn one_changed_byte_of_the_catalog_breaks_what_it_says_of_every_file() {
    let in_the_list = |bytes: &[u8]| {
        let name: Vec<u8> = "campanile.inf".encode_utf16().flat_map(u16::to_le_bytes).collect();
        bytes.windows(name.len()).position(|window| window == name).expect("the list names the INF")
    };
    let in_the_signature = |bytes: &[u8]| bytes.len() - 1;
    for (altered, refusal) in [
        (altered("list", "campanile.cat", in_the_list), DIGEST),
        (altered("signature", "campanile.cat", in_the_signature), SIGNATURE),
    ] {
        let Some(found) = opinions_on(&altered, &[]) else { return };
        assert_eq!(found["catalog"]["signature"], refusal);
        for file in ["campanile_kmd.sys", "campanile_umd.dll", "campanile.inf"] {
            assert_eq!(found["signify"][file]["catalog"], refusal, "{file}");
        }
        // The images' own signatures need no catalog.
        assert_eq!(found["signify"]["campanile_kmd.sys"]["embedded"], "OK");
    }
}
