//! wgpu in the guest: its program with the system's loader and the Vulkan driver, whose machine is on the guest's bus.

use std::fs;
use std::path::{Path, PathBuf};

use super::image::Luggage;
use super::images;
use super::protocol::{Step, placeholder};

/// Name of the outcome.
pub(super) const NAME: &str = "Qemu.Guest.WgpuKernels";
/// Folder of program and driver in the guest.
const FOLDER: &str = "/vulkan";
/// The loader of Debian's libvulkan1, where programs of Debian look for it.
const LOADER: &str = "/usr/lib/x86_64-linux-gnu/libvulkan.so.1";

/// The step, and the files that it takes along.
///
/// # Errors
/// A file has not been built or installed.
pub(super) fn step() -> Result<(Step, Luggage), String> {
    let program = beside("wgpu_kernels")?;
    let (manifest, driver) = driver()?;
    let inside = |name: &str| format!("{FOLDER}/{name}");
    let files = [
        (program, inside("wgpu_kernels"), "cargo build -p campanile-wgpu-kernels"),
        (manifest, inside("icd.json"), "cargo xtask vulkan"),
        (driver, inside("libcampanile_vulkan.so"), "cargo xtask vulkan"),
        (LOADER.into(), LOADER.to_owned(), "apt-get install libvulkan1"),
    ];
    let mut luggage = Luggage::new();
    for (path, name, from) in files {
        if !path.is_file() {
            return Err(format!("{} is missing, and with it {NAME}; `{from}` brings it", path.display()));
        }
        luggage.push((path, name));
    }
    let mut arguments: Vec<String> = ["vulkan", "--graphics-bit", "--manifest"].map(str::to_owned).into();
    arguments.push(inside("icd.json"));
    arguments.extend(images::on_bus(&[placeholder(0)]));
    arguments.extend(["--".to_owned(), inside("wgpu_kernels")]);
    Ok((Step { name: NAME.to_owned(), arguments }, luggage))
}

/// What `cargo xtask vulkan` has made, manifest and library; or else the library that the tests were built with, and a manifest for it.
fn driver() -> Result<(PathBuf, PathBuf), String> {
    const LIBRARY: &str = "libcampanile_vulkan.so";
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let (shipped, of_tests) = (crate::vulkan::shipped(), target.join("debug/deps").join(LIBRARY));
    if shipped.is_file() || !of_tests.is_file() {
        let library = shipped.with_file_name(LIBRARY);
        return Ok((shipped, library));
    }
    let manifest = target.join("debug/campanile_icd.guest.json");
    let icd = serde_json::json!({ "library_path": format!("./{LIBRARY}"), "api_version": "1.3.0" });
    let text = serde_json::json!({ "file_format_version": "1.0.1", "ICD": icd }).to_string();
    fs::write(&manifest, text).map_err(|error| format!("{}: {error}", manifest.display()))?;
    Ok((manifest, of_tests))
}

/// A program that the same build has made, or else that of the tests.
fn beside(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let beside = own.with_file_name(name);
    if beside.is_file() {
        return Ok(beside);
    }
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join("target/debug").join(name))
}
