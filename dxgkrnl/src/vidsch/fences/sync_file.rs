//! Sync files: descriptors of user mode that are ready once a monitored fence has reached a value.
//!
//! Microsoft's pages reserve these thunks for the system. What is here is what the graphics kernel of WSL, whose source is public, does with them: a
//! file keeps a shared fence alive, and what waits for the file or opens its fence needs one that is shared.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use wddm_ddi::status::*;

use crate::descriptor::Descriptor;
use crate::fence::{Rights, Wait};
use crate::refusal::{Failure, refused};

use super::batch;
use super::shared_fence::{Reference, SharedFence};
use crate::vidsch::objects::fence::{Fence, SyncObject};

/// A file of a fence and a value.
pub(crate) struct SyncFile {
    fence: Arc<Fence>,
    /// Keeps a shared fence alive on the adapter of its creator.
    _reference: Option<Reference>,
    /// Handle by which other devices open the fence; STATUS_INVALID_PARAMETER for one that was not created to be shared.
    shared: Result<Arc<SharedFence>, NTSTATUS>,
    rights: Rights,
    value: u64,
    descriptor: Arc<Descriptor>,
    /// Makes the descriptor ready when it is over.
    wait: Arc<Wait>,
}

impl SyncFile {
    /// A file for when `open` has reached `value`, and the end that user mode gets. A fence that nobody can wait for any more makes it ready, too.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a native fence and for the progress fence of a queue; STATUS_ACCESS_DENIED for one that may not be waited for; why the
    /// fence is ended; STATUS_INSUFFICIENT_RESOURCES if the host has no descriptors left.
    pub(crate) fn new(open: &SyncObject, value: u64) -> Result<(Self, OwnedFd), Failure> {
        let fence = Arc::clone(open.fence());
        if fence.is_native() || open.is_of_queue() {
            let why = "hMonitoredFence is a native fence or the progress fence of a queue";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        if !open.rights().wait {
            return Err(refused(STATUS_ACCESS_DENIED, "hMonitoredFence was created with NoWait"));
        }
        open.check()?;
        let shared = SharedFence::new(&fence).map_err(|failure| failure.status());
        let reference = shared.is_ok().then(|| Reference::new(&fence)).transpose()?;
        let (descriptor, others) = Descriptor::new()?;
        let descriptor = Arc::new(descriptor);
        let told = Arc::clone(&descriptor);
        let wait = Wait::of_hook(1, Box::new(move || told.make_ready()));
        let file = Self { fence, _reference: reference, shared, rights: open.rights(), value, descriptor, wait };
        batch::add_wait_on(&file.fence, value, &file.wait)?;
        Ok((file, others))
    }

    /// The value that it stands for.
    pub(crate) fn value(&self) -> u64 {
        self.value
    }

    /// Rights of the opening that made it.
    pub(crate) fn rights(&self) -> Rights {
        self.rights
    }

    /// True once its descriptors are ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.wait.outcome().is_some()
    }

    /// Handle by which other devices open the fence.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if it was not created to be shared.
    pub(crate) fn shared(&self) -> Result<&SharedFence, Failure> {
        let why = "hSyncFile is of a fence that is not shared by kernel handles";
        self.shared.as_deref().map_err(|status| refused(*status, why))
    }

    /// True once every descriptor of it is closed, or was shut down by somebody who has it.
    pub(crate) fn is_closed(&self) -> bool {
        self.descriptor.is_closed()
    }
}

impl Drop for SyncFile {
    fn drop(&mut self) {
        self.wait.finish(STATUS_CANCELLED);
        self.fence.remove_over();
    }
}
