//! Files that are generated, and compared.

use std::path::Path;

/// Writes `text` to `path`, or with `check` says that it would.
pub(crate) fn publish(path: &Path, text: &str, check: bool) -> Result<(), String> {
    let old = std::fs::read_to_string(path).unwrap_or_default();
    if old == text {
        return Ok(());
    }
    if check {
        return Err(format!("{} is stale", path.display()));
    }
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}
