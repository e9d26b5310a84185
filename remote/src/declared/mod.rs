//! What program and machine must have declared alike: the layout of every type of the thunks, as the compiler of each end made it.

#[rustfmt::skip]
mod types;

/// A member, a bit field or a value of a type.
struct Part {
    name: &'static str,
    /// Type of a member; empty for others.
    ty: &'static str,
    /// Where it is: the offset of a member in bytes, the first bit, or the value itself.
    place: u64,
    /// Number of bits of a bit field; 0 for others.
    bits: u64,
}

/// A type.
struct Declared {
    name: &'static str,
    size: u64,
    parts: &'static [Part],
}

macro_rules! structure {
    ($name:ident, [$(($member:ident, $ty:literal)),*]) => {
        Declared {
            name: stringify!($name),
            size: size_of::<$name>() as u64,
            parts: &[$(Part {
                name: stringify!($member),
                ty: $ty,
                place: std::mem::offset_of!($name, $member) as u64,
                bits: 0,
            }),*],
        }
    };
}

macro_rules! bits {
    ($name:ident, [$(($field:literal, $first:literal, $count:literal)),*]) => {
        Declared {
            name: stringify!($name),
            size: size_of::<$name>() as u64,
            parts: &[$(Part { name: $field, ty: "", place: $first, bits: $count }),*],
        }
    };
}

macro_rules! values {
    ($name:ident, [$($value:ident),*]) => {
        Declared {
            name: stringify!($name),
            size: size_of::<$name>() as u64,
            parts: &[$(Part { name: stringify!($value), ty: "", place: <$name>::$value.0 as u64, bits: 0 }),*],
        }
    };
}

use {bits, structure, values};

/// FNV-1a, a byte at a time.
pub(crate) const fn hashed(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    hash
}

/// A name or a type, and where it ends.
const fn text(hash: u64, text: &str) -> u64 {
    hashed(hashed(hash, text.as_bytes()), &(text.len() as u64).to_le_bytes())
}

/// The hash with these types.
const fn with(mut hash: u64, types: &[Declared]) -> u64 {
    let mut at = 0;
    while at < types.len() {
        let Declared { name, size, parts } = &types[at];
        hash = hashed(text(hash, name), &size.to_le_bytes());
        let mut place = 0;
        while place < parts.len() {
            let part = &parts[place];
            hash = text(text(hash, part.name), part.ty);
            hash = hashed(hashed(hash, &part.place.to_le_bytes()), &part.bits.to_le_bytes());
            place += 1;
        }
        at += 1;
    }
    hash
}

/// The hash with every type of the thunks: its size, and name, type and place of each part.
pub(crate) const fn with_types(hash: u64) -> u64 {
    with(hash, types::DECLARED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &'static [Part]) -> u64 {
        with(1, &[Declared { name: "ONE", size: 16, parts }])
    }

    /// Two releases that differ in nothing but this would write a member where the other reads another one.
    #[test]
    fn types_of_one_size_with_members_at_other_places_are_declared_differently() {
        const fn part(name: &'static str, ty: &'static str, place: u64, bits: u64) -> Part {
            Part { name, ty, place, bits }
        }
        const FORMS: &[&[Part]] = &[
            &[part("a", "u32", 0, 0), part("b", "u32", 4, 0)],
            &[part("b", "u32", 0, 0), part("a", "u32", 4, 0)],
            &[part("a", "u32", 4, 0), part("b", "u32", 0, 0)],
            &[part("a", "i32", 0, 0), part("b", "u32", 4, 0)],
            &[part("a", "", 0, 1), part("b", "", 1, 4)],
            &[part("a", "", 0, 2), part("b", "", 1, 4)],
        ];
        let hashes: std::collections::BTreeSet<u64> = FORMS.iter().map(|parts| of(parts)).collect();
        assert_eq!(hashes.len(), FORMS.len());
    }

    #[test]
    fn what_a_thunk_is_handed_is_declared_by_member_bit_and_value() {
        let find = |name| types::DECLARED.iter().find(|declared| declared.name == name).expect("declared");
        let lock = find("D3DKMT_LOCK2").parts;
        let data = lock.iter().find(|part| part.name == "pData").expect("a member");
        assert_eq!(data.place as usize, std::mem::offset_of!(wddm_ddi::kmt::D3DKMT_LOCK2, pData));
        assert!(
            find("D3DKMT_CREATEALLOCATIONFLAGS").parts.iter().any(|part| part.name == "CreateShared" && part.bits == 1)
        );
        assert!(types::DECLARED.len() > 200, "{}", types::DECLARED.len());
    }
}
