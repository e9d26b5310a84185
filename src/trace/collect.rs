//! Collecting what the operating-system side knows of an adapter while it runs: the GPU's fence logs, enlarged first, and the
//! events of its driver.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dxgkrnl::{FenceLog, FenceOperation, Machine, QueueFenceLog, TraceEvent, TraceKind};
use wddm_ddi::km::DXGK_INTERRUPT_TYPE;
use wddm_ddi::status::NTSTATUS;
use wddm_ddi::types::LUID;

use super::kept::{Found, Kept, Window};
use super::naming::Naming;
use super::{
    EventKind, FenceValue, GpuClock, GpuOperation, GpuRecord, HostClock, Lane, LaneKind, LaneRecorder, NONE, Recording,
    Trace,
};

/// Entries of a log while it is traced: more than a GPU writes between two looks, and some.
const LOG_ENTRIES: u32 = 1 << 14;
/// Events of the driver that are kept between two looks.
const EVENTS: u32 = 1 << 17;
/// Time between two fetches of the fence logs and the driver's events.
const PERIOD: Duration = Duration::from_millis(5);
/// Process number of the system, as on Windows.
const SYSTEM_PROCESS: u32 = 4;

/// Collects until it is finished.
pub struct Collector {
    machine: Machine,
    luid: LUID,
    recording: Recording,
    /// The clock of each node, as it was read at the start.
    clocks: Vec<GpuClock>,
    /// Lanes of queues by process and handle.
    lanes: Mutex<HashMap<(u64, u32), u32>>,
    end: Arc<AtomicBool>,
    kept: Arc<Mutex<Kept>>,
    thread: JoinHandle<()>,
}

impl Collector {
    /// Starts to collect into `recording`. Fence logs are enlarged before anything else.
    ///
    /// # Errors
    /// What the machine answered; nothing is traced then.
    pub fn start(machine: &Machine, luid: LUID, recording: &Recording) -> Result<Self, NTSTATUS> {
        Self::start_keeping(machine, luid, recording, None)
    }

    /// As [`Collector::start`]; with a window, what is older than twice its length is given up.
    ///
    /// # Errors
    /// As there.
    pub fn start_keeping(
        machine: &Machine,
        luid: LUID,
        recording: &Recording,
        window: Option<Duration>,
    ) -> Result<Self, NTSTATUS> {
        machine.trace_fences(luid, Some(LOG_ENTRIES))?;
        if let Err(status) = machine.trace(luid, Some(EVENTS)) {
            let _ = machine.trace_fences(luid, None);
            return Err(status);
        }
        let calibrate = |node| GpuClock::calibrate(machine, luid, node, recording.clock());
        let clocks = (0..).map_while(calibrate).collect();
        // What was logged before is not of this recording, nor is what was lost then.
        Kept::default().fetch(machine, luid);
        let end = Arc::new(AtomicBool::new(false));
        let (watched, ended) = (machine.clone(), Arc::clone(&end));
        let kept = Arc::new(Mutex::new(Kept { found: Found::default(), window: window.map(Window::new) }));
        let of_thread = Arc::clone(&kept);
        let thread = thread::spawn(move || fetch(&watched, luid, &ended, &of_thread));
        let (machine, recording) = (machine.clone(), recording.clone());
        Ok(Self { machine, luid, recording, clocks, lanes: Mutex::default(), end, kept, thread })
    }

    /// Assigns the log entries of a queue, by its process and handle, to this lane.
    pub fn follow(&self, process: u64, handle: u32, lane: u32) {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).insert((process, handle), lane);
    }

    /// The adapter that is traced.
    pub fn luid(&self) -> LUID {
        self.luid
    }

    /// The clocks of the nodes, read again, for two clocks never run at quite the same rate.
    fn clocks(&self) -> Vec<GpuClock> {
        let later = |node| GpuClock::calibrate(&self.machine, self.luid, node, self.recording.clock());
        let clocks = (0..).zip(&self.clocks);
        clocks.map(|(node, first)| later(node).map_or(*first, |later| first.until(&later))).collect()
    }

    /// What was collected up to now, by the clock of the recording, which it is not put into. Collecting goes on with all of it.
    pub fn kept(&self) -> Trace {
        let clocks = self.clocks();
        let found = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.fetch(&self.machine, self.luid);
            kept.clone()
        }
        .whole(&self.machine, self.luid);
        let copy = self.recording.beside();
        // Lanes that are followed are those of the recording.
        Assembly::new(&copy, &clocks, HashMap::new(), &found).run();
        copy.finish()
    }

    /// Fetches the rest, which includes what queues that are gone have left, and puts everything into the recording.
    pub fn finish(self) {
        let clocks = self.clocks();
        self.end.store(true, Ordering::Release);
        let ended = self.thread.join();
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let mut found = kept.whole(&self.machine, self.luid);
        // A thread that panicked has printed why; the trace says that something is missing.
        found.lost.extend(ended.err().map(|_| (0, 0)));
        let lanes = self.lanes.into_inner().unwrap_or_else(PoisonError::into_inner);
        Assembly::new(&self.recording, &clocks, lanes, &found).run();
    }
}

fn fetch(machine: &Machine, luid: LUID, ended: &AtomicBool, kept: &Mutex<Kept>) {
    loop {
        let last = ended.load(Ordering::Acquire);
        {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.fetch(machine, luid);
            let Kept { found, window } = &mut *kept;
            if let Some(window) = window.as_mut().filter(|_| !last) {
                window.turn(found);
            }
        }
        if last {
            // An adapter that is gone traces nothing any more.
            let _ = machine.trace(luid, None);
            let _ = machine.trace_fences(luid, None);
            return;
        }
        thread::sleep(PERIOD);
    }
}

/// A packet that the driver has.
#[derive(Clone, Copy)]
struct Packet {
    began: u64,
    bytes: u32,
    paging: bool,
}

/// Turns what was found into events on lanes.
struct Assembly<'a> {
    recording: &'a Recording,
    clocks: &'a [GpuClock],
    host: HostClock,
    found: &'a Found,
    system: u32,
    /// Lanes of queues by the system's identity.
    queues: HashMap<u64, u32>,
    /// Lanes of the system by name.
    own: BTreeMap<String, LaneRecorder>,
    packets: HashMap<(u32, u32), Packet>,
    naming: Naming<'a>,
}

impl<'a> Assembly<'a> {
    fn new(
        recording: &'a Recording,
        clocks: &'a [GpuClock],
        lanes: HashMap<(u64, u32), u32>,
        found: &'a Found,
    ) -> Self {
        let system = recording.process(SYSTEM_PROCESS, "System");
        let mut naming = Naming::new(recording, recording.clock(), &found.names, &found.programs);
        let mut queues = HashMap::new();
        let (named, unnamed) = found.logs.iter().partition::<Vec<_>, _>(|log| log.handle != 0);
        for log in named.into_iter().chain(unnamed) {
            queues.entry(log.queue).or_insert_with(|| match lanes.get(&(log.process, log.handle)) {
                Some(lane) => *lane,
                None => {
                    let name = naming.queue(log.process, log.handle).map(str::to_owned);
                    let name = name.unwrap_or_else(|| format!("queue of {}", naming.program_name(log.process)));
                    let kind = LaneKind::Queue { node: log.node };
                    let process = naming.program(log.process).unwrap_or(system);
                    recording.lane(Lane { process, kind, name, handle: log.handle }).lane()
                }
            });
        }
        let (own, packets) = (BTreeMap::new(), HashMap::new());
        Self { recording, clocks, host: recording.clock(), found, system, queues, own, packets, naming }
    }

    fn run(mut self) {
        for log in &self.found.logs {
            let Some(lane) = self.queues.get(&log.queue).copied() else { continue };
            self.log(lane, log, &log.waits);
            self.log(lane, log, &log.signals);
        }
        let mut lost = self.found.lost.iter().peekable();
        for (index, event) in self.found.events.iter().enumerate() {
            while let Some((_, count)) = lost.next_if(|(before, _)| *before <= index) {
                let time = self.host.of(event.began);
                self.interrupts().at(time, EventKind::EventsLost { count: *count });
            }
            self.event(event);
        }
        for (_, count) in lost {
            let time = self.host.now();
            self.interrupts().at(time, EventKind::EventsLost { count: *count });
        }
        let now = self.host.now();
        for ((node, fence), packet) in std::mem::take(&mut self.packets) {
            self.packet(node, fence, packet, now);
        }
        self.naming.finish(now);
    }

    /// Entries of one log, in front of them how many came before and were overrun. Progress says nothing that the end of the submission does
    /// not say.
    fn log(&mut self, number: u32, of: &QueueFenceLog, log: &FenceLog) {
        let mut lane = self.recording.again(number);
        let Some(clock) = self.clocks.get(of.node as usize) else {
            // Without a common clock there is no place for them.
            let count = log.lost + log.entries.len() as u64;
            return if count != 0 {
                lane.now(EventKind::EventsLost { count })
            };
        };
        let first =
            log.entries.iter().find(|entry| entry.end != 0).map_or(self.host.now(), |entry| clock.host_time(entry.end));
        if log.lost != 0 {
            lane.at(first, EventKind::EventsLost { count: log.lost });
        }
        if log.violations != 0 {
            lane.at(first, EventKind::LogViolation { count: log.violations });
        }
        for entry in log.entries.iter().filter(|entry| entry.fence != of.progress_fence) {
            let operation = match entry.operation {
                FenceOperation::SignalExecuted => GpuOperation::SignalExecuted,
                FenceOperation::WaitUnblocked => GpuOperation::WaitUnblocked,
            };
            let target = FenceValue { fence: entry.fence, value: entry.value };
            if operation == GpuOperation::SignalExecuted
                && entry.end != 0
                && self.naming.take(of.process, number, clock.host_time(entry.end), target)
            {
                continue;
            }
            lane.gpu(clock, &GpuRecord { operation, target, observed: entry.observed, end: entry.end });
        }
    }

    fn own(&mut self, kind: LaneKind, name: &str) -> &mut LaneRecorder {
        if !self.own.contains_key(name) {
            let lane = Lane { process: self.system, kind, name: name.to_owned(), handle: 0 };
            self.own.insert(name.to_owned(), self.recording.lane(lane));
        }
        self.own.entry(name.to_owned()).or_insert_with(|| unreachable!("it was just inserted"))
    }

    fn interrupts(&mut self) -> &mut LaneRecorder {
        self.own(LaneKind::Machine, "interrupts and DPCs")
    }

    fn power(&mut self) -> &mut LaneRecorder {
        self.own(LaneKind::Machine, "resets and power")
    }

    fn memory(&mut self) -> &mut LaneRecorder {
        self.own(LaneKind::Paging, "memory manager")
    }

    fn event(&mut self, event: &TraceEvent) {
        let (time, duration) = (self.host.of(event.began), event.took);
        match event.kind {
            TraceKind::Interrupt { message, .. } => {
                self.interrupts().at(time, EventKind::Interrupt { message, duration });
            }
            TraceKind::Dpc => self.interrupts().at(time, EventKind::Dpc { duration }),
            TraceKind::Report { kind, node, fences, value } => {
                let (kind, amount) = (kind as u32, value.max(fences.into()));
                let report = EventKind::Report { kind, node: node.unwrap_or(NONE), amount };
                self.interrupts().at(time, report);
                if let (DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_COMPLETED, Some(node)) =
                    (DXGK_INTERRUPT_TYPE(kind as i32), node)
                {
                    self.completed(node, value as u32, time);
                }
            }
            TraceKind::PacketSubmitted { node, fence, bytes, paging } => {
                self.packets.insert((node, fence), Packet { began: time, bytes, paging });
            }
            TraceKind::PagingOperation { operation, bytes } => {
                let operation = operation as u32;
                self.memory().at(time, EventKind::PagingOperation { bytes, operation, duration });
            }
            TraceKind::Resident { bytes } => self.memory().at(time, EventKind::Resident { bytes }),
            TraceKind::Evicted { bytes } => self.memory().at(time, EventKind::Evicted { bytes }),
            TraceKind::DoorbellConnected { queue } => self.on_queue(queue, time, EventKind::DoorbellConnect),
            TraceKind::DoorbellDisconnected { queue, status } => {
                self.on_queue(queue, time, EventKind::DoorbellDisconnect { status: status as u32 });
            }
            TraceKind::EngineReset { node } => self.power().at(time, EventKind::Reset { node }),
            TraceKind::AdapterReset => self.power().at(time, EventKind::Reset { node: NONE }),
            TraceKind::DevicePower { state } => {
                self.power().at(time, EventKind::PowerState { component: NONE, state: state as u32 });
            }
            TraceKind::ComponentPower { component, state } => {
                self.power().at(time, EventKind::PowerState { component, state });
            }
        }
    }

    fn on_queue(&mut self, queue: u64, time: u64, kind: EventKind) {
        match self.queues.get(&queue) {
            Some(lane) => self.recording.again(*lane).at(time, kind),
            None => self.own(LaneKind::Machine, "doorbells of queues without logs").at(time, kind),
        }
    }

    /// All packets of a node up to `fence` are complete.
    fn completed(&mut self, node: u32, fence: u32, time: u64) {
        let done = |id: u32| fence.wrapping_sub(id) < 1 << 31;
        let ids: Vec<u32> =
            self.packets.keys().filter(|(of, id)| *of == node && done(*id)).map(|(_, id)| *id).collect();
        for id in ids {
            if let Some(packet) = self.packets.remove(&(node, id)) {
                self.packet(node, id, packet, time);
            }
        }
    }

    fn packet(&mut self, node: u32, fence: u32, packet: Packet, end: u64) {
        let name = if packet.paging { format!("paging on node {node}") } else { format!("packets on node {node}") };
        let duration = end.saturating_sub(packet.began);
        let kind = EventKind::Paging { bytes: packet.bytes.into(), fence, duration };
        self.own(LaneKind::Paging, &name).at(packet.began, kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dxgkrnl::{DebugName, FenceLogEntry};

    const CLOCK: GpuClock = GpuClock { ticks: 0, host: 0, hz: 1_000_000_000 };

    fn assembled(found: &Found) -> Trace {
        let recording = Recording::start();
        let process = recording.process(7, "test");
        let kind = LaneKind::Queue { node: 0 };
        let lane = recording.lane(Lane { process, kind, name: "followed".into(), handle: 0x40 }).lane();
        Assembly::new(&recording, &[CLOCK], HashMap::from([((9, 0x40), lane)]), found).run();
        recording.finish()
    }

    fn signals(handle: u32, log: FenceLog) -> QueueFenceLog {
        let waits = FenceLog::default();
        QueueFenceLog { queue: u64::from(handle), node: 0, process: 9, progress_fence: 99, handle, waits, signals: log }
    }

    fn entry(value: u64, end: u64) -> FenceLogEntry {
        FenceLogEntry { operation: FenceOperation::SignalExecuted, fence: 3, value, observed: 0, end }
    }

    fn event(kind: TraceKind) -> TraceEvent {
        TraceEvent { began: dxgkrnl::nanoseconds(), took: 10, adapter: None, kind }
    }

    fn named<'a>(trace: &'a Trace, lane: &str) -> Vec<&'a EventKind> {
        let index = trace.lanes.iter().position(|found| found.name == lane).expect("the lane");
        trace.events.iter().filter(|event| event.lane == index as u32).map(|event| &event.kind).collect()
    }

    #[test]
    fn logs_of_followed_queues_come_to_their_lanes_and_those_of_others_to_new_ones() {
        let found = Found {
            logs: vec![
                signals(0x40, FenceLog { entries: vec![entry(1, 100)], lost: 0, violations: 0 }),
                signals(0x80, FenceLog { entries: vec![entry(2, 200)], lost: 0, violations: 0 }),
            ],
            ..Found::default()
        };
        let trace = assembled(&found);
        let at = |value| EventKind::FenceSignalExecuted(FenceValue { fence: 3, value });
        assert_eq!(named(&trace, "followed"), [&at(1)]);
        assert_eq!(named(&trace, "queue of process 0x9"), [&at(2)]);
    }

    #[test]
    fn what_programs_named_is_called_so_and_labels_last_from_their_beginning_to_their_end() {
        use dxgkrnl::DebugNameOf as Of;
        let name = |of, object, part, text: &str| {
            let given = dxgkrnl::nanoseconds();
            DebugName { process: 9, of, object, part, given, text: text.into() }
        };
        let names = vec![
            name(Of::Queue, 0x80, 0, "physics"),
            name(Of::Fence, 3, 0, "frame done"),
            name(Of::Fence, 5, 1, "outer"),
            name(Of::Fence, 5, 2, "inner"),
            name(Of::Memory, 0xc0, 7, "buffer positions"),
        ];
        let mark = |value, end| FenceLogEntry { fence: 5, ..entry(value, end) };
        // An inner end of which the beginning is not in the trace, then two labels in one another, and one without an end.
        let entries = vec![mark(0, 5), mark(1, 10), mark(2, 20), entry(1, 25), mark(0, 30), mark(0, 40), mark(1, 50)];
        let log = FenceLog { entries, lost: 0, violations: 0 };
        let trace = assembled(&Found { logs: vec![signals(0x80, log)], names, ..Found::default() });
        let lane = trace.lanes.iter().position(|lane| lane.name == "physics").expect("the queue") as u32;
        assert_eq!(trace.processes[trace.lanes[lane as usize].process as usize].name, "process 0x9");
        assert_eq!(trace.fence_name(lane, 3), Some("frame done"));
        let labels: Vec<_> = trace
            .events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::Label { .. }))
            .map(|event| (event.time, trace.title(event), event.kind.duration()))
            .collect();
        assert_eq!(labels[..2], [(10, "outer".to_owned(), Some(30)), (20, "inner".to_owned(), Some(10))]);
        assert!(labels[2].1 == "outer" && labels[2].0 == 50 && labels.len() == 3);
        let signals = named(&trace, "physics").into_iter().filter(|kind| kind.duration().is_none()).count();
        assert_eq!(signals, 1, "what begins and ends labels is no signal of the program's");
        let [EventKind::Named { name }] = named(&trace, "names")[..] else { panic!("one name of memory") };
        assert_eq!(trace.names[*name as usize], "buffer positions");
    }

    #[test]
    fn an_overrun_log_and_a_broken_one_say_so_in_front_of_what_is_left() {
        let log = FenceLog { entries: vec![entry(50, 1000)], lost: 12, violations: 1 };
        let trace = assembled(&Found { logs: vec![signals(0x40, log)], ..Found::default() });
        let kinds = named(&trace, "followed");
        assert_eq!(kinds[..2], [&EventKind::EventsLost { count: 12 }, &EventKind::LogViolation { count: 1 }]);
        assert_eq!(kinds.len(), 3);
    }

    #[test]
    fn events_of_the_driver_come_to_lanes_of_the_system_and_packets_end_when_they_are_reported() {
        let completed = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_DMA_COMPLETED.0;
        let packet = |fence| TraceKind::PacketSubmitted { node: 2, fence, bytes: 64, paging: true };
        let events = [
            packet(u32::MAX),
            packet(0),
            packet(1),
            TraceKind::Interrupt { message: 0, claimed: true },
            TraceKind::Report { kind: completed, node: Some(2), fences: 0, value: 0 },
            TraceKind::Dpc,
            TraceKind::EngineReset { node: 1 },
            TraceKind::DevicePower { state: 4 },
            TraceKind::ComponentPower { component: 0, state: 1 },
            TraceKind::PagingOperation { operation: 8, bytes: 4096 },
            TraceKind::Evicted { bytes: 8192 },
            TraceKind::DoorbellConnected { queue: 0x40 },
        ];
        let found = Found {
            logs: vec![signals(0x40, FenceLog::default())],
            events: events.map(event).to_vec(),
            lost: vec![(3, 77)],
            ..Found::default()
        };
        let trace = assembled(&found);
        assert_eq!(
            named(&trace, "interrupts and DPCs"),
            [
                &EventKind::EventsLost { count: 77 },
                &EventKind::Interrupt { message: 0, duration: 10 },
                &EventKind::Report { kind: 1, node: 2, amount: 0 },
                &EventKind::Dpc { duration: 10 },
            ]
        );
        assert_eq!(named(&trace, "paging on node 2").len(), 3, "two ended by the report, one by the end of the trace");
        assert_eq!(named(&trace, "resets and power").len(), 3);
        assert_eq!(named(&trace, "memory manager").len(), 2);
        assert_eq!(named(&trace, "followed"), [&EventKind::DoorbellConnect]);
    }
}
