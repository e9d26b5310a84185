//! Page tables written by the paging node: words in packets, by address and by location, and translations forgotten everywhere.

use crate::host::{Host, Space, TestQueue, encode, ram, small_variant, vram};
use campanile_device::{PageTableUpdates, Variant};
use campanile_hw::event::FaultKind;
use campanile_hw::packet::{BadPacket, Copy, InvalidateTlb, Packet, Write, WritePhysical};
use campanile_hw::page_table::{PAGE_4K, Pte};
use campanile_hw::queue::{QueueFlags, RingEntry, RingFlags};
use campanile_hw::registers::{self as reg, Caps, NODE_COMPUTE, NODE_COPY, NODE_PAGING};

const VA: u64 = 0x40_0000_0000;

fn kernel_queue(host: &mut Host, number: u32, space: Space, node: u32) -> TestQueue {
    host.queue_with(number, space, |descriptor| {
        descriptor.node = node;
        descriptor.flags = QueueFlags::new().with_privileged(true).into_bits();
    })
}

/// A command buffer whose packets may be privileged, or not.
fn submit(host: &Host, queue: &mut TestQueue, packets: &[Packet], privileged: bool) {
    let bytes = encode(packets);
    let commands = host.write_commands(queue, &bytes);
    let flags = RingFlags::new().with_privileged(privileged).into_bits();
    host.write_entry(queue, &RingEntry { commands, size: bytes.len() as u32, flags, tag: 0, root: 0 });
    host.ring(queue);
    host.run();
}

fn write(destination: u64, words: &[u64], repeat: u16) -> Packet {
    Packet::Write(Write::of(destination, words, repeat))
}

fn physical(destination: campanile_hw::queue::Location, words: &[u64], repeat: u16) -> Packet {
    Packet::WritePhysical(WritePhysical::of(destination.into_bits(), words, repeat))
}

#[test]
fn words_are_written_in_order_and_again_and_again_across_pages_of_either_memory() {
    let mut host = Host::new();
    let space = host.space();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let (low, high) = (host.take_ram(4096), host.take_vram(4096, 4096));
    host.map(space, VA, ram(low), 4096);
    host.map(space, VA + 4096, vram(high), 4096);
    host.submit(&mut queue, &[write(VA + 4080, &[1, 2, 3, 4, 5, 6], 2), write(VA + 8, &[7], 3)]);
    let word = |at: u64| if at < 4096 { host.read64(ram(low + at)) } else { host.read64(vram(high + at - 4096)) };
    let found: Vec<u64> = (0..14).map(|index| word(4072 + index * 8)).collect();
    assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 0]);
    assert_eq!([word(0), word(8), word(16), word(24), word(32)], [0, 7, 7, 7, 0]);
    // A page that reads as zero takes what is written and shows none of it.
    let leaf = host.leaf(space, VA + 0x10_0000, PAGE_4K);
    host.write64(leaf, Pte::new().with_valid(true).with_zero(true).into_bits());
    host.submit(&mut queue, &[write(VA + 0x10_0000, &[9], 512)]);
    assert!(host.events().is_empty(), "nothing has faulted");
}

#[test]
fn a_write_that_leaves_what_is_mapped_faults_where_it_does() {
    let mut host = Host::new();
    let space = host.space();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let page = host.map_new_ram(space, VA, 4096);
    host.submit(&mut queue, &[write(VA + 4088, &[1, 2], 1)]);
    let (address, info) = host.fault_of(&queue);
    assert_eq!((address, info.kind(), info.write()), (VA + 4096, FaultKind::PageFault as u8, true));
    assert_eq!(host.read64(ram(page.address() + 4088)), 1, "what comes before it is done");
}

#[test]
fn words_are_written_at_locations_by_the_kernels_buffers() {
    for node in [NODE_PAGING, NODE_COMPUTE] {
        let mut host = Host::new();
        let space = host.space();
        let mut queue = kernel_queue(&mut host, 0, space, node);
        let (system, video) = (host.take_ram(8192), host.take_vram(8192, 4096));
        let packets = [physical(ram(system + 4088), &[1, 2, 3], 2), physical(vram(video), &[5], 512)];
        submit(&host, &mut queue, &packets, true);
        let found: Vec<u64> = (0..8).map(|index| host.read64(ram(system + 4080 + index * 8))).collect();
        assert_eq!(found, [0, 1, 2, 3, 1, 2, 3, 0]);
        assert!((0..512).all(|index| host.read64(vram(video + index * 8)) == 5));
        assert_eq!(host.read64(vram(video + 4096)), 0);
        assert!(host.events().is_empty());
        // Beyond everything there is.
        submit(&host, &mut queue, &[physical(vram(1 << 50), &[1], 1)], true);
        let (address, info) = host.fault_of(&queue);
        assert_eq!((address, info.kind(), info.write()), (1 << 50, FaultKind::BadPhysical as u8, true));
    }
}

#[test]
fn nobody_else_writes_at_locations_or_has_translations_forgotten() {
    let target = |host: &mut Host| vram(host.take_vram(4096, 4096));
    let forget = Packet::InvalidateTlb(InvalidateTlb { root: 0, start: 0, end: 0 });
    for physically in [true, false] {
        // The ring of user mode; a buffer of a user's on a queue of the kernel; the kernel's own on a node that is not for paging.
        for (kernel, privileged, node) in [
            (false, false, NODE_COMPUTE),
            (false, false, NODE_COPY),
            (true, false, NODE_COMPUTE),
            (true, false, NODE_PAGING),
            (true, true, NODE_COPY),
        ] {
            if physically && privileged {
                continue;
            }
            let mut host = Host::new();
            let space = host.space();
            let mut queue = if kernel { kernel_queue(&mut host, 0, space, node) } else { host.queue(0, space, node) };
            let at = target(&mut host);
            let packet = if physically { physical(at, &[7], 1) } else { forget };
            submit(&host, &mut queue, &[packet], privileged);
            let (_, info) = host.fault_of(&queue);
            let expected = (FaultKind::BadPacket as u8, BadPacket::Privilege as u8);
            assert_eq!((info.kind(), info.rule()), expected, "{physically} {kernel} {privileged} {node}");
            assert_eq!(host.read64(at), 0);
        }
    }
    // User mode cannot say that it is the kernel.
    let mut host = Host::new();
    let space = host.space();
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let at = target(&mut host);
    submit(&host, &mut queue, &[physical(at, &[7], 1)], true);
    assert_eq!(host.fault_of(&queue).1.kind(), FaultKind::BadRingEntry as u8);
    assert_eq!(host.read64(at), 0);
}

#[test]
fn every_node_forgets_what_a_packet_names_and_nothing_else() {
    let mut host = Host::new();
    let (space, other) = (host.space(), host.space());
    let paging_space = host.space();
    let mut paging = kernel_queue(&mut host, 0, paging_space, NODE_PAGING);
    let mut users = [(1, NODE_COMPUTE), (2, NODE_COPY)].map(|(number, node)| host.queue(number, space, node));
    let (old, new) = (host.take_ram(4096), host.take_ram(4096));
    host.write64(ram(old), 0x01d);
    host.write64(ram(new), 0xbeef);
    let out = host.map_new_ram(space, VA + (1 << 30), 4096);
    for page in 0..2 {
        host.map(space, VA + page * 4096, ram(old), 4096);
    }
    let read = |page: u64| {
        let copy = Copy {
            source: VA + page * 4096,
            destination: VA + (1 << 30) + page * 8,
            row_bytes: 8,
            rows: 1,
            source_pitch: 0,
            destination_pitch: 0,
        };
        Packet::Copy(copy)
    };
    let seen = |host: &Host, user: &mut TestQueue| {
        host.submit(user, &[read(0), read(1)]);
        [0, 8].map(|at| host.read64(ram(out.address() + at)))
    };
    for user in &mut users {
        assert_eq!(seen(&host, user), [0x01d; 2]);
    }
    // Both entries change; one of them is forgotten, of this address space only.
    let leaf = host.leaf(space, VA, PAGE_4K);
    let entry = Pte::new().with_valid(true).with_system(true).with_address(new).into_bits();
    let forget =
        |root: Space, start, end| Packet::InvalidateTlb(InvalidateTlb { root: root.root.into_bits(), start, end });
    submit(&host, &mut paging, &[physical(leaf, &[entry], 2), forget(other, 0, 0)], true);
    for user in &mut users {
        assert_eq!(seen(&host, user), [0x01d; 2], "a translation is forgotten that nobody named");
    }
    submit(&host, &mut paging, &[forget(space, VA, VA + 4096)], true);
    for user in &mut users {
        assert_eq!(seen(&host, user), [0xbeef, 0x01d]);
    }
    submit(&host, &mut paging, &[forget(space, 0, 0)], true);
    for user in &mut users {
        assert_eq!(seen(&host, user), [0xbeef; 2]);
    }
    assert!(host.events().is_empty());
}

#[test]
fn the_function_says_how_it_wants_its_page_tables_written() {
    for (updates, number) in
        [(PageTableUpdates::Cpu, 0), (PageTableUpdates::GpuVirtual, 1), (PageTableUpdates::GpuPhysical, 2)]
    {
        let host = Host::with(&Variant { page_table_updates: updates, ..small_variant() });
        assert_eq!(Caps::from_bits(host.get(reg::CAPS, 4) as u32).page_table_updates(), number);
    }
}
