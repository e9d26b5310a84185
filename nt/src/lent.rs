// UNSAFETY: maps and unmaps pages.
//! Memory that the system lends to a driver for one call, on pages of its own, with special pool: its end touches a page that cannot be accessed, so that the
//! instruction which reads or writes behind it faults. [devtest: special pool]

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock::{Innermost, Mutex};
use crate::page::PAGE;

/// Alignment of what is lent: up to seven bytes behind an odd length can be accessed.
pub const ALIGN: usize = 8;

/// True once a machine of this process has special pool.
static WANTED: AtomicBool = AtomicBool::new(false);
/// The pages that cannot be accessed, by address, and the bytes of what lies before each.
static BEHIND: Mutex<BTreeMap<usize, usize>, Innermost> = Mutex::new(BTreeMap::new());
/// What was lent last and is no more, none of which can be accessed: the newest at the end.
static ENDED: Mutex<VecDeque<Mapping>, Innermost> = Mutex::new(VecDeque::new());
/// As many of these are kept at least: the newest.
const ENDED_MIN: usize = 256;
/// As many are kept at most; those that are more than enough are lent again.
const ENDED_MAX: usize = ENDED_MIN + 64;

/// Pages for `len` bytes, and behind them one that cannot be accessed.
struct Mapping {
    base: usize,
    mapped: usize,
    len: usize,
}

impl Mapping {
    fn base(&self) -> *mut libc::c_void {
        std::ptr::with_exposed_provenance_mut(self.base)
    }

    /// The page that cannot be accessed.
    fn behind(&self) -> usize {
        self.base + self.mapped - PAGE
    }

    /// New addresses, none of which can be accessed. `None` where the host has none.
    fn new(mapped: usize) -> Option<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_NONE, flags, -1, 0) };
        (base != libc::MAP_FAILED).then(|| Self { base: base.expose_provenance(), mapped, len: 0 })
    }

    /// What was lent longest ago, if more has ended since then than is kept, and if it is as long. Most of it is one page; mapping and unmapping
    /// addresses takes a host longer than changing who may access them.
    fn ended_before(mapped: usize) -> Option<Self> {
        let mut all = ENDED.lock();
        let is_spare = all.len() > ENDED_MIN && all.front().is_some_and(|oldest| oldest.mapped == mapped);
        if is_spare { all.pop_front() } else { None }
    }

    /// Everything but the page behind can be accessed, and is zero. `false` if the host refuses.
    fn open(&self) -> bool {
        let pages = self.mapped - PAGE;
        // SAFETY: the pages are part of the mapping, which is this one's own.
        if unsafe { libc::mprotect(self.base(), pages, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return false;
        }
        if self.keeps_memory() {
            // SAFETY: the pages can be written, and are this one's own.
            unsafe { self.base().cast::<u8>().write_bytes(0, pages) };
        }
        true
    }

    /// Nothing can be accessed any more, and what is kept of the contents is made zero when it is opened. `false` if the host refuses.
    fn close(&self) -> bool {
        // SAFETY: the mapping is this one's own, and nobody uses it any more.
        if unsafe { libc::mprotect(self.base(), self.mapped, libc::PROT_NONE) } != 0 {
            return false;
        }
        // SAFETY: the mapping is this one's own, and what it held is of no use any more.
        self.keeps_memory() || unsafe { libc::madvise(self.base(), self.mapped, libc::MADV_DONTNEED) } == 0
    }

    /// True for one page, which is kept for what is lent next. Of more a program may have chosen how much that is, so that the addresses alone are kept.
    fn keeps_memory(&self) -> bool {
        self.mapped <= 2 * PAGE
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and nobody uses it any more.
        unsafe { libc::munmap(self.base(), self.mapped) };
    }
}

/// An address in pages of this module that a driver may not access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stray {
    /// So many bytes beyond the end of as many that are lent.
    Behind { by: usize, len: usize },
    /// In as many bytes that were lent for a call which has returned.
    Ended { len: usize },
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind { by, len } => {
                write!(
                    f,
                    "{by} bytes beyond the end of {len} bytes that the system has lent to the driver for this call"
                )
            }
            Self::Ended { len } => {
                write!(f, "in {len} bytes that the system has lent to the driver for a call which has returned")
            }
        }
    }
}

/// From now on memory is lent on pages of its own, to the drivers of all machines of the process.
pub fn guard() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Memory on pages of its own.
pub struct LentPages {
    /// There until this is dropped.
    mapping: Option<Mapping>,
    start: usize,
}

impl LentPages {
    /// So many bytes, rounded up to [`ALIGN`], which are zero. `None` where nobody wants that, for none, and where the host has no pages.
    pub fn new(len: usize) -> Option<Self> {
        if len == 0 || !WANTED.load(Ordering::Relaxed) {
            return None;
        }
        let used = len.checked_next_multiple_of(ALIGN)?;
        let pages = used.checked_next_multiple_of(PAGE)?;
        let mapped = pages.checked_add(PAGE)?;
        let mut mapping = Mapping::ended_before(mapped).or_else(|| Mapping::new(mapped))?;
        mapping.len = len;
        if !mapping.open() {
            return None;
        }
        BEHIND.lock().insert(mapping.behind(), len);
        Some(Self { start: mapping.behind() - used, mapping: Some(mapping) })
    }

    /// The first byte.
    pub fn start(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start)
    }
}

impl Drop for LentPages {
    fn drop(&mut self) {
        let Some(mapping) = self.mapping.take() else { return };
        BEHIND.lock().remove(&mapping.behind());
        if !mapping.close() {
            return;
        }
        let oldest = {
            let mut all = ENDED.lock();
            all.push_back(mapping);
            if all.len() > ENDED_MAX { all.pop_front() } else { None }
        };
        drop(oldest);
    }
}

/// What an address is, if it is behind the end of something that is lent, or in something that was.
pub(crate) fn stray(address: usize) -> Option<Stray> {
    if let Some((page, len)) = BEHIND.lock().range(..=address).next_back().filter(|(page, _)| address - **page < PAGE) {
        // What is lent ends below the page by what its length lacks to a multiple of the alignment.
        return Some(Stray::Behind { by: address - page + len.next_multiple_of(ALIGN) - len + 1, len: *len });
    }
    let all = ENDED.lock();
    let ended = all.iter().find(|ended| (ended.base..ended.base + ended.mapped).contains(&address))?;
    Some(Stray::Ended { len: ended.len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_ends_at_a_page_that_cannot_be_accessed_and_is_known_when_it_is_lent_no_more() {
        assert!(LentPages::new(0).is_none());
        guard();
        // More than are kept, so that addresses are used again, at the earliest when as many have ended as are kept.
        let lengths = [1, 8, 4095, 4096, 5000].into_iter().cycle().take(2 * ENDED_MAX);
        let (mut last, mut again) = (BTreeMap::new(), 0);
        for (number, len) in lengths.enumerate() {
            let lent = LentPages::new(len).unwrap();
            let start = lent.start();
            let end = start.addr() + len.next_multiple_of(ALIGN);
            if let Some(before) = last.insert(end, number) {
                assert!(number - before > ENDED_MIN, "number {number} is where number {before} was");
                again += 1;
            }
            assert!(start.addr().is_multiple_of(ALIGN) && end.is_multiple_of(PAGE), "{len}");
            // SAFETY: the memory is lent.
            assert!(unsafe { std::slice::from_raw_parts(start, len) }.iter().all(|byte| *byte == 0), "{len}");
            // SAFETY: the memory is lent.
            unsafe { start.write_bytes(7, len) };
            assert!(crate::fault::guarded::probe(std::ptr::with_exposed_provenance::<u8>(end), 1).is_err(), "{len}");
            assert_eq!(stray(end), Some(Stray::Behind { by: len.next_multiple_of(ALIGN) - len + 1, len }));
            assert_eq!(stray(end - 1), None);
            drop(lent);
            for address in [start.addr(), end - 1, end] {
                assert_eq!(stray(address), Some(Stray::Ended { len }));
                let byte = std::ptr::with_exposed_provenance::<u8>(address);
                assert!(crate::fault::guarded::probe(byte, 1).is_err(), "{len}");
            }
        }
        assert!(again > 0, "no address was used again");
    }
}
