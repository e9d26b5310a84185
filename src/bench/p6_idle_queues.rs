//! P6: whether queues that do nothing cost those that work anything.

use std::sync::Arc;
use std::time::Duration;

use campanile_umd::RING_ENTRIES_MIN;
use dxgkrnl::Process;

use super::{BenchError, Effort, Measurement, Row};
use crate::clock::{self, Clock, Latencies};
use crate::setup::{System, SystemOptions};
use crate::user::{Adapter, Device, Error, Fence, Node, Queue, QueueOptions};

/// Idle queues of the crowded machine.
const IDLE: usize = 1000;

/// Until the other machine's GPU, which has nothing to do now, leaves the processor alone.
const QUIET: Duration = Duration::from_millis(50);

/// The row.
pub(super) const ROW: Row = Row {
    id: "P6",
    what: "submit, then fence value seen, beside 1000 idle queues",
    unit: "ns",
    peers: &["the same on a machine without other queues"],
    aim: "<= 1.1 times the time without other queues",
    met: |_, ratio| ratio.p50 <= 1.1,
    further: &[],
    prepare: |system, effort| Ok(Box::new(Crowd::new(system, effort)?)),
};

struct Crowd {
    crowded: Worker,
    _idle: Vec<Queue>,
    lonely: Lonely,
    samples: usize,
}

/// A queue with work.
struct Worker {
    queue: Queue,
    fence: Fence,
    value: u64,
    clock: Clock,
}

/// A second machine, whose only queue is the one with work. Fields are dropped in order.
struct Lonely {
    worker: Option<Worker>,
    process: Arc<Process>,
    _system: System,
}

impl Worker {
    fn new(device: &Device) -> Result<Self, Error> {
        Ok(Self {
            queue: Queue::new(device, Node::Compute, QueueOptions::default())?,
            fence: Fence::new(device, 0)?,
            value: 0,
            clock: Clock::get(),
        })
    }

    fn measure(&mut self, samples: usize) -> Result<Latencies, BenchError> {
        std::thread::sleep(QUIET);
        let mut latencies = Latencies::new();
        for sample in 0..samples + samples / 10 {
            self.value += 1;
            let (fence, value) = (&self.fence, self.value);
            let started = clock::now();
            self.queue.submit(|commands| commands.signal(fence, value))?;
            if !fence.spin(value, u32::MAX) {
                fence.wait(value, None)?;
            }
            // The first tenth wakes the GPU and brings everything back after the other machine's turn.
            if sample >= samples / 10 {
                latencies.record(self.clock.nanoseconds(started, clock::now()));
            }
        }
        Ok(latencies)
    }
}

impl Crowd {
    fn new(system: &System, effort: Effort) -> Result<Self, BenchError> {
        let device = Device::new(&Adapter::open_luid(system.luid())?)?;
        let small = QueueOptions { ring_entries: RING_ENTRIES_MIN, command_bytes: 4096, ..QueueOptions::default() };
        let node = |index: usize| if index.is_multiple_of(2) { Node::Compute } else { Node::Copy };
        let idle = (0..IDLE).map(|index| Queue::new(&device, node(index), small)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { crowded: Worker::new(&device)?, _idle: idle, lonely: Lonely::new()?, samples: effort.samples })
    }
}

impl Lonely {
    fn new() -> Result<Self, BenchError> {
        let system = System::boot(&SystemOptions::default())?;
        let process = system.machine().create_process("campanile bench, alone");
        let worker = {
            let _attached = process.attach();
            Worker::new(&Device::new(&Adapter::open_luid(system.luid())?)?)?
        };
        Ok(Self { worker: Some(worker), process, _system: system })
    }

    fn measure(&mut self, samples: usize) -> Result<Latencies, BenchError> {
        let _attached = self.process.attach();
        self.worker.as_mut().map_or_else(|| Ok(Latencies::new()), |worker| worker.measure(samples))
    }
}

impl Drop for Lonely {
    fn drop(&mut self) {
        {
            let _attached = self.process.attach();
            self.worker = None;
        }
        self.process.exit();
    }
}

impl Measurement for Crowd {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        self.crowded.measure(self.samples)
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        self.lonely.measure(self.samples)
    }
}
