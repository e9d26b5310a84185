//! The driver package, from the images that `cargo xtask pe` builds.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use campanile_inf::package::{Sources, check, make, verify};

use crate::{pe, setup};

/// Builds the images and makes the package in `out`, or with `only_check` looks at the one that is there.
///
/// # Errors
/// A file that is missing or wrong, and the command that makes it.
pub(crate) fn package(
    root: &Path,
    out: Option<PathBuf>,
    keys: Option<PathBuf>,
    only_check: bool,
) -> Result<(), String> {
    let folder = out.unwrap_or_else(|| root.join("target").join("package"));
    if only_check {
        let findings = check(&folder)?;
        if findings.is_empty() {
            println!("{}: campanile.inf breaks no rule", folder.display());
            return verify(&folder).map(|sentences| report(&sentences));
        }
        let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
        return Err(format!("{}: campanile.inf breaks the rules:\n{}", folder.display(), texts.join("\n")));
    }
    setup::signing()?;
    let images = pe::build(root, false)?;
    let keys = keys.unwrap_or_else(|| root.join("target").join("certificate"));
    let sources = Sources { root, images: &images, version: env!("CARGO_PKG_VERSION"), time: now()? };
    let made = make(&sources, &folder, &keys)?;
    println!("\n{} (version {}):", made.folder.display(), made.version.map(|field| field.to_string()).join("."));
    for file in &made.files {
        println!("  {file}");
    }
    report(&made.verified);
    println!("Nobody has installed this package on Windows yet; docs/windows.md says how it is meant to be done.");
    Ok(())
}

fn report(verified: &[String]) {
    for sentence in verified {
        println!("verified with osslsigncode: {sentence}");
    }
}

/// Seconds since 1970: `SOURCE_DATE_EPOCH` where it is set, so that a package can be made again, else now.
fn now() -> Result<u64, String> {
    if let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") {
        return text.parse().map_err(|_| format!("SOURCE_DATE_EPOCH is {text:?}, not a number of seconds"));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map(|since| since.as_secs()).map_err(|_| "the clock stands before 1970".to_owned())
}
