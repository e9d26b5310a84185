//! Which modules of a crate import which, from the tokens of its sources: also from those inside macros, and without the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, Ident, Item, ItemEnum, ItemExternCrate, ItemImpl, ItemMod, ItemStruct, ItemTrait, ItemType,
    ItemUnion, Lit, Meta, Type, UseRename, UseTree,
};

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

/// A path that names the root of a crate as a whole, so that the modules behind it cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WholeRoot {
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

impl fmt::Display for WholeRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line } = self;
        write!(f, "{}:{line}: the root of the crate is imported as a whole; name the module", file.display())
    }
}

/// An `impl` block of a type itself, or of a trait for it.
#[derive(Debug)]
pub(super) struct Methods {
    /// Name of the type, as the block has it.
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
    /// Other names of types: those of `type` items and of imports with `as`, and what they stand for.
    pub(super) aliases: BTreeMap<String, BTreeSet<String>>,
    pub(super) impls: Vec<Methods>,
    /// Blocks of traits that the module of the block declares.
    pub(super) extensions: Vec<Methods>,
    pub(super) roots: Vec<WholeRoot>,
}

impl Imports {
    /// The types of the crate that a name in a module may stand for: the module's own of that name, or else whatever its aliases lead to.
    pub(super) fn named(&self, name: &str, module: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut left = vec![name];
        while let Some(name) = left.pop() {
            if !seen.insert(name) {
                continue;
            }
            if let Some((name, homes)) = self.types.get_key_value(name) {
                found.insert(name.as_str());
                if homes.contains(module) {
                    continue;
                }
            }
            left.extend(self.aliases.get(name).into_iter().flatten().map(String::as_str));
        }
        found
    }
}

/// The imports between the modules of the crate whose sources are in a folder, with `lib.rs` or `main.rs` as its root.
///
/// # Errors
/// A file cannot be read or is no Rust.
pub(super) fn of(sources: &Path) -> Result<Imports, String> {
    let mut modules = BTreeSet::new();
    let mut shown = BTreeMap::new();
    let mut found = Found::default();
    for root in ["lib.rs", "main.rs"].map(|name| sources.join(name)).iter().filter(|path| path.exists()) {
        for item in parse(root)?.items {
            modules.extend(declared(&item));
            if let Item::Use(item) = &item {
                reexports(&item.tree, None, &mut shown);
            }
            found.note(&item, "", root);
        }
    }
    walk_all(sources, &[], &modules, &mut found)?;
    // An item that the root shows is one of the module that it comes from.
    for import in &mut found.list {
        if let Some(module) = shown.get(&import.to).filter(|module| modules.contains(*module)) {
            import.to.clone_from(module);
        }
    }
    Ok(found.imports(modules))
}

/// The imports between the modules in the folder of a module, which its crate has at `path`. What the module itself shows of them is for others: a path from
/// one of them to that is an import of no module.
///
/// # Errors
/// As [`of`].
pub(super) fn within(folder: &Path, path: &[&str]) -> Result<Imports, String> {
    let mut found = Found::default();
    let modules = parse(&folder.join("mod.rs"))?.items.iter().filter_map(declared).collect();
    walk_all(folder, path, &modules, &mut found)?;
    Ok(found.imports(modules))
}

/// The name of a module that an item declares, which has a file and is not for tests.
fn declared(item: &Item) -> Option<String> {
    match item {
        Item::Mod(module) if module.content.is_none() && !is_test(&module.attrs) => Some(module.ident.to_string()),
        _ => None,
    }
}

/// Walks the modules in a folder, which is that of the crate's root or of a module that it has at `root`.
fn walk_all(folder: &Path, root: &[&str], modules: &BTreeSet<String>, found: &mut Found) -> Result<(), String> {
    for module in modules {
        let file = folder.join(format!("{module}.rs"));
        let below = folder.join(module);
        let file = if file.exists() { file } else { below.join("mod.rs") };
        walk(&file, &below, &mut TokenPosition { root, top: module, depth: 0, found })?;
    }
    Ok(())
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
    aliases: BTreeMap<String, BTreeSet<String>>,
    impls: Vec<Methods>,
    /// The traits of the crate by name, as its types.
    traits: BTreeMap<String, BTreeSet<String>>,
    /// Blocks of traits, with the name of the trait.
    trait_impls: Vec<(String, Methods)>,
    roots: Vec<WholeRoot>,
}

impl Found {
    fn imports(self, modules: BTreeSet<String>) -> Imports {
        let Self { list, types, aliases, impls, traits, trait_impls, roots } = self;
        let declares = |name: &str, module: &str| traits.get(name).is_some_and(|homes| homes.contains(module));
        let own = trait_impls.into_iter().filter(|(name, block)| declares(name, &block.module));
        let extensions = own.map(|(_, block)| block).collect();
        Imports { modules, list, types, aliases, impls, extensions, roots }
    }

    /// Notes types, their other names and the blocks with functions of one, also those in the bodies of functions.
    fn note(&mut self, item: &Item, module: &str, file: &Path) {
        if !matches!(item, Item::Mod(_)) {
            Types { module, file, found: self }.visit_item(item);
        }
    }
}

/// Visits an item of a module for [`Found::note`].
struct Types<'a> {
    module: &'a str,
    file: &'a Path,
    found: &'a mut Found,
}

impl Types<'_> {
    fn declared(&mut self, name: &Ident) {
        self.found.types.entry(name.to_string()).or_default().insert(self.module.to_owned());
    }
}

impl<'ast> Visit<'ast> for Types<'_> {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.declared(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.declared(&item.ident);
    }

    fn visit_item_union(&mut self, item: &'ast ItemUnion) {
        self.declared(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.found.traits.entry(item.ident.to_string()).or_default().insert(self.module.to_owned());
        visit::visit_item_trait(self, item);
    }

    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        if let Some(name) = last_name(&block.self_ty) {
            let (item, line) = (name.to_string(), name.span().start().line);
            let methods = Methods { item, module: self.module.to_owned(), file: self.file.to_owned(), line };
            match block.trait_.as_ref().map(|(_, path, _)| path.segments.last()) {
                None => self.found.impls.push(methods),
                Some(Some(last)) => self.found.trait_impls.push((last.ident.to_string(), methods)),
                Some(None) => {}
            }
        }
        visit::visit_item_impl(self, block);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        if let Some(name) = last_name(&item.ty) {
            self.found.aliases.entry(item.ident.to_string()).or_default().insert(name.to_string());
        }
    }

    fn visit_use_rename(&mut self, rename: &'ast UseRename) {
        self.found.aliases.entry(rename.rename.to_string()).or_default().insert(rename.ident.to_string());
    }

    fn visit_item_extern_crate(&mut self, item: &'ast ItemExternCrate) {
        if item.ident == "self" {
            let line = item.ident.span().start().line;
            self.found.roots.push(WholeRoot { file: self.file.to_owned(), line });
        }
    }
}

/// The last name of the path of a type; none if it is no path.
fn last_name(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|last| &last.ident),
        Type::Paren(inner) => last_name(&inner.elem),
        Type::Group(inner) => last_name(&inner.elem),
        _ => None,
    }
}

/// Position of a token in the tree of modules.
struct TokenPosition<'a> {
    /// Path in the crate of the module whose modules are told apart; empty for the crate's root.
    root: &'a [&'a str],
    /// The module of that one.
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
                        let (path, below) = located(module, file, folder);
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

/// The file of a module, and the folder of those below it.
fn located(module: &ItemMod, file: &Path, folder: &Path) -> (PathBuf, PathBuf) {
    let named = module.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let name = module.ident.to_string();
    let below = folder.join(&name);
    if let Some(named) = named {
        let path = file.with_file_name(named);
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        return (path, folder);
    }
    let path = folder.join(format!("{name}.rs"));
    let path = if path.exists() { path } else { below.join("mod.rs") };
    (path, below)
}

/// Notes paths that begin with `crate` or leave the module by `super`.
fn tokens(stream: TokenStream, file: &Path, place: &mut TokenPosition<'_>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Group(group) => self::tokens(group.stream(), file, place),
            TokenTree::Ident(word) if word == "crate" => note_below(&tokens, at, place.root, file, place),
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

/// Notes what stands behind `path`, which the tokens before `at` have not named yet.
fn note_below(tokens: &[TokenTree], at: usize, path: &[&str], file: &Path, place: &mut TokenPosition<'_>) {
    let Some((next, rest)) = path.split_first() else { return note(tokens, at, file, place) };
    if !follows(tokens, at) {
        return;
    }
    match tokens.get(at + 2) {
        Some(TokenTree::Ident(name)) if name == next => note_below(tokens, at + 3, rest, file, place),
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let begins = |at: usize| {
                at.checked_sub(1)
                    .and_then(|before| inner.get(before))
                    .is_none_or(|before| matches!(before, TokenTree::Punct(punct) if punct.as_char() == ','))
            };
            for (start, token) in inner.iter().enumerate() {
                if begins(start) && matches!(token, TokenTree::Ident(name) if name == next) {
                    note_below(&inner, start + 1, rest, file, place);
                }
            }
        }
        _ => {}
    }
}

/// True if the tokens at `at` are `::`.
fn follows(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    colon(tokens.get(at)) && colon(tokens.get(at + 1))
}

/// Notes what stands behind the root of the crate, one name or several in braces.
fn note(tokens: &[TokenTree], at: usize, file: &Path, place: &mut TokenPosition<'_>) {
    let line = at.checked_sub(1).and_then(|root| tokens.get(root)).map_or(0, |root| root.span().start().line);
    let mut whole = || place.found.roots.push(WholeRoot { file: file.to_owned(), line });
    if !follows(tokens, at) {
        if matches!(tokens.get(at), Some(TokenTree::Ident(word)) if word == "as") {
            whole();
        }
        return;
    }
    let names: Vec<(String, usize)> = match tokens.get(at + 2) {
        // A macro of the crate is where its module is, which nobody has to import.
        Some(TokenTree::Ident(_)) if matches!(tokens.get(at + 3), Some(TokenTree::Punct(punct)) if punct.as_char() == '!') => {
            Vec::new()
        }
        Some(TokenTree::Ident(name)) => vec![(name.to_string(), name.span().start().line)],
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => firsts(group.stream()),
        Some(TokenTree::Punct(star)) if star.as_char() == '*' => vec![("*".to_owned(), line)],
        _ => Vec::new(),
    };
    if names.iter().any(|(name, _)| name == "*" || name == "self") {
        whole();
    }
    let names = names.into_iter().filter(|(name, _)| name != "*" && name != "self");
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
            TokenTree::Punct(punct) if punct.as_char() == '*' && first => {
                names.push(("*".to_owned(), punct.span().start().line));
                first = false;
            }
            TokenTree::Group(group) if first && group.delimiter() == Delimiter::Brace => {
                names.extend(firsts(group.stream()));
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
        items(&parsed.items, (path, path), &mut TokenPosition { root: &[], top: "top", depth, found: &mut found })
            .unwrap();
        found.list.into_iter().map(|import| import.to).collect()
    }

    /// The lines of a source that name the root of the crate as a whole.
    fn roots(source: &str, depth: usize) -> Vec<usize> {
        let mut found = Found::default();
        let parsed = syn::parse_file(source).unwrap();
        let path = Path::new("a.rs");
        items(&parsed.items, (path, path), &mut TokenPosition { root: &[], top: "top", depth, found: &mut found })
            .unwrap();
        found.roots.into_iter().map(|root| root.line).collect()
    }

    #[test]
    fn the_root_is_not_imported_as_a_whole() {
        assert_eq!(roots("use crate as whole;", 0), [1]);
        assert_eq!(roots("use crate::*;", 1), [1]);
        assert_eq!(roots("use crate::{self as whole, a};", 1), [1]);
        assert_eq!(roots("use crate::{a, *};", 1), [1]);
        assert_eq!(roots("use {crate as whole, std::fmt};", 1), [1]);
        assert_eq!(roots("use super::*;", 0), [1]);
        assert_eq!(roots("use super as whole;", 0), [1]);
        assert_eq!(roots("use super::super as whole;", 1), [1]);
        assert_eq!(roots("fn f() {\nuse crate as whole;\n}", 0), [2]);
        assert_eq!(roots("extern crate self as dxgkrnl;", 0), [1]);
        assert_eq!(roots("use super::*; use crate::a::*; use crate::b::{self, c}; extern crate alloc;", 1), [0; 0]);
    }

    #[test]
    fn other_names_of_a_type_lead_to_it() {
        let mut found = Found::default();
        for (top, source) in [
            ("vidsch", "struct VidSch; struct Own; trait Low {}"),
            (
                "adapter",
                "type M = V; use crate::vidsch::VidSch as V; type Own = VidSch; fn f() { impl M {} } trait Ext {} impl Ext for V {} impl Low for V {}",
            ),
        ] {
            let parsed = syn::parse_file(source).unwrap();
            let path = Path::new("a.rs");
            items(&parsed.items, (path, path), &mut TokenPosition { root: &[], top, depth: 0, found: &mut found })
                .unwrap();
        }
        let imports = found.imports(BTreeSet::new());
        assert_eq!(imports.impls.iter().map(|block| block.item.as_str()).collect::<Vec<_>>(), ["M"]);
        let extensions: Vec<_> = imports.extensions.iter().map(|block| block.item.as_str()).collect();
        assert_eq!(extensions, ["V"], "Ext, but not the trait of the lower module");
        assert_eq!(imports.named("M", "adapter"), BTreeSet::from(["VidSch"]));
        assert_eq!(imports.named("Own", "vidsch"), BTreeSet::from(["Own"]), "a module's own type is no alias");
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
    fn inside_a_module_paths_are_found_that_lead_to_its_own() {
        let imported = |source: &str, depth| {
            let mut found = Found::default();
            let parsed = syn::parse_file(source).unwrap();
            let path = Path::new("a.rs");
            let place = &mut TokenPosition { root: &["top", "inner"], top: "own", depth, found: &mut found };
            items(&parsed.items, (path, path), place).unwrap();
            found.list.into_iter().map(|import| import.to).collect::<Vec<_>>()
        };
        assert_eq!(imported("use crate::top::inner::a::B; use crate::top::c; use crate::inner::d;", 0), ["a"]);
        assert_eq!(imported("use crate::{e, top::{f, inner::{a, b::C}}};", 0), ["a", "b"]);
        assert_eq!(imported("fn f() { super::a::b(); super::super::c(); }", 0), ["a"], "the second leads outside");
        assert_eq!(imported("use super::super::a; use super::b;", 1), ["a"]);
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
