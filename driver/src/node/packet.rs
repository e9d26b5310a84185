//! Packet scheduling: the kernel queue of each node.
//!
//! The operating system submits command buffers with 32-bit fence ids that count up per node. At most [`NODE_DEPTH`] buffers are in the
//! hardware ring; the others wait in a software FIFO. A preemption drops the FIFO and what the ring has not started; a buffer that has
//! begun runs to its end, or to a WAIT that is not satisfied. There it leaves the node, and it goes on when it is submitted again. The list of
//! packets in the ring belongs to device level, where completions arrive: taking a packet off and reporting it are one critical section.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use campanile_hw::queue::{RingEntry, RingFlags};
use campanile_hw::registers::Command;

use crate::cmp::{Cmp, CommandError};
use crate::dxgk::Dxgk;
use crate::irql::{Device, UpToDispatch};
use crate::lock::{DeviceLock, SpinLock};
use crate::node::flight::{Fifo, Flight, NODE_DEPTH, Packet, PacketFault, PreemptedBuffer, Preemption, tag};
use crate::node::ring::Ring;
use crate::progress::LastLook;
use crate::refusal::{Reason, Refused, refused};
use crate::report;

/// Submission side of a node.
struct Submission {
    fifo: Fifo,
    /// Entries written to the ring since the queue was mapped.
    written: u64,
}

/// The packet queue of one node; its queue number is the node's.
pub(crate) struct Node {
    ordinal: u32,
    ring: Ring,
    /// Taken before the lock of [`Cmp`] and before device level.
    submission: SpinLock<Submission>,
    flight: DeviceLock<Flight>,
    last_submitted: AtomicU32,
    last_completed: AtomicU32,
    /// Process whose packet is the oldest in the ring, for events that name the queue only.
    current_process: AtomicU64,
    /// True if the DPC has to move packets from the FIFO to the ring.
    needs_refill: AtomicBool,
    /// True if the queue faulted, so that the DPC has to map it anew.
    needs_recovery: AtomicBool,
    /// True while DxgkDdiResetEngine stops the node. The packets of the ring stay known until it has returned the one that ran.
    stopping: AtomicBool,
    /// True between DxgkDdiResetHwEngine and DxgkDdiResumeHwEngine, when nothing may be reported.
    muted: AtomicBool,
    /// True if a completion was not reported because of that.
    unreported: AtomicBool,
    /// A fault that was not reported because of that. Until it is, the queue stays as the fault left it, so there is no second one.
    unreported_fault: DeviceLock<Option<PacketFault>>,
    /// The progress of the node when it was last read.
    last_look: LastLook,
}

impl Node {
    /// A node whose ring is `ring`.
    pub(crate) fn new(ordinal: u32, ring: Ring) -> Self {
        Self {
            ordinal,
            ring,
            submission: SpinLock::new(Submission { fifo: Fifo::new(), written: 0 }),
            flight: DeviceLock::new(Flight::new()),
            last_submitted: AtomicU32::new(0),
            last_completed: AtomicU32::new(0),
            current_process: AtomicU64::new(0),
            needs_refill: AtomicBool::new(false),
            needs_recovery: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            muted: AtomicBool::new(false),
            unreported: AtomicBool::new(false),
            unreported_fault: DeviceLock::new(None),
            last_look: LastLook::new(),
        }
    }

    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    pub(crate) fn last_look(&self) -> &LastLook {
        &self.last_look
    }

    /// True while a preemption is not reported. Without an interrupt there is none.
    pub(crate) fn is_being_preempted(&self, irql: &impl UpToDispatch, dxgk: &Dxgk) -> bool {
        let asked = |device: &Device| self.flight.with(device, |flight| flight.preemption.is_some());
        dxgk.synchronize(irql, asked).unwrap_or(false)
    }

    /// Fence ids of the last packet submitted and completed.
    pub(crate) fn progress(&self) -> (u32, u32) {
        (self.last_submitted.load(Ordering::Acquire), self.last_completed.load(Ordering::Acquire))
    }

    pub(crate) fn set_stopping(&self, stopping: bool) {
        self.stopping.store(stopping, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn is_muted(&self) -> bool {
        self.muted.load(Ordering::Acquire)
    }

    pub(crate) fn set_muted(&self, muted: bool) {
        self.muted.store(muted, Ordering::Release);
    }

    /// A completion could not be reported.
    pub(crate) fn note_unreported(&self) {
        self.unreported.store(true, Ordering::Release);
    }

    /// Takes the note that a fault could not be reported. True if there was one since the last call.
    pub(crate) fn take_unreported(&self) -> bool {
        self.unreported.swap(false, Ordering::AcqRel)
    }

    /// A fault could not be reported.
    pub(crate) fn keep_fault(&self, irql: &Device, fault: PacketFault) {
        self.unreported_fault.with(irql, |kept| *kept = Some(fault));
    }

    /// The fault that could not be reported since the last question.
    pub(crate) fn take_fault(&self, irql: &Device) -> Option<PacketFault> {
        self.unreported_fault.with(irql, Option::take)
    }

    /// Handle bits of the process whose packet runs, 0 if unknown.
    pub(crate) fn current_process(&self) -> u64 {
        self.current_process.load(Ordering::Acquire)
    }

    /// Puts the empty queue on the run list.
    pub(crate) fn map(&self, irql: &impl UpToDispatch, cmp: &Cmp) -> Result<(), CommandError> {
        let mut submission = self.submission.lock(irql);
        let (submission, irql) = submission.parts();
        submission.written = 0;
        self.ring.reset();
        cmp.map_queue(irql, self.ordinal, &self.ring.descriptor(self.ordinal))
    }

    /// True if packets of the context with these handle bits are in the ring or wait for it, not counting those that need no address space.
    pub(crate) fn has_packets_of(&self, irql: &impl UpToDispatch, dxgk: &Dxgk, context: u64) -> bool {
        let mut submission = self.submission.lock(irql);
        let (submission, irql) = submission.parts();
        let is_of = |packet: &Packet| packet.context == context && packet.size != 0;
        let in_ring = |device: &Device| self.flight.with(device, |flight| flight.packets.iter().flatten().any(is_of));
        // Without an interrupt nothing is under way.
        submission.fifo.waiting().any(is_of) || dxgk.synchronize(irql, in_ring).unwrap_or(false)
    }

    /// Submits a packet.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when it has to wait and there is no memory for that; STATUS_DEVICE_REMOVED without an interrupt.
    pub(crate) fn submit(
        &self,
        irql: &impl UpToDispatch,
        dxgk: &Dxgk,
        cmp: &Cmp,
        packet: Packet,
    ) -> Result<(), Refused> {
        let mut submission = self.submission.lock(irql);
        let (submission, irql) = submission.parts();
        if submission.fifo.front().is_some() || !self.start(irql, dxgk, cmp, submission, packet)? {
            submission.fifo.push(packet)?;
        }
        self.last_submitted.store(packet.fence, Ordering::Release);
        Ok(())
    }

    /// Moves a packet into the ring; false if it has to wait.
    fn start(
        &self,
        irql: &impl UpToDispatch,
        dxgk: &Dxgk,
        cmp: &Cmp,
        submission: &mut Submission,
        packet: Packet,
    ) -> Result<bool, Refused> {
        if self.needs_recovery.load(Ordering::Acquire) {
            return Ok(false);
        }
        let entered = dxgk
            .synchronize(irql, |device| {
                self.flight.with(device, |flight| {
                    let tag = flight.enter(packet)?;
                    self.note_current(flight);
                    Some(tag)
                })
            })
            .map_err(|_| refused(Reason::NotRunning))?;
        let Some(tag) = entered else { return Ok(false) };
        self.write(irql, cmp, submission, packet, tag);
        Ok(true)
    }

    fn write(&self, irql: &impl UpToDispatch, cmp: &Cmp, submission: &mut Submission, packet: Packet, tag: u64) {
        let entry = RingEntry {
            commands: packet.commands,
            size: packet.size,
            // A buffer without packets needs no address space, and one that was refused may have none.
            flags: RingFlags::new()
                .with_retire_event(true)
                .with_own_root(packet.size != 0)
                .with_privileged(packet.paging)
                .into_bits(),
            tag,
            root: packet.root.into_bits(),
        };
        self.ring.write(submission.written, &entry);
        submission.written += 1;
        self.ring.publish(submission.written);
        // A queue that faulted meanwhile is mapped anew, with this entry, by the DPC; a lost device is found by a timeout.
        let _ = cmp.run(irql, Command::KickQueue, &[u64::from(self.ordinal)]);
    }

    fn note_current(&self, flight: &Flight) {
        self.current_process.store(flight.oldest().map_or(0, |packet| packet.process), Ordering::Release);
    }

    /// A RETIRED event came. Returns the fence id to report as completed, if the event is of this epoch and in order.
    pub(crate) fn retire(&self, irql: &Device, event_tag: u64) -> Option<u32> {
        self.flight.with(irql, |flight| {
            let oldest = flight.oldest()?;
            if tag(oldest.fence, flight.epoch) != event_tag {
                return None;
            }
            flight.leave();
            self.note_current(flight);
            self.last_completed.store(oldest.fence, Ordering::Release);
            self.needs_refill.store(true, Ordering::Release);
            (!oldest.silent).then_some(oldest.fence)
        })
    }

    /// A FAULT event came: the packet that ran, which counts as completed with the report of the fault. `keep` is told of packets that
    /// a preemption drops and that began before.
    pub(crate) fn fault(&self, irql: &Device, keep: impl Fn((u64, PreemptedBuffer))) -> Option<Packet> {
        let packet = self.flight.with(irql, |flight| {
            let packet = flight.leave();
            self.note_current(flight);
            packet
        });
        if let Some(packet) = packet {
            self.last_completed.store(packet.fence, Ordering::Release);
        }
        self.note_reset(irql, keep);
        packet
    }

    /// A PREEMPTED event came. `keep` is told of packets that are dropped after they began; the oldest came to `offset` of its buffer.
    pub(crate) fn stopped(&self, irql: &Device, cookie: u64, offset: u64, keep: impl Fn((u64, PreemptedBuffer))) {
        let dropped = self.flight.with(irql, |flight| {
            let expected = flight.preemption.is_some_and(|preemption| tag(preemption.id, flight.epoch) == cookie);
            let dropped = if expected { flight.stop() } else { [None; NODE_DEPTH] };
            self.note_current(flight);
            dropped
        });
        self.needs_refill.store(true, Ordering::Release);
        for (index, packet) in dropped.into_iter().flatten().enumerate() {
            let more = u32::try_from(offset).ok().filter(|offset| index == 0 && *offset < packet.size);
            packet.preempted_buffer(more.unwrap_or(0)).map(&keep);
        }
    }

    /// The queue was stopped by an engine reset that was not meant for it, or by a fault: what it ran starts over, unless it is being
    /// preempted; `keep` is as for [`Node::fault`].
    pub(crate) fn note_reset(&self, irql: &Device, keep: impl Fn((u64, PreemptedBuffer))) {
        let dropped = self.flight.with(irql, Flight::stop);
        dropped.into_iter().flatten().filter_map(|packet| packet.preempted_buffer(0)).for_each(keep);
        self.needs_recovery.store(true, Ordering::Release);
        self.needs_refill.store(true, Ordering::Release);
    }

    /// Reports a preemption whose ring is empty.
    pub(crate) fn report_preemption(&self, irql: &Device, dxgk: &Dxgk) {
        if !self.is_muted()
            && let Some(preemption) = self.flight.with(irql, Flight::preempted)
        {
            let (_, completed) = self.progress();
            report::preempted(irql, dxgk, self.ordinal(), preemption, completed);
        }
    }

    /// Drops what did not start and reports the preemption when the ring is empty, which may be now. `drain` handles the events
    /// that are in the ring of events; `keep` is as for [`Node::fault`].
    ///
    /// # Errors
    /// STATUS_DEVICE_REMOVED without an interrupt.
    pub(crate) fn preempt(
        &self,
        irql: &impl UpToDispatch,
        dxgk: &Dxgk,
        cmp: &Cmp,
        preemption: u32,
        drain: impl Fn(&Device),
        keep: impl Fn((u64, PreemptedBuffer)),
    ) -> Result<(), Refused> {
        let mut submission = self.submission.lock(irql);
        let (submission, irql) = submission.parts();
        let idle = submission.fifo.front().is_none()
            && dxgk.synchronize(irql, |device| self.flight.with(device, |flight| flight.oldest().is_none()))?;
        if !idle && cmp.was_reset(irql) {
            // Nothing of it is executed any more, however often it is submitted. That is a hang, which the operating system finds by a
            // preemption that is not answered.
            return Ok(());
        }
        while let Some(packet) = submission.fifo.front() {
            packet.preempted_buffer(0).map(&keep);
            submission.fifo.pop();
        }
        let begin = |device: &Device| {
            self.flight.with(device, |flight| {
                // A faulted queue still has the packets that it has not started, which are dropped.
                let done = flight.oldest().is_none() || self.needs_recovery.load(Ordering::Acquire);
                flight.preemption = Some(Preemption { id: preemption, done });
                if done {
                    flight.stop().into_iter().flatten().filter_map(|packet| packet.preempted_buffer(0)).for_each(&keep);
                }
                (!done).then(|| tag(preemption, flight.epoch))
            })
        };
        let cookie = dxgk.synchronize(irql, begin)?;
        if let Some(cookie) = cookie {
            // Refused when the ring of events is full, which it is not after it was drained; or by a queue that faulted, of which an
            // event tells. A device that is lost is found by a timeout.
            let ask = || cmp.run(irql, Command::PreemptQueue, &[u64::from(self.ordinal), cookie]);
            if matches!(ask(), Err(CommandError::Refused(_))) {
                dxgk.synchronize(irql, &drain)?;
                let _ = ask();
            }
        }
        dxgk.synchronize(irql, |device| {
            self.report_preemption(device, dxgk);
            dxgk.queue_dpc();
        })
    }

    /// Work of the DPC: recovers from a fault, then moves packets from the FIFO to the ring.
    pub(crate) fn service(&self, irql: &impl UpToDispatch, dxgk: &Dxgk, cmp: &Cmp) {
        // Resumption queues the DPC again.
        if self.is_muted() || !self.needs_refill.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut submission = self.submission.lock(irql);
        let (submission, irql) = submission.parts();
        if self.needs_recovery.load(Ordering::Acquire) {
            self.recover(irql, dxgk, cmp, submission);
        }
        while let Some(packet) = submission.fifo.front() {
            match self.start(irql, dxgk, cmp, submission, packet) {
                Ok(true) => submission.fifo.pop(),
                // Without an interrupt nothing can complete; the adapter is on its way out.
                Ok(false) | Err(_) => break,
            }
        }
    }

    /// Maps the faulted queue anew and writes the entries that its ring still had.
    fn recover(&self, irql: &impl UpToDispatch, dxgk: &Dxgk, cmp: &Cmp, submission: &mut Submission) {
        // The queue faulted, so there is nothing to wait for; a lost device refuses everything alike.
        let _ = cmp.unmap_queue(irql, self.ordinal);
        self.ring.reset();
        submission.written = 0;
        if cmp.map_queue(irql, self.ordinal, &self.ring.descriptor(self.ordinal)).is_err() {
            return;
        }
        self.needs_recovery.store(false, Ordering::Release);
        // Unmapped queues retire nothing, so what is in flight cannot change until it is written again.
        let flight = dxgk.synchronize(irql, |device| self.flight.with(device, |flight| *flight));
        let Ok(flight) = flight else { return };
        for packet in flight.packets.into_iter().flatten() {
            self.write(irql, cmp, submission, packet, tag(packet.fence, flight.epoch));
        }
    }

    /// Forgets everything in the ring and the FIFO after the device was reset; all of it counts as completed.
    pub(crate) fn abandon(&self, irql: &impl UpToDispatch, dxgk: &Dxgk) {
        let mut submission = self.submission.lock(irql);
        let (submission, irql) = submission.parts();
        self.forget(irql, dxgk, submission);
        self.last_completed.store(self.last_submitted.load(Ordering::Acquire), Ordering::Release);
    }

    /// Starts the queue over, empty, after the engine was stopped. Returns the packet that was running, which counts as completed.
    ///
    /// # Errors
    /// The hardware does not take the queue again.
    pub(crate) fn restart(
        &self,
        irql: &impl UpToDispatch,
        dxgk: &Dxgk,
        cmp: &Cmp,
    ) -> Result<Option<Packet>, CommandError> {
        let mut submission = self.submission.lock(irql);
        let (submission, irql) = submission.parts();
        if let Err(error @ (CommandError::Lost | CommandError::Reset)) = cmp.unmap_queue(irql, self.ordinal) {
            return Err(error);
        }
        let running = self.forget(irql, dxgk, submission);
        self.ring.reset();
        cmp.map_queue(irql, self.ordinal, &self.ring.descriptor(self.ordinal))?;
        // Only a reset that succeeds moves it. [tdr-changes-in-windows-8]
        if let Some(packet) = running {
            self.last_completed.store(packet.fence, Ordering::Release);
        }
        Ok(running)
    }

    /// Empties FIFO and ring; events of what was in the ring are recognised as old. Returns the oldest packet of the ring.
    fn forget(&self, irql: &impl UpToDispatch, dxgk: &Dxgk, submission: &mut Submission) -> Option<Packet> {
        submission.fifo.clear();
        submission.written = 0;
        let empty = |device: &Device| {
            self.flight.with(device, |flight| {
                // A fault that was not reported is dropped with the other packets.
                self.take_fault(device);
                self.unreported.store(false, Ordering::Release);
                let oldest = flight.oldest();
                *flight = Flight { epoch: flight.epoch.wrapping_add(1), ..Flight::new() };
                self.note_current(flight);
                oldest
            })
        };
        let oldest = dxgk.synchronize(irql, empty).unwrap_or_default();
        self.needs_recovery.store(false, Ordering::Release);
        oldest
    }
}
