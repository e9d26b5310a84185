//! Writes what both ends of a wire have to declare alike: every type of the thunks with the places of its members, its bits or its values.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::source::{Bit, Declared, Member, Shape, Source};

/// Names in a type as it is written, such as those of an array's element and of what a pointer points to.
fn names(ty: &str) -> impl Iterator<Item = &str> {
    ty.split(|unit: char| !unit.is_alphanumeric() && unit != '_').filter(|name| !name.is_empty())
}

fn structure(name: &str, fields: &[Member]) -> String {
    let members = fields.iter().map(|Member { name, ty }| format!("({name}, \"{ty}\")"));
    format!("    structure!({name}, [{}]),\n", members.collect::<Vec<_>>().join(", "))
}

fn bits(name: &str, bits: &[Bit]) -> String {
    let bits = bits.iter().map(|Bit { name, offset, count, .. }| format!("(\"{name}\", {offset}, {count})"));
    format!("    bits!({name}, [{}]),\n", bits.collect::<Vec<_>>().join(", "))
}

fn line(Declared { name, shape, .. }: &Declared) -> String {
    match shape {
        Shape::Record { fields } => structure(name, fields),
        Shape::Bits { bits: list } => bits(name, list),
        Shape::Open { values } => format!("    values!({name}, [{}]),\n", values.join(", ")),
    }
}

/// Types that a type is made of or leads to.
fn led(Declared { shape, .. }: &Declared) -> impl Iterator<Item = &str> {
    let fields = match shape {
        Shape::Record { fields } => &fields[..],
        _ => &[],
    };
    fields.iter().flat_map(|member| names(&member.ty))
}

/// The generated file: the types of `kmt`, and those that parameters of these types and members lead to.
///
/// # Errors
/// None of the types is declared, which cannot be meant.
pub fn generate(source: &Source, types: &[&str]) -> Result<String, String> {
    let of_thunks = source.types.values().filter(|declared| declared.file.starts_with("kmt/"));
    let mut wanted: BTreeSet<&str> = of_thunks.map(|declared| declared.name.as_str()).collect();
    wanted.extend(types.iter().flat_map(|ty| names(ty)));
    let (mut done, mut lines) = (BTreeSet::new(), String::new());
    while let Some(name) = wanted.pop_first() {
        let Some(declared) = source.types.get(name).filter(|_| !done.contains(name)) else { continue };
        done.insert(name);
        lines.push_str(&line(declared));
        wanted.extend(led(declared));
    }
    if done.is_empty() {
        return Err("no type of the thunks is declared".to_owned());
    }
    let mut text = "// Written by `cargo xtask ddi-layout`: the types of the thunks, and what they are made of. One line a type.\n".to_owned();
    for module in ["km", "kmt", "types"] {
        let _ = writeln!(text, "#[allow(unused_imports)]\nuse wddm_ddi::{module}::*;");
    }
    let _ = write!(text, "\nuse super::*;\n\npub(super) const DECLARED: &[Declared] = &[\n{lines}];\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_thunks_and_those_that_they_are_made_of_are_listed_once() {
        let mut source = Source::default();
        source
            .add(
                "kmt/a.rs",
                "#[repr(C)] pub struct OUTER { pub u: UNION, pub List: [ELEMENT; 4] }
                 #[repr(C)] pub union UNION { pub pInner: *mut ELEMENT, pub Value: u64 }",
            )
            .unwrap();
        source
            .add(
                "km/b.rs",
                "#[repr(C)] pub struct ELEMENT { pub pData: *const c_void } #[repr(C)] pub struct OTHER { pub a: u32 }",
            )
            .unwrap();
        let text = generate(&source, &["* mut OUTER"]).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("structure!")).map(str::trim).collect();
        let expected = [
            r#"structure!(OUTER, [(u, "UNION"), (List, "[ELEMENT; 4]")]),"#,
            r#"structure!(ELEMENT, [(pData, "*const c_void")]),"#,
            r#"structure!(UNION, [(pInner, "*mut ELEMENT"), (Value, "u64")]),"#,
        ];
        assert_eq!(lines.len(), expected.len(), "{text}");
        assert!(expected.iter().all(|line| lines.contains(line)), "{text}");
    }
}
