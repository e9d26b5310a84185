//! On Windows: links the program's version, and says how it is linked.

#[path = "../linking.rs"]
mod linking;

use linking::{EVERY_IMAGE, Kind, variable};

fn main() {
    if let Err(reason) = run() {
        println!("cargo::error={reason}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    if variable("CARGO_CFG_TARGET_OS")? == "windows" && variable("CARGO_CFG_TARGET_ENV")? == "msvc" {
        link()?;
    }
    Ok(())
}

/// Arguments as the other images have them, for a console, and the version resource.
fn link() -> Result<(), String> {
    println!("cargo::rustc-link-arg-bin=hlk={}", linking::version("hlk.exe", Kind::Program)?);
    println!("cargo::rustc-link-arg-bin=hlk=/PDBALTPATH:hlk.pdb");
    for argument in EVERY_IMAGE.iter().chain(&["/SUBSYSTEM:CONSOLE,10.00"]) {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    if cfg!(feature = "start") {
        // The run-time library that is part of Windows, by an import library that whoever builds so has made.
        for argument in ["/NODEFAULTLIB", "ucrtbase.lib"] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
    Ok(())
}
