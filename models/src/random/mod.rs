//! Random schedules of larger programs, by shuttle: sequential consistency, many threads.

/// Shuttle's primitives, under the names that the included files use for those of the standard library.
mod sync {
    pub(super) use super::memory::{Access, HostMapping, lock};
    pub(crate) use shuttle::sync::atomic::fence;
    pub(super) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
    pub(super) use shuttle::sync::{Mutex, MutexGuard};
    pub(super) use shuttle::{sync::mpsc, thread};
    use std::sync::Arc;
    /// Words of a ring: their order against the write pointer is the exhaustive models' concern.
    pub(super) use std::sync::atomic::AtomicU64 as EntryWord;
    use std::sync::atomic::Ordering;

    /// A user range that shows a doorbell or the dummy page. A store goes where the page is at that moment.
    pub(super) struct Page {
        shown: Mutex<bool>,
        word: Arc<AtomicU64>,
    }

    impl Page {
        pub(super) fn new(word: Arc<AtomicU64>) -> Self {
            Self { shown: Mutex::new(false), word }
        }

        pub(super) fn store(&self, value: u64) {
            let shown = lock(&self.shown);
            if *shown {
                self.word.store(value, Ordering::Release);
            }
        }

        pub(super) fn show(&self, shown: bool) {
            *lock(&self.shown) = shown;
        }
    }
}

include!("../parts/mod.rs");

use crate::{FAULT, Fault, Part};
use campanile_hw::fence::SignaledWord;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::sync::Arc;
use std::thread as host;

/// Scheduling points of one execution; a model that needs more has hung.
const STEPS_MAX: usize = 20_000;
/// Priority changes of an execution of the second kind.
const DEPTH: usize = 4;

/// Runs `part` without `fault` under `schedules` schedules and returns how many there were: one half uniformly random, one half with
/// random priorities that change a few times.
///
/// # Panics
/// If something is lost in one of them.
pub fn check(part: Part, fault: Fault, schedules: usize) -> usize {
    let half = schedules / 2;
    let first = host::spawn(move || run(RandomScheduler::new_from_seed(0x0ca3_9a41, schedules - half), part, fault));
    let second = host::spawn(move || run(PctScheduler::new_from_seed(0x0ca3_9a42, DEPTH, half), part, fault));
    let mut sum = 0;
    for half in [first.join(), second.join()] {
        match half {
            Ok(count) => sum += count,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    sum
}

fn run(scheduler: impl Scheduler + 'static, part: Part, fault: Fault) -> usize {
    FAULT.set(fault);
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    // The schedule of a control that fails as it should is of no interest.
    config.failure_persistence =
        if fault == Fault::None { FailurePersistence::Print } else { FailurePersistence::None };
    Runner::new(scheduler, config).run(move || match part {
        Part::Race => race(),
        Part::ForGood => for_good(),
        Part::WaitList => wait_list(),
        Part::Doorbell => doorbell(false),
        Part::DoorbellElsewhere => doorbell(true),
        Part::GlobalDoorbell => global_doorbell(),
        Part::Log => log(false),
        Part::DelayedLog => log(true),
    })
}

fn start(act: impl FnOnce() + Send + 'static) -> sync::thread::JoinHandle<()> {
    sync::thread::spawn(act)
}

fn end(threads: Vec<sync::thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("the thread ends");
    }
}

/// CurrentValue of the race; a signal lets the engine go on that waits for this value on the GPU.
struct Chained<'a> {
    race: &'a race::Race,
    next: Option<&'a sync::mpsc::Sender<()>>,
}

impl SignaledWord for Chained<'_> {
    fn signal(&self, value: u64) -> u64 {
        let current = self.race.write(value);
        if let Some(next) = self.next {
            // Whoever waits may be done.
            let _ = next.send(());
        }
        current
    }
}

/// Three engines signal one value each, in order, while three CPUs come and go: one waits for a value and stays, one gives up, one
/// waits for one value after the other.
fn race() {
    let race = Arc::new(race::Race::new());
    let mut threads = Vec::new();
    let mut next = None;
    for value in (1..=3).rev() {
        let (sender, turn) = sync::mpsc::channel();
        let after = next.replace(sender);
        let race = Arc::clone(&race);
        threads.push(start(move || {
            turn.recv().expect("the engine before this one signals");
            race.signal_by(&Chained { race: &race, next: after.as_ref() }, value);
        }));
    }
    let waits = Arc::new(std::sync::Mutex::new(Vec::new()));
    for values in [[2, 0], [1, 3], [3, 4]] {
        let (race, waits) = (Arc::clone(&race), Arc::clone(&waits));
        threads.push(start(move || {
            let [first, second] = values;
            let wait = race.wait(first);
            if second == 4 {
                race.give_up(&wait);
            } else {
                waits.lock().expect("no thread fails here").push((first, wait));
            }
            if second != 0 {
                let wait = race.wait(second);
                waits.lock().expect("no thread fails here").push((second, wait));
            }
        }));
    }
    next.expect("there is a first engine").send(()).expect("it is there");
    end(threads);
    race.check(&waits.lock().expect("no thread fails here"));
}

/// Three engines signal in no order, while the processor signals for good and a CPU waits for more than any engine signals.
fn for_good() {
    let race = Arc::new(race::Race::new());
    let engines = (1..=3).map(|value| {
        let race = Arc::clone(&race);
        start(move || race.signal(value))
    });
    let mut threads: Vec<_> = engines.collect();
    threads.push(start({
        let race = Arc::clone(&race);
        move || race.signal_for_good()
    }));
    let wait = race.wait(4);
    end(threads);
    assert_eq!(race.current(), u64::MAX, "the value went back");
    race.check(&[(4, wait)]);
}

/// Two queues of a node wait, are suspended and resumed, while an engine and the CPU signal and another CPU has everything looked at.
fn wait_list() {
    let fence = Arc::new(wait_list::Fence::new(3));
    let (sender, turn) = sync::mpsc::channel();
    let mut threads = Vec::new();
    threads.push(start({
        let fence = Arc::clone(&fence);
        move || {
            fence.signal(1);
            sender.send(()).expect("the CPU waits");
        }
    }));
    threads.push(start({
        let fence = Arc::clone(&fence);
        move || {
            turn.recv().expect("the engine signals");
            fence.signal_from_cpu(2);
        }
    }));
    threads.push(start({
        let fence = Arc::clone(&fence);
        move || fence.rescan()
    }));
    let mut node = wait_list::Node::new(&[1, 2, 3]);
    node.begin(&fence);
    node.drain(&fence);
    node.suspend_and_resume(&fence);
    node.drain(&fence);
    end(threads);
    node.check(&fence);
}

/// Two queues with one doorbell between them submit twice each, the operating system takes the doorbell away from one of them, and a
/// node polls.
fn doorbell(elsewhere: bool) {
    let machine = Arc::new(doorbell::Machine::new(2, false));
    if elsewhere {
        machine.move_user_mode();
    }
    let mut threads = Vec::new();
    for queue in 0..2 {
        let machine = Arc::clone(&machine);
        threads.push(start(move || machine.submit(queue, 2)));
    }
    threads.push(start({
        let machine = Arc::clone(&machine);
        move || machine.disconnect(0)
    }));
    for _ in 0..2 {
        machine.step();
    }
    end(threads);
    machine.check(&[2, 2]);
}

/// Three queues with one doorbell for all: two submit twice each, one of them while the operating system disconnects it, the third
/// submits once; and somebody stores what is not true, or not yet.
fn global_doorbell() {
    let machine = Arc::new(doorbell::Machine::new(3, true));
    machine.connect(0);
    let counts = [2, 2, 1];
    let mut threads = Vec::new();
    for (queue, count) in (0..).zip(counts) {
        let machine = Arc::clone(&machine);
        threads.push(start(move || machine.submit(queue, count)));
    }
    threads.push(start({
        let machine = Arc::clone(&machine);
        move || machine.disconnect(0)
    }));
    threads.push(start({
        let machine = Arc::clone(&machine);
        move || [(0, 1), (1, 2), (7, 1)].into_iter().for_each(|(queue, write)| machine.forge(queue, write))
    }));
    for _ in 0..2 {
        machine.step();
    }
    end(threads);
    machine.check(&counts);
}

/// Two queues signal with a log each that is too small, while the operating system reads both whenever it was interrupted, and once
/// in between.
fn log(delayed: bool) {
    const SIGNALS: u64 = 7;
    let logs: Vec<_> = (0..2).map(|_| Arc::new(log::Log::new(4, delayed))).collect();
    let engines = logs.iter().map(|log| {
        let log = Arc::clone(log);
        start(move || log.signal(&mut log::Engine::default(), SIGNALS))
    });
    let engines = engines.collect();
    let mut systems: Vec<_> = logs.iter().map(log::System::new).collect();
    for _ in 0..4 {
        systems.iter_mut().for_each(log::System::look);
    }
    systems.iter_mut().for_each(log::System::read);
    end(engines);
    systems.iter_mut().for_each(|system| system.check(SIGNALS));
}
