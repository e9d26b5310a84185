// UNSAFETY: the kernel services that drivers call, with raw arguments.
//! Kernel services for drivers, each with the checks that Driver Verifier makes.
//!
//! A wrong call stops the machine and does not return, as on Windows; see [`driver_call::abandon`].

mod bitmap;
mod bug_checks;
mod cm;
mod contiguous;
mod conversions;
mod crt;
mod debug;
mod device_properties;
mod dispatcher;
mod etw;
mod exceptions;
mod files;
mod io;
mod io_space;
mod lists;
mod mdl;
mod memory;
mod misc;
mod pool;
mod printf;
mod push_lock;
mod registry;
mod registry_table;
mod resource;
mod rundown;
mod spin;
mod strings;
mod threads;
mod time_fields;
mod version;
mod work_items;

pub use etw::notify;

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL, NtImports, PASSIVE_LEVEL, PDXGK_INITIALIZE, POOL_FLAG_RAISE_ON_FAILURE};
use wddm_ddi::status::STATUS_INSUFFICIENT_RESOURCES;
use wddm_ddi::types::{KIRQL, LARGE_INTEGER, PHYSICAL_ADDRESS, UNICODE_STRING};

use crate::bugcheck::Bugcheck;
use crate::bus::inline;
use crate::driver::{ControlDevice, Driver, Export, Services};
use crate::driver_call::{self, stop};
use crate::fault::{Fault, guarded};
use crate::irql;
use crate::unwind::{self, CallSite, Frames, with_call_site};

/// The services by name; DxgkInitialize is the graphics kernel's.
pub const fn imports(dxgk_initialize: PDXGK_INITIALIZE) -> NtImports {
    NtImports {
        DxgkInitialize: dxgk_initialize,
        ExAllocatePool2: ex_allocate_pool2,
        ExFreePoolWithTag: ex_free_pool_with_tag,
        KeGetCurrentIrql: ke_get_current_irql,
        KeAcquireSpinLockRaiseToDpc: ke_acquire_spin_lock_raise_to_dpc,
        KeReleaseSpinLock: ke_release_spin_lock,
        KeEnterCriticalRegion: ke_enter_critical_region,
        KeLeaveCriticalRegion: ke_leave_critical_region,
        ExAcquirePushLockExclusiveEx: push_lock::ex_acquire_push_lock_exclusive_ex,
        ExReleasePushLockExclusiveEx: push_lock::ex_release_push_lock_exclusive_ex,
        KeQueryPerformanceCounter: ke_query_performance_counter,
        MmGetPhysicalAddress: mm_get_physical_address,
        KeGetCurrentProcessorNumberEx: ke_get_current_processor_number_ex,
        EtwRegister: etw::etw_register,
        EtwUnregister: etw::etw_unregister,
        EtwSetInformation: etw::etw_set_information,
        EtwWriteTransfer: etw::etw_write_transfer,
        IoGetDeviceProperty: device_properties::io_get_device_property,
        IoOpenDeviceRegistryKey: registry::io_open_device_registry_key,
        ZwQueryValueKey: registry::zw_query_value_key,
        ZwClose: registry::zw_close,
        KeBugCheckEx: ke_bug_check_ex,
        DbgPrintEx: debug::dbg_print_ex,
    }
}

/// What the drivers of a machine may call, by a table of [`imports`] of which images do not import `not_exported` by name, and the device that they register with.
pub const fn services(
    imports: &'static NtImports,
    not_exported: &'static [&'static str],
    device: &'static ControlDevice,
) -> Services {
    Services { imports: Some(imports), not_exported, exports: EXPORTS, device: Some(device) }
}

/// Kernel data that inline functions of the WDK read without a call.
pub(crate) const INLINE: inline::Kernel = inline::Kernel {
    current_thread: || dispatcher::ke_get_current_thread().addr(),
    interrupt_time: dispatcher::interrupt_time,
    system_time: dispatcher::system_time,
};

/// Functions that only images import, by families.
const EXPORTS: &[&[Export]] = &[
    bitmap::EXPORTS,
    bug_checks::EXPORTS,
    cm::EXPORTS,
    files::EXPORTS,
    io::EXPORTS,
    contiguous::EXPORTS,
    io_space::EXPORTS,
    debug::EXPORTS,
    device_properties::EXPORTS,
    crt::EXPORTS,
    dispatcher::EXPORTS,
    etw::EXPORTS,
    exceptions::EXPORTS,
    lists::EXPORTS,
    mdl::EXPORTS,
    misc::EXPORTS,
    pool::EXPORTS,
    registry::EXPORTS,
    registry_table::EXPORTS,
    resource::EXPORTS,
    rundown::EXPORTS,
    spin::EXPORTS,
    strings::EXPORTS,
    conversions::EXPORTS,
    threads::EXPORTS,
    time_fields::EXPORTS,
    version::EXPORTS,
    work_items::EXPORTS,
];

/// KeQueryPerformanceCounter ticks a second, as on current Windows.
const FREQUENCY: i64 = 10_000_000;
/// The time that a waiter sleeps before it looks whether the machine has stopped.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// Stops the machine if the driver's pointer was bad.
pub fn good<T>(service: &'static str, result: Result<T, Fault>) -> T {
    match result {
        Ok(value) => value,
        Err(fault) => driver_call::stop_for_pointer(service, fault),
    }
}

/// Stops the machine unless the caller is at PASSIVE_LEVEL.
fn require_passive(service: &'static str) {
    let level = irql::current();
    if level != PASSIVE_LEVEL {
        let reason = format!("{service} at IRQL {level}, PASSIVE_LEVEL is required");
        stop(Bugcheck::new(Bugcheck::IRQL_NOT_LESS_OR_EQUAL, [0, u64::from(level), 0, 0], reason));
    }
}

/// The driver that calls, which is at PASSIVE_LEVEL. Stops the machine if it is not.
fn passive_caller(service: &'static str) -> Arc<Driver> {
    require_passive(service);
    caller(service)
}

fn caller(service: &'static str) -> Arc<Driver> {
    match driver_call::current() {
        Some(driver) => driver,
        None => stop(Bugcheck::fatal(format!("{service} outside a driver call"))),
    }
}

/// The text of a counted string; `None` if it has none.
fn text_of(service: &'static str, string: *const UNICODE_STRING) -> Option<String> {
    // SAFETY: numbers and an address, which any bytes are.
    let string = good(service, unsafe { guarded::read(string) });
    if string.Buffer.is_null() {
        return None;
    }
    let mut bytes = vec![0; usize::from(string.Length & !1)];
    good(service, guarded::read_bytes(string.Buffer.cast(), &mut bytes));
    let units: Vec<u16> = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    Some(String::from_utf16_lossy(&units))
}

/// Ends the call if the machine has stopped meanwhile, or if the call is late: what the caller waits for may never come.
fn check_stopped() {
    driver_call::check_late();
    let stopped = match driver_call::current() {
        Some(driver) => driver.verifier().is_stopped(),
        None => false,
    };
    if stopped {
        driver_call::abandon("the machine has stopped");
    }
}

with_call_site!(fn ex_allocate_pool2(_flags: u64, _bytes: usize, _tag: u32) -> *mut c_void => allocate_pool);
extern "win64" fn allocate_pool(flags: u64, bytes: usize, tag: u32, site: *const CallSite) -> *mut c_void {
    let result = match driver_call::current() {
        Some(driver) => {
            let from = frames(&driver, site);
            driver_call::on_host_stack(|| driver.pool().allocate_from(flags, bytes, tag, from))
        }
        None => Err(Bugcheck::fatal("ExAllocatePool2 outside a driver call")),
    };
    let block = result.unwrap_or_else(|bugcheck| stop(bugcheck));
    if tag == 0 {
        let told = format!("ExAllocatePool2 of {bytes} bytes with tag 0 answers NULL, as no tag may be 0");
        driver_call::on_host_stack(|| caller("ExAllocatePool2").verifier().log(told));
    }
    if block.is_null() && flags & POOL_FLAG_RAISE_ON_FAILURE != 0 {
        exceptions::raise_status("ExAllocatePool2", site, STATUS_INSUFFICIENT_RESOURCES.0 as u32, &[]);
    }
    block
}

/// The frames of the driver that called a service at `site`, or on whose behalf another service did.
fn frames(driver: &Driver, site: *const CallSite) -> Frames {
    // SAFETY: the place where the call came from, for the length of the call.
    let site = unsafe { site.as_ref() }.filter(|site| driver.is_own(site.call().0));
    match (driver.image(), site) {
        (Some(loaded), Some(site)) => driver_call::on_host_stack(|| unwind::frames(&loaded.image, site)),
        _ => [driver_call::calling_instruction(), 0, 0],
    }
}

unsafe extern "win64" fn ex_free_pool_with_tag(block: *mut c_void, tag: u32) {
    let result = match driver_call::current() {
        Some(driver) => driver_call::on_host_stack(|| driver.free_pool(block, tag)),
        None => Err(Bugcheck::fatal("ExFreePoolWithTag outside a driver call")),
    };
    if let Err(bugcheck) = result {
        stop(bugcheck);
    }
}

unsafe extern "win64" fn ke_get_current_irql() -> KIRQL {
    irql::current()
}

/// The number that the host counts its processor by; 0 if it does not tell.
unsafe extern "win64" fn ke_get_current_processor_number_ex(number: *mut c_void) -> u32 {
    if !number.is_null() {
        stop(Bugcheck::fatal("KeGetCurrentProcessorNumberEx with a place for the number within its group"));
    }
    // SAFETY: no requirements.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// A number above zero that no two threads share.
fn thread_token() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local! {
        static TOKEN: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    TOKEN.with(|token| *token)
}

/// The word of a lock, shared with other threads for the length of the call. Stops the machine if there is none.
fn word<'a>(service: &'static str, lock: *mut usize) -> &'a AtomicUsize {
    if lock.is_null() || !lock.is_aligned() {
        stop(Bugcheck::fatal(format!("{service} with a lock at {lock:p}")));
    }
    good(service, guarded::probe_word(lock));
    // SAFETY: the driver passes a pointer-sized lock word that only these services access.
    unsafe { AtomicUsize::from_ptr(lock) }
}

with_call_site!(fn ke_acquire_spin_lock_raise_to_dpc(_lock: *mut usize) -> KIRQL => acquire_spin_lock_raised);
extern "win64" fn acquire_spin_lock_raised(lock: *mut usize, _: usize, _: usize, site: *const CallSite) -> KIRQL {
    spin::raise_and_acquire("KeAcquireSpinLockRaiseToDpc", lock, site)
}

unsafe extern "win64" fn ke_release_spin_lock(lock: *mut usize, new_irql: KIRQL) {
    let level = irql::current();
    let at = lock.addr() as u64;
    if level != DISPATCH_LEVEL {
        stop(Bugcheck::new(
            Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
            [0x32, u64::from(level), at, 0],
            format!("spin lock released at IRQL {level} instead of DISPATCH_LEVEL"),
        ));
    }
    if new_irql > DISPATCH_LEVEL {
        stop(Bugcheck::new(
            Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
            [0x31, u64::from(level), u64::from(new_irql), 0],
            format!("spin lock released to IRQL {new_irql}, which is above DISPATCH_LEVEL"),
        ));
    }
    spin::release("KeReleaseSpinLock", lock);
    irql::set(new_irql);
}

unsafe extern "win64" fn ke_enter_critical_region() {
    if irql::current() > APC_LEVEL {
        stop(irql_too_high("KeEnterCriticalRegion", 0));
    }
    driver_call::enter_critical_region();
}

unsafe extern "win64" fn ke_leave_critical_region() {
    if irql::current() > APC_LEVEL {
        stop(irql_too_high("KeLeaveCriticalRegion", 0));
    }
    if !driver_call::leave_critical_region() {
        let reason = "KeLeaveCriticalRegion without KeEnterCriticalRegion";
        stop(Bugcheck::new(Bugcheck::APC_INDEX_MISMATCH, [0, 0, 1, 0], reason));
    }
}

fn irql_too_high(service: &str, address: u64) -> Bugcheck {
    irql_above(service, address, APC_LEVEL)
}

fn irql_above(service: &str, address: u64, most: KIRQL) -> Bugcheck {
    let level = irql::current();
    let allowed = match most {
        PASSIVE_LEVEL => "PASSIVE_LEVEL is required",
        APC_LEVEL => "at most APC_LEVEL is allowed",
        _ => "at most DISPATCH_LEVEL is allowed",
    };
    let reason = format!("{service} at IRQL {level}, {allowed}");
    Bugcheck::new(Bugcheck::IRQL_NOT_LESS_OR_EQUAL, [address, u64::from(level), 1, 0], reason)
}

/// Stops the machine if the caller is above a level.
fn require_at_most(service: &'static str, most: KIRQL) {
    if irql::current() > most {
        stop(irql_above(service, 0, most));
    }
}

unsafe extern "win64" fn ke_query_performance_counter(frequency: *mut LARGE_INTEGER) -> LARGE_INTEGER {
    if !frequency.is_null() {
        // SAFETY: the driver passes NULL or a place for the frequency.
        let written = unsafe { guarded::write(frequency, LARGE_INTEGER { QuadPart: FREQUENCY }) };
        good("KeQueryPerformanceCounter", written);
    }
    LARGE_INTEGER { QuadPart: performance_counter() }
}

/// The performance counter: ticks of 100 ns since some fixed moment.
pub fn performance_counter() -> i64 {
    (nanoseconds() / (1_000_000_000 / FREQUENCY as u64)) as i64
}

/// Nanoseconds since that moment.
pub fn nanoseconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux and the place is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

unsafe extern "win64" fn mm_get_physical_address(address: *mut c_void) -> PHYSICAL_ADDRESS {
    let physical = driver_call::current().and_then(|driver| driver.physical_address(address.addr()));
    match physical.and_then(|physical| i64::try_from(physical).ok()) {
        Some(physical) => LARGE_INTEGER { QuadPart: physical },
        // Pool lies outside the memory that devices reach, so the answer would only mislead.
        None => stop(Bugcheck::fatal(format!(
            "MmGetPhysicalAddress of {address:p}, which is not memory of MmAllocateContiguousMemory, MmAllocatePagesForMdlEx or DxgkCbAllocateContiguousMemory"
        ))),
    }
}

unsafe extern "win64" fn ke_bug_check_ex(code: u32, p1: usize, p2: usize, p3: usize, p4: usize) -> ! {
    let name = driver_call::current().map_or_else(String::new, |driver| driver.name().to_owned());
    let parameters = [p1 as u64, p2 as u64, p3 as u64, p4 as u64];
    stop(Bugcheck::new(code, parameters, format!("KeBugCheckEx called by driver {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops(call: impl FnOnce()) -> Bugcheck {
        let driver = Driver::for_tests("nt");
        let (result, _) = driver_call::run(&driver, "a function", call);
        assert_eq!(result, None, "the call must not return");
        assert_eq!(irql::current(), 0);
        driver.verifier().bugcheck().expect("the machine stopped")
    }

    #[test]
    fn spin_locks_raise_to_dispatch_and_exclude_other_threads() {
        let driver = Driver::for_tests("spin");
        let lock = Arc::new(AtomicUsize::new(0));
        let shared = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (driver, lock, shared) = (&driver, &lock, &shared);
                scope.spawn(move || {
                    let (_, leftovers) = driver_call::run(driver, "a function", || {
                        for _ in 0..1000 {
                            // SAFETY: the lock word lives in this test.
                            let old = unsafe { ke_acquire_spin_lock_raise_to_dpc(lock.as_ptr()) };
                            assert_eq!((old, irql::current()), (0, DISPATCH_LEVEL));
                            let value = shared.load(Ordering::Relaxed);
                            shared.store(value + 1, Ordering::Relaxed);
                            // SAFETY: as above.
                            unsafe { ke_release_spin_lock(lock.as_ptr(), old) };
                        }
                    });
                    assert_eq!(leftovers, Default::default());
                });
            }
        });
        assert_eq!(shared.load(Ordering::Relaxed), 4000);
    }

    #[test]
    fn misused_locks_stop_the_machine_with_their_codes() {
        let lock = AtomicUsize::new(0);
        let bugcheck = stops(|| {
            irql::set(5);
            // SAFETY: the lock word lives in this test.
            unsafe { ke_acquire_spin_lock_raise_to_dpc(lock.as_ptr()) };
        });
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0xc4, 0x42));
        let bugcheck = stops(|| {
            // SAFETY: as above.
            unsafe { ke_acquire_spin_lock_raise_to_dpc(lock.as_ptr()) };
            // SAFETY: as above.
            unsafe { ke_acquire_spin_lock_raise_to_dpc(lock.as_ptr()) };
        });
        assert_eq!(bugcheck.code, 0xf);
        let other = AtomicUsize::new(0);
        let bugcheck = stops(|| {
            irql::set(2);
            // SAFETY: as above.
            unsafe { ke_release_spin_lock(other.as_ptr(), 0) };
        });
        assert_eq!(bugcheck.code, 0x10);
        // SAFETY: as above.
        let bugcheck = stops(|| unsafe { ke_release_spin_lock(other.as_ptr(), 0) });
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0xc4, 0x32));
        // SAFETY: as above.
        let bugcheck = stops(|| unsafe { push_lock::ex_acquire_push_lock_exclusive_ex(other.as_ptr(), 0) });
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0xc4, 0xea));
        // SAFETY: no argument.
        let bugcheck = stops(|| unsafe { ke_leave_critical_region() });
        assert_eq!(bugcheck.code, 0x1);
    }

    #[test]
    fn a_bugcheck_keeps_code_and_parameters_and_ends_only_the_call() {
        // SAFETY: no pointers among the arguments.
        let bugcheck = stops(|| unsafe { ke_bug_check_ex(0xdead, 1, 2, 3, 4) });
        assert_eq!((bugcheck.code, bugcheck.parameters), (0xdead, [1, 2, 3, 4]));
    }

    #[test]
    fn a_waiter_for_a_lock_that_died_with_its_holder_is_released() {
        let driver = Driver::for_tests("died");
        let lock = AtomicUsize::new(0);
        let (result, _) = driver_call::run(&driver, "a function", || {
            // SAFETY: the lock word lives in this test.
            unsafe { ke_acquire_spin_lock_raise_to_dpc(lock.as_ptr()) };
            // SAFETY: no pointers among the arguments.
            unsafe { ke_bug_check_ex(1, 0, 0, 0, 0) };
        });
        assert_eq!(result, None::<()>);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: as above.
                let (result, _) = driver_call::run(&driver, "a function", || unsafe {
                    ke_acquire_spin_lock_raise_to_dpc(lock.as_ptr())
                });
                assert_eq!(result, None);
            });
        });
    }
}
