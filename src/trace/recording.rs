//! Collecting events while the machine runs.

use std::sync::{Arc, Mutex, PoisonError};

use campanile_umd::{QueueEvent, Tracer};

use super::{Event, EventKind, FenceValue, GpuClock, HostClock, Lane, Moment, QuickClock, Trace, work};

/// A trace in the making. Clones share it.
#[derive(Clone, Debug)]
pub struct Recording {
    clock: HostClock,
    quick: QuickClock,
    trace: Arc<Mutex<Trace>>,
}

/// Adds events to one lane; collects them by itself and hands them over when it is dropped.
#[derive(Debug)]
pub struct LaneRecorder {
    recording: Recording,
    lane: u32,
    events: Vec<Event>,
    /// Events that the user-mode driver reported, with their time on the quick clock.
    told: Vec<(Moment, QueueEvent)>,
}

/// Kind of a fence log's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuOperation {
    /// It set the value.
    SignalExecuted,
    /// It went on after a wait.
    WaitUnblocked,
}

/// What the GPU says of one operation on a fence, in ticks of its own clock: the content of an entry in a fence log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuRecord {
    /// Wait or signal.
    pub operation: GpuOperation,
    /// Fence and value of the operation.
    pub target: FenceValue,
    /// When the GPU came to it; 0 if it did not say.
    pub observed: u64,
    /// When it was done; 0 if the GPU did not say.
    pub end: u64,
}

impl Recording {
    /// An empty one, whose clock starts now.
    pub fn start() -> Self {
        Self { clock: HostClock::start(), quick: QuickClock::start(), trace: Arc::default() }
    }

    /// An empty one by the same clock.
    pub fn beside(&self) -> Self {
        Self { clock: self.clock, quick: self.quick, trace: Arc::default() }
    }

    /// The clock of its events.
    pub fn clock(&self) -> HostClock {
        self.clock
    }

    fn with<T>(&self, change: impl FnOnce(&mut Trace) -> T) -> T {
        change(&mut self.trace.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a process; its index.
    pub fn process(&self, id: u32, name: &str) -> u32 {
        self.with(|trace| trace.add_process(id, name))
    }

    /// Adds a text that events name; its index.
    pub fn name(&self, text: &str) -> u32 {
        self.with(|trace| {
            trace.names.push(text.to_owned());
            (trace.names.len() - 1) as u32
        })
    }

    /// Names a fence of a process, which is an index.
    pub fn fence(&self, process: u32, handle: u32, name: &str) {
        self.with(|trace| trace.fences.insert((process, handle), name.to_owned()));
    }

    /// Adds a lane.
    pub fn lane(&self, lane: Lane) -> LaneRecorder {
        let lane = self.with(|trace| trace.add_lane(lane));
        self.again(lane)
    }

    /// One more recorder for a lane.
    pub fn again(&self, lane: u32) -> LaneRecorder {
        LaneRecorder { recording: self.clone(), lane, events: Vec::new(), told: Vec::new() }
    }

    /// Everything that recorders have handed over, in order of time, and what follows from it of the work of engines.
    pub fn finish(&self) -> Trace {
        let mut trace = self.with(std::mem::take);
        trace.sort();
        work::add(&mut trace);
        trace
    }
}

impl LaneRecorder {
    /// The lane.
    pub fn lane(&self) -> u32 {
        self.lane
    }

    /// Something happens now.
    pub fn now(&mut self, kind: EventKind) {
        self.at(self.recording.clock.now(), kind);
    }

    /// Something happened at `time`.
    pub fn at(&mut self, time: u64, kind: EventKind) {
        self.events.push(Event { time, lane: self.lane, kind });
    }

    /// The time.
    pub fn time(&self) -> u64 {
        self.recording.clock.now()
    }

    /// Adds what the GPU says. A record without a time tells nothing that a timeline could show, and is left out.
    pub fn gpu(&mut self, clock: &GpuClock, record: &GpuRecord) {
        if record.end == 0 {
            return;
        }
        let kind = match record.operation {
            GpuOperation::SignalExecuted => EventKind::FenceSignalExecuted(record.target),
            GpuOperation::WaitUnblocked => EventKind::FenceWaitUnblocked {
                target: record.target,
                observed: (record.observed != 0).then(|| clock.host_time(record.observed.min(record.end))),
            },
        };
        self.at(clock.host_time(record.end), kind);
    }

    /// Makes events of what the driver told.
    fn add_told(&mut self) {
        let (told, calendar) = (std::mem::take(&mut self.told), self.recording.quick.calendar());
        for (moment, event) in told {
            self.add(self.recording.clock.of(calendar.nanoseconds(moment)), event);
        }
    }

    fn add(&mut self, time: u64, event: QueueEvent) {
        match event {
            QueueEvent::WaitQueued { fence, value } => {
                self.at(time, EventKind::FenceWaitQueued(FenceValue { fence, value }));
            }
            QueueEvent::SignalQueued { fence, value } => {
                self.at(time, EventKind::FenceSignalQueued(FenceValue { fence, value }));
            }
            QueueEvent::Submitted { progress, rung } => {
                self.at(time, EventKind::Submission { progress });
                if rung {
                    self.at(time, EventKind::DoorbellRing { progress });
                }
            }
            QueueEvent::Reconnected { progress } => self.at(time, EventKind::DoorbellReconnect { progress }),
        }
    }
}

impl Tracer for LaneRecorder {
    fn event(&mut self, event: QueueEvent) {
        self.told.push((self.recording.quick.now(), event));
    }
}

impl Drop for LaneRecorder {
    fn drop(&mut self) {
        if !self.told.is_empty() {
            self.add_told();
        }
        let events = std::mem::take(&mut self.events);
        self.recording.with(|trace| trace.events.extend(events));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::LaneKind;

    fn lane(recording: &Recording) -> LaneRecorder {
        let process = recording.process(1, "test");
        recording.lane(Lane { process, kind: LaneKind::Queue { node: 1 }, name: "queue".into(), handle: 0x40 })
    }

    #[test]
    fn what_the_driver_tells_comes_out_in_order() {
        let recording = Recording::start();
        let mut lane = lane(&recording);
        lane.event(QueueEvent::SignalQueued { fence: 5, value: 9 });
        lane.event(QueueEvent::Submitted { progress: 1, rung: true });
        lane.event(QueueEvent::Reconnected { progress: 1 });
        drop(lane);
        let kinds: Vec<EventKind> = recording.finish().events.iter().map(|event| event.kind).collect();
        let expected = [
            EventKind::FenceSignalQueued(FenceValue { fence: 5, value: 9 }),
            EventKind::Submission { progress: 1 },
            EventKind::DoorbellRing { progress: 1 },
            EventKind::DoorbellReconnect { progress: 1 },
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn records_of_the_gpu_come_to_the_hosts_clock_and_those_without_a_time_are_left_out() {
        let recording = Recording::start();
        let mut lane = lane(&recording);
        let clock = GpuClock { ticks: 100, host: 1000, hz: 1_000_000_000 };
        let target = FenceValue { fence: 5, value: 9 };
        let record = GpuRecord { operation: GpuOperation::WaitUnblocked, target, observed: 120, end: 150 };
        lane.gpu(&clock, &record);
        lane.gpu(&clock, &GpuRecord { end: 0, ..record });
        lane.gpu(&clock, &GpuRecord { observed: 0, ..record });
        drop(lane);
        let events = recording.finish().events;
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].time, 1050);
        assert_eq!(events[0].kind, EventKind::FenceWaitUnblocked { target, observed: Some(1020) });
        assert_eq!(events[1].kind, EventKind::FenceWaitUnblocked { target, observed: None });
    }
}
