//! The thread that steps a function.

use crate::Gpu;
use crate::cmp::power::NextLook;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Idle steps that are followed at once by the next one.
const SPINS: u32 = 256;
/// How long the idle thread then yields to others after each step, before it sleeps.
const YIELD_TIME: Duration = Duration::from_millis(10);
/// A yield that takes longer has let another thread run: processors are scarce, and the idle thread leaves them to those that have work.
const CONTENDED: Duration = Duration::from_micros(20);
/// Length of a sleep while doorbells are polled: the longest time for which a store to a doorbell of a function in F0 stays unseen.
const NAP: Duration = Duration::from_micros(50);

/// A thread that steps a function until it is dropped.
#[derive(Debug)]
pub struct Runner {
    gpu: Arc<Gpu>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    /// Starts the thread. A function has one runner at a time; steps made by others meanwhile are safe and share the work.
    pub fn start(gpu: Arc<Gpu>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (function, stopped) = (gpu.clone(), stop.clone());
        let thread = std::thread::spawn(move || run(&function, &stopped));
        Self { gpu, stop, thread: Some(thread) }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread has been printed by it; the function is not stepped any more either way.
            let _ = thread.join();
        }
        self.gpu.set_sleeper(None);
    }
}

fn run(gpu: &Gpu, stop: &AtomicBool) {
    gpu.set_sleeper(Some(std::thread::current()));
    let mut idle = 0u32;
    let mut quiet_since = None;
    while !stop.load(Ordering::Relaxed) {
        if gpu.step() {
            (idle, quiet_since) = (0, None);
        } else if idle < SPINS {
            idle += 1;
            std::hint::spin_loop();
        } else if gpu.stands_still()
            || quiet_since.get_or_insert_with(Instant::now).elapsed() >= YIELD_TIME
            || lets_others_run()
        {
            nap(gpu);
        }
    }
}

/// Yields the processor. True if another thread took it.
fn lets_others_run() -> bool {
    let before = Instant::now();
    std::thread::yield_now();
    before.elapsed() >= CONTENDED
}

/// Sleeps until the function may have work. A store to a doorbell wakes no thread, so with a doorbell to poll the sleep is short; otherwise
/// it lasts until a register access, or until a node has been idle for long.
fn nap(gpu: &Gpu) {
    gpu.set_asleep(true);
    // A register access after this step finds the runner asleep and wakes it.
    if !gpu.step() {
        match gpu.next_look() {
            NextLook::Soon => std::thread::park_timeout(NAP),
            NextLook::After(ticks) => std::thread::park_timeout(Duration::from_nanos(ticks)),
            NextLook::AtRegisterAccess => std::thread::park(),
        }
    }
    gpu.set_asleep(false);
}
