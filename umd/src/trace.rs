//! Tracing: the events of a queue while it records and submits.
//!
//! With native fences and submission from user mode, only the driver in the process sees when a wait or a signal is queued; the GPU's logs
//! only say when it was executed. A tracer is called at that moment and takes the time itself. Without one the cost is a branch that always
//! goes the same way.

use wddm_ddi::types::D3DKMT_HANDLE;

/// One thing that happened on a queue, on the thread that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEvent {
    /// A wait of the GPU for a fence was recorded.
    WaitQueued {
        /// Handle of the fence.
        fence: D3DKMT_HANDLE,
        /// The value waited for.
        value: u64,
    },
    /// A signal of a fence by the GPU was recorded.
    SignalQueued {
        /// Handle of the fence.
        fence: D3DKMT_HANDLE,
        /// The value that the fence will have.
        value: u64,
    },
    /// A submission was handed over; rung is false if it went through the kernel.
    Submitted {
        /// Value of the progress fence when the submission is done.
        progress: u64,
        /// True if a doorbell was rung for it.
        rung: bool,
    },
    /// The doorbell had been taken away and was connected again.
    Reconnected {
        /// The progress value that was submitted last.
        progress: u64,
    },
}

/// Gets every event of the queues that it is set on.
///
/// It is called while a submission is recorded, so it should note the event and return. Events of a submission that fails afterwards have been
/// passed too.
pub trait Tracer: Send {
    /// Called at the moment of an event.
    fn event(&mut self, event: QueueEvent);
}
