//! A queue for measuring its doorbell: the cost of a store, and the time until the GPU responds.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use campanile_hw::registers::NODE_COMPUTE;
use rustix::event::{EventfdFlags, eventfd};
use wddm_ddi::km::D3DDDI_DOORBELLSTATUS;
use wddm_ddi::kmt::D3DKMT_DEVICEEXECUTION_STATE;
use wddm_ddi::types::LUID;

use crate::clock::{self, Ticks};
use campanile_conformance::kmt::DEVICE_LOST;
use campanile_conformance::rig::{RawFence, RawQueue, Rig};
use campanile_conformance::{Failure, granted, refused};

/// Looks at a progress value before its GPU is given up: minutes.
const LOOKS: u64 = 1 << 34;

const STOPPED: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_STOPPED;
const ABORT: D3DDDI_DOORBELLSTATUS = D3DDDI_DOORBELLSTATUS::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT;

/// A user-mode queue with everything prepared but the doorbell.
pub(crate) struct DoorbellProbe {
    rig: Rig,
    queue: RawQueue,
    fence: RawFence,
    value: u64,
    event: OwnedFd,
}

impl DoorbellProbe {
    /// A queue on an adapter, with its doorbell connected. The calling thread is attached to a process.
    ///
    /// # Errors
    /// The stack refuses something.
    pub(crate) fn new(luid: LUID) -> Result<Self, Failure> {
        let rig = Rig::open(luid)?;
        let mut queue = rig.queue(NODE_COMPUTE)?;
        let fence = rig.fence(0)?;
        rig.execute(&mut queue, &[])?;
        let event = eventfd(0, EventfdFlags::CLOEXEC).map_err(io::Error::from)?;
        Ok(Self { rig, queue, fence, value: 0, event })
    }

    /// Stores the value that the doorbell has anyway.
    #[inline]
    pub(crate) fn store(&self) {
        self.queue.doorbell.store(self.queue.written());
    }

    /// From the store until the queue's progress is seen in memory.
    ///
    /// # Errors
    /// The GPU does not answer.
    pub(crate) fn response(&mut self) -> Result<(Ticks, Ticks), Failure> {
        let value = self.queue.append(&[])?;
        let started = clock::now();
        self.store();
        for _ in 0..LOOKS {
            if self.queue.progress.load() >= value {
                return Ok((started, clock::now()));
            }
            std::hint::spin_loop();
        }
        Err(Failure::new("the GPU does not answer its doorbell"))
    }

    /// Rings with work, and does not wait for it.
    ///
    /// # Errors
    /// The ring never has a free entry.
    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        self.queue.append(&[])?;
        self.store();
        Ok(())
    }

    /// The queue's device has ended with its adapter, which is gone: it takes no work, its doorbell is disconnected for good, and no wait of it is accepted.
    ///
    /// # Errors
    /// Something goes on as if nothing had happened.
    pub(crate) fn is_lost(&self, luid: LUID) -> Result<(), Failure> {
        let Self { rig, queue, fence, .. } = self;
        ensure!(rig.kmt.open_adapter(luid).is_err(), "the adapter can be opened");
        ensure_eq!(rig.kmt.execution_state(rig.device)?, STOPPED, "state of the device");
        ensure_eq!(queue.doorbell.state(), ABORT, "status of the doorbell");
        let waited = rig.wait(&[fence.handle], &[u64::MAX / 2], false);
        refused(waited, DEVICE_LOST, "a wait of the processor")
    }

    /// Has the queue wait for a value that the fence never gets.
    ///
    /// # Errors
    /// The ring never has a free entry.
    pub(crate) fn block(&mut self) -> Result<(), Failure> {
        self.queue.append(&[self.fence.wait(u64::MAX / 2)])?;
        self.store();
        Ok(())
    }

    /// From the store of a signal that a CPU waits for until the waiter's event is seen: by interrupt message, interrupt routine and DPC.
    ///
    /// # Errors
    /// The stack refuses something, or the event never comes.
    pub(crate) fn interrupt(&mut self) -> Result<(Ticks, Ticks), Failure> {
        self.value += 1;
        let waited = self.rig.wait_with_event(&[self.fence.handle], &[self.value], false, Some(self.event.as_raw_fd()));
        granted(waited, "the wait with an event")?;
        self.queue.append(&[self.fence.signal(self.value)])?;
        let started = clock::now();
        self.store();
        rustix::io::read(&self.event, &mut [0; 8]).map_err(io::Error::from)?;
        Ok((started, clock::now()))
    }
}

impl Drop for DoorbellProbe {
    fn drop(&mut self) {
        let _ = self.rig.destroy();
    }
}
