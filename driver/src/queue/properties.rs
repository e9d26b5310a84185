//! Properties of a hardware context with which its queues are mapped.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use campanile_hw::queue::Location;

use crate::handle::Handle;
use crate::irql::UpToDispatch;
use crate::lock::SpinLock;
use crate::node::priority::Priority;
use crate::root_word::{NO_ROOT, bits_of, root_of};

/// Properties of a hardware context that each of its queues has.
pub(crate) struct ContextProperties {
    pub(crate) node: u32,
    pub(crate) engine: u32,
    pub(crate) process: Handle,
    root: AtomicU64,
    /// Taken after the locks of queues; nothing is taken after it.
    priority: SpinLock<Priority>,
    suspended: AtomicBool,
}

impl ContextProperties {
    /// Of a context that runs, without a root page table.
    pub(super) fn new(node: u32, engine: u32, process: Handle) -> Self {
        Self {
            node,
            engine,
            process,
            root: AtomicU64::new(NO_ROOT),
            priority: SpinLock::new(Priority::normal()),
            suspended: AtomicBool::new(false),
        }
    }

    /// Root page table, once it was set.
    pub(crate) fn root(&self) -> Option<Location> {
        root_of(&self.root)
    }

    /// Sets the root page table, or takes it away. True if it was another one.
    pub(super) fn set_root(&self, root: Option<Location>) -> bool {
        self.root.swap(bits_of(root), Ordering::AcqRel) != bits_of(root)
    }

    pub(super) fn priority(&self, irql: &impl UpToDispatch) -> Priority {
        *self.priority.lock(irql)
    }

    /// Sets the priority. True if it was another one.
    pub(super) fn set_priority(&self, irql: &impl UpToDispatch, wanted: Priority) -> bool {
        core::mem::replace(&mut *self.priority.lock(irql), wanted) != wanted
    }

    /// True while the operating system has the context suspended.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Acquire)
    }

    pub(super) fn set_suspended(&self, suspended: bool) {
        self.suspended.store(suspended, Ordering::Release);
    }
}
