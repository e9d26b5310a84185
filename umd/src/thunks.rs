//! The table of D3DKMT functions, and the macros by which everything calls them.

pub use wddm_ddi::kmt::Thunks;

use core::ptr::NonNull;

/// Calls a thunk of one argument and returns its status.
///
/// Every use passes a structure of its own whose pointers are null or outlive the call with the counts written beside them; or any
/// number where the thunk takes a kernel handle.
macro_rules! call {
    ($thunks:expr, $name:ident, $args:expr) => {{
        let args: *mut _ = $args;
        // SAFETY: these functions of the table take one valid argument structure or any handle, as `args` is by the rule above.
        unsafe { ($thunks.$name)(args) }
    }};
}

/// Calls a thunk; a failed status becomes an error with the thunk's name.
macro_rules! invoke {
    ($thunks:expr, $name:ident, $args:expr) => {{
        let status = crate::thunks::call!($thunks, $name, $args);
        status.ok().map_err(|status| crate::error::Error::from_status(status, stringify!($name)))
    }};
}

/// As [`invoke`], for thunks that may finish later; says whether this one will.
macro_rules! invoke_pending {
    ($thunks:expr, $name:ident, $args:expr) => {{
        let status = crate::thunks::call!($thunks, $name, $args);
        match status.ok() {
            Ok(()) => Ok(status == wddm_ddi::status::STATUS_PENDING),
            Err(status) => Err(crate::error::Error::from_status(status, stringify!($name))),
        }
    }};
}

pub(crate) use {call, invoke, invoke_pending};

/// Takes a table from C, where any slot may be null; `None` if a slot is, or the pointer is null or misaligned.
///
/// # Safety
/// A `table` that is neither null nor misaligned points to `size_of::<Thunks>()` readable bytes that never change, and each
/// slot that is not null is a function of the type declared in [`Thunks`].
pub(crate) unsafe fn from_c(table: *const Thunks) -> Option<&'static Thunks> {
    let table = NonNull::new(table.cast_mut())?;
    if !table.is_aligned() {
        return None;
    }
    let slots = table.cast::<[usize; Thunks::NAMES.len()]>();
    // SAFETY: the caller vouches for the bytes, and a table is exactly this many pointers.
    let slots = unsafe { slots.as_ref() };
    if slots.contains(&0) {
        return None;
    }
    // SAFETY: no slot is null, so the bytes are a valid table.
    Some(unsafe { table.as_ref() })
}

const _: () = assert!(size_of::<Thunks>() == size_of::<[usize; Thunks::NAMES.len()]>());
