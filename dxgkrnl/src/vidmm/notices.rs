//! What processes are told of their memory: that they are to trim, and that a budget has changed.
//!
//! What was not told yet when there is more to tell is told in one call, with the latest number of bytes.
//! [d3dkmthk: D3DKMT_TRIMNOTIFICATION, D3DKMT_BUDGETCHANGENOTIFICATION]

use std::sync::Weak;

use nt::user_space::ARGUMENT_WORDS;
use wddm_ddi::kmt::*;

use crate::vidmm::notify::{Notice, Registration};

/// Contents of a trim notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trim {
    pub(super) flags: D3DDDI_TRIMRESIDENCYSET_FLAGS,
    pub(super) bytes: u64,
}

impl Notice for Trim {
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

    /// D3DKMT_TRIMNOTIFICATION.
    fn argument(self, context: u64) -> [u64; ARGUMENT_WORDS] {
        [context, self.flags.into_bits().into(), self.bytes]
    }
}

/// A function that was registered for a device.
pub(crate) type TrimRegistration = Registration<Trim>;

/// A new budget in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget(pub(super) u64);

impl Notice for Budget {
    fn merge(self, later: Self) -> Self {
        later
    }

    /// D3DKMT_BUDGETCHANGENOTIFICATION.
    fn argument(self, context: u64) -> [u64; ARGUMENT_WORDS] {
        [context, self.0, 0]
    }
}

/// A function that was registered for a device.
pub(crate) type BudgetRegistration = Registration<Budget>;

/// A registration, and the budget that it was told last.
pub(crate) struct BudgetListener {
    pub(super) registration: Weak<BudgetRegistration>,
    pub(super) known: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIODIC: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_PeriodicTrim(true);
    const RESTART: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_RestartPeriodicTrim(true);
    const BUDGET: D3DDDI_TRIMRESIDENCYSET_FLAGS = D3DDDI_TRIMRESIDENCYSET_FLAGS::new().with_TrimToBudget(true);

    #[test]
    fn what_was_not_told_yet_is_told_at_once_and_a_restart_is_never_a_trim() {
        let (periodic, restart) = (Trim { flags: PERIODIC, bytes: 0 }, Trim { flags: RESTART, bytes: 0 });
        let budget = |bytes| Trim { flags: BUDGET, bytes };
        assert_eq!(budget(5).merge(budget(3)), budget(3));
        let both = Trim { flags: PERIODIC.with_TrimToBudget(true), bytes: 5 };
        assert_eq!((budget(5).merge(periodic), periodic.merge(budget(5))), (both, both));
        for merged in [periodic.merge(restart), restart.merge(periodic)] {
            assert_eq!(merged, restart);
        }
    }
}
