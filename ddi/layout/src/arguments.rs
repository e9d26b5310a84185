//! Writes the members of every structure that thunks are handed, with what each pointer among them points to.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::source::{Declared, Member, Shape, Source};

/// A member that is no structure itself.
struct Leaf<'a> {
    path: String,
    member: &'a Member,
}

/// The type that a pointer points to; `None` for what is no pointer.
fn pointee(ty: &str) -> Option<&str> {
    let (kind, to) = ty.strip_prefix('*')?.trim_start().split_once(' ')?;
    ["mut", "const"].contains(&kind).then_some(to)
}

/// The element of an array type.
fn element(ty: &str) -> Option<&str> {
    ty.strip_prefix('[')?.split(';').next().map(str::trim)
}

fn record<'a>(source: &'a Source, ty: &str) -> Option<&'a [Member]> {
    match source.types.get(ty) {
        Some(Declared { shape: Shape::Record { fields }, .. }) => Some(fields),
        _ => None,
    }
}

fn has_pointers(source: &Source, ty: &str) -> bool {
    let members = record(source, ty).unwrap_or_default();
    pointee(ty).is_some()
        || members.iter().any(|member| has_pointers(source, element(&member.ty).unwrap_or(&member.ty)))
}

/// Takes a structure apart into its members and those of its members.
///
/// # Errors
/// A sentence about an array with pointers in it, which no structure has and the table could not name.
fn flatten<'a>(source: &'a Source, fields: &'a [Member], prefix: &str, into: &mut Vec<Leaf<'a>>) -> Result<(), String> {
    for member in fields {
        let path = format!("{prefix}{}", member.name);
        match (element(&member.ty), record(source, &member.ty)) {
            (Some(inner), _) if has_pointers(source, inner) => return Err(format!("{path} is an array with pointers")),
            (None, Some(fields)) => flatten(source, fields, &format!("{path}."), into)?,
            _ => into.push(Leaf { path, member }),
        }
    }
    Ok(())
}

/// A type as code outside the crate names it, with its namespace.
fn public_type(ty: &str) -> String {
    ty.replace("c_void", "u8")
}

/// One line for the structure `name`, and the structures that its pointers lead to.
fn line<'a>(source: &'a Source, name: &str, fields: &'a [Member]) -> Result<(String, Vec<&'a str>), String> {
    let mut leaves = Vec::new();
    flatten(source, fields, "", &mut leaves).map_err(|error| format!("{name}: {error}"))?;
    let (mut text, mut led) = (format!("    structure!({name}, ["), Vec::new());
    for (place, Leaf { path, member }) in leaves.iter().enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        let to = pointee(&member.ty);
        let kind = match to {
            Some(to) => format!("Pointer, {}", public_type(to)),
            None if member.ty == "HANDLE" => "Handle, u8".to_owned(),
            None => format!("Word, {}", member.ty),
        };
        let _ = write!(text, "{comma}(\"{path}\", {path}, {kind})");
        led.extend(to.filter(|to| record(source, to).is_some()));
    }
    text.push_str("]),\n");
    Ok((text, led))
}

/// The generated file: the structures that pointers of these types lead to, directly or through members.
///
/// # Errors
/// A sentence about a declaration that the table has no form for.
pub fn generate(source: &Source, types: &[&str]) -> Result<String, String> {
    let mut text = "// Written by `cargo xtask ddi-layout`: members of the structures that thunks are handed. One line a structure.\nuse wddm_ddi::km::*;\nuse wddm_ddi::kmt::*;\nuse wddm_ddi::types::*;\n\nuse super::structure::*;\n\npub(super) const STRUCTURES: &[Structure] = &[\n".to_owned();
    let mut wanted: BTreeSet<&str> = types.iter().filter_map(|ty| pointee(ty)).collect();
    let mut done = BTreeSet::new();
    while let Some(name) = wanted.pop_first() {
        let Some(fields) = record(source, name) else { continue };
        if !done.insert(name) {
            continue;
        }
        let (line, led) = line(source, name, fields)?;
        text.push_str(&line);
        wanted.extend(led);
    }
    text.push_str("];\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        let mut source = Source::default();
        source.add("kmt/a.rs", text).unwrap();
        source
    }

    #[test]
    fn members_of_members_and_of_what_pointers_lead_to_are_listed() {
        let source = source(
            "#[repr(C)] pub struct OUTER { pub hDevice: u32, pub u: UNION, pub Event: HANDLE }
             #[repr(C)] pub union UNION { pub pInner: *mut INNER, pub Value: u64 }
             #[repr(C)] pub struct INNER { pub pData: *const c_void, pub List: [u32; 4] }",
        );
        let text = generate(&source, &["u32", "* mut OUTER"]).unwrap();
        let outer = r#"structure!(OUTER, [("hDevice", hDevice, Word, u32), ("u.pInner", u.pInner, Pointer, INNER), ("u.Value", u.Value, Word, u64), ("Event", Event, Handle, u8)]),"#;
        let inner = r#"structure!(INNER, [("pData", pData, Pointer, u8), ("List", List, Word, [u32; 4])]),"#;
        assert!(text.contains(outer) && text.contains(inner), "{text}");
        assert_eq!(text.matches("structure!").count(), 2);
    }

    #[test]
    fn what_the_table_has_no_form_for_is_named() {
        let source = source("#[repr(C)] pub struct LIST { pub Entries: [*mut c_void; 2] }");
        assert_eq!(generate(&source, &["*mut LIST"]), Err("LIST: Entries is an array with pointers".to_owned()));
    }
}
