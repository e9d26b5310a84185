//! Deferred work of a driver: queued DPCs, timers, system threads, work items, and thread objects.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::irql::RaisedSection;
use crate::lock::{Condvar, Mutex, MutexGuard, lock};

/// The deferred work of one driver. A thread of its own executes DPCs and timers.
#[derive(Default)]
pub struct Deferred {
    state: Mutex<State>,
    changed: Condvar,
}

/// A DPC in the queue.
pub struct QueuedDpc {
    /// Address of the KDPC.
    pub address: usize,
    /// An address inside the instruction of the driver that queued it, 0 if that is not known.
    pub from: usize,
    /// That of the thread that queued it, whose processor is to run it when this is over.
    pub section: Option<RaisedSection>,
}

impl QueuedDpc {
    /// True if a processor may run it.
    pub fn is_due(&self) -> bool {
        self.section.as_ref().is_none_or(RaisedSection::is_over)
    }
}

/// An object of the driver that the kernel will still use, by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// A timer that is set.
    Timer(usize),
    /// A DPC in the queue.
    Dpc(usize),
    /// A work item that no thread has taken yet.
    WorkItem(usize),
}

/// A timer that is set.
#[derive(Clone, Copy)]
pub struct SetTimer {
    /// When it expires next.
    pub due: Instant,
    /// Its period, if it has one.
    pub period: Option<Duration>,
    /// An address inside the instruction of the driver that set it, 0 if that is not known.
    pub from: usize,
}

/// A routine of the driver on a thread of its own.
#[derive(Clone, Copy)]
pub struct Routine {
    /// Kind of the thread, in words.
    pub kind: &'static str,
    /// Address of the routine.
    pub address: usize,
}

/// The state under the lock.
#[derive(Default)]
pub struct State {
    /// The DPCs in the queue, the next one first.
    pub dpcs: VecDeque<QueuedDpc>,
    /// The DPC that runs.
    pub running: Option<usize>,
    /// Each KTIMER that is set, by address.
    pub timers: BTreeMap<usize, SetTimer>,
    /// System threads and work items that have not ended, in the order in which they began.
    pub threads: BTreeMap<u64, Routine>,
    /// Threads that have begun.
    begun: u64,
    /// Work items that no thread has taken yet, by address: an address inside the instruction that queued each.
    pub work_items: BTreeMap<usize, usize>,
    /// True once there is the thread for DPCs and timers.
    pub has_worker: bool,
    /// True once the driver is gone.
    pub ended: bool,
    handles: BTreeMap<usize, Arc<ThreadObject>>,
    referenced: BTreeMap<usize, (Arc<ThreadObject>, u32)>,
}

impl Deferred {
    /// The state, for one thread at a time.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Sleeps until something changed, or for `timeout`.
    pub fn wait<'a>(&self, guard: MutexGuard<'a, State>, timeout: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(guard, timeout)
    }

    /// Wakes all waiting threads for a change.
    pub fn notify(&self) {
        self.changed.notify_all();
    }
}

impl State {
    /// A thread of the driver begins; its number.
    pub fn begin(&mut self, routine: Routine) -> u64 {
        self.begun += 1;
        self.threads.insert(self.begun, routine);
        self.begun
    }

    /// What lies in a range and is still in use, with the instruction that has made it so.
    pub fn pending_in(&self, range: &Range<usize>) -> Option<(Pending, usize)> {
        let timer = self.timers.range(range.clone()).next().map(|(at, timer)| (Pending::Timer(*at), timer.from));
        let inside = |dpc: &&QueuedDpc| range.contains(&dpc.address);
        let dpc = || self.dpcs.iter().find(inside).map(|dpc| (Pending::Dpc(dpc.address), dpc.from));
        let item = || self.work_items.range(range.clone()).next().map(|(at, from)| (Pending::WorkItem(*at), *from));
        timer.or_else(dpc).or_else(item)
    }

    /// True if a DPC is in the queue.
    pub fn is_queued(&self, dpc: usize) -> bool {
        self.dpcs.iter().any(|queued| queued.address == dpc)
    }

    /// Takes the first DPC out of the queue that a processor may run.
    pub fn next_dpc(&mut self) -> Option<usize> {
        let place = self.dpcs.iter().position(QueuedDpc::is_due)?;
        self.dpcs.remove(place).map(|queued| queued.address)
    }

    /// A kernel handle to a thread.
    pub fn open(&mut self, thread: Arc<ThreadObject>) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0xffff_ffff_9000_1000);
        let handle = NEXT.fetch_add(4, Ordering::Relaxed);
        self.handles.insert(handle, thread);
        handle
    }

    /// True if the handle was open, which it is no more.
    pub fn close(&mut self, handle: usize) -> bool {
        self.handles.remove(&handle).is_some()
    }

    /// Handles that are open.
    pub fn open_handles(&self) -> usize {
        self.handles.len()
    }

    /// References to thread objects that were not given up.
    pub fn references(&self) -> u64 {
        self.referenced.values().map(|(_, count)| u64::from(*count)).sum()
    }

    /// The object of a handle, with one more reference.
    pub fn reference_handle(&mut self, handle: usize) -> Option<usize> {
        let thread = Arc::clone(self.handles.get(&handle)?);
        let address = thread.address();
        self.referenced.entry(address).or_insert((thread, 0)).1 += 1;
        Some(address)
    }

    /// One more reference; the number of them, or `None` if the driver has none.
    pub fn reference(&mut self, address: usize) -> Option<u32> {
        let (_, count) = self.referenced.get_mut(&address)?;
        *count += 1;
        Some(*count)
    }

    /// One reference less; the number that is left, or `None` if the driver had none.
    pub fn dereference(&mut self, address: usize) -> Option<u32> {
        let (_, count) = self.referenced.get_mut(&address)?;
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.referenced.remove(&address);
        }
        Some(left)
    }
}

/// A thread as drivers see it: the header of an object that can be waited for, signalled when the thread has ended. [wdm: DISPATCHER_HEADER]
#[repr(C, align(16))]
#[derive(Debug)]
pub struct ThreadObject {
    kind: AtomicU32,
    signal: AtomicU32,
    rest: [u64; 6],
}

impl ThreadObject {
    /// ThreadObject of KOBJECTS.
    pub const KIND: u32 = 6;

    /// A thread that has not ended.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { kind: AtomicU32::new(Self::KIND), signal: AtomicU32::new(0), rest: [0; 6] })
    }

    /// As drivers know it.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }

    /// The thread has ended.
    pub fn end(&self) {
        self.signal.store(1, Ordering::Release);
    }
}
