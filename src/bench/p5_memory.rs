//! P5: memory moved and filled by the copy engine, beside the processor's memcpy and memset.
//!
//! Both work on the same pages, which the CPU has locked, and both on a thread that is handed one sample after the other: how
//! physical memory lies, and what was measured before, matter as much as who moves it.

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::error::BenchError;
use super::row::{Effort, Measurement, Row};
use super::stopwatch::Stopwatch;
use crate::clock::{Clock, Latencies, now};
use campanile_conformance::rig::PagedMemory;
use testbed::setup::System;
use testbed::user::{Adapter, Device, Fence, Node, Queue, QueueOptions};

/// Operation on the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Pages follow one another in system memory.
    Copy,
    /// Pages lie in a random order.
    CopyShuffled,
    Fill,
}

const MEMCPY: &str = "memcpy of the same pages by a thread";
const MEMCPY_SHUFFLED: &str = "memcpy of the same pages by a thread, one by one in the same order";
const MEMCPY_IN_ORDER: &str = "memcpy of the same pages by a thread, as they lie";
const MEMSET: &str = "memset of the same pages by a thread";

macro_rules! rows {
    ($($name:ident = $id:literal, $work:ident, $size:expr, $what:literal, $peers:expr, $share:literal, $aim:literal;)*) => {
        $(
            #[doc = $what]
            pub(super) const $name: Row = Row {
                id: $id,
                what: $what,
                unit: "ns per KiB",
                peers: $peers,
                aim: $aim,
                met: |_, ratio| ratio.p50 * $share <= 1.0,
                further: &[],
                prepare: |system, effort| Ok(Box::new(Moves::new(system, effort, Work::$work, $size)?)),
            };
        )*
    };
}

rows! {
    COPY_4K = "P5C4K", Copy, 4 << 10, "COPY of 4 KiB through the MMU", &[MEMCPY], 0.0, "none below 1 MiB";
    COPY_1M = "P5C1M", Copy, 1 << 20, "COPY of 1 MiB through the MMU", &[MEMCPY], 0.95, "at least 95 % of its rate";
    COPY_16M = "P5C16M", Copy, 16 << 20, "COPY of 16 MiB through the MMU", &[MEMCPY], 0.95, "at least 95 % of its rate";
    COPY_256M = "P5C256M", Copy, 256 << 20, "COPY of 256 MiB through the MMU", &[MEMCPY], 0.95, "at least 95 % of its rate";
    SHUFFLED_1M = "P5S1M", CopyShuffled, 1 << 20, "COPY of 1 MiB in shuffled pages",
        &[MEMCPY_SHUFFLED, MEMCPY_IN_ORDER], 0.8, "at least 80 % of its rate";
    SHUFFLED_16M = "P5S16M", CopyShuffled, 16 << 20, "COPY of 16 MiB in shuffled pages",
        &[MEMCPY_SHUFFLED, MEMCPY_IN_ORDER], 0.8, "at least 80 % of its rate";
    FILL_4K = "P5F4K", Fill, 4 << 10, "FILL of 4 KiB through the MMU", &[MEMSET], 0.0, "none below 1 MiB";
    FILL_1M = "P5F1M", Fill, 1 << 20, "FILL of 1 MiB through the MMU", &[MEMSET], 0.95, "at least 95 % of its rate";
    FILL_16M = "P5F16M", Fill, 16 << 20, "FILL of 16 MiB through the MMU", &[MEMSET], 0.95, "at least 95 % of its rate";
    FILL_256M = "P5F256M", Fill, 256 << 20, "FILL of 256 MiB through the MMU", &[MEMSET], 0.95, "at least 95 % of its rate";
}

/// Bytes of a page.
const PAGE: usize = campanile_hw::queue::SYSTEM_PAGE_SIZE as usize;
/// What FILL writes: four different bytes, which no memset can.
const PATTERN: u32 = 0x1234_5678;

/// Bytes that one sample moves at least, so that its ends weigh nothing.
const SAMPLE: u64 = 64 << 20;
/// Bytes that one round moves at most.
const ROUND: u64 = 512 << 20;

struct Moves {
    work: Work,
    size: u64,
    /// Packets in a submission, and submissions in a round.
    repeats: u64,
    samples: u64,
    queue: Queue,
    fence: Fence,
    value: u64,
    source: PagedMemory,
    target: PagedMemory,
    stopwatch: Stopwatch,
    /// Nothing follows it: whatever it does with the pages is over when it is dropped.
    hand: Hand,
}

fn memory(system: &System, size: u64, work: Work) -> Result<PagedMemory, BenchError> {
    let memory = PagedMemory::new(system.luid(), size, work == Work::CopyShuffled);
    let memory = memory.map_err(|failure| BenchError::Host(std::io::Error::other(failure.to_string())))?;
    // SAFETY: the pages are there as long as the memory, and the GPU does not use them yet.
    unsafe { memory.pages().cast::<u8>().write_bytes(1, memory.pages().len()) };
    Ok(memory)
}

impl Moves {
    fn new(system: &System, effort: Effort, work: Work, size: u64) -> Result<Self, BenchError> {
        let device = Device::new(&Adapter::open_luid(system.luid())?)?;
        let repeats = (SAMPLE / size).max(1);
        let samples = (effort.samples as u64 / 20).min(ROUND / (repeats * size)).max(1);
        let (source, target) = (memory(system, size, work)?, memory(system, size, work)?);
        let by_hand = ByHand {
            work,
            size: size as usize,
            repeats,
            source: source.pages().cast(),
            target: target.pages().cast(),
            order: PagedMemory::order(size).into_iter().map(|page| page as usize * PAGE).collect(),
        };
        Ok(Self {
            work,
            size,
            repeats,
            samples,
            queue: Queue::new(&device, Node::Copy, QueueOptions::default())?,
            fence: Fence::new(&device, 0)?,
            value: 0,
            source,
            target,
            stopwatch: Stopwatch::new(system, &device)?,
            hand: Hand::new(by_hand),
        })
    }

    fn per_kib(&self, nanoseconds: f64) -> f64 {
        nanoseconds * 1024.0 / (self.size * self.repeats) as f64
    }

    /// One submission; nanoseconds between the two looks at the GPU's clock.
    fn submit(&mut self) -> Result<f64, BenchError> {
        self.value += 1;
        let Self { work, size, value, repeats, .. } = *self;
        let (source, target) = (self.source.gpu_address(), self.target.gpu_address());
        let (fence, stopwatch) = (&self.fence, &self.stopwatch);
        self.queue.submit(|commands| {
            commands.timestamp(stopwatch.start())?;
            for _ in 0..repeats {
                match work {
                    Work::Copy | Work::CopyShuffled => commands.copy(target, source, size)?,
                    Work::Fill => commands.fill(target, size, PATTERN)?,
                }
            }
            commands.timestamp(stopwatch.end())?;
            commands.signal(fence, value)
        })?;
        fence.wait(value, None)?;
        self.stopwatch.nanoseconds()
    }
}

impl Measurement for Moves {
    fn ours(&mut self) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        for _ in 0..self.samples {
            let nanoseconds = self.submit()?;
            latencies.record(self.per_kib(nanoseconds));
        }
        Ok(latencies)
    }

    fn peer(&mut self, index: usize) -> Result<Latencies, BenchError> {
        let mut latencies = Latencies::new();
        let shuffled = self.work == Work::CopyShuffled && index == 0;
        for _ in 0..self.samples {
            latencies.record(self.per_kib(self.hand.work(shuffled)?));
        }
        Ok(latencies)
    }
}

/// The work of a submission, done by the CPU for comparison.
struct ByHand {
    work: Work,
    size: usize,
    repeats: u64,
    source: NonNull<u8>,
    target: NonNull<u8>,
    /// Pages in the order of the shuffled row.
    order: Vec<usize>,
}

// SAFETY: the memory belongs to the process, and whoever has this is told when nobody else uses it.
unsafe impl Send for ByHand {}

impl ByHand {
    /// Nanoseconds that it took.
    fn time(&self, shuffled: bool) -> f64 {
        let (clock, started) = (Clock::get(), now());
        for _ in 0..self.repeats {
            self.once(shuffled);
        }
        clock.nanoseconds(started, now())
    }

    fn once(&self, shuffled: bool) {
        let (target, source) = black_box((self.target, self.source));
        let copy = |at: usize, size: usize| {
            // SAFETY: the range lies in the memory.
            let target = unsafe { target.add(at) };
            // SAFETY: as above.
            let source = unsafe { source.add(at) };
            // SAFETY: as above, of two memories that nobody else uses now.
            unsafe { target.copy_from_nonoverlapping(source, size) };
        };
        match self.work {
            // SAFETY: the pages are there as long as the memory, and nobody else uses them now.
            Work::Fill => unsafe { target.write_bytes(black_box(1), self.size) },
            _ if shuffled => self.order.iter().for_each(|at| copy(*at, PAGE)),
            _ => copy(0, self.size),
        }
    }
}

/// A thread that waits for work.
struct Hand {
    orders: Option<Sender<bool>>,
    times: Receiver<f64>,
    thread: Option<JoinHandle<()>>,
}

impl Hand {
    fn new(by_hand: ByHand) -> Self {
        let (orders, ordered) = channel();
        let (report, times) = channel();
        let thread = std::thread::spawn(move || {
            for shuffled in ordered {
                if report.send(by_hand.time(shuffled)).is_err() {
                    break;
                }
            }
        });
        Self { orders: Some(orders), times, thread: Some(thread) }
    }

    /// Nanoseconds of a sample, which is done when this returns.
    fn work(&self, shuffled: bool) -> Result<f64, BenchError> {
        let lost = || BenchError::Host(std::io::Error::other("the thread that moves memory is gone"));
        self.orders.as_ref().and_then(|orders| orders.send(shuffled).ok()).ok_or_else(lost)?;
        self.times.recv().map_err(|_| lost())
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.orders = None;
        // A panic of the thread was reported there.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
