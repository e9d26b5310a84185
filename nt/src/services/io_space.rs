// UNSAFETY: kernel services with raw arguments.
//! Memory of devices that drivers map by its physical address. [wdm: MmMapIoSpace, MmMapIoSpaceEx, MmUnmapIoSpace]

use std::ffi::c_void;

use wddm_ddi::nt::DISPATCH_LEVEL;
use wddm_ddi::types::PHYSICAL_ADDRESS;

use super::call::{caller, irql_above};
use crate::bugcheck::Bugcheck;
use crate::driver::{Export, MapCall};
use crate::driver_call::{calling_instruction, on_host_stack, stop};
use crate::irql;

pub(super) const EXPORTS: &[Export] = &[
    ("MmMapIoSpace", || mm_map_io_space as *const () as usize),
    ("MmMapIoSpaceEx", || mm_map_io_space_ex as *const () as usize),
    ("MmUnmapIoSpace", || mm_unmap_io_space as *const () as usize),
];

/// NULL for what is not wholly in a memory range of one of the driver's devices. The cache type is that of the range.
fn map(service: &'static str, address: PHYSICAL_ADDRESS, bytes: usize) -> *mut c_void {
    if irql::current() > DISPATCH_LEVEL {
        stop(irql_above(service, address.QuadPart as u64, DISPATCH_LEVEL));
    }
    if bytes == 0 {
        stop(Bugcheck::fatal(format!("{service} of 0 bytes at {:#x}", address.QuadPart)));
    }
    let (driver, by) = (caller(service), MapCall { service, from: calling_instruction() });
    let found = on_host_stack(|| {
        let mut spaces = driver.io_spaces().into_iter();
        spaces.find_map(|space| space.map(address.QuadPart as u64, bytes as u64, by))
    });
    found.map_or(std::ptr::null_mut(), std::ptr::with_exposed_provenance_mut)
}

extern "win64" fn mm_map_io_space(address: PHYSICAL_ADDRESS, bytes: usize, _cache: i32) -> *mut c_void {
    map("MmMapIoSpace", address, bytes)
}

extern "win64" fn mm_map_io_space_ex(address: PHYSICAL_ADDRESS, bytes: usize, protection: u32) -> *mut c_void {
    const NAME: &str = "MmMapIoSpaceEx";
    /// PAGE_READONLY, PAGE_READWRITE, PAGE_EXECUTE, PAGE_EXECUTE_READ and PAGE_EXECUTE_READWRITE, of which one is given, with PAGE_NOCACHE or PAGE_WRITECOMBINE. [wdm]
    const PROTECTIONS: [u32; 5] = [0x02, 0x04, 0x10, 0x20, 0x40];
    const MODIFIERS: u32 = 0x200 | 0x400;
    if !PROTECTIONS.contains(&(protection & !MODIFIERS)) || protection & MODIFIERS == MODIFIERS {
        return std::ptr::null_mut();
    }
    map(NAME, address, bytes)
}

extern "win64" fn mm_unmap_io_space(base: *mut c_void, _bytes: usize) {
    const NAME: &str = "MmUnmapIoSpace";
    if irql::current() > DISPATCH_LEVEL {
        stop(irql_above(NAME, base.addr() as u64, DISPATCH_LEVEL));
    }
    let (driver, by) = (caller(NAME), MapCall { service: NAME, from: calling_instruction() });
    let ended = on_host_stack(|| {
        for space in driver.io_spaces() {
            match space.unmap(base.addr(), by) {
                Ok(false) => {}
                Ok(true) => return Ok(()),
                Err(error) => {
                    let reason = format!(
                        "{NAME} of {base:p}: the host has not taken its addresses back ({error}), so that a use of the ended mapping would not be found"
                    );
                    return Err(Bugcheck::fatal_of(base.addr(), reason));
                }
            }
        }
        let known = driver.mapping_near(base.addr()).filter(|known| known.ended && known.start == base.addr());
        let before = known.map_or_else(String::new, |known| {
            let place = driver.place(known.by.from).map_or_else(String::new, |place| format!(" in {place}"));
            format!(": {} has unmapped it{place}", known.by.service)
        });
        Err(Bugcheck::fatal(format!("{NAME} of {base:p}, which is no mapping of MmMapIoSpace{before}")))
    });
    if let Err(bugcheck) = ended {
        stop(bugcheck);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Weak};

    use super::*;
    use crate::driver::{Driver, IoMapping, IoSpace};
    use crate::driver_call;
    use crate::lock::{Innermost, Mutex};

    /// A page at 0x1000 that is seen at 0x7000.
    #[derive(Default)]
    struct Page(Mutex<u32, Innermost>);

    impl IoSpace for Page {
        fn map(&self, address: u64, len: u64, by: MapCall) -> Option<usize> {
            assert!(by.service.starts_with("MmMapIoSpace"));
            (address >= 0x1000 && address.checked_add(len)? <= 0x2000).then(|| {
                *self.0.lock() += 1;
                address as usize + 0x6000
            })
        }

        fn unmap(&self, address: usize, by: MapCall) -> io::Result<bool> {
            assert_eq!(by.service, "MmUnmapIoSpace");
            if address == 0xa000 {
                return Err(io::Error::from_raw_os_error(libc::ENOMEM));
            }
            let mut mapped = self.0.lock();
            let known = (0x7000..0x8000).contains(&address) && *mapped != 0;
            *mapped -= u32::from(known);
            Ok(known)
        }

        fn mapping_near(&self, address: usize) -> Option<IoMapping> {
            let by = MapCall { service: "MmUnmapIoSpace", from: 0 };
            (address == 0x9000).then_some(IoMapping { start: 0x9000, len: 0x1000, physical: 0x1000, ended: true, by })
        }
    }

    fn at(address: i64) -> PHYSICAL_ADDRESS {
        PHYSICAL_ADDRESS { QuadPart: address }
    }

    #[test]
    fn memory_of_the_drivers_devices_is_mapped_and_nothing_else() {
        let (driver, page) = (Driver::for_tests("mapper"), Arc::new(Page::default()));
        let space: Weak<Page> = Arc::downgrade(&page);
        driver.add_io_space(space);
        let call = || {
            let mapped = mm_map_io_space(at(0x1010), 0x20, 0);
            assert_eq!(mapped.addr(), 0x7010);
            assert_eq!(mm_map_io_space_ex(at(0x1ff0), 0x10, 0x204).addr(), 0x7ff0);
            for (address, bytes) in [(0x1ff0, 0x11), (0xff0, 0x20), (0x4000, 8), (-8, 16)] {
                assert!(mm_map_io_space(at(address), bytes, 0).is_null(), "{address:#x}");
            }
            for protection in [0, 0x200, 0x604, 0x06, 0x80] {
                assert!(mm_map_io_space_ex(at(0x1000), 8, protection).is_null(), "{protection:#x}");
            }
            mm_unmap_io_space(mapped, 0x20);
            mm_unmap_io_space(std::ptr::without_provenance_mut(0x7ff0), 0x10);
        };
        driver_call::run(&driver, "a function", call).0.unwrap();
        assert_eq!((*page.0.lock(), driver.verifier().bugcheck()), (0, None));
        drop(page);
        driver_call::run(&driver, "a function", || assert!(mm_map_io_space(at(0x1000), 8, 0).is_null())).0.unwrap();
    }

    #[test]
    fn a_mapping_that_is_ended_twice_is_told_with_the_call_that_ended_it_first() {
        let (driver, page) = (Driver::for_tests("mapper"), Arc::new(Page::default()));
        let space: Weak<Page> = Arc::downgrade(&page);
        driver.add_io_space(space);
        driver_call::run(&driver, "a function", || mm_unmap_io_space(std::ptr::without_provenance_mut(0x9000), 8));
        let bugcheck = driver.verifier().bugcheck().expect("the machine stops");
        assert!(bugcheck.reason.contains("which is no mapping of MmMapIoSpace: MmUnmapIoSpace has unmapped it"));
    }

    #[test]
    fn a_mapping_whose_addresses_the_host_does_not_take_back_stops_the_machine_by_name() {
        let (driver, page) = (Driver::for_tests("mapper"), Arc::new(Page::default()));
        let space: Weak<Page> = Arc::downgrade(&page);
        driver.add_io_space(space);
        driver_call::run(&driver, "a function", || mm_unmap_io_space(std::ptr::without_provenance_mut(0xa000), 8));
        let bugcheck = driver.verifier().bugcheck().expect("the machine stops");
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x113, 0xa000), "{bugcheck}");
        assert!(bugcheck.reason.contains("has not taken its addresses back (Cannot allocate memory"), "{bugcheck}");
    }

    #[test]
    fn a_range_without_bytes_and_an_unknown_mapping_stop_the_machine() {
        let mistakes: [fn(); 2] = [
            || {
                mm_map_io_space(at(0x1000), 0, 0);
            },
            || mm_unmap_io_space(std::ptr::without_provenance_mut(0x7000), 8),
        ];
        for mistake in mistakes {
            let driver = Driver::for_tests("breaker");
            assert!(driver_call::run(&driver, "a function", mistake).0.is_none());
            assert_eq!(driver.verifier().bugcheck().unwrap().code, 0x113);
        }
    }
}
