//! Statics and types of the driver, from its PDB.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Cursor;

use dxgkrnl::PdbIdentity;
use pdb2::{FallibleIterator, Indirection, PDB, PrimitiveKind, SymbolData, TypeData, TypeFinder, TypeIndex, Variant};
use serde::Serialize;

/// Namespace of the driver's own types and statics.
const OWN: &str = "campanile_kmd::";
/// Types deeper in one another than this are not followed.
const DEPTH_MAX: u32 = 32;

/// A static.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Symbol {
    /// Address in hexadecimal.
    pub address: String,
    /// Its type, as in [`Field::ty`].
    #[serde(rename = "type")]
    pub ty: String,
}

/// A type with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Type {
    /// Struct or union.
    Record {
        /// Bytes.
        size: u64,
        /// Fields of the record; those of a union overlap.
        fields: Vec<Field>,
        /// Constants of the type, such as the tags of an enum's variants.
        constants: BTreeMap<String, u64>,
    },
    /// Enum without fields.
    Enum {
        /// Type of the number.
        number: String,
        /// Numbers of the variants by name.
        values: BTreeMap<String, u64>,
    },
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    pub name: String,
    /// Byte offset from the start of the record.
    pub offset: u64,
    /// A name; `*T` for a pointer to T; `[N]T` for N of T; or a primitive: `u8` to `u64`, `i8` to `i64`, `bool`, `char`, `f32`,
    /// `f64`, `void`.
    #[serde(rename = "type")]
    pub ty: String,
}

/// The reason why a PDB does not tell.
#[derive(Debug)]
pub enum BadTypes {
    /// It is of another build than the image.
    OtherBuild,
    /// It is damaged.
    Pdb(pdb2::Error),
}

impl fmt::Display for BadTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherBuild => f.write_str("the PDB belongs to another build; build both again with `cargo xtask pe`"),
            Self::Pdb(error) => write!(f, "the PDB cannot be read: {error}"),
        }
    }
}

impl std::error::Error for BadTypes {}

impl From<pdb2::Error> for BadTypes {
    fn from(error: pdb2::Error) -> Self {
        Self::Pdb(error)
    }
}

/// Statics and types by name.
type Known = (BTreeMap<String, Symbol>, BTreeMap<String, Type>);

/// Statics of the driver and the types that they and the driver's own types are made of, for an image at `base`.
///
/// # Errors
/// A [`BadTypes`].
pub(super) fn read(pdb: &[u8], wanted: &PdbIdentity, base: u64) -> Result<Known, BadTypes> {
    let mut pdb = PDB::open(Cursor::new(pdb))?;
    let header = pdb.pdb_information()?;
    if header.guid.to_bytes_le() != wanted.guid || header.age != wanted.age {
        return Err(BadTypes::OtherBuild);
    }
    let information = pdb.type_information()?;
    let mut types = Types { finder: information.finder(), by_name: BTreeMap::new(), constants: BTreeMap::new() };
    let mut all = information.iter();
    let mut roots = Vec::new();
    while let Some(item) = all.next()? {
        types.finder.update(&all);
        let index = item.index();
        let (name, forward) = match item.parse() {
            Ok(TypeData::Class(class)) => (class.name, class.properties.forward_reference()),
            Ok(TypeData::Union(union)) => (union.name, union.properties.forward_reference()),
            Ok(TypeData::Enumeration(list)) => (list.name, list.properties.forward_reference()),
            _ => continue,
        };
        if !forward {
            let name = name.to_string().into_owned();
            if name.starts_with(OWN) && !name.contains("closure_env$") {
                roots.push(name.clone());
            }
            types.by_name.insert(name, index);
        }
    }
    let addresses = pdb.address_map()?;
    let table = pdb.global_symbols()?;
    let mut symbols = BTreeMap::new();
    let mut listed = table.iter();
    let mut statics = Vec::new();
    while let Some(symbol) = listed.next()? {
        match symbol.parse() {
            Ok(SymbolData::Data(data)) if data.name.to_string().starts_with(OWN) => {
                if let Some(rva) = data.offset.to_rva(&addresses) {
                    statics.push((data.name.to_string().into_owned(), rva.0, data.type_index));
                }
            }
            Ok(SymbolData::Constant(constant)) => {
                types.constants.insert(constant.name.to_string().into_owned(), number(&constant.value));
            }
            _ => {}
        }
    }
    let mut wanted = BTreeSet::from_iter(roots);
    for (name, rva, index) in statics {
        let ty = types.name(index, &mut wanted, 0)?;
        symbols.insert(name, Symbol { address: format!("{:#x}", base + u64::from(rva)), ty });
    }
    Ok((symbols, types.closure(wanted)?))
}

fn number(value: &Variant) -> u64 {
    match *value {
        Variant::U8(value) => value.into(),
        Variant::U16(value) => value.into(),
        Variant::U32(value) => value.into(),
        Variant::U64(value) => value,
        Variant::I8(value) => i64::from(value) as u64,
        Variant::I16(value) => i64::from(value) as u64,
        Variant::I32(value) => i64::from(value) as u64,
        Variant::I64(value) => value as u64,
    }
}

struct Types<'a> {
    finder: TypeFinder<'a>,
    by_name: BTreeMap<String, TypeIndex>,
    /// Constants by name, that of their type first.
    constants: BTreeMap<String, u64>,
}

impl Types<'_> {
    /// What a type is called; named types in it are added to `wanted`.
    fn name(&self, index: TypeIndex, wanted: &mut BTreeSet<String>, depth: u32) -> Result<String, BadTypes> {
        if depth > DEPTH_MAX {
            return Ok("void".to_owned());
        }
        let mut named = |name: pdb2::RawString<'_>| {
            let name = name.to_string().into_owned();
            wanted.insert(name.clone());
            name
        };
        Ok(match self.finder.find(index)?.parse()? {
            TypeData::Primitive(primitive) => {
                let name = primitive_name(primitive.kind);
                if primitive.indirection.is_some_and(|way| way != Indirection::Near16) {
                    format!("*{name}")
                } else {
                    name.to_owned()
                }
            }
            TypeData::Class(class) => named(class.name),
            TypeData::Union(union) => named(union.name),
            TypeData::Enumeration(list) => named(list.name),
            TypeData::Pointer(pointer) => format!("*{}", self.name(pointer.underlying_type, wanted, depth + 1)?),
            TypeData::Modifier(modifier) => self.name(modifier.underlying_type, wanted, depth + 1)?,
            TypeData::Array(array) => {
                let bytes = array.dimensions.last().copied().unwrap_or(0);
                let element = self.size(array.element_type, depth + 1)?;
                let count = u64::from(bytes).checked_div(element).unwrap_or(0);
                format!("[{count}]{}", self.name(array.element_type, wanted, depth + 1)?)
            }
            _ => "void".to_owned(),
        })
    }

    /// Bytes of a type; 0 for one that has no size.
    fn size(&self, index: TypeIndex, depth: u32) -> Result<u64, BadTypes> {
        if depth > DEPTH_MAX {
            return Ok(0);
        }
        let complete = |name: pdb2::RawString<'_>| self.by_name.get(&*name.to_string()).copied();
        Ok(match self.finder.find(index)?.parse()? {
            TypeData::Primitive(primitive) if primitive.indirection.is_some() => 8,
            TypeData::Primitive(primitive) => primitive_size(primitive.kind),
            TypeData::Class(class) if !class.properties.forward_reference() => class.size,
            TypeData::Union(union) if !union.properties.forward_reference() => union.size,
            TypeData::Enumeration(list) if !list.properties.forward_reference() => {
                self.size(list.underlying_type, depth + 1)?
            }
            TypeData::Class(class) => complete(class.name).map_or(Ok(0), |index| self.size(index, depth + 1))?,
            TypeData::Union(union) => complete(union.name).map_or(Ok(0), |index| self.size(index, depth + 1))?,
            TypeData::Enumeration(list) => complete(list.name).map_or(Ok(0), |index| self.size(index, depth + 1))?,
            TypeData::Pointer(_) => 8,
            TypeData::Modifier(modifier) => self.size(modifier.underlying_type, depth + 1)?,
            TypeData::Array(array) => array.dimensions.last().copied().unwrap_or(0).into(),
            _ => 0,
        })
    }

    /// The wanted types and all that they are made of. What only a forward reference exists of is left out.
    fn closure(&self, mut wanted: BTreeSet<String>) -> Result<BTreeMap<String, Type>, BadTypes> {
        let mut known = BTreeMap::new();
        while let Some(name) = wanted.pop_first() {
            let Some(index) = self.by_name.get(&name).copied().filter(|_| !known.contains_key(&name)) else { continue };
            let mut below = BTreeSet::new();
            let ty = match self.finder.find(index)?.parse()? {
                TypeData::Class(class) => self.record(&name, class.size, class.fields, &mut below)?,
                TypeData::Union(union) => self.record(&name, union.size, Some(union.fields), &mut below)?,
                TypeData::Enumeration(list) => {
                    let number = self.name(list.underlying_type, &mut below, 0)?;
                    let mut values = BTreeMap::new();
                    self.fields(list.fields, &mut |field| {
                        if let TypeData::Enumerate(value) = field {
                            values.insert(value.name.to_string().into_owned(), self::number(&value.value));
                        }
                        Ok(())
                    })?;
                    Type::Enum { number, values }
                }
                _ => continue,
            };
            known.insert(name, ty);
            wanted.extend(below.into_iter().filter(|name| !known.contains_key(name)));
        }
        Ok(known)
    }

    fn record(
        &self,
        name: &str,
        size: u64,
        list: Option<TypeIndex>,
        below: &mut BTreeSet<String>,
    ) -> Result<Type, BadTypes> {
        let (mut fields, mut constants) = (Vec::new(), BTreeMap::new());
        if let Some(list) = list {
            self.fields(list, &mut |field| {
                match field {
                    TypeData::Member(member) => {
                        let (name, offset) = (member.name.to_string().into_owned(), member.offset);
                        fields.push(Field { name, offset, ty: self.name(member.field_type, below, 0)? });
                    }
                    TypeData::StaticMember(member) => {
                        let member = member.name.to_string();
                        if let Some(value) = self.constants.get(&format!("{name}::{member}")) {
                            constants.insert(member.into_owned(), *value);
                        }
                    }
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(Type::Record { size, fields, constants })
    }

    /// Each field of a list and of what the list goes on with.
    fn fields(
        &self,
        list: TypeIndex,
        each: &mut dyn FnMut(&TypeData<'_>) -> Result<(), BadTypes>,
    ) -> Result<(), BadTypes> {
        let mut next = Some(list);
        // A list that leads back to itself ends here.
        for _ in 0..DEPTH_MAX {
            let Some(index) = next.filter(|index| index.0 != 0) else { break };
            let TypeData::FieldList(list) = self.finder.find(index)?.parse()? else { break };
            list.fields.iter().try_for_each(&mut *each)?;
            next = list.continuation;
        }
        Ok(())
    }
}

fn primitive_name(kind: PrimitiveKind) -> &'static str {
    use PrimitiveKind as Kind;
    match kind {
        Kind::UChar | Kind::U8 => "u8",
        Kind::Char | Kind::RChar | Kind::I8 => "i8",
        Kind::UShort | Kind::U16 => "u16",
        Kind::Short | Kind::I16 => "i16",
        Kind::ULong | Kind::U32 => "u32",
        Kind::Long | Kind::I32 | Kind::HRESULT => "i32",
        Kind::UQuad | Kind::U64 => "u64",
        Kind::Quad | Kind::I64 => "i64",
        Kind::Bool8 => "bool",
        Kind::RChar32 => "char",
        Kind::F32 => "f32",
        Kind::F64 => "f64",
        _ => "void",
    }
}

fn primitive_size(kind: PrimitiveKind) -> u64 {
    match primitive_name(kind) {
        "u8" | "i8" | "bool" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" | "char" | "f32" => 4,
        "u64" | "i64" | "f64" => 8,
        _ => 0,
    }
}
