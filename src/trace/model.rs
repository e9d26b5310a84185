//! The events.

/// A process, or the machine itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Number that tools show.
    pub id: u32,
    /// Name that tools show.
    pub name: String,
}

/// What a lane stands for.
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

/// Where events happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Index in [`Trace::processes`].
    pub process: u32,
    /// What it stands for.
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
        /// What it waited for.
        target: FenceValue,
        /// When the GPU came to the wait, if that is known.
        observed: Option<u64>,
    },
    /// A submission was handed over.
    Submission {
        /// Its progress value.
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
        /// How long.
        duration: u64,
    },
    /// The CPU waited for a fence.
    CpuWait {
        /// What it waited for.
        target: FenceValue,
        /// How long.
        duration: u64,
    },
    /// Memory was made resident, moved or given back.
    Paging {
        /// How much, in bytes.
        bytes: u64,
        /// How long.
        duration: u64,
    },
    /// Interrupts were raised since the last such event.
    Interrupt {
        /// How many.
        count: u64,
    },
    /// DPCs ran since the last such event.
    Dpc {
        /// How many.
        count: u64,
    },
    /// An engine or the adapter was reset.
    Reset,
    /// The power state changed.
    PowerState {
        /// Number of the new state; 0 is full power.
        state: u64,
    },
    /// The source of events was overrun.
    EventsLost {
        /// How many are missing, 0 if unknown.
        count: u64,
    },
}

impl EventKind {
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
            Self::Paging { .. } => "paging",
            Self::Interrupt { .. } => "interrupt",
            Self::Dpc { .. } => "DPC",
            Self::Reset => "reset",
            Self::PowerState { .. } => "power state",
            Self::EventsLost { .. } => "events lost",
        }
    }

    /// How long it took, if it is something that takes time.
    pub fn duration(&self) -> Option<u64> {
        match *self {
            Self::Work { duration, .. } | Self::CpuWait { duration, .. } | Self::Paging { duration, .. } => {
                Some(duration)
            }
            _ => None,
        }
    }
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
}

impl Trace {
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
