//! What a machine is asked by its control connection, and what it answers.

use std::time::Duration;

use campanile_conformance::report::Counts;
use dxgkrnl::{Overview, ProcessOverview};
use serde::{Deserialize, Serialize};
use testbed::programs::Pids;

/// Power of the first adapter, or of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PowerState {
    /// The adapter is brought to D0.
    D0,
    /// The adapter goes to D3; the next work wakes it.
    D3,
    /// The machine sleeps and wakes again: adapters go to D3, and keep the memory that they said they would.
    Standby,
    /// The machine hibernates and wakes again: adapters go to D3 and keep nothing.
    Hibernate,
}

/// Titles of [`LookAt::waited_rows`].
pub const WAITED_TITLES: [&str; 4] = ["fence of", "value", "awaited", "waits"];

/// Fences that are shown to people, at most.
const WAITED_ROWS: usize = 16;

/// A question, or an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// The engines, memory and processes of every adapter.
    Look,
    /// The scheduler's state as text: nodes, contexts, queues, doorbells and fences.
    Tree,
    /// The lines that driver and system have logged.
    Log,
    /// A fault for the first GPU, as `campanile run --fault` has it; draws of a fault that comes by chance begin with `seed`.
    Inject { fault: String, seed: u64 },
    /// The faults that were injected.
    Faults,
    /// Takes the fault with this number away.
    Withdraw { number: usize },
    /// Changes the power state.
    Power { state: PowerState },
    /// Sends an engine of the first adapter that has nothing to do to F1.
    SleepEngine { node: u32, physical_adapter: u32 },
    /// Pulls the first adapter out.
    PullOut,
    /// Plugs another adapter in where one was pulled out.
    PlugIn,
    /// What the machine has made good, and which DDIs it has called, since this was asked last.
    TakeCounts,
    /// What the machine is: the answer counts nothing, and takes nothing.
    Describe,
    /// A trace of the last `seconds`, 1 to 60.
    Record { seconds: u32 },
}

impl Question {
    /// Time that the answer takes by itself.
    pub(super) fn takes(&self) -> Duration {
        match self {
            Self::Record { seconds } => Duration::from_secs((*seconds).into()),
            _ => Duration::ZERO,
        }
    }
}

/// An engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// The node among those of its physical adapter.
    pub node: u32,
    /// The physical adapter, 0 unless it is linked with others.
    pub physical_adapter: u32,
    /// Nanoseconds for which it has run work since the adapter started.
    pub running_ns: u64,
    /// Packets that it was given; work of user-mode submission is none.
    pub packets: u32,
    /// F-state of its power component, 0 while it works; null if it has none, and in D3.
    pub fstate: Option<u32>,
}

/// A memory segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// 1-based identifier among the segments of its physical adapter.
    pub segment: u32,
    /// The physical adapter, 0 unless it is linked with others.
    pub physical_adapter: u32,
    /// Bytes; what may be committed of an aperture.
    pub bytes: u64,
    /// Bytes of allocations that are in it and found by the GPU.
    pub resident_bytes: u64,
    /// True if memory of the system is mapped into it.
    pub aperture: bool,
}

/// A process that uses an adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Number on the machine.
    pub id: u64,
    /// Number of the program on the host; null for a process of the machine's own.
    pub pid: Option<i32>,
    /// Name of the program.
    pub name: String,
    /// Nanoseconds for which each engine has run its work, in the order of the engines.
    pub running_ns: Vec<u64>,
    /// Bytes resident in each segment, in the order of the segments.
    pub memory_bytes: Vec<u64>,
    /// Contexts of packets and of hardware queues.
    pub contexts: usize,
    /// Hardware queues.
    pub queues: usize,
    /// Of those, the ones for user-mode submission.
    pub user_mode_queues: usize,
    /// Doorbells that are connected, or about to be.
    pub connected_doorbells: usize,
    /// Fences that it has open.
    pub fences: usize,
}

/// A fence that the processor waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitedFence {
    /// Numbers on the machine of the processes that have it open.
    pub processes: Vec<u64>,
    /// Current value of the fence.
    pub current: u64,
    /// The least value that is waited for.
    pub awaited: u64,
    /// Waits for it that are not over.
    pub waits: usize,
}

impl WaitedFence {
    fn new(told: &dxgkrnl::WaitedFence) -> Self {
        let dxgkrnl::WaitedFence { processes, current, awaited, waits } = told.clone();
        Self { processes, current, awaited, waits }
    }
}

/// An adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookAt {
    /// LUID of the adapter, high part and low part as one number.
    pub luid: u64,
    /// Engines, those of linked adapters one after the other.
    pub engines: Vec<Engine>,
    /// Segments, in the same way.
    pub segments: Vec<Segment>,
    /// Processes that use it, oldest first.
    pub processes: Vec<Process>,
    /// Calls of the driver's interrupt routine.
    pub interrupts: u64,
    /// Fences that the processor waits for.
    pub waited_fences: Vec<WaitedFence>,
    /// Recoveries of single engines since the adapter started.
    pub engine_resets: u64,
    /// Recoveries of the whole adapter.
    pub adapter_resets: u64,
    /// It is in D3.
    pub powered_down: bool,
}

/// A machine at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Nanoseconds since the machine began to serve.
    pub time_ns: u64,
    /// The bug check that stopped it, if one did.
    pub bugcheck: Option<String>,
    /// What its process has given up, as a sentence; null if it was told to keep everything.
    pub sandbox: Option<String>,
    /// Adapters that are started.
    pub adapters: Vec<LookAt>,
}

/// A fault that was injected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultState {
    /// Number by which it is taken away.
    pub number: usize,
    /// The fault, as it was named.
    pub fault: String,
    /// Times that it has struck.
    pub fired: u64,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`Question::Look`].
    Look(Look),
    /// To [`Question::Tree`] and [`Question::Log`].
    Text(String),
    /// To [`Question::Inject`], [`Question::Withdraw`] and [`Question::Faults`].
    Faults(Vec<FaultState>),
    /// To [`Question::TakeCounts`] and [`Question::Describe`].
    Counts(Counts),
    /// The order was carried out.
    Done,
    /// A trace of so many bytes follows.
    Trace { bytes: u64 },
    /// The machine refused, for this reason.
    Refused(String),
}

fn nanoseconds(time: &Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl LookAt {
    /// Waits of the processor for fences that are not over.
    pub fn fence_waits(&self) -> usize {
        self.waited_fences.iter().map(|fence| fence.waits).sum()
    }

    /// Rows about the fences that are waited for: who has them open, their values, and those that are waited for.
    pub fn waited_rows(&self) -> Vec<Vec<String>> {
        let name = |id: &u64| {
            let known = self.processes.iter().find(|process| process.id == *id);
            known.map_or_else(|| "-".to_owned(), |process| process.name.clone())
        };
        let row = |fence: &WaitedFence| {
            let names: Vec<_> = fence.processes.iter().map(name).collect();
            vec![names.join(", "), fence.current.to_string(), fence.awaited.to_string(), fence.waits.to_string()]
        };
        self.waited_fences.iter().take(WAITED_ROWS).map(row).collect()
    }

    pub(super) fn new(told: &Overview, pids: &Pids) -> Self {
        let engine = |engine: &dxgkrnl::EngineOverview| Engine {
            node: engine.node,
            physical_adapter: engine.physical_adapter,
            running_ns: nanoseconds(&engine.running),
            packets: engine.packets,
            fstate: engine.fstate.filter(|_| !told.is_powered_down),
        };
        let segment = |segment: &dxgkrnl::SegmentOverview| Segment {
            segment: segment.segment,
            physical_adapter: segment.physical_adapter,
            bytes: segment.size,
            resident_bytes: segment.resident,
            aperture: segment.aperture,
        };
        let (high, low) = (told.luid.HighPart.cast_unsigned(), told.luid.LowPart);
        Self {
            luid: u64::from(high) << 32 | u64::from(low),
            engines: told.engines.iter().map(engine).collect(),
            segments: told.segments.iter().map(segment).collect(),
            processes: told.processes.iter().map(|process| Process::new(process, pids)).collect(),
            interrupts: told.interrupts,
            waited_fences: told.waited_fences.iter().map(WaitedFence::new).collect(),
            engine_resets: told.resets.0,
            adapter_resets: told.resets.1,
            powered_down: told.is_powered_down,
        }
    }
}

impl Process {
    fn new(told: &ProcessOverview, pids: &Pids) -> Self {
        Self {
            id: told.id,
            pid: pids.of(told.id),
            name: told.name.clone(),
            running_ns: told.running.iter().map(nanoseconds).collect(),
            memory_bytes: told.memory.clone(),
            contexts: told.contexts,
            queues: told.queues,
            user_mode_queues: told.user_mode_queues,
            connected_doorbells: told.connected_doorbells,
            fences: told.fences,
        }
    }
}
