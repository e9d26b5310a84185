//! Arguments of the linker for `libcampanile_vulkan.so` and `campanile_vulkan.dll`.

use std::env;
use std::fs;
use std::path::Path;

// The whole of it serves the package, too.
#[allow(dead_code, unreachable_pub)]
#[path = "../inf/src/resource.rs"]
mod resource;

use resource::{Kind, Version};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../inf/src/resource.rs");
    if let Err(reason) = run() {
        println!("cargo::error={reason}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    match (variable("CARGO_CFG_TARGET_OS")?.as_str(), variable("CARGO_CFG_TARGET_ENV")?.as_str()) {
        ("linux", _) => {
            // Threads of the machine run in it until the process ends; the loader's `dlclose` leaves it where it is.
            println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
            // Its name in programs that link it.
            println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcampanile_vulkan.so");
            Ok(())
        }
        ("windows", "msvc") => dll(Path::new(&variable("OUT_DIR")?)),
        _ => Ok(()),
    }
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

/// Arguments as the other images have them, and the version resource.
fn dll(out: &Path) -> Result<(), String> {
    let number = resource::driver_version(&variable("CARGO_PKG_VERSION")?)?;
    let description = variable("CARGO_PKG_DESCRIPTION")?;
    let path = out.join("version.res");
    let bytes = resource::resource(&Version {
        kind: Kind::Dll,
        number,
        file: "campanile_vulkan.dll",
        description: &description,
    });
    fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("cargo::rustc-cdylib-link-arg={}", path.display());
    let arguments = ["/SUBSYSTEM:WINDOWS,10.00", "/PDBALTPATH:campanile_vulkan.pdb", "/DEBUG", "/OPT:REF", "/OPT:ICF"];
    let hardened = ["/RELEASE", "/Brepro", "/DYNAMICBASE", "/HIGHENTROPYVA", "/NXCOMPAT"];
    for argument in arguments.into_iter().chain(hardened) {
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
