//! Why a request is refused, for the log of the thunk that answers it.

use std::cell::Cell;

use wddm_ddi::types::NTSTATUS;

thread_local! {
    /// The last refusal of a request of this thread: its status, and field and rule in words.
    static LAST: Cell<Option<(NTSTATUS, String)>> = const { Cell::new(None) };
}

/// Notes for which field and rule a request of the calling thread is refused; the status is to be returned.
pub(crate) fn refused(status: NTSTATUS, why: impl Into<String>) -> NTSTATUS {
    LAST.set(Some((status, why.into())));
    status
}

/// Takes the last refusal of the calling thread.
pub(crate) fn take_reason() -> Option<(NTSTATUS, String)> {
    LAST.take()
}
