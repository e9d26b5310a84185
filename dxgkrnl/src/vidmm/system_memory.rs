//! Memory of the machine in pieces.

use std::sync::Arc;

use nt::page::PAGE_SIZE;
use nt::ram::{Owner, Pages};

/// Largest piece that system memory is first asked for.
const CHUNK_MAX: u64 = 64 << 20;

/// System memory is aligned to its size where that costs nothing, from and up to here, so that larger pages can map it.
const ALIGNED: (u64, u64) = (64 << 10, 2 << 20);

/// System memory behind an allocation: pages in one or more contiguous pieces.
pub(crate) struct SystemMemory {
    /// First page of each piece, in order, and the piece.
    chunks: Vec<(u64, Pages)>,
    pages: u64,
}

impl SystemMemory {
    /// Takes `pages` pages for an owner; their contents are undefined. `None` without memory.
    pub(crate) fn allocate(owner: &Arc<Owner>, pages: u64) -> Option<Self> {
        let mut memory = Self { chunks: Vec::new(), pages: 0 };
        let mut piece = (pages.checked_mul(PAGE_SIZE)?).min(CHUNK_MAX);
        while memory.pages < pages {
            let len = piece.min((pages - memory.pages) * PAGE_SIZE);
            // Where larger pages could map it, if there is such a place.
            let aligned = if len < ALIGNED.0 { None } else { owner.allocate(len, ALIGNED.1.min(1 << len.ilog2())) };
            match aligned.or_else(|| owner.allocate(len, PAGE_SIZE)) {
                Some(chunk) => {
                    memory.chunks.push((memory.pages, chunk));
                    memory.pages += len / PAGE_SIZE;
                }
                // Fragmented: smaller pieces may still fit.
                None if len > PAGE_SIZE => piece = (len / 2).next_multiple_of(PAGE_SIZE),
                None => return None,
            }
        }
        Some(memory)
    }

    /// Page frame number of page `page`, which exists.
    pub(crate) fn frame(&self, page: u64) -> u64 {
        self.run(page).0
    }

    /// Page frame number of page `page`, which exists, and how many contiguous pages start there.
    pub(crate) fn run(&self, page: u64) -> (u64, u64) {
        let place = self.chunks.partition_point(|(first, _)| *first <= page);
        let Some((first, chunk)) = place.checked_sub(1).and_then(|place| self.chunks.get(place)) else { return (0, 0) };
        let (frames, before) = (chunk.address() / PAGE_SIZE, page - first);
        (frames + before, (chunk.len() / PAGE_SIZE).saturating_sub(before))
    }

    /// The pieces: first page and physical pages.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (u64, &Pages)> {
        self.chunks.iter().map(|(first, pages)| (*first, pages))
    }

    /// Fills everything with zero.
    pub(crate) fn zero(&self) {
        for (_, chunk) in &self.chunks {
            chunk.zero();
        }
    }

    /// Number of pages.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }
}

#[cfg(test)]
mod tests {
    use nt::ram::Ram;

    use super::*;

    #[test]
    fn fragmented_memory_is_used_in_pieces_and_every_page_is_found() {
        let ram = Ram::new(1 << 20).unwrap();
        let owner = Owner::process(&ram).unwrap();
        let mut all = Vec::new();
        while let Some(page) = ram.allocate(PAGE_SIZE, PAGE_SIZE) {
            all.push(page);
        }
        let total = all.len() as u64;
        // Every other page is free: only single pages fit.
        let kept: Vec<Pages> =
            all.into_iter().enumerate().filter_map(|(i, page)| (i % 2 == 0).then_some(page)).collect();
        let memory = SystemMemory::allocate(&owner, total / 2).unwrap();
        assert_eq!(memory.pages(), total / 2);
        let mut frames: Vec<u64> = (0..memory.pages()).map(|page| memory.frame(page)).collect();
        frames.extend(kept.iter().map(|page| page.address() / PAGE_SIZE));
        frames.sort_unstable();
        frames.dedup();
        assert_eq!(frames.len() as u64, total / 2 + kept.len() as u64, "no page is used twice");
        assert!(SystemMemory::allocate(&owner, 2).is_none());
    }

    #[test]
    fn a_failed_request_gives_back_what_it_took() {
        let ram = Ram::new(1 << 20).unwrap();
        let owner = Owner::process(&ram).unwrap();
        assert!(SystemMemory::allocate(&owner, 1000).is_none());
        assert!(SystemMemory::allocate(&owner, u64::MAX / 2).is_none());
        assert!(ram.allocate((1 << 20) - PAGE_SIZE, PAGE_SIZE).is_some());
    }
}
