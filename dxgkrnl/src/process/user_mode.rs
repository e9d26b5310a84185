//! The user-mode side of a process: its memory, for the thunks that it calls, and functions that it has registered.

use std::sync::{Arc, Weak};

use nt::user_space::{ARGUMENT_WORDS, UserSpace};

use wddm_ddi::status::NTSTATUS;

use super::{CURRENT, Process};
use crate::quota::{EventQuota, FunctionPlace};
use crate::vidmm::InProcess;

impl Process {
    /// The user-mode side of the process.
    pub(crate) fn user(&self) -> &dyn UserSpace {
        &*self.user
    }

    /// The events of the process that the system holds.
    pub(crate) fn events(&self) -> &EventQuota {
        &self.quotas.events
    }

    /// Does `act` in the user-mode side of the calling thread's process; `None` for a thread that has none.
    pub(crate) fn in_user_space<T>(act: impl FnOnce(&dyn UserSpace) -> T) -> Option<T> {
        CURRENT.with_borrow(|stack| stack.last().map(|process| act(&*process.user)))
    }
}

/// A process that may be gone when the function is to be called which was registered, one of those that it may register.
pub(crate) struct WeakProcess(Weak<Process>, #[allow(dead_code)] FunctionPlace);

impl WeakProcess {
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if the process has registered as many functions as it may.
    pub(crate) fn new(process: &Arc<Process>) -> Result<Self, NTSTATUS> {
        Ok(Self(Arc::downgrade(process), process.quotas.functions.take()?))
    }
}

impl InProcess for WeakProcess {
    fn call(&self, function: usize, argument: [u64; ARGUMENT_WORDS], caller: u64) -> bool {
        let Some(process) = self.0.upgrade() else { return false };
        let _attached = process.attach();
        process.user.call(function, argument, caller)
    }
}
