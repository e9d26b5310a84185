//! Where a node leaves a DISPATCH that it has begun, in each variant of the function.

use crate::compute::{DATA, ENDLESS, Fixture};
use crate::host::{Host, TestQueue, small_variant};
use campanile_device::{Preemption, Variant};
use campanile_hw::event::{Event, EventKind, FaultKind};
use campanile_hw::packet::{DISPATCH_DONE, DISPATCH_FAULTED, Fill, Packet};
use campanile_hw::queue::{Location, QueueDescriptor, QueueFlags};
use campanile_hw::registers::{self, Caps, Command, CommandStatus, NODE_COMPUTE};

const ALL: [Preemption; 4] = [Preemption::Buffer, Preemption::Dispatch, Preemption::Workgroup, Preemption::Instruction];
/// Steps in which a queue of the same node would long have had its time slice.
const STEPS: usize = 1000;
/// State of a queue that runs, of one that is suspended, and of one that has faulted.
const RUNNING: u64 = 2;
const SUSPENDED: u64 = 4;
const FAULTED: u64 = 5;

/// Each workgroup adds to a word twice, far enough apart that a slice often ends between the two.
const TWICE: &str = ".workgroup 32, 1, 1
    arguments d0
    mov.i32 w2, 1
    mov.i32 w3, 0
    atomic.i32.add.device.relaxed w1, [d0], w2
    loop
        add.i32 w3, w3, w2
        cmp.i32.eq p0, w3, 30
        break_if p0
    end_loop
    atomic.i32.add.device.relaxed w1, [d0 + 4], w2
    exit";

fn fill(pattern: u32) -> Packet {
    Packet::Fill(Fill { destination: DATA, size: 4, pattern })
}

/// A function that runs a dispatch, and an idle queue of another process on its node.
struct Beside {
    fixture: Fixture,
    neighbour: TestQueue,
    /// The word that the neighbour fills.
    other: Location,
}

impl Beside {
    /// The dispatch of `groups` workgroups of a program has begun, with a packet behind it that fills a word.
    fn new(preemption: Preemption, text: &str, groups: u32) -> Self {
        let mut fixture = Fixture::with(&Variant { preemption, ..small_variant() });
        let dispatch = fixture.dispatch(text, groups);
        let behind = Packet::Fill(Fill { destination: DATA + 0x4000, size: 4, pattern: 7 });
        fixture.host.write_packets(&mut fixture.queue, &[Packet::Dispatch(dispatch), behind]);
        fixture.host.ring(&fixture.queue);
        let space = fixture.host.space();
        let other = fixture.host.map_new_ram(space, DATA, 4096);
        let neighbour = fixture.host.queue(1, space, NODE_COMPUTE);
        step(&fixture.host, 20);
        assert!(fixture.word(0) > 0, "{preemption:?}: it runs");
        Self { fixture, neighbour, other }
    }

    fn neighbour_works(&mut self, pattern: u32) {
        self.fixture.host.write_packets(&mut self.neighbour, &[fill(pattern)]);
        self.fixture.host.ring(&self.neighbour);
    }

    fn filled(&self) -> u32 {
        self.fixture.host.read64(self.other) as u32
    }

    fn command(&self, command: Command, argument: u64) -> CommandStatus {
        self.fixture.host.try_command(command, u64::from(self.fixture.queue.number), argument, 0).0
    }

    fn state(&self) -> u64 {
        self.fixture.host.state(&self.fixture.queue) & 0xff
    }

    /// Cookies of the suspensions that were answered since the last look.
    fn answers(&mut self) -> Vec<u64> {
        let suspended = |event: &Event| event.kind == EventKind::Suspended as u8;
        self.fixture.host.events().into_iter().filter(suspended).map(|event| event.data0).collect()
    }
}

fn step(host: &Host, steps: usize) {
    for _ in 0..steps {
        host.gpu.step();
    }
}

#[test]
fn caps_say_where_a_dispatch_is_left() {
    for preemption in ALL {
        let host = Host::with(&Variant { preemption, ..small_variant() });
        let caps = Caps::from_bits(host.get(registers::CAPS, 4) as u32);
        assert_eq!(caps.preemption(), preemption as u8);
    }
    let numbers = ALL.map(|preemption| preemption as u8);
    assert_eq!((numbers, Preemption::default()), ([0, 1, 2, 3], Preemption::Instruction));
}

#[test]
fn an_endless_workgroup_gives_up_the_node_between_instructions_only() {
    for preemption in ALL {
        let mut beside = Beside::new(preemption, ENDLESS, 1);
        beside.neighbour_works(5);
        step(&beside.fixture.host, STEPS);
        let expected = if preemption == Preemption::Instruction { 5 } else { 0 };
        assert_eq!(beside.filled(), expected, "{preemption:?}");
        // A word of memory ends the program, and the neighbour gets its time slice.
        beside.fixture.host.write(beside.fixture.data(4), &[1]);
        beside.fixture.host.run();
        assert_eq!((beside.filled(), beside.fixture.report().state), (5, DISPATCH_DONE), "{preemption:?}");
        assert_eq!(beside.fixture.word(0x1000), 7, "{preemption:?}: the packet behind the dispatch");
    }
}

#[test]
fn many_workgroups_give_up_the_node_between_two_of_them_if_they_may() {
    for preemption in ALL {
        let mut beside = Beside::new(preemption, TWICE, 1000);
        beside.neighbour_works(5);
        let mut steps = 0;
        while beside.filled() == 0 {
            step(&beside.fixture.host, 1);
            steps += 1;
            assert!(steps < 1_000_000, "{preemption:?}: the neighbour never got the node");
        }
        let (report, behind) = (beside.fixture.report().state, beside.fixture.word(0x1000));
        let (began, ended) = (beside.fixture.word(0), beside.fixture.word(1));
        match preemption {
            Preemption::Buffer => assert_eq!((report, behind), (DISPATCH_DONE, 7)),
            // One process has the node until its time slice is over, be it with the packet behind the dispatch.
            Preemption::Dispatch => assert_eq!(report, DISPATCH_DONE),
            Preemption::Workgroup => {
                assert_eq!((report, began), (0, ended), "no workgroup is in progress while another queue has the node");
            }
            Preemption::Instruction => assert_eq!(report, 0),
        }
        beside.fixture.host.run();
        assert_eq!([beside.fixture.word(0), beside.fixture.word(1)], [1000 * 32; 2], "{preemption:?}");
        assert_eq!(beside.fixture.report().state, DISPATCH_DONE, "{preemption:?}");
    }
}

#[test]
fn a_suspension_is_answered_where_the_dispatch_can_be_left() {
    for preemption in ALL {
        let mut beside = Beside::new(preemption, TWICE, 400);
        assert_eq!(beside.command(Command::SuspendQueue, 11), CommandStatus::Done);
        assert_eq!(beside.command(Command::SuspendQueue, 12), CommandStatus::Done);
        beside.fixture.host.run();
        assert_eq!((beside.answers(), beside.state()), (vec![11, 12], SUSPENDED), "{preemption:?}");
        let (began, ended) = (beside.fixture.word(0), beside.fixture.word(1));
        let (report, behind) = (beside.fixture.report().state, beside.fixture.word(0x1000));
        match preemption {
            Preemption::Buffer => assert_eq!((report, behind), (DISPATCH_DONE, 7)),
            Preemption::Dispatch => assert_eq!((report, behind), (DISPATCH_DONE, 0)),
            Preemption::Workgroup => assert_eq!((report, began, began < 400 * 32), (0, ended, true)),
            Preemption::Instruction => assert_eq!((report, began < 400 * 32), (0, true)),
        }
        assert_eq!(beside.command(Command::ResumeQueue, 0), CommandStatus::Done);
        beside.fixture.host.run();
        assert_eq!([beside.fixture.word(0), beside.fixture.word(1)], [400 * 32; 2], "{preemption:?}");
        assert_eq!(beside.fixture.word(0x1000), 7, "{preemption:?}");
    }
}

#[test]
fn a_queue_that_is_resumed_before_it_could_stop_goes_on() {
    let mut beside = Beside::new(Preemption::Dispatch, ENDLESS, 1);
    assert_eq!(beside.command(Command::SuspendQueue, 11), CommandStatus::Done);
    step(&beside.fixture.host, 50);
    assert_eq!((beside.answers(), beside.state()), (vec![], RUNNING));
    assert_eq!(beside.command(Command::ResumeQueue, 0), CommandStatus::Done);
    assert_eq!((beside.answers(), beside.state()), (vec![11], RUNNING));
    assert_eq!(beside.command(Command::ResumeQueue, 0), CommandStatus::BadState);
    beside.fixture.host.write(beside.fixture.data(4), &[1]);
    beside.fixture.host.run();
    assert_eq!((beside.fixture.word(0x1000), beside.answers()), (7, vec![]));
}

/// What a program that hangs was doing is in the report of its dispatch, for whoever owns it. [docs/hardware.md: DispatchReport]
#[test]
fn a_reset_reports_where_the_dispatch_was() {
    for preemption in ALL {
        let beside = Beside::new(preemption, ENDLESS, 1);
        step(&beside.fixture.host, STEPS);
        assert_eq!(beside.fixture.report().state, 0, "{preemption:?}");
        beside.fixture.host.command(Command::ResetNode, NODE_COMPUTE.into(), 0, 0);
        let report = beside.fixture.report();
        assert_eq!((report.state, report.fault, report.address), (DISPATCH_FAULTED, FaultKind::Reset as u16, 0));
        assert!(report.instructions != 0 && report.lanes != 0, "{preemption:?}: {report:?}");
        let loops = ENDLESS.lines().filter(|line| !line.trim_start().starts_with('.')).count() as u32;
        assert!((1..loops).contains(&report.instruction) && report.lane < 32, "{preemption:?}: {report:?}");
        beside.fixture.host.run();
        assert_eq!(beside.fixture.report(), report, "{preemption:?}: nothing of it runs on");
    }
}

#[test]
fn a_reset_takes_an_endless_dispatch_off_the_node_and_answers_behind_the_fault() {
    for preemption in [Preemption::Buffer, Preemption::Dispatch, Preemption::Workgroup] {
        let mut beside = Beside::new(preemption, ENDLESS, 1);
        beside.neighbour_works(5);
        assert_eq!(beside.command(Command::SuspendQueue, 11), CommandStatus::Done);
        step(&beside.fixture.host, STEPS);
        assert_eq!((beside.answers(), beside.filled()), (vec![], 0), "{preemption:?}");
        let culprit = beside.fixture.host.command(Command::ResetNode, NODE_COMPUTE.into(), 0, 0);
        assert_eq!(culprit, beside.fixture.queue.number.into(), "{preemption:?}");
        let kinds: Vec<u8> = beside.fixture.host.events().iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::Fault as u8, EventKind::Suspended as u8], "{preemption:?}");
        let last = beside.fixture.word(0);
        beside.fixture.host.run();
        assert_eq!((beside.state(), beside.filled(), beside.fixture.word(0)), (FAULTED, 5, last), "{preemption:?}");
    }
}

#[test]
fn unmapping_ends_a_dispatch_at_once_for_nobody_goes_on_with_it() {
    for preemption in ALL {
        let mut beside = Beside::new(preemption, ENDLESS, 1);
        assert_eq!(beside.command(Command::SuspendQueue, 11), CommandStatus::Done);
        assert_eq!(beside.command(Command::UnmapQueue, 0), CommandStatus::Done);
        let last = beside.fixture.word(0);
        beside.neighbour_works(5);
        beside.fixture.host.run();
        assert_eq!((beside.filled(), beside.fixture.word(0)), (5, last), "{preemption:?}");
    }
}

#[test]
fn what_no_dispatch_began_in_is_left_between_packets_whatever_the_granularity() {
    for preemption in ALL {
        let mut fixture = Fixture::with(&Variant { preemption, ..small_variant() });
        let wait = |fixture: &mut Fixture| {
            let fills = vec![fill(1); 1000];
            fixture.host.write_packets(&mut fixture.queue, &fills);
            fixture.host.ring(&fixture.queue);
        };
        wait(&mut fixture);
        step(&fixture.host, 5);
        let number = fixture.queue.number.into();
        assert_eq!(fixture.host.try_command(Command::SuspendQueue, number, 3, 0).0, CommandStatus::Done);
        assert_eq!(fixture.host.state(&fixture.queue) & 0xff, SUSPENDED, "{preemption:?}");
    }
}

/// What a driver does before the function leaves D0, with a queue that cannot leave the node: it has no state to save until the node is reset, and then none that goes on.
#[test]
fn a_dispatch_that_cannot_be_left_is_not_saved_and_its_queue_comes_back_faulted() {
    let record = 30 << 20;
    for preemption in [Preemption::Buffer, Preemption::Dispatch, Preemption::Workgroup] {
        let mut beside = Beside::new(preemption, ENDLESS, 1);
        assert_eq!(beside.command(Command::SaveQueue, record), CommandStatus::BadState, "{preemption:?}: it runs");
        assert_eq!(beside.command(Command::SuspendQueue, 11), CommandStatus::Done);
        step(&beside.fixture.host, STEPS);
        assert_eq!(beside.command(Command::SaveQueue, record), CommandStatus::BadState, "{preemption:?}: it runs on");
        assert_eq!((beside.answers(), beside.state()), (vec![], RUNNING), "{preemption:?}");
        beside.fixture.host.command(Command::ResetNode, NODE_COMPUTE.into(), 0, 0);
        assert_eq!(beside.command(Command::SaveQueue, record), CommandStatus::Done, "{preemption:?}: it has faulted");
        assert_eq!((beside.answers(), beside.state()), (vec![11], FAULTED), "{preemption:?}");
        let descriptor = beside.fixture.host.read(Location::new(), QueueDescriptor::SIZE);
        let descriptor = QueueDescriptor::from_bytes(&descriptor.try_into().expect("a descriptor"));
        let flags = QueueFlags::from_bits(descriptor.flags).with_suspended(true).into_bits();
        beside.fixture.host.write_descriptor(0, &QueueDescriptor { flags, ..descriptor });
        for command in [Command::UnmapQueue, Command::MapQueue] {
            assert_eq!(beside.command(command, 0), CommandStatus::Done, "{preemption:?}");
        }
        assert_eq!(beside.command(Command::RestoreQueue, record), CommandStatus::Done, "{preemption:?}");
        assert_eq!(beside.command(Command::ResumeQueue, 0), CommandStatus::BadState, "{preemption:?}");
        let last = beside.fixture.word(0);
        beside.neighbour_works(5);
        beside.fixture.host.run();
        assert_eq!((beside.filled(), beside.fixture.word(0)), (5, last), "{preemption:?}");
    }
}
