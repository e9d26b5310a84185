//! Figures that the memory manager counts.

/// A number of allocations and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) count: u32,
    pub(crate) bytes: u64,
}

impl Total {
    pub(super) fn add(&mut self, bytes: u64) {
        self.count = self.count.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// Counters of allocations since the adapter started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) created: Total,
    /// Gone, with their memory.
    pub(crate) destroyed: Total,
    pub(crate) locks: u32,
}

/// What became of allocations when memory was short, since the adapter started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResidencyCounts {
    /// Brought to a place where the GPU may use them.
    pub brought: u64,
    /// Moved out of a memory segment with their contents.
    pub evicted: u64,
    /// Offered, and dropped with their contents.
    pub discarded: u64,
    /// Address spaces whose page tables left memory.
    pub tables_evicted: u64,
    /// Address spaces whose page tables came back.
    pub tables_restored: u64,
    /// Address spaces whose root page table was at another place when their process worked again.
    pub roots_moved: u64,
    /// Pages of fence values that left a memory segment.
    pub fences_evicted: u64,
    /// Pages of fence values that came back.
    pub fences_restored: u64,
    /// Large pages written into page tables.
    pub large_pages: u64,
    /// 64-KiB pages written into page tables.
    pub medium_pages: u64,
    /// Larger pages, or tables of 64-KiB pages, that became tables of 4-KiB pages.
    pub demoted: u64,
    /// Processes that were suspended with work to do.
    pub suspended: u64,
}
