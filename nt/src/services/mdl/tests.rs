//! Tests of memory descriptor lists.

use super::super::contiguous::{mm_allocate_contiguous_memory, mm_free_contiguous_memory};
use super::*;
use crate::driver::{Driver, Host, Services};
use crate::driver_call;
use crate::pool::SpecialPool;
use crate::ram::Ram;
use std::sync::Arc;

fn driver() -> Arc<Driver> {
    driver_with(1 << 20)
}

/// A driver on a machine with so many bytes of memory, which pool is charged to.
fn driver_with(memory: u64) -> Arc<Driver> {
    let (verifier, ram) = (Arc::default(), Ram::new(memory).unwrap());
    let host = Host {
        verifier: &verifier,
        ram: &ram,
        special_pool: SpecialPool::Off,
        registry: &crate::registry::RegistryKey::default(),
        services: &Services::NONE,
    };
    Driver::new("memory", &host, None)
}

#[test]
fn the_header_of_a_list_is_that_of_windows() {
    assert_eq!((HEADER, std::mem::offset_of!(MDL, MdlFlags)), (48, FLAGS));
    assert_eq!((std::mem::offset_of!(MDL, MappedSystemVa), std::mem::offset_of!(MDL, StartVa)), (MAPPED_VA, 32));
    assert_eq!(mm_size_of_mdl(0x1fff, 2), 48 + 16);
}

#[test]
fn contiguous_memory_is_described_page_by_page() {
    let driver = driver();
    driver_call::run(&driver, "a function", || {
        let memory = mm_allocate_contiguous_memory(2 * PAGE, u64::MAX);
        let physical = driver.physical_address(memory.addr()).unwrap();
        let mdl = io_allocate_mdl(memory.addr() + 8, 2 * PAGE as u32 - 8, 0, 0, std::ptr::null_mut());
        mm_build_mdl(mdl);
        assert_eq!(get::<[u64; 2]>("a test", field(mdl, HEADER)), [physical / 4096, physical / 4096 + 1]);
        assert_eq!(mm_map_locked_pages(mdl, 0), memory.addr() + 8);
        mm_unmap_locked_pages(memory.addr() + 8, mdl);
        io_free_mdl(mdl);
        mm_free_contiguous_memory(memory);
        assert!(mm_allocate_contiguous_memory(PAGE, 10).is_null(), "nothing lies below address 10");
    })
    .0
    .unwrap();
    driver.check_unloaded();
    assert_eq!(driver.verifier().bugcheck(), None);
}

#[test]
fn pages_of_a_list_are_zero_in_their_range_and_as_many_as_there_are() {
    let driver = driver();
    driver_call::run(&driver, "a function", || {
        let mdl = mm_allocate_pages_for_mdl_ex(0, u64::MAX, 0, 3 * PAGE - 5, 1, FULLY_REQUIRED);
        let at = mm_map_locked_pages_specify_cache(mdl, 0, 1, std::ptr::null_mut(), 0, 0);
        assert_eq!(range("a test", mdl), (at, 3 * PAGE));
        assert_eq!(get::<[u64; 64]>("a test", std::ptr::with_exposed_provenance(at + 2 * PAGE)), [0; 64]);
        let physical = driver.ram().unwrap().physical_address(at).unwrap() / PAGE_SIZE;
        assert_eq!(get::<[u64; 3]>("a test", field(mdl, HEADER)), [physical, physical + 1, physical + 2]);
        mm_unmap_locked_pages(at, mdl);
        mm_free_pages_from_mdl(mdl);
        // SAFETY: the address is looked up.
        unsafe { ex_free_pool_with_tag(mdl, 0) };
        let few = mm_allocate_pages_for_mdl(0, u64::MAX, 0, 2 << 20);
        let (_, bytes) = range("a test", few);
        assert!(bytes > 0 && bytes < 2 << 20, "as many as there are: {bytes:#x}");
        mm_free_pages_from_mdl(few);
        // SAFETY: as above.
        unsafe { ex_free_pool_with_tag(few, 0) };
        for (high, skip, total, flags) in [
            (10, 0, PAGE, 0),
            (u64::MAX, 0, 0, 0),
            (u64::MAX, 0, 2 << 20, FULLY_REQUIRED),
            (u64::MAX, 0, 2 << 20, CONTIGUOUS_CHUNKS),
            (u64::MAX, 3 * PAGE_SIZE, 3 * PAGE, CONTIGUOUS_CHUNKS),
            (u64::MAX, 2 * PAGE_SIZE, 3 * PAGE, CONTIGUOUS_CHUNKS),
            (u64::MAX, 2 << 20, 2 << 20, CONTIGUOUS_CHUNKS | FAST_LARGE_PAGES),
            (u64::MAX, 0, usize::MAX, 0),
        ] {
            let none = mm_allocate_pages_for_mdl_ex(0, high, skip, total, 1, flags);
            assert!(none.is_null(), "{high:#x} {skip:#x} {total:#x} {flags:#x}");
        }
    })
    .0
    .unwrap();
    driver.check_unloaded();
    assert_eq!(driver.verifier().bugcheck(), None);
}

fn mm_unlock_twice(mdl: *mut c_void) {
    mm_unlock_pages(mdl);
    mm_unlock_pages(mdl);
}

#[test]
fn pages_of_a_list_are_freed_once_by_their_list_and_at_no_high_level() {
    let after = |misuse: fn(*mut c_void), told: &str, first: [u64; 2]| {
        let driver = driver();
        let call = || misuse(mm_allocate_pages_for_mdl(0, u64::MAX, 0, PAGE));
        assert_eq!(driver_call::run(&driver, "a function", call).0, None);
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert!(bugcheck.reason.contains(told), "{bugcheck}");
        assert_eq!([bugcheck.code.into(), bugcheck.parameters[0]], first, "{bugcheck}");
    };
    after(mm_unlock_twice, "MmUnlockPages of list", [0xc4, UNLOCKED_UNLOCKED]);
    after(|mdl| lock_pages(mdl, 0, 0, std::ptr::null()), "locked already", [0xc4, LOCKED_AGAIN]);
    after(|mdl| io_free_mdl(mdl), "whose pages are locked", [0x76, 0]);
    after(|mdl| mm_unmap_locked_pages(0x1000, mdl), "which is not mapped", [0xda, 6]);
    after(
        |mdl| {
            let mapped = mm_map_locked_pages(mdl, 0);
            mm_unmap_locked_pages(mapped + PAGE, mdl);
        },
        "which is mapped at",
        [0xda, 3],
    );
    after(
        |mdl| {
            mm_unlock_pages(mdl);
            mm_map_locked_pages(mdl, 0);
        },
        "MmMapLockedPages of list",
        [0xc4, MAPPED_UNLOCKED],
    );
    after(
        |mdl| {
            mm_free_pages_from_mdl(mdl);
            mm_free_pages_from_mdl(mdl);
        },
        "or twice",
        [0xc4, UNLOCKED_UNLOCKED],
    );
    after(
        |mdl| {
            mm_map_locked_pages(mdl, 0);
            mm_free_pages_from_mdl(mdl);
        },
        "mapped",
        [0xc4, FREED_MAPPED],
    );
    after(
        |mdl| {
            irql::set(DISPATCH_LEVEL + 1);
            mm_free_pages_from_mdl(mdl);
        },
        "MmFreePagesFromMdl at IRQL 3",
        [0xc4, PAGES_HIGH],
    );
    let driver = driver();
    driver_call::run(&driver, "a function", || mm_allocate_pages_for_mdl(0, u64::MAX, 0, PAGE));
    driver.check_unloaded();
    assert!(driver.verifier().bugcheck().is_some(), "pages that nobody freed");
}

#[test]
fn memory_that_is_not_there_is_not_locked_and_a_leak_is_found() {
    let driver = driver();
    let (result, _) = driver_call::run(&driver, "a function", || {
        let mdl = io_allocate_mdl(0x7fff_ffff_f000, 16, 0, 0, std::ptr::null_mut());
        lock_pages(mdl, 0, 1, std::ptr::null());
    });
    assert_eq!(result, None);
    let bugcheck = driver.verifier().bugcheck().unwrap();
    assert!(bugcheck.reason.starts_with("MmProbeAndLockPages with a bad pointer"), "{bugcheck}");
    let driver = self::driver();
    driver_call::run(&driver, "a function", || mm_allocate_contiguous_memory(PAGE, u64::MAX));
    driver.check_unloaded();
    assert!(driver.verifier().bugcheck().unwrap().reason.contains("1 block(s) of contiguous memory"));
}

fn locked_pool() -> (*mut c_void, *mut c_void) {
    // SAFETY: no pointers among the arguments.
    let block = unsafe { ex_allocate_pool2(POOL_FLAG_NON_PAGED, 2 * PAGE, TAG) };
    let mdl = io_allocate_mdl(block.addr(), 2 * PAGE as u32, 0, 0, std::ptr::null_mut());
    lock_pages(mdl, 0, 2, std::ptr::null());
    (block, mdl)
}

fn map(mdl: *mut c_void, mode: i8) -> usize {
    mm_map_locked_pages_specify_cache(mdl, mode, 1, std::ptr::null_mut(), 0, 0)
}

#[test]
fn a_list_is_mapped_for_the_kernel_and_for_user_mode_and_only_the_first_is_mdl_mapped_to_system_va() {
    let driver = driver();
    driver_call::run(&driver, "a function", || {
        let flags = |mdl| get::<i16>("a test", field(mdl, FLAGS)) & MAPPED;
        for order in 0..2 {
            let (block, mdl) = locked_pool();
            let user = map(mdl, 1);
            assert_eq!(flags(mdl), 0, "a mapping for user mode is none of the system");
            let kernel = map(mdl, 0);
            assert_eq!(flags(mdl), MAPPED);
            for mapping in if order == 0 { [user, kernel] } else { [kernel, user] } {
                mm_unmap_locked_pages(mapping, mdl);
            }
            assert_eq!(flags(mdl), 0);
            mm_unlock_pages(mdl);
            io_free_mdl(mdl);
            // SAFETY: the address is looked up.
            unsafe { ex_free_pool_with_tag(block, TAG) };
        }
    })
    .0
    .unwrap();
    driver.check_unloaded();
    assert_eq!(driver.verifier().bugcheck(), None);
}

#[test]
fn a_list_is_not_freed_while_user_mode_has_a_mapping_and_no_mapping_is_undone_twice() {
    let after = |misuse: fn(*mut c_void), first: [u64; 2]| {
        let driver = driver();
        assert_eq!(driver_call::run(&driver, "a function", || misuse(locked_pool().1)).0, None);
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert_eq!([bugcheck.code.into(), bugcheck.parameters[0]], first, "{bugcheck}");
    };
    let undone_twice: fn(*mut c_void) = |mdl| {
        let user = map(mdl, 1);
        mm_unmap_locked_pages(user, mdl);
        mm_unmap_locked_pages(user, mdl);
    };
    after(undone_twice, [0xda, 6]);
    let freed: fn(*mut c_void) = |mdl| {
        map(mdl, 1);
        mm_unlock_pages(mdl);
        io_free_mdl(mdl);
    };
    after(freed, [0xc4, FREED_MAPPED]);
}

#[test]
fn page_frame_numbers_of_pool_are_one_for_each_page_and_no_memory_of_the_machine_and_told() {
    let driver = driver();
    driver_call::run(&driver, "a function", || {
        let (block, locked) = locked_pool();
        let built = io_allocate_mdl(block.addr(), 2 * PAGE as u32, 0, 0, std::ptr::null_mut());
        mm_build_mdl(built);
        let numbers = |mdl| get::<[u64; 2]>("a test", field(mdl, HEADER));
        let [first, second] = numbers(locked);
        assert_eq!(numbers(built), [first, second], "the same pages");
        assert_eq!(second, first + 1, "pages that follow each other");
        let beyond = driver.ram().unwrap().size() / PAGE_SIZE;
        assert!(first >= beyond && first < 1 << 40, "{first:#x}: a physical address of 52 bits beyond all memory");
        io_free_mdl(built);
        mm_unlock_pages(locked);
        io_free_mdl(locked);
        // SAFETY: the address is looked up.
        unsafe { ex_free_pool_with_tag(block, TAG) };
    })
    .0
    .unwrap();
    assert_eq!(driver.verifier().bugcheck(), None);
    let told = driver.verifier().log_lines().concat();
    assert!(told.contains("MmProbeAndLockPages") && told.contains("MmAllocatePagesForMdlEx"), "{told}");
}

#[test]
fn a_list_that_is_freed_twice_is_told_so() {
    let driver = driver();
    driver_call::run(&driver, "a function", || {
        let mdl = io_allocate_mdl(0x1000, 16, 0, 0, std::ptr::null_mut());
        io_free_mdl(mdl);
        io_free_mdl(mdl);
    });
    let bugcheck = driver.verifier().bugcheck().unwrap();
    assert_eq!([bugcheck.code.into(), bugcheck.parameters[0]], [0xc4, 0x13], "{bugcheck}");
    assert!(bugcheck.reason.contains("IoFreeMdl") && bugcheck.reason.contains("freed before"), "{bugcheck}");
}

#[test]
fn the_exception_of_an_address_of_user_mode_that_is_not_there_is_kmode_exception_not_handled() {
    let driver = driver();
    driver_call::run(&driver, "a function", || {
        let mdl = io_allocate_mdl(0x2_0000, 4096, 0, 0, std::ptr::null_mut());
        lock_pages(mdl, 1, 0, std::ptr::null());
    });
    let bugcheck = driver.verifier().bugcheck().unwrap();
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x1e, 0xc000_0005), "{bugcheck}");
    assert_eq!(bugcheck.parameters[2..], [0, 0x2_0000], "{bugcheck}");
    assert!(bugcheck.reason.contains("MmProbeAndLockPages"), "{bugcheck}");
}

/// "Starting with Windows 7 [...] the maximum buffer size is (4 gigabytes - PAGE_SIZE)." [wdm: IoAllocateMdl]
#[test]
fn a_list_describes_up_to_four_gigabytes_less_a_page_and_a_longer_buffer_is_refused_in_the_log() {
    let driver = driver_with(64 << 20);
    driver_call::run(&driver, "a function", || {
        for length in [16 << 20, 64 << 20, u32::MAX - 0xfff] {
            let mdl = io_allocate_mdl(0x10_0000, length, 0, 0, std::ptr::null_mut());
            assert!(!mdl.is_null(), "{length:#x} bytes");
            assert_eq!(range("a test", mdl), (0x10_0000, length as usize));
            let size: u16 = get("a test", field(mdl, 8));
            assert_eq!(size, (48 + 8 * (length as usize / PAGE)) as u16, "the low 16 bits of the size");
            let last: *mut u64 = field(mdl, HEADER + 8 * (length as usize / PAGE - 1));
            put("a test", last, 7);
            io_free_mdl(mdl);
        }
        assert_eq!(driver.verifier().log_lines(), Vec::<String>::new());
        assert!(io_allocate_mdl(0x10_0000, u32::MAX, 0, 0, std::ptr::null_mut()).is_null());
    })
    .0
    .unwrap();
    driver.check_unloaded();
    assert_eq!(driver.verifier().bugcheck(), None);
    let log = driver.verifier().log_lines();
    assert!(log.len() == 1 && log[0].starts_with("IoAllocateMdl answers NULL: Length is 0xffffffff"), "{log:?}");
}

/// A list of three pages of pool, and one for two pages.
fn whole_and_part() -> (*mut c_void, *mut c_void, usize) {
    // SAFETY: no pointers among the arguments.
    let memory = unsafe { ex_allocate_pool2(POOL_FLAG_NON_PAGED, 3 * PAGE, TAG) };
    let whole = io_allocate_mdl(memory.addr(), 3 * PAGE as u32, 0, 0, std::ptr::null_mut());
    let part = io_allocate_mdl(memory.addr(), 2 * PAGE as u32, 0, 0, std::ptr::null_mut());
    (whole, part, memory.expose_provenance())
}

/// [wdm: IoBuildPartialMdl]
#[test]
fn a_part_of_a_list_has_its_frames_and_shares_its_mapping_or_has_one_of_its_own() {
    let driver = driver();
    driver_call::run(&driver, "a function", || {
        let (whole, part, memory) = whole_and_part();
        let frames: [u64; 3] = {
            lock_pages(whole, 0, 0, std::ptr::null());
            get("a test", field(whole, HEADER))
        };
        let flags = |mdl| get::<i16>("a test", field(mdl, FLAGS)) & (MAPPED | LOCKED | PARTIAL | PARTIAL_MAPPED);
        io_build_partial_mdl(whole, part, memory + PAGE + 8, PAGE as u32);
        assert_eq!((range("a test", part), flags(part)), ((memory + PAGE + 8, PAGE), PARTIAL));
        assert_eq!(get::<[u64; 2]>("a test", field(part, HEADER)), [frames[1], frames[2]]);
        // The source is not mapped, so that the part has a mapping of its own.
        assert_eq!(map(part, 0), memory + PAGE + 8);
        assert_eq!(flags(part), PARTIAL | MAPPED | PARTIAL_MAPPED);
        mm_unmap_locked_pages(memory + PAGE + 8, part);
        assert_eq!(flags(part), PARTIAL);
        let mapped = map(whole, 0);
        io_build_partial_mdl(whole, part, memory + 2 * PAGE, 0);
        assert_eq!((range("a test", part), flags(part)), ((memory + 2 * PAGE, PAGE), PARTIAL | MAPPED));
        assert_eq!(get::<usize>("a test", field(part, MAPPED_VA)), mapped + 2 * PAGE);
        mm_unmap_locked_pages(mapped, whole);
        // A list that was a part is locked as any other.
        lock_pages(part, 0, 0, std::ptr::null());
        assert_eq!(flags(part) & (LOCKED | PARTIAL), LOCKED);
        mm_unlock_pages(part);
        io_free_mdl(part);
        // A mapping of its own ends with the part.
        let again = io_allocate_mdl(memory, PAGE as u32, 0, 0, std::ptr::null_mut());
        io_build_partial_mdl(whole, again, memory, 16);
        map(again, 0);
        io_free_mdl(again);
        mm_unlock_pages(whole);
        io_free_mdl(whole);
        // SAFETY: the address is looked up.
        unsafe { ex_free_pool_with_tag(std::ptr::with_exposed_provenance_mut(memory), TAG) };
    })
    .0
    .unwrap();
    driver.check_unloaded();
    assert_eq!(driver.verifier().bugcheck(), None);
}

/// The machine stops with a code and such words after a misuse of a list and one for a part of it.
fn stops_with(misuse: fn(*mut c_void, *mut c_void, usize), told: &str, code: u32) {
    let driver = driver();
    let call = || {
        let (whole, part, memory) = whole_and_part();
        misuse(whole, part, memory);
    };
    assert_eq!(driver_call::run(&driver, "a function", call).0, None);
    let bugcheck = driver.verifier().bugcheck().unwrap();
    assert!(bugcheck.reason.contains(told), "{bugcheck}");
    assert_eq!(bugcheck.code, code, "{bugcheck}");
}

/// [wdm: IoBuildPartialMdl; debugger: 0x49] Other mistakes have no documented code.
#[test]
fn a_part_that_is_none_or_that_its_list_is_too_small_for_stops_the_machine() {
    stops_with(|whole, part, memory| io_build_partial_mdl(whole, part, memory, 1), "whose pages are not locked", 0x113);
    for (from, length) in [(PAGE * 3, 0), (PAGE * 2 + 1, PAGE as u32), (usize::MAX, 1)] {
        let driver = driver();
        let call = || {
            let (whole, part, memory) = whole_and_part();
            lock_pages(whole, 0, 0, std::ptr::null());
            io_build_partial_mdl(whole, part, memory.wrapping_add(from), length);
        };
        assert_eq!(driver_call::run(&driver, "a function", call).0, None);
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert!(bugcheck.code == 0x113 && bugcheck.reason.contains("are no part of them"), "{bugcheck}");
    }
    stops_with(
        |whole, part, memory| {
            lock_pages(whole, 0, 0, std::ptr::null());
            io_build_partial_mdl(whole, part, memory, 3 * PAGE as u32);
        },
        "is to have 3 pages",
        0x49,
    );
}

/// [wdm: IoBuildPartialMdl, MmPrepareMdlForReuse] Undoing a mapping that is another list's is 0xDA; the others have no documented code.
#[test]
fn a_list_that_is_in_use_does_not_become_a_part_and_a_part_does_not_undo_what_it_shares() {
    stops_with(
        |whole, part, memory| {
            lock_pages(whole, 0, 0, std::ptr::null());
            map(whole, 0);
            io_build_partial_mdl(whole, part, memory, 1);
            mm_unmap_locked_pages(memory, part);
        },
        "shares the mapping of the list that it is a part of",
        0xda,
    );
    stops_with(
        |whole, part, memory| {
            lock_pages(whole, 0, 0, std::ptr::null());
            lock_pages(part, 0, 0, std::ptr::null());
            io_build_partial_mdl(whole, part, memory, 1);
        },
        "describes pages that are locked",
        0x113,
    );
    stops_with(
        |whole, _, memory| {
            lock_pages(whole, 0, 0, std::ptr::null());
            io_build_partial_mdl(whole, whole, memory, 1);
        },
        "is the same",
        0x113,
    );
    stops_with(
        |whole, part, memory| {
            put("a test", field(whole, 32), usize::MAX & !(PAGE - 1));
            put("a test", field(whole, 40), [PAGE as u32, PAGE as u32]);
            put("a test", field(whole, FLAGS), LOCKED);
            io_build_partial_mdl(whole, part, memory, 1);
        },
        "are no part of them",
        0x113,
    );
    stops_with(
        |whole, part, memory| {
            lock_pages(whole, 0, 0, std::ptr::null());
            io_build_partial_mdl(whole, part, memory, 1);
            map(part, 0);
            io_build_partial_mdl(whole, part, memory, 1);
        },
        "MmPrepareMdlForReuse ends that",
        0x113,
    );
}

/// [wdm: IoBuildPartialMdl]
#[test]
fn a_part_of_a_part_of_pool_has_the_address_of_the_pool() {
    let driver = driver();
    driver_call::run(&driver, "a function", || {
        // SAFETY: no pointers among the arguments.
        let pool = unsafe { ex_allocate_pool2(POOL_FLAG_NON_PAGED, 3 * PAGE, TAG) };
        let memory = pool.expose_provenance() + 0x800;
        let list = |length| io_allocate_mdl(memory, length, 0, 0, std::ptr::null_mut());
        let (whole, part, inner) = (list(2 * PAGE as u32), list(2 * PAGE as u32), list(2 * PAGE as u32));
        mm_build_mdl(whole);
        io_build_partial_mdl(whole, part, memory + PAGE - 0x10, 0);
        io_build_partial_mdl(part, inner, memory + PAGE, 0x20);
        let at = |mdl| (range("a test", mdl), get::<usize>("a test", field(mdl, MAPPED_VA)));
        let flags = |mdl| get::<i16>("a test", field(mdl, FLAGS)) & (MAPPED | NONPAGED_POOL | PARTIAL);
        assert_eq!(at(part), ((memory + PAGE - 0x10, PAGE + 0x10), memory + PAGE - 0x10));
        assert_eq!(at(inner), ((memory + PAGE, 0x20), memory + PAGE));
        assert_eq!(
            [flags(whole), flags(part), flags(inner)],
            [NONPAGED_POOL, NONPAGED_POOL | PARTIAL, NONPAGED_POOL | PARTIAL]
        );
        let frame = |mdl, index: usize| get::<u64>("a test", field(mdl, HEADER + 8 * index));
        let first = (memory + PAGE - 0x10) / PAGE - memory / PAGE;
        assert_eq!([frame(part, 0), frame(part, 1)], [frame(whole, first), frame(whole, first + 1)]);
        assert_eq!(frame(inner, 0), frame(whole, (memory + PAGE) / PAGE - memory / PAGE));
        [inner, part, whole].into_iter().for_each(|mdl| io_free_mdl(mdl));
        // SAFETY: the address is looked up.
        unsafe { ex_free_pool_with_tag(pool, TAG) };
    })
    .0
    .unwrap();
    driver.check_unloaded();
    assert_eq!(driver.verifier().bugcheck(), None);
}

mod size;
