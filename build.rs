//! Build script of the two Windows images, `campanile_kmd.sys` and `campanile_umd.dll`: how they are linked.
//!
//! Elsewhere the crates are ordinary libraries and there is nothing to do.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=../build.rs");
    let windows = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "windows");
    let msvc = env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "msvc");
    if !(windows && msvc) {
        return;
    }
    let arguments: &[&str] = match env::var("CARGO_PKG_NAME").as_deref() {
        Ok("campanile_kmd") => DRIVER,
        Ok("campanile_umd") => DLL,
        other => panic!("build.rs serves campanile_kmd and campanile_umd, not {other:?}"),
    };
    for argument in arguments.iter().chain(BOTH) {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}

/// Arguments of both images: symbols in a PDB named without a path, unreferenced code dropped, a checksum, warnings are errors.
const BOTH: &[&str] =
    &["/NODEFAULTLIB", "/DEBUG", "/OPT:REF", "/OPT:ICF", "/RELEASE", "/Brepro", "/DYNAMICBASE", "/HIGHENTROPYVA", "/NXCOMPAT", "/WX"];

/// A native-subsystem image whose INIT section goes away after DriverEntry.
const DRIVER: &[&str] = &[
    "/DRIVER",
    "/SUBSYSTEM:NATIVE,10.00",
    "/OSVERSION:10.0",
    "/ENTRY:DriverEntry",
    "/SECTION:INIT,ERD",
    "/PDBALTPATH:campanile_kmd.pdb",
];

/// A DLL without start-up code: nothing in it needs initialisation.
const DLL: &[&str] = &["/SUBSYSTEM:WINDOWS,10.00", "/NOENTRY", "/PDBALTPATH:campanile_umd.pdb"];
