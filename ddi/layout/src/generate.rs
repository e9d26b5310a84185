//! Writes the file in which the compiler measures every declaration, and says what such a file cannot reach.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::facts::{Exceptions, Facts, TypeFacts};
use crate::source::{Bit, Declared, Shape, Source, citation, prose};

/// A field that has a row of its own.
#[derive(Debug)]
pub struct Leaf {
    /// Path in the table.
    pub row: String,
    /// Path in Rust.
    pub path: Vec<String>,
    /// Type in Rust.
    pub ty: String,
}

/// A bit field, and the word that holds it.
#[derive(Debug)]
pub struct WordBit<'a> {
    /// Path in the table.
    pub row: String,
    /// Path of the word in Rust, empty when the type is the word.
    pub path: Vec<String>,
    /// Type of the word.
    pub word: &'a str,
    /// The bit field.
    pub bit: &'a Bit,
}

/// A type taken apart into rows.
#[derive(Debug, Default)]
pub struct Flat<'a> {
    /// Whole fields.
    pub leaves: Vec<Leaf>,
    /// Bit fields.
    pub bits: Vec<WordBit<'a>>,
    /// Helper types met on the way: unions, arms and words that have no name in C.
    pub helpers: BTreeSet<&'a str>,
}

/// Takes a type of the table apart.
pub fn flatten<'a>(source: &'a Source, facts: &Facts, declared: &'a Declared, of: &TypeFacts) -> Flat<'a> {
    let mut flat = Flat::default();
    walk(source, facts, declared, of, &[], "", &mut flat);
    flat
}

fn walk<'a>(
    source: &'a Source,
    facts: &Facts,
    declared: &'a Declared,
    of: &TypeFacts,
    path: &[String],
    prefix: &str,
    flat: &mut Flat<'a>,
) {
    match &declared.shape {
        Shape::Open { .. } => {}
        Shape::Bits { bits } => {
            for bit in bits {
                let row = format!("{prefix}{}", bit.name.trim_start_matches("__"));
                flat.bits.push(WordBit { row, path: path.to_vec(), word: &declared.name, bit });
            }
        }
        Shape::Record { fields } => {
            for field in fields {
                let mut path = path.to_vec();
                path.push(field.name.clone());
                let row = format!("{prefix}{}", field.name);
                match helper(source, facts, &field.ty) {
                    None => flat.leaves.push(Leaf { row, path, ty: field.ty.clone() }),
                    Some(inner) => {
                        flat.helpers.insert(&inner.name);
                        let prefix = if of.row(&row).is_some() {
                            flat.leaves.push(Leaf { row: row.clone(), path: path.clone(), ty: field.ty.clone() });
                            format!("{row}.")
                        } else {
                            prefix.to_owned()
                        };
                        walk(source, facts, inner, of, &path, &prefix, flat);
                    }
                }
            }
        }
    }
}

/// The declaration of a type that exists in Rust only, because C has it unnamed inside another.
fn helper<'a>(source: &'a Source, facts: &Facts, ty: &str) -> Option<&'a Declared> {
    let declared = source.types.get(ty)?;
    let inline = !facts.types.contains_key(ty) && !matches!(declared.shape, Shape::Open { .. });
    inline.then_some(declared)
}

/// Types, constants and macros that are neither in the table nor excused, undocumented or miscited items, and excuses for
/// what is in the table.
pub fn uncovered(source: &Source, facts: &Facts, exceptions: &Exceptions) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut reached = BTreeSet::new();
    for (name, of) in &facts.types {
        if let Some(declared) = source.types.get(name) {
            reached.extend(flatten(source, facts, declared, of).helpers);
        }
    }
    for (name, declared) in &source.types {
        let known = facts.types.contains_key(name) || reached.contains(name.as_str());
        match (known, exceptions.types.contains_key(name)) {
            (false, false) => complaints.push(format!("{}: {name} is neither in the table nor excused", declared.file)),
            (true, true) => complaints.push(format!("{name} is excused although the table covers it")),
            _ => {}
        }
    }
    for name in exceptions.types.keys().filter(|name| !source.types.contains_key(*name)) {
        complaints.push(format!("{name} is excused but not declared"));
    }
    for (what, names, known, excused) in [
        ("constant", constant_names(source), facts.constants.keys().collect::<BTreeSet<_>>(), &exceptions.constants),
        (
            "GUID",
            source.guids.iter().map(|c| c.name.clone()).collect(),
            facts.guids.keys().collect(),
            &exceptions.constants,
        ),
        ("macro", source.layout_macros.clone(), BTreeSet::new(), &exceptions.macros),
    ] {
        for name in names.iter().filter(|name| !known.contains(name) && !excused.contains_key(*name)) {
            complaints.push(format!("{what} {name} is neither in the table nor excused"));
        }
        for name in names.iter().filter(|name| known.contains(name) && excused.contains_key(*name)) {
            complaints.push(format!("{what} {name} is excused although the table covers it"));
        }
    }
    complaints
}

fn constant_names(source: &Source) -> Vec<String> {
    source.constants.iter().map(|constant| constant.name.clone()).collect()
}

/// Types and aliases without a sentence of documentation or without the page they come from, and pages in another header than
/// the table's.
pub fn undocumented(source: &Source, facts: &Facts, exceptions: &Exceptions) -> Vec<String> {
    let mut complaints = Vec::new();
    let aliases = source.aliases.iter().map(|alias| (&alias.name, &alias.doc));
    let constants = source.constants.iter().chain(&source.guids).map(|constant| (&constant.name, &constant.doc));
    for (name, doc) in aliases.chain(constants).chain(source.types.iter().map(|(name, t)| (name, &t.doc))) {
        if prose(doc).len() < 12 {
            complaints.push(format!("{name} does not say what it is"));
        }
        match (citation(doc), facts.types.get(name)) {
            (None, Some(_)) => complaints.push(format!("{name} does not name its page")),
            // Base types come from many headers, which the table counts as one.
            (Some(_), Some(of)) if of.header == "base" => {}
            (Some((header, page)), Some(of)) if header != of.header || page != name => {
                complaints.push(format!("{name} cites [{header}: {page}], the table has it in {}", of.header));
            }
            (None, None) if !doc.contains("[`") && !exceptions.types.contains_key(name) && name != "UnusedSlot" => {
                complaints.push(format!("{name} names neither a page nor the type it belongs to"));
            }
            _ => {}
        }
    }
    complaints
}

/// Fields whose type in Rust is not the one that the table names.
pub fn mistyped(source: &Source, facts: &Facts) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, of) in &facts.types {
        let Some(declared) = source.types.get(name) else { continue };
        for leaf in flatten(source, facts, declared, of).leaves {
            if let Some(row) = of.row(&leaf.row)
                && !same_type(&row.ty, &leaf.ty)
            {
                complaints.push(format!("{name}.{}: {} in C, {} in Rust", leaf.row, row.ty, leaf.ty));
            }
        }
    }
    complaints
}

fn same_type(c: &str, rust: &str) -> bool {
    if let Some(element) = c.strip_suffix(']') {
        let Some((element, count)) = element.rsplit_once('[') else { return false };
        let Some(inner) = rust.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else { return false };
        let Some((inner, length)) = inner.rsplit_once(';') else { return false };
        return same_type(element, inner.trim()) && length.trim() == count;
    }
    if let Some(target) = c.strip_suffix('*') {
        if rust == "UnusedSlot" {
            return true;
        }
        let Some(inner) = rust.strip_prefix("*mut ").or_else(|| rust.strip_prefix("*const ")) else { return false };
        let target = target.trim();
        return same_type(target, inner) || inner == "c_void" || (target == "BYTE" && inner == "u8");
    }
    match c {
        "struct" | "union" => true,
        "UINT" | "UINT32" | "ULONG" | "DWORD" => rust == "u32",
        "INT" | "LONG" | "BOOL" => rust == "i32",
        "USHORT" | "UINT16" | "WORD" | "WCHAR" => rust == "u16",
        "BOOLEAN" | "UCHAR" | "UINT8" | "BYTE" => matches!(rust, "u8" | "BOOLEAN"),
        "char" => rust == "i8",
        "UINT64" | "ULONGLONG" => rust == "u64",
        "LONGLONG" => rust == "i64",
        "SIZE_T" | "ULONG_PTR" => matches!(rust, "usize" | "D3DKMT_SIZE_T"),
        "VOID" | "void" => rust == "c_void",
        "PLARGE_INTEGER" => rust == "*mut LARGE_INTEGER",
        "PCWSTR" => rust == "*const u16",
        "PVOID" | "PDEVICE_OBJECT" => matches!(rust, "*mut c_void" | "UnusedSlot"),
        "PWSTR" => rust == "*mut u16",
        "PMDL" => rust == "*mut MDL",
        "PCM_RESOURCE_LIST" => rust == "*mut CM_RESOURCE_LIST",
        "PINTERFACE_REFERENCE" | "PINTERFACE_DEREFERENCE" => rust == "PINTERFACE_REFERENCE",
        "PHYSICAL_ADDRESS" | "LARGE_INTEGER" => matches!(rust, "PHYSICAL_ADDRESS" | "LARGE_INTEGER"),
        "ULARGE_INTEGER" => rust == "u64" || rust == "LARGE_INTEGER",
        "DXGK_SEGMENTPREFERENCE" => rust == "D3DDDI_SEGMENTPREFERENCE",
        "DXGKARG_RELEASE_HANDLE" => rust == "HANDLE",
        "fn" => rust.starts_with("Option<") || rust == "UnusedSlot",
        _ => {
            let function = format!("Option<{c}>");
            let pointer = format!("Option<P{c}>");
            rust == c || rust == "UnusedSlot" || rust == function || rust == pointer
        }
    }
}

/// The generated file.
pub fn generate(source: &Source, facts: &Facts) -> String {
    let mut out = String::from(
        "// Written by `cargo xtask ddi-layout`: what the compiler makes of every declaration. One line a type.\n\
         use super::*;\n\n",
    );
    let mut records = String::new();
    let mut enums = String::new();
    for name in &source.order {
        let (Some(declared), Some(of)) = (source.types.get(name), facts.types.get(name)) else { continue };
        match &declared.shape {
            Shape::Open { values } => {
                let list: Vec<String> = values.clone();
                let _ = writeln!(enums, "    open!({name}, [{}]),", list.join(", "));
            }
            Shape::Record { .. } | Shape::Bits { .. } => {
                let line = record_line(name, &flatten(source, facts, declared, of));
                let _ = writeln!(records, "    {line},");
            }
        }
    }
    let _ = write!(out, "pub(crate) const RECORDS: &[Record] = &[\n{records}];\n\n");
    let _ = write!(out, "pub(crate) const ENUMERATIONS: &[Enumeration] = &[\n{enums}];\n\n");
    out.push_str("pub(crate) const CONSTANTS: &[(&str, i64)] = &[\n");
    for constant in source.constants.iter().filter(|constant| facts.constants.contains_key(&constant.name)) {
        let _ = writeln!(out, "    (\"{0}\", {0} as i64),", constant.name);
    }
    out.push_str("];\n\npub(crate) const GUIDS: &[(&str, GUID)] = &[\n");
    for guid in source.guids.iter().filter(|guid| facts.guids.contains_key(&guid.name)) {
        let _ = writeln!(out, "    (\"{0}\", {0}),", guid.name);
    }
    out.push_str("];\n\npub(crate) const TYPEDEFS: &[(&str, usize)] = &[\n");
    for alias in source.aliases.iter().filter(|alias| facts.typedefs.contains_key(&alias.name)) {
        let _ = writeln!(out, "    (\"{0}\", size_of::<{0}>()),", alias.name);
    }
    out.push_str("];\n");
    out
}

fn record_line(name: &str, flat: &Flat<'_>) -> String {
    let leaves: Vec<String> = flat
        .leaves
        .iter()
        .map(|leaf| format!("(\"{}\", [{}], {})", leaf.row, leaf.path.join("."), ascii(&leaf.ty)))
        .collect();
    let mut bits = Vec::new();
    let mut reserved = Vec::new();
    for bit in &flat.bits {
        let path = bit.path.join(".");
        if bit.bit.is_reserved() {
            let WordBit { row, word, bit, .. } = bit;
            // C leaves some of them without a name, too.
            if row.rsplit('.').next().is_some_and(|last| last.chars().next().is_some_and(char::is_alphabetic)) {
                reserved.push(format!("(\"{row}\", [{path}], {word}, {}, {})", bit.offset, bit.count));
            }
        } else {
            let all =
                if bit.bit.ty == "bool" { "true".to_owned() } else { format!("{:#x}", (1u128 << bit.bit.count) - 1) };
            bits.push(format!("(\"{}\", [{path}], {}, with_{}, {all})", bit.row, bit.word, bit.bit.name));
        }
    }
    format!("record!({name}, [{}], [{}], [{}])", leaves.join(", "), bits.join(", "), reserved.join(", "))
}

fn ascii(ty: &str) -> String {
    ty.replace("c_void", "std::ffi::c_void")
}
