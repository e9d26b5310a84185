//! What a run tells: as a table for people, as JSON for programs.

use serde::Serialize;

use super::stages::Roofline;
use crate::table::{grouped, render};
use testbed::setup::Drivers;

/// A run's files and figures.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Drivers of the run.
    #[serde(flatten)]
    pub drivers: Drivers,
    /// Files that were read to their end.
    pub files: Vec<FileReport>,
    /// How the queues submitted at the end, and why; a sentence for each different reason.
    pub submission: Vec<String>,
    /// Time that each stage was busy.
    pub roofline: Roofline,
    /// Figures over all of them.
    pub totals: Totals,
}

/// One file.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// Path as given.
    pub path: String,
    /// Bytes streamed.
    pub bytes: u64,
    /// SHA-256 of what was read, in hexadecimal.
    pub sha256: String,
    /// Every byte came back as the CPU computes it.
    pub verified: bool,
    /// The first byte that did not, in words.
    #[serde(skip)]
    pub mismatch: Option<String>,
}

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Totals {
    /// Bytes of the files.
    pub bytes: u64,
    /// Command buffers submitted.
    pub submissions: u64,
    /// Doorbells rung.
    pub doorbell_rings: u64,
    /// Doorbells connected again after the operating system had taken them away.
    pub doorbell_reconnects: u64,
    /// Waits that the GPU satisfied by itself; `None` on a machine in another process, whose GPU counts for all of its programs.
    pub gpu_waits: Option<u64>,
    /// Fence signals of the GPU; `None` as above.
    pub fence_signals: Option<u64>,
    /// Interrupts raised for anything; `None` as above.
    pub interrupts: Option<u64>,
    /// The program that the compute engine ran over every chunk.
    pub kernel: KernelReport,
    /// From the end of recording a submission to its doorbell's status read.
    pub submit_ns: SubmitReport,
    /// Megabytes a second through the whole way: read, hash, three queues, verification.
    pub mb_s: f64,
    /// Megabytes a second of memcpy of the same bytes into the staging buffers.
    pub memcpy_mb_s: f64,
}

/// Figures of the GPU about the program that it executed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct KernelReport {
    /// Dispatches that ended.
    pub dispatches: u64,
    /// Lanes that they started.
    pub lanes: u64,
    /// Gigabytes a second (10^9 bytes) while a dispatch was under way, by the GPU's clock.
    pub gb_s: f64,
    /// Times that a kernel left the compute node before its end, and its state went to the save area of its queue; `None` as for [`Totals::gpu_waits`].
    pub preemptions: Option<u64>,
}

/// Time of a submission in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SubmitReport {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Report {
    /// The report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report holds only strings and finite numbers")
    }

    /// The report as text.
    pub fn to_table(&self) -> String {
        let files: Vec<Vec<String>> = self.files.iter().map(FileReport::row).collect();
        let mut text = String::new();
        if !files.is_empty() {
            text = render(&["file", "bytes", "sha256", ""], &files);
            text.push_str("\n\n");
        }
        text.push_str(&render(&["", ""], &self.totals.rows()));
        text.push_str("\n\n");
        text.push_str(&self.roofline.to_table());
        text.push('\n');
        for reason in &self.submission {
            text.push_str(&format!("\nsubmission: {reason}"));
        }
        text.push_str(&format!("\n{}", self.drivers));
        text
    }
}

impl FileReport {
    fn row(&self) -> Vec<String> {
        let verdict = if self.verified { "every byte verified" } else { "WRONG BYTES" };
        let digest = self.sha256.get(..16).unwrap_or(&self.sha256);
        vec![self.path.clone(), grouped(self.bytes), format!("{digest}…"), verdict.to_owned()]
    }
}

impl Totals {
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |name: &str, value: String| vec![name.to_owned(), value];
        let counted = |name, count: Option<u64>| count.map(|count| row(name, grouped(count)));
        let mut rows = vec![
            row("bytes", grouped(self.bytes)),
            row("MB/s through the GPU, read and verified", format!("{:.0}", self.mb_s)),
            row("MB/s of memcpy of the same bytes", format!("{:.0}", self.memcpy_mb_s)),
            row("kernels run (ChaCha20)", grouped(self.kernel.dispatches)),
            row("lanes of the kernels", grouped(self.kernel.lanes)),
            row("GB/s of the kernels", format!("{:.2}", self.kernel.gb_s)),
        ];
        rows.extend(counted("preemptions of kernels", self.kernel.preemptions));
        rows.extend([
            row("submissions", grouped(self.submissions)),
            row("doorbells rung", grouped(self.doorbell_rings)),
            row("doorbells reconnected", grouped(self.doorbell_reconnects)),
        ]);
        rows.extend(counted("GPU waits satisfied without the CPU", self.gpu_waits));
        rows.extend(counted("fence signals", self.fence_signals));
        rows.extend(counted("interrupts raised", self.interrupts));
        rows.push(row("submit p50, ns", format!("{:.0}", self.submit_ns.p50)));
        rows.push(row("submit p99, ns", format!("{:.0}", self.submit_ns.p99)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::stages::Stages;

    fn report() -> Report {
        Report {
            drivers: Drivers {
                driver: "a.sys".to_owned(),
                driver_sha256: None,
                user_mode_driver: "linked".to_owned(),
                special_pool: "off".to_owned(),
            },
            files: vec![FileReport {
                path: "a".to_owned(),
                bytes: 5,
                sha256: "00".repeat(32),
                verified: true,
                mismatch: None,
            }],
            submission: vec!["user mode rings".to_owned()],
            roofline: Stages::new(1).roofline(0.0),
            totals: Totals { bytes: 5, ..Totals::default() },
        }
    }

    #[test]
    fn json_has_exactly_the_promised_keys() {
        let value: serde_json::Value = serde_json::from_str(&report().to_json()).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
        assert_eq!(
            keys(&value),
            ["driver", "files", "roofline", "special_pool", "submission", "totals", "user_mode_driver"]
        );
        assert_eq!(keys(&value["roofline"]), ["slowest", "stages", "times_slowest"]);
        assert_eq!(keys(&value["roofline"]["stages"][0]), ["by", "mb_s", "name", "seconds"]);
        assert_eq!(keys(&value["files"][0]), ["bytes", "path", "sha256", "verified"]);
        let mut expected = [
            "bytes",
            "submissions",
            "doorbell_rings",
            "doorbell_reconnects",
            "gpu_waits",
            "fence_signals",
            "interrupts",
            "kernel",
            "submit_ns",
            "mb_s",
            "memcpy_mb_s",
        ];
        expected.sort_unstable();
        assert_eq!(keys(&value["totals"]), expected);
        assert_eq!(keys(&value["totals"]["submit_ns"]), ["p50", "p99"]);
        assert_eq!(keys(&value["totals"]["kernel"]), ["dispatches", "gb_s", "lanes", "preemptions"]);
    }

    #[test]
    fn a_wrong_file_is_loud_in_the_table() {
        let mut report = report();
        assert!(report.to_table().contains("every byte verified"));
        report.files[0].verified = false;
        assert!(report.to_table().contains("WRONG BYTES"));
    }
}
