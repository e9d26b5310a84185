//! Time slices in memory, for processes with work whose residency lists do not fit beside one another.
//!
//! A request that needs the memory of processes with work is queued, and only the first request of the queue has one suspended
//! ([`VidSch::suspend`]). A process that was suspended with work to do is resumed without being asked: a thread queues a request for it, for one
//! process after the other, in the order in which they were suspended. Once it is resumed it keeps its memory for a time slice: [`SLICE`] of the
//! machine's clock, or until it has completed [`SLICE_WORK`] submissions. So each gets its time slice, however many there are, and whatever it
//! waits for that another one must do.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use crate::vidmm::{AddressSpace, EvictionSearch};
use crate::vidsch::DeviceError;

use super::VidSch;

/// How long a process that was suspended with work runs at least, by the machine's clock, once it is resumed.
pub(super) const SLICE: Duration = Duration::from_millis(50);

/// Completed submissions after which its time slice is over sooner.
pub(super) const SLICE_WORK: u64 = 1024;

/// Interval at which the thread checks whether a device has returned from D3 to D0.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Processes that were suspended with work to do, and the thread that resumes them.
#[derive(Default)]
struct SuspendedProcesses {
    spaces: VecDeque<Weak<AddressSpace>>,
    running: bool,
    stopped: bool,
}

/// The suspended processes that wait for a time slice.
#[derive(Default)]
pub(crate) struct ResidencySlices {
    suspended: Mutex<SuspendedProcesses>,
}

impl ResidencySlices {
    /// From now on no process is resumed here; returns when the thread has ended.
    pub(super) fn stop(&self) {
        lock(&self.suspended).stopped = true;
        while lock(&self.suspended).running {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn is_stopped(&self) -> bool {
        lock(&self.suspended).stopped
    }

    /// The next process to be resumed; without one the thread ends.
    fn next(&self) -> Option<Weak<AddressSpace>> {
        let mut suspended = lock(&self.suspended);
        let next = if suspended.stopped { None } else { suspended.spaces.pop_front() };
        suspended.running = next.is_some();
        next
    }
}

impl VidSch {
    /// True while it makes sense to wait for memory: the adapter is there, and recovery has not given it up.
    pub(crate) fn may_wait(&self) -> bool {
        !self.timeouts.is_abandoning() && self.adapter().is_ok_and(|adapter| !adapter.is_gone())
    }

    /// A process was suspended with work to do: it is queued for a time slice.
    pub(super) fn note_suspended(&self, space: &Arc<AddressSpace>) {
        let Ok(adapter) = self.adapter() else { return };
        let mut suspended = lock(&self.residency_slices.suspended);
        if suspended.stopped {
            return;
        }
        suspended.spaces.push_back(Arc::downgrade(space));
        if suspended.running {
            return;
        }
        let sch = Arc::clone(adapter.vidsch());
        let thread = std::thread::Builder::new().name("vidsch-slices".to_owned()).spawn(move || sch.give_time_slices());
        suspended.running = thread.is_ok();
        if let Err(error) = thread {
            self.verifier.log(format!("suspended processes wait for their own threads: {error}"));
        }
    }

    fn give_time_slices(&self) {
        while let Some(space) = self.residency_slices.next() {
            if let Some(space) = space.upgrade() {
                self.give_time_slice(&space);
            }
        }
    }

    /// Resumes a process that was suspended with work to do, unless it runs already, or has none left.
    fn give_time_slice(&self, space: &AddressSpace) {
        let Ok(adapter) = self.adapter() else { return };
        let mut search = EvictionSearch::default();
        while !self.residency_slices.is_stopped() && !self.verifier.is_stopped() {
            let Some(powered) = adapter.machine.gate().enter_awake() else {
                search.leave_queue();
                std::thread::sleep(POLL_INTERVAL);
                continue;
            };
            if adapter.is_gone() || !self.has_work(space) {
                return space.suspension.give_up_time_slice();
            }
            match self.try_resume(space, &mut search) {
                Some(Ok(())) => return,
                None => {}
                Some(Err(status)) => {
                    drop(powered);
                    return self.starve(space, status);
                }
            }
            drop(powered);
            adapter.vidmm().pause_for_memory();
        }
    }

    /// What a process must have resident does not fit into memory any more: its devices are lost (OutOfMemory).
    fn starve(&self, space: &AddressSpace, status: NTSTATUS) {
        let Ok(adapter) = self.adapter() else { return };
        if self.verifier.is_stopped() || self.timeouts.is_abandoning() || adapter.is_gone() {
            return;
        }
        self.verifier.log(format!("the memory of a process that was suspended does not come back: {status}"));
        let _powered = adapter.machine.gate().enter(&adapter.machine);
        for device in self.devices_at(space) {
            self.lose_device(&device, DeviceError::OutOfMemory);
        }
    }
}
