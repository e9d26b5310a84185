// UNSAFETY: pages of this process that are mapped for being bad, and copies into good ones.
//! Memory of user mode, good and bad.

use std::ptr::without_provenance_mut;

use crate::Failure;

const PAGE: usize = campanile_hw::queue::SYSTEM_PAGE_SIZE as usize;
/// Pages that blocks are taken from.
const ROOM: usize = 48;

/// Kind of a pointer that user mode should not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    Null,
    /// An address at which no process here has memory.
    Wild,
    /// No address at all on this processor.
    NonCanonical,
    /// An address of the half in which Windows keeps its kernel.
    Kernel,
    /// The last bytes before address 0.
    Wrapping,
    /// A page that was given back, with nobody else's memory in its place.
    Freed,
    /// The last byte of a page, with a freed one behind it.
    Crossing,
    /// A page that can be read.
    ReadOnly,
    /// Good memory at an odd address.
    Unaligned,
}

impl Bad {
    pub(super) const ALL: [Self; 9] = [
        Self::Null,
        Self::Wild,
        Self::NonCanonical,
        Self::Kernel,
        Self::Wrapping,
        Self::Freed,
        Self::Crossing,
        Self::ReadOnly,
        Self::Unaligned,
    ];

    /// True if nothing can be read there, or not all of it.
    pub(super) fn is_unreadable(self) -> bool {
        !matches!(self, Self::Null | Self::ReadOnly | Self::Unaligned)
    }
}

/// Pages of the calling process, unmapped at the end: space for blocks, then a read-only page, then one that is freed.
pub(super) struct Pages {
    start: usize,
    used: usize,
}

impl Pages {
    pub(super) fn new() -> Result<Self, Failure> {
        let (open, anonymous) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping touches no existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), (ROOM + 2) * PAGE, open, anonymous, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        let pages = Self { start: start.expose_provenance(), used: 0 };
        for (page, protection) in [(ROOM, libc::PROT_READ), (ROOM + 1, libc::PROT_NONE)] {
            // SAFETY: a page of the mapping that was just made, to which nothing refers yet.
            if unsafe { libc::mprotect(without_provenance_mut(pages.start + page * PAGE), PAGE, protection) } != 0 {
                return Err(std::io::Error::last_os_error().into());
            }
        }
        Ok(pages)
    }

    /// Forgets all blocks.
    pub(super) fn clear(&mut self) {
        self.used = 0;
        let start = std::ptr::with_exposed_provenance_mut::<u8>(self.start);
        // SAFETY: the pages of the blocks can be written, and no reference to them exists.
        unsafe { start.write_bytes(0, ROOM * PAGE) };
    }

    /// A new block of zeros, aligned to 16 bytes.
    pub(super) fn block(&mut self, size: usize) -> Result<usize, Failure> {
        let at = self.used;
        self.used += size.next_multiple_of(16);
        ensure!(self.used <= (ROOM - 1) * PAGE, "the case's pages are full");
        Ok(self.start + at)
    }

    /// Writes bytes at an address of the blocks.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at >= self.start && at + bytes.len() <= self.start + ROOM * PAGE, "the case writes outside its pages");
        let target = std::ptr::with_exposed_provenance_mut::<u8>(at);
        // SAFETY: the range was just checked to lie in pages that can be written.
        unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// The word at an address of the blocks.
    pub(super) fn word(&self, at: usize) -> usize {
        assert!(at >= self.start && at + 8 <= self.start + ROOM * PAGE, "the case reads outside its pages");
        // SAFETY: the range was just checked to lie in pages that can be read.
        unsafe { std::ptr::with_exposed_provenance::<usize>(at).read_unaligned() }
    }

    /// A bad pointer instead of the good one.
    pub(super) fn spoil(&self, good: usize, bad: Bad) -> usize {
        let read_only = self.start + ROOM * PAGE;
        match bad {
            Bad::Null => 0,
            Bad::Wild => 0x7fff_ffff_f120,
            Bad::NonCanonical => 0x8000_0000_0000_1000,
            Bad::Kernel => 0xffff_8000_0000_1000,
            Bad::Wrapping => usize::MAX - 2,
            Bad::Freed => read_only + PAGE,
            Bad::Crossing => read_only + PAGE - 1,
            Bad::ReadOnly => read_only,
            Bad::Unaligned => good.wrapping_add(1),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it.
        unsafe { libc::munmap(without_provenance_mut(self.start), (ROOM + 2) * PAGE) };
    }
}
