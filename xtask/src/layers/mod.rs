//! `cargo xtask layers`: modules import only what stands below them, types have their functions in one module, and files and functions stay readable.
//!
//! The order is a table, `xtask/layers.toml`: for each crate its modules from the top down, strangers to each other side by side, and the same for some folders.

mod imports;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use imports::{Import, Imports, Methods};

/// The table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(rename = "crate")]
    crates: Vec<Crate>,
    #[serde(default, rename = "folder")]
    folders: Vec<Folder>,
    sizes: sizes::Limits,
    #[serde(default, rename = "exception")]
    exceptions: Vec<sizes::Exception>,
}

/// The modules of a crate.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Crate {
    /// Folder of its sources.
    sources: String,
    /// From the top down. Modules of one layer are strangers to each other.
    layers: Vec<Vec<String>>,
    /// Types whose functions stand in several modules.
    #[serde(default)]
    spread: Vec<Spread>,
}

/// A folder with the modules of a module, `mod.rs` among them, which keep an order of their own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Folder {
    /// The crate's folder of sources, and the path of the module below that.
    path: String,
    /// As those of a crate.
    layers: Vec<Vec<String>>,
}

/// A type with `impl` blocks outside the module that has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spread {
    item: String,
    /// Reason why its functions stand in several modules.
    #[serde(rename = "why")]
    _why: String,
}

/// Runs the command.
///
/// # Errors
/// Every import that runs up, and everything that is too long, one a line.
pub(crate) fn layers(root: &Path) -> Result<(), String> {
    let path = root.join("xtask/layers.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let table: Table = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut wrong = Vec::new();
    let mut imports_seen = 0;
    for known in &table.crates {
        let imports = imports::of(&root.join(&known.sources))?;
        imports_seen += imports.list.len();
        wrong.extend(known.check(&imports.modules, &imports.list));
        wrong.extend(known.strayed(&imports));
        wrong.extend(imports.roots.iter().map(ToString::to_string));
    }
    for Folder { path, layers } in table.folders {
        let Some(module) = below_sources(&path) else {
            wrong.push(format!("{path}: a folder with layers is one below the sources of a crate"));
            continue;
        };
        let imports = imports::within(&root.join(&path), &module.split('/').collect::<Vec<_>>())?;
        imports_seen += imports.list.len();
        let known = Crate { sources: path, layers, spread: Vec::new() };
        wrong.extend(known.check(&imports.modules, &imports.list));
        wrong.extend(imports.roots.iter().map(ToString::to_string));
    }
    wrong.extend(unlisted(root, &table.crates)?);
    let measured = sizes::measure(root)?;
    wrong.extend(table.sizes.check(&measured, &table.exceptions));
    if wrong.is_empty() {
        println!(
            "{} crates, {imports_seen} imports between modules, {} files, {} functions: nothing runs up, nothing is too long",
            table.crates.len(),
            measured.files.len(),
            measured.functions.len()
        );
        return Ok(());
    }
    wrong.sort();
    Err(format!("{}\n{} rules broken; xtask/layers.toml has them", wrong.join("\n"), wrong.len()))
}

/// The path of a folder below the sources of its crate, which for the crate at the root of the repository are `src`; none of a folder elsewhere.
fn below_sources(folder: &str) -> Option<&str> {
    folder.strip_prefix("src/").or_else(|| folder.split_once("/src/").map(|(_, module)| module))
}

/// The part of `Cargo.toml` that names the crates.
#[derive(Deserialize)]
struct Manifest {
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    members: Vec<String>,
}

/// Crates of the workspace that have modules and are not in the table.
fn unlisted(root: &Path, listed: &[Crate]) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(root.join("Cargo.toml")).map_err(|error| format!("Cargo.toml: {error}"))?;
    let manifest: Manifest = toml::from_str(&text).map_err(|error| format!("Cargo.toml: {error}"))?;
    let mut wrong = Vec::new();
    // The images that tests load are data of the tests.
    for member in manifest.workspace.members.iter().filter(|member| !member.starts_with("tests/")) {
        let sources = format!("{member}/src");
        if !listed.iter().any(|known| known.sources == sources)
            && !imports::of(&root.join(&sources))?.modules.is_empty()
        {
            wrong.push(format!("{sources}: the crate has modules and is not in the table"));
        }
    }
    Ok(wrong)
}

impl Crate {
    /// Errors of the imports between the crate's modules.
    fn check(&self, modules: &BTreeSet<String>, imports: &[Import]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut depth = BTreeMap::new();
        for (place, layer) in self.layers.iter().enumerate() {
            for module in layer {
                if depth.insert(module.as_str(), place).is_some() {
                    wrong.push(format!("{}: module {module} is in the table twice", self.sources));
                }
                if !modules.contains(module) {
                    wrong.push(format!("{}: the table names module {module}, which does not exist", self.sources));
                }
            }
        }
        for module in modules {
            if !depth.contains_key(module.as_str()) {
                wrong.push(format!("{}: module {module} has no layer", self.sources));
            }
        }
        for import in imports.iter().filter(|import| import.from != import.to) {
            let (Some(from), to) = (depth.get(import.from.as_str()), depth.get(import.to.as_str())) else { continue };
            let Some(to) = to else {
                // Whoever stands above everything may use what the crate shows to others.
                if *from == 0 {
                    continue;
                }
                wrong.push(format!("{import}, which is an item of the root of {} and no module", self.sources));
                continue;
            };
            if to < from {
                wrong.push(format!("{import}, which stands above it"));
            } else if to == from {
                wrong.push(format!("{import}, which is a stranger to it"));
            }
        }
        wrong
    }

    /// The `impl` blocks that stand outside the module of their type, unless the table says why those of the type may.
    fn strayed(&self, imports: &Imports) -> Vec<String> {
        let strays = |methods: &Methods| {
            let named = imports.named(&methods.item, &methods.module);
            let away = |name: &&str| imports.types.get(*name).is_some_and(|homes| !homes.contains(&methods.module));
            named.into_iter().filter(away).collect::<Vec<_>>()
        };
        let mut wrong: Vec<String> = Vec::new();
        for methods in imports.impls.iter().chain(&imports.extensions) {
            if strays(methods).into_iter().any(|name| !self.spread.iter().any(|spread| spread.item == name)) {
                wrong.push(format!("{methods}, which is a type of another module"));
            }
        }
        for spread in &self.spread {
            let strays = |methods: &Methods| strays(methods).contains(&spread.item.as_str());
            if !imports.impls.iter().chain(&imports.extensions).any(strays) {
                wrong.push(format!(
                    "{}: every impl of {} is in its module, take it off `spread`",
                    self.sources, spread.item
                ));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_runs_up_and_nothing_is_too_long() {
        if let Err(message) = layers(&crate::root()) {
            panic!("{message}");
        }
    }

    fn import(from: &str, to: &str) -> Import {
        Import { from: from.to_owned(), to: to.to_owned(), file: "a.rs".into(), line: 1 }
    }

    fn check(layers: &[&[&str]], imports: &[(&str, &str)]) -> Vec<String> {
        let layers: Vec<Vec<String>> =
            layers.iter().map(|layer| layer.iter().map(|module| (*module).to_owned()).collect()).collect();
        let modules = layers.iter().flatten().cloned().collect();
        let imports: Vec<_> = imports.iter().map(|(from, to)| import(from, to)).collect();
        Crate { sources: "x".to_owned(), layers, spread: Vec::new() }.check(&modules, &imports)
    }

    #[test]
    fn imports_run_down_and_strangers_do_not_meet() {
        let layers: &[&[&str]] = &[&["top"], &["left", "right"], &["ground"]];
        assert!(check(layers, &[("top", "ground"), ("left", "ground"), ("top", "right"), ("top", "top")]).is_empty());
        assert_eq!(check(layers, &[("ground", "top")]), ["a.rs:1: ground imports top, which stands above it"]);
        assert_eq!(check(layers, &[("left", "right")]), ["a.rs:1: left imports right, which is a stranger to it"]);
        let of_root = check(layers, &[("left", "Item")]);
        assert_eq!(of_root, ["a.rs:1: left imports Item, which is an item of the root of x and no module"]);
    }

    #[test]
    fn a_folder_with_layers_is_below_the_sources_of_a_crate() {
        assert_eq!(below_sources("src/bench"), Some("bench"));
        assert_eq!(below_sources("dxgkrnl/src/vidsch/fences"), Some("vidsch/fences"));
        for elsewhere in ["src", "tests/machine", "dxgkrnl/src"] {
            assert_eq!(below_sources(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn an_impl_stands_in_the_module_of_its_type() {
        let methods = |item: &str, module: &str| Methods {
            item: item.to_owned(),
            module: module.to_owned(),
            file: "a.rs".into(),
            line: 1,
        };
        let spread = |item: &str| Spread { item: item.to_owned(), _why: String::new() };
        let strayed = |module: &str, spread: Vec<Spread>| {
            let types = BTreeMap::from([("Machine".to_owned(), BTreeSet::from(["machine".to_owned()]))]);
            let impls = vec![methods("Machine", module), methods("u32", "machine")];
            let (modules, list, aliases, extensions, roots) = Default::default();
            let imports = Imports { modules, list, types, aliases, impls, extensions, roots };
            Crate { sources: "x".to_owned(), layers: Vec::new(), spread }.strayed(&imports)
        };
        assert!(strayed("machine", Vec::new()).is_empty());
        let away = "a.rs:1: adapter has an impl of Machine, which is a type of another module";
        assert_eq!(strayed("adapter", Vec::new()), [away]);
        assert!(strayed("adapter", vec![spread("Machine")]).is_empty());
        let needless = "x: every impl of Machine is in its module, take it off `spread`";
        assert_eq!(strayed("machine", vec![spread("Machine")]), [needless]);
    }

    #[test]
    fn another_name_of_a_type_is_no_way_round() {
        let methods = Methods { item: "M".to_owned(), module: "adapter".to_owned(), file: "a.rs".into(), line: 1 };
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        let imports = Imports {
            modules: BTreeSet::new(),
            list: Vec::new(),
            types: BTreeMap::from([("VidSch".to_owned(), set("vidsch"))]),
            aliases: BTreeMap::from([("M".to_owned(), set("V")), ("V".to_owned(), set("VidSch"))]),
            impls: vec![methods],
            extensions: Vec::new(),
            roots: Vec::new(),
        };
        let known = Crate { sources: "x".to_owned(), layers: Vec::new(), spread: Vec::new() };
        let wrong = ["a.rs:1: adapter has an impl of M, which is a type of another module"];
        assert_eq!(known.strayed(&imports), wrong);
        let imports = Imports { extensions: imports.impls, impls: Vec::new(), ..imports };
        assert_eq!(known.strayed(&imports), wrong, "nor is a trait that the other module declares for it");
    }

    #[test]
    fn a_crate_with_modules_is_in_the_table() {
        let wrong = unlisted(&crate::root(), &[]).unwrap();
        assert!(wrong.contains(&"remote/src: the crate has modules and is not in the table".to_owned()), "{wrong:?}");
        assert!(!wrong.iter().any(|line| line.starts_with("crt/")), "a crate of one file needs no layers: {wrong:?}");
    }

    #[test]
    fn every_module_is_in_the_table_and_the_table_names_no_other() {
        let known = Crate {
            sources: "x".to_owned(),
            layers: vec![vec!["a".to_owned(), "gone".to_owned()]],
            spread: Vec::new(),
        };
        let modules = ["a".to_owned(), "new".to_owned()].into();
        let wrong = known.check(&modules, &[]);
        assert_eq!(wrong, ["x: the table names module gone, which does not exist", "x: module new has no layer"]);
    }
}
