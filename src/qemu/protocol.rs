//! What host and guest tell each other: a job in the guest's first file system, and events, a line of JSON each, on its second serial port.

use serde::{Deserialize, Serialize};

/// Where the guest finds its job.
pub(super) const JOB: &str = "/job.json";
/// Where the guest has this program.
pub(super) const PROGRAM: &str = "/campanile";
/// Where the guest tells events.
pub(super) const EVENTS: &str = "/dev/ttyS1";
/// Stands in the arguments of a step for the name of a GPU: `{gpu0}`, `{gpu1}`.
pub(super) fn placeholder(gpu: usize) -> String {
    format!("{{gpu{gpu}}}")
}

/// What a guest is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    /// Modules to load, in this order.
    pub(super) modules: Vec<String>,
    /// Then these, one after the other, whatever became of the one before.
    pub(super) steps: Vec<Step>,
}

/// This program with arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    /// What to call it.
    pub(super) name: String,
    /// The arguments.
    pub(super) arguments: Vec<String>,
}

/// What a guest tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Event {
    /// It runs.
    Up { kernel: String },
    /// It has found a GPU.
    Function(Found),
    /// A step begins.
    Started { step: String },
    /// A step printed a line.
    Line { step: String, error: bool, text: String },
    /// A step has ended: with an exit code, or by a signal.
    Ended { step: String, code: Option<i32>, signal: Option<i32> },
    /// The guest cannot do what it is to do.
    Trouble { text: String },
    /// All steps are done, and the guest powers off.
    Done,
}

/// A GPU as the guest's kernel sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Found {
    /// Its name, such as `0000:01:00.0`.
    pub(super) name: String,
    /// Configuration space, as hexadecimal digits.
    pub(super) config: String,
    /// First address, last address and flags of each of its ranges, as Linux lists them in `resource`.
    pub(super) resources: Vec<(u64, u64, u64)>,
    /// Its IOMMU group has these functions.
    pub(super) group: Vec<String>,
}
