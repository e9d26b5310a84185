//! What `deny.toml` says of licences, duplicates and sources, checked against `cargo metadata`. cargo-deny reads the same file; this needs no program but cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use spdx::{Expression, LicenseReq, ParseMode};

use super::graph::{Graph, Package};

/// The one registry, as cargo names it in Cargo.lock.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The parts of `deny.toml` that are held here.
#[derive(Debug, Deserialize)]
pub(super) struct Deny {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    /// Licences that any crate may have.
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

/// Licences that one crate may have besides.
#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    /// Versions that may be there beside another one of their crate.
    skip: Vec<Skip>,
}

#[derive(Debug, Deserialize)]
struct Skip {
    /// `name@version`.
    #[serde(rename = "crate")]
    spec: String,
    reason: String,
}

impl Deny {
    /// # Errors
    /// That the file cannot be read or understood.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A sentence for each crate that breaks a rule, and for each exception that none needs.
    pub(super) fn findings(&self, graph: &Graph) -> Vec<String> {
        let strangers = graph.packages.iter().filter_map(source);
        let licences = graph.packages.iter().filter_map(|package| self.licence(package));
        strangers.chain(licences).chain(self.unused(graph)).chain(self.duplicates(graph)).collect()
    }

    fn licence(&self, package: &Package) -> Option<String> {
        let Package { name, version, license, .. } = package;
        let Some(license) = license else { return Some(format!("{name} {version} names no licence")) };
        let expression = match Expression::parse_mode(license, ParseMode::LAX) {
            Ok(expression) => expression,
            Err(error) => return Some(format!("{name} {version}: the licence {license}: {}", error.reason)),
        };
        let own = self.licenses.exceptions.iter().filter(|exception| exception.name == *name);
        let allowed: Vec<&String> = self.licenses.allow.iter().chain(own.flat_map(|own| &own.allow)).collect();
        let accepts = |wanted: &LicenseReq| allowed.iter().any(|allowed| **allowed == wanted.to_string());
        let refused = || format!("{name} {version} is under {license}, which deny.toml does not allow");
        (!expression.evaluate(accepts)).then(refused)
    }

    /// Exceptions for crates that are not there.
    fn unused<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = String> + 'a {
        let there = |name: &str| graph.packages.iter().any(|package| package.name == name);
        let absent = self.licenses.exceptions.iter().filter(move |exception| !there(&exception.name));
        absent.map(|exception| format!("deny.toml has an exception for {}, which is not used", exception.name))
    }

    fn duplicates(&self, graph: &Graph) -> Vec<String> {
        let mut versions = BTreeMap::<&str, BTreeSet<&str>>::new();
        for package in &graph.packages {
            versions.entry(&package.name).or_default().insert(&package.version);
        }
        let skipped =
            |name: &str, version: &str| self.bans.skip.iter().any(|skip| skip.spec == format!("{name}@{version}"));
        let mut findings = Vec::new();
        for (name, versions) in &versions {
            let counted: Vec<&str> = versions.iter().copied().filter(|version| !skipped(name, version)).collect();
            if counted.len() > 1 {
                findings.push(format!("{name} is there {} times: {}", counted.len(), counted.join(", ")));
            }
        }
        for Skip { spec, reason } in &self.bans.skip {
            let (name, version) = spec.split_once('@').unwrap_or((spec, ""));
            let there = versions.get(name).is_some_and(|versions| versions.len() > 1 && versions.contains(version));
            if !there || reason.is_empty() {
                findings.push(format!("deny.toml skips {spec}, which is no duplicate, or says no reason"));
            }
        }
        findings
    }
}

fn source(package: &Package) -> Option<String> {
    let source = package.source.as_deref()?;
    (source != REGISTRY).then(|| format!("{} {} comes from {source}", package.name, package.version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RULES: &str = "
        licenses = { allow = ['MIT', 'Apache-2.0 WITH LLVM-exception'], exceptions = [{ crate = 'z', allow = ['Zlib'] }] }
        bans = { skip = [{ crate = 'd@1.0.0', reason = 'x asks for it' }] }";

    /// What is found in crates given as name, version, licence and source.
    fn found(crates: &[(&str, &str, &str, &str)]) -> Vec<String> {
        let package = |&(name, version, license, source): &(&str, &str, &str, &str)| json!({ "id": name, "name": name, "version": version, "license": license, "source": source, "manifest_path": "Cargo.toml" });
        // The crates of the exceptions are always there.
        let needed =
            [("z", "1.0.0", "Zlib", REGISTRY), ("d", "1.0.0", "MIT", REGISTRY), ("d", "2.0.0", "MIT", REGISTRY)];
        let packages: Vec<_> = needed.iter().chain(crates).map(package).collect();
        let graph = serde_json::from_value(json!({ "packages": packages, "resolve": { "nodes": [] } })).unwrap();
        toml::from_str::<Deny>(RULES).unwrap().findings(&graph)
    }

    #[test]
    fn what_the_rules_allow_is_no_finding() {
        let llvm = "MIT/GPL-3.0-only";
        assert_eq!(
            found(&[("a", "1.0.0", llvm, REGISTRY), ("b", "1.0.0", "Apache-2.0 WITH LLVM-exception", REGISTRY)]),
            [""; 0]
        );
    }

    #[test]
    fn another_licence_a_second_version_and_another_source_are_found() {
        let of = |found: Vec<String>| found.join("\n");
        assert!(of(found(&[("a", "1.0.0", "GPL-3.0-only", REGISTRY)])).contains("a 1.0.0 is under GPL-3.0-only"));
        assert!(of(found(&[("a", "1.0.0", "MIT AND GPL-3.0-only", REGISTRY)])).contains("does not allow"));
        // The exception is of another crate, and the plain licence is another one than that with an exception.
        assert!(of(found(&[("a", "1.0.0", "Zlib", REGISTRY)])).contains("a 1.0.0 is under Zlib"));
        assert!(of(found(&[("a", "1.0.0", "Apache-2.0", REGISTRY)])).contains("does not allow"));
        assert!(of(found(&[("a", "1.0.0", "no licence", REGISTRY)])).contains("the licence no licence"));
        let twice = [("a", "1.0.0", "MIT", REGISTRY), ("a", "2.0.0", "MIT", REGISTRY)];
        assert_eq!(found(&twice), ["a is there 2 times: 1.0.0, 2.0.0"]);
        assert_eq!(
            found(&[("a", "1.0.0", "MIT", "git+https://example.org/a")]),
            ["a 1.0.0 comes from git+https://example.org/a"]
        );
    }

    #[test]
    fn an_exception_that_nothing_needs_is_found() {
        let graph = serde_json::from_value(json!({ "packages": [], "resolve": { "nodes": [] } })).unwrap();
        let found = toml::from_str::<Deny>(RULES).unwrap().findings(&graph);
        assert!(
            found.len() == 2 && found[0].contains("exception for z") && found[1].contains("skips d@1.0.0"),
            "{found:?}"
        );
    }
}
