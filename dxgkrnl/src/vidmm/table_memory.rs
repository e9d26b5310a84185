//! The memory that page tables lie in, as the walks see it, and the operations that they ask of it.

use std::ops::Range;

use nt::page::PAGE_SIZE;
use wddm_ddi::km::DXGK_PTE;
use wddm_ddi::status::NTSTATUS;

use crate::kmd_handle::KmdHandle;

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
    pub(super) fn stride(self) -> u64 {
        if self == Self::Medium { MEDIUM } else { 1 }
    }
}

/// Which pages larger than 4 KiB may map a part of what a leaf table covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fit {
    /// 64-KiB pages.
    pub(crate) medium: bool,
    /// A new table of 64-KiB pages is worth the memory that it holds besides.
    pub(crate) pays: bool,
    /// One large page.
    pub(crate) large: bool,
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
    pub(super) fn medium_entries(&self) -> u32 {
        self.entries(0) / MEDIUM as u32
    }

    /// Entries of a table of `level`, with pages of this size if it is a leaf.
    pub(super) fn entries_of(&self, level: u32, pages: Option<PageSize>) -> u32 {
        if pages == Some(PageSize::Medium) { self.medium_entries() } else { self.entries(level) }
    }

    /// The pages that entry `index` of a table covers which `page` is somewhere below.
    pub(super) fn covered(&self, level: u32, page: u64) -> Range<u64> {
        let shift = self.shift(level);
        let start = (page >> shift) << shift;
        start..start + (1 << shift)
    }

    /// log2 of the pages that one entry of a table covers.
    pub(super) fn shift(&self, level: u32) -> u32 {
        self.bits.iter().take(level as usize).sum()
    }

    pub(super) fn index(&self, level: u32, page: u64) -> u32 {
        ((page >> self.shift(level)) & (u64::from(self.entries(level)) - 1)) as u32
    }

    /// The parts of `pages` by entry of a table of this level.
    pub(super) fn split(&self, level: u32, pages: Range<u64>) -> impl Iterator<Item = (u32, Range<u64>)> + use<> {
        let shift = self.shift(level);
        let mask = u64::from(self.entries(level)) - 1;
        let numbers = pages.start >> shift..=(pages.end - 1) >> shift;
        numbers.map(move |number| {
            let part = pages.start.max(number << shift)..pages.end.min((number + 1) << shift);
            ((number & mask) as u32, part)
        })
    }
}

/// Entries of one update.
#[derive(Clone, Copy)]
pub(crate) enum Entries<'a> {
    /// One value an entry.
    Each(&'a [DXGK_PTE]),
    /// The same value for so many entries.
    Same(DXGK_PTE, u32),
}

/// Where a table stands when it is changed. [d3dkmddi: DXGK_UPDATEPAGETABLEFLAGS]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is filled for the first time since it is in memory.
    Initial,
    /// It is in use.
    InUse,
    /// The memory is about to be used for another allocation.
    Eviction,
}

/// One change of one table. [d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE]
pub(crate) struct Update<'a, T> {
    /// The table.
    pub(crate) table: &'a T,
    /// Its level, 0 for leaves.
    pub(crate) level: u32,
    /// Pages that the entries are for: of a leaf table always, of any other for large pages. `None` for tables.
    pub(crate) pages: Option<PageSize>,
    /// First entry changed.
    pub(crate) start: u32,
    /// New contents.
    pub(crate) entries: Entries<'a>,
    /// Phase in the life of the table.
    pub(crate) phase: Phase,
    /// First page that the entries translate.
    pub(crate) first_page: u64,
    /// What they belong to, if it is not what is being written.
    pub(crate) subject: Option<Subject>,
}

/// Memory of page tables, and the way in which they are written.
pub(crate) trait TableMemory {
    /// A table in memory.
    type Table;
    /// Takes memory for a table of `level`; a leaf table is for pages of this size.
    fn create(&mut self, level: u32, pages: PageSize) -> Result<Self::Table, NTSTATUS>;
    /// Gives the memory of a table back.
    fn destroy(&mut self, table: Self::Table);
    /// The entry that points at a table, which if it is a leaf is for pages of this size.
    fn link(&self, table: &Self::Table, pages: PageSize) -> DXGK_PTE;
    /// Allocation and first page that the entries being written belong to.
    fn subject(&self) -> Subject;
    /// Changes entries.
    fn update(&mut self, update: Update<'_, Self::Table>) -> Result<(), NTSTATUS>;
}

/// What an operation changed, for the decision whether to flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Entries that were valid got another value.
    pub(crate) replaced: bool,
    /// Entries that were invalid became valid.
    pub(crate) added: bool,
    /// Large pages that were written.
    pub(crate) large: u64,
    /// 64-KiB pages that were written.
    pub(crate) medium: u64,
    /// Larger pages, or tables of them, that became tables of 4-KiB pages. Whatever a leaf table covers must be forgotten whole then.
    pub(crate) demoted: u64,
}

/// A table that is in use no more. It is given back when the GPU has forgotten it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dead<T> {
    /// The table.
    pub(crate) table: T,
    /// The first page that it covers, if it is one of 64-KiB pages with entries that are valid still.
    pub(super) stale: Option<u64>,
}

/// Allocation and first page that leaf entries of an update belong to.
#[derive(Clone, Copy)]
pub(crate) struct Subject {
    /// The driver's handle of the allocation, NULL for anything else.
    pub(crate) allocation: KmdHandle,
    /// Byte in the allocation that the first page of the mapping shows.
    pub(crate) offset: u64,
    /// First page of the mapping.
    pub(crate) first_page: u64,
    /// From D3DDDI_MAPGPUVIRTUALADDRESS.
    pub(crate) driver_protection: u64,
}

impl Subject {
    /// Tables, and pages of no allocation.
    pub(crate) const NONE: Self = Self { allocation: KmdHandle::NULL, offset: 0, first_page: 0, driver_protection: 0 };

    /// The same from another page on, which is not before the first.
    pub(crate) fn at(self, page: u64) -> Self {
        let pages = page.saturating_sub(self.first_page);
        Self { offset: self.offset + pages * PAGE_SIZE, first_page: page, ..self }
    }
}
