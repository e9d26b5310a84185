//! Decoding of BAR0, run control, and which commands are refused.

use crate::host::{EVENTS, Host, QUEUES, small_variant};
use campanile_device::Variant;
use campanile_hw::registers::{self as reg, Access, Command, CommandStatus, REGISTERS};

#[test]
fn constants_describe_the_variant() {
    let host = Host::new();
    assert_eq!(host.get(reg::ID, 4), u64::from(reg::ID_VALUE));
    assert_eq!(host.get(reg::VERSION, 4), u64::from(reg::INTERFACE_VERSION));
    assert_eq!(host.get(reg::CAPS, 4), u64::from(reg::PREEMPTION_INSTRUCTION) << 12 | 0b110);
    assert_eq!(host.get(reg::NODE_COUNT, 4), 3);
    assert_eq!(host.get(reg::VRAM_SIZE, 8), crate::host::VRAM_SIZE);
    assert_eq!(host.get(reg::VRAM_WINDOW_SIZE, 8), crate::host::VRAM_SIZE);
    assert_eq!(host.get(reg::DOORBELL_COUNT, 4), 64);
    assert_eq!(host.get(reg::QUEUE_LIMIT, 4), 16_384);
    let first = host.get(reg::TIMESTAMP, 8);
    assert!(host.get(reg::TIMESTAMP, 8) >= first);
    assert_ne!(host.get(reg::CLOCK_HZ, 8), 0);
}

#[test]
fn read_only_registers_drop_writes() {
    let host = Host::new();
    for register in REGISTERS.iter().filter(|register| register.access == Access::ReadOnly) {
        if register.offset == reg::TIMESTAMP {
            continue;
        }
        let before = host.get(register.offset, register.width);
        host.set(register.offset, register.width, !before);
        assert_eq!(host.get(register.offset, register.width), before, "{}", register.name);
    }
}

#[test]
fn registers_that_are_written_and_read_keep_what_was_written() {
    let host = Host::new();
    let stored = |register: &&reg::Register| register.access == Access::ReadWrite && register.offset != reg::CONTROL;
    for register in REGISTERS.iter().filter(stored) {
        host.set(register.offset, register.width, 0x5000);
        assert_eq!(host.get(register.offset, register.width), 0x5000, "{}", register.name);
    }
}

#[test]
fn wide_registers_can_be_accessed_as_halves() {
    let host = Host::new();
    host.set(reg::CMP_ARG1, 8, 0x1111_2222_3333_4444);
    host.set(reg::CMP_ARG1, 4, 0xaaaa_bbbb);
    host.set(reg::CMP_ARG1 + 4, 4, 0xcccc_dddd);
    assert_eq!(host.get(reg::CMP_ARG1, 8), 0xcccc_dddd_aaaa_bbbb);
    assert_eq!(host.get(reg::CMP_ARG1 + 4, 4), 0xcccc_dddd);
}

#[test]
fn every_other_access_reads_as_ones_and_writes_nothing() {
    let host = Host::new();
    let legal = |offset: u64, size: u8| {
        let msix = |start: u64, len: u64| offset >= start && offset + u64::from(size) <= start + len;
        REGISTERS.iter().any(|register| {
            (register.offset == offset && register.width == size)
                || (register.width == 8 && size == 4 && (register.offset == offset || register.offset + 4 == offset))
        }) || (offset.is_multiple_of(u64::from(size)) && (msix(0x8000, 16) || msix(0x9000, 8)))
    };
    for offset in (0..0x400).chain(0x7ff0..0x8040).chain(0x8ff0..0x9020).chain(0xfff0..0x1_0010) {
        for size in [4u8, 8] {
            if offset % u64::from(size) != 0 || !legal(offset, size) {
                let ones = if size == 4 { 0xffff_ffff } else { u64::MAX };
                assert_eq!(host.get(offset, size), ones, "{offset:#x} {size}");
                host.set(offset, size, 0);
            }
        }
    }
    for size in [0, 1, 2, 3, 5, 16, 255] {
        assert_eq!(host.get(reg::ID, size), u64::MAX);
        host.set(reg::CONTROL, size, 0);
    }
    assert_eq!(host.get(reg::CONTROL, 4), 1, "still running");
    assert_eq!(host.get(u64::MAX - 7, 8), u64::MAX);
}

#[test]
fn run_needs_a_valid_queue_table_and_event_ring() {
    let mut host = Host::powered_off(&small_variant());
    host.enable();
    let ring = host.take_ram(8192);
    let attempt = |base: u64, count: u32, ring: u64, entries: u32| {
        host.set(reg::QUEUE_TABLE_BASE, 8, base);
        host.set(reg::QUEUE_TABLE_COUNT, 4, u64::from(count));
        host.set(reg::EVENT_RING_BASE, 8, ring);
        host.set(reg::EVENT_RING_ENTRIES, 4, u64::from(entries));
        host.set(reg::CONTROL, 4, 1);
        let run = host.get(reg::CONTROL, 4) & 1 == 1;
        host.set(reg::CONTROL, 4, 0);
        run
    };
    assert!(attempt(0, QUEUES, ring, EVENTS));
    assert!(!attempt(8, QUEUES, ring, EVENTS), "table not aligned");
    assert!(!attempt(0, 0, ring, EVENTS), "no descriptors");
    assert!(!attempt(0, 16_385, ring, EVENTS), "beyond the limit");
    assert!(!attempt(crate::host::VRAM_SIZE - 4096, 64, ring, EVENTS), "table leaves VRAM");
    assert!(!attempt(u64::MAX - 4095, 64, ring, EVENTS), "table wraps");
    assert!(!attempt(0, QUEUES, ring + 64, EVENTS), "ring not aligned");
    assert!(!attempt(0, QUEUES, ring, 48), "not a power of two");
    assert!(!attempt(0, QUEUES, ring, 8), "too small");
    assert!(!attempt(0, QUEUES, ring, 131_072), "too large");
    assert!(!attempt(0, QUEUES, 0, EVENTS), "not system memory");
    assert!(!attempt(0, QUEUES, u64::MAX - 4095, EVENTS), "ring wraps");
    let last = crate::host::RAM_BASE + crate::host::RAM_SIZE - 4096;
    assert!(!attempt(0, QUEUES, last, 256), "ring leaves memory");
    host.gpu.config_write(0x04, 2, 2);
    assert!(!attempt(0, QUEUES, ring, EVENTS), "no bus master");
}

#[test]
fn commands_are_refused_by_name() {
    let mut host = Host::new();
    let space = host.space();
    let root = space.root.into_bits();
    host.queue(1, space, 0);
    host.set(reg::CMP_COMMAND, 4, 999);
    assert_eq!(host.get(reg::CMP_STATUS, 4), CommandStatus::UnknownCommand as u64);
    assert_eq!(host.get(reg::CMP_COMMAND, 4), 0, "reads as zero");
    let status = |command, a0, a1, a2| host.try_command(command, a0, a1, a2).0;
    use CommandStatus::{BadArgument, BadDoorbell, BadQueue, BadState, PageFault};
    for command in [
        Command::UnmapQueue,
        Command::SuspendQueue,
        Command::ResumeQueue,
        Command::KickQueue,
        Command::QueryQueue,
        Command::DiscardQueue,
        Command::PreemptQueue,
    ] {
        for queue in [0, u64::from(QUEUES), 1 << 32, u64::MAX] {
            assert_eq!(status(command, queue, 0, 0), BadQueue, "{command:?} {queue:#x}");
        }
    }
    assert_eq!(status(Command::MapQueue, u64::from(QUEUES), 0, 0), BadQueue);
    assert_eq!(status(Command::MapQueue, 1, 0, 0), BadQueue, "already mapped");
    assert_eq!(status(Command::ConnectDoorbell, 64, 1, 0), BadDoorbell);
    assert_eq!(status(Command::ConnectDoorbell, u64::MAX, 1, 0), BadDoorbell);
    assert_eq!(status(Command::ConnectDoorbell, 0, 2, 0), BadQueue);
    assert_eq!(status(Command::DisconnectDoorbell, 0, 1, 0), BadDoorbell);
    assert_eq!(status(Command::ResumeQueue, 1, 0, 0), BadState);
    assert_eq!(status(Command::DiscardQueue, 1, 0, 0), BadState);
    assert_eq!(status(Command::FenceChanged, root, 0x7000, 0), PageFault);
    assert_eq!(status(Command::FenceChanged, root, 4, 0), BadArgument);
    assert_eq!(status(Command::FenceChanged, root | 1, 0x7000, 0), BadArgument);
    assert_eq!(status(Command::FenceChanged, root, 1 << 60, 0), PageFault);
    assert_eq!(status(Command::InvalidateTlb, root, 2, 1), BadArgument);
    assert_eq!(status(Command::InvalidateTlb, root, 0, u64::MAX), BadArgument);
    assert_eq!(status(Command::InvalidateTlb, u64::MAX, 0, 0), BadArgument);
    assert_eq!(status(Command::ResetNode, 3, 0, 0), BadArgument);
    host.set(reg::CONTROL, 4, 0);
    assert_eq!(status(Command::RescanWaits, 0, 0, 0), CommandStatus::NotRunning);
    assert_eq!(status(Command::QueryQueue, 1, 0, 0), CommandStatus::NotRunning);
}

#[test]
fn pages_of_the_host_aperture_show_any_page_of_vram_until_reset() {
    let variant = Variant { host_aperture: 8 * 4096, ..small_variant() };
    let host = Host::powered_off(&variant);
    host.enable();
    let (first, vram_pages) = (variant.vram_window / 4096 - 8, variant.vram_size / 4096);
    assert_eq!(host.get(reg::VRAM_WINDOW_SIZE, 8), first * 4096);
    assert_eq!(host.get(reg::HOST_APERTURE_PAGES, 4), 8);
    assert_eq!(host.gpu.bar_page(4, first - 1), Some(first - 1), "the window before the aperture shows VRAM as it is");
    assert_eq!(host.gpu.bar_page(4, first), None, "nothing is shown at first");
    host.set(reg::HOST_APERTURE_INDEX, 4, 2);
    for target in [5, vram_pages - 1, 0, vram_pages, u64::from(u32::MAX), 3, 7, 9] {
        host.set(reg::HOST_APERTURE_TARGET, 4, target);
    }
    let shown: Vec<Option<u64>> = (0..9).map(|page| host.gpu.bar_page(4, first + page)).collect();
    let expected = [None, None, Some(5), Some(vram_pages - 1), Some(0), None, None, Some(3), None];
    assert_eq!(shown, expected, "the index counts up; what is no page of VRAM or of the aperture changes nothing");
    assert_eq!(host.get(reg::HOST_APERTURE_INDEX, 4), 10);
    assert_eq!(host.gpu.bar_page(2, first), Some(first), "another BAR has no aperture");
    host.gpu.reset();
    assert!((0..8).all(|page| host.gpu.bar_page(4, first + page).is_none()));
}
