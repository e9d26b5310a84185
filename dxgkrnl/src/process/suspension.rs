//! Suspending and resuming single contexts on request, for conformance cases and tools. The system itself does so when
//! devices sleep or are lost.

use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::Process;

/// The state of the suspensions of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspensions {
    /// Number of suspensions of this context that the driver was asked for.
    pub asked: u64,
    /// The request up to which it has answered.
    pub answered: u64,
}

impl Process {
    /// Has the driver take a hardware context off its engine. Does not wait: the context has left the engine when
    /// [`Process::suspensions`] says that the last request is answered.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE, STATUS_OBJECT_TYPE_MISMATCH: no hardware context of this process; STATUS_DEVICE_REMOVED
    /// after the bugcheck that a refusal by the driver is.
    pub fn suspend_hw_context(&self, context: D3DKMT_HANDLE) -> Result<(), NTSTATUS> {
        let _powered = self.machine().gate().enter(self.machine());
        let context = self.get_hw_context(context).map_err(|failure| failure.status())?;
        let _running = context.adapter().vidsch().keep_running(context.device())?;
        context.begin_suspension().map(drop).map_err(|_| STATUS_DEVICE_REMOVED)
    }

    /// Has the driver put a hardware context back on its engine, whether or not suspensions are answered.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE, STATUS_OBJECT_TYPE_MISMATCH: no hardware context of this process; STATUS_NO_MEMORY when what its work needs
    /// does not fit.
    pub fn resume_hw_context(&self, context: D3DKMT_HANDLE) -> Result<(), NTSTATUS> {
        let _powered = self.machine().gate().enter(self.machine());
        let context = self.get_hw_context(context).map_err(|failure| failure.status())?;
        let _running = context.adapter().vidsch().keep_running(context.device())?;
        context.resume();
        Ok(())
    }

    /// The state of the suspensions of a hardware context.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE, STATUS_OBJECT_TYPE_MISMATCH: no hardware context of this process.
    pub fn suspensions(&self, context: D3DKMT_HANDLE) -> Result<Suspensions, NTSTATUS> {
        let (asked, answered) = self.get_hw_context(context).map_err(|failure| failure.status())?.suspensions();
        Ok(Suspensions { asked, answered })
    }
}
