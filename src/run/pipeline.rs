//! Three queues in a row: copy up, encipher, copy down.
//!
//! Chunk `n` (from 1) signals value `n` on the fence of each stage, and each stage waits on the GPU for the one before it. A
//! slot of VRAM is used again as soon as the copy down of its former chunk has signalled, which the GPU finds out by itself: there are more
//! staging buffers than slots, so the CPU refills one while every slot is busy. The CPU waits once a chunk, for its copy down.

use std::collections::VecDeque;
use std::time::Duration;

use super::report::{KernelReport, SubmitReport, Totals};
use super::stages::{Roofline, Stage, Stages, rate};
use super::tracing::{Tracing, at};
use crate::clock::{self, Clock, Latencies, Ticks};
use crate::trace::{EventKind, LaneRecorder};
use testbed::cipher::{self, ARGUMENTS, CHUNK, Chunk};
use testbed::setup::GpuCounters;
use testbed::user::{
    Adapter, Buffer, Device, DispatchReport, Error, Fence, Mapping, Node, Placement, Program, Queue, QueueOptions,
    QueueStats, Recorder,
};

/// Chunks in flight on the GPU.
const SLOTS: u64 = 3;
/// Chunks that the CPU holds: those in flight and the one it refills.
const HELD: u64 = SLOTS + 1;
/// A chunk takes milliseconds; a GPU that needs longer than this for one is stuck.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Byte offset of the report of a dispatch, behind its arguments.
const REPORT: usize = ARGUMENTS.next_multiple_of(64);
/// Where the times of the copies lie: begin and end of the copy up, and of the copy down.
const TIMES_UP: usize = (REPORT + DispatchReport::SIZE).next_multiple_of(8);
const TIMES_DOWN: usize = TIMES_UP + TIMES_SIZE;
const TIMES_SIZE: usize = 2 * size_of::<u64>();

/// Buffers in system memory for one chunk, and the CPU's own copy of it.
struct Held {
    up: Staging,
    down: Staging,
    /// Arguments of the dispatch, the report of it, and the times of the copies.
    dispatch: Staging,
    original: Chunk,
}

/// A buffer in system memory, mapped for good.
struct Staging {
    buffer: Buffer,
    mapping: Mapping,
}

/// A chunk that is somewhere on its way.
struct Sent {
    number: u64,
    file_offset: u64,
}

/// A chunk that is back.
pub(super) struct Finished {
    /// Byte offset of the chunk in its file.
    pub(super) file_offset: u64,
    /// First difference from the expected bytes; `None` if there is none.
    pub(super) mismatch: Option<String>,
}

pub(super) struct Pipeline {
    up: Link,
    encipher: Link,
    down: Link,
    program: Program,
    /// In VRAM, one for each chunk in flight.
    slots: Vec<Buffer>,
    held: Vec<Held>,
    returned: Box<[u8]>,
    sent: VecDeque<Sent>,
    /// Number of the chunk sent last.
    last: u64,
    meter: Meter,
    stages: Stages,
    /// Where the CPU's waits are noted, if the run is traced.
    thread: Option<LaneRecorder>,
}

/// A queue and the fence that its work signals.
struct Link {
    queue: Queue,
    fence: Fence,
}

impl Link {
    fn new(device: &Device, node: Node, name: &str, tracing: Option<&Tracing>) -> Result<Self, Error> {
        let mut queue = Queue::new(device, node, QueueOptions::default())?;
        if let Some(tracing) = tracing {
            tracing.follow(&mut queue, node, name)?;
        }
        Ok(Self { queue, fence: Fence::new(device, 0)? })
    }

    /// Submits a wait if there is one, the work, and the signal of `number`; returns when recording ended.
    fn send(
        &mut self,
        wait: Option<(&Fence, u64)>,
        number: u64,
        work: impl FnOnce(&mut Recorder<'_, '_>) -> Result<(), Error>,
    ) -> Result<Ticks, Error> {
        let Self { queue, fence } = self;
        let mut recorded = clock::now();
        queue.submit(|commands| {
            if let Some((fence, value)) = wait {
                commands.wait(fence, value)?;
            }
            work(commands)?;
            commands.signal(fence, number)?;
            recorded = clock::now();
            Ok(())
        })?;
        Ok(recorded)
    }
}

/// The chunk whose copy down frees the slot that `number` uses.
fn former(number: u64) -> Option<u64> {
    number.checked_sub(SLOTS).filter(|former| *former > 0)
}

/// What is measured of submissions, and the sums of the reports that the GPU wrote of the dispatches.
struct Meter {
    clock: Clock,
    submit: Latencies,
    dispatches: u64,
    lanes: u64,
}

/// Copies a chunk on the GPU, and has it write when that began and ended to the two words at `times`.
fn copy_timed(commands: &mut Recorder<'_, '_>, to: u64, from: u64, times: u64) -> Result<(), Error> {
    commands.timestamp(times)?;
    commands.copy(to, from, CHUNK as u64)?;
    commands.timestamp(times + size_of::<u64>() as u64)
}

impl Staging {
    fn new(device: &Device, size: usize) -> Result<Self, Error> {
        let buffer = device.create_buffer(size as u64, Placement::System)?;
        let mapping = buffer.map()?;
        Ok(Self { buffer, mapping })
    }
}

impl Pipeline {
    /// Queues, fences and buffers on a device of their own.
    pub(super) fn new(adapter: &Adapter, tracing: Option<&Tracing>) -> Result<Self, Error> {
        let device = Device::new(adapter)?;
        let slot = |_| device.create_buffer(CHUNK as u64, Placement::Vram);
        let held = |_| {
            Ok(Held {
                up: Staging::new(&device, CHUNK)?,
                down: Staging::new(&device, CHUNK)?,
                dispatch: Staging::new(&device, TIMES_DOWN + TIMES_SIZE)?,
                original: Chunk::default(),
            })
        };
        let slots: Vec<Buffer> = (0..SLOTS).map(slot).collect::<Result<_, Error>>()?;
        let held: Vec<Held> = (0..HELD).map(held).collect::<Result<_, Error>>()?;
        Ok(Self {
            up: Link::new(&device, Node::Copy, "copy up", tracing)?,
            encipher: Link::new(&device, Node::Compute, "encipher", tracing)?,
            down: Link::new(&device, Node::Copy, "copy down", tracing)?,
            program: cipher::program(&device)?,
            slots,
            held,
            returned: vec![0; CHUNK].into_boxed_slice(),
            sent: VecDeque::new(),
            last: 0,
            meter: Meter { clock: Clock::get(), submit: Latencies::new(), dispatches: 0, lanes: 0 },
            stages: Stages::new(adapter.clock_hz()?),
            thread: tracing.map(Tracing::thread),
        })
    }

    /// Finishes the oldest chunk if the CPU holds as many as it may, so that [`Pipeline::next_chunk`] may be filled.
    pub(super) fn finish_if_full(&mut self) -> Result<Option<Finished>, Error> {
        if self.sent.len() as u64 == HELD { self.finish_oldest() } else { Ok(None) }
    }

    /// The CPU's copy of the chunk that is sent next, and where its stages are noted.
    pub(super) fn next_chunk(&mut self) -> (&mut Chunk, &mut Stages) {
        (&mut self.held[(self.last % HELD) as usize].original, &mut self.stages)
    }

    /// Sends the chunk of [`Pipeline::next_chunk`] through the three queues.
    pub(super) fn send(&mut self, file_offset: u64) -> Result<(), Error> {
        let index = self.last;
        let number = index + 1;
        let held = &self.held[(index % HELD) as usize];
        let slot = &self.slots[(index % SLOTS) as usize];
        let started = clock::now();
        held.up.mapping.write(0, held.original.bytes())?;
        self.stages.ended(Stage::CopyIn, started, CHUNK);
        held.dispatch.mapping.write(0, &cipher::arguments(slot.gpu_address(), number))?;

        let arguments = held.dispatch.buffer.gpu_address();
        let wait = former(number).map(|former| (&self.down.fence, former));
        let recorded = self.up.send(wait, number, |commands| {
            copy_timed(commands, slot.gpu_address(), held.up.buffer.gpu_address(), arguments + TIMES_UP as u64)
        })?;
        self.meter.submitted(recorded);
        let dispatch = cipher::dispatch(&self.program, arguments, arguments + REPORT as u64);
        let recorded =
            self.encipher.send(Some((&self.up.fence, number)), number, |commands| commands.dispatch(&dispatch))?;
        self.meter.submitted(recorded);
        let recorded = self.down.send(Some((&self.encipher.fence, number)), number, |commands| {
            copy_timed(commands, held.down.buffer.gpu_address(), slot.gpu_address(), arguments + TIMES_DOWN as u64)
        })?;
        self.meter.submitted(recorded);
        self.sent.push_back(Sent { number, file_offset });
        self.last = number;
        Ok(())
    }

    /// Waits for the oldest chunk and checks it; `None` if none is on its way.
    pub(super) fn finish_oldest(&mut self) -> Result<Option<Finished>, Error> {
        let Some(sent) = self.sent.pop_front() else { return Ok(None) };
        let started = self.thread.as_ref().map(LaneRecorder::time);
        self.down.fence.wait(sent.number, Some(TIMEOUT))?;
        if let (Some(thread), Some(started)) = (&mut self.thread, started) {
            let duration = thread.time().saturating_sub(started);
            thread.at(started, EventKind::CpuWait { target: at(&self.down.fence, sent.number), duration });
        }
        let held = &self.held[((sent.number - 1) % HELD) as usize];
        self.stages.on_gpu(Stage::CopyUp, times(&held.dispatch, TIMES_UP)?, CHUNK);
        self.stages.on_gpu(Stage::CopyDown, times(&held.dispatch, TIMES_DOWN)?, CHUNK);
        let mut report = [0; DispatchReport::SIZE];
        held.dispatch.mapping.read(REPORT, &mut report)?;
        let report = DispatchReport::from_bytes(&report);
        self.meter.lanes += report.lanes;
        if report.state == 1 {
            self.meter.dispatches += 1;
            self.stages.on_gpu(Stage::Encipher, [report.begun, report.ended], CHUNK);
        }
        let started = clock::now();
        held.down.mapping.read(0, &mut self.returned)?;
        self.stages.ended(Stage::CopyOut, started, CHUNK);
        let started = clock::now();
        let mismatch = cipher::mismatch(held.original.bytes(), &mut self.returned, sent.number);
        self.stages.ended(Stage::Verify, started, CHUNK);
        Ok(Some(Finished { file_offset: sent.file_offset, mismatch }))
    }

    /// How the queues submit and why, a sentence for each different reason.
    pub(super) fn submission(&self) -> Result<Vec<String>, Error> {
        let mut reasons = Vec::new();
        for link in [&self.up, &self.encipher, &self.down] {
            let reason = link.queue.model_reason()?;
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        Ok(reasons)
    }

    /// Throughput of each stage in a run of so many seconds.
    pub(super) fn roofline(&self, seconds: f64) -> Roofline {
        self.stages.roofline(seconds)
    }

    /// The figures of the whole run.
    pub(super) fn totals(&self, bytes: u64, seconds: f64, gpu: Option<GpuCounters>) -> Result<Totals, Error> {
        let mut totals = Totals {
            bytes,
            gpu_waits: gpu.map(|gpu| gpu.waits),
            fence_signals: gpu.map(|gpu| gpu.signals),
            interrupts: gpu.map(|gpu| gpu.interrupts),
            kernel: KernelReport {
                dispatches: self.meter.dispatches,
                lanes: self.meter.lanes,
                gb_s: self.stages.rate(Stage::Encipher) / 1e3,
                preemptions: gpu.map(|gpu| gpu.preemptions),
            },
            submit_ns: SubmitReport {
                p50: self.meter.submit.percentile(50.0),
                p99: self.meter.submit.percentile(99.0),
            },
            mb_s: rate(bytes, seconds),
            memcpy_mb_s: self.stages.rate(Stage::CopyIn),
            ..Totals::default()
        };
        for link in [&self.up, &self.encipher, &self.down] {
            let QueueStats { submissions, doorbell_rings, doorbell_reconnects, .. } = link.queue.stats()?;
            totals.submissions += submissions;
            totals.doorbell_rings += doorbell_rings;
            totals.doorbell_reconnects += doorbell_reconnects;
        }
        Ok(totals)
    }
}

/// Begin and end of a copy, as the GPU wrote them.
fn times(staging: &Staging, at: usize) -> Result<[u64; 2], Error> {
    let mut times = [[0; size_of::<u64>()]; 2];
    staging.mapping.read(at, times.as_flattened_mut())?;
    Ok(times.map(u64::from_le_bytes))
}

impl Meter {
    /// Notes a submission from the end of its recording until now.
    fn submitted(&mut self, recorded: Ticks) {
        self.submit.record(self.clock.nanoseconds(recorded, clock::now()));
    }
}
