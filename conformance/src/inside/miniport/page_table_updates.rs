//! Page tables that the paging node writes: which packets an update becomes, in buffers of any size, and what is refused.

use campanile_hw::packet::{InvalidateTlb, Packet};
use campanile_hw::page_table::Pte;
use campanile_hw::queue::Location;
use campanile_hw::registers::{self, Caps};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use super::paging::{Buffer, Operation, all_passes, at_once, frame};
use super::rig::Rig;
use super::system::{ALL, System, ddi, printed};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.EntriesThatCannotBeAreLeftInvalid" on Boot::Shared, "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "An update of page tables never fails: an entry that the hardware cannot express is left invalid and named in the debug log, once for each kind of operation."
        => entries_that_the_hardware_cannot_express_are_left_invalid_and_printed_once;
    "Miniport.UpdateModeIsTheHardwares" on Boot::Shared, "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "The update mode that the driver reports is the one that the hardware asks for."
        => the_mode_is_the_one_that_the_hardware_asks_for;
    "Miniport.EntriesAreWrittenOnceEach" on Boot::Shared, "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "Where the GPU writes page tables, each entry of an update is written once, with Repeat the first to every place, however many buffers that takes."
        => entries_are_written_by_packets_once_each_in_buffers_of_any_size;
    "Miniport.PagingProcessTablesAreWrittenByTheProcessor" on Boot::Shared, "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "Tables that are updated with CPU_VIRTUAL, as those of the paging process before it runs, are written with the processor whatever mode the adapter reports."
        => tables_of_the_paging_process_are_written_with_the_processor_in_any_mode;
    "Miniport.UpdatesThatCannotBeBuildNothing" on Boot::Shared, "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "An update that no packet can express succeeds and builds none."
        => updates_that_packets_cannot_say_succeed_and_build_none;
    "Miniport.FlushesFollowTheirUpdates" on Boot::Shared, "gpu-virtual-memory":
        "Where the GPU writes page tables, it forgets translations behind the packets that change them."
        => translations_are_forgotten_behind_the_packets_that_change_them;
    "Miniport.OnlyPagingBuffersArePrivileged" on Boot::Shared, "gpu-virtual-memory":
        "Only buffers of the system on the paging node may write page tables by physical address."
        => only_buffers_of_the_system_on_the_paging_node_are_privileged;
}

const CPU: DXGK_PAGETABLEUPDATEMODE = DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
const VIRTUAL: DXGK_PAGETABLEUPDATEMODE = DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL;
const PHYSICAL: DXGK_PAGETABLEUPDATEMODE = DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_PHYSICAL;

/// Where the table lies: at this address of the paging process, and at this offset of segment 2.
const TABLE_VA: u64 = 0x7_0000_0000;
const TABLE_OFFSET: u64 = 0x3000;

/// A system whose GPU asks for this mode by number.
fn system(case: &Case<'_>, number: u8) -> Box<System> {
    let mut system = System::added(case, ALL, 1);
    let word = system.get(registers::CAPS);
    let caps = Caps::from_bits(word as u32).with_page_table_updates(number);
    system.set(registers::CAPS, word >> 32 << 32 | u64::from(caps.into_bits()));
    assert_eq!(system.start(), STATUS_SUCCESS);
    system
}

fn claimed(system: &System) -> DXGK_PAGETABLEUPDATEMODE {
    let mut caps = DXGK_GPUMMUCAPS::zeroed();
    let mut physical_adapter = 0u32;
    let mut args = DXGKARG_QUERYADAPTERINFO::zeroed();
    args.Type = DXGK_QUERYADAPTERINFOTYPE::DXGKQAITYPE_GPUMMUCAPS;
    (args.pInputData, args.InputDataSize) = ((&raw mut physical_adapter).cast(), 4);
    (args.pOutputData, args.OutputDataSize) = ((&raw mut caps).cast(), size_of::<DXGK_GPUMMUCAPS>() as u32);
    assert_eq!(ddi!(system, DxgkDdiQueryAdapterInfo, system.adapter, &raw const args), STATUS_SUCCESS);
    caps.PageTableUpdateMode
}

fn update(
    mode: DXGK_PAGETABLEUPDATEMODE,
    start: u32,
    entries: &mut [DXGK_PTE],
) -> DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE {
    let mut update = DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE::zeroed();
    let segment = D3DGPU_PHYSICAL_ADDRESS { SegmentId: 2, Padding: 0, SegmentOffset: TABLE_OFFSET };
    update.PageTableAddress = match mode {
        PHYSICAL => DXGK_PAGETABLEUPDATEADDRESS { GpuPhysical: segment },
        _ => DXGK_PAGETABLEUPDATEADDRESS { GpuVirtual: TABLE_VA },
    };
    update.UpdateMode = mode;
    (update.StartIndex, update.NumPageTableEntries) = (start, entries.len() as u32);
    update.pPageTableEntries = entries.as_mut_ptr();
    update
}

fn arm(update: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE) -> DXGKARG_BUILDPAGINGBUFFER_Union {
    DXGKARG_BUILDPAGINGBUFFER_Union { UpdatePageTable: update }
}

const UPDATE: Operation = Operation::DXGK_OPERATION_UPDATE_PAGE_TABLE;

fn entries_that_the_hardware_cannot_express_are_left_invalid_and_printed_once(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    for (number, mode) in [(1, VIRTUAL), (2, PHYSICAL)] {
        let mut system = system(case, number);
        let table = table_in_vram(&system);
        printed(case);
        let mut entries = [frame(0, 0x55); 8];
        entries[7] = frame(9, 0);
        let mut buffer = Buffer::new(4096);
        ensure_eq!(buffer.build(&system, UPDATE, arm(update(mode, 3, &mut entries)), 0).0, STATUS_SUCCESS);
        let written = writes(mode, table, &buffer.packets());
        ensure_eq!(written.iter().map(|(index, _)| *index).collect::<Vec<_>>(), (3..11).collect::<Vec<_>>());
        let invalid: Vec<u64> = written.iter().filter(|(_, word)| *word == 0).map(|(index, _)| *index).collect();
        ensure_eq!(invalid, [10], "an entry in no segment");
        let mut same = [frame(2, 1 << 40)];
        let mut repeated = update(mode, 0, &mut same);
        repeated.Flags = DXGK_UPDATEPAGETABLEFLAGS::new().with_Repeat(true);
        repeated.NumPageTableEntries = 4;
        let mut buffer = Buffer::new(4096);
        ensure_eq!(buffer.build(&system, UPDATE, arm(repeated), 0).0, STATUS_SUCCESS);
        ensure_eq!(writes(mode, table, &buffer.packets()), [(0, 0), (1, 0), (2, 0), (3, 0)]);
        let lines = printed(case);
        let reports = lines.iter().filter(|line| line.contains("DxgkDdiBuildPagingBuffer")).count();
        ensure_eq!(reports, 1, "one report for each kind of operation, not {lines:?}");
        for field in
            ["0xb: PageTableLevel=0x0 ", " StartIndex=0x3 ", " NumPageTableEntries=0x8 ", " PageTableAddress.Gpu"]
        {
            ensure!(lines.concat().contains(field), "{field} is not in {lines:?}");
        }
        system.remove();
    }
    Ok(())
}

/// What packets write: index in the table and entry, in order.
fn writes(mode: DXGK_PAGETABLEUPDATEMODE, vram: u64, packets: &[Packet]) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for packet in packets {
        let (destination, (words, count), repeat) = match packet {
            Packet::Write(write) if mode == VIRTUAL => (write.destination - TABLE_VA, write.words(), write.repeat),
            Packet::WritePhysical(write) if mode == PHYSICAL => {
                let place = Location::from_bits(write.destination);
                assert!(!place.system());
                (place.address() - vram, write.words(), write.repeat)
            }
            other => panic!("{other:?}"),
        };
        let words = words[..count].iter().copied().cycle().take(count * usize::from(repeat));
        all.extend(words.zip(destination / 8..).map(|(word, index)| (index, word)));
    }
    all
}

/// Offset in VRAM of the table, found by what FLUSH_TLB makes of its address as a root.
fn table_in_vram(system: &System) -> u64 {
    let Packet::InvalidateTlb(packet) = flushed(system, 0, 0) else { panic!("no packet") };
    Location::from_bits(packet.root).address()
}

fn flushed(system: &System, start: u64, end: u64) -> Packet {
    let mut flush = DXGK_BUILDPAGINGBUFFER_FLUSHTLB::zeroed();
    flush.RootPageTableAddress = D3DGPU_PHYSICAL_ADDRESS { SegmentId: 2, Padding: 0, SegmentOffset: TABLE_OFFSET };
    (flush.StartVirtualAddress, flush.EndVirtualAddress) = (start, end);
    let mut buffer = Buffer::new(4096);
    let u = DXGKARG_BUILDPAGINGBUFFER_Union { FlushTlb: flush };
    assert_eq!(buffer.build(system, Operation::DXGK_OPERATION_FLUSH_TLB, u, 0), (STATUS_SUCCESS, 0));
    let [packet] = buffer.packets()[..] else { panic!("{:?}", buffer.packets()) };
    packet
}

fn the_mode_is_the_one_that_the_hardware_asks_for(case: &mut Case<'_>) -> Result<(), Failure> {
    for (number, mode) in [(0, CPU), (1, VIRTUAL), (2, PHYSICAL), (3, CPU)] {
        let mut system = system(case, number);
        ensure_eq!(claimed(&system), mode, "{number}");
        system.remove();
    }
    Ok(())
}

fn entries_are_written_by_packets_once_each_in_buffers_of_any_size(case: &mut Case<'_>) -> Result<(), Failure> {
    for (number, mode) in [(1, VIRTUAL), (2, PHYSICAL)] {
        let mut system = system(case, number);
        let vram = table_in_vram(&system);
        for (start, count) in [(0, 1), (3, 6), (3, 7), (500, 12), (0, 512)] {
            let mut entries: Vec<DXGK_PTE> = (0..count).map(|page| frame((page % 2 * 2) as u8, page)).collect();
            entries[0].Bits.set_Valid(false);
            let mut expected = Vec::new();
            for (index, element) in (u64::from(start)..).zip(&entries) {
                let system = Pte::new().with_valid(true).with_system(true);
                // SAFETY: both arms are a number.
                let page = unsafe { element.u1.PageAddress };
                let entry = match (element.Bits.Valid(), element.Bits.Segment()) {
                    (false, _) => Pte::new(),
                    (true, 0) => system.with_address(page << 12),
                    (true, _) => system.with_system(false).with_address(vram - TABLE_OFFSET + (page << 12)),
                };
                expected.push((index, entry.into_bits()));
            }
            for size in [64, 100, 192, 8192] {
                let passes = all_passes(&system, size, UPDATE, arm(update(mode, start, &mut entries)));
                let packets = passes.concat();
                ensure_eq!(packets.len(), (count as usize).div_ceil(6));
                ensure_eq!(writes(mode, vram, &packets), expected, "{count} from {start} in buffers of {size} bytes");
            }
        }
        // Entries of the same value need one packet.
        let mut same = [frame(0, 0x55)];
        let mut repeated = update(mode, 12, &mut same);
        (repeated.NumPageTableEntries, repeated.Flags) = (500, DXGK_UPDATEPAGETABLEFLAGS::new().with_Repeat(true));
        let passes = all_passes(&system, 64, UPDATE, arm(repeated));
        let entry = Pte::new().with_valid(true).with_system(true).with_address(0x55 << 12).into_bits();
        let expected: Vec<(u64, u64)> = (12..512).map(|index| (index, entry)).collect();
        ensure_eq!((passes.len(), passes[0].len()), (1, 1));
        ensure_eq!(writes(mode, vram, &passes[0]), expected);
        ensure_eq!(all_passes(&system, 64, UPDATE, arm(update(mode, 512, &mut []))), [Vec::new()]);
        system.remove();
    }
    Ok(())
}

fn tables_of_the_paging_process_are_written_with_the_processor_in_any_mode(case: &mut Case<'_>) -> Result<(), Failure> {
    for number in 0..3 {
        let mut system = system(case, number);
        let (mut table, mut entries) = (vec![0u64; 512], [frame(0, 0x55); 2]);
        let mut bring_up = update(CPU, 1, &mut entries);
        bring_up.PageTableAddress = DXGK_PAGETABLEUPDATEADDRESS { CpuVirtual: table.as_mut_ptr().cast() };
        ensure_eq!(at_once(&system, UPDATE, arm(bring_up)), STATUS_SUCCESS);
        ensure!(table[0] == 0 && table[1] != 0 && table[2] == table[1] && table[3] == 0);
        system.remove();
    }
    Ok(())
}

fn updates_that_packets_cannot_say_succeed_and_build_none(case: &mut Case<'_>) -> Result<(), Failure> {
    for (number, mode) in [(1, VIRTUAL), (2, PHYSICAL)] {
        let mut system = system(case, number);
        let other = if mode == VIRTUAL { PHYSICAL } else { VIRTUAL };
        let mut entries = [frame(0, 0x55); 8];
        type Change = fn(&mut DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE);
        let changes: [(&str, Change); 6] = [
            ("beyond the last entry", |update| update.StartIndex = 505),
            ("an index that wraps", |update| update.StartIndex = u32::MAX),
            ("a level that there is not", |update| update.PageTableLevel = 4),
            ("no entries", |update| update.pPageTableEntries = std::ptr::null_mut()),
            ("a table in the middle of a word", |update| match update.UpdateMode {
                PHYSICAL => {
                    let place = D3DGPU_PHYSICAL_ADDRESS { SegmentId: 2, Padding: 0, SegmentOffset: 0x3004 };
                    update.PageTableAddress.GpuPhysical = place;
                }
                _ => update.PageTableAddress.GpuVirtual = TABLE_VA + 4,
            }),
            ("a table beyond all addresses", |update| match update.UpdateMode {
                PHYSICAL => {
                    let place = D3DGPU_PHYSICAL_ADDRESS { SegmentId: 2, Padding: 0, SegmentOffset: 1 << 50 };
                    update.PageTableAddress.GpuPhysical = place;
                }
                _ => update.PageTableAddress.GpuVirtual = 1 << 48,
            }),
        ];
        for (what, change) in changes {
            entries.fill(frame(0, 0x55));
            let mut bad = update(mode, 0, &mut entries);
            change(&mut bad);
            let mut buffer = Buffer::new(4096);
            ensure_eq!(buffer.build(&system, UPDATE, arm(bad), 0).0, STATUS_SUCCESS, "{what}");
            ensure_eq!(buffer.used, 0, "{what}");
        }
        entries.fill(frame(0, 0x55));
        let mut buffer = Buffer::new(4096);
        let built = buffer.build(&system, UPDATE, arm(update(other, 0, &mut entries)), 0);
        ensure_eq!((built.0, buffer.used), (STATUS_SUCCESS, 0), "a mode that was not claimed");
        let without = at_once(&system, UPDATE, arm(update(mode, 0, &mut entries)));
        ensure_eq!(without, STATUS_SUCCESS, "no buffer for the packets");
        system.remove();
    }
    Ok(())
}

fn translations_are_forgotten_behind_the_packets_that_change_them(case: &mut Case<'_>) -> Result<(), Failure> {
    for number in [1, 2] {
        let mut system = system(case, number);
        let root = table_in_vram(&system);
        let root = Location::new().with_address(root).into_bits();
        ensure_eq!(flushed(&system, 0, 0), Packet::InvalidateTlb(InvalidateTlb { root, start: 0, end: 0 }));
        let Packet::InvalidateTlb(some) = flushed(&system, 0x1800, 0x2001) else { panic!("no packet") };
        ensure!(some.start == 0x1000 && some.end >= 0x3000 && some.end <= 0x4000, "{some:?}");
        system.remove();
    }
    // Where the processor writes tables, they are forgotten before the call returns, and nothing is left for the buffer.
    let mut system = system(case, 0);
    let mut flush = DXGK_BUILDPAGINGBUFFER_FLUSHTLB::zeroed();
    flush.RootPageTableAddress = D3DGPU_PHYSICAL_ADDRESS { SegmentId: 2, Padding: 0, SegmentOffset: TABLE_OFFSET };
    let mut buffer = Buffer::new(4096);
    let u = DXGKARG_BUILDPAGINGBUFFER_Union { FlushTlb: flush };
    ensure_eq!(buffer.build(&system, Operation::DXGK_OPERATION_FLUSH_TLB, u, 0).0, STATUS_SUCCESS);
    ensure_eq!((buffer.used, system.get(registers::CMP_COMMAND) as u32), (0, registers::Command::InvalidateTlb as u32));
    system.remove();
    Ok(())
}

fn only_buffers_of_the_system_on_the_paging_node_are_privileged(case: &mut Case<'_>) -> Result<(), Failure> {
    for (node, system, privileged) in
        [(2, true, true), (2, false, false), (0, true, false), (1, true, false), (0, false, false)]
    {
        let rig = Rig::new(case, ALL, 1);
        let context = rig.context_of(node, system);
        ensure_eq!(rig.submit(context, 1, 64), STATUS_SUCCESS);
        ensure_eq!(rig.system.entry_flags(node, 0).privileged(), privileged, "node {node}, system {system}");
        ensure!(rig.system.entry_flags(node, 0).own_root());
    }
    Ok(())
}
