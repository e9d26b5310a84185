//! What cases assume of an adapter that not every adapter has.

use crate::cases::caps;
use crate::{Case, Failure};

/// Something that an adapter may lack without breaking the contract. A case that needs it says so in its table, and is skipped where it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Hardware scheduling is enabled: without it there are no hardware contexts, hardware queues and doorbells, and engines neither wait for nor
    /// signal native fences. [d3dukmdt: D3DKMT_WDDM_2_7_CAPS, HwSchEnabled]
    HardwareScheduling,
}

impl Need {
    /// Asks the adapter of a case.
    ///
    /// # Errors
    /// [`Failure::NotApplicable`] if the adapter does not have it; [`Failure::Unmet`] if the adapter cannot be asked.
    pub fn check(self, case: &Case) -> Result<(), Failure> {
        let (met, reason) = match self {
            Self::HardwareScheduling => (caps::scheduling(case)?.HwSchEnabled(), "hardware scheduling is not enabled"),
        };
        if met { Ok(()) } else { Err(Failure::NotApplicable(reason.to_owned())) }
    }
}
