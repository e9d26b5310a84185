//! The crates with which the images are built where the Windows Driver Kit is installed, as far as a machine without the kit can tell: their pins, their graph, and
//! whether what does not need the kit compiles for Windows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::TARGET;
use super::standard::{CRATES, StandardLibrary};
use crate::setup::{not_checked, say};

/// windows-drivers-rs, and what reads the kit's headers.
const PINNED: [&str; 6] = ["bindgen", "wdk", "wdk-alloc", "wdk-build", "wdk-panic", "wdk-sys"];

/// The crates that need the kit, each with the reason; those that depend on one of them need it, too.
const NEEDS_KIT: [(&str, &str); 1] = [(
    "wdk-sys",
    "its build script runs bindgen over the headers of the installed kit, and its source is what that writes",
)];

/// A crate of the graph.
struct Package {
    name: String,
    version: String,
    features: Vec<String>,
    /// Identifiers of what it depends on.
    dependencies: Vec<String>,
}

fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(crate::root()).stdin(Stdio::null());
    command
}

/// What cargo says of the lock file for Windows, with the features that take the kit.
fn metadata() -> Value {
    described(&["--features", "campanile_kmd/wdk,campanile_umd/wdk"])
}

/// What cargo says of a lock file for Windows; `which` picks the packages.
fn described(which: &[&str]) -> Value {
    let mut command = cargo();
    command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET]).args(which);
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo describes the packages")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// The packages by identifier.
fn graph(metadata: &Value) -> BTreeMap<String, Package> {
    let nodes = list(&metadata["resolve"]["nodes"]).iter().map(|node| (text(&node["id"]), node));
    let nodes: BTreeMap<&str, &Value> = nodes.collect();
    let package = |of: &Value| {
        let node = nodes.get(text(&of["id"]))?;
        // A crate that is only for another crate's tests is no part of a build.
        let built = |dependency: &&Value| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev");
        let dependencies = list(&node["deps"]).iter().filter(built);
        let package = Package {
            name: text(&of["name"]).to_owned(),
            version: text(&of["version"]).to_owned(),
            features: list(&node["features"]).iter().map(|feature| text(feature).to_owned()).collect(),
            dependencies: dependencies.map(|dependency| text(&dependency["pkg"]).to_owned()).collect(),
        };
        Some((text(&of["id"]).to_owned(), package))
    };
    list(&metadata["packages"]).iter().filter_map(package).collect()
}

/// Everything that these packages are built from, themselves included.
fn closure(graph: &BTreeMap<String, Package>, from: impl Iterator<Item = String>) -> BTreeSet<String> {
    let mut left: Vec<String> = from.collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = left.pop() {
        if let Some(package) = graph.get(&id)
            && reached.insert(id)
        {
            left.extend(package.dependencies.iter().cloned());
        }
    }
    reached
}

fn is_pinned(package: &Package) -> bool {
    PINNED.contains(&package.name.as_str())
}

#[test]
fn the_crates_of_the_kit_are_pinned_to_what_the_lock_file_has() {
    let metadata = metadata();
    let graph = graph(&metadata);
    let mut pinned = BTreeSet::new();
    for package in list(&metadata["packages"]).iter().filter(|package| package["source"].is_null()) {
        for dependency in list(&package["dependencies"]) {
            let name = text(&dependency["name"]);
            if !PINNED.contains(&name) {
                continue;
            }
            let locked = graph.values().find(|package| package.name == name).expect("it is in the graph");
            assert_eq!(text(&dependency["req"]), format!("={}", locked.version), "{name} of {}", package["name"]);
            pinned.insert(name);
        }
    }
    assert_eq!(pinned, PINNED.into());
}

/// The newest version of a crate that the registry has; `None` if it does not answer. It is asked outside of the workspace: inside, cargo answers from the lock file alone
/// when the registry is silent.
fn newest(name: &str) -> Option<String> {
    let outside = std::env::temp_dir();
    let output =
        cargo().current_dir(outside).args(["info", "--color", "never", "--registry", "crates-io", name]).output();
    let said = String::from_utf8_lossy(&output.ok()?.stdout).into_owned();
    said.lines().find_map(|line| line.strip_prefix("version: ")).map(str::to_owned)
}

/// Says of each pinned crate whether the registry has a newer release. It fails for none: what somebody releases tomorrow breaks nothing here. Where the registry
/// does not answer that is said, and fails in CI.
#[test]
fn newer_releases_of_the_crates_of_the_kit_are_named() {
    let graph = graph(&metadata());
    let mut unanswered = Vec::new();
    for Package { name, version, .. } in graph.values().filter(|package| is_pinned(package)) {
        match newest(name) {
            Some(newest) if newest == *version => {}
            Some(newest) => say(&format!("NEWER: {name} {newest}, here is {version}")),
            None => unanswered.push(name.as_str()),
        }
    }
    if !unanswered.is_empty() {
        not_checked(&format!("the registry says nothing of {}; it is asked over the network", unanswered.join(", ")));
    }
}

/// A package whose dependencies are exactly these crates, with the features that they have in the graph.
fn manifest<'a>(packages: impl Iterator<Item = &'a Package>) -> String {
    let mut text = String::from(
        "[package]\nname = \"without-kit\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[lib]\npath = \"lib.rs\"\n\n[dependencies]\n",
    );
    for Package { name, version, features, .. } in packages {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name} = {{ version = \"={version}\", default-features = false, features = {features:?} }}"
        );
    }
    text
}

/// Names and versions of the packages that cargo has checked for Windows, from its messages.
fn checked(messages: &str) -> BTreeSet<String> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let artifacts = messages.filter(|message| message["reason"] == "compiler-artifact");
    // `registry+URL#NAME@VERSION`, or without the name where the address ends in it.
    artifacts.map(|artifact| text(&artifact["package_id"]).rsplit('#').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn what_does_not_need_the_kit_compiles_for_windows() {
    let root = crate::root();
    let graph = graph(&metadata());
    let kit = closure(&graph, graph.iter().filter(|(_, package)| is_pinned(package)).map(|(id, _)| id.clone()));
    let needs = |id: &String| {
        let within = closure(&graph, [id.clone()].into_iter());
        NEEDS_KIT.iter().find(|(name, _)| within.iter().any(|id| graph[id].name == *name))
    };
    let (left_out, compiled): (Vec<&String>, Vec<&String>) = kit.iter().partition(|id| needs(id).is_some());
    for id in &left_out {
        let Package { name, version, .. } = &graph[*id];
        let (needed, reason) = needs(id).expect("it was left out");
        println!("left out: {name} {version}, which is or needs {needed}: {reason}");
    }
    let names = |ids: &[&String]| ids.iter().map(|id| graph[*id].name.clone()).collect::<BTreeSet<_>>();
    assert_eq!(names(&left_out), ["wdk", "wdk-alloc", "wdk-panic", "wdk-sys"].map(str::to_owned).into());

    let folder = root.join("target/without-kit");
    fs::create_dir_all(&folder).expect("the target folder can be written");
    // What the crates of the kit are, or are built from.
    let of_left_out: BTreeSet<&String> = left_out.iter().flat_map(|id| &graph[*id].dependencies).collect();
    let direct = compiled.iter().filter(|id| is_pinned(&graph[**id]) || of_left_out.contains(**id));
    let direct = direct.map(|id| &graph[*id]);
    fs::write(folder.join("Cargo.toml"), manifest(direct)).expect("written");
    fs::write(folder.join("lib.rs"), "").expect("written");
    // The versions are those of the workspace; cargo leaves out of the copy what is not used.
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).expect("copied");
    let library = StandardLibrary::find(&root, false).expect("a standard library for Windows");
    let mut command = cargo();
    command.args(["check", "--quiet", "--offline", "--target", TARGET, "--message-format=json"]);
    command.arg("--manifest-path").arg(folder.join("Cargo.toml"));
    library.choose(&folder, &mut command, &format!("{CRATES},std,panic_unwind"));
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let checked = checked(&String::from_utf8_lossy(&output.stdout));
    // In the workspace other crates switch features on that take further crates along: what counts are the features that the kit's own crates ask for.
    let alone =
        self::graph(&described(&["--manifest-path", folder.join("Cargo.toml").to_str().expect("a path as text")]));
    let missed: Vec<String> = alone
        .values()
        .filter(|package| package.name != "without-kit")
        .map(|package| format!("{}@{}", package.name, package.version))
        .filter(|package| !checked.contains(package))
        .collect();
    assert!(missed.is_empty(), "these were not compiled: {missed:?}");
    println!("{} crates compile without the kit, {} were left out", checked.len(), left_out.len());
    assert!(checked.len() > 50, "{}", checked.len());
}
