// UNSAFETY: calls routines of drivers by the addresses that they gave.
//! Services for deferred work: system threads, DPCs and timers. Work items are beside this.
//!
//! DPCs and timers of a driver are carried out by one thread at DISPATCH_LEVEL; a system thread and a work item have a thread each.

use std::ffi::c_void;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use wddm_ddi::nt::DISPATCH_LEVEL;
use wddm_ddi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_HANDLE, STATUS_SUCCESS};
use wddm_ddi::types::{HANDLE, LARGE_INTEGER};

use super::call::{STOP_CHECK, caller, check_stopped, passive_caller, require_passive};
use super::dispatcher::{self, NOTIFICATION_TIMER, SYNCHRONIZATION_TIMER, TIMER_WORDS, moment, require_kind};
use super::memory::{field, get, put, put_if, try_get, try_put};
use crate::bugcheck::Bugcheck;
use crate::deferred::{Deferred, QueuedDpc, Routine, SetTimer, ThreadObject};
use crate::driver::{Driver, Export};
use crate::driver_call::{self, calling_instruction, on_host_stack, stop};
use crate::irql::{self, RaisedSection};

pub(super) const EXPORTS: &[Export] = &[
    ("PsCreateSystemThread", || ps_create_system_thread as *const () as usize),
    ("PsThreadType", || (&raw const PS_THREAD_TYPE).expose_provenance()),
    ("PsTerminateSystemThread", || ps_terminate_system_thread as *const () as usize),
    ("KeSetPriorityThread", || ke_set_priority_thread as *const () as usize),
    ("ObReferenceObjectByHandle", || ob_reference_object_by_handle as *const () as usize),
    ("ObReferenceObjectByHandleWithTag", || ob_reference_object_by_handle_with_tag as *const () as usize),
    ("ObfReferenceObject", || obf_reference_object as *const () as usize),
    ("ObfReferenceObjectWithTag", || obf_reference_object as *const () as usize),
    ("ZwWaitForSingleObject", || zw_wait_for_single_object as *const () as usize),
    ("KeInitializeDpc", || ke_initialize_dpc as *const () as usize),
    ("KeInitializeThreadedDpc", || ke_initialize_dpc as *const () as usize),
    ("KeInsertQueueDpc", || ke_insert_queue_dpc as *const () as usize),
    ("KeRemoveQueueDpc", || ke_remove_queue_dpc as *const () as usize),
    ("KeFlushQueuedDpcs", || ke_flush_queued_dpcs as *const () as usize),
    ("KeSetImportanceDpc", || ke_set_importance_dpc as *const () as usize),
    ("KeInitializeTimer", || ke_initialize_timer as *const () as usize),
    ("KeInitializeTimerEx", || ke_initialize_timer_ex as *const () as usize),
    ("KeSetTimer", || ke_set_timer as *const () as usize),
    ("KeSetTimerEx", || ke_set_timer_ex as *const () as usize),
    ("KeSetCoalescableTimer", || ke_set_coalescable_timer as *const () as usize),
    ("KeCancelTimer", || ke_cancel_timer as *const () as usize),
];

/// Offsets of KDPC and KTIMER. [wdm: KDPC, KTIMER]
const DPC_ROUTINE: usize = 24;
const DPC_ARGUMENTS: usize = 40;
const TIMER_DPC: usize = 48;
const TIMER_PERIOD: usize = 60;
const SIGNAL_STATE: usize = 4;
/// DpcObject of KOBJECTS, and the importance of most DPCs.
const DPC_OBJECT: u8 = 0x13;
const MEDIUM: u8 = 1;
type Start = unsafe extern "win64" fn(*mut c_void);
type Deferring = unsafe extern "win64" fn(*mut c_void, *mut c_void, *mut c_void, *mut c_void);

/// Time between two looks at the level of a thread that has queued a DPC.
const LEVEL_CHECK: Duration = Duration::from_micros(100);
const SYSTEM_THREAD: &str = "a system thread";

/// An address or number of the driver, on its way to another thread.
pub(super) fn pointer(number: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(number)
}

/// Runs a function of the driver on a thread of its own; false if there is none. The driver and its image stay until it has ended.
pub(super) fn spawn(
    driver: &Arc<Driver>,
    routine: Routine,
    object: Arc<ThreadObject>,
    call: impl FnOnce() + Send + 'static,
) -> bool {
    let driver = Arc::clone(driver);
    let name = routine.kind;
    let number = driver.deferred().lock().begin(routine);
    let running = Arc::clone(&driver);
    let thread = std::thread::Builder::new().name("driver".into()).spawn(move || {
        dispatcher::become_thread(&object);
        let (_, leftovers) = driver_call::run_thread(&running, name, call);
        leftovers.check(name, running.verifier());
        // Whoever sees the end may unload the driver.
        running.deferred().lock().threads.remove(&number);
        dispatcher::change(name, || {
            object.end();
            Ok(())
        });
    });
    if thread.is_err() {
        driver.deferred().lock().threads.remove(&number);
    }
    thread.is_ok()
}

extern "win64" fn ps_create_system_thread(
    handle: *mut HANDLE,
    _access: u32,
    _attributes: *const c_void,
    _process: HANDLE,
    client: *mut [usize; 2],
    start: usize,
    context: *mut c_void,
) -> NTSTATUS {
    const NAME: &str = "PsCreateSystemThread";
    let driver = passive_caller(NAME);
    if start == 0 {
        stop(Bugcheck::fatal(format!("{NAME} with a StartRoutine of NULL, which the thread would begin at")));
    }
    let object = ThreadObject::new();
    put_if(NAME, client, [4, object.address()]);
    let context = context.expose_provenance();
    let thread = Arc::clone(&object);
    let (opened, started) = on_host_stack(|| {
        let opened = driver.deferred().lock().open(Arc::clone(&object));
        let routine = Routine { kind: SYSTEM_THREAD, address: start };
        // SAFETY: the driver gave the address as that of such a function.
        let start = unsafe { std::mem::transmute::<usize, Start>(start) };
        // SAFETY: the driver gave function and argument for each other.
        (opened, spawn(&driver, routine, thread, move || unsafe { start(pointer(context)) }))
    });
    if !started {
        on_host_stack(|| driver.deferred().lock().close(opened));
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    put(NAME, handle, std::ptr::without_provenance_mut(opened));
    STATUS_SUCCESS
}

extern "win64" fn ps_terminate_system_thread(_status: NTSTATUS) -> NTSTATUS {
    const NAME: &str = "PsTerminateSystemThread";
    require_passive(NAME);
    if let Some(name) = driver_call::current_name().filter(|name| *name != SYSTEM_THREAD) {
        stop(Bugcheck::fatal(format!("{NAME} in {name}, on a thread that PsCreateSystemThread has not made")));
    }
    if let Some(mutex) = driver_call::held_mutex() {
        let driver = caller(NAME);
        let mutex = on_host_stack(|| mutex.describe(&driver));
        let reason = format!("{NAME} of a thread that holds {mutex}: others would wait for it for ever");
        stop(Bugcheck::new(Bugcheck::APC_INDEX_MISMATCH, [0, 0, driver_call::APCS_DISABLED, 0], reason));
    }
    driver_call::abandon("a system thread has ended")
}

/// The host schedules; the priority that there was is that of most threads.
extern "win64" fn ke_set_priority_thread(_thread: *mut c_void, _priority: i32) -> i32 {
    8
}

/// What PsThreadType points to. Nobody here looks into a type.
static THREAD_TYPE: [u64; 2] = [0; 2];
/// The type of threads, by which ObReferenceObjectByHandle is told what a handle is to be of: the handles here are of threads. [wdm: ObReferenceObjectByHandle]
static PS_THREAD_TYPE: &[u64; 2] = &THREAD_TYPE;

extern "win64" fn ob_reference_object_by_handle(
    handle: HANDLE,
    _access: u32,
    _kind: *const c_void,
    _mode: i8,
    object: *mut *mut c_void,
    _information: *mut c_void,
) -> NTSTATUS {
    const NAME: &str = "ObReferenceObjectByHandle";
    let driver = passive_caller(NAME);
    match on_host_stack(|| driver.deferred().lock().reference_handle(handle.addr())) {
        Some(address) => {
            put(NAME, object, pointer(address));
            STATUS_SUCCESS
        }
        None => STATUS_INVALID_HANDLE,
    }
}

/// The tag is for debuggers.
extern "win64" fn ob_reference_object_by_handle_with_tag(
    handle: HANDLE,
    access: u32,
    kind: *const c_void,
    mode: i8,
    _tag: u32,
    object: *mut *mut c_void,
    information: *mut c_void,
) -> NTSTATUS {
    ob_reference_object_by_handle(handle, access, kind, mode, object, information)
}

/// Waits for the object of a handle, which is a thread. At DISPATCH_LEVEL it may only look. [ntifs: ZwWaitForSingleObject]
extern "win64" fn zw_wait_for_single_object(handle: HANDLE, alertable: u8, timeout: *const LARGE_INTEGER) -> NTSTATUS {
    let driver = caller("ZwWaitForSingleObject");
    // Referenced, so that it stays while somebody closes the handle.
    let referenced = on_host_stack(|| driver.deferred().lock().reference_handle(handle.addr()));
    let Some(object) = referenced else { return STATUS_INVALID_HANDLE };
    let status = dispatcher::ke_wait_for_single_object(pointer(object), 0, 0, alertable, timeout);
    on_host_stack(|| driver.deferred().lock().dereference(object));
    status
}

extern "win64" fn obf_reference_object(object: *mut c_void) -> isize {
    const NAME: &str = "ObfReferenceObject";
    let driver = caller(NAME);
    match on_host_stack(|| driver.deferred().lock().reference(object.addr())) {
        Some(count) => count as isize,
        None => stop(Bugcheck::fatal(format!("{NAME} of {object:p}, which is no object that the driver was given"))),
    }
}

extern "win64" fn ke_initialize_dpc(dpc: *mut c_void, routine: usize, context: usize) {
    const NAME: &str = "KeInitializeDpc";
    put(NAME, dpc.cast(), [0_u64; 8]);
    put(NAME, dpc.cast(), [DPC_OBJECT, MEDIUM]);
    put(NAME, field(dpc, DPC_ROUTINE), [routine, context]);
}

extern "win64" fn ke_set_importance_dpc(dpc: *mut c_void, importance: u32) {
    put("KeSetImportanceDpc", field(dpc, 1), importance as u8);
}

/// Sees that the driver has its thread for DPCs and timers.
fn ensure_worker(driver: &Arc<Driver>) {
    let mut state = driver.deferred().lock();
    if std::mem::replace(&mut state.has_worker, true) {
        return;
    }
    drop(state);
    let (weak, deferred) = (Arc::downgrade(driver), Arc::clone(driver.deferred()));
    let worker = std::thread::Builder::new().name("dpc".into()).spawn(move || carry_out(&weak, &deferred));
    if let Err(error) = worker {
        driver.verifier().raise(Bugcheck::fatal(format!("no thread for DPCs: {error}")));
    }
}

/// The thread for DPCs and timers of a driver, until the driver is gone.
fn carry_out(driver: &Weak<Driver>, deferred: &Deferred) {
    loop {
        let mut state = deferred.lock();
        if state.ended {
            return;
        }
        let now = Instant::now();
        let due = state.timers.iter().find(|(_, timer)| timer.due <= now).map(|(timer, set)| (*timer, *set));
        if let Some((timer, set)) = due {
            match set.period {
                Some(period) => state.timers.insert(timer, SetTimer { due: set.due + period, ..set }),
                None => state.timers.remove(&timer),
            };
            drop(state);
            let Some(driver) = driver.upgrade() else { return };
            expire(&driver, timer, set.from);
        } else if let Some(dpc) = state.next_dpc() {
            state.running = Some(dpc);
            drop(state);
            let Some(driver) = driver.upgrade() else { return };
            run_dpc(&driver, dpc);
            deferred.lock().running = None;
            deferred.notify();
        } else {
            let next = state.timers.values().map(|timer| timer.due.saturating_duration_since(now)).min();
            // Nobody tells when the level of another thread falls.
            let most = if state.dpcs.is_empty() { Duration::from_secs(1) } else { LEVEL_CHECK };
            drop(deferred.wait(state, next.map_or(most, |next| next.min(most))));
        }
    }
}

/// A timer that was set at the instruction `from` has expired.
fn expire(driver: &Arc<Driver>, timer: usize, from: usize) {
    let at = pointer(timer);
    let dpc = try_put(field(at, SIGNAL_STATE), 1_i32).and_then(|()| try_get::<usize>(field(at, TIMER_DPC)));
    match dpc {
        Ok(dpc) => {
            // Whoever waits for the timer looks again.
            dispatcher::change("a timer", || Ok(()));
            if dpc != 0 {
                queue(driver, dpc, from);
            }
        }
        Err(_) => {
            let reason = format!("timer {timer:#x} expired, and its memory is not there any more; it was set");
            let bugcheck = Bugcheck::new(Bugcheck::TIMER_OR_DPC_INVALID, [0, timer as u64, 0, 0], reason);
            driver.verifier().raise(bugcheck.at(driver.place(from)));
        }
    }
}

fn run_dpc(driver: &Arc<Driver>, dpc: usize) {
    const NAME: &str = "a DPC routine";
    let at = pointer(dpc);
    let read = || -> Result<[usize; 4], crate::fault::Fault> {
        let [routine, context] = try_get(field(at, DPC_ROUTINE))?;
        let [first, second] = try_get(field(at, DPC_ARGUMENTS))?;
        Ok([routine, context, first, second])
    };
    let Ok([routine, context, first, second]) = read() else {
        let reason = format!("DPC {dpc:#x} was queued, and its memory is not there any more");
        driver.verifier().raise(Bugcheck::new(Bugcheck::TIMER_OR_DPC_INVALID, [1, dpc as u64, 0, 0], reason));
        return;
    };
    let _raised = irql::Raised::to(DISPATCH_LEVEL);
    // SAFETY: the driver gave the address as that of such a function.
    let routine = unsafe { std::mem::transmute::<usize, Deferring>(routine) };
    // SAFETY: the driver gave function and arguments for each other.
    let call = || unsafe { routine(at, pointer(context), pointer(first), pointer(second)) };
    let (_, leftovers) = driver_call::run(driver, NAME, call);
    leftovers.check(NAME, driver.verifier());
}

/// True if the DPC was not in the queue, which it is now. It runs on the processor of the calling thread, and so not before the level of that is below DISPATCH_LEVEL.
/// [kernel: organization of DPC queues]
fn queue(driver: &Arc<Driver>, dpc: usize, from: usize) -> bool {
    ensure_worker(driver);
    let mut state = driver.deferred().lock();
    let new = !state.is_queued(dpc);
    if new {
        state.dpcs.push_back(QueuedDpc { address: dpc, from, section: RaisedSection::current() });
    }
    drop(state);
    driver.deferred().notify();
    new
}

extern "win64" fn ke_insert_queue_dpc(dpc: *mut c_void, first: usize, second: usize) -> u8 {
    const NAME: &str = "KeInsertQueueDpc";
    let driver = caller(NAME);
    let number = dpc.expose_provenance();
    if on_host_stack(|| driver.deferred().lock().is_queued(number)) {
        return 0;
    }
    require_kind(NAME, dpc, &[(DPC_OBJECT, None)], "KeInitializeDpc");
    put(NAME, field(dpc, DPC_ARGUMENTS), [first, second]);
    let from = calling_instruction();
    on_host_stack(|| queue(&driver, number, from)).into()
}

extern "win64" fn ke_remove_queue_dpc(dpc: *mut c_void) -> u8 {
    let driver = caller("KeRemoveQueueDpc");
    on_host_stack(|| {
        let mut state = driver.deferred().lock();
        let place = state.dpcs.iter().position(|queued| queued.address == dpc.addr());
        place.and_then(|place| state.dpcs.remove(place)).is_some().into()
    })
}

/// Waits until the DPCs in the queue have run.
extern "win64" fn ke_flush_queued_dpcs() {
    let driver = passive_caller("KeFlushQueuedDpcs");
    loop {
        let idle = on_host_stack(|| {
            let state = driver.deferred().lock();
            let idle = state.dpcs.is_empty() && state.running.is_none();
            if !idle {
                drop(driver.deferred().wait(state, STOP_CHECK));
            }
            idle
        });
        if idle {
            return;
        }
        check_stopped();
    }
}

extern "win64" fn ke_initialize_timer(timer: *mut c_void) {
    ke_initialize_timer_ex(timer, 0);
}

extern "win64" fn ke_initialize_timer_ex(timer: *mut c_void, kind: u32) {
    const NAME: &str = "KeInitializeTimerEx";
    put(NAME, timer.cast(), [0_u64; 8]);
    let kind = if kind == 0 { NOTIFICATION_TIMER } else { SYNCHRONIZATION_TIMER };
    dispatcher::initialize(NAME, timer, kind, TIMER_WORDS, 0);
}

extern "win64" fn ke_set_timer(timer: *mut c_void, due: LARGE_INTEGER, dpc: usize) -> u8 {
    set_timer("KeSetTimer", (timer, due, 0), dpc)
}

extern "win64" fn ke_set_coalescable_timer(
    timer: *mut c_void,
    due: LARGE_INTEGER,
    period: u32,
    _: u32,
    dpc: usize,
) -> u8 {
    set_timer("KeSetCoalescableTimer", (timer, due, period as i32), dpc)
}

/// Stops the machine unless KeInitializeTimer has made the timer.
fn require_timer(service: &'static str, timer: *mut c_void) {
    let kinds = [NOTIFICATION_TIMER, SYNCHRONIZATION_TIMER].map(|kind| (kind, Some(TIMER_WORDS)));
    require_kind(service, timer, &kinds, "KeInitializeTimer");
}

extern "win64" fn ke_set_timer_ex(timer: *mut c_void, due: LARGE_INTEGER, period: i32, dpc: usize) -> u8 {
    set_timer("KeSetTimerEx", (timer, due, period), dpc)
}

/// TRUE if the timer was set already, which it then is anew: with due time and period.
fn set_timer(service: &'static str, (timer, due, period): (*mut c_void, LARGE_INTEGER, i32), dpc: usize) -> u8 {
    let driver = caller(service);
    let number = timer.expose_provenance();
    require_timer(service, timer);
    let from = calling_instruction();
    on_host_stack(|| driver.deferred().lock().timers.remove(&number));
    put(service, field(timer, SIGNAL_STATE), 0_i32);
    put(service, field(timer, TIMER_DPC), dpc);
    put(service, field(timer, TIMER_PERIOD), period);
    let every = u64::try_from(period).ok().filter(|period| *period != 0).map(Duration::from_millis);
    let was_set = set_timer_flag(service, timer, true);
    on_host_stack(|| {
        let set = SetTimer { due: moment(due.QuadPart), period: every, from };
        driver.deferred().lock().timers.insert(number, set);
        ensure_worker(&driver);
        driver.deferred().notify();
    });
    was_set
}

/// The header says whether the timer is in the list of the kernel, in its fourth byte.
fn set_timer_flag(service: &'static str, timer: *mut c_void, set: bool) -> u8 {
    const INSERTED: usize = 3;
    let before: u8 = get(service, field(timer, INSERTED));
    put(service, field(timer, INSERTED), u8::from(set));
    before
}

/// TRUE if the timer was set. The page wants an initialised timer, and has no operation performed for one that is in no queue; memory that is all zero is in none, so that this goes
/// well on Windows, and is told here. [wdm: KeCancelTimer]
extern "win64" fn ke_cancel_timer(timer: *mut c_void) -> u8 {
    const NAME: &str = "KeCancelTimer";
    let driver = caller(NAME);
    if get::<u64>(NAME, timer.cast()) == 0 {
        let (from, within) = (calling_instruction(), driver_call::current_name().unwrap_or_default());
        on_host_stack(|| {
            let place = driver.place(from).map_or_else(String::new, |place| format!(" in {place}"));
            driver.verifier().log(format!(
                "{NAME} of {timer:p}, which is zero and which KeInitializeTimer has not initialised, in {within}{place}: nothing is done [wdm: KeCancelTimer]"
            ));
        });
        return 0;
    }
    require_timer(NAME, timer);
    let was_set = on_host_stack(|| driver.deferred().lock().timers.remove(&timer.addr()).is_some());
    set_timer_flag(NAME, timer, false);
    was_set.into()
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
