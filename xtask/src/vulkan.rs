//! The Vulkan driver with its manifest, where programs find both.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The library, as cargo names it.
const LIBRARY: &str = "libcampanile_vulkan.so";
/// The version of Vulkan in the manifest; a test of the driver compares it with what the driver says.
const API_VERSION: &str = "1.3.281";

/// Builds the driver and makes `target/vulkan`.
///
/// # Errors
/// It does not compile, or a file is not written.
pub(crate) fn build(root: &Path) -> Result<(), String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(["build", "--release", "-p", "campanile_vulkan"]).current_dir(root).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("the Vulkan driver does not compile: {status}")),
        Err(error) => return Err(format!("cargo does not start: {error}")),
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let folder = root.join("target/vulkan");
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(said)?;
    // A new file, for a program may have the old one open.
    let fresh = folder.join("fresh");
    fs::copy(target.join("release").join(LIBRARY), &fresh).map_err(said)?;
    fs::rename(fresh, folder.join(LIBRARY)).map_err(said)?;
    let manifest = folder.join("campanile_icd.x86_64.json");
    fs::write(&manifest, text()).map_err(said)?;
    println!("VK_DRIVER_FILES={} PROGRAM runs a program on it; docs/vulkan.md says more", manifest.display());
    Ok(())
}

/// The manifest. The loader looks for a path that begins with a dot beside it. [Vulkan-Loader: LoaderDriverInterface, driver manifest file format]
fn text() -> String {
    let icd = serde_json::json!({ "library_path": format!("./{LIBRARY}"), "api_version": API_VERSION });
    format!("{:#}\n", serde_json::json!({ "file_format_version": "1.0.1", "ICD": icd }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The package's manifest differs in the library alone.
    #[test]
    fn both_systems_have_the_same_manifest() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../inf").join(campanile_inf::package::MANIFEST);
        let windows = fs::read_to_string(path).expect("the manifest is there");
        let here = text().replace(&format!("./{LIBRARY}"), r".\\campanile_vulkan.dll");
        assert_eq!(windows, here);
    }
}
