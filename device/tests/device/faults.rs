//! Faults on demand: each works, is injected, fails as its rule says, is gone, and the function works again.

use crate::host::{Host, Space, TestQueue};
use campanile_device::{FaultRule, HangAt};
use campanile_hw::event::{Event, EventKind, FaultInfo, FaultKind};
use campanile_hw::packet::{Packet, Signal};
use campanile_hw::registers::{self as reg, Command, CommandStatus, NODE_COMPUTE, NODE_COPY};

const FENCE: u64 = 0x50_0000_0000;
const NO_QUEUE: u64 = u64::MAX;
const SUSPENDED: u64 = 4;
const FAULTED: u64 = 5;

fn signal(place: u64, value: u64) -> Packet {
    Packet::Signal(Signal { handle: 0, current: FENCE + place * 16, monitored: 0, value })
}

struct Fixture {
    host: Host,
    fences: campanile_hw::queue::Location,
    space: Space,
}

impl Fixture {
    fn new() -> Self {
        let mut host = Host::new();
        let space = host.space();
        let fences = host.map_new_ram(space, FENCE, 4096);
        Self { host, fences, space }
    }

    fn queue(&mut self, number: u32, node: u32) -> TestQueue {
        self.host.queue(number, self.space, node)
    }

    fn value(&self, place: u64) -> u64 {
        self.host.read64(self.fences.with_address(self.fences.address() + place * 16))
    }

    fn kinds(&mut self) -> Vec<(EventKind, u32)> {
        let kind = |event: &Event| (EventKind::from_number(event.kind).expect("a kind"), event.queue);
        self.host.events().iter().map(kind).collect()
    }

    fn reset(&self, node: u32) -> u64 {
        self.host.command(Command::ResetNode, u64::from(node), 0, 0)
    }
}

fn hang(node: u32, at: HangAt) -> FaultRule {
    FaultRule::Hang { node, queue: None, at, reported: false }
}

#[test]
fn an_engine_that_hangs_stops_its_node_until_the_reset_and_loses_one_queue() {
    let mut test = Fixture::new();
    let (mut guilty, mut beside) = (test.queue(1, NODE_COMPUTE), test.queue(2, NODE_COMPUTE));
    let mut elsewhere = test.queue(3, NODE_COPY);
    test.host.submit(&mut guilty, &[signal(0, 1)]);
    let id = test.host.gpu.faults().inject(hang(NODE_COMPUTE, HangAt::After(1)));
    test.host.submit(&mut guilty, &[signal(0, 2), signal(0, 3), signal(0, 4)]);
    test.host.submit(&mut beside, &[signal(1, 1)]);
    test.host.submit(&mut elsewhere, &[signal(2, 1)]);
    assert_eq!([0, 1, 2].map(|place| test.value(place)), [2, 0, 1], "the packet before the hang, and the other node");
    assert_eq!(test.host.gpu.faults().fired(id), 1);
    // The queue that hangs does not answer a suspension, one beside it does.
    test.host.command(Command::SuspendQueue, 1, 7, 0);
    test.host.command(Command::SuspendQueue, 2, 8, 0);
    assert_eq!(test.kinds(), [(EventKind::Suspended, 2)]);
    test.host.command(Command::ResumeQueue, 2, 0, 0);
    assert_eq!(test.reset(NODE_COMPUTE), 1);
    let events = test.host.events();
    let [fault, suspended] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(FaultKind::from_number(FaultInfo::from_bits(fault.data1).kind()), Some(FaultKind::Reset));
    assert_eq!((suspended.kind, suspended.queue, suspended.data0), (EventKind::Suspended as u8, 1, 7));
    test.host.run();
    assert_eq!((test.value(0), test.value(1), test.host.state(&guilty)), (2, 1, FAULTED));
    test.host.submit(&mut beside, &[signal(1, 2)]);
    assert_eq!((test.value(1), test.reset(NODE_COMPUTE)), (2, NO_QUEUE));
}

#[test]
fn a_hang_is_found_at_the_signal_of_a_value_and_told_by_the_watchdog() {
    let mut test = Fixture::new();
    let mut queue = test.queue(1, NODE_COPY);
    let rule = FaultRule::Hang { node: NODE_COPY, queue: Some(1), at: HangAt::Signal(0xdead), reported: true };
    let id = test.host.gpu.faults().inject(rule);
    test.host.submit(&mut queue, &[signal(0, 5), signal(0, 0xdead)]);
    assert_eq!((test.value(0), test.kinds()), (5, vec![(EventKind::NodeHung, u32::MAX)]));
    // A queue that is taken away while it hangs leaves the engine hung, with nobody to blame, and what it was owed is not sent.
    test.host.command(Command::SuspendQueue, 1, 7, 0);
    test.host.command(Command::UnmapQueue, 1, 0, 0);
    let mut next = test.queue(2, NODE_COPY);
    test.host.submit(&mut next, &[signal(1, 1)]);
    assert_eq!((test.value(1), test.reset(NODE_COPY)), (0, NO_QUEUE));
    test.host.run();
    assert_eq!((test.value(1), test.host.gpu.faults().remove(id), test.kinds()), (1, 1, vec![]));
}

#[test]
fn a_node_that_is_said_to_hang_is_busy_and_makes_no_progress_until_it_is_reset() {
    let mut test = Fixture::new();
    let (mut queue, mut beside) = (test.queue(1, NODE_COPY), test.queue(2, NODE_COPY));
    let mut elsewhere = test.queue(3, NODE_COMPUTE);
    let rule = FaultRule::Hang { node: NODE_COPY, queue: Some(1), at: HangAt::After(2), reported: true };
    test.host.gpu.faults().inject(rule);
    let seen = |host: &Host| (host.get(reg::NODE_BUSY, 4) >> NODE_COPY & 1, host.get(reg::PROGRESS_COPY, 8));
    assert_eq!(seen(&test.host), (0, 0));
    test.host.submit(&mut queue, &[1, 2, 3].map(|value| signal(0, value)));
    assert_eq!((seen(&test.host), test.kinds()), ((1, 2), vec![(EventKind::NodeHung, u32::MAX)]));
    for value in 1..=20 {
        test.host.submit(&mut beside, &[signal(1, value)]);
        test.host.submit(&mut elsewhere, &[signal(2, value)]);
        assert_eq!((seen(&test.host), test.value(2)), ((1, 2), value), "what was said holds");
    }
    assert_eq!(test.kinds(), [], "it is said once");
    assert_eq!(test.reset(NODE_COPY), 1);
    test.host.run();
    assert_eq!((seen(&test.host), test.value(1)), ((0, 22), 20));
}

#[test]
fn a_stuck_suspension_is_answered_by_the_reset_and_costs_its_queue() {
    let mut test = Fixture::new();
    let (mut stuck, other) = (test.queue(1, NODE_COMPUTE), test.queue(2, NODE_COMPUTE));
    let id = test.host.gpu.faults().inject(FaultRule::StuckSuspend { node: NODE_COMPUTE });
    test.host.command(Command::SuspendQueue, 1, 3, 0);
    test.host.command(Command::SuspendQueue, 2, 4, 0);
    assert_eq!((test.kinds(), test.host.gpu.faults().fired(id)), (vec![(EventKind::Suspended, 2)], 1));
    test.host.submit(&mut stuck, &[signal(0, 1)]);
    assert_eq!((test.value(0), test.host.state(&other)), (1, SUSPENDED), "the queue goes on");
    assert_eq!(test.reset(NODE_COMPUTE), 1);
    assert_eq!(test.kinds(), [(EventKind::Fault, 1), (EventKind::Suspended, 1)]);
}

#[test]
fn a_reset_may_fail_lose_bystanders_or_come_too_late() {
    let mut test = Fixture::new();
    let [mut first, mut second, mut third] = [1, 2, 3].map(|number| test.queue(number, NODE_COMPUTE));
    let faults = test.host.gpu.clone();
    let faults = faults.faults();
    let hang_now = || faults.inject(hang(NODE_COMPUTE, HangAt::After(0)));
    hang_now();
    test.host.submit(&mut first, &[signal(0, 1)]);
    test.host.submit(&mut second, &[signal(1, 1)]);
    let fails = faults.inject_times(FaultRule::ResetFails { node: NODE_COMPUTE }, 2);
    for _ in 0..2 {
        let refused = test.host.try_command(Command::ResetNode, u64::from(NODE_COMPUTE), 0, 0);
        assert_eq!(refused.0, CommandStatus::BadState);
    }
    assert_eq!((faults.fired(fails), test.kinds()), (2, Vec::new()));
    // The queue with work beside it is lost too; the idle one is not.
    let along = faults.inject(FaultRule::ResetTakesAlong { node: NODE_COMPUTE });
    assert_eq!((test.reset(NODE_COMPUTE), faults.fired(along)), (1, 1));
    test.host.run();
    let states = [&first, &second, &third].map(|queue| test.host.state(queue));
    assert_eq!((states, test.value(1)), ([FAULTED, FAULTED, 0], 0));
    // What hangs completes right before the reset, which finds nothing.
    hang_now();
    test.host.submit(&mut third, &[signal(2, 7)]);
    let races = faults.inject(FaultRule::CompletionRacesReset { node: NODE_COMPUTE });
    assert_eq!((test.value(2), test.reset(NODE_COMPUTE)), (0, NO_QUEUE));
    assert_eq!((test.value(2), test.host.state(&third), faults.fired(races)), (7, 0, 1));
}

#[test]
fn a_connection_may_be_refused_and_changes_nothing_then() {
    let mut test = Fixture::new();
    let mut queue = test.queue(1, NODE_COMPUTE);
    queue.doorbell = Some(1);
    let id = test.host.gpu.faults().inject_times(FaultRule::ConnectFails { node: NODE_COMPUTE }, 2);
    for _ in 0..2 {
        let refused = test.host.try_command(Command::ConnectDoorbell, 1, 1, 0);
        assert_eq!(refused.0, CommandStatus::TableFull);
    }
    test.host.submit(&mut queue, &[signal(0, 1)]);
    assert_eq!((test.value(0), test.host.gpu.faults().fired(id)), (0, 2), "the doorbell is not connected");
    test.host.command(Command::ConnectDoorbell, 1, 1, 0);
    test.host.run();
    assert_eq!(test.value(0), 1);
}

#[test]
fn a_reset_is_held_back_while_other_registers_answer() {
    let test = Fixture::new();
    let faults = test.host.gpu.faults();
    let id = faults.inject(FaultRule::ResetHeld { node: NODE_COPY, milliseconds: 60_000 });
    std::thread::scope(|scope| {
        let held = scope.spawn(|| test.reset(NODE_COPY));
        while faults.fired(id) == 0 {
            std::thread::yield_now();
        }
        assert_eq!((test.host.get(reg::ID, 4), held.is_finished()), (u64::from(reg::ID_VALUE), false));
        faults.release(id);
        assert_eq!(held.join().expect("the reset"), NO_QUEUE);
    });
}

#[test]
fn messages_are_lost_or_late_and_registers_lie() {
    let mut test = Fixture::new();
    let mut queue = test.queue(1, NODE_COMPUTE);
    let watched = Packet::Signal(Signal { handle: 0, current: FENCE, monitored: FENCE + 8, value: 9 });
    let gpu = test.host.gpu.clone();
    let lost = gpu.faults().inject(FaultRule::LostInterrupt);
    test.host.submit(&mut queue, &[watched]);
    assert_eq!((test.host.interrupts(), gpu.faults().fired(lost), test.host.events().len()), (0, 1, 1));
    let late = gpu.faults().inject(FaultRule::LateInterrupt { steps: 50 });
    test.host.write_packets(&mut queue, &[watched]);
    test.host.ring(&queue);
    let before = (0..50).find(|_| {
        gpu.step();
        test.host.interrupts() != 0
    });
    assert_eq!((before, gpu.faults().fired(late)), (None, 1), "the message came early");
    for _ in 0..60 {
        gpu.step();
    }
    assert_eq!(test.host.interrupts(), 1);
    let lie = gpu.faults().inject_times(FaultRule::Register { offset: reg::NODE_BUSY, value: 7 }, u64::MAX);
    assert_eq!((test.host.get(reg::NODE_BUSY, 4), gpu.faults().remove(lie)), (7, 1));
    assert_eq!(test.host.get(reg::NODE_BUSY, 4), 0);
}
