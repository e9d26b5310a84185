//! Properties that a case needs of an adapter, and that an adapter may lack.

use std::fmt;

use serde::Serialize;

/// Something that an adapter may lack without breaking the contract. A case that needs it says so in its table, and is skipped where it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// Driver and GPU of this project: the case records packets of that GPU, passes private data of its driver, or counts on its capabilities.
    Campanile,
    /// Commands that do not end are known. This project's GPU has none: its cases hang it by faults.
    HangingCommands,
    /// Hardware scheduling is enabled: without it there are no hardware contexts, hardware queues and doorbells, and engines neither wait for nor
    /// signal native fences. [d3dukmdt: D3DKMT_WDDM_2_7_CAPS, HwSchEnabled]
    HardwareScheduling,
    /// Native fences are enabled: without them there are monitored fences only. [d3dukmdt: D3DKMT_WDDM_3_1_CAPS, NativeGpuFenceSupported]
    NativeFence,
    /// User-mode submission is enabled, and with it the two above: without it queues have no doorbells. [user-mode-work-submission]
    UserModeSubmission,
    /// The GPU sees what the caches of the processor hold. [allocation-usage-tracking: I/O coherency]
    IoCoherency,
}

/// What a case needs: by the driver that its area is for, for every case of its area, and for itself.
pub type Needs = [&'static [Need]; 3];

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Campanile => "the GPU whose packets and private data the case is made of (those of the area AnyDriver, and of Adapter but for a few, are for every driver)",
            Self::HangingCommands => "commands that do not end (line `hang` of --private-data)",
            Self::HardwareScheduling => "hardware scheduling",
            Self::NativeFence => "native fences",
            Self::UserModeSubmission => "user-mode submission",
            Self::IoCoherency => "I/O coherency: it does not snoop the caches of the processor",
        })
    }
}
