//! The crates that this repository is built from, as `cargo metadata` and `cargo tree` tell them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// What `cargo metadata` prints, as far as it is used.
#[derive(Debug, Deserialize)]
pub(super) struct Graph {
    pub(super) packages: Vec<Package>,
    pub(super) resolve: Resolve,
}

/// A crate in one version.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    /// The registry; `None` for a crate of this repository.
    pub(super) source: Option<String>,
    pub(super) manifest_path: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(super) struct Resolve {
    pub(super) nodes: Vec<Node>,
}

/// A crate and what it depends on, by their ids.
#[derive(Debug, Deserialize)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) dependencies: Vec<String>,
}

impl Graph {
    /// The crates of the whole repository: of every target, or of one.
    ///
    /// # Errors
    /// Cargo fails, with its text: a manifest and Cargo.lock that disagree, or a crate that cannot be fetched.
    pub(super) fn read(root: &Path, target: Option<&str>) -> Result<Self, String> {
        let mut command = super::cargo();
        command.current_dir(root).args(["metadata", "--format-version", "1", "--locked"]);
        command.args(target.iter().flat_map(|target| ["--filter-platform", target]));
        let output = output(&mut command)?;
        serde_json::from_str(&output).map_err(|error| format!("what cargo metadata prints: {error}"))
    }

    /// Name, version and source of a crate's package that is built from `lines` of `cargo tree`.
    pub(super) fn linked(&self, tree: &BTreeSet<(String, String)>) -> Vec<&Package> {
        let named = |package: &&Package| tree.contains(&(package.name.clone(), package.version.clone()));
        self.packages.iter().filter(named).collect()
    }
}

/// Names and versions of the crates that are linked into what these packages of this repository make, for a target: no procedural macros, and nothing that
/// only builds or tests need.
///
/// # Errors
/// Cargo fails, with its text: a manifest and Cargo.lock that disagree, or a crate that cannot be fetched.
pub(super) fn tree(root: &Path, packages: &[&str], target: &str) -> Result<BTreeSet<(String, String)>, String> {
    let mut command = super::cargo();
    command.current_dir(root).args(["tree", "--locked", "--prefix", "none", "--edges", "normal,no-proc-macro"]);
    command.args(["--target", target]).args(packages.iter().flat_map(|package| ["--package", package]));
    let text = output(&mut command)?;
    // `name v1.2.3`, with the folder or a mark behind it.
    let pair = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    Ok(text.lines().filter_map(pair).collect())
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
    }
}
