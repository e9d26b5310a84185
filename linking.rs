//! How the Windows images of the project are linked, for their build scripts: what all of them have in common, and the version resource of each.

use std::env;
use std::path::Path;

// The whole of it serves the package, too.
#[allow(dead_code, unreachable_pub)]
#[path = "inf/src/resource.rs"]
mod resource;

pub(crate) use resource::Kind;

/// Arguments of every image: symbols in a PDB, unreferenced code dropped, a checksum, and what Windows demands of an image's addresses.
pub(crate) const EVERY_IMAGE: &[&str] =
    &["/DEBUG", "/OPT:REF", "/OPT:ICF", "/RELEASE", "/Brepro", "/DYNAMICBASE", "/HIGHENTROPYVA", "/NXCOMPAT"];

/// Value of a variable that cargo sets for build scripts.
///
/// # Errors
/// The name of the variable, and what is wrong with its value.
pub(crate) fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

/// Writes the version resource of an image, whose number the INF has too; returns its path, which is an argument of the linker.
///
/// # Errors
/// The file or variable, and what is wrong with it.
pub(crate) fn version(file: &str, kind: Kind) -> Result<String, String> {
    for watched in ["../linking.rs", "../inf/src/resource.rs"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let number = resource::driver_version(&variable("CARGO_PKG_VERSION")?)?;
    let description = variable("CARGO_PKG_DESCRIPTION")?;
    let path = Path::new(&variable("OUT_DIR")?).join("version.res");
    let bytes = resource::resource(&resource::Version { kind, number, file, description: &description });
    std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.display().to_string())
}
