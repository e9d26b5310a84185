//! V1 to V7: the Vulkan driver beside lavapipe and SwiftShader, each in a process of its own, by one program that knows none of them.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::error::BenchError;
use super::row::{Effort, Measurement, PeerAim, Row};
use crate::clock::Latencies;

/// Names of measurements between this process and those that measure.
pub(super) const SUBMISSIONS: &str = "submissions";
pub(super) const SEEN: &str = "seen";
pub(super) const TURNS: &str = "turns";
pub(super) const RECORDINGS: &str = "recordings";
pub(super) const ALLOCATIONS: &str = "allocations";
pub(super) const PIPELINES: &str = "pipelines";
pub(super) const FIRST: &str = "first";

/// The peers, the packages of Debian that have them, and where the manifests of their drivers are.
const PEERS: [(&str, &str, &str); 2] = [
    ("lavapipe", "mesa-vulkan-drivers", "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json"),
    ("SwiftShader", "chromium", "/usr/lib/chromium/vk_swiftshader_icd.json"),
];

/// Parts that the rows have in common.
const ROW: Row = Row {
    id: "",
    what: "",
    unit: "ns",
    peers: &["the same program on lavapipe", "the same program on SwiftShader"],
    aim: "",
    met: |_, _| unreachable!("each row has its own"),
    further: &[],
    prepare: |_, _| unreachable!("each row has its own"),
};

pub(super) const V1: Row = Row {
    id: "V1",
    what: "vkQueueSubmit of one dispatch, processor time of the calling thread",
    aim: "at most a fifth of lavapipe",
    met: |_, ratio| ratio.p50 <= 0.2,
    further: &[PeerAim { peer: 1, aim: "at most a fifth of SwiftShader", met: |ratio| ratio.p50 <= 0.2 }],
    prepare: |_, effort| Parties::row(SUBMISSIONS, effort),
    ..ROW
};
pub(super) const V2: Row = Row {
    id: "V2",
    what: "vkQueueSubmit of one dispatch until the value of its timeline semaphore is seen",
    aim: "at least ten times sooner than lavapipe",
    met: |_, ratio| ratio.p50 <= 0.1,
    further: &[PeerAim { peer: 1, aim: "at least ten times sooner than SwiftShader", met: |ratio| ratio.p50 <= 0.1 }],
    prepare: |_, effort| Parties::row(SEEN, effort),
    ..ROW
};
pub(super) const V3: Row = Row {
    id: "V3",
    what: "one round of two queues that wait for each other by a timeline semaphore; the peers have one queue, which executes both submissions",
    aim: "at least 20 times the rate of lavapipe",
    met: |_, ratio| ratio.p50 <= 0.05,
    further: &[PeerAim { peer: 1, aim: "at least 20 times the rate of SwiftShader", met: |ratio| ratio.p50 <= 0.05 }],
    prepare: |_, effort| Parties::row(TURNS, effort),
    ..ROW
};
pub(super) const V4: Row = Row {
    id: "V4",
    what: "recording of vkCmdDispatch, of 10,000 in a command buffer",
    aim: "faster than lavapipe",
    met: |_, ratio| ratio.p50 < 1.0,
    further: &[PeerAim { peer: 1, aim: "faster than SwiftShader", met: |ratio| ratio.p50 < 1.0 }],
    prepare: |_, effort| Parties::row(RECORDINGS, effort),
    ..ROW
};
pub(super) const V5: Row = Row {
    id: "V5",
    what: "vkAllocateMemory of 1 MiB that the processor sees, and vkMapMemory",
    aim: "none; it is shown",
    met: |_, _| true,
    prepare: |_, effort| Parties::row(ALLOCATIONS, effort),
    ..ROW
};
pub(super) const V6: Row = Row {
    id: "V6",
    what: "from before vkCreateInstance to the first result, in a fresh process",
    aim: "at most twice the time of lavapipe",
    met: |_, ratio| ratio.p50 <= 2.0,
    prepare: |_, effort| Parties::row(FIRST, effort),
    ..ROW
};

pub(super) const V7: Row = Row {
    id: "V7",
    what: "vkCreateComputePipelines of a module of 5,000 instructions that is in the pipeline cache",
    aim: "p50 <= 50 us",
    met: |ours, _| ours.p50 <= 50_000.0,
    prepare: |_, effort| Parties::row(PIPELINES, effort),
    ..ROW
};

/// True if the row measures the Vulkan driver.
pub(super) fn is_vulkan(row: &Row) -> bool {
    [V1.id, V2.id, V3.id, V4.id, V5.id, V6.id, V7.id].contains(&row.id)
}

/// A driver, and the process that uses it.
struct Party {
    manifest: PathBuf,
    running: Option<Running>,
}

/// A process that measures; it ends when its input does.
struct Running {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.questions.take());
        // It has answered all, and is forgotten.
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(manifest: &Path) -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("vulkan-client").env("VK_DRIVER_FILES", manifest).env("VK_ICD_FILENAMES", manifest);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let streams = (child.stdin.take(), child.stdout.take());
        let (Some(questions), Some(answers)) = streams else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
        Ok(Self { child, questions: Some(questions), answers: BufReader::new(answers) })
    }

    fn ask(&mut self, name: &str, samples: usize) -> std::io::Result<Latencies> {
        let questions = self.questions.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
        writeln!(questions, "{name} {samples}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let mut times = Latencies::new();
        for word in line.split_whitespace() {
            times.record(word.parse().map_err(std::io::Error::other)?);
        }
        if times.is_empty() {
            return Err(std::io::Error::other("the measuring process ended, see above"));
        }
        Ok(times)
    }
}

impl Party {
    fn measure(&mut self, name: &str, samples: usize) -> Result<Latencies, BenchError> {
        let said = |error| BenchError::Machine(format!("{}: {error}", self.manifest.display()));
        if name == FIRST {
            // A result is the first one of a process only once.
            self.running = None;
        }
        let mut running = match self.running.take() {
            Some(running) => running,
            None => Running::start(&self.manifest).map_err(said)?,
        };
        let times = running.ask(name, samples).map_err(said)?;
        self.running = Some(running);
        Ok(times)
    }
}

/// The drivers of a row.
struct Parties {
    name: &'static str,
    samples: usize,
    ours: Party,
    peers: Vec<Option<Party>>,
}

impl Parties {
    fn row(name: &'static str, effort: Effort) -> Result<Box<dyn Measurement>, BenchError> {
        let party = |manifest: PathBuf| Party { manifest, running: None };
        let peer = |(peer, package, manifest): (&str, &str, &str)| {
            let manifest = PathBuf::from(manifest);
            if manifest.is_file() {
                return Some(party(manifest));
            }
            testbed::complain!(
                "campanile: THE PEER {peer} IS ABSENT: {} is missing; it is in the package {package}",
                manifest.display()
            );
            None
        };
        let peers = PEERS.into_iter().map(peer).collect();
        Ok(Box::new(Self { name, samples: effort.samples, ours: party(crate::vulkan::shipped()), peers }))
    }
}

impl Measurement for Parties {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        self.ours.measure(self.name, self.samples)
    }

    fn peer(&mut self, index: usize) -> Result<Latencies, BenchError> {
        match self.peers.get_mut(index) {
            Some(Some(peer)) => peer.measure(self.name, self.samples),
            _ => Ok(Latencies::new()),
        }
    }
}

/// Why the rows cannot be measured; `None` if they can.
pub(super) fn absence() -> Option<String> {
    let manifest = crate::vulkan::shipped();
    (!manifest.is_file()).then(|| format!("{} is missing; `cargo xtask vulkan` makes it", manifest.display()))
}
