//! Which modules of a crate import which, from the tokens of its sources: also from those inside macros, and without the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, Type, UseTree};

/// A path in one module of a crate that begins with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, file, line } = self;
        write!(f, "{}:{line}: {from} imports {to}", file.display())
    }
}

/// An `impl` block of a type itself, not of a trait.
pub(super) struct Methods {
    /// Name of the type.
    pub(super) item: String,
    /// The module of the crate's root that the block is in.
    pub(super) module: String,
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

impl fmt::Display for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { item, module, file, line } = self;
        write!(f, "{}:{line}: {module} has an impl of {item}", file.display())
    }
}

/// Modules of a crate, and the imports between them.
pub(super) struct Imports {
    /// The modules of its root.
    pub(super) modules: BTreeSet<String>,
    pub(super) list: Vec<Import>,
    /// The types of the crate by name, and the modules of its root that have one of that name.
    pub(super) types: BTreeMap<String, BTreeSet<String>>,
    pub(super) impls: Vec<Methods>,
}

/// The imports between the modules of the crate whose sources are in a folder, with `lib.rs` or `main.rs` as its root.
///
/// # Errors
/// A file cannot be read or is no Rust.
pub(super) fn of(sources: &Path) -> Result<Imports, String> {
    let mut modules = BTreeSet::new();
    let mut shown = BTreeMap::new();
    for root in ["lib.rs", "main.rs"].map(|name| sources.join(name)).iter().filter(|path| path.exists()) {
        for item in parse(root)?.items {
            if let Item::Mod(module) = &item
                && module.content.is_none()
                && !is_test(&module.attrs)
            {
                modules.insert(module.ident.to_string());
            }
            if let Item::Use(item) = &item {
                reexports(&item.tree, None, &mut shown);
            }
        }
    }
    let mut found = Found::default();
    for module in &modules {
        let file = sources.join(format!("{module}.rs"));
        let folder = sources.join(module);
        let file = if file.exists() { file } else { folder.join("mod.rs") };
        walk(&file, &folder, &mut TokenPosition { top: module, depth: 0, found: &mut found })?;
    }
    // An item that the root shows is one of the module that it comes from.
    for import in &mut found.list {
        if let Some(module) = shown.get(&import.to).filter(|module| modules.contains(*module)) {
            import.to.clone_from(module);
        }
    }
    let Found { list, types, impls } = found;
    Ok(Imports { modules, list, types, impls })
}

/// The names that a `use` of the root brings in, and the first name of their paths.
fn reexports(tree: &UseTree, first: Option<&str>, shown: &mut BTreeMap<String, String>) {
    match tree {
        UseTree::Path(path) => {
            let name = path.ident.to_string();
            let first = first.map_or_else(|| (name != "self" && name != "crate").then_some(name.as_str()), Some);
            reexports(&path.tree, first, shown);
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| reexports(tree, first, shown)),
        UseTree::Name(name) => shown.extend(first.map(|first| (name.ident.to_string(), first.to_owned()))),
        UseTree::Rename(rename) => shown.extend(first.map(|first| (rename.rename.to_string(), first.to_owned()))),
        UseTree::Glob(_) => {}
    }
}

/// Imports, types and `impl` blocks of the modules that were read so far.
#[derive(Default)]
struct Found {
    list: Vec<Import>,
    types: BTreeMap<String, BTreeSet<String>>,
    impls: Vec<Methods>,
}

impl Found {
    /// Notes a type, or a block with functions of one.
    fn note(&mut self, item: &Item, module: &str, file: &Path) {
        let name = match item {
            Item::Struct(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Impl(block) if block.trait_.is_none() => {
                if let Type::Path(path) = &*block.self_ty
                    && let Some(name) = path.path.get_ident().or(path.path.segments.last().map(|last| &last.ident))
                {
                    let (item, line) = (name.to_string(), name.span().start().line);
                    self.impls.push(Methods { item, module: module.to_owned(), file: file.to_owned(), line });
                }
                return;
            }
            _ => return,
        };
        self.types.entry(name.to_string()).or_default().insert(module.to_owned());
    }
}

/// Position of a token in the tree of modules.
struct TokenPosition<'a> {
    /// The module of the crate's root.
    top: &'a str,
    /// Modules between that one and the one that the token is in.
    depth: usize,
    found: &'a mut Found,
}

/// Walks a module in a file, and those below it in a folder.
fn walk(file: &Path, folder: &Path, place: &mut TokenPosition<'_>) -> Result<(), String> {
    let parsed = parse(file)?;
    items(&parsed.items, (file, folder), place)
}

fn items(list: &[Item], (file, folder): (&Path, &Path), place: &mut TokenPosition<'_>) -> Result<(), String> {
    for item in list {
        match item {
            Item::Mod(module) if is_test(&module.attrs) || is_elsewhere(&module.attrs) => {}
            Item::Mod(module) => {
                let name = module.ident.to_string();
                place.depth += 1;
                let below = folder.join(&name);
                match &module.content {
                    Some((_, content)) => items(content, (file, &below), place)?,
                    None => {
                        let path = folder.join(format!("{name}.rs"));
                        let path = if path.exists() { path } else { below.join("mod.rs") };
                        walk(&path, &below, place)?;
                    }
                }
                place.depth -= 1;
            }
            Item::Fn(function) if is_test(&function.attrs) => {}
            other => {
                place.found.note(other, place.top, file);
                tokens(other.to_token_stream(), file, place);
            }
        }
    }
    Ok(())
}

/// Notes paths that begin with `crate` or leave the module by `super`.
fn tokens(stream: TokenStream, file: &Path, place: &mut TokenPosition<'_>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Group(group) => self::tokens(group.stream(), file, place),
            TokenTree::Ident(word) if word == "crate" => note(&tokens, at, file, place),
            TokenTree::Ident(word) if word == "super" => {
                let mut left = place.depth;
                while follows(&tokens, at)
                    && matches!(tokens.get(at + 2), Some(TokenTree::Ident(next)) if next == "super")
                {
                    (at, left) = (at + 3, left.wrapping_sub(1));
                }
                // One `super` more than there are modules above the one of the root.
                if left == 0 {
                    note(&tokens, at, file, place);
                }
            }
            _ => {}
        }
    }
}

/// True if the tokens at `at` are `::`.
fn follows(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    colon(tokens.get(at)) && colon(tokens.get(at + 1))
}

/// Notes what stands behind the root of the crate, one name or several in braces.
fn note(tokens: &[TokenTree], at: usize, file: &Path, place: &mut TokenPosition<'_>) {
    if !follows(tokens, at) {
        return;
    }
    let names: Vec<(String, usize)> = match tokens.get(at + 2) {
        // A macro of the crate is where its module is, which nobody has to import.
        Some(TokenTree::Ident(_)) if matches!(tokens.get(at + 3), Some(TokenTree::Punct(punct)) if punct.as_char() == '!') => {
            Vec::new()
        }
        Some(TokenTree::Ident(name)) => vec![(name.to_string(), name.span().start().line)],
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => firsts(group.stream()),
        _ => Vec::new(),
    };
    for (to, line) in names {
        place.found.list.push(Import { from: place.top.to_owned(), to, file: file.to_owned(), line });
    }
}

/// The first names of the paths in a group of imports.
fn firsts(stream: TokenStream) -> Vec<(String, usize)> {
    let mut first = true;
    let mut names = Vec::new();
    for token in stream {
        match token {
            TokenTree::Ident(name) if first => {
                names.push((name.to_string(), name.span().start().line));
                first = false;
            }
            TokenTree::Punct(punct) if punct.as_char() == ',' => first = true,
            _ => {}
        }
    }
    names
}

/// True if an attribute restricts the item to tests.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.to_token_stream().to_string().replace(' ', "");
        text == "#[test]" || text.starts_with("#[cfg(test") || text.starts_with("#[cfg(all(test")
    })
}

/// True if the module names its file: one that several crates share, and which imports nothing of any of them.
fn is_elsewhere(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("path"))
}

/// The syntax tree of a file.
pub(super) fn parse(path: &Path) -> Result<syn::File, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modules that a source imports, which is of module `top` and so deep below it.
    fn imported(source: &str, depth: usize) -> Vec<String> {
        let mut found = Found::default();
        let parsed = syn::parse_file(source).unwrap();
        let path = Path::new("a.rs");
        items(&parsed.items, (path, path), &mut TokenPosition { top: "top", depth, found: &mut found }).unwrap();
        found.list.into_iter().map(|import| import.to).collect()
    }

    #[test]
    fn paths_are_found_in_groups_bodies_and_macros() {
        assert_eq!(imported("use crate::a::B; use crate::{c, d::{E, F}, g as h};", 0), ["a", "c", "d", "g"]);
        assert_eq!(imported("fn f() { crate::a::b(); m! { x => crate::c::D } }", 0), ["a", "c"]);
        assert_eq!(imported("pub(crate) fn f() {} use other::crates::x;", 0), [""; 0]);
    }

    #[test]
    fn super_leaves_a_module_when_there_are_enough_of_them() {
        assert_eq!(imported("use super::a::B;", 0), ["a"]);
        assert_eq!(imported("use super::a::B;", 1), [""; 0]);
        assert_eq!(imported("use super::super::{a, b::C};", 1), ["a", "b"]);
        assert_eq!(imported("mod inner { use super::super::a; use super::b; }", 0), ["a"]);
    }

    #[test]
    fn what_the_root_shows_is_of_the_module_that_it_comes_from() {
        let root = syn::parse_file("pub use a::{B, c::{D as E}}; pub use self::f::G; use std::fmt;").unwrap();
        let mut shown = BTreeMap::new();
        for item in &root.items {
            let Item::Use(item) = item else { panic!("a use") };
            reexports(&item.tree, None, &mut shown);
        }
        let shown: Vec<_> = shown.iter().map(|(name, module)| (name.as_str(), module.as_str())).collect();
        assert_eq!(shown, [("B", "a"), ("E", "a"), ("G", "f"), ("fmt", "std")]);
    }

    #[test]
    fn a_file_that_crates_share_is_not_looked_for_among_those_of_one() {
        assert_eq!(imported("#[allow(dead_code)] #[path = \"../../kit.rs\"] mod kit; use crate::a;", 0), ["a"]);
    }

    #[test]
    fn tests_may_import_what_they_like() {
        assert_eq!(imported("#[cfg(test)] mod tests { use crate::a; } #[test] fn f() { crate::b::c() }", 0), [""; 0]);
    }
}
