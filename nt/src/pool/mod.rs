// UNSAFETY: hands out and takes back raw memory on behalf of a driver.
//! Pool of one driver: every block with its tag, checked when it is given back.
//!
//! Ordinary pool is stricter than that of Windows: memory is filled with a pattern at allocation and at release, guard bytes lie
//! before and behind each block, and released blocks are quarantined for a while before the address is used again, so that writes to them
//! are noticed. It has mappings of its own, so that what runs over a block damages no data of this program. With [`SpecialPool`] the instruction that makes the
//! mistake faults.

mod ordinary;
mod special;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::fmt;
use std::ops::Range;

use crate::lock::{Innermost, Mutex, lock};
use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL, POOL_FLAG_UNINITIALIZED};

use crate::bugcheck::Bugcheck;
use crate::irql;
use crate::page::PAGE;
use crate::unwind::Frames;
use ordinary::{Ordinary, Slot};
use special::{Arena, Span};

/// POOL_FLAG_PAGED. [wdm: POOL_FLAG_PAGED]
const POOL_FLAG_PAGED: u64 = 0x100;
/// Bytes before (at least) and behind each ordinary block that must not be written.
const GUARD: usize = 16;
const FRESH: u8 = 0xa5;
const FREED: u8 = 0xdf;
const GUARD_BYTE: u8 = 0xfb;
/// Fills what a special block, and a block of contiguous memory, leaves of its pages.
pub(crate) const SLOP: u8 = 0xed;
/// Bytes between an address of special pool and a block that it may have been meant for.
const ADJACENT: usize = 2 * PAGE;
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

/// Low memory as Driver Verifier simulates it: "fails random instances of the driver's memory allocations". Which ones, the seed decides. [devtest: low resources simulation]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowResources {
    /// One in so many allocations fails, on average; every one for 1 and below.
    pub one_in: u32,
    /// Another seed, other allocations.
    pub seed: u64,
}

/// Allocations that are to fail.
struct Failing {
    one_in: u64,
    /// State of a generator of random numbers, never 0. [xorshift64]
    random: u64,
}

impl Failing {
    fn next(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.is_multiple_of(self.one_in)
    }
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
    ordinary: Ordinary,
    arena: Option<Arena>,
    failing: Option<Failing>,
    /// Allocations that failed for it.
    failed: u64,
}

#[derive(Clone, Copy)]
struct Block {
    tag: u32,
    size: usize,
    /// The frames of the driver that asked for it.
    from: Frames,
    home: Home,
}

/// Memory that a pool block is part of.
#[derive(Clone, Copy)]
enum Home {
    Ordinary(Slot),
    Special(Span),
}

/// A misuse of pool that was found, with the frames that asked for the block, if there is one.
#[derive(Debug)]
pub struct Misuse {
    pub bugcheck: Bugcheck,
    pub from: Frames,
}

impl From<Bugcheck> for Misuse {
    fn from(bugcheck: Bugcheck) -> Self {
        Self { bugcheck, from: Frames::default() }
    }
}

/// The nearest block of pool to an address that lies in no block.
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
pub(crate) fn first_other(bytes: &[u8], pattern: u8) -> Option<usize> {
    const WORD: usize = size_of::<u64>();
    let words = bytes.chunks_exact(WORD);
    let same = words.take_while(|word| **word == [pattern; WORD]).count() * WORD;
    bytes.get(same..)?.iter().position(|byte| *byte != pattern).map(|at| same + at)
}

impl Block {
    /// Bytes that count against the limit.
    fn charge(&self) -> u64 {
        match self.home {
            Home::Ordinary(_) => self.size as u64,
            Home::Special(span) => span.len as u64,
        }
    }

    /// A written byte beside the block.
    fn corrupted(&self, address: usize) -> Option<usize> {
        match self.home {
            Home::Special(span) => Arena::corrupted(span, address, self.size),
            Home::Ordinary(slot) => slot.corrupted(address, self.size),
        }
    }

    /// How a written byte beside the block is told. [debugger: 0x19] [debugger: 0xc1]
    fn corruption(&self, address: usize, corrupted: usize) -> Bugcheck {
        let after = corrupted >= address;
        let by = if after { corrupted - address - self.size + 1 } else { address - corrupted };
        let side = if after { "past the end of" } else { "before the start of" };
        let (size, tag) = (self.size, tag_name(self.tag));
        let reason = format!("written {by} bytes {side} a pool block with tag '{tag}' and {size} bytes");
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
        let reason = format!("{reason}; with special pool (--special-pool) the instruction that writes there faults");
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

    /// As [`Pool::allocate_from`], of nobody.
    pub fn allocate(&self, flags: u64, size: usize, tag: u32) -> Result<*mut c_void, Bugcheck> {
        self.allocate_from(flags, size, tag, Frames::default())
    }

    /// ExAllocatePool2, called from these frames: NULL when memory is short, the tag is 0 or the flags are invalid, a bugcheck when the request itself is wrong. [wdm: ExAllocatePool2]
    pub fn allocate_from(&self, flags: u64, size: usize, tag: u32, from: Frames) -> Result<*mut c_void, Bugcheck> {
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
        let block = if tag != 0 && are_valid(flags) { self.take(flags, size, (tag, from)) } else { None };
        Ok(block.unwrap_or(std::ptr::null_mut()))
    }

    /// Has allocations fail from now on, or no more; the number of those that failed since this was called last.
    pub fn simulate(&self, low: Option<LowResources>) -> u64 {
        let mut state = lock(&self.state);
        let failing = |low: LowResources| Failing {
            one_in: low.one_in.max(1).into(),
            // Seeds that follow each other are to give sequences that have nothing in common.
            random: (low.seed.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1),
        };
        state.failing = low.map(failing);
        std::mem::take(&mut state.failed)
    }

    /// True if an allocation is to fail, of pool or of other memory of the driver.
    pub fn fails_now(&self) -> bool {
        lock(&self.state).fails_now()
    }

    fn take(&self, flags: u64, size: usize, (tag, from): (u32, Frames)) -> Option<*mut c_void> {
        let mut state = lock(&self.state);
        if state.fails_now() {
            return None;
        }
        let special =
            (self.mode != SpecialPool::Off).then(|| state.take_special(self.mode, self.limit, size)).flatten();
        // As on Windows, where special pool is used up.
        let (address, home) = match special {
            Some(special) => special,
            None if state.fits(size as u64, self.limit) => {
                let (slot, address) = state.ordinary.allocate(size)?;
                (address, Home::Ordinary(slot))
            }
            None => return None,
        };
        let block = Block { tag, size, from, home };
        let fresh = match home {
            _ if flags & POOL_FLAG_UNINITIALIZED != 0 => Some(FRESH),
            Home::Special(_) => None,
            Home::Ordinary(_) => Some(0),
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

    /// As [`Pool::free_block`], without who asked for the block.
    pub fn free(&self, pointer: *mut c_void, tag: u32) -> Result<(), Bugcheck> {
        self.free_block(pointer, tag).map_err(|misuse| misuse.bugcheck)
    }

    /// ExFreePoolWithTag.
    pub fn free_block(&self, pointer: *mut c_void, tag: u32) -> Result<(), Misuse> {
        let level = irql::current();
        let address = pointer.addr();
        let at = address as u64;
        let violation = |parameters: [u64; 4], reason: String| {
            Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason)
        };
        if level > DISPATCH_LEVEL {
            let reason = format!("pool freed at IRQL {level}, at most DISPATCH_LEVEL is allowed");
            return Err(violation([0x12, u64::from(level), 0, at], reason).into());
        }
        let mut state = lock(&self.state);
        let Some(block) = state.blocks.get(&address).copied() else {
            if let Some(tag) = state.freed_at(address) {
                let reason = format!("pool block {at:#x} (tag {}) freed twice", tag_name(tag));
                return Err(violation([0x13, 0, at, 0], reason).into());
            }
            return Err(violation([0x10, at, 0, 0], format!("{at:#x} is not a pool block of this driver")).into());
        };
        if tag != 0 && tag != block.tag {
            let reason = format!("pool block with tag {} freed with tag {}", tag_name(block.tag), tag_name(tag));
            let parameters = [0xa, at, u64::from(block.tag), u64::from(tag)];
            return Err(Bugcheck::new(Bugcheck::BAD_POOL_CALLER, parameters, reason).into());
        }
        state.check(address, &block)?;
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

    /// The frames that asked for one of the blocks with a tag that are still allocated.
    pub fn origin(&self, tag: u32) -> Frames {
        lock(&self.state).blocks.values().find(|block| block.tag == tag).map(|block| block.from).unwrap_or_default()
    }

    /// The addresses of the block in use that begins at an address.
    pub fn block_at(&self, address: usize) -> Option<Range<usize>> {
        lock(&self.state).blocks.get(&address).map(|block| address..address + block.size)
    }

    /// The addresses of the block in use that an address is in.
    pub fn block_of(&self, address: usize) -> Option<Range<usize>> {
        let state = lock(&self.state);
        let (start, block) = state.blocks.range(..=address).next_back()?;
        Some(*start..start + block.size).filter(|range| range.contains(&address))
    }

    /// Address and size of every block in use, by address.
    pub fn blocks(&self) -> Vec<(usize, usize)> {
        lock(&self.state).blocks.iter().map(|(address, block)| (*address, block.size)).collect()
    }

    /// Fails for the first block in use beside which something was written.
    pub fn check(&self) -> Result<(), Misuse> {
        let state = lock(&self.state);
        state.blocks.iter().try_for_each(|(address, block)| state.check(*address, block))
    }

    /// Frees every block in quarantine; an error if one was written to, or beside a block in use.
    pub fn settle(&self) -> Result<(), Misuse> {
        let mut state = lock(&self.state);
        while !state.oldest.is_empty() {
            state.release_oldest()?;
        }
        state.blocks.iter().try_for_each(|(address, block)| state.check(*address, block))
    }

    /// What an address is that faulted, if it is one of special pool, or in a page beside those of ordinary pool.
    pub fn fault_at(&self, address: usize) -> Option<Owned> {
        let state = lock(&self.state);
        let near = match state.arena.as_ref().filter(|arena| arena.contains(address)) {
            Some(arena) => {
                if let Some((_, tag)) = arena.freed_at(address) {
                    return Some(Owned::Freed { tag });
                }
                address.saturating_sub(ADJACENT)..address.saturating_add(ADJACENT)
            }
            None => state.ordinary.beside(address)?,
        };
        // The page between two blocks is closer to one of them.
        let behind = state.blocks.range(..=address).next_back();
        let behind = behind.filter(|(start, block)| *start + block.size > near.start).map(|(start, block)| {
            let by = address - (start + block.size) + 1;
            Owned::Outside { tag: block.tag, size: block.size, by: by as isize }
        });
        let ahead = state.blocks.range(address..).next().filter(|(start, _)| **start < near.end);
        let ahead = ahead.map(|(start, block)| {
            let by = start - address;
            Owned::Outside { tag: block.tag, size: block.size, by: -(by as isize) }
        });
        let distance = |owned: &Owned| match owned {
            Owned::Outside { by, .. } => by.unsigned_abs(),
            Owned::Freed { .. } => 0,
        };
        [behind, ahead].into_iter().flatten().min_by_key(distance)
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

impl State {
    fn fails_now(&mut self) -> bool {
        let fails = self.failing.as_mut().is_some_and(Failing::next);
        self.failed += u64::from(fails);
        fails
    }

    /// Fails if something was written beside a block. A write that ran through several blocks is told of the one that it ran from.
    fn check(&self, address: usize, block: &Block) -> Result<(), Misuse> {
        let Some(mut corrupted) = block.corrupted(address) else { return Ok(()) };
        let (mut culprit, mut of) = (address, *block);
        while corrupted < culprit {
            let known = [&self.blocks, &self.quarantined];
            let before = known.into_iter().filter_map(|blocks| blocks.range(..culprit).next_back());
            let overrun = before.max_by_key(|(start, _)| **start).and_then(|(start, block)| {
                let (Home::Ordinary(slot), Home::Ordinary(behind)) = (block.home, of.home) else { return None };
                let touches = slot.end() == behind.start() && corrupted == behind.start();
                let from = slot.overrun(*start, block.size).filter(|_| touches)?;
                // One that was run through is not where it began.
                Some((*start, *block, slot.corrupted(*start, block.size).unwrap_or(from)))
            });
            let Some((start, block, at)) = overrun else { break };
            (culprit, of, corrupted) = (start, block, at);
        }
        Err(Misuse { bugcheck: of.corruption(culprit, corrupted), from: of.from })
    }

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
    fn put_away(&mut self, address: usize, block: Block) -> Result<(), Misuse> {
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

    fn release_oldest(&mut self) -> Result<(), Misuse> {
        let Some(address) = self.oldest.pop_front() else { return Ok(()) };
        let Some(block) = self.quarantined.remove(&address) else { return Ok(()) };
        self.quarantined_bytes -= block.size;
        let Home::Ordinary(slot) = block.home else { return Ok(()) };
        let place = std::ptr::with_exposed_provenance::<u8>(address);
        // SAFETY: a block in quarantine is memory of the pool, of `size` initialised bytes.
        let bytes = unsafe { std::slice::from_raw_parts(place, block.size) };
        let written = first_other(bytes, FREED);
        let beside = self.check(address, &block);
        self.ordinary.release(slot);
        beside?;
        let Some(offset) = written else { return Ok(()) };
        // The block was modified after it was freed. [debugger: 0x19]
        let bugcheck = Bugcheck::new(
            Bugcheck::BAD_POOL_HEADER,
            [0xf, (address + offset) as u64, 0, 0],
            format!(
                "written to freed pool, {offset} bytes into a block with tag '{}' and {} bytes, found when its address was to be used again",
                tag_name(block.tag),
                block.size
            ),
        );
        Err(Misuse { bugcheck, from: block.from })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        // Blocks still allocated stay so: a stopped machine cannot know which pointers to them are left.
        state.ordinary.unmap_unused(|range| state.blocks.range(range).next().is_some());
        let used = state.blocks.values().any(|block| matches!(block.home, Home::Special(_)));
        if let Some(arena) = state.arena.take_if(|_| !used) {
            // SAFETY: no block is left in it.
            unsafe { arena.unmap() };
        }
    }
}

#[cfg(test)]
mod tests;
