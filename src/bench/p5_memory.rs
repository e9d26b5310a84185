//! P5: memory moved and filled by the copy engine, beside the processor's memcpy and memset.

use std::hint::black_box;

use campanile_device::Gpu;
use campanile_hw::registers;
use wddm_ddi::types::LUID;

use super::{BenchError, Effort, Measurement, Row};
use crate::clock::{Clock, Latencies, now};
use crate::hlk::ShuffledMemory;
use crate::setup::System;
use crate::user::{Adapter, Buffer, Device, Fence, Mapping, Node, Placement, Queue, QueueOptions};

/// What is done to the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Pages follow one another in system memory.
    Copy,
    /// Pages lie in a random order.
    CopyShuffled,
    Fill,
}

macro_rules! rows {
    ($($name:ident = $id:literal, $work:ident, $size:expr, $what:literal, $peer:literal, $share:literal, $aim:literal;)*) => {
        $(
            #[doc = $what]
            pub(super) const $name: Row = Row {
                id: $id,
                what: $what,
                unit: "ns per KiB",
                peers: &[$peer],
                aim: $aim,
                met: |_, ratio| ratio.p50 * $share <= 1.0,
                further: &[],
                prepare: |system, effort| Ok(Box::new(Moves::new(system, effort, Work::$work, $size)?)),
            };
        )*
    };
}

rows! {
    COPY_4K = "P5C4K", Copy, 4 << 10, "COPY of 4 KiB through the MMU", "memcpy", 0.0, "none below 1 MiB";
    COPY_1M = "P5C1M", Copy, 1 << 20, "COPY of 1 MiB through the MMU", "memcpy", 0.95, "at least 95 % of its rate";
    COPY_16M = "P5C16M", Copy, 16 << 20, "COPY of 16 MiB through the MMU", "memcpy", 0.95, "at least 95 % of its rate";
    COPY_256M = "P5C256M", Copy, 256 << 20, "COPY of 256 MiB through the MMU", "memcpy", 0.95, "at least 95 % of its rate";
    SHUFFLED_1M = "P5S1M", CopyShuffled, 1 << 20, "COPY of 1 MiB in shuffled pages", "memcpy, pages in order", 0.8, "at least 80 % of its rate";
    SHUFFLED_16M = "P5S16M", CopyShuffled, 16 << 20, "COPY of 16 MiB in shuffled pages", "memcpy, pages in order", 0.8, "at least 80 % of its rate";
    FILL_4K = "P5F4K", Fill, 4 << 10, "FILL of 4 KiB through the MMU", "memset", 0.0, "none below 1 MiB";
    FILL_1M = "P5F1M", Fill, 1 << 20, "FILL of 1 MiB through the MMU", "memset", 0.95, "at least 95 % of its rate";
    FILL_16M = "P5F16M", Fill, 16 << 20, "FILL of 16 MiB through the MMU", "memset", 0.95, "at least 95 % of its rate";
    FILL_256M = "P5F256M", Fill, 256 << 20, "FILL of 256 MiB through the MMU", "memset", 0.95, "at least 95 % of its rate";
}

/// Bytes that one sample moves at least, so that its ends weigh nothing.
const SAMPLE: u64 = 4 << 20;
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
    source: u64,
    target: u64,
    /// Two words: the GPU's clock before and after.
    times: Mapping,
    times_address: u64,
    nanoseconds_a_tick: f64,
    host_source: Vec<u8>,
    host_target: Vec<u8>,
    _shuffled: Option<[ShuffledMemory; 2]>,
    _buffers: Option<[Buffer; 2]>,
}

fn shuffled(luid: LUID, size: u64) -> Result<ShuffledMemory, BenchError> {
    ShuffledMemory::new(luid, size).map_err(|failure| BenchError::Host(std::io::Error::other(failure.to_string())))
}

impl Moves {
    fn new(system: &System, effort: Effort, work: Work, size: u64) -> Result<Self, BenchError> {
        let device = Device::new(&Adapter::open_luid(system.luid())?)?;
        let repeats = (SAMPLE / size).max(1);
        let samples = (effort.samples as u64 / 20).min(ROUND / (repeats * size)).max(1);
        let (mut kept_shuffled, mut kept_buffers) = (None, None);
        let (source, target) = if work == Work::CopyShuffled {
            let pair = [shuffled(system.luid(), size)?, shuffled(system.luid(), size)?];
            let addresses = (pair[0].gpu_address(), pair[1].gpu_address());
            kept_shuffled = Some(pair);
            addresses
        } else {
            let pair = [device.create_buffer(size, Placement::System)?, device.create_buffer(size, Placement::System)?];
            let addresses = (pair[0].gpu_address(), pair[1].gpu_address());
            kept_buffers = Some(pair);
            addresses
        };
        let times = device.create_buffer(4096, Placement::System)?;
        let hertz = Gpu::register_read(system.gpu(), registers::CLOCK_HZ, 8);
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
            times: times.map()?,
            times_address: times.gpu_address(),
            nanoseconds_a_tick: 1e9 / hertz as f64,
            // Written once, so that every page is there.
            host_source: vec![1; size as usize],
            host_target: vec![2; size as usize],
            _shuffled: kept_shuffled,
            _buffers: kept_buffers,
        })
    }

    fn per_kib(&self, nanoseconds: f64) -> f64 {
        nanoseconds * 1024.0 / (self.size * self.repeats) as f64
    }

    fn time(&self, word: usize) -> Result<u64, BenchError> {
        let mut bytes = [0; 8];
        self.times.read(word * 8, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// One submission; nanoseconds between the two looks at the GPU's clock.
    fn submit(&mut self) -> Result<f64, BenchError> {
        self.value += 1;
        let Self { work, size, source, target, times_address, value, repeats, .. } = *self;
        let fence = &self.fence;
        self.queue.submit(|commands| {
            commands.timestamp(times_address)?;
            for _ in 0..repeats {
                match work {
                    Work::Copy | Work::CopyShuffled => commands.copy(target, source, size)?,
                    Work::Fill => commands.fill(target, size, 0x0101_0101)?,
                }
            }
            commands.timestamp(times_address + 8)?;
            commands.signal(fence, value)
        })?;
        fence.wait(value, None)?;
        Ok(self.time(1)?.saturating_sub(self.time(0)?) as f64 * self.nanoseconds_a_tick)
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

    fn peer(&mut self, _: usize) -> Result<Latencies, BenchError> {
        let (clock, mut latencies) = (Clock::get(), Latencies::new());
        for _ in 0..self.samples {
            let started = now();
            for _ in 0..self.repeats {
                match self.work {
                    Work::Copy | Work::CopyShuffled => self.host_target.copy_from_slice(black_box(&self.host_source)),
                    Work::Fill => self.host_target.fill(black_box(1)),
                }
                black_box(&mut self.host_target);
            }
            latencies.record(self.per_kib(clock.nanoseconds(started, now())));
        }
        Ok(latencies)
    }
}
