// UNSAFETY: calls routines of drivers by the addresses that they gave.
//! Work items: routines that a thread of the system calls at PASSIVE_LEVEL. Each has a thread of its own here, of whatever queue.

use std::collections::btree_map::Entry;
use std::ffi::c_void;

use wddm_ddi::nt::{DISPATCH_LEVEL, POOL_FLAG_NON_PAGED};

use super::call::{caller, require_at_most};
use super::memory::{get, put};
use super::threads::{pointer, spawn};
use crate::bugcheck::Bugcheck;
use crate::deferred::{Routine, ThreadObject};
use crate::driver::Export;
use crate::driver_call::{calling_instruction, on_host_stack, stop};

pub(super) const EXPORTS: &[Export] = &[
    ("IoAllocateWorkItem", || io_allocate_work_item as *const () as usize),
    ("IoQueueWorkItem", || io_queue_work_item as *const () as usize),
    ("IoFreeWorkItem", || io_free_work_item as *const () as usize),
    ("IoSizeofWorkItem", || io_sizeof_work_item as *const () as usize),
    ("IoInitializeWorkItem", || io_initialize_work_item as *const () as usize),
    ("IoUninitializeWorkItem", || io_uninitialize_work_item as *const () as usize),
    ("IoQueueWorkItemEx", || io_queue_work_item_ex as *const () as usize),
    ("ExQueueWorkItem", || ex_queue_work_item as *const () as usize),
];

/// Tag of the pool blocks that are work items of devices.
const TAG: u32 = u32::from_le_bytes(*b"IoWk");
/// Parameter 1 of WORKER_INVALID: an item in the queue was queued again, or freed. [debugger: 0xe4]
const ACTIVE_QUEUED: u64 = 1;
const QUEUED_FREED: u64 = 2;

/// Bytes of a work item of a device: the object, and the routine while it is in the queue.
const BYTES: usize = 32;

type WorkEx = unsafe extern "win64" fn(*mut c_void, *mut c_void, *mut c_void);
type Work = unsafe extern "win64" fn(*mut c_void, *mut c_void);
type Worker = unsafe extern "win64" fn(*mut c_void);

fn invalid(kind: u64, item: *mut c_void, third: u64, reason: String) -> ! {
    stop(Bugcheck::new(Bugcheck::WORKER_INVALID, [kind, item.addr() as u64, third, 0], reason))
}

/// Has a thread call the driver with what the item says; the item is in the queue until it does.
fn queue(
    service: &'static str,
    item: *mut c_void,
    (kind, routine): (u32, usize),
    call: impl FnOnce() + Send + 'static,
) {
    let (driver, number, from) = (caller(service), item.addr(), calling_instruction());
    let queued = on_host_stack(|| match driver.deferred().lock().work_items.entry(number) {
        Entry::Occupied(_) => false,
        Entry::Vacant(place) => {
            place.insert(from);
            true
        }
    });
    if !queued {
        let reason = format!("{service} of work item {item:p}, which is in the queue already");
        invalid(ACTIVE_QUEUED, item, kind.into(), reason);
    }
    let deferred = std::sync::Arc::clone(driver.deferred());
    let taken = move || {
        on_host_stack(|| deferred.lock().work_items.remove(&number));
        call();
    };
    let routine = Routine { kind: "a work item", address: routine };
    if !on_host_stack(|| spawn(&driver, routine, ThreadObject::new(), taken)) {
        stop(Bugcheck::fatal("no thread for a work item"));
    }
}

/// A work item is a block of pool, so that one that is not freed is found.
extern "win64" fn io_allocate_work_item(device: *mut c_void) -> *mut c_void {
    const NAME: &str = "IoAllocateWorkItem";
    require_at_most(NAME, DISPATCH_LEVEL);
    let driver = caller(NAME);
    let from = calling_instruction();
    let block = on_host_stack(|| driver.pool().allocate_from(POOL_FLAG_NON_PAGED, BYTES, TAG, [from, 0, 0]));
    let block = block.unwrap_or_else(|bugcheck| stop(bugcheck));
    if !block.is_null() {
        put(NAME, block.cast(), device);
    }
    block
}

extern "win64" fn io_queue_work_item(item: *mut c_void, routine: usize, kind: u32, context: *mut c_void) {
    const NAME: &str = "IoQueueWorkItem";
    require_at_most(NAME, DISPATCH_LEVEL);
    let device = get::<*mut c_void>(NAME, item.cast()).expose_provenance();
    let context = context.expose_provenance();
    // The routine stands in the item, so that it is known when the item is freed.
    put(NAME, item.cast::<usize>().wrapping_add(1), routine);
    let queued = (kind, routine);
    // SAFETY: the driver gave the address as that of such a function.
    let routine = unsafe { std::mem::transmute::<usize, Work>(routine) };
    // SAFETY: the driver gave function and arguments for each other.
    queue(NAME, item, queued, move || unsafe { routine(pointer(device), pointer(context)) });
}

/// As IoQueueWorkItem, of a routine that is given the item too. [wdm: IoQueueWorkItemEx]
extern "win64" fn io_queue_work_item_ex(item: *mut c_void, routine: usize, kind: u32, context: *mut c_void) {
    const NAME: &str = "IoQueueWorkItemEx";
    require_at_most(NAME, DISPATCH_LEVEL);
    let object = get::<*mut c_void>(NAME, item.cast()).expose_provenance();
    let [context, number] = [context, item].map(|pointer| pointer.expose_provenance());
    put(NAME, item.cast::<usize>().wrapping_add(1), routine);
    let queued = (kind, routine);
    // SAFETY: the driver gave the address as that of such a function.
    let routine = unsafe { std::mem::transmute::<usize, WorkEx>(routine) };
    // SAFETY: the driver gave function and arguments for each other.
    queue(NAME, item, queued, move || unsafe { routine(pointer(object), pointer(context), pointer(number)) });
}

extern "win64" fn io_sizeof_work_item() -> u32 {
    BYTES as u32
}

/// A work item in memory of the driver's. [wdm: IoInitializeWorkItem]
extern "win64" fn io_initialize_work_item(object: *mut c_void, item: *mut c_void) {
    const NAME: &str = "IoInitializeWorkItem";
    require_idle(NAME, item);
    put(NAME, item.cast(), [object.expose_provenance(), 0, 0, 0]);
}

/// [wdm: IoUninitializeWorkItem]
extern "win64" fn io_uninitialize_work_item(item: *mut c_void) {
    const NAME: &str = "IoUninitializeWorkItem";
    require_idle(NAME, item);
    put(NAME, item.cast(), [0_usize; BYTES / size_of::<usize>()]);
}

/// Stops the machine for an item that is in the queue.
fn require_idle(service: &'static str, item: *mut c_void) {
    let driver = caller(service);
    if on_host_stack(|| driver.deferred().lock().work_items.contains_key(&item.addr())) {
        let routine = get::<usize>(service, item.cast::<usize>().wrapping_add(1));
        invalid(QUEUED_FREED, item, routine as u64, format!("{service} of work item {item:p}, which is in the queue"));
    }
}

extern "win64" fn io_free_work_item(item: *mut c_void) {
    const NAME: &str = "IoFreeWorkItem";
    require_at_most(NAME, DISPATCH_LEVEL);
    let driver = caller(NAME);
    require_idle(NAME, item);
    if let Err(mut bugcheck) = on_host_stack(|| driver.pool().free(item, TAG)) {
        let is_other = bugcheck.code == Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION
            && [0x10, 0x13].contains(&bugcheck.parameters[0])
            || bugcheck.code == Bugcheck::BAD_POOL_CALLER;
        let rule = if is_other { ", which IoAllocateWorkItem did not return, or twice" } else { "" };
        bugcheck.reason = format!("{NAME} of {item:p}{rule}: {}", bugcheck.reason);
        stop(bugcheck);
    }
}

/// The routine and its parameter stand behind the list entry of a WORK_QUEUE_ITEM, where ExInitializeWorkItem of the kit's headers has put them. The routine may free the
/// item. [wdm: ExQueueWorkItem]
extern "win64" fn ex_queue_work_item(item: *mut c_void, kind: u32) {
    const NAME: &str = "ExQueueWorkItem";
    const ROUTINE: usize = 16;
    require_at_most(NAME, DISPATCH_LEVEL);
    let [routine, parameter] = get::<[usize; 2]>(NAME, item.wrapping_byte_add(ROUTINE).cast());
    let queued = (kind, routine);
    // SAFETY: the driver gave the address as that of such a function.
    let routine = unsafe { std::mem::transmute::<usize, Worker>(routine) };
    // SAFETY: the driver gave function and argument for each other.
    queue(NAME, item, queued, move || unsafe { routine(pointer(parameter)) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::{driver_call, irql};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn counter() -> &'static AtomicUsize {
        Box::leak(Box::new(AtomicUsize::new(0)))
    }

    fn at(counter: &AtomicUsize) -> *mut c_void {
        (&raw const *counter).cast_mut().cast()
    }

    fn run<R>(driver: &Arc<Driver>, call: impl FnOnce() -> R) -> Option<R> {
        driver_call::run(driver, "a function", call).0
    }

    fn wait_for_the_end(driver: &Driver) {
        while !driver.deferred().lock().threads.is_empty() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_work_item_runs_with_its_device_object() {
        unsafe extern "win64" fn work(device: *mut c_void, counter: *mut c_void) {
            // SAFETY: the test passes a counter that lives.
            let counter = unsafe { &*counter.cast::<AtomicUsize>() };
            counter.store(device.addr(), Ordering::SeqCst);
        }
        let driver = Driver::for_tests("work");
        let counter = counter();
        run(&driver, || {
            let item = io_allocate_work_item(pointer(0x40));
            io_queue_work_item(item, work as *const () as usize, 1, at(counter));
            while counter.load(Ordering::SeqCst) != 0x40 {
                std::thread::yield_now();
            }
            io_free_work_item(item);
        })
        .unwrap();
        wait_for_the_end(&driver);
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    /// [wdm: IoInitializeWorkItem, IoQueueWorkItemEx, IoUninitializeWorkItem]
    #[test]
    fn a_work_item_in_memory_of_the_driver_runs_with_its_object_and_itself_and_may_be_uninitialized_by_its_routine() {
        unsafe extern "win64" fn work(object: *mut c_void, counter: *mut c_void, item: *mut c_void) {
            // SAFETY: the test passes a counter that lives.
            let counter = unsafe { &*counter.cast::<AtomicUsize>() };
            io_uninitialize_work_item(item);
            counter.store(object.addr() + usize::from(irql::current()), Ordering::SeqCst);
        }
        let driver = Driver::for_tests("own memory");
        let counter = counter();
        run(&driver, || {
            let item: *mut c_void = Box::into_raw(Box::new([0_u64; BYTES / 8])).cast();
            assert_eq!(io_sizeof_work_item() as usize, BYTES);
            io_initialize_work_item(pointer(0x40), item);
            irql::set(DISPATCH_LEVEL);
            io_queue_work_item_ex(item, work as *const () as usize, 1, at(counter));
            irql::set(0);
            while counter.load(Ordering::SeqCst) != 0x40 {
                std::thread::yield_now();
            }
        })
        .unwrap();
        wait_for_the_end(&driver);
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    /// A WORK_QUEUE_ITEM.
    fn item(routine: unsafe extern "win64" fn(*mut c_void), parameter: *mut c_void) -> *mut c_void {
        let words = [0, 0, routine as *const () as usize, parameter.expose_provenance()];
        Box::into_raw(Box::new(words)).cast()
    }

    /// Counts, and does not return as long as the counter is odd.
    unsafe extern "win64" fn count(counter: *mut c_void) {
        // SAFETY: the tests pass a counter that lives.
        let counter = unsafe { &*counter.cast::<AtomicUsize>() };
        counter.fetch_add(2 + 100 * usize::from(irql::current()), Ordering::SeqCst);
        while !counter.load(Ordering::SeqCst).is_multiple_of(2) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_work_queue_item_runs_at_passive_level_and_may_be_queued_again_by_its_routine_or_while_that_runs() {
        let driver = Driver::for_tests("queue");
        let counter = counter();
        counter.store(1, Ordering::SeqCst);
        let item = item(count, at(counter));
        run(&driver, || {
            irql::set(DISPATCH_LEVEL);
            ex_queue_work_item(item, 1);
            irql::set(0);
            while counter.load(Ordering::SeqCst) != 3 {
                std::thread::yield_now();
            }
            ex_queue_work_item(item, 0);
            while counter.load(Ordering::SeqCst) != 5 {
                std::thread::yield_now();
            }
            counter.store(0, Ordering::SeqCst);
        })
        .unwrap();
        wait_for_the_end(&driver);
        driver.check_unloaded();
        assert_eq!(driver.verifier().bugcheck(), None);
    }

    #[test]
    fn an_item_in_the_queue_is_not_queued_again_and_not_freed() {
        type Misuse = fn(*mut c_void);
        let misuses: [(Misuse, u64); 6] = [
            (|item| io_queue_work_item_ex(item, 0, 1, std::ptr::null_mut()), ACTIVE_QUEUED),
            (|item| io_uninitialize_work_item(item), QUEUED_FREED),
            (|item| io_initialize_work_item(std::ptr::null_mut(), item), QUEUED_FREED),
            (|item| ex_queue_work_item(item, 0), ACTIVE_QUEUED),
            (|item| io_queue_work_item(item, 0, 1, std::ptr::null_mut()), ACTIVE_QUEUED),
            (|item| io_free_work_item(item), QUEUED_FREED),
        ];
        for (misuse, kind) in misuses {
            let driver = Driver::for_tests("active");
            let item = item(count, at(counter()));
            // As between the call that queues and the thread that takes.
            driver.deferred().lock().work_items.insert(item.addr(), 0);
            assert_eq!(run(&driver, || misuse(item)), None);
            let bugcheck = driver.verifier().bugcheck().unwrap();
            assert_eq!((bugcheck.code, bugcheck.parameters[..2].to_vec()), (0xe4, vec![kind, item.addr() as u64]));
        }
    }

    #[test]
    fn an_item_that_is_none_is_freed_by_a_service_with_a_name() {
        let driver = Driver::for_tests("none");
        assert_eq!(run(&driver, || io_free_work_item(std::ptr::null_mut())), None);
        let bugcheck = driver.verifier().bugcheck().unwrap();
        let told = "IoFreeWorkItem of 0x0, which IoAllocateWorkItem did not return, or twice: 0x0 is not a pool block";
        assert!(bugcheck.reason.starts_with(told), "{bugcheck}");
    }

    #[test]
    fn work_is_not_queued_above_dispatch_level() {
        let driver = Driver::for_tests("above");
        let item = item(count, at(counter()));
        let queued = run(&driver, || {
            irql::set(DISPATCH_LEVEL + 1);
            ex_queue_work_item(item, 0);
        });
        assert_eq!(queued, None);
        let bugcheck = driver.verifier().bugcheck().unwrap();
        assert!(bugcheck.reason.contains("ExQueueWorkItem at IRQL 3, at most DISPATCH_LEVEL"), "{bugcheck}");
    }
}
