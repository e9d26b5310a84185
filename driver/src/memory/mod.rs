//! Memory: allocations, page tables, paging work.

pub(crate) mod allocation;
pub(crate) mod mappings;
pub(crate) mod page_table;
pub(crate) mod paging;
pub(crate) mod paging_buffer;
pub(crate) mod paging_report;
pub(crate) mod root;
