//! The translations that compiled programs use without asking the TLB.
//!
//! UNSAFETY: addresses of the host are kept longer than the lock of memory under which they were found. They are used under that lock only, and only while nothing has changed that it guards.

use crate::memory::Access;
use crate::mmu::Tlb;
use campanile_hw::page_table::PAGE_4K;
use campanile_hw::queue::Location;
use campanile_jit::Pages;
use std::ptr::NonNull;

/// Pages of one process, and of when they are.
#[derive(Debug, Default)]
pub(crate) struct Translations {
    pages: Pages,
    root: Location,
    /// Generation of the TLB.
    generation: u64,
    /// Shape of memory.
    shape: u64,
}

impl Translations {
    /// Forgets what was known before an invalidation of the TLB or a change of memory, and what another process has. Called at the start of every slice, under the lock of the node: an
    /// invalidation takes that lock too, so that it is acknowledged only when no program uses a page that it is about.
    pub(crate) fn renew(&mut self, tlb: &Tlb, memory: &Access<'_>, root: Location) {
        let now = (root, tlb.generation, memory.shape());
        if (self.root, self.generation, self.shape) != now {
            self.pages.clear();
            (self.root, self.generation, self.shape) = now;
        }
    }

    /// Adds the page of an address that was translated to this location in this slice, for writing too if `write` is set.
    pub(crate) fn insert(&mut self, va: u64, location: Location, memory: &Access<'_>, write: bool) {
        // No page is smaller, so that the difference changes bits of the address only.
        let start = Location::from_bits(location.into_bits() - va % PAGE_4K);
        let span = memory.resolve(start, PAGE_4K, write);
        let Some(words) = span.and_then(|span| span.words(0, PAGE_4K as usize / 8)) else { return };
        let place = NonNull::from(words).cast();
        // SAFETY: the span has all of the page, and may be written if that is promised; its bytes are accessed by atomics and raw copies only, and stay while memory keeps its shape,
        // after which `renew` forgets them before a program runs.
        unsafe { self.pages.insert(va, place, write) };
    }

    /// The pages.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }
}
