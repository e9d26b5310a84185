//! Declaring formats so that one text serves the code and the manual.

/// One field of a record in memory.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name as in the code.
    pub name: &'static str,
    /// Byte offset from the start of the record.
    pub offset: usize,
    /// Width in bytes.
    pub size: usize,
    /// Meaning.
    pub doc: &'static str,
}

/// Which of the first `SIZE` bytes some field covers.
pub(crate) const fn named<const SIZE: usize>(fields: &[Field]) -> [bool; SIZE] {
    let mut named = [false; SIZE];
    let mut index = 0;
    while index < fields.len() {
        let mut byte = fields[index].offset;
        while byte < fields[index].offset + fields[index].size {
            named[byte] = true;
            byte += 1;
        }
        index += 1;
    }
    named
}

/// Bits of the 64-bit words of a packet that neither its header nor a field covers.
pub(crate) const fn unnamed_words<const WORDS: usize>(fields: &[Field]) -> [u64; WORDS] {
    let mut words = [u64::MAX; WORDS];
    words[0] = 0;
    let mut index = 0;
    while index < fields.len() {
        let mut byte = fields[index].offset;
        while byte < fields[index].offset + fields[index].size {
            words[byte / 8] &= !(0xff << (byte % 8 * 8));
            byte += 1;
        }
        index += 1;
    }
    words
}

/// One field of a packed word.
#[derive(Clone, Copy, Debug)]
pub struct BitField {
    /// Name as in the code, empty for reserved bits (written as zero, refused or ignored as the word says).
    pub name: &'static str,
    /// Width in bits; fields follow each other from bit 0 upwards.
    pub width: u32,
    /// Meaning.
    pub doc: &'static str,
}

/// Declares a packed word: `width name: type` from bit 0 upwards, with `reserved` for the remaining bits.
macro_rules! word {
    (
        $(#[doc = $sdoc:literal])*
        pub struct $name:ident: $repr:ident {
            $( $(#[doc = $fdoc:literal])* $width:literal $field:ident: $ty:ident, )*
            $(reserved $rest:literal as $rty:ident,)?
        }
    ) => {
        $(#[doc = $sdoc])*
        #[bitfield_struct::bitfield($repr)]
        #[derive(PartialEq, Eq)]
        pub struct $name {
            $( $(#[doc = $fdoc])* #[bits($width)] pub $field: $ty, )*
            $( #[bits($rest)] __: $rty, )?
        }

        impl $name {
            /// Description of the word, for the manual.
            pub const DOC: &'static str = concat!($($sdoc, "\n"),*);
            /// The fields from bit 0 upwards, for the manual.
            pub const FIELDS: &'static [$crate::BitField] = &[
                $( $crate::BitField { name: stringify!($field), width: $width, doc: concat!($($fdoc),*) }, )*
                $( $crate::BitField { name: "", width: $rest, doc: "Reserved, zero." }, )?
            ];
        }
    };
}

/// Declares a record in memory: integer fields at fixed offsets, little-endian, gaps zero.
macro_rules! record {
    (
        $(#[doc = $sdoc:literal])*
        pub struct $name:ident[$size:literal] {
            $( $(#[doc = $fdoc:literal])* $offset:literal $field:ident: $ty:ident, )*
        }
    ) => {
        $(#[doc = $sdoc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $(#[doc = $fdoc])* pub $field: $ty, )*
        }

        impl $name {
            /// Size in bytes.
            pub const SIZE: usize = $size;
            /// The record with zero in every field.
            pub const ZERO: Self = Self { $( $field: 0, )* };
            /// Description of the record, for the manual.
            pub const DOC: &'static str = concat!($($sdoc, "\n"),*);
            /// The fields in order, for the manual.
            pub const FIELDS: &'static [$crate::Field] = &[
                $( $crate::Field {
                    name: stringify!($field),
                    offset: $offset,
                    size: core::mem::size_of::<$ty>(),
                    doc: concat!($($fdoc),*),
                }, )*
            ];

            /// Reads the record from its bytes.
            #[inline]
            pub fn from_bytes(bytes: &[u8; $size]) -> Self {
                Self {
                    $( $field: {
                        let mut raw = [0u8; core::mem::size_of::<$ty>()];
                        raw.copy_from_slice(&bytes[$offset..$offset + core::mem::size_of::<$ty>()]);
                        <$ty>::from_le_bytes(raw)
                    }, )*
                }
            }

            /// True if every byte that no field names is zero, as a reader of the record may demand.
            pub fn unnamed_are_zero(bytes: &[u8; $size]) -> bool {
                const NAMED: [bool; $size] = $crate::table::named($name::FIELDS);
                bytes.iter().zip(NAMED).all(|(byte, named)| named || *byte == 0)
            }

            /// The bytes of the record.
            #[inline]
            pub fn to_bytes(&self) -> [u8; $size] {
                let mut bytes = [0u8; $size];
                $( bytes[$offset..$offset + core::mem::size_of::<$ty>()].copy_from_slice(&self.$field.to_le_bytes()); )*
                bytes
            }
        }
    };
}

/// Declares numbers with meanings: an enumeration for the code, its table for the manual.
macro_rules! numbers {
    (
        $(#[doc = $edoc:literal])*
        pub enum $name:ident: $repr:ident {
            $( $(#[doc = $doc:literal])* $variant:ident = $value:literal, )*
        }
    ) => {
        $(#[doc = $edoc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr($repr)]
        pub enum $name { $( $(#[doc = $doc])* $variant = $value, )* }

        impl $name {
            /// Number, name and meaning of each, for the manual.
            pub const ALL: &'static [($repr, &'static str, &'static str)] =
                &[$( ($value, stringify!($variant), concat!($($doc),*)), )*];

            /// The variant with this number.
            pub const fn from_number(number: $repr) -> Option<Self> {
                match number {
                    $( $value => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }
    };
}
