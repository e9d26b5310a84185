//! The shape of page tables: how many index bits each level has, and the sizes of pages that entries stand for. [d3dkmddi: DXGK_PAGE_TABLE_LEVEL_DESC;
//! support-for-64kb-pages]

use std::ops::Range;

/// 4-KiB pages of a 64-KiB page.
pub(crate) const MEDIUM: u64 = 16;

/// Size of the pages that entries stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageSize {
    /// 4 KiB, in a leaf table.
    Small,
    /// 64 KiB, in a leaf table of such pages.
    Medium,
    /// As much as a leaf table covers, in the table above. [d3dukmdt: DXGK_PTE::LargePage]
    Large,
}

impl PageSize {
    /// 4-KiB pages from one entry of a leaf table to the next.
    pub(crate) fn stride(self) -> u64 {
        if self == Self::Medium { MEDIUM } else { 1 }
    }
}

/// Index bits of each level, leaf first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    bits: Vec<u32>,
}

impl Shape {
    /// Page tables of these levels; `None` if no 64-bit address could use them.
    pub(crate) fn new(bits: Vec<u32>) -> Option<Self> {
        let legal =
            bits.len() >= 2 && bits.iter().all(|bits| (1..=20).contains(bits)) && bits.iter().sum::<u32>() <= 51;
        legal.then_some(Self { bits })
    }

    /// Level of the root.
    pub(crate) fn root(&self) -> u32 {
        self.bits.len() as u32 - 1
    }

    /// Address bits.
    pub(crate) fn address_bits(&self) -> u32 {
        self.bits.iter().sum::<u32>() + 12
    }

    /// Entries of a table.
    pub(crate) fn entries(&self, level: u32) -> u32 {
        self.bits.get(level as usize).map_or(0, |bits| 1 << bits)
    }

    /// 4-KiB pages that a leaf table covers, which is what a large page is.
    pub(crate) fn large(&self) -> u64 {
        1 << self.shift(1)
    }

    /// Entries of a leaf table of 64-KiB pages.
    pub(crate) fn medium_entries(&self) -> u32 {
        self.entries(0) / MEDIUM as u32
    }

    /// Entries of a table of `level`, with pages of this size if it is a leaf.
    pub(crate) fn entries_of(&self, level: u32, pages: Option<PageSize>) -> u32 {
        if pages == Some(PageSize::Medium) { self.medium_entries() } else { self.entries(level) }
    }

    /// The pages that entry `index` of a table covers which `page` is somewhere below.
    pub(crate) fn covered(&self, level: u32, page: u64) -> Range<u64> {
        let shift = self.shift(level);
        let start = (page >> shift) << shift;
        start..start + (1 << shift)
    }

    /// log2 of the pages that one entry of a table covers.
    pub(crate) fn shift(&self, level: u32) -> u32 {
        self.bits.iter().take(level as usize).sum()
    }

    pub(crate) fn index(&self, level: u32, page: u64) -> u32 {
        ((page >> self.shift(level)) & (u64::from(self.entries(level)) - 1)) as u32
    }

    /// The parts of `pages` by entry of a table of this level.
    pub(crate) fn split(&self, level: u32, pages: Range<u64>) -> impl Iterator<Item = (u32, Range<u64>)> + use<> {
        let shift = self.shift(level);
        let mask = u64::from(self.entries(level)) - 1;
        let numbers = pages.start >> shift..=(pages.end - 1) >> shift;
        numbers.map(move |number| {
            let part = pages.start.max(number << shift)..pages.end.min((number + 1) << shift);
            ((number & mask) as u32, part)
        })
    }
}
