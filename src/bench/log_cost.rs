//! What fence logs and tracing cost: the same work on queues that have them and on queues that have not.

use campanile_umd::{QueueEvent, Tracer};

use super::error::BenchError;
use super::p3_engines::Engines;
use super::row::{Effort, Measurement, Row};
use crate::clock::{self, Clock, Latencies};
use crate::trace::{Moment, QuickClock};
use testbed::setup::System;
use testbed::user::{Adapter, Device, Error, Fence, Node, Queue, QueueOptions};

const AIM: &str = "<= 1.1 times what it costs without logs";
const ALLOWED: f64 = 1.1;

/// Cost of fence logs to the thread that submits.
pub(super) const SUBMIT: Row = Row {
    id: "P1L",
    what: "user-mode submission of one signal, which the GPU logs",
    unit: "ns",
    peers: &["the same on a queue without fence logs"],
    aim: AIM,
    met: |_, ratio| ratio.p50 <= ALLOWED,
    further: &[],
    prepare: |system, effort| Ok(Box::new(pair(system, |system| Signals::new(system, effort))?)),
};

/// Cost of tracing for the thread that submits.
pub(super) const TRACED: Row = Row {
    id: "P1T",
    what: "user-mode submission of one signal, each event of which is noted with its time",
    unit: "ns",
    peers: &["the same on a queue without tracer"],
    aim: "<= 2 times what it costs without tracer",
    met: |_, ratio| ratio.p50 <= 2.0,
    further: &[],
    prepare: |system, effort| {
        let mut logged = Signals::new(system, effort)?;
        logged.queue.set_tracer(Box::new(Latest::new()))?;
        Ok(Box::new(Pair { logged, unlogged: Signals::new(system, effort)? }))
    },
};

/// Cost of fence logs to the engines.
pub(super) const ENGINES: Row = Row {
    id: "P3L",
    what: "engine signals, then another engine is past its wait, both logged",
    unit: "ns",
    peers: &["the same on queues without fence logs"],
    aim: AIM,
    met: |_, ratio| ratio.p50 <= ALLOWED,
    further: &[],
    prepare: |system, effort| Ok(Box::new(pair(system, |system| Engines::new(system, effort))?)),
};

/// A tracer that keeps the latest events, on the clock of a recording.
struct Latest {
    clock: QuickClock,
    events: Box<[Option<(Moment, QueueEvent)>]>,
    next: usize,
}

impl Latest {
    fn new() -> Self {
        Self { clock: QuickClock::start(), events: vec![None; 4096].into_boxed_slice(), next: 0 }
    }
}

impl Tracer for Latest {
    fn event(&mut self, event: QueueEvent) {
        self.events[self.next % 4096] = Some((self.clock.now(), event));
        self.next = self.next.wrapping_add(1);
    }
}

/// The same measurement with what is measured and without.
struct Pair<M> {
    logged: M,
    unlogged: M,
}

fn pair<M>(system: &System, make: impl Fn(&System) -> Result<M, BenchError>) -> Result<Pair<M>, BenchError> {
    let switch = |on| {
        let switched = system.machine().log_fences(system.luid(), on);
        switched.map_err(|status| BenchError::Host(std::io::Error::other(format!("fence logs: {status}"))))
    };
    let logged = make(system)?;
    switch(false)?;
    let unlogged = make(system);
    switch(true)?;
    Ok(Pair { logged, unlogged: unlogged? })
}

impl<M: Measurement> Measurement for Pair<M> {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        self.logged.ours()
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        self.unlogged.ours()
    }
}

/// Submissions timed together, as in P1.
const BATCH: u64 = 32;
/// Batches before the GPU is given time to catch up.
const BATCHES: usize = 4;

struct Signals {
    queue: Queue,
    fence: Fence,
    value: u64,
    samples: usize,
    clock: Clock,
}

impl Signals {
    fn new(system: &System, effort: Effort) -> Result<Self, BenchError> {
        let device = Device::new(&Adapter::open_luid(system.luid())?)?;
        let options = QueueOptions { ring_entries: 1024, ..QueueOptions::default() };
        let (queue, fence) = (Queue::new(&device, Node::Compute, options)?, Fence::new(&device, 0)?);
        Ok(Self { queue, fence, value: 0, samples: effort.samples, clock: Clock::get() })
    }

    fn submit(&mut self) -> Result<u64, Error> {
        self.value += 1;
        let (fence, value) = (&self.fence, self.value);
        self.queue.submit(|commands| commands.signal(fence, value))
    }
}

impl Measurement for Signals {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        while latencies.len() < self.samples as u64 {
            // The GPU catches up, and an engine that fell asleep wakes.
            let last = self.submit()?;
            self.queue.wait_progress(last)?;
            for _ in 0..BATCHES {
                let started = clock::now();
                for _ in 0..BATCH {
                    self.submit()?;
                }
                latencies.record(self.clock.nanoseconds(started, clock::now()) / BATCH as f64);
            }
        }
        Ok(latencies)
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        self.ours()
    }
}
