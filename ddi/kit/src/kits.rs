//! The kits whose headers are known, and how they differ.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ddi_layout::facts::TypeFacts;
use serde_json::{Map, Value};

const TEXT: &str = include_str!("../kits.json");

/// A kit that the comparison knows by the interface version of its headers.
#[derive(Clone, Debug)]
pub struct Kit {
    /// Version, as `10.0.26100`.
    pub name: String,
    /// Configuration option that the kit sets, if it differs from `wddm-ddi`.
    pub cfg: Option<String>,
    /// Value of the constant that tells it.
    pub(crate) value: i64,
    /// Types that are other than in `wddm-ddi`.
    pub(crate) types: BTreeMap<String, TypeFacts>,
    /// Values that the kit adds to enumerations that `wddm-ddi` has.
    pub(crate) enums: BTreeMap<String, BTreeMap<String, i64>>,
    /// Constants that are other than in `wddm-ddi`.
    pub(crate) constants: BTreeMap<String, i64>,
}

impl Kit {
    /// Facts of the types that differ from `wddm-ddi`.
    pub fn types(&self) -> impl Iterator<Item = (&str, &TypeFacts)> {
        self.types.iter().map(|(name, facts)| (name.as_str(), facts))
    }

    /// Values that the kit adds to enumerations: enumeration, name, value.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str, i64)> {
        let pairs = self.enums.iter().flat_map(|(owner, values)| values.iter().map(move |value| (owner, value)));
        pairs.map(|(owner, (name, value))| (owner.as_str(), name.as_str(), *value))
    }

    /// Constants that differ from `wddm-ddi`.
    pub fn constants(&self) -> impl Iterator<Item = (&str, i64)> {
        self.constants.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// Everything in `kits.json`.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Constant by which a kit is told.
    pub(crate) constant: String,
    pub(crate) kits: Vec<Kit>,
    /// Sizes of types in headers that a later revision of the same kit replaced.
    pub(crate) superseded: BTreeMap<String, i64>,
    /// Name of the superseded headers, for reports.
    pub(crate) superseded_kit: String,
}

/// The known kits, the one that `wddm-ddi` is written for first.
///
/// # Errors
/// A sentence if the data, which is part of the sources, has another form.
pub fn kits() -> Result<&'static [Kit], String> {
    known().map(|known| known.kits.as_slice())
}

pub(crate) fn known() -> Result<&'static Known, String> {
    static KNOWN: LazyLock<Result<Known, String>> = LazyLock::new(|| Known::parse(TEXT));
    KNOWN.as_ref().map_err(Clone::clone)
}

impl Known {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("kits.json: {what}");
        let value: Value = serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
        let string = |value: &Value| value.as_str().map(str::to_owned);
        let constant = string(&value["constant"]).ok_or_else(|| wrong("no constant"))?;
        let mut kits = Vec::new();
        for entry in value["kits"].as_array().ok_or_else(|| wrong("no kits"))? {
            let mut types = BTreeMap::new();
            for (name, of) in entry["types"].as_object().ok_or_else(|| wrong("a kit without types"))? {
                types.insert(
                    name.clone(),
                    TypeFacts::from_reduced(of).map_err(|error| wrong(&format!("{name}: {error}")))?,
                );
            }
            let mut enums = BTreeMap::new();
            for (name, values) in entry["enums"].as_object().ok_or_else(|| wrong("a kit without enums"))? {
                enums.insert(name.clone(), integers(values.as_object()).ok_or_else(|| wrong(name))?);
            }
            kits.push(Kit {
                name: string(&entry["name"]).ok_or_else(|| wrong("a kit without name"))?,
                cfg: string(&entry["cfg"]),
                value: entry["value"].as_i64().ok_or_else(|| wrong("a kit without value"))?,
                types,
                enums,
                constants: integers(entry["constants"].as_object()).ok_or_else(|| wrong("a kit without constants"))?,
            });
        }
        let superseded = &value["superseded"];
        Ok(Self {
            constant,
            kits,
            superseded: integers(superseded["sizes"].as_object()).ok_or_else(|| wrong("no superseded sizes"))?,
            superseded_kit: string(&superseded["kit"]).ok_or_else(|| wrong("no name of superseded headers"))?,
        })
    }
}

fn integers(object: Option<&Map<String, Value>>) -> Option<BTreeMap<String, i64>> {
    object?.iter().map(|(name, value)| Some((name.clone(), value.as_i64()?))).collect()
}
