//! The thunks and their types.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ddi_layout::generate::flatten;
use ddi_layout::source::{Declared, Shape, prose};
use ddi_layout::{Facts, Source, header};
use wddm_ddi::status;

const ABOUT: &str = "\
/*
 * The D3DKMT thunks of libcampanile_kmt.so, and their types.
 *
 * Names, layouts and values are those of Microsoft's d3dkmthk.h (kit 10.0.26100) for x64. A program that has that header includes it first, after
 * campanile_windows.h or types of its own; only values of NTSTATUS are declared here then.
 *
 * Generated from the Rust sources; do not edit.
 */
#ifndef CAMPANILE_KMT_H
#define CAMPANILE_KMT_H

#include \"campanile_windows.h\"

#if defined(CAMPANILE_BASE_TYPES) && defined(MIDL_INTERFACE)
#error \"wsl/winadapter.h was included behind campanile_windows.h: include it first, and both agree on the base types\"
#endif

";

const TYPES: &str = "\
/* The guards of Microsoft's header and of Wine's. */
#if !defined(_D3DKMTHK_H_) && !defined(__WINE_D3DKMTHK_H)
#define CAMPANILE_KMT_TYPES

#ifdef __cplusplus
extern \"C\" {
#endif

typedef UINT D3DKMT_HANDLE;
typedef UINT64 D3DGPU_VIRTUAL_ADDRESS;
typedef UINT64 D3DGPU_SIZE_T;
typedef SIZE_T D3DKMT_SIZE_T;
typedef UINT D3DDDI_VIDEO_PRESENT_SOURCE_ID;

";

/// Types that the header needs although no thunk takes them as an argument.
const BESIDES: [&str; 1] = ["D3DDDI_DOORBELLSTATUS"];

fn wanted(declared: &Declared) -> bool {
    declared.file.starts_with("kmt") || BESIDES.contains(&declared.name.as_str())
}

/// A function of the list.
struct Function {
    doc: String,
    name: &'static str,
    arguments: Vec<(&'static str, &'static str)>,
}

macro_rules! functions {
    ($(
        $(#[doc = $about:literal])*
        $table:ident { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
    )*) => {
        fn functions() -> Vec<Function> {
            vec![$($($( Function {
                doc: concat!($($doc, " "),*).to_owned(),
                name: stringify!($name),
                arguments: vec![$((stringify!($argument), stringify!($ty))),+],
            }, )*)*)*]
        }
    };
}

wddm_ddi::for_each_thunk!(functions);

pub(crate) fn header(source: &Source, facts: &Facts) -> String {
    let mut text = String::from(ABOUT);
    for (code, name) in status::NAMES {
        let _ = writeln!(text, "#ifndef {name}\n#define {name} ((NTSTATUS)0x{:08x})\n#endif", code.0);
    }
    text.push('\n');
    text.push_str(TYPES);
    text.push_str(&header::declarations(source, facts, &wanted).expect("C has every type"));
    for function in functions() {
        let _ = writeln!(text, "/* {} */", prose(function.doc.trim()).trim_end_matches('.'));
        let arguments = function.arguments.iter().map(|(name, ty)| {
            let (ty, tail) = header::c_type(ty).expect("C has every type");
            let blank = if ty.ends_with('*') { "" } else { " " };
            format!("{ty}{blank}{name}{tail}")
        });
        let arguments: Vec<_> = arguments.collect();
        let _ = writeln!(text, "NTSTATUS {}({});\n", function.name, arguments.join(", "));
    }
    text.push_str("#ifdef __cplusplus\n}\n#endif\n\n#endif\n\n#endif /* CAMPANILE_KMT_H */\n");
    text
}

/// A program that compiles only if every declaration of the thunks' header has the layout of the table.
pub(crate) fn layout_program(source: &Source, facts: &Facts) -> String {
    let declared = header::declarations(source, facts, &wanted).expect("C has every type");
    layout_of(source, facts, "campanile_kmt.h", &declared)
}

/// As [`layout_program`], for these declarations in this header.
pub(crate) fn layout_of(source: &Source, facts: &Facts, header: &str, declared: &str) -> String {
    let mut text = format!("#include <{header}>\n#include <stddef.h>\n");
    for (name, of) in &facts.types {
        if !declared.contains(&format!("}} {name};")) {
            continue;
        }
        let _ = writeln!(text, "_Static_assert(sizeof({name}) == {}, \"size of {name}\");", of.size);
        if matches!(source.types[name].shape, Shape::Open { .. }) {
            for (value, number) in &facts.enums[name] {
                let _ = writeln!(text, "_Static_assert((unsigned){value} == {}u, \"{value}\");", *number as u32);
            }
            continue;
        }
        let members = members(source, facts, name);
        for row in of.rows.iter().filter(|row| row.bits.is_none() && members.contains(&row.name)) {
            let path = &row.name;
            let _ = writeln!(text, "_Static_assert(offsetof({name}, {path}) == {}, \"{name}.{path}\");", row.offset);
            let _ = writeln!(text, "_Static_assert(sizeof((({name} *)0)->{path}) == {}, \"{name}.{path}\");", row.size);
        }
    }
    // C cannot ask for the place of a bit field: one that is set shows it.
    text.push_str("int main(void)\n{\n    int wrong = 0;\n");
    for (name, of) in &facts.types {
        if !declared.contains(&format!("}} {name};")) {
            continue;
        }
        let members = members(source, facts, name);
        for row in of.rows.iter().filter(|row| members.contains(&row.name)) {
            let Some((first, count)) = row.bits else { continue };
            let all = u64::MAX >> (64 - count);
            let _ = writeln!(
                text,
                "    {{ static union {{ {name} type; unsigned char bytes[{}]; }} u; u.type.{} = {all:#x}u; \
                 wrong += !has(u.bytes + {}, {}, 0x{:x}ull); }}",
                of.size,
                row.name,
                row.offset,
                row.size,
                all << first
            );
        }
    }
    text.push_str("    return wrong != 0;\n}\n");
    let helper = "static int has(const unsigned char *bytes, unsigned size, unsigned long long mask)\n{\n    unsigned long long word = 0;\n    \
                  for (unsigned at = 0; at < size; at++) word |= (unsigned long long)bytes[at] << (8 * at);\n    return word == mask;\n}\n";
    text.replace("#include <stddef.h>\n", &format!("#include <stddef.h>\n{helper}"))
}

/// The members of a type that the header names; `Value` stands beside every word of bits for which the table has it.
fn members(source: &Source, facts: &Facts, name: &str) -> BTreeSet<String> {
    let flat = flatten(source, facts, &source.types[name], &facts.types[name]);
    let words = flat
        .bits
        .iter()
        .filter_map(|bit| Some(format!("{}Value", bit.row.get(..bit.row.rfind('.').map_or(0, |dot| dot + 1))?)));
    let rows = flat.leaves.iter().map(|leaf| leaf.row.clone()).chain(flat.bits.iter().map(|bit| bit.row.clone()));
    rows.chain(words).collect()
}
