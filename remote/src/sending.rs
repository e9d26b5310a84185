// UNSAFETY: thunks take any arguments.
//! Tables of thunks whose functions send a message to the machine.

use core::ffi::c_void;

use wddm_ddi::for_each_thunk;
use wddm_ddi::kmt::*;
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::*;

use crate::client;
use crate::thunks::{Argument, Number};

/// A table of thunks.
trait Table {
    /// Functions that send a message.
    const SENDING: Self;
}

macro_rules! tables_that_send {
    ($(
        $(#[doc = $about:literal])*
        $table:ident { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
    )*) => {
        $(
            impl Table for $table {
                const SENDING: Self = Self { $($($name: {
                    #[allow(non_snake_case)]
                    unsafe extern "win64" fn $name($($argument: $ty),+) -> NTSTATUS {
                        client::call(Number::$name as u32, &[$($argument.to_word()),+])
                    }
                    $name
                },)*)* };
            }
        )*
    };
}

for_each_thunk!(tables_that_send);

static THUNKS: Thunks = <Thunks as Table>::SENDING;
static FURTHER_THUNKS: FurtherThunks = <FurtherThunks as Table>::SENDING;

/// The thunks of the machine that this program is [connected](client::connect) to; STATUS_DEVICE_REMOVED if it is to none.
pub fn thunks() -> &'static Thunks {
    &THUNKS
}

/// Those that the user-mode driver has no use for; as [`thunks`].
pub fn further_thunks() -> &'static FurtherThunks {
    &FURTHER_THUNKS
}
