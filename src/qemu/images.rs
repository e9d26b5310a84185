//! The Windows images in a guest, and the options of a step that runs on them.

use std::path::PathBuf;

use super::image::Luggage;
use testbed::setup::{DriverLimit, shipped};

/// Folder of the Windows images in the guest.
const IMAGES: &str = "/pe";

/// The options of a step that uses these GPUs with the Windows images.
pub(super) fn on_bus(gpus: &[String]) -> Vec<String> {
    let driver = format!("{IMAGES}/campanile_kmd.sys");
    let mut options = vec!["--driver".to_owned(), driver, "--bus".to_owned(), format!("vfio={}", gpus.join(","))];
    // The environment of the guest is another one.
    if let Ok(Some(limit)) = DriverLimit::selected() {
        options.extend(["--driver-limit".to_owned(), limit.to_string()]);
    }
    options
}

/// The Windows images with their symbols.
///
/// # Errors
/// They have not been built.
pub(super) fn images() -> Result<Luggage, String> {
    let mut luggage = Luggage::new();
    for name in ["campanile_kmd.sys", "campanile_kmd.pdb", "campanile_umd.dll", "campanile_umd.pdb"] {
        let path: PathBuf = shipped(name);
        if !path.is_file() {
            return Err(format!("{} is missing; `cargo xtask pe` builds it", path.display()));
        }
        luggage.push((path, format!("{IMAGES}/{name}")));
    }
    Ok(luggage)
}
