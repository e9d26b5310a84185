//! Recovery after a device was lost: the same work on a new device, submitted from user mode as before or through the kernel.
//!
//! A hang, a fault, a reset of the adapter or its removal costs a process every device that was concerned; nothing of such a device works
//! again. [`Queue::recover`] moves a queue to a new device and says which submissions were not seen done. [`Recoverable`] does everything
//! else for an application that says how to make its resources anew and which work may be done again.

use alloc::{boxed::Box, collections::VecDeque};
use core::time::Duration;

use wddm_ddi::{
    Zeroed,
    kmt::{D3DKMT_DEVICEEXECUTION_STATE, D3DKMT_DEVICESTATE_TYPE, D3DKMT_GETDEVICESTATE},
};

use crate::{
    adapter::Adapter,
    commands::Recorder,
    device::Device,
    error::{Error, Result},
    queue::{Node, Queue, QueueOptions, SubmissionModel},
    thunks::invoke,
};

/// The reason why a device was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// Its own work made no progress, and the engine was reset.
    Hung,
    /// An engine or the adapter was reset because of work of another device.
    Reset,
    /// Its work accessed memory that is not mapped, or broke a rule for commands.
    Fault,
    /// The adapter is gone, or was stopped.
    Removed,
    /// The operating system gives another reason.
    Other(i32),
}

impl Device {
    /// Why the device was lost; `None` while it works.
    ///
    /// # Errors
    /// [`Error::Status`] if the question fails. [d3dkmthk: D3DKMTGetDeviceState]
    pub fn loss(&self) -> Result<Option<LossReason>> {
        type State = D3DKMT_DEVICEEXECUTION_STATE;
        let mut state = D3DKMT_GETDEVICESTATE::zeroed();
        state.hDevice = self.handle();
        state.StateType = D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_EXECUTION;
        match invoke!(self.thunks(), D3DKMTGetDeviceState, &mut state) {
            Ok(()) => {}
            Err(Error::DeviceLost) => return Ok(Some(LossReason::Removed)),
            Err(error) => return Err(error),
        }
        // SAFETY: the union was zeroed and is answered for the kind asked; every bit pattern is a valid number.
        Ok(match unsafe { state.u.ExecutionState } {
            State::D3DKMT_DEVICEEXECUTION_ACTIVE => None,
            State::D3DKMT_DEVICEEXECUTION_HUNG => Some(LossReason::Hung),
            State::D3DKMT_DEVICEEXECUTION_RESET => Some(LossReason::Reset),
            State::D3DKMT_DEVICEEXECUTION_STOPPED => Some(LossReason::Removed),
            State::D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT | State::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT => {
                Some(LossReason::Fault)
            }
            other => Some(LossReason::Other(other.0)),
        })
    }

    /// A new device in the place of one that is lost: on the same adapter, or on one that is found in its place. The lost one stays
    /// until it is dropped.
    ///
    /// # Errors
    /// As [`Adapter::open`] and [`Device::new`]; it may be tried again later.
    pub fn replacement(&self) -> Result<Self> {
        Self::new(self.adapter()).or_else(|_| Self::new(&Adapter::open(self.thunks())?))
    }
}

/// Options of a [`Recoverable`].
#[derive(Clone, Copy, Debug)]
pub struct RecoveryOptions {
    /// The queue.
    pub queue: QueueOptions,
    /// Most submissions that are kept for replay, at least 1.
    pub records: usize,
    /// After so many recoveries work goes through the kernel, where a doorbell that keeps failing is not needed.
    pub kernel_after: u32,
}

impl Default for RecoveryOptions {
    fn default() -> Self {
        Self { queue: QueueOptions::default(), records: 256, kernel_after: u32::MAX }
    }
}

/// Result of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Why the old device was lost; `None` if it worked.
    pub reason: Option<LossReason>,
    /// Submissions that were made again.
    pub replayed: u64,
    /// Submissions that were not known to be done and were not to be replayed.
    pub given_up: u64,
    /// The submission model of the queue on the new device.
    pub model: SubmissionModel,
}

/// Makes the resources of the application on a device.
type Make<R> = Box<dyn FnMut(&Device) -> Result<R> + Send>;
/// Records a submission that may be made again.
type Work<R> = Box<dyn FnMut(&mut Recorder<'_>, &R) -> Result<()> + Send>;

struct Record<R> {
    /// Progress value on the present queue.
    value: u64,
    /// `None` for one that is not to be made again.
    work: Option<Work<R>>,
}

/// A queue with resources `R` (buffers, fences) that survives the loss of its device.
///
/// A replayed submission may run twice: once unseen before the loss, once after. So only work that may be done again is to be submitted
/// with [`Recoverable::submit`]; [`Recoverable::submit_once`] is for all other work.
pub struct Recoverable<R> {
    node: Node,
    options: RecoveryOptions,
    make: Make<R>,
    recoveries: u32,
    records: VecDeque<Record<R>>,
    // Dropped in this order: the queue lets go of the memory first.
    queue: Queue,
    resources: R,
    device: Device,
}

impl<R> Recoverable<R> {
    /// Makes device, resources and queue.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for no records; as [`Device::new`], `make` and [`Queue::new`].
    pub fn new(
        adapter: &Adapter,
        node: Node,
        options: RecoveryOptions,
        make: impl FnMut(&Device) -> Result<R> + Send + 'static,
    ) -> Result<Self> {
        if options.records == 0 {
            return Err(Error::BadArgument("a queue that replays keeps at least one record"));
        }
        let mut make: Make<R> = Box::new(make);
        let device = Device::new(adapter)?;
        let resources = make(&device)?;
        let queue = Queue::new(&device, node, options.queue)?;
        Ok(Self { node, options, make, recoveries: 0, records: VecDeque::new(), queue, resources, device })
    }

    /// The present resources.
    pub fn resources(&self) -> &R {
        &self.resources
    }

    /// The present queue.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The present device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Recoveries so far.
    pub fn recoveries(&self) -> u32 {
        self.recoveries
    }

    /// Submits work that may be done again, and keeps it until it is seen done.
    ///
    /// # Errors
    /// [`Error::RecordsFull`] while as many submissions as may be kept are under way; as [`Queue::submit`]. Work that was refused is not
    /// kept, except after [`Error::DeviceLost`], which [`Recoverable::recover`] follows.
    pub fn submit(&mut self, work: impl FnMut(&mut Recorder<'_>, &R) -> Result<()> + Send + 'static) -> Result<u64> {
        self.drop_finished_records()?;
        self.send(Box::new(work))
    }

    fn send(&mut self, mut work: Work<R>) -> Result<u64> {
        let resources = &self.resources;
        let submitted = self.queue.submit(|recorder| work(recorder, resources));
        if let Ok(value) = submitted {
            self.records.push_back(Record { value, work: Some(work) });
        } else if submitted == Err(Error::DeviceLost) {
            self.records.push_back(Record { value: u64::MAX, work: Some(work) });
        }
        submitted
    }

    /// Submits work that is not to be done again.
    ///
    /// # Errors
    /// As [`Recoverable::submit`]; nothing is kept.
    pub fn submit_once(&mut self, work: impl FnOnce(&mut Recorder<'_>, &R) -> Result<()>) -> Result<u64> {
        self.drop_finished_records()?;
        let resources = &self.resources;
        let value = self.queue.submit(|recorder| work(recorder, resources))?;
        self.records.push_back(Record { value, work: None });
        Ok(value)
    }

    fn drop_finished_records(&mut self) -> Result<()> {
        let seen = self.queue.seen();
        while self.records.front().is_some_and(|record| record.value <= seen) {
            self.records.pop_front();
        }
        if self.records.len() < self.options.records { Ok(()) } else { Err(Error::RecordsFull) }
    }

    /// Waits until everything that was submitted is done.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::DeviceLost`], [`Error::Status`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        // Work that the loss of the device refused was never submitted, and waits for the recovery.
        if self.records.iter().any(|record| record.value == u64::MAX) {
            return Err(Error::DeviceLost);
        }
        self.queue.wait_progress_for(self.queue.last_submitted(), timeout)?;
        self.records.clear();
        Ok(())
    }

    /// Makes device, resources and queue anew, and everything again that may be and was not seen done, in its order.
    ///
    /// # Errors
    /// As [`Device::replacement`], the maker of resources, [`Queue::new`] and [`Queue::submit`]. What was to be replayed is kept, and
    /// recovery may be tried again.
    pub fn recover(&mut self) -> Result<Recovered> {
        let reason = self.device.loss()?;
        let seen = self.queue.seen();
        let device = self.device.replacement()?;
        let resources = (self.make)(&device)?;
        let mut options = self.options.queue;
        if self.recoveries.saturating_add(1) >= self.options.kernel_after {
            options.model = Some(SubmissionModel::Kernel);
        }
        let queue = Queue::new(&device, self.node, options)?;
        self.recoveries = self.recoveries.saturating_add(1);
        (self.queue, self.resources, self.device) = (queue, resources, device);
        let mut given_up = 0;
        let mut left = VecDeque::new();
        for record in self.records.drain(..).filter(|record| record.value > seen) {
            match record.work {
                // Not yet made on this queue.
                Some(_) => left.push_back(Record { value: u64::MAX, ..record }),
                None => given_up += 1,
            }
        }
        let mut replayed = 0;
        while let Some(Record { work: Some(work), .. }) = left.pop_front() {
            if let Err(error) = self.send(work) {
                self.records.append(&mut left);
                return Err(error);
            }
            replayed += 1;
        }
        Ok(Recovered { reason, replayed, given_up, model: self.queue.model() })
    }
}
