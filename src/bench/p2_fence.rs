//! P2: from submitting a signal to seeing its value, without the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use super::error::BenchError;
use super::row::{Effort, Measurement, PeerAim, Row};
use super::vulkan::Lavapipe;
use crate::clock::{self, Clock, Latencies};
use testbed::setup::System;
use testbed::user::{Adapter, Device, Fence, Node, Queue, QueueOptions};

/// The row.
pub(super) const ROW: Row = Row {
    id: "P2",
    what: "submit, then fence value seen in its user-mode mapping",
    unit: "ns",
    peers: &[
        "futex round trip between two threads",
        "lavapipe vkQueueSubmit with a timeline semaphore, then vkGetSemaphoreCounterValue until it is seen",
    ],
    aim: "submit to fence <= 600 ns p50",
    met: |ours, _| ours.p50 <= 600.0,
    further: &[PeerAim {
        peer: 1,
        aim: "fence seen >= 20 times sooner than lavapipe's semaphore",
        met: |ratio| ratio.p50 <= 1.0 / 20.0,
    }],
    prepare: |system, effort| Ok(Box::new(SeenFence::new(system, effort)?)),
};

struct SeenFence {
    queue: Queue,
    fence: Fence,
    value: u64,
    partner: Partner,
    /// `None` where the host has none.
    lavapipe: Option<Lavapipe>,
    samples: usize,
    clock: Clock,
}

/// Looks at a fence before the wait is left to the kernel; seconds, in practice for ever.
const LOOKS: u32 = u32::MAX;
/// Round trips that warm the way up after the other side was measured.
const WARM_UP: usize = 20;

impl SeenFence {
    fn new(system: &System, effort: Effort) -> Result<Self, BenchError> {
        let adapter = Adapter::open_luid(system.luid())?;
        let device = Device::new(&adapter)?;
        Ok(Self {
            queue: Queue::new(&device, Node::Compute, QueueOptions::default())?,
            fence: Fence::new(&device, 0)?,
            value: 0,
            partner: Partner::start().map_err(BenchError::Host)?,
            lavapipe: Lavapipe::if_present(),
            samples: effort.samples,
            clock: Clock::get(),
        })
    }

    fn round_trip(&mut self) -> Result<f64, BenchError> {
        self.value += 1;
        let (fence, value) = (&self.fence, self.value);
        let started = clock::now();
        self.queue.submit(|commands| commands.signal(fence, value))?;
        if !fence.spin(value, LOOKS) {
            fence.wait(value, None)?;
        }
        Ok(self.clock.nanoseconds(started, clock::now()))
    }

    /// The same by another stack, with an empty command buffer, and its value too is looked for without sleeping. Empty where there is none.
    fn by_vulkan(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        let Some(lavapipe) = &mut self.lavapipe else { return Ok(latencies) };
        for _ in 0..WARM_UP {
            lavapipe.submit()?;
            lavapipe.spin()?;
        }
        // A tenth of the samples takes as long.
        for _ in 0..self.samples / 10 {
            let started = clock::now();
            lavapipe.submit()?;
            lavapipe.spin()?;
            latencies.record(self.clock.nanoseconds(started, clock::now()));
        }
        Ok(latencies)
    }
}

impl Measurement for SeenFence {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        for _ in 0..WARM_UP {
            self.round_trip()?;
        }
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            latencies.record(self.round_trip()?);
        }
        Ok(latencies)
    }

    fn peer(&mut self, index: usize) -> Result<Latencies, BenchError> {
        if index == 1 {
            return self.by_vulkan();
        }
        for _ in 0..WARM_UP {
            self.partner.round_trip();
        }
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            let started = clock::now();
            self.partner.round_trip();
            latencies.record(self.clock.nanoseconds(started, clock::now()));
        }
        Ok(latencies)
    }
}

/// A thread that answers every ball it is thrown.
struct Partner {
    table: Arc<Table>,
    thread: Option<JoinHandle<()>>,
    throws: u32,
}

/// Two words to sleep on: counts of throws and of answers.
#[derive(Default)]
struct Table {
    thrown: AtomicU32,
    answered: AtomicU32,
}

/// Throw that ends the game.
const END: u32 = u32::MAX;

impl Partner {
    fn start() -> std::io::Result<Self> {
        let table = Arc::new(Table::default());
        let theirs = Arc::clone(&table);
        let thread = std::thread::Builder::new().name("futex partner".to_owned()).spawn(move || theirs.play())?;
        Ok(Self { table, thread: Some(thread), throws: 0 })
    }

    fn round_trip(&mut self) {
        self.throws = (self.throws + 1) % END;
        self.table.thrown.store(self.throws, Ordering::Release);
        futex_wake(&self.table.thrown);
        while self.table.answered.load(Ordering::Acquire) != self.throws {
            futex_wait(&self.table.answered, self.throws.wrapping_sub(1));
        }
    }
}

impl Table {
    fn play(&self) {
        let mut seen = 0;
        loop {
            let thrown = self.thrown.load(Ordering::Acquire);
            if thrown == seen {
                futex_wait(&self.thrown, seen);
                continue;
            }
            seen = thrown;
            self.answered.store(seen, Ordering::Release);
            futex_wake(&self.answered);
            if seen == END {
                return;
            }
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.table.thrown.store(END, Ordering::Release);
        futex_wake(&self.table.thrown);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sleeps until woken, unless the word no longer has the value.
fn futex_wait(word: &AtomicU32, value: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives through the call; no timeout is given.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, std::ptr::null::<libc::timespec>()) };
}

/// Wakes one sleeper.
fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word lives through the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partner_answers_every_throw() {
        let mut partner = Partner::start().unwrap();
        for round in 1..=1000 {
            partner.round_trip();
            assert_eq!(partner.table.answered.load(Ordering::SeqCst), round);
        }
    }
}
