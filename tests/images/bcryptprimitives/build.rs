//! How the image is linked; elsewhere there is nothing to do.

use std::env;

const ARGUMENTS: &[&str] = &[
    "/SUBSYSTEM:WINDOWS,10.00",
    "/NOENTRY",
    "/NODEFAULTLIB",
    "/DEBUG",
    "/RELEASE",
    "/Brepro",
    "/PDBALTPATH:bcryptprimitives.pdb",
    "/WX",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "windows") {
        for argument in ARGUMENTS {
            println!("cargo::rustc-cdylib-link-arg={argument}");
        }
    }
}
