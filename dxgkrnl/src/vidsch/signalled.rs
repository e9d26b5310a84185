//! Which native fences an interrupt means that names a queue: the logs tell. [native-gpu-fence-objects: optimised native
//! fence signaled interrupt]
//!
//! An entry names its fence by the handle that user mode put into the packet, and the log lies in memory that the process can
//! write with its GPU. So a log only says where to look: whether a wait is over is read at the fence, a name that means
//! nothing, a log that was overrun and an interrupt that woke nobody lead to a look at everything that is waited for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use wddm_ddi::types::{D3DKMT_HANDLE, LUID};

use crate::machine::{Machine, lock};

use super::VidSch;
use super::batch;
use super::cross_adapter;
use super::fence::Fence;
use super::fence_log::Wanted;
use super::hw_queue::HwQueue;
use super::report::Limits;
use super::sync_object::SyncObject;

/// What a reading of logs says about signals.
#[derive(Debug, Default)]
pub(super) struct Signalled {
    /// Names are of use: interrupts do not tell which fences were signalled.
    named: bool,
    /// Process and handle of each fence.
    names: Vec<(u64, D3DKMT_HANDLE)>,
    /// There were signals that the logs do not name any more.
    pub(super) unknown: bool,
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
}

/// How interrupts of native fences that name queues were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceReports {
    /// Interrupts that named a queue.
    pub of_queues: u64,
    /// Interrupts that stood for every queue of a node.
    pub of_nodes: u64,
    /// Fences looked at because a log named them, or because they are the progress of a queue that was meant.
    pub looked_at: u64,
    /// Looks at every fence that is waited for.
    pub scans: u64,
}

/// Open fences by process and handle, and what was counted.
#[derive(Default)]
pub(super) struct Names {
    /// Lock order: a leaf.
    open: Mutex<HashMap<(u64, D3DKMT_HANDLE), Weak<SyncObject>>>,
    of_queues: AtomicU64,
    of_nodes: AtomicU64,
    looked_at: AtomicU64,
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

    /// The native fence of this adapter that a process knows by a handle.
    fn named(&self, name: (u64, D3DKMT_HANDLE)) -> Option<Arc<Fence>> {
        let open = lock(&self.names.open).get(&name).and_then(Weak::upgrade)?;
        Some(Arc::clone(open.fence())).filter(|fence| fence.is_native())
    }

    /// Wakes those who wait for what these queues, and the queues of these nodes, have signalled.
    pub(super) fn evaluate_logged(&self, named: &[Arc<HwQueue>], nodes: u64) {
        self.names.of_queues.fetch_add(named.len() as u64, Ordering::Relaxed);
        self.names.of_nodes.fetch_add(u64::from(nodes.count_ones()), Ordering::Relaxed);
        let mut queues = named.to_vec();
        if nodes != 0 {
            let of_nodes = |queue: &Arc<HwQueue>| nodes >> (queue.context().node() & 63) & 1 != 0;
            queues.extend(self.queues.all().into_iter().filter(of_nodes));
        }
        let handles: Vec<_> = queues.iter().map(|queue| queue.handles().0).collect();
        let signalled = self.read_logs(Wanted::Queues(&handles));
        // Progress is not logged; a queue without log, the kernel's above all, tells nothing.
        let progress = queues.iter().map(|queue| Arc::clone(queue.progress().fence()));
        let progress = progress.filter(|fence| fence.is_native()).collect();
        let unlogged = queues.iter().any(|queue| !queue.is_logged());
        let (woken, known) = self.look_at(&signalled, progress);
        if !known || unlogged || woken == 0 {
            self.scan_watched();
        }
    }

    /// Wakes those who wait for what somebody has read out of the logs, so that the interrupt does not find it there.
    pub(super) fn evaluate_read(&self, signalled: &Signalled) {
        let (_, known) = self.look_at(signalled, Vec::new());
        if !known {
            self.scan_watched();
        }
    }

    /// Looks at the named fences and at `more`. Returns how many conditions came true, and whether that is all there was to see.
    fn look_at(&self, signalled: &Signalled, more: Vec<Arc<Fence>>) -> (usize, bool) {
        let mut fences = more;
        let mut names = signalled.names.clone();
        names.sort_unstable();
        names.dedup();
        let mut known = !signalled.unknown;
        for name in names {
            match self.named(name) {
                Some(fence) => fences.push(fence),
                // Closed here meanwhile, and perhaps waited for where else it is open.
                None => known = false,
            }
        }
        // Nobody waits for most of what is signalled.
        fences.retain(|fence| fence.is_watched());
        self.names.looked_at.fetch_add(fences.len() as u64, Ordering::Relaxed);
        let woken = batch::evaluate(&fences);
        cross_adapter::propagate(&fences);
        (woken, known)
    }

    fn scan_watched(&self) {
        self.names.scans.fetch_add(1, Ordering::Relaxed);
        self.evaluate_watched(true);
    }
}

impl Machine {
    /// How interrupts of native fences that name queues were answered so far; `None` without such an adapter. All zero on an
    /// adapter whose interrupts name fences.
    pub fn fence_reports(&self, luid: LUID) -> Option<FenceReports> {
        let adapter = self.adapter(luid)?;
        let names = &adapter.scheduler()?.names;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Some(FenceReports {
            of_queues: count(&names.of_queues),
            of_nodes: count(&names.of_nodes),
            looked_at: count(&names.looked_at),
            scans: count(&names.scans),
        })
    }
}
