//! What commands answer: the statuses that the manual gives each of them, all of them and no other; and a refused one changes nothing.

use crate::compute::{ENDLESS, Fixture};
use crate::host::{EVENTS, Host, QUEUES, TestQueue, ram, small_variant, vram};
use campanile_device::{FaultRule, Variant};
use campanile_hw::event::{EventKind, WAITING_MAX};
use campanile_hw::log::{LogKind, LogTarget};
use campanile_hw::packet::{Nop, Packet, Wait};
use campanile_hw::page_table::{PAGE_4K, Pte};
use campanile_hw::queue::{QueueFlags, QueueState};
use campanile_hw::registers::{self as reg, Command, CommandStatus, NODE_COMPUTE, NODES};
use std::collections::BTreeSet;

const DATA: u64 = 0x60_0000_0000;
const SEEN: u64 = 8;
const FAULTED: u64 = 5;

/// A generator that needs no seed of its own: every run of the test is the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % bound
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// A function with queues of every kind, and what commands were answered.
struct Arena {
    host: Host,
    dice: Dice,
    queues: Vec<TestQueue>,
    /// Offset in VRAM of the ring control page of each queue.
    controls: Vec<u64>,
    record: u64,
    answers: BTreeSet<(u32, u32)>,
}

impl Arena {
    fn new(variant: &Variant, seed: u64) -> Self {
        let mut host = Host::with(variant);
        let space = host.space();
        host.map_new_ram(space, DATA, 64 << 10);
        let record = host.take_vram(4096, 4096);
        let mut arena =
            Self { host, dice: Dice(seed), queues: Vec::new(), controls: Vec::new(), record, answers: BTreeSet::new() };
        for number in 0..SEEN as u32 {
            let (queue, mut descriptor) = arena.host.prepare_queue(number, space);
            let flags = QueueFlags::new().with_privileged(number % 2 == 1).with_suspended(number % 4 >= 2);
            descriptor.flags = flags.into_bits();
            descriptor.node = number % 2;
            match number {
                5 => descriptor.flags |= 1 << 9,
                6 => descriptor.control = DATA + (1 << 30),
                7 => descriptor.root = 0,
                _ => (),
            }
            arena.host.write_descriptor(number, &descriptor);
            let leaf = arena.host.leaf(space, queue.control, PAGE_4K);
            arena.controls.push(leaf.address());
            arena.queues.push(queue);
        }
        if variant.system_process_fences {
            arena.host.set(reg::PAGING_ROOT, 8, space.root.into_bits());
        }
        arena
    }

    fn root(&self) -> u64 {
        self.queues[0].space.root.into_bits()
    }

    /// An argument that means something to some command.
    fn argument(&mut self) -> u64 {
        let choices = [
            self.dice.below(SEEN),
            self.dice.below(4),
            0,
            1,
            DATA + 8 * self.dice.below(4),
            DATA + 4,
            DATA + (1 << 30),
            1 << 47,
            self.root(),
            self.record,
            vram(1 << 50).into_bits(),
            ram(0).into_bits(),
            u64::from(QUEUES),
            u64::MAX,
        ];
        self.dice.pick(&choices)
    }

    /// A first argument that `command` has use for.
    fn subject(&mut self, command: Option<Command>) -> u64 {
        let queue = self.dice.below(SEEN);
        match command {
            Some(Command::SetFenceLog) => {
                LogTarget::new().with_queue(queue as u32).with_kind(LogKind::Signals as u8).into_bits()
            }
            Some(Command::FenceChanged | Command::InvalidateTlb | Command::MapFence | Command::UnmapFence) => {
                self.root()
            }
            _ => queue,
        }
    }

    /// Everything about the queues that a command could change.
    fn snapshot(&mut self) -> (Vec<(u64, u64, Vec<u8>)>, u64) {
        let host = &self.host;
        let queues = (0..SEEN).map(|number| {
            let (status, state) = host.try_command(Command::QueryQueue, number, 0, 0);
            let saved = host.try_command(Command::SaveQueue, number, self.record + 1024, 0).0;
            let record = match saved {
                CommandStatus::Done => host.read(vram(self.record + 1024), QueueState::SIZE),
                _ => Vec::new(),
            };
            (status as u64, state, record)
        });
        let queues = queues.collect();
        (queues, host.events_written())
    }

    /// A random command; what it changes although it is refused is a fault of the function.
    fn command(&mut self) {
        let number = self.dice.below(Command::ALL.len() as u64 + 1) as u32 + 1;
        let mut arguments = [(); 5].map(|()| self.argument());
        if self.dice.below(4) != 0 {
            arguments[0] = self.subject(Command::from_number(number));
        }
        let second = match Command::from_number(number) {
            Some(Command::ConnectDoorbell | Command::DisconnectDoorbell) => [arguments[0], self.dice.below(SEEN)],
            Some(Command::SetQueueRoot) => [0, self.root()],
            Some(Command::MapFence) => [DATA; 2],
            Some(Command::SetQueuePriority) => [1; 2],
            _ => [arguments[1]; 2],
        };
        if self.dice.below(4) != 0 {
            arguments[1] = self.dice.pick(&second);
        }
        match Command::from_number(number) {
            // A doorbell that is connected, and a log with memory, are too rare to be met by chance.
            Some(Command::DisconnectDoorbell) if self.dice.below(2) == 0 => {
                let pair = self.dice.below(SEEN);
                self.host.try_command(Command::ConnectDoorbell, pair, pair, 0);
                (arguments[0], arguments[1]) = (pair, pair);
            }
            Some(Command::SetFenceLog | Command::SetSchedulingLog) if self.dice.below(2) == 0 => {
                (arguments[1], arguments[2]) = (DATA, 4);
            }
            _ => {}
        }
        let before = self.snapshot();
        for (register, argument) in
            [reg::CMP_ARG0, reg::CMP_ARG1, reg::CMP_ARG2, reg::CMP_ARG3, reg::CMP_ARG4].into_iter().zip(arguments)
        {
            self.host.set(register, 8, argument);
        }
        self.host.set(reg::CMP_COMMAND, 4, u64::from(number));
        let (status, result) = (self.host.get(reg::CMP_STATUS, 4) as u32, self.host.get(reg::CMP_RESULT, 8));
        let status = CommandStatus::from_number(status).expect("a status of the manual");
        let Some(command) = Command::from_number(number) else {
            assert_eq!(status, CommandStatus::UnknownCommand, "command {number}");
            return;
        };
        assert!(command.may_answer(status), "{command:?} answers {status:?}");
        self.answers.insert((number, status as u32));
        if status != CommandStatus::Done {
            let after = self.snapshot();
            let faulted =
                (0..SEEN as usize).any(|queue| after.0[queue].1 & 0xff == FAULTED && before.0[queue] != after.0[queue]);
            // A write pointer that breaks its rule faults the queue, whoever looks at it.
            let by_the_pointer = command == Command::PreemptQueue && faulted;
            assert!(by_the_pointer || before == after, "{command:?}({arguments:x?}) is refused with {status:?}");
            assert_eq!(result, 0, "{command:?} has no result");
        }
    }

    /// Something that happens between two commands.
    fn happen(&mut self) {
        let number = self.dice.below(SEEN) as usize;
        let control = vram(self.controls[number]);
        let page =
            Pte::new().with_valid(true).with_system(true).with_address(self.queues[number].control_location.address());
        match self.dice.below(16) {
            kind @ 0..=4 => {
                let entry = match kind {
                    0 | 1 => Pte::new(),
                    2 => page.with_read_only(true),
                    _ => page,
                };
                self.host.write64(control, entry.into_bits());
                self.host.try_command(Command::InvalidateTlb, self.root(), 0, 0);
            }
            5 => {
                let write = [self.dice.below(80), 1 << 40];
                self.host.set_write_pointer(&self.queues[number], self.dice.pick(&write));
            }
            6..=8 => {
                let held = Packet::Wait(Wait { handle: 0, current: DATA, value: 1 });
                let packets: &[Packet] = if self.dice.below(3) == 0 { &[held] } else { &[Packet::Nop(Nop {})] };
                self.host.write_packets(&mut self.queues[number], packets);
            }
            9 => {
                self.host.try_command(Command::UnmapQueue, number as u64, 0, 0);
                self.queues[number].write = 0;
                self.host.set_write_pointer(&self.queues[number], 0);
                self.host.try_command(Command::MapQueue, number as u64, 0, 0);
            }
            10 if self.dice.below(8) == 0 => {
                let run = self.dice.below(2);
                self.host.set(reg::CONTROL, 4, run);
            }
            12 => {
                self.host.try_command(Command::SuspendQueue, number as u64, 0, 0);
                self.host.try_command(Command::SetQueueRoot, number as u64, 0, 0);
            }
            11 if self.dice.below(4) == 0 => {
                let node = self.dice.below(u64::from(NODES)) as u32;
                for rule in [FaultRule::ResetFails { node }, FaultRule::ConnectFails { node }] {
                    self.host.gpu.faults().inject_times(rule, 1);
                }
            }
            _ => {
                self.host.set(reg::CONTROL, 4, 1);
                for _ in 0..8 {
                    self.host.gpu.step();
                }
                self.host.events();
            }
        }
    }

    /// Commands that cause an event are refused while as many wait as may.
    fn fill_the_ring(&mut self) {
        self.host.set(reg::CONTROL, 4, 1);
        let (queue, mut descriptor) = self.host.prepare_queue(SEEN as u32, self.queues[0].space);
        descriptor.node = NODE_COMPUTE;
        self.host.write_descriptor(queue.number, &descriptor);
        self.host.command(Command::MapQueue, SEEN, 0, 0);
        let most = u64::from(EVENTS) + WAITING_MAX as u64;
        let suspend = |host: &Host| host.try_command(Command::SuspendQueue, SEEN, 0, 0).0;
        let taken = (0..=most).take_while(|_| suspend(&self.host) == CommandStatus::Done).count();
        assert_eq!(taken as u64, most, "events");
        self.host.command(Command::ResumeQueue, SEEN, 0, 0);
        self.host.prepare_queue(SEEN as u32 + 1, self.queues[0].space);
        for (command, queue) in
            [(Command::MapQueue, SEEN + 1), (Command::SuspendQueue, SEEN), (Command::PreemptQueue, SEEN)]
        {
            assert_eq!(self.host.try_command(command, queue, 0, 0).0, CommandStatus::BadState, "{command:?}");
            self.answers.insert((command as u32, CommandStatus::BadState as u32));
        }
        // One that is taken frees a record for one.
        let first = self.host.events();
        assert!(first.iter().all(|event| event.kind == EventKind::Suspended as u8));
        self.host.run();
        assert_eq!(suspend(&self.host), CommandStatus::Done);
    }
}

/// QueryDispatch is done, or finds no memory for its record, only while a program runs.
fn ask_a_program(answers: &mut BTreeSet<(u32, u32)>) {
    let mut fixture = Fixture::with(&small_variant());
    let dispatch = fixture.dispatch(ENDLESS, 1);
    fixture.host.write_packets(&mut fixture.queue, &[Packet::Dispatch(dispatch)]);
    fixture.host.ring(&fixture.queue);
    for _ in 0..8 {
        fixture.host.gpu.step();
    }
    for place in [30 << 20, 1 << 40] {
        let status = fixture.host.try_command(Command::QueryDispatch, 0, place, 0).0;
        answers.insert((Command::QueryDispatch as u32, status as u32));
    }
}

#[test]
fn commands_answer_what_the_manual_says_and_refused_ones_change_nothing() {
    let fences = Variant { system_process_fences: true, fence_limit: 2, ..small_variant() };
    let mut answers = BTreeSet::new();
    ask_a_program(&mut answers);
    for (variant, seeds) in [(small_variant(), 1..6), (fences, 6..11)] {
        for seed in seeds {
            let mut arena = Arena::new(&variant, 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
            for _ in 0..6_000 {
                arena.happen();
                arena.command();
            }
            if seed == 1 {
                arena = Arena { answers: arena.answers, ..Arena::new(&variant, seed) };
                arena.fill_the_ring();
            }
            answers.append(&mut arena.answers);
        }
    }
    let manual: BTreeSet<(u32, u32)> = Command::ALL
        .iter()
        .filter_map(|(number, ..)| Some((*number, Command::from_number(*number)?)))
        .flat_map(|(number, command)| {
            let any = [CommandStatus::Done, CommandStatus::NotRunning];
            command.refusals().iter().copied().chain(any).map(move |status| (number, status as u32))
        })
        .collect();
    let named = |pairs: Vec<&(u32, u32)>| -> Vec<_> {
        pairs
            .into_iter()
            .map(|(command, status)| (Command::from_number(*command), CommandStatus::from_number(*status)))
            .collect()
    };
    assert_eq!(named(manual.difference(&answers).collect()), [], "never answered");
}
