//! What is shown of a machine: the look of the moment, and what has changed since the one before.

use serde::Serialize;

use crate::control::{Look, LookAt, WAITED_TITLES, WaitedFence};
use crate::ctl::{SEGMENT_TITLES, bytes, place, segment_kind};
use crate::table::render;

/// An engine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct EngineRow {
    /// The node among those of its physical adapter.
    pub(super) node: u32,
    /// The physical adapter, 0 unless it is linked with others.
    pub(super) physical_adapter: u32,
    /// Both as people read them.
    #[serde(skip)]
    pub(super) place: String,
    /// Part of the time in which it ran work, 0 to 1; null in the first look.
    pub(super) busy: Option<f64>,
    /// F-state, 0 while it works; null if it has no power component, and in D3.
    pub(super) fstate: Option<u32>,
}

/// A memory segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SegmentRow {
    /// 1-based identifier among the segments of its physical adapter.
    pub(super) segment: u32,
    /// The physical adapter, 0 unless it is linked with others.
    pub(super) physical_adapter: u32,
    /// Both as people read them.
    #[serde(skip)]
    pub(super) place: String,
    /// Memory of the system that the GPU reaches.
    pub(super) aperture: bool,
    /// Bytes.
    pub(super) bytes: u64,
    /// Bytes of allocations that are in it and found by the GPU.
    pub(super) resident_bytes: u64,
}

impl SegmentRow {
    fn cells(&self) -> Vec<String> {
        let kind = segment_kind(self.aperture).to_owned();
        vec![self.place.clone(), kind, bytes(self.bytes), bytes(self.resident_bytes)]
    }
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ProcessRow {
    /// Number on the machine, by which a fence names the processes that have it open.
    pub(super) id: u64,
    /// Number on the host; null for a process of the machine's own.
    pub(super) pid: Option<i32>,
    /// Name of the program.
    pub(super) name: String,
    /// Part of the time in which engines ran its work, the sum over all engines; null for one that is new.
    pub(super) busy: Option<f64>,
    /// Bytes resident in each segment.
    pub(super) memory_bytes: Vec<u64>,
    /// Hardware queues.
    pub(super) queues: usize,
    /// Doorbells that are connected.
    pub(super) connected_doorbells: usize,
    /// Fences that it has open.
    pub(super) fences: usize,
}

/// An adapter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct AdapterShown {
    /// LUID, as one number.
    pub(super) luid: u64,
    /// It is in D3.
    pub(super) powered_down: bool,
    /// Interrupts a second; null in the first look.
    pub(super) interrupts_per_second: Option<f64>,
    /// Waits of the processor for fences.
    pub(super) fence_waits: usize,
    /// The fences that are waited for.
    pub(super) waited_fences: Vec<WaitedFence>,
    /// As people read them.
    #[serde(skip)]
    pub(super) waited_rows: Vec<Vec<String>>,
    /// Recoveries of single engines since the adapter started.
    pub(super) engine_resets: u64,
    /// Recoveries of the whole adapter.
    pub(super) adapter_resets: u64,
    /// Engines, segments, and processes with the busiest first, and among those that are as busy the one with the most memory.
    pub(super) engines: Vec<EngineRow>,
    pub(super) segments: Vec<SegmentRow>,
    pub(super) processes: Vec<ProcessRow>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Shown {
    /// Nanoseconds since the machine began to serve.
    pub(super) time_ns: u64,
    /// The bug check that stopped it.
    pub(super) bugcheck: Option<String>,
    /// Adapters.
    pub(super) adapters: Vec<AdapterShown>,
}

/// A part of the time between two looks. One look may see a packet that the one before saw not yet, so that it can be a little more than all.
fn part(now: u64, before: u64, elapsed: u64) -> f64 {
    now.saturating_sub(before) as f64 / elapsed.max(1) as f64
}

impl Shown {
    pub(super) fn new(earlier: Option<&Look>, now: &Look) -> Self {
        let adapters = now.adapters.iter().map(|adapter| {
            let before = earlier.and_then(|look| {
                let same = look.adapters.iter().find(|before| before.luid == adapter.luid)?;
                Some((same, now.time_ns.saturating_sub(look.time_ns)))
            });
            AdapterShown::new(before, adapter)
        });
        Self { time_ns: now.time_ns, bugcheck: now.bugcheck.clone(), adapters: adapters.collect() }
    }
}

impl AdapterShown {
    fn new(before: Option<(&LookAt, u64)>, now: &LookAt) -> Self {
        let linked = now.engines.iter().any(|engine| engine.physical_adapter != 0);
        let engines = now.engines.iter().enumerate().map(|(index, engine)| EngineRow {
            node: engine.node,
            physical_adapter: engine.physical_adapter,
            place: place(engine.node, engine.physical_adapter, linked),
            busy: before.and_then(|(look, elapsed)| {
                Some(part(engine.running_ns, look.engines.get(index)?.running_ns, elapsed).min(1.0))
            }),
            fstate: engine.fstate,
        });
        let segments = now.segments.iter().map(|segment| SegmentRow {
            segment: segment.segment,
            physical_adapter: segment.physical_adapter,
            place: place(segment.segment, segment.physical_adapter, linked),
            aperture: segment.aperture,
            bytes: segment.bytes,
            resident_bytes: segment.resident_bytes,
        });
        let mut processes: Vec<ProcessRow> = now
            .processes
            .iter()
            .map(|process| {
                let busy = before.and_then(|(look, elapsed)| {
                    let same = look.processes.iter().find(|before| before.id == process.id)?;
                    let running = |of: &[u64]| of.iter().fold(0, |sum: u64, time| sum.saturating_add(*time));
                    Some(part(running(&process.running_ns), running(&same.running_ns), elapsed))
                });
                ProcessRow {
                    id: process.id,
                    pid: process.pid,
                    name: process.name.clone(),
                    busy,
                    memory_bytes: process.memory_bytes.clone(),
                    queues: process.queues,
                    connected_doorbells: process.connected_doorbells,
                    fences: process.fences,
                }
            })
            .collect();
        let memory =
            |process: &ProcessRow| process.memory_bytes.iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
        processes.sort_by(|one, other| {
            let busier = other.busy.unwrap_or(0.0).total_cmp(&one.busy.unwrap_or(0.0));
            busier.then_with(|| memory(other).cmp(&memory(one)))
        });
        Self {
            luid: now.luid,
            powered_down: now.powered_down,
            interrupts_per_second: before.map(|(look, elapsed)| part(now.interrupts, look.interrupts, elapsed) * 1e9),
            fence_waits: now.fence_waits(),
            waited_fences: now.waited_fences.clone(),
            waited_rows: now.waited_rows(),
            engine_resets: now.engine_resets,
            adapter_resets: now.adapter_resets,
            engines: engines.collect(),
            segments: segments.collect(),
            processes,
        }
    }

    /// One line about the whole adapter.
    pub(super) fn headline(&self) -> String {
        let rate = self.interrupts_per_second.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
        let state = if self.powered_down { "D3" } else { "D0" };
        format!("adapter {:#x} in {state}: {rate} interrupts/s, {} waits for fences", self.luid, self.fence_waits)
    }

    /// One line about its recoveries.
    pub(super) fn resets(&self) -> String {
        format!("{} engine resets, {} adapter resets", self.engine_resets, self.adapter_resets)
    }
}

/// A part of the time as people read it.
pub(super) fn percent(busy: Option<f64>) -> String {
    busy.map_or_else(|| "-".to_owned(), |busy| format!("{:.1} %", busy * 100.0))
}

/// The cells of a process, as tables and screens have them.
pub(super) fn cells(process: &ProcessRow) -> Vec<String> {
    vec![
        process.name.clone(),
        process.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        percent(process.busy),
        process.memory_bytes.iter().map(|amount| bytes(*amount)).collect::<Vec<_>>().join(" + "),
        process.queues.to_string(),
        process.connected_doorbells.to_string(),
        process.fences.to_string(),
    ]
}

/// Titles of [`cells`].
pub(super) const TITLES: [&str; 7] = ["process", "pid", "busy", "memory by segment", "queues", "doorbells", "fences"];

/// A look as plain text, for standard output that is no terminal.
pub(super) fn text(shown: &Shown) -> String {
    let mut parts = Vec::new();
    if let Some(bugcheck) = &shown.bugcheck {
        parts.push(format!("the machine has stopped: {bugcheck}"));
    }
    for adapter in &shown.adapters {
        let engine = |engine: &EngineRow| {
            let fstate = engine.fstate.map_or_else(|| "-".to_owned(), |state| format!("F{state}"));
            vec![engine.place.clone(), percent(engine.busy), fstate]
        };
        let engines: Vec<_> = adapter.engines.iter().map(engine).collect();
        let processes: Vec<_> = adapter.processes.iter().map(cells).collect();
        parts.push(format!("{}, {}", adapter.headline(), adapter.resets()));
        let segments: Vec<_> = adapter.segments.iter().map(SegmentRow::cells).collect();
        parts.push(render(&["node", "busy", "state"], &engines));
        parts.push(render(&SEGMENT_TITLES, &segments));
        parts.push(render(&TITLES, &processes));
        if !adapter.waited_rows.is_empty() {
            parts.push(render(&WAITED_TITLES, &adapter.waited_rows));
        }
    }
    if shown.adapters.is_empty() && shown.bugcheck.is_none() {
        parts.push("the machine has no adapter any more".to_owned());
    }
    parts.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Engine, Process, Segment};

    fn look(time_ns: u64, running_ns: u64, processes: Vec<Process>) -> Look {
        let engine = Engine { node: 0, physical_adapter: 0, running_ns, packets: 0, fstate: Some(0) };
        let segment =
            Segment { segment: 1, physical_adapter: 0, bytes: 1 << 20, resident_bytes: 4096, aperture: false };
        let adapter = LookAt {
            luid: 7,
            engines: vec![engine],
            segments: vec![segment],
            processes,
            interrupts: time_ns / 1_000_000,
            waited_fences: vec![WaitedFence { processes: vec![1, 9], current: 4, awaited: 6, waits: 3 }],
            engine_resets: 1,
            adapter_resets: 0,
            powered_down: false,
        };
        Look { time_ns, bugcheck: None, sandbox: None, adapters: vec![adapter] }
    }

    fn process(id: u64, running_ns: u64) -> Process {
        Process {
            id,
            pid: Some(id as i32),
            name: format!("program {id}"),
            running_ns: vec![running_ns],
            memory_bytes: vec![4096],
            contexts: 1,
            queues: 1,
            user_mode_queues: 1,
            connected_doorbells: 1,
            fences: 2,
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks_and_the_busiest_process_is_first() {
        let before = look(1_000_000_000, 100, vec![process(1, 0), process(2, 0)]);
        let now =
            look(2_000_000_000, 250_000_100, vec![process(1, 50_000_000), process(2, 200_000_000), process(3, 9)]);
        let shown = Shown::new(Some(&before), &now);
        let [adapter] = shown.adapters.as_slice() else { panic!("one adapter") };
        assert_eq!(adapter.engines[0].busy, Some(0.25));
        assert_eq!(adapter.interrupts_per_second, Some(1000.0));
        let busy: Vec<_> = adapter.processes.iter().map(|process| (process.pid, process.busy)).collect();
        assert_eq!(busy, [(Some(2), Some(0.2)), (Some(1), Some(0.05)), (Some(3), None)]);
    }

    #[test]
    fn a_first_look_has_no_rates() {
        let shown = Shown::new(None, &look(5, 5, vec![process(1, 5)]));
        let [adapter] = shown.adapters.as_slice() else { panic!("one adapter") };
        assert_eq!((adapter.engines[0].busy, adapter.interrupts_per_second), (None, None));
        assert!(text(&shown).contains("program 1    1     -"), "{}", text(&shown));
        assert!(text(&shown).contains("program 1, -      4        6      3"), "{}", text(&shown));
        assert!(text(&shown).contains("segment    kind   size  resident"), "{}", text(&shown));
        assert!(text(&shown).contains("1        memory  1 MiB     4 KiB"), "{}", text(&shown));
        assert_eq!(adapter.fence_waits, 3);
    }
}
