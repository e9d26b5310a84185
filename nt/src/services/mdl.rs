//! Memory descriptor lists, and memory that devices reach.
//!
//! All memory of this process has one address space, so that pages are mapped where they are already. A list has the frame numbers of memory that
//! devices reach; for other memory, such as pool, each is a number that no frame has. [wdm: MDL]

use std::ffi::c_void;

use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL, POOL_FLAG_NON_PAGED};
use wddm_ddi::types::MDL;

use super::exceptions::STATUS_ACCESS_VIOLATION;
use super::memory::{field, get, put};
use super::misc::ps_get_current_process;
use super::{caller, ex_allocate_pool2, ex_free_pool_with_tag, irql_too_high};
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::{bad_pointer, on_host_stack, raise, stop};
use crate::fault::guarded;
use crate::irql;
use crate::page::PAGE_SIZE;
use crate::ram::Pages;
use crate::unwind::{CallSite, with_call_site};

pub(super) const EXPORTS: &[Export] = &[
    ("IoAllocateMdl", || io_allocate_mdl as *const () as usize),
    ("IoFreeMdl", || io_free_mdl as *const () as usize),
    ("MmSizeOfMdl", || mm_size_of_mdl as *const () as usize),
    ("MmBuildMdlForNonPagedPool", || mm_build_mdl as *const () as usize),
    ("MmProbeAndLockPages", || mm_probe_and_lock_pages as *const () as usize),
    ("MmUnlockPages", || mm_unlock_pages as *const () as usize),
    ("MmMapLockedPages", || mm_map_locked_pages as *const () as usize),
    ("MmMapLockedPagesSpecifyCache", || mm_map_locked_pages_specify_cache as *const () as usize),
    ("MmUnmapLockedPages", || mm_unmap_locked_pages as *const () as usize),
    ("MmIsAddressValid", || mm_is_address_valid as *const () as usize),
    ("MmAllocateContiguousMemory", || mm_allocate_contiguous_memory as *const () as usize),
    ("MmAllocateContiguousMemorySpecifyCache", || mm_allocate_contiguous_specify_cache as *const () as usize),
    ("MmFreeContiguousMemory", || mm_free_contiguous_memory as *const () as usize),
    ("MmAllocatePagesForMdl", || mm_allocate_pages_for_mdl as *const () as usize),
    ("MmAllocatePagesForMdlEx", || mm_allocate_pages_for_mdl_ex as *const () as usize),
    ("MmFreePagesFromMdl", || mm_free_pages_from_mdl as *const () as usize),
];

/// Bits of `MdlFlags`. [wdm: MDL_MAPPED_TO_SYSTEM_VA and its kin]
const MAPPED: i16 = 0x1;
const LOCKED: i16 = 0x2;
const NONPAGED_POOL: i16 = 0x4;
const FLAGS: usize = 10;
const MAPPED_VA: usize = 24;
const HEADER: usize = size_of::<MDL>();
/// Tag of lists.
const TAG: u32 = u32::from_le_bytes(*b"Mdl ");
const PAGE: usize = PAGE_SIZE as usize;

fn pages(address: usize, length: usize) -> usize {
    (address % PAGE + length).div_ceil(PAGE)
}

extern "win64" fn mm_size_of_mdl(address: usize, length: usize) -> usize {
    HEADER + 8 * pages(address, length)
}

/// A list without frame numbers; NULL if memory is short, or if the list would be too long to say so in its header.
extern "win64" fn io_allocate_mdl(
    address: usize,
    length: u32,
    secondary: u8,
    _quota: u8,
    irp: *mut c_void,
) -> *mut c_void {
    const NAME: &str = "IoAllocateMdl";
    if secondary != 0 || !irp.is_null() {
        stop(Bugcheck::fatal(format!("{NAME} with an IRP, of which there is none here")));
    }
    let Ok(size) = i16::try_from(mm_size_of_mdl(address, length as usize)) else { return std::ptr::null_mut() };
    // SAFETY: no pointers among the arguments.
    let mdl = unsafe { ex_allocate_pool2(POOL_FLAG_NON_PAGED, size as usize, TAG) };
    if !mdl.is_null() {
        put(NAME, field(mdl, 8), size);
        put(NAME, field(mdl, 32), address & !(PAGE - 1));
        put(NAME, field(mdl, 40), [length, (address % PAGE) as u32]);
    }
    mdl
}

/// Values of parameter 1 of DRIVER_VERIFIER_DETECTED_VIOLATION; parameters 2 and 3 are the list and its flags. [debugger: 0xc4]
const UNLOCKED_UNLOCKED: u64 = 0x7c;
const LOCKED_AGAIN: u64 = 0xb0;
const MAPPED_UNLOCKED: u64 = 0xb3;
const FREED_MAPPED: u64 = 0xb8;

/// The same, of a level above DISPATCH_LEVEL, which is parameter 2.
const LOCKED_HIGH: u64 = 0x70;
const UNLOCKED_HIGH: u64 = 0x78;
const PAGES_HIGH: u64 = 0x7e;

/// Stops the machine above DISPATCH_LEVEL.
fn require_dispatch(service: &'static str, violation: u64, [third, fourth]: [u64; 2]) {
    let level = irql::current();
    if level > DISPATCH_LEVEL {
        let reason = format!("{service} at IRQL {level}, at most DISPATCH_LEVEL is allowed");
        let parameters = [violation, u64::from(level), third, fourth];
        stop(Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason));
    }
}

/// Stops the machine for a list whose flags do not allow what is asked; `bits` are those that are wrong, or missing.
fn misused(violation: u64, mdl: *mut c_void, (flags, bits): (i16, i16), reason: String) -> ! {
    let [flags, bits] = [flags, bits].map(|bits| u64::from(bits.cast_unsigned()));
    let parameters = [violation, mdl.addr() as u64, flags, bits];
    stop(Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason))
}

extern "win64" fn io_free_mdl(mdl: *mut c_void) {
    const NAME: &str = "IoFreeMdl";
    let flags = get::<i16>(NAME, field(mdl, FLAGS));
    if flags & MAPPED != 0 {
        let reason = format!("{NAME} of list {mdl:p}, whose pages are mapped (MdlFlags {flags:#x})");
        misused(FREED_MAPPED, mdl, (flags, 0), reason);
    }
    if flags & LOCKED != 0 {
        // Nobody can unlock them any more.
        let (address, length) = range(NAME, mdl);
        let parameters = [0, ps_get_current_process().addr() as u64, pages(address, length) as u64, 0];
        let reason = format!("{NAME} of list {mdl:p}, whose pages are locked (MdlFlags {flags:#x})");
        stop(Bugcheck::new(Bugcheck::PROCESS_HAS_LOCKED_PAGES, parameters, reason));
    }
    // SAFETY: the address is looked up.
    unsafe { ex_free_pool_with_tag(mdl, TAG) };
}

/// Where the memory of a list begins, and how long it is.
fn range(service: &'static str, mdl: *mut c_void) -> (usize, usize) {
    let start: usize = get(service, field(mdl, 32));
    let [length, offset]: [u32; 2] = get(service, field(mdl, 40));
    (start + offset as usize, length as usize)
}

/// Fills in the frame numbers.
fn fill(service: &'static str, mdl: *mut c_void) {
    let (address, length) = range(service, mdl);
    let driver = caller(service);
    let start = address & !(PAGE - 1);
    for index in 0..pages(address, length) {
        let physical = driver.ram().and_then(|ram| ram.physical_address(start + index * PAGE));
        put(service, field(mdl, HEADER + 8 * index), physical.map_or(u64::MAX, |physical| physical / PAGE_SIZE));
    }
}

fn set_flags(service: &'static str, mdl: *mut c_void, set: i16, clear: i16) -> i16 {
    let flags: i16 = get(service, field(mdl, FLAGS));
    put(service, field(mdl, FLAGS), flags & !clear | set);
    flags
}

extern "win64" fn mm_build_mdl(mdl: *mut c_void) {
    const NAME: &str = "MmBuildMdlForNonPagedPool";
    fill(NAME, mdl);
    put(NAME, field(mdl, MAPPED_VA), range(NAME, mdl).0);
    set_flags(NAME, mdl, NONPAGED_POOL, 0);
}

with_call_site!(
    /// Memory that is not there raises an exception.
    fn mm_probe_and_lock_pages => lock_pages
);
extern "win64" fn lock_pages(mdl: *mut c_void, mode: i8, operation: u32, site: *const CallSite) {
    const NAME: &str = "MmProbeAndLockPages";
    const READ: u32 = 0;
    require_dispatch(NAME, LOCKED_HIGH, [mdl.addr() as u64, u64::from(mode.cast_unsigned())]);
    let (address, length) = range(NAME, mdl);
    let memory = std::ptr::with_exposed_provenance::<u8>(address);
    let last = address.wrapping_add(length.max(1) - 1);
    let writable = |place: usize| guarded::probe_word(std::ptr::with_exposed_provenance_mut(place & !7));
    let is_read = operation == READ;
    let probed = guarded::probe(memory, length);
    let probed = probed.and_then(|()| if is_read { Ok(()) } else { writable(address).and_then(|()| writable(last)) });
    if let Err(fault) = probed {
        raise(site, STATUS_ACCESS_VIOLATION, &[usize::from(!is_read), address], || bad_pointer(NAME, fault));
    }
    fill(NAME, mdl);
    let flags = set_flags(NAME, mdl, LOCKED, 0);
    if flags & LOCKED != 0 {
        let reason = format!("{NAME} of list {mdl:p}, whose pages are locked already (MdlFlags {flags:#x})");
        misused(LOCKED_AGAIN, mdl, (flags, LOCKED), reason);
    }
}

extern "win64" fn mm_unlock_pages(mdl: *mut c_void) {
    const NAME: &str = "MmUnlockPages";
    require_dispatch(NAME, UNLOCKED_HIGH, [mdl.addr() as u64, 0]);
    let flags = set_flags(NAME, mdl, 0, LOCKED | MAPPED);
    if flags & LOCKED == 0 {
        let reason = format!("{NAME} of list {mdl:p}, whose pages are not locked (MdlFlags {flags:#x})");
        misused(UNLOCKED_UNLOCKED, mdl, (flags, 0), reason);
    }
}

extern "win64" fn mm_map_locked_pages(mdl: *mut c_void, _mode: i8) -> usize {
    const NAME: &str = "MmMapLockedPages";
    let flags = get::<i16>(NAME, field(mdl, FLAGS));
    if flags & (LOCKED | NONPAGED_POOL) == 0 {
        let reason = format!("{NAME} of list {mdl:p}, whose pages are not locked (MdlFlags {flags:#x})");
        misused(MAPPED_UNLOCKED, mdl, (flags, LOCKED | NONPAGED_POOL), reason);
    }
    let address = range(NAME, mdl).0;
    put(NAME, field(mdl, MAPPED_VA), address);
    set_flags(NAME, mdl, MAPPED, 0);
    address
}

extern "win64" fn mm_map_locked_pages_specify_cache(
    mdl: *mut c_void,
    mode: i8,
    _cache: u32,
    _address: *mut c_void,
    _bugcheck: u32,
    _priority: u32,
) -> usize {
    mm_map_locked_pages(mdl, mode)
}

extern "win64" fn mm_unmap_locked_pages(address: usize, mdl: *mut c_void) {
    const NAME: &str = "MmUnmapLockedPages";
    /// Parameter 1 of SYSTEM_PTE_MISUSE: another address than that of the mapping; a list that is not mapped. [debugger: 0xda]
    const OTHER_ADDRESS: u64 = 0x3;
    const NOT_MAPPED: u64 = 0x6;
    let was = set_flags(NAME, mdl, 0, MAPPED);
    let (mapped, length) = range(NAME, mdl);
    let misuse = |parameters, reason| stop(Bugcheck::new(Bugcheck::SYSTEM_PTE_MISUSE, parameters, reason));
    if was & MAPPED == 0 {
        let parameters = [NOT_MAPPED, mdl.addr() as u64, address as u64, pages(mapped, length) as u64];
        misuse(parameters, format!("{NAME} of {address:#x} with list {mdl:p}, which is not mapped"));
    }
    if mapped != address {
        let parameters = [OTHER_ADDRESS, mdl.addr() as u64, mapped as u64, address as u64];
        misuse(parameters, format!("{NAME} of {address:#x} with list {mdl:p}, which is mapped at {mapped:#x}"));
    }
}

extern "win64" fn mm_is_address_valid(address: *const u8) -> u8 {
    guarded::probe(address, 1).is_ok().into()
}

extern "win64" fn mm_allocate_contiguous_memory(bytes: usize, highest: u64) -> *mut c_void {
    mm_allocate_contiguous_specify_cache(bytes, 0, highest, 0, 0)
}

/// NULL if there is no such memory. The contents are undefined.
extern "win64" fn mm_allocate_contiguous_specify_cache(
    bytes: usize,
    lowest: u64,
    highest: u64,
    boundary: u64,
    _cache: u32,
) -> *mut c_void {
    const NAME: &str = "MmAllocateContiguousMemory";
    if irql::current() > DISPATCH_LEVEL {
        stop(irql_too_high(NAME, 0));
    }
    let driver = caller(NAME);
    let size = bytes as u64;
    // Aligned to its size rounded up, a block crosses no boundary that it fits in.
    let align = if boundary == 0 { Some(PAGE_SIZE) } else { size.checked_next_power_of_two() };
    let fits = size != 0 && (boundary == 0 || (boundary.is_power_of_two() && boundary >= size));
    let found = on_host_stack(|| {
        if driver.pool().fails_now() {
            return None;
        }
        let pages = driver.ram()?.allocate(size, align.filter(|_| fits)?.max(PAGE_SIZE))?;
        let inside = pages.address() >= lowest && pages.address() + size - 1 <= highest;
        inside.then(|| driver.keep_contiguous(pages))
    });
    std::ptr::with_exposed_provenance_mut(found.unwrap_or(0))
}

extern "win64" fn mm_free_contiguous_memory(address: *mut c_void) {
    const NAME: &str = "MmFreeContiguousMemory";
    if irql::current() > APC_LEVEL {
        stop(irql_too_high(NAME, address.addr() as u64));
    }
    let driver = caller(NAME);
    if !on_host_stack(|| driver.release_contiguous(address.addr())) {
        let reason = format!("{NAME} of {address:p}, which is not memory of MmAllocateContiguousMemory");
        stop(Bugcheck::new(Bugcheck::BAD_POOL_CALLER, [0x46, address.addr() as u64, 0, 0], reason));
    }
}

extern "win64" fn mm_allocate_pages_for_mdl(low: u64, high: u64, skip: u64, total: usize) -> *mut c_void {
    const MM_CACHED: u32 = 1;
    mm_allocate_pages_for_mdl_ex(low, high, skip, total, MM_CACHED, 0)
}

/// Bits of the flags of MmAllocatePagesForMdlEx. [wdm: MM_ALLOCATE_XXX]
const DONT_ZERO: u32 = 0x1;
const FULLY_REQUIRED: u32 = 0x4;
const CONTIGUOUS_CHUNKS: u32 = 0x20;
const FAST_LARGE_PAGES: u32 = 0x40;
/// Pages of the longest list, whose size its header can say.
const MOST_PAGES: u64 = (i16::MAX as u64 - HEADER as u64) / 8;

/// One block of pages between the addresses, as large as there is one, in steps of `step` bytes. [wdm: MmAllocatePagesForMdlEx]
fn allocate_block(
    driver: &crate::driver::Driver,
    (low, high): (u64, u64),
    total: u64,
    step: u64,
    whole: bool,
) -> Option<Pages> {
    let mut bytes = if driver.pool().fails_now() { 0 } else { total };
    while bytes != 0 {
        let pages = driver.ram()?.allocate(bytes, step);
        if let Some(pages) = pages.filter(|pages| pages.address() >= low && pages.address() + bytes - 1 <= high) {
            return Some(pages);
        }
        bytes = if whole { 0 } else { bytes / 2 / step * step };
    }
    None
}

/// A list of pages, locked, which are zero unless the caller does without. They are one block, so that there may be fewer than asked for, unless it asks for all
/// of them. Which addresses come after `high` is not looked at: SkipBytes is the alignment of contiguous chunks alone. NULL without pages.
extern "win64" fn mm_allocate_pages_for_mdl_ex(
    low: u64,
    high: u64,
    skip: u64,
    total: usize,
    _cache: u32,
    flags: u32,
) -> *mut c_void {
    const NAME: &str = "MmAllocatePagesForMdlEx";
    require_dispatch(NAME, PAGES_HIGH, [u64::from(DISPATCH_LEVEL), 0]);
    let driver = caller(NAME);
    let chunks = flags & CONTIGUOUS_CHUNKS != 0 && skip != 0;
    let step = if chunks { skip } else { PAGE_SIZE };
    let wanted = (total as u64).checked_next_multiple_of(PAGE_SIZE).unwrap_or(0);
    let whole = flags & FULLY_REQUIRED != 0 || (flags & CONTIGUOUS_CHUNKS != 0 && !chunks);
    let most = MOST_PAGES * PAGE_SIZE / step.max(1) * step;
    let well_formed = step.is_power_of_two() && step >= PAGE_SIZE && wanted.is_multiple_of(step);
    // There is no cache of large pages.
    if wanted == 0 || !well_formed || (whole && wanted > most) || flags & FAST_LARGE_PAGES != 0 {
        return std::ptr::null_mut();
    }
    let block = on_host_stack(|| {
        let pages = allocate_block(&driver, (low, high), wanted.min(most), step, whole)?;
        if flags & DONT_ZERO == 0 {
            pages.zero();
        }
        let bytes = pages.len();
        Some((driver.keep_contiguous(pages), bytes))
    });
    let Some((address, bytes)) = block else { return std::ptr::null_mut() };
    let mdl = io_allocate_mdl(address, bytes as u32, 0, 0, std::ptr::null_mut());
    if mdl.is_null() {
        on_host_stack(|| driver.release_contiguous(address));
        return mdl;
    }
    fill(NAME, mdl);
    set_flags(NAME, mdl, LOCKED, 0);
    mdl
}

/// The pages are free; the list is the driver's, to be freed by ExFreePool.
extern "win64" fn mm_free_pages_from_mdl(mdl: *mut c_void) {
    const NAME: &str = "MmFreePagesFromMdl";
    require_dispatch(NAME, PAGES_HIGH, [u64::from(DISPATCH_LEVEL), 0]);
    let driver = caller(NAME);
    let flags: i16 = get(NAME, field(mdl, FLAGS));
    if flags & MAPPED != 0 {
        let reason = format!("{NAME} of list {mdl:p}, whose pages are mapped (MdlFlags {flags:#x})");
        misused(FREED_MAPPED, mdl, (flags, 0), reason);
    }
    let address = range(NAME, mdl).0;
    if flags & LOCKED == 0 || !on_host_stack(|| driver.release_contiguous(address)) {
        let reason = format!("{NAME} of list {mdl:p}, which MmAllocatePagesForMdlEx did not return, or twice");
        misused(UNLOCKED_UNLOCKED, mdl, (flags, 0), reason);
    }
    set_flags(NAME, mdl, 0, LOCKED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Driver, Host, Services};
    use crate::driver_call;
    use crate::pool::SpecialPool;
    use crate::ram::Ram;
    use std::sync::Arc;

    fn driver() -> Arc<Driver> {
        let (verifier, ram) = (Arc::default(), Ram::new(1 << 20).unwrap());
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
            let physical = driver.ram().unwrap().physical_address(memory.addr()).unwrap();
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
}
