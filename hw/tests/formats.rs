//! Words, records and registers: positions are where the manual says, nothing overlaps, everything has a meaning.

use campanile_hw::debug::{self, Section};
use campanile_hw::doorbell::DoorbellValue;
use campanile_hw::event::{Event, EventKind, FaultInfo, FaultKind};
use campanile_hw::packet::{BadPacket, Header, PACKETS};
use campanile_hw::page_table::*;
use campanile_hw::pci;
use campanile_hw::private::{AdapterData, AllocationData, DoorbellAnswer, DoorbellData, Placement};
use campanile_hw::queue::*;
use campanile_hw::registers::*;
use campanile_hw::{BitField, Field};
use proptest::prelude::*;

#[test]
fn registers_follow_each_other_without_overlap_and_aligned() {
    let mut end = 0;
    for register in REGISTERS {
        let width = u64::from(register.width);
        assert!(matches!(register.width, 4 | 8), "{}", register.name);
        assert_eq!(register.offset % width, 0, "{} is not aligned", register.name);
        assert!(register.offset >= end, "{} overlaps the one before", register.name);
        assert!(!register.doc.trim().is_empty(), "{} has no meaning", register.name);
        end = register.offset + width;
    }
    assert!(end <= pci::MSIX_TABLE_OFFSET);
    let pending = pci::MSIX_PBA_OFFSET;
    assert!(pci::MSIX_TABLE_OFFSET + u64::from(pci::MSIX_VECTORS) * 16 <= pending);
    assert!(pending + u64::from(pci::MSIX_VECTORS).div_ceil(64) * 8 <= pci::REGISTERS_SIZE);
}

#[test]
fn every_word_is_filled_exactly_by_its_fields() {
    let words: [(&str, &[BitField], u32); 9] = [
        ("Caps", Caps::FIELDS, 32),
        ("Control", Control::FIELDS, 32),
        ("DoorbellValue", DoorbellValue::FIELDS, 64),
        ("Location", Location::FIELDS, 64),
        ("QueueFlags", QueueFlags::FIELDS, 32),
        ("RingFlags", RingFlags::FIELDS, 32),
        ("Header", Header::FIELDS, 64),
        ("Pte", Pte::FIELDS, 64),
        ("FaultInfo", FaultInfo::FIELDS, 64),
    ];
    for (name, fields, bits) in words {
        assert_eq!(fields.iter().map(|field| field.width).sum::<u32>(), bits, "{name}");
        for field in fields.iter().filter(|field| field.name != "ignored") {
            assert!(!field.doc.trim().is_empty(), "{name}.{} has no meaning", field.name);
        }
    }
}

#[test]
fn fields_of_a_word_lie_where_the_manual_says() {
    assert_eq!(Caps::new().with_global_doorbell(true).into_bits(), 1);
    assert_eq!(Caps::new().with_native_fence(true).into_bits(), 4);
    assert_eq!(Control::new().with_reset(true).into_bits(), 2);
    assert_eq!(DoorbellValue::new().with_write_pointer((1 << 48) - 1).into_bits(), 0x0000_ffff_ffff_ffff);
    assert_eq!(DoorbellValue::new().with_queue(u16::MAX).into_bits(), 0xffff_0000_0000_0000);
    assert_eq!(Location::new().with_system(true).into_bits(), 1 << 52);
    assert_eq!(QueueFlags::new().with_native_progress(true).into_bits(), 4);
    assert_eq!(RingFlags::new().with_own_root(true).into_bits(), 2);
    assert_eq!(Header::new().with_opcode(0xff).with_length(1).into_bits(), 0x1ff);
    assert_eq!(Header::new().with_fence_handle(u32::MAX).into_bits(), 0xffff_ffff_0000_0000);
    let fault = FaultInfo::new().with_kind(3).with_write(true).with_level(2).with_rule(6).with_entry(9);
    assert_eq!(fault.into_bits(), 3 | 1 << 8 | 2 << 9 | 6 << 12 | 9 << 20);
}

#[test]
fn fields_of_a_page_table_entry_lie_where_the_manual_says() {
    for (position, entry) in [
        Pte::new().with_valid(true),
        Pte::new().with_zero(true),
        Pte::new().with_coherent(true),
        Pte::new().with_read_only(true),
        Pte::new().with_no_execute(true),
        Pte::new().with_system(true),
        Pte::new().with_large(true),
        Pte::new().with_leaf_64k(true),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(entry.into_bits(), 1 << position);
    }
    assert_eq!(Pte::new().with_frame((1 << 40) - 1).into_bits(), 0x000f_ffff_ffff_f000);
}

proptest! {
    #[test]
    fn an_entry_keeps_its_address_and_its_bits(bits in any::<u64>(), frame in 0u64..1 << 40) {
        let entry = Pte::from_bits(bits);
        let moved = entry.with_address(frame << 12);
        prop_assert_eq!(moved.address(), frame << 12);
        prop_assert_eq!(moved.into_bits() & 0xfff, bits & 0xfff);
        prop_assert_eq!(moved.into_bits() >> 52, bits >> 52);
    }

    #[test]
    fn indices_take_an_address_apart_without_loss(va in 0u64..1 << VA_BITS) {
        let mut sum = va & (PAGE_4K - 1);
        for level in 0..LEVELS {
            prop_assert!(index(va, level) < ENTRIES);
            sum += index(va, level) * coverage(level);
        }
        prop_assert_eq!(sum, va);
        prop_assert_eq!(index_64k(va), (va % PAGE_2M) / PAGE_64K);
    }

    #[test]
    fn records_survive_their_bytes(words in prop::collection::vec(any::<u64>(), 16)) {
        let mut bytes = [0u8; 128];
        for (chunk, word) in bytes.chunks_mut(8).zip(&words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        macro_rules! survives {
            ($($record:ident),*) => {$({
                let mut image = [0u8; $record::SIZE];
                image.copy_from_slice(&bytes[..$record::SIZE]);
                let record = $record::from_bytes(&image);
                let written = record.to_bytes();
                prop_assert_eq!($record::from_bytes(&written), record);
                // What is written is what was read, and the gaps are zero.
                for (at, byte) in written.iter().enumerate() {
                    let inside = $record::FIELDS.iter().any(|f| (f.offset..f.offset + f.size).contains(&at));
                    prop_assert_eq!(*byte, if inside { image[at] } else { 0 });
                }
            })*};
        }
        survives!(QueueDescriptor, RingEntry, Event, AdapterData, AllocationData, DoorbellData, DoorbellAnswer);
    }
}

#[test]
fn page_sizes_are_what_the_levels_cover() {
    assert_eq!((coverage(0), coverage(1), coverage(ROOT_LEVEL)), (PAGE_4K, PAGE_2M, 1 << 39));
    assert_eq!(coverage(ROOT_LEVEL) * ENTRIES, 1 << VA_BITS);
    assert_eq!(ENTRIES_64K * PAGE_64K, PAGE_2M);
    assert_eq!(TABLE_SIZE, 4096);
}

fn without_overlap(name: &str, fields: &[Field], size: usize, mut end: usize) {
    for field in fields {
        assert!(field.offset >= end, "{name}.{} overlaps the one before", field.name);
        assert_eq!(field.offset % field.size, 0, "{name}.{} is not aligned", field.name);
        assert!(!field.doc.trim().is_empty(), "{name}.{} has no meaning", field.name);
        end = field.offset + field.size;
    }
    assert!(end <= size, "{name} is longer than its size");
}

#[test]
fn fields_of_records_and_packets_are_aligned_and_do_not_overlap() {
    without_overlap("QueueDescriptor", QueueDescriptor::FIELDS, QueueDescriptor::SIZE, 0);
    without_overlap("RingEntry", RingEntry::FIELDS, RingEntry::SIZE, 0);
    without_overlap("Event", Event::FIELDS, Event::SIZE, 0);
    without_overlap("AdapterData", AdapterData::FIELDS, AdapterData::SIZE, 0);
    without_overlap("AllocationData", AllocationData::FIELDS, AllocationData::SIZE, 0);
    without_overlap("DoorbellData", DoorbellData::FIELDS, DoorbellData::SIZE, 0);
    without_overlap("DoorbellAnswer", DoorbellAnswer::FIELDS, DoorbellAnswer::SIZE, 0);
    for format in PACKETS {
        // A fence handle, a count or a size may lie in the second half of the header.
        let in_header = |field: &Field| ["handle", "count", "program_size"].contains(&field.name);
        let start = if format.fields.first().is_some_and(in_header) { 4 } else { 8 };
        without_overlap(format.name, format.fields, format.size, start);
        assert_eq!(format.size % 16, 0);
    }
}

#[test]
fn a_number_and_its_name_find_each_other() {
    for (number, name, doc) in Command::ALL {
        assert_eq!(
            Command::from_number(*number).map(|c| (c as u32, format!("{c:?}"))),
            Some((*number, (*name).into()))
        );
        assert!(!doc.trim().is_empty());
    }
    for number in 0..=255u8 {
        let known = |all: &[(u8, &str, &str)]| all.iter().any(|(n, ..)| *n == number);
        assert_eq!(EventKind::from_number(number).map(|kind| kind as u8), known(EventKind::ALL).then_some(number));
        assert_eq!(FaultKind::from_number(number).map(|kind| kind as u8), known(FaultKind::ALL).then_some(number));
        assert_eq!(BadPacket::from_number(number).map(|rule| rule as u8), known(BadPacket::ALL).then_some(number));
    }
    assert_eq!(Command::from_number(0), None);
    assert_eq!(CommandStatus::from_number(0), Some(CommandStatus::Done));
    assert_eq!(CommandStatus::from_number(CommandStatus::ALL.len() as u32), None);
    assert_eq!((0..8).map(Placement::from_number).filter(Option::is_some).count(), 5);
}

#[test]
fn a_doorbell_is_rung_with_the_write_pointer_modulo_2_to_the_48() {
    for (write_pointer, value) in [
        (0, 0),
        (1, 1),
        ((1 << 48) - 1, 0x0000_ffff_ffff_ffff),
        (1 << 48, 0),
        (u64::MAX, 0x0000_ffff_ffff_ffff),
        (0x1234_5678_9abc_def0, 0x0000_5678_9abc_def0),
    ] {
        assert_eq!(DoorbellValue::of_write_pointer(write_pointer).into_bits(), value, "{write_pointer:#x}");
    }
}

#[test]
fn entries_of_each_level_may_have_the_bits_that_the_manual_says() {
    const VALID: u64 = 1 << 0;
    const ACCESS: u64 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4;
    const SYSTEM: u64 = 1 << 5;
    const LARGE: u64 = 1 << 6;
    const LEAF_64K: u64 = 1 << 7;
    const IGNORED_AND_FRAME: u64 = 0x000f_ffff_ffff_ff00;
    let common = VALID | SYSTEM | IGNORED_AND_FRAME;
    for (level, directory, leaf) in [
        (0, 0, common | ACCESS),
        (1, common | LEAF_64K, common | ACCESS | LARGE),
        (2, common, common | ACCESS | LARGE),
        (3, common, common | ACCESS | LARGE),
    ] {
        assert_eq!((directory_bits(level), leaf_bits(level)), (directory, leaf), "level {level}");
    }
}

#[test]
fn the_parts_of_an_address_are_its_indices() {
    // 9 bits for each level, above the 12 of the page.
    let va = 0x1ff << 39 | 0x0aa << 30 | 0x155 << 21 | 0x111 << 12 | 0xfff;
    assert_eq!((0..LEVELS).map(|level| index(va, level)).collect::<Vec<_>>(), [0x111, 0x155, 0x0aa, 0x1ff]);
    assert_eq!((index_64k(va), index_64k(31 << 16), index_64k(32 << 16)), (0x11, 31, 0));
    assert_eq!((0..LEVELS).map(coverage).collect::<Vec<_>>(), [4 << 10, 2 << 20, 1 << 30, 512 << 30]);
}

#[test]
fn words_of_debug_information_are_as_many_as_its_sections_say() {
    let flags = [debug::RUNNING, debug::POWERED, debug::CUT];
    // The low half of the word is the reason.
    assert!(flags.iter().all(|flag| flag.is_power_of_two() && *flag > u64::from(u32::MAX)));
    assert_eq!(flags.iter().fold(0, |all, flag| all | flag).count_ones(), 3);
    for (section, words) in [
        (Section::Device, 5),
        (Section::Nodes, 2),
        (Section::Reasons, 3),
        (Section::Rings, 3),
        (Section::Queues, 6),
        (Section::Doorbells, 4),
        (Section::Fences, 3),
        (Section::OpenFences, 5),
        (Section::Events, 6),
    ] {
        assert_eq!(section.words(), words, "{section:?}");
    }
}

#[test]
fn a_command_may_answer_what_the_manual_names_for_it_and_nothing_else() {
    use CommandStatus::{BadArgument, BadDoorbell, BadQueue, BadState, Done, PageFault, TableFull, UnknownCommand};
    let all = [BadArgument, BadDoorbell, BadQueue, BadState, TableFull, PageFault, UnknownCommand];
    for (command, refusals) in [
        (Command::RescanWaits, &[][..]),
        (Command::DisconnectDoorbell, &[BadDoorbell, BadQueue]),
        (Command::FenceChanged, &[BadArgument, PageFault]),
        (Command::ResetNode, &[BadArgument, BadState]),
        (Command::SetFenceLog, &[BadArgument, BadQueue, BadState, PageFault]),
        (Command::UnmapFence, &[BadArgument, UnknownCommand]),
        (Command::SetQueueRoot, &[BadArgument, BadQueue, BadState]),
        (Command::SetSchedulingLog, &[BadArgument, BadState]),
    ] {
        assert!(command.may_answer(Done), "{command:?}");
        let found: Vec<CommandStatus> = all.into_iter().filter(|status| command.may_answer(*status)).collect();
        assert_eq!(found, refusals, "{command:?}");
    }
}

#[test]
fn placements_have_the_numbers_of_the_private_data() {
    let all = [
        Placement::System,
        Placement::VramVisible,
        Placement::Vram,
        Placement::VramLockable,
        Placement::SystemUncached,
    ];
    for (number, placement) in (0..).zip(all) {
        assert_eq!((placement as u32, Placement::from_number(number)), (number, Some(placement)));
    }
}
