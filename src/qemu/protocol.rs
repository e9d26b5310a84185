//! What host and guest tell each other on the guest's second serial port, a line of JSON each: orders of the host, and events of the guest.

use serde::{Deserialize, Serialize};

/// File in the guest with its [`Job`].
pub(super) const JOB: &str = "/job.json";
/// Path of this program in the guest.
pub(super) const PROGRAM: &str = "/campanile";
/// Serial port of the guest on which it sends events and receives orders.
pub(super) const LINE: &str = "/dev/ttyS1";
/// Stands in the arguments of a step for the name of a GPU: `{gpu0}`, `{gpu1}`.
pub(super) fn placeholder(gpu: usize) -> String {
    format!("{{gpu{gpu}}}")
}

/// Preparations of a guest before it takes orders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    /// Modules to load, in this order.
    pub(super) modules: Vec<String>,
}

/// This program with arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    /// Name of the step in reports.
    pub(super) name: String,
    /// The arguments.
    pub(super) arguments: Vec<String>,
}

/// What a guest is to do. Orders are taken one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "lowercase")]
pub(super) enum Order {
    /// Carry a step out to its end.
    Run { step: Step },
    /// Begin a step, which goes on while other orders are carried out.
    Start { step: Step },
    /// Kill a step that was begun, and wait until it is gone.
    Kill { name: String },
    /// Write text to a file that the guest's kernel has for a GPU, such as `reset`.
    Write { gpu: usize, file: String, text: String },
    /// Take the power of a GPU's slot away, whatever runs, as if the card were pulled out.
    SlotOff { gpu: usize },
    /// Wait until a GPU is unplugged, and nothing of it is left.
    Unplugged { gpu: usize },
    /// Wait until a GPU is plugged in, and prepare it.
    Plugged { gpu: usize },
    /// Restart the machine, whatever runs: as `reboot -f`.
    Restart,
    /// Power off.
    PowerOff,
}

/// Messages of a guest, a JSON object each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Event {
    /// It runs.
    Up { kernel: String },
    /// It has found a GPU.
    Function(Found),
    /// It is prepared, and takes orders.
    Ready,
    /// A step begins.
    Started { step: String },
    /// A step printed a line.
    Line { step: String, error: bool, text: String },
    /// A step has ended: with an exit code, or by a signal.
    Ended { step: String, code: Option<i32>, signal: Option<i32> },
    /// A file was written, or why not.
    Wrote { file: String, error: Option<String> },
    /// A GPU is plugged in and prepared, or its slot is without power, or it is gone: what was ordered is done.
    Slot { gpu: usize },
    /// The guest cannot do what it is to do.
    Trouble { text: String },
    /// The guest powers off, as it was ordered to.
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
    /// Names of the functions in the IOMMU group of this one.
    pub(super) group: Vec<String>,
}
