//! The queue or context that waits and signals are submitted to.

use std::sync::Arc;

use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

use crate::process::Process;
use crate::refusal::{Failure, refused};
use crate::rundown::Used;
use crate::vidsch::{self, Device, HwQueue, Objects, PacketContext};

/// Most contexts or queues of one call. [d3dukmdt: D3DDDI_MAX_BROADCAST_CONTEXT]
pub(super) const BROADCAST_MAX: u32 = 64;

/// Queue or context that waits and signals are submitted to.
pub(super) enum Target {
    Queue(Used<HwQueue>),
    Context(Used<PacketContext>),
}

impl Target {
    /// What the handle of a context of either kind stands for; a hardware context stands for its queue.
    pub(super) fn of_context(process: &Process, context: D3DKMT_HANDLE) -> Result<Self, Failure> {
        if let Ok(context) = process.get_packet_context(context) {
            return Ok(Self::Context(context));
        }
        match process.get_hw_context(context)?.queues().as_slice() {
            [queue] => Used::new(queue).map(Self::Queue),
            queues => {
                let why = format!(
                    "{context:#x} is a hardware context of {} queues, and stands for its queue where it has one",
                    queues.len()
                );
                Err(refused(STATUS_INVALID_PARAMETER, why))
            }
        }
    }

    /// As [`Target::of_context`], of each.
    pub(super) fn of_contexts(process: &Process, contexts: &[D3DKMT_HANDLE]) -> Result<Vec<Self>, Failure> {
        contexts.iter().map(|context| Self::of_context(process, *context)).collect()
    }

    /// The device that the work is of.
    pub(super) fn device(&self) -> &Arc<Device> {
        match self {
            Self::Queue(queue) => queue.context().device(),
            Self::Context(context) => context.device(),
        }
    }
}

/// Work that is submitted to `target` from now on waits for these.
pub(super) fn wait_for(target: &Target, conditions: Objects) -> Result<NTSTATUS, Failure> {
    if conditions.fences.iter().any(|(fence, _)| !fence.rights().wait) {
        return Err(refused(STATUS_ACCESS_DENIED, "a fence was created with NoWait"));
    }
    vidsch::check_waits(&conditions.fences)?;
    match target {
        Target::Queue(queue) => queue.submit_wait(conditions)?,
        Target::Context(context) => context.submit_wait(conditions)?,
    }
    Ok(STATUS_SUCCESS)
}

/// These are signalled when what was submitted to all of `targets` is done, or `at_submission`.
///
/// # Errors
/// STATUS_INVALID_PARAMETER for queues of several devices; as for one queue. A signal that some of them have refused has no effect.
pub(super) fn signal_with(targets: &[Target], signals: Objects, at_submission: bool) -> Result<NTSTATUS, Failure> {
    if !targets.windows(2).all(|pair| matches!(pair, [one, other] if Arc::ptr_eq(one.device(), other.device()))) {
        return Err(refused(STATUS_INVALID_PARAMETER, "the contexts or queues are of several devices"));
    }
    if signals.fences.iter().any(|(fence, _)| fence.is_of_queue()) {
        let why = "a progress fence of a queue is signalled by its queue alone";
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    if signals.fences.iter().any(|(fence, _)| !fence.rights().signal) {
        return Err(refused(STATUS_ACCESS_DENIED, "a fence was created with NoSignal"));
    }
    vidsch::check_signals(&signals.fences)?;
    let signals = signals.together(targets.len());
    for target in targets {
        let signals = signals.clone();
        match target {
            Target::Queue(queue) => queue.submit_signal(signals, at_submission)?,
            Target::Context(context) => context.submit_signal(signals, at_submission)?,
        }
    }
    Ok(STATUS_SUCCESS)
}
