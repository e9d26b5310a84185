//! The table of facts: what sizes, offsets, bits and values ought to be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::source::{Shape, Source};

/// Facts about the types that the crate declares.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Structures, unions and enumerations by name.
    pub types: BTreeMap<String, TypeFacts>,
    /// Values of enumerations.
    pub enums: BTreeMap<String, BTreeMap<String, i64>>,
    /// Constants.
    pub constants: BTreeMap<String, i64>,
    /// GUIDs in their usual spelling.
    pub guids: BTreeMap<String, String>,
    /// Sizes of scalar typedefs.
    pub typedefs: BTreeMap<String, usize>,
    /// Slots of `DRIVER_INITIALIZATION_DATA`: name and offset.
    pub init_data_slots: Vec<(String, usize)>,
    /// Members of `DXGKRNL_INTERFACE`: name and offset.
    pub interface_slots: Vec<(String, usize)>,
    /// The driver model that a member came with, as constants name it (`WDDM2_1`), by `TYPE.MEMBER`. Members that WDDM 2.0 has are not there.
    pub since: BTreeMap<String, String>,
}

/// Facts about one type.
#[derive(Clone, Debug)]
pub struct TypeFacts {
    /// Header that declares it, without `.h`.
    pub header: String,
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Members by path.
    pub rows: Vec<Row>,
}

/// One member.
#[derive(Clone, Debug)]
pub struct Row {
    /// Path from the type; members of unnamed records are not prefixed.
    pub name: String,
    /// Offset in bytes of the member or of its storage unit.
    pub offset: usize,
    /// Size in bytes of the member or of its storage unit.
    pub size: usize,
    /// Type in C.
    pub ty: String,
    /// First bit and number of bits of a bit field.
    pub bits: Option<(u32, u32)>,
}

/// What is deliberately not compared with the table, each with its reason.
#[derive(Clone, Debug, Default)]
pub struct Exceptions {
    /// Types that the table does not cover.
    pub types: BTreeMap<String, String>,
    /// Types that C packs to one byte and Rust aligns.
    pub alignments: BTreeMap<String, String>,
    /// Members of covered types that the crate does not declare: type, then path.
    pub omitted: BTreeMap<String, BTreeMap<String, String>>,
    /// Constants that the table does not cover.
    pub constants: BTreeMap<String, String>,
    /// Macros that declare types.
    pub macros: BTreeMap<String, String>,
}

fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("not a text: {value}"))
}

fn number(value: &Value) -> Result<usize, String> {
    value.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| format!("not a size: {value}"))
}

fn integer(value: &Value) -> Result<i64, String> {
    value.as_i64().ok_or_else(|| format!("not an integer: {value}"))
}

fn object<'a>(value: &'a Value, key: &str) -> Result<&'a Map<String, Value>, String> {
    value.get(key).and_then(Value::as_object).ok_or_else(|| format!("the table has no object \"{key}\""))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value.get(key).and_then(Value::as_array).ok_or_else(|| format!("the table has no list \"{key}\""))
}

impl Facts {
    /// Takes from the full table what `source` declares.
    ///
    /// # Errors
    /// A sentence if the table has another form.
    pub fn reduce(full: &Value, source: &Source) -> Result<Self, String> {
        let mut facts = Self::default();
        let types = object(full, "types")?;
        let enums = object(full, "enums")?;
        for (name, declared) in &source.types {
            let Some(entry) = types.get(name) else { continue };
            facts.types.insert(name.clone(), TypeFacts::from_full(entry).map_err(|error| format!("{name}: {error}"))?);
            if let (Shape::Open { .. }, Some(values)) = (&declared.shape, enums.get(name).and_then(Value::as_object)) {
                let values = values.iter().map(|(value, n)| Ok((value.clone(), integer(n)?)));
                facts.enums.insert(name.clone(), values.collect::<Result<_, String>>()?);
            }
        }
        let constants = object(full, "constants")?;
        for constant in &source.constants {
            if let Some(value) = constants.get(&constant.name) {
                facts.constants.insert(constant.name.clone(), integer(value)?);
            }
        }
        let guids = object(full, "guids")?;
        for guid in &source.guids {
            if let Some(value) = guids.get(&guid.name) {
                facts.guids.insert(guid.name.clone(), text(value)?);
            }
        }
        let typedefs = object(full, "typedefs")?;
        for alias in &source.aliases {
            if let Some(entry) = typedefs.get(&alias.name) {
                facts.typedefs.insert(alias.name.clone(), number(&entry["size"])?);
            }
        }
        let slots = |key: &str| -> Result<Vec<(String, usize)>, String> {
            list(full, key)?.iter().map(|slot| Ok((text(&slot["name"])?, number(&slot["offset"])?))).collect()
        };
        facts.init_data_slots = slots("init_data_slots")?;
        facts.interface_slots = slots("interface_slots")?;
        for (owner, key) in
            [("DRIVER_INITIALIZATION_DATA", "init_data_slots"), ("DXGKRNL_INTERFACE", "interface_slots")]
        {
            for slot in list(full, key)? {
                let since = text(&slot["since"])?;
                if since.as_str() > "WDDM2_0" && since.starts_with("WDDM") {
                    facts.since.insert(format!("{owner}.{}", text(&slot["name"])?), since);
                }
            }
        }
        Ok(facts)
    }

    /// The table as committed: one line a type.
    pub fn to_text(&self) -> String {
        let mut out = String::from("{\n");
        out.push_str("\"kit\": \"10.0.26100\",\n\"target\": \"x86_64-pc-windows-msvc\",\n");
        out.push_str("\"columns\": [\"name\", \"offset\", \"size\", \"type\", \"first bit\", \"bits\"],\n");
        let types: Vec<(String, Value)> = self.types.iter().map(|(name, t)| (name.clone(), t.to_value())).collect();
        section(&mut out, "types", &types);
        let enums: Vec<(String, Value)> =
            self.enums.iter().map(|(name, values)| (name.clone(), json!(values))).collect();
        section(&mut out, "enums", &enums);
        for (key, value) in [
            ("constants", json!(self.constants)),
            ("guids", json!(self.guids)),
            ("typedefs", json!(self.typedefs)),
            ("since", json!(self.since)),
            ("init_data_slots", json!(self.init_data_slots)),
        ] {
            let _ = writeln!(out, "\"{key}\": {value},");
        }
        let _ = write!(out, "\"interface_slots\": {}\n}}\n", json!(self.interface_slots));
        out
    }

    /// Reads the committed table.
    ///
    /// # Errors
    /// A sentence if the text has another form.
    pub fn from_text(text_: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text_).map_err(|error| error.to_string())?;
        let mut facts = Self::default();
        for (name, entry) in object(&value, "types")? {
            facts
                .types
                .insert(name.clone(), TypeFacts::from_reduced(entry).map_err(|error| format!("{name}: {error}"))?);
        }
        for (name, values) in object(&value, "enums")? {
            let values = values.as_object().ok_or_else(|| format!("{name}: no values"))?;
            let values = values.iter().map(|(value, n)| Ok((value.clone(), integer(n)?)));
            facts.enums.insert(name.clone(), values.collect::<Result<_, String>>()?);
        }
        for (name, n) in object(&value, "constants")? {
            facts.constants.insert(name.clone(), integer(n)?);
        }
        for (name, guid) in object(&value, "guids")? {
            facts.guids.insert(name.clone(), text(guid)?);
        }
        for (name, size) in object(&value, "typedefs")? {
            facts.typedefs.insert(name.clone(), number(size)?);
        }
        for (member, model) in object(&value, "since")? {
            facts.since.insert(member.clone(), text(model)?);
        }
        let slots = |key: &str| -> Result<Vec<(String, usize)>, String> {
            list(&value, key)?.iter().map(|slot| Ok((text(&slot[0])?, number(&slot[1])?))).collect()
        };
        facts.init_data_slots = slots("init_data_slots")?;
        facts.interface_slots = slots("interface_slots")?;
        Ok(facts)
    }
}

fn section(out: &mut String, key: &str, entries: &[(String, Value)]) {
    let _ = writeln!(out, "\"{key}\": {{");
    for (index, (name, value)) in entries.iter().enumerate() {
        let comma = if index + 1 < entries.len() { "," } else { "" };
        let _ = writeln!(out, "\"{name}\": {value}{comma}");
    }
    out.push_str("},\n");
}

impl TypeFacts {
    fn from_full(entry: &Value) -> Result<Self, String> {
        let mut rows = Vec::new();
        for field in list(entry, "fields")? {
            let bits = match (field.get("bit_offset"), field.get("bit_count")) {
                (Some(offset), Some(count)) => Some((number(offset)? as u32, number(count)? as u32)),
                _ => None,
            };
            rows.push(Row {
                name: text(&field["name"])?,
                offset: number(&field["offset"])?,
                size: number(&field["size"])?,
                ty: text(&field["type"])?,
                bits,
            });
        }
        Ok(Self {
            header: text(&entry["header"])?.trim_end_matches(".h").to_owned(),
            size: number(&entry["size"])?,
            align: number(&entry["align"])?,
            rows,
        })
    }

    /// Reads one type of the committed table.
    ///
    /// # Errors
    /// A sentence if the entry has another form.
    pub fn from_reduced(entry: &Value) -> Result<Self, String> {
        let mut rows = Vec::new();
        for row in list(entry, "rows")? {
            let bits = match (row.get(4), row.get(5)) {
                (Some(offset), Some(count)) => Some((number(offset)? as u32, number(count)? as u32)),
                _ => None,
            };
            rows.push(Row {
                name: text(&row[0])?,
                offset: number(&row[1])?,
                size: number(&row[2])?,
                ty: text(&row[3])?,
                bits,
            });
        }
        Ok(Self {
            header: text(&entry["header"])?,
            size: number(&entry["size"])?,
            align: number(&entry["align"])?,
            rows,
        })
    }

    fn to_value(&self) -> Value {
        let row = |row: &Row| match row.bits {
            Some((offset, count)) => json!([row.name, row.offset, row.size, row.ty, offset, count]),
            None => json!([row.name, row.offset, row.size, row.ty]),
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        json!({ "header": self.header, "size": self.size, "align": self.align, "rows": rows })
    }

    /// The row with this path.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

impl Exceptions {
    /// Reads the list of exceptions.
    ///
    /// # Errors
    /// A sentence if the text has another form or a reason is empty.
    pub fn from_text(text_: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text_).map_err(|error| error.to_string())?;
        let mut exceptions = Self::default();
        for (key, target) in [
            ("types", &mut exceptions.types),
            ("alignments", &mut exceptions.alignments),
            ("constants", &mut exceptions.constants),
            ("macros", &mut exceptions.macros),
        ] {
            for (name, reason) in object(&value, key)? {
                target.insert(name.clone(), reason_of(name, reason)?);
            }
        }
        for (owner, paths) in object(&value, "omitted")? {
            let paths = paths.as_object().ok_or_else(|| format!("{owner}: no paths"))?;
            let paths = paths.iter().map(|(path, reason)| Ok((path.clone(), reason_of(path, reason)?)));
            exceptions.omitted.insert(owner.clone(), paths.collect::<Result<_, String>>()?);
        }
        Ok(exceptions)
    }

    /// Why `path` of `owner` is not declared, if it is listed: itself or a record that contains it.
    pub fn omission(&self, owner: &str, path: &str) -> Option<&str> {
        let paths = self.omitted.get(owner)?;
        let mut end = path.len();
        loop {
            if let Some(reason) = paths.get(&path[..end]) {
                return Some(reason);
            }
            end = path[..end].rfind('.')?;
        }
    }

    /// Names of listed omissions, to find those that no longer apply.
    pub fn omitted_paths(&self) -> BTreeSet<(&str, &str)> {
        let pairs = self.omitted.iter().flat_map(|(owner, paths)| paths.keys().map(move |path| (owner, path)));
        pairs.map(|(owner, path)| (owner.as_str(), path.as_str())).collect()
    }
}

fn reason_of(name: &str, reason: &Value) -> Result<String, String> {
    let reason = text(reason)?;
    if reason.trim().len() < 12 { Err(format!("{name}: the exception gives no reason")) } else { Ok(reason) }
}
