//! What ends: memory of devices that are gone, destroyed allocations, and paging work.

use nt::lock::lock;

use crate::vidmm::ids::AllocationId;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::AllocationState;

impl VidMm {
    /// Ends what is left of a device's memory. Its queues are gone.
    pub(crate) fn release_device(&self, device: u64) {
        let mut memory = lock(&self.memory);
        let of_device = |(id, state): (&_, &AllocationState)| (state.allocation.device() == device).then_some(*id);
        let ids: Vec<AllocationId> = memory.allocations.iter().filter_map(of_device).collect();
        for id in ids {
            memory.end_lock(id);
            if let Some(state) = memory.allocations.get_mut(&id) {
                state.references = 0;
            }
            memory.destroy_when_idle(id, None);
        }
        drop(memory);
        self.collect();
    }

    /// Frees destroyed allocations that no queue can use any more, and what finished paging work held.
    pub(crate) fn collect(&self) {
        let mut memory = lock(&self.memory);
        let collected = memory.retire().and_then(|_| memory.free_destroyed()).and_then(|_| memory.submit());
        drop(memory);
        self.note_failure("freeing memory", collected);
        self.report_freed();
    }

    /// Waits until no paging work is under way.
    pub(crate) fn finish_paging(&self) {
        let mut memory = lock(&self.memory);
        let finished = memory.submit().and_then(|()| {
            while memory.wait_oldest()? {}
            Ok(())
        });
        drop(memory);
        self.note_failure("finishing paging work", finished);
        self.report_freed();
    }
}
