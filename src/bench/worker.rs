//! A queue with a fence, and what is measured of it in more than one row.

use std::time::Duration;

use super::error::BenchError;
use crate::clock::{self, Clock, Latencies};
use testbed::user::{Device, Error, Fence, Node, Queue, QueueOptions};

/// Until another machine's GPU, which has nothing to do now, leaves the processor alone.
const QUIET: Duration = Duration::from_millis(50);
/// Submissions timed together, so that reading the clock costs each of them next to nothing.
const BATCH: u64 = 32;
/// Batches before the GPU is given time to catch up, well within the ring.
const BATCHES: usize = 4;

/// A queue with work.
pub(super) struct Worker {
    queue: Queue,
    fence: Fence,
    value: u64,
    clock: Clock,
}

impl Worker {
    pub(super) fn new(device: &Device) -> Result<Self, Error> {
        Ok(Self {
            queue: Queue::new(device, Node::Compute, QueueOptions { ring_entries: 1024, ..QueueOptions::default() })?,
            fence: Fence::new(device, 0)?,
            value: 0,
            clock: Clock::get(),
        })
    }

    /// From submitting a signal to seeing its value.
    pub(super) fn round_trips(&mut self, samples: usize) -> Result<Latencies, BenchError> {
        std::thread::sleep(QUIET);
        let mut latencies = Latencies::new();
        for sample in 0..samples + samples / 10 {
            self.value += 1;
            let (fence, value) = (&self.fence, self.value);
            let started = clock::now();
            self.queue.submit(|commands| commands.signal(fence, value))?;
            if !fence.spin(value, u32::MAX) {
                fence.wait(value, None)?;
            }
            // The first tenth wakes the GPU and brings everything back after the other machine was measured.
            if sample >= samples / 10 {
                latencies.record(self.clock.nanoseconds(started, clock::now()));
            }
        }
        Ok(latencies)
    }

    /// Times of single submissions on the thread that makes them.
    pub(super) fn submissions(&mut self, samples: usize) -> Result<Latencies, BenchError> {
        std::thread::sleep(QUIET);
        let mut latencies = Latencies::new();
        while latencies.len() < samples as u64 {
            // Also wakes an engine that fell asleep while the other machine was measured.
            let last = self.queue.submit(|commands| commands.nop())?;
            self.queue.wait_progress(last)?;
            for _ in 0..BATCHES {
                let started = clock::now();
                for _ in 0..BATCH {
                    self.queue.submit(|commands| commands.nop())?;
                }
                latencies.record(self.clock.nanoseconds(started, clock::now()) / BATCH as f64);
            }
        }
        Ok(latencies)
    }
}
