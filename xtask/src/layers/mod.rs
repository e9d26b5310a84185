//! `cargo xtask layers`: modules import only what stands below them, and files and functions stay readable.
//!
//! The order is a table, `xtask/layers.toml`: for each crate its modules from the top down, strangers to each other side by side. Modules that still import one another
//! are told as a circle, so that what is left to untie is in one place, and nothing joins it unseen.

mod imports;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use imports::Import;

/// The table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(rename = "crate")]
    crates: Vec<Crate>,
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
    /// Layers, by one of their modules, whose modules may import each other.
    #[serde(default)]
    circles: Vec<Circle>,
}

/// Modules that import one another.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Circle {
    modules: BTreeSet<String>,
    /// Reason why the modules import one another.
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
    }
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

impl Crate {
    /// What is wrong with the imports between its modules.
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
        for circle in &self.circles {
            let places: BTreeSet<_> = circle.modules.iter().map(|module| depth.get(module.as_str())).collect();
            if places.len() != 1 {
                wrong.push(format!("{}: the modules of a circle are not of one layer", self.sources));
            }
            wrong.extend(self.untied(circle, imports));
        }
        for import in imports.iter().filter(|import| import.from != import.to) {
            let (Some(from), to) = (depth.get(import.from.as_str()), depth.get(import.to.as_str())) else { continue };
            let Some(to) = to else {
                // Whoever stands above everything may use what the crate shows to others.
                if *from == 0 {
                    continue;
                }
                wrong.push(format!("{import}, which is an item of the crate's root and no module"));
                continue;
            };
            let tied = self
                .circles
                .iter()
                .any(|circle| circle.modules.contains(&import.from) && circle.modules.contains(&import.to));
            if to < from {
                wrong.push(format!("{import}, which stands above it"));
            } else if to == from && !tied {
                wrong.push(format!("{import}, which is a stranger to it"));
            }
        }
        wrong
    }

    /// Modules of a circle that cannot come back to themselves within it, and so have a layer of their own.
    fn untied(&self, circle: &Circle, imports: &[Import]) -> Vec<String> {
        let inside = |import: &&Import| circle.modules.contains(&import.from) && circle.modules.contains(&import.to);
        let edges: BTreeSet<_> = imports.iter().filter(inside).map(|import| (&import.from, &import.to)).collect();
        let comes_back = |module: &String| {
            let mut reached = BTreeSet::new();
            let mut open = vec![module];
            while let Some(at) = open.pop() {
                for (_, to) in edges.iter().filter(|(from, to)| *from == at && from != to) {
                    if *to == module {
                        return true;
                    }
                    if reached.insert(*to) {
                        open.push(to);
                    }
                }
            }
            false
        };
        let free = circle.modules.iter().filter(|module| !comes_back(module));
        free.map(|module| format!("{}: module {module} is in no circle any more, give it a layer", self.sources))
            .collect()
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

    fn check(layers: &[&[&str]], circle: &[&str], imports: &[(&str, &str)]) -> Vec<String> {
        let layers: Vec<Vec<String>> =
            layers.iter().map(|layer| layer.iter().map(|module| (*module).to_owned()).collect()).collect();
        let modules = layers.iter().flatten().cloned().collect();
        let circle = circle.iter().map(|module| (*module).to_owned()).collect::<BTreeSet<_>>();
        let circles =
            if circle.is_empty() { Vec::new() } else { vec![Circle { modules: circle, _why: String::new() }] };
        let imports: Vec<_> = imports.iter().map(|(from, to)| import(from, to)).collect();
        Crate { sources: "x".to_owned(), layers, circles }.check(&modules, &imports)
    }

    #[test]
    fn imports_run_down_and_strangers_do_not_meet() {
        let layers: &[&[&str]] = &[&["top"], &["left", "right"], &["ground"]];
        assert!(
            check(layers, &[], &[("top", "ground"), ("left", "ground"), ("top", "right"), ("top", "top")]).is_empty()
        );
        assert_eq!(check(layers, &[], &[("ground", "top")]), ["a.rs:1: ground imports top, which stands above it"]);
        assert_eq!(check(layers, &[], &[("left", "right")]), ["a.rs:1: left imports right, which is a stranger to it"]);
        let of_root = check(layers, &[], &[("left", "Item")]);
        assert_eq!(of_root, ["a.rs:1: left imports Item, which is an item of the crate's root and no module"]);
    }

    #[test]
    fn a_circle_is_told_and_whoever_has_left_it_too() {
        let layers: &[&[&str]] = &[&["a", "b", "c"]];
        assert!(check(layers, &["a", "b", "c"], &[("a", "b"), ("b", "c"), ("c", "a")]).is_empty());
        let left = check(layers, &["a", "b", "c"], &[("a", "b"), ("b", "a"), ("b", "c")]);
        assert_eq!(left, ["x: module c is in no circle any more, give it a layer"]);
    }

    #[test]
    fn every_module_is_in_the_table_and_the_table_names_no_other() {
        let known = Crate {
            sources: "x".to_owned(),
            layers: vec![vec!["a".to_owned(), "gone".to_owned()]],
            circles: Vec::new(),
        };
        let modules = ["a".to_owned(), "new".to_owned()].into();
        let wrong = known.check(&modules, &[]);
        assert_eq!(wrong, ["x: the table names module gone, which does not exist", "x: module new has no layer"]);
    }
}
