//! Synchronization objects of before monitored fences that contexts wait for and signal: mutexes, semaphores, fences without an address, and
//! notifications of the processor.
//!
//! They are objects of the scheduler: waits and signals are commands of software in the queue of a context, and no GPU sees their state. A wait
//! is served when its queue comes to it, not when it is submitted, and those that wait for one object are served in that order.
//! A wait for several objects is served for all of them in one step, so that two of them never wait for each other.
//!
//! - A mutex belongs to the queue whose wait has taken it, until that one signals it as often as it has waited. One that is owned from the beginning
//!   belongs to its device, any queue of which signals it. A signal of somebody else has no effect. When the queue of the owner ends,
//!   the next one gets the mutex.
//! - A semaphore counts its signals up to its maximum; one beyond has no effect.
//! - A fence gets the value of the signal, as a monitored one does; a wait is over when the value is reached.
//! - A notification adds one to its event with each signal; nothing waits for it here.
//!
//! The owner of a mutex, the order, and what has no effect are this system's rules: the pages name the kinds and their initial state only.
//! [d3dukmdt: D3DDDI_SYNCHRONIZATIONOBJECTINFO2, D3DDDI_SYNCHRONIZATIONOBJECT_TYPE]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::{Mutex, MutexGuard};
use wddm_ddi::status::*;

use crate::account::{Account, Charge, Upkeep};
use crate::fence::{Event, Wait};
use crate::rank;
use crate::refusal::{Failure, refused};

use super::render_adapter::RenderAdapter;

/// Numbers of objects, of their openings, and of queues.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Names a queue that waits and signals. No other one ever has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueNumber(u64);

impl QueueNumber {
    pub(in crate::vidsch) fn new() -> Self {
        Self(NUMBERS.fetch_add(1, Ordering::Relaxed))
    }
}

/// Whose a mutex is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Initially owned: any queue of the device with this identity signals it.
    Device(u64),
    /// The queue whose wait has taken it.
    Queue(QueueNumber),
}

/// Type and state of an object.
#[derive(Debug)]
pub(crate) enum Kind {
    /// With its value.
    Fence(u64),
    /// How many waits may still pass, and the most of that.
    Semaphore { count: u32, max: u32 },
    /// Its owner, and how many signals make it free.
    Mutex(Option<Owner>, u32),
    /// The event.
    Notification(Event),
}

/// A queue that waits.
struct Waiter {
    wait: Arc<Wait>,
    by: QueueNumber,
    /// The opening that was named.
    open: u64,
    value: u64,
    /// True once the wait has had what it waits for.
    taken: Arc<AtomicBool>,
}

struct State {
    kind: Kind,
    pub(in crate::vidsch) waiters: VecDeque<Waiter>,
}

/// Such an object, which lives as long as somebody has it open, or a kernel handle of it.
pub(crate) struct OlderSync {
    adapter: Weak<RenderAdapter>,
    number: u64,
    state: Mutex<State, rank::OlderSync>,
    /// Kernel handles of it may be made.
    nt_sharing: bool,
    /// That of one that others may open.
    upkeep: Option<Upkeep>,
}

/// An object as kernel handles have it, with the last of which its name goes.
pub(crate) struct OlderSyncHandle(pub(crate) Arc<OlderSync>);

/// An object as a process has it open.
pub(crate) struct OpenOlderSync {
    object: Arc<OlderSync>,
    number: u64,
    closed: AtomicBool,
    _charge: Option<Charge>,
}

/// One opening in a list, with the value that only fences have.
pub(crate) type OlderValue = (Arc<OpenOlderSync>, u64);

/// A wait for one of them that a queue has begun.
pub(in crate::vidsch) struct Begun {
    open: Arc<OpenOlderSync>,
    taken: Arc<AtomicBool>,
}

impl State {
    /// Takes what a queue waits for; false if that cannot be had now.
    fn take(&mut self, by: QueueNumber, value: u64) -> bool {
        match &mut self.kind {
            Kind::Fence(current) => *current >= value,
            Kind::Semaphore { count: 0, .. } => false,
            Kind::Semaphore { count, .. } => {
                *count -= 1;
                true
            }
            Kind::Mutex(owner, depth) => {
                let mine = owner.is_none() || *owner == Some(Owner::Queue(by));
                if mine {
                    (*owner, *depth) = (Some(Owner::Queue(by)), depth.saturating_add(1));
                }
                mine
            }
            Kind::Notification(_) => true,
        }
    }

    /// Lets the waits end that have now what they wait for, in their order. One that is over is forgotten.
    fn serve(&mut self) {
        for waiter in std::mem::take(&mut self.waiters) {
            if waiter.wait.outcome().is_some() {
                continue;
            }
            if self.take(waiter.by, waiter.value) {
                waiter.taken.store(true, Ordering::Relaxed);
                waiter.wait.satisfy();
            } else {
                self.waiters.push_back(waiter);
            }
        }
    }

    /// A queue of a device signals it.
    fn signal(&mut self, by: QueueNumber, device: u64, new: u64) {
        match &mut self.kind {
            Kind::Fence(value) => *value = new,
            Kind::Semaphore { count, max } => *count = (*max).min(count.saturating_add(1)),
            Kind::Mutex(owner, depth) => {
                if *owner == Some(Owner::Queue(by)) || *owner == Some(Owner::Device(device)) {
                    *depth = depth.saturating_sub(1);
                    if *depth == 0 {
                        *owner = None;
                    }
                }
            }
            Kind::Notification(event) => event.signal(),
        }
        self.serve();
    }

    /// A queue gives back what one of its waits has taken and nothing was run for. What it owns it gives up with [`OlderSync::abandon`].
    fn give_back(&mut self) {
        if let Kind::Semaphore { count, max } = &mut self.kind {
            *count = (*max).min(count.saturating_add(1));
            self.serve();
        }
    }
}

impl OlderSync {
    /// A new object of an adapter, which others may open or not, and by kernel handles or not.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a semaphore that begins beyond its maximum, or has none.
    pub(crate) fn new(
        adapter: &Arc<RenderAdapter>,
        kind: Kind,
        (shared, nt_sharing): (bool, bool),
    ) -> Result<Arc<Self>, Failure> {
        if matches!(kind, Kind::Semaphore { count, max } if max == 0 || count > max) {
            let why = "MaxCount of a semaphore is 0, or InitialCount is greater";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let state = Mutex::new(State { kind, waiters: VecDeque::new() });
        let (adapter, upkeep) = (Arc::downgrade(adapter), shared.then(Upkeep::of_older_sync));
        Ok(Arc::new(Self { adapter, number, state, nt_sharing, upkeep }))
    }

    /// Descriptors, bytes and numbers that one takes that others may open; `None` for another one.
    pub(crate) fn upkeep(&self) -> Option<&Upkeep> {
        self.upkeep.as_ref()
    }

    /// Opens it for a process.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED if its adapter is gone; STATUS_INSUFFICIENT_RESOURCES if the process has as many that others may open as it may have.
    pub(crate) fn open(self: &Arc<Self>, process: &Account) -> Result<Arc<OpenOlderSync>, Failure> {
        if self.adapter.strong_count() == 0 {
            return Err(STATUS_DEVICE_REMOVED.into());
        }
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let _charge = self.upkeep().map(|upkeep| process.charge(upkeep)).transpose()?;
        Ok(Arc::new(OpenOlderSync { object: Arc::clone(self), number, closed: AtomicBool::new(false), _charge }))
    }

    fn lock(&self) -> MutexGuard<'_, State, rank::OlderSync> {
        self.state.lock_in_order(self.number)
    }

    /// A queue has ended: what it owns goes to the next one.
    pub(in crate::vidsch) fn abandon(&self, by: QueueNumber) {
        let mut state = self.lock();
        if let Kind::Mutex(owner, depth) = &mut state.kind
            && *owner == Some(Owner::Queue(by))
        {
            (*owner, *depth) = (None, 0);
            state.serve();
        }
    }
}

impl OpenOlderSync {
    /// True if it is of this adapter.
    pub(crate) fn is_of(&self, adapter: &Arc<RenderAdapter>) -> bool {
        std::ptr::eq(self.object.adapter.as_ptr(), Arc::as_ptr(adapter))
    }

    /// The object, to give it a kernel handle.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER unless it was created for that.
    pub(crate) fn shareable(&self) -> Result<Arc<OlderSync>, Failure> {
        let why = || refused(STATUS_INVALID_PARAMETER, "the object was created without NtSecuritySharing");
        if self.object.nt_sharing { Ok(Arc::clone(&self.object)) } else { Err(why()) }
    }

    /// Nothing if a queue may wait for it, with a value or without.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a notification, which the processor waits for, and for a fence without a value.
    pub(crate) fn check_wait(&self, has_value: bool) -> Result<(), Failure> {
        let notifies = matches!(self.object.lock().kind, Kind::Notification(_));
        let why = || {
            refused(STATUS_INVALID_PARAMETER, "an object is a notification, for which a processor waits by its event")
        };
        if notifies { Err(why()) } else { self.check_signal(has_value) }
    }

    /// Nothing if a queue may signal it, with a value or without.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a fence without a value.
    pub(crate) fn check_signal(&self, has_value: bool) -> Result<(), Failure> {
        let fits = has_value || !matches!(self.object.lock().kind, Kind::Fence(_));
        let why = || refused(STATUS_INVALID_PARAMETER, "an object is a fence, and the thunk has no value for it");
        if fits { Ok(()) } else { Err(why()) }
    }

    /// Ends the opening; its waiters go on.
    pub(crate) fn destroy(&self) {
        let mut state = self.object.lock();
        self.closed.store(true, Ordering::Relaxed);
        let mine = |waiter: &&Waiter| waiter.open == self.number;
        state.waiters.iter().filter(mine).for_each(|waiter| waiter.wait.finish(STATUS_CANCELLED));
        state.waiters.retain(|waiter| waiter.open != self.number);
    }
}

/// A queue waits for all of these: what it can have it takes, for the rest it stands behind those that came before. The answer is what
/// [`give_up`] needs.
pub(in crate::vidsch) fn begin(objects: &[OlderValue], wait: &Arc<Wait>, by: QueueNumber) -> Vec<Begun> {
    let mut distinct: Vec<&Arc<OlderSync>> = objects.iter().map(|(open, _)| &open.object).collect();
    distinct.sort_by_key(|object| object.number);
    distinct.dedup_by_key(|object| object.number);
    let mut locked: Vec<_> = distinct.into_iter().map(|object| (object.number, object.lock())).collect();
    let mut begun = Vec::with_capacity(objects.len());
    for (open, value) in objects {
        let Some((_, state)) = locked.iter_mut().find(|(number, _)| *number == open.object.number) else { continue };
        let taken = Arc::new(AtomicBool::new(false));
        if open.closed.load(Ordering::Relaxed) {
            wait.finish(STATUS_CANCELLED);
            break;
        }
        begun.push(Begun { open: Arc::clone(open), taken: Arc::clone(&taken) });
        if state.take(by, *value) {
            taken.store(true, Ordering::Relaxed);
            wait.satisfy();
        } else {
            let (wait, open) = (Arc::clone(wait), open.number);
            state.waiters.push_back(Waiter { wait, by, open, value: *value, taken });
        }
    }
    begun
}

/// Gives up a wait whose queue runs nothing more. The mutexes that it has taken are given up with the queue.
pub(in crate::vidsch) fn give_up(begun: &[Begun], wait: &Arc<Wait>) {
    for Begun { open, taken, .. } in begun {
        let mut state = open.object.lock();
        state.waiters.retain(|waiter| !Arc::ptr_eq(&waiter.wait, wait));
        if taken.swap(false, Ordering::Relaxed) {
            state.give_back();
        }
    }
}

/// A queue of a device signals all of these.
pub(in crate::vidsch) fn signal(objects: &[OlderValue], by: QueueNumber, device: u64) {
    objects.iter().for_each(|(open, value)| open.object.lock().signal(by, device, *value));
}

/// Mutexes that a queue may own.
#[derive(Default)]
pub(in crate::vidsch) struct Mutexes(Vec<Weak<OlderSync>>);

impl Mutexes {
    /// The queue waits for these.
    pub(in crate::vidsch) fn note(&mut self, objects: &[OlderValue]) {
        for (open, _) in objects {
            if matches!(open.object.lock().kind, Kind::Mutex(..)) {
                self.0.retain(|other| {
                    other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), Arc::as_ptr(&open.object))
                });
                self.0.push(Arc::downgrade(&open.object));
            }
        }
    }

    /// True if the queue owns one of them.
    pub(in crate::vidsch) fn are_owned(&self, by: QueueNumber) -> bool {
        let owned = |mutex: Arc<OlderSync>| matches!(mutex.lock().kind, Kind::Mutex(owner, _) if owner == Some(Owner::Queue(by)));
        self.0.iter().filter_map(Weak::upgrade).any(owned)
    }

    /// The queue has ended.
    pub(in crate::vidsch) fn abandon(&mut self, by: QueueNumber) {
        self.0.drain(..).filter_map(|mutex| mutex.upgrade()).for_each(|mutex| mutex.abandon(by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: Kind) -> Arc<OpenOlderSync> {
        let state = Mutex::new(State { kind, waiters: VecDeque::new() });
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let object = Arc::new(OlderSync { adapter: Weak::new(), number, state, nt_sharing: false, upkeep: None });
        Arc::new(OpenOlderSync { object, number: number + (1 << 32), closed: AtomicBool::new(false), _charge: None })
    }

    struct Waiting {
        wait: Arc<Wait>,
        begun: Vec<Begun>,
    }

    impl Waiting {
        fn new(objects: &[&Arc<OpenOlderSync>], by: QueueNumber) -> Self {
            let list: Vec<OlderValue> = objects.iter().map(|open| (Arc::clone(open), 0)).collect();
            let wait = Wait::of_hook(list.len() as u32, Box::new(|| ()));
            let begun = begin(&list, &wait, by);
            Self { wait, begun }
        }

        fn is_over(&self) -> bool {
            self.wait.outcome().is_some()
        }
    }

    fn signal_once(open: &Arc<OpenOlderSync>, by: QueueNumber) {
        signal(&[(Arc::clone(open), 0)], by, 1);
    }

    #[test]
    fn a_semaphore_serves_its_waits_in_order_and_counts_to_its_maximum() {
        let semaphore = object(Kind::Semaphore { count: 1, max: 2 });
        let queue = QueueNumber::new();
        let waits: Vec<_> = (0..3).map(|_| Waiting::new(&[&semaphore], queue)).collect();
        assert_eq!(waits.iter().map(Waiting::is_over).collect::<Vec<_>>(), [true, false, false]);
        signal_once(&semaphore, queue);
        assert_eq!(waits.iter().map(Waiting::is_over).collect::<Vec<_>>(), [true, true, false]);
        (0..4).for_each(|_| signal_once(&semaphore, queue));
        let later: Vec<_> = (0..3).map(|_| Waiting::new(&[&semaphore], queue).is_over()).collect();
        assert_eq!((waits[2].is_over(), later), (true, vec![true, true, false]), "two of four signals count");
    }

    #[test]
    fn a_wait_that_is_given_up_takes_nothing_from_the_next() {
        let semaphore = object(Kind::Semaphore { count: 1, max: 1 });
        let (first, second, third) = (QueueNumber::new(), QueueNumber::new(), QueueNumber::new());
        let taken = Waiting::new(&[&semaphore], first);
        let (waits, next) = (Waiting::new(&[&semaphore], second), Waiting::new(&[&semaphore], third));
        give_up(&waits.begun, &waits.wait);
        assert!(taken.is_over() && !next.is_over());
        give_up(&taken.begun, &taken.wait);
        assert!(next.is_over() && !waits.is_over(), "what was taken and not used goes to the next one");
    }

    #[test]
    fn a_mutex_is_signalled_by_its_owner_as_often_as_it_has_waited() {
        let mutex = object(Kind::Mutex(None, 0));
        let (owner, other) = (QueueNumber::new(), QueueNumber::new());
        assert!(Waiting::new(&[&mutex], owner).is_over() && Waiting::new(&[&mutex], owner).is_over());
        let next = Waiting::new(&[&mutex], other);
        signal_once(&mutex, other);
        signal_once(&mutex, owner);
        assert!(!next.is_over());
        signal_once(&mutex, owner);
        assert!(next.is_over() && !Waiting::new(&[&mutex], owner).is_over());
    }

    #[test]
    fn a_mutex_of_a_device_is_free_when_a_queue_of_it_signals() {
        let mutex = object(Kind::Mutex(Some(Owner::Device(1)), 1));
        let queue = QueueNumber::new();
        let wait = Waiting::new(&[&mutex], queue);
        signal(&[(Arc::clone(&mutex), 0)], queue, 2);
        assert!(!wait.is_over(), "a signal of another device");
        signal(&[(Arc::clone(&mutex), 0)], queue, 1);
        assert!(wait.is_over());
    }

    #[test]
    fn what_a_queue_owned_goes_to_the_next_when_it_ends() {
        let mutex = object(Kind::Mutex(None, 0));
        let (owner, other) = (QueueNumber::new(), QueueNumber::new());
        let mut mutexes = Mutexes::default();
        mutexes.note(&[(Arc::clone(&mutex), 0)]);
        let (taken, next) = (Waiting::new(&[&mutex], owner), Waiting::new(&[&mutex], other));
        mutexes.abandon(owner);
        assert!(taken.is_over() && next.is_over());
    }

    #[test]
    fn two_waits_for_the_same_objects_in_another_order_do_not_wait_for_each_other() {
        let (a, b) = (object(Kind::Mutex(None, 0)), object(Kind::Mutex(None, 0)));
        let (first, second) = (QueueNumber::new(), QueueNumber::new());
        let (one, two) = (Waiting::new(&[&a, &b], first), Waiting::new(&[&b, &a], second));
        assert!(one.is_over() && !two.is_over());
        signal_once(&a, first);
        assert!(!two.is_over());
        signal_once(&b, first);
        assert!(two.is_over());
    }

    #[test]
    fn an_opening_that_is_closed_lets_its_waits_go_and_no_others() {
        let semaphore = object(Kind::Semaphore { count: 0, max: 1 });
        let other = Arc::new(OpenOlderSync {
            object: Arc::clone(&semaphore.object),
            number: u64::MAX,
            closed: AtomicBool::new(false),
            _charge: None,
        });
        let queue = QueueNumber::new();
        let (gone, stays) = (Waiting::new(&[&semaphore], queue), Waiting::new(&[&other], queue));
        semaphore.destroy();
        assert_eq!(gone.wait.outcome(), Some(STATUS_CANCELLED));
        assert!(!stays.is_over());
        assert_eq!(Waiting::new(&[&semaphore], queue).wait.outcome(), Some(STATUS_CANCELLED), "one that comes later");
        signal_once(&other, queue);
        assert!(stays.is_over());
    }
}
