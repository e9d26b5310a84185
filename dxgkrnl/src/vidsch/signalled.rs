//! Resolves an interrupt that names a queue to fences, from the fence logs. [native-gpu-fence-objects: optimised native
//! fence signaled interrupt]
//!
//! An entry names its fence by the handle that user mode put into the packet, and the log lies in memory that the process can
//! write with its GPU. So a log only says where to look: whether a wait is over is read at the fence. An overrun log leads to every
//! fence that its process has open, as does a queue without log; a name that means nothing leads to everything that is waited for.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use nt::lock::{Mutex, lock};
use wddm_ddi::types::D3DKMT_HANDLE;

use crate::kmd_handle::KmdHandle;

use super::VidSch;
use super::batch;
use super::cross_adapter;
use super::fence::Fence;
use super::hw_queue::HwQueue;
use super::packet_context::PacketContext;
use super::report::Limits;
use super::sync_object::SyncObject;

/// Selection of the queues whose logs are read.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    All,
    /// Of devices, by identity.
    Devices(&'a [u64]),
    /// By our handles.
    Queues(&'a [KmdHandle]),
}

/// Fences that a reading of the logs found signalled.
#[derive(Debug, Default)]
pub(super) struct Signalled {
    /// Names are of use: interrupts do not tell which fences were signalled.
    named: bool,
    /// Process and handle of each fence.
    names: Vec<(u64, D3DKMT_HANDLE)>,
    /// Processes whose logs do not name every signal any more.
    overrun: Vec<u64>,
}

impl Signalled {
    /// Nothing yet.
    pub(super) fn new(limits: Limits) -> Self {
        Self { named: limits.optimized, ..Self::default() }
    }

    /// A process's fence was signalled.
    pub(super) fn add(&mut self, process: u64, fence: D3DKMT_HANDLE) {
        if self.named {
            self.names.push((process, fence));
        }
    }

    /// A process may have signalled any fence that it has open.
    pub(super) fn add_process(&mut self, process: u64) {
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
pub(super) struct Names {
    open: Mutex<HashMap<(u64, D3DKMT_HANDLE), Weak<SyncObject>>>,
    of_queues: AtomicU64,
    of_nodes: AtomicU64,
    looked_at: AtomicU64,
    of_processes: AtomicU64,
    scans: AtomicU64,
}

impl VidSch {
    /// `process` knows an open fence by `handle` from now on, until it is closed.
    pub(crate) fn name_fence(&self, process: u64, handle: D3DKMT_HANDLE, open: &Arc<SyncObject>) {
        if open.set_name((process, handle)) {
            lock(&self.names.open).insert((process, handle), Arc::downgrade(open));
        }
    }

    /// The handle means nothing any more.
    pub(super) fn forget_name(&self, name: (u64, D3DKMT_HANDLE)) {
        lock(&self.names.open).remove(&name);
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

    /// Wakes the waiters for what these queues, and the queues of these nodes, have signalled.
    pub(super) fn evaluate_logged(&self, named: &[Arc<HwQueue>], nodes: u64) {
        self.names.of_queues.fetch_add(named.len() as u64, Ordering::Relaxed);
        self.names.of_nodes.fetch_add(u64::from(nodes.count_ones()), Ordering::Relaxed);
        let mut queues = named.to_vec();
        if nodes != 0 {
            let of_nodes = |queue: &Arc<HwQueue>| nodes >> (queue.context().node() & 63) & 1 != 0;
            queues.extend(self.queues.all().into_iter().filter(of_nodes));
        }
        let handles: Vec<_> = queues.iter().map(|queue| queue.handles().0).collect();
        let mut signalled = self.read_logs(Wanted::Queues(&handles));
        // A queue without log, the kernel's above all, tells nothing; nor does a context of packets, which is meant where no queue is named.
        for process in queues.iter().filter(|queue| !queue.is_logged()).filter_map(|queue| queue.progress().process()) {
            signalled.add_process(process);
        }
        if nodes != 0 {
            let of_nodes = |context: &Arc<PacketContext>| nodes >> (context.node() & 63) & 1 != 0;
            for context in self.packet_contexts.all().into_iter().filter(of_nodes) {
                signalled.add_process(context.device().process.id);
            }
        }
        self.evaluate_read(&signalled);
    }

    /// Wakes the waiters for what was read out of the logs. Whoever reads them does, since an interrupt finds nothing there then.
    pub(super) fn evaluate_read(&self, signalled: &Signalled) {
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
