//! Every declaration of the crate agrees with the table of layout facts in `ddi-layout.json`.
//!
//! The table names sizes, alignments, offsets, bit ranges and values of the 10.0.26100 kit for x64. `layout/generated.rs` holds
//! what the compiler makes of the declarations (`cargo xtask ddi-layout` writes it), `layout/exceptions.json` what is
//! deliberately left out, with reasons.

#![allow(non_camel_case_types, non_upper_case_globals)]

use std::mem::{align_of, offset_of, size_of};
use std::path::Path;

use ddi_layout::{BitRange, Enumeration, Exceptions, Facts, Field, Measured, Record, Source, check, generate};
use wddm_ddi::{km::*, kmt::*, types::*};

/// Offset of a field, or of the type itself.
macro_rules! offset {
    ($type:ty,) => {
        0
    };
    ($type:ty, $($path:tt)+) => {
        offset_of!($type, $($path)+)
    };
}

/// Everything the compiler knows about a structure, union or word.
macro_rules! record {
    (
        $type:ident,
        [$(($field:literal, [$($path:tt)*], $field_type:ty)),*],
        [$(($bit:literal, [$($word:tt)*], $word_type:ty, $with:ident, $all:expr)),*],
        [$(($reserved:literal, [$($place:tt)*], $place_type:ty, $first:literal, $count:literal)),*]
    ) => {
        Record {
            name: stringify!($type),
            size: size_of::<$type>(),
            align: align_of::<$type>(),
            fields: &[$(Field {
                name: $field,
                offset: offset!($type, $($path)*),
                size: size_of::<$field_type>(),
            }),*],
            bits: &[
                $(BitRange {
                    name: $bit,
                    offset: offset!($type, $($word)*),
                    size: size_of::<$word_type>(),
                    mask: <$word_type>::new().$with($all).into_bits() as u64,
                },)*
                $(BitRange {
                    name: $reserved,
                    offset: offset!($type, $($place)*),
                    size: size_of::<$place_type>(),
                    mask: (((1u128 << $count) - 1) << $first) as u64,
                },)*
            ],
        }
    };
}

/// Everything the compiler knows about an open enumeration.
macro_rules! open {
    ($type:ident, [$($value:ident),*]) => {
        Enumeration {
            name: stringify!($type),
            size: size_of::<$type>(),
            align: align_of::<$type>(),
            values: &[$((stringify!($value), $type::$value.0 as i64)),*],
        }
    };
}

#[rustfmt::skip]
#[path = "layout/generated.rs"]
mod generated;

const TABLE: &str = include_str!("ddi-layout.json");
const EXCEPTIONS: &str = include_str!("layout/exceptions.json");
const GENERATED: &str = include_str!("layout/generated.rs");

fn facts() -> Facts {
    Facts::from_text(TABLE).expect("the table is well formed")
}

fn exceptions() -> Exceptions {
    Exceptions::from_text(EXCEPTIONS).expect("the exceptions are well formed")
}

fn source() -> Source {
    Source::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("the sources are Rust")
}

fn measured() -> Measured {
    Measured {
        records: generated::RECORDS.to_vec(),
        enumerations: generated::ENUMERATIONS.to_vec(),
        constants: generated::CONSTANTS.to_vec(),
        guids: generated::GUIDS.iter().map(|(name, guid)| (*name, spelling(guid))).collect(),
        typedefs: generated::TYPEDEFS.to_vec(),
        slot_names: SLOT_NAMES.to_vec(),
    }
}

fn spelling(guid: &GUID) -> String {
    let [a, b, rest @ ..] = guid.Data4;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{:08x}-{:04x}-{:04x}-{a:02x}{b:02x}-{rest}", guid.Data1, guid.Data2, guid.Data3)
}

fn lines<T: ToString>(complaints: &[T]) -> String {
    complaints.iter().map(|complaint| format!("\n  {}", complaint.to_string())).collect()
}

#[test]
fn every_declaration_agrees_with_the_table() {
    let (differences, counts) = check::check(&measured(), &facts(), &exceptions());
    println!("{counts}");
    assert!(differences.is_empty(), "{} differences:{}", differences.len(), lines(&differences));
}

#[test]
fn every_declaration_is_in_the_table_or_excused() {
    let complaints = generate::uncovered(&source(), &facts(), &exceptions());
    assert!(complaints.is_empty(), "{}", lines(&complaints));
}

#[test]
fn every_field_has_the_type_that_the_table_names() {
    let complaints = generate::mistyped(&source(), &facts());
    assert!(complaints.is_empty(), "{}", lines(&complaints));
}

#[test]
fn every_type_says_what_it_is_and_names_its_page() {
    let complaints = generate::undocumented(&source(), &facts(), &exceptions());
    assert!(complaints.is_empty(), "{} items:{}", complaints.len(), lines(&complaints));
}

#[test]
fn the_generated_file_is_what_the_sources_say() {
    let fresh = generate::generate(&source(), &facts());
    assert!(fresh == GENERATED, "ddi/tests/layout/generated.rs is stale: run `cargo xtask ddi-layout`");
}
