// UNSAFETY: kernel services with raw arguments.
//! Contiguous memory that devices reach by its physical address. [wdm: MmAllocateContiguousMemory, MmAllocateContiguousNodeMemory, MmFreeContiguousMemory, MmGetPhysicalAddress]

use std::ffi::c_void;

use wddm_ddi::nt::DISPATCH_LEVEL;
use wddm_ddi::types::{LARGE_INTEGER, PHYSICAL_ADDRESS};

use super::call::{caller, irql_above};
use crate::bugcheck::Bugcheck;
use crate::driver::Export;
use crate::driver_call::{self, calling_instruction, on_host_stack, stop};
use crate::irql;
use crate::page::PAGE_SIZE;

pub(super) const EXPORTS: &[Export] = &[
    ("MmAllocateContiguousMemory", || mm_allocate_contiguous_memory as *const () as usize),
    ("MmAllocateContiguousMemorySpecifyCache", || mm_allocate_contiguous_specify_cache as *const () as usize),
    ("MmAllocateContiguousMemorySpecifyCacheNode", || mm_allocate_contiguous_specify_cache_node as *const () as usize),
    ("MmAllocateContiguousNodeMemory", || mm_allocate_contiguous_node_memory as *const () as usize),
    ("MmFreeContiguousMemory", || mm_free_contiguous_memory as *const () as usize),
    ("MmFreeContiguousMemorySpecifyCache", || mm_free_contiguous_specify_cache as *const () as usize),
];

pub(super) unsafe extern "win64" fn mm_get_physical_address(address: *mut c_void) -> PHYSICAL_ADDRESS {
    let physical = driver_call::current().and_then(|driver| driver.physical_address(address.addr()));
    match physical.and_then(|physical| i64::try_from(physical).ok()) {
        Some(physical) => LARGE_INTEGER { QuadPart: physical },
        // Pool lies outside the memory that devices reach, so the answer would only mislead.
        None => stop(Bugcheck::fatal(format!(
            "MmGetPhysicalAddress of {address:p}, which is not memory of MmAllocateContiguousMemory, MmAllocatePagesForMdlEx or DxgkCbAllocateContiguousMemory"
        ))),
    }
}

/// Physical addresses that a block may have.
struct Wanted {
    lowest: u64,
    highest: u64,
    boundary: u64,
    /// The processor may execute it.
    executable: bool,
}

impl Wanted {
    /// Any that is not executable.
    fn any() -> Self {
        Self { lowest: 0, highest: u64::MAX, boundary: 0, executable: false }
    }
}

/// NULL if there is no such memory. The contents are undefined.
fn allocate(service: &'static str, bytes: usize, wanted: &Wanted) -> *mut c_void {
    if irql::current() > DISPATCH_LEVEL {
        stop(irql_above(service, 0, DISPATCH_LEVEL));
    }
    let (driver, from) = (caller(service), calling_instruction());
    let &Wanted { lowest, highest, boundary, executable } = wanted;
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
        if inside { driver.contiguous().keep(pages, bytes, from, executable) } else { None }
    });
    std::ptr::with_exposed_provenance_mut(found.unwrap_or(0))
}

pub(super) extern "win64" fn mm_allocate_contiguous_memory(bytes: usize, highest: u64) -> *mut c_void {
    allocate("MmAllocateContiguousMemory", bytes, &Wanted { highest, ..Wanted::any() })
}

extern "win64" fn mm_allocate_contiguous_specify_cache(
    bytes: usize,
    lowest: u64,
    highest: u64,
    boundary: u64,
    _cache: u32,
) -> *mut c_void {
    allocate("MmAllocateContiguousMemorySpecifyCache", bytes, &Wanted { lowest, highest, boundary, ..Wanted::any() })
}

/// The machine has one node, so that none is preferred.
extern "win64" fn mm_allocate_contiguous_specify_cache_node(
    bytes: usize,
    lowest: u64,
    highest: u64,
    boundary: u64,
    _cache: u32,
    _node: u32,
) -> *mut c_void {
    let wanted = Wanted { lowest, highest, boundary, ..Wanted::any() };
    allocate("MmAllocateContiguousMemorySpecifyCacheNode", bytes, &wanted)
}

/// As above. The protection is PAGE_READWRITE or PAGE_EXECUTE_READWRITE, with at most one of PAGE_NOCACHE and PAGE_WRITECOMBINE. The page says of no other what it does:
/// here it has no memory, and the log has the rule.
extern "win64" fn mm_allocate_contiguous_node_memory(
    bytes: usize,
    lowest: u64,
    highest: u64,
    boundary: u64,
    protection: u32,
    _node: u32,
) -> *mut c_void {
    const NAME: &str = "MmAllocateContiguousNodeMemory";
    const READWRITE: u32 = 0x04;
    const EXECUTE_READWRITE: u32 = 0x40;
    const MODIFIERS: u32 = 0x200 | 0x400;
    let executable = match protection & !MODIFIERS {
        READWRITE => Some(false),
        EXECUTE_READWRITE => Some(true),
        _ => None,
    };
    let Some(executable) = executable.filter(|_| protection & MODIFIERS != MODIFIERS) else {
        let driver = caller(NAME);
        on_host_stack(|| {
            driver.verifier().log(format!(
                "{NAME} answers NULL: Protect is {protection:#x}, and expected is PAGE_READWRITE (0x4) or PAGE_EXECUTE_READWRITE (0x40), with at most one of PAGE_NOCACHE (0x200) and \
                 PAGE_WRITECOMBINE (0x400) [wdm: MmAllocateContiguousNodeMemory]"
            ));
        });
        return std::ptr::null_mut();
    };
    allocate(NAME, bytes, &Wanted { lowest, highest, boundary, executable })
}

pub(super) extern "win64" fn mm_free_contiguous_memory(address: *mut c_void) {
    free("MmFreeContiguousMemory", address);
}

/// The page allows DISPATCH_LEVEL since Windows Server 2008. [wdm: MmFreeContiguousMemory]
fn free(service: &'static str, address: *mut c_void) {
    if irql::current() > DISPATCH_LEVEL {
        stop(irql_above(service, address.addr() as u64, DISPATCH_LEVEL));
    }
    let (driver, from) = (caller(service), calling_instruction());
    if let Err(bugcheck) = on_host_stack(|| driver.free_contiguous(address.addr(), from)) {
        stop(bugcheck);
    }
}

extern "win64" fn mm_free_contiguous_specify_cache(address: *mut c_void, _bytes: usize, _cache: u32) {
    free("MmFreeContiguousMemorySpecifyCache", address);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::bugcheck::Bugcheck;
    use crate::driver::{Driver, Host, Services};
    use crate::driver_call;
    use crate::fault::guarded;
    use crate::page::PAGE;
    use crate::pool::SpecialPool;
    use crate::ram::Ram;

    fn driver() -> Arc<Driver> {
        let (verifier, ram) = (Arc::default(), Ram::new(1 << 20).unwrap());
        let host = Host {
            verifier: &verifier,
            ram: &ram,
            special_pool: SpecialPool::Off,
            registry: &crate::registry::RegistryKey::default(),
            services: &Services::NONE,
        };
        Driver::new("contiguous", &host, None)
    }

    /// Bug check of the machine whose driver makes this mistake.
    fn stopped(mistake: impl FnOnce()) -> Bugcheck {
        let driver = driver();
        driver_call::run(&driver, "a function", mistake);
        driver.check_unloaded();
        driver.verifier().bugcheck().expect("the machine goes on")
    }

    fn at(address: *mut c_void, offset: isize) -> *mut u8 {
        address.cast::<u8>().wrapping_offset(offset)
    }

    #[test]
    fn memory_is_reached_by_devices_where_its_address_says() {
        let driver = driver();
        driver_call::run(&driver, "a function", || {
            let memory = mm_allocate_contiguous_memory(2 * PAGE - 8, u64::MAX);
            // SAFETY: a place in the block.
            assert_eq!(unsafe { guarded::write(at(memory, PAGE as isize), 0x5a_u8) }, Ok(()));
            let physical = driver.physical_address(memory.addr()).unwrap();
            let seen = driver.ram().unwrap().kernel_address(physical + PAGE_SIZE, 1).unwrap();
            // SAFETY: a byte of the machine's memory.
            assert_eq!(unsafe { seen.read() }, 0x5a);
            assert_eq!(driver.physical_address(memory.addr() + 2 * PAGE), None);
            mm_free_contiguous_memory(memory);
            assert_eq!(driver.physical_address(memory.addr()), None);
        })
        .0
        .unwrap();
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    #[test]
    fn the_page_behind_and_before_a_block_and_a_freed_block_cannot_be_accessed_and_are_known() {
        let driver = driver();
        driver_call::run(&driver, "a function", || {
            let memory = mm_allocate_contiguous_memory(PAGE + 100, u64::MAX);
            let told = |offset: isize| {
                let place = at(memory, offset);
                // SAFETY: any byte is one.
                assert!(unsafe { guarded::read(place.cast_const()) }.is_err(), "{offset}");
                driver.contiguous().fault_at(place.addr()).expect("known").to_string()
            };
            let start = memory.addr();
            let of = format!("of {} bytes of contiguous memory at {start:#x}", PAGE + 100);
            assert_eq!(told(2 * PAGE as isize), format!("{} bytes beyond the end {of}", PAGE - 100 + 1));
            assert_eq!(told(-1), format!("1 bytes before the start {of}"));
            mm_free_contiguous_memory(memory);
            assert_eq!(told(8), format!("freed contiguous memory: {} bytes were at {start:#x}", PAGE + 100));
            let again = mm_allocate_contiguous_memory(PAGE + 100, u64::MAX);
            assert_ne!(again, memory, "the addresses are not used again at once");
            mm_free_contiguous_memory(again);
        })
        .0
        .unwrap();
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    #[test]
    fn what_is_written_behind_a_block_in_its_last_page_is_found_when_it_is_freed_and_at_unload() {
        for frees in [true, false] {
            let bugcheck = stopped(|| {
                let memory = mm_allocate_contiguous_memory(100, u64::MAX);
                // SAFETY: a place in the page of the block.
                assert_eq!(unsafe { guarded::write(at(memory, 103), 1_u8) }, Ok(()));
                if frees {
                    mm_free_contiguous_memory(memory);
                }
            });
            assert_eq!((bugcheck.code, bugcheck.parameters[3]), (0xc1, 0x24), "{bugcheck}");
            assert!(bugcheck.reason.contains("written 4 bytes past the end of 100 bytes of contiguous memory"));
        }
    }

    #[test]
    fn a_block_that_is_freed_twice_and_what_is_no_block_are_told_apart() {
        let bugcheck = stopped(|| {
            let memory = mm_allocate_contiguous_memory(100, u64::MAX);
            mm_free_contiguous_memory(memory);
            mm_free_contiguous_specify_cache(memory, 100, 1);
        });
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0xc2, 0x46), "{bugcheck}");
        assert!(bugcheck.reason.contains("a block of 100 bytes that is freed already"), "{bugcheck}");
        let bugcheck = stopped(|| mm_free_contiguous_memory(std::ptr::without_provenance_mut(0x1000)));
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0xc2, 0x46), "{bugcheck}");
        assert!(bugcheck.reason.contains("no memory of MmAllocateContiguousMemory"), "{bugcheck}");
    }

    #[test]
    fn memory_with_page_execute_readwrite_alone_is_executed() {
        /// `mov eax, 7; ret`.
        const CODE: [u8; 6] = [0xb8, 7, 0, 0, 0, 0xc3];
        let mapped = |protection| {
            let driver = driver();
            let seen = driver_call::run(&driver, "a function", || {
                let memory = mm_allocate_contiguous_node_memory(PAGE, 0, u64::MAX, 0, protection, 0x8000_0000);
                // SAFETY: places in the block.
                assert_eq!(unsafe { guarded::write(memory.cast(), CODE) }, Ok(()));
                let maps = std::fs::read_to_string("/proc/self/maps").expect("the mappings of this process");
                let line = maps.lines().find(|line| line.starts_with(&format!("{:x}-", memory.addr())));
                let rights = line.and_then(|line| line.split(' ').nth(1)).expect("a mapping").to_owned();
                let answer = rights.contains('x').then(|| {
                    // SAFETY: the code is a whole function of this convention.
                    let function = unsafe { std::mem::transmute::<*mut c_void, extern "win64" fn() -> u32>(memory) };
                    function()
                });
                mm_free_contiguous_memory(memory);
                (rights, answer)
            });
            driver.check_unloaded();
            assert_eq!(driver.verifier().bugcheck(), None);
            seen.0.expect("it returns")
        };
        assert_eq!(mapped(0x40), ("rwxs".to_owned(), Some(7)));
        assert_eq!(mapped(0x04), ("rw-s".to_owned(), None));
    }

    #[test]
    fn memory_of_a_node_has_one_of_the_protections_and_lies_where_it_may() {
        let driver = driver();
        driver_call::run(&driver, "a function", || {
            for protection in [0, 0x02, 0x604, 0x10, 0x20] {
                assert!(mm_allocate_contiguous_node_memory(PAGE, 0, u64::MAX, 0, protection, 0).is_null());
                let told = driver.verifier().log_lines().pop().expect("a line");
                assert!(
                    told.contains(&format!("Protect is {protection:#x}, and expected is PAGE_READWRITE")),
                    "{told}"
                );
            }
            assert!(mm_allocate_contiguous_specify_cache_node(PAGE, 1 << 40, u64::MAX, 0, 1, 0).is_null());
            let memory = mm_allocate_contiguous_node_memory(3 * PAGE, 0, u64::MAX, 4 * PAGE_SIZE, 0x204, 0x8000_0000);
            let physical = driver.physical_address(memory.addr()).unwrap();
            assert!(physical % (4 * PAGE_SIZE) + 3 * PAGE_SIZE <= 4 * PAGE_SIZE, "{physical:#x}");
            mm_free_contiguous_memory(memory);
        })
        .0
        .unwrap();
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
    }
}
