//! The D3DKMT side against a second source: what Microsoft's windows-sys declares of types, values and thunks. `windows_sys/differences.json` has each
//! difference with the reason, and nothing that does not differ.

#![allow(non_camel_case_types, non_upper_case_globals)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ddi_layout::windows_sys::{self as theirs_source, Linked};
use ddi_layout::{Enumeration, Facts, Record, open, record};
use wddm_ddi::{km::*, kmt::*, status, types::*};

#[rustfmt::skip]
#[path = "layout/generated.rs"]
#[allow(dead_code)] // it measures the kernel's side, too
mod ours;
#[rustfmt::skip]
#[path = "windows_sys/generated.rs"]
mod theirs;

const DIFFERENCES: &str = include_str!("windows_sys/differences.json");

/// Headers of user mode; the kernel's are not what windows-sys describes.
const HEADERS: [&str; 3] = ["d3dkmthk", "d3dukmdt", "d3dkmdt"];

fn facts() -> Facts {
    Facts::from_text(include_str!("ddi-layout.json")).expect("the table is well formed")
}

fn sources() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    theirs_source::folder(&root).expect("windows-sys is a dependency of these tests")
}

/// Numbers of what was compared, and every difference in words.
#[derive(Default)]
struct Compared {
    records: usize,
    fields: usize,
    values: usize,
    thunks: usize,
    differences: BTreeSet<String>,
}

impl Compared {
    fn equal<T: PartialEq + std::fmt::Display>(&mut self, what: &str, ours: T, theirs: T) {
        if ours != theirs {
            self.differences.insert(format!("{what}: {ours} here, {theirs} there"));
        }
    }

    fn record(&mut self, ours: &Record, theirs: &Record) {
        let name = ours.name;
        self.records += 1;
        self.equal(&format!("size of {name}"), ours.size, theirs.size);
        self.equal(&format!("alignment of {name}"), ours.align, theirs.align);
        // A word of flags is one field there, or the value of a union whose other arm it is.
        let word = |offset, size| ours.bits.iter().any(|bit| (bit.offset, bit.size) == (offset, size));
        for field in theirs.fields {
            let what = format!("{name}.{}", field.name);
            match ours.fields.iter().find(|known| known.name == field.name) {
                Some(known) => {
                    self.fields += 1;
                    self.equal(&format!("offset of {what}"), known.offset, field.offset);
                    self.equal(&format!("size of {what}"), known.size, field.size);
                }
                None if word(field.offset, field.size) => self.fields += 1,
                None => drop(self.differences.insert(format!("{what}: there only"))),
            }
        }
        for field in ours.fields.iter().filter(|field| !theirs.fields.iter().any(|known| known.name == field.name)) {
            self.differences.insert(format!("{name}.{}: here only", field.name));
        }
        for bit in ours.bits {
            if !theirs.fields.iter().any(|field| (field.offset, field.size) == (bit.offset, bit.size)) {
                self.differences.insert(format!("word of {} bytes at {} of {name}: here only", bit.size, bit.offset));
            }
        }
    }

    fn value(&mut self, name: &str, ours: u32, theirs: &BTreeMap<String, u32>) {
        match theirs.get(name) {
            Some(theirs) => {
                self.values += 1;
                self.equal(name, ours, *theirs);
            }
            None => drop(self.differences.insert(format!("{name}: here only"))),
        }
    }
}

/// Name, module and types of the arguments of every thunk. Pointers are all `const`: what a callee may write through is nothing to the way of passing it, and
/// here the table has most of them `mut`, for they are called by one macro.
fn thunks() -> Vec<Linked> {
    macro_rules! signatures {
        ($(
            $(#[doc = $about:literal])*
            $table:ident { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
        )*) => {
            vec![$($($(Linked {
                module: concat!($module, ".dll").to_owned(),
                name: stringify!($name).to_owned(),
                arguments: vec![$(stringify!($ty).replace("* ", "*").replace("*mut", "*const").replace("D3DKMT_HANDLE", "u32")),+],
            }),*),*),*]
        };
    }
    wddm_ddi::for_each_thunk!(signatures)
}

fn compare() -> Compared {
    let mut all = Compared::default();
    let (facts, sources) = (facts(), sources());
    let user_mode = |name: &str| facts.types.get(name).is_some_and(|of| HEADERS.contains(&of.header.as_str()));
    for record in ours::RECORDS {
        match theirs::RECORDS.iter().find(|theirs| theirs.name == record.name) {
            Some(theirs) => all.record(record, theirs),
            None if user_mode(record.name) => drop(all.differences.insert(format!("{}: here only", record.name))),
            None => {}
        }
    }
    let direct3d = theirs_source::constants(&theirs_source::d3dkmt(&sources).join("mod.rs")).expect("constants");
    for enumeration in ours::ENUMERATIONS.iter().filter(|enumeration| user_mode(enumeration.name)) {
        for (name, value) in enumeration.values {
            all.value(name, *value as u32, &direct3d);
        }
    }
    let statuses = theirs_source::constants(&sources.join("Windows/Win32/Foundation/mod.rs")).expect("constants");
    for (ours, name) in status::NAMES {
        all.value(name, ours.0 as u32, &statuses);
    }
    let linked = theirs_source::linked(&sources).expect("functions");
    for ours in thunks() {
        let known: Vec<&Linked> = linked.iter().filter(|theirs| theirs.name == ours.name).collect();
        let Some(theirs) = known.first() else {
            all.differences.insert(format!("{}: here only", ours.name));
            continue;
        };
        all.thunks += 1;
        let arguments = theirs.arguments.join(", ").replace("*mut", "*const");
        all.equal(&format!("arguments of {}", ours.name), ours.arguments.join(", "), arguments);
        if !known.iter().any(|theirs| theirs.module == ours.module) {
            all.equal(&format!("module of {}", ours.name), ours.module, theirs.module.clone());
        }
    }
    all
}

#[test]
fn every_declaration_agrees_with_windows_sys_or_the_reason_is_known() {
    let compared = compare();
    let Compared { records, fields, values, thunks, differences } = &compared;
    println!("{records} records, {fields} fields, {values} values, {thunks} thunks; {} differences", differences.len());
    let groups: Vec<serde_json::Value> = serde_json::from_str(DIFFERENCES).expect("a list of groups");
    let texts = groups.iter().flat_map(|group| group["differences"].as_array().expect("differences"));
    let known: BTreeSet<String> = texts.map(|text| text.as_str().expect("text").to_owned()).collect();
    let new: Vec<&String> = differences.difference(&known).collect();
    assert!(new.is_empty(), "{} differences without a reason: {new:#?}", new.len());
    let gone: Vec<&String> = known.difference(differences).collect();
    assert!(gone.is_empty(), "these do not differ: {gone:#?}");
    assert!(groups.iter().all(|group| group["reason"].as_str().is_some_and(|reason| reason.len() > 20)));
    assert!(*records > 100 && *fields > 600 && *values > 200 && *thunks > 60, "the comparison has lost its subject");
}

#[test]
fn the_generated_file_is_what_the_sources_say() {
    let fresh = theirs_source::generate(&sources(), &facts()).expect("the sources are Rust");
    assert!(fresh == include_str!("windows_sys/generated.rs"), "stale: run `cargo xtask ddi-layout`");
}

#[test]
fn what_differs_in_one_point_is_named_in_that_point() {
    let of = |name: &str| *ours::RECORDS.iter().find(|record| record.name == name).expect("declared");
    let device = of("D3DKMT_CREATEDEVICE");
    let found = |altered: &Record| {
        let mut compared = Compared::default();
        compared.record(&device, altered);
        compared.differences.into_iter().collect::<Vec<_>>()
    };
    assert!(found(&device).is_empty());
    assert_eq!(found(&Record { size: 72, ..device }), ["size of D3DKMT_CREATEDEVICE: 64 here, 72 there"]);
    let shorter = found(&Record { fields: &device.fields[1..], ..device });
    assert_eq!(shorter, ["D3DKMT_CREATEDEVICE.hAdapter: here only"]);
}
