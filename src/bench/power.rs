//! PW: what F1 and D3 cost and save: the latency of work for a node in F1 and for a device in D3, and the processor time of an idle machine.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dxgkrnl::{PowerComponentState, Process};

use super::error::BenchError;
use super::row::{Effort, Measurement, Row};
use rustix::time::ClockId;

use crate::clock::{self, Clock, Latencies, processor_time};
use testbed::setup::{System, SystemOptions};
use testbed::user::{Adapter, Device, Node, Queue, QueueOptions};

/// The time for which an idle machine is watched for one sample.
const WATCH: Duration = Duration::from_millis(100);
/// Until an engine that is told to sleep must have done so.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Work for an engine in F1.
pub(super) const F1: Row = Row {
    id: "PW",
    what: "submit to an engine in F1, then progress seen",
    unit: "ns",
    peers: &["the same in F0"],
    aim: "told, not aimed at",
    met: |_, _| true,
    further: &[],
    prepare: |_, effort| Ok(Box::new(Wake::new(Depth::F1, effort)?)),
};

/// Work for a device in D3.
pub(super) const D3: Row = Row {
    id: "PWD",
    what: "submit to a device in D3, then progress seen",
    unit: "ns",
    peers: &["the same in D0"],
    aim: "told, not aimed at",
    met: |_, _| true,
    further: &[],
    prepare: |_, effort| Ok(Box::new(Wake::new(Depth::D3, effort)?)),
};

/// The processor time of an idle machine.
pub(super) const IDLE: Row = Row {
    id: "PWI",
    what: "processor time of an idle adapter, per millisecond",
    unit: "ns",
    peers: &["one whose engines never sleep"],
    aim: "< 10000 (1 % of a core)",
    met: |ours, _| ours.p50 < 10_000.0,
    further: &[],
    prepare: |_, _| Ok(Box::new(Idle { sleeping: Machine::new(1)?, polled: Machine::new(0)? })),
};

/// A machine with one queue that has run something. Fields are dropped in order.
struct Machine {
    queue: Option<Queue>,
    process: Arc<Process>,
    system: System,
}

impl Machine {
    fn new(idle_ticks: u64) -> Result<Self, BenchError> {
        let mut options = SystemOptions::default();
        options.variant.idle_ticks = idle_ticks;
        let system = System::boot(&options)?;
        let process = Process::new(system.machine(), "campanile bench, power");
        let queue = {
            let _attached = process.attach();
            let device = Device::new(&Adapter::open_luid(system.luid())?)?;
            Queue::new(&device, Node::Compute, QueueOptions::default())?
        };
        let mut machine = Self { queue: Some(queue), process, system };
        machine.work()?;
        Ok(machine)
    }

    fn work(&mut self) -> Result<(), BenchError> {
        let _attached = self.process.attach();
        let Some(queue) = &mut self.queue else { return Ok(()) };
        let value = queue.submit(|commands| commands.nop())?;
        while queue.progress()? < value {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn power_down(&self) -> Result<(), BenchError> {
        let slept = self.system.machine().power_down(self.system.luid());
        slept.map_err(|error| BenchError::Host(io::Error::other(error.to_string())))
    }

    fn wait_asleep(&self) -> Result<(), BenchError> {
        let limit = Instant::now() + TIMEOUT;
        let (machine, luid) = (self.system.machine(), self.system.luid());
        // The transition of the device to D3 is no engine.
        let is_awake = |component: &PowerComponentState| component.node.is_some() && component.fstate == 0;
        while machine.power_components(luid).iter().any(is_awake) {
            if Instant::now() > limit {
                return Err(BenchError::Host(io::Error::other("the engines do not sleep")));
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        {
            let _attached = self.process.attach();
            self.queue = None;
        }
        self.process.exit();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    F1,
    D3,
}

struct Wake {
    depth: Depth,
    sleeper: Machine,
    awake: Machine,
    clock: Clock,
    samples: usize,
}

impl Wake {
    fn new(depth: Depth, effort: Effort) -> Result<Self, BenchError> {
        // A device that is put to D3 needs no idle engines for it.
        let sleeper = Machine::new(u64::from(depth == Depth::F1))?;
        let samples = (effort.samples / 20).max(1);
        Ok(Self { depth, sleeper, awake: Machine::new(0)?, clock: Clock::get(), samples })
    }

    fn sleep(&self) -> Result<(), BenchError> {
        match self.depth {
            Depth::F1 => self.sleeper.wait_asleep(),
            Depth::D3 => self.sleeper.power_down(),
        }
    }
}

impl Measurement for Wake {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            self.sleep()?;
            let started = clock::now();
            self.sleeper.work()?;
            latencies.record(self.clock.nanoseconds(started, clock::now()));
        }
        Ok(latencies)
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            let started = clock::now();
            self.awake.work()?;
            latencies.record(self.clock.nanoseconds(started, clock::now()));
        }
        Ok(latencies)
    }
}

struct Idle {
    sleeping: Machine,
    polled: Machine,
}

/// Nanoseconds of processor time in each millisecond that passes.
fn watch() -> Latencies {
    let (before, started) = (processor_time(ClockId::ProcessCPUTime), Instant::now());
    std::thread::sleep(WATCH);
    let spent = processor_time(ClockId::ProcessCPUTime).saturating_sub(before);
    let mut share = Latencies::new();
    share.record(spent.as_secs_f64() / started.elapsed().as_secs_f64() * 1e6);
    share
}

impl Measurement for Idle {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        // The machines share a process: the other one must not poll meanwhile.
        self.polled.power_down()?;
        self.sleeping.wait_asleep()?;
        Ok(watch())
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        self.polled.work()?;
        Ok(watch())
    }
}
