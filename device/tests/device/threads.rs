//! The same engine on threads: nothing is lost, and what a command promises holds while engines run.

use crate::host::{Host, TestQueue, ram, small_variant};
use campanile_device::{Interrupts, Runner, Variant};
use campanile_hw::packet::{Copy, Fill, Packet, Signal, Wait};
use campanile_hw::registers::{self as reg, Command, NODE_COMPUTE, NODE_COPY};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

const FENCE: u64 = 0x50_0000_0000;
const DATA: u64 = 0x60_0000_0000;

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !done() {
        assert!(std::time::Instant::now() < deadline, "{what} never happened");
        std::thread::yield_now();
    }
}

fn signal(word: u64, value: u64) -> Packet {
    Packet::Signal(Signal { handle: 0, current: FENCE + word * 8, monitored: 0, value })
}

fn wait(word: u64, value: u64) -> Packet {
    Packet::Wait(Wait { handle: 0, current: FENCE + word * 8, value })
}

#[test]
fn a_runner_does_what_stepping_does() {
    let mut host = Host::new();
    let space = host.space();
    let at = host.map_new_ram(space, FENCE, 4096);
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.connect(&mut queue, 0);
    let runner = Runner::start(host.gpu.clone());
    for value in 1..=500 {
        host.write_packets(&mut queue, &[signal(0, value)]);
        host.ring(&queue);
        until("the signal", || host.read64(at) == value);
    }
    until("the last buffer", || host.read_pointer(&queue) == 500);
    drop(runner);
    host.write_packets(&mut queue, &[signal(0, 501)]);
    host.ring(&queue);
    assert_eq!(host.read64(at), 500, "nobody steps any more");
    host.run();
    assert_eq!(host.read64(at), 501);
}

/// Two queues on two nodes that hand a value back and forth.
fn ping_pong(host: &mut Host, rounds: u64) -> [TestQueue; 2] {
    let space = host.space();
    host.map_new_ram(space, FENCE, 4096);
    let mut queues = [host.queue(0, space, NODE_COMPUTE), host.queue(1, space, NODE_COPY)];
    for (own, queue) in queues.iter_mut().enumerate() {
        let (own, other) = (own as u64, 1 - own as u64);
        for chunk in 0..rounds / 50 {
            let packets: Vec<Packet> = (chunk * 50 + 1..=chunk * 50 + 50)
                .flat_map(|value| match own {
                    0 => [signal(own, value), wait(other, value)],
                    _ => [wait(other, value), signal(own, value)],
                })
                .collect();
            host.write_packets(queue, &packets);
        }
    }
    queues
}

#[test]
fn signals_between_nodes_on_different_threads_are_never_missed() {
    let mut host = Host::new();
    let rounds = 1000;
    let queues = ping_pong(&mut host, rounds);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if !host.gpu.step() {
                        std::thread::yield_now();
                    }
                }
            });
        }
        queues.iter().for_each(|queue| host.ring(queue));
        until("the last round", || queues.iter().all(|queue| host.read_pointer(queue) == queue.write));
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(host.get(reg::COUNT_WAITS, 8), 2 * rounds);
    assert_eq!(host.get(reg::COUNT_SIGNALS, 8), 2 * rounds);
}

#[test]
fn the_order_is_a_function_of_the_seed() {
    let trace = |seed: u64| {
        let mut host = Host::with(&Variant { seed, ..small_variant() });
        let queues = ping_pong(&mut host, 200);
        queues.iter().for_each(|queue| host.ring(queue));
        let mut trace = Vec::new();
        while host.gpu.step() {
            trace.push(queues.each_ref().map(|queue| host.state(queue)));
        }
        trace
    };
    assert_eq!(trace(7), trace(7));
    assert!((8..20).any(|seed| trace(seed) != trace(7)), "seeds differ");
}

#[test]
fn commands_get_through_while_an_engine_is_busy_and_stop_it_for_good() {
    let mut host = Host::new();
    let space = host.space();
    let data = host.map_new_ram(space, DATA, 2 << 20);
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let copy = Copy {
        source: DATA,
        destination: DATA + (1 << 20),
        row_bytes: 1 << 20,
        rows: 256,
        source_pitch: 0,
        destination_pitch: 0,
    };
    let _runner = Runner::start(host.gpu.clone());
    for _ in 0..60 {
        host.write_packets(&mut queue, &[Packet::Copy(copy)]);
    }
    host.ring(&queue);
    for round in 0..20 {
        host.write(data, &[round; 64]);
        host.command(Command::SuspendQueue, 0, u64::from(round), 0);
        // The engine has let go: what the CPU writes now stays.
        let target = ram(data.address() + (1 << 20));
        host.write(target, &[0xee; 64]);
        std::thread::sleep(std::time::Duration::from_micros(300));
        assert_eq!(host.read(target, 64), [0xee; 64]);
        host.command(Command::ResumeQueue, 0, 0, 0);
    }
    host.command(Command::UnmapQueue, 0, 0, 0);
    assert_eq!(host.events().len(), 20);
}

#[test]
fn memory_can_be_unmapped_while_engines_use_it() {
    let mut host = Host::new();
    let space = host.space();
    let data = host.map_new_ram(space, DATA, 1 << 20);
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let _runner = Runner::start(host.gpu.clone());
    for value in 1..=20u32 {
        host.write_packets(&mut queue, &[Packet::Fill(Fill { destination: DATA, size: 1 << 20, pattern: value })]);
    }
    host.ring(&queue);
    until("the first buffer", || host.read_pointer(&queue) > 0);
    host.gpu.unmap_dma(data.address(), 1 << 20);
    let frozen = host.read(data, 1 << 20);
    until("the fault or the end", || matches!(host.state(&queue), 0 | 5));
    assert_eq!(host.read(data, 1 << 20), frozen, "nothing was written after the memory was taken away");
}

/// A receiver that does in the interrupt what a driver might: look at registers and run a command.
struct Curious {
    gpu: Weak<campanile_device::Gpu>,
    seen: AtomicU64,
}

impl Interrupts for Curious {
    fn message(&self, _: u16) {
        let gpu = self.gpu.upgrade().expect("alive");
        assert_eq!(gpu.register_read(reg::ID, 4), u64::from(reg::ID_VALUE));
        gpu.register_write(reg::CMP_ARG0, 8, 0);
        gpu.register_write(reg::CMP_COMMAND, 4, Command::QueryQueue as u64);
        assert_eq!(gpu.register_read(reg::CMP_STATUS, 4), 0);
        gpu.config_read(0, 4);
        gpu.unmap_dma(0x7f_0000_0000, 4096);
        self.seen.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn messages_are_sent_with_no_lock_held() {
    let mut host = Host::new();
    let receiver = Arc::new(Curious { gpu: Arc::downgrade(&host.gpu), seen: AtomicU64::new(0) });
    host.gpu.set_interrupts(Some(receiver.clone()));
    let space = host.space();
    host.map_new_ram(space, FENCE, 4096);
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let watched = Signal { handle: 0, current: FENCE, monitored: FENCE + 8, value: 1 };
    host.submit(&mut queue, &[Packet::Signal(watched)]);
    host.command(Command::SuspendQueue, 0, 0, 0);
    assert_eq!(receiver.seen.load(Ordering::SeqCst), 2, "from an engine and from a command");
}

#[test]
fn values_written_by_the_cpu_are_never_missed() {
    let mut host = Host::new();
    let space = host.space();
    let at = host.map_new_ram(space, FENCE, 4096);
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let _runner = Runner::start(host.gpu.clone());
    let root = space.root.into_bits();
    for value in 1..=400 {
        host.write_packets(&mut queue, &[wait(0, value)]);
        host.ring(&queue);
        host.write64(at, value);
        host.command(Command::FenceChanged, root, FENCE, 0);
        until("the wait", || host.read_pointer(&queue) == value);
    }
}
