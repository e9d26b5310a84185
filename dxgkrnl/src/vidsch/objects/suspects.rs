//! State of a node that a reset of its engine is about.

use std::time::Duration;

/// What stands still on the hardware, or a preemption of what has ended meanwhile. Whatever was taken off is no longer this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suspects {
    /// Id of the oldest packet on the hardware; `None` if all have ended.
    pub(crate) oldest: Option<u32>,
    /// The preemption that is not answered, and since when.
    pub(crate) preemption: Option<(u32, Duration)>,
    /// The oldest packet is of a context that may run as long as it likes.
    pub(crate) unlimited: bool,
    /// How often what was on the hardware came back: a packet that comes again under its id has its time anew.
    pub(crate) taken_back: u32,
}

/// Ids of a node when its engine was taken to hang: what the driver calls aborted lies between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) last_completed: u32,
    pub(crate) last_submitted: u32,
}

/// What was on the hardware when everything counted as complete for a reset of the adapter. An engine that does not hang goes on until its driver has reset it,
/// and what it reports of these until then is heard by nobody.
#[derive(Default)]
pub(in crate::vidsch) struct GivenUp {
    pub(in crate::vidsch) packets: Vec<u32>,
    pub(in crate::vidsch) preemption: Option<u32>,
}
