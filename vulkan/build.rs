//! Arguments of the linker for `libcampanile_vulkan.so` and `campanile_vulkan.dll`.

use std::fs;
use std::io;
use std::path::Path;

#[path = "../linking.rs"]
mod linking;

use linking::{EVERY_IMAGE, Kind, variable};

/// Sources that the program of a pipeline follows from, besides what the key of a cache has.
const COMPILER: [&str; 3] = ["../compiler/src", "../hw/src/isa", "src/layout.rs"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Err(reason) = run() {
        println!("cargo::error={reason}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let mut digest = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for path in COMPILER {
        println!("cargo::rerun-if-changed={path}");
        digest_of(Path::new(path), &mut digest).map_err(|error| format!("{path}: {error}"))?;
    }
    println!("cargo::rustc-env=CAMPANILE_COMPILER_DIGEST={digest}");
    match (variable("CARGO_CFG_TARGET_OS")?.as_str(), variable("CARGO_CFG_TARGET_ENV")?.as_str()) {
        ("linux", _) => {
            // Threads of the machine run in it until the process ends; the loader's `dlclose` leaves it where it is.
            println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
            // Its name in programs that link it.
            println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcampanile_vulkan.so");
            Ok(())
        }
        ("windows", "msvc") => dll(),
        _ => Ok(()),
    }
}

/// Mixes the contents of a file, or of all files of a folder in the order of their names, into an FNV-1a digest.
fn digest_of(path: &Path, digest: &mut u128) -> io::Result<()> {
    if path.is_dir() {
        let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        entries.sort();
        return entries.iter().try_for_each(|entry| digest_of(entry, digest));
    }
    for byte in fs::read(path)? {
        *digest = (*digest ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    Ok(())
}

/// Arguments as the other images have them, and the version resource.
fn dll() -> Result<(), String> {
    println!("cargo::rustc-cdylib-link-arg={}", linking::version("campanile_vulkan.dll", Kind::Dll)?);
    for argument in EVERY_IMAGE.iter().chain(&["/SUBSYSTEM:WINDOWS,10.00", "/PDBALTPATH:campanile_vulkan.pdb"]) {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    if cfg!(feature = "start") {
        // The run-time library that is part of Windows, by an import library that whoever builds so has made.
        for argument in ["/NODEFAULTLIB", "ucrtbase.lib"] {
            println!("cargo::rustc-cdylib-link-arg={argument}");
        }
    }
    Ok(())
}
