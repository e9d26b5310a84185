//! Packets: what is encoded is decoded, and every rule is enforced at its edge.

use campanile_hw::packet::*;
use campanile_hw::page_table::VA_BITS;
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
        any::<u64>().prop_map(|value| Packet::Progress(Progress { value })),
        address(8).prop_map(|destination| Packet::Timestamp(Timestamp { destination })),
    ]
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

#[test]
fn reserved_bits_are_refused_in_every_packet_but_a_handle_is_legal_for_fences() {
    let packets = [
        Packet::Nop(Nop {}),
        Packet::Copy(Copy { source: 0, destination: 64, row_bytes: 1, rows: 1, source_pitch: 0, destination_pitch: 0 }),
        Packet::Fill(Fill { destination: 0, size: 4, pattern: 0 }),
        Packet::Signal(Signal { handle: 0, current: 8, monitored: 0, value: 1 }),
        Packet::Wait(Wait { handle: 0, current: 8, value: 1 }),
        Packet::Progress(Progress { value: 1 }),
        Packet::Timestamp(Timestamp { destination: 8 }),
    ];
    assert_eq!(packets.len(), PACKETS.len());
    for packet in packets {
        for bit in 16..32 {
            let outcome = decode(|bytes| bytes[bit / 8] |= 1 << (bit % 8), packet);
            assert_eq!(outcome, Err(BadPacket::Reserved), "bit {bit} of {packet:?}");
        }
        let outcome = decode(|bytes| bytes[4] = 7, packet);
        if matches!(packet, Packet::Signal(_) | Packet::Wait(_)) {
            assert!(outcome.is_ok(), "{packet:?}");
        } else {
            assert_eq!(outcome, Err(BadPacket::Reserved), "{packet:?}");
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
        refused(Packet::Wait(Wait { handle: 0, current: 64 + off, value: 0 }), BadPacket::Alignment);
        refused(Packet::Timestamp(Timestamp { destination: 64 + off }), BadPacket::Alignment);
    }
    for off in 1..4 {
        refused(Packet::Fill(Fill { destination: 64 + off, size: 4, pattern: 0 }), BadPacket::Alignment);
        refused(Packet::Fill(Fill { destination: 64, size: 4 + off, pattern: 0 }), BadPacket::Alignment);
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
