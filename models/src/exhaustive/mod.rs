//! Every interleaving of small programs, with weak memory, by loom.

/// Loom's primitives, under the names that the included files use for those of the standard library.
///
/// loom takes a sequentially consistent access for one that acquires and releases, while its fences are exact. Where a processor's
/// exchange is a full barrier, the models put a fence beside it.
mod sync {
    pub(super) use super::memory::{Access, HostMapping, lock};
    /// Words of a ring: their order against the write pointer is part of the protocol.
    pub(super) use loom::sync::atomic::AtomicU64 as EntryWord;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
    pub(super) use loom::sync::{Mutex, MutexGuard};
    pub(super) use loom::thread;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    /// A barrier, unless it is the one that is left out.
    pub(crate) fn fence(order: Ordering) {
        if !(order == Ordering::SeqCst && crate::left_out(crate::Fault::EnterBarrier)) {
            loom::sync::atomic::fence(order);
        }
    }

    /// A user range that shows a doorbell or the dummy page. Processors that invalidate each other's translations without an
    /// interrupt may still have stores to the old page under way, so the mapping orders nothing.
    pub(super) struct Page {
        shown: AtomicBool,
        word: Arc<AtomicU64>,
    }

    impl Page {
        pub(super) fn new(word: Arc<AtomicU64>) -> Self {
            Self { shown: AtomicBool::new(false), word }
        }

        pub(super) fn store(&self, value: u64) {
            if self.shown.load(Ordering::Relaxed) {
                self.word.store(value, Ordering::Release);
            }
        }

        /// A system call: for the thread that makes it, a full barrier.
        pub(super) fn show(&self, shown: bool) {
            self.shown.store(shown, Ordering::Relaxed);
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }
}

include!("../parts/mod.rs");

use crate::{FAULT, Fault, Part};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Tries every execution of `part` without `fault`, and says how many there are.
///
/// # Panics
/// If something is lost in one of them.
pub fn check(part: Part, fault: Fault) -> u64 {
    FAULT.set(fault);
    let executions = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counter = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    // Every execution, whatever the environment says.
    (builder.preemption_bound, builder.max_permutations, builder.max_duration) = (None, None, None);
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        match part {
            Part::Race => race(),
            Part::ForGood => for_good(),
            Part::WaitList => wait_list(),
            Part::Doorbell => doorbell(false),
            Part::DoorbellElsewhere => doorbell(true),
            Part::GlobalDoorbell => global_doorbell(),
            Part::Log => log(false),
            Part::DelayedLog => log(true),
        }
    });
    executions.load(Ordering::Relaxed)
}

/// One engine signals 1; another waits for that and signals 2, if it finds it; a CPU waits for either.
fn race() {
    let race = Arc::new(race::Race::new());
    let first = {
        let race = Arc::clone(&race);
        sync::thread::spawn(move || race.signal(1))
    };
    let second = {
        let race = Arc::clone(&race);
        sync::thread::spawn(move || {
            if race.current() >= 1 {
                race.signal(2);
            }
        })
    };
    let value = 1;
    let wait = race.wait(value);
    first.join().expect("the engine ends");
    second.join().expect("the engine ends");
    race.check(&[(value, wait)]);
}

/// An engine signals 1 while the processor signals for good.
fn for_good() {
    let race = Arc::new(race::Race::new());
    let engine = {
        let race = Arc::clone(&race);
        sync::thread::spawn(move || race.signal(1))
    };
    race.signal_for_good();
    engine.join().expect("the engine ends");
    assert_eq!(race.current(), u64::MAX, "the value went back");
}

/// A queue waits for 1 while an engine signals it.
fn wait_list() {
    let fence = Arc::new(wait_list::Fence::new(1));
    let engine = {
        let fence = Arc::clone(&fence);
        sync::thread::spawn(move || fence.signal(1))
    };
    let mut node = wait_list::Node::new(&[1]);
    node.begin(&fence);
    node.drain(&fence);
    engine.join().expect("the engine ends");
    node.check(&fence);
}

/// User mode submits twice while the operating system takes the doorbell away.
fn doorbell(elsewhere: bool) {
    let machine = Arc::new(doorbell::Machine::new(1, false));
    machine.connect(0);
    if elsewhere {
        machine.move_user_mode();
    }
    let user = {
        let machine = Arc::clone(&machine);
        sync::thread::spawn(move || machine.submit(0, 1))
    };
    machine.disconnect(0);
    // The last look comes at once, which is when it could be too early.
    machine.step();
    user.join().expect("user mode ends");
    machine.check(&[1]);
}

/// Two queues with one doorbell for both submit once each, so that a store may hide the other; the device finds rest in between.
fn global_doorbell() {
    let machine = Arc::new(doorbell::Machine::new(2, true));
    machine.connect(0);
    machine.connect(1);
    let user = {
        let machine = Arc::clone(&machine);
        sync::thread::spawn(move || machine.submit(0, 1))
    };
    machine.submit(1, 1);
    // Joining the other thread would order everything; the device looks for what the second store may hide before that.
    machine.rest();
    user.join().expect("user mode ends");
    machine.check(&[1, 1]);
}

/// An engine signals three times into a log of two entries and interrupts each time, while the operating system looks whether it was
/// interrupted and reads.
fn log(delayed: bool) {
    let log = Arc::new(log::Log::new(2, delayed));
    let engine = {
        let log = Arc::clone(&log);
        sync::thread::spawn(move || log.signal(&mut log::Engine::default(), 3))
    };
    let mut system = log::System::new(&log);
    system.look();
    system.look();
    engine.join().expect("the engine ends");
    system.check(3);
}
