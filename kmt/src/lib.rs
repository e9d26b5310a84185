//! `libcampanile_kmt.so`: the D3DKMT thunks under their real names, for programs in C.
//!
//! A program that is written against `d3dkmthk.h` is linked with this library and finds a machine with the simulated adapter. The
//! machine is booted by the first call, as the environment says (see [`machine`]), and lives until the process ends. All calls of the process, from
//! whatever thread, come from one process of that machine.
//!
//! Functions have the calling convention of the platform, and structures the layout that they have on Windows; `docs/programs-in-c.md` says
//! which types that takes in C.

pub mod display;
mod fork;
pub mod machine;
pub mod table;

// The C API of the user-mode driver, whose functions the library exports beside the thunks.
use campanile_umd as _;

use core::ffi::c_void;

use wddm_ddi::for_each_thunk;
use wddm_ddi::kmt::*;
use wddm_ddi::types::*;

/// A table of thunks that the operating-system side exports.
trait Table: 'static {
    fn table() -> &'static Self;
}

impl Table for Thunks {
    fn table() -> &'static Self {
        if machine::is_elsewhere() { remote::sending::thunks() } else { dxgkrnl::thunks() }
    }
}

impl Table for FurtherThunks {
    fn table() -> &'static Self {
        if machine::is_elsewhere() { remote::sending::further_thunks() } else { dxgkrnl::further_thunks() }
    }
}

macro_rules! exports {
    ($(
        $(#[doc = $about:literal])*
        $table:ident { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
    )*) => { $($($(
        $(#[doc = $doc])*
        ///
        /// # Safety
        /// Callable with any arguments: pointers are checked.
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $ty),+) -> NTSTATUS {
            machine::call(stringify!($name), || {
                // SAFETY: thunks take any arguments.
                unsafe { (<$table as Table>::table().$name)($($argument),+) }
            })
        }
    )*)*)* };
}

for_each_thunk!(exports);
