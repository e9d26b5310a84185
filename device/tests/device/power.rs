//! Power states of nodes, idle reports, and a runner that sleeps.

use crate::host::{Host, TestQueue, small_variant};
use campanile_device::{Runner, Variant};
use campanile_hw::event::{EventKind, NO_QUEUE};
use campanile_hw::packet::{Packet, Signal, Wait};
use campanile_hw::queue::Location;
use campanile_hw::registers::{self as reg, Command, CommandStatus, NODE_COMPUTE, NODE_COPY, NODES};

const FENCE: u64 = 0x50_0000_0000;

fn signal(word: u64, value: u64) -> Packet {
    Packet::Signal(Signal { handle: 0, current: FENCE + word * 8, monitored: 0, value })
}

fn wait(word: u64, value: u64) -> Packet {
    Packet::Wait(Wait { handle: 0, current: FENCE + word * 8, value })
}

/// A function whose nodes are idle at once.
fn eager() -> Host {
    Host::with(&Variant { idle_ticks: 1, ..small_variant() })
}

fn sleep(host: &Host, node: u32) -> u64 {
    host.command(Command::SetNodePower, node.into(), 1, 0)
}

fn awake(host: &Host, node: u32) -> u64 {
    host.command(Command::SetNodePower, node.into(), 0, 0)
}

/// Steps until nothing happens any more, idle reports included, and returns the nodes that said they are idle.
fn idle_nodes(host: &mut Host) -> Vec<u8> {
    for _ in 0..1000 {
        host.gpu.step();
    }
    host.events().iter().filter(|event| event.kind == EventKind::NodeIdle as u8).map(|event| event.node).collect()
}

fn connected(host: &mut Host, node: u32) -> (TestQueue, Location) {
    let space = host.space();
    let at = host.map_new_ram(space, FENCE, 4096);
    let mut queue = host.queue(node, space, node);
    host.connect(&mut queue, node);
    (queue, at)
}

#[test]
fn a_node_in_f1_runs_nothing_and_its_doorbell_is_not_read_until_f0() {
    let mut host = Host::new();
    let (mut queue, at) = connected(&mut host, NODE_COMPUTE);
    assert_eq!(sleep(&host, NODE_COMPUTE), 0);
    assert_eq!(host.get(reg::NODE_ASLEEP, 4), 1 << NODE_COMPUTE);
    let reads = host.gpu.activity().doorbell_reads;
    host.write_packets(&mut queue, &[signal(0, 7)]);
    host.ring(&queue);
    assert!((0..1000).all(|_| !host.gpu.step()));
    assert_eq!((host.gpu.activity().doorbell_reads, host.read64(at)), (reads, 0));
    assert_eq!(awake(&host, NODE_COMPUTE), 1);
    host.run();
    assert_eq!(host.read64(at), 7);
    assert_eq!(host.get(reg::NODE_ASLEEP, 4), 0);
}

#[test]
fn work_that_a_command_finds_in_f1_waits_for_f0_and_other_nodes_go_on() {
    let mut host = Host::new();
    let (mut queue, at) = connected(&mut host, NODE_COMPUTE);
    let (mut other, other_at) = connected(&mut host, NODE_COPY);
    sleep(&host, NODE_COMPUTE);
    host.write_packets(&mut queue, &[signal(0, 1)]);
    host.command(Command::KickQueue, queue.number.into(), 0, 0);
    host.write_packets(&mut other, &[signal(0, 2)]);
    host.ring(&other);
    host.run();
    assert_eq!((host.read64(at), host.read64(other_at)), (0, 2));
    awake(&host, NODE_COMPUTE);
    host.run();
    assert_eq!(host.read64(at), 1);
}

#[test]
fn the_last_look_of_a_disconnection_keeps_work_for_f0() {
    let mut host = Host::new();
    let (mut queue, at) = connected(&mut host, NODE_COMPUTE);
    host.write_packets(&mut queue, &[signal(0, 5)]);
    host.command(Command::DisconnectDoorbell, 0, queue.number.into(), 0);
    sleep(&host, NODE_COMPUTE);
    host.run();
    assert_eq!(host.read64(at), 0);
    awake(&host, NODE_COMPUTE);
    host.run();
    assert_eq!(host.read64(at), 5);
}

#[test]
fn bad_power_states_are_refused_without_a_trace() {
    let host = Host::new();
    for arguments in [[u64::from(NODES), 0, 0], [u64::MAX, 1, 0], [0, 2, 0], [0, u64::MAX, 0]] {
        let [node, state, rest] = arguments;
        let (refused, _) = host.try_command(Command::SetNodePower, node, state, rest);
        assert_eq!(refused, CommandStatus::BadArgument, "{arguments:?}");
    }
    assert_eq!(host.get(reg::NODE_ASLEEP, 4), 0);
}

#[test]
fn reset_brings_every_node_back_to_f0() {
    let host = Host::new();
    (0..NODES).for_each(|node| assert_eq!(sleep(&host, node), 0));
    assert_eq!(host.get(reg::NODE_ASLEEP, 4), 0b111);
    host.gpu.reset();
    host.enable();
    assert_eq!(host.get(reg::NODE_ASLEEP, 4), 0);
}

#[test]
fn an_idle_node_says_so_once_until_something_happens_to_it() {
    let mut host = eager();
    let mut first = idle_nodes(&mut host);
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2], "from the start");
    assert_eq!(idle_nodes(&mut host), []);
    let (mut queue, _) = connected(&mut host, NODE_COPY);
    assert_eq!(idle_nodes(&mut host), [NODE_COPY as u8], "after commands about its queue");
    host.write_packets(&mut queue, &[signal(0, 1)]);
    host.ring(&queue);
    assert_eq!(idle_nodes(&mut host), [NODE_COPY as u8], "after work");
    sleep(&host, NODE_COPY);
    assert_eq!(idle_nodes(&mut host), [], "a node in F1 is not asked");
    awake(&host, NODE_COPY);
    assert_eq!(idle_nodes(&mut host), [NODE_COPY as u8], "after F0");
}

#[test]
fn a_node_whose_queue_waits_is_not_idle_and_one_whose_queue_is_suspended_is() {
    let mut host = eager();
    let (mut queue, _) = connected(&mut host, NODE_COMPUTE);
    idle_nodes(&mut host);
    host.write_packets(&mut queue, &[wait(0, 1)]);
    host.ring(&queue);
    assert_eq!(idle_nodes(&mut host), []);
    host.command(Command::SuspendQueue, queue.number.into(), 1, 0);
    assert_eq!(idle_nodes(&mut host), [NODE_COMPUTE as u8]);
}

#[test]
fn a_function_without_idle_ticks_never_says_that_it_is_idle() {
    let mut host = Host::new();
    assert_eq!(host.get(reg::IDLE_TICKS, 8), 0);
    assert_eq!(idle_nodes(&mut host), []);
}

#[test]
fn a_declared_hang_is_an_event_with_a_message() {
    let mut host = Host::new();
    let before = host.messages.0.load(std::sync::atomic::Ordering::SeqCst);
    host.gpu.declare_hung(NODE_COPY);
    let events = host.events();
    let [event] = events.as_slice() else { panic!("one event: {events:?}") };
    assert_eq!((event.kind, event.node, event.queue), (EventKind::NodeHung as u8, NODE_COPY as u8, NO_QUEUE));
    assert_eq!(host.messages.0.load(std::sync::atomic::Ordering::SeqCst), before + 1);
    host.gpu.declare_hung(NODES);
    assert!(host.events().is_empty(), "a node that does not exist");
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !done() {
        assert!(std::time::Instant::now() < deadline, "{what} never happened");
        std::thread::yield_now();
    }
}

#[test]
fn a_runner_sleeps_when_all_nodes_do_and_a_register_wakes_it() {
    let mut host = Host::new();
    let (mut queue, at) = connected(&mut host, NODE_COMPUTE);
    let runner = Runner::start(host.gpu.clone());
    for value in 1..=20 {
        for node in 0..NODES {
            sleep(&host, node);
        }
        until("the sleep", || host.gpu.sleeps_until_register_access());
        // The step that found nothing may still be the last one.
        let steps = host.gpu.steps();
        host.write_packets(&mut queue, &[signal(0, value)]);
        host.ring(&queue);
        assert!((0..100).all(|_| host.gpu.sleeps_until_register_access()), "a doorbell wakes nobody in F1");
        assert!(host.gpu.steps() - steps <= 1, "steps are made while everything sleeps");
        awake(&host, NODE_COMPUTE);
        until("the signal", || host.read64(at) == value);
    }
    drop(runner);
}

#[test]
fn a_runner_without_doorbells_sleeps_also_in_f0() {
    let mut host = Host::new();
    let runner = Runner::start(host.gpu.clone());
    until("the sleep", || host.gpu.sleeps_until_register_access());
    let (mut queue, at) = connected(&mut host, NODE_COMPUTE);
    host.write_packets(&mut queue, &[signal(0, 1)]);
    host.ring(&queue);
    until("the signal", || host.read64(at) == 1);
    assert!(!host.gpu.sleeps_until_register_access(), "a doorbell has to be polled");
    drop(runner);
}
