// UNSAFETY: reserves address space, and has it show files or nothing.
//! Further mappings of a BAR that is plain memory: each is part of it, between pages that cannot be accessed, and stays at its addresses without them when it is
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
    /// The page before it, which cannot be accessed.
    base: usize,
    /// Its pages, counted in the BAR.
    pages: Range<u64>,
    /// A function that sleeps does not answer there. `None` before it shows something, and when it has ended.
    function: Mutex<Option<FunctionMapping>, Innermost>,
}

impl Window {
    /// Address space for these pages of a BAR, none of which can be accessed yet.
    ///
    /// # Errors
    /// The host has none.
    pub(super) fn reserve(pages: Range<u64>) -> io::Result<Self> {
        let reserved = (pages.end - pages.start + 2) * PAGE_SIZE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), reserved as usize, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let window = Self { base: base.expose_provenance(), pages, function: Mutex::new(None) };
        *lock(&window.function) = Some(FunctionMapping::new(window.start(), window.len())?);
        Ok(window)
    }

    /// Bytes of its pages.
    pub(super) fn len(&self) -> u64 {
        (self.pages.end - self.pages.start) * PAGE_SIZE
    }

    /// Address of its first page.
    pub(super) fn start(&self) -> usize {
        self.base + PAGE_SIZE as usize
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
    pub(super) fn end(&self) {
        let function = lock(&self.function).take();
        drop(function);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let at = std::ptr::with_exposed_provenance_mut(self.start());
        // SAFETY: the addresses belong to this window, which nobody uses any more. Where the host refuses, they show what they did.
        unsafe { libc::mmap(at, self.len() as usize, libc::PROT_NONE, flags, -1, 0) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // The last who has it may hold the lock of its view, which is as far inside as that of this one.
        drop(self.function.get_mut().take());
        let reserved = (self.len() + 2 * PAGE_SIZE) as usize;
        // SAFETY: the mapping was made with this address and size, and nobody uses it any more.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.base), reserved) };
    }
}
