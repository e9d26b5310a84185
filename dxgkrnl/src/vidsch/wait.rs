//! CPU waits: one [`Wait`] for each call, a [`WaitList`] for each fence.
//!
//! A waiter is woken once, by whoever sees its last condition come true, straight from there to the thread or event;
//! nobody polls.

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_HANDLE, STATUS_OBJECT_TYPE_MISMATCH, STATUS_SUCCESS, STATUS_TIMEOUT};

/// MonitoredValue of a fence that no CPU waits for. [native-gpu-fence-objects: MonitoredValue]
pub(crate) const UNMONITORED: u64 = u64::MAX;

/// How often a blocked thread looks whether the machine has stopped; nothing else depends on it.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// Outcome that no NTSTATUS has: the wait is not over.
const PENDING: i64 = i64::MIN;

/// Whom to tell when a wait is over.
enum Wake {
    Thread(Thread),
    Event(OwnedFd, Option<Hook>),
}

/// Runs once when the wait of an event is over; must not take the locks of fences.
type Hook = Box<dyn Fn() + Send + Sync>;

/// One wait for one or more fence values.
pub(crate) struct Wait {
    /// Conditions that must still come true.
    remaining: AtomicU32,
    /// [`PENDING`], then the status for good.
    outcome: AtomicI64,
    wake: Wake,
}

impl Wait {
    /// A wait of the calling thread that is over when `conditions` have come true.
    pub(crate) fn of_thread(conditions: u32) -> Arc<Self> {
        Self::new(conditions, Wake::Thread(std::thread::current()))
    }

    /// A wait that adds 1 to an event (an eventfd of the caller) when `conditions` have come true, then calls `over`.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if the number is no open descriptor, STATUS_OBJECT_TYPE_MISMATCH if it is something other
    /// than an event.
    pub(crate) fn of_event(conditions: u32, event: RawFd, over: Option<Hook>) -> Result<Arc<Self>, NTSTATUS> {
        if event < 0 {
            return Err(STATUS_INVALID_HANDLE);
        }
        // SAFETY: duplicating a descriptor touches no memory; a number that is not open is answered with an error.
        let copy = unsafe { libc::fcntl(event, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            return Err(STATUS_INVALID_HANDLE);
        }
        // SAFETY: the descriptor was just created and is owned by nobody else.
        let event = unsafe { OwnedFd::from_raw_fd(copy) };
        let kind = fs::read_link(format!("/proc/self/fd/{copy}")).map_err(|_| STATUS_INVALID_HANDLE)?;
        if !kind.to_string_lossy().contains("[eventfd]") {
            return Err(STATUS_OBJECT_TYPE_MISMATCH);
        }
        Ok(Self::new(conditions, Wake::Event(event, over)))
    }

    fn new(conditions: u32, wake: Wake) -> Arc<Self> {
        Arc::new(Self { remaining: AtomicU32::new(conditions), outcome: AtomicI64::new(PENDING), wake })
    }

    /// One condition came true; the last one ends the wait.
    pub(crate) fn satisfy(&self) {
        let before = self.remaining.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        if before == Ok(1) {
            self.finish(STATUS_SUCCESS);
        }
    }

    /// Ends the wait with `status`, unless it is over already.
    pub(crate) fn finish(&self, status: NTSTATUS) {
        let over = i64::from(status.0);
        if self.outcome.compare_exchange(PENDING, over, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        match &self.wake {
            Wake::Thread(thread) => thread.unpark(),
            Wake::Event(event, over) => {
                add_one(event);
                if let Some(over) = over {
                    over();
                }
            }
        }
    }

    /// The status, once the wait is over.
    pub(crate) fn outcome(&self) -> Option<NTSTATUS> {
        match self.outcome.load(Ordering::Acquire) {
            PENDING => None,
            status => Some(NTSTATUS(status as i32)),
        }
    }

    /// Blocks the thread of [`Wait::of_thread`] until the wait is over; STATUS_TIMEOUT when `deadline` has passed.
    /// `pause` puts the thread to sleep for no longer than it is told and not beyond an unpark; it names a status once
    /// nobody will end the wait.
    pub(crate) fn block(&self, deadline: Option<Instant>, pause: impl Fn(Duration) -> Option<NTSTATUS>) -> NTSTATUS {
        loop {
            if let Some(status) = self.outcome() {
                return status;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                self.finish(STATUS_TIMEOUT);
            } else if let Some(status) = pause(left.unwrap_or(STOP_CHECK).min(STOP_CHECK)) {
                self.finish(status);
            }
        }
    }
}

/// Adds 1 to an event without ever blocking: an event that is full is signalled already.
fn add_one(event: &OwnedFd) {
    let mut poll = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one valid pollfd, and a timeout of zero.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
    if ready == 1 {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer holds the eight bytes that are written.
        let _ = unsafe { libc::write(event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

/// The waits on one fence.
#[derive(Default)]
pub(crate) struct WaitList {
    /// Largest value first, so that those satisfied first are taken from the end.
    waits: Vec<(u64, Arc<Wait>)>,
}

impl WaitList {
    /// Adds a wait for `value`.
    pub(crate) fn add(&mut self, value: u64, wait: Arc<Wait>) {
        let place = self.waits.partition_point(|(other, _)| *other > value);
        self.waits.insert(place, (value, wait));
    }

    /// Removes every condition of `wait`.
    pub(crate) fn remove(&mut self, wait: &Arc<Wait>) {
        self.waits.retain(|(_, other)| !Arc::ptr_eq(other, wait));
    }

    /// Takes the waits for `current` or less.
    pub(crate) fn take_satisfied(&mut self, current: u64) -> impl Iterator<Item = Arc<Wait>> {
        let first = self.waits.partition_point(|(value, _)| *value > current);
        self.waits.drain(first..).rev().map(|(_, wait)| wait)
    }

    /// Removes the waits that are over for another reason than this fence.
    pub(crate) fn remove_over(&mut self) {
        self.waits.retain(|(_, wait)| wait.outcome().is_none());
    }

    /// Takes all waits.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<Wait>> {
        std::mem::take(&mut self.waits).into_iter().map(|(_, wait)| wait).collect()
    }

    /// Least waited value - 1, or [`UNMONITORED`]. [native-gpu-fence-objects: MonitoredValue]
    pub(crate) fn monitored_value(&self) -> u64 {
        // A wait for 0 is always satisfied and never on the list.
        self.waits.last().map_or(UNMONITORED, |(value, _)| value.saturating_sub(1))
    }

    /// Number of conditions on the list.
    pub(crate) fn len(&self) -> usize {
        self.waits.len()
    }
}

/// The two values of a fence as the waiting side uses them.
pub(crate) trait Values {
    /// Reads CurrentValue.
    fn current(&self) -> u64;

    /// Writes MonitoredValue. When the call returns, whoever writes a CurrentValue that is read from now on has seen
    /// it.
    fn write_monitored(&self, value: u64);
}

/// The waits on a fence, and the MonitoredValue that goes with them.
pub(crate) struct Watch {
    pub(crate) list: WaitList,
    /// Satisfied, about to be woken; empty between calls, kept for its memory.
    satisfied: Vec<Arc<Wait>>,
    /// What MonitoredValue holds.
    monitored: u64,
}

impl Watch {
    /// Nobody waits.
    pub(crate) fn new() -> Self {
        Self { list: WaitList::default(), satisfied: Vec::new(), monitored: UNMONITORED }
    }

    /// What MonitoredValue holds.
    pub(crate) fn monitored(&self) -> u64 {
        self.monitored
    }

    /// Makes MonitoredValue match those who are not satisfied, and wakes the others: a signal after the last write of
    /// MonitoredValue interrupts, and one before it is seen by the read that follows. Who is woken may signal or wait
    /// at once and finds the new MonitoredValue in place.
    pub(crate) fn settle(&mut self, values: &impl Values) {
        loop {
            self.satisfied.extend(self.list.take_satisfied(values.current()));
            let monitored = self.list.monitored_value();
            if monitored == self.monitored {
                break;
            }
            self.monitored = monitored;
            values.write_monitored(monitored);
        }
        for wait in self.satisfied.drain(..) {
            wait.satisfy();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU64;

    /// A fence whose signals come from another thread, which interrupts as the protocol asks.
    #[derive(Default)]
    struct Model {
        current: AtomicU64,
        monitored: AtomicU64,
        updates: AtomicU64,
        interrupts: AtomicU64,
    }

    impl Values for Model {
        fn current(&self) -> u64 {
            self.current.load(Ordering::SeqCst)
        }

        fn write_monitored(&self, value: u64) {
            self.updates.fetch_add(1, Ordering::Relaxed);
            self.monitored.store(value, Ordering::SeqCst);
        }
    }

    impl Model {
        fn signal(&self, value: u64, watch: &Mutex<Watch>) {
            self.current.store(value, Ordering::SeqCst);
            if value > self.monitored.load(Ordering::SeqCst) {
                self.interrupts.fetch_add(1, Ordering::Relaxed);
                watch.lock().unwrap().settle(self);
            }
        }
    }

    #[test]
    fn no_wait_is_missed_while_signals_race_with_waiters() {
        const LAST: u64 = 20_000;
        let model = Model { monitored: AtomicU64::new(UNMONITORED), ..Model::default() };
        let (watch, wanted) = (Mutex::new(Watch::new()), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                for value in 1..=LAST {
                    let wait = Wait::of_thread(1);
                    wanted.store(value, Ordering::Release);
                    {
                        let mut watch = watch.lock().unwrap();
                        watch.list.add(value, Arc::clone(&wait));
                        watch.settle(&model);
                    }
                    let hang = Instant::now() + Duration::from_secs(20);
                    let status = wait.block(Some(hang), |nap| {
                        std::thread::park_timeout(nap);
                        None
                    });
                    assert_eq!(status, STATUS_SUCCESS, "the wait for {value} was missed");
                    assert!(model.current() >= value);
                }
            });
            // One signal for each wait, in the moment in which it begins.
            for value in 1..=LAST {
                while wanted.load(Ordering::Acquire) < value && !waiter.is_finished() {
                    std::hint::spin_loop();
                }
                model.signal(value, &watch);
            }
        });
        let watch = watch.into_inner().unwrap();
        assert_eq!((watch.list.len(), watch.monitored()), (0, UNMONITORED));
        assert_eq!(model.monitored.into_inner(), UNMONITORED);
    }

    #[test]
    fn a_fence_nobody_waits_for_raises_nothing_and_is_told_nothing() {
        let model = Model { monitored: AtomicU64::new(UNMONITORED), ..Model::default() };
        let watch = Mutex::new(Watch::new());
        (1..=1000).for_each(|value| model.signal(value, &watch));
        model.signal(UNMONITORED, &watch);
        assert_eq!((model.interrupts.into_inner(), model.updates.into_inner()), (0, 0));
    }

    #[test]
    fn a_value_that_is_passed_between_list_and_monitored_value_is_seen_by_the_second_look() {
        /// Signals in the very moment in which MonitoredValue is written, without an interrupt.
        struct Late(AtomicU64, AtomicU64);
        impl Values for Late {
            fn current(&self) -> u64 {
                self.0.load(Ordering::SeqCst)
            }
            fn write_monitored(&self, value: u64) {
                self.1.store(value, Ordering::SeqCst);
                self.0.store(5, Ordering::SeqCst);
            }
        }
        let (late, mut watch) = (Late(AtomicU64::new(0), AtomicU64::new(UNMONITORED)), Watch::new());
        let (passed, beyond) = (Wait::of_thread(1), Wait::of_thread(1));
        watch.list.add(5, Arc::clone(&passed));
        watch.list.add(9, Arc::clone(&beyond));
        watch.settle(&late);
        assert_eq!((passed.outcome(), beyond.outcome()), (Some(STATUS_SUCCESS), None));
        assert_eq!((watch.monitored(), late.1.into_inner()), (8, 8));
    }

    /// A small generator, so that failures repeat.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }

    #[test]
    fn monitored_value_is_least_waited_less_one_or_all_ones_for_any_set_of_waiters() {
        let mut random = Random(0x1234_5678_9abc_def1);
        for _ in 0..200 {
            let mut list = WaitList::default();
            let mut model: Vec<(u64, Arc<Wait>)> = Vec::new();
            for _ in 0..random.below(40) {
                if model.is_empty() || random.below(3) > 0 {
                    let (value, wait) = (1 + random.below(30), Wait::of_thread(1));
                    list.add(value, Arc::clone(&wait));
                    model.push((value, wait));
                } else {
                    let (_, wait) = model.remove(random.below(model.len() as u64) as usize);
                    list.remove(&wait);
                }
                let expected = model.iter().map(|(value, _)| value - 1).min().unwrap_or(u64::MAX);
                assert_eq!(list.monitored_value(), expected);
            }
        }
    }

    #[test]
    fn a_new_value_takes_exactly_the_satisfied_waits_lowest_first() {
        let mut random = Random(7);
        for _ in 0..200 {
            let mut list = WaitList::default();
            let mut model: Vec<u64> = (0..random.below(50)).map(|_| 1 + random.below(100)).collect();
            for &value in &model {
                list.add(value, Wait::of_thread(value as u32));
            }
            model.sort_unstable();
            let current = random.below(120);
            let (expected, left): (Vec<u64>, Vec<u64>) = model.into_iter().partition(|value| *value <= current);
            let taken: Vec<u64> =
                list.take_satisfied(current).map(|wait| u64::from(wait.remaining.load(Ordering::Relaxed))).collect();
            assert_eq!(taken, expected);
            assert_eq!(list.len(), left.len());
        }
    }

    #[test]
    fn a_wait_for_the_largest_value_is_monitored_just_below_it() {
        let mut list = WaitList::default();
        list.add(u64::MAX, Wait::of_thread(1));
        assert_eq!(list.monitored_value(), u64::MAX - 1);
        assert_eq!(list.take_satisfied(u64::MAX - 1).count(), 0);
        assert_eq!(list.take_satisfied(u64::MAX).count(), 1);
    }

    #[test]
    fn a_wait_for_all_ends_with_the_last_condition_and_a_wait_for_any_with_the_first() {
        let all = Wait::of_thread(3);
        all.satisfy();
        all.satisfy();
        assert_eq!(all.outcome(), None);
        all.satisfy();
        assert_eq!(all.outcome(), Some(STATUS_SUCCESS));
        let any = Wait::of_thread(1);
        any.satisfy();
        any.satisfy();
        any.finish(STATUS_INVALID_HANDLE);
        assert_eq!(any.outcome(), Some(STATUS_SUCCESS));
    }

    #[test]
    fn a_blocked_thread_is_woken_by_the_thread_that_satisfies_it() {
        let (send, receive) = std::sync::mpsc::channel();
        let blocked = std::thread::spawn(move || {
            let wait = Wait::of_thread(1);
            send.send(Arc::clone(&wait)).unwrap();
            wait.block(None, |nap| {
                std::thread::park_timeout(nap);
                None
            })
        });
        receive.recv().unwrap().satisfy();
        assert_eq!(blocked.join().unwrap(), STATUS_SUCCESS);
    }

    #[test]
    fn a_blocked_thread_gives_up_when_the_machine_has_stopped_or_its_time_is_over() {
        let stopped = Wait::of_thread(1);
        assert_eq!(stopped.block(None, |_| Some(STATUS_INVALID_HANDLE)), STATUS_INVALID_HANDLE);
        let late = Wait::of_thread(1);
        assert_eq!(late.block(Some(Instant::now()), |_| None), STATUS_TIMEOUT);
    }

    fn event(initial: u32) -> OwnedFd {
        // SAFETY: creating an eventfd touches no memory.
        let fd = unsafe { libc::eventfd(initial, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        assert!(fd >= 0);
        // SAFETY: the descriptor was just created and is owned by nobody else.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    fn read(event: &OwnedFd) -> Option<u64> {
        let mut value = [0u8; 8];
        // SAFETY: the buffer has room for the eight bytes that are read.
        let read = unsafe { libc::read(event.as_raw_fd(), value.as_mut_ptr().cast(), 8) };
        (read == 8).then(|| u64::from_ne_bytes(value))
    }

    #[test]
    fn an_event_is_signalled_once_even_after_the_caller_closed_its_own() {
        let event = event(0);
        let wait = Wait::of_event(2, event.as_raw_fd(), None).unwrap();
        let kept = event.as_fd().try_clone_to_owned().unwrap();
        drop(event);
        wait.satisfy();
        assert_eq!(read(&kept), None);
        wait.satisfy();
        wait.satisfy();
        assert_eq!(read(&kept), Some(1));
    }

    #[test]
    fn a_full_event_never_blocks_the_one_who_signals() {
        // A blocking eventfd one below its limit of 2^64 - 1.
        // SAFETY: creating an eventfd touches no memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        // SAFETY: the descriptor was just created and is owned by nobody else.
        let full = unsafe { OwnedFd::from_raw_fd(fd) };
        let value = (u64::MAX - 1).to_ne_bytes();
        // SAFETY: the buffer holds the eight bytes that are written.
        assert_eq!(unsafe { libc::write(fd, value.as_ptr().cast(), 8) }, 8);
        Wait::of_event(1, full.as_raw_fd(), None).unwrap().satisfy();
        assert_eq!(read(&full), Some(u64::MAX - 1));
    }

    #[test]
    fn a_number_that_is_no_event_is_refused_by_name() {
        assert_eq!(Wait::of_event(1, -1, None).err(), Some(STATUS_INVALID_HANDLE));
        assert_eq!(Wait::of_event(1, 1 << 29, None).err(), Some(STATUS_INVALID_HANDLE));
        let file = fs::File::open("/proc/self/status").unwrap();
        assert_eq!(Wait::of_event(1, file.as_raw_fd(), None).err(), Some(STATUS_OBJECT_TYPE_MISMATCH));
    }
}
