//! Names the cases that look behind the thunks, so that the program can list them as not applicable; and on Windows links the program's version and says
//! how it is linked.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

// The whole of it serves the package, too.
#[allow(dead_code, unreachable_pub)]
#[path = "../../inf/src/resource.rs"]
mod resource;

use resource::{Kind, Version};

/// Where those cases are.
const SOURCES: &str = "../../src/hlk";

fn main() {
    if let Err(reason) = run() {
        println!("cargo::error={reason}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../inf/src/resource.rs");
    println!("cargo::rerun-if-changed={SOURCES}");
    let out = PathBuf::from(variable("OUT_DIR")?);
    let mut table = String::from("&[\n");
    for file in sources()? {
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        for case in cases(&text).map_err(|error| format!("{}: {error}", file.display()))? {
            table.push_str(&case);
        }
    }
    table.push(']');
    fs::write(out.join("inside.rs"), table).map_err(|error| format!("inside.rs: {error}"))?;
    if variable("CARGO_CFG_TARGET_OS")? == "windows" && variable("CARGO_CFG_TARGET_ENV")? == "msvc" {
        link(&out)?;
    }
    Ok(())
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

/// The sources, by name.
fn sources() -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(SOURCES).map_err(|error| format!("{SOURCES}: {error}"))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    Ok(files)
}

/// The cases of a file's table, each as an expression.
fn cases(text: &str) -> Result<Vec<String>, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let tables = file.items.into_iter().filter_map(|item| match item {
        syn::Item::Macro(item) if item.mac.path.is_ident("cases") => Some(item.mac.tokens),
        _ => None,
    });
    tables.map(table).collect::<Result<Vec<_>, _>>().map(|tables| tables.concat())
}

/// The rows of `"Area", behind "reason"; "Name" on Boot, "page": "requirement" => function; …`.
fn table(tokens: TokenStream) -> Result<Vec<String>, String> {
    let mut rows: Vec<Vec<TokenTree>> = vec![Vec::new()];
    for token in tokens {
        if matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ';') {
            rows.push(Vec::new());
        } else if let Some(row) = rows.last_mut() {
            row.push(token);
        }
    }
    let mut rows = rows.into_iter().filter(|row| !row.is_empty());
    let head = texts(&rows.next().ok_or("a table without an area")?);
    let (area, reason) = match &head[..] {
        [area] => (area.clone(), String::new()),
        [area, reason] => (area.clone(), reason.clone()),
        _ => return Err("a table begins with its area and the reason".to_owned()),
    };
    rows.map(|row| {
        let brings = row.iter().any(|token| matches!(token, TokenTree::Ident(ident) if ident == "With"));
        match &texts(&row)[..] {
            [name, page, requirement] => Ok(format!(
                "Inside {{ name: {:?}, area: {area:?}, page: {page:?}, requirement: {requirement:?}, brings_machine: {brings}, reason: {reason:?} }},\n",
                format!("Device.Graphics.WDDM32.{name}"),
            )),
            other => Err(format!("a row of {} texts: {other:?}", other.len())),
        }
    })
    .collect()
}

/// The texts among some tokens.
fn texts(tokens: &[TokenTree]) -> Vec<String> {
    let literals = tokens.iter().filter_map(|token| match token {
        TokenTree::Literal(literal) => syn::parse_str::<syn::LitStr>(&literal.to_string()).ok(),
        _ => None,
    });
    literals.map(|literal| literal.value()).collect()
}

/// Arguments as the other images have them, for a console, and the version resource.
fn link(out: &Path) -> Result<(), String> {
    let number = resource::driver_version(&variable("CARGO_PKG_VERSION")?)?;
    let description = variable("CARGO_PKG_DESCRIPTION")?;
    let path = out.join("version.res");
    let bytes =
        resource::resource(&Version { kind: Kind::Program, number, file: "hlk.exe", description: &description });
    fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("cargo::rustc-link-arg-bin=hlk={}", path.display());
    println!("cargo::rustc-link-arg-bin=hlk=/PDBALTPATH:hlk.pdb");
    let arguments =
        ["/SUBSYSTEM:CONSOLE,10.00", "/DEBUG", "/OPT:REF", "/OPT:ICF", "/RELEASE", "/Brepro", "/DYNAMICBASE"];
    for argument in arguments.into_iter().chain(["/HIGHENTROPYVA", "/NXCOMPAT"]) {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    if cfg!(feature = "start") {
        // The run-time library that is part of Windows, by an import library that whoever builds so has made.
        for argument in ["/NODEFAULTLIB", "ucrtbase.lib"] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
    Ok(())
}
