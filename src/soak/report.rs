//! What a soak did and found, as a table and as JSON.

use std::fs;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::counts::{Counts, get};
use crate::table::{grouped, render};

/// Descriptors and threads of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct HostUse {
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
}

impl HostUse {
    /// Those that there are when threads that were joined have gone from the host's list, too. 0 where the host does not tell.
    pub(super) fn settled() -> Self {
        let entries = |folder: &str| fs::read_dir(folder).map_or(0, Iterator::count);
        let now = || Self { descriptors: entries("/proc/self/fd"), threads: entries("/proc/self/task") };
        let (mut last, mut same) = (now(), 0);
        while same < 10 {
            thread::sleep(Duration::from_millis(10));
            let next = now();
            same = if next == last { same + 1 } else { 0 };
            last = next;
        }
        last
    }
}

/// Outcome of a soak.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Seed of everything that was chosen at random; the order in which the host runs threads does not follow from it.
    pub seed: u64,
    /// Programs at a time.
    pub programs: u32,
    /// Seconds that the programs worked.
    pub seconds: f64,
    /// Steps of work that were done, each with what it left checked or known.
    pub steps: u64,
    /// Processes that were started.
    pub processes: u64,
    /// Of those, terminated with work under way.
    pub terminated: u64,
    /// Of those, ended early for want of memory.
    pub refused: u64,
    /// Engines that were made to hang.
    pub hangs: u64,
    /// Processes that lost their device to a reset.
    pub lost_by_reset: u64,
    /// GPUs that were pulled out.
    pub removals: u64,
    /// Processes that ended early because their GPU was pulled out.
    pub lost_by_removal: u64,
    /// Times that the adapter went to D3 with work waiting for it.
    pub sleeps: u64,
    /// Times that an engine went to F1.
    pub engine_sleeps: u64,
    /// Milliseconds by which the host ran a thread late, at most.
    pub longest_delay_ms: u64,
    /// Comparisons of what the machine held with what the programs had.
    pub comparisons: u64,
    /// A text for each thing that was wrong.
    pub findings: Vec<String>,
}

impl Report {
    pub(super) fn new(
        seed: u64,
        programs: u32,
        took: Duration,
        counts: &Counts,
        longest_delay_ms: u64,
        findings: Vec<String>,
    ) -> Self {
        Self {
            seed,
            programs,
            seconds: took.as_secs_f64(),
            steps: get(&counts.steps),
            processes: get(&counts.processes),
            terminated: get(&counts.terminated),
            refused: get(&counts.refused),
            hangs: get(&counts.hangs),
            lost_by_reset: get(&counts.lost_by_reset),
            removals: get(&counts.removals),
            lost_by_removal: get(&counts.lost_by_removal),
            sleeps: get(&counts.sleeps),
            engine_sleeps: get(&counts.engine_sleeps),
            longest_delay_ms,
            comparisons: get(&counts.comparisons),
            findings,
        }
    }

    /// Compares descriptors and threads with those before.
    pub(super) fn compare_host(&mut self, before: HostUse) {
        let now = HostUse::settled();
        if now != before {
            self.findings.push(format!("the process has {now:?} at the end, and had {before:?} at the beginning"));
        }
    }

    /// The report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The report as a table for people.
    pub fn to_table(&self) -> String {
        let rows = [
            ("programs at a time", u64::from(self.programs)),
            ("seconds", self.seconds as u64),
            ("steps of work", self.steps),
            ("processes started", self.processes),
            ("  terminated with work under way", self.terminated),
            ("  ended early for want of memory", self.refused),
            ("engines made to hang", self.hangs),
            ("  processes that lost their device to a reset", self.lost_by_reset),
            ("GPUs pulled out", self.removals),
            ("  processes that ended early by that", self.lost_by_removal),
            ("times in D3 under load", self.sleeps),
            ("times that an engine was in F1", self.engine_sleeps),
            ("milliseconds a thread ran late, at most", self.longest_delay_ms),
            ("comparisons of machine and programs", self.comparisons),
            ("findings", self.findings.len() as u64),
        ];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|(name, value)| vec![(*name).to_owned(), grouped(*value)]).collect();
        format!("{}\nseed: {}", render(&["", ""], &rows), self.seed)
    }
}
