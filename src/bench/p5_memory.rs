//! P5: memory moved and filled by the copy engine, beside the processor's memcpy and memset.

use std::fs::File;
use std::hint::black_box;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;

use wddm_ddi::types::LUID;

use super::stopwatch::Stopwatch;
use super::{BenchError, Effort, Measurement, Row};
use crate::clock::{Clock, Latencies, now};
use crate::hlk::ShuffledMemory;
use crate::setup::System;
use crate::user::{Adapter, Buffer, Device, Fence, Node, Placement, Queue, QueueOptions};

/// What is done to the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Pages follow one another in system memory.
    Copy,
    /// Pages lie in a random order.
    CopyShuffled,
    Fill,
}

const MEMCPY: &str = "memcpy";
const MEMCPY_SHUFFLED: &str = "memcpy, page by page in the same order";
const MEMCPY_IN_ORDER: &str = "memcpy, pages in order";
const MEMSET: &str = "memset";

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
const PAGE: usize = 4096;
/// What FILL writes: four different bytes, which no memset can.
const PATTERN: u32 = 0x1234_5678;

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
    stopwatch: Stopwatch,
    host_source: HostMemory,
    host_target: HostMemory,
    /// Pages in the order of the shuffled row.
    order: Vec<usize>,
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
            host_source: HostMemory::new(size as usize)?,
            host_target: HostMemory::new(size as usize)?,
            order: ShuffledMemory::order(size).into_iter().map(|page| page as usize * PAGE).collect(),
            _shuffled: kept_shuffled,
            _buffers: kept_buffers,
        })
    }

    fn per_kib(&self, nanoseconds: f64) -> f64 {
        nanoseconds * 1024.0 / (self.size * self.repeats) as f64
    }

    /// One submission; nanoseconds between the two looks at the GPU's clock.
    fn submit(&mut self) -> Result<f64, BenchError> {
        self.value += 1;
        let Self { work, size, source, target, value, repeats, .. } = *self;
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
        let (clock, mut latencies) = (Clock::get(), Latencies::new());
        let shuffled = self.work == Work::CopyShuffled && index == 0;
        for _ in 0..self.samples {
            let started = now();
            for _ in 0..self.repeats {
                let (target, source) = (self.host_target.bytes(), &*black_box(self.host_source.bytes()));
                match self.work {
                    Work::Fill => target.fill(black_box(1)),
                    _ if !shuffled => target.copy_from_slice(source),
                    _ => self.order.iter().for_each(|at| {
                        target[*at..at + PAGE].copy_from_slice(&source[*at..at + PAGE]);
                    }),
                }
                black_box(target);
            }
            latencies.record(self.per_kib(clock.nanoseconds(started, now())));
        }
        Ok(latencies)
    }
}

/// Memory of the same kind as the GPU's: shared pages of a file without a name, all of them there.
struct HostMemory {
    base: NonNull<u8>,
    len: usize,
}

impl HostMemory {
    fn new(len: usize) -> Result<Self, BenchError> {
        let failed = || BenchError::Host(std::io::Error::last_os_error());
        // SAFETY: the name is a terminated string.
        let file = unsafe { libc::memfd_create(c"campanile-bench".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(failed());
        }
        // SAFETY: the descriptor is new and nobody else knows it.
        let file = unsafe { File::from_raw_fd(file) };
        file.set_len(len as u64).map_err(BenchError::Host)?;
        let (rights, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping at an address that the system chooses replaces nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, libc::MAP_SHARED, fd, 0) };
        let base = NonNull::new(base.cast()).filter(|_| base != libc::MAP_FAILED).ok_or_else(failed)?;
        let mut memory = Self { base, len };
        // SAFETY: the range is the mapping; the advice changes no contents, and a refusal is of no importance.
        unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        memory.bytes().fill(1);
        Ok(memory)
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is ours alone, `len` bytes long, and lives as long as the borrow.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: base and len are those of the mapping, and nothing borrows it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
