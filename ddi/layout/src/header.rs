//! Writes types and prototypes as C declares them: those of the thunks for programs, those of the DDIs for drivers in C.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::facts::{Facts, TypeFacts};
use crate::source::{Bit, Declared, Member, Shape, Source, citation, prose, text_of};

/// Declarations in C of the types that `wanted` accepts and of all that they are made of, each behind what it needs.
///
/// Sizes, members and bits are those of the Rust sources; the table says what has no name in C, what is packed, and the values of
/// enumerations.
///
/// # Errors
/// A sentence naming the type that C cannot have.
pub fn declarations(source: &Source, facts: &Facts, wanted: &dyn Fn(&Declared) -> bool) -> Result<String, String> {
    let mut writer = Writer { source, facts, done: BTreeSet::new(), text: String::new() };
    for name in &source.order {
        let Some(declared) = source.types.get(name) else { continue };
        if wanted(declared) && facts.types.contains_key(name) && !writer.is_base(declared) {
            writer.declare(declared)?;
        }
    }
    Ok(writer.text)
}

/// A type as C writes it before a name, and what follows the name.
///
/// # Errors
/// A sentence naming a type that C cannot have.
pub fn c_type(rust: &str) -> Result<(String, String), String> {
    // Macros may have their tokens apart.
    let together = rust.replace("* mut", "*mut").replace("* const", "*const");
    let rust = together.as_str();
    if let Some(inner) = rust.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let (element, length) = inner.rsplit_once(';').ok_or_else(|| format!("{rust} is no array"))?;
        let (element, tail) = c_type(element.trim())?;
        return Ok((element, format!("[{}]{tail}", length.trim())));
    }
    if let Some(function) = rust.strip_prefix("Option<").and_then(|rest| rest.strip_suffix('>')) {
        return Ok((pointer_name(function.trim()).to_owned(), String::new()));
    }
    if let Some(target) = rust.strip_prefix("*const ") {
        return Ok((format!("const {} *", c_type(target.trim())?.0), String::new()));
    }
    if let Some(target) = rust.strip_prefix("*mut ") {
        return Ok((format!("{} *", c_type(target.trim())?.0), String::new()));
    }
    let name = match rust {
        "i8" => "CHAR",
        "u8" => "UCHAR",
        "i16" => "SHORT",
        "u16" => "USHORT",
        "u32" => "UINT",
        "i32" => "INT",
        "u64" => "UINT64",
        "i64" => "INT64",
        "usize" => "SIZE_T",
        "c_void" => "VOID",
        "UnusedSlot" => "PVOID",
        _ if rust.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => rust,
        _ => return Err(format!("C has no {rust}")),
    };
    Ok((name.to_owned(), String::new()))
}

/// The name that C has for a type of function pointers: Microsoft's headers name callbacks without the P in front.
fn pointer_name(name: &str) -> &str {
    name.strip_prefix('P').filter(|name| name.starts_with("DXGKCB_")).unwrap_or(name)
}

/// An argument as the header of its function declares it. dispmprt.h has ULONG where d3dkmddi.h has UINT; to C these are different types, and a
/// function of the one is no function of the other.
fn argument(header: &str, name: &str, rust: &str) -> Result<String, String> {
    let (ty, tail) = match name {
        "PhysicalDeviceObject" => ("PDEVICE_OBJECT".to_owned(), String::new()),
        "MiniportDeviceContext" if rust.matches('*').count() == 1 => ("PVOID".to_owned(), String::new()),
        "ActionType" => ("POWER_ACTION".to_owned(), String::new()),
        "VideoRequestPacket" => ("PVIDEO_REQUEST_PACKET".to_owned(), String::new()),
        _ => c_type(rust)?,
    };
    let ty = match ty.strip_prefix("UINT") {
        Some(rest) if header == "dispmprt" && !rest.starts_with("64") => format!("ULONG{rest}"),
        _ => ty,
    };
    let blank = if ty.ends_with('*') { "" } else { " " };
    Ok(format!("{ty}{blank}{name}{tail}"))
}

struct Writer<'a> {
    source: &'a Source,
    facts: &'a Facts,
    done: BTreeSet<&'a str>,
    text: String,
}

/// Position of a member in a type of the table: the path of names that leads to it.
struct MemberPath<'a> {
    of: &'a TypeFacts,
    owner: &'a str,
    prefix: String,
    depth: usize,
}

impl MemberPath<'_> {
    fn has(&self, name: &str) -> bool {
        self.of.row(&format!("{}{name}", self.prefix)).is_some()
    }

    /// True if the table has all of these members at the same offset.
    fn all_at_one(&self, fields: &[Member]) -> bool {
        let mut offsets =
            fields.iter().map(|field| Some(self.of.row(&format!("{}{}", self.prefix, field.name))?.offset));
        let Some(Some(first)) = offsets.next() else { return false };
        fields.len() > 1 && offsets.all(|offset| offset == Some(first))
    }

    fn indent(&self) -> String {
        "    ".repeat(self.depth)
    }
}

impl<'a> Writer<'a> {
    fn declare(&mut self, declared: &'a Declared) -> Result<(), String> {
        let name = declared.name.as_str();
        if !self.done.insert(name) {
            return Ok(());
        }
        let of = self.facts.types.get(name).ok_or_else(|| format!("the table has no {name}"))?;
        self.needs(declared)?;
        let doc = prose(&declared.doc);
        let mut text = String::new();
        if !doc.is_empty() && !doc.contains(['`', '[']) {
            let _ = writeln!(text, "/* {} */", doc.trim_end_matches(&['.', ':', ' '][..]));
        }
        let place = MemberPath { of, owner: name, prefix: String::new(), depth: 1 };
        match &declared.shape {
            Shape::Open { .. } => self.enumeration(name, &mut text)?,
            Shape::Bits { bits } => {
                let _ = writeln!(text, "typedef struct {name} {{");
                bit_word(bits, &place, place.has("Value"), &mut text);
                let _ = writeln!(text, "}} {name};");
            }
            Shape::Record { fields } => {
                let packed = of.align == 1 && of.size > 1;
                let kind = if is_union(fields, of) { "union" } else { "struct" };
                let (before, after) =
                    if packed { ("#pragma pack(push, 1)\n", "#pragma pack(pop)\n") } else { ("", "") };
                let _ = writeln!(text, "{before}typedef {kind} {name} {{");
                self.members(fields, &place, &mut text)?;
                let _ = writeln!(text, "}} {name};\n{after}");
            }
        }
        self.text.push_str(text.trim_end());
        self.text.push_str("\n\n");
        Ok(())
    }

    /// Declares what a type is made of, or points to.
    fn needs(&mut self, declared: &'a Declared) -> Result<(), String> {
        let Shape::Record { fields } = &declared.shape else { return Ok(()) };
        for field in fields {
            let ty = field.ty.trim_start_matches("*mut ").trim_start_matches("*const ");
            let ty = ty.strip_prefix('[').and_then(|rest| rest.rsplit_once(';')).map_or(ty, |(element, _)| element);
            self.callback(ty)?;
            self.prototype(ty)?;
            let Some(inner) = self.source.types.get(ty.trim()) else { continue };
            if self.is_base(inner) {
                continue;
            }
            if self.is_inline(inner) { self.needs(inner)? } else { self.declare(inner)? }
        }
        Ok(())
    }

    /// Declares a type of functions of user mode, if this is one. The system calls them as Windows does.
    fn callback(&mut self, name: &str) -> Result<(), String> {
        let Some(alias) = self.source.aliases.iter().find(|alias| alias.name == name) else { return Ok(()) };
        let inner = alias.ty.split_once("fn").and_then(|(_, rest)| rest.split_once('(')?.1.split_once(')'));
        if name == "UnusedSlot" {
            return Ok(());
        }
        let is_base = citation(&alias.doc).is_some_and(|(header, _)| header == "wdm");
        let Some((argument, _)) = inner.filter(|_| alias.ty.starts_with("Option") && !is_base) else { return Ok(()) };
        if !self.done.insert(&alias.name) {
            return Ok(());
        }
        let target = argument.replace("* mut", "").replace("*mut", "");
        if let Some(target) = self.source.types.get(target.trim()) {
            self.declare(target)?;
        }
        let argument = c_type(argument.trim())?.0;
        let _ = writeln!(self.text, "typedef VOID (CALLBACK *{name})({});\n", argument.trim_end());
        Ok(())
    }

    /// True for types of Windows' base headers.
    fn is_base(&self, declared: &Declared) -> bool {
        matches!(declared.file.as_str(), "types.rs" | "status.rs")
            || self.facts.types.get(&declared.name).is_some_and(|of| of.header == "base")
    }

    /// Declares the type of a function between system and driver, and of pointers to it, if this is one.
    fn prototype(&mut self, ty: &str) -> Result<(), String> {
        let Some(name) = ty.strip_prefix("Option<").and_then(|rest| rest.strip_suffix('>')) else { return Ok(()) };
        let name = name.trim();
        let Some(alias) = self.source.aliases.iter().find(|alias| alias.name == name) else { return Ok(()) };
        if !self.done.insert(&alias.name) {
            return Ok(());
        }
        let bad = |error: syn::Error| format!("{name}: {error}");
        let function: syn::TypeFnPtr = syn::parse_str(&alias.ty).map_err(bad)?;
        let (header, _) = citation(&alias.doc).ok_or_else(|| format!("{name} does not name its page"))?;
        let mut arguments = Vec::new();
        for input in &function.inputs {
            let rust = text_of(&input.ty);
            let target = rust.trim_start_matches("*mut ").trim_start_matches("*const ");
            if let Some(target) = self.source.types.get(target).filter(|target| !self.is_base(target)) {
                self.declare(target)?;
            }
            let of = input.name.as_ref().map(|(name, _)| name.to_string()).unwrap_or_default();
            arguments.push(argument(header, &of, &rust)?);
        }
        let result = match &function.output {
            syn::ReturnType::Default => "VOID".to_owned(),
            syn::ReturnType::Type(_, ty) => c_type(&text_of(&**ty))?.0,
        };
        let arguments = if arguments.is_empty() { "VOID".to_owned() } else { arguments.join(", ") };
        let pointer = pointer_name(name);
        let _ = match pointer.strip_prefix('P') {
            Some(role) => {
                writeln!(self.text, "typedef {result} {role}({arguments});\ntypedef {role} *{pointer};\n")
            }
            None => writeln!(self.text, "typedef {result} (*{pointer})({arguments});\n"),
        };
        Ok(())
    }

    /// True if C declares the type unnamed inside another.
    fn is_inline(&self, declared: &Declared) -> bool {
        !self.facts.types.contains_key(&declared.name) && !matches!(declared.shape, Shape::Open { .. })
    }

    fn enumeration(&self, name: &str, text: &mut String) -> Result<(), String> {
        let values = self.facts.enums.get(name).ok_or_else(|| format!("the table has no values of {name}"))?;
        let mut values: Vec<_> = values.iter().collect();
        values.sort_by_key(|(_, value)| **value);
        let _ = writeln!(text, "typedef enum {name} {{");
        for (value, number) in values {
            // Numbers above the positive ones are written as the negative ones that C has for them.
            let number = if *number > i64::from(i32::MAX) { number - (1 << 32) } else { *number };
            let _ = writeln!(text, "    {value} = {number},");
        }
        let _ = writeln!(text, "}} {name};");
        Ok(())
    }

    fn members(&self, fields: &'a [Member], place: &MemberPath<'_>, text: &mut String) -> Result<(), String> {
        let indent = place.indent();
        let mut model = None;
        for field in fields {
            let since = self.facts.since.get(&format!("{}.{}{}", place.owner, place.prefix, field.name));
            change_model(&mut model, since.map(String::as_str), text);
            let inner = self.source.types.get(&field.ty).filter(|inner| self.is_inline(inner));
            let Some(inner) = inner else {
                let (ty, tail) = c_type(&field.ty)?;
                let blank = if ty.ends_with('*') { "" } else { " " };
                let _ = writeln!(text, "{indent}{ty}{blank}{}{tail};", field.name);
                continue;
            };
            let named = place.has(&field.name);
            let prefix = if named { format!("{}{}.", place.prefix, field.name) } else { place.prefix.clone() };
            let within = MemberPath { of: place.of, owner: place.owner, prefix, depth: place.depth + 1 };
            let sibling = fields.iter().any(|other| other.name == "Value") && !named;
            match &inner.shape {
                Shape::Record { fields } => {
                    let kind = if is_helper_union(inner) || within.all_at_one(fields) { "union" } else { "struct" };
                    let _ = writeln!(text, "{indent}__extension__ {kind} {{");
                    self.members(fields, &within, text)?;
                }
                Shape::Bits { bits } => {
                    let _ = writeln!(text, "{indent}__extension__ struct {{");
                    bit_word(bits, &within, within.has("Value") && !sibling, text);
                }
                Shape::Open { .. } => return Err(format!("{} is no unnamed type", inner.name)),
            }
            let name = if named { format!(" {}", field.name) } else { String::new() };
            let _ = writeln!(text, "{indent}}}{name};");
        }
        change_model(&mut model, None, text);
        Ok(())
    }
}

/// What follows has come with this driver model, or was there in WDDM 2.0.
fn change_model<'a>(model: &mut Option<&'a str>, now: Option<&'a str>, text: &mut String) {
    if *model == now {
        return;
    }
    if model.is_some() {
        text.push_str("#endif\n");
    }
    if let Some(since) = now {
        let _ = writeln!(text, "#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_{since}");
    }
    *model = now;
}

/// True if all members of a named type lie at its start.
fn is_union(fields: &[Member], of: &TypeFacts) -> bool {
    fields.len() > 1 && fields.iter().all(|field| of.row(&field.name).is_some_and(|row| row.offset == 0))
}

/// Unions without a name in C are called so in Rust.
fn is_helper_union(declared: &Declared) -> bool {
    let tail = declared.name.rsplit('_').next().unwrap_or_default();
    tail.starts_with("Union")
}

/// The bit fields of a word, beside the whole word if C has it.
fn bit_word(bits: &[Bit], place: &MemberPath<'_>, whole: bool, text: &mut String) {
    let width: u32 = bits.iter().map(|bit| bit.count).sum();
    let unit = match width {
        0..=8 => "UCHAR",
        9..=16 => "USHORT",
        17..=32 => "UINT",
        _ => "UINT64",
    };
    let indent = place.indent();
    let deeper = if whole { format!("{indent}        ") } else { indent.clone() };
    if whole {
        let _ = writeln!(text, "{indent}__extension__ union {{\n{indent}    __extension__ struct {{");
    }
    for bit in bits {
        // Reserved bits have a number in Rust where C leaves them without a name.
        let name = bit.name.trim_start_matches("__");
        let name = if name.starts_with(|c: char| c.is_ascii_digit()) { "" } else { name };
        let _ = writeln!(text, "{deeper}{unit} {name}{}: {};", if name.is_empty() { "" } else { " " }, bit.count);
    }
    if whole {
        let _ = writeln!(text, "{indent}    }};\n{indent}    {unit} Value;\n{indent}}};");
    }
}
