//! On Windows: links the program's version, and says how it is linked.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

// The whole of it serves the package, too.
#[allow(dead_code, unreachable_pub)]
#[path = "../inf/src/resource.rs"]
mod resource;

use resource::{Kind, Version};

fn main() {
    if let Err(reason) = run() {
        println!("cargo::error={reason}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../inf/src/resource.rs");
    if variable("CARGO_CFG_TARGET_OS")? == "windows" && variable("CARGO_CFG_TARGET_ENV")? == "msvc" {
        link(&PathBuf::from(variable("OUT_DIR")?))?;
    }
    Ok(())
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

/// Arguments as the other images have them, for a console, and the version resource.
fn link(out: &Path) -> Result<(), String> {
    let number = resource::driver_version(&variable("CARGO_PKG_VERSION")?)?;
    let description = variable("CARGO_PKG_DESCRIPTION")?;
    let path = out.join("version.res");
    let bytes =
        resource::resource(&Version { kind: Kind::Program, number, file: "hlk.exe", description: &description });
    fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("cargo::rustc-link-arg-bin=hlk={}", path.display());
    println!("cargo::rustc-link-arg-bin=hlk=/PDBALTPATH:hlk.pdb");
    let arguments =
        ["/SUBSYSTEM:CONSOLE,10.00", "/DEBUG", "/OPT:REF", "/OPT:ICF", "/RELEASE", "/Brepro", "/DYNAMICBASE"];
    for argument in arguments.into_iter().chain(["/HIGHENTROPYVA", "/NXCOMPAT"]) {
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
