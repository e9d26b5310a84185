//! The events.

use std::collections::BTreeMap;

/// A process, or the machine itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Number that tools show.
    pub id: u32,
    /// Name that tools show.
    pub name: String,
}

/// Object that a lane shows the events of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneKind {
    /// A hardware queue on a node.
    Queue {
        /// Node ordinal of the engine that runs it.
        node: u32,
    },
    /// A thread of the CPU.
    Cpu,
    /// A paging queue.
    Paging,
    /// Interrupts, DPCs, resets, power.
    Machine,
}

/// A row of the trace: the events of one process, queue or engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Index in [`Trace::processes`].
    pub process: u32,
    /// The process, queue or engine that the lane stands for.
    pub kind: LaneKind,
    /// Name that tools show.
    pub name: String,
    /// Handle of the queue, 0 where there is none.
    pub handle: u32,
}

/// A fence at a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FenceValue {
    /// Handle of the fence in its process.
    pub fence: u32,
    /// The value.
    pub value: u64,
}

/// What happened. Durations are nanoseconds from the event's time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// FENCE_WAIT_QUEUED: the user-mode driver recorded a wait of the GPU.
    FenceWaitQueued(FenceValue),
    /// FENCE_SIGNAL_QUEUED: the user-mode driver recorded a signal of the GPU.
    FenceSignalQueued(FenceValue),
    /// FENCE_SIGNAL_EXECUTED: the GPU set the value.
    FenceSignalExecuted(FenceValue),
    /// FENCE_WAIT_UNBLOCKED: the GPU went on.
    FenceWaitUnblocked {
        /// Fence and value that the queue waited for.
        target: FenceValue,
        /// When the GPU came to the wait, if that is known.
        observed: Option<u64>,
    },
    /// A submission was handed over.
    Submission {
        /// Progress value of the submission.
        progress: u64,
    },
    /// A doorbell was rung.
    DoorbellRing {
        /// Progress value that it announced.
        progress: u64,
    },
    /// A doorbell that had been taken away was connected again.
    DoorbellReconnect {
        /// Progress value submitted last.
        progress: u64,
    },
    /// The engine worked for the queue.
    Work {
        /// Progress value of the submission.
        progress: u64,
        /// Nanoseconds of work.
        duration: u64,
    },
    /// The CPU waited for a fence.
    CpuWait {
        /// Fence and value that the thread waited for.
        target: FenceValue,
        /// Nanoseconds of the wait.
        duration: u64,
    },
    /// A packet of the memory manager was under way.
    Paging {
        /// Bytes of its buffer.
        bytes: u64,
        /// Fence id of the packet.
        fence: u32,
        /// From submission to the report of its end.
        duration: u64,
    },
    /// The driver built a paging operation.
    PagingOperation {
        /// Bytes that it moves or fills, 0 for others.
        bytes: u64,
        /// DXGK_BUILDPAGINGBUFFER_OPERATION.
        operation: u32,
        /// Nanoseconds that DxgkDdiBuildPagingBuffer took.
        duration: u64,
    },
    /// An allocation came to the memory that it prefers.
    Resident {
        /// Size of the allocation.
        bytes: u64,
    },
    /// An allocation had to leave its segment.
    Evicted {
        /// Size of the allocation.
        bytes: u64,
    },
    /// The driver's interrupt routine ran.
    Interrupt {
        /// Message number.
        message: u32,
        /// Nanoseconds that the interrupt routine took.
        duration: u64,
    },
    /// The driver's DPC routine ran.
    Dpc {
        /// Nanoseconds that the DPC routine took.
        duration: u64,
    },
    /// The driver reported something from its interrupt routine.
    Report {
        /// DXGK_INTERRUPT_TYPE.
        kind: u32,
        /// The node that it names, [`NONE`] for none.
        node: u32,
        /// Fences that it names, or the fence id or value that it is about.
        amount: u64,
    },
    /// User mode was shown the physical doorbell.
    DoorbellConnect,
    /// The physical doorbell was taken away.
    DoorbellDisconnect {
        /// D3DDDI_DOORBELLSTATUS that user mode reads instead.
        status: u32,
    },
    /// An engine was reset.
    Reset {
        /// Its node, [`NONE`] for the whole adapter.
        node: u32,
    },
    /// The power state changed.
    PowerState {
        /// The component, [`NONE`] for the whole device.
        component: u32,
        /// Number of the new state: an F-state, or DEVICE_POWER_STATE of the device.
        state: u32,
    },
    /// The source of events was overrun.
    EventsLost {
        /// Number of missing events; 0 if it is unknown.
        count: u64,
    },
    /// A fence log holds what cannot be, or its time goes back.
    LogViolation {
        /// Number of entries that break the rules of fence logs.
        count: u64,
    },
    /// A queue was between the beginning and the end of a label that the program gave its commands.
    Label {
        /// Index in [`Trace::names`].
        name: u32,
        /// From the beginning to the end.
        duration: u64,
    },
    /// The program named one of its objects.
    Named {
        /// Index in [`Trace::names`].
        name: u32,
    },
}

/// No node, no component.
pub const NONE: u32 = u32::MAX;

/// An event without what only its kind knows: how files and pages write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Which kind; a number from [`code`].
    pub code: u64,
    /// First number of the event: a value, a size, a count or a node, by its kind.
    pub amount: u64,
    /// Second number of the event, 0 for kinds that have one number.
    pub detail: u64,
    /// How long, if it is something that takes time.
    pub duration: Option<u64>,
}

/// Numbers of kinds in files and pages. Files that were written keep their meaning, so numbers are never used again.
pub mod code {
    #![allow(missing_docs, reason = "named after the kinds")]
    pub const WAIT: u64 = 1;
    pub const SIGNAL: u64 = 2;
    pub const SUBMISSION: u64 = 3;
    pub const RING: u64 = 4;
    pub const RECONNECT: u64 = 5;
    pub const WORK: u64 = 6;
    pub const CPU_WAIT: u64 = 7;
    pub const PAGING: u64 = 8;
    pub const INTERRUPT: u64 = 9;
    pub const DPC: u64 = 10;
    pub const RESET: u64 = 11;
    pub const POWER: u64 = 12;
    pub const LOST: u64 = 13;
    /// An execution that was never seen queued, as a moment.
    pub const LONE_SIGNAL: u64 = 14;
    /// An end of a wait that was never seen queued, as a moment.
    pub const LONE_WAIT: u64 = 15;
    pub const OPERATION: u64 = 16;
    pub const RESIDENT: u64 = 17;
    pub const EVICTED: u64 = 18;
    pub const REPORT: u64 = 19;
    pub const CONNECT: u64 = 20;
    pub const DISCONNECT: u64 = 21;
    pub const VIOLATION: u64 = 22;
    pub const LABEL: u64 = 23;
    pub const NAMED: u64 = 24;
}

impl EventKind {
    /// Its parts; `None` for what happens to fences on the GPU, which [`operations`](super::operation::operations) joins first.
    pub fn parts(&self) -> Option<Parts> {
        let moment = |code, amount: u64, detail: u64| Parts { code, amount, detail, duration: None };
        let span = |code, amount: u64, detail: u64, duration| Parts { code, amount, detail, duration: Some(duration) };
        Some(match *self {
            Self::FenceWaitQueued(_)
            | Self::FenceSignalQueued(_)
            | Self::FenceSignalExecuted(_)
            | Self::FenceWaitUnblocked { .. } => return None,
            Self::Submission { progress } => moment(code::SUBMISSION, progress, 0),
            Self::DoorbellRing { progress } => moment(code::RING, progress, 0),
            Self::DoorbellReconnect { progress } => moment(code::RECONNECT, progress, 0),
            Self::Work { progress, duration } => span(code::WORK, progress, 0, duration),
            Self::CpuWait { target, duration } => span(code::CPU_WAIT, target.value, target.fence.into(), duration),
            Self::Paging { bytes, fence, duration } => span(code::PAGING, bytes, fence.into(), duration),
            Self::PagingOperation { bytes, operation, duration } => {
                span(code::OPERATION, bytes, operation.into(), duration)
            }
            Self::Resident { bytes } => moment(code::RESIDENT, bytes, 0),
            Self::Evicted { bytes } => moment(code::EVICTED, bytes, 0),
            Self::Interrupt { message, duration } => span(code::INTERRUPT, message.into(), 0, duration),
            Self::Dpc { duration } => span(code::DPC, 0, 0, duration),
            Self::Report { kind, node, amount } => {
                moment(code::REPORT, amount, u64::from(kind) << 32 | u64::from(node))
            }
            Self::DoorbellConnect => moment(code::CONNECT, 0, 0),
            Self::DoorbellDisconnect { status } => moment(code::DISCONNECT, status.into(), 0),
            Self::Reset { node } => moment(code::RESET, 0, node.into()),
            Self::PowerState { component, state } => moment(code::POWER, state.into(), component.into()),
            Self::EventsLost { count } => moment(code::LOST, count, 0),
            Self::LogViolation { count } => moment(code::VIOLATION, count, 0),
            Self::Label { name, duration } => span(code::LABEL, name.into(), 0, duration),
            Self::Named { name } => moment(code::NAMED, name.into(), 0),
        })
    }

    /// The kind with these parts, if there is one.
    pub fn of_parts(parts: &Parts) -> Option<Self> {
        let Parts { code, amount, detail, duration } = *parts;
        let small = |number: u64| u32::try_from(number).ok();
        Some(match (code, duration) {
            (code::SUBMISSION, None) => Self::Submission { progress: amount },
            (code::RING, None) => Self::DoorbellRing { progress: amount },
            (code::RECONNECT, None) => Self::DoorbellReconnect { progress: amount },
            (code::WORK, Some(duration)) => Self::Work { progress: amount, duration },
            (code::CPU_WAIT, Some(duration)) => {
                Self::CpuWait { target: FenceValue { fence: small(detail)?, value: amount }, duration }
            }
            (code::PAGING, Some(duration)) => Self::Paging { bytes: amount, fence: small(detail)?, duration },
            (code::OPERATION, Some(duration)) => {
                Self::PagingOperation { bytes: amount, operation: small(detail)?, duration }
            }
            (code::RESIDENT, None) => Self::Resident { bytes: amount },
            (code::EVICTED, None) => Self::Evicted { bytes: amount },
            (code::INTERRUPT, Some(duration)) => Self::Interrupt { message: small(amount)?, duration },
            (code::DPC, Some(duration)) => Self::Dpc { duration },
            (code::REPORT, None) => Self::Report { kind: (detail >> 32) as u32, node: detail as u32, amount },
            (code::CONNECT, None) => Self::DoorbellConnect,
            (code::DISCONNECT, None) => Self::DoorbellDisconnect { status: small(amount)? },
            (code::RESET, None) => Self::Reset { node: small(detail)? },
            (code::POWER, None) => Self::PowerState { component: small(detail)?, state: small(amount)? },
            (code::LOST, None) => Self::EventsLost { count: amount },
            (code::VIOLATION, None) => Self::LogViolation { count: amount },
            (code::LABEL, Some(duration)) => Self::Label { name: small(amount)?, duration },
            (code::NAMED, None) => Self::Named { name: small(amount)? },
            _ => return None,
        })
    }

    /// Name in files: the page's names where it has one.
    pub fn name(&self) -> &'static str {
        match self {
            Self::FenceWaitQueued(_) => "FENCE_WAIT_QUEUED",
            Self::FenceSignalQueued(_) => "FENCE_SIGNAL_QUEUED",
            Self::FenceSignalExecuted(_) => "FENCE_SIGNAL_EXECUTED",
            Self::FenceWaitUnblocked { .. } => "FENCE_WAIT_UNBLOCKED",
            Self::Submission { .. } => "submission",
            Self::DoorbellRing { .. } => "doorbell ring",
            Self::DoorbellReconnect { .. } => "doorbell reconnect",
            Self::Work { .. } => "work",
            Self::CpuWait { .. } => "CPU wait",
            Self::Paging { .. } => "paging packet",
            Self::PagingOperation { .. } => "paging operation",
            Self::Resident { .. } => "made resident",
            Self::Evicted { .. } => "evicted",
            Self::Interrupt { .. } => "interrupt",
            Self::Dpc { .. } => "DPC",
            Self::Report { .. } => "report",
            Self::DoorbellConnect => "doorbell connected",
            Self::DoorbellDisconnect { .. } => "doorbell disconnected",
            Self::Reset { .. } => "reset",
            Self::PowerState { .. } => "power state",
            Self::EventsLost { .. } => "events lost",
            Self::LogViolation { .. } => "log violation",
            Self::Label { .. } => "label",
            Self::Named { .. } => "named",
        }
    }

    /// The event in a few words, with its numbers.
    pub fn title(&self) -> String {
        let at = |target: FenceValue| format!("{:#x} = {}", target.fence, target.value);
        let name = self.name();
        match *self {
            Self::FenceWaitQueued(target)
            | Self::FenceSignalQueued(target)
            | Self::FenceSignalExecuted(target)
            | Self::FenceWaitUnblocked { target, .. } => format!("{name} {}", at(target)),
            Self::CpuWait { target, .. } => format!("wait {}", at(target)),
            Self::Work { progress, .. } => format!("submission {progress}"),
            Self::Submission { progress } | Self::DoorbellRing { progress } | Self::DoorbellReconnect { progress } => {
                format!("{name} {progress}")
            }
            Self::Paging { bytes, fence, .. } => format!("packet {fence}, {bytes} bytes"),
            Self::PagingOperation { bytes, operation, .. } => match bytes {
                0 => operation_name(operation),
                bytes => format!("{} {bytes} bytes", operation_name(operation)),
            },
            Self::Resident { bytes } | Self::Evicted { bytes } => format!("{name}: {bytes} bytes"),
            Self::Interrupt { message, .. } => format!("interrupt {message}"),
            Self::Dpc { .. } | Self::DoorbellConnect => name.to_owned(),
            Self::Report { kind, node, amount } => match node {
                NONE => format!("{} {amount}", report_name(kind)),
                node => format!("{} {amount} on node {node}", report_name(kind)),
            },
            Self::DoorbellDisconnect { status } => format!("{name}, status {status}"),
            Self::Reset { node: NONE } => "reset of the adapter".to_owned(),
            Self::Reset { node } => format!("reset of node {node}"),
            Self::PowerState { component: NONE, state } => format!("device power state D{}", i64::from(state) - 1),
            Self::PowerState { component, state } => format!("component {component} in F{state}"),
            Self::EventsLost { count } => format!("{count} events lost"),
            Self::LogViolation { count } => format!("{count} entries break the rules of a log"),
            Self::Label { name: number, .. } | Self::Named { name: number } => format!("{name} {number}"),
        }
    }

    /// The index of a name that the event is about.
    pub fn name_index(&self) -> Option<u32> {
        match *self {
            Self::Label { name, .. } | Self::Named { name } => Some(name),
            _ => None,
        }
    }

    /// How long it took, if it is something that takes time.
    pub fn duration(&self) -> Option<u64> {
        self.parts().and_then(|parts| parts.duration)
    }
}

/// Name of a DXGK_INTERRUPT_TYPE.
pub fn report_name(kind: u32) -> String {
    dxgkrnl::interrupt_name(kind.cast_signed()).map_or_else(|| format!("report {kind}"), str::to_owned)
}

/// Name of a DXGK_BUILDPAGINGBUFFER_OPERATION.
pub fn operation_name(operation: u32) -> String {
    use wddm_ddi::km::DXGK_BUILDPAGINGBUFFER_OPERATION as Op;
    let name = match Op(operation as i32) {
        Op::DXGK_OPERATION_VIRTUAL_TRANSFER => "transfer",
        Op::DXGK_OPERATION_VIRTUAL_FILL => "fill",
        Op::DXGK_OPERATION_UPDATE_PAGE_TABLE => "update page table",
        Op::DXGK_OPERATION_FLUSH_TLB => "flush TLB",
        Op::DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION => "update context allocation",
        Op::DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES => "copy page table entries",
        Op::DXGK_OPERATION_NOTIFY_RESIDENCY => "notify residency",
        Op::DXGK_OPERATION_SIGNAL_MONITORED_FENCE => "signal monitored fence",
        _ => return format!("paging operation {operation}"),
    };
    name.to_owned()
}

/// Something that happened on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds since an arbitrary start that all events share.
    pub time: u64,
    /// Index in [`Trace::lanes`].
    pub lane: u32,
    /// What.
    pub kind: EventKind,
}

/// Everything that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Processes.
    pub processes: Vec<Process>,
    /// Lanes.
    pub lanes: Vec<Lane>,
    /// Events.
    pub events: Vec<Event>,
    /// Texts of labels, and of names that programs gave their objects.
    pub names: Vec<String>,
    /// Names of fences, by index of the process and handle.
    pub fences: BTreeMap<(u32, u32), String>,
}

impl Trace {
    /// The event in a few words: the name that it is about, if there is one, otherwise its title.
    pub fn title(&self, event: &Event) -> String {
        let name = event.kind.name_index().and_then(|index| self.names.get(index as usize));
        name.cloned().unwrap_or_else(|| event.kind.title())
    }

    /// The name of a fence that a lane's events are about.
    pub fn fence_name(&self, lane: u32, fence: u32) -> Option<&str> {
        let process = self.lanes.get(lane as usize)?.process;
        self.fences.get(&(process, fence)).map(String::as_str)
    }

    /// Adds a process; its index.
    pub fn add_process(&mut self, id: u32, name: &str) -> u32 {
        self.processes.push(Process { id, name: name.to_owned() });
        (self.processes.len() - 1) as u32
    }

    /// Adds a lane; its index.
    pub fn add_lane(&mut self, lane: Lane) -> u32 {
        self.lanes.push(lane);
        (self.lanes.len() - 1) as u32
    }

    /// Orders the events by time; those of one moment stay in the order in which they were added.
    pub fn sort(&mut self) {
        self.events.sort_by_key(|event| event.time);
    }
}
