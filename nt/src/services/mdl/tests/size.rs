//! Tests of how long a list is: by its block of pool, and elsewhere by what its header says.

use super::*;

/// As MmInitializeMdl makes a list in memory of the driver that is not pool: for a buffer of so many bytes. [wdm: MmInitializeMdl]
fn initialise(list: &mut [u64], address: usize, length: u32) -> *mut c_void {
    let mdl = list.as_mut_ptr().cast::<c_void>();
    put("a test", field(mdl, 0), [0_u64; 6]);
    put("a test", field(mdl, 8), mm_size_of_mdl(address, length as usize) as u16);
    put("a test", field(mdl, 32), address & !(PAGE - 1));
    put("a test", field(mdl, 40), [length, (address % PAGE) as u32]);
    mdl
}

/// Words of memory behind a list of so many pages, which no service may write.
const BEHIND: u64 = 0x5a5a_5a5a_5a5a_5a5a;

/// The machine stops with such words in a call with a list of two pages outside pool, of which nothing is written behind its end.
fn outside_pool_stops(misuse: fn(*mut c_void, *mut c_void, usize), told: &[&str], code: u32) {
    let driver = driver();
    let mut list = [BEHIND; 16];
    let call = || {
        let (whole, _, memory) = whole_and_part();
        misuse(whole, initialise(&mut list, memory, 2 * PAGE as u32), memory);
    };
    assert_eq!(driver_call::run(&driver, "a function", call).0, None);
    let bugcheck = driver.verifier().bugcheck().unwrap();
    assert!(told.iter().all(|part| bugcheck.reason.contains(part)), "{bugcheck}");
    assert_eq!(bugcheck.code, code, "{bugcheck}");
    assert_eq!(list[8..], [BEHIND; 8], "{bugcheck}");
}

/// Size says how long a list is, wherever it lies. [wdm: IoBuildPartialMdl, MDL; debugger: 0x49]
#[test]
fn a_list_outside_pool_is_as_long_as_its_size_says() {
    outside_pool_stops(
        |whole, part, memory| {
            lock_pages(whole, 0, 0, std::ptr::null());
            io_build_partial_mdl(whole, part, memory, 3 * PAGE as u32);
        },
        &["IoBuildPartialMdl: the list", "is to have 3 pages", "Size is 64, and 72 bytes are needed"],
        0x49,
    );
    outside_pool_stops(
        |_, list, _| {
            put("a test", field(list, 40), [3 * PAGE as u32, 0]);
            lock_pages(list, 0, 0, std::ptr::null());
        },
        &["MmProbeAndLockPages: the list", "is to have 3 pages", "Size is 64, and 72 bytes are needed"],
        0x113,
    );
    outside_pool_stops(
        |_, list, _| {
            put("a test", field(list, 40), [3 * PAGE as u32, 0]);
            mm_build_mdl(list);
        },
        &["MmBuildMdlForNonPagedPool: the list", "is to have 3 pages"],
        0x113,
    );
    // A list that nothing has initialised has no Size.
    outside_pool_stops(
        |whole, part, memory| {
            put("a test", field(part, 8), 0_u16);
            lock_pages(whole, 0, 0, std::ptr::null());
            io_build_partial_mdl(whole, part, memory, 1);
        },
        &["is to have 1 page", "Size is 0, and 56 bytes are needed", "MmInitializeMdl"],
        0x49,
    );
}

/// [wdm: MmProbeAndLockPages, MmBuildMdlForNonPagedPool] A mistake without a documented code.
#[test]
fn a_list_in_pool_that_is_too_small_for_its_buffer_is_not_filled_in() {
    for fill_in in [|mdl| lock_pages(mdl, 0, 0, std::ptr::null()), |mdl| mm_build_mdl(mdl)] {
        let driver = driver();
        let call = || {
            let (_, part, _) = whole_and_part();
            put("a test", field(part, 40), [3 * PAGE as u32, 0]);
            fill_in(part);
        };
        assert_eq!(driver_call::run(&driver, "a function", call).0, None);
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert!(bugcheck.reason.contains("is to have 3 pages and ends"), "{bugcheck}");
        assert_eq!(bugcheck.code, 0x113, "{bugcheck}");
    }
}

#[test]
fn a_list_outside_pool_becomes_a_part_and_is_locked_and_a_long_one_says_the_low_bits_of_its_size() {
    let driver = driver();
    driver_call::run(&driver, "a function", || {
        let (whole, unused, memory) = whole_and_part();
        lock_pages(whole, 0, 0, std::ptr::null());
        let mut words = [BEHIND; 16];
        let list = initialise(&mut words, memory, 2 * PAGE as u32);
        io_build_partial_mdl(whole, list, memory + PAGE, 2 * PAGE as u32);
        assert_eq!(get::<[u64; 2]>("a test", field(list, HEADER)), get::<[u64; 2]>("a test", field(whole, HEADER + 8)));
        lock_pages(list, 0, 0, std::ptr::null());
        mm_unlock_pages(list);
        assert_eq!(words[8..], [BEHIND; 8]);
        // 32 MiB and more, whose frame numbers take 64 KiB.
        let pages = 8200;
        let mut words = vec![BEHIND; 6 + pages + 1];
        let long = initialise(&mut words, memory & !(PAGE - 1), (pages * PAGE) as u32);
        assert!(usize::from(get::<u16>("a test", field(long, 8))) < HEADER + 8 * pages);
        mm_build_mdl(long);
        assert_eq!(words[6 + pages..], [BEHIND]);
        mm_unlock_pages(whole);
        io_free_mdl(whole);
        io_free_mdl(unused);
        // SAFETY: the address is looked up.
        unsafe { ex_free_pool_with_tag(std::ptr::with_exposed_provenance_mut(memory), TAG) };
    })
    .0
    .unwrap();
    driver.check_unloaded();
    assert_eq!(driver.verifier().bugcheck(), None);
}
