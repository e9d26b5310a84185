//! Result of comparing `wddm-ddi` with the headers of a kit: agreement, or a list of differences.

use std::fmt;

use crate::kits::Kit;

/// Property of an item that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// Bytes of a type or member.
    Size,
    /// Alignment of a type in bytes.
    Alignment,
    /// Bytes from the start of the type.
    Offset,
    /// Bits of a bit field, counted from the start of the type.
    Bits,
    /// Enumerator, constant or GUID.
    Value,
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "size ",
            Self::Alignment => "alignment ",
            Self::Offset => "offset ",
            // The range says whether it is one or several.
            Self::Bits => "",
            Self::Value => "value ",
        })
    }
}

/// The header's side of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Theirs {
    /// Something else.
    Says(String),
    /// Nothing: it has no such type, member or value.
    Missing {
        /// The item in its place, if there is one.
        instead: Option<String>,
    },
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Type, member, enumerator or constant.
    pub item: String,
    /// Property that differs.
    pub aspect: Aspect,
    /// What `wddm-ddi` says, or what is known of the kit; nothing if only the kit has the item.
    pub ours: Option<String>,
    /// The kit header's value.
    pub theirs: Theirs,
    /// Name of the kit when the item is one that is known to differ there.
    pub known: Option<String>,
    /// Advice to the reader, such as the kit that has this value.
    pub hint: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { item, aspect, ours, theirs, known, hint } = self;
        let who = match known {
            Some(kit) => format!("for kit {kit} wddm-ddi expects"),
            None => "wddm-ddi says".to_owned(),
        };
        match (ours, theirs) {
            (Some(ours), Theirs::Says(theirs)) => {
                write!(f, "{item}: {who} {aspect}{ours}, the kit's header says {theirs}")?;
            }
            (Some(ours), Theirs::Missing { instead }) => {
                write!(f, "{item}: {who} {aspect}{ours}, the kit's header has no such name")?;
                if let Some(instead) = instead {
                    write!(f, ", but {instead} in that place")?;
                }
            }
            (None, Theirs::Says(theirs)) => {
                write!(f, "{item}: wddm-ddi has no such name, the kit's header says {aspect}{theirs}")?;
            }
            (None, Theirs::Missing { .. }) => write!(f, "{item}: neither side has it")?,
        }
        if let Some(hint) = hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

/// Number of items compared, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Types, enumerations and scalar names included.
    pub types: usize,
    /// Whole members, slots of the function tables included.
    pub fields: usize,
    /// Bit fields.
    pub bits: usize,
    /// Enumerators, constants and GUIDs.
    pub values: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { types, fields, bits, values } = self;
        write!(f, "{types} types, {fields} members, {bits} bit fields, {values} values")
    }
}

/// Both sides say the same.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// Which kit the headers belong to.
    pub kit: &'static Kit,
    /// Number of items compared.
    pub counts: Counts,
    /// Values that the kit's enumerations have and neither `wddm-ddi` nor the known differences: no obstacle, but news.
    pub news: Vec<String>,
}

/// The sides differ.
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// Which kit the headers seem to belong to.
    pub kit: Option<&'static Kit>,
    /// At least one, in the order of the declarations.
    pub differences: Vec<Difference>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Differences that are worth showing after the first.
        const MORE: usize = 9;
        let Some((first, rest)) = self.differences.split_first() else { return f.write_str("no difference") };
        write!(f, "{first}")?;
        for difference in rest.iter().take(MORE) {
            write!(f, "\n{difference}")?;
        }
        if rest.len() > MORE {
            write!(f, "\nand {} more", rest.len() - MORE)?;
        }
        Ok(())
    }
}

/// The reason why there is no agreement.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The sides differ.
    Differs(Disagreement),
    /// bindgen's output cannot be followed, or data of this crate cannot be read.
    Unreadable(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs(disagreement) => disagreement.fmt(f),
            Self::Unreadable(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Failure {}
