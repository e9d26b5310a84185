//! The memory that page tables lie in, as the walks see it, and the operations that they ask of it.

use nt::page::PAGE_SIZE;
use wddm_ddi::km::DXGK_PTE;
use wddm_ddi::status::NTSTATUS;

use crate::kmd_handle::KmdHandle;
use crate::table_shape::PageSize;

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
