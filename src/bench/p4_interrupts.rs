//! P4: interrupts raised by fence signals that no CPU waits for.

use std::sync::Arc;

use campanile_hw::pci::BAR_REGISTERS;
use campanile_hw::registers;
use dxgkrnl::Machine;
use dxgkrnl::bus::Bus;
use wddm_ddi::types::LUID;

use super::error::BenchError;
use super::row::{Effort, Measurement, Row};
use crate::clock::Latencies;
use testbed::setup::System;
use testbed::user::{Adapter, Buffer, Device, Fence, Node, Placement, Queue, QueueOptions};

/// The row.
pub(super) const ROW: Row = Row {
    id: "P4",
    what: "interrupts for a million signals that no CPU waits for",
    unit: "per million",
    peers: &["a million signals, each of them waited for"],
    aim: "0 interrupts",
    met: |ours, _| ours.p50 == 0.0 && ours.p99 == 0.0,
    further: &[],
    prepare: |system, effort| Ok(Box::new(Unwatched::new(system, effort)?)),
};

/// Signals in one command buffer.
const SIGNALS: u64 = 1000;
/// Signals that the counts refer to.
const MILLION: u64 = 1_000_000;
/// Bytes filled before a watched signal; takes about a millisecond.
const WORK: u64 = 4 << 20;

struct Unwatched {
    bus: Arc<dyn Bus>,
    machine: Machine,
    luid: LUID,
    queue: Queue,
    fence: Fence,
    value: u64,
    signals: u64,
    work: Buffer,
    watched: u64,
}

impl Unwatched {
    fn new(system: &System, effort: Effort) -> Result<Self, BenchError> {
        let adapter = Adapter::open_luid(system.luid())?;
        let device = Device::new(&adapter)?;
        Ok(Self {
            bus: Arc::clone(system.bus()),
            machine: system.machine().clone(),
            luid: system.luid(),
            queue: Queue::new(&device, Node::Compute, QueueOptions::default())?,
            fence: Fence::new(&device, 0)?,
            value: 0,
            // All rounds together make at least a million.
            signals: MILLION.div_ceil(effort.rounds as u64).next_multiple_of(SIGNALS),
            work: device.create_buffer(WORK, Placement::System)?,
            watched: effort.samples as u64 / 20,
        })
    }

    /// Interrupts of fences so far, which those of scheduling logs are not among: messages that the GPU sent or the machine received, whichever is more.
    fn interrupts(&self) -> u64 {
        self.machine.quiet_scheduling_logs(self.luid);
        let sent = self.bus.register_read(BAR_REGISTERS, registers::COUNT_INTERRUPTS, 8);
        sent.max(self.machine.counters(self.luid).map_or(0, |counters| counters.interrupts))
    }

    /// Waits for the last value awake, because a wait in the kernel would be a CPU that watches.
    fn settle(&self) {
        while !self.fence.spin(self.value, 1 << 12) {
            std::thread::yield_now();
        }
    }

    fn signal_unwatched(&mut self) -> Result<(), BenchError> {
        for _ in 0..self.signals / SIGNALS {
            let (fence, first) = (&self.fence, self.value + 1);
            self.queue.submit(|commands| (0..SIGNALS).try_for_each(|index| commands.signal(fence, first + index)))?;
            self.value += SIGNALS;
            self.settle();
        }
        Ok(())
    }

    /// Signals behind enough work that the wait is in the kernel before the GPU gets to them.
    fn signal_watched(&mut self) -> Result<(), BenchError> {
        for _ in 0..self.watched {
            self.value += 1;
            let (fence, value, work) = (&self.fence, self.value, &self.work);
            self.queue.submit(|commands| {
                commands.fill(work.gpu_address(), WORK, 0)?;
                commands.signal(fence, value)
            })?;
            fence.wait(value, None)?;
        }
        Ok(())
    }

    fn per_million(interrupts: u64, signals: u64) -> Latencies {
        let mut counted = Latencies::new();
        counted.record(interrupts as f64 * MILLION as f64 / signals as f64);
        counted
    }
}

impl Measurement for Unwatched {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        self.settle();
        let before = self.interrupts();
        self.signal_unwatched()?;
        Ok(Self::per_million(self.interrupts() - before, self.signals))
    }

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        let before = self.interrupts();
        self.signal_watched()?;
        Ok(Self::per_million(self.interrupts() - before, self.watched))
    }
}
