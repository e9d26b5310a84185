//! The comparison itself.

use ddi_layout::facts::TypeFacts;
use ddi_layout::{Enumeration, Record};

use crate::bindings::Bindings;
use crate::declared::{BaseRecord, Declared};
use crate::header::PROBE;
use crate::kits::{Kit, Known, known};
use crate::layout::Row;
use crate::report::{Agreement, Aspect, Counts, Difference, Disagreement, Failure, Theirs};

/// Layout of a type as `wddm-ddi` declares it, in bytes.
struct Expected<'a> {
    name: &'a str,
    size: usize,
    align: usize,
    /// Name, offset, size.
    fields: Vec<(&'a str, usize, usize)>,
    /// Name, first bit from the start of the type, number of bits, offset and size of the word.
    bits: Vec<(&'a str, usize, usize, usize, usize)>,
}

impl<'a> Expected<'a> {
    fn declared(record: &Record) -> Expected<'static> {
        let bits = record.bits.iter().map(|bit| {
            let first = bit.offset * 8 + bit.mask.trailing_zeros() as usize;
            (bit.name, first, bit.mask.count_ones() as usize, bit.offset, bit.size)
        });
        Expected {
            name: record.name,
            size: record.size,
            align: record.align,
            fields: record.fields.iter().map(|field| (field.name, field.offset, field.size)).collect(),
            bits: bits.collect(),
        }
    }

    fn known(name: &'a str, facts: &'a TypeFacts) -> Self {
        let (mut fields, mut bits) = (Vec::new(), Vec::new());
        for row in &facts.rows {
            match row.bits {
                None => fields.push((row.name.as_str(), row.offset, row.size)),
                Some((first, count)) => {
                    let first = row.offset * 8 + first as usize;
                    bits.push((row.name.as_str(), first, count as usize, row.offset, row.size));
                }
            }
        }
        Self { name, size: facts.size, align: facts.align, fields, bits }
    }
}

struct Comparison<'a> {
    bindings: &'a Bindings,
    declared: &'a Declared,
    known: &'static Known,
    kit: &'static Kit,
    differences: Vec<Difference>,
    counts: Counts,
    news: Vec<String>,
}

/// Compares every declaration of `wddm-ddi` with bindgen's output for the headers of a kit.
///
/// The text that bindgen read should contain the [`probes`](crate::probes), and the bindings the [`guids`](crate::guids).
///
/// # Errors
/// Every difference, or the reason why bindgen's output cannot be followed.
pub fn compare(bindings: &Bindings, declared: &Declared) -> Result<Agreement, Failure> {
    let known = known().map_err(Failure::Unreadable)?;
    let told = constant(bindings, &known.constant).map(|value| value as i64);
    let kit = told.and_then(|value| known.kits.iter().find(|kit| kit.value == value));
    let Some(assumed) = kit.or(known.kits.first()) else {
        return Err(Failure::Unreadable("kits.json names no kit".into()));
    };
    let (differences, counts, news) = (Vec::new(), Counts::default(), Vec::new());
    let mut comparison = Comparison { bindings, declared, known, kit: assumed, differences, counts, news };
    if kit.is_none() {
        comparison.unknown_kit(told);
    }
    comparison.all().map_err(Failure::Unreadable)?;
    let Comparison { differences, counts, news, .. } = comparison;
    match kit {
        Some(kit) if differences.is_empty() => Ok(Agreement { kit, counts, news }),
        _ => Err(Failure::Differs(Disagreement { kit, differences })),
    }
}

/// The value of a constant: as the text gave it away, or else as bindgen has it.
fn constant(bindings: &Bindings, name: &str) -> Option<i128> {
    let probe = bindings.constants.get(&format!("{PROBE}{name}"));
    probe.or_else(|| bindings.constants.get(name)).map(|constant| constant.value)
}

/// True if two values are the same 32 bits, or the same number if they are wider: C has signed what Rust has unsigned.
fn same(ours: i64, theirs: i128) -> bool {
    let narrow = |n: i128| (i128::from(i32::MIN)..=i128::from(u32::MAX)).contains(&n);
    i128::from(ours) == theirs || (narrow(ours.into()) && narrow(theirs) && ours as u32 == theirs as u32)
}

fn number(value: i128) -> String {
    if (0..10).contains(&value) { value.to_string() } else { format!("{value} ({:#x})", value as u64 & mask(value)) }
}

/// Bits that a number is shown with: 32 unless it needs more.
fn mask(value: i128) -> u64 {
    if (i128::from(i32::MIN)..=i128::from(u32::MAX)).contains(&value) { u64::from(u32::MAX) } else { u64::MAX }
}

/// A bit field within the word that holds it, where the word has `size` bytes and lies at `offset`.
fn range(first: usize, count: usize, offset: usize, size: usize) -> String {
    // The other side may have it in another word of the same size.
    let unit = size.max(1);
    let offset = if first >= offset * 8 && first < (offset + unit) * 8 { offset } else { first / 8 / unit * unit };
    let first = first - offset * 8;
    match count {
        1 => format!("bit {first} at offset {offset}"),
        _ => format!("bits {first} to {} at offset {offset}", first + count - 1),
    }
}

impl Comparison<'_> {
    fn unknown_kit(&mut self, told: Option<i64>) {
        let names: Vec<String> =
            self.known.kits.iter().map(|kit| format!("{} with {:#x}", kit.name, kit.value)).collect();
        let theirs = match told {
            Some(value) => Theirs::Says(number(value.into())),
            None => Theirs::Missing { instead: None },
        };
        let item = self.known.constant.clone();
        let ours = number(self.kit.value.into());
        self.differ(&item, Aspect::Value, Some(ours), theirs);
        if let Some(difference) = self.differences.last_mut() {
            difference.hint = Some(format!("known kits are {}; install one of them", names.join(" and ")));
        }
    }

    fn all(&mut self) -> Result<(), String> {
        let (declared, kit) = (self.declared, self.kit);
        for record in &declared.measured.records {
            match kit.types.get(record.name) {
                Some(facts) => self.record(&Expected::known(record.name, facts))?,
                None => self.record(&Expected::declared(record))?,
            }
        }
        for base in &declared.base {
            self.base(base)?;
        }
        for enumeration in &declared.measured.enumerations {
            self.enumeration(enumeration)?;
        }
        self.values();
        self.typedefs()
    }

    fn differ(&mut self, item: &str, aspect: Aspect, ours: Option<String>, theirs: Theirs) {
        let owner = item.split(['.', ':']).next().unwrap_or(item);
        let added = item
            .split_once("::")
            .is_some_and(|(owner, value)| self.kit.enums.get(owner).is_some_and(|values| values.contains_key(value)));
        let known = added || self.kit.types.contains_key(owner) || self.kit.constants.contains_key(owner);
        let known = known.then(|| self.kit.name.clone());
        self.differences.push(Difference { item: item.to_owned(), aspect, ours, theirs, known, hint: None });
    }

    /// Notes a difference of two numbers, if there is one.
    fn equal(&mut self, item: &str, aspect: Aspect, ours: usize, theirs: usize) {
        if ours != theirs {
            self.differ(item, aspect, Some(ours.to_string()), Theirs::Says(theirs.to_string()));
        }
    }

    /// The size and alignment of a type of the kit, or a note that there is none.
    fn extent(&mut self, name: &str, ours: usize) -> Result<Option<(usize, usize)>, String> {
        let extent = self.bindings.size_of(name)?;
        if extent.is_none() {
            self.differ(name, Aspect::Size, Some(ours.to_string()), Theirs::Missing { instead: None });
        }
        Ok(extent)
    }

    fn record(&mut self, expected: &Expected<'_>) -> Result<(), String> {
        let name = expected.name;
        let Some((size, align)) = self.extent(name, expected.size)? else { return Ok(()) };
        self.counts.types += 1;
        let before = self.differences.len();
        let rows = self.bindings.rows(name)?;
        let strangers = self.strangers(expected, &rows);
        for (field, offset, bytes) in &expected.fields {
            let row = self.row(name, field, &rows)?;
            self.field(&format!("{name}.{field}"), (*offset, *bytes), row, &strangers);
        }
        for (bit, first, count, offset, word) in &expected.bits {
            let row = self.row(name, bit, &rows)?;
            self.bits(&format!("{name}.{bit}"), (*first, *count), (*offset, *word), row, &strangers);
        }
        self.undeclared(expected, &strangers, before);
        self.equal(name, Aspect::Size, expected.size, size);
        let relaxed = self.declared.exceptions.alignments.contains_key(name) && align == 1;
        if !relaxed {
            self.equal(name, Aspect::Alignment, expected.align, align);
        }
        self.superseded(name, size, before);
        Ok(())
    }

    /// A member of the kit's record by its path, which may lead through types that have names there.
    fn row(&self, owner: &str, path: &str, rows: &[Row]) -> Result<Option<Row>, String> {
        match rows.iter().find(|row| row.name == path) {
            Some(row) => Ok(Some(row.clone())),
            None => self.bindings.locate(owner, path),
        }
    }

    fn field(&mut self, item: &str, (offset, bytes): (usize, usize), row: Option<Row>, strangers: &[&Row]) {
        match row {
            Some(Row { offset: theirs, size, bits: None, .. }) => {
                self.counts.fields += 1;
                self.equal(item, Aspect::Offset, offset, theirs);
                self.equal(item, Aspect::Size, bytes, size);
            }
            Some(Row { bits: Some((first, count)), .. }) => {
                let theirs = Theirs::Says(format!("a bit field, {}", range(first, count, offset, bytes)));
                self.differ(item, Aspect::Offset, Some(offset.to_string()), theirs);
            }
            None => {
                let alike = |row: &&&Row| row.offset == offset && row.size == bytes && row.bits.is_none();
                let instead = strangers.iter().find(alike).map(|row| row.name.clone());
                self.differ(item, Aspect::Offset, Some(offset.to_string()), Theirs::Missing { instead });
            }
        }
    }

    /// A bit field by its first bit and width; `offset` and `word` say in which word to show it.
    fn bits(
        &mut self,
        item: &str,
        ours: (usize, usize),
        (offset, word): (usize, usize),
        row: Option<Row>,
        strangers: &[&Row],
    ) {
        let text = range(ours.0, ours.1, offset, word);
        let theirs = match row {
            Some(Row { bits: Some(theirs), .. }) => {
                self.counts.bits += 1;
                if theirs == ours {
                    return;
                }
                Theirs::Says(range(theirs.0, theirs.1, offset, word))
            }
            Some(Row { offset, size, bits: None, .. }) => Theirs::Says(format!("{size} bytes at offset {offset}")),
            None => {
                let alike = |row: &&&Row| row.bits == Some(ours);
                Theirs::Missing { instead: strangers.iter().find(alike).map(|row| row.name.clone()) }
            }
        };
        self.differ(item, Aspect::Bits, Some(text), theirs);
    }

    /// Members that only the kit has and no exception names. The C name for "all bits of a word" is none of them, nor are parts
    /// of a member that is compared as a whole.
    fn strangers<'r>(&self, expected: &Expected<'_>, rows: &'r [Row]) -> Vec<&'r Row> {
        let ours: Vec<&str> =
            expected.fields.iter().map(|field| field.0).chain(expected.bits.iter().map(|bit| bit.0)).collect();
        let inside = |whole: &str, path: &str| path.strip_prefix(whole).is_some_and(|rest| rest.starts_with('.'));
        let known = |row: &&Row| {
            let name = row.name.as_str();
            let whole_word = row.bits.is_none()
                && expected.bits.iter().any(|(_, _, _, offset, size)| *offset == row.offset && *size == row.size);
            let part = expected
                .fields
                .iter()
                .any(|(field, ..)| inside(field, name) && !ours.iter().any(|other| inside(field, other)));
            let omitted = self.declared.exceptions.omission(expected.name, name).is_some();
            ours.contains(&name) || whole_word || part || omitted
        };
        rows.iter().filter(|row| !known(row)).collect()
    }

    /// Reports the strangers, but not those that a difference since `before` named already.
    fn undeclared(&mut self, expected: &Expected<'_>, strangers: &[&Row], before: usize) {
        for row in strangers {
            let named = |difference: &Difference| matches!(&difference.theirs, Theirs::Missing { instead: Some(name) } if *name == row.name);
            if self.differences.iter().skip(before).any(named) {
                continue;
            }
            let (aspect, theirs) = match row.bits {
                Some((first, count)) => {
                    let within = |(offset, size): &(usize, usize)| (*offset..offset + size).contains(&(first / 8));
                    let words = expected.bits.iter().map(|(.., offset, size)| (*offset, *size));
                    let (offset, size) = words.into_iter().find(within).unwrap_or((first / 32 * 4, 4));
                    (Aspect::Bits, range(first, count, offset, size))
                }
                None => (Aspect::Offset, row.offset.to_string()),
            };
            self.differ(&format!("{}.{}", expected.name, row.name), aspect, None, Theirs::Says(theirs));
        }
    }

    /// Says of a size that is known from older headers where it comes from.
    fn superseded(&mut self, name: &str, size: usize, before: usize) {
        let known = self.known;
        if known.superseded.get(name).is_some_and(|old| *old == size as i64)
            && let Some(first) = self.differences.get_mut(before)
        {
            first.hint = Some(format!("so have {}; install a later release of the kit", known.superseded_kit));
        }
    }

    fn base(&mut self, base: &BaseRecord) -> Result<(), String> {
        let name = base.name;
        let Some((size, align)) = self.extent(name, base.whole.map_or(0, |whole| whole.0))? else { return Ok(()) };
        self.counts.types += 1;
        let rows = self.bindings.rows(name)?;
        for (path, offset, bytes) in base.fields {
            let row = self.row(name, path, &rows)?;
            self.field(&format!("{name}.{path}"), (*offset, *bytes), row, &[]);
        }
        if let Some((ours, ours_align)) = base.whole {
            self.equal(name, Aspect::Size, ours, size);
            self.equal(name, Aspect::Alignment, ours_align, align);
        }
        Ok(())
    }

    fn enumeration(&mut self, enumeration: &Enumeration) -> Result<(), String> {
        let Enumeration { name, size, align, values } = *enumeration;
        let Some(theirs) = self.extent(name, size)? else { return Ok(()) };
        self.counts.types += 1;
        self.equal(name, Aspect::Size, size, theirs.0);
        self.equal(name, Aspect::Alignment, align, theirs.1);
        for (value, ours) in values {
            self.value(&format!("{name}::{value}"), value, *ours);
        }
        let kit = self.kit;
        let added = kit.enums.get(name);
        for (value, ours) in added.into_iter().flatten() {
            self.value(&format!("{name}::{value}"), value, *ours);
        }
        let tag = self.bindings.canonical(name).map(|(tag, _)| tag);
        for (value, constant) in &self.bindings.constants {
            let crate::bindings::Ty::Named(ty) = &constant.ty else { continue };
            let known = values.iter().any(|(known, _)| known == value)
                || added.is_some_and(|added| added.contains_key(value))
                || self.declared.exceptions.omission(name, value).is_some();
            if !known && self.bindings.canonical(ty).map(|(tag, _)| tag) == tag {
                self.news.push(format!("{name}::{value} = {}", number(constant.value)));
            }
        }
        Ok(())
    }

    /// Compares one number; `item` is how it is called in a report.
    fn value(&mut self, item: &str, name: &str, ours: i64) {
        match constant(self.bindings, name) {
            Some(theirs) if same(ours, theirs) => self.counts.values += 1,
            Some(theirs) => {
                self.counts.values += 1;
                self.differ(item, Aspect::Value, Some(number(ours.into())), Theirs::Says(number(theirs)));
            }
            None => {
                let missing = Theirs::Missing { instead: None };
                self.differ(item, Aspect::Value, Some(number(ours.into())), missing);
            }
        }
    }

    fn values(&mut self) {
        let (declared, kit) = (self.declared, self.kit);
        let told = self.differences.iter().any(|difference| difference.item == self.known.constant);
        for (name, ours) in &declared.measured.constants {
            // The constant that tells the kit was reported first if the kit is not known.
            if !(told && *name == self.known.constant) {
                self.value(name, name, kit.constants.get(*name).copied().unwrap_or(*ours));
            }
        }
        for (name, ours) in &declared.measured.guids {
            let theirs = match self.bindings.guids.get(*name) {
                Some(theirs) if theirs.eq_ignore_ascii_case(ours) => {
                    self.counts.values += 1;
                    continue;
                }
                Some(theirs) => Theirs::Says(theirs.clone()),
                None => Theirs::Missing { instead: None },
            };
            self.differ(name, Aspect::Value, Some(ours.clone()), theirs);
        }
    }

    fn typedefs(&mut self) -> Result<(), String> {
        let declared = self.declared;
        for (name, ours) in &declared.measured.typedefs {
            if let Some((theirs, _)) = self.extent(name, *ours)? {
                self.counts.types += 1;
                self.equal(name, Aspect::Size, *ours, theirs);
            }
        }
        Ok(())
    }
}
