//! The software bill of materials of the driver package: which crates, in which version and under which licence, its images and its program are linked
//! from. CycloneDX 1.6 as JSON; the same sources make the same bytes.
//!
//! The format's own library would be twenty more crates to build for a dozen fields, so the fields are written here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use spdx::Expression;

use super::graph::{Graph, Package, tree};

/// The crates of this repository that the package's files are made of.
const FILES: [(&str, &str); 4] = [
    ("campanile_kmd.sys", "campanile_kmd"),
    ("campanile_umd.dll", "campanile_umd"),
    ("campanile_vulkan.dll", "campanile_vulkan"),
    ("hlk.exe", "campanile-hlk"),
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bill {
    bom_format: &'static str,
    spec_version: &'static str,
    version: u32,
    metadata: Metadata,
    components: Vec<Component>,
    dependencies: Vec<Dependency>,
}

#[derive(Serialize)]
struct Metadata {
    component: Component,
}

#[derive(Serialize)]
struct Component {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "bom-ref")]
    reference: String,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<Hash>,
    licenses: Vec<Licence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purl: Option<String>,
}

#[derive(Serialize)]
struct Hash {
    alg: &'static str,
    content: String,
}

#[derive(Serialize)]
struct Licence {
    expression: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dependency {
    #[serde(rename = "ref")]
    reference: String,
    depends_on: BTreeSet<String>,
}

/// Cargo.lock, as far as it is used.
#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    /// SHA-256 of the crate's archive; crates of this repository have none.
    checksum: Option<String>,
}

/// Writes the bill of what is built for `target` to a file.
///
/// # Errors
/// Cargo fails, with its text, or a file cannot be read or written.
pub(crate) fn write(root: &Path, target: &str, file: &Path) -> Result<(), String> {
    let text = bill(root, target)?;
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

fn bill(root: &Path, target: &str) -> Result<String, String> {
    let graph = Graph::read(root, Some(target))?;
    let linked = FILES.map(|(file, package)| tree(root, &[package], target).map(|tree| (file, tree)));
    let linked = linked.into_iter().collect::<Result<Vec<_>, _>>()?;
    let all = linked.iter().flat_map(|(_, tree)| tree).cloned().collect();
    let lock = fs::read_to_string(root.join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
    let lock: Lock = toml::from_str(&lock).map_err(|error| format!("Cargo.lock: {error}"))?;
    let packages = graph.linked(&all);
    let references: BTreeMap<&str, String> =
        packages.iter().map(|package| (package.id.as_str(), reference(package))).collect();

    let mut components = packages.iter().map(|package| component(package, &lock)).collect::<Result<Vec<_>, _>>()?;
    components.push(standard_library()?);
    let edges = graph.resolve.nodes.iter().filter_map(|node| {
        let depends_on = node.dependencies.iter().filter_map(|id| references.get(id.as_str()).cloned()).collect();
        Some(Dependency { reference: references.get(node.id.as_str())?.clone(), depends_on })
    });
    let mut dependencies: Vec<Dependency> = edges.collect();
    let version = env!("CARGO_PKG_VERSION");
    for (file, tree) in &linked {
        components.push(part("file", file, version));
        let crates = graph.linked(tree).into_iter().map(reference).chain([STANDARD_LIBRARY.to_owned()]).collect();
        dependencies.push(Dependency { reference: (*file).to_owned(), depends_on: crates });
    }
    let files = FILES.map(|(file, _)| file.to_owned()).into();
    dependencies.push(Dependency { reference: "campanile".to_owned(), depends_on: files });
    components.sort_by(|a, b| a.reference.cmp(&b.reference));
    dependencies.sort_by(|a, b| a.reference.cmp(&b.reference));
    let metadata = Metadata { component: part("device-driver", "campanile", version) };
    let bill = Bill { bom_format: "CycloneDX", spec_version: "1.6", version: 1, metadata, components, dependencies };
    serde_json::to_string_pretty(&bill).map(|text| text + "\n").map_err(|error| error.to_string())
}

const STANDARD_LIBRARY: &str = "rust-standard-library";

/// The compiler's standard library, of which each file has a part; it is no crate of a registry.
fn standard_library() -> Result<Component, String> {
    let output = std::process::Command::new("rustc").arg("--version").output();
    let output = output.map_err(|error| format!("rustc does not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().nth(1).ok_or("rustc does not tell its version")?;
    Ok(part("library", STANDARD_LIBRARY, version))
}

/// A component that is no crate.
fn part(kind: &'static str, name: &str, version: &str) -> Component {
    Component {
        kind,
        reference: name.to_owned(),
        name: name.to_owned(),
        version: version.to_owned(),
        hashes: Vec::new(),
        licenses: vec![Licence { expression: "MIT OR Apache-2.0".to_owned() }],
        purl: None,
    }
}

fn component(package: &Package, lock: &Lock) -> Result<Component, String> {
    let Package { name, version, license, source, .. } = package;
    let license = license.as_deref().ok_or_else(|| format!("{name} {version} names no licence"))?;
    let expression =
        Expression::canonicalize(license).map_err(|error| format!("{name} {version}: {}", error.reason))?;
    let locked = lock.package.iter().find(|locked| locked.name == *name && locked.version == *version);
    let checksum = locked.and_then(|locked| locked.checksum.clone());
    if source.is_some() && checksum.is_none() {
        return Err(format!("Cargo.lock has no checksum of {name} {version}"));
    }
    Ok(Component {
        kind: "library",
        reference: reference(package),
        name: name.clone(),
        version: version.clone(),
        hashes: checksum.into_iter().map(|content| Hash { alg: "SHA-256", content }).collect(),
        licenses: vec![Licence { expression: expression.unwrap_or_else(|| license.to_owned()) }],
        // Build metadata stands behind a `+`, which an address of a package has as its number.
        purl: source.as_ref().map(|_| format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))),
    })
}

fn reference(package: &Package) -> String {
    format!("{}@{}", package.name, package.version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const TARGET: &str = "x86_64-pc-windows-msvc";

    #[test]
    fn the_bill_names_what_each_file_is_linked_from_with_licence_and_checksum() {
        let text = bill(&crate::root(), TARGET).unwrap();
        assert_eq!(text, bill(&crate::root(), TARGET).unwrap(), "the same sources make the same bytes");
        let bill: Value = serde_json::from_str(&text).unwrap();
        let components = bill["components"].as_array().unwrap();
        let references: BTreeSet<&str> = components.iter().filter_map(|part| part["bom-ref"].as_str()).collect();
        assert_eq!(references.len(), components.len(), "every component has a name of its own");
        for part in components {
            assert!(part["licenses"][0]["expression"].as_str().is_some_and(|text| !text.contains('/')), "{part}");
            let digest = part["hashes"][0]["content"].as_str().map(str::len);
            assert_eq!(part["purl"].is_string(), digest == Some(64), "what a registry has, has a checksum: {part}");
        }
        let dependencies = bill["dependencies"].as_array().unwrap();
        let of = |reference: &str| -> BTreeSet<&str> {
            let found = dependencies.iter().find(|found| found["ref"] == reference).unwrap();
            found["dependsOn"].as_array().unwrap().iter().filter_map(Value::as_str).collect()
        };
        let names = |reference: &str| -> Vec<&str> {
            of(reference).into_iter().map(|part| part.split('@').next().unwrap_or_default()).collect()
        };
        // The driver has no crate of anybody else.
        assert_eq!(names("campanile_kmd.sys"), ["campanile-hw", "campanile_kmd", STANDARD_LIBRARY, "wddm-ddi"]);
        assert!(names("hlk.exe").contains(&"clap") && !names("hlk.exe").contains(&"campanile"));
        let known = |edge: &Value| {
            edge["dependsOn"].as_array().unwrap().iter().all(|to| references.contains(to.as_str().unwrap()))
        };
        assert!(dependencies.iter().all(known));
    }
}
