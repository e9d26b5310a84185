//! A second source of the user side: the declarations of Microsoft's windows-sys, which its authors make from the metadata of the kits.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::facts::Facts;
use crate::source::{Declared, Shape, Source};

/// The sources of the windows-sys that the lock file of the workspace at `root` names, among what cargo has fetched.
///
/// # Errors
/// Cargo does not describe the packages, or windows-sys is not one of them.
pub fn folder(root: &Path) -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--locked", "--format-version", "1"];
    let output = Command::new(cargo).args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("cargo does not start: {error}"))?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let is = |package: &&serde_json::Value| {
        package["name"] == "windows-sys"
            && package["version"].as_str().is_some_and(|version| version.starts_with("0.61."))
    };
    let package = metadata["packages"].as_array().into_iter().flatten().find(is);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    Ok(Path::new(manifest.ok_or("windows-sys 0.61 is no dependency")?).with_file_name("src"))
}

/// The module of the D3DKMT functions below [`folder`].
pub fn d3dkmt(folder: &Path) -> PathBuf {
    folder.join("Windows/Wdk/Graphics/Direct3D")
}

/// The file in which the compiler measures what windows-sys declares of the types of the table.
///
/// # Errors
/// The sources are not there or are not Rust.
pub fn generate(folder: &Path, facts: &Facts) -> Result<String, String> {
    let source = Source::read(&d3dkmt(folder))?;
    let mut out = String::from(
        "// Written by `cargo xtask ddi-layout`: what the compiler makes of the declarations of windows-sys. One line a type.\n\
         use ddi_layout::{Record, record};\nuse windows_sys::Wdk::Graphics::Direct3D::*;\n\npub(crate) const RECORDS: &[Record] = &[\n",
    );
    for name in facts.types.keys() {
        let Some(declared) = source.types.get(name).filter(|declared| matches!(declared.shape, Shape::Record { .. }))
        else {
            continue;
        };
        let mut fields = Vec::new();
        walk(&source, declared, &[], "", &mut fields);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "    record!({name}, [{}], [], []),", fields.join(", "));
    }
    out.push_str("];\n");
    Ok(out)
}

/// Takes a type apart as the table does: what C has unnamed inside another is called `Anonymous` there, and is no step of a path.
fn walk(source: &Source, declared: &Declared, path: &[&str], prefix: &str, fields: &mut Vec<String>) {
    let Shape::Record { fields: members } = &declared.shape else { return };
    for member in members {
        let path = [path, &[member.name.as_str()]].concat();
        let row = format!("{prefix}{}", member.name);
        let unnamed = member.name.starts_with("Anonymous");
        if !unnamed {
            let ty = member.ty.replace("super::super::super::", "windows_sys::");
            let ty = ty.replace("super::super::", "windows_sys::Wdk::");
            fields.push(format!("({row:?}, [{}], {ty})", path.join(".")));
        }
        let inside = member.ty.strip_prefix(declared.name.as_str()).and_then(|rest| rest.strip_prefix('_'));
        let inside = inside.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()));
        if let Some(inner) = source.types.get(&member.ty).filter(|_| inside) {
            let prefix = if unnamed { prefix.to_owned() } else { format!("{row}.") };
            walk(source, inner, &path, &prefix, fields);
        }
    }
}

/// Integer constants of a file of windows-sys by name, as 32 bits.
///
/// # Errors
/// The file cannot be read.
pub fn constants(file: &Path) -> Result<BTreeMap<String, u32>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text.lines().filter_map(constant).collect())
}

/// `pub const NAME: TYPE = 12i32;` or `= 0x12_u32 as _;`.
fn constant(line: &str) -> Option<(String, u32)> {
    let (name, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
    let value = rest.split_once(" = ")?.1.strip_suffix(';')?.trim_end_matches(" as _");
    let value = ["i32", "u32", "i64", "u64"].iter().find_map(|kind| value.strip_suffix(kind)).unwrap_or(value);
    let number = match value.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits.trim_end_matches('_'), 16).ok()?,
        None => value.trim_end_matches('_').parse().ok()?,
    };
    Some((name.to_owned(), number as u32))
}

/// A function that windows-sys links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Its DLL, in lower case.
    pub module: String,
    /// Name.
    pub name: String,
    /// Types of its arguments, without paths.
    pub arguments: Vec<String>,
}

/// The functions that the files below a folder link, which say `link!("MODULE" "ABI" fn NAME(NAME : TYPE, …)`.
///
/// # Errors
/// A file cannot be read.
pub fn linked(folder: &Path) -> Result<Vec<Linked>, String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(linked(&path)?);
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        all.extend(text.split("link!(\"").skip(1).filter_map(function));
    }
    Ok(all)
}

/// The function of which `link!("` is followed by this text; `None` if it is declared otherwise.
fn function(text: &str) -> Option<Linked> {
    let (module, rest) = text.split_once('"')?;
    let (name, rest) = rest.split_once(" fn ")?.1.split_once('(')?;
    let arguments = rest.split(')').next()?.split(", ");
    let ty = |argument: &str| {
        let ty = argument.split_once(" : ")?.1;
        let pointer = ["*mut ", "*const "].into_iter().find(|pointer| ty.starts_with(pointer)).unwrap_or_default();
        Some(format!("{pointer}{}", ty[pointer.len()..].rsplit("::").next()?.trim()))
    };
    Some(Linked { module: module.to_lowercase(), name: name.to_owned(), arguments: arguments.filter_map(ty).collect() })
}
