//! What each stage of a run takes of its time: the roofline of the main job, which can be no faster than its slowest stage.

use serde::Serialize;

use crate::clock::{self, Clock, Ticks};
use crate::table::render;

/// Megabytes (10^6 bytes) a second.
pub(super) fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 / 1e6 / seconds } else { 0.0 }
}

/// A stage that every chunk passes, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Read,
    Hash,
    CopyIn,
    CopyUp,
    Encipher,
    CopyDown,
    CopyOut,
    Verify,
}

impl Stage {
    const ALL: [Self; 8] = [
        Self::Read,
        Self::Hash,
        Self::CopyIn,
        Self::CopyUp,
        Self::Encipher,
        Self::CopyDown,
        Self::CopyOut,
        Self::Verify,
    ];

    /// Name in JSON, who does it, and what it is in words.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Read => ("read", "CPU", "read the file"),
            Self::Hash => ("hash", "CPU", "SHA-256 of it"),
            Self::CopyIn => ("copy_in", "CPU", "copy to the staging buffer"),
            Self::CopyUp => ("copy_up", "copy engine", "copy to VRAM"),
            Self::Encipher => ("encipher", "compute engine", "ChaCha20, a kernel"),
            Self::CopyDown => ("copy_down", "copy engine", "copy from VRAM"),
            Self::CopyOut => ("copy_out", "CPU", "copy from the staging buffer"),
            Self::Verify => ("verify", "CPU", "decipher and compare"),
        }
    }
}

/// Sums over the chunks of a run.
pub(super) struct Stages {
    clock: Clock,
    /// Of the GPU.
    clock_hz: u64,
    sums: [Sum; Stage::ALL.len()],
}

#[derive(Clone, Copy, Default)]
struct Sum {
    bytes: u64,
    seconds: f64,
}

impl Stages {
    pub(super) fn new(clock_hz: u64) -> Self {
        Self { clock: Clock::get(), clock_hz, sums: Default::default() }
    }

    fn add(&mut self, stage: Stage, bytes: usize, seconds: f64) {
        let sum = &mut self.sums[stage as usize];
        sum.bytes += bytes as u64;
        sum.seconds += seconds;
    }

    /// The CPU began a stage for `bytes` bytes at `started`, and has ended it.
    pub(super) fn ended(&mut self, stage: Stage, started: Ticks, bytes: usize) {
        self.add(stage, bytes, self.clock.nanoseconds(started, clock::now()) / 1e9);
    }

    /// The GPU was busy with a stage from `begun` to `ended`, in ticks of its clock.
    pub(super) fn on_gpu(&mut self, stage: Stage, [begun, ended]: [u64; 2], bytes: usize) {
        self.add(stage, bytes, ended.saturating_sub(begun) as f64 / self.clock_hz as f64);
    }

    /// Megabytes a second of a stage while it was busy.
    pub(super) fn rate(&self, stage: Stage) -> f64 {
        let sum = self.sums[stage as usize];
        rate(sum.bytes, sum.seconds)
    }

    /// The roofline of a run that took so many seconds.
    pub(super) fn roofline(&self, seconds: f64) -> Roofline {
        let stages = Stage::ALL.map(|stage| {
            let (name, by, words) = stage.names();
            StageReport { name, by, words, seconds: self.sums[stage as usize].seconds, mb_s: self.rate(stage) }
        });
        let slowest = stages.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let (name, busy) = slowest.map_or(("", 0.0), |stage| (stage.name, stage.seconds));
        let times_slowest = if busy > 0.0 { seconds / busy } else { 0.0 };
        Roofline { stages: stages.to_vec(), slowest: name, times_slowest, seconds }
    }
}

/// How long each stage was busy, and how near the whole run came to its slowest stage.
#[derive(Clone, Debug, Serialize)]
pub struct Roofline {
    /// All stages, in the order in which a chunk passes them.
    pub stages: Vec<StageReport>,
    /// Name of the stage that was busy longest.
    pub slowest: &'static str,
    /// Time of the run in times of that stage; 1 would be a run in which everything else happens meanwhile.
    pub times_slowest: f64,
    /// Time of the run.
    #[serde(skip)]
    pub seconds: f64,
}

/// One stage of a run.
#[derive(Clone, Debug, Serialize)]
pub struct StageReport {
    /// Name.
    pub name: &'static str,
    /// The processor or engine that does it.
    pub by: &'static str,
    /// Its work, in words for a table.
    #[serde(skip)]
    pub words: &'static str,
    /// Time in which it was busy.
    pub seconds: f64,
    /// Megabytes (10^6 bytes) a second in that time.
    pub mb_s: f64,
}

/// Characters of a bar that is as long as the run.
const BAR: usize = 30;

impl Roofline {
    /// As a table with a bar for each stage, and a line about the slowest.
    pub(super) fn to_table(&self) -> String {
        let part = |stage: &StageReport| if self.seconds > 0.0 { stage.seconds / self.seconds } else { 0.0 };
        let row = |stage: &StageReport| {
            let bar = "█".repeat(((part(stage) * BAR as f64).round() as usize).min(BAR));
            let (rate, percent) = (format!("{:.0}", stage.mb_s), format!("{:.0} %", part(stage) * 100.0));
            vec![stage.words.to_owned(), stage.by.to_owned(), rate, percent, format!("{bar:BAR$}")]
        };
        let rows: Vec<Vec<String>> = self.stages.iter().map(row).collect();
        let mut text = render(&["stage", "by", "MB/s", "busy", ""], &rows);
        if let Some(slowest) = self.stages.iter().find(|stage| stage.name == self.slowest) {
            text.push_str(&format!(
                "\n\nslowest stage: {}; the run took {:.2} times as long as that alone",
                slowest.words, self.times_slowest
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages() -> Stages {
        let mut stages = Stages::new(1_000_000);
        stages.add(Stage::Read, 4_000_000, 0.001);
        stages.on_gpu(Stage::Encipher, [500_000, 1_500_000], 3_000_000);
        stages.on_gpu(Stage::Encipher, [1_500_000, 2_500_000], 3_000_000);
        stages
    }

    #[test]
    fn the_slowest_stage_is_the_one_that_was_busy_longest() {
        let roofline = stages().roofline(2.5);
        assert_eq!((roofline.slowest, roofline.times_slowest), ("encipher", 1.25));
        let encipher = &roofline.stages[Stage::Encipher as usize];
        assert_eq!((encipher.seconds, encipher.mb_s), (2.0, 3.0));
        assert_eq!(roofline.stages[Stage::Read as usize].mb_s, 4000.0);
        assert_eq!(roofline.stages[Stage::Verify as usize].mb_s, 0.0);
    }

    #[test]
    fn bars_are_parts_of_the_run() {
        let text = stages().roofline(4.0).to_table();
        let line = text.lines().find(|line| line.contains("ChaCha20, a kernel")).expect("the kernel has a row");
        assert_eq!(line.matches('█').count(), BAR / 2, "{text}");
        assert!(text.ends_with("the run took 2.00 times as long as that alone"), "{text}");
    }

    #[test]
    fn a_run_of_nothing_has_a_roofline() {
        let roofline = Stages::new(1).roofline(0.0);
        assert_eq!(roofline.times_slowest, 0.0);
        assert!(!roofline.to_table().contains("NaN"));
    }
}
