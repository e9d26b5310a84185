// UNSAFETY: the kernel services that drivers call, with raw arguments.
//! Kernel services for drivers, each with the checks that Driver Verifier makes.
//!
//! A wrong call stops the machine and does not return, as on Windows; see [`driver_call::abandon`].

mod bitmap;
mod cm;
mod crt;
mod debug;
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
mod registry;
mod registry_table;
mod resource;
mod spin;
mod strings;
mod threads;
mod version;

pub use etw::notify;

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL, NtImports, PASSIVE_LEVEL, PDXGK_INITIALIZE, POOL_FLAG_RAISE_ON_FAILURE};
use wddm_ddi::status::{NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS};
use wddm_ddi::types::{KIRQL, LARGE_INTEGER, PHYSICAL_ADDRESS, UNICODE_STRING};

use crate::bugcheck::Bugcheck;
use crate::bus::inline;
use crate::device_object;
use crate::driver::{ControlDevice, Driver, Export, Services};
use crate::driver_call::{self, stop};
use crate::fault::{Fault, guarded};
use crate::irql;
use crate::unwind::{CallSite, with_call_site};

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
        ExAcquirePushLockExclusiveEx: ex_acquire_push_lock_exclusive_ex,
        ExReleasePushLockExclusiveEx: ex_release_push_lock_exclusive_ex,
        KeQueryPerformanceCounter: ke_query_performance_counter,
        MmGetPhysicalAddress: mm_get_physical_address,
        KeGetCurrentProcessorNumberEx: ke_get_current_processor_number_ex,
        EtwRegister: etw::etw_register,
        EtwUnregister: etw::etw_unregister,
        EtwSetInformation: etw::etw_set_information,
        EtwWriteTransfer: etw::etw_write_transfer,
        IoGetDeviceProperty: io_get_device_property,
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

/// What code of the WDK reads without a call of these services.
pub(crate) const INLINE: inline::Kernel = inline::Kernel {
    current_thread: || dispatcher::ke_get_current_thread().addr(),
    interrupt_time: dispatcher::interrupt_time,
    system_time: dispatcher::system_time,
};

/// Functions that only images import, by families.
const EXPORTS: &[&[Export]] = &[
    bitmap::EXPORTS,
    cm::EXPORTS,
    files::EXPORTS,
    io::EXPORTS,
    io_space::EXPORTS,
    debug::EXPORTS,
    crt::EXPORTS,
    dispatcher::EXPORTS,
    exceptions::EXPORTS,
    lists::EXPORTS,
    mdl::EXPORTS,
    misc::EXPORTS,
    pool::EXPORTS,
    registry::EXPORTS,
    registry_table::EXPORTS,
    resource::EXPORTS,
    spin::EXPORTS,
    strings::EXPORTS,
    threads::EXPORTS,
    version::EXPORTS,
];

/// KeQueryPerformanceCounter ticks a second, as on current Windows.
const FREQUENCY: i64 = 10_000_000;
/// How long a waiter sleeps before it looks whether the machine has stopped.
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

/// Ends the call if the machine has stopped meanwhile: what the caller waits for may never come.
fn check_stopped() {
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
        Some(driver) => driver_call::on_host_stack(|| driver.pool().allocate(flags, bytes, tag)),
        None => Err(Bugcheck::fatal("ExAllocatePool2 outside a driver call")),
    };
    let block = result.unwrap_or_else(|bugcheck| stop(bugcheck));
    if block.is_null() && flags & POOL_FLAG_RAISE_ON_FAILURE != 0 {
        exceptions::raise_status("ExAllocatePool2", site, STATUS_INSUFFICIENT_RESOURCES.0 as u32, &[]);
    }
    block
}

unsafe extern "win64" fn ex_free_pool_with_tag(block: *mut c_void, tag: u32) {
    let result = match driver_call::current() {
        Some(driver) => driver_call::on_host_stack(|| driver.pool().free(block, tag)),
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

unsafe extern "win64" fn ke_acquire_spin_lock_raise_to_dpc(lock: *mut usize) -> KIRQL {
    let level = irql::current();
    let at = lock.addr() as u64;
    if level > DISPATCH_LEVEL {
        stop(Bugcheck::new(
            Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION,
            [0x40, u64::from(level), at, 0],
            format!("spin lock acquired at IRQL {level}, at most DISPATCH_LEVEL is allowed"),
        ));
    }
    let owner = word("KeAcquireSpinLockRaiseToDpc", lock);
    irql::set(DISPATCH_LEVEL);
    let me = thread_token();
    let mut spins = 0_u32;
    while let Err(holder) = owner.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed) {
        if holder == me {
            let reason = "spin lock acquired by the thread that holds it";
            stop(Bugcheck::new(Bugcheck::SPIN_LOCK_ALREADY_OWNED, [at, 0, 0, 0], reason));
        }
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(64) {
            check_stopped();
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
    level
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
    let owner = word("KeReleaseSpinLock", lock);
    if owner.compare_exchange(thread_token(), 0, Ordering::Release, Ordering::Relaxed).is_err() {
        let reason = "spin lock released by a thread that does not hold it";
        stop(Bugcheck::new(Bugcheck::SPIN_LOCK_NOT_OWNED, [at, 0, 0, 0], reason));
    }
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
    let level = irql::current();
    Bugcheck::new(
        Bugcheck::IRQL_NOT_LESS_OR_EQUAL,
        [address, u64::from(level), 1, 0],
        format!("{service} at IRQL {level}, at most APC_LEVEL is allowed"),
    )
}

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED_FOR: u32 = 2;

/// State of a push lock: the low half of its word.
fn push_lock_state<'a>(service: &'static str, lock: *mut usize) -> &'a AtomicU32 {
    word(service, lock);
    // SAFETY: the word was just checked; its low half is aligned and only accessed here.
    unsafe { AtomicU32::from_ptr(lock.cast()) }
}

unsafe extern "win64" fn ex_acquire_push_lock_exclusive_ex(lock: *mut usize, _flags: u32) {
    let at = lock.addr() as u64;
    if irql::current() > APC_LEVEL {
        stop(irql_too_high("ExAcquirePushLockExclusiveEx", at));
    }
    if irql::current() < APC_LEVEL && !driver_call::in_critical_region() {
        stop(Bugcheck::fatal("push lock acquired while normal kernel APCs are enabled (KeEnterCriticalRegion first)"));
    }
    if driver_call::holds_push_lock(lock.addr()) {
        stop(Bugcheck::fatal("push lock acquired by the thread that holds it"));
    }
    let state = push_lock_state("ExAcquirePushLockExclusiveEx", lock);
    if state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
        while state.swap(WAITED_FOR, Ordering::Acquire) != FREE {
            wait_on(state, WAITED_FOR);
            check_stopped();
        }
    }
    driver_call::hold_push_lock(lock.addr());
}

unsafe extern "win64" fn ex_release_push_lock_exclusive_ex(lock: *mut usize, _flags: u32) {
    if irql::current() > APC_LEVEL {
        stop(irql_too_high("ExReleasePushLockExclusiveEx", lock.addr() as u64));
    }
    if !driver_call::drop_push_lock(lock.addr()) {
        stop(Bugcheck::fatal("push lock released by a thread that does not hold it"));
    }
    let state = push_lock_state("ExReleasePushLockExclusiveEx", lock);
    if state.swap(FREE, Ordering::Release) == WAITED_FOR {
        // SAFETY: a wake names an address only; nothing is accessed.
        unsafe { libc::syscall(libc::SYS_futex, state.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
    }
}

/// Sleeps while the word has this value, for a bounded time.
fn wait_on(state: &AtomicU32, value: u32) {
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: STOP_CHECK.subsec_nanos().into() };
    // SAFETY: word and timeout live across the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            state.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            &raw const timeout,
        )
    };
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
    let physical = driver_call::current().and_then(|driver| driver.ram()?.physical_address(address.addr()));
    match physical.and_then(|physical| i64::try_from(physical).ok()) {
        Some(physical) => LARGE_INTEGER { QuadPart: physical },
        // Pool lies outside the memory that devices reach, so the answer would only mislead.
        None => stop(Bugcheck::fatal(format!(
            "MmGetPhysicalAddress of {address:p}, which is not memory of DxgkCbAllocateContiguousMemory"
        ))),
    }
}

unsafe extern "win64" fn io_get_device_property(
    device: *mut c_void,
    property: i32,
    length: u32,
    buffer: *mut c_void,
    needed: *mut u32,
) -> NTSTATUS {
    const NAME: &str = "IoGetDeviceProperty";
    require_passive(NAME);
    let bytes = match driver_call::on_host_stack(|| device_object::property(device.addr(), property)) {
        Some(Ok(bytes)) => bytes,
        Some(Err(status)) => return status,
        None => stop(Bugcheck::fatal(format!("{NAME} of {device:p}, which is no device object"))),
    };
    // SAFETY: a place for a number, which the driver passes.
    good(NAME, unsafe { guarded::write(needed, bytes.len() as u32) });
    if bytes.len() > length as usize {
        return STATUS_BUFFER_TOO_SMALL;
    }
    // SAFETY: the driver's buffer has `length` bytes, which these do not exceed.
    good(NAME, unsafe { guarded::write_bytes(buffer.cast(), &bytes) });
    STATUS_SUCCESS
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
    fn push_locks_exclude_other_threads() {
        let driver = Driver::for_tests("push");
        let lock = Arc::new(AtomicUsize::new(0));
        let shared = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (driver, lock, shared) = (&driver, &lock, &shared);
                scope.spawn(move || {
                    let (_, leftovers) = driver_call::run(driver, "a function", || {
                        for _ in 0..1000 {
                            // SAFETY: the lock word lives in this test.
                            unsafe { ke_enter_critical_region() };
                            // SAFETY: as above.
                            unsafe { ex_acquire_push_lock_exclusive_ex(lock.as_ptr(), 0) };
                            let value = shared.load(Ordering::Relaxed);
                            std::hint::spin_loop();
                            shared.store(value + 1, Ordering::Relaxed);
                            // SAFETY: as above.
                            unsafe { ex_release_push_lock_exclusive_ex(lock.as_ptr(), 0) };
                            // SAFETY: as above.
                            unsafe { ke_leave_critical_region() };
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
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0xc4, 0x40));
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
        let bugcheck = stops(|| unsafe { ex_acquire_push_lock_exclusive_ex(other.as_ptr(), 0) });
        assert_eq!(bugcheck.code, 0x113);
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
