//! Resets of every kind while everything is in use: nothing of what there was goes on, and the function starts over.

use crate::host::{Host, RAM_BASE, RAM_SIZE, Space, TestQueue, ram, small_variant};
use campanile_device::{FaultRule, Runner, Variant};
use campanile_hw::log::{LogKind, LogTarget, bytes_of};
use campanile_hw::packet::{Copy, Fill, Packet, Signal, Wait};
use campanile_hw::queue::Location;
use campanile_hw::registers::{self as reg, Command, CommandStatus, NODE_COMPUTE, NODE_COPY};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DATA: u64 = 0x40_0000_0000;
const FENCE: u64 = 0x50_0000_0000;
const LOG: u64 = 0x60_0000_0000;
const LOG_ENTRIES: u32 = 64;
/// Half of the data is copied to the other half.
const HALF: u64 = 512 << 10;
/// Waited for, and never signalled before a reset.
const GATE: u64 = FENCE;
/// The fence of each engine, whose signals interrupt.
const SIGNALS: [u64; 2] = [FENCE + 16, FENCE + 32];
/// Queues that work, and one that waits.
const WORKS: [u32; 2] = [1, 2];
const WAITS: u32 = 3;

type Reset = (&'static str, fn(&Host));

const RESETS: [Reset; 4] = [
    ("function level", |host| host.gpu.config_write(0x68, 2, 0x8000)),
    ("D3hot", |host| {
        host.gpu.config_write(0x44, 2, 3);
        host.gpu.config_write(0x44, 2, 0);
    }),
    ("conventional", |host| host.gpu.reset()),
    ("by register", |host| host.set(reg::CONTROL, 4, 2)),
];

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !done() {
        assert!(started.elapsed().as_secs() < 60, "{what} never came");
        std::thread::yield_now();
    }
}

fn signal(current: u64, value: u64) -> Packet {
    Packet::Signal(Signal { handle: 0, current, monitored: current + 8, value })
}

/// Everything that a reset has to end.
struct Busy {
    host: Host,
    space: Space,
    data: Location,
    fences: Location,
    log: Location,
    queues: Vec<TestQueue>,
}

impl Busy {
    fn new() -> Self {
        let mut host = Host::with(&Variant { vram_kept_in_d3: true, ..small_variant() });
        let space = host.space();
        let data = host.map_new_ram(space, DATA, 2 * HALF);
        let fences = host.map_new_ram(space, FENCE, 4096);
        let log = host.map_new_ram(space, LOG, bytes_of(LOG_ENTRIES).next_multiple_of(4096));
        let copy = Copy {
            source: DATA,
            destination: DATA + HALF,
            row_bytes: HALF as u32,
            rows: 64,
            source_pitch: 0,
            destination_pitch: 0,
        };
        let mut queues = Vec::new();
        for ((number, node), fence) in WORKS.into_iter().zip([NODE_COMPUTE, NODE_COPY]).zip(SIGNALS) {
            let mut queue = host.queue(number, space, node);
            host.connect(&mut queue, number);
            let kind = LogTarget::new().with_queue(number).with_kind(LogKind::Signals as u8).into_bits();
            if number == 1 {
                host.command(Command::SetFenceLog, kind, LOG, u64::from(LOG_ENTRIES));
            }
            for value in 1..=50 {
                host.write_packets(&mut queue, &[signal(fence, value), Packet::Copy(copy)]);
            }
            queues.push(queue);
        }
        let mut waits = host.queue(WAITS, space, NODE_COPY);
        host.connect(&mut waits, WAITS);
        let late = Packet::Fill(Fill { destination: DATA, size: HALF, pattern: 0xbad });
        host.write_packets(&mut waits, &[Packet::Wait(Wait { handle: 0, current: GATE, value: 1 }), late]);
        queues.push(waits);
        Self { host, space, data, fences, log, queues }
    }

    /// Rings, and waits until both engines work, a queue waits and messages were sent.
    fn begin(&self) {
        self.queues.iter().for_each(|queue| self.host.ring(queue));
        until("work", || {
            let reached = |fence: u64| self.host.read64(ram(self.fences.address() + (fence - FENCE))) > 0;
            SIGNALS.into_iter().all(reached)
                && self.host.state(&self.queues[2]) == 3
                && self.host.messages.0.load(Ordering::SeqCst) > 0
        });
    }

    /// The contents of memory that must not change once the function has been reset: data, fences and fence log.
    fn kept(&self) -> [Vec<u8>; 3] {
        [
            self.host.read(self.data, 2 * HALF as usize),
            self.host.read(self.fences, 4096),
            self.host.read(self.log, bytes_of(LOG_ENTRIES) as usize),
        ]
    }
}

/// Stores to the doorbells of all queues until it is told to stop, and counts how often.
fn hammer(host: &Host, stop: &AtomicBool, stores: &AtomicU64) {
    let mut value = 1000;
    while !stop.load(Ordering::Relaxed) {
        for page in [1, 2, 3] {
            host.store_doorbell(page, value);
        }
        value += 1;
        stores.fetch_add(1, Ordering::Relaxed);
        std::thread::yield_now();
    }
}

fn reset_in_use((name, reset): Reset) {
    let mut busy = Busy::new();
    let runner = Runner::start(busy.host.gpu.clone());
    let (stop, stores) = (AtomicBool::new(false), AtomicU64::new(0));
    busy.begin();
    let kept = std::thread::scope(|scope| {
        scope.spawn(|| hammer(&busy.host, &stop, &stores));
        let more = |count: u64| {
            let before = stores.load(Ordering::Relaxed);
            until("stores", || stores.load(Ordering::Relaxed) >= before + count);
        };
        reset(&busy.host);
        let messages = busy.host.messages.0.load(Ordering::SeqCst);
        let memory = busy.host.read(ram(RAM_BASE), RAM_SIZE as usize);
        more(500);
        assert!(busy.host.read(ram(RAM_BASE), RAM_SIZE as usize) == memory, "{name}: memory was written");
        assert_eq!(busy.host.messages.0.load(Ordering::SeqCst), messages, "{name}: messages");
        let unfinished = |queue: &TestQueue| busy.host.read_pointer(queue) < queue.write;
        assert!(busy.queues.iter().all(unfinished), "{name}: the work was done before the reset");
        stop.store(true, Ordering::Relaxed);
        busy.kept()
    });
    started_over(name, &mut busy, &kept);
    drop(runner);
}

/// The function is started again by its driver, and knows nothing of what there was.
fn started_over(name: &str, busy: &mut Busy, kept: &[Vec<u8>; 3]) {
    busy.host.enable();
    assert_eq!(busy.host.get(reg::CONTROL, 4), 0, "{name}");
    for counter in [reg::COUNT_RETIRED, reg::COUNT_DOORBELLS, reg::COUNT_WAITS, reg::COUNT_SIGNALS] {
        assert_eq!(busy.host.get(counter, 8), 0, "{name}: register {counter:#x}");
    }
    assert_eq!((busy.host.get(reg::NODE_BUSY, 4), busy.host.get(reg::PAGING_ROOT, 8)), (0, 0), "{name}");
    let (messages, visits) = (busy.host.messages.0.load(Ordering::SeqCst), busy.host.gpu.activity().waiter_visits);
    busy.host.start();
    for number in [WORKS[0], WORKS[1], WAITS] {
        let answer = busy.host.try_command(Command::QueryQueue, u64::from(number), 0, 0).0;
        assert_eq!(answer, CommandStatus::BadQueue, "{name}: queue {number}");
        busy.host.store_doorbell(number, 7);
    }
    // Whoever waited for the gate is not found.
    busy.host.write64(busy.fences, 1);
    busy.host.command(Command::FenceChanged, busy.space.root.into_bits(), GATE, 0);
    let steps = busy.host.gpu.steps();
    until("steps", || {
        // Wakes a runner that waits for work.
        busy.host.set(reg::CMP_ARG0, 8, 0);
        busy.host.gpu.steps() > steps + 100
    });
    assert_eq!(busy.host.gpu.activity().waiter_visits, visits, "{name}: somebody waited");
    assert_eq!(busy.host.get(reg::COUNT_DOORBELLS, 8), 0, "{name}: doorbells");
    assert_eq!(busy.host.messages.0.load(Ordering::SeqCst), messages, "{name}: messages");
    busy.host.write64(busy.fences, 0);
    assert!(busy.kept() == *kept, "{name}: work went on");
    // Queue, doorbell and addresses are used again, for other memory: a translation that was kept would lead to the old one.
    let other = busy.host.map_new_ram(busy.space, DATA, HALF);
    let mut queue = busy.host.queue(WORKS[0], busy.space, NODE_COMPUTE);
    busy.host.connect(&mut queue, WORKS[0]);
    let fill = Packet::Fill(Fill { destination: DATA, size: HALF, pattern: 0x7777_7777 });
    busy.host.write_packets(&mut queue, &[fill, signal(SIGNALS[0], 1000)]);
    busy.host.ring(&queue);
    until("the new work", || busy.host.read_pointer(&queue) == queue.write);
    until("its message", || busy.host.messages.0.load(Ordering::SeqCst) == messages + 1);
    assert!(busy.host.read(other, HALF as usize).iter().all(|byte| *byte == 0x77), "{name}: the new work");
    let [data, _, log] = busy.kept();
    assert!(data == kept[0] && log == kept[2], "{name}: the new work went where the old one had been");
}

#[test]
fn a_function_level_reset_in_use_ends_everything_and_the_function_starts_over() {
    (0..3).for_each(|_| reset_in_use(RESETS[0]));
}

#[test]
fn d3hot_in_use_ends_everything_and_the_function_starts_over() {
    (0..3).for_each(|_| reset_in_use(RESETS[1]));
}

#[test]
fn a_conventional_reset_in_use_ends_everything_and_the_function_starts_over() {
    (0..3).for_each(|_| reset_in_use(RESETS[2]));
}

#[test]
fn a_reset_by_register_in_use_ends_everything_and_the_function_starts_over() {
    (0..3).for_each(|_| reset_in_use(RESETS[3]));
}

#[test]
fn a_message_that_is_late_does_not_outlive_a_reset() {
    for (name, reset) in RESETS {
        let mut host = Host::with(&Variant { vram_kept_in_d3: true, ..small_variant() });
        let space = host.space();
        host.queue(0, space, NODE_COMPUTE);
        host.gpu.faults().inject(FaultRule::LateInterrupt { steps: 50 });
        host.command(Command::SuspendQueue, 0, 1, 0);
        assert_eq!(host.messages.0.load(Ordering::SeqCst), 0, "{name}: it is late");
        reset(&host);
        host.enable();
        host.start();
        for _ in 0..200 {
            host.gpu.step();
        }
        assert_eq!(host.messages.0.load(Ordering::SeqCst), 0, "{name}");
    }
}
