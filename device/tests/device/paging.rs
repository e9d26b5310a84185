//! Page sizes, page-table rules, faults and the TLB.

use crate::host::{Host, Space, TestQueue, ram, vram};
use campanile_hw::event::{FaultInfo, FaultKind};
use campanile_hw::packet::{Copy, Fill, Packet, Signal, Timestamp};
use campanile_hw::page_table::{PAGE_2M, PAGE_4K, PAGE_64K, Pte, directory_bits, index, leaf_bits};
use campanile_hw::queue::Location;
use campanile_hw::registers::{Command, NODE_COMPUTE, NODE_COPY};

const VA: u64 = 0x40_0000_0000;

fn fill(destination: u64, pattern: u32) -> Packet {
    Packet::Fill(Fill { destination, size: 4, pattern })
}

fn copy(source: u64, destination: u64, row_bytes: u32) -> Packet {
    Packet::Copy(Copy { source, destination, row_bytes, rows: 1, source_pitch: 0, destination_pitch: 0 })
}

fn one_queue() -> (Host, Space, TestQueue) {
    let mut host = Host::new();
    let space = host.space();
    let queue = host.queue(0, space, NODE_COMPUTE);
    (host, space, queue)
}

#[test]
fn pages_of_every_size_translate_to_either_memory() {
    for (page, system) in [PAGE_4K, PAGE_64K, PAGE_2M].into_iter().flat_map(|page| [(page, false), (page, true)]) {
        let (mut host, space, mut queue) = one_queue();
        let at = if system { ram(host.take_ram_aligned(2 * page, page)) } else { vram(host.take_vram(2 * page, page)) };
        host.map_pages(space, VA, at, 2 * page, page, Pte::new());
        for offset in [0, 4, page - 4, page, 2 * page - 4] {
            host.submit(&mut queue, &[fill(VA + offset, offset as u32 | 1)]);
            let bytes = host.read(at.with_address(at.address() + offset), 4);
            assert_eq!(bytes, (offset as u32 | 1).to_le_bytes(), "{page:#x} {offset:#x}");
        }
        host.submit(&mut queue, &[fill(VA + 2 * page, 1)]);
        let (address, info) = host.fault_of(&queue);
        assert_eq!((address, info.kind()), (VA + 2 * page, FaultKind::PageFault as u8));
    }
}

#[test]
fn a_large_page_is_as_long_as_its_entry_covers() {
    // Far from what the queue itself needs.
    const FAR: u64 = 1 << 46;
    for level in [1, 2, 3] {
        let (mut host, space, mut queue) = one_queue();
        let size = campanile_hw::page_table::coverage(level);
        let data = host.take_vram(2 * PAGE_2M, PAGE_2M);
        let mut table = space.root;
        for above in (level + 1..=3).rev() {
            table = host.table_below(table, index(FAR, above), false);
        }
        let entry = vram(table.address() + index(FAR, level) * 8);
        // All of VRAM, or the 2 MiB of it that the data lies in, and then nothing.
        let (large, target) = (Pte::new().with_valid(true).with_large(true), data & !(size - 1));
        host.write64(entry, large.with_address(target).into_bits());
        let base = FAR & !(size - 1);
        for offset in [0, PAGE_2M - 4, PAGE_2M + 4].into_iter().filter(|offset| *offset < size) {
            host.submit(&mut queue, &[fill(base + data - target + offset, offset as u32 | 1)]);
            assert_eq!(
                host.read(vram(data + offset), 4),
                (offset as u32 | 1).to_le_bytes(),
                "level {level} {offset:#x}"
            );
        }
        // A zero page has no address, and none of its pieces has one.
        host.write64(entry, large.with_zero(true).with_address((1 << 52) - 4096).into_bits());
        host.command(Command::InvalidateTlb, space.root.into_bits(), 0, 0);
        host.submit(&mut queue, &[fill(base + data - target, 7), fill(base + size - 4, 7)]);
        assert_eq!(host.read(vram(data), 4), 1u32.to_le_bytes());
        host.write64(entry, large.with_address(target | PAGE_4K).into_bits());
        host.command(Command::InvalidateTlb, space.root.into_bits(), 0, 0);
        host.submit(&mut queue, &[fill(base + size - 4, 1)]);
        let (address, info) = host.fault_of(&queue);
        assert_eq!((address, info.kind()), (base + size - 4, FaultKind::PageFault as u8));
        assert_eq!(u32::from(info.level()), level);
    }
}

#[test]
fn copies_cross_pages_that_are_scattered() {
    let (mut host, space, mut queue) = one_queue();
    let from = host.take_ram(64 << 10);
    let to = host.take_vram(64 << 10, 4096);
    for page in 0..16u64 {
        host.map(space, VA + page * 4096, ram(from + (page * 7 % 16) * 4096), 4096);
        host.map(space, VA + 0x10_0000 + page * 4096, vram(to + (page * 5 % 16) * 4096), 4096);
    }
    let data: Vec<u8> = (0..64u32 << 10).map(|index| (index / 7) as u8).collect();
    for page in 0..16u64 {
        let start = page as usize * 4096;
        host.write(ram(from + (page * 7 % 16) * 4096), &data[start..start + 4096]);
    }
    host.submit(&mut queue, &[copy(VA + 10, VA + 0x10_0000 + 3, 60_000)]);
    let mut result = Vec::new();
    for page in 0..16u64 {
        result.extend(host.read(vram(to + (page * 5 % 16) * 4096), 4096));
    }
    assert_eq!(result[3..60_003], data[10..60_010]);
}

/// Faults that a changed leaf entry causes for a write of 4 bytes.
fn fault_after(page: u64, change: impl FnOnce(Pte) -> Pte) -> (u64, FaultInfo) {
    let (mut host, space, mut queue) = one_queue();
    let at = host.take_vram(page, page);
    host.map_pages(space, VA, vram(at), page, page, Pte::new());
    let leaf = host.leaf(space, VA, page);
    let entry = change(Pte::from_bits(host.read64(leaf)));
    host.write64(leaf, entry.into_bits());
    host.submit(&mut queue, &[fill(VA + 8, 1)]);
    host.fault_of(&queue)
}

#[test]
fn leaves_that_break_a_rule_fault_with_their_level() {
    type Change = fn(Pte) -> Pte;
    let changes: [(u64, u8, Change); 10] = [
        (PAGE_4K, 0, |entry| entry.with_valid(false)),
        (PAGE_4K, 0, |entry| Pte::from_bits(entry.into_bits() | 1 << 52)),
        (PAGE_4K, 0, |entry| Pte::from_bits(entry.into_bits() | 1 << 63)),
        (PAGE_4K, 0, |entry| entry.with_large(true)),
        (PAGE_4K, 0, |entry| entry.with_leaf_64k(true)),
        (PAGE_64K, 0, |entry| entry.with_address(entry.address() + 4096)),
        (PAGE_64K, 0, |entry| entry.with_valid(false)),
        (PAGE_2M, 1, |entry| entry.with_address(entry.address() + 4096)),
        (PAGE_2M, 1, |entry| entry.with_leaf_64k(true)),
        (PAGE_2M, 1, |entry| entry.with_valid(false)),
    ];
    for (index, (page, level, change)) in changes.into_iter().enumerate() {
        let (address, info) = fault_after(page, change);
        assert_eq!(address, VA + 8, "case {index}");
        assert_eq!((info.kind(), info.level()), (FaultKind::PageFault as u8, level), "case {index}");
        assert!(info.write());
        assert_eq!(info.entry(), 0, "the first ring entry");
    }
}

#[test]
fn directory_entries_that_break_a_rule_fault_with_their_level() {
    type Change = fn(Pte) -> Pte;
    let changes: [Change; 7] = [
        |entry| entry.with_valid(false),
        |entry| entry.with_zero(true),
        |entry| entry.with_read_only(true),
        |entry| entry.with_coherent(true),
        |entry| entry.with_no_execute(true),
        |entry| Pte::from_bits(entry.into_bits() | 1 << 55),
        |entry| entry.with_large(true).with_leaf_64k(true),
    ];
    for (case, change) in changes.into_iter().enumerate() {
        for level in 1..=3u32 {
            let (mut host, space, mut queue) = one_queue();
            host.map_new_ram(space, VA, 4096);
            let mut table = space.root;
            for above in (level + 1..=3).rev() {
                let at = table.address() + index(VA, above) * 8;
                table = vram(Pte::from_bits(host.read64(vram(at))).address());
            }
            let at = vram(table.address() + index(VA, level) * 8);
            host.write64(at, change(Pte::from_bits(host.read64(at))).into_bits());
            host.submit(&mut queue, &[copy(VA, VA, 4)]);
            let (_, info) = host.fault_of(&queue);
            assert_eq!(u32::from(info.level()), level, "case {case}");
            assert_eq!(info.kind(), FaultKind::PageFault as u8);
            assert!(!info.write(), "reading the source comes first");
        }
    }
}

/// Entries of one table on the way to `VA`, with `bit` turned over where the first access comes by.
fn kind_with_bit(page: u64, level: u32, bit: u32) -> Option<u8> {
    let (mut host, space, mut queue) = one_queue();
    let at = host.take_vram(page, page);
    host.map_pages(space, VA, vram(at), page, page, Pte::new());
    let mut table = space.root;
    for above in (level + 1..=3).rev() {
        let at = table.address() + index(VA, above) * 8;
        table = vram(Pte::from_bits(host.read64(vram(at))).address());
    }
    let at = vram(table.address() + index(VA, level) * 8);
    let entry = host.read64(at);
    assert_eq!(entry & 1 << bit, 0, "bit {bit} at level {level}");
    host.write64(at, entry | 1 << bit);
    host.submit(&mut queue, &[copy(VA, VA, 4)]);
    host.events().first().map(|event| FaultInfo::from_bits(event.data1).kind())
}

#[test]
fn a_bit_that_the_table_of_valid_bits_does_not_name_faults_and_no_other_does() {
    let page_fault = Some(FaultKind::PageFault as u8);
    // Where the frame lies and what valid and the kinds of page do is tried elsewhere.
    let apart = |bit: u32| !(matches!(bit, 0 | 5 | 6 | 7) || (12..52).contains(&bit));
    for bit in (0..64).filter(|bit| apart(*bit)) {
        for level in 1..=3 {
            let legal = directory_bits(level) & 1 << bit != 0;
            assert_eq!(kind_with_bit(PAGE_4K, level, bit) == page_fault, !legal, "directory, level {level}, bit {bit}");
        }
        for (page, level) in [(PAGE_4K, 0), (PAGE_2M, 1)] {
            let legal = leaf_bits(level) & 1 << bit != 0;
            assert_eq!(kind_with_bit(page, level, bit) == page_fault, !legal, "leaf, level {level}, bit {bit}");
        }
    }
}

#[test]
fn a_zero_page_that_is_read_only_reads_as_zero_and_faults_when_written() {
    let (mut host, space, mut queue) = one_queue();
    let to = host.map_new_ram(space, VA + 0x1_0000, 4096);
    let leaf = host.leaf(space, VA, PAGE_4K);
    host.write64(leaf, Pte::new().with_valid(true).with_zero(true).with_read_only(true).into_bits());
    host.write64(to, u64::MAX);
    host.submit(&mut queue, &[copy(VA, VA + 0x1_0000, 8)]);
    assert_eq!(host.read64(to), 0);
    host.submit(&mut queue, &[fill(VA, 1)]);
    let (address, info) = host.fault_of(&queue);
    assert_eq!((address, info.kind(), info.write()), (VA, FaultKind::ReadOnly as u8, true));
}

#[test]
fn addresses_beyond_48_bits_cannot_be_named_by_a_packet_but_by_nothing_else_either() {
    let (mut host, _, mut queue) = one_queue();
    let entry = campanile_hw::queue::RingEntry { commands: 1 << 48, size: 16, flags: 0, tag: 0, root: 0 };
    host.write_entry(&mut queue, &entry);
    host.ring(&queue);
    host.run();
    assert_eq!(host.fault_of(&queue).1.kind(), FaultKind::BadRingEntry as u8);
}

#[test]
fn read_only_pages_can_be_read_and_not_written() {
    for page in [PAGE_4K, PAGE_64K, PAGE_2M] {
        let (mut host, space, mut queue) = one_queue();
        let at = host.take_vram(page, page);
        host.map_pages(space, VA, vram(at), page, page, Pte::new().with_read_only(true));
        let out = host.map_new_ram(space, VA + (1 << 30), 4096);
        host.write64(vram(at), 99);
        host.submit(&mut queue, &[copy(VA, VA + (1 << 30), 8)]);
        assert_eq!(host.read64(out), 99);
        host.submit(&mut queue, &[Packet::Timestamp(Timestamp { destination: VA })]);
        let (address, info) = host.fault_of(&queue);
        assert_eq!((address, info.kind(), info.level()), (VA, FaultKind::ReadOnly as u8, 0));
        assert!(info.write());
        assert_eq!(host.read64(vram(at)), 99);
        assert_eq!(info.entry(), 1, "the second ring entry");
    }
}

#[test]
fn zero_pages_read_as_zero_and_drop_writes() {
    for page in [PAGE_4K, PAGE_64K, PAGE_2M] {
        let (mut host, space, mut queue) = one_queue();
        // The address of a zero page means nothing: here it is misaligned and leads nowhere.
        let leaf = host.leaf(space, VA, page);
        let entry =
            Pte::new().with_valid(true).with_zero(true).with_large(page == PAGE_2M).with_address(0xf_ffff_ffff_f000);
        host.write64(leaf, entry.into_bits());
        let out = host.map_new_ram(space, VA + (1 << 30), 4096);
        host.write64(out, u64::MAX);
        let signal = Signal { handle: 0, current: VA + 64, monitored: 0, value: 3 };
        host.submit(&mut queue, &[fill(VA, 7), Packet::Signal(signal), copy(VA, VA + (1 << 30), 8)]);
        assert_eq!(host.read64(out), 0);
        assert_eq!(host.state(&queue), 0);
    }
}

#[test]
fn translations_that_lead_nowhere_fault_with_the_physical_address() {
    for target in [vram(crate::host::VRAM_SIZE), vram(0xf_ffff_ffff_f000), ram(0x1000), ram(0xf_ffff_ffff_f000)] {
        let (mut host, space, mut queue) = one_queue();
        host.map(space, VA, target, 4096);
        host.submit(&mut queue, &[fill(VA + 16, 1)]);
        let (address, info) = host.fault_of(&queue);
        assert_eq!((address, info.kind()), (target.address() + 16, FaultKind::BadPhysical as u8));
        assert!(info.write());
    }
}

#[test]
fn page_tables_may_lie_in_system_memory() {
    let (mut host, _, _) = one_queue();
    let tables: Vec<u64> = (0..4).map(|_| host.take_ram(4096)).collect();
    let out = host.take_ram(4096);
    for (level, pair) in (1..=3u32).rev().zip(tables.windows(2)) {
        let entry = Pte::new().with_valid(true).with_system(true).with_address(pair[1]);
        host.write64(ram(pair[0] + index(VA, level) * 8), entry.into_bits());
    }
    let leaf = Pte::new().with_valid(true).with_system(true).with_address(out);
    host.write64(ram(tables[3] + index(VA, 0) * 8), leaf.into_bits());
    // Ring and control of this queue are physical; only its packets use the tables.
    let space = Space { root: ram(tables[0]) };
    let (ring, control) = (ram(host.take_ram(4096)), ram(host.take_ram(4096)));
    let descriptor = campanile_hw::queue::QueueDescriptor {
        ring: ring.into_bits(),
        control: control.into_bits(),
        root: space.root.into_bits(),
        progress_current: VA,
        ring_entries: 64,
        flags: 0b11,
        node: 2,
        rank: 3,
        ..campanile_hw::queue::QueueDescriptor::ZERO
    };
    host.write_descriptor(9, &descriptor);
    host.write(
        ram(out + 64),
        &crate::host::encode(&[Packet::Progress(campanile_hw::packet::Progress { handle: 0, value: 11 })]),
    );
    let entry = campanile_hw::queue::RingEntry { commands: VA + 64, size: 16, flags: 0, tag: 0, root: 0 };
    host.write(ring, &entry.to_bytes());
    host.write64(control, 1);
    host.command(Command::MapQueue, 9, 0, 0);
    host.run();
    assert_eq!(host.read64(ram(out)), 11);
}

/// Two pages and a queue whose TLB knows that `VA` is the first.
fn warm() -> (Host, Space, TestQueue, [Location; 2], Location) {
    let (mut host, space, mut queue) = one_queue();
    let first = host.map_new_ram(space, VA, 4096);
    let second = ram(host.take_ram(4096));
    host.submit(&mut queue, &[fill(VA, 1)]);
    assert_eq!(host.read64(first), 1);
    let leaf = host.leaf(space, VA, PAGE_4K);
    let entry = Pte::new().with_valid(true).with_system(true).with_address(second.address());
    host.write64(leaf, entry.into_bits());
    (host, space, queue, [first, second], leaf)
}

#[test]
fn stale_translations_are_used_until_they_are_invalidated() {
    let (host, space, mut queue, [first, second], _) = warm();
    host.submit(&mut queue, &[fill(VA, 2)]);
    assert_eq!((host.read64(first), host.read64(second)), (2, 0), "the TLB still knows the old page");
    host.command(Command::InvalidateTlb, space.root.into_bits(), VA, VA + 4096);
    host.submit(&mut queue, &[fill(VA, 3)]);
    assert_eq!((host.read64(first), host.read64(second)), (2, 3));
}

#[test]
fn invalidation_is_limited_to_its_range_and_address_space() {
    let (mut host, space, mut queue, [first, second], _) = warm();
    let other = host.space();
    let root = space.root.into_bits();
    host.command(Command::InvalidateTlb, other.root.into_bits(), 0, 0);
    host.command(Command::InvalidateTlb, root, 0, VA);
    host.command(Command::InvalidateTlb, root, VA + 4096, 1 << 48);
    host.command(Command::InvalidateTlb, root, VA, VA);
    host.submit(&mut queue, &[fill(VA, 2)]);
    assert_eq!((host.read64(first), host.read64(second)), (2, 0));
    host.command(Command::InvalidateTlb, root, 0, 0);
    host.submit(&mut queue, &[fill(VA, 3)]);
    assert_eq!((host.read64(first), host.read64(second)), (2, 3));
}

#[test]
fn invalidation_reaches_every_node_and_page_size() {
    for page in [PAGE_4K, PAGE_64K, PAGE_2M] {
        let (mut host, space, mut compute) = one_queue();
        let mut transfer = host.queue(1, space, NODE_COPY);
        let (first, second) = (host.take_vram(page, page), host.take_vram(page, page));
        host.map_pages(space, VA, vram(first), page, page, Pte::new());
        host.submit(&mut compute, &[fill(VA, 1)]);
        host.submit(&mut transfer, &[fill(VA + 4, 1)]);
        host.map_pages(space, VA, vram(second), page, page, Pte::new());
        // One byte in the middle of the page is enough.
        host.command(Command::InvalidateTlb, space.root.into_bits(), VA + page / 2, VA + page / 2 + 1);
        host.submit(&mut compute, &[fill(VA, 2)]);
        host.submit(&mut transfer, &[fill(VA + 4, 2)]);
        assert_eq!(host.read64(vram(first)), 1 << 32 | 1);
        assert_eq!(host.read64(vram(second)), 2 << 32 | 2);
    }
}

#[test]
fn what_was_not_mapped_is_never_remembered() {
    let (mut host, space, _) = one_queue();
    host.map_new_ram(space, VA + (1 << 20), 4096);
    for number in 1..4u32 {
        let mut queue = host.queue(number, space, NODE_COMPUTE);
        host.submit(&mut queue, &[fill(VA, 1)]);
        assert_eq!(host.fault_of(&queue).1.kind(), FaultKind::PageFault as u8);
    }
    let at = host.map_new_ram(space, VA, 4096);
    let mut queue = host.queue(5, space, NODE_COMPUTE);
    host.submit(&mut queue, &[fill(VA, 6)]);
    assert_eq!(host.read64(at), 6);
}

#[test]
fn equal_addresses_of_two_address_spaces_are_kept_apart() {
    let (mut host, first, mut one) = one_queue();
    let second = host.space();
    let mut two = host.queue(1, second, NODE_COMPUTE);
    let (at_first, at_second) = (host.map_new_ram(first, VA, 4096), host.map_new_ram(second, VA, 4096));
    for round in 1..4 {
        host.submit(&mut one, &[fill(VA, round)]);
        host.submit(&mut two, &[fill(VA, round + 100)]);
        assert_eq!(host.read64(at_first), u64::from(round));
        assert_eq!(host.read64(at_second), u64::from(round + 100));
    }
}

#[test]
fn the_part_of_a_copy_before_a_fault_is_done() {
    let (mut host, space, mut queue) = one_queue();
    let from = host.map_new_ram(space, VA, 8192);
    let to = host.map_new_ram(space, VA + (1 << 20), 4096);
    host.write(from, &[0xab; 8192]);
    host.submit(&mut queue, &[copy(VA, VA + (1 << 20), 8192)]);
    let (address, info) = host.fault_of(&queue);
    assert_eq!((address, info.write()), (VA + (1 << 20) + 4096, true));
    assert_eq!(host.read(to, 4096), [0xab; 4096]);
}

#[test]
fn system_memory_taken_away_faults_and_comes_back() {
    let (mut host, space, mut queue) = one_queue();
    let at = ram(host.take_ram(4096));
    host.map(space, VA, at, 4096);
    host.submit(&mut queue, &[fill(VA, 1)]);
    host.gpu.unmap_dma(at.address(), 4096);
    host.submit(&mut queue, &[fill(VA, 2)]);
    let (address, info) = host.fault_of(&queue);
    assert_eq!((address, info.kind()), (at.address(), FaultKind::BadPhysical as u8));
    assert_eq!(host.read64(at), 1);
    let offset = at.address() - crate::host::RAM_BASE;
    host.gpu.map_dma(at.address(), &host.ram, offset, 4096, false).expect("mapped again");
    let mut queue = host.queue(1, space, NODE_COMPUTE);
    host.submit(&mut queue, &[fill(VA, 3)]);
    assert_eq!(host.fault_of(&queue).1.kind(), FaultKind::BadPhysical as u8, "mapped for reading only");
}
