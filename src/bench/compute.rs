//! C3 and C4: what a program costs that does nothing, and how soon one that does not end leaves the node.

use campanile_device::Runner;
use campanile_device::testing::{Host, TestQueue};
use campanile_hw::event::EventKind;
use campanile_hw::packet::{self, Packet};
use campanile_hw::registers::{COUNT_PREEMPTIONS, Command, NODE_COMPUTE, PROGRESS_COMPUTE};

use super::error::BenchError;
use super::row::{Effort, Measurement, Row};
use crate::clock::{self, Clock, Latencies};
use testbed::user::{Adapter, Device, Fence, Node, Program, Queue, QueueOptions};

/// An empty program, from submission to fence.
pub(super) const EMPTY: Row = Row {
    id: "C3",
    what: "dispatch of an empty program and a signal behind it, from submission until the fence value is seen",
    unit: "ns",
    peers: &["the same submission without the dispatch"],
    aim: "at most 1.7 times as long as without the dispatch, p50",
    met: |_, ratio| ratio.p50 <= 1.7,
    further: &[],
    prepare: |system, effort| Ok(Box::new(Empty::new(&Adapter::open_luid(system.luid())?, effort)?)),
};

/// An endless program, from the request to leave the node until its state is saved.
pub(super) const LEAVE: Row = Row {
    id: "C4",
    what: "SuspendQueue of a queue in an endless program, until the Suspended event says that its state is saved",
    unit: "ns",
    peers: &["the same of a queue that has nothing to do"],
    aim: "p99 <= 100 us",
    met: |ours, _| ours.p99 <= 100_000.0,
    further: &[],
    prepare: |_, effort| Ok(Box::new(Leave::new(effort))),
};

/// Round trips that warm the way up after the other side was measured.
const WARM_UP: usize = 20;

struct Empty {
    queue: Queue,
    fence: Fence,
    program: Program,
    value: u64,
    samples: usize,
    clock: Clock,
}

/// A program of the bench, assembled.
fn assembled(text: &str) -> Vec<u8> {
    campanile_isa::assemble(text).expect("the bench's own program")
}

impl Empty {
    fn new(adapter: &Adapter, effort: Effort) -> Result<Self, BenchError> {
        let device = Device::new(adapter)?;
        Ok(Self {
            queue: Queue::new(&device, Node::Compute, QueueOptions::default())?,
            fence: Fence::new(&device, 0)?,
            program: device.create_program(&assembled("exit"))?,
            value: 0,
            samples: effort.samples,
            clock: Clock::get(),
        })
    }

    fn round_trips(&mut self, dispatches: bool) -> Result<Latencies, BenchError> {
        let dispatch = self.program.dispatch([1, 1, 1], 0);
        let mut latencies = Latencies::new();
        for sample in 0..WARM_UP + self.samples {
            self.value += 1;
            let (fence, value) = (&self.fence, self.value);
            let started = clock::now();
            self.queue.submit(|commands| {
                if dispatches {
                    commands.dispatch(&dispatch)?;
                }
                commands.signal(fence, value)
            })?;
            if !fence.spin(value, u32::MAX) {
                fence.wait(value, None)?;
            }
            if sample >= WARM_UP {
                latencies.record(self.clock.nanoseconds(started, clock::now()));
            }
        }
        Ok(latencies)
    }
}

impl Measurement for Empty {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        self.round_trips(true)
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        self.round_trips(false)
    }
}

/// A workgroup of 256 lanes that counts for ever.
const ENDLESS: &str = ".workgroup 256, 1, 1\n.shared 4096\nmov.i32 w1, 1\nloop\nadd.i32 w0, w0, w1\nend_loop\nexit";
/// GPU virtual address of the program.
const PROGRAM: u64 = 0x10_0000;

/// A function by itself: an operating system suspends contexts for reasons of its own only.
struct Leave {
    host: Host,
    busy: TestQueue,
    idle: TestQueue,
    samples: usize,
    clock: Clock,
    cookie: u64,
    _runner: Runner,
}

impl Leave {
    fn new(effort: Effort) -> Self {
        let mut host = Host::new();
        let space = host.space();
        let mut busy = host.queue(0, space, NODE_COMPUTE);
        let idle = host.queue(1, space, NODE_COMPUTE);
        let program = host.map_new_ram(space, PROGRAM, 4096);
        let bytes = assembled(ENDLESS);
        host.write(program, &bytes);
        let dispatch = packet::Dispatch {
            program_size: bytes.len() as u32,
            program: PROGRAM,
            arguments: 0,
            indirect: 0,
            grid_x: 1,
            grid_y: 1,
            grid_z: 1,
            report: 0,
        };
        host.write_packets(&mut busy, &[Packet::Dispatch(dispatch)]);
        host.ring(&busy);
        let runner = Runner::start(host.gpu.clone());
        Self { host, busy, idle, samples: effort.samples, clock: Clock::get(), cookie: 0, _runner: runner }
    }

    /// Waits until the program has run for two more slices, so that there is something to be saved.
    fn wait_for_the_program(&self) {
        let slices = || self.host.get(PROGRESS_COMPUTE, 8);
        let before = slices();
        while slices() < before + 2 {
            std::hint::spin_loop();
        }
    }

    /// States that the function has saved so far.
    fn saved(&self) -> u64 {
        self.host.get(COUNT_PREEMPTIONS, 8)
    }

    fn suspensions(&mut self, number: u32) -> Latencies {
        let mut latencies = Latencies::new();
        for sample in 0..WARM_UP + self.samples {
            self.cookie += 1;
            if number == self.busy.number {
                self.wait_for_the_program();
            }
            let started = clock::now();
            self.host.command(Command::SuspendQueue, number.into(), self.cookie, 0);
            let answered = || {
                let events = self.host.events();
                events.iter().any(|event| event.kind == EventKind::Suspended as u8 && event.data0 == self.cookie)
            };
            if std::iter::repeat_with(answered).any(|answered| answered) && sample >= WARM_UP {
                latencies.record(self.clock.nanoseconds(started, clock::now()));
            }
            self.host.command(Command::ResumeQueue, number.into(), 0, 0);
        }
        latencies
    }
}

impl Measurement for Leave {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        let before = self.saved();
        let latencies = self.suspensions(self.busy.number);
        let saved = self.saved() - before;
        if saved != (WARM_UP + self.samples) as u64 {
            return Err(BenchError::Machine(format!("{} requests, and {saved} states saved", WARM_UP + self.samples)));
        }
        Ok(latencies)
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        Ok(self.suspensions(self.idle.number))
    }
}
