//! All-zero initial values of interface structures.

/// Types for which the all-zero byte pattern is a valid initial value.
///
/// Deliberately not `Default`: zero is where filling in starts, not a meaningful value.
///
/// # Safety
/// Every field must accept the all-zero pattern: integers, raw pointers, `Option` of function pointers, and
/// structures, unions and arrays of such.
pub unsafe trait Zeroed: Sized {
    /// A value whose bytes are all zero.
    fn zeroed() -> Self {
        // SAFETY: implementors accept the all-zero pattern.
        unsafe { core::mem::zeroed() }
    }
}

// SAFETY: zero is a number.
unsafe impl Zeroed for u32 {}

/// Declares structures of this crate as [`Zeroed`].
macro_rules! zeroed {
    ($($name:ty),* $(,)?) => {
        $(
            // SAFETY: interface structures hold integers, raw pointers, optional function pointers and nested structures of
            // the same kind only; none has a niche that excludes zero.
            unsafe impl $crate::Zeroed for $name {}
        )*
    };
}
