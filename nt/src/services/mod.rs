// UNSAFETY: tests call the services.
//! Kernel services for drivers, each with the checks that Driver Verifier makes.
//!
//! A wrong call stops the machine and does not return, as on Windows; see [`crate::driver_call::abandon`].

mod bitmap;
mod blocks;
mod bug_checks;
mod call;
mod cm;
mod contiguous;
mod conversions;
mod counter;
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
mod processor;
mod push_lock;
mod registry;
mod registry_table;
mod resource;
mod rundown;
mod shared_spin;
mod spin;
mod strings;
mod threads;
mod time_fields;
mod version;
mod work_items;

pub use call::good;
pub use counter::{nanoseconds, performance_counter};
pub use etw::notify;

use wddm_ddi::nt::{NtImports, PDXGK_INITIALIZE};

use crate::bus::inline;
use crate::driver::{ControlDevice, Export, Services};

/// The services by name; DxgkInitialize is the graphics kernel's.
pub const fn imports(dxgk_initialize: PDXGK_INITIALIZE) -> NtImports {
    NtImports {
        DxgkInitialize: dxgk_initialize,
        ExAllocatePool2: blocks::ex_allocate_pool2,
        ExFreePoolWithTag: blocks::ex_free_pool_with_tag,
        KeGetCurrentIrql: processor::ke_get_current_irql,
        KeAcquireSpinLockRaiseToDpc: spin::ke_acquire_spin_lock_raise_to_dpc,
        KeReleaseSpinLock: spin::ke_release_spin_lock,
        KeEnterCriticalRegion: processor::ke_enter_critical_region,
        KeLeaveCriticalRegion: processor::ke_leave_critical_region,
        ExAcquirePushLockExclusiveEx: push_lock::ex_acquire_push_lock_exclusive_ex,
        ExReleasePushLockExclusiveEx: push_lock::ex_release_push_lock_exclusive_ex,
        KeQueryPerformanceCounter: counter::ke_query_performance_counter,
        MmGetPhysicalAddress: contiguous::mm_get_physical_address,
        KeGetCurrentProcessorNumberEx: processor::ke_get_current_processor_number_ex,
        EtwRegister: etw::etw_register,
        EtwUnregister: etw::etw_unregister,
        EtwSetInformation: etw::etw_set_information,
        EtwWriteTransfer: etw::etw_write_transfer,
        IoGetDeviceProperty: device_properties::io_get_device_property,
        IoOpenDeviceRegistryKey: registry::io_open_device_registry_key,
        ZwQueryValueKey: registry::zw_query_value_key,
        ZwClose: registry::zw_close,
        KeBugCheckEx: bug_checks::ke_bug_check_ex,
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
    shared_spin::EXPORTS,
    spin::EXPORTS,
    strings::EXPORTS,
    conversions::EXPORTS,
    threads::EXPORTS,
    time_fields::EXPORTS,
    version::EXPORTS,
    work_items::EXPORTS,
];

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use wddm_ddi::nt::DISPATCH_LEVEL;

    use super::bug_checks::ke_bug_check_ex;
    use super::processor::ke_leave_critical_region;
    use super::push_lock;
    use super::spin::{ke_acquire_spin_lock_raise_to_dpc, ke_release_spin_lock};
    use crate::bugcheck::Bugcheck;
    use crate::driver::Driver;
    use crate::driver_call;
    use crate::irql;

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
