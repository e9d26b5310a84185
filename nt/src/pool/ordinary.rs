// UNSAFETY: maps and unmaps pages, and looks at bytes beside blocks.
//! Memory of ordinary pool: mappings of its own, so that a driver that runs over the end of a block reaches other blocks of its pool, or a page that cannot be
//! accessed, and no data of this program.
//!
//! Blocks below a page lie in slots of a slab, larger ones on pages of their own; what describes them is elsewhere. Before the first and behind the last
//! page of each mapping is one that cannot be accessed. Around each block its slot is filled with a pattern.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{GUARD, GUARD_BYTE, first_other};
use crate::page::PAGE;

/// Bytes of the slots of a slab.
const SLAB: usize = 64 << 10;
/// The most bytes of free slots with pages of their own that stay mapped.
const KEPT: usize = 16 << 20;

/// Memory for one block, with what surrounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    start: usize,
    len: usize,
}

impl Slot {
    pub(super) fn start(self) -> usize {
        self.start
    }

    pub(super) fn end(self) -> usize {
        self.start + self.len
    }

    /// Bytes before a block, of which the first begins the slot.
    fn before(size: usize) -> usize {
        if size >= PAGE { PAGE } else { GUARD }
    }

    /// The ranges of the slot that its block leaves.
    fn guards(self, address: usize, size: usize) -> [(usize, usize); 2] {
        [(self.start, address), (address + size, self.end())]
    }

    /// Writes the pattern around a block.
    fn guard(self, address: usize, size: usize) {
        for (from, to) in self.guards(address, size) {
            let guard = std::ptr::with_exposed_provenance_mut::<u8>(from);
            // SAFETY: the range is part of a slot that belongs to nobody else.
            unsafe { guard.write_bytes(GUARD_BYTE, to - from) };
        }
    }

    /// The first byte around a block that was written.
    pub(super) fn corrupted(self, address: usize, size: usize) -> Option<usize> {
        self.guards(address, size).into_iter().find_map(|(from, to)| Self::written(from, to))
    }

    /// The first byte behind a block that was written.
    pub(super) fn overrun(self, address: usize, size: usize) -> Option<usize> {
        Self::written(address + size, self.end())
    }

    fn written(from: usize, to: usize) -> Option<usize> {
        let guard = std::ptr::with_exposed_provenance::<u8>(from);
        // SAFETY: the range is part of the slot of a block, and was written when the block was handed out.
        let guard = unsafe { std::slice::from_raw_parts(guard, to - from) };
        first_other(guard, GUARD_BYTE).map(|at| from + at)
    }
}

/// All ordinary memory of a pool.
#[derive(Default)]
pub(super) struct Ordinary {
    /// Bytes that can be accessed by the first of them.
    mappings: BTreeMap<usize, usize>,
    /// First addresses of free slots by length.
    free: BTreeMap<usize, Vec<usize>>,
    /// Bytes of free slots with pages of their own.
    kept: usize,
}

impl Ordinary {
    /// A slot for a block, guarded, and the address of the block. `None` when the host has no memory.
    pub(super) fn allocate(&mut self, size: usize) -> Option<(Slot, usize)> {
        let before = Slot::before(size);
        let needed = size.checked_add(before + GUARD)?;
        let in_slab = before == GUARD;
        let len = if in_slab { slot_length(needed) } else { needed.checked_next_multiple_of(PAGE)? };
        let slot = match self.free.get_mut(&len).and_then(Vec::pop) {
            Some(start) => {
                self.kept -= if in_slab { 0 } else { len };
                Slot { start, len }
            }
            None if in_slab => self.cut_slab(len)?,
            None => Slot { start: self.map(len)?, len },
        };
        let address = slot.start + before;
        slot.guard(address, size);
        Some((slot, address))
    }

    /// Takes a slot back in which no block is any more.
    pub(super) fn release(&mut self, slot: Slot) {
        if self.mappings.get(&slot.start).is_some_and(|len| *len == slot.len) {
            if self.kept + slot.len > KEPT {
                self.mappings.remove(&slot.start);
                unmap(slot.start, slot.len);
                return;
            }
            self.kept += slot.len;
        }
        self.free.entry(slot.len).or_default().push(slot.start);
    }

    /// Maps slots of a length, and answers the first of them.
    fn cut_slab(&mut self, len: usize) -> Option<Slot> {
        let start = self.map(SLAB)?;
        // At the end, so that running over the end of the last one faults.
        let first = start + SLAB % len;
        // Those that are taken first lie first.
        let others = (1..SLAB / len).rev().map(|number| first + number * len);
        self.free.entry(len).or_default().extend(others);
        Some(Slot { start: first, len })
    }

    /// New pages between two that cannot be accessed.
    fn map(&mut self, len: usize) -> Option<usize> {
        let reserved = len.checked_add(2 * PAGE)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), reserved, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let start = base.expose_provenance() + PAGE;
        let pages = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the pages are part of the mapping just made.
        if unsafe { libc::mprotect(pages, len, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            unmap(start, len);
            return None;
        }
        self.mappings.insert(start, len);
        Some(start)
    }

    /// The pages that an address lies directly before or behind, and not in.
    pub(super) fn beside(&self, address: usize) -> Option<Range<usize>> {
        let (start, len) = self.mappings.range(..=address.saturating_add(PAGE)).next_back()?;
        let (start, end) = (*start, *start + *len);
        (address < start || (end..end + PAGE).contains(&address)).then_some(start..end)
    }

    /// Gives all pages back but those in which something is.
    pub(super) fn unmap_unused(&mut self, is_used: impl Fn(Range<usize>) -> bool) {
        for (start, len) in std::mem::take(&mut self.mappings) {
            if !is_used(start..start + len) {
                unmap(start, len);
            }
        }
    }
}

/// Length of the slots for so many bytes: in steps of an eighth of the next power of two, and 16 at least.
fn slot_length(needed: usize) -> usize {
    needed.next_multiple_of((needed.next_power_of_two() / 8).max(GUARD))
}

/// Gives pages back, with the two around them.
fn unmap(start: usize, len: usize) {
    let base = std::ptr::with_exposed_provenance_mut(start - PAGE);
    // SAFETY: the pages were mapped with the two around them, and no block is left in them.
    unsafe { libc::munmap(base, len + 2 * PAGE) };
}
