//! What the memory manager knows of the users of its memory: the scheduler of the adapter, and the devices of processes.
//!
//! The scheduler stands above the memory manager and knows it; plug and play gives the memory manager the scheduler as this trait.

use std::sync::Arc;

use wddm_ddi::status::NTSTATUS;

use crate::kmd_handle::KmdHandle;
use crate::refusal::Failure;
use crate::scheduler_class::InClass;
use crate::vidmm::address_space::AddressSpace;
use crate::vidmm::user_mapping::Kept;

/// The result of an attempt to suspend a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuspendOutcome {
    /// The process is suspended.
    Suspended,
    /// The process is not suspended: its time slice is not over.
    HasTimeSlice,
    /// Another thread is just giving it work, resuming it or suspending it.
    Locked,
    /// It did not leave its engines in time, and runs on.
    StillRunning,
}

/// The scheduler of an adapter.
pub(crate) trait Scheduler: Send + Sync {
    /// Only one thread is inside the DDIs of the GPU scheduler class, BuildPagingBuffer among them: a thread that calls `ddi` has this.
    fn scheduler_class(&self, ddi: &'static str) -> InClass<'_>;

    /// Creates a context of the system device `device` on `node`, with the page tables of `space`.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a node that does not exist or a context that breaks the rules; what the driver answered.
    fn create_paging_context(
        &self,
        device: KmdHandle,
        node: u32,
        space: &AddressSpace,
    ) -> Result<Arc<dyn PagingContext>, Failure>;

    /// Processes in the order in which they are suspended: those of the lowest priority first, of the same priority in the order given.
    fn by_rank(&self, spaces: Vec<Arc<AddressSpace>>) -> Vec<Arc<AddressSpace>>;

    /// Suspends a process with work, if its time slice is over. `note` is called when it is suspended, before any thread can resume it.
    fn suspend(&self, space: &Arc<AddressSpace>, note: &mut dyn FnMut()) -> SuspendOutcome;

    /// Suspends a process if its work is done, with `note` as there. True if it is suspended now.
    fn suspend_idle(&self, space: &Arc<AddressSpace>, note: &mut dyn FnMut()) -> bool;

    /// Does `act` while the process is suspended, if the answer is [`SuspendOutcome::Suspended`]; `act` is told whether the process ran before.
    fn while_suspended(&self, space: &Arc<AddressSpace>, act: &mut dyn FnMut(bool)) -> SuspendOutcome;

    /// True while it makes sense to wait for memory: the adapter is there, and recovery has not given it up.
    fn may_wait(&self) -> bool;
}

/// A context of the paging process on a node, to which paging buffers are submitted.
pub(crate) trait PagingContext: Send + Sync {
    /// The driver's handle.
    fn kmd(&self) -> KmdHandle;

    /// Submits a paging buffer; the answer is its fence on the node.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED on a stopped adapter, and after the bugcheck that a refusal by the driver is.
    fn submit(self: Arc<Self>, address: u64, size: u32, private: &[u8]) -> Result<u32, NTSTATUS>;

    /// True if a packet is complete.
    fn is_complete(&self, fence: u32) -> bool;

    /// Waits until a packet is complete.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED when the machine has stopped meanwhile.
    fn wait(&self, fence: u32) -> Result<(), NTSTATUS>;

    /// Destroys the context, whose packets are complete.
    fn destroy(&self);
}

/// A device of a process, on whose behalf memory is managed.
pub(crate) trait MemoryOwner: Send + Sync {
    /// Identity of the device.
    fn id(&self) -> u64;

    /// The driver's handle.
    fn kmd(&self) -> KmdHandle;

    /// The address space of its process.
    fn space(&self) -> &Arc<AddressSpace>;

    /// Addresses that its process may use although the adapter stopped.
    fn kept(&self) -> &Arc<Kept>;

    /// Nothing if the device works.
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED if it is in error.
    fn check(&self) -> Result<(), NTSTATUS>;

    /// True if the device is in error.
    fn is_lost(&self) -> bool;

    /// Keeps the process running until the answer is dropped, and resumes it if it is suspended; with `suspends`, other processes with work
    /// may be suspended for that.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when there is no memory for what its engines need; else the error of a lost device.
    fn keep_running(&self, suspends: bool) -> Result<Box<dyn Running + '_>, NTSTATUS>;
}

/// The process of a device is not suspended while this exists.
pub(crate) trait Running {}

/// Tells whether every queue that could have used something at a certain time has since gone beyond that time.
pub(crate) type IdlePoint = Arc<dyn Fn() -> bool + Send + Sync>;
