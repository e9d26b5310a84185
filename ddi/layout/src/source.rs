//! The declarations of the crate, read from its sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use quote::ToTokens;
use syn::{Attribute, Expr, Fields, Item, Lit, Meta, Visibility};

/// Everything the crate declares that has a layout or a value.
#[derive(Debug, Default)]
pub struct Source {
    /// Types by name.
    pub types: BTreeMap<String, Declared>,
    /// Names of the types in the order of the files.
    pub order: Vec<String>,
    /// Public integer constants outside `impl` blocks.
    pub constants: Vec<Constant>,
    /// Public `GUID` constants.
    pub guids: Vec<Constant>,
    /// Function-pointer and scalar type aliases.
    pub aliases: Vec<Alias>,
    /// Macros that declare types with a C layout, by name.
    pub layout_macros: Vec<String>,
}

/// One type.
#[derive(Debug)]
pub struct Declared {
    /// Name in Rust.
    pub name: String,
    /// File, relative to the crate's `src`.
    pub file: String,
    /// Documentation, lines joined by blanks.
    pub doc: String,
    /// Kind of the type, with its members.
    pub shape: Shape,
}

/// Kind of a type, with its members.
#[derive(Debug)]
pub enum Shape {
    /// `repr(C)` structure or union.
    Record {
        /// Fields in order.
        fields: Vec<Member>,
    },
    /// `bitfield` word.
    Bits {
        /// Fields from bit 0 upwards.
        bits: Vec<Bit>,
    },
    /// Open newtype with named values.
    Open {
        /// Names in order.
        values: Vec<String>,
    },
}

/// Field of a record.
#[derive(Debug)]
pub struct Member {
    /// Name.
    pub name: String,
    /// Type as written.
    pub ty: String,
}

/// Field of a bitfield word.
#[derive(Debug)]
pub struct Bit {
    /// Name; private fields start with two underscores.
    pub name: String,
    /// Type as written.
    pub ty: String,
    /// First bit.
    pub offset: u32,
    /// Number of bits.
    pub count: u32,
}

impl Bit {
    /// True if only the layout counts, because the field cannot be reached.
    pub fn is_reserved(&self) -> bool {
        self.name.starts_with("__")
    }
}

/// A named value outside a type.
#[derive(Debug)]
pub struct Constant {
    /// Name.
    pub name: String,
    /// Documentation.
    pub doc: String,
}

/// A type alias.
#[derive(Debug)]
pub struct Alias {
    /// Name.
    pub name: String,
    /// Type as written.
    pub ty: String,
    /// Documentation.
    pub doc: String,
}

/// The page that a documentation text cites as `[header: NAME]`.
pub fn citation(doc: &str) -> Option<(&str, &str)> {
    let start = doc.rfind('[')?;
    let inner = doc.get(start + 1..)?.split(']').next()?;
    let (header, name) = inner.split_once(": ")?;
    Some((header.trim(), name.trim()))
}

/// The part of a documentation text that is not a citation.
pub fn prose(doc: &str) -> String {
    let mut rest = doc.to_owned();
    if let Some((header, name)) = citation(doc) {
        rest = rest.replace(&format!("[{header}: {name}]"), "");
    }
    rest.trim().to_owned()
}

impl Source {
    /// Reads every file below `src`.
    ///
    /// # Errors
    /// A sentence naming the file that cannot be read or is not Rust.
    pub fn read(src: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        collect(src, &mut files)?;
        files.sort();
        let mut source = Self::default();
        for file in files {
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let name = file.strip_prefix(src).unwrap_or(&file).display().to_string();
            source.add(&name, &text)?;
        }
        Ok(source)
    }

    /// Adds the declarations of one file.
    ///
    /// # Errors
    /// A sentence naming the file if it is not Rust.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), String> {
        let parsed = syn::parse_file(text).map_err(|error| format!("{file}: {error}"))?;
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for item in &parsed.items {
            match item {
                Item::Struct(item) if public(&item.vis) => {
                    let shape = struct_shape(&item.attrs, &item.fields);
                    self.declare(file, item.ident.to_string(), &item.attrs, shape);
                }
                Item::Union(item) if public(&item.vis) && has_repr(&item.attrs, "C") => {
                    let shape = Some(Shape::Record { fields: members(&Fields::Named(item.fields.clone())) });
                    self.declare(file, item.ident.to_string(), &item.attrs, shape);
                }
                Item::Impl(item) if item.trait_.is_none() => {
                    let owner = text_of(&item.self_ty);
                    values.entry(owner).or_default().extend(own_constants(item));
                }
                Item::Const(item) if public(&item.vis) => {
                    let constant = Constant { name: item.ident.to_string(), doc: doc_of(&item.attrs) };
                    match text_of(&item.ty).as_str() {
                        "GUID" => self.guids.push(constant),
                        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "KIRQL" => self.constants.push(constant),
                        _ => {}
                    }
                }
                Item::Type(item) if public(&item.vis) => self.aliases.push(Alias {
                    name: item.ident.to_string(),
                    ty: text_of(&item.ty),
                    doc: doc_of(&item.attrs),
                }),
                Item::Macro(item) => {
                    let tokens = item.mac.tokens.to_string();
                    if let Some(name) = &item.ident
                        && (tokens.contains("repr (C") || tokens.contains("repr(C"))
                    {
                        self.layout_macros.push(name.to_string());
                    }
                }
                _ => {}
            }
        }
        for (owner, names) in values {
            if let Some(Declared { shape: Shape::Open { values }, .. }) = self.types.get_mut(&owner) {
                values.extend(names);
            }
        }
        Ok(())
    }

    fn declare(&mut self, file: &str, name: String, attrs: &[Attribute], shape: Option<Shape>) {
        let Some(shape) = shape else { return };
        let declared = Declared { name: name.clone(), file: file.to_owned(), doc: doc_of(attrs), shape };
        if self.types.insert(name.clone(), declared).is_none() {
            self.order.push(name);
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Tokens as a reader would write them.
pub(crate) fn text_of(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (from, to) in
        [(" :: ", "::"), ("* mut ", "*mut "), ("* const ", "*const "), (" < ", "<"), (" >", ">"), (" ;", ";")]
    {
        text = text.replace(from, to);
    }
    text
}

fn doc_of(attrs: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attr in attrs {
        if let Meta::NameValue(pair) = &attr.meta
            && pair.path.is_ident("doc")
            && let Expr::Lit(literal) = &pair.value
            && let Lit::Str(text) = &literal.lit
        {
            lines.push(text.value().trim().to_owned());
        }
    }
    lines.join(" ").trim().to_owned()
}

fn has_repr(attrs: &[Attribute], word: &str) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("repr")
            && attr.to_token_stream().to_string().split(|c: char| !c.is_alphanumeric()).any(|part| part == word)
    })
}

fn struct_shape(attrs: &[Attribute], fields: &Fields) -> Option<Shape> {
    if attrs.iter().any(|attr| attr.path().is_ident("bitfield")) {
        return Some(Shape::Bits { bits: bits(fields) });
    }
    if has_repr(attrs, "transparent") && matches!(fields, Fields::Unnamed(_)) {
        return Some(Shape::Open { values: Vec::new() });
    }
    if has_repr(attrs, "C") || has_repr(attrs, "transparent") {
        return Some(Shape::Record { fields: members(fields) });
    }
    None
}

fn members(fields: &Fields) -> Vec<Member> {
    let name = |field: &syn::Field| field.ident.as_ref().map(ToString::to_string);
    fields.iter().filter_map(|field| Some(Member { name: name(field)?, ty: text_of(&field.ty) })).collect()
}

fn bits(fields: &Fields) -> Vec<Bit> {
    let mut offset = 0;
    let mut all = Vec::new();
    for field in fields {
        let Some(name) = field.ident.as_ref().map(ToString::to_string) else { continue };
        let ty = text_of(&field.ty);
        let count = field.attrs.iter().find_map(bit_count).unwrap_or_else(|| natural_bits(&ty));
        all.push(Bit { name, ty, offset, count });
        offset += count;
    }
    all
}

fn bit_count(attr: &Attribute) -> Option<u32> {
    if !attr.path().is_ident("bits") {
        return None;
    }
    attr.parse_args::<syn::LitInt>().ok()?.base10_parse().ok()
}

fn natural_bits(ty: &str) -> u32 {
    match ty {
        "bool" => 1,
        "u8" | "i8" => 8,
        "u16" | "i16" => 16,
        "u32" | "i32" => 32,
        _ => 64,
    }
}

/// Names of the constants of type `Self` in an `impl` block.
fn own_constants(item: &syn::ItemImpl) -> Vec<String> {
    let mut names = Vec::new();
    for inner in &item.items {
        if let syn::ImplItem::Const(constant) = inner
            && public(&constant.vis)
            && text_of(&constant.ty) == "Self"
        {
            names.push(constant.ident.to_string());
        }
    }
    names
}
