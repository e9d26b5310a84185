//! What every packet does, and every rule that one can break.

use crate::host::{Host, TestQueue, encode, ram, small_variant, vram};
use campanile_device::Variant;
use campanile_hw::event::FaultKind;
use campanile_hw::packet::{
    BadPacket, COPY_MAX, Copy, FILL_MAX, Fill, Header, Nop, PACKETS, Packet, Progress, Signal, Timestamp, Wait,
};
use campanile_hw::page_table::{PAGE_2M, Pte};
use campanile_hw::registers::{self as reg, NODE_COMPUTE, NODE_COPY};

/// A host with one queue that has 1 MiB of system memory at 1 MiB and 4 MiB of VRAM at 16 MiB.
fn one_queue() -> (Host, TestQueue) {
    let mut host = Host::new();
    let space = host.space();
    let queue = host.queue(0, space, NODE_COMPUTE);
    host.map_new_ram(space, 0x10_0000, 1 << 20);
    let target = host.take_vram(4 << 20, 4096);
    host.map(space, 0x100_0000, vram(target), 4 << 20);
    (host, queue)
}

fn physical(host: &Host, queue: &TestQueue, va: u64) -> campanile_hw::queue::Location {
    // The helper maps linearly, so the leaf of the first page is enough.
    let mut table = queue.space.root;
    for level in (1..=3).rev() {
        let at = table.with_address(table.address() + campanile_hw::page_table::index(va, level) * 8);
        table = vram(Pte::from_bits(host.read64(at)).address());
    }
    let at = table.with_address(table.address() + campanile_hw::page_table::index(va, 0) * 8);
    let entry = Pte::from_bits(host.read64(at));
    let address = entry.address() + va % 4096;
    if entry.system() { ram(address) } else { vram(address) }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add((index >> 8) as u8) ^ seed).collect()
}

const SYSTEM: u64 = 0x10_0000;
const VIDEO: u64 = 0x100_0000;

#[test]
fn nop_does_nothing_and_the_buffer_retires() {
    let (mut host, mut queue) = one_queue();
    host.submit(&mut queue, &[Packet::Nop(Nop {}), Packet::Nop(Nop {})]);
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 1);
    assert_eq!(host.read_pointer(&queue), 1);
    assert_eq!(host.state(&queue), 0);
    assert!(host.events().is_empty());
}

#[test]
fn a_buffer_without_packets_retires() {
    let (host, mut queue) = one_queue();
    host.submit(&mut queue, &[]);
    assert_eq!(host.get(reg::COUNT_RETIRED, 8), 1);
    assert_eq!(host.read_pointer(&queue), 1);
}

#[test]
fn copy_moves_bytes_of_any_alignment_between_memories() {
    let (host, mut queue) = one_queue();
    for (from, to, len) in
        [(SYSTEM, VIDEO + 1, 1), (SYSTEM + 5, VIDEO + 4093, 9000), (VIDEO + 4090, SYSTEM + 0x8003, 70_001)]
    {
        let data = pattern(len as usize, len as u8);
        host.write(physical(&host, &queue, from), &data);
        let before = host.read(physical(&host, &queue, to - 1), len as usize + 2);
        host.submit(
            &mut queue,
            &[Packet::Copy(Copy {
                source: from,
                destination: to,
                row_bytes: len,
                rows: 1,
                source_pitch: 0,
                destination_pitch: 0,
            })],
        );
        let after = host.read(physical(&host, &queue, to - 1), len as usize + 2);
        assert_eq!(&after[1..=len as usize], data);
        assert_eq!((after[0], after[len as usize + 1]), (before[0], before[len as usize + 1]), "neighbours");
    }
}

#[test]
fn copy_with_pitches_transposes_a_matrix_of_blocks() {
    let (host, mut queue) = one_queue();
    let (rows, columns, block) = (64usize, 32usize, 64usize);
    let data = pattern(rows * columns * block, 9);
    host.write(physical(&host, &queue, SYSTEM), &data);
    let packets: Vec<Packet> = (0..columns as u64)
        .map(|column| {
            Packet::Copy(Copy {
                source: SYSTEM + column * block as u64,
                destination: VIDEO + column * (rows * block) as u64,
                row_bytes: block as u32,
                rows: rows as u32,
                source_pitch: (columns * block) as u32,
                destination_pitch: block as u32,
            })
        })
        .collect();
    host.submit(&mut queue, &packets);
    let result = host.read(physical(&host, &queue, VIDEO), data.len());
    for row in 0..rows {
        for column in 0..columns {
            let from = (row * columns + column) * block;
            let to = (column * rows + row) * block;
            assert_eq!(result[to..to + block], data[from..from + block], "block {row},{column}");
        }
    }
}

#[test]
fn copy_runs_in_order_so_a_run_can_read_what_an_earlier_one_wrote() {
    let (host, mut queue) = one_queue();
    host.write(physical(&host, &queue, SYSTEM), &pattern(16, 3));
    host.submit(
        &mut queue,
        &[Packet::Copy(Copy {
            source: SYSTEM,
            destination: SYSTEM + 16,
            row_bytes: 16,
            rows: 100,
            source_pitch: 16,
            destination_pitch: 16,
        })],
    );
    let all = host.read(physical(&host, &queue, SYSTEM), 16 * 101);
    assert!(all.chunks(16).all(|run| run == pattern(16, 3)));
}

#[test]
fn a_copy_too_large_for_caches_moves_the_same_bytes_in_the_same_order() {
    let (mut host, queue) = one_queue();
    let mut queue = queue;
    let (row_bytes, rows, source_pitch, destination_pitch) = (4100usize, 4200usize, 5usize, 3usize);
    assert!(row_bytes * rows > 16 << 20);
    let input = pattern(row_bytes + rows * source_pitch, 9);
    host.write(physical(&host, &queue, SYSTEM + 3), &input);
    let mut expected = vec![0u8; row_bytes + rows * destination_pitch + 16];
    for row in 0..rows {
        let bytes = &input[row * source_pitch..][..row_bytes];
        expected[7 + row * destination_pitch..][..row_bytes].copy_from_slice(bytes);
    }
    host.submit(
        &mut queue,
        &[Packet::Copy(Copy {
            source: SYSTEM + 3,
            destination: VIDEO + 7,
            row_bytes: row_bytes as u32,
            rows: rows as u32,
            source_pitch: source_pitch as u32,
            destination_pitch: destination_pitch as u32,
        })],
    );
    assert!(host.events().is_empty());
    assert!(host.read(physical(&host, &queue, VIDEO), expected.len()) == expected);
}

#[test]
fn fill_writes_the_pattern_and_nothing_else() {
    let (host, mut queue) = one_queue();
    for (pattern, size) in [(0xdead_beefu32, 4u64), (0, 64), (0x0101_0101, 8192), (0x1234_5678, 70_004)] {
        let at = VIDEO + 4092;
        host.write(physical(&host, &queue, VIDEO), &vec![0x55; 100_000]);
        host.submit(&mut queue, &[Packet::Fill(Fill { destination: at, size, pattern })]);
        let bytes = host.read(physical(&host, &queue, VIDEO), 100_000);
        let end = 4092 + size as usize;
        assert!(bytes[..4092].iter().chain(&bytes[end..]).all(|byte| *byte == 0x55));
        assert!(bytes[4092..end].chunks(4).all(|word| word == pattern.to_le_bytes()));
    }
}

#[test]
fn a_fill_too_large_for_caches_writes_the_pattern_and_nothing_else() {
    const BLOCKS: u64 = 18;
    let (mut host, queue) = one_queue();
    let mut queue = queue;
    let base = 0x40_0000_0000;
    let blocks = [0; 3].map(|_| vram(host.take_vram(PAGE_2M, PAGE_2M)));
    for index in 0..BLOCKS {
        // Between the first and the last the same memory over and over.
        let block = blocks[(index != 0) as usize + (index == BLOCKS - 1) as usize];
        host.map_pages(queue.space, base + index * PAGE_2M, block, PAGE_2M, PAGE_2M, Pte::new());
    }
    for (skip, left) in [(4092, 8), (64, 60), (4100, 4096)] {
        for block in blocks {
            host.write(block, &vec![0x55; PAGE_2M as usize]);
        }
        let size = BLOCKS * PAGE_2M - skip - left;
        let word = 0x1234_5678u32;
        host.submit(&mut queue, &[Packet::Fill(Fill { destination: base + skip, size, pattern: word })]);
        assert!(host.events().is_empty());
        let bytes = blocks.map(|block| host.read(block, PAGE_2M as usize));
        let (before, first) = bytes[0].split_at(skip as usize);
        let (last, after) = bytes[2].split_at((PAGE_2M - left) as usize);
        assert!(before.iter().chain(after).all(|byte| *byte == 0x55), "neighbours of {skip}, {left}");
        let filled = [first, &bytes[1], last].concat();
        assert!(
            filled.iter().zip(word.to_le_bytes().iter().cycle()).all(|(byte, word)| byte == word),
            "{skip}, {left}"
        );
    }
}

#[test]
fn timestamp_writes_the_gpu_clock() {
    let (host, mut queue) = one_queue();
    let before = host.get(reg::TIMESTAMP, 8);
    host.submit(
        &mut queue,
        &[
            Packet::Timestamp(Timestamp { destination: SYSTEM }),
            Packet::Timestamp(Timestamp { destination: SYSTEM + 8 }),
        ],
    );
    let first = host.read64(physical(&host, &queue, SYSTEM));
    let second = host.read64(physical(&host, &queue, SYSTEM + 8));
    assert!(before <= first && first <= second && second <= host.get(reg::TIMESTAMP, 8));
}

#[test]
fn packets_take_effect_in_order() {
    let (host, mut queue) = one_queue();
    let fill = |pattern| Packet::Fill(Fill { destination: SYSTEM, size: 4, pattern });
    let copy = |slot: u64| {
        Packet::Copy(Copy {
            source: SYSTEM,
            destination: SYSTEM + 4 * slot,
            row_bytes: 4,
            rows: 1,
            source_pitch: 0,
            destination_pitch: 0,
        })
    };
    let packets: Vec<Packet> = (1..100u32).flat_map(|slot| [fill(slot), copy(u64::from(slot))]).collect();
    host.submit(&mut queue, &packets);
    let bytes = host.read(physical(&host, &queue, SYSTEM), 400);
    assert!(bytes.chunks(4).skip(1).zip(1u32..).all(|(word, slot)| word == slot.to_le_bytes()));
}

#[test]
fn a_packet_may_cross_a_page_and_the_window_of_the_fetcher() {
    let (host, mut queue) = one_queue();
    // 16-byte packets first, so that a 48-byte one starts 16 bytes before the page ends.
    let mut packets = vec![Packet::Nop(Nop {}); 255];
    packets.push(Packet::Copy(Copy {
        source: SYSTEM,
        destination: VIDEO,
        row_bytes: 8,
        rows: 1,
        source_pitch: 0,
        destination_pitch: 0,
    }));
    packets.extend(vec![Packet::Fill(Fill { destination: VIDEO + 8, size: 4, pattern: 5 }); 300]);
    host.write64(physical(&host, &queue, SYSTEM), 0x77);
    host.submit(&mut queue, &packets);
    assert_eq!(host.read64(physical(&host, &queue, VIDEO)), 0x77);
    assert_eq!(host.read64(physical(&host, &queue, VIDEO + 8)), 5);
}

#[test]
fn a_long_copy_is_done_in_slices_and_other_nodes_go_on() {
    let (mut host, mut queue) = one_queue();
    let mut other = host.queue(1, queue.space, NODE_COPY);
    let copy = Copy {
        source: VIDEO,
        destination: VIDEO + (2 << 20),
        row_bytes: 2 << 20,
        rows: 8,
        source_pitch: 0,
        destination_pitch: 0,
    };
    host.write_packets(&mut queue, &[Packet::Copy(copy)]);
    host.write_packets(&mut other, &[Packet::Nop(Nop {})]);
    host.ring(&queue);
    host.ring(&other);
    let mut steps = 0;
    while host.get(reg::COUNT_RETIRED, 8) == 0 {
        assert!(host.gpu.step());
        steps += 1;
    }
    assert_eq!(host.read_pointer(&other), 1, "the short one is done first");
    assert_eq!(host.read_pointer(&queue), 0);
    steps += host.run();
    assert!(steps >= 8, "16 MiB in slices of 2 MiB, took {steps} steps");
    assert_eq!(host.read_pointer(&queue), 1);
}

/// Runs raw bytes as a command buffer and returns the rule they break.
fn rule_of(bytes: &[u8]) -> Option<u8> {
    let (mut host, mut queue) = one_queue();
    let at = queue.commands;
    host.write_raw(&mut queue, bytes);
    host.ring(&queue);
    host.run();
    if host.state(&queue) != 5 {
        return None;
    }
    let (address, info) = host.fault_of(&queue);
    assert_eq!(info.kind(), FaultKind::BadPacket as u8);
    assert_eq!(address, at, "the address of the packet");
    Some(info.rule())
}

fn with_header(packet: Packet, change: impl FnOnce(Header) -> Header) -> Vec<u8> {
    let mut bytes = encode(&[packet]);
    let header = Header::from_bits(u64::from_le_bytes(bytes[..8].try_into().unwrap()));
    bytes[..8].copy_from_slice(&change(header).into_bits().to_le_bytes());
    bytes
}

#[test]
fn unknown_opcodes_fault() {
    for opcode in (0..=255u8).filter(|opcode| PACKETS.iter().all(|packet| packet.opcode != *opcode)).step_by(16) {
        let bytes = with_header(Packet::Nop(Nop {}), |header| header.with_opcode(opcode));
        assert_eq!(rule_of(&bytes), Some(BadPacket::Opcode as u8), "{opcode:#x}");
    }
}

#[test]
fn wrong_lengths_fault() {
    for (packet, length) in [
        (Packet::Nop(Nop {}), 0),
        (Packet::Nop(Nop {}), 2),
        (Packet::Signal(Signal { handle: 0, current: SYSTEM, monitored: 0, value: 1 }), 1),
        (Packet::Signal(Signal { handle: 0, current: SYSTEM, monitored: 0, value: 1 }), 255),
    ] {
        let bytes = with_header(packet, |header| header.with_length(length));
        assert_eq!(rule_of(&bytes), Some(BadPacket::Length as u8));
    }
}

#[test]
fn packets_cut_off_by_the_end_of_the_buffer_fault() {
    let signal = encode(&[Packet::Signal(Signal { handle: 0, current: SYSTEM, monitored: 0, value: 1 })]);
    assert_eq!(rule_of(&signal[..16]), Some(BadPacket::Truncated as u8));
}

#[test]
fn reserved_bits_fault() {
    let nop = Packet::Nop(Nop {});
    assert_eq!(rule_of(&with_header(nop, |header| header.with_must_be_zero(1))), Some(BadPacket::Reserved as u8));
    assert_eq!(rule_of(&with_header(nop, |header| header.with_fence_handle(1))), Some(BadPacket::Reserved as u8));
}

fn bytes_of(source: u64, destination: u64, row_bytes: u32) -> Copy {
    Copy { source, destination, row_bytes, rows: 1, source_pitch: 0, destination_pitch: 0 }
}

#[test]
fn bytes_that_a_packet_does_not_name_fault() {
    for (packet, unnamed) in [
        (Packet::Nop(Nop {}), 8..16),
        (Packet::Copy(bytes_of(SYSTEM, VIDEO, 16)), 40..48),
        (Packet::Fill(Fill { destination: VIDEO, size: 16, pattern: 1 }), 28..32),
        (Packet::Wait(Wait { handle: 0, current: SYSTEM, value: 0 }), 24..32),
    ] {
        assert_eq!(rule_of(&encode(&[packet])), None, "{packet:?}");
        for byte in unnamed {
            let mut bytes = encode(&[packet]);
            bytes[byte] = 0x10;
            assert_eq!(rule_of(&bytes), Some(BadPacket::Reserved as u8), "byte {byte} of {packet:?}");
        }
    }
}

#[test]
fn misaligned_addresses_and_sizes_fault() {
    for packet in [
        Packet::Fill(Fill { destination: VIDEO + 2, size: 4, pattern: 0 }),
        Packet::Fill(Fill { destination: VIDEO, size: 6, pattern: 0 }),
        Packet::Signal(Signal { handle: 0, current: SYSTEM + 4, monitored: 0, value: 1 }),
        Packet::Signal(Signal { handle: 0, current: SYSTEM, monitored: SYSTEM + 9, value: 1 }),
        Packet::Wait(Wait { handle: 0, current: SYSTEM + 1, value: 0 }),
        Packet::Timestamp(Timestamp { destination: SYSTEM + 4 }),
    ] {
        assert_eq!(rule_of(&encode(&[packet])), Some(BadPacket::Alignment as u8), "{packet:?}");
    }
}

#[test]
fn empty_oversized_and_runaway_ranges_fault() {
    let copy = |source, row_bytes, rows, source_pitch| {
        Packet::Copy(Copy { source, destination: VIDEO, row_bytes, rows, source_pitch, destination_pitch: 0 })
    };
    for packet in [
        copy(SYSTEM, 0, 1, 0),
        copy(SYSTEM, 1, 0, 0),
        copy(SYSTEM, 1, COPY_MAX as u32 + 1, 0),
        copy(SYSTEM, u32::MAX, u32::MAX, u32::MAX),
        copy((1 << 48) - 1, 2, 1, 0),
        copy((1 << 48) - 8, 8, 2, 8),
        copy(u64::MAX, 1, 1, 0),
        Packet::Fill(Fill { destination: VIDEO, size: 0, pattern: 0 }),
        Packet::Fill(Fill { destination: VIDEO, size: FILL_MAX + 4, pattern: 0 }),
        Packet::Fill(Fill { destination: (1 << 48) - 4, size: 8, pattern: 0 }),
        Packet::Signal(Signal { handle: 0, current: 1 << 48, monitored: 0, value: 1 }),
        Packet::Signal(Signal { handle: 0, current: SYSTEM, monitored: u64::MAX - 7, value: 1 }),
        Packet::Wait(Wait { handle: 0, current: 1 << 60, value: 0 }),
        Packet::Timestamp(Timestamp { destination: 1 << 48 }),
    ] {
        assert_eq!(rule_of(&encode(&[packet])), Some(BadPacket::Range as u8), "{packet:?}");
    }
}

#[test]
fn a_bad_packet_has_no_effect_and_the_ones_before_it_have() {
    let (mut host, mut queue) = one_queue();
    let fill = |at, pattern| Packet::Fill(Fill { destination: SYSTEM + at, size: 4, pattern });
    let mut bytes = encode(&[fill(0, 1), fill(8, 2), fill(16, 3)]);
    bytes[32 + 2] = 1;
    let second = queue.commands + 32;
    host.write_raw(&mut queue, &bytes);
    host.ring(&queue);
    host.run();
    let (address, info) = host.fault_of(&queue);
    assert_eq!((address, info.rule()), (second, BadPacket::Reserved as u8));
    let values = [0, 8, 16].map(|at| host.read64(physical(&host, &queue, SYSTEM + at)));
    assert_eq!(values, [1, 0, 0]);
    assert_eq!(host.read_pointer(&queue), 0);
}

#[test]
fn progress_on_a_queue_without_a_progress_fence_is_a_bad_packet() {
    assert_eq!(rule_of(&encode(&[Packet::Progress(Progress { handle: 0, value: 1 })])), Some(BadPacket::Opcode as u8));
}

#[test]
fn silicon_without_native_fences_knows_no_wait_and_no_monitored_value() {
    let mut host = Host::with(&Variant { native_fence: false, ..small_variant() });
    let space = host.space();
    let fence = host.map_new_ram(space, SYSTEM, 4096);
    let mut plain = host.queue(0, space, NODE_COMPUTE);
    host.submit(&mut plain, &[Packet::Signal(Signal { handle: 0, current: SYSTEM, monitored: 0, value: 5 })]);
    assert_eq!(host.read64(fence), 5);
    for (number, packet) in [
        (1, Packet::Wait(Wait { handle: 0, current: SYSTEM, value: 0 })),
        (2, Packet::Signal(Signal { handle: 0, current: SYSTEM, monitored: SYSTEM + 8, value: 6 })),
    ] {
        let mut queue = host.queue(number, space, NODE_COMPUTE);
        host.submit(&mut queue, &[packet]);
        let (_, info) = host.fault_of(&queue);
        assert_eq!(info.rule(), BadPacket::Opcode as u8);
    }
    assert_eq!(host.read64(fence), 5);
}

#[test]
fn silicon_without_64_bit_atomics_writes_low_halves_and_has_no_waits() {
    let mut host = Host::with(&Variant { atomics64: false, ..small_variant() });
    let space = host.space();
    let fence = host.map_new_ram(space, SYSTEM, 4096);
    let mut queue = host.queue(0, space, NODE_COMPUTE);
    let signal = |value| Packet::Signal(Signal { handle: 0, current: SYSTEM, monitored: 0, value });
    host.write64(fence, 0x5_0000_0001);
    host.submit(&mut queue, &[signal(0x1234_5678_1abc_def0)]);
    assert_eq!(host.read64(fence), 0x5_1abc_def0);
    // Through the wrap, which only the low half knows of.
    host.submit(&mut queue, &[signal(0x9abc_deef), signal(0x1_1abc_deee)]);
    assert_eq!(host.read64(fence), 0x5_1abc_deee);
    host.submit(&mut queue, &[Packet::Wait(Wait { handle: 0, current: SYSTEM, value: 0 })]);
    let (_, info) = host.fault_of(&queue);
    assert_eq!(info.rule(), BadPacket::Opcode as u8);
}
