//! Single values of 8 to 64 bits, as programs load, store and change them.
//!
//! UNSAFETY: values are accessed atomically where they lie, after bounds and alignment were checked.

use super::Span;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Accesses of one width.
macro_rules! width {
    ($load:ident, $store:ident, $atomic:ident, $value:ident) => {
        fn $load(span: Span<'_>) -> Option<u64> {
            let place = span.at::<$atomic>(0)?;
            // SAFETY: `at` checked bounds and alignment, and an atomic may change at any time.
            let place = unsafe { place.as_ref() };
            Some($value::from_le(place.load(Ordering::Relaxed)).into())
        }

        fn $store(span: Span<'_>, value: u64) -> Option<()> {
            let place = span.at::<$atomic>(0).filter(|_| span.writable())?;
            // SAFETY: `at` checked bounds and alignment, and an atomic may change at any time.
            let place = unsafe { place.as_ref() };
            place.store((value as $value).to_le(), Ordering::Relaxed);
            Some(())
        }
    };
}

width!(load8, store8, AtomicU8, u8);
width!(load16, store16, AtomicU16, u16);
width!(load32, store32, AtomicU32, u32);
width!(load64, store64, AtomicU64, u64);

impl Span<'_> {
    /// The value of `size` bytes at the start, read once; `None` if it does not lie there, or for another size than 1, 2, 4 and 8.
    pub(crate) fn load_value(self, size: usize) -> Option<u64> {
        match size {
            1 => load8(self),
            2 => load16(self),
            4 => load32(self),
            8 => load64(self),
            _ => None,
        }
    }

    /// Stores a value of `size` bytes at the start once, as [`Span::load_value`].
    pub(crate) fn store_value(self, size: usize, value: u64) -> Option<()> {
        match size {
            1 => store8(self, value),
            2 => store16(self, value),
            4 => store32(self, value),
            8 => store64(self, value),
            _ => None,
        }
    }

    /// Changes the value of 4 or 8 bytes at the start in one step, sequentially consistent, and returns what it was.
    pub(crate) fn change_value(self, size: usize, update: &mut dyn FnMut(u64) -> Option<u64>) -> Option<u64> {
        const ORDER: Ordering = Ordering::SeqCst;
        if !self.writable() {
            return None;
        }
        let old = match size {
            4 => {
                let place = self.at::<AtomicU32>(0)?;
                // SAFETY: `at` checked bounds and alignment, and an atomic may change at any time.
                let place = unsafe { place.as_ref() };
                let change = |old: u32| update(u32::from_le(old).into()).map(|new| (new as u32).to_le());
                let old = place.fetch_update(ORDER, ORDER, change).unwrap_or_else(|old| old);
                u32::from_le(old).into()
            }
            8 => {
                let place = self.at::<AtomicU64>(0)?;
                // SAFETY: `at` checked bounds and alignment, and an atomic may change at any time.
                let place = unsafe { place.as_ref() };
                let change = |old: u64| update(u64::from_le(old)).map(u64::to_le);
                u64::from_le(place.fetch_update(ORDER, ORDER, change).unwrap_or_else(|old| old))
            }
            _ => return None,
        };
        Some(old)
    }
}
