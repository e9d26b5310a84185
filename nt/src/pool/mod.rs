// UNSAFETY: hands out and takes back raw memory on behalf of a driver.
//! Pool of one driver: every block with its tag, checked when it is given back.
//!
//! Ordinary pool is stricter than that of Windows: memory is filled with a pattern at allocation and at release, a few guard bytes lie
//! before and behind each block, and released blocks are quarantined for a while before the address is used again, so that writes to them
//! are noticed. With [`SpecialPool`] the instruction that makes the mistake faults.

mod special;

use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::fmt;

use crate::lock::{Innermost, Mutex, lock};
use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL, POOL_FLAG_UNINITIALIZED};

use crate::bugcheck::Bugcheck;
use crate::irql;
use special::{Arena, Span};

/// POOL_FLAG_PAGED. [wdm: POOL_FLAG_PAGED]
const POOL_FLAG_PAGED: u64 = 0x100;
const PAGE: usize = 4096;
/// Bytes before (at least) and behind each ordinary block that must not be written.
const GUARD: usize = 16;
const FRESH: u8 = 0xa5;
const FREED: u8 = 0xdf;
const GUARD_BYTE: u8 = 0xfb;
/// Fills what a special block leaves of its pages.
const SLOP: u8 = 0xed;
/// The most released ordinary blocks in quarantine, and the most bytes of them.
const QUARANTINE_BLOCKS: usize = 256;
const QUARANTINE_BYTES: usize = 1 << 20;

/// The mode of special pool: if each pool block lies on pages of its own, and which of its ends touches a page that cannot be accessed. The
/// other end is looked at when the block is freed. [devtest: special pool]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpecialPool {
    /// Ordinary pool.
    #[default]
    Off,
    /// The end: finds overruns at the instruction. Blocks are aligned to 16 bytes, so that up to 15 bytes behind a block are looked at when
    /// it is freed.
    VerifyEnd,
    /// The start: finds underruns at the instruction.
    VerifyStart,
}

/// Pool blocks of one driver.
pub struct Pool {
    limit: u64,
    mode: SpecialPool,
    state: Mutex<State, Innermost>,
}

#[derive(Default)]
struct State {
    blocks: BTreeMap<usize, Block>,
    /// Bytes that count against the limit.
    bytes: u64,
    quarantined: BTreeMap<usize, Block>,
    /// Addresses of blocks in quarantine, oldest first.
    oldest: VecDeque<usize>,
    quarantined_bytes: usize,
    arena: Option<Arena>,
}

#[derive(Clone, Copy)]
struct Block {
    tag: u32,
    size: usize,
    home: Home,
}

/// Memory that a pool block is part of.
#[derive(Clone, Copy)]
enum Home {
    /// Memory of this process' heap that begins `before` bytes ahead of the block.
    Heap {
        layout: Layout,
        before: usize,
    },
    Special(Span),
}

/// What an address is that lies near a block and in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned {
    /// A block was here.
    Freed { tag: u32 },
    /// So many bytes behind the last byte of a block, or before its first if negative.
    Outside { tag: u32, size: usize, by: isize },
}

impl fmt::Display for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Freed { tag } => write!(f, "freed pool with tag '{}'", tag_name(tag)),
            Self::Outside { tag, size, by } => {
                let side = if by < 0 { "before the start" } else { "beyond the end" };
                let by = by.unsigned_abs();
                write!(f, "{by} bytes {side} of a pool block of {size} bytes with tag '{}'", tag_name(tag))
            }
        }
    }
}

/// A tag as the debugger prints it.
pub fn tag_name(tag: u32) -> String {
    tag.to_le_bytes().iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' }).collect()
}

/// Position of the first byte that is another.
fn first_other(bytes: &[u8], pattern: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte != pattern)
}

impl Block {
    /// Bytes that count against the limit.
    fn charge(&self) -> u64 {
        match self.home {
            Home::Heap { .. } => self.size as u64,
            Home::Special(span) => span.len as u64,
        }
    }

    /// A written byte beside the block.
    fn corrupted(&self, address: usize) -> Option<usize> {
        match self.home {
            Home::Special(span) => Arena::corrupted(span, address, self.size),
            Home::Heap { before, .. } => {
                [(address - before, before), (address + self.size, GUARD)].into_iter().find_map(|(from, len)| {
                    let guard = std::ptr::with_exposed_provenance::<u8>(from);
                    // SAFETY: the guards surround the block and were written when it was handed out.
                    let guard = unsafe { std::slice::from_raw_parts(guard, len) };
                    first_other(guard, GUARD_BYTE).map(|at| from + at)
                })
            }
        }
    }

    /// How a written byte beside the block is told. [debugger: 0x19] [debugger: 0xc1]
    fn corruption(&self, address: usize, corrupted: usize) -> Bugcheck {
        let after = corrupted >= address;
        let by = if after { corrupted - address - self.size + 1 } else { address - corrupted };
        let side = if after { "past the end of" } else { "before the start of" };
        let reason = format!("written {by} bytes {side} a pool block with tag '{}'", tag_name(self.tag));
        let (at, corrupted_at) = (address as u64, corrupted as u64);
        if let Home::Special(_) = self.home {
            let kind = if after { 0x24 } else { 0x23 };
            let parameters = [at, corrupted_at, 0, kind];
            return Bugcheck::new(Bugcheck::SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION, parameters, reason);
        }
        let place = std::ptr::with_exposed_provenance::<u8>(corrupted);
        // SAFETY: the byte is one of the block's guards.
        let value = u64::from(unsafe { place.read() });
        let parameters = if after { [0x21, at, self.size as u64, value] } else { [0x20, corrupted_at, at, 0] };
        Bugcheck::new(Bugcheck::BAD_POOL_HEADER, parameters, reason)
    }
}

/// True for one type of pool and no required attribute that there is none of. [wdm: POOL_FLAGS]
fn are_valid(flags: u64) -> bool {
    const TYPES: u64 = 0x40 | 0x80 | 0x100;
    const REQUIRED: u64 = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | TYPES;
    (flags & TYPES).count_ones() == 1 && flags & 0xffff_ffff & !REQUIRED == 0
}

impl Pool {
    /// A pool that gives out at most `limit` bytes, counted in pages where blocks have pages of their own.
    pub fn new(limit: u64, mode: SpecialPool) -> Self {
        Self { limit, mode, state: Mutex::new(State::default()) }
    }

    /// ExAllocatePool2: NULL when memory is short or the flags are invalid, a bugcheck when the request itself is wrong.
    pub fn allocate(&self, flags: u64, size: usize, tag: u32) -> Result<*mut c_void, Bugcheck> {
        let level = irql::current();
        let violation = |code: u64, p2: u64, reason: String| {
            Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, [code, p2, flags, size as u64], reason)
        };
        if level > DISPATCH_LEVEL {
            let reason = format!("pool allocated at IRQL {level}, at most DISPATCH_LEVEL is allowed");
            return Err(violation(0x2, u64::from(level), reason));
        }
        if flags & POOL_FLAG_PAGED != 0 && level > APC_LEVEL {
            let reason = format!("paged pool allocated at IRQL {level}, at most APC_LEVEL is allowed");
            return Err(violation(0x1, u64::from(level), reason));
        }
        if size == 0 {
            return Err(violation(
                0x0,
                u64::from(level),
                format!("zero bytes of pool asked for, tag {}", tag_name(tag)),
            ));
        }
        if tag == 0 {
            return Err(Bugcheck::new(Bugcheck::BAD_POOL_CALLER, [0x9b, flags, size as u64, 0], "pool without a tag"));
        }
        let block = if are_valid(flags) { self.take(flags, size, tag) } else { None };
        Ok(block.unwrap_or(std::ptr::null_mut()))
    }

    fn take(&self, flags: u64, size: usize, tag: u32) -> Option<*mut c_void> {
        let mut state = lock(&self.state);
        let special =
            (self.mode != SpecialPool::Off).then(|| state.take_special(self.mode, self.limit, size)).flatten();
        // As on Windows, where special pool is used up.
        let heap = || state.fits(size as u64, self.limit).then(|| take_heap(size)).flatten();
        let (address, home) = special.or_else(heap)?;
        let block = Block { tag, size, home };
        let fresh = match home {
            _ if flags & POOL_FLAG_UNINITIALIZED != 0 => Some(FRESH),
            Home::Special(_) => None,
            Home::Heap { .. } => Some(0),
        };
        if let Some(fill) = fresh {
            let place = std::ptr::with_exposed_provenance_mut::<u8>(address);
            // SAFETY: the block has `size` bytes.
            unsafe { place.write_bytes(fill, size) };
        }
        state.bytes += block.charge();
        state.blocks.insert(address, block);
        Some(std::ptr::with_exposed_provenance_mut(address))
    }

    /// ExFreePoolWithTag.
    pub fn free(&self, pointer: *mut c_void, tag: u32) -> Result<(), Bugcheck> {
        let level = irql::current();
        let address = pointer.addr();
        let at = address as u64;
        let violation = |parameters: [u64; 4], reason: String| {
            Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason)
        };
        if level > DISPATCH_LEVEL {
            let reason = format!("pool freed at IRQL {level}, at most DISPATCH_LEVEL is allowed");
            return Err(violation([0x12, u64::from(level), 0, at], reason));
        }
        let mut state = lock(&self.state);
        let Some(block) = state.blocks.get(&address).copied() else {
            if let Some(tag) = state.freed_at(address) {
                let reason = format!("pool block {at:#x} (tag {}) freed twice", tag_name(tag));
                return Err(violation([0x13, 0, at, 0], reason));
            }
            return Err(violation([0x10, at, 0, 0], format!("{at:#x} is not a pool block of this driver")));
        };
        if tag != 0 && tag != block.tag {
            let reason = format!("pool block with tag {} freed with tag {}", tag_name(block.tag), tag_name(tag));
            return Err(Bugcheck::new(
                Bugcheck::BAD_POOL_CALLER,
                [0xa, at, u64::from(block.tag), u64::from(tag)],
                reason,
            ));
        }
        if let Some(corrupted) = block.corrupted(address) {
            return Err(block.corruption(address, corrupted));
        }
        state.blocks.remove(&address);
        state.bytes -= block.charge();
        state.put_away(address, block)
    }

    /// What is still allocated: bytes and blocks by tag.
    pub fn outstanding(&self) -> BTreeMap<u32, (u64, u64)> {
        let mut tags = BTreeMap::<u32, (u64, u64)>::new();
        for block in lock(&self.state).blocks.values() {
            let entry = tags.entry(block.tag).or_default();
            entry.0 += block.size as u64;
            entry.1 += 1;
        }
        tags
    }

    /// Address and size of every block in use, by address.
    pub fn blocks(&self) -> Vec<(usize, usize)> {
        lock(&self.state).blocks.iter().map(|(address, block)| (*address, block.size)).collect()
    }

    /// Frees every block in quarantine; an error if one was written to.
    pub fn settle(&self) -> Result<(), Bugcheck> {
        let mut state = lock(&self.state);
        while !state.oldest.is_empty() {
            state.release_oldest()?;
        }
        Ok(())
    }

    /// What an address is that faulted, if it is one of special pool.
    pub fn fault_at(&self, address: usize) -> Option<Owned> {
        let state = lock(&self.state);
        let arena = state.arena.as_ref().filter(|arena| arena.contains(address))?;
        if let Some((_, tag)) = arena.freed_at(address) {
            return Some(Owned::Freed { tag });
        }
        // The page between two blocks is closer to one of them.
        let behind = state.blocks.range(..=address).next_back().map(|(start, block)| {
            let by = address - (start + block.size) + 1;
            Owned::Outside { tag: block.tag, size: block.size, by: by as isize }
        });
        let ahead = state.blocks.range(address..).next().map(|(start, block)| {
            let by = start - address;
            Owned::Outside { tag: block.tag, size: block.size, by: -(by as isize) }
        });
        let distance = |owned: &Owned| match owned {
            Owned::Outside { by, .. } => by.unsigned_abs(),
            Owned::Freed { .. } => 0,
        };
        [behind, ahead].into_iter().flatten().filter(|owned| distance(owned) <= 2 * PAGE).min_by_key(distance)
    }

    /// What is wrong with a range that a driver passed, as far as it lies in blocks; with the first wrong address.
    pub fn check_range(&self, address: usize, len: usize) -> Option<(usize, Owned)> {
        let state = lock(&self.state);
        if let Some((start, block)) = state.blocks.range(..=address).next_back()
            && address - start < block.size + GUARD
        {
            let end = start + block.size;
            let over = address.saturating_add(len) > end;
            let by = address.max(end) - end + 1;
            return over
                .then_some((address.max(end), Owned::Outside { tag: block.tag, size: block.size, by: by as isize }));
        }
        state.freed_at(address).map(|tag| (address, Owned::Freed { tag }))
    }
}

/// A block in ordinary memory between its guards.
fn take_heap(size: usize) -> Option<(usize, Home)> {
    let before = if size >= PAGE { PAGE } else { GUARD };
    let layout = Layout::from_size_align(size.checked_add(before + GUARD)?, before).ok()?;
    // SAFETY: the layout has a size above zero.
    let memory = unsafe { alloc(layout) };
    if memory.is_null() {
        return None;
    }
    let start = memory.expose_provenance();
    for (offset, len) in [(0, before), (before + size, GUARD)] {
        let guard = memory.wrapping_add(offset);
        // SAFETY: the guards lie inside the memory just allocated, before and behind the block.
        unsafe { guard.write_bytes(GUARD_BYTE, len) };
    }
    Some((start + before, Home::Heap { layout, before }))
}

/// Gives an ordinary block's memory back.
fn give_back(address: usize, layout: Layout, before: usize) {
    // SAFETY: the block's memory was allocated with this layout, and the block is forgotten.
    unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address - before), layout) };
}

impl State {
    fn fits(&self, bytes: u64, limit: u64) -> bool {
        self.bytes.checked_add(bytes).is_some_and(|bytes| bytes <= limit)
    }

    fn take_special(&mut self, mode: SpecialPool, limit: u64, size: usize) -> Option<(usize, Home)> {
        let pages = size.checked_next_multiple_of(PAGE)?;
        if !self.fits(pages as u64, limit) {
            return None;
        }
        if self.arena.is_none() {
            self.arena = Arena::new(mode);
        }
        let (span, address) = self.arena.as_mut()?.allocate(size)?;
        Some((address, Home::Special(span)))
    }

    /// Tag of the block that was freed and lay where an address is.
    fn freed_at(&self, address: usize) -> Option<u32> {
        let quarantined = self.quarantined.range(..=address).next_back();
        let quarantined =
            quarantined.filter(|(start, block)| address - **start < block.size).map(|(_, block)| block.tag);
        quarantined.or_else(|| self.arena.as_ref()?.freed_at(address).map(|(_, tag)| tag))
    }

    /// Keeps a freed block's address away for a while.
    fn put_away(&mut self, address: usize, block: Block) -> Result<(), Bugcheck> {
        if let Home::Special(span) = block.home {
            if let Some(arena) = &mut self.arena {
                arena.free(span, block.tag);
            }
            return Ok(());
        }
        let place = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the block belongs to the pool again and has `size` bytes.
        unsafe { place.write_bytes(FREED, block.size) };
        self.quarantined_bytes += block.size;
        self.quarantined.insert(address, block);
        self.oldest.push_back(address);
        while self.oldest.len() > QUARANTINE_BLOCKS || self.quarantined_bytes > QUARANTINE_BYTES {
            self.release_oldest()?;
        }
        Ok(())
    }

    fn release_oldest(&mut self) -> Result<(), Bugcheck> {
        let Some(address) = self.oldest.pop_front() else { return Ok(()) };
        let Some(block) = self.quarantined.remove(&address) else { return Ok(()) };
        self.quarantined_bytes -= block.size;
        let Home::Heap { layout, before } = block.home else { return Ok(()) };
        let place = std::ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: a block in quarantine is allocated memory of `size` initialised bytes.
        let bytes = unsafe { std::slice::from_raw_parts(place, block.size) };
        let written = first_other(bytes, FREED);
        give_back(address, layout, before);
        match written {
            None => Ok(()),
            // The block was modified after it was freed. [debugger: 0x19]
            Some(offset) => Err(Bugcheck::new(
                Bugcheck::BAD_POOL_HEADER,
                [0xf, (address + offset) as u64, 0, 0],
                format!(
                    "written to freed pool, {offset} bytes into a block with tag '{}', found when its address was to be used again",
                    tag_name(block.tag)
                ),
            )),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        // Blocks still allocated stay so: a stopped machine cannot know which pointers to them are left.
        for (address, block) in std::mem::take(&mut state.quarantined) {
            if let Home::Heap { layout, before } = block.home {
                give_back(address, layout, before);
            }
        }
        let used = state.blocks.values().any(|block| matches!(block.home, Home::Special(_)));
        if let Some(arena) = state.arena.take_if(|_| !used) {
            // SAFETY: no block is left in it.
            unsafe { arena.unmap() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::guarded;
    use wddm_ddi::nt::POOL_FLAG_NON_PAGED;

    const TAG: u32 = u32::from_le_bytes(*b"Test");

    fn pool() -> Pool {
        Pool::new(1 << 20, SpecialPool::Off)
    }

    #[test]
    fn blocks_are_zeroed_tracked_by_tag_and_limited() {
        let pool = pool();
        let block = pool.allocate(POOL_FLAG_NON_PAGED, 100, TAG).unwrap();
        // SAFETY: the block has 100 bytes.
        let bytes = unsafe { std::slice::from_raw_parts(block.cast::<u8>(), 100) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        assert_eq!(pool.outstanding(), BTreeMap::from([(TAG, (100, 1))]));
        assert!(pool.allocate(POOL_FLAG_NON_PAGED, 1 << 20, TAG).unwrap().is_null());
        assert!(pool.allocate(POOL_FLAG_NON_PAGED, usize::MAX, TAG).unwrap().is_null());
        pool.free(block, TAG).unwrap();
        assert!(pool.outstanding().is_empty());
        pool.settle().unwrap();
    }

    #[test]
    fn every_misuse_of_pool_has_its_documented_code() {
        let pool = pool();
        let parameter = |result: Result<(), Bugcheck>| {
            let bugcheck = result.unwrap_err();
            (bugcheck.code, bugcheck.parameters[0])
        };
        assert_eq!(parameter(pool.allocate(POOL_FLAG_NON_PAGED, 0, TAG).map(|_| ())), (0xc4, 0x0));
        assert_eq!(parameter(pool.allocate(POOL_FLAG_NON_PAGED, 8, 0).map(|_| ())), (0xc2, 0x9b));
        let block = pool.allocate(POOL_FLAG_NON_PAGED, 8, TAG).unwrap();
        assert_eq!(parameter(pool.free(block, TAG + 1)), (0xc2, 0xa));
        assert_eq!(parameter(pool.free(block.wrapping_byte_add(1), TAG)), (0xc4, 0x10));
        irql::set(5);
        assert_eq!(parameter(pool.allocate(POOL_FLAG_NON_PAGED, 8, TAG).map(|_| ())), (0xc4, 0x2));
        assert_eq!(parameter(pool.free(block, TAG)), (0xc4, 0x12));
        irql::set(2);
        assert_eq!(parameter(pool.allocate(POOL_FLAG_PAGED, 8, TAG).map(|_| ())), (0xc4, 0x1));
        irql::set(0);
        pool.free(block, TAG).unwrap();
        assert_eq!(parameter(pool.free(block, TAG)), (0xc4, 0x13));
    }

    /// Writes a byte at an offset from a block.
    fn write(block: *mut c_void, offset: isize) {
        // SAFETY: what lies around and in a block in quarantine is memory of the pool; writing it is what the tests are about.
        unsafe { block.cast::<u8>().wrapping_offset(offset).write(1) };
    }

    #[test]
    fn writes_before_beyond_and_after_a_block_are_noticed() {
        for size in [24, 4096, 5000] {
            let pool = pool();
            let block = pool.allocate(POOL_FLAG_NON_PAGED, size, TAG).unwrap();
            write(block, size as isize);
            let at = block.addr() as u64;
            let bugcheck = pool.free(block, TAG).unwrap_err();
            assert_eq!((bugcheck.code, bugcheck.parameters), (0x19, [0x21, at, size as u64, 1]));
            let block = pool.allocate(POOL_FLAG_NON_PAGED, size, TAG).unwrap();
            write(block, -1);
            let at = block.addr() as u64;
            let bugcheck = pool.free(block, TAG).unwrap_err();
            assert_eq!((bugcheck.code, bugcheck.parameters), (0x19, [0x20, at - 1, at, 0]));
            let block = pool.allocate(POOL_FLAG_NON_PAGED, size, TAG).unwrap();
            pool.free(block, TAG).unwrap();
            write(block, 3);
            let bugcheck = pool.settle().unwrap_err();
            assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x19, 0xf));
        }
    }

    #[test]
    fn a_range_beyond_a_block_or_in_a_freed_one_is_told() {
        for mode in [SpecialPool::Off, SpecialPool::VerifyEnd, SpecialPool::VerifyStart] {
            let pool = Pool::new(1 << 20, mode);
            let block = pool.allocate(POOL_FLAG_NON_PAGED, 24, TAG).unwrap();
            let at = block.addr();
            assert_eq!(pool.check_range(at, 24), None);
            assert_eq!(pool.check_range(at + 23, 1), None);
            let beyond = |by| Owned::Outside { tag: TAG, size: 24, by };
            assert_eq!(pool.check_range(at, 25), Some((at + 24, beyond(1))));
            assert_eq!(pool.check_range(at + 25, 1), Some((at + 25, beyond(2))));
            pool.free(block, TAG).unwrap();
            assert_eq!(pool.check_range(at + 8, 1), Some((at + 8, Owned::Freed { tag: TAG })), "{mode:?}");
        }
    }

    #[test]
    fn special_blocks_end_or_start_at_a_page_that_cannot_be_accessed() {
        for (mode, sizes) in
            [(SpecialPool::VerifyEnd, [16, 112, 4096, 8192]), (SpecialPool::VerifyStart, [1, 100, 4097, 9000])]
        {
            let pool = Pool::new(1 << 20, mode);
            for size in sizes {
                let block = pool.allocate(POOL_FLAG_NON_PAGED, size, TAG).unwrap();
                let at = block.addr();
                let page_at = if mode == SpecialPool::VerifyEnd { at + size } else { at };
                assert_eq!((at % 16, page_at % 4096), (0, 0), "{size} bytes, {mode:?}");
                let outside = if mode == SpecialPool::VerifyEnd { at + size } else { at - 1 };
                let by = if mode == SpecialPool::VerifyEnd { 1 } else { -1 };
                assert_eq!(pool.fault_at(outside), Some(Owned::Outside { tag: TAG, size, by }));
                let place = std::ptr::with_exposed_provenance::<u8>(outside);
                assert!(guarded::probe(place, 1).is_err());
                assert_eq!(guarded::probe(block.cast(), size), Ok(()));
                pool.free(block, TAG).unwrap();
                assert!(guarded::probe(block.cast(), 1).is_err());
                assert_eq!(pool.fault_at(at), Some(Owned::Freed { tag: TAG }));
                assert_eq!(pool.free(block, TAG).unwrap_err().parameters[0], 0x13);
            }
        }
    }

    #[test]
    fn the_other_end_of_a_special_block_is_looked_at_when_it_is_freed() {
        for (mode, offset, kind) in [
            (SpecialPool::VerifyEnd, 100, 0x24),
            (SpecialPool::VerifyEnd, -1, 0x23),
            (SpecialPool::VerifyEnd, -3000, 0x23),
            (SpecialPool::VerifyStart, 100, 0x24),
            (SpecialPool::VerifyStart, 4095, 0x24),
        ] {
            let pool = Pool::new(1 << 20, mode);
            let block = pool.allocate(POOL_FLAG_NON_PAGED, 100, TAG).unwrap();
            write(block, offset);
            let at = block.addr() as u64;
            let bugcheck = pool.free(block, TAG).unwrap_err();
            let corrupted = at.wrapping_add_signed(offset as i64);
            assert_eq!((bugcheck.code, bugcheck.parameters), (0xc1, [at, corrupted, 0, kind]), "{mode:?} {offset}");
        }
    }

    #[test]
    fn addresses_of_freed_special_blocks_stay_away() {
        let pool = Pool::new(1 << 20, SpecialPool::VerifyEnd);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..10_000 {
            let block = pool.allocate(POOL_FLAG_NON_PAGED, 4096, TAG).unwrap();
            assert!(seen.insert(block.addr()), "used again");
            pool.free(block, TAG).unwrap();
        }
    }

    #[test]
    fn special_pool_counts_pages_and_the_rest_comes_from_ordinary_pool() {
        let pool = Pool::new(4 * 4096, SpecialPool::VerifyEnd);
        let blocks: Vec<_> = (0..4).map(|_| pool.allocate(POOL_FLAG_NON_PAGED, 4000, TAG).unwrap()).collect();
        assert!(blocks.iter().all(|block| !block.is_null()));
        assert!(pool.allocate(POOL_FLAG_NON_PAGED, 16, TAG).unwrap().is_null(), "the limit is used up");
        pool.free(blocks[0], TAG).unwrap();
        let small = pool.allocate(POOL_FLAG_NON_PAGED, 4096, TAG).unwrap();
        pool.free(small, TAG).unwrap();
        let ordinary = Pool::new(100, SpecialPool::VerifyEnd);
        let block = ordinary.allocate(POOL_FLAG_NON_PAGED, 100, TAG).unwrap();
        assert_eq!(ordinary.fault_at(block.addr()), None, "no page fits the limit, the block does");
        ordinary.free(block, TAG).unwrap();
    }
}
