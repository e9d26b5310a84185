//! The software queue of a hardware queue for kernel-mode submission: command buffers, waits and signals in the order of their submission.
//!
//! Waits and signals of such a queue are commands of software. A wait blocks everything behind it until its fences have reached
//! their values; a signal is written by the processor when all work before it is done. What has nothing to wait for goes to the driver
//! at once; what waited is handed over by the worker thread when the wait is over.
//! [native-gpu-fence-objects: log buffers of kernel-mode queues; context-monitoring: GPU wait, GPU signal]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nt::bugcheck::Bugcheck;
use nt::lock::lock;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::ddi_buffer::LentBytes;
use crate::fence::Wait;
use crate::refusal::{Failure, refused};

use super::fences::reach;
use super::objects::hardware::{Commands, HwQueue, Item, SoftwareQueue};
use super::objects::queue_wait::Objects;
use super::objects::running::Leaving;
use super::objects::worker::Work;
use super::report::subcode;

impl HwQueue {
    /// Submits a command buffer. [d3dkmddi: DXGKARG_SUBMITCOMMANDTOHWQUEUE]
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a queue of user-mode submission, or a progress value that does not grow or grows out of the GPU's reach;
    /// STATUS_INSUFFICIENT_RESOURCES if the queue holds too much; STATUS_DEVICE_REMOVED after the bugcheck that a refusal by
    /// the driver is.
    pub(crate) fn submit(&self, mut commands: Commands) -> Result<(), Failure> {
        if self.flags().UserModeSubmission() {
            let why = "hHwQueue is a queue of user-mode submission, to which user mode submits by its doorbell";
            return Err(refused(STATUS_INVALID_PARAMETER, why));
        }
        reach::check_signals(&[(Arc::clone(self.progress()), commands.progress)])?;
        let _submitting = lock(&self.submitting);
        loop {
            // Dropped before the wait below, so that the process may be suspended while the thread waits for the node: other processes may
            // need its memory before that wait can end.
            let running = self.sch().keep_running(self.context().device())?;
            let mut software = lock(&self.software_queue);
            if self.is_destroyed() {
                return Err(STATUS_INVALID_HANDLE.into());
            }
            let last = self.last_submitted.load(Ordering::Acquire);
            if commands.progress <= last {
                let why = format!("HwQueueProgressFenceId is {:#x}, and the last one was {last:#x}", commands.progress);
                return Err(refused(STATUS_INVALID_PARAMETER, why));
            }
            if !software.held.is_empty() {
                let progress = commands.progress;
                software.held.push(Item::Commands(commands))?;
                self.held.store(software.held.len(), Ordering::Release);
                self.last_submitted.store(progress, Ordering::Release);
                self.note_active();
                return Ok(());
            }
            let Some(oldest) = self.oldest_in_the_way(&mut software) else {
                self.last_submitted.store(commands.progress, Ordering::Release);
                self.note_active();
                return Ok(self.hand_over(&mut software, &mut commands)?);
            };
            drop((software, running));
            match self.wait_for_place(oldest) {
                STATUS_SUCCESS => {}
                status => return Err(status.into()),
            }
        }
    }

    /// Waits until the node takes another buffer of this queue: until its progress fence reaches `oldest`. The log has a wait of more than TdrDelay: an engine may work
    /// that long, and one that does nothing is told no other way, since it obeys suspensions.
    fn wait_for_place(&self, oldest: u64) -> NTSTATUS {
        let (sch, node) = (self.sch(), self.context().node());
        let place = [(Arc::clone(self.progress()), oldest)];
        let status = sch.wait_by_clock(&place, sch.timeouts.limit());
        if status != STATUS_TIMEOUT {
            return status;
        }
        sch.verifier.log(format!(
            "D3DKMTSubmitCommandToHwQueue waits for longer than TdrDelay: DxgkDdiGetNodeMetadata answered MaxInFlightHwQueueBuffers {} for node {node}, so many buffers were handed \
             to DxgkDdiSubmitCommandToHwQueue, and the progress fence of the queue stays at {:#x} before {oldest:#x} [d3dkmdt: DXGK_NODEMETADATA]",
            self.most_in_flight(),
            self.progress().current()
        ));
        sch.wait(&place, false, None)
    }

    /// What is submitted from now on runs when the fences have reached their values, or when nobody can wait for them any more.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER for a queue of user-mode submission, whose waits are commands of its own; why a fence is ended;
    /// STATUS_INSUFFICIENT_RESOURCES if the queue holds too much.
    pub(crate) fn submit_wait(&self, conditions: Objects) -> Result<(), NTSTATUS> {
        conditions.check()?;
        self.submit_software(|_| Item::Wait(conditions))
    }

    /// The fences get these values when everything that was submitted until now is done, or `at_submission`: when it has been
    /// handed over. As signals of a GPU they are written whatever the value was.
    ///
    /// # Errors
    /// As for [`HwQueue::submit_wait`].
    pub(crate) fn submit_signal(&self, signals: Objects, at_submission: bool) -> Result<(), NTSTATUS> {
        signals.check()?;
        self.submit_software(|queue| {
            let after = if at_submission { 0 } else { queue.last_submitted.load(Ordering::Acquire) };
            Item::Signal { signals, after }
        })
    }

    fn submit_software(&self, item: impl FnOnce(&Self) -> Item) -> Result<(), NTSTATUS> {
        if self.flags().UserModeSubmission() {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let _submitting = lock(&self.submitting);
        let mut software = lock(&self.software_queue);
        if self.is_destroyed() {
            return Err(STATUS_INVALID_HANDLE);
        }
        let item = item(self);
        let command = item.command();
        software.held.push(item)?;
        self.sch().count_command(self.context().device(), self.context().node(), command, false);
        self.move_on(&mut software);
        self.note_active();
        Ok(())
    }

    /// The wait of the first submission is over.
    pub(super) fn advance(&self) {
        self.move_on(&mut lock(&self.software_queue));
    }

    /// Runs submissions up to the first that must wait.
    fn move_on(&self, software: &mut SoftwareQueue) {
        self.run(software);
        self.held.store(software.held.len(), Ordering::Release);
    }

    fn run(&self, software: &mut SoftwareQueue) {
        if self.context().device().error().is_some() {
            return self.empty(software);
        }
        let Some(mut waited) = software.held.end_wait() else { return };
        while let Some(item) = software.held.pop() {
            let conditions = if waited { Objects::default() } else { self.needs(&item, software) };
            if !conditions.is_met() {
                software.held.put_back(item);
                return self.wait_for(software, conditions);
            }
            waited = false;
            let command = item.command();
            match item {
                Item::Commands(mut commands) => {
                    self.settle(software);
                    // A refusal has stopped the machine.
                    let _ = self.hand_over(software, &mut commands);
                }
                Item::Wait(_) => {}
                Item::Signal { signals, .. } => software.held.signal(&signals, self.context().device().id()),
            }
            self.sch().count_command(self.context().device(), self.context().node(), command, true);
        }
        self.empty(software);
    }

    /// Nothing waits from now on.
    fn empty(&self, software: &mut SoftwareQueue) {
        let (device, node) = (self.context().device(), self.context().node());
        software.held.drain().for_each(|item| self.sch().count_command(device, node, item.command(), true));
        software.held.release_waiters();
    }

    /// The fences, with values, that have to be reached before this submission runs.
    fn needs(&self, item: &Item, software: &mut SoftwareQueue) -> Objects {
        let own = |value| Objects::from(vec![(Arc::clone(self.progress()), value)]);
        match item {
            Item::Commands(_) => self.oldest_in_the_way(software).map(own).unwrap_or_default(),
            Item::Wait(conditions) => conditions.clone(),
            Item::Signal { after, .. } => own(*after),
        }
    }

    /// The first submission waits for these; the worker moves it on.
    fn wait_for(&self, software: &mut SoftwareQueue, conditions: Objects) {
        let (sch, queue) = (Arc::downgrade(self.sch()), Weak::clone(&self.this));
        let over = move || {
            if let Some(sch) = sch.upgrade() {
                sch.worker.add(Work::Advance(Weak::clone(&queue)));
            }
        };
        software.held.wait_for(conditions, over);
    }

    /// Takes off what is done, and counts it.
    fn settle(&self, software: &mut SoftwareQueue) {
        let before = software.in_flight.len();
        while software.in_flight.pop_front_if(|value| self.progress().is_reached(*value)).is_some() {}
        let (device, node) = (self.context().device(), self.context().node());
        let done = before - software.in_flight.len();
        self.sch().count_buffers(device, node, done, Some(Leaving::Completed));
    }

    /// The device is lost, and the progress fence has not been ended yet, after which its value says nothing: counts the buffers that are done by now, and the others as
    /// given up.
    pub(super) fn count_given_up(&self) {
        if self.flags().UserModeSubmission() {
            return;
        }
        let mut software = lock(&self.software_queue);
        self.settle(&mut software);
        let given_up = software.in_flight.len();
        software.in_flight.clear();
        let (device, node) = (self.context().device(), self.context().node());
        self.sch().count_buffers(device, node, given_up, Some(Leaving::Faulted));
    }

    /// Counts the buffers that are done by now, for statistics.
    pub(super) fn count_completed(&self) {
        if !self.flags().UserModeSubmission() {
            self.settle(&mut lock(&self.software_queue));
        }
    }

    /// The progress value that must be reached before the node takes another buffer of this queue; `None` if it does.
    /// (MaxInFlightHwQueueBuffers)
    fn oldest_in_the_way(&self, software: &mut SoftwareQueue) -> Option<u64> {
        let most = self.most_in_flight();
        self.settle(software);
        software.in_flight.front().copied().filter(|_| most != 0 && software.in_flight.len() >= most)
    }

    /// Buffers of a queue that its node takes at a time; 0 for any number. [d3dkmdt: DXGK_NODEMETADATA]
    fn most_in_flight(&self) -> usize {
        let node = self.context().adapter().caps().nodes.get(self.context().node() as usize);
        node.map_or(0, |node| usize::from({ node.metadata.Flags }.MaxInFlightHwQueueBuffers()))
    }

    /// Hands a command buffer to the driver.
    fn hand_over(&self, software: &mut SoftwareQueue, commands: &mut Commands) -> Result<(), NTSTATUS> {
        software.in_flight.push_back(commands.progress);
        software.handed_over = commands.progress;
        self.sch().count_buffers(self.context().device(), self.context().node(), 1, None);
        let mut args = DXGKARG_SUBMITCOMMANDTOHWQUEUE::zeroed();
        args.hHwQueue = self.handles().1.raw();
        args.HwQueueProgressFenceId = commands.progress;
        args.DmaBufferVirtualAddress = commands.address;
        args.DmaBufferSize = commands.size;
        let mut lent = LentBytes::new(&mut commands.private);
        (args.pDmaBufferPrivateData, args.DmaBufferPrivateDataSize) = lent.place();
        args.HwQueueProgressFenceGpuVa = self.progress().gpu_address();
        args.HwQueueProgressFenceCpuVa = self.progress().kernel_address().cast();
        let adapter = self.context().adapter();
        let _working = adapter.use_node(self.context().node());
        let status = adapter.miniport.submit_command_to_hw_queue(adapter.context().raw(), &args).status();
        lent.end(adapter.machine.verifier(), "DxgkDdiSubmitCommandToHwQueue", "pDmaBufferPrivateData");
        if status.is_success() && status != STATUS_PENDING {
            return Ok(());
        }
        self.sch().must_succeed(status, || {
            Bugcheck::scheduler(
                subcode::SUBMISSION_FAILED,
                u64::from(status.0 as u32),
                (&raw const args).addr() as u64,
                0,
                format!("DxgkDdiSubmitCommandToHwQueue failed with {status}"),
            )
        });
        Err(STATUS_DEVICE_REMOVED)
    }

    /// Waits until no submission waits any more, at most until the machine's clock shows `limit`; false if one still does.
    pub(super) fn wait_until_empty(&self, limit: Duration) -> bool {
        let sch = self.sch();
        let _waits = sch.timeouts.clock().deadline(limit);
        loop {
            let wait = Wait::of_thread(1);
            {
                let mut software = lock(&self.software_queue);
                if software.held.is_empty() {
                    return true;
                }
                software.held.add_waiter(&wait);
            }
            let over = sch.timeouts.clock().now() >= limit;
            match wait.block(Some(Instant::now() + sch.timeouts.sleep_time(limit)), |nap| sch.pause(nap)) {
                STATUS_SUCCESS => return true,
                STATUS_TIMEOUT if !over => {}
                _ => return false,
            }
        }
    }

    /// Drops what waits, and gives up what the queue owns: the device is lost, or nobody is left whose work it is, or the queue is gone.
    /// The hardware has nothing of it.
    pub(super) fn drop_held(&self) {
        let wait = {
            let mut software = lock(&self.software_queue);
            self.empty(&mut software);
            software.held.abandon_mutexes();
            self.held.store(0, Ordering::Release);
            if !self.flags().UserModeSubmission() {
                self.last_submitted.store(software.handed_over, Ordering::Release);
            }
            software.held.take_hold()
        };
        if let Some(wait) = wait {
            wait.cancel();
        }
    }
}
