//! Resolves an interrupt that names a queue to fences, from the fence logs. [native-gpu-fence-objects: optimised native
//! fence signaled interrupt]
//!
//! An entry names its fence by the handle that user mode put into the packet, and the log lies in memory that the process can
//! write with its GPU. So a log only says where to look: whether a wait is over is read at the fence. An overrun log leads to every
//! fence that its process has open, as does a queue without log; a name that means nothing leads to everything that is waited for.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::lock;
use wddm_ddi::types::D3DKMT_HANDLE;

use super::{batch, cross_adapter};
use crate::vidsch::objects::fence::{Fence, SyncObject};
use crate::vidsch::objects::signalled::{FenceReports, Signalled};
use crate::vidsch::scheduler::VidSch;

impl VidSch {
    /// `process` knows an open fence by `handle` from now on, until it is closed.
    pub(crate) fn name_fence(&self, process: u64, handle: D3DKMT_HANDLE, open: &Arc<SyncObject>) {
        if open.set_name((process, handle)) {
            lock(&self.names.open).insert((process, handle), Arc::downgrade(open));
        }
    }

    /// Values of the fences that a process has open, by their handles there.
    pub(crate) fn values_in(&self, process: u64) -> HashMap<D3DKMT_HANDLE, u64> {
        let open: Vec<_> = {
            let names = lock(&self.names.open);
            let there = names.iter().filter(|((owner, _), _)| *owner == process);
            there.filter_map(|((_, handle), open)| Some((*handle, open.upgrade()?))).collect()
        };
        open.into_iter().map(|(handle, open)| (handle, open.current())).collect()
    }

    /// The native fence of this adapter that a process knows by a handle.
    fn named(&self, name: (u64, D3DKMT_HANDLE)) -> Option<Arc<Fence>> {
        let open = lock(&self.names.open).get(&name).and_then(Weak::upgrade)?;
        Some(Arc::clone(open.fence())).filter(|fence| fence.is_native())
    }

    /// Wakes the waiters for what was read out of the logs. Whoever reads them does, since an interrupt finds nothing there then.
    pub(in crate::vidsch) fn evaluate_read(&self, signalled: &Signalled) {
        let mut names = signalled.names.clone();
        names.sort_unstable();
        names.dedup();
        let named: Option<Vec<_>> = names.into_iter().map(|name| self.named(name)).collect();
        let Some(mut fences) = named else {
            // Closed there meanwhile, and perhaps waited for where else it is open.
            self.names.scans.fetch_add(1, Ordering::Relaxed);
            return self.evaluate_watched(true);
        };
        if !signalled.overrun.is_empty() {
            self.names.of_processes.fetch_add(1, Ordering::Relaxed);
            let known: HashSet<_> = fences.iter().map(Arc::as_ptr).collect();
            let of_processes = self.watched_by(&signalled.overrun);
            fences.extend(of_processes.into_iter().filter(|fence| !known.contains(&Arc::as_ptr(fence))));
        }
        // Nobody waits for most of what is signalled.
        fences.retain(|fence| fence.is_watched());
        self.names.looked_at.fetch_add(fences.len() as u64, Ordering::Relaxed);
        batch::evaluate(&fences);
        cross_adapter::propagate(&fences);
    }

    /// Native fences that one of these processes has open and somebody waits for.
    fn watched_by(&self, processes: &[u64]) -> Vec<Arc<Fence>> {
        let watched: Vec<_> = lock(self.watched(true)).values().filter_map(Weak::upgrade).collect();
        let open_there = |open: &Arc<SyncObject>| open.process().is_some_and(|process| processes.contains(&process));
        watched.into_iter().filter(|fence| fence.opened().iter().any(open_there)).collect()
    }

    /// Counts of interrupts that named queues, and of the searches that they caused, so far.
    pub(crate) fn fence_reports(&self) -> FenceReports {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FenceReports {
            of_queues: count(&self.names.of_queues),
            of_nodes: count(&self.names.of_nodes),
            looked_at: count(&self.names.looked_at),
            of_processes: count(&self.names.of_processes),
            scans: count(&self.names.scans),
        }
    }
}
