//! The sync files that user mode has descriptors of.

use std::collections::HashMap;
use std::sync::Arc;

use nt::lock::{Mutex, lock};
use wddm_ddi::status::*;

use crate::vidsch::{SyncFile, SyncFileId};

use super::Machine;

/// Most files of one process that are open at a time.
const MAX_OF_PROCESS: usize = 1024;

/// Files by what identifies them, with the process that made each.
#[derive(Default)]
pub(super) struct SyncFiles(Mutex<HashMap<SyncFileId, (u64, Arc<SyncFile>)>>);

impl Machine {
    /// Keeps a file of a process until all its descriptors are closed.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES for one too many.
    pub(crate) fn add_sync_file(&self, id: SyncFileId, process: u64, file: Arc<SyncFile>) -> Result<(), NTSTATUS> {
        self.forget_closed_sync_files();
        let mut files = lock(&self.0.sync_files.0);
        if files.values().filter(|(owner, _)| *owner == process).count() >= MAX_OF_PROCESS {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        files.insert(id, (process, file));
        Ok(())
    }

    /// The file that a descriptor is of.
    ///
    /// # Errors
    /// STATUS_INVALID_HANDLE if it is of none.
    pub(crate) fn sync_file(&self, id: SyncFileId) -> Result<Arc<SyncFile>, NTSTATUS> {
        let files = lock(&self.0.sync_files.0);
        files.get(&id).map(|(_, file)| Arc::clone(file)).ok_or(STATUS_INVALID_HANDLE)
    }

    /// Forgets a file that nobody got a descriptor of.
    pub(crate) fn take_sync_file(&self, id: SyncFileId) {
        let taken = lock(&self.0.sync_files.0).remove(&id);
        drop(taken);
    }

    /// Lets go of the files whose descriptors are all closed. Called with the next file, and when a process has ended.
    pub(crate) fn forget_closed_sync_files(&self) {
        let closed: Vec<_> = lock(&self.0.sync_files.0).extract_if(|_, (_, file)| file.is_closed()).collect();
        // A file takes locks of its fence when it ends.
        drop(closed);
    }
}
