//! Macros by which the generated file asks the compiler for layouts.
//!
//! Whoever includes that file brings the macros and the types of `wddm-ddi` into the scope around it.

/// Offset of a field, or of the type itself.
#[macro_export]
macro_rules! offset {
    ($type:ty,) => {
        0
    };
    ($type:ty, $($path:tt)+) => {
        ::core::mem::offset_of!($type, $($path)+)
    };
}

/// Everything the compiler knows about a structure, union or word: whole fields, bit fields, bit fields that cannot be reached.
#[macro_export]
macro_rules! record {
    (
        $type:ident,
        [$(($field:literal, [$($path:tt)*], $field_type:ty)),* $(,)?],
        [$(($bit:literal, [$($word:tt)*], $word_type:ty, $with:ident, $all:expr)),* $(,)?],
        [$(($reserved:literal, [$($place:tt)*], $place_type:ty, $first:literal, $count:literal)),* $(,)?]
    ) => {
        $crate::Record {
            name: stringify!($type),
            size: ::core::mem::size_of::<$type>(),
            align: ::core::mem::align_of::<$type>(),
            fields: &[$($crate::Field {
                name: $field,
                offset: $crate::offset!($type, $($path)*),
                size: ::core::mem::size_of::<$field_type>(),
            }),*],
            bits: &[
                $($crate::BitRange {
                    name: $bit,
                    offset: $crate::offset!($type, $($word)*),
                    size: ::core::mem::size_of::<$word_type>(),
                    mask: <$word_type>::new().$with($all).into_bits() as u64,
                },)*
                $($crate::BitRange {
                    name: $reserved,
                    offset: $crate::offset!($type, $($place)*),
                    size: ::core::mem::size_of::<$place_type>(),
                    mask: (((1u128 << $count) - 1) << $first) as u64,
                },)*
            ],
        }
    };
}

/// Everything the compiler knows about an open enumeration.
#[macro_export]
macro_rules! open {
    ($type:ident, [$($value:ident),*]) => {
        $crate::Enumeration {
            name: stringify!($type),
            size: ::core::mem::size_of::<$type>(),
            align: ::core::mem::align_of::<$type>(),
            values: &[$((stringify!($value), $type::$value.0 as i64)),*],
        }
    };
}
