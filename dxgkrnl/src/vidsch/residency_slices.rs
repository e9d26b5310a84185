//! Time slices in memory, for processes with work whose residency lists do not fit beside one another.
//!
//! A request that needs the memory of processes with work is queued, and only the first request of the queue has one suspended
//! ([`VidSch::suspend`]). A process that was suspended with work to do is resumed without being asked: a thread queues a request for it, for one
//! process after the other, in the order in which they were suspended. Once it is resumed it keeps its memory for a time slice:
//! [`SLICE`](crate::vidsch::objects::residency_slices) of the machine's clock, or until it has completed
//! [`SLICE_WORK`](crate::vidsch::objects::residency_slices) submissions. So each gets its time slice, however many there are, and whatever it
//! waits for that another one must do.

use std::sync::Arc;

use nt::lock::lock;
use wddm_ddi::status::*;

use crate::vidmm::{AddressSpace, EvictionSearch};

use super::objects::device::DeviceError;
use super::objects::residency_slices::POLL_INTERVAL;
use super::scheduler::VidSch;

impl VidSch {
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
