//! The operating system's own thunks: exports of `gdi32.dll` and `ntdll.dll`, behind the import table of the module that links this crate.

use core::ffi::c_void;

use wddm_ddi::{
    kmt::*,
    types::{D3DKMT_HANDLE, HANDLE, NTSTATUS},
};

use crate::thunks::Thunks;

macro_rules! imports {
    (
        $(#[doc = $about:literal])*
        Thunks { $( $module:literal { $( $(#[doc = $doc:literal])* $name:ident($($argument:ident: $ty:ty),+); )* } )* }
        $($others:tt)*
    ) => {
        $(
            #[link(name = $module, kind = "raw-dylib")]
            unsafe extern "win64" {
                $(fn $name($($argument: $ty),+) -> NTSTATUS;)*
            }
        )*

        static SYSTEM: Thunks = Thunks { $($($name),*),* };
    };
}

wddm_ddi::for_each_thunk!(imports);

/// The thunks of Windows, for [`Adapter::open`](crate::Adapter::open). [d3dkmthk: D3DKMT functions; winternl: NtClose]
pub fn system_thunks() -> &'static Thunks {
    &SYSTEM
}
