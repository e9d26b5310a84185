//! Trim notifications: user mode is asked to take something off its residency lists.
//! [d3dkmthk: D3DKMTRegisterTrimNotification, D3DKMT_TRIMNOTIFICATION]

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use nt::lock::lock;
use wddm_ddi::kmt::*;

use crate::vidmm::ids::SpaceId;
use crate::vidmm::manager::VidMm;
use crate::vidmm::notices::{Trim, TrimRegistration};

impl VidMm {
    /// `registration` is told from now on, until it ends.
    pub(crate) fn add_trim(&self, registration: &Arc<TrimRegistration>) {
        let mut trims = lock(&self.trims);
        trims.retain(|known| known.strong_count() > 0);
        trims.push(Arc::downgrade(registration));
    }

    fn registrations(&self) -> Vec<Arc<TrimRegistration>> {
        lock(&self.trims).iter().filter_map(Weak::upgrade).collect()
    }

    /// Asks processes to give back so many bytes each. The answer is which of them hear it. Called without the memory lock.
    pub(crate) fn ask_to_trim(&self, trims: &[(SpaceId, u64)]) -> BTreeSet<SpaceId> {
        let mut heard = BTreeSet::new();
        if trims.is_empty() {
            return heard;
        }
        let flags = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_TrimToBudget(true);
        for registration in self.registrations() {
            if let Some((_, bytes)) = trims.iter().find(|(process, _)| *process == registration.process()) {
                registration.tell(Trim { flags, bytes: *bytes });
                heard.insert(registration.process());
            }
        }
        heard
    }

    /// Asks every device to give back what it has not used since it was asked last; devices that slept meanwhile only learn that a new
    /// period begins.
    pub(crate) fn trim_periodically(&self) {
        let slept = std::mem::take(&mut lock(&self.memory).slept);
        let flags = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_PeriodicTrim(!slept).with_RestartPeriodicTrim(slept);
        for registration in self.registrations() {
            registration.tell(Trim { flags, bytes: 0 });
        }
    }
}
