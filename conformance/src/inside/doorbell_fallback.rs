//! Queues of the user-mode driver whose doorbell cannot be connected again go on through the kernel.

use campanile_device::{FaultId, FaultRule};
use campanile_hw::private::Placement;
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY, PROGRESS_COMPUTE, PROGRESS_COPY};
use campanile_umd::RING_ENTRIES_MIN;
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::{D3DDDI_MAKERESIDENT, D3DDDICB_DESTROYALLOCATION2FLAGS};
use wddm_ddi::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_NO_MEMORY};

use super::hog::{Hog, small_vram};
use crate::rig::wait_until;
use crate::simulated::{Case, on_thread, one_doorbell};
use crate::{Boot, Failure, granted, refused};
use testbed::setup::{GpuCounters, System};
use testbed::user::{Device, Error, Fence, Node, Queue, QueueOptions, SubmissionModel};

cases! { inside "Submission", needs UserModeSubmission, behind "it has connections fail, and counts what the GPU executed";
    "Submission.FailedReconnectionFallsBack" on Boot::With(one_doorbell), "user-mode-work-submission":
        "When no doorbell can be connected any more, each of six queues that submit from a thread of its own is recreated for kernel-mode submission: every submission before, at and after the failure runs exactly once, and progress values go on."
        holds [UserModeSubmission 58]
        => reconnection_fails;
    "Submission.BlockedRingFallsBackWhenItIsDone" on Boot::With(one_doorbell), "user-mode-work-submission":
        "A queue whose ring waits for a fence when its doorbell cannot be connected again keeps that ring until it is done; what is submitted meanwhile runs from the ring and what is submitted afterwards through the kernel, each exactly once."
        holds [UserModeSubmission 58]
        => blocked_ring;
    "Submission.FailedConnectionOfAResizedRingFallsBack" on Boot::With(one_doorbell), "user-mode-work-submission":
        "When the doorbell of a ring of another size cannot be connected, the queue is recreated for kernel-mode submission: every submission before and after runs exactly once, and progress values go on."
        holds [UserModeSubmission 58]
        => resized_ring;
    "Submission.NoMemoryForPageTablesLosesNoWork" on Boot::With(small_vram), "user-mode-work-submission":
        "A doorbell that cannot be connected because nothing of its process finds memory costs neither the queue nor its device: waiting says that there is no memory, and when there is some every submission runs exactly once."
        holds [UserModeSubmission 59]
        => table_is_full;
}

/// A queue, the fence that its submissions signal, and how many submissions it has made.
struct Worker {
    queue: Queue,
    pub(super) fence: Fence,
    submitted: u64,
}

impl Worker {
    fn new(device: &Device, node: Node) -> Result<Self, Failure> {
        let options = QueueOptions { ring_entries: RING_ENTRIES_MIN, ..QueueOptions::default() };
        let queue = Queue::new(device, node, options)?;
        ensure_eq!(queue.model()?, SubmissionModel::User, "model of a new queue");
        Ok(Self { queue, fence: Fence::new(device, 0)?, submitted: 0 })
    }

    /// Submits so often, each time the next value of the fence.
    fn submit(&mut self, count: u64) -> Result<(), Failure> {
        for _ in 0..count {
            let (fence, next) = (&self.fence, self.submitted + 1);
            let value = self.queue.submit(|commands| commands.signal(fence, next))?;
            ensure_eq!(value, next, "progress value of a submission");
            self.submitted = next;
        }
        Ok(())
    }

    /// Everything is done, and the queue submits by `model`.
    fn is_done(&self, model: SubmissionModel) -> Result<(), Failure> {
        self.queue.wait_progress(self.submitted)?;
        ensure_eq!(
            (self.queue.progress()?, self.fence.value()),
            (self.submitted, self.submitted),
            "progress and fence"
        );
        ensure_eq!(self.queue.model()?, model, "model of the queue");
        ensure_eq!(self.queue.stats()?.submissions, self.submitted, "submissions that the driver counted");
        Ok(())
    }
}

/// From now on no doorbell is connected to a queue of either node.
fn refuse_connections(system: &System) -> [FaultId; 2] {
    [NODE_COMPUTE, NODE_COPY].map(|node| system.gpu().faults().inject_times(FaultRule::ConnectFails { node }, u64::MAX))
}

/// Doorbells can be connected again; how many connections failed.
fn allow_connections(system: &System, rules: [FaultId; 2]) -> u64 {
    rules.into_iter().map(|rule| system.gpu().faults().remove(rule)).sum()
}

/// Lets each worker do something in a thread of its own.
fn together(
    case: &Case<'_>,
    workers: &mut [Worker],
    work: impl Fn(&mut Worker) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let (process, work) = (&case.process, &work);
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(move || on_thread(process, || work(worker)))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a submitting thread panicked"))))
    })
}

/// Counts of the GPU are those of `submissions` that each signal once.
fn ran_once(case: &Case<'_>, before: &GpuCounters, submissions: u64) -> Result<(), Failure> {
    let counted = case.system.counters().since(before);
    ensure_eq!((counted.signals, counted.retired), (submissions, submissions), "signals and retired buffers");
    Ok(())
}

fn workers(device: &Device, each: usize) -> Result<Vec<Worker>, Failure> {
    [Node::Compute, Node::Copy].into_iter().cycle().take(2 * each).map(|node| Worker::new(device, node)).collect()
}

fn reconnection_fails(case: &mut Case<'_>) -> Result<(), Failure> {
    const EACH: u64 = 100;
    let (device, rig) = (case.device()?, case.rig()?);
    let mut workers = workers(&device, 3)?;
    let before = case.system.counters();
    together(case, &mut workers, |worker| worker.submit(EACH))?;
    let rules = refuse_connections(case.system);
    // The doorbell is taken from whoever has it, and given to nobody.
    let thief = rig.queue(NODE_COMPUTE)?;
    refused(rig.connect(thief.doorbell), &[STATUS_INSUFFICIENT_RESOURCES], "connecting one more queue")?;
    together(case, &mut workers, |worker| {
        worker.submit(EACH)?;
        worker.is_done(SubmissionModel::Kernel)
    })?;
    ensure_eq!(allow_connections(case.system, rules), 1 + 6, "connections that failed");
    // Doorbells can be had again: for new queues. Those that went through the kernel stay there.
    together(case, &mut workers, |worker| {
        worker.submit(EACH)?;
        worker.is_done(SubmissionModel::Kernel)
    })?;
    ran_once(case, &before, 6 * 3 * EACH)?;
    let mut fresh = Worker::new(&device, Node::Compute)?;
    fresh.submit(EACH)?;
    fresh.is_done(SubmissionModel::User)
}

fn blocked_ring(case: &mut Case<'_>) -> Result<(), Failure> {
    const EACH: u64 = 5;
    let device = case.device()?;
    let mut workers = workers(&device, 2)?;
    let gate = Fence::new(&device, 0)?;
    let before = case.system.counters();
    for worker in &mut workers {
        worker.submit(EACH)?;
        worker.submitted = worker.queue.submit(|commands| commands.wait(&gate, 1))?;
    }
    let rules = refuse_connections(case.system);
    together(case, &mut workers, |worker| {
        worker.submit(EACH)?;
        ensure_eq!(worker.queue.model()?, SubmissionModel::User, "model while the ring waits");
        wait_until("the signals in front of the wait", || worker.fence.value() >= EACH)?;
        ensure_eq!(worker.fence.value(), EACH, "fence while the ring waits");
        Ok(())
    })?;
    gate.signal(1)?;
    together(case, &mut workers, |worker| {
        worker.is_done(SubmissionModel::User)?;
        worker.submit(EACH)?;
        worker.is_done(SubmissionModel::Kernel)
    })?;
    ensure!(allow_connections(case.system, rules) >= 4, "not every queue found out that no doorbell connects");
    let counted = case.system.counters().since(&before);
    ensure_eq!((counted.signals, counted.retired), (4 * 3 * EACH, 4 * (3 * EACH + 1)), "signals and retired buffers");
    Ok(())
}

fn resized_ring(case: &mut Case<'_>) -> Result<(), Failure> {
    const EACH: u64 = 100;
    let device = case.device()?;
    let mut workers = workers(&device, 2)?;
    let before = case.system.counters();
    together(case, &mut workers, |worker| worker.submit(EACH))?;
    let rules = refuse_connections(case.system);
    together(case, &mut workers, |worker| {
        worker.queue.resize(2 * RING_ENTRIES_MIN)?;
        ensure_eq!(worker.queue.model()?, SubmissionModel::Kernel, "model after the ring was replaced");
        worker.is_done(SubmissionModel::Kernel)?;
        worker.submit(EACH)?;
        // Command memory of a queue that goes through the kernel can be resized as well.
        worker.queue.resize(RING_ENTRIES_MIN)?;
        worker.submit(EACH)?;
        worker.is_done(SubmissionModel::Kernel)
    })?;
    ensure_eq!(allow_connections(case.system, rules), 4, "connections that failed");
    ran_once(case, &before, 4 * 3 * EACH)
}

fn table_is_full(case: &mut Case<'_>) -> Result<(), Failure> {
    const EACH: u64 = 5;
    let (device, rig) = (case.device()?, case.rig()?);
    let mut workers = workers(&device, 2)?;
    let before = executed(case.system);
    together(case, &mut workers, |worker| {
        worker.submit(EACH)?;
        worker.is_done(SubmissionModel::User)
    })?;
    // As much as there is without the page tables of this process, which then asks for as much itself.
    let mut hog = Hog::new(case.system)?;
    hog.take()?;
    let list = hog.sizes().map(|size| rig.create(size, Placement::Vram)).collect::<Result<Vec<_>, _>>();
    let mut list = list.map_err(|status| Failure::new(format!("an allocation: {status}")))?;
    hog.give_back()?;
    let mut request = D3DDDI_MAKERESIDENT::zeroed();
    (request.hPagingQueue, request.NumAllocations) = (rig.paging_queue, list.len() as u32);
    request.AllocationList = list.as_mut_ptr();
    granted(rig.kmt.call(rig.kmt.table().D3DKMTMakeResident, &mut request), "D3DKMTMakeResident of all there is")?;
    for worker in &mut workers {
        worker.submit(1)?;
        without_memory(worker.queue.wait_progress(EACH + 1), "waiting")?;
        without_memory(worker.queue.submit(|commands| commands.nop()), "one more submission")?;
        ensure_eq!((worker.queue.progress()?, worker.fence.value()), (EACH, EACH), "progress and fence without memory");
    }
    (0..4).for_each(|_| super::hang::time_out(case.system));
    let unused = D3DDDICB_DESTROYALLOCATION2FLAGS::new().with_AssumeNotInUse(true);
    let destroyed = list.into_iter().map(|handle| rig.destroy_allocation_with(handle, unused));
    destroyed.into_iter().try_for_each(|status| granted(status, "destroying one"))?;
    together(case, &mut workers, |worker| {
        worker.is_done(SubmissionModel::User)?;
        worker.submit(EACH)?;
        worker.is_done(SubmissionModel::Kernel)
    })?;
    // Bringing page tables back is work of the paging node, and signals.
    let after = executed(case.system);
    let packets = [after[0] - before[0], after[1] - before[1]];
    // A signal and the progress of each submission.
    ensure_eq!(packets, [2 * 2 * (2 * EACH + 1); 2], "packets that the nodes executed");
    Ok(())
}

/// Packets that the nodes for queues have executed.
fn executed(system: &System) -> [u64; 2] {
    [PROGRESS_COMPUTE, PROGRESS_COPY].map(|register| system.gpu().register_read(register, 8))
}

/// The call was refused because there is no memory.
fn without_memory<T: std::fmt::Debug>(outcome: testbed::user::Result<T>, what: &str) -> Result<(), Failure> {
    match outcome {
        Err(Error::Linked(campanile_umd::Error::Status(STATUS_NO_MEMORY, _))) => Ok(()),
        Err(Error::Dll { status, .. }) if status == STATUS_NO_MEMORY.0 => Ok(()),
        other => Err(Failure::new(format!("{what} without memory: {other:?}"))),
    }
}
