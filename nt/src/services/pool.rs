// UNSAFETY: calls functions of drivers by the addresses that they gave.
//! The pool functions before `ExAllocatePool2`, and lookaside lists above them.

use std::ffi::c_void;

use wddm_ddi::nt::{POOL_FLAG_NON_PAGED, POOL_FLAG_UNINITIALIZED};
use wddm_ddi::status::{NTSTATUS, STATUS_SUCCESS};

use super::blocks::{allocate_pool, ex_free_pool_with_tag};
use super::call::caller;
use super::lists;
use super::memory::{field, get, put};
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::{calling_instruction, on_host_stack, stop};
use crate::unwind::{CallSite, with_call_site};

pub(super) const EXPORTS: &[Export] = &[
    ("ExAllocatePoolWithTag", || ex_allocate_pool_with_tag as *const () as usize),
    ("ExAllocatePoolWithQuotaTag", || ex_allocate_pool_with_tag as *const () as usize),
    ("ExAllocatePoolWithTagPriority", || ex_allocate_pool_with_tag as *const () as usize),
    ("ExAllocatePool", || ex_allocate_pool as *const () as usize),
    ("ExFreePool", || ex_free_pool as *const () as usize),
    ("ExInitializeNPagedLookasideList", || ex_initialize_lookaside_list as *const () as usize),
    ("ExInitializePagedLookasideList", || ex_initialize_paged_lookaside_list as *const () as usize),
    ("ExInitializeLookasideListEx", || ex_initialize_lookaside_list_ex as *const () as usize),
    ("ExDeleteNPagedLookasideList", || ex_delete_lookaside_list as *const () as usize),
    ("ExDeletePagedLookasideList", || ex_delete_lookaside_list as *const () as usize),
    ("ExDeleteLookasideListEx", || ex_delete_lookaside_list_ex as *const () as usize),
    ("ExFlushLookasideListEx", || ex_flush_lookaside_list_ex as *const () as usize),
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
/// Bytes of NPAGED_LOOKASIDE_LIST and of LOOKASIDE_LIST_EX, and the least of a block, which is an entry of the list while nobody uses it.
const BYTES: usize = 128;
const EX_BYTES: usize = 96;
const LEAST_BYTES: usize = 8;
/// NonPagedPoolNx.
const NON_PAGED_NX: u32 = 512;
/// [ntstatus: STATUS_INVALID_PARAMETER_4, STATUS_INVALID_PARAMETER_5]
const STATUS_INVALID_PARAMETER_4: NTSTATUS = NTSTATUS(0xc000_00f2_u32 as i32);
const STATUS_INVALID_PARAMETER_5: NTSTATUS = NTSTATUS(0xc000_00f3_u32 as i32);

with_call_site!(fn ex_allocate_pool_with_tag(_kind: u32, _bytes: usize, _tag: u32) -> *mut c_void => allocate_with_tag);
extern "win64" fn allocate_with_tag(kind: u32, bytes: usize, tag: u32, site: *const CallSite) -> *mut c_void {
    let place = if kind & PAGED != 0 { POOL_FLAG_PAGED } else { POOL_FLAG_NON_PAGED };
    let zero = if kind & ZERO != 0 { 0 } else { POOL_FLAG_UNINITIALIZED };
    if tag == 0 {
        let parameters = [0x9b, u64::from(kind), bytes as u64, 0];
        stop(Bugcheck::new(Bugcheck::BAD_POOL_CALLER, parameters, "ExAllocatePoolWithTag without a tag"));
    }
    allocate_pool(place | zero, bytes, tag, site)
}

with_call_site!(fn ex_allocate_pool(_kind: u32, _bytes: usize) -> *mut c_void => allocate_without_tag);
extern "win64" fn allocate_without_tag(kind: u32, bytes: usize, _: usize, site: *const CallSite) -> *mut c_void {
    allocate_with_tag(kind, bytes, NONE, site)
}

/// Frees a block of whatever tag.
extern "win64" fn ex_free_pool(block: *mut c_void) {
    // SAFETY: the address is looked up.
    unsafe { ex_free_pool_with_tag(block, 0) };
}

/// Properties of a lookaside list that is initialised: its functions, 0 for those of the pool, and the bytes of its structure.
struct Lookaside {
    allocate: usize,
    free: usize,
    kind: u32,
    size: usize,
    tag: u32,
    bytes: usize,
}

/// A list was initialised or deleted wrongly; parameters 3 and 4 are told for a size alone.
fn misused(violation: u64, list: *mut c_void, sizes: [u64; 2], reason: String) -> ! {
    let parameters = [violation, list.addr() as u64, sizes[0], sizes[1]];
    stop(Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason))
}

/// An empty list, which asks the driver's functions for its blocks, or the pool. [debugger: 0xc4]
fn initialize(service: &'static str, list: *mut c_void, lookaside: &Lookaside) {
    const INITIALIZED_AGAIN: u64 = 0xca;
    const TOO_SMALL: u64 = 0xcd;
    let Lookaside { allocate, free, kind, size, tag, bytes } = *lookaside;
    if size < LEAST_BYTES {
        let reason = format!("{service} of {list:p} with blocks of {size} bytes, at least {LEAST_BYTES} are needed");
        misused(TOO_SMALL, list, [size as u64, LEAST_BYTES as u64], reason);
    }
    let (driver, from) = (caller(service), calling_instruction());
    if !on_host_stack(|| driver.lookaside_lists().initialize(list.addr(), from)) {
        let reason = format!("{service} of {list:p}, which is initialised and not deleted");
        misused(INITIALIZED_AGAIN, list, [0; 2], reason);
    }
    let or = |given: usize, own: usize| if given == 0 { own } else { given };
    (0..bytes).for_each(|at| put(service, field(list, at), 0_u8));
    put(service, field(list, DEPTH), [4_u16, 256]);
    put(service, field(list, TYPE), [kind, tag, size as u32]);
    put(service, field(list, ALLOCATE), or(allocate, ex_allocate_pool_with_tag as *const () as usize));
    put(service, field(list, FREE), or(free, ex_free_pool as *const () as usize));
}

extern "win64" fn ex_initialize_lookaside_list(
    list: *mut c_void,
    allocate: usize,
    free: usize,
    _flags: u32,
    size: usize,
    tag: u32,
    _depth: u16,
) {
    let lookaside = Lookaside { allocate, free, kind: NON_PAGED_NX, size, tag, bytes: BYTES };
    initialize("ExInitializeNPagedLookasideList", list, &lookaside);
}

extern "win64" fn ex_initialize_paged_lookaside_list(
    list: *mut c_void,
    allocate: usize,
    free: usize,
    _flags: u32,
    size: usize,
    tag: u32,
    _depth: u16,
) {
    let lookaside = Lookaside { allocate, free, kind: PAGED, size, tag, bytes: BYTES };
    initialize("ExInitializePagedLookasideList", list, &lookaside);
}

/// Of the two flags, which are about an allocation that fails, one may be set. [wdm: ExInitializeLookasideListEx]
extern "win64" fn ex_initialize_lookaside_list_ex(
    list: *mut c_void,
    allocate: usize,
    free: usize,
    kind: u32,
    flags: u32,
    size: usize,
    tag: u32,
    _depth: u16,
) -> NTSTATUS {
    const KINDS: [u32; 3] = [0, PAGED, NON_PAGED_NX];
    const FLAGS: u32 = 0x1 | 0x2;
    if !KINDS.contains(&kind) {
        return STATUS_INVALID_PARAMETER_4;
    }
    if flags & !FLAGS != 0 || flags == FLAGS {
        return STATUS_INVALID_PARAMETER_5;
    }
    let lookaside = Lookaside { allocate, free, kind, size, tag, bytes: EX_BYTES };
    initialize("ExInitializeLookasideListEx", list, &lookaside);
    STATUS_SUCCESS
}

/// Frees what is in the list, by the function that the list has for it.
fn flush(service: &'static str, list: *mut c_void) {
    type Free = unsafe extern "win64" fn(*mut c_void, *mut c_void);
    let free = get::<usize>(service, field(list, FREE));
    loop {
        let block = lists::pop(list.cast());
        if block.is_null() {
            return;
        }
        // SAFETY: the list has the address of such a function, from the driver or from here; the older kind takes the block alone.
        let free = unsafe { std::mem::transmute::<usize, Free>(free) };
        // SAFETY: the block came from the list's own function.
        unsafe { free(block.cast(), list) };
    }
}

fn delete(service: &'static str, list: *mut c_void) {
    const UNINITIALIZED: u64 = 0xcb;
    let driver = caller(service);
    if !on_host_stack(|| driver.lookaside_lists().delete(list.addr())) {
        misused(UNINITIALIZED, list, [0; 2], format!("{service} of {list:p}, which is not initialised"));
    }
    flush(service, list);
}

extern "win64" fn ex_delete_lookaside_list(list: *mut c_void) {
    delete("ExDeleteNPagedLookasideList", list);
}

extern "win64" fn ex_delete_lookaside_list_ex(list: *mut c_void) {
    delete("ExDeleteLookasideListEx", list);
}

extern "win64" fn ex_flush_lookaside_list_ex(list: *mut c_void) {
    flush("ExFlushLookasideListEx", list);
}

#[cfg(test)]
mod tests {
    use super::super::blocks::ex_allocate_pool2;
    use super::*;
    use crate::driver::Driver;
    use crate::driver_call;

    fn with_tag(kind: u32, bytes: usize, tag: u32) -> *mut c_void {
        // SAFETY: no pointers among the arguments.
        unsafe { ex_allocate_pool_with_tag(kind, bytes, tag) }
    }

    fn without_tag(kind: u32, bytes: usize) -> *mut c_void {
        // SAFETY: no pointers among the arguments.
        unsafe { ex_allocate_pool(kind, bytes) }
    }

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
        assert!(driver_call::run(&driver, "a function", || with_tag(512, 16, 0)).0.is_none());
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert_eq!((bugcheck.code, bugcheck.parameters[..3].to_vec()), (0xc2, vec![0x9b, 512, 16]));
    }

    #[test]
    fn pool_comes_and_goes_by_the_older_functions_and_lookaside_lists() {
        let driver = Driver::for_tests("pool");
        driver_call::run(&driver, "a function", || {
            let block = with_tag(512 | ZERO, 16, NONE);
            assert_eq!(get::<[u8; 16]>("a test", block.cast()), [0; 16]);
            ex_free_pool(block);
            let mut list = List([0xcc; BYTES]);
            let at = (&raw mut list).cast();
            ex_initialize_lookaside_list(at, 0, 0, 0, 48, NONE, 0);
            assert_eq!(get::<[u32; 3]>("a test", field(at, TYPE)), [512, NONE, 48]);
            lists::push(at.cast(), without_tag(0, 48).cast());
            ex_delete_lookaside_list(at);
        })
        .0
        .unwrap();
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    #[repr(C, align(16))]
    struct List([u8; BYTES]);

    fn list() -> *mut c_void {
        Box::into_raw(Box::new(List([0; BYTES]))).cast()
    }

    fn initialize_ex(list: *mut c_void, size: usize) -> NTSTATUS {
        ex_initialize_lookaside_list_ex(list, 0, 0, NON_PAGED_NX, 0, size, NONE, 0)
    }

    #[test]
    fn lookaside_lists_are_initialised_once_and_deleted_once_and_left_nowhere() {
        type Misuse = fn(*mut c_void);
        let misuses: [(Misuse, [u64; 2]); 5] = [
            (
                |list| {
                    let _ = (initialize_ex(list, 48), initialize_ex(list, 48));
                },
                [0xc4, 0xca],
            ),
            (|list| ex_delete_lookaside_list_ex(list), [0xc4, 0xcb]),
            (
                |list| {
                    let _ = initialize_ex(list, 4);
                },
                [0xc4, 0xcd],
            ),
            (
                |_| {
                    let block = without_tag(0, 256);
                    let _ = initialize_ex(block.wrapping_byte_add(16), 48);
                    ex_free_pool(block);
                },
                [0xc4, 0xcc],
            ),
            (
                |list| {
                    let _ = initialize_ex(list, 48);
                },
                [0xce, 0],
            ),
        ];
        for (number, (misuse, [code, first])) in misuses.into_iter().enumerate() {
            let (driver, list) = (Driver::for_tests("lists"), list());
            driver_call::run(&driver, "a function", || misuse(list));
            driver.check_unloaded();
            let bugcheck = driver.verifier().bugcheck().expect("the machine stops");
            let first = if code == 0xce { list.addr() as u64 } else { first };
            assert_eq!([u64::from(bugcheck.code), bugcheck.parameters[0]], [code, first], "{number}: {bugcheck}");
        }
    }

    #[test]
    fn a_lookaside_list_gives_its_blocks_to_the_function_that_frees_them_and_refuses_what_it_does_not_know() {
        static FREED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        unsafe extern "win64" fn free(block: *mut c_void, _list: *mut c_void) {
            FREED.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            ex_free_pool(block);
        }
        let driver = Driver::for_tests("functions");
        driver_call::run(&driver, "a function", || {
            let list = list();
            let of = |kind, flags| {
                ex_initialize_lookaside_list_ex(list, 0, free as *const () as usize, kind, flags, 48, NONE, 0)
            };
            assert_eq!([of(7, 0), of(PAGED, 3)], [STATUS_INVALID_PARAMETER_4, STATUS_INVALID_PARAMETER_5]);
            assert_eq!(of(PAGED, 2), STATUS_SUCCESS);
            lists::push(list.cast(), without_tag(0, 48).cast());
            ex_flush_lookaside_list_ex(list);
            lists::push(list.cast(), without_tag(0, 48).cast());
            ex_delete_lookaside_list_ex(list);
        })
        .0
        .unwrap();
        assert_eq!(FREED.load(std::sync::atomic::Ordering::SeqCst), 2);
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
    }
}
