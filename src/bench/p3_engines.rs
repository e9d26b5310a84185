//! P3: from a signal of one engine to another engine past its wait, and from a watched signal to the thread that waits.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::JoinHandle;

use super::error::BenchError;
use super::row::{Effort, Measurement, Row};
use super::stopwatch::Stopwatch;
use crate::clock::{self, Clock, Latencies};
use testbed::setup::System;
use testbed::user::{Adapter, Device, Fence, Node, Queue, QueueOptions};

/// Engine to engine.
pub(super) const ENGINES: Row = Row {
    id: "P3",
    what: "engine signals, then another engine is past its wait",
    unit: "ns",
    peers: &["the same through the kernel: a CPU waits for one engine and signals the other"],
    aim: "at least 50 times faster",
    met: |_, ratio| ratio.p50 <= 1.0 / 50.0,
    further: &[],
    prepare: |system, effort| Ok(Box::new(Engines::new(system, effort)?)),
};

/// Engine to thread.
pub(super) const WAKE: Row = Row {
    id: "P3W",
    what: "submit a signal, then the thread that waits for it in the kernel is awake",
    unit: "ns",
    peers: &["eventfd round trip between two threads"],
    aim: "<= 1.2 times the round trip",
    met: |_, ratio| ratio.p50 <= 1.2,
    further: &[],
    prepare: |system, effort| Ok(Box::new(Wake::new(system, effort)?)),
};

/// Times that the engines hand over to each other in one sample.
const TURNS: u64 = 100;

pub(super) struct Engines {
    compute: Queue,
    copy: Queue,
    start: Fence,
    /// Signalled by the compute engine, by the copy engine, and by the CPU between them.
    there: Fence,
    back: Fence,
    relayed: Fence,
    done: u64,
    started: u64,
    samples: usize,
    stopwatch: Stopwatch,
}

impl Engines {
    pub(super) fn new(system: &System, effort: Effort) -> Result<Self, BenchError> {
        let device = Device::new(&Adapter::open_luid(system.luid())?)?;
        let fence = || Fence::new(&device, 0);
        Ok(Self {
            compute: Queue::new(&device, Node::Compute, QueueOptions::default())?,
            copy: Queue::new(&device, Node::Copy, QueueOptions::default())?,
            start: fence()?,
            there: fence()?,
            back: fence()?,
            relayed: fence()?,
            done: 0,
            started: 0,
            samples: (effort.samples / TURNS as usize).max(4),
            stopwatch: Stopwatch::new(system, &device)?,
        })
    }

    /// Nanoseconds of one way, on average over all rounds. Without relay both ways of a round are alike; with it one of them leads
    /// through the kernel, and the other is too short to count. The GPU takes the time, and no CPU looks at the fences meanwhile but
    /// the one that relays.
    fn sample(&mut self, relay: bool) -> Result<f64, BenchError> {
        let (first, last) = (self.done, self.done + TURNS);
        (self.done, self.started) = (last, self.started + 1);
        let Self { compute, copy, start, there, back, relayed, stopwatch, .. } = self;
        let heard = if relay { &*relayed } else { &*there };
        let started = self.started;
        compute.submit(|commands| {
            commands.wait(start, started)?;
            commands.timestamp(stopwatch.start())?;
            (first..last).try_for_each(|turn| {
                commands.wait(back, turn)?;
                commands.signal(there, turn + 1)
            })
        })?;
        copy.submit(|commands| {
            (first + 1..last).try_for_each(|turn| {
                commands.wait(heard, turn)?;
                commands.signal(back, turn)
            })?;
            commands.wait(heard, last)?;
            commands.timestamp(stopwatch.end())?;
            commands.signal(back, last)
        })?;
        start.signal(started)?;
        if relay {
            for turn in first..last {
                there.wait(turn + 1, None)?;
                relayed.signal(turn + 1)?;
            }
        }
        back.wait(last, None)?;
        if !relay {
            // What the CPU relays next begins where this ended.
            relayed.signal(last)?;
        }
        // The last signal in the other direction is not timed.
        let ways = if relay { TURNS } else { 2 * TURNS - 1 };
        Ok(stopwatch.nanoseconds()? / ways as f64)
    }

    fn samples(&mut self, relay: bool) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            latencies.record(self.sample(relay)?);
        }
        Ok(latencies)
    }
}

impl Measurement for Engines {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        self.samples(false)
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        self.samples(true)
    }
}

struct Wake {
    queue: Queue,
    fence: Fence,
    value: u64,
    partner: Partner,
    samples: usize,
    clock: Clock,
}

impl Wake {
    fn new(system: &System, effort: Effort) -> Result<Self, BenchError> {
        let device = Device::new(&Adapter::open_luid(system.luid())?)?;
        Ok(Self {
            queue: Queue::new(&device, Node::Compute, QueueOptions::default())?,
            fence: Fence::new(&device, 0)?,
            value: 0,
            partner: Partner::start().map_err(BenchError::Host)?,
            samples: effort.samples,
            clock: Clock::get(),
        })
    }
}

impl Measurement for Wake {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            self.value += 1;
            let (fence, value) = (&self.fence, self.value);
            let started = clock::now();
            self.queue.submit(|commands| commands.signal(fence, value))?;
            fence.wait(value, None)?;
            latencies.record(self.clock.nanoseconds(started, clock::now()));
        }
        Ok(latencies)
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            let started = clock::now();
            add(&self.partner.thrown, 1);
            take(&self.partner.answered);
            latencies.record(self.clock.nanoseconds(started, clock::now()));
        }
        Ok(latencies)
    }
}

/// A thread that answers one event by another.
struct Partner {
    thrown: OwnedFd,
    answered: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// Count that ends the game.
const END: u64 = 1 << 32;

impl Partner {
    fn start() -> io::Result<Self> {
        let (thrown, answered) = (event()?, event()?);
        let (theirs, back) = (thrown.try_clone()?, answered.try_clone()?);
        let play = move || {
            while take(&theirs) < END {
                add(&back, 1);
            }
        };
        let thread = std::thread::Builder::new().name("eventfd partner".to_owned()).spawn(play)?;
        Ok(Self { thrown, answered, thread: Some(thread) })
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        add(&self.thrown, END);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn event() -> io::Result<OwnedFd> {
    // SAFETY: creating an eventfd touches no memory.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn add(event: &OwnedFd, count: u64) {
    // SAFETY: the eight bytes that are written live through the call.
    unsafe { libc::write(event.as_raw_fd(), (&raw const count).cast(), 8) };
}

/// Blocks until the event is set; its count, or the count that ends the game when it cannot be read.
fn take(event: &OwnedFd) -> u64 {
    let mut count = 0u64;
    // SAFETY: there is space for the eight bytes that are read.
    let read = unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) };
    if read == 8 { count } else { END }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partner_answers_every_event() {
        let partner = Partner::start().unwrap();
        for _ in 0..100 {
            add(&partner.thrown, 1);
            assert_eq!(take(&partner.answered), 1);
        }
    }
}
