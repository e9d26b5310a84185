//! Trim notifications: user mode is asked to take something off its residency lists.
//!
//! What was not told yet when there is more to tell is told in one call, with the latest number of bytes.
//! [d3dkmthk: D3DKMTRegisterTrimNotification, D3DKMT_TRIMNOTIFICATION]

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use nt::lock::lock;
use nt::user_space::ARGUMENT_WORDS;
use wddm_ddi::kmt::*;

use crate::vidmm::VidMm;
use crate::vidmm::ids::SpaceId;
use crate::vidmm::notify::{self, Registration};

/// Contents of a trim notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notice {
    flags: D3DDDI_TRIMRESIDENCYSET_FLAGS,
    bytes: u64,
}

impl Notice {
    /// Both in one; of the number of bytes the later one counts.
    fn merge(self, later: Self) -> Self {
        let bytes = if later.flags.TrimToBudget() { later.bytes } else { self.bytes };
        let periodic = self.flags.PeriodicTrim() || later.flags.PeriodicTrim();
        let restart = self.flags.RestartPeriodicTrim() || later.flags.RestartPeriodicTrim();
        // The two exclude each other: a process that starts anew has nothing to compare with.
        let flags = D3DDDI_TRIMRESIDENCYSET_FLAGS::new()
            .with_PeriodicTrim(periodic && !restart)
            .with_RestartPeriodicTrim(restart)
            .with_TrimToBudget(self.flags.TrimToBudget() || later.flags.TrimToBudget());
        Self { flags, bytes }
    }
}

impl notify::Notice for Notice {
    fn merge(self, later: Self) -> Self {
        Self::merge(self, later)
    }

    /// D3DKMT_TRIMNOTIFICATION.
    fn argument(self, context: u64) -> [u64; ARGUMENT_WORDS] {
        [context, self.flags.into_bits().into(), self.bytes]
    }
}

/// A function that was registered for a device.
pub(crate) type TrimRegistration = Registration<Notice>;

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
                registration.tell(Notice { flags, bytes: *bytes });
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
            registration.tell(Notice { flags, bytes: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIODIC: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_PeriodicTrim(true);
    const RESTART: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_RestartPeriodicTrim(true);
    const BUDGET: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_TrimToBudget(true);

    #[test]
    fn what_was_not_told_yet_is_told_at_once_and_a_restart_is_never_a_trim() {
        let (periodic, restart) = (Notice { flags: PERIODIC, bytes: 0 }, Notice { flags: RESTART, bytes: 0 });
        let budget = |bytes| Notice { flags: BUDGET, bytes };
        assert_eq!(budget(5).merge(budget(3)), budget(3));
        let both = Notice { flags: PERIODIC.with_TrimToBudget(true), bytes: 5 };
        assert_eq!((budget(5).merge(periodic), periodic.merge(budget(5))), (both, both));
        for merged in [periodic.merge(restart), restart.merge(periodic)] {
            assert_eq!(merged, restart);
        }
    }
}
