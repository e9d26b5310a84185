//! Anything may be written anywhere: nothing panics, the function comes to rest, and others are unharmed.

use crate::host::{Host, TestQueue, ram, vram};
use campanile_hw::packet::{
    Copy, Fill, Header, InvalidateTlb, Nop, Packet, Signal, Timestamp, Wait, Write, WritePhysical,
};
use campanile_hw::page_table::{PAGE_2M, PAGE_4K, PAGE_64K, Pte};
use campanile_hw::queue::{QueueDescriptor, RingEntry};
use campanile_hw::registers::{self as reg, Command, NODE_COPY};
use proptest::collection::vec;
use proptest::prelude::*;

const DATA: u64 = 0x60_0000_0000;

/// A host, a queue to torment and an innocent one on the same node with its own address space.
fn arena() -> (Host, TestQueue, TestQueue) {
    let mut host = Host::new();
    let space = host.space();
    let queue = host.queue(0, space, 0);
    host.map_new_ram(space, DATA, 64 << 10);
    let other = host.space();
    let innocent = host.queue(1, other, 0);
    (host, queue, innocent)
}

/// The function still works for the innocent queue.
fn check(host: &Host, innocent: &mut TestQueue) {
    let before = host.read_pointer(innocent);
    host.submit(innocent, &[Packet::Nop(Nop {})]);
    assert_eq!(host.read_pointer(innocent), before + 1);
}

fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0..64u64 << 10).prop_map(|offset| DATA + offset),
        2 => (0..8u64 << 10).prop_map(|slot| DATA + slot * 8),
        1 => Just(DATA + (64 << 10) - 8),
        1 => any::<u64>(),
        1 => 0..1u64 << 48,
    ]
}

fn size() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..70_000u32, 1 => any::<u32>()]
}

fn packet() -> impl Strategy<Value = Packet> {
    prop_oneof![
        Just(Packet::Nop(Nop {})),
        (address(), address(), size(), 0..20u32, 0..4096u32, 0..4096u32).prop_map(
            |(source, destination, row_bytes, rows, source_pitch, destination_pitch)| {
                Packet::Copy(Copy { source, destination, row_bytes, rows, source_pitch, destination_pitch })
            }
        ),
        (address(), size(), any::<u32>()).prop_map(|(destination, size, pattern)| Packet::Fill(Fill {
            destination,
            size: size.into(),
            pattern
        })),
        (address(), prop_oneof![Just(0), address()], 0..4u64).prop_map(|(current, monitored, value)| {
            Packet::Signal(Signal { handle: 0, current, monitored, value })
        }),
        (address(), 0..4u64).prop_map(|(current, value)| Packet::Wait(Wait { handle: 0, current, value })),
        address().prop_map(|destination| Packet::Timestamp(Timestamp { destination })),
        (address(), vec(any::<u64>(), 0..7), 0..600u16)
            .prop_map(|(destination, words, repeat)| Packet::Write(Write::of(destination, &words, repeat))),
        (address(), vec(any::<u64>(), 0..7), 0..600u16).prop_map(|(destination, words, repeat)| {
            Packet::WritePhysical(WritePhysical::of(destination, &words, repeat))
        }),
        (address(), address(), address()).prop_map(|(root, start, end)| Packet::InvalidateTlb(InvalidateTlb {
            root,
            start,
            end
        })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_command_bytes_never_panic(bytes in vec(any::<u8>(), 0..64)) {
        let (host, mut queue, mut innocent) = arena();
        let mut bytes = bytes;
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        host.write_raw(&mut queue, &bytes);
        host.ring(&queue);
        host.run();
        check(&host, &mut innocent);
    }

    #[test]
    fn arbitrary_bytes_behind_a_plausible_header_never_panic(
        opcode in 0..10u8, length in 0..5u8, body in vec(any::<u8>(), 40..=88),
    ) {
        let (host, mut queue, mut innocent) = arena();
        let header = Header::new().with_opcode(opcode).with_length(length);
        let mut bytes = header.into_bits().to_le_bytes().to_vec();
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        host.write_raw(&mut queue, &bytes);
        host.ring(&queue);
        host.run();
        check(&host, &mut innocent);
    }

    #[test]
    fn arbitrary_packets_never_panic(packets in vec(packet(), 1..12)) {
        let (host, mut queue, mut innocent) = arena();
        host.submit(&mut queue, &packets);
        check(&host, &mut innocent);
    }

    #[test]
    fn arbitrary_ring_entries_and_write_pointers_never_panic(
        bytes in vec(any::<u8>(), 32), commands in address(), plausible in any::<bool>(), size in size(),
        pointer in prop_oneof![0..70u64, any::<u64>()],
    ) {
        let (host, mut queue, mut innocent) = arena();
        let mut entry = RingEntry::from_bytes(&bytes.try_into().unwrap());
        if plausible {
            entry = RingEntry { commands: commands & !15, size: size & !15, flags: 0, ..entry };
        }
        host.write_entry(&mut queue, &entry);
        host.ring(&queue);
        host.run();
        host.set_write_pointer(&queue, pointer);
        host.try_command(Command::KickQueue, 0, 0, 0);
        host.run();
        check(&host, &mut innocent);
    }

    #[test]
    fn arbitrary_descriptors_never_panic(
        words in vec(any::<u64>(), 5), entries in 0..20u32, flags in 0..9u32, node in 0..4u32, band in 0..5u32,
        keep in 0..32u32, pointer in 0..100u64,
    ) {
        let (mut host, _, mut innocent) = arena();
        let space = host.space();
        let (queue, good) = host.prepare_queue(7, space);
        let pick = |bit: u32, good: u64, bad: u64| if keep & 1 << bit != 0 { good } else { bad };
        let descriptor = QueueDescriptor {
            ring: pick(0, good.ring, words[0]),
            control: pick(1, good.control, words[1] & !4095),
            root: pick(2, good.root, words[2]),
            progress_current: pick(3, 0, words[3]),
            progress_monitored: pick(4, 0, words[4]),
            ring_entries: if entries < 18 { 1 << entries } else { entries },
            flags,
            node,
            rank: if keep & 16 != 0 { band } else { words[0] as u32 & 0x0f1f_3f07 },
            quantum: words[0] as u32,
            wait_log: pick(3, 0, words[1]),
            signal_log: pick(4, 0, words[2]),
            wait_log_entries: pick(3, 0, words[3]) as u32,
            signal_log_entries: pick(4, 0, words[4]) as u32,
            process: words[1] as u32,
            grace_same: words[2] as u32,
            grace_lower: words[3] as u32,
            context: pick(5, 0, words[0]),
            save_area: pick(2, good.save_area, words[4]),
            save_size: pick(2, good.save_size.into(), words[1]) as u32,
        };
        host.write_descriptor(7, &descriptor);
        host.set_write_pointer(&queue, pointer);
        host.try_command(Command::MapQueue, 7, 0, 0);
        host.run();
        check(&host, &mut innocent);
    }

    #[test]
    fn arbitrary_page_table_entries_never_panic(
        entry in any::<u64>(), level in 0..4u32, valid in any::<bool>(), offset in 0..4096u64,
    ) {
        let (mut host, mut queue, _) = arena();
        let at = match level {
            0 => host.leaf(queue.space, DATA, PAGE_4K),
            1 => host.leaf(queue.space, DATA, PAGE_2M),
            level => vram(queue.space.root.address() + campanile_hw::page_table::index(DATA, level) * 8),
        };
        // An entry of level 2 is put into the root too: what matters is that any entry can stand anywhere.
        host.write64(at, if valid { entry | 1 } else { entry });
        let source = DATA + offset;
        let copy = Copy { source, destination: DATA, row_bytes: 64, rows: 1, source_pitch: 0, destination_pitch: 0 };
        host.submit(&mut queue, &[Packet::Copy(copy)]);
        // Whatever the entry let the copy write may be anything of VRAM, but the function itself still works.
        host.set(reg::CONTROL, 4, 2);
        host.start();
        let space = host.space();
        let mut innocent = host.queue(9, space, NODE_COPY);
        check(&host, &mut innocent);
    }

    #[test]
    fn arbitrary_register_accesses_never_panic(
        accesses in vec((prop_oneof![0..0x200u64, 0x7ff0..0x9020u64, any::<u64>()], 0..17u8, any::<u64>()), 1..40),
        commands in vec((0..16u32, 0..4u64, 0..4u64, 0..4u64), 1..20),
    ) {
        let (host, queue, _) = arena();
        for (offset, size, value) in accesses {
            host.gpu.register_write(offset, size, value);
            host.gpu.register_read(offset, size);
        }
        for (command, a0, a1, a2) in commands {
            for (register, argument) in [(reg::CMP_ARG0, a0), (reg::CMP_ARG1, a1), (reg::CMP_ARG2, a2)] {
                // 3 stands for something that means something: a root.
                let argument = if argument == 3 { queue.space.root.into_bits() } else { argument };
                host.set(register, 8, argument);
            }
            host.set(reg::CMP_COMMAND, 4, u64::from(command));
        }
        host.run();
        host.gpu.reset();
        host.enable();
        prop_assert_eq!(host.get(reg::ID, 4), u64::from(reg::ID_VALUE));
    }

    #[test]
    fn arbitrary_config_accesses_never_panic(
        accesses in vec((0..300u16, 0..9u8, any::<u32>()), 1..60),
    ) {
        let (host, _, _) = arena();
        for (offset, size, value) in accesses {
            host.gpu.config_write(offset, size, value);
            host.gpu.config_read(offset, size);
        }
        host.run();
    }

    #[test]
    fn arbitrary_doorbell_stores_harm_only_their_queue(values in vec((0..4u32, any::<u64>()), 1..20)) {
        let (host, mut queue, mut innocent) = arena();
        host.connect(&mut queue, 0);
        host.connect(&mut innocent, 5);
        for (page, value) in values {
            host.store_doorbell(page, value);
            host.run();
        }
        check(&host, &mut innocent);
    }
}

/// One mapping operation of the MMU model.
#[derive(Clone, Debug)]
struct Mapping {
    /// In units of 64 KiB from [`MODEL`].
    at: u64,
    size: u64,
    read_only: bool,
    zero: bool,
    /// Where it leads, in units of 64 KiB of the model's VRAM.
    to: u64,
}

const MODEL: u64 = 0x70_0000_0000;
const MODEL_UNITS: u64 = 128;

fn mapping() -> impl Strategy<Value = Mapping> {
    let size = prop_oneof![Just(PAGE_4K), Just(PAGE_64K), Just(PAGE_2M)];
    (0..MODEL_UNITS, size, any::<bool>(), 0..5u8, 0..MODEL_UNITS).prop_map(|(at, size, read_only, zero, to)| Mapping {
        at,
        size,
        read_only,
        zero: zero == 0,
        to,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// The model: a list of mappings in which the first one that covers an address decides; each 2 MiB has one page size.
    #[test]
    fn translation_agrees_with_a_simple_model(
        mappings in vec(mapping(), 1..12),
        probes in vec((0..MODEL_UNITS, prop_oneof![0..8192u64, 0..65_528u64], any::<bool>()), 1..24),
    ) {
        let mut host = Host::new();
        let space = host.space();
        let memory = host.take_vram(MODEL_UNITS << 16, PAGE_2M);
        let mut model: Vec<(u64, Mapping)> = Vec::new();
        for mapping in mappings {
            let va = (MODEL + (mapping.at << 16)) & !(mapping.size - 1);
            let to = (memory + (mapping.to << 16)) & !(mapping.size - 1);
            let taken = |known: &(u64, Mapping)| {
                (known.1.size != mapping.size && known.0 / PAGE_2M == va / PAGE_2M) || known.0 == va
            };
            if !model.iter().any(taken) {
                let flags = Pte::new().with_read_only(mapping.read_only).with_zero(mapping.zero);
                host.map_pages(space, va, vram(to), mapping.size, mapping.size, flags);
                model.push((va, Mapping { to, ..mapping }));
            }
        }
        let out = host.map_new_ram(space, DATA, 4096);
        let mut number = 10;
        let mut queue = host.queue(number, space, 0);
        for (round, (unit, offset, write)) in (1u64..).zip(probes) {
            let va = MODEL + (unit << 16) + (offset & !7);
            let hit = model.iter().find(|(start, mapping)| *start <= va && va < start + mapping.size);
            let location = hit.map(|(start, mapping)| vram(mapping.to + (va - start)));
            if let Some(location) = location {
                host.write64(location, round);
            }
            host.write64(out, round + 1000);
            let (source, destination) = if write { (DATA, va) } else { (va, DATA) };
            let copy = Copy { source, destination, row_bytes: 8, rows: 1, source_pitch: 0, destination_pitch: 0 };
            host.submit(&mut queue, &[Packet::Copy(copy)]);
            let expected = match (hit, write) {
                (None, _) => None,
                (Some((_, mapping)), true) if mapping.read_only => None,
                (Some((_, mapping)), true) if mapping.zero => Some(round),
                (Some(_), true) => Some(round + 1000),
                (Some((_, mapping)), false) if mapping.zero => Some(0),
                (Some(_), false) => Some(round),
            };
            let result = match (location, write) {
                (Some(location), true) => host.read64(location),
                _ => host.read64(out),
            };
            match expected {
                Some(value) => {
                    prop_assert_eq!(host.state(&queue), 0);
                    prop_assert_eq!(result, value);
                }
                None => {
                    let (address, info) = host.fault_of(&queue);
                    prop_assert_eq!(address, va);
                    prop_assert_eq!(info.write(), write);
                    host.command(Command::UnmapQueue, u64::from(number), 0, 0);
                    number += 1;
                    queue = host.queue(number, space, 0);
                }
            }
            prop_assert_eq!(host.read64(ram(out.address() + 8)), 0);
        }
    }
}
