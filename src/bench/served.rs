//! P1M, P2M, P6M: what a machine in another process costs a program, beside a machine in its own.
//!
//! Rings, doorbells and fence values are memory that both processes map, so that a submission is the same stores either way. [docs/machine.md]

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use campanile_umd::RING_ENTRIES_MIN;

use super::worker::Worker;
use super::{BenchError, Effort, Measurement, Place, Row};
use crate::clock::Latencies;
use testbed::setup::{DRIVER_VARIABLE, DriverChoice};
use testbed::user::{Adapter, Device, Node, Queue, QueueOptions};

/// Longest time until a machine that was started has its socket.
const START: Duration = Duration::from_secs(20);
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

/// The machine of another process: one that a user named, or else one that is started when a row first asks for it.
pub(super) struct Served {
    named: Option<PathBuf>,
    /// Set once this process is a program of it: the machine that was started for that, unless one was named.
    connected: OnceCell<Option<Machine>>,
}

/// A machine that was started for the rows.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: a signal to a child that was not waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

impl Served {
    pub(super) fn new(named: Option<PathBuf>) -> Self {
        Self { named, connected: OnceCell::new() }
    }

    /// Makes this process a program of the machine. Once is enough.
    fn connect(&self) -> Result<(), BenchError> {
        if self.connected.get().is_some() {
            return Ok(());
        }
        let machine = match &self.named {
            None => Some(Self::start()?),
            Some(named) => {
                let connected = remote::client::connect(named, "campanile bench");
                connected.map_err(|error| BenchError::NoMachine(error.to_string()))?;
                None
            }
        };
        let _ = self.connected.set(machine);
        Ok(())
    }

    fn start() -> Result<Machine, BenchError> {
        let socket = std::env::temp_dir().join(format!("campanile-bench-{}.sock", std::process::id()));
        let program = std::env::current_exe().map_err(BenchError::Host)?;
        let mut command = Command::new(program);
        command.args(["machine", "--quiet", "--socket"]).arg(&socket).stdin(Stdio::null());
        command.env(DRIVER_VARIABLE, DriverChoice::selected().to_string());
        let machine = Machine(command.spawn().map_err(BenchError::Host)?);
        await_socket(&socket)?;
        remote::client::connect(&socket, "campanile bench").map_err(|error| BenchError::Machine(error.to_string()))?;
        Ok(machine)
    }
}

fn await_socket(socket: &Path) -> Result<(), BenchError> {
    let began = Instant::now();
    while !socket.exists() {
        if began.elapsed() > START {
            let text = "the machine that was started for the comparison has no socket";
            return Err(BenchError::Host(io::Error::new(io::ErrorKind::TimedOut, text)));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
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
