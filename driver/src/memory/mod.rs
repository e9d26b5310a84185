//! Memory: allocations and page tables.

pub(crate) mod allocation;
pub(crate) mod mappings;
pub(crate) mod page_table;
