//! Tracing of a run: its queues report when they record and submit, its main thread when it waits, and a [`Collector`] fetches the GPU's fence logs
//! and the events of the driver. The work itself is the same as without a trace.

use dxgkrnl::Process;

use crate::trace::{Collector, FenceValue, Lane, LaneKind, LaneRecorder, Recording, Trace};
use testbed::setup::{SetupError, System};
use testbed::user::{Error, Fence, Node, Queue};

/// The trace of a run.
pub(super) struct Tracing {
    recording: Recording,
    collector: Collector,
    /// The process in the trace, and in the system.
    process: u32,
    id: u64,
}

impl Tracing {
    /// Starts to trace what `process` does.
    pub(super) fn start(system: &System, process: &Process, name: &str) -> Result<Self, SetupError> {
        let recording = Recording::start();
        let collector = Collector::start(system.machine(), system.luid(), &recording)
            .map_err(|status| SetupError::new("The run could not be traced", status, "Run it without --trace"))?;
        Ok(Self { process: recording.process(std::process::id(), name), recording, collector, id: process.id() })
    }

    /// A lane of the running thread.
    pub(super) fn thread(&self) -> LaneRecorder {
        let process = self.process;
        self.recording.lane(Lane { process, kind: LaneKind::Cpu, name: "main thread".into(), handle: 0 })
    }

    /// From now on the queue tells what it does.
    pub(super) fn follow(&self, queue: &mut Queue, node: Node, name: &str) -> Result<(), Error> {
        let node = match node {
            Node::Compute => campanile_hw::registers::NODE_COMPUTE,
            Node::Copy => campanile_hw::registers::NODE_COPY,
        };
        let (kind, handle) = (LaneKind::Queue { node }, queue.handle());
        let lane = self.recording.lane(Lane { process: self.process, kind, name: name.into(), handle });
        self.collector.follow(self.id, handle, lane.lane());
        queue.set_tracer(Box::new(lane))
    }

    /// Everything that was seen, once all lanes are gone.
    pub(super) fn finish(self) -> Trace {
        self.collector.finish();
        self.recording.finish()
    }
}

/// A fence at a value, as traces name it.
pub(super) fn at(fence: &Fence, value: u64) -> FenceValue {
    FenceValue { fence: fence.handle(), value }
}
