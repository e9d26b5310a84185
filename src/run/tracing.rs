//! What a run adds to its work when it is traced: time stamps of the GPU around every stage, and what the CPU does meanwhile.
//!
//! Three stamps a submission, in system memory: before the wait, after it, and before the signal. They are read when the
//! chunk is back, so nothing waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dxgkrnl::{Counters, Machine};
use wddm_ddi::types::LUID;

use crate::setup::System;
use crate::trace::{
    EventKind, FenceValue, GpuClock, GpuOperation, GpuRecord, Lane, LaneKind, LaneRecorder, Recording, Trace,
};
use crate::user::{Buffer, Device, Error, Fence, Mapping, Node, Placement, Queue, Recorder};

/// Bytes of the stamps of one submission, a power of two.
const STAMPS: usize = 32;
/// How often counters are looked at; an event that they tell of is at most so much later than it seems.
const SAMPLING: Duration = Duration::from_micros(200);
/// Process number of the system, as on Windows.
const SYSTEM_PROCESS: u32 = 4;

/// The trace of a run.
pub(super) struct Tracing {
    recording: Recording,
    process: u32,
    gpu: GpuClock,
    sampler: Sampler,
}

impl Tracing {
    pub(super) fn start(system: &System, name: &str) -> Self {
        let recording = Recording::start();
        let gpu = GpuClock::calibrate(system.gpu(), recording.clock());
        let own = recording.process(SYSTEM_PROCESS, "System");
        let lane = Lane { process: own, kind: LaneKind::Machine, name: "interrupts and DPCs".into(), handle: 0 };
        let sampler = Sampler::start(system.machine().clone(), system.luid(), recording.lane(lane));
        let process = recording.process(std::process::id(), name);
        Self { recording, process, gpu, sampler }
    }

    /// A lane of the running thread.
    pub(super) fn thread(&self) -> LaneRecorder {
        let process = self.process;
        self.recording.lane(Lane { process, kind: LaneKind::Cpu, name: "main thread".into(), handle: 0 })
    }

    /// A lane of the memory manager's work for this process.
    pub(super) fn paging(&self) -> LaneRecorder {
        let process = self.process;
        self.recording.lane(Lane { process, kind: LaneKind::Paging, name: "make resident".into(), handle: 0 })
    }

    /// From now on the queue tells what it does; `stages` submissions of it are under way at most.
    pub(super) fn follow(
        &self,
        queue: &mut Queue,
        node: Node,
        name: &str,
        device: &Device,
        stages: u64,
    ) -> Result<Stamps, Error> {
        let node = match node {
            Node::Compute => campanile_hw::registers::NODE_COMPUTE,
            Node::Copy => campanile_hw::registers::NODE_COPY,
        };
        let handle = queue.handle();
        let kind = LaneKind::Queue { node };
        let lane = self.recording.lane(Lane { process: self.process, kind, name: name.into(), handle });
        queue.set_tracer(Box::new(self.recording.again(lane.lane())))?;
        let buffer = device.create_buffer(stages * STAMPS as u64, Placement::System)?;
        let mapping = buffer.map()?;
        Ok(Stamps { buffer, mapping, lane, clock: self.gpu, stages })
    }

    /// Everything that was seen, once all lanes are gone.
    pub(super) fn finish(self) -> Trace {
        self.sampler.stop();
        self.recording.finish()
    }
}

/// The GPU's time stamps of one queue.
pub(super) struct Stamps {
    buffer: Buffer,
    mapping: Mapping,
    lane: LaneRecorder,
    clock: GpuClock,
    stages: u64,
}

/// The moments of a submission that are stamped.
#[derive(Clone, Copy)]
pub(super) enum Moment {
    Observed,
    Unblocked,
    Executed,
}

impl Stamps {
    fn place(&self, number: u64) -> usize {
        (number % self.stages) as usize * STAMPS
    }

    /// Records a stamp in submission number `number`.
    pub(super) fn record(&self, commands: &mut Recorder<'_, '_>, number: u64, moment: Moment) -> Result<(), Error> {
        commands.timestamp(self.buffer.gpu_address() + (self.place(number) + moment as usize * 8) as u64)
    }

    /// Takes the stamps of submission `number`, which is done, into the trace.
    pub(super) fn collect(&mut self, number: u64, wait: Option<FenceValue>, signal: FenceValue) -> Result<(), Error> {
        let mut bytes = [0; 24];
        self.mapping.read(self.place(number), &mut bytes)?;
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let (Some(observed), Some(began), Some(end)) = (words.next(), words.next(), words.next()) else {
            return Ok(());
        };
        if let Some(target) = wait {
            let operation = GpuOperation::WaitUnblocked;
            self.lane.gpu(&self.clock, &GpuRecord { operation, target, observed, end: began });
        }
        let from = self.clock.host_time(began);
        let duration = self.clock.host_time(end).saturating_sub(from);
        self.lane.at(from, EventKind::Work { progress: number, duration });
        let operation = GpuOperation::SignalExecuted;
        self.lane.gpu(&self.clock, &GpuRecord { operation, target: signal, observed: 0, end });
        Ok(())
    }
}

/// A fence at a value, as traces name it.
pub(super) fn at(fence: &Fence, value: u64) -> Result<FenceValue, Error> {
    Ok(FenceValue { fence: fence.handle(), value })
}

/// A thread that turns counters into events.
struct Sampler {
    end: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Sampler {
    fn start(machine: Machine, luid: LUID, mut lane: LaneRecorder) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let thread = thread::spawn(move || {
            let mut before = machine.counters(luid).unwrap_or_default();
            loop {
                // Looked at once more after the end, so that nothing counted before it is missing.
                let last = ended.load(Ordering::Acquire);
                let now = machine.counters(luid).unwrap_or_default();
                note(&mut lane, &before, &now);
                before = now;
                if last {
                    return;
                }
                thread::sleep(SAMPLING);
            }
        });
        Self { end, thread }
    }

    fn stop(self) {
        self.end.store(true, Ordering::Release);
        // A sampler that panicked has printed why; its events are lost and the run is not.
        let _ = self.thread.join();
    }
}

fn note(lane: &mut LaneRecorder, before: &Counters, now: &Counters) {
    let interrupts = now.interrupts.wrapping_sub(before.interrupts);
    if interrupts != 0 {
        lane.now(EventKind::Interrupt { count: interrupts });
    }
    let dpcs = now.dpcs.wrapping_sub(before.dpcs);
    if dpcs != 0 {
        lane.now(EventKind::Dpc { count: dpcs });
    }
}
