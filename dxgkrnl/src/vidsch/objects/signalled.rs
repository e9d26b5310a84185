//! The names of fences, and what a reading of the logs found signalled.

use std::collections::HashMap;
use std::sync::Weak;
use std::sync::atomic::AtomicU64;

use nt::lock::{Mutex, lock};
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmd_handle::KmdHandle;

use super::fence::SyncObject;
use crate::vidsch::report::Limits;

/// Selection of the queues whose logs are read.
#[derive(Clone, Copy)]
pub(in crate::vidsch) enum Wanted<'a> {
    All,
    /// Of devices, by identity.
    Devices(&'a [u64]),
    /// By our handles.
    Queues(&'a [KmdHandle]),
}

/// Fences that a reading of the logs found signalled.
#[derive(Debug, Default)]
pub(in crate::vidsch) struct Signalled {
    /// Names are of use: interrupts do not tell which fences were signalled.
    named: bool,
    /// Process and handle of each fence.
    pub(in crate::vidsch) names: Vec<(u64, D3DKMT_HANDLE)>,
    /// Processes whose logs do not name every signal any more.
    pub(in crate::vidsch) overrun: Vec<u64>,
}

impl Signalled {
    /// Nothing yet.
    pub(in crate::vidsch) fn new(limits: Limits) -> Self {
        Self { named: limits.optimized, ..Self::default() }
    }

    /// A process's fence was signalled.
    pub(in crate::vidsch) fn add(&mut self, process: u64, fence: D3DKMT_HANDLE) {
        if self.named {
            self.names.push((process, fence));
        }
    }

    /// A process may have signalled any fence that it has open.
    pub(in crate::vidsch) fn add_process(&mut self, process: u64) {
        if self.named {
            self.overrun.push(process);
        }
    }
}

/// Counts of interrupts of native fences that name queues instead of fences, and of the searches for signalled fences that they caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceReports {
    /// Interrupts that named a queue.
    pub of_queues: u64,
    /// Interrupts that stood for every queue of a node.
    pub of_nodes: u64,
    /// Fences looked at because a log named them, or because their process has an overrun log or a queue without one.
    pub looked_at: u64,
    /// Looks at every fence that a process has open and that is waited for.
    pub of_processes: u64,
    /// Looks at every fence that is waited for.
    pub scans: u64,
}

/// Open fences by process and handle, and what was counted.
#[derive(Default)]
pub(in crate::vidsch) struct Names {
    pub(in crate::vidsch) open: Mutex<HashMap<(u64, D3DKMT_HANDLE), Weak<SyncObject>>>,
    pub(in crate::vidsch) of_queues: AtomicU64,
    pub(in crate::vidsch) of_nodes: AtomicU64,
    pub(in crate::vidsch) looked_at: AtomicU64,
    pub(in crate::vidsch) of_processes: AtomicU64,
    pub(in crate::vidsch) scans: AtomicU64,
}

impl Names {
    /// The handle means nothing any more.
    pub(in crate::vidsch) fn forget(&self, name: (u64, D3DKMT_HANDLE)) {
        lock(&self.open).remove(&name);
    }
}
