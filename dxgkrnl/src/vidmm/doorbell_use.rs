//! What user mode keeps in use of an allocation: by its residency list, or by a doorbell.

use nt::lock::lock;
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_HANDLE};

use crate::vidmm::allocation::Allocation;
use crate::vidmm::manager::VidMm;
use crate::vidmm::memory::AllocationState;

impl VidMm {
    fn with_state<R>(&self, allocation: &Allocation, act: impl FnOnce(&mut AllocationState) -> R) -> Option<R> {
        lock(&self.memory).allocations.get_mut(&allocation.id()).map(act)
    }

    /// True if an allocation is on the residency list of its device.
    pub(crate) fn is_resident(&self, allocation: &Allocation) -> bool {
        let by_this_device = allocation.sharing().is_none_or(|(sharing, user)| sharing.is_listed(user, 1));
        let listed =
            self.with_state(allocation, |state| state.listed > 0 && !state.destroyed && state.offered.is_none());
        by_this_device && listed.unwrap_or(false)
    }

    /// True if a doorbell uses an allocation.
    pub(crate) fn is_referenced(&self, allocation: &Allocation) -> bool {
        self.with_state(allocation, |state| state.references > 0).unwrap_or(false)
    }

    /// A doorbell uses an allocation as ring or ring control: it stays where it is and is not freed until released.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE for one that is destroyed, or is to be when the queues are done with it.
    pub(crate) fn add_doorbell_reference(&self, allocation: &Allocation) -> Result<(), NTSTATUS> {
        let added = self.with_state(allocation, |state| {
            state.references += u32::from(!state.destroyed);
            !state.destroyed
        });
        if added == Some(true) { Ok(()) } else { Err(STATUS_INVALID_HANDLE) }
    }

    /// Ends [`VidMm::add_doorbell_reference`].
    pub(crate) fn release_doorbell_reference(&self, allocation: &Allocation) {
        self.with_state(allocation, |state| state.references = state.references.saturating_sub(1));
        self.collect();
    }
}
