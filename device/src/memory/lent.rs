//! System memory that whoever has the function in its process has mapped already.
//!
//! UNSAFETY: a mapping is used that somebody else answers for.

use std::fmt::Debug;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{HostMapping, Memory, Range};

/// Memory of the process that is lent to a function.
///
/// # Safety
/// As long as the object lives, [`LentMemory::len`] bytes from [`LentMemory::base`] on, which begin with a page, can be read and written, though what is
/// behind a page may change; and they are accessed by raw pointers and atomics only.
pub unsafe trait LentMemory: Debug + Send + Sync {
    /// First byte.
    fn base(&self) -> NonNull<u8>;

    /// Bytes.
    fn len(&self) -> usize;

    /// True if there is no memory at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl HostMapping {
    /// The mapping of somebody else.
    pub(crate) fn lent(lender: Arc<dyn LentMemory>) -> Self {
        Self { base: lender.base(), len: lender.len(), writable: true, behind_caches: None, lender: Some(lender) }
    }

    /// First byte and length of the mapping, which stays and is the caller's.
    pub(crate) fn into_parts(self) -> (NonNull<u8>, usize) {
        let this = std::mem::ManuallyDrop::new(self);
        (this.base, this.len)
    }
}

impl Memory {
    /// Makes memory visible from bus address `start` on.
    pub(crate) fn map_lent(&self, start: u64, memory: Arc<dyn LentMemory>) -> io::Result<()> {
        let len = memory.len() as u64;
        let end = super::end_of(start, 0, len)?;
        let mut system = self.change();
        let mapping = HostMapping::lent(memory);
        let mapping = if system.cached_host { mapping.behind_caches()? } else { mapping };
        system.insert(Range { start, end, mapping: Arc::new(mapping), offset: 0, writable: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::{at, memory};
    use campanile_hw::queue::SYSTEM_PAGE_SIZE;

    #[derive(Debug)]
    struct Lent(NonNull<u8>);

    // SAFETY: the test leaves the pages mapped, and reaches into them by raw pointers.
    unsafe impl Send for Lent {}
    // SAFETY: as above.
    unsafe impl Sync for Lent {}

    // SAFETY: two pages, which are never unmapped.
    unsafe impl LentMemory for Lent {
        fn base(&self) -> NonNull<u8> {
            self.0
        }

        fn len(&self) -> usize {
            2 * SYSTEM_PAGE_SIZE as usize
        }
    }

    #[test]
    fn lent_memory_is_what_its_lender_has_mapped_at_the_moment() {
        let (memory, _) = memory();
        let file = super::super::shared_file(c"lent", 2 * SYSTEM_PAGE_SIZE).unwrap();
        let mapped = HostMapping::new(&file, 0, 2 * SYSTEM_PAGE_SIZE, true).unwrap();
        let base = mapped.base;
        std::mem::forget(mapped);
        let lender = Arc::new(Lent(base));
        memory.map_lent(SYSTEM_PAGE_SIZE, Arc::clone(&lender) as Arc<dyn LentMemory>).unwrap();
        let load = || memory.access().resolve(at(2), 8, false).and_then(|span| span.load(0));
        let second = base.as_ptr().wrapping_add(SYSTEM_PAGE_SIZE as usize).cast::<u64>();
        // SAFETY: the second page, which is mapped.
        unsafe { second.write_volatile(5) };
        assert_eq!(load(), Some(5));
        assert!(memory.access().resolve(at(3), 8, false).is_none());
        memory.unmap(SYSTEM_PAGE_SIZE, 2 * SYSTEM_PAGE_SIZE);
        assert_eq!((load(), Arc::strong_count(&lender)), (None, 1));
        // SAFETY: it is still mapped.
        unsafe { base.cast::<u64>().write_volatile(6) };
    }
}
