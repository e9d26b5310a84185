//! The two sides of a fence: whatever the order of their four accesses, a value that is waited for is announced or seen.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;

use campanile_hw::fence::{
    Barrier, FenceWord, SIGNALED_FOR_GOOD, Signaled, SignaledWord, UNMONITORED, monitor, signal, wait,
};

struct Word<'a> {
    name: &'static str,
    value: &'a Cell<u64>,
    log: &'a RefCell<Vec<String>>,
}

impl FenceWord for Word<'_> {
    fn load(&self) -> u64 {
        self.log.borrow_mut().push(format!("load {}", self.name));
        self.value.get()
    }

    fn store(&self, value: u64) {
        self.log.borrow_mut().push(format!("store {} {value}", self.name));
        self.value.set(value);
    }
}

impl SignaledWord for Word<'_> {
    fn signal(&self, value: u64) -> u64 {
        self.log.borrow_mut().push(format!("signal {} {value}", self.name));
        if self.value.get() != SIGNALED_FOR_GOOD {
            self.value.set(value);
        }
        self.value.get()
    }
}

struct Fence<'a>(&'a RefCell<Vec<String>>);

impl Barrier for Fence<'_> {
    fn full(&self) {
        self.0.borrow_mut().push("barrier".into());
    }
}

#[test]
fn each_side_writes_its_word_then_reads_the_other_with_a_barrier_between() {
    let (current, monitored, log) = (Cell::new(0), Cell::new(4), RefCell::new(Vec::new()));
    let words = |name, value| Word { name, value, log: &log };
    let told = signal(&words("current", &current), &words("monitored", &monitored), &Fence(&log), 5);
    assert_eq!(told, Signaled { current: 5, announce: true });
    let seen = monitor(&words("current", &current), &words("monitored", &monitored), &Fence(&log), 6);
    assert_eq!(seen, 5);
    assert_eq!(
        *log.borrow(),
        ["signal current 5", "barrier", "load monitored", "store monitored 6", "barrier", "load current"]
    );
}

#[test]
fn only_a_value_above_the_monitored_one_is_announced() {
    let log = RefCell::new(Vec::new());
    for (value, monitored, told) in [
        (5, 4, true),
        (4, 4, false),
        (3, 4, false),
        (1, 0, true),
        (0, 0, false),
        (u64::MAX - 1, UNMONITORED, false),
        (u64::MAX, UNMONITORED, false),
        (u64::MAX, u64::MAX - 1, true),
    ] {
        let (current, monitored) = (Cell::new(0), Cell::new(monitored));
        let word = |value| Word { name: "", value, log: &log };
        let expected = Signaled { current: value, announce: told };
        assert_eq!(signal(&word(&current), &word(&monitored), &Fence(&log), value), expected, "{value}");
        assert_eq!(current.get(), value);
    }
}

#[test]
fn a_smaller_value_is_written_and_announced_like_any_unless_the_fence_is_signalled_for_good() {
    let log = RefCell::new(Vec::new());
    for (found, value, current, announce) in [
        (7, 6, 6, true),
        (7, 5, 5, false),
        (7, 0, 0, false),
        (u64::MAX - 1, 6, 6, true),
        (7, 7, 7, true),
        (u64::MAX, 6, u64::MAX, true),
        (u64::MAX, 0, u64::MAX, true),
    ] {
        log.borrow_mut().clear();
        let (word, monitored) = (Cell::new(found), Cell::new(5));
        let named = |value| Word { name: "", value, log: &log };
        let outcome = signal(&named(&word), &named(&monitored), &Fence(&log), value);
        assert_eq!(outcome, Signaled { current, announce }, "{value} after {found}");
        assert_eq!((word.get(), log.borrow().len()), (current, 3), "{value} after {found}");
    }
}

/// Lets two threads take their accesses in a given order.
struct Order {
    turns: Vec<bool>,
    taken: Mutex<usize>,
    moved: Condvar,
}

impl Order {
    fn access<T>(&self, signaller: bool, access: impl FnOnce() -> T) -> T {
        let mut taken = self.taken.lock().expect("no thread panics");
        while self.turns[*taken] != signaller {
            taken = self.moved.wait(taken).expect("no thread panics");
        }
        let value = access();
        *taken += 1;
        self.moved.notify_all();
        value
    }
}

struct Shared<'a> {
    value: &'a AtomicU64,
    order: &'a Order,
    signaller: bool,
}

impl FenceWord for Shared<'_> {
    fn load(&self) -> u64 {
        self.order.access(self.signaller, || self.value.load(Ordering::SeqCst))
    }

    fn store(&self, value: u64) {
        self.order.access(self.signaller, || self.value.store(value, Ordering::SeqCst));
    }
}

impl SignaledWord for Shared<'_> {
    fn signal(&self, value: u64) -> u64 {
        self.order.access(self.signaller, || self.value.store(value, Ordering::SeqCst));
        value
    }
}

struct Full;

impl Barrier for Full {
    fn full(&self) {}
}

/// With the barrier a side's store is visible before its load, so the four accesses happen in one of six orders.
#[test]
fn in_every_order_the_waiter_sees_the_value_or_is_told() {
    let mut tried = 0;
    for mask in (0u32..16).filter(|mask| mask.count_ones() == 2) {
        let turns = (0..4).map(|turn| mask >> turn & 1 == 1).chain([true]).collect();
        let order = Order { turns, taken: Mutex::new(0), moved: Condvar::new() };
        let (current, monitored) = (AtomicU64::new(6), AtomicU64::new(UNMONITORED));
        let side = |signaller| {
            let word = |value| Shared { value, order: &order, signaller };
            (word(&current), word(&monitored))
        };
        let (told, seen) = thread::scope(|scope| {
            let told = scope.spawn(|| {
                let (current, monitored) = side(true);
                signal(&current, &monitored, &Full, 7)
            });
            let seen = scope.spawn(|| {
                let (current, monitored) = side(false);
                monitor(&current, &monitored, &Full, 6)
            });
            (told.join().expect("no thread panics"), seen.join().expect("no thread panics"))
        });
        assert!(told.announce || seen >= 7, "order {mask:04b}: the signal is lost");
        tried += 1;
    }
    assert_eq!(tried, 6);
}

#[test]
fn a_queue_that_waits_looks_again_when_it_is_on_the_list_and_leaves_it_if_the_value_has_come() {
    const VALUE: u64 = 5;
    for (before, meanwhile, reached, steps) in [
        (5, 5, true, "look"),
        (u64::MAX, 0, true, "look"),
        (4, 4, false, "look enter look"),
        (0, 0, false, "look enter look"),
        (4, 5, true, "look enter look leave"),
        (4, 6, true, "look enter look leave"),
    ] {
        let (current, log) = (Cell::new(before), RefCell::new(Vec::new()));
        let word = Word { name: "", value: &current, log: &log };
        let mut places = 0;
        let enter = || {
            log.borrow_mut().push("enter".into());
            current.set(meanwhile);
            "place"
        };
        let leave = |place| {
            log.borrow_mut().push("leave".into());
            places += usize::from(place == "place");
        };
        assert_eq!(wait(&word, VALUE, enter, leave), reached, "{before}, then {meanwhile}");
        let log = log.borrow().join(" ").replace("load ", "look");
        assert_eq!((log.as_str(), places), (steps, steps.matches("leave").count()), "{before}, then {meanwhile}");
    }
}
