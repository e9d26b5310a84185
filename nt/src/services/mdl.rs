//! Memory descriptor lists, and memory that devices reach.
//!
//! All memory of this process has one address space, so that pages are mapped where they are already. A list has the frame numbers of memory that
//! devices reach; for other memory, such as pool, each is a number that no frame has. [wdm: MDL]

use std::ffi::c_void;

use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL, POOL_FLAG_NON_PAGED};
use wddm_ddi::types::MDL;

use super::exceptions::STATUS_ACCESS_VIOLATION;
use super::memory::{field, get, put};
use super::{caller, ex_allocate_pool2, ex_free_pool_with_tag, irql_too_high};
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::{bad_pointer, on_host_stack, raise, stop};
use crate::fault::guarded;
use crate::irql;
use crate::ram::PAGE_SIZE;
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

extern "win64" fn io_free_mdl(mdl: *mut c_void) {
    if get::<i16>("IoFreeMdl", field(mdl, FLAGS)) & LOCKED != 0 {
        stop(Bugcheck::fatal("IoFreeMdl of a list whose pages are locked"));
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
extern "win64" fn lock_pages(mdl: *mut c_void, _mode: i8, operation: u32, site: *const CallSite) {
    const NAME: &str = "MmProbeAndLockPages";
    const READ: u32 = 0;
    if irql::current() > DISPATCH_LEVEL {
        stop(irql_too_high(NAME, mdl.addr() as u64));
    }
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
    if set_flags(NAME, mdl, LOCKED, 0) & LOCKED != 0 {
        stop(Bugcheck::fatal(format!("{NAME} of a list whose pages are locked already")));
    }
}

extern "win64" fn mm_unlock_pages(mdl: *mut c_void) {
    const NAME: &str = "MmUnlockPages";
    if set_flags(NAME, mdl, 0, LOCKED | MAPPED) & LOCKED == 0 {
        stop(Bugcheck::fatal(format!("{NAME} of a list whose pages are not locked")));
    }
}

extern "win64" fn mm_map_locked_pages(mdl: *mut c_void, _mode: i8) -> usize {
    const NAME: &str = "MmMapLockedPages";
    if get::<i16>(NAME, field(mdl, FLAGS)) & (LOCKED | NONPAGED_POOL) == 0 {
        stop(Bugcheck::fatal(format!("{NAME} of a list whose pages are not locked")));
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
    let was = set_flags(NAME, mdl, 0, MAPPED);
    if was & MAPPED == 0 || range(NAME, mdl).0 != address {
        stop(Bugcheck::fatal(format!("{NAME} of {address:#x}, where the list is not mapped")));
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
