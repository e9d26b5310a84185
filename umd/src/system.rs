//! The operating system's own thunks: exports of `gdi32.dll` and `ntdll.dll`, looked up when they are first asked for. The loader of a Windows that lacks
//! some of them loads the module that links this crate all the same, and what needs none of those works.

use spin::Once;
use wddm_ddi::kmt::{NotFound, system_export};

use crate::thunks::Thunks;

/// The thunks of Windows, for [`Adapter::open`](crate::Adapter::open). A call that needs one that this Windows lacks fails with
/// [`Error::MissingThunk`](crate::Error::MissingThunk). [d3dkmthk: D3DKMT functions; winternl: NtClose]
pub fn system_thunks() -> &'static Thunks {
    static SYSTEM: Once<Thunks> = Once::new();
    SYSTEM.call_once(|| {
        // SAFETY: what Windows exports under these names has the types that its headers declare, which are those of the table, and stays.
        unsafe { Thunks::look_up::<NotFound>(system_export) }
    })
}
