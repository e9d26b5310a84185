// UNSAFETY: reserves address space and gives access to its pages.
//! Special pool: every block on pages of its own, between pages that cannot be accessed.
//!
//! Freed pages cannot be accessed either, and their addresses are used again only when the reserved address space or the record of freed
//! blocks is full, oldest first. So the instruction that runs over an end of a block or touches it after it was freed faults.
//! [debugger: special pool]

use std::collections::{BTreeMap, VecDeque};

use super::{SLOP, SpecialPool, first_other};
use crate::page::PAGE;
use crate::range::RangeAllocator;

/// Address space of one pool.
const ARENA: usize = 1 << 34;
/// Freed blocks that are remembered.
const FREED_MAX: usize = 1 << 16;
/// Alignment of blocks below a page.
const ALIGN: usize = 16;

/// Pages of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// First page.
    pub(super) start: usize,
    /// Bytes of pages, without those that cannot be accessed.
    pub(super) len: usize,
}

impl Span {
    pub(super) fn end(self) -> usize {
        self.start + self.len
    }
}

/// Address space for blocks, and the freed ones.
pub(super) struct Arena {
    mode: SpecialPool,
    base: usize,
    space: RangeAllocator,
    freed: BTreeMap<usize, (Span, u32)>,
    oldest: VecDeque<usize>,
}

impl Arena {
    /// `None` without address space.
    pub(super) fn new(mode: SpecialPool) -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), ARENA, libc::PROT_NONE, flags, -1, 0) };
        (base != libc::MAP_FAILED).then(|| Self {
            mode,
            base: base.expose_provenance(),
            // The first page stays as it is.
            space: RangeAllocator::new(PAGE as u64, ARENA as u64),
            freed: BTreeMap::new(),
            oldest: VecDeque::new(),
        })
    }

    /// True if an address belongs to the pool.
    pub(super) fn contains(&self, address: usize) -> bool {
        address.checked_sub(self.base).is_some_and(|offset| offset < ARENA)
    }

    /// Pages for a block and its address. All bytes of the block are zero. `None` when address space or mappings are used up.
    pub(super) fn allocate(&mut self, size: usize) -> Option<(Span, usize)> {
        let len = size.checked_next_multiple_of(PAGE)?;
        let reserved = (len as u64).checked_add(PAGE as u64)?;
        let offset = loop {
            if let Some(offset) = self.space.allocate(reserved, PAGE as u64) {
                break offset;
            }
            self.forget_oldest()?;
        };
        let span = Span { start: self.base + offset as usize, len };
        let pages = std::ptr::with_exposed_provenance_mut(span.start);
        // SAFETY: the pages lie in this reservation and belong to no other block.
        if unsafe { libc::mprotect(pages, len, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            self.space.release(offset, reserved);
            return None;
        }
        let align = if size >= PAGE { PAGE } else { ALIGN };
        let address = match self.mode {
            SpecialPool::VerifyStart => span.start,
            _ => (span.end() - size) & !(align - 1),
        };
        for (from, to) in [(span.start, address), (address + size, span.end())] {
            let slop = std::ptr::with_exposed_provenance_mut::<u8>(from);
            // SAFETY: the range lies in the pages just made accessible.
            unsafe { slop.write_bytes(SLOP, to - from) };
        }
        Some((span, address))
    }

    /// The first byte of the block's pages, beside the block, that was written. [debugger: 0xc1]
    pub(super) fn corrupted(span: Span, address: usize, size: usize) -> Option<usize> {
        [(span.start, address), (address + size, span.end())].into_iter().find_map(|(from, to)| {
            let slop = std::ptr::with_exposed_provenance::<u8>(from);
            // SAFETY: the range lies in the pages of a live block and was written when it was handed out.
            let slop = unsafe { std::slice::from_raw_parts(slop, to - from) };
            first_other(slop, SLOP).map(|at| from + at)
        })
    }

    /// Takes a block's pages back.
    pub(super) fn free(&mut self, span: Span, tag: u32) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let pages = std::ptr::with_exposed_provenance_mut(span.start);
        // SAFETY: the pages lie in this reservation, and their block is no more. A failure leaves them accessible, which is no worse than
        // pool of the ordinary kind.
        unsafe { libc::mmap(pages, span.len, libc::PROT_NONE, flags, -1, 0) };
        self.freed.insert(span.start, (span, tag));
        self.oldest.push_back(span.start);
        if self.oldest.len() > FREED_MAX {
            let _ = self.forget_oldest();
        }
    }

    /// Lets the addresses of the block that was freed first be used again; `None` if there is none.
    fn forget_oldest(&mut self) -> Option<()> {
        let start = self.oldest.pop_front()?;
        let (span, _) = self.freed.remove(&start)?;
        self.space.release((span.start - self.base) as u64, (span.len + PAGE) as u64);
        Some(())
    }

    /// The freed block on whose pages an address lies, and its tag.
    pub(super) fn freed_at(&self, address: usize) -> Option<(Span, u32)> {
        let (_, (span, tag)) = self.freed.range(..=address).next_back()?;
        (address < span.end()).then_some((*span, *tag))
    }
}

impl Arena {
    /// Gives the address space back.
    ///
    /// # Safety
    /// No pointer to a block is used any more.
    pub(super) unsafe fn unmap(self) {
        // SAFETY: the mapping was made with this address and size.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.base), ARENA) };
    }
}
