//! State of preemptions, and of packets that they take off the hardware again and again.

use std::time::Duration;

use crate::fence::InvalidFence;

/// A report of the driver about a preemption that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) enum InvalidPreemption {
    /// Nobody asked for this preemption.
    Unknown,
    /// It names a packet that is not under way as the last one completed.
    Fence(InvalidFence),
}

/// A preemption that the driver was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) struct Preempting {
    pub(in crate::vidsch) id: u32,
    /// When it was asked, by the machine's clock.
    pub(in crate::vidsch) since: Duration,
    /// It was asked only to see whether a packet that stands still lets go of the hardware.
    pub(in crate::vidsch) probes: bool,
    /// The oldest packet on the hardware, and how long it has had the node.
    pub(in crate::vidsch) oldest: Option<(u32, Duration)>,
}

/// Time for which an unfinished packet has occupied its node.
#[derive(Clone, Copy, Default)]
pub(in crate::vidsch) struct Stood {
    /// As the oldest on the node, since it was last found standing.
    pub(in crate::vidsch) time: Duration,
    /// Number of times that it has occupied the node for TdrDelay.
    pub(in crate::vidsch) times: u32,
}

/// Result of a preemption for the packet that was asked off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) enum TakenOff {
    /// Nothing.
    Nothing,
    /// A packet that stood still was done, and only the watchdog's look at it has told so.
    Done,
    /// A packet has had its node for TdrDelay once more, without being done.
    Standing(Standing),
}

/// A packet that comes off its node again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) struct Standing {
    /// Id of the packet, as in its SubmissionFenceId.
    pub(in crate::vidsch) id: u32,
    /// How often it was found standing, or any packet of the node was since the last one that was done: whichever is more often.
    pub(in crate::vidsch) times: u32,
    /// Id of the last packet that is done.
    pub(in crate::vidsch) completed: u32,
    pub(in crate::vidsch) verdict: Verdict,
}

/// Long, or lost and for which reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vidsch) enum Verdict {
    /// It is long or lost.
    Unknown,
    /// It is lost: the driver says that it cannot stop a packet that runs.
    NotBegun,
    /// It is lost: no packet of the memory manager takes so long.
    Paging,
}
