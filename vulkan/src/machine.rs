//! The operating system's thunks, through which the user-mode driver finds the adapter.

use campanile_umd::Thunks;

/// The thunks of Windows.
#[cfg(windows)]
pub(crate) fn thunks() -> &'static Thunks {
    campanile_umd::system_thunks()
}

/// The thunks of libcampanile_kmt.so, with a machine of this process or, by CAMPANILE_MACHINE, one that another process serves.
#[cfg(not(windows))]
pub(crate) fn thunks() -> &'static Thunks {
    campanile_kmt::table::thunks()
}
