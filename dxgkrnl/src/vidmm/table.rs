//! The memory of one page table.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nt::ram::Pages;

/// A sum over a table whose entries are all invalid; 0 for none, and once it has been compared.
#[derive(Default)]
pub(crate) struct Blank(pub(super) AtomicU64);

/// A page table in memory.
pub(crate) struct Table {
    pub(super) kernel: Option<NonNull<u8>>,
    pub(super) place: TablePlace,
    pub(super) blank: Blank,
}

pub(super) enum TablePlace {
    System(Pages),
    Segment { segment: u32, offset: u64, len: u64 },
}

impl Table {
    /// Kernel address; `None` where the CPU does not reach it.
    pub(crate) fn kernel_address(&self) -> Option<NonNull<u8>> {
        self.kernel
    }

    /// The sum over its bytes while every entry is invalid.
    pub(crate) fn blank(&self) -> &Blank {
        &self.blank
    }

    /// Segment (0 for system memory) and offset or physical address.
    pub(crate) fn address(&self) -> (u32, u64) {
        match &self.place {
            TablePlace::System(pages) => (0, pages.address()),
            TablePlace::Segment { segment, offset, .. } => (*segment, *offset),
        }
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        match &self.place {
            TablePlace::System(pages) => pages.len(),
            TablePlace::Segment { len, .. } => *len,
        }
    }
}

// SAFETY: the address is only handed to the driver; the memory belongs to this object.
unsafe impl Send for Table {}
