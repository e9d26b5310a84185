//! Where allocations are mapped, as far as the driver was told.
//!
//! An operation that updates a page table names the allocation whose pages its entries show, the offset of the first of them, and their
//! address ([d3dkmddi: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE]). The driver cannot tell that a range is unmapped from an eviction, which
//! leaves the address to the allocation; so an address that was the allocation's once counts as its own, and what is not mapped there any
//! more faults.

use crate::handle::Handle;

/// Mappings of an allocation that are kept.
const KEPT: usize = 4;

/// An allocation begins at this address of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    /// The process, as bits of its handle.
    process: u64,
    address: u64,
}

/// The mappings of one allocation, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    /// Filled from the front.
    known: [Option<Mapping>; KEPT],
    /// True if there were more mappings than are kept.
    more: bool,
}

impl Mappings {
    pub(crate) const fn new() -> Self {
        Self { known: [None; KEPT], more: false }
    }

    /// The allocation was mapped so that its first byte is at `address`.
    pub(crate) fn note(&mut self, process: Handle, address: u64) {
        let mapping = Mapping { process: process.into_bits(), address };
        for place in &mut self.known {
            match place {
                Some(known) if *known == mapping => return,
                Some(_) => {}
                None => {
                    *place = Some(mapping);
                    return;
                }
            }
        }
        self.more = true;
    }

    /// False if the allocation is known to be mapped, and none of its mappings begins at `address` of the process. An allocation of which no mapping is
    /// known, or not every one, may be there.
    pub(crate) fn may_begin_at(&self, process: Handle, address: u64) -> bool {
        let mapping = Mapping { process: process.into_bits(), address };
        let mut known = self.known.iter().flatten().peekable();
        self.more || known.peek().is_none() || known.any(|known| *known == mapping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(bits: u64) -> Handle {
        Handle::from_bits(bits)
    }

    #[test]
    fn an_allocation_is_where_it_was_mapped_in_that_process_and_nowhere_else() {
        let mut mappings = Mappings::new();
        assert!(mappings.may_begin_at(process(1), 0x5000), "nothing is known");
        mappings.note(process(1), 0x1000);
        mappings.note(process(1), 0x1000);
        mappings.note(process(2), 0x2000);
        assert!(mappings.may_begin_at(process(1), 0x1000));
        assert!(mappings.may_begin_at(process(2), 0x2000));
        assert!(!mappings.may_begin_at(process(1), 0x2000));
        assert!(!mappings.may_begin_at(process(2), 0x1000));
        assert!(!mappings.may_begin_at(process(1), 0));
    }

    #[test]
    fn more_mappings_than_are_kept_may_be_anywhere() {
        let mut mappings = Mappings::new();
        (0..KEPT as u64).for_each(|number| mappings.note(process(1), number * 0x1000));
        assert!(!mappings.may_begin_at(process(1), 0x9000));
        mappings.note(process(1), 0x8000);
        assert!(mappings.may_begin_at(process(1), 0x9000));
    }
}
