//! The thunks as a table with the calling convention of Windows, as the C API of the user-mode driver asks for.

use core::ffi::c_void;

use wddm_ddi::for_each_thunk;
use wddm_ddi::kmt::*;
use wddm_ddi::types::*;

use crate::{Table, machine};

macro_rules! tables {
    ($(
        $(#[doc = $about:literal])*
        $table:ident { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
    )*) => { $(
        impl Exported for $table {
            const TABLE: Self = Self {
                $($( $name: {
                    unsafe extern "win64" fn thunk($($argument: $ty),+) -> NTSTATUS {
                        machine::call(stringify!($name), || {
                            // SAFETY: thunks take any arguments.
                            unsafe { (<$table as Table>::table().$name)($($argument),+) }
                        })
                    }
                    thunk
                }, )*)*
            };
        }
    )* };
}

trait Exported {
    /// The thunks, each of which finds the machine of the process.
    const TABLE: Self;
}

for_each_thunk!(tables);

/// The table: for what is written against the thunks and lies in one library with them.
pub fn thunks() -> &'static Thunks {
    static TABLE: Thunks = Thunks::TABLE;
    &TABLE
}

/// The table of thunks for `campanile_adapter_open` of `campanile.h`, whose functions this library has, too. Valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn campanile_kmt_thunks() -> *const Thunks {
    thunks()
}
