// UNSAFETY: thunks take any arguments.
//! The thunks by number, made from the one list of them, and how the machine's end calls one.

use core::ffi::c_void;

use wddm_ddi::for_each_thunk;
use wddm_ddi::kmt::*;
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::*;

use crate::declared::{hashed, with_types};
use crate::wire::ARGUMENTS;

/// An argument of a thunk, which is one word.
pub(crate) trait Argument: Copy {
    /// Bytes of what it points at, or of the argument itself.
    const SIZE: u64;
    /// Bits of the argument.
    const BITS: u32 = 64;
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Self;
}

impl<T> Argument for *mut T {
    const SIZE: u64 = size_of::<T>() as u64;

    fn to_word(self) -> u64 {
        self.expose_provenance() as u64
    }

    fn from_word(word: u64) -> Self {
        std::ptr::without_provenance_mut(word as usize)
    }
}

impl<T> Argument for *const T {
    const SIZE: u64 = size_of::<T>() as u64;

    fn to_word(self) -> u64 {
        self.expose_provenance() as u64
    }

    fn from_word(word: u64) -> Self {
        std::ptr::without_provenance(word as usize)
    }
}

impl Argument for u32 {
    const SIZE: u64 = 4;
    const BITS: u32 = 32;

    fn to_word(self) -> u64 {
        self.into()
    }

    fn from_word(word: u64) -> Self {
        word as Self
    }
}

impl Argument for D3DKMT_SCHEDULINGPRIORITYCLASS {
    const SIZE: u64 = 4;
    const BITS: u32 = 32;

    fn to_word(self) -> u64 {
        self.0.cast_unsigned().into()
    }

    fn from_word(word: u64) -> Self {
        Self((word as u32).cast_signed())
    }
}

/// The functions that a machine calls.
pub struct Tables {
    pub thunks: &'static Thunks,
    pub further: &'static FurtherThunks,
}

/// A table of thunks.
trait Table: Sized + 'static {
    fn of(tables: &Tables) -> &'static Self;
}

macro_rules! thunks_by_number {
    ($(
        $(#[doc = $about:literal])*
        $table:ident { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
    )*) => {
        /// Numbers of the thunks in a message.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u32)]
        pub(crate) enum Number { $($($($name,)*)*)* }

        /// Names by number.
        pub const NAMES: &[&str] = &[$($($(stringify!($name),)*)*)*];

        /// A hash of the names of all thunks, of the sizes of their arguments, and of the layout of all types that they have to do with.
        pub const DECLARATIONS: u64 = {
            let mut hash = 0xcbf2_9ce4_8422_2325;
            $($($(
                hash = hashed(hash, stringify!($name).as_bytes());
                $( hash = hashed(hash, &<$ty as Argument>::SIZE.to_le_bytes()); )+
            )*)*)*
            with_types(hash)
        };

        /// Bits of each argument, by number of the thunk.
        const BITS: &[&[u32]] = &[$($($(&[$(<$ty as Argument>::BITS),+],)*)*)*];

        /// Calls a thunk on the calling thread; `None` for a number that is none.
        pub fn call(tables: &Tables, thunk: u32, arguments: &[u64; ARGUMENTS]) -> Option<NTSTATUS> {
            let mut arguments = arguments.iter().copied();
            $($($(
                if thunk == Number::$name as u32 {
                    let function = <$table as Table>::of(tables).$name;
                    $( let $argument = <$ty>::from_word(arguments.next()?); )+
                    // SAFETY: thunks take any arguments.
                    return Some(unsafe { function($($argument),+) });
                }
            )*)*)*
            None
        }

        $(
            impl Table for $table {
                fn of(tables: &Tables) -> &'static Self {
                    tables.find()
                }
            }
        )*
    };
}

for_each_thunk!(thunks_by_number);

/// True if these are arguments of a thunk: there is one of this number, each argument has no more bits than it may have, and words that it does not take are 0.
pub fn are_arguments(thunk: u32, words: &[u64; ARGUMENTS]) -> bool {
    let Some(bits) = BITS.get(thunk as usize) else { return false };
    let has_bits = bits.iter().copied().chain(std::iter::repeat(0));
    words.iter().zip(has_bits).all(|(word, bits)| word.checked_shr(bits).unwrap_or(0) == 0)
}

/// A table among [`Tables`].
trait Find<T: 'static> {
    fn find(&self) -> &'static T;
}

impl Find<Thunks> for Tables {
    fn find(&self) -> &'static Thunks {
        self.thunks
    }
}

impl Find<FurtherThunks> for Tables {
    fn find(&self) -> &'static FurtherThunks {
        self.further
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_of_names() {
        assert_eq!(NAMES.len(), Thunks::NAMES.len() + FurtherThunks::NAMES.len());
        assert_eq!(NAMES.get(Number::D3DKMTEnumAdapters3 as usize), Some(&"D3DKMTEnumAdapters3"));
        assert_eq!(NAMES.last(), FurtherThunks::NAMES.last());
    }

    #[test]
    fn words_are_arguments_if_they_fit_and_nothing_stands_behind_them() {
        let number = |name| NAMES.iter().position(|known| *known == name).expect("a thunk") as u32;
        let enumerate = number("D3DKMTEnumAdapters3");
        assert!(are_arguments(enumerate, &[u64::MAX, 0, 0, 0, 0]));
        assert!(!are_arguments(enumerate, &[0, 1, 0, 0, 0]) && !are_arguments(enumerate, &[0, 0, 0, 0, 1]));
        assert!(!are_arguments(NAMES.len() as u32, &[0; ARGUMENTS]));
        let class = number("D3DKMTSetProcessSchedulingPriorityClass");
        assert!(are_arguments(class, &[u64::MAX, u32::MAX.into(), 0, 0, 0]));
        assert!(!are_arguments(class, &[0, 1 << 32, 0, 0, 0]));
    }

    #[test]
    fn arguments_survive_the_way() {
        assert_eq!(u32::from_word(7u32.to_word()), 7);
        let class = D3DKMT_SCHEDULINGPRIORITYCLASS(-1);
        assert_eq!(D3DKMT_SCHEDULINGPRIORITYCLASS::from_word(class.to_word()), class);
        let word = 5u64;
        assert_eq!(<*const u64>::from_word((&raw const word).to_word()).addr(), (&raw const word).addr());
        assert_eq!(<*mut D3DKMT_LOCK2 as Argument>::SIZE, size_of::<D3DKMT_LOCK2>() as u64);
    }
}
