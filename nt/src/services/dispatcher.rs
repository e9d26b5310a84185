// UNSAFETY: functions that keep the registers of their caller, and calls of them.
//! Objects that threads wait for: events, semaphores, mutexes, timers and threads, in the layout of DISPATCHER_HEADER in the driver's memory; and waiting.
//!
//! One lock covers all of them, as in a kernel with one dispatcher lock, and one condition variable wakes all waiting threads. [wdm: KeWaitForSingleObject]

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use wddm_ddi::nt::{APC_LEVEL, DISPATCH_LEVEL};
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_TIMEOUT};
use wddm_ddi::types::LARGE_INTEGER;

use super::call::{STOP_CHECK, check_stopped, good, require_at_most};
use super::counter::nanoseconds;
use super::exceptions::raise_status;
use super::memory::{field, get, put};
use crate::bugcheck::Bugcheck;
use crate::deferred::ThreadObject;
use crate::driver::Export;
use crate::driver_call::{calling_instruction, drop_mutex, hold_mutex, in_service, on_host_stack, stop};
use crate::fault::Fault;
use crate::lock::{Condvar, Mutex, lock};
use crate::unwind::{CallSite, with_call_site};

pub(super) const EXPORTS: &[Export] = &[
    ("KeInitializeEvent", || ke_initialize_event as *const () as usize),
    ("KeSetEvent", || ke_set_event as *const () as usize),
    ("KeResetEvent", || ke_reset_event as *const () as usize),
    ("KeClearEvent", || ke_clear_event as *const () as usize),
    ("KePulseEvent", || ke_pulse_event as *const () as usize),
    ("KeReadStateEvent", || ke_read_state as *const () as usize),
    ("KeInitializeSemaphore", || ke_initialize_semaphore as *const () as usize),
    ("KeReleaseSemaphore", || ke_release_semaphore as *const () as usize),
    ("KeReadStateSemaphore", || ke_read_state as *const () as usize),
    ("KeInitializeMutex", || ke_initialize_mutex as *const () as usize),
    ("KeReleaseMutex", || ke_release_mutex as *const () as usize),
    ("KeReadStateMutex", || ke_read_state as *const () as usize),
    ("KeReadStateTimer", || ke_read_state as *const () as usize),
    ("KeWaitForSingleObject", || ke_wait_for_single_object as *const () as usize),
    ("KeWaitForMultipleObjects", || ke_wait_for_multiple_objects as *const () as usize),
    ("KeDelayExecutionThread", || ke_delay_execution_thread as *const () as usize),
    ("KeStallExecutionProcessor", || ke_stall_execution_processor as *const () as usize),
    ("KeQuerySystemTimePrecise", || ke_query_system_time as *const () as usize),
    ("KeQueryInterruptTimePrecise", || ke_query_interrupt_time_precise as *const () as usize),
    ("KeQueryInterruptTime", || ke_query_interrupt_time as *const () as usize),
    ("KeQueryUnbiasedInterruptTime", || ke_query_interrupt_time as *const () as usize),
    ("KeQueryTimeIncrement", || ke_query_time_increment as *const () as usize),
    ("KeGetCurrentThread", || ke_get_current_thread as *const () as usize),
    ("PsGetCurrentThread", || ke_get_current_thread as *const () as usize),
    ("ExSystemTimeToLocalTime", || ex_copy_time as *const () as usize),
    ("ExLocalTimeToSystemTime", || ex_copy_time as *const () as usize),
];

/// Numbers of KOBJECTS. [ntifs: KOBJECTS]
const NOTIFICATION_EVENT: u8 = 0;
const SYNCHRONIZATION_EVENT: u8 = 1;
const MUTANT: u8 = 2;
const SEMAPHORE: u8 = 5;
const THREAD: u8 = ThreadObject::KIND as u8;
pub(super) const NOTIFICATION_TIMER: u8 = 8;
pub(super) const SYNCHRONIZATION_TIMER: u8 = 9;

/// Offsets of DISPATCHER_HEADER, KSEMAPHORE and KMUTANT, and sizes in words of four bytes as the header has them.
const SIGNAL_STATE: usize = 4;
const LIST_HEAD: usize = 8;
const LIMIT: usize = 24;
const OWNER: usize = 40;
const EVENT_WORDS: u8 = 6;
const SEMAPHORE_WORDS: u8 = 8;
const MUTANT_WORDS: u8 = 14;
pub(super) const TIMER_WORDS: u8 = 16;

/// Objects of one wait for which the thread has wait blocks of its own. [wdm: KeWaitForMultipleObjects, THREAD_WAIT_OBJECTS]
const THREAD_WAIT_OBJECTS: u32 = 3;
/// Objects of one wait. [wdm: MAXIMUM_WAIT_OBJECTS]
const MAXIMUM_WAIT_OBJECTS: u32 = 64;
const STATUS_MUTANT_NOT_OWNED: u32 = 0xc000_0046;
const STATUS_SEMAPHORE_LIMIT_EXCEEDED: u32 = 0xc000_0047;
const STATUS_WAIT_0: i32 = 0;

static DISPATCHER: Mutex<()> = Mutex::new(());
static CHANGED: Condvar = Condvar::new();

thread_local! {
    static CURRENT: RefCell<Arc<ThreadObject>> = RefCell::new(ThreadObject::new());
}

/// Has the calling thread be this one.
pub(super) fn become_thread(thread: &Arc<ThreadObject>) {
    CURRENT.set(Arc::clone(thread));
}

/// The calling thread as drivers know it.
pub(super) extern "win64" fn ke_get_current_thread() -> *mut c_void {
    let address = CURRENT.with_borrow(|thread| thread.address());
    std::ptr::with_exposed_provenance_mut(address)
}

/// Changes objects as one step, and wakes all waiting threads. Takes no lock of the driver's stack.
pub(super) fn change<R>(service: &'static str, change: impl FnOnce() -> Result<R, Fault>) -> R {
    let result = on_host_stack(|| {
        let _dispatcher = lock(&DISPATCHER);
        let result = change();
        CHANGED.notify_all();
        result
    });
    good(service, result)
}

fn read<T: super::memory::Plain>(object: *mut c_void, offset: usize) -> Result<T, Fault> {
    super::memory::try_get(field(object, offset))
}

fn write<T: super::memory::Plain>(object: *mut c_void, offset: usize, value: T) -> Result<(), Fault> {
    super::memory::try_put(field(object, offset), value)
}

/// Fills a header, whose list of waiters is empty.
pub(super) fn initialize(service: &'static str, object: *mut c_void, kind: u8, words: u8, state: i32) {
    put(service, field(object, 0), [kind, 0, words, 0]);
    put(service, field(object, SIGNAL_STATE), state);
    let head = object.wrapping_byte_add(LIST_HEAD);
    put(service, head.cast(), [head, head]);
}

/// Parameter 1 of DRIVER_VERIFIER_DETECTED_VIOLATION: what is used was never initialised. [debugger: 0xc4]
pub(super) const UNINITIALIZED: u64 = 0x1002;
const EVENTS: [(u8, Option<u8>); 2] =
    [(NOTIFICATION_EVENT, Some(EVENT_WORDS)), (SYNCHRONIZATION_EVENT, Some(EVENT_WORDS))];

/// Stops the machine for an object that was never initialised.
pub(super) fn uninitialized(service: &str, object: *mut c_void, by: &str) -> ! {
    let reason = format!("{service} of {object:p}, which {by} has not initialised");
    let parameters = [UNINITIALIZED, object.addr() as u64, 0, 0];
    stop(Bugcheck::new(Bugcheck::DRIVER_VERIFIER_DETECTED_VIOLATION, parameters, reason));
}

/// Stops the machine unless the object is of one of these kinds, each with its size in the header. Zeros look like an event, but for their size.
pub(super) fn require_kind(service: &'static str, object: *mut c_void, kinds: &[(u8, Option<u8>)], by: &str) {
    if !is_of(get(service, object.cast()), kinds) {
        uninitialized(service, object, by);
    }
}

/// True if the first bytes of a header are those of an object of one of these kinds.
fn is_of([kind, _, words, _]: [u8; 4], kinds: &[(u8, Option<u8>)]) -> bool {
    kinds.iter().any(|(of, size)| *of == kind & 0x7f && size.is_none_or(|size| size == words))
}

fn require_event(service: &'static str, event: *mut c_void) {
    require_kind(service, event, &EVENTS, "KeInitializeEvent");
}

/// True if KeInitializeEvent has made the event.
pub(super) fn is_event(service: &'static str, event: *mut c_void) -> bool {
    is_of(get(service, event.cast()), &EVENTS)
}

pub(super) extern "win64" fn ke_initialize_event(event: *mut c_void, kind: u32, state: u8) {
    initialize("KeInitializeEvent", event, kind as u8, EVENT_WORDS, (state != 0).into());
}

/// Sets the state and answers the one before.
pub(super) fn set_state(service: &'static str, object: *mut c_void, state: i32) -> i32 {
    change(service, || {
        let before = read(object, SIGNAL_STATE)?;
        write(object, SIGNAL_STATE, state)?;
        Ok(before)
    })
}

extern "win64" fn ke_set_event(event: *mut c_void, _increment: i32, wait: u8) -> i32 {
    const NAME: &str = "KeSetEvent";
    require_at_most(NAME, if wait == 0 { DISPATCH_LEVEL } else { APC_LEVEL });
    require_event(NAME, event);
    set_state(NAME, event, 1)
}

extern "win64" fn ke_reset_event(event: *mut c_void) -> i32 {
    require_at_most("KeResetEvent", DISPATCH_LEVEL);
    require_event("KeResetEvent", event);
    set_state("KeResetEvent", event, 0)
}

extern "win64" fn ke_clear_event(event: *mut c_void) {
    require_at_most("KeClearEvent", DISPATCH_LEVEL);
    require_event("KeClearEvent", event);
    set_state("KeClearEvent", event, 0);
}

/// A thread that does not wait at this moment does not see it; here nobody is sure to, as the documentation of the user-mode function warns too.
extern "win64" fn ke_pulse_event(event: *mut c_void, _increment: i32, _wait: u8) -> i32 {
    require_event("KePulseEvent", event);
    let before = set_state("KePulseEvent", event, 1);
    std::thread::yield_now();
    set_state("KePulseEvent", event, 0);
    before
}

extern "win64" fn ke_read_state(object: *mut c_void) -> i32 {
    require_at_most("KeReadState", DISPATCH_LEVEL);
    get("KeReadState", field(object, SIGNAL_STATE))
}

extern "win64" fn ke_initialize_semaphore(semaphore: *mut c_void, count: i32, limit: i32) {
    const NAME: &str = "KeInitializeSemaphore";
    initialize(NAME, semaphore, SEMAPHORE, SEMAPHORE_WORDS, count);
    put(NAME, field(semaphore, LIMIT), limit);
}

with_call_site!(
    /// [wdm: KeReleaseSemaphore]
    fn ke_release_semaphore(_semaphore: *mut c_void, _increment: i32, _adjustment: i32, _wait: u8) -> i32 => release_semaphore
);
extern "win64" fn release_semaphore(semaphore: *mut c_void, _: i32, adjustment: i32, site: *const CallSite) -> i32 {
    const NAME: &str = "KeReleaseSemaphore";
    require_at_most(NAME, DISPATCH_LEVEL);
    require_kind(NAME, semaphore, &[(SEMAPHORE, Some(SEMAPHORE_WORDS))], "KeInitializeSemaphore");
    let before = change(NAME, || {
        let (before, limit) = (read::<i32>(semaphore, SIGNAL_STATE)?, read::<i32>(semaphore, LIMIT)?);
        let Some(after) = before.checked_add(adjustment).filter(|after| *after <= limit && *after >= before) else {
            return Ok(None);
        };
        write(semaphore, SIGNAL_STATE, after)?;
        Ok(Some(before))
    });
    before.unwrap_or_else(|| raise_status(NAME, site, STATUS_SEMAPHORE_LIMIT_EXCEEDED, &[]))
}

extern "win64" fn ke_initialize_mutex(mutex: *mut c_void, _level: u32) {
    const NAME: &str = "KeInitializeMutex";
    put(NAME, mutex.cast(), [0_u64; 7]);
    initialize(NAME, mutex, MUTANT, MUTANT_WORDS, 1);
}

with_call_site!(
    /// [wdm: KeReleaseMutex]
    fn ke_release_mutex(_mutex: *mut c_void, _wait: u8) -> i32 => release_mutex
);
extern "win64" fn release_mutex(mutex: *mut c_void, _wait: usize, _: usize, site: *const CallSite) -> i32 {
    const NAME: &str = "KeReleaseMutex";
    require_at_most(NAME, DISPATCH_LEVEL);
    require_kind(NAME, mutex, &[(MUTANT, Some(MUTANT_WORDS))], "KeInitializeMutex");
    let me = ke_get_current_thread().addr();
    let before = change(NAME, || {
        if read::<usize>(mutex, OWNER)? != me {
            return Ok(None);
        }
        let before: i32 = read(mutex, SIGNAL_STATE)?;
        write(mutex, SIGNAL_STATE, before.saturating_add(1))?;
        if before == 0 {
            write(mutex, OWNER, 0_usize)?;
        }
        drop_mutex(mutex.addr());
        Ok(Some(before))
    });
    before.unwrap_or_else(|| raise_status(NAME, site, STATUS_MUTANT_NOT_OWNED, &[]))
}

/// Objects that threads wait for, each with its size in words.
const WAITABLE: [(u8, Option<u8>); 7] = [
    (NOTIFICATION_EVENT, Some(EVENT_WORDS)),
    (SYNCHRONIZATION_EVENT, Some(EVENT_WORDS)),
    (MUTANT, Some(MUTANT_WORDS)),
    (SEMAPHORE, Some(SEMAPHORE_WORDS)),
    (THREAD, None),
    (NOTIFICATION_TIMER, Some(TIMER_WORDS)),
    (SYNCHRONIZATION_TIMER, Some(TIMER_WORDS)),
];

/// True if a wait of this thread for the object ends; `Err(None)` if it is no object to wait for.
fn is_signaled(object: *mut c_void, me: usize) -> Result<bool, Option<Fault>> {
    let (header, state) = (read::<[u8; 4]>(object, 0)?, read::<i32>(object, SIGNAL_STATE)?);
    if !is_of(header, &WAITABLE) {
        return Err(None);
    }
    Ok(state > 0 || header[0] & 0x7f == MUTANT && read::<usize>(object, OWNER)? == me)
}

impl From<Fault> for Unwaitable {
    fn from(fault: Fault) -> Self {
        Self::Pointer(fault)
    }
}

/// Why a wait cannot go on: a bad pointer, or no object.
enum Unwaitable {
    Pointer(Fault),
    Nothing(*mut c_void),
}

/// A thread that waits.
#[derive(Clone, Copy)]
struct Waiter {
    /// Address of its object.
    thread: usize,
    /// An address inside the instruction of the image that asked for the wait, where that may acquire a mutex; 0 if it is not known.
    instruction: usize,
}

/// Resets an auto-reset object, or takes one from a semaphore, when a wait for it is satisfied.
fn consume(object: *mut c_void, me: Waiter) -> Result<(), Fault> {
    match read::<u8>(object, 0)? & 0x7f {
        SYNCHRONIZATION_EVENT | SYNCHRONIZATION_TIMER => write(object, SIGNAL_STATE, 0_i32),
        SEMAPHORE => write(object, SIGNAL_STATE, read::<i32>(object, SIGNAL_STATE)? - 1),
        MUTANT => {
            write(object, SIGNAL_STATE, read::<i32>(object, SIGNAL_STATE)?.saturating_sub(1))?;
            write(object, OWNER, me.thread)?;
            hold_mutex(object.addr(), me.instruction);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Ends a wait if it can be ended: the number of the object.
fn satisfy(objects: &[*mut c_void], all: bool, me: Waiter) -> Result<Option<usize>, Unwaitable> {
    let why = |object: *mut c_void| {
        move |fault: Option<Fault>| fault.map_or(Unwaitable::Nothing(object), Unwaitable::Pointer)
    };
    let signaled = |object: &*mut c_void| is_signaled(*object, me.thread).map_err(why(*object));
    let mut first = None;
    for (index, object) in objects.iter().enumerate() {
        match (signaled(object)?, all) {
            (false, true) => return Ok(None),
            (true, false) => {
                consume(*object, me)?;
                return Ok(Some(index));
            }
            (true, true) => first = Some(0),
            (false, false) => {}
        }
    }
    if first.is_some() {
        objects.iter().try_for_each(|object| consume(*object, me))?;
    }
    Ok(first)
}

/// When a timeout ends: absolute times are positive, relative ones negative, both in units of 100 ns. `None` for ever.
pub(super) fn deadline(service: &'static str, timeout: *const LARGE_INTEGER) -> Option<Instant> {
    if timeout.is_null() {
        return None;
    }
    Some(moment(get(service, timeout).QuadPart))
}

/// The moment of a due time.
pub(super) fn moment(due: i64) -> Instant {
    let units = if due < 0 { due.unsigned_abs() } else { due.saturating_sub(system_time()).max(0).unsigned_abs() };
    let far = Duration::from_secs(u64::from(u32::MAX));
    Instant::now() + Duration::from_nanos(units.saturating_mul(100)).min(far)
}

fn wait(service: &'static str, objects: &[*mut c_void], all: bool, deadline: Option<Instant>) -> NTSTATUS {
    let now = Instant::now();
    require_at_most(service, if deadline.is_some_and(|end| end <= now) { DISPATCH_LEVEL } else { APC_LEVEL });
    let is_mutex = |object: &*mut c_void| read::<u8>(*object, 0).is_ok_and(|kind| kind & 0x7f == MUTANT);
    // The way to the calling instruction is long: only who acquires a mutex is told of.
    let instruction = if objects.iter().any(is_mutex) { calling_instruction() } else { 0 };
    let me = Waiter { thread: ke_get_current_thread().addr(), instruction };
    let _waits = in_service(service);
    loop {
        let outcome = on_host_stack(|| {
            let dispatcher = lock(&DISPATCHER);
            let outcome = satisfy(objects, all, me);
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if matches!(outcome, Ok(None)) && left != Some(Duration::ZERO) {
                drop(CHANGED.wait_timeout(dispatcher, left.unwrap_or(STOP_CHECK).min(STOP_CHECK)));
            }
            outcome
        });
        match outcome {
            Ok(Some(index)) => return NTSTATUS(STATUS_WAIT_0 + index as i32),
            Ok(None) if deadline.is_some_and(|end| end <= Instant::now()) => return STATUS_TIMEOUT,
            Ok(None) => check_stopped(),
            Err(Unwaitable::Pointer(fault)) => good(service, Err(fault)),
            Err(Unwaitable::Nothing(object)) => {
                let by = "KeInitializeEvent, KeInitializeSemaphore, KeInitializeMutex or KeInitializeTimer";
                uninitialized(service, object, by);
            }
        }
    }
}

pub(super) extern "win64" fn ke_wait_for_single_object(
    object: *mut c_void,
    _reason: u32,
    _mode: i8,
    _alertable: u8,
    timeout: *const LARGE_INTEGER,
) -> NTSTATUS {
    const NAME: &str = "KeWaitForSingleObject";
    let end = deadline(NAME, timeout);
    wait(NAME, &[object], false, end)
}

extern "win64" fn ke_wait_for_multiple_objects(
    count: u32,
    objects: *const *mut c_void,
    kind: u32,
    _reason: u32,
    _mode: i8,
    _alertable: u8,
    timeout: *const LARGE_INTEGER,
    blocks: *mut c_void,
) -> NTSTATUS {
    const NAME: &str = "KeWaitForMultipleObjects";
    const WAIT_ALL: u32 = 0;
    let alone = blocks.is_null();
    let (most, with) = if alone { (THREAD_WAIT_OBJECTS, "without") } else { (MAXIMUM_WAIT_OBJECTS, "with") };
    if count > most {
        stop(Bugcheck::new(
            Bugcheck::MAXIMUM_WAIT_OBJECTS_EXCEEDED,
            [0; 4],
            format!("{NAME} for {count} objects {with} WaitBlockArray, at most {most} are allowed"),
        ));
    }
    if count == 0 {
        return STATUS_INVALID_PARAMETER;
    }
    let list: Vec<*mut c_void> = (0..count as usize).map(|index| get(NAME, objects.wrapping_add(index))).collect();
    let end = deadline(NAME, timeout);
    wait(NAME, &list, kind == WAIT_ALL, end)
}

extern "win64" fn ke_delay_execution_thread(_mode: i8, _alertable: u8, interval: *const LARGE_INTEGER) -> NTSTATUS {
    const NAME: &str = "KeDelayExecutionThread";
    require_at_most(NAME, APC_LEVEL);
    let end = moment(get(NAME, interval).QuadPart);
    let _waits = in_service(NAME);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return STATUS_SUCCESS;
        }
        on_host_stack(|| std::thread::sleep(left.min(STOP_CHECK)));
        check_stopped();
    }
}

/// Longer than this a driver should wait instead. [wdm: KeStallExecutionProcessor]
extern "win64" fn ke_stall_execution_processor(microseconds: u32) {
    let end = nanoseconds() + u64::from(microseconds) * 1000;
    let _waits = in_service("KeStallExecutionProcessor");
    while nanoseconds() < end {
        std::hint::spin_loop();
        check_stopped();
    }
}

/// Units of 100 ns since 1601.
pub(super) fn system_time() -> i64 {
    const SECONDS_TO_1970: u64 = 11_644_473_600;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    ((since + Duration::from_secs(SECONDS_TO_1970)).as_nanos() / 100) as i64
}

extern "win64" fn ke_query_system_time(time: *mut LARGE_INTEGER) {
    put("KeQuerySystemTimePrecise", time, LARGE_INTEGER { QuadPart: system_time() });
}

/// Units of 100 ns.
pub(super) fn interrupt_time() -> u64 {
    nanoseconds() / 100
}

extern "win64" fn ke_query_interrupt_time() -> u64 {
    interrupt_time()
}

extern "win64" fn ke_query_interrupt_time_precise(counter: *mut u64) -> u64 {
    let now = nanoseconds() / 100;
    super::memory::put_if("KeQueryInterruptTimePrecise", counter, now);
    now
}

/// The clock interrupt comes every 15.625 ms.
extern "win64" fn ke_query_time_increment() -> u32 {
    156_250
}

/// The machine's time zone is UTC.
extern "win64" fn ex_copy_time(from: *const LARGE_INTEGER, to: *mut LARGE_INTEGER) {
    put("ExSystemTimeToLocalTime", to, get("ExSystemTimeToLocalTime", from));
}

/// A wait without an end.
#[cfg(test)]
pub(super) fn wait_for_tests(object: *mut c_void) -> NTSTATUS {
    ke_wait_for_single_object(object, 0, 0, 0, std::ptr::null())
}

#[cfg(test)]
#[path = "dispatcher_tests.rs"]
mod tests;
