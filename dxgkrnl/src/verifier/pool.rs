// UNSAFETY: hands out and takes back raw memory on behalf of a driver.
//! Pool of one driver: every block with its tag, checked when it is given back.
//!
//! Stricter than Windows without special pool: memory is filled with a pattern at allocation and at release, a few guard bytes
//! follow each block, and released blocks rest a while before the address is used again, so that writes to them are noticed.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::c_void;
use std::sync::Mutex;

use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL, POOL_FLAG_UNINITIALIZED};

use super::Bugcheck;
use crate::irql;
use crate::machine::lock;

/// POOL_FLAG_PAGED. [wdm: POOL_FLAG_PAGED]
const POOL_FLAG_PAGED: u64 = 0x100;
/// Bytes behind each block that nobody may write.
const GUARD: usize = 16;
const FRESH: u8 = 0xa5;
const FREED: u8 = 0xdf;
const GUARD_BYTE: u8 = 0xfb;
/// Released blocks that rest, and their bytes.
const RESTING: usize = 256;
const RESTING_BYTES: usize = 1 << 20;

/// Pool blocks of one driver.
pub(crate) struct Pool {
    limit: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    blocks: HashMap<usize, Block>,
    bytes: u64,
    resting: VecDeque<(usize, Block)>,
    resting_bytes: usize,
}

#[derive(Clone, Copy)]
struct Block {
    tag: u32,
    size: usize,
    layout: Layout,
}

/// A tag as the debugger prints it.
pub(crate) fn tag_name(tag: u32) -> String {
    tag.to_le_bytes().iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' }).collect()
}

impl Pool {
    /// A pool that gives out at most `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, state: Mutex::new(State::default()) }
    }

    /// ExAllocatePool2: NULL when memory is short, a bugcheck when the request itself is wrong.
    pub(crate) fn allocate(&self, flags: u64, size: usize, tag: u32) -> Result<*mut c_void, Bugcheck> {
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
        Ok(self.take(flags, size, tag).unwrap_or(std::ptr::null_mut()))
    }

    fn take(&self, flags: u64, size: usize, tag: u32) -> Option<*mut c_void> {
        let align = if size >= 4096 { 4096 } else { 16 };
        let layout = Layout::from_size_align(size.checked_add(GUARD)?, align).ok()?;
        let mut state = lock(&self.state);
        let bytes = state.bytes.checked_add(size as u64).filter(|bytes| *bytes <= self.limit)?;
        // SAFETY: the layout has a size above zero.
        let block = unsafe { alloc(layout) };
        if block.is_null() {
            return None;
        }
        let fill = if flags & POOL_FLAG_UNINITIALIZED != 0 { FRESH } else { 0 };
        // SAFETY: the block has `size` bytes.
        unsafe { block.write_bytes(fill, size) };
        // SAFETY: the guard lies inside the block, behind `size`.
        let guard = unsafe { block.add(size) };
        // SAFETY: the guard has GUARD bytes.
        unsafe { guard.write_bytes(GUARD_BYTE, GUARD) };
        state.bytes = bytes;
        state.blocks.insert(block.addr(), Block { tag, size, layout });
        Some(block.expose_provenance_to_driver())
    }

    /// ExFreePoolWithTag.
    pub(crate) fn free(&self, pointer: *mut c_void, tag: u32) -> Result<(), Bugcheck> {
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
            if let Some((_, block)) = state.resting.iter().find(|(freed, _)| *freed == address) {
                let reason = format!("pool block {at:#x} (tag {}) freed twice", tag_name(block.tag));
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
        let guard = pointer.cast::<u8>().wrapping_add(block.size);
        // SAFETY: the guard follows the block's `size` bytes and was written when it was handed out.
        let guard = unsafe { std::slice::from_raw_parts(guard, GUARD) };
        if let Some(over) = guard.iter().position(|byte| *byte != GUARD_BYTE) {
            let reason = format!("written {} bytes past pool block with tag {}", over + 1, tag_name(block.tag));
            let parameters = [at, at + (block.size + over) as u64, 0, 0x23];
            return Err(Bugcheck::new(Bugcheck::SPECIAL_POOL_DETECTED_MEMORY_CORRUPTION, parameters, reason));
        }
        // SAFETY: the block belongs to the pool again and has `size` bytes.
        unsafe { pointer.cast::<u8>().write_bytes(FREED, block.size) };
        state.blocks.remove(&address);
        state.bytes -= block.size as u64;
        state.resting_bytes += block.size;
        state.resting.push_back((address, block));
        while state.resting.len() > RESTING || state.resting_bytes > RESTING_BYTES {
            state.release_oldest()?;
        }
        Ok(())
    }

    /// What is still allocated: bytes and blocks by tag.
    pub(crate) fn outstanding(&self) -> BTreeMap<u32, (u64, u64)> {
        let mut tags = BTreeMap::<u32, (u64, u64)>::new();
        for block in lock(&self.state).blocks.values() {
            let entry = tags.entry(block.tag).or_default();
            entry.0 += block.size as u64;
            entry.1 += 1;
        }
        tags
    }

    /// Lets every resting block go; an error if one was written to.
    pub(crate) fn settle(&self) -> Result<(), Bugcheck> {
        let mut state = lock(&self.state);
        while !state.resting.is_empty() {
            state.release_oldest()?;
        }
        Ok(())
    }
}

/// Pool memory leaves this crate as a bare address.
trait Expose {
    fn expose_provenance_to_driver(self) -> *mut c_void;
}

impl Expose for *mut u8 {
    fn expose_provenance_to_driver(self) -> *mut c_void {
        let _ = self.expose_provenance();
        self.cast()
    }
}

impl State {
    fn release_oldest(&mut self) -> Result<(), Bugcheck> {
        let Some((address, block)) = self.resting.pop_front() else { return Ok(()) };
        self.resting_bytes -= block.size;
        let pointer = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: a resting block is allocated memory of `size` initialised bytes.
        let bytes = unsafe { std::slice::from_raw_parts(pointer, block.size) };
        let written = bytes.iter().position(|byte| *byte != FREED);
        // SAFETY: the block was allocated with this layout and is forgotten here.
        unsafe { dealloc(pointer, block.layout) };
        match written {
            None => Ok(()),
            Some(offset) => Err(Bugcheck::new(
                Bugcheck::PAGE_FAULT_IN_FREED_SPECIAL_POOL,
                [(address + offset) as u64, 1, 0, 0],
                format!("written to freed pool, {offset} bytes into a block with tag {}", tag_name(block.tag)),
            )),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Blocks still allocated stay so: a stopped machine cannot know who refers to them.
        for (address, block) in state.resting.drain(..) {
            // SAFETY: resting blocks belong to the pool alone.
            unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address), block.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::nt::POOL_FLAG_NON_PAGED;

    const TAG: u32 = u32::from_le_bytes(*b"Test");

    fn pool() -> Pool {
        Pool::new(1 << 20)
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

    #[test]
    fn writes_beyond_and_after_a_block_are_noticed() {
        let pool = pool();
        let block = pool.allocate(POOL_FLAG_NON_PAGED, 24, TAG).unwrap();
        // SAFETY: the guard behind the block is memory of the pool; writing it is what the test is about.
        unsafe { block.cast::<u8>().wrapping_add(24).write(1) };
        let bugcheck = pool.free(block, TAG).unwrap_err();
        assert_eq!((bugcheck.code, bugcheck.parameters[3]), (0xc1, 0x23));
        let block = pool.allocate(POOL_FLAG_NON_PAGED, 24, TAG).unwrap();
        pool.free(block, TAG).unwrap();
        // SAFETY: a resting block is still memory of the pool.
        unsafe { block.cast::<u8>().wrapping_add(3).write(1) };
        assert_eq!(pool.settle().unwrap_err().code, 0xcc);
    }
}
