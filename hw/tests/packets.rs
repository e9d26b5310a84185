//! Packets: what is encoded is decoded, and every rule is enforced at its edge.

use campanile_hw::packet::*;
use campanile_hw::page_table::VA_BITS;
use campanile_hw::queue::Location;
use proptest::prelude::*;

const TOP: u64 = 1 << VA_BITS;

fn address(alignment: u64) -> impl Strategy<Value = u64> {
    (0..(TOP >> 1) / alignment).prop_map(move |units| units * alignment)
}

fn legal() -> impl Strategy<Value = Packet> {
    let copy = (address(1), address(1), 1u32..=1 << 14, 1u32..=1 << 14, 0u32..1 << 20, 0u32..1 << 20);
    prop_oneof![
        Just(Packet::Nop(Nop {})),
        copy.prop_map(|(source, destination, row_bytes, rows, source_pitch, destination_pitch)| {
            Packet::Copy(Copy { source, destination, row_bytes, rows, source_pitch, destination_pitch })
        }),
        (address(4), 1u64..=FILL_MAX / 4, any::<u32>()).prop_map(|(destination, words, pattern)| Packet::Fill(Fill {
            destination,
            size: words * 4,
            pattern
        })),
        (any::<u32>(), address(8), prop_oneof![Just(0), address(8)], any::<u64>()).prop_map(
            |(handle, current, monitored, value)| Packet::Signal(Signal { handle, current, monitored, value })
        ),
        (any::<u32>(), address(8), any::<u64>()).prop_map(|(handle, current, value)| Packet::Wait(Wait {
            handle,
            current,
            value
        })),
        (any::<u32>(), any::<u64>()).prop_map(|(handle, value)| Packet::Progress(Progress { handle, value })),
        prop_oneof![
            address(8).prop_map(|destination| Packet::Timestamp(Timestamp { destination })),
            (any::<u32>(), address(64), any::<u64>(), any::<u32>(), 0u32..2).prop_map(
                |(handle, log, value, entry, operation)| Packet::Log(Log { handle, log, value, entry, operation })
            ),
        ],
        (address(8), prop::collection::vec(any::<u64>(), 1..=WRITE_WORDS), 1u16..=85)
            .prop_map(|(destination, words, repeat)| Packet::Write(Write::of(destination, &words, repeat))),
        (location(8), prop::collection::vec(any::<u64>(), 1..=WRITE_WORDS), 1u16..=85).prop_map(
            |(destination, words, repeat)| Packet::WritePhysical(WritePhysical::of(destination, &words, repeat))
        ),
        (location(4096), address(1), address(1)).prop_map(|(root, one, other)| Packet::InvalidateTlb(InvalidateTlb {
            root,
            start: one.min(other),
            end: one.max(other)
        })),
    ]
}

/// VRAM or system memory.
fn location(alignment: u64) -> impl Strategy<Value = u64> {
    (address(alignment), any::<bool>())
        .prop_map(|(address, system)| Location::new().with_address(address).with_system(system).into_bits())
}

proptest! {
    #[test]
    fn a_legal_packet_survives_encoding(packet in legal(), tail in any::<[u8; 16]>()) {
        prop_assert_eq!(packet.validate(), Ok(()));
        let bytes = packet.encode();
        let mut stream = bytes[..packet.size()].to_vec();
        stream.extend_from_slice(&tail);
        prop_assert_eq!(Packet::decode(&stream), Ok(packet));
        prop_assert!(bytes[packet.size()..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_packet_cut_short_is_truncated(packet in legal(), cut in any::<prop::sample::Index>()) {
        let bytes = packet.encode();
        let short = &bytes[..cut.index(packet.size())];
        prop_assert_eq!(Packet::decode(short), Err(BadPacket::Truncated));
    }

    #[test]
    fn any_bytes_decode_to_a_packet_that_encodes_to_them_or_break_a_rule(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(packet) = Packet::decode(&bytes) {
            prop_assert_eq!(packet.validate(), Ok(()));
            prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
        }
    }

    #[test]
    fn near_packets_never_panic(packet in legal(), at in any::<prop::sample::Index>(), bits in any::<u8>()) {
        let mut bytes = packet.encode();
        bytes[at.index(packet.size())] ^= bits;
        if let Ok(other) = Packet::decode(&bytes) {
            prop_assert_eq!(other.validate(), Ok(()));
        }
    }

    #[test]
    fn words_and_bytes_are_the_same_packet(handle in any::<u32>(), current in address(8), value in any::<u64>()) {
        let signal = Signal { handle, current, monitored: 0, value };
        let words: Vec<u8> = signal.to_words().iter().flat_map(|word| word.to_ne_bytes()).collect();
        prop_assert_eq!(&words[..], &Packet::Signal(signal).encode()[..Signal::SIZE]);
    }
}

fn decode(change: impl FnOnce(&mut [u8]), packet: Packet) -> Result<Packet, BadPacket> {
    let mut bytes = packet.encode();
    change(&mut bytes);
    Packet::decode(&bytes)
}

#[test]
fn an_unknown_opcode_is_refused() {
    let known: Vec<u8> = PACKETS.iter().map(|format| format.opcode).collect();
    for opcode in 0..=u8::MAX {
        let outcome = decode(|bytes| bytes[0] = opcode, Packet::Nop(Nop {}));
        assert_eq!(outcome == Err(BadPacket::Opcode), !known.contains(&opcode), "opcode {opcode:#x}");
    }
}

#[test]
fn a_length_that_is_not_the_opcodes_is_refused() {
    for length in (0..=u8::MAX).filter(|length| *length != 1) {
        assert_eq!(decode(|bytes| bytes[1] = length, Packet::Nop(Nop {})), Err(BadPacket::Length), "length {length}");
    }
}

/// A legal packet of each kind.
fn one_of_each() -> [Packet; PACKETS.len()] {
    [
        Packet::Nop(Nop {}),
        copy(0, 64, 1, 1, 0),
        Packet::Fill(Fill { destination: 0, size: 4, pattern: 0 }),
        Packet::Signal(Signal { handle: 0, current: 8, monitored: 0, value: 1 }),
        Packet::Wait(Wait { handle: 0, current: 8, value: 1 }),
        Packet::Progress(Progress { handle: 0, value: 1 }),
        Packet::Timestamp(Timestamp { destination: 8 }),
        Packet::Write(Write::of(8, &[1], 1)),
        Packet::WritePhysical(WritePhysical::of(8, &[1], 1)),
        Packet::InvalidateTlb(InvalidateTlb { root: 4096, start: 0, end: 0 }),
        Packet::Log(Log { handle: 0, log: 8, value: 1, entry: 2, operation: 1 }),
        Packet::Dispatch(dispatch()),
    ]
}

#[test]
fn reserved_bits_are_refused_in_every_packet_but_a_handle_is_legal_for_fences() {
    let packets = one_of_each();
    assert_eq!(packets.len(), PACKETS.len());
    for packet in packets {
        for bit in 16..32 {
            let outcome = decode(|bytes| bytes[bit / 8] |= 1 << (bit % 8), packet);
            assert_eq!(outcome, Err(BadPacket::Reserved), "bit {bit} of {packet:?}");
        }
        if matches!(packet, Packet::Write(_) | Packet::WritePhysical(_)) {
            continue;
        }
        let named = |byte: usize| {
            let format = PACKETS.iter().find(|format| format.opcode == packet.encode()[0]).unwrap();
            byte < 8 || format.fields.iter().any(|field| (field.offset..field.offset + field.size).contains(&byte))
        };
        for byte in (0..packet.size()).filter(|byte| !named(*byte)) {
            let outcome = decode(|bytes| bytes[byte] |= 0x80, packet);
            assert_eq!(outcome, Err(BadPacket::Reserved), "byte {byte} of {packet:?}");
        }
        let outcome = decode(|bytes| bytes[4] = 7, packet);
        match packet {
            Packet::Signal(_) | Packet::Wait(_) | Packet::Progress(_) | Packet::Log(_) => {
                assert!(outcome.is_ok(), "{packet:?}");
            }
            // The field is the size of the program there, and 7 bytes are none.
            Packet::Dispatch(_) => assert_eq!(outcome, Err(BadPacket::Range), "{packet:?}"),
            _ => assert_eq!(outcome, Err(BadPacket::Reserved), "{packet:?}"),
        }
    }
}

fn refused(packet: Packet, rule: BadPacket) {
    assert_eq!(packet.validate(), Err(rule), "{packet:?}");
    assert_eq!(Packet::decode(&packet.encode()), Err(rule), "{packet:?}");
}

fn accepted(packet: Packet) {
    assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
}

#[test]
fn misaligned_addresses_are_refused() {
    for off in 1..8 {
        refused(Packet::Signal(Signal { handle: 0, current: 64 + off, monitored: 0, value: 0 }), BadPacket::Alignment);
        refused(Packet::Signal(Signal { handle: 0, current: 64, monitored: 64 + off, value: 0 }), BadPacket::Alignment);
        // Both by the same amount.
        let both = Signal { handle: 0, current: 64 + off, monitored: 64 + off, value: 0 };
        refused(Packet::Signal(both), BadPacket::Alignment);
        refused(Packet::Wait(Wait { handle: 0, current: 64 + off, value: 0 }), BadPacket::Alignment);
        refused(Packet::Timestamp(Timestamp { destination: 64 + off }), BadPacket::Alignment);
    }
    for off in 1..4 {
        refused(Packet::Fill(Fill { destination: 64 + off, size: 4, pattern: 0 }), BadPacket::Alignment);
        refused(Packet::Fill(Fill { destination: 64, size: 4 + off, pattern: 0 }), BadPacket::Alignment);
        refused(Packet::Fill(Fill { destination: 64 + off, size: 4 + off, pattern: 0 }), BadPacket::Alignment);
    }
}

fn copy(source: u64, destination: u64, row_bytes: u32, rows: u32, pitch: u32) -> Packet {
    Packet::Copy(Copy { source, destination, row_bytes, rows, source_pitch: pitch, destination_pitch: pitch })
}

#[test]
fn a_copy_moves_between_one_byte_and_256_mib_inside_the_address_space() {
    refused(copy(0, 64, 0, 1, 0), BadPacket::Range);
    refused(copy(0, 64, 1, 0, 0), BadPacket::Range);
    accepted(copy(0, 64, 1, 1, 0));
    accepted(copy(0, 0, 1 << 28, 1, 0));
    accepted(copy(0, 0, 1, 1 << 28, 0));
    refused(copy(0, 0, (1 << 28) + 1, 1, 0), BadPacket::Range);
    refused(copy(0, 0, 1 << 15, (1 << 13) + 1, 0), BadPacket::Range);
    refused(copy(0, 0, u32::MAX, u32::MAX, u32::MAX), BadPacket::Range);
    accepted(copy(TOP - 64, 0, 64, 1, 0));
    refused(copy(TOP - 63, 0, 64, 1, 0), BadPacket::Range);
    refused(copy(0, TOP - 63, 64, 1, 0), BadPacket::Range);
    // The last run reaches past the end only because of the pitch.
    accepted(copy(TOP - 4096 - 64, 0, 64, 2, 4096));
    refused(copy(TOP - 4096 - 63, 0, 64, 2, 4096), BadPacket::Range);
    refused(copy(0, 0, 1, 1 << 28, u32::MAX), BadPacket::Range);
    refused(copy(u64::MAX, 0, 1, 1, 0), BadPacket::Range);
}

#[test]
fn a_fill_writes_between_4_bytes_and_4_gib_inside_the_address_space() {
    let fill = |destination, size| Packet::Fill(Fill { destination, size, pattern: 0 });
    refused(fill(0, 0), BadPacket::Range);
    accepted(fill(0, 4));
    accepted(fill(0, FILL_MAX));
    refused(fill(0, FILL_MAX + 4), BadPacket::Range);
    accepted(fill(TOP - 4, 4));
    refused(fill(TOP - 4, 8), BadPacket::Range);
    refused(fill(TOP, 4), BadPacket::Range);
    refused(fill(u64::MAX - 3, 4), BadPacket::Range);
}

#[test]
fn fence_words_lie_inside_the_address_space() {
    accepted(Packet::Signal(Signal { handle: 1, current: TOP - 8, monitored: TOP - 8, value: u64::MAX }));
    refused(Packet::Signal(Signal { handle: 1, current: TOP, monitored: 0, value: 1 }), BadPacket::Range);
    refused(Packet::Signal(Signal { handle: 1, current: 0, monitored: TOP, value: 1 }), BadPacket::Range);
    accepted(Packet::Wait(Wait { handle: 1, current: TOP - 8, value: u64::MAX }));
    refused(Packet::Wait(Wait { handle: 1, current: TOP, value: 1 }), BadPacket::Range);
    accepted(Packet::Timestamp(Timestamp { destination: TOP - 8 }));
    refused(Packet::Timestamp(Timestamp { destination: u64::MAX - 7 }), BadPacket::Range);
}

#[test]
fn a_write_holds_1_to_6_words_and_writes_a_page_table_at_most() {
    for (count, repeat, legal) in [
        (1, 1, true),
        (6, 85, true),
        (1, 512, true),
        (2, 256, true),
        (0, 1, false),
        (1, 0, false),
        (7, 1, false),
        (1, 513, false),
        (6, 86, false),
        (u16::MAX, u16::MAX, false),
    ] {
        let mut write = Write { count, repeat, ..Write::of(64, &[], 1) };
        let mut physical = WritePhysical { count, repeat, ..WritePhysical::of(64, &[], 1) };
        if legal {
            accepted(Packet::Write(write));
            accepted(Packet::WritePhysical(physical));
        } else {
            refused(Packet::Write(write), BadPacket::Range);
            refused(Packet::WritePhysical(physical), BadPacket::Range);
        }
        (write.word5, physical.word5) = (9, 9);
        if (1..6).contains(&count) {
            refused(Packet::Write(write), BadPacket::Reserved);
            refused(Packet::WritePhysical(physical), BadPacket::Reserved);
        }
    }
    for off in 1..8 {
        refused(Packet::Write(Write::of(64 + off, &[1], 1)), BadPacket::Alignment);
        refused(Packet::WritePhysical(WritePhysical::of(64 + off, &[1], 1)), BadPacket::Alignment);
    }
    accepted(Packet::Write(Write::of(TOP - 4096, &[1], 512)));
    refused(Packet::Write(Write::of(TOP - 4088, &[1], 512)), BadPacket::Range);
    refused(Packet::Write(Write::of(u64::MAX - 7, &[1], 1)), BadPacket::Range);
    let end = Location::new().with_address((1 << 52) - 8);
    accepted(Packet::WritePhysical(WritePhysical::of(end.into_bits(), &[1], 1)));
    accepted(Packet::WritePhysical(WritePhysical::of(end.with_system(true).into_bits(), &[1], 1)));
    refused(Packet::WritePhysical(WritePhysical::of(end.into_bits(), &[1, 2], 1)), BadPacket::Range);
    refused(Packet::WritePhysical(WritePhysical::of(1 << 53, &[1], 1)), BadPacket::Reserved);
}

#[test]
fn translations_are_forgotten_of_a_root_in_order_and_inside_the_address_space() {
    let invalidate = |root, start, end| Packet::InvalidateTlb(InvalidateTlb { root, start, end });
    accepted(invalidate(0, 0, 0));
    accepted(invalidate(4096, 1, TOP));
    refused(invalidate(4096, 0, TOP + 1), BadPacket::Range);
    refused(invalidate(4096, 2, 1), BadPacket::Range);
    refused(invalidate(4088, 0, 0), BadPacket::Alignment);
    refused(invalidate(1 << 53, 0, 0), BadPacket::Reserved);
}

/// A dispatch that breaks no rule.
fn dispatch() -> Dispatch {
    Dispatch {
        program_size: 64,
        program: 4096,
        arguments: u64::MAX,
        indirect: 0,
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        report: 0,
    }
}

#[test]
fn a_dispatch_has_an_aligned_program_of_a_legal_size_inside_the_address_space() {
    // Header, functions, code and lines, each as long as can be.
    assert_eq!(PROGRAM_SIZE_MAX, 64 + 256 * 4 + 65536 * 16 + 65536 * 8);
    let with = |program, program_size| Packet::Dispatch(Dispatch { program, program_size, ..dispatch() });
    (1..16).for_each(|off| refused(with(4096 + off, 64), BadPacket::Alignment));
    for (program, size) in [(0, 64), (16, 64), (TOP - 64, 64), (0, PROGRAM_SIZE_MAX)] {
        accepted(with(program, size));
    }
    for (program, size) in
        [(0, 0), (0, 63), (0, PROGRAM_SIZE_MAX + 1), (0, u32::MAX), (TOP - 48, 64), (TOP, 64), (u64::MAX - 15, 64)]
    {
        refused(with(program, size), BadPacket::Range);
    }
}

#[test]
fn a_dispatch_has_one_grid_of_at_most_65535_workgroups_in_a_dimension() {
    let with = |grid: [u32; 3], indirect| {
        let [grid_x, grid_y, grid_z] = grid;
        Packet::Dispatch(Dispatch { grid_x, grid_y, grid_z, indirect, ..dispatch() })
    };
    for grid in [[0; 3], [65535; 3], [65535, 1, 0]] {
        accepted(with(grid, 0));
    }
    for dimension in 0..3 {
        for size in [65536, u32::MAX] {
            let mut grid = [1; 3];
            grid[dimension] = size;
            refused(with(grid, 0), BadPacket::Range);
        }
        let mut grid = [0; 3];
        grid[dimension] = 1;
        refused(with(grid, 64), BadPacket::Reserved);
    }
    for indirect in [4, 64, TOP - 12] {
        accepted(with([0; 3], indirect));
    }
    (1..4).for_each(|off| refused(with([0; 3], 64 + off), BadPacket::Alignment));
    refused(with([0; 3], TOP - 8), BadPacket::Range);
}

#[test]
fn the_report_of_a_dispatch_is_aligned_and_inside_the_address_space() {
    let with = |report| Packet::Dispatch(Dispatch { report, ..dispatch() });
    assert_eq!(DispatchReport::SIZE, 96);
    accepted(with(TOP - 96));
    (1..8).for_each(|off| refused(with(64 + off), BadPacket::Alignment));
    refused(with(TOP - 88), BadPacket::Range);
}

#[test]
fn a_log_packet_names_an_aligned_log_inside_the_address_space_and_an_operation() {
    let with = |log, operation| Packet::Log(Log { handle: 1, log, value: 1, entry: 0, operation });
    for operation in [0, 1] {
        accepted(with(TOP - 40, operation));
    }
    (1..8).for_each(|off| refused(with(64 + off, 0), BadPacket::Alignment));
    refused(with(TOP - 32, 0), BadPacket::Range);
    for operation in [2, u32::MAX] {
        refused(with(64, operation), BadPacket::Range);
    }
}

#[test]
fn only_packets_of_the_memory_manager_are_privileged() {
    let privileged: Vec<u8> =
        one_of_each().into_iter().filter(Packet::is_privileged).map(|packet| packet.encode()[0]).collect();
    // WRITEPHYSICAL and INVALIDATETLB.
    assert_eq!(privileged, [0x09, 0x0a]);
}
