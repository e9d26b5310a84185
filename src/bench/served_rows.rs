//! P1M, P2M, P6M: what a machine in another process costs a program, beside a machine in its own.
//!
//! Rings, doorbells and fence values are memory that both processes map, so that a submission is the same stores either way. [docs/machine.md]

use campanile_umd::RING_ENTRIES_MIN;
use testbed::user::{Adapter, Device, Node, Queue, QueueOptions};

use super::error::BenchError;
use super::row::{Effort, Measurement, Place, Row};
use super::worker::Worker;
use crate::clock::Latencies;

/// Queues without work in P6M.
const IDLE: usize = 100;

/// The cost of a submission.
pub(super) const SUBMIT: Row = Row {
    id: "P1M",
    what: "user-mode submission of one command buffer, on a machine in another process",
    prepare: |place, effort| both(place, effort, 0, Worker::submissions),
    ..ROW
};
/// The time until its fence is seen.
pub(super) const FENCE: Row = Row {
    id: "P2M",
    what: "submit, then fence value seen, on a machine in another process",
    prepare: |place, effort| both(place, effort, 0, Worker::round_trips),
    ..ROW
};
/// The same beside idle queues.
pub(super) const IDLE_QUEUES: Row = Row {
    id: "P6M",
    what: "the same beside 100 idle queues, on a machine in another process",
    prepare: |place, effort| both(place, effort, IDLE, Worker::round_trips),
    ..ROW
};

/// Parts that the rows have in common.
const ROW: Row = Row {
    id: "",
    what: "",
    unit: "ns",
    peers: &["the same on a machine in this process"],
    aim: "<= 1.1 times the time inside",
    met: |_, ratio| ratio.p50 <= 1.1,
    further: &[],
    prepare: |_, _| unreachable!("each row has its own"),
};

/// True if the row measures a machine of another process.
pub(super) fn is_served(row: &Row) -> bool {
    [SUBMIT.id, FENCE.id, IDLE_QUEUES.id].contains(&row.id)
}

/// A worker, and queues that have run something once.
struct Side {
    worker: Worker,
    _idle: Vec<Queue>,
}

impl Side {
    fn new(adapter: &Adapter, idle: usize) -> Result<Self, BenchError> {
        let device = Device::new(adapter)?;
        let worker = Worker::new(&device)?;
        // They run no programs.
        let small = QueueOptions {
            ring_entries: RING_ENTRIES_MIN,
            command_bytes: 4096,
            save_bytes: 4096,
            ..QueueOptions::default()
        };
        let idle = (0..idle).map(|index| {
            let node = if index.is_multiple_of(2) { Node::Compute } else { Node::Copy };
            let mut queue = Queue::new(&device, node, small)?;
            let value = queue.submit(|commands| commands.nop())?;
            queue.wait_progress(value)?;
            Ok(queue)
        });
        Ok(Self { worker, _idle: idle.collect::<Result<_, BenchError>>()? })
    }
}

type Measure = fn(&mut Worker, usize) -> Result<Latencies, BenchError>;

struct Both {
    outside: Side,
    inside: Side,
    measure: Measure,
    samples: usize,
}

fn both(place: &Place<'_>, effort: Effort, idle: usize, measure: Measure) -> Result<Box<dyn Measurement>, BenchError> {
    place.served.connect()?;
    Ok(Box::new(Both {
        outside: Side::new(&Adapter::open_by(remote::sending::thunks())?, idle)?,
        // By the linked user-mode driver as outside, also where images are selected.
        inside: Side::new(&Adapter::open_by(dxgkrnl::thunks())?, idle)?,
        measure,
        samples: effort.samples,
    }))
}

impl Measurement for Both {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        (self.measure)(&mut self.outside.worker, self.samples)
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        (self.measure)(&mut self.inside.worker, self.samples)
    }
}
