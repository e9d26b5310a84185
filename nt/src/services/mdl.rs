//! Memory descriptor lists, and memory that devices reach.
//!
//! All memory of this process has one address space, so that pages are mapped where they are already, for the kernel and for user mode. A list has the frame
//! numbers of memory that devices reach; for other memory, such as pool, each is a number of its own that no frame has (`NOT_IN_RAM`). [wdm: MDL]

use std::ffi::c_void;

use wddm_ddi::nt::{DISPATCH_LEVEL, POOL_FLAG_NON_PAGED};
use wddm_ddi::types::MDL;

use super::blocks::{ex_allocate_pool2, ex_free_pool_with_tag};
use super::call::caller;
use super::exceptions::STATUS_ACCESS_VIOLATION;
use super::memory::{field, get, put};
use super::misc::ps_get_current_process;
use crate::bugcheck::Bugcheck;
use crate::driver::{Driver, Export};
use crate::driver_call::{bad_pointer, calling_instruction, on_host_stack, raise, stop};
use crate::fault::guarded;
use crate::irql;
use crate::page::PAGE_SIZE;
use crate::pool::Owned;
use crate::ram::Pages;
use crate::unwind::{CallSite, with_call_site};

pub(super) const EXPORTS: &[Export] = &[
    ("IoAllocateMdl", || io_allocate_mdl as *const () as usize),
    ("IoBuildPartialMdl", || io_build_partial_mdl as *const () as usize),
    ("IoFreeMdl", || io_free_mdl as *const () as usize),
    ("MmSizeOfMdl", || mm_size_of_mdl as *const () as usize),
    ("MmBuildMdlForNonPagedPool", || mm_build_mdl as *const () as usize),
    ("MmProbeAndLockPages", || mm_probe_and_lock_pages as *const () as usize),
    ("MmUnlockPages", || mm_unlock_pages as *const () as usize),
    ("MmMapLockedPages", || mm_map_locked_pages as *const () as usize),
    ("MmMapLockedPagesSpecifyCache", || mm_map_locked_pages_specify_cache as *const () as usize),
    ("MmUnmapLockedPages", || mm_unmap_locked_pages as *const () as usize),
    ("MmIsAddressValid", || mm_is_address_valid as *const () as usize),
    ("MmAllocatePagesForMdl", || mm_allocate_pages_for_mdl as *const () as usize),
    ("MmAllocatePagesForMdlEx", || mm_allocate_pages_for_mdl_ex as *const () as usize),
    ("MmFreePagesFromMdl", || mm_free_pages_from_mdl as *const () as usize),
];

/// Bits of `MdlFlags`. [wdm: MDL_MAPPED_TO_SYSTEM_VA and its kin]
const MAPPED: i16 = 0x1;
const LOCKED: i16 = 0x2;
const NONPAGED_POOL: i16 = 0x4;
/// The list describes a part of what another list does.
const PARTIAL: i16 = 0x10;
/// Such a list has a mapping of its own, instead of that of the other list.
const PARTIAL_MAPPED: i16 = 0x20;
const SIZE: usize = 8;
const FLAGS: usize = 10;
/// KPROCESSOR_MODE: UserMode. [wdm: MmMapLockedPagesSpecifyCache]
const USER_MODE: i8 = 1;
/// Added to the number of a virtual page that is not in the machine's memory: physical addresses of 52 bits above those of any memory or device.
const NOT_IN_RAM: u64 = 1 << 39;
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

/// Most bytes that a list describes. [wdm: IoAllocateMdl]
const MOST_BYTES: u32 = u32::MAX - (PAGE as u32 - 1);

/// A list without frame numbers; NULL if memory is short or the buffer too long, which the log has. Size in the header has the low 16 bits of the list's size,
/// which is as many as there are: a list of some 16 MiB and more is longer than it says.
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
    if length > MOST_BYTES {
        let why = format!(
            "{NAME} answers NULL: Length is {length:#x}, and at most {MOST_BYTES:#x} bytes are allowed [wdm: {NAME}]"
        );
        on_host_stack(|| caller(NAME).verifier().log(why));
        return std::ptr::null_mut();
    }
    let size = mm_size_of_mdl(address, length as usize);
    // SAFETY: no pointers among the arguments.
    let mdl = unsafe { ex_allocate_pool2(POOL_FLAG_NON_PAGED, size, TAG) };
    if !mdl.is_null() {
        on_host_stack(|| caller(NAME).page_lists().is_made(mdl.addr()));
        put(NAME, field(mdl, SIZE), size as u16);
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
    /// Memory that is freed already. [debugger: 0xc4]
    const FREED_AGAIN: u64 = 0x13;
    let driver = caller(NAME);
    let known = on_host_stack(|| driver.pool().check_range(mdl.addr(), 1));
    if let Some((_, Owned::Freed { .. })) = known {
        let reason = format!("{NAME} of list {mdl:p}, which was freed before");
        let parameters = [FREED_AGAIN, 0, mdl.addr() as u64, 0];
        stop(Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason));
    }
    let flags = get::<i16>(NAME, field(mdl, FLAGS));
    // The mapping of a part is that of the list it was taken from, or ends with the part. [wdm: IoBuildPartialMdl]
    let own = if flags & PARTIAL == 0 { flags } else { flags & !MAPPED };
    if is_mapped(&driver, mdl, own) {
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

/// True if the pages of a list are mapped for the kernel, as its flags say, or for user mode, which they do not say.
fn is_mapped(driver: &Driver, mdl: *mut c_void, flags: i16) -> bool {
    flags & MAPPED != 0 || on_host_stack(|| driver.page_lists().has_user_mapping(mdl.addr()))
}

/// Where the memory of a list begins, and how long it is.
fn range(service: &'static str, mdl: *mut c_void) -> (usize, usize) {
    let start: usize = get(service, field(mdl, 32));
    let [length, offset]: [u32; 2] = get(service, field(mdl, 40));
    (start.wrapping_add(offset as usize), length as usize)
}

/// The number that stands for a page which is not in the machine's memory.
fn not_in_ram(page: usize) -> u64 {
    NOT_IN_RAM | (page as u64 / PAGE_SIZE)
}

/// The mapping of a part is that of the list it was taken from, unless it has one of its own: the flags without that. [wdm: IoBuildPartialMdl]
fn own_mapping(flags: i16) -> i16 {
    if flags & (PARTIAL | PARTIAL_MAPPED) == PARTIAL { flags & !MAPPED } else { flags }
}

/// How a list is too small for the frame numbers of so many pages, in words. One that begins a block of pool ends with it, and any other where its Size says. Size has
/// the low 16 bits of the bytes: a list of 64 KiB and more has those that the buffer which it describes needs. [wdm: MDL, MmInitializeMdl]
fn too_small(service: &'static str, driver: &Driver, mdl: *mut c_void, count: usize) -> Option<String> {
    let needed = HEADER + 8 * count;
    let pages_to_have = if count == 1 { "1 page".to_owned() } else { format!("{count} pages") };
    let (owned, block) = on_host_stack(|| {
        let pool = driver.pool();
        (pool.check_range(mdl.addr(), needed), pool.block_at(mdl.addr()))
    });
    match owned {
        Some((_, owned @ Owned::Freed { .. })) => return Some(format!("the list {mdl:p} lies in {owned}")),
        Some((_, owned)) => return Some(format!("the list {mdl:p} is to have {pages_to_have} and ends {owned}")),
        None if block.is_some() => return None,
        None => {}
    }
    let size = usize::from(get::<u16>(service, field(mdl, SIZE)));
    let (address, length) = range(service, mdl);
    let described = mm_size_of_mdl(address, length);
    let long = if described % (1 << 16) == size { described } else { size };
    (long < needed).then(|| {
        format!(
            "the list {mdl:p} is to have {pages_to_have}: its Size is {size}, and {needed} bytes are needed; MmInitializeMdl and IoAllocateMdl set Size for the buffer that a list \
             is to describe"
        )
    })
}

/// Fills in the frame numbers.
fn fill(service: &'static str, mdl: *mut c_void) {
    let (address, length) = range(service, mdl);
    let driver = caller(service);
    if let Some(why) = too_small(service, &driver, mdl, pages(address, length)) {
        stop(Bugcheck::fatal_of(mdl.addr(), format!("{service}: {why} [wdm: {service}]")));
    }
    let start = address & !(PAGE - 1);
    let mut outside = None;
    for index in 0..pages(address, length) {
        let page = start + index * PAGE;
        let physical = driver.physical_address(page);
        if physical.is_none() {
            outside = outside.or(Some(page));
        }
        let number = physical.map_or_else(|| not_in_ram(page), |physical| physical / PAGE_SIZE);
        put(service, field(mdl, HEADER + 8 * index), number);
    }
    let Some(page) = outside.filter(|_| driver.page_lists().tells_of_frames()) else { return };
    let number = not_in_ram(page);
    let told = format!(
        "{service}: the page at {page:#x} is not in the memory that devices reach; its frame number {number:#x} stands for it in lists, and no device reaches anything by it. \
         MmAllocatePagesForMdlEx and MmAllocateContiguousMemory give memory that devices reach"
    );
    on_host_stack(|| driver.verifier().log(told));
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
    set_flags(NAME, mdl, NONPAGED_POOL, PARTIAL | PARTIAL_MAPPED);
}

/// What keeps a list from becoming a part of another with so many pages. Stops the machine for one that is too small for them.
fn refused_target(service: &'static str, source: *mut c_void, target: *mut c_void, count: usize) -> Option<String> {
    if source == target {
        return Some("is the same".to_owned());
    }
    let driver = caller(service);
    if let Some((_, owned @ Owned::Freed { .. })) = on_host_stack(|| driver.pool().check_range(target.addr(), 1)) {
        return Some(format!("lies in {owned}"));
    }
    if let Some(why) = too_small(service, &driver, target, count) {
        stop(Bugcheck::new(Bugcheck::TARGET_MDL_TOO_SMALL, [0; 4], format!("{service}: {why}")));
    }
    let flags: i16 = get(service, field(target, FLAGS));
    if is_mapped(&driver, target, own_mapping(flags)) {
        return Some(format!("is mapped (MdlFlags {flags:#x}): MmPrepareMdlForReuse ends that of a part"));
    }
    (flags & LOCKED != 0).then(|| format!("describes pages that are locked (MdlFlags {flags:#x})"))
}

/// The target describes a part of the source's buffer, with its frame numbers, and with its mapping for the kernel if there is one. A length of 0 stands for
/// everything from the address to the end of the source. [wdm: IoBuildPartialMdl]
extern "win64" fn io_build_partial_mdl(source: *mut c_void, target: *mut c_void, address: usize, length: u32) {
    const NAME: &str = "IoBuildPartialMdl";
    let flags: i16 = get(NAME, field(source, FLAGS));
    let (start, whole) = range(NAME, source);
    let rest = start.saturating_add(whole).saturating_sub(address);
    let length = if length == 0 { rest } else { length as usize };
    let wrong = |what: String| stop(Bugcheck::fatal_of(source.addr(), format!("{NAME} of list {source:p}, {what}")));
    if flags & (LOCKED | NONPAGED_POOL | PARTIAL) == 0 {
        wrong(format!("whose pages are not locked (MdlFlags {flags:#x})"));
    }
    if address < start || length == 0 || length > rest {
        wrong(format!(
            "which describes {whole:#x} bytes at {start:#x}: {length:#x} bytes at {address:#x} are no part of them"
        ));
    }
    let count = pages(address, length);
    if let Some(why) = refused_target(NAME, source, target, count) {
        wrong(format!("into list {target:p}, which {why}"));
    }
    put(NAME, field(target, 32), address & !(PAGE - 1));
    put(NAME, field(target, 40), [length as u32, (address % PAGE) as u32]);
    let shared = flags & (MAPPED | NONPAGED_POOL);
    if shared != 0 {
        let mapped: usize = get(NAME, field(source, MAPPED_VA));
        put(NAME, field(target, MAPPED_VA), mapped.wrapping_add(address - start));
    }
    set_flags(NAME, target, shared | PARTIAL, MAPPED | NONPAGED_POOL);
    let first = address / PAGE - start / PAGE;
    for index in 0..count {
        let number: u64 = get(NAME, field(source, HEADER + 8 * (first + index)));
        put(NAME, field(target, HEADER + 8 * index), number);
    }
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
        // SAFETY: the place where the call came from, for the length of the call.
        let from = unsafe { site.as_ref() }.map_or(0, |site| site.call().0);
        let arguments = [usize::from(!is_read), address];
        raise(site, STATUS_ACCESS_VIOLATION, &arguments, || unhandled(bad_pointer(NAME, fault), from, arguments));
    }
    fill(NAME, mdl);
    let flags = set_flags(NAME, mdl, LOCKED, PARTIAL | PARTIAL_MAPPED);
    if flags & LOCKED != 0 {
        let reason = format!("{NAME} of list {mdl:p}, whose pages are locked already (MdlFlags {flags:#x})");
        misused(LOCKED_AGAIN, mdl, (flags, LOCKED), reason);
    }
}

/// The exception of MmProbeAndLockPages that nobody handles; what is known better of the address, such as that it is freed, stays. [debugger: 0x1e]
fn unhandled(bugcheck: Bugcheck, from: usize, arguments: [usize; 2]) -> Bugcheck {
    if bugcheck.code != Bugcheck::PAGE_FAULT_IN_NONPAGED_AREA {
        return bugcheck;
    }
    let parameters = [STATUS_ACCESS_VIOLATION.into(), from as u64, arguments[0] as u64, arguments[1] as u64];
    let reason = format!("{}; no handler of the driver took the exception", bugcheck.reason);
    Bugcheck::new(Bugcheck::KMODE_EXCEPTION_NOT_HANDLED, parameters, reason)
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

/// A mapping for user mode is none of the system's address space, so that the list does not tell of it.
extern "win64" fn mm_map_locked_pages(mdl: *mut c_void, mode: i8) -> usize {
    const NAME: &str = "MmMapLockedPages";
    let flags = get::<i16>(NAME, field(mdl, FLAGS));
    if flags & (LOCKED | NONPAGED_POOL | PARTIAL) == 0 {
        let reason = format!("{NAME} of list {mdl:p}, whose pages are not locked (MdlFlags {flags:#x})");
        misused(MAPPED_UNLOCKED, mdl, (flags, LOCKED | NONPAGED_POOL), reason);
    }
    let address = range(NAME, mdl).0;
    if mode == USER_MODE {
        on_host_stack(|| caller(NAME).page_lists().map_for_user(mdl.addr()));
        return address;
    }
    put(NAME, field(mdl, MAPPED_VA), address);
    let own = if flags & PARTIAL == 0 { 0 } else { PARTIAL_MAPPED };
    set_flags(NAME, mdl, MAPPED | own, 0);
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
    let was = get::<i16>(NAME, field(mdl, FLAGS));
    let driver = caller(NAME);
    let (mapped, length) = range(NAME, mdl);
    let misuse = |parameters, reason| stop(Bugcheck::new(Bugcheck::SYSTEM_PTE_MISUSE, parameters, reason));
    if !is_mapped(&driver, mdl, own_mapping(was)) {
        let parameters = [NOT_MAPPED, mdl.addr() as u64, address as u64, pages(mapped, length) as u64];
        let shares = "shares the mapping of the list that it is a part of";
        let what = if was & MAPPED == 0 { "is not mapped" } else { shares };
        misuse(parameters, format!("{NAME} of {address:#x} with list {mdl:p}, which {what} (MdlFlags {was:#x})"));
    }
    if mapped != address {
        let parameters = [OTHER_ADDRESS, mdl.addr() as u64, mapped as u64, address as u64];
        misuse(parameters, format!("{NAME} of {address:#x} with list {mdl:p}, which is mapped at {mapped:#x}"));
    }
    // Both mappings have one address; which of them ends first makes no difference.
    if !on_host_stack(|| driver.page_lists().unmap_for_user(mdl.addr())) {
        set_flags(NAME, mdl, 0, MAPPED | PARTIAL_MAPPED);
    }
}

extern "win64" fn mm_is_address_valid(address: *const u8) -> u8 {
    guarded::probe(address, 1).is_ok().into()
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
/// Pages of the longest list. [wdm: MmAllocatePagesForMdlEx]
const MOST_PAGES: u64 = MOST_BYTES as u64 / PAGE_SIZE;

/// One block of pages between the addresses, as large as there is one, in steps of `step` bytes. [wdm: MmAllocatePagesForMdlEx]
fn allocate_block(driver: &Driver, (low, high): (u64, u64), total: u64, step: u64, whole: bool) -> Option<Pages> {
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
    let from = calling_instruction();
    let block = on_host_stack(|| {
        let pages = allocate_block(&driver, (low, high), wanted.min(most), step, whole)?;
        if flags & DONT_ZERO == 0 {
            pages.zero();
        }
        let bytes = pages.len();
        Some((driver.keep_listed(pages, from), bytes))
    });
    let Some((address, bytes)) = block else { return std::ptr::null_mut() };
    let mdl = io_allocate_mdl(address, bytes as u32, 0, 0, std::ptr::null_mut());
    if mdl.is_null() {
        on_host_stack(|| driver.release_listed(address));
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
    if is_mapped(&driver, mdl, flags) {
        let reason = format!("{NAME} of list {mdl:p}, whose pages are mapped (MdlFlags {flags:#x})");
        misused(FREED_MAPPED, mdl, (flags, 0), reason);
    }
    let address = range(NAME, mdl).0;
    if flags & LOCKED == 0 || !on_host_stack(|| driver.release_listed(address)) {
        let reason = format!("{NAME} of list {mdl:p}, which MmAllocatePagesForMdlEx did not return, or twice");
        misused(UNLOCKED_UNLOCKED, mdl, (flags, 0), reason);
    }
    set_flags(NAME, mdl, 0, LOCKED);
}

#[cfg(test)]
mod tests;
