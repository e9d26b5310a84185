//! What an adapter does and who uses it, for people who look on.

use std::time::Duration;

use wddm_ddi::types::LUID;

use super::Machine;
use crate::vidsch::{ProcessOverview, WaitedFence};

/// An engine: a node of a physical adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOverview {
    /// The node among those of its physical adapter.
    pub node: u32,
    /// The physical adapter, 0 unless it is linked with others.
    pub physical_adapter: u32,
    /// Time for which it has run work since the adapter started.
    pub running: Duration,
    /// Packets that it was given. Work of user-mode submission is none.
    pub packets: u32,
    /// F-state of its power component, 0 while it works; `None` if it has none.
    pub fstate: Option<u32>,
}

/// A memory segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentOverview {
    /// 1-based identifier among the segments of its physical adapter.
    pub segment: u32,
    /// The physical adapter, 0 unless it is linked with others.
    pub physical_adapter: u32,
    /// Bytes; what may be committed of an aperture.
    pub size: u64,
    /// Bytes of allocations that are in it and found by the GPU.
    pub resident: u64,
    /// It is an aperture: what is in it is memory of the system.
    pub aperture: bool,
}

/// An adapter at one moment: its engines and memory, and the processes that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The adapter.
    pub luid: LUID,
    /// Engines, those of linked adapters one after the other.
    pub engines: Vec<EngineOverview>,
    /// Segments, in the same way.
    pub segments: Vec<SegmentOverview>,
    /// Processes that use it, oldest first.
    pub processes: Vec<ProcessOverview>,
    /// Calls of the driver's interrupt routine.
    pub interrupts: u64,
    /// Fences that the processor waits for.
    pub waited_fences: Vec<WaitedFence>,
    /// Recoveries of one engine since the adapter started, and of the whole adapter.
    pub resets: (u64, u64),
    /// It is in D3.
    pub is_powered_down: bool,
}

impl Machine {
    /// What an adapter does and who uses it; `None` if it is not started.
    pub fn overview(&self, luid: LUID) -> Option<Overview> {
        let adapter = self.adapter(luid)?;
        let (scheduler, memory) = (adapter.scheduler()?, adapter.memory_manager()?);
        let caps = adapter.caps();
        let components = adapter.power().states();
        let engines = (0..).map_while(|id| Some((id, scheduler.node_figures(id)?.0))).map(|(id, figures)| {
            let (node, physical_adapter) = caps.ordinals(id);
            let fstate = components.iter().find(|component| component.node == Some(id)).map(|found| found.fstate);
            EngineOverview { node, physical_adapter, running: figures.time, packets: figures.submitted, fstate }
        });
        let segments = (1..).zip(&caps.segments).map(|(id, segment)| {
            let aperture = segment.flags.Aperture();
            SegmentOverview {
                segment: segment.id,
                physical_adapter: segment.engine,
                size: if aperture { segment.commit_limit } else { segment.size },
                resident: memory.segment_figures(id, None).resident,
                aperture,
            }
        });
        let processes = scheduler.processes();
        let processes = processes.iter().map(|process| {
            let ids = (1..).zip(&caps.segments).map(|(id, _)| id);
            let memory = ids.map(|id| memory.segment_figures(id, Some(&process.space)).resident).collect();
            ProcessOverview { memory, ..scheduler.overview_of(process) }
        });
        let reports = scheduler.recovery().reports();
        let of_engines = reports.iter().filter(|report| report.node.is_some()).count() as u64;
        Some(Overview {
            luid,
            engines: engines.collect(),
            segments: segments.collect(),
            processes: processes.collect(),
            interrupts: adapter.interrupts().counters().interrupts,
            waited_fences: scheduler.waited_fences(),
            resets: (of_engines, reports.len() as u64 - of_engines),
            is_powered_down: adapter.is_asleep(),
        })
    }
}
