//! bindgen's Rust text, read back.

use std::collections::BTreeMap;

use quote::ToTokens;
use syn::{BinOp, Expr, Fields, ImplItem, Item, Lit, PathArguments, Stmt, Type, UnOp, UseTree};

/// Everything of bindgen's output that has a layout or a value.
#[derive(Debug, Default)]
pub struct Bindings {
    pub(crate) records: BTreeMap<String, Record>,
    pub(crate) aliases: BTreeMap<String, Ty>,
    pub(crate) constants: BTreeMap<String, Constant>,
    pub(crate) guids: BTreeMap<String, String>,
}

/// A structure or union.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) is_union: bool,
    /// Largest alignment of a member that counts.
    pub(crate) packed: Option<usize>,
    pub(crate) fields: Vec<(String, Ty)>,
    pub(crate) bits: Vec<Bit>,
    /// Size, alignment and offsets in bytes as clang computes them, from bindgen's assertions; `None` if there is no assertion.
    pub(crate) size: Option<usize>,
    pub(crate) align: Option<usize>,
    pub(crate) offsets: BTreeMap<String, usize>,
}

/// A bit field, by its accessor.
#[derive(Debug)]
pub(crate) struct Bit {
    /// The field that bindgen made of the storage.
    pub(crate) unit: String,
    pub(crate) name: String,
    /// First bit, counted from the start of the storage.
    pub(crate) first: usize,
    pub(crate) count: usize,
}

/// A named value.
#[derive(Debug)]
pub(crate) struct Constant {
    /// Its type, if that has a name of its own.
    pub(crate) ty: Ty,
    pub(crate) value: i128,
}

/// A type, as far as its layout goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    /// As large as it is aligned.
    Scalar(usize),
    Pointer,
    Array(Box<Ty>, usize),
    /// Storage of bit fields: bytes.
    Bytes(usize),
    Named(String),
    /// Not met in C headers; an error only where its size is needed.
    Other(String),
}

impl Bindings {
    /// Reads the text that bindgen wrote, with enumerations as constants (its default) whose names are not prefixed, and with
    /// layout assertions (its default).
    ///
    /// # Errors
    /// A sentence if the text is not Rust.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file = syn::parse_file(text).map_err(|error| format!("bindgen's output is not Rust: {error}"))?;
        let mut all = Self::default();
        for item in &file.items {
            all.item(item);
        }
        Ok(all)
    }

    /// Adds GUIDs that were read from the headers themselves, see [`guids`](crate::guids).
    pub fn add_guids(&mut self, guids: BTreeMap<String, String>) {
        self.guids.extend(guids);
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Struct(item) => {
                let record = self.records.entry(item.ident.to_string()).or_default();
                record.packed = packed(&item.attrs);
                record.fields = fields(&item.fields);
            }
            Item::Union(item) => {
                let record = self.records.entry(item.ident.to_string()).or_default();
                record.is_union = true;
                record.packed = packed(&item.attrs);
                record.fields = fields(&Fields::Named(item.fields.clone()));
            }
            Item::Type(item) => drop(self.aliases.insert(item.ident.to_string(), ty(&item.ty))),
            Item::Use(item) => self.rename(&item.tree),
            Item::Const(item) if item.ident == "_" => self.assertions(&item.expr),
            Item::Const(item) => {
                if let Some(value) = integer(&item.expr) {
                    self.constants.insert(item.ident.to_string(), Constant { ty: ty(&item.ty), value });
                }
            }
            Item::Impl(item) if item.trait_.is_none() => {
                let Type::Path(path) = &*item.self_ty else { return };
                let Some(name) = path.path.get_ident() else { return };
                let record = self.records.entry(name.to_string()).or_default();
                record.bits.extend(item.items.iter().filter_map(accessor));
            }
            _ => {}
        }
    }

    /// `use self::_NAME as NAME`.
    fn rename(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) if path.ident == "self" => self.rename(&path.tree),
            UseTree::Rename(rename) => {
                self.aliases.insert(rename.rename.to_string(), Ty::Named(rename.ident.to_string()));
            }
            _ => {}
        }
    }

    /// `["Size of NAME"][size_of::<NAME>() - 8usize]` and its sisters.
    fn assertions(&mut self, block: &Expr) {
        let Expr::Block(block) = block else { return };
        for statement in &block.block.stmts {
            let Stmt::Expr(Expr::Index(index), _) = statement else { continue };
            let (Expr::Array(says), Expr::Binary(difference)) = (&*index.expr, &*index.index) else { continue };
            let (Some(Expr::Lit(says)), BinOp::Sub(_)) = (says.elems.first(), &difference.op) else { continue };
            let (Lit::Str(says), Some(value)) = (&says.lit, integer(&difference.right)) else { continue };
            let Ok(value) = usize::try_from(value) else { continue };
            let says = says.value();
            if let Some(name) = says.strip_prefix("Size of ") {
                self.records.entry(name.to_owned()).or_default().size = Some(value);
            } else if let Some(name) = says.strip_prefix("Alignment of ") {
                self.records.entry(name.to_owned()).or_default().align = Some(value);
            } else if let Some((name, field)) = says.strip_prefix("Offset of field: ").and_then(|f| f.split_once("::"))
            {
                let record = self.records.entry(name.to_owned()).or_default();
                record.offsets.insert(field.to_owned(), value);
            }
        }
    }
}

fn packed(attrs: &[syn::Attribute]) -> Option<usize> {
    let repr = attrs.iter().find(|attr| attr.path().is_ident("repr"))?.to_token_stream().to_string();
    let (_, rest) = repr.split_once("packed")?;
    let bytes = rest.trim_start().strip_prefix('(').and_then(|rest| rest.split(')').next());
    Some(bytes.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(1))
}

fn fields(fields: &Fields) -> Vec<(String, Ty)> {
    fields.iter().filter_map(|field| Some((field.ident.as_ref()?.to_string(), ty(&field.ty)))).collect()
}

fn ty(of: &Type) -> Ty {
    match of {
        Type::Ptr(_) | Type::FnPtr(_) => Ty::Pointer,
        Type::Array(array) => match integer(&array.len).and_then(|n| usize::try_from(n).ok()) {
            Some(length) => Ty::Array(Box::new(ty(&array.elem)), length),
            None => Ty::Other(of.to_token_stream().to_string()),
        },
        Type::Path(path) => path_ty(&path.path),
        _ => Ty::Other(of.to_token_stream().to_string()),
    }
}

fn path_ty(path: &syn::Path) -> Ty {
    let Some(last) = path.segments.last() else { return Ty::Other(String::new()) };
    let name = last.ident.to_string();
    let argument = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(syn::GenericArgument::Type(argument)) => Some(ty(argument)),
            _ => None,
        },
        _ => None,
    };
    match (name.as_str(), argument) {
        ("Option", Some(_)) => Ty::Pointer,
        ("ManuallyDrop", Some(inner)) => inner,
        ("__BindgenBitfieldUnit", Some(Ty::Array(_, bytes))) => Ty::Bytes(bytes),
        ("__IncompleteArrayField", Some(element)) => Ty::Array(Box::new(element), 0),
        (_, Some(_)) => Ty::Other(path.to_token_stream().to_string()),
        // `long` has four bytes on Windows, whatever it has where this runs.
        ("c_char" | "c_schar" | "c_uchar" | "u8" | "i8" | "bool", None) => Ty::Scalar(1),
        ("c_short" | "c_ushort" | "u16" | "i16", None) => Ty::Scalar(2),
        ("c_int" | "c_uint" | "c_long" | "c_ulong" | "u32" | "i32" | "f32" | "c_float", None) => Ty::Scalar(4),
        ("c_longlong" | "c_ulonglong" | "u64" | "i64" | "usize" | "isize" | "f64" | "c_double", None) => Ty::Scalar(8),
        ("u128" | "i128", None) => Ty::Scalar(16),
        (_, None) => Ty::Named(name),
    }
}

fn integer(value: &Expr) -> Option<i128> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(minus) if matches!(minus.op, UnOp::Neg(_)) => integer(&minus.expr).map(|n| -n),
        _ => None,
    }
}

/// The bit field behind `fn NAME(&self) -> T { … self._bitfield_1.get_const::<3usize, 2u8>() … }`, or behind `.get(3usize, 2u8)`
/// as older versions of bindgen write it.
fn accessor(item: &ImplItem) -> Option<Bit> {
    let ImplItem::Fn(function) = item else { return None };
    if function.sig.receiver().is_none() || function.sig.inputs.len() != 1 {
        return None;
    }
    let body = function.block.to_token_stream().to_string();
    let (_, rest) = body.split_once("_bitfield_")?;
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let rest = rest[number.len()..].trim_start().strip_prefix('.')?.trim_start().strip_prefix("get")?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|word| {
        let digits = word.strip_suffix("usize").or_else(|| word.strip_suffix("u8"))?;
        digits.parse::<usize>().ok()
    });
    let (first, count) = (numbers.next()?, numbers.next()?);
    Some(Bit { unit: format!("_bitfield_{number}"), name: plain(&function.sig.ident.to_string()), first, count })
}

/// The name in C: bindgen appends an underscore to words that Rust keeps for itself.
pub(crate) fn plain(name: &str) -> String {
    match name.strip_suffix('_') {
        Some(base) if syn::parse_str::<syn::Ident>(base).is_err() => base.to_owned(),
        _ => name.to_owned(),
    }
}
