//! The list of crates with much unsafe code, `xtask/unsafe-crates.toml`, compared with the crates that the programs are linked from.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::graph::{Graph, tree};

/// A crate that says `unsafe` more often than this is on the list.
const MANY: usize = 100;
/// What the host's users run, and the target that is looked at.
const PROGRAMS: [&str; 3] = ["campanile", "campanile_kmt", "campanile_vulkan"];
const HOST: &str = "x86_64-unknown-linux-gnu";

/// Contents of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(rename = "crate")]
    crates: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    name: String,
    version: String,
    /// Its use here, and who keeps it.
    why: String,
    /// What was read of its unsafe code, and found; that nobody read it, too.
    read: String,
}

/// A sentence for each crate that should be on the list and is not, the other way round, and for each that was looked at in another version.
///
/// # Errors
/// Cargo fails, with its text, or the list cannot be read.
pub(super) fn findings(root: &Path, every: &Graph) -> Result<Vec<String>, String> {
    let path = root.join("xtask").join("unsafe-crates.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let list: List = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let linked = tree(root, &PROGRAMS, HOST)?;
    let mut heavy = BTreeMap::new();
    for package in every.linked(&linked).into_iter().filter(|package| package.source.is_some()) {
        let folder = package.manifest_path.parent().unwrap_or(root);
        // A few crates have their sources beside the manifest.
        let sources = Some(folder.join("src")).filter(|sources| sources.is_dir());
        let count = count(sources.as_deref().unwrap_or(folder))?;
        if count > MANY {
            heavy.insert((package.name.clone(), package.version.clone()), count);
        }
    }
    let mut findings = Vec::new();
    for Listed { name, version, why, read } in list.crates {
        if heavy.remove(&(name.clone(), version.clone())).is_none() {
            findings.push(format!(
                "xtask/unsafe-crates.toml has {name} {version}, which is not linked or has little unsafe code"
            ));
        }
        if why.is_empty() || read.is_empty() {
            findings.push(format!("xtask/unsafe-crates.toml does not say why {name} is used, or what was read of it"));
        }
    }
    let missing = |((name, version), count): (&(String, String), &usize)| {
        format!("{name} {version} says `unsafe` {count} times and is not in xtask/unsafe-crates.toml")
    };
    findings.extend(heavy.iter().map(missing));
    Ok(findings)
}

/// Number of times that the sources below a folder say `unsafe` outside of comments.
fn count(folder: &Path) -> Result<usize, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(failed)?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            sum += count(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sum += words(&String::from_utf8_lossy(&fs::read(&path).map_err(failed)?));
        }
    }
    Ok(sum)
}

fn words(text: &str) -> usize {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let is_word = |word: &&str| *word == "unsafe";
    code.flat_map(|line| line.split(|c: char| !(c.is_alphanumeric() || c == '_'))).filter(is_word).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_counted_in_code_and_as_a_whole() {
        assert_eq!(words("unsafe fn a() { unsafe { b() } } // unsafe\n#![deny(unsafe_code)]\nunsafe impl C {}"), 3);
    }
}
