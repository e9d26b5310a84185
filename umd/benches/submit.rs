//! Cost of one submission against the fake operating system, without a GPU on the other side of the cache lines.
//!
//! `cargo bench -p campanile_umd`

#[path = "../tests/fake/mod.rs"]
mod fake;

use std::{hint::black_box, time::Instant};

use campanile_umd::*;
use fake::*;

const BATCH: u64 = 64;
const ROUNDS: usize = 40_000;

fn measure(name: &str, mut submit: impl FnMut() -> u64) {
    let progress = os(|fake| std::ptr::from_ref(fake.hw_queue().progress.word(0)));
    let mut samples: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let mut last = 0;
            for _ in 0..BATCH {
                last = submit();
            }
            let spent = start.elapsed();
            // SAFETY: a word of the fake, which outlives the measurement. The GPU has caught up.
            unsafe { &*progress }.store(last, std::sync::atomic::Ordering::Release);
            spent.as_nanos() as f64 / BATCH as f64
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    println!("{name:<42} p50 {:6.1} ns   p99 {:6.1} ns", samples[ROUNDS / 2], samples[ROUNDS * 99 / 100]);
}

fn main() {
    let device = Device::new(&Adapter::open(&THUNKS).expect("adapter")).expect("device");
    let fence = Fence::new(&device, 0).expect("fence");
    let mut queue = Queue::new(&device, Node::Copy, QueueOptions::default()).expect("queue");
    for _ in 0..2 {
        let mut value = 0;
        measure("empty", || queue.submit(|_| Ok(())).expect("submits"));
        measure("nop", || queue.submit(|commands| commands.nop()).expect("submits"));
        measure("signal", || {
            value += 1;
            queue.submit(|commands| commands.signal(&fence, value)).expect("submits")
        });
        measure("wait, copy, signal", || {
            value += 1;
            let (to, from) = black_box((0x10_0000, 0x20_0000));
            let record = |commands: &mut Recorder<'_>| {
                commands.wait(&fence, value)?;
                commands.copy(to, from, black_box(65536))?;
                commands.signal(&fence, value)
            };
            queue.submit(record).expect("submits")
        });
    }
    drop((queue, fence, device));
    os(|fake| fake.assert_clean());
}
