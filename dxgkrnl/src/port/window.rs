// UNSAFETY: reserves address space, and has it show files or nothing.
//! Mappings of a BAR that is plain memory: each is all of it or a part, between pages that cannot be accessed, and stays at its addresses without them when it is
//! ended, so that the instruction which runs over an end or comes too late faults.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use nt::bus::trap::FunctionMapping;
use nt::lock::{Innermost, Mutex, lock};
use nt::page::PAGE_SIZE;
use nt::ram::replace_shared;

/// Part of a BAR, in whole pages.
pub(super) struct Window {
    /// Address space with at least a page before and a page behind the window, which cannot be accessed.
    reserved: Range<usize>,
    /// Address of its first page.
    start: usize,
    /// Its pages, counted in the BAR.
    pages: Range<u64>,
    /// A function that sleeps does not answer there. `None` before it shows something, and when it has ended.
    function: Mutex<Option<FunctionMapping>, Innermost>,
}

impl Window {
    /// Address space for these pages of a BAR, none of which can be accessed yet. It begins at a multiple of `align`, which is at least a page.
    ///
    /// # Errors
    /// The host has none.
    pub(super) fn reserve(pages: Range<u64>, align: u64) -> io::Result<Self> {
        let reserved = (pages.end - pages.start + 1) * PAGE_SIZE + align;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), reserved as usize, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = base.expose_provenance();
        let start = (base + PAGE_SIZE as usize).next_multiple_of(align as usize);
        let window = Self { reserved: base..base + reserved as usize, start, pages, function: Mutex::new(None) };
        *lock(&window.function) = Some(FunctionMapping::new(window.start(), window.len())?);
        Ok(window)
    }

    /// Bytes of its pages.
    pub(super) fn len(&self) -> u64 {
        (self.pages.end - self.pages.start) * PAGE_SIZE
    }

    /// Address of its first page.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// Offset in the BAR of a byte at an address.
    pub(super) fn offset_of(&self, address: usize) -> Option<u64> {
        let offset = address.checked_sub(self.start())? as u64;
        (offset < self.len()).then(|| self.pages.start * PAGE_SIZE + offset)
    }

    /// Shows a file from `offset` on where these pages of the BAR, of which some may not be in the window, lie.
    ///
    /// # Errors
    /// The host refuses.
    pub(super) fn show(&self, pages: &Range<u64>, file: &File, offset: u64) -> io::Result<()> {
        let (first, end) = (pages.start.max(self.pages.start), pages.end.min(self.pages.end));
        if first >= end {
            return Ok(());
        }
        let at = self.start() + ((first - self.pages.start) * PAGE_SIZE) as usize;
        let at = NonNull::new(std::ptr::with_exposed_provenance_mut(at)).ok_or(io::ErrorKind::InvalidInput)?;
        let from = offset + (first - pages.start) * PAGE_SIZE;
        // SAFETY: the pages are reserved by this window, whose bytes are reached by raw pointers only.
        unsafe { replace_shared(at, (end - first) * PAGE_SIZE, file, from) }
    }

    /// From now on nothing can be accessed here.
    ///
    /// # Errors
    /// The host refuses: the addresses show what they did.
    pub(super) fn end(&self) -> io::Result<()> {
        let function = lock(&self.function).take();
        drop(function);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let at = std::ptr::with_exposed_provenance_mut(self.start());
        // SAFETY: the addresses belong to this window, which nobody uses any more.
        let ended = unsafe { libc::mmap(at, self.len() as usize, libc::PROT_NONE, flags, -1, 0) };
        if ended == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // The last who has it may hold the lock of its view, which is as far inside as that of this one.
        drop(self.function.get_mut().take());
        let Range { start, end } = self.reserved;
        // SAFETY: the mapping was made with this address and size, and nobody uses it any more.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(start), end - start) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_aligned_and_has_a_page_before_and_a_page_behind_it() {
        for align in [PAGE_SIZE, 2 << 20] {
            let window = Window::reserve(0..3, align).expect("address space");
            let (start, end) = (window.start(), window.start() + window.len() as usize);
            assert!(start.is_multiple_of(align as usize) && window.len() == 3 * PAGE_SIZE);
            assert!(window.reserved.start + PAGE_SIZE as usize <= start, "{align:#x}");
            assert!(end + PAGE_SIZE as usize <= window.reserved.end, "{align:#x}");
        }
    }

    #[test]
    fn a_window_that_the_host_does_not_end_says_why() {
        assert!(Window::reserve(3..5, PAGE_SIZE).expect("address space").end().is_ok());
        // The host refuses a mapping of no bytes.
        let error = Window::reserve(3..3, PAGE_SIZE).expect("address space").end().expect_err("the host refuses");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
