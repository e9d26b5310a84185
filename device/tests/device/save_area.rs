//! The save area: the state of a dispatch that has left its node is memory, and only what is found there goes on.

use crate::compute::{DATA, ENDLESS, Fixture, REPORT};
use crate::host::{Host, SAVE_AREA, TestQueue, ram, small_variant};
use campanile_device::{Preemption, Variant};
use campanile_hw::event::FaultKind;
use campanile_hw::isa::{
    DispatchPosition, ProgramHeader, SAVE_MAGIC, SAVE_SIZE_MAX, SavedDispatch, SavedSubgroup, SavedWorkgroup,
};
use campanile_hw::packet::{DISPATCH_DONE, DISPATCH_FAULTED, Packet};
use campanile_hw::queue::{Location, QueueFlags};
use campanile_hw::registers::{self, Command, CommandStatus, NODE_COMPUTE};

/// Adds to a word again and again, keeps what it has done in a register, and stores that at the end.
const COUNT: &str = ".workgroup 40, 1, 1
    .line 7
    arguments d0
    mov.i32 w2, 1
    mov.i32 w3, 0
    loop
        .line 9
        add.i32 w3, w3, w2
        cmp.i32.eq p0, w3, 3000
        break_if p0
    end_loop
    .line 12
    atomic.i32.add.device.relaxed w1, [d0], w3
    exit";

const SUSPENDED: u64 = 4;

/// A function with a dispatch of 3 workgroups of [`COUNT`] that was suspended in the middle of the first one.
fn stopped(variant: &Variant) -> Fixture {
    let mut fixture = Fixture::with(variant);
    let dispatch = fixture.dispatch(COUNT, 3);
    fixture.host.write_packets(&mut fixture.queue, &[Packet::Dispatch(dispatch)]);
    fixture.host.ring(&fixture.queue);
    for _ in 0..8 {
        fixture.host.gpu.step();
    }
    suspend(&mut fixture);
    fixture
}

fn suspend(fixture: &mut Fixture) {
    fixture.host.command(Command::SuspendQueue, fixture.queue.number.into(), 1, 0);
    fixture.host.run();
    fixture.host.events();
    assert_eq!(fixture.host.state(&fixture.queue), SUSPENDED);
}

fn area(queue: &TestQueue) -> Location {
    queue.save_area.expect("a queue with a save area")
}

fn head(fixture: &Fixture) -> SavedDispatch {
    let bytes = fixture.host.read(area(&fixture.queue), SavedDispatch::SIZE);
    SavedDispatch::from_bytes(&bytes.try_into().expect("a head"))
}

fn resume(fixture: &mut Fixture) {
    fixture.host.command(Command::ResumeQueue, fixture.queue.number.into(), 0, 0);
    fixture.host.run();
}

fn preemptions(host: &Host) -> u64 {
    host.get(registers::COUNT_PREEMPTIONS, 8)
}

#[test]
fn a_register_says_how_much_a_state_takes_where_there_is_any() {
    for (preemption, size) in [
        (Preemption::Buffer, 0),
        (Preemption::Dispatch, 0),
        (Preemption::Workgroup, SAVE_SIZE_MAX),
        (Preemption::Instruction, SAVE_SIZE_MAX),
    ] {
        let mut host = Host::with(&Variant { preemption, ..small_variant() });
        assert_eq!(host.get(registers::SAVE_SIZE, 4), size.into(), "{preemption:?}");
        let space = host.space();
        let (_, plain) = host.prepare_queue(0, space);
        let place = ram(host.take_ram(4096)).into_bits();
        for (save_area, save_size, legal) in [
            (0, 0, true),
            (place, 4096, size != 0),
            (place, 1, size != 0),
            (place, SAVE_SIZE_MAX.next_multiple_of(4096), size != 0),
            (place, SAVE_SIZE_MAX.next_multiple_of(4096) + 1, false),
            (place + 8, 4096, false),
            (place, 0, false),
            (1 << 53, 4096, false),
            (0x100_0000_0000, 4096, false),
        ] {
            host.write_descriptor(0, &campanile_hw::queue::QueueDescriptor { save_area, save_size, ..plain });
            let status = host.try_command(Command::MapQueue, 0, 0, 0).0;
            let expected = if legal { CommandStatus::Done } else { CommandStatus::BadDescriptor };
            assert_eq!(status, expected, "{preemption:?} {save_area:#x} {save_size:#x}");
            if legal {
                host.command(Command::UnmapQueue, 0, 0, 0);
            }
        }
    }
}

#[test]
fn the_state_of_a_dispatch_that_is_left_lies_in_its_area_in_the_documented_form() {
    let fixture = stopped(&small_variant());
    let head = head(&fixture);
    assert_eq!((head.magic, head.version, head.subgroup), (SAVE_MAGIC, 1, 32));
    assert_eq!(([head.grid_x, head.grid_y, head.grid_z], head.arguments), ([3, 1, 1], DATA));
    assert_eq!((head.done, head.workgroup, head.lanes), (0, 1, 40));
    assert!(head.instructions > 100 && head.begun != 0);
    let behind = area(&fixture.queue).address() + SavedDispatch::SIZE as u64;
    let bytes = fixture.host.read(ram(behind), SavedWorkgroup::SIZE + SavedSubgroup::SIZE);
    let subgroup = SavedSubgroup::from_bytes(bytes[SavedWorkgroup::SIZE..].try_into().expect("a subgroup"));
    assert_eq!((subgroup.active, subgroup.alive, subgroup.waiting, subgroup.blocks), (u32::MAX, u32::MAX, 0, 1));
    assert!((3..8).contains(&subgroup.instruction), "in the loop: {}", subgroup.instruction);
    assert_eq!(preemptions(&fixture.host), 1);
}

#[test]
fn what_goes_on_is_what_the_area_holds() {
    let mut fixture = stopped(&small_variant());
    resume(&mut fixture);
    assert_eq!((fixture.word(0), fixture.report().state), (3 * 40 * 3000, DISPATCH_DONE));
    // A register of a lane that is another one in memory is another one when it runs on: the first word behind blocks and predicates is w0, and w3 counts.
    let mut fixture = stopped(&small_variant());
    let registers = (SavedDispatch::SIZE + SavedWorkgroup::SIZE + SavedSubgroup::SIZE + 64 * 16 + 8) as u64;
    let lane_5 = registers + 3 * 32 * 4 + 5 * 4;
    let place = area(&fixture.queue).address() + lane_5;
    let (word, second) = (ram(place / 8 * 8), place % 8 == 4);
    let old = fixture.host.read64(word);
    let counted = if second { old >> 32 } else { old & 0xffff_ffff };
    assert!((1..3000).contains(&counted), "the lane has counted to {counted}");
    fixture.host.write(ram(place), &2999u32.to_le_bytes());
    resume(&mut fixture);
    let ended = fixture.report();
    assert_eq!((fixture.word(0), ended.state), (3 * 40 * 3000, DISPATCH_DONE));
    let plain = {
        let mut fixture = stopped(&small_variant());
        resume(&mut fixture);
        fixture.report()
    };
    assert_ne!(ended.instructions, 0);
    assert_eq!(ended.instructions, plain.instructions, "31 other lanes count on, however soon one has left the loop");
}

#[test]
fn a_damaged_area_is_a_fault_of_its_queue_alone() {
    let offset = |field: usize| field as u64;
    let subgroup = SavedDispatch::SIZE as u64 + SavedWorkgroup::SIZE as u64;
    let damage: [(u64, u32, &str); 18] = [
        (offset(0x00), 1, "magic"),
        (offset(0x04), 2, "version"),
        (offset(0x08), 4, "another grid"),
        (offset(0x0c), 1 << 20, "a grid beyond the largest"),
        (offset(0x14), 64, "lanes of a subgroup"),
        (offset(0x18), 1, "arguments"),
        (offset(0x20), 7, "more workgroups done than there are"),
        (offset(0x20), 1, "a workgroup in progress that is done"),
        (offset(0x50), 2, "a subgroup that there is not"),
        (offset(0x54), 2, "neither a workgroup nor none"),
        (offset(0x60), 1, "another program"),
        (offset(0x68), 1, "another workgroup"),
        (subgroup + 0x10, 65, "too many blocks"),
        (subgroup + 0x0c, 2, "neither waiting nor not"),
        (subgroup + 24, 9, "a block of no kind"),
        (subgroup, 0x00ff_ffff, "an instruction that there is not"),
        (subgroup, 9, "an instruction with no such block around it"),
        (subgroup + 24 + 4, 1, "lanes that go on behind no block"),
    ];
    for (at, value, what) in damage {
        let mut fixture = stopped(&small_variant());
        let space = fixture.host.space();
        let other = fixture.host.map_new_ram(space, DATA, 4096);
        let mut neighbour = fixture.host.queue(1, space, NODE_COMPUTE);
        let place = area(&fixture.queue);
        fixture.host.write(ram(place.address() + at), &value.to_le_bytes());
        let added = fixture.word(0);
        resume(&mut fixture);
        let (address, info) = fixture.host.fault_of(&fixture.queue);
        assert_eq!(FaultKind::from_number(info.kind()), Some(FaultKind::SaveArea), "{what}");
        assert_eq!((address, info.write()), (place.into_bits(), false), "{what}");
        let report = fixture.report();
        assert_eq!((report.state, report.fault), (DISPATCH_FAULTED, FaultKind::SaveArea as u16), "{what}");
        // The state counts what has run, unless it is none.
        let lanes = if ["magic", "version", "lanes of a subgroup"].contains(&what) { 0 } else { 40 };
        assert_eq!(report.lanes, lanes, "{what}");
        assert_eq!(fixture.word(0), added, "{what}: not an instruction ran");
        let fill = campanile_hw::packet::Fill { destination: DATA, size: 4, pattern: 5 };
        fixture.host.submit(&mut neighbour, &[Packet::Fill(fill)]);
        assert_eq!(fixture.host.read64(other) as u32, 5, "{what}: the queue beside it works");
    }
}

/// The report counts the instructions that had run before.
#[test]
fn a_program_that_became_another_one_does_not_go_on() {
    let other = COUNT.replace("3000", "4000");
    for bytes in [campanile_isa::assemble(&other).expect("valid"), vec![0; 64]] {
        let mut fixture = stopped(&small_variant());
        let (head, added) = (head(&fixture), fixture.word(0));
        fixture.host.write(fixture.program, &bytes);
        resume(&mut fixture);
        let same = bytes.len() == 64;
        let kind = if same { FaultKind::BadProgram } else { FaultKind::SaveArea };
        let report = fixture.report();
        assert_eq!((report.state, report.fault), (DISPATCH_FAULTED, kind as u16));
        assert_eq!((report.lanes, report.instructions), (40, head.instructions), "what was done before");
        assert_eq!(report.begun, head.begun);
        assert_eq!(fixture.word(0), added, "not an instruction ran");
    }
}

#[test]
fn a_program_whose_state_does_not_fit_is_refused_before_it_starts() {
    let big = ".workgroup 1024, 1, 1\n.registers 200, 100, 1\n.shared 32768\narguments d0\nstore.w1 [d0], w0\nexit";
    let mut fixture = Fixture::with(&small_variant());
    let dispatch = fixture.dispatch(big, 1);
    fixture.host.submit(&mut fixture.queue, &[Packet::Dispatch(dispatch)]);
    let (address, info) = fixture.host.fault_of(&fixture.queue);
    assert_eq!((info.kind(), address), (FaultKind::SaveArea as u8, SAVE_AREA));
    assert_eq!(fixture.report().fault, FaultKind::SaveArea as u16);
    // Where no workgroup is left, the state is that between two of them; where no dispatch is left, there is none.
    for preemption in [Preemption::Workgroup, Preemption::Dispatch, Preemption::Buffer] {
        let mut fixture = Fixture::with(&Variant { preemption, ..small_variant() });
        let dispatch = fixture.dispatch(big, 1);
        fixture.host.submit(&mut fixture.queue, &[Packet::Dispatch(dispatch)]);
        assert_eq!(fixture.report().state, DISPATCH_DONE, "{preemption:?}");
    }
    // Without an area there is no dispatch at all, and everything else.
    let mut fixture = Fixture::with(&small_variant());
    let dispatch = fixture.dispatch(ENDLESS, 1);
    let mut bare = fixture.host.queue_with(1, fixture.space, |descriptor| {
        (descriptor.save_area, descriptor.save_size) = (0, 0);
    });
    fixture.host.submit(&mut bare, &[Packet::Dispatch(dispatch)]);
    let (address, info) = fixture.host.fault_of(&bare);
    assert_eq!((info.kind(), address), (FaultKind::SaveArea as u8, 0));
}

#[test]
fn the_header_says_how_many_bytes_a_state_has() {
    let mut fixture = Fixture::with(&small_variant());
    let dispatch = fixture.dispatch(COUNT, 3);
    let header = fixture.host.read(fixture.program, ProgramHeader::SIZE);
    let needed = ProgramHeader::from_bytes(&header.try_into().expect("a header")).save_size();
    for (number, size, fits) in [(1, needed - 1, false), (2, needed, true)] {
        let mut queue = fixture.host.queue_with(number, fixture.space, |descriptor| descriptor.save_size = size);
        fixture.host.submit(&mut queue, &[Packet::Dispatch(dispatch)]);
        let expected = if fits { DISPATCH_DONE } else { DISPATCH_FAULTED };
        assert_eq!(fixture.report().state, expected, "{size} bytes");
        fixture.host.events();
    }
}

#[test]
fn an_area_that_is_no_memory_faults_the_queue_that_is_to_leave() {
    let mut fixture = Fixture::with(&small_variant());
    let dispatch = fixture.dispatch(ENDLESS, 1);
    let nowhere = Location::new().with_address(1 << 40).with_system(true).into_bits();
    let mut queue = fixture.host.queue_with(1, fixture.space, |descriptor| descriptor.save_area = nowhere);
    fixture.host.write_packets(&mut queue, &[Packet::Dispatch(dispatch)]);
    fixture.host.ring(&queue);
    for _ in 0..8 {
        fixture.host.gpu.step();
    }
    let status = fixture.host.try_command(Command::SuspendQueue, 1, 3, 0).0;
    assert_eq!((status, fixture.host.state(&queue)), (CommandStatus::Done, 5));
    let kinds: Vec<(u8, u64)> = fixture.host.events().iter().map(|event| (event.kind, event.data0)).collect();
    let fault = campanile_hw::event::EventKind::Fault as u8;
    assert_eq!(kinds, [(fault, nowhere), (campanile_hw::event::EventKind::Suspended as u8, 3)]);
}

#[test]
fn a_dispatch_goes_on_on_another_function_in_the_middle_of_a_workgroup() {
    let first = stopped(&small_variant());
    let record = 30 << 20;
    first.host.command(Command::SaveQueue, 0, record, 0);
    let queue = first.queue.clone();
    let (memory, head) = (first.host.read(area(&queue), SAVE_AREA as usize), head(&first));
    assert!(head.workgroup == 1 && head.instructions != 0);
    // The same memory at the same addresses, on a function that knows nothing of the queue.
    let mut second = Fixture::with(&small_variant());
    second.dispatch(COUNT, 3);
    second.host.command(Command::UnmapQueue, 0, 0, 0);
    assert_eq!(second.queue.save_area, queue.save_area);
    let whole = first.host.read(queue.commands_location, 4096);
    second.host.write(second.queue.commands_location, &whole);
    second.host.write(second.queue.ring_location, &first.host.read(queue.ring_location, 2048));
    second.host.write(second.queue.control_location, &first.host.read(queue.control_location, 128));
    second.host.write(area(&queue), &memory);
    second.host.write(second.data(0), &first.host.read(first.data(0), 4096));
    let record_bytes = first.host.read(Location::new().with_address(record), 72);
    second.host.write(Location::new().with_address(record), &record_bytes);
    let descriptor = second.host.read(Location::new(), 128);
    let descriptor = campanile_hw::queue::QueueDescriptor::from_bytes(&descriptor.try_into().expect("a descriptor"));
    let flags = QueueFlags::from_bits(descriptor.flags).with_suspended(true).into_bits();
    second.host.write_descriptor(0, &campanile_hw::queue::QueueDescriptor { flags, ..descriptor });
    second.host.command(Command::MapQueue, 0, 0, 0);
    second.host.command(Command::RestoreQueue, 0, record, 0);
    resume(&mut second);
    assert_eq!((second.word(0), second.report().state), (3 * 40 * 3000, DISPATCH_DONE));
    assert_eq!(second.report().begun, head.begun, "it began on the other one");
    assert!(second.report().instructions > head.instructions);
}

#[test]
fn a_debugger_is_told_where_a_dispatch_stands() {
    let record = 30 << 20;
    let ask = |host: &Host| {
        let status = host.try_command(Command::QueryDispatch, 0, record, 0).0;
        let bytes = host.read(Location::new().with_address(record), DispatchPosition::SIZE);
        (status, DispatchPosition::from_bytes(&bytes.try_into().expect("a position")))
    };
    let mut fixture = Fixture::with(&small_variant());
    assert_eq!(ask(&fixture.host).0, CommandStatus::BadState, "nothing is in progress");
    let dispatch = fixture.dispatch(COUNT, 3);
    fixture.host.write_packets(&mut fixture.queue, &[Packet::Dispatch(dispatch)]);
    fixture.host.ring(&fixture.queue);
    for _ in 0..8 {
        fixture.host.gpu.step();
    }
    let (status, running) = ask(&fixture.host);
    assert_eq!((status, running.saved, running.workgroup), (CommandStatus::Done, 0, 1));
    assert_eq!((running.program, running.line, running.subgroup), (dispatch.program, 9, 0));
    assert_eq!((running.active, running.alive, running.done), (u32::MAX, u32::MAX, 0));
    let code = fixture.program.address() + 64 + 16 + u64::from(running.instruction) * 16;
    let expected = [fixture.host.read64(ram(code)), fixture.host.read64(ram(code + 8))];
    assert_eq!([running.code_low, running.code_high], expected, "the instruction as it lies in the program");
    suspend(&mut fixture);
    let (status, saved) = ask(&fixture.host);
    assert_eq!((status, saved.saved, saved.line), (CommandStatus::Done, 1, 9));
    assert!(saved.instructions >= running.instructions);
    resume(&mut fixture);
    assert_eq!(ask(&fixture.host).0, CommandStatus::BadState, "it has ended");
    for (queue, at, status) in [
        (0, record + 8, CommandStatus::BadArgument),
        (9, record, CommandStatus::BadQueue),
        (u64::from(u32::MAX) + 1, record, CommandStatus::BadQueue),
    ] {
        assert_eq!(fixture.host.try_command(Command::QueryDispatch, queue, at, 0).0, status);
    }
    let mut fixture = stopped(&small_variant());
    let beyond = fixture.host.try_command(Command::QueryDispatch, 0, 1 << 40, 0).0;
    assert_eq!(beyond, CommandStatus::PageFault);
    fixture.host.events();
    assert_eq!(fixture.data(REPORT - DATA).address() % 8, 0);
}
