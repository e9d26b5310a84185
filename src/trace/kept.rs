//! What a collector keeps: fence logs and events of the driver, all of them, or those of the last seconds.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use dxgkrnl::{DebugName, FenceLog, Machine, QueueFenceLog, TraceEvent};
use wddm_ddi::types::LUID;

/// Entries of logs and events of the driver in each of the two parts that a window keeps: a busy machine writes millions in a second.
const PART_MAX: usize = 2_000_000;

/// Fence logs and events fetched so far.
#[derive(Clone, Default)]
pub(super) struct Found {
    pub(super) logs: Vec<QueueFenceLog>,
    pub(super) events: Vec<TraceEvent>,
    /// Driver events given up, each with the number of events that were fetched before.
    pub(super) lost: Vec<(usize, u64)>,
    /// Entries of the logs, and events.
    pub(super) count: usize,
    /// Queues of which there is a log with a handle.
    pub(super) known: HashSet<u64>,
    /// Names that programs have given their objects, as they are at the end.
    pub(super) names: Vec<DebugName>,
    /// Numbers on the machine and names of the programs that use the adapter at the end, and of those that have ended.
    pub(super) programs: Vec<(u64, String)>,
}

/// What is fetched by a collector that keeps the last part of it only: the part before, and the one that is under way.
#[derive(Clone)]
pub(super) struct Window {
    length: Duration,
    began: Instant,
    earlier: Found,
}

impl Window {
    pub(super) fn new(length: Duration) -> Self {
        Self { length, began: Instant::now(), earlier: Found::default() }
    }

    /// Begins a new part when the one under way is as long as the window, or has as much as is kept, and gives up the one before. What is given up before
    /// its time is told as lost.
    pub(super) fn turn(&mut self, found: &mut Found) {
        let is_full = found.count >= PART_MAX;
        if is_full || self.began.elapsed() >= self.length {
            self.began = Instant::now();
            // Queues that are still there tell their handles once more.
            let given_up = std::mem::replace(&mut self.earlier, std::mem::take(found));
            let lost = given_up.count as u64 + given_up.lost.iter().map(|(_, count)| count).sum::<u64>();
            if is_full && lost > 0 {
                self.earlier.lost.insert(0, (0, lost));
            }
        }
    }

    /// Everything that is kept.
    pub(super) fn whole(self, later: Found) -> Found {
        let Found { mut logs, mut events, mut lost, count, known, .. } = self.earlier;
        lost.extend(later.lost.into_iter().map(|(before, count)| (before + events.len(), count)));
        logs.extend(later.logs);
        events.extend(later.events);
        Found { logs, events, lost, count: count + later.count, known, names: later.names, programs: later.programs }
    }
}

/// Logs and events of a collector at a moment; without a window, all since it began.
#[derive(Clone, Default)]
pub(super) struct Kept {
    pub(super) found: Found,
    pub(super) window: Option<Window>,
}

impl Kept {
    /// Fetches what is new.
    pub(super) fn fetch(&mut self, machine: &Machine, luid: LUID) {
        self.found.add(machine.fence_log(luid).unwrap_or_default(), machine.take_trace(luid).unwrap_or_default());
    }

    /// All of it, with the names that objects and programs have now, or had when they ended.
    pub(super) fn whole(self, machine: &Machine, luid: LUID) -> Found {
        let processes = machine.overview(luid).map(|told| told.processes).unwrap_or_default();
        let running = processes.into_iter().map(|process| (process.id, process.name));
        let ended = machine.ended_programs().into_iter().map(|(process, name)| (process, name.to_string()));
        let programs = running.chain(ended).collect();
        let found = Found { names: machine.debug_names(), programs, ..self.found };
        match self.window {
            Some(window) => window.whole(found),
            None => found,
        }
    }
}

impl Found {
    pub(super) fn add(&mut self, logs: Vec<QueueFenceLog>, log: dxgkrnl::TraceLog) {
        for log in logs {
            // A queue that is being made has no handle yet.
            let first = log.handle != 0 && self.known.insert(log.queue);
            if first || is_news(&log.waits) || is_news(&log.signals) {
                self.count += log.waits.entries.len() + log.signals.entries.len();
                self.logs.push(log);
            }
        }
        if log.lost != 0 {
            self.lost.push((self.events.len(), log.lost));
        }
        self.count += log.events.len();
        self.events.extend(log.events);
    }
}

pub(super) fn is_news(log: &FenceLog) -> bool {
    !log.entries.is_empty() || log.lost != 0 || log.violations != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use dxgkrnl::TraceKind;

    fn signals(handle: u32) -> QueueFenceLog {
        let (waits, signals) = (FenceLog::default(), FenceLog::default());
        QueueFenceLog { queue: u64::from(handle), node: 0, process: 9, progress_fence: 99, handle, waits, signals }
    }

    fn reset(node: u32) -> TraceEvent {
        TraceEvent { began: 0, took: 10, adapter: None, kind: TraceKind::EngineReset { node } }
    }

    #[test]
    fn a_window_keeps_the_part_under_way_and_the_one_before() {
        let part = |number: u32, lost| Found {
            logs: vec![signals(number)],
            events: vec![reset(number)],
            lost: vec![(1, lost)],
            ..Found::default()
        };
        let mut window = Window::new(Duration::ZERO);
        let mut found = part(1, 10);
        window.turn(&mut found);
        found = part(2, 20);
        window.turn(&mut found);
        let whole = window.whole(part(3, 30));
        assert_eq!(whole.logs.iter().map(|log| log.handle).collect::<Vec<_>>(), [2, 3]);
        let nodes = whole.events.iter().map(|event| event.kind);
        assert!(nodes.eq([TraceKind::EngineReset { node: 2 }, TraceKind::EngineReset { node: 3 }]));
        assert_eq!(whole.lost, [(1, 20), (2, 30)]);
    }

    #[test]
    fn a_part_that_is_full_ends_before_its_time_and_what_it_takes_the_place_of_is_told_as_lost() {
        let mut window = Window::new(Duration::from_secs(1000));
        let full = |number| Found { events: vec![reset(number)], count: PART_MAX, ..Found::default() };
        for (number, lost) in [(1, vec![]), (2, vec![(0, PART_MAX as u64)]), (3, vec![(0, 2 * PART_MAX as u64)])] {
            window.turn(&mut full(number));
            assert_eq!((window.earlier.events.len(), &window.earlier.lost), (1, &lost), "part {number}");
        }
        let mut under_way = Found { count: PART_MAX - 1, ..Found::default() };
        window.turn(&mut under_way);
        assert_eq!((under_way.count, window.earlier.count), (PART_MAX - 1, PART_MAX), "it is neither full nor over");
    }
}
