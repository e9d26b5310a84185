// UNSAFETY: signals to threads, and marks of theirs that another thread reads.
//! Calls into the drivers of a machine that have not returned, and which of them is late.
//!
//! Every call into a driver is registered while it runs. The watchdog checks the registered calls ten times a second and counts how often it has
//! found each. While a process is suspended or stopped in a debugger the watchdog does not run either, so that no call counts as late because of
//! that. The time that a kernel service takes counts for the driver's call that requested it.
//!
//! A call that is found too often is late. A driver image is then interrupted by a signal: if the thread executes code of the image, the
//! call ends there as by a fault, and the bug check says where; if the thread is in a service, the call ends when the service returns to
//! the image. A driver that is linked into the process cannot be interrupted, since its code may have locks of this process' libraries. If
//! a late call does not return within the grace period, the process ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use wddm_ddi::nt::DISPATCH_LEVEL;
use wddm_ddi::types::KIRQL;

use crate::bugcheck::{Bugcheck, CodeLocation};
use crate::bus::pending::{self, Pending};
use crate::fault::signal::INTERRUPT;
use crate::irql;
use crate::lock::{Innermost, Mutex, lock};

/// Time between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// Time between two looks at a call that is late.
pub(crate) const RETRY: Duration = Duration::from_millis(1);
/// Looks at a late call until the process ends: at least ten seconds.
pub(crate) const GRACE: u32 = 10_000;
/// Looks at a late call of an image until the machine stops without knowing where the image is.
const CHANCES: u32 = 2_000;

/// Looks that find a call which is slow enough to be told of: a second.
const SLOW: u32 = 10;

/// State of a thread that the watchdog and the thread's signal handler share.
struct Seat {
    /// Number of the innermost call of the thread.
    inside: AtomicU64,
    /// Number of the call that is to end.
    ending: AtomicU64,
    /// The callback or the service, in which it may wait, that the innermost call is in.
    service: Service,
}

/// The name of a service or none, which another thread may read at any moment: address and length in one word.
struct Service(AtomicU64);

impl Service {
    /// Bits of the length; those of an address in user space are the others.
    const LENGTH: u32 = 16;

    fn replace(&self, name: Option<&'static str>) -> Option<&'static str> {
        let word = name
            .filter(|name| name.len() < 1 << Self::LENGTH)
            .map_or(0, |name| (name.as_ptr().expose_provenance() as u64) << Self::LENGTH | name.len() as u64);
        Self::name(self.0.swap(word, Ordering::Relaxed))
    }

    fn get(&self) -> Option<&'static str> {
        Self::name(self.0.load(Ordering::Relaxed))
    }

    fn name(word: u64) -> Option<&'static str> {
        if word == 0 {
            return None;
        }
        let start = std::ptr::with_exposed_provenance::<u8>((word >> Self::LENGTH) as usize);
        let length = (word & ((1 << Self::LENGTH) - 1)) as usize;
        // SAFETY: only `replace` makes such a word, of address and length of a text that stays as long as the process; addresses of user space have 47 bits.
        let bytes = unsafe { std::slice::from_raw_parts(start, length) };
        std::str::from_utf8(bytes).ok()
    }
}

thread_local! {
    static SEAT: Seat = const {
        Seat { inside: AtomicU64::new(0), ending: AtomicU64::new(0), service: Service(AtomicU64::new(0)) }
    };
}

/// The innermost call of a thread is in a callback or a service until this is dropped.
#[must_use = "the call is in the service until this is dropped"]
pub struct InService {
    outer: Option<&'static str>,
    /// Belongs to the thread that is in it.
    _thread: std::marker::PhantomData<*const ()>,
}

/// Notes for reports of calls that do not return that the innermost call of this thread is in a callback, or in a service that may wait.
pub fn in_service(name: &'static str) -> InService {
    let outer = SEAT.with(|seat| seat.service.replace(Some(name)));
    InService { outer, _thread: std::marker::PhantomData }
}

impl Drop for InService {
    fn drop(&mut self) {
        SEAT.with(|seat| seat.service.replace(self.outer));
    }
}

/// True if the innermost call of this thread is to end. May be asked in a signal handler.
pub(crate) fn is_ending() -> bool {
    SEAT.with(|seat| {
        let inside = seat.inside.load(Ordering::Relaxed);
        inside != 0 && seat.ending.load(Ordering::Relaxed) == inside
    })
}

/// The number of checks that may find a call before it is late.
#[derive(Clone, Copy, Debug)]
pub struct Allotment {
    /// Below DISPATCH_LEVEL.
    passive: u32,
    /// At DISPATCH_LEVEL and above.
    raised: u32,
}

impl Allotment {
    /// The looks that fit into a time, and half of them for raised levels; at least one.
    pub fn new(limit: Duration) -> Self {
        let passive = u32::try_from(limit.as_millis() / LOOK.as_millis()).unwrap_or(u32::MAX).max(1);
        Self { passive, raised: (passive / 2).max(1) }
    }
}

/// Finds the place of an address in a driver image.
pub(crate) type Places = Arc<dyn Fn(usize) -> Option<CodeLocation> + Send + Sync>;

/// A call into a driver that has not returned.
struct Call {
    number: u64,
    name: &'static str,
    driver: Arc<str>,
    /// Of a driver image, which can be interrupted.
    places: Option<Places>,
    entered_at: KIRQL,
    thread: libc::pthread_t,
    /// The host's number of the thread.
    id: i32,
    /// Level and seat of the thread, which lives at least as long as this is registered.
    level: *const AtomicU8,
    seat: *const Seat,
    pending: *const Pending,
    /// The access to a register that the last look found its thread in, and the looks in a row that found it.
    access: (u64, u32),
    /// Looks that found it.
    looks: u32,
    /// The last of them in a row that found its thread at DISPATCH_LEVEL or above.
    raised: u32,
}

// SAFETY: what the pointers lead to is atomic, and is there until the call is taken out of the list by its thread.
unsafe impl Send for Call {}

impl Call {
    fn level(&self) -> KIRQL {
        // SAFETY: the thread lives, because it has still to take this out of the list.
        let level = unsafe { &*self.level };
        level.load(Ordering::Relaxed)
    }

    /// How long it has not returned, and the callback or service that it is in.
    fn describe(&self, looks: u32, what: &str) -> String {
        let seconds = f64::from(looks) * LOOK.as_secs_f64();
        let (name, driver, level) = (self.name, &self.driver, self.level());
        // SAFETY: the thread lives, because it has still to take this out of the list.
        let seat = unsafe { &*self.seat };
        let service = seat
            .service
            .get()
            .filter(|_| self.is_innermost())
            .map_or_else(String::new, |service| format!(": it is in {service}"));
        let access = self.access().filter(|_| self.is_innermost()).map_or_else(String::new, |access| {
            // One that an earlier look has found too has not been answered since.
            match self.access {
                (number, looks @ 2..) if number == access.number => {
                    let seconds = f64::from(looks) * LOOK.as_secs_f64();
                    format!(": it waits for the function, which has not answered {access} for {seconds:.1} s")
                }
                _ => format!(": it was found in {access}"),
            }
        });
        format!("{name} of driver {driver} has not returned {what}for {seconds:.1} s, at IRQL {level}{service}{access}")
    }

    /// The access to a register that its thread is in, also before the call.
    fn access(&self) -> Option<pending::Access> {
        // SAFETY: the thread lives, because it has still to take this out of the list.
        unsafe { &*self.pending }.access()
    }

    /// True if the thread has called no other function of a driver meanwhile.
    fn is_innermost(&self) -> bool {
        // SAFETY: the thread lives, because it has still to take this out of the list.
        unsafe { &*self.seat }.inside.load(Ordering::Relaxed) == self.number
    }

    /// The instruction of the image that waits for a register, and what finds its place. Symbols are read for that, which takes time.
    fn instruction(&self) -> Option<(Places, usize)> {
        if !self.is_innermost() {
            return None;
        }
        Some((Arc::clone(self.places.as_ref()?), self.access()?.instruction))
    }

    fn count(&mut self) {
        let number = self.access().map_or(0, |access| access.number);
        self.access = (number, if number == self.access.0 { self.access.1 + 1 } else { 1 });
        self.looks += 1;
        self.raised = if self.level() >= DISPATCH_LEVEL { self.raised + 1 } else { 0 };
    }

    /// The bug check of a call that was found more often than it may be, without its place. [debugger: 0x133, 0xea]
    fn verdict(&self, allotment: Allotment) -> Option<Bugcheck> {
        if self.raised >= allotment.raised {
            let (looks, allowed) = (self.raised.into(), allotment.raised.into());
            let (parameters, what) = match self.entered_at >= DISPATCH_LEVEL {
                true => ([0, looks, allowed, 0], ""),
                false => ([1, allowed, 0, 0], "to a level below DISPATCH_LEVEL "),
            };
            let told = self.describe(self.raised, what);
            Some(Bugcheck::new(Bugcheck::DPC_WATCHDOG_VIOLATION, parameters, told))
        } else if self.looks >= allotment.passive {
            let parameters = [self.id.cast_unsigned().into(), 0, 0, 1];
            let told = self.describe(self.looks, "");
            Some(Bugcheck::new(Bugcheck::THREAD_STUCK_IN_DEVICE_DRIVER, parameters, told))
        } else {
            None
        }
    }

    /// Has the thread end this call if it is an image's.
    fn interrupt(&self) {
        if self.places.is_none() {
            return;
        }
        // SAFETY: the thread lives, because it has still to take this out of the list.
        let seat = unsafe { &*self.seat };
        seat.ending.store(self.number, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { libc::pthread_kill(self.thread, INTERRUPT) };
    }
}

/// A call that was found too often, whose place is still to be looked up.
struct Found {
    number: u64,
    bugcheck: Bugcheck,
    /// The instruction of its image that waits for a register, with what finds its place.
    instruction: Option<(Places, usize)>,
}

/// A call that was found too often.
struct Late {
    number: u64,
    bugcheck: Bugcheck,
    /// Looks at it since.
    looks: u32,
}

/// The calls into the drivers of a machine that have not returned.
#[derive(Default)]
pub struct Calls(Mutex<State, Innermost>);

#[derive(Default)]
struct State {
    /// In the order in which they were entered.
    calls: Vec<Call>,
    late: Option<Late>,
    /// Calls that returned after a second or more, by function: how many, and the looks that found the longest.
    slow: BTreeMap<&'static str, (u32, u32)>,
}

/// A call is registered until this is dropped, by the thread that made it.
#[must_use = "the watchdog does not see the call any more when this is dropped"]
pub struct UnderWay<'a> {
    calls: &'a Calls,
    number: u64,
    /// The call that this one is inside of, or 0, and the callback that it is in.
    outer: u64,
    service: Option<&'static str>,
    /// Belongs to the thread that made the call.
    _thread: std::marker::PhantomData<*const ()>,
}

/// The next step of the watchdog after it has looked at the calls that have not returned.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Looks again after [`LOOK`].
    Look,
    /// Looks again after [`RETRY`].
    Retry,
    /// Stops the machine and prints why, since no other thread may be able to.
    Stop(Bugcheck),
    /// Ends the process.
    End(Bugcheck),
}

impl Calls {
    /// The calling thread is about to call the function `name` of a driver, which is an image with places or linked.
    pub(crate) fn enter(&self, driver: &Arc<str>, places: Option<Places>, name: &'static str) -> UnderWay<'_> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let call = Call {
            number,
            name,
            driver: Arc::clone(driver),
            places,
            entered_at: irql::current(),
            // SAFETY: no requirements.
            thread: unsafe { libc::pthread_self() },
            id: thread_id(),
            level: irql::of_this_thread(),
            seat: SEAT.with(|seat| &raw const *seat),
            pending: pending::of_this_thread(),
            access: (0, 0),
            looks: 0,
            raised: 0,
        };
        lock(&self.0).calls.push(call);
        let (outer, service) =
            SEAT.with(|seat| (seat.inside.swap(number, Ordering::Relaxed), seat.service.replace(None)));
        UnderWay { calls: self, number, outer, service, _thread: std::marker::PhantomData }
    }

    /// The bug check of the call that is late.
    pub fn verdict(&self) -> Option<Bugcheck> {
        lock(&self.0).late.as_ref().map(|late| late.bugcheck.clone())
    }

    /// Calls that have not returned for a second, and functions that took a second or longer before, in words.
    pub fn slow(&self) -> Vec<String> {
        let state = lock(&self.0);
        let under_way = state.calls.iter().filter(|call| call.looks >= SLOW).map(|call| call.describe(call.looks, ""));
        let returned = state.slow.iter().map(|(name, (times, looks))| {
            let seconds = f64::from(*looks) * LOOK.as_secs_f64();
            format!("{name} took a second or longer {times} times, the longest time {seconds:.1} s")
        });
        under_way.chain(returned).collect()
    }

    /// Counts a look at every call unless one is late: the first that was found too often, its bug check without the place, and its instruction.
    fn find_late(&self, allotment: Allotment) -> Option<Found> {
        let mut state = lock(&self.0);
        let State { calls, late, .. } = &mut *state;
        if late.as_ref().is_some_and(|late| calls.iter().any(|call| call.number == late.number)) {
            return None;
        }
        *late = None;
        calls.iter_mut().for_each(Call::count);
        calls.iter().find_map(|call| {
            let (number, bugcheck) = (call.number, call.verdict(allotment)?);
            Some(Found { number, bugcheck, instruction: call.instruction() })
        })
    }

    /// Looks once at every call, or at the one that is late until it has returned.
    pub fn look(&self, allotment: Allotment) -> Next {
        let found = self.find_late(allotment);
        // The symbols of an image are read without the lock, which every call of a driver takes.
        let found = found.map(|Found { number, bugcheck, instruction }| {
            let place = instruction.and_then(|(places, address)| places(address));
            Late { number, bugcheck: bugcheck.at(place), looks: 0 }
        });
        let mut state = lock(&self.0);
        let State { calls, late, .. } = &mut *state;
        // One that has returned meanwhile is not late.
        *late = found.or_else(|| late.take()).filter(|late| calls.iter().any(|call| call.number == late.number));
        let Some(late) = late else { return Next::Look };
        let thread = calls.iter().find(|call| call.number == late.number).map(|call| call.id);
        let Some(innermost) = calls.iter().rev().find(|call| Some(call.id) == thread) else { return Next::Look };
        innermost.interrupt();
        let silent = if innermost.places.is_some() { CHANCES } else { 0 };
        let (looks, bugcheck) = (late.looks, late.bugcheck.clone());
        late.looks += 1;
        if looks == silent {
            return Next::Stop(bugcheck);
        }
        if looks < GRACE { Next::Retry } else { Next::End(bugcheck) }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        SEAT.with(|seat| {
            seat.inside.store(self.outer, Ordering::Relaxed);
            seat.service.replace(self.service);
        });
        let mut state = lock(&self.calls.0);
        let place = state.calls.iter().rposition(|call| call.number == self.number);
        let call = place.map(|place| state.calls.remove(place));
        if let Some(call) = call.as_ref().filter(|call| call.looks >= SLOW) {
            let (times, most) = state.slow.entry(call.name).or_default();
            (*times, *most) = (*times + 1, call.looks.max(*most));
        }
        drop(state);
        drop(call);
    }
}

/// The host's number of the calling thread.
pub(crate) fn thread_id() -> i32 {
    thread_local! {
        // SAFETY: no requirements.
        static ID: i32 = unsafe { libc::gettid() };
    }
    ID.with(|id| *id)
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
