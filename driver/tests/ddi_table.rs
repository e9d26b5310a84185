//! `docs/ddi-table.md` is the driver's table of entry points as it is built. `cargo xtask docs` writes it through this test.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use campanile_kmd::{Class, SLOTS};
use wddm_ddi::km::SLOT_NAMES;

/// Set by `cargo xtask docs`: write the document instead of comparing it.
const WRITE: &str = "CAMPANILE_WRITE_DOCS";

fn document() -> String {
    let implemented = SLOTS.iter().filter(|slot| slot.class == Class::Implemented).count();
    let mut out = format!(
        "# Entry points of the driver\n\n\
         Generated from `driver/src/slots.rs` by `cargo xtask docs`. `DRIVER_INITIALIZATION_DATA` of WDDM 3.2 has {} slots: {implemented} are\n\
         implemented, {} are NULL. The driver checks at load that the table it built is the one described here.\n\n\
         | slot | offset | entry point | class | why |\n| --- | --- | --- | --- | --- |\n",
        SLOTS.len(),
        SLOTS.len() - implemented,
    );
    for (index, slot) in SLOTS.iter().enumerate() {
        let class = match slot.class {
            Class::Implemented => "implemented",
            Class::Disabled => "disabled",
        };
        let reason = slot.reason.replace('|', "\\|");
        let _ = writeln!(out, "| {index} | {} | {} | {class} | {reason} |", 8 + 8 * index, slot.name);
    }
    out
}

#[test]
fn the_document_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ddi-table.md");
    let fresh = document();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, fresh).expect("the document can be written");
        return;
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == fresh, "docs/ddi-table.md is stale: run `cargo xtask docs`");
}

#[test]
fn every_slot_of_the_interface_is_classed_once_with_a_reason() {
    let names: Vec<&str> = SLOTS.iter().map(|slot| slot.name).collect();
    assert_eq!(names, SLOT_NAMES);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), SLOTS.len());
    for slot in &SLOTS {
        assert!(slot.reason.trim().len() >= 6, "{} gives no reason", slot.name);
    }
}
