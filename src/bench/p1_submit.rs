//! P1: what a submission costs the thread that makes it.

use std::sync::atomic::{AtomicU64, Ordering};

use campanile_hw::packet;
use campanile_hw::queue::RingEntry;

use io_uring::{IoUring, opcode};

use super::error::BenchError;
use super::row::{Effort, Measurement, PeerAim, Row};
use super::vulkan::Lavapipe;
use rustix::time::ClockId;

use crate::clock::{self, Clock, Latencies, processor_time};
use testbed::setup::System;
use testbed::user::{self, Adapter, Device, Node, Queue, QueueOptions, SubmissionModel};

/// The row.
pub(super) const ROW: Row = Row {
    id: "P1",
    what: "user-mode submission of one command buffer",
    unit: "ns",
    peers: &[
        "null system call (getppid)",
        "bare packet + store in ordinary memory",
        "the same work by SubmitCommandToHwQueue, with a null system call for the entry into a kernel",
        "io_uring: one NOP submitted and completed",
        "lavapipe vkQueueSubmit with a timeline semaphore",
    ],
    aim: "submit <= 30 ns and <= 1/4 of a null system call",
    met: |ours, ratio| ours.p50 <= 30.0 && ratio.p50 <= 0.25,
    further: &[PeerAim {
        peer: 4,
        aim: "submit <= 1/8 of the processor time of lavapipe's vkQueueSubmit",
        met: |ratio| ratio.p50 <= 0.125,
    }],
    prepare: |system, effort| Ok(Box::new(Submit::new(system, effort)?)),
};

/// Submissions timed together, so that reading the clock costs each of them next to nothing.
const BATCH: u64 = 32;
/// Batches before the GPU is given time to catch up, well within the ring.
const BATCHES: usize = 4;
const RING_ENTRIES: u32 = 1024;

struct Submit {
    queue: Queue,
    /// A queue that the kernel submits to.
    kernel: Queue,
    floor: Floor,
    /// `None` where the host allows none.
    uring: Option<IoUring>,
    /// `None` where the host has none.
    lavapipe: Option<Lavapipe>,
    samples: usize,
    clock: Clock,
}

impl Submit {
    fn new(system: &System, effort: Effort) -> Result<Self, BenchError> {
        let adapter = Adapter::open_luid(system.luid())?;
        let device = Device::new(&adapter)?;
        let options = QueueOptions { ring_entries: RING_ENTRIES, ..QueueOptions::default() };
        let queue = Queue::new(&device, Node::Compute, options)?;
        let kernel = QueueOptions { model: Some(SubmissionModel::Kernel), ..options };
        let kernel = Queue::new(&device, Node::Compute, kernel)?;
        let uring = IoUring::new(8).inspect_err(|error| {
            testbed::complain!("campanile: THE PEER io_uring IS ABSENT, this host does not allow it: {error}");
        });
        Ok(Self {
            queue,
            kernel,
            uring: uring.ok(),
            lavapipe: Lavapipe::if_present(),
            floor: Floor::new(),
            samples: effort.samples,
            clock: Clock::get(),
        })
    }

    /// Times one batch of `work`, for each of its parts.
    fn batch(&mut self, mut work: impl FnMut(&mut Self) -> Result<(), user::Error>) -> Result<f64, user::Error> {
        let started = clock::now();
        for _ in 0..BATCH {
            work(self)?;
        }
        Ok(self.clock.nanoseconds(started, clock::now()) / BATCH as f64)
    }

    /// Submissions that go through the operating-system side, each with the entry into a kernel that it does not cost here.
    fn by_the_kernel(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        // A tenth of the samples takes as long.
        while latencies.len() < self.samples as u64 / 10 {
            latencies.record(self.batch(|this| {
                null_system_call();
                this.kernel.submit(|commands| commands.nop()).map(drop)
            })?);
            let last = self.kernel.last_submitted()?;
            self.kernel.wait_progress(last)?;
        }
        Ok(latencies)
    }

    /// The host kernel's own ring: a request that does nothing, handed over and reaped by one system call. Empty where there is none.
    fn by_io_uring(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        let Some(uring) = &mut self.uring else { return Ok(latencies) };
        for _ in 0..self.samples / 10 {
            let started = clock::now();
            for _ in 0..BATCH {
                let request = opcode::Nop::new().build();
                // SAFETY: the request refers to no memory.
                let pushed = unsafe { uring.submission().push(&request) };
                pushed.map_err(|full| BenchError::Host(std::io::Error::other(full)))?;
                uring.submit_and_wait(1).map_err(BenchError::Host)?;
                uring.completion().for_each(drop);
            }
            latencies.record(self.clock.nanoseconds(started, clock::now()) / BATCH as f64);
        }
        Ok(latencies)
    }

    /// Submissions of an empty command buffer to another stack, in time that the thread spends on a processor: less than what ours is measured
    /// in by what the thread sleeps or is kept from running. Empty where there is none.
    fn by_vulkan(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        let Some(lavapipe) = &mut self.lavapipe else { return Ok(latencies) };
        for _ in 0..self.samples / 10 {
            let started = processor_time(ClockId::ThreadCPUTime);
            for _ in 0..BATCH {
                lavapipe.submit()?;
            }
            let spent = processor_time(ClockId::ThreadCPUTime).saturating_sub(started);
            latencies.record(spent.as_nanos() as f64 / BATCH as f64);
            lavapipe.wait()?;
        }
        Ok(latencies)
    }

    /// Lets the GPU catch up; also wakes an engine that fell asleep while the peers were measured.
    fn settle(&mut self) -> Result<(), user::Error> {
        let last = self.queue.submit(|commands| commands.nop())?;
        self.queue.wait_progress(last)
    }
}

impl Measurement for Submit {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        while latencies.len() < self.samples as u64 {
            self.settle()?;
            for _ in 0..BATCHES {
                latencies.record(self.batch(|this| this.queue.submit(|commands| commands.nop()).map(drop))?);
            }
        }
        Ok(latencies)
    }

    fn peer(&mut self, index: usize) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        match index {
            2 => return self.by_the_kernel(),
            3 => return self.by_io_uring(),
            4 => return self.by_vulkan(),
            _ => {}
        }
        for _ in 0..self.samples {
            latencies.record(self.batch(|this| {
                match index {
                    0 => null_system_call(),
                    _ => this.floor.submit(),
                }
                Ok(())
            })?);
        }
        Ok(latencies)
    }
}

/// Enters the kernel and comes back; the C library caches nothing on this way.
#[inline]
fn null_system_call() {
    // SAFETY: getppid takes no arguments and cannot fail.
    std::hint::black_box(unsafe { libc::syscall(libc::SYS_getppid) });
}

/// Writes what a submission must write, to memory that nobody reads: packets, ring entry, last queued value, write pointer,
/// and the store that would ring.
struct Floor {
    commands: Box<[AtomicU64]>,
    ring: Box<[AtomicU64]>,
    last_queued: AtomicU64,
    write_pointer: AtomicU64,
    doorbell: AtomicU64,
    count: u64,
}

/// Words of a submission of one NOP and its PROGRESS.
const COMMAND_WORDS: usize = (packet::Nop::SIZE + packet::Progress::SIZE) / 8;
const ENTRY_WORDS: usize = RingEntry::SIZE / 8;

impl Floor {
    fn new() -> Self {
        let words = |count: usize| (0..count * RING_ENTRIES as usize).map(|_| AtomicU64::new(0)).collect();
        Self {
            commands: words(COMMAND_WORDS),
            ring: words(ENTRY_WORDS),
            last_queued: AtomicU64::new(0),
            write_pointer: AtomicU64::new(0),
            doorbell: AtomicU64::new(0),
            count: 0,
        }
    }

    #[inline]
    fn submit(&mut self) {
        let slot = (self.count % u64::from(RING_ENTRIES)) as usize;
        self.count += 1;
        let commands = &self.commands[slot * COMMAND_WORDS..][..COMMAND_WORDS];
        for (index, word) in commands.iter().enumerate() {
            word.store(self.count + index as u64, Ordering::Relaxed);
        }
        self.last_queued.store(self.count, Ordering::Relaxed);
        let entry = &self.ring[slot * ENTRY_WORDS..][..ENTRY_WORDS];
        for (index, word) in entry.iter().enumerate() {
            word.store(self.count + index as u64, Ordering::Relaxed);
        }
        self.write_pointer.store(self.count, Ordering::Release);
        self.doorbell.store(self.count, Ordering::Release);
    }
}
