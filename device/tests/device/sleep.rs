//! D-states: what the function loses in D3hot and on the return to D0, and queues that go on afterwards.

use crate::host::{Host, TestQueue, small_variant, vram};
use campanile_device::{Runner, Variant};
use campanile_hw::packet::{Fill, Packet, Signal, Wait};
use campanile_hw::pci;
use campanile_hw::queue::{QueueFlags, QueueState, QueueStateFlags};
use campanile_hw::registers::{self as reg, Caps, Command, CommandStatus, NODE_COMPUTE, NODE_COPY, REGISTERS};

const FENCE: u64 = 0x50_0000_0000;
const POWER_CONTROL: u16 = 0x44;
const D3HOT: u32 = 3;

fn signal(word: u64, value: u64) -> Packet {
    Packet::Signal(Signal { handle: 0, current: FENCE + word * 8, monitored: 0, value })
}

fn wait(word: u64, value: u64) -> Packet {
    Packet::Wait(Wait { handle: 0, current: FENCE + word * 8, value })
}

fn sleep(host: &Host) {
    host.gpu.config_write(POWER_CONTROL, 2, D3HOT);
}

/// Back to D0, with the switches of config space as software sets them.
fn wake(host: &Host) {
    host.gpu.config_write(POWER_CONTROL, 2, 0);
    host.enable();
}

fn kept() -> Variant {
    Variant { vram_kept_in_d3: true, ..small_variant() }
}

#[test]
fn nothing_answers_in_d3_and_registers_are_as_after_power_on_behind_it() {
    let mut host = Host::new();
    let space = host.space();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    host.map_new_ram(space, FENCE, 4096);
    host.connect(&mut queue, 0);
    host.submit(&mut queue, &[signal(0, 1)]);
    assert_eq!((host.get(reg::COUNT_SIGNALS, 8), host.get(reg::CONTROL, 4)), (1, 1));
    sleep(&host);
    assert_eq!(host.get(reg::ID, 4), u64::from(u32::MAX));
    host.set(reg::CONTROL, 4, 1);
    assert!((0..1000).all(|_| !host.gpu.step()), "something moved in D3");
    assert_eq!(host.gpu.config_read(0, 2), u32::from(pci::VENDOR_ID), "config space answers in D3hot");
    host.gpu.config_write(POWER_CONTROL, 2, 0);
    assert_eq!(host.gpu.config_read(4, 2), 0, "no memory decoding, no bus master");
    host.gpu.config_write(4, 2, 6);
    let empty = Host::powered_off(&small_variant());
    empty.gpu.config_write(4, 2, 6);
    for register in REGISTERS.iter().filter(|register| register.offset != reg::TIMESTAMP) {
        let (value, fresh) = (host.get(register.offset, register.width), empty.get(register.offset, register.width));
        assert_eq!(value, fresh, "{}", register.name);
    }
    let table = (0..16).step_by(4).map(|at| host.get(pci::MSIX_TABLE_OFFSET + at, 4));
    assert_eq!(table.collect::<Vec<_>>(), [0, 0, 0, 1], "the MSI-X table");
    let (status, _) = host.try_command(Command::QueryQueue, 0, 0, 0);
    assert_eq!(status, CommandStatus::NotRunning);
}

#[test]
fn vram_is_lost_in_d3_or_kept_as_caps_say() {
    for variant in [small_variant(), kept()] {
        let host = Host::with(&variant);
        assert_eq!(Caps::from_bits(host.get(reg::CAPS, 4) as u32).vram_kept_in_d3(), variant.vram_kept_in_d3);
        let place = vram(variant.vram_size - 4096);
        host.write64(place, 0x1234);
        sleep(&host);
        assert_eq!(host.read64(place) == 0x1234, variant.vram_kept_in_d3);
        wake(&host);
        assert_eq!(host.read64(place) == 0x1234, variant.vram_kept_in_d3);
        host.write64(place, 0x1234);
        host.gpu.power_cycle();
        assert_ne!(host.read64(place), 0x1234, "no power, no contents");
    }
}

#[test]
fn a_runner_sleeps_in_d3() {
    let host = Host::new();
    let runner = Runner::start(host.gpu.clone());
    sleep(&host);
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !host.gpu.sleeps_until_register_access() {
        assert!(std::time::Instant::now() < limit, "the runner goes on in D3");
        std::thread::yield_now();
    }
    let steps = host.gpu.steps();
    host.store_doorbell(0, 7);
    std::thread::yield_now();
    assert!(host.gpu.steps() - steps <= 1);
    drop(runner);
}

#[test]
fn the_clock_goes_on_from_what_it_was_set_to() {
    let host = Host::new();
    let before = host.get(reg::TIMESTAMP, 8);
    host.set(reg::CLOCK_SET, 8, before + (1 << 50));
    let set = host.get(reg::TIMESTAMP, 8);
    assert!(set >= before + (1 << 50) && set < before + (1 << 51), "{set}");
    assert!(host.get(reg::TIMESTAMP, 8) >= set);
    assert_eq!(host.get(reg::CLOCK_SET, 8), 0);
    host.set(reg::CLOCK_SET + 4, 4, 0);
    assert!(host.get(reg::TIMESTAMP, 8) < 1 << 50, "the upper half alone");
    host.gpu.reset();
    host.enable();
    assert!(host.get(reg::TIMESTAMP, 8) < 1 << 40, "a reset begins at zero");
}

/// VRAM location of a queue-state record.
fn record(host: &mut Host) -> u64 {
    let at = host.take_vram(4096, 4096);
    vram(at).into_bits()
}

fn suspend(host: &Host, queue: &TestQueue) {
    host.command(Command::SuspendQueue, queue.number.into(), 1, 0);
}

/// Maps a queue that was unmapped again, suspended.
fn remap(host: &Host, queue: &TestQueue, descriptor: &campanile_hw::queue::QueueDescriptor) {
    let flags = QueueFlags::from_bits(descriptor.flags).with_suspended(true).into_bits();
    host.write_descriptor(queue.number, &campanile_hw::queue::QueueDescriptor { flags, ..*descriptor });
    host.command(Command::MapQueue, queue.number.into(), 0, 0);
}

#[test]
fn a_queue_goes_on_where_it_was_saved_in_the_middle_of_a_buffer() {
    let mut host = Host::new();
    let space = host.space();
    let at = host.map_new_ram(space, FENCE, 4096);
    let place = record(&mut host);
    let (mut queue, descriptor) = host.prepare_queue(4, space);
    host.write_descriptor(4, &descriptor);
    host.command(Command::MapQueue, 4, 0, 0);
    for value in 1..=3 {
        host.write_packets(&mut queue, &[signal(1, value), wait(0, value), signal(2, value)]);
    }
    host.command(Command::KickQueue, 4, 0, 0);
    for value in 1..=3u64 {
        host.run();
        let word = |word: u64| host.read64(at.with_address(at.address() + 8 * word));
        assert_eq!((word(1), word(2)), (value, value - 1));
        // Would be done a second time by a queue that starts its buffer over.
        host.write64(at.with_address(at.address() + 8), 99);
        suspend(&host, &queue);
        host.command(Command::SaveQueue, 4, place, 0);
        host.command(Command::UnmapQueue, 4, 0, 0);
        remap(&host, &queue, &descriptor);
        host.command(Command::RestoreQueue, 4, place, 0);
        host.command(Command::ResumeQueue, 4, 0, 0);
        host.run();
        assert_eq!(host.read64(at.with_address(at.address() + 8)), 99, "a packet was run twice");
        host.write64(at, value);
        host.command(Command::RescanWaits, 0, 0, 0);
    }
    host.run();
    assert_eq!(host.read64(at.with_address(at.address() + 16)), 3);
    assert_eq!(host.read_pointer(&queue), 3);
}

#[test]
fn only_a_standing_queue_is_saved_and_only_a_fresh_one_restored() {
    let mut host = Host::new();
    let space = host.space();
    host.map_new_ram(space, FENCE, 4096);
    let place = record(&mut host);
    let mut queue = host.queue(4, space, NODE_COPY);
    let status = |host: &Host, command, place| host.try_command(command, 4, place, 0).0;
    assert_eq!(status(&host, Command::SaveQueue, place), CommandStatus::BadState);
    assert_eq!(status(&host, Command::RestoreQueue, place), CommandStatus::BadState);
    suspend(&host, &queue);
    for bad in [place | 8, place | 1 << 60, place | 1 << 53] {
        assert_eq!(status(&host, Command::SaveQueue, bad), CommandStatus::BadArgument, "{bad:#x}");
        assert_eq!(status(&host, Command::RestoreQueue, bad), CommandStatus::BadArgument, "{bad:#x}");
    }
    let beyond = vram(1 << 45).into_bits();
    assert_eq!(status(&host, Command::SaveQueue, beyond), CommandStatus::PageFault);
    assert_eq!(status(&host, Command::RestoreQueue, beyond), CommandStatus::PageFault);
    assert_eq!(host.try_command(Command::SaveQueue, 5, place, 0).0, CommandStatus::BadQueue);
    assert_eq!(status(&host, Command::SaveQueue, place), CommandStatus::Done);
    host.command(Command::ResumeQueue, 4, 0, 0);
    host.write_packets(&mut queue, &[signal(0, 1)]);
    host.command(Command::KickQueue, 4, 0, 0);
    host.run();
    suspend(&host, &queue);
    assert_eq!(status(&host, Command::RestoreQueue, place), CommandStatus::BadState, "it has fetched an entry");
}

#[test]
fn records_that_cannot_be_true_are_refused() {
    let mut host = Host::new();
    let space = host.space();
    let place = record(&mut host);
    let queue = host.queue(4, space, NODE_COPY);
    suspend(&host, &queue);
    host.command(Command::SaveQueue, 4, place, 0);
    let at = vram(place);
    let empty = QueueState::from_bytes(host.read(at, QueueState::SIZE)[..].try_into().unwrap());
    assert_eq!((empty.fetched, empty.flags), (0, 0));
    let flags = |flags: QueueStateFlags| flags.into_bits();
    let buffer = QueueState {
        fetched: 1,
        written: 1,
        commands: 0x10_0000,
        size: 64,
        offset: 16,
        flags: flags(QueueStateFlags::new().with_buffer(true)),
        ..empty
    };
    let bad = [
        QueueState { flags: 1 << 3, ..empty },
        QueueState { written: 1, fetched: 2, ..empty },
        QueueState { written: u64::MAX, ..empty },
        QueueState { flags: flags(QueueStateFlags::new().with_retire_event(true)), ..empty },
        QueueState { flags: buffer.flags | 2, ..buffer },
        QueueState { fetched: 0, written: 0, ..buffer },
        QueueState { size: 1 << 21, ..buffer },
        QueueState { offset: 80, ..buffer },
        QueueState { commands: u64::MAX - 15, ..buffer },
        QueueState { commands: 0x10_0001, ..buffer },
        // Only a queue of the kernel has buffers in another address space.
        QueueState { root: space.root.into_bits(), ..buffer },
        QueueState { root: space.root.into_bits() + 1, ..buffer },
    ];
    for (index, state) in bad.iter().enumerate() {
        host.write(at, &state.to_bytes());
        let (status, _) = host.try_command(Command::RestoreQueue, 4, place, 0);
        assert_eq!(status, CommandStatus::BadArgument, "{index}");
    }
    let mut bytes = buffer.to_bytes();
    bytes[0x44] = 1;
    host.write(at, &bytes);
    let (status, _) = host.try_command(Command::RestoreQueue, 4, place, 0);
    assert_eq!(status, CommandStatus::BadArgument, "a byte that the record does not name");
    host.write(at, &buffer.to_bytes());
    host.command(Command::RestoreQueue, 4, place, 0);
}

#[test]
fn a_faulted_queue_stays_faulted() {
    let mut host = Host::new();
    let space = host.space();
    let place = record(&mut host);
    let (mut queue, descriptor) = host.prepare_queue(4, space);
    host.write_descriptor(4, &descriptor);
    host.command(Command::MapQueue, 4, 0, 0);
    host.write_packets(&mut queue, &[Packet::Fill(Fill { destination: 0x7000_0000, size: 4, pattern: 1 })]);
    host.command(Command::KickQueue, 4, 0, 0);
    host.run();
    assert_eq!(host.state(&queue), 5);
    host.command(Command::SaveQueue, 4, place, 0);
    host.command(Command::UnmapQueue, 4, 0, 0);
    remap(&host, &queue, &descriptor);
    host.command(Command::RestoreQueue, 4, place, 0);
    assert_eq!(host.state(&queue), 5);
    assert_eq!(host.try_command(Command::ResumeQueue, 4, 0, 0).0, CommandStatus::BadState);
}
