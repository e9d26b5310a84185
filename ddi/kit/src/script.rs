//! The comparison with an installed kit, as a build script does it.

use crate::compare::compare;
use crate::declared::Declared;
use crate::header::INCLUDES;
use crate::run::Headers;

/// Reads the headers of a kit, compares, and returns the lines that the build script prints for cargo: the configuration option
/// of the kit if it has one, the headers to watch, and as warnings the values that the kit has and `wddm-ddi` does not.
///
/// # Errors
/// What stops the build, the first difference on the first line: headers that cannot be read, or that say something else than
/// `wddm-ddi`.
pub fn script(headers: &Headers) -> Result<Vec<String>, String> {
    let declared = Declared::measure()?;
    let read = headers.read(INCLUDES, &declared).map_err(|error| error.to_string())?;
    let agreement = compare(&read.bindings, &declared).map_err(|failure| failure.to_string())?;
    let mut lines: Vec<String> = agreement.kit.cfg.iter().map(|cfg| format!("cargo::rustc-cfg={cfg}")).collect();
    lines.extend(read.files.iter().map(|file| format!("cargo::rerun-if-changed={}", file.display())));
    lines.extend(
        agreement.news.iter().map(|value| format!("cargo::warning=the kit has {value}, which wddm-ddi does not know")),
    );
    Ok(lines)
}
