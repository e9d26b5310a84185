//! Non-temporal stores, for transfers that are larger than the caches.
//!
//! UNSAFETY: as of the module around: raw stores into mappings, within spans.

use super::{LINE, Span};
use std::arch::asm;
use std::arch::x86_64::_mm_sfence;

impl Span<'_> {
    /// As [`Span::copy_from`], past the caches: for bytes that would be displaced from the caches before they are read. Ordered with what
    /// follows by [`streamed`] only.
    pub(crate) fn stream_from(self, source: Span<'_>, len: u64) -> u64 {
        if !self.writable() {
            return 0;
        }
        let len = len.min(self.len()).min(source.len());
        let head = (self.base.as_ptr().align_offset(LINE) as u64).min(len);
        let lines = (len - head) / LINE as u64;
        let tail = head + lines * LINE as u64;
        let both = |offset| self.after(offset).zip(source.after(offset));
        self.copy_from(source, head);
        if let Some((to, from)) = both(head).filter(|_| lines != 0) {
            // SAFETY: both ranges lie inside live mappings and hold `lines` lines, not 0; the destination may be written and is
            // aligned to a line; racing writers make the bytes arbitrary, nothing else.
            unsafe { stream_lines(to.base.as_ptr(), from.base.as_ptr(), lines as usize) };
        }
        if let Some((to, from)) = both(tail) {
            to.copy_from(from, len - tail);
        }
        len
    }

    /// As [`Span::fill`], past the caches, and ordered as [`Span::stream_from`] is.
    pub(crate) fn stream_fill(self, pattern: u32, len: u64) -> u64 {
        if !self.writable() {
            return 0;
        }
        let len = len.min(self.len()) & !3;
        let head = (self.base.as_ptr().align_offset(LINE) as u64).min(len);
        let lines = (len - head) / LINE as u64;
        let tail = head + lines * LINE as u64;
        let Some(body) = self.after(head).filter(|_| lines != 0 && head.is_multiple_of(4)) else {
            return self.fill(pattern, len);
        };
        self.fill(pattern, head);
        // SAFETY: the range lies inside a live mapping that may be written, holds `lines` lines, not 0, and starts with one.
        unsafe { stream_pattern(body.base.as_ptr(), pattern.to_le(), lines as usize) };
        if let Some(rest) = self.after(tail) {
            rest.fill(pattern, len - tail);
        }
        len
    }
}

/// Copies lines by stores that pass by the caches.
///
/// # Safety
/// `lines`, not 0, of them can be read at `from` and written at `to`, which is aligned to [`LINE`].
unsafe fn stream_lines(to: *mut u8, from: *const u8, lines: usize) {
    // SAFETY: by the caller's word the accesses stay inside the two ranges, and the stores are aligned.
    unsafe {
        asm!(
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movntps [{to}], {a}",
            "movntps [{to} + 16], {b}",
            "movntps [{to} + 32], {c}",
            "movntps [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "dec {lines}",
            "jnz 2b",
            to = inout(reg) to => _,
            from = inout(reg) from => _,
            lines = inout(reg) lines => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// Fills lines with a word by stores that pass by the caches.
///
/// # Safety
/// `lines`, not 0, of them can be written at `to`, which is aligned to [`LINE`].
unsafe fn stream_pattern(to: *mut u8, word: u32, lines: usize) {
    // SAFETY: by the caller's word the stores stay inside the range and are aligned.
    unsafe {
        asm!(
            "movd {a}, {word:e}",
            "pshufd {a}, {a}, 0",
            "2:",
            "movntps [{to}], {a}",
            "movntps [{to} + 16], {a}",
            "movntps [{to} + 32], {a}",
            "movntps [{to} + 48], {a}",
            "add {to}, 64",
            "dec {lines}",
            "jnz 2b",
            word = in(reg) word,
            to = inout(reg) to => _,
            lines = inout(reg) lines => _,
            a = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// Orders everything that [`Span::stream_from`] and [`Span::stream_fill`] wrote before every later store.
pub(crate) fn streamed() {
    // SAFETY: part of SSE, which every x86-64 processor has; it only waits.
    unsafe { _mm_sfence() };
}
