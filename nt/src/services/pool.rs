//! The pool functions before `ExAllocatePool2`, and lookaside lists above them.

use std::ffi::c_void;

use wddm_ddi::nt::{POOL_FLAG_NON_PAGED, POOL_FLAG_UNINITIALIZED};

use super::memory::{field, get, put};
use super::{ex_allocate_pool2, ex_free_pool_with_tag, lists};
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::stop;

pub(super) const EXPORTS: &[Export] = &[
    ("ExAllocatePoolWithTag", || ex_allocate_pool_with_tag as *const () as usize),
    ("ExAllocatePoolWithQuotaTag", || ex_allocate_pool_with_tag as *const () as usize),
    ("ExAllocatePoolWithTagPriority", || ex_allocate_pool_with_tag as *const () as usize),
    ("ExAllocatePool", || ex_allocate_pool as *const () as usize),
    ("ExFreePool", || ex_free_pool as *const () as usize),
    ("ExInitializeNPagedLookasideList", || ex_initialize_lookaside_list as *const () as usize),
    ("ExDeleteNPagedLookasideList", || ex_delete_lookaside_list as *const () as usize),
    ("ExDeletePagedLookasideList", || ex_delete_lookaside_list as *const () as usize),
];

/// Bits of POOL_TYPE: paged, zeroed. [wdm: POOL_TYPE]
const PAGED: u32 = 1;
const ZERO: u32 = 0x400;
const POOL_FLAG_PAGED: u64 = 0x100;
/// The tag of blocks that were asked for without one.
const NONE: u32 = u32::from_le_bytes(*b"None");

/// Offsets of GENERAL_LOOKASIDE, which `ExAllocateFromNPagedLookasideList` of the kit's headers reads.
const DEPTH: usize = 16;
const TYPE: usize = 36;
const ALLOCATE: usize = 48;
const FREE: usize = 56;
const BYTES: usize = 128;

extern "win64" fn ex_allocate_pool_with_tag(kind: u32, bytes: usize, tag: u32) -> *mut c_void {
    let place = if kind & PAGED != 0 { POOL_FLAG_PAGED } else { POOL_FLAG_NON_PAGED };
    let zero = if kind & ZERO != 0 { 0 } else { POOL_FLAG_UNINITIALIZED };
    if tag == 0 {
        let parameters = [0x9b, u64::from(kind), bytes as u64, 0];
        stop(Bugcheck::new(Bugcheck::BAD_POOL_CALLER, parameters, "ExAllocatePoolWithTag without a tag"));
    }
    // SAFETY: no pointers among the arguments.
    unsafe { ex_allocate_pool2(place | zero, bytes, tag) }
}

extern "win64" fn ex_allocate_pool(kind: u32, bytes: usize) -> *mut c_void {
    ex_allocate_pool_with_tag(kind, bytes, NONE)
}

/// Frees a block of whatever tag.
extern "win64" fn ex_free_pool(block: *mut c_void) {
    // SAFETY: the address is looked up.
    unsafe { ex_free_pool_with_tag(block, 0) };
}

/// An empty list, which asks the driver's functions for its blocks, or the pool.
extern "win64" fn ex_initialize_lookaside_list(
    list: *mut c_void,
    allocate: usize,
    free: usize,
    _flags: u32,
    size: usize,
    tag: u32,
    _depth: u16,
) {
    const NAME: &str = "ExInitializeNPagedLookasideList";
    let or = |given: usize, own: usize| if given == 0 { own } else { given };
    put(NAME, list.cast(), [0_u8; BYTES]);
    put(NAME, field(list, DEPTH), [4_u16, 256]);
    // Type (NonPagedPoolNx), tag, size.
    put(NAME, field(list, TYPE), [512_u32, tag, size as u32]);
    put(NAME, field(list, ALLOCATE), or(allocate, ex_allocate_pool_with_tag as *const () as usize));
    put(NAME, field(list, FREE), or(free, ex_free_pool as *const () as usize));
}

/// Frees what is in the list.
extern "win64" fn ex_delete_lookaside_list(list: *mut c_void) {
    const NAME: &str = "ExDeleteNPagedLookasideList";
    let own = get::<usize>(NAME, field(list, FREE)) == ex_free_pool as *const () as usize;
    loop {
        let block = lists::pop(list.cast());
        if block.is_null() {
            return;
        }
        if own {
            ex_free_pool(block.cast());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::driver_call;

    #[test]
    fn invalid_flags_give_no_pool_and_raise_an_exception_if_that_is_asked_for() {
        let driver = Driver::for_tests("flags");
        // SAFETY: no pointers among the arguments.
        let allocate = |flags| unsafe { ex_allocate_pool2(flags, 16, NONE) };
        driver_call::run(&driver, "a function", || {
            // No type, two types, an attribute that is reserved, one that is unknown.
            for flags in [0, 0x2, 0x140, 0xc0, 0x40 | 0x10, 0x40 | 0x200, 0x40 | 0x8000_0000] {
                assert!(allocate(flags).is_null(), "{flags:#x}");
            }
            // Optional attributes may be unknown.
            for flags in [0x40, 0x41, 0x80, 0x100, 0x4a, 0x60, 0x40 | 1 << 40] {
                let block = allocate(flags);
                assert!(!block.is_null(), "{flags:#x}");
                ex_free_pool(block);
            }
        })
        .0
        .unwrap();
        assert!(driver_call::run(&driver, "a function", || allocate(0x20)).0.is_none());
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x1e, 0xc000_009a), "{bugcheck}");
        assert!(bugcheck.reason.contains("ExAllocatePool2 raised exception 0xc000009a"), "{bugcheck}");
    }

    #[test]
    fn pool_without_a_tag_is_refused_by_the_newest_function_and_stops_the_machine_by_the_older_ones() {
        // "Tag is set to 0 or invalid POOL_FLAGS are specified": NULL. [wdm: ExAllocatePool2]
        let driver = Driver::for_tests("no tag");
        // SAFETY: no pointers among the arguments.
        let block = driver_call::run(&driver, "a function", || unsafe { ex_allocate_pool2(0x40, 16, 0) }).0.unwrap();
        assert!(block.is_null());
        assert_eq!(driver.verifier().bugcheck(), None);
        let told = driver.verifier().log_lines().concat();
        assert!(told.contains("ExAllocatePool2 of 16 bytes with tag 0 answers NULL"), "{told}");
        assert!(driver_call::run(&driver, "a function", || ex_allocate_pool_with_tag(512, 16, 0)).0.is_none());
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert_eq!((bugcheck.code, bugcheck.parameters[..3].to_vec()), (0xc2, vec![0x9b, 512, 16]));
    }

    #[test]
    fn pool_comes_and_goes_by_the_older_functions_and_lookaside_lists() {
        #[repr(C, align(16))]
        struct List([u8; BYTES]);
        let driver = Driver::for_tests("pool");
        driver_call::run(&driver, "a function", || {
            let block = ex_allocate_pool_with_tag(512 | ZERO, 16, NONE);
            assert_eq!(get::<[u8; 16]>("a test", block.cast()), [0; 16]);
            ex_free_pool(block);
            let mut list = List([0xcc; BYTES]);
            let at = (&raw mut list).cast();
            ex_initialize_lookaside_list(at, 0, 0, 0, 48, NONE, 0);
            assert_eq!(get::<[u32; 3]>("a test", field(at, TYPE)), [512, NONE, 48]);
            lists::push(at.cast(), ex_allocate_pool(0, 48).cast());
            ex_delete_lookaside_list(at);
        })
        .0
        .unwrap();
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
    }
}
