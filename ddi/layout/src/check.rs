//! The comparison itself.

use std::collections::BTreeSet;
use std::fmt;

use crate::facts::{Exceptions, Facts, Row, TypeFacts};

/// What the compiler says about a structure, union or word.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Name.
    pub name: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Whole fields.
    pub fields: &'static [Field],
    /// Bit fields, reserved ones included.
    pub bits: &'static [BitRange],
}

/// A whole field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Path in the table.
    pub name: &'static str,
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

/// A bit field.
#[derive(Clone, Copy, Debug)]
pub struct BitRange {
    /// Path in the table.
    pub name: &'static str,
    /// Offset of the storage unit in bytes.
    pub offset: usize,
    /// Size of the storage unit in bytes.
    pub size: usize,
    /// The bits that the field's setter sets.
    pub mask: u64,
}

/// An enumeration.
#[derive(Clone, Copy, Debug)]
pub struct Enumeration {
    /// Name.
    pub name: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Values by name.
    pub values: &'static [(&'static str, i64)],
}

/// Everything the compiler was asked.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Structures, unions and words.
    pub records: Vec<Record>,
    /// Enumerations.
    pub enumerations: Vec<Enumeration>,
    /// Constants.
    pub constants: Vec<(&'static str, i64)>,
    /// GUIDs in their usual spelling.
    pub guids: Vec<(&'static str, String)>,
    /// Sizes of scalar typedefs.
    pub typedefs: Vec<(&'static str, usize)>,
    /// Names of the slots of `DRIVER_INITIALIZATION_DATA` in order.
    pub slot_names: Vec<&'static str>,
}

/// One disagreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference(pub String);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Number of items compared, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Types, enumerations included.
    pub types: usize,
    /// Whole fields.
    pub fields: usize,
    /// Bit ranges.
    pub bits: usize,
    /// Enumerators, constants and GUIDs.
    pub values: usize,
    /// Slots of the two function tables.
    pub slots: usize,
    /// Members of the table that the crate deliberately lacks.
    pub omitted: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { types, fields, bits, values, slots, omitted } = self;
        write!(
            f,
            "{types} types, {fields} fields, {bits} bit ranges, {values} values, {slots} slots; {omitted} omitted"
        )
    }
}

struct Check<'a> {
    facts: &'a Facts,
    exceptions: &'a Exceptions,
    differences: Vec<Difference>,
    counts: Counts,
}

/// Compares, and says how much was compared.
pub fn check(measured: &Measured, facts: &Facts, exceptions: &Exceptions) -> (Vec<Difference>, Counts) {
    let mut check = Check { facts, exceptions, differences: Vec::new(), counts: Counts::default() };
    for record in &measured.records {
        check.record(record);
    }
    for enumeration in &measured.enumerations {
        check.enumeration(enumeration);
    }
    check.values(measured);
    check.slots(measured);
    check.forgotten(measured);
    (check.differences, check.counts)
}

impl<'a> Check<'a> {
    fn differ(&mut self, text: String) {
        self.differences.push(Difference(text));
    }

    fn equal<T: PartialEq + fmt::Display>(&mut self, what: &str, ours: T, table: T) {
        if ours != table {
            self.differ(format!("{what}: {ours} here, {table} in the table"));
        }
    }

    fn facts_of(&mut self, name: &str, size: usize, align: usize) -> Option<&'a TypeFacts> {
        let facts = self.facts;
        let Some(of) = facts.types.get(name) else {
            self.differ(format!("{name}: not in the table"));
            return None;
        };
        self.counts.types += 1;
        self.equal(&format!("size of {name}"), size, of.size);
        let relaxed = self.exceptions.alignments.contains_key(name);
        if relaxed && of.align == 1 && align > 1 {
            return Some(of);
        }
        if relaxed {
            self.differ(format!("alignment of {name}: excused without need"));
        }
        self.equal(&format!("alignment of {name}"), align, of.align);
        Some(of)
    }

    fn record(&mut self, record: &Record) {
        let Some(of) = self.facts_of(record.name, record.size, record.align) else { return };
        let mut declared = BTreeSet::new();
        for field in record.fields {
            let what = format!("{}.{}", record.name, field.name);
            declared.insert(field.name);
            let Some(row) = of.row(field.name) else {
                self.differ(format!("{what}: not in the table"));
                continue;
            };
            self.counts.fields += 1;
            self.equal(&format!("offset of {what}"), field.offset, row.offset);
            self.equal(&format!("size of {what}"), field.size, row.size);
            if row.bits.is_some() {
                self.differ(format!("{what}: a bit field in the table"));
            }
        }
        for range in record.bits {
            declared.insert(range.name);
            self.bits(record.name, range, of);
        }
        self.undeclared(record, of, &declared);
    }

    fn bits(&mut self, owner: &str, range: &BitRange, of: &TypeFacts) {
        let what = format!("{owner}.{}", range.name);
        // Two bit fields of one name may lie in one type, each in its own unit.
        let same = |row: &&Row| row.name == range.name && row.bits.is_some();
        let Some(row) =
            of.rows.iter().filter(same).find(|row| row.offset == range.offset).or_else(|| of.rows.iter().find(same))
        else {
            self.differ(format!("{what}: no such bit field in the table"));
            return;
        };
        self.counts.bits += 1;
        let (first, count) = row.bits.unwrap_or_default();
        let mask = (((1u128 << count) - 1) << first) as u64;
        self.equal(&format!("unit of {what}"), range.offset, row.offset);
        self.equal(&format!("unit size of {what}"), range.size, row.size);
        if range.mask != mask {
            self.differ(format!("bits of {what}: {:#x} here, {mask:#x} in the table", range.mask));
        }
    }

    /// Members of the table that are not declared need a reason. The C name for "all bits of a word" needs none: it is
    /// `into_bits`.
    fn undeclared(&mut self, record: &Record, of: &TypeFacts, declared: &BTreeSet<&str>) {
        for row in of.rows.iter().filter(|row| !declared.contains(row.name.as_str())) {
            let whole_word =
                row.bits.is_none() && record.bits.iter().any(|b| b.offset == row.offset && b.size == row.size);
            if whole_word {
                continue;
            }
            if self.exceptions.omission(record.name, &row.name).is_some() {
                self.counts.omitted += 1;
            } else {
                self.differ(format!("{}.{}: neither declared nor excused", record.name, row.name));
            }
        }
    }

    fn enumeration(&mut self, enumeration: &Enumeration) {
        let Enumeration { name, size, align, values } = *enumeration;
        if self.facts_of(name, size, align).is_none() {
            return;
        }
        let facts = self.facts;
        let Some(table) = facts.enums.get(name) else {
            self.differ(format!("{name}: the table has no values"));
            return;
        };
        for (value, ours) in values {
            match table.get(*value) {
                Some(n) => {
                    self.counts.values += 1;
                    self.equal(&format!("{name}::{value}"), *ours as u32, *n as u32);
                }
                None => self.differ(format!("{name}::{value}: not in the table")),
            }
        }
        for value in table.keys().filter(|value| !values.iter().any(|(name, _)| name == value)) {
            if self.exceptions.omission(name, value).is_some() {
                self.counts.omitted += 1;
            } else {
                self.differ(format!("{name}::{value}: neither declared nor excused"));
            }
        }
    }

    fn values(&mut self, measured: &Measured) {
        for (name, ours) in &measured.constants {
            match self.facts.constants.get(*name) {
                Some(table) => {
                    self.counts.values += 1;
                    self.equal(name, *ours as u32, *table as u32);
                }
                None => self.differ(format!("{name}: not in the table")),
            }
        }
        for (name, ours) in &measured.guids {
            match self.facts.guids.get(*name) {
                Some(table) => {
                    self.counts.values += 1;
                    self.equal(name, ours.to_lowercase(), table.to_lowercase());
                }
                None => self.differ(format!("{name}: not in the table")),
            }
        }
        for (name, ours) in &measured.typedefs {
            match self.facts.typedefs.get(*name) {
                Some(table) => {
                    self.counts.types += 1;
                    self.equal(&format!("size of {name}"), *ours, *table);
                }
                None => self.differ(format!("{name}: not in the table")),
            }
        }
    }

    fn slots(&mut self, measured: &Measured) {
        self.equal("number of slot names", measured.slot_names.len(), self.facts.init_data_slots.len());
        let facts = self.facts;
        for (index, (ours, (table, _))) in measured.slot_names.iter().zip(&facts.init_data_slots).enumerate() {
            self.equal(&format!("name of slot {index}"), *ours, table.as_str());
        }
        for (owner, slots) in
            [("DRIVER_INITIALIZATION_DATA", &facts.init_data_slots), ("DXGKRNL_INTERFACE", &facts.interface_slots)]
        {
            let Some(record) = measured.records.iter().find(|record| record.name == owner) else {
                self.differ(format!("{owner}: not measured"));
                continue;
            };
            for (name, offset) in slots {
                match record.fields.iter().find(|field| field.name == name) {
                    Some(field) => {
                        self.counts.slots += 1;
                        self.equal(&format!("offset of slot {owner}.{name}"), field.offset, *offset);
                    }
                    None => self.differ(format!("{owner}.{name}: no such slot here")),
                }
            }
        }
    }

    /// Table entries that nothing was compared with, and excuses that excuse nothing.
    fn forgotten(&mut self, measured: &Measured) {
        let facts = self.facts;
        for name in facts.types.keys() {
            let met = measured.records.iter().any(|record| record.name == name)
                || measured.enumerations.iter().any(|enumeration| enumeration.name == name);
            if !met {
                self.differ(format!("{name}: in the table, but not measured"));
            }
        }
        let exceptions = self.exceptions;
        for (owner, path) in exceptions.omitted_paths() {
            let in_table = facts.types.get(owner).is_some_and(|of| of.row(path).is_some())
                || facts.enums.get(owner).is_some_and(|values| values.contains_key(path));
            let declared = measured
                .records
                .iter()
                .find(|record| record.name == owner)
                .is_some_and(|record| record.fields.iter().any(|field| field.name == path));
            if !in_table || declared {
                self.differ(format!("{owner}.{path}: excused without need"));
            }
        }
    }
}
