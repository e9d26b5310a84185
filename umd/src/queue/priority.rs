//! The scheduling priority of a queue, which is that of its context.

use wddm_ddi::kmt::*;

use super::{Queue, Target};
use crate::{error::Result, thunks::invoke};

impl Queue {
    /// Gives the context the priority of the options; it has the normal one from its creation on.
    ///
    /// # Errors
    /// [`Error::Status`](crate::Error::Status) with STATUS_PRIVILEGE_NOT_HELD for a priority that the process may not have, and with
    /// STATUS_INVALID_PARAMETER for one that there is not; [`Error::DeviceLost`](crate::Error::DeviceLost).
    /// [d3dkmthk: D3DKMTSetContextSchedulingPriority]
    pub(super) fn take_priority(&self) -> Result<()> {
        let device = self.device();
        let context = match &self.target {
            _ if self.options.priority == 0 => return Ok(()),
            Target::Hardware(_, context) => context.handle,
            Target::Packets(context, _) => context.handle,
        };
        let mut args = D3DKMT_SETCONTEXTSCHEDULINGPRIORITY { hContext: context, Priority: self.options.priority };
        invoke!(device.thunks(), D3DKMTSetContextSchedulingPriority, &mut args).map_err(|error| device.explain(error))
    }
}
