// UNSAFETY: writes to memory that the pool handed out, beside it and after it was given back.
//! Tests of pool.

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
fn allocations_fail_at_random_while_low_memory_is_simulated() {
    let pool = pool();
    let sequence = |low| {
        pool.simulate(Some(low));
        let blocks: Vec<_> = (0..200).map(|_| pool.allocate(POOL_FLAG_NON_PAGED, 16, TAG).unwrap()).collect();
        let failed: Vec<bool> = blocks.iter().map(|block| block.is_null()).collect();
        blocks.into_iter().filter(|block| !block.is_null()).for_each(|block| pool.free(block, TAG).unwrap());
        assert_eq!(pool.simulate(None), failed.iter().filter(|failed| **failed).count() as u64);
        failed
    };
    let some = sequence(LowResources { one_in: 8, seed: 1 });
    let count = some.iter().filter(|failed| **failed).count();
    assert!((5..80).contains(&count), "{count} of 200");
    assert_eq!(sequence(LowResources { one_in: 8, seed: 1 }), some, "the same seed");
    assert_ne!(sequence(LowResources { one_in: 8, seed: 2 }), some, "another one");
    assert_eq!(sequence(LowResources { one_in: 1, seed: 0 }), [true; 200]);
    assert!(!pool.allocate(POOL_FLAG_NON_PAGED, 16, TAG).unwrap().is_null(), "memory is there again");
}

#[test]
fn every_misuse_of_pool_has_its_documented_code() {
    let pool = pool();
    let parameter = |result: Result<(), Bugcheck>| {
        let bugcheck = result.unwrap_err();
        (bugcheck.code, bugcheck.parameters[0])
    };
    assert_eq!(parameter(pool.allocate(POOL_FLAG_NON_PAGED, 0, TAG).map(|_| ())), (0xc4, 0x0));
    assert!(pool.allocate(POOL_FLAG_NON_PAGED, 8, 0).unwrap().is_null(), "no memory without a tag");
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
        let bugcheck = pool.settle().unwrap_err().bugcheck;
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

/// Fills bytes behind a block of 32 bytes.
fn overrun(block: *mut c_void, bytes: usize) {
    // SAFETY: what lies around a block is memory of the pool; writing it is what the tests are about.
    unsafe { block.cast::<u8>().wrapping_add(32).write_bytes(1, bytes) };
}

#[test]
fn an_overrun_of_up_to_a_page_reaches_memory_of_the_pool_alone_and_is_a_bad_pool_header_of_the_block_that_was_overrun()
{
    for bytes in [16, 48, 64, 128, 512, 4096] {
        let pool = pool();
        let blocks: Vec<_> = (0..400).map(|_| pool.allocate(POOL_FLAG_NON_PAGED, 32, TAG).unwrap()).collect();
        // Data of this program beside which blocks of its heap would lie.
        let own: Vec<Box<[u8; 32]>> = (0..400).map(|_| Box::new([7; 32])).collect();
        overrun(blocks[100], bytes);
        assert!(own.iter().all(|data| **data == [7; 32]), "{bytes} bytes");
        let at = blocks[100].addr() as u64;
        let told = |bugcheck: Bugcheck| {
            assert_eq!((bugcheck.code, bugcheck.parameters), (0x19, [0x21, at, 32, 1]), "{bytes}: {bugcheck}");
            assert!(bugcheck.reason.contains("'Test'"), "{bugcheck}");
            assert!(bugcheck.reason.contains("32 bytes"), "{bugcheck}");
            assert!(bugcheck.reason.contains("special pool"), "{bugcheck}");
        };
        if bytes > 16 {
            told(pool.free(blocks[101], TAG).expect_err("the block behind was written to"));
        }
        told(pool.free(blocks[100], TAG).expect_err("the block was overrun"));
        told(pool.check().expect_err("a block in use was overrun").bugcheck);
        assert_eq!(pool.free(blocks[99], TAG), Ok(()));
    }
}

#[test]
fn an_overrun_into_a_freed_block_is_told_of_the_block_that_was_overrun() {
    let pool = pool();
    let blocks: Vec<_> = (0..8).map(|_| pool.allocate(POOL_FLAG_NON_PAGED, 32, TAG).unwrap()).collect();
    blocks[4..].iter().for_each(|block| pool.free(*block, TAG).unwrap());
    overrun(blocks[3], 128);
    let bugcheck = pool.settle().unwrap_err().bugcheck;
    assert_eq!((bugcheck.code, bugcheck.parameters), (0x19, [0x21, blocks[3].addr() as u64, 32, 1]), "{bugcheck}");
}

#[test]
fn a_write_that_leaves_the_pages_of_ordinary_pool_faults_and_the_block_is_named() {
    let pool = pool();
    for size in [32, 4096, 5000] {
        let block = pool.allocate(POOL_FLAG_NON_PAGED, size, TAG).unwrap();
        let place = (0..1 << 20).step_by(4096).map(|by| block.addr() + by);
        let mut places = place.map(|address| address & !(PAGE - 1)).skip(1);
        let page =
            places.find(|at| guarded::probe(std::ptr::with_exposed_provenance(*at), 1).is_err()).expect("an end");
        assert!(pool.fault_at(page).is_some(), "{size}: the page behind the pages of pool belongs to it");
        assert_eq!(pool.fault_at(block.addr()), None, "{size}: a block that can be accessed");
        assert_eq!(block.addr() % if size >= PAGE { PAGE } else { 16 }, 0);
    }
    let own = Box::new(0_u64);
    assert_eq!(pool.fault_at((&raw const *own).addr()), None);
}
