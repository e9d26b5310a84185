//! Offsets, sizes and bits of the members of the kit's records.

use crate::bindings::{Bindings, Record, Ty, plain};

/// One member of a record of the kit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Path from the record; members of unnamed records are not prefixed.
    pub(crate) name: String,
    /// Offset in bytes; of a bit field, that of the byte with its first bit.
    pub(crate) offset: usize,
    /// Size in bytes; nothing for a bit field.
    pub(crate) size: usize,
    /// First bit, counted from the start of the record, and number of bits.
    pub(crate) bits: Option<(usize, usize)>,
}

/// A field with its place.
struct Placed<'a> {
    name: &'a str,
    ty: &'a Ty,
    offset: usize,
    size: usize,
}

/// Longest chain of aliases, and deepest nesting of records, that is followed.
const DEPTH: usize = 64;

impl Bindings {
    /// The record with this name, through aliases.
    pub(crate) fn record(&self, name: &str) -> Option<(&str, &Record)> {
        let (name, _) = self.canonical(name)?;
        self.records.get_key_value(name).map(|(name, record)| (name.as_str(), record))
    }

    /// The last name in a chain of aliases, and what it stands for unless it is a record.
    pub(crate) fn canonical<'a>(&'a self, name: &'a str) -> Option<(&'a str, Option<&'a Ty>)> {
        let mut name = name;
        for _ in 0..DEPTH {
            match self.aliases.get(name) {
                Some(Ty::Named(next)) => name = next,
                Some(ty) => return Some((name, Some(ty))),
                None => return self.records.contains_key(name).then_some((name, None)),
            }
        }
        None
    }

    /// Size and alignment of the type with this name, nothing if there is none.
    pub(crate) fn size_of(&self, name: &str) -> Result<Option<(usize, usize)>, String> {
        match self.canonical(name) {
            Some(_) => self.extent(&Ty::Named(name.to_owned()), 0).map(Some),
            None => Ok(None),
        }
    }

    fn extent(&self, ty: &Ty, depth: usize) -> Result<(usize, usize), String> {
        match ty {
            Ty::Scalar(size) => Ok((*size, *size)),
            Ty::Pointer => Ok((8, 8)),
            Ty::Bytes(size) => Ok((*size, 1)),
            Ty::Array(element, length) => {
                let (size, align) = self.extent(element, depth + 1)?;
                let size = size.checked_mul(*length).ok_or("an array is larger than memory")?;
                Ok((size, align))
            }
            Ty::Named(name) if depth < DEPTH => match self.canonical(name) {
                Some((_, Some(ty))) => self.extent(ty, depth + 1),
                Some((name, None)) => match self.records.get(name) {
                    Some(Record { size: Some(size), align: Some(align), .. }) => Ok((*size, *align)),
                    // Declared, but never defined: only pointers to it occur.
                    _ => Err(format!("bindgen does not say how large {name} is")),
                },
                None => Err(format!("bindgen's output does not define {name}")),
            },
            Ty::Named(name) => Err(format!("{name} is nested too deep")),
            Ty::Other(text) => Err(format!("a type that headers do not have: {text}")),
        }
    }

    /// Lays the fields out as the compiler will, and checks that against what clang said.
    fn place<'a>(&'a self, name: &str, record: &'a Record) -> Result<Vec<Placed<'a>>, String> {
        if record.fields.iter().any(|(field, _)| field == "_bindgen_opaque_blob") {
            return Err(format!(
                "bindgen could not look into {name}; older releases of it do that with LLVM 22 and later: install LLVM 21"
            ));
        }
        let (Some(size), Some(align)) = (record.size, record.align) else {
            return Err(format!("bindgen's output has no layout assertions for {name}"));
        };
        let (mut end, mut placed) = (0, Vec::new());
        for (field, ty) in &record.fields {
            let (bytes, natural) = self.extent(ty, 0).map_err(|error| format!("{name}.{field}: {error}"))?;
            let step = natural.min(record.packed.unwrap_or(natural)).max(1);
            let computed = if record.is_union { 0 } else { usize::next_multiple_of(end, step) };
            let offset = record.offsets.get(field).copied().unwrap_or(computed);
            if offset != computed {
                return Err(format!("bindgen's {name}.{field} lies at {computed}, clang's at {offset}"));
            }
            let after = offset.checked_add(bytes).ok_or("a record is larger than memory")?;
            end = if record.is_union { end.max(after) } else { after };
            placed.push(Placed { name: field, ty, offset, size: bytes });
        }
        if end.next_multiple_of(align.max(1)) != size {
            return Err(format!("bindgen's {name} ends at {end}, clang's has {size} bytes"));
        }
        Ok(placed)
    }

    /// Members of a record: its own, and those of unnamed records within.
    pub(crate) fn rows(&self, name: &str) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        if let Some((name, record)) = self.record(name) {
            self.collect(name, record, 0, "", 0, &mut rows)?;
        }
        Ok(rows)
    }

    fn collect(
        &self,
        name: &str,
        record: &Record,
        base: usize,
        prefix: &str,
        depth: usize,
        rows: &mut Vec<Row>,
    ) -> Result<(), String> {
        if depth >= DEPTH {
            return Err(format!("{name} is nested too deep"));
        }
        for field in self.place(name, record)? {
            let offset = base + field.offset;
            if field.name.starts_with("_bitfield_") {
                for bit in record.bits.iter().filter(|bit| bit.unit == field.name) {
                    let first = offset * 8 + bit.first;
                    let name = format!("{prefix}{}", bit.name);
                    rows.push(Row { name, offset: first / 8, size: 0, bits: Some((first, bit.count)) });
                }
                continue;
            }
            if is_filler(field.name) {
                continue;
            }
            let inner = self.unnamed(field.ty);
            let mut inner_prefix = prefix.to_owned();
            if !field.name.starts_with("__bindgen_anon_") {
                let row = format!("{prefix}{}", plain(field.name));
                inner_prefix = format!("{row}.");
                rows.push(Row { name: row, offset, size: field.size, bits: None });
            }
            if let Some((name, record)) = inner {
                self.collect(name, record, offset, &inner_prefix, depth + 1, rows)?;
            }
        }
        Ok(())
    }

    /// The record that C has without a name inside another, and of an array of such the first.
    fn unnamed(&self, ty: &Ty) -> Option<(&str, &Record)> {
        match ty {
            Ty::Named(name) if name.contains("__bindgen_ty_") => self.record(name),
            Ty::Array(element, _) => self.unnamed(element),
            _ => None,
        }
    }

    /// The member with this path, where the path may also lead through named types and first elements of arrays.
    pub(crate) fn locate(&self, name: &str, path: &str) -> Result<Option<Row>, String> {
        let (mut owner, mut base) = (name.to_owned(), 0);
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            let Some((name, record)) = self.record(&owner) else { return Ok(None) };
            let mut rows = Vec::new();
            self.collect(name, record, base, "", 0, &mut rows)?;
            let Some(row) = rows.into_iter().find(|row| row.name == part) else { return Ok(None) };
            if parts.peek().is_none() {
                return Ok(Some(Row { name: path.to_owned(), ..row }));
            }
            let Some(next) = self.type_of(name, record, part) else { return Ok(None) };
            (owner, base) = (next, row.offset);
        }
        Ok(None)
    }

    /// Name of the type of a member, looking into unnamed records.
    fn type_of(&self, name: &str, record: &Record, member: &str) -> Option<String> {
        let named = |ty: &Ty| {
            let mut ty = ty;
            while let Ty::Array(element, _) = ty {
                ty = element;
            }
            if let Ty::Named(name) = ty { Some(name.clone()) } else { None }
        };
        for (field, ty) in &record.fields {
            if plain(field) == member {
                return named(ty);
            }
            if field.starts_with("__bindgen_anon_")
                && let Some((inner, of)) = self.unnamed(ty)
                && inner != name
                && let Some(found) = self.type_of(inner, of, member)
            {
                return Some(found);
            }
        }
        None
    }
}

/// True for members that bindgen adds for padding and alignment, which the header does not have.
fn is_filler(name: &str) -> bool {
    ["__bindgen_padding_", "_bindgen_align", "_bitfield_align_"].iter().any(|start| name.starts_with(start))
        || matches!(name, "_unused" | "_address")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// bindgen's way of writing one record: its fields, then what clang says.
    fn record(kind: &str, name: &str, fields: &str, says: &[(&str, usize)]) -> String {
        let assertions: String = says.iter().map(|(what, value)| format!("[\"{what}\"][0 - {value}usize];")).collect();
        format!("#[repr(C)] pub {kind} {name} {{ {fields} }} const _: () = {{ {assertions} }};")
    }

    fn rows(text: &str, name: &str) -> Result<Vec<(String, usize, usize)>, String> {
        let rows = Bindings::parse(text)?.rows(name)?;
        Ok(rows.into_iter().map(|row| (row.name, row.offset, row.size)).collect())
    }

    #[test]
    fn long_has_four_bytes_and_keywords_lose_their_underscore() {
        let fields = "pub type_: ::std::os::raw::c_long, pub Value_: *mut X, pub Call: ::std::option::Option<unsafe extern \"C\" fn()>";
        let text = record("struct", "_X", fields, &[("Size of _X", 24), ("Alignment of _X", 8)]) + "pub type X = _X;";
        let expected = [("type".to_owned(), 0, 4), ("Value_".to_owned(), 8, 8), ("Call".to_owned(), 16, 8)];
        assert_eq!(rows(&text, "X"), Ok(expected.to_vec()));
    }

    #[test]
    fn unnamed_records_give_their_members_to_the_one_around_them() {
        let inner = record(
            "struct",
            "X__bindgen_ty_1__bindgen_ty_1",
            "pub A: u16, pub B: [u8; 2usize]",
            &[("Size of X__bindgen_ty_1__bindgen_ty_1", 4), ("Alignment of X__bindgen_ty_1__bindgen_ty_1", 2)],
        );
        let union = record(
            "union",
            "X__bindgen_ty_1",
            "pub __bindgen_anon_1: X__bindgen_ty_1__bindgen_ty_1, pub Both: u32",
            &[("Size of X__bindgen_ty_1", 4), ("Alignment of X__bindgen_ty_1", 4)],
        );
        let outer = record(
            "struct",
            "X",
            "pub H: u8, pub __bindgen_anon_1: X__bindgen_ty_1, pub N: X__bindgen_ty_1",
            &[("Size of X", 12), ("Alignment of X", 4), ("Offset of field: X::N", 8)],
        );
        let text = format!("{inner}{union}{outer}");
        let names = [("H", 0, 1), ("A", 4, 2), ("B", 6, 2), ("Both", 4, 4)];
        let named = [("N", 8, 4), ("N.A", 8, 2), ("N.B", 10, 2), ("N.Both", 8, 4)];
        let expected = names.iter().chain(&named).map(|(name, offset, size)| ((*name).to_owned(), *offset, *size));
        assert_eq!(rows(&text, "X"), Ok(expected.collect()));
    }

    #[test]
    fn bit_fields_are_found_in_accessors_of_new_and_old_versions() {
        let fields =
            "pub Head: u32, pub _bitfield_align_1: [u32; 0], pub _bitfield_1: __BindgenBitfieldUnit<[u8; 4usize]>";
        let text = record("struct", "X", fields, &[("Size of X", 8), ("Alignment of X", 4)])
            + "impl X {
                pub fn New(&self) -> u32 { unsafe { transmute(self._bitfield_1.get_const::<0usize, 3u8>() as u32) } }
                pub fn set_New(&mut self, val: u32) { self._bitfield_1.set_const::<0usize, 3u8>(val as u64) }
                pub fn Old(&self) -> u32 { unsafe { transmute(self._bitfield_1.get(3usize, 29u8) as u32) } }
            }";
        let rows = Bindings::parse(&text).and_then(|bindings| bindings.rows("X")).expect("the text is bindgen's");
        let bits: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.bits)).collect();
        assert_eq!(bits, [("Head", None), ("New", Some((32, 3))), ("Old", Some((35, 29)))]);
    }

    #[test]
    fn packed_records_have_no_gaps() {
        let text = record("struct", "X", "pub A: u8, pub B: u64", &[("Size of X", 9), ("Alignment of X", 1)]);
        let packed = text.replace("repr(C)", "repr(C, packed)");
        assert_eq!(rows(&packed, "X"), Ok(vec![("A".to_owned(), 0, 1), ("B".to_owned(), 1, 8)]));
        let by_two =
            text.replace("repr(C)", "repr(C, packed(2))").replace("9usize", "10usize").replace("1usize", "2usize");
        assert_eq!(rows(&by_two, "X"), Ok(vec![("A".to_owned(), 0, 1), ("B".to_owned(), 2, 8)]));
    }

    #[test]
    fn what_cannot_be_followed_is_said_instead_of_guessed() {
        let opaque = record(
            "struct",
            "X",
            "pub _bindgen_opaque_blob: [u64; 3usize]",
            &[("Size of X", 24), ("Alignment of X", 8)],
        );
        assert!(rows(&opaque, "X").is_err_and(|error| error.contains("install LLVM 21")));
        let silent = record("struct", "X", "pub A: u8", &[]);
        assert_eq!(rows(&silent, "X"), Err("bindgen's output has no layout assertions for X".into()));
        let moved = record(
            "struct",
            "X",
            "pub A: u8, pub B: u8",
            &[("Size of X", 4), ("Alignment of X", 1), ("Offset of field: X::B", 3)],
        );
        assert_eq!(rows(&moved, "X"), Err("bindgen's X.B lies at 1, clang's at 3".into()));
        let short = record("struct", "X", "pub A: u8", &[("Size of X", 4), ("Alignment of X", 1)]);
        assert_eq!(rows(&short, "X"), Err("bindgen's X ends at 1, clang's has 4 bytes".into()));
        let unknown = record("struct", "X", "pub A: Y", &[("Size of X", 4), ("Alignment of X", 1)]);
        assert_eq!(rows(&unknown, "X"), Err("X.A: bindgen's output does not define Y".into()));
        let strange = record("struct", "X", "pub A: Vec<u8>", &[("Size of X", 4), ("Alignment of X", 1)]);
        assert!(rows(&strange, "X").is_err_and(|error| error.starts_with("X.A: a type that headers do not have")));
        let circle = "pub type A = B; pub type B = A;";
        assert_eq!(Bindings::parse(circle).map(|bindings| bindings.size_of("A")), Ok(Ok(None)));
        assert!(Bindings::parse("struct {").is_err_and(|error| error.starts_with("bindgen's output is not Rust")));
    }

    #[test]
    fn a_path_may_lead_through_types_with_names_and_first_elements() {
        let inner = record("struct", "Y", "pub A: u32, pub B: u32", &[("Size of Y", 8), ("Alignment of Y", 4)]);
        let outer =
            record("struct", "X", "pub H: u64, pub List: [Y; 4usize]", &[("Size of X", 40), ("Alignment of X", 8)]);
        let bindings = Bindings::parse(&(inner + &outer)).expect("the text is bindgen's");
        let row = Row { name: "List.B".into(), offset: 12, size: 4, bits: None };
        assert_eq!(bindings.locate("X", "List.B"), Ok(Some(row)));
        assert_eq!(bindings.locate("X", "List.C"), Ok(None));
        assert_eq!(bindings.locate("X", "H.B"), Ok(None));
        assert_eq!(bindings.locate("Z", "H"), Ok(None));
    }
}
