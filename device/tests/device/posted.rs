//! A function whose register writes take their time: what may be relied on is what a read has told.

use crate::host::{EVENTS, Host, QUEUES, small_variant, vram};
use campanile_device::Variant;
use campanile_hw::event;
use campanile_hw::packet::{Copy, Packet};
use campanile_hw::registers::{self as reg, Command, CommandStatus, Control, NODE_COPY};

const VA: u64 = 0x40_0000_0000;
const BUSY: u64 = CommandStatus::Busy as u64;

fn posted() -> Variant {
    Variant { posted_writes: true, ..small_variant() }
}

/// CONTROL once nothing of it is in progress, and how often it was read.
fn control(host: &Host) -> (Control, u32) {
    for reads in 1..1000 {
        let control = Control::from_bits(host.get(reg::CONTROL, 4) as u32);
        if !control.busy() {
            return (control, reads);
        }
    }
    panic!("CONTROL stays busy");
}

/// Waits for the command that was written last.
fn outcome(host: &Host) -> u64 {
    (0..1000).map(|_| host.get(reg::CMP_STATUS, 4)).find(|status| *status != BUSY).expect("the command ends")
}

fn command(host: &Host, command: Command, arguments: [u64; 3]) -> u64 {
    for (register, argument) in [reg::CMP_ARG0, reg::CMP_ARG1, reg::CMP_ARG2].into_iter().zip(arguments) {
        host.set(register, 8, argument);
    }
    host.set(reg::CMP_COMMAND, 4, u64::from(command as u32));
    outcome(host)
}

fn started() -> Host {
    let mut host = Host::powered_off(&posted());
    host.enable();
    let ring = host.take_ram((event::HEADER_SIZE + u64::from(EVENTS) * 32).next_multiple_of(4096));
    host.set(reg::QUEUE_TABLE_BASE, 8, 0);
    host.set(reg::QUEUE_TABLE_COUNT, 4, u64::from(QUEUES));
    host.set(reg::EVENT_RING_BASE, 8, ring);
    host.set(reg::EVENT_RING_ENTRIES, 4, u64::from(EVENTS));
    host.set(reg::CONTROL, 4, 1);
    assert!(control(&host).0.run());
    host
}

#[test]
fn a_write_arrives_with_the_next_read_or_by_itself_a_while_later() {
    let host = started();
    let shown = |host: &Host| host.gpu.bar_page(4, 8191);
    let variant = Variant { host_aperture: 4096, ..posted() };
    let by_read = Host::powered_off(&variant);
    by_read.enable();
    by_read.set(reg::HOST_APERTURE_INDEX, 4, 0);
    by_read.set(reg::HOST_APERTURE_TARGET, 4, 7);
    assert_eq!(shown(&by_read), None, "nobody has read anything");
    assert_eq!(by_read.get(reg::HOST_APERTURE_INDEX, 4), 1);
    assert_eq!(shown(&by_read), Some(7));
    by_read.set(reg::HOST_APERTURE_INDEX, 4, 0);
    by_read.set(reg::HOST_APERTURE_TARGET, 4, 9);
    assert!(by_read.gpu.step(), "there is something to come");
    assert_eq!(shown(&by_read), Some(7));
    by_read.run();
    assert_eq!(shown(&by_read), Some(9));
    drop(host);
}

#[test]
fn a_command_is_busy_until_it_is_done_and_nothing_of_another_one_is_taken_meanwhile() {
    let mut host = started();
    let space = host.space();
    let (_, descriptor) = host.prepare_queue(3, space);
    host.write_descriptor(3, &descriptor);
    host.set(reg::CMP_ARG0, 8, 3);
    host.set(reg::CMP_COMMAND, 4, u64::from(Command::MapQueue as u32));
    assert_eq!(host.get(reg::CMP_STATUS, 4), BUSY);
    // Another number would be refused, and this command leave no queue.
    host.set(reg::CMP_ARG0, 8, 77);
    host.set(reg::CMP_COMMAND, 4, u64::from(Command::UnmapQueue as u32));
    assert_eq!(outcome(&host), CommandStatus::Done as u64);
    assert_eq!(host.get(reg::CMP_ARG0, 8), 3);
    assert_eq!(command(&host, Command::QueryQueue, [3, 0, 0]), CommandStatus::Done as u64);
    assert_eq!(command(&host, Command::QueryQueue, [77, 0, 0]), CommandStatus::BadQueue as u64);
}

#[test]
fn a_command_that_nobody_asks_about_is_done_all_the_same() {
    let mut host = started();
    let space = host.space();
    let to = host.map_new_ram(space, VA, 4096);
    let (mut queue, descriptor) = host.prepare_queue(3, space);
    host.write_descriptor(3, &descriptor);
    host.write_packets(&mut queue, &[Packet::Timestamp(campanile_hw::packet::Timestamp { destination: VA })]);
    host.set(reg::CMP_ARG0, 8, 3);
    host.set(reg::CMP_COMMAND, 4, u64::from(Command::MapQueue as u32));
    host.run();
    assert_ne!(host.read64(to), 0);
}

#[test]
fn the_function_works_until_control_says_that_it_stands_still() {
    let mut host = started();
    let space = host.space();
    let len: u64 = 12 << 20;
    let (from, to) = (host.take_vram(len, 4096), host.take_ram(len));
    host.map(space, VA, vram(from), len);
    host.map(space, VA + (1 << 30), crate::host::ram(to), len);
    for offset in (0..len).step_by(4096) {
        host.write64(vram(from + offset), 1);
    }
    let copied = |host: &Host| (0..len).step_by(4096).filter(|at| host.read64(crate::host::ram(to + at)) == 1).count();
    let (mut queue, mut descriptor) = host.prepare_queue(3, space);
    descriptor.node = NODE_COPY;
    host.write_descriptor(3, &descriptor);
    let copy = Copy {
        source: VA,
        destination: VA + (1 << 30),
        row_bytes: len as u32,
        rows: 1,
        source_pitch: 0,
        destination_pitch: 0,
    };
    host.write_packets(&mut queue, &[Packet::Copy(copy)]);
    assert_eq!(command(&host, Command::MapQueue, [3, 0, 0]), CommandStatus::Done as u64);
    host.gpu.step();
    host.set(reg::CONTROL, 4, 0);
    let before = copied(&host);
    host.gpu.step();
    assert!(copied(&host) > before, "the write has not arrived");
    let (stopped, reads) = control(&host);
    assert!(!stopped.run() && reads > 1);
    let before = copied(&host);
    host.run();
    assert_eq!(copied(&host), before);
    assert!(before < (len / 4096) as usize);
}

#[test]
fn a_reset_is_done_when_control_says_so_and_nothing_written_before_it_comes_after_it() {
    let mut host = started();
    let space = host.space();
    let (_, descriptor) = host.prepare_queue(3, space);
    host.write_descriptor(3, &descriptor);
    host.set(reg::CMP_ARG0, 8, 3);
    host.set(reg::CMP_COMMAND, 4, u64::from(Command::MapQueue as u32));
    host.set(reg::CONTROL, 4, 2);
    assert_eq!(control(&host).0.into_bits(), 0);
    assert_eq!((host.get(reg::CMP_STATUS, 4), host.get(reg::CMP_ARG0, 8)), (0, 0));
    host.run();
    assert_eq!(host.gpu.held().queues, 0);
    // Configuration space comes behind the writes too.
    host.set(reg::CMP_ARG0, 8, 5);
    host.gpu.config_write(0x69, 1, 0x80);
    host.enable();
    assert_eq!(host.get(reg::CMP_ARG0, 8), 0);
}

#[test]
fn ends_that_nobody_read_are_counted_when_the_next_begins_or_memory_is_out_of_reach() {
    let host = started();
    let ask = |number: u64| {
        host.set(reg::CMP_ARG0, 8, number);
        host.set(reg::CMP_COMMAND, 4, u64::from(Command::QueryQueue as u32));
    };
    ask(0);
    outcome(&host);
    host.set(reg::CONTROL, 4, 1);
    assert!(control(&host).0.run());
    assert_eq!(host.gpu.ends_unread(), 0);
    ask(1);
    host.run();
    ask(2);
    outcome(&host);
    assert_eq!(host.gpu.ends_unread(), 1, "of the command before");
    ask(3);
    host.set(reg::CONTROL, 4, 0);
    host.get(reg::ID, 4);
    host.gpu.config_write(0x04, 2, 2);
    assert_eq!(host.gpu.ends_unread(), 3, "a read of another register tells nothing of either");
    host.gpu.config_write(0x04, 2, 6);
    host.set(reg::CONTROL, 4, 2);
    host.gpu.reset();
    assert_eq!(host.gpu.ends_unread(), 3, "a reset from outside ends everything");
}
