//! The processes that wait for a time slice in memory.

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::Duration;

use nt::lock::{Mutex, lock};

use crate::vidmm::AddressSpace;

/// How long a process that was suspended with work runs at least, by the machine's clock, once it is resumed.
pub(in crate::vidsch) const SLICE: Duration = Duration::from_millis(50);

/// Completed submissions after which its time slice is over sooner.
pub(in crate::vidsch) const SLICE_WORK: u64 = 1024;

/// Interval at which the thread checks whether a device has returned from D3 to D0.
pub(in crate::vidsch) const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Processes that were suspended with work to do, and the thread that resumes them.
#[derive(Default)]
pub(in crate::vidsch) struct SuspendedProcesses {
    pub(in crate::vidsch) spaces: VecDeque<Weak<AddressSpace>>,
    pub(in crate::vidsch) running: bool,
    pub(in crate::vidsch) stopped: bool,
}

/// The suspended processes that wait for a time slice.
#[derive(Default)]
pub(crate) struct ResidencySlices {
    pub(in crate::vidsch) suspended: Mutex<SuspendedProcesses>,
}

impl ResidencySlices {
    /// From now on no process is resumed here; returns when the thread has ended.
    pub(in crate::vidsch) fn stop(&self) {
        lock(&self.suspended).stopped = true;
        while lock(&self.suspended).running {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub(in crate::vidsch) fn is_stopped(&self) -> bool {
        lock(&self.suspended).stopped
    }

    /// The next process to be resumed; without one the thread ends.
    pub(in crate::vidsch) fn next(&self) -> Option<Weak<AddressSpace>> {
        let mut suspended = lock(&self.suspended);
        let next = if suspended.stopped { None } else { suspended.spaces.pop_front() };
        suspended.running = next.is_some();
        next
    }
}
