//! BuildPagingBuffer through the table: every operation, what it puts into the buffer, how it goes on in the next, and what is refused.
//! docs/paging.md lists the operations.

use std::ptr::null_mut;

use campanile_hw::packet::{Copy, Fill, Packet, Signal};
use campanile_hw::page_table::Pte;
use campanile_hw::registers::{self, Command};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::MDL;

use super::rig::{Rig, completed, handle};
use super::system::{ALL, Report, System, ddi, printed, reports};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.TransfersAndFillsCoverTheirRangeOnce" on Boot::Shared, "dxgkddi_buildpagingbuffer":
        "VIRTUAL_TRANSFER and VIRTUAL_FILL cover each byte of their range once, however many buffers that takes."
        => transfers_and_fills_of_no_allocation_cover_their_range_once_in_any_number_of_buffers;
    "Miniport.OperationsArePackedInOrder" on Boot::Shared, "dxgkddi_buildpagingbuffer":
        "Operations are put behind each other into one buffer; the one that does not fit is told to go on in the next, where it was."
        => operations_are_packed_behind_each_other_and_the_last_goes_on_in_the_next_buffer;
    "Miniport.PagingSignalsAreReported" on Boot::Shared, "context-monitoring":
        "After a paging buffer that signals a monitored fence was built, a completion says that a monitored fence may have been written."
        holds [ContextMonitoring 13]
        => once_a_buffer_signals_a_monitored_fence_completions_say_that_one_may_have_been_written;
    "Miniport.ImpossibleOperationsAreRefused" on Boot::Shared, "dxgkddi_buildpagingbuffer":
        "An operation whose address or size no packet can express is refused with STATUS_INVALID_PARAMETER and writes nothing into the buffer."
        => what_a_packet_cannot_say_is_refused_for_good_and_leaves_the_buffer_alone;
    "Miniport.PageTablesAreWrittenBeforeTheCallReturns" on Boot::Shared, "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "With CPU_VIRTUAL the entries are in the table when the call returns, with Repeat the first in every place, and no other entry has changed."
        => page_tables_are_written_with_the_processor_before_the_call_returns;
    "Miniport.UpdatesOutsideTheTableWriteNothing" on Boot::Shared, "d3dkmddi-dxgk_buildpagingbuffer_updatepagetable":
        "An update beyond the last entry, of a level that there is not, without a table or entries, or in a mode that was not reported succeeds and writes nothing."
        => updates_outside_the_table_or_in_a_mode_that_was_not_claimed_write_nothing;
    "Miniport.FlushCoversItsRange" on Boot::Shared, "gpu-virtual-memory":
        "FLUSH_TLB has the translations of every page from the first address to the last forgotten before it returns, and those of the whole space where no range is given."
        => translations_are_forgotten_from_the_first_to_the_last_address_or_all_of_them;
    "Miniport.EntriesAreCopiedRangeByRange" on Boot::Shared, "dxgk_buildpagingbuffer_copypagetableentries":
        "COPY_PAGE_TABLE_ENTRIES copies range by range, over any number of buffers. A range that reaches outside of its tables is not refused: the entries that it was to write become invalid, and where those are no entries of a table nothing is written; the ranges before and after it are copied."
        => entries_are_copied_between_tables_range_by_range;
    "Miniport.ContextAllocationIsUpdated" on Boot::Shared, "dxgkddi_buildpagingbuffer":
        "UPDATE_CONTEXT_ALLOCATION writes the data of the driver into the context allocation, in order and within its size."
        => the_drivers_words_reach_a_context_allocation_in_order;
    "Miniport.ApertureShowsWhatIsMapped" on Boot::Shared, "dxgkddi_buildpagingbuffer":
        "MAP_APERTURE_SEGMENT points pages of the aperture at the pages of an MDL from MdlOffset on, and UNMAP_APERTURE_SEGMENT at the dummy page; what reaches beyond list or segment is refused and changes nothing."
        => pages_of_the_aperture_segment_show_what_a_list_names_until_they_are_unmapped;
    "Miniport.UnclaimedOperationsAreRefused" on Boot::Shared, "dxgkddi_buildpagingbuffer":
        "Notices that need nothing are taken, and operations that the driver never claimed, or that there are not, are refused with STATUS_INVALID_PARAMETER; each kind of these is printed once, with its fields."
        => notices_are_taken_and_what_the_driver_never_claimed_is_refused_for_good;
}

pub(crate) type Operation = DXGK_BUILDPAGINGBUFFER_OPERATION;

/// Most bytes that one GPU packet of a transfer or fill covers.
const CHUNK: u64 = 4 << 20;
const GUARD: u8 = 0xa5;

/// A paging buffer, as the operating system hands it out piece by piece.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    pub(crate) used: usize,
}

impl Buffer {
    pub(crate) fn new(size: usize) -> Self {
        // Behind the buffer lies what nobody may touch.
        Self { bytes: vec![GUARD; size + 64], used: 0 }
    }

    fn size(&self) -> usize {
        self.bytes.len() - 64
    }

    /// One call; what it answered, and how far the operation has come.
    pub(crate) fn build(
        &mut self,
        system: &System,
        operation: Operation,
        u: DXGKARG_BUILDPAGINGBUFFER_Union,
        multipass: u32,
    ) -> (NTSTATUS, u32) {
        let mut args = DXGKARG_BUILDPAGINGBUFFER::zeroed();
        let start = self.bytes.as_mut_ptr();
        args.pDmaBuffer = start.wrapping_add(self.used).cast();
        args.DmaSize = (self.size() - self.used) as u32;
        args.DmaBufferWriteOffset = self.used as u32;
        (args.Operation, args.MultipassOffset, args.u) = (operation, multipass, u);
        let status = ddi!(system, DxgkDdiBuildPagingBuffer, system.adapter, &raw mut args);
        let used = args.pDmaBuffer.addr() - start.addr();
        assert!(used >= self.used && used <= self.size(), "{used} of {} bytes used", self.size());
        assert!(self.bytes[used..].iter().all(|byte| *byte == GUARD), "written beyond what was used");
        self.used = used;
        (status, args.MultipassOffset)
    }

    pub(crate) fn packets(&self) -> Vec<Packet> {
        let (mut rest, mut packets) = (&self.bytes[..self.used], Vec::new());
        while !rest.is_empty() {
            let packet = Packet::decode(rest).expect("a packet");
            rest = &rest[packet.size()..];
            packets.push(packet);
        }
        packets
    }
}

/// An operation without a buffer.
pub(crate) fn at_once(system: &System, operation: Operation, u: DXGKARG_BUILDPAGINGBUFFER_Union) -> NTSTATUS {
    let mut args = DXGKARG_BUILDPAGINGBUFFER::zeroed();
    (args.Operation, args.u) = (operation, u);
    let status = ddi!(system, DxgkDdiBuildPagingBuffer, system.adapter, &raw mut args);
    assert!(args.pDmaBuffer.is_null() && args.MultipassOffset == 0);
    status
}

/// Builds to the end in buffers of `size` bytes; the packets of each.
pub(crate) fn all_passes(
    system: &System,
    size: usize,
    operation: Operation,
    u: DXGKARG_BUILDPAGINGBUFFER_Union,
) -> Vec<Vec<Packet>> {
    let (mut multipass, mut buffers) = (0, Vec::new());
    loop {
        let mut buffer = Buffer::new(size);
        let (status, next) = buffer.build(system, operation, u, multipass);
        buffers.push(buffer.packets());
        if status == STATUS_SUCCESS {
            return buffers;
        }
        assert_eq!(status, STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER);
        assert!(next > multipass, "no progress in an empty buffer");
        multipass = next;
    }
}

fn transfer(size: u64) -> DXGKARG_BUILDPAGINGBUFFER_Union {
    let mut transfer = DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL::zeroed();
    (transfer.SourceVirtualAddress, transfer.DestinationVirtualAddress) = (0x1_0000_0000, 0x2_0000_0000);
    // For information only: the addresses have it in them already.
    transfer.AllocationOffsetInBytes = 0x7000;
    transfer.TransferSizeInBytes = size;
    DXGKARG_BUILDPAGINGBUFFER_Union { TransferVirtual: transfer }
}

fn fill(size: u64) -> DXGKARG_BUILDPAGINGBUFFER_Union {
    let mut fill = DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL::zeroed();
    (fill.DestinationVirtualAddress, fill.FillSizeInBytes) = (0x3_0000_0000, size);
    (fill.FillPattern, fill.AllocationOffsetInBytes) = (0x1234_5678, 0x7000);
    DXGKARG_BUILDPAGINGBUFFER_Union { FillVirtual: fill }
}

fn signal(value: u64) -> DXGKARG_BUILDPAGINGBUFFER_Union {
    let signal =
        DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE { MonitoredFenceGpuVa: 0x4000, MonitoredFenceValue: value };
    DXGKARG_BUILDPAGINGBUFFER_Union { SignalMonitoredFence: signal }
}

fn copy(source: u64, destination: u64, size: u32) -> Packet {
    Packet::Copy(Copy { source, destination, row_bytes: size, rows: 1, source_pitch: 0, destination_pitch: 0 })
}

fn filled(destination: u64, size: u64, pattern: u32) -> Packet {
    Packet::Fill(Fill { destination, size, pattern })
}

fn transfers_and_fills_of_no_allocation_cover_their_range_once_in_any_number_of_buffers(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    for total in [4096, CHUNK, CHUNK + 4096, 9 * CHUNK] {
        for size in [48, 64, 200, 4096] {
            let passes = all_passes(&system, size, Operation::DXGK_OPERATION_VIRTUAL_TRANSFER, transfer(total));
            let mut next = 0;
            for packet in passes.into_iter().flatten() {
                let Packet::Copy(part) = packet else { panic!("{packet:?}") };
                ensure_eq!(packet, copy(0x1_0000_0000 + next, 0x2_0000_0000 + next, part.row_bytes));
                next += u64::from(part.row_bytes);
            }
            ensure_eq!(next, total, "transfer in buffers of {size} bytes");
            let passes = all_passes(&system, size, Operation::DXGK_OPERATION_VIRTUAL_FILL, fill(total));
            let mut next = 0;
            for packet in passes.into_iter().flatten() {
                let Packet::Fill(part) = packet else { panic!("{packet:?}") };
                ensure_eq!(packet, filled(0x3_0000_0000 + next, part.size, 0x1234_5678));
                next += part.size;
            }
            ensure_eq!(next, total, "fill in buffers of {size} bytes");
        }
    }
    let nothing = all_passes(&system, 64, Operation::DXGK_OPERATION_VIRTUAL_TRANSFER, transfer(0));
    ensure_eq!(nothing, [Vec::new()]);
    system.remove();
    Ok(())
}

fn operations_are_packed_behind_each_other_and_the_last_goes_on_in_the_next_buffer(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    let mut buffer = Buffer::new(48 + 32 + 32 + 48);
    let transferring = Operation::DXGK_OPERATION_VIRTUAL_TRANSFER;
    ensure_eq!(buffer.build(&system, transferring, transfer(4096), 0), (STATUS_SUCCESS, 1));
    ensure_eq!(buffer.build(&system, Operation::DXGK_OPERATION_VIRTUAL_FILL, fill(4096), 0).0, STATUS_SUCCESS);
    let signalling = Operation::DXGK_OPERATION_SIGNAL_MONITORED_FENCE;
    ensure_eq!(buffer.build(&system, signalling, signal(7), 0), (STATUS_SUCCESS, 0));
    let before = buffer.used;
    let (status, multipass) = buffer.build(&system, transferring, transfer(3 * CHUNK), 0);
    let fitted = (buffer.used - before) / 48;
    ensure_eq!((status, multipass as usize), (STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER, fitted));
    // A full buffer is left as it is.
    ensure_eq!(buffer.build(&system, transferring, transfer(3 * CHUNK), multipass).1, multipass);
    let mut next = Buffer::new(4096);
    ensure_eq!(next.build(&system, transferring, transfer(3 * CHUNK), multipass), (STATUS_SUCCESS, 3));
    ensure_eq!(next.build(&system, signalling, signal(8), 0).0, STATUS_SUCCESS);
    let expected = |value| Packet::Signal(Signal { handle: 0, current: 0x4000, monitored: 0, value });
    let packets = buffer.packets();
    ensure_eq!(
        packets[..3],
        [copy(0x1_0000_0000, 0x2_0000_0000, 4096), filled(0x3_0000_0000, 4096, 0x1234_5678), expected(7)]
    );
    ensure_eq!(packets.len(), 3 + fitted);
    ensure_eq!((next.packets().len(), next.packets().last()), (4 - fitted, Some(&expected(8))));
    system.remove();
    Ok(())
}

fn once_a_buffer_signals_a_monitored_fence_completions_say_that_one_may_have_been_written(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 1);
    let context = rig.context(2);
    let complete = |fence| {
        assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
        rig.system.retire(2, fence, 1);
        rig.system.interrupt();
        reports()
    };
    ensure_eq!(complete(1), [completed(2, 1)], "no buffer has signalled yet");
    let mut buffer = Buffer::new(4096);
    let built = buffer.build(&rig.system, Operation::DXGK_OPERATION_SIGNAL_MONITORED_FENCE, signal(7), 0);
    ensure_eq!(built.0, STATUS_SUCCESS);
    ensure_eq!(complete(2), [completed(2, 2), Report::Monitored { node: 2 }]);
    Ok(())
}

fn what_a_packet_cannot_say_is_refused_for_good_and_leaves_the_buffer_alone(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    let mut odd = DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL::zeroed();
    (odd.DestinationVirtualAddress, odd.FillSizeInBytes) = (0x3001, 4096);
    let mut uneven = odd;
    (uneven.DestinationVirtualAddress, uneven.FillSizeInBytes) = (0x3000, 4097);
    let mut far = DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE { MonitoredFenceGpuVa: 0x4001, MonitoredFenceValue: 1 };
    for (operation, u) in [
        (Operation::DXGK_OPERATION_VIRTUAL_FILL, DXGKARG_BUILDPAGINGBUFFER_Union { FillVirtual: odd }),
        (Operation::DXGK_OPERATION_VIRTUAL_FILL, DXGKARG_BUILDPAGINGBUFFER_Union { FillVirtual: uneven }),
        (Operation::DXGK_OPERATION_SIGNAL_MONITORED_FENCE, {
            far.MonitoredFenceGpuVa = 0x4001;
            DXGKARG_BUILDPAGINGBUFFER_Union { SignalMonitoredFence: far }
        }),
    ] {
        let mut buffer = Buffer::new(4096);
        let (status, multipass) = buffer.build(&system, operation, u, 0);
        ensure_eq!((status, multipass, buffer.used), (STATUS_INVALID_PARAMETER, 0, 0), "{operation:?}");
    }
    system.remove();
    Ok(())
}

/// A page table that the processor sees.
fn table() -> Vec<u64> {
    vec![u64::MAX; 512]
}

fn update(table: &mut [u64], start: u32, entries: &mut [DXGK_PTE]) -> DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE {
    let mut update = DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE::zeroed();
    update.PageTableAddress = DXGK_PAGETABLEUPDATEADDRESS { CpuVirtual: table.as_mut_ptr().cast() };
    update.UpdateMode = DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
    (update.StartIndex, update.NumPageTableEntries) = (start, entries.len() as u32);
    update.pPageTableEntries = entries.as_mut_ptr();
    update.hProcess = handle(0x9000);
    update
}

fn apply(system: &System, update: DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE) -> NTSTATUS {
    let u = DXGKARG_BUILDPAGINGBUFFER_Union { UpdatePageTable: update };
    at_once(system, Operation::DXGK_OPERATION_UPDATE_PAGE_TABLE, u)
}

pub(crate) fn frame(segment: u8, page: u64) -> DXGK_PTE {
    let bits = DXGK_PTE_Bits::new().with_Valid(true).with_Segment(segment);
    DXGK_PTE { Bits: bits, u1: DXGK_PTE_Union1 { PageAddress: page } }
}

fn page_tables_are_written_with_the_processor_before_the_call_returns(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    let mut memory = table();
    let read_only = DXGK_PTE { Bits: frame(0, 0).Bits.with_ReadOnly(true), ..frame(0, 0x77) };
    let no_execute = DXGK_PTE { Bits: frame(0, 0).Bits.with_NoExecute(true), ..frame(0, 0x78) };
    let mut entries = [frame(0, 0x55), frame(2, 3), frame(2, 4), read_only, DXGK_PTE::zeroed(), no_execute];
    ensure_eq!(apply(&system, update(&mut memory, 10, &mut entries)), STATUS_SUCCESS);
    let found: Vec<Pte> = memory[10..16].iter().map(|word| Pte::from_bits(*word)).collect();
    ensure_eq!(found[0], Pte::new().with_valid(true).with_system(true).with_address(0x55 << 12));
    ensure!(found[1].valid() && !found[1].system() && found[2].address() == found[1].address() + 4096);
    ensure_eq!(found[3], Pte::new().with_valid(true).with_system(true).with_read_only(true).with_address(0x77 << 12));
    ensure_eq!(found[4], Pte::new());
    ensure_eq!(found[5], Pte::new().with_valid(true).with_system(true).with_no_execute(true).with_address(0x78 << 12));
    ensure!(memory[..10].iter().chain(&memory[16..]).all(|word| *word == u64::MAX), "other entries changed");
    let mut repeated = update(&mut memory, 500, &mut entries[..1]);
    (repeated.NumPageTableEntries, repeated.Flags) = (12, DXGK_UPDATEPAGETABLEFLAGS::new().with_Repeat(true));
    ensure_eq!(apply(&system, repeated), STATUS_SUCCESS);
    ensure!(memory[500..].iter().all(|word| Pte::from_bits(*word) == found[0]));
    // Nothing to write is no reason to look at the rest.
    let mut nothing = update(&mut memory, 512, &mut []);
    (nothing.pPageTableEntries, nothing.PageTableAddress.CpuVirtual) = (null_mut(), null_mut());
    ensure_eq!(apply(&system, nothing), STATUS_SUCCESS);
    system.remove();
    Ok(())
}

fn updates_outside_the_table_or_in_a_mode_that_was_not_claimed_write_nothing(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    let (mut memory, mut entries) = (table(), [frame(0, 0x55); 4]);
    let good = update(&mut memory, 0, &mut entries);
    type Change = fn(&mut DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE);
    let changes: [(&str, Change); 8] = [
        ("beyond the last entry", |update| update.StartIndex = 509),
        ("an index that wraps", |update| update.StartIndex = u32::MAX),
        ("a number that wraps", |update| update.NumPageTableEntries = u32::MAX),
        ("a level that there is not", |update| update.PageTableLevel = 4),
        ("no table", |update| update.PageTableAddress.CpuVirtual = null_mut()),
        ("no entries", |update| update.pPageTableEntries = null_mut()),
        ("by the GPU, physically", |update| {
            update.UpdateMode = DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_PHYSICAL
        }),
        ("by the GPU, virtually", |update| {
            update.UpdateMode = DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL
        }),
    ];
    for (what, change) in changes {
        let mut bad = good;
        change(&mut bad);
        ensure_eq!(apply(&system, bad), STATUS_SUCCESS, "{what}");
    }
    ensure!(memory.iter().all(|word| *word == u64::MAX));
    // An entry that names what is in no segment is left invalid; the rest is written.
    let mut some = [frame(0, 0x55), frame(2, 1 << 40), frame(9, 0), frame(0, 0x56)];
    ensure_eq!(apply(&system, update(&mut memory, 0, &mut some)), STATUS_SUCCESS);
    let valid: Vec<bool> = memory[..4].iter().map(|word| Pte::from_bits(*word).valid()).collect();
    ensure_eq!(valid, [true, false, false, true]);
    system.remove();
    Ok(())
}

fn translations_are_forgotten_from_the_first_to_the_last_address_or_all_of_them(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    let mut flush = DXGK_BUILDPAGINGBUFFER_FLUSHTLB::zeroed();
    flush.RootPageTableAddress = D3DGPU_PHYSICAL_ADDRESS { SegmentId: 0, Padding: 0, SegmentOffset: 0x5000 };
    let forgotten = |system: &System, flush| {
        let u = DXGKARG_BUILDPAGINGBUFFER_Union { FlushTlb: flush };
        let status = at_once(system, Operation::DXGK_OPERATION_FLUSH_TLB, u);
        let command = system.get(registers::CMP_COMMAND) as u32;
        assert_eq!((status, command), (STATUS_SUCCESS, Command::InvalidateTlb as u32));
        [registers::CMP_ARG0, registers::CMP_ARG1, registers::CMP_ARG2].map(|register| system.get(register))
    };
    let root = campanile_hw::queue::Location::new().with_system(true).with_address(0x5000).into_bits();
    ensure_eq!(forgotten(&system, flush), [root, 0, 0], "all of it");
    for (start, end) in [(0x1000, 0x2000), (0x1800, 0x2001), (0x7000, 0x7001), (0, 0x1000)] {
        (flush.StartVirtualAddress, flush.EndVirtualAddress) = (start, end);
        let [found, from, to] = forgotten(&system, flush);
        ensure!(
            found == root && from <= start && to >= end && from % 4096 == 0 && to % 4096 == 0,
            "{start:#x} {end:#x}"
        );
        ensure!(to - from <= (end - start).next_multiple_of(4096) + 2 * 4096, "much more than {start:#x} to {end:#x}");
    }
    (flush.StartVirtualAddress, flush.EndVirtualAddress) = (u64::MAX - 5, u64::MAX);
    ensure_eq!(forgotten(&system, flush)[2], 1 << campanile_hw::page_table::VA_BITS, "the end of all addresses");
    flush.RootPageTableAddress.SegmentOffset = 0x5008;
    let u = DXGKARG_BUILDPAGINGBUFFER_Union { FlushTlb: flush };
    let status = at_once(&system, Operation::DXGK_OPERATION_FLUSH_TLB, u);
    ensure_eq!(status, STATUS_SUCCESS, "a root that is none has no translations");
    system.remove();
    Ok(())
}

fn entries_are_copied_between_tables_range_by_range(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    let range = |count, source, destination| DXGK_BUILDPAGINGBUFFER_COPY_RANGE {
        NumPageTableEntries: count,
        SrcPageTableAddress: 0x10_0000,
        DstPageTableAddress: 0x20_0000,
        SrcStartPteIndex: source,
        DstStartPteIndex: destination,
    };
    let mut ranges = [range(1, 0, 511), range(0, 3, 3), range(512, 0, 0), range(16, 32, 48)];
    let copies = |ranges: &mut [DXGK_BUILDPAGINGBUFFER_COPY_RANGE]| {
        let copies = DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES {
            NumRanges: ranges.len() as u32,
            pRanges: ranges.as_mut_ptr(),
        };
        DXGKARG_BUILDPAGINGBUFFER_Union { CopyPageTableEntries: copies }
    };
    let operation = Operation::DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES;
    let expected = [
        copy(0x10_0000, 0x20_0000 + 511 * 8, 8),
        copy(0x10_0000, 0x20_0000, 4096),
        copy(0x10_0000 + 32 * 8, 0x20_0000 + 48 * 8, 128),
    ];
    for size in [48, 100, 4096] {
        let passes = all_passes(&system, size, operation, copies(&mut ranges));
        ensure_eq!(passes.concat(), expected, "in buffers of {size} bytes");
    }
    let misplaced = DXGK_BUILDPAGINGBUFFER_COPY_RANGE { SrcPageTableAddress: 0x10_0004, ..range(2, 0, 0) };
    for (bad, invalid) in [
        (range(2, 511, 4), Some(filled(0x20_0020, 16, 0))),
        (range(1, u32::MAX, 0), Some(filled(0x20_0000, 8, 0))),
        (misplaced, Some(filled(0x20_0000, 16, 0))),
        (range(2, 0, 511), None),
        (range(u32::MAX, 1, 1), None),
    ] {
        let mut buffer = Buffer::new(4096);
        let (status, done) = buffer.build(&system, operation, copies(&mut [ranges[0], bad, ranges[2]]), 0);
        ensure_eq!((status, done), (STATUS_SUCCESS, 3), "{:?}", bad.NumPageTableEntries);
        let around: Vec<Packet> = [Some(expected[0]), invalid, Some(expected[1])].into_iter().flatten().collect();
        ensure_eq!(buffer.packets(), around, "{:?}", bad.NumPageTableEntries);
    }
    let mut buffer = Buffer::new(4096);
    let none = DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES { NumRanges: 1, pRanges: null_mut() };
    let none = DXGKARG_BUILDPAGINGBUFFER_Union { CopyPageTableEntries: none };
    ensure_eq!(buffer.build(&system, operation, none, 0), (STATUS_SUCCESS, 0), "no ranges where one is announced");
    ensure_eq!(buffer.used, 0);
    system.remove();
    Ok(())
}

fn the_drivers_words_reach_a_context_allocation_in_order(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    let mut words: Vec<u32> = (1..=100).collect();
    let mut update = DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION::zeroed();
    (update.ContextAllocation, update.ContextAllocationSize) = (0x8000, 4096);
    (update.pDriverPrivateData, update.DriverPrivateDataSize) = (words.as_mut_ptr().cast(), 400);
    let u = |update| DXGKARG_BUILDPAGINGBUFFER_Union { UpdateContextAllocation: update };
    let operation = Operation::DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION;
    let expected: Vec<Packet> = (0..100).map(|word: u32| filled(0x8000 + u64::from(word) * 4, 4, word + 1)).collect();
    for size in [32, 333, 8192] {
        ensure_eq!(all_passes(&system, size, operation, u(update)).concat(), expected, "in buffers of {size} bytes");
    }
    for (size, room) in [(402, 4096), (400, 399)] {
        (update.DriverPrivateDataSize, update.ContextAllocationSize) = (size, room);
        let mut buffer = Buffer::new(4096);
        ensure_eq!(buffer.build(&system, operation, u(update), 0).0, STATUS_INVALID_PARAMETER);
        ensure_eq!(buffer.used, 0);
    }
    system.remove();
    Ok(())
}

/// A list of locked pages.
#[repr(C)]
struct Pages<const COUNT: usize> {
    header: MDL,
    frames: [usize; COUNT],
}

impl<const COUNT: usize> Pages<COUNT> {
    fn new(frames: [usize; COUNT]) -> Self {
        let mut header = MDL::zeroed();
        header.ByteCount = COUNT as u32 * 4096;
        Self { header, frames }
    }

    /// Points `count` pages of the aperture segment at the pages of the list from number `from` on.
    fn map(&mut self, offset: usize, count: usize, from: u32) -> DXGKARG_BUILDPAGINGBUFFER_Union {
        let mut map = DXGKARG_BUILDPAGINGBUFFER_MapApertureSegment::zeroed();
        (map.SegmentId, map.OffsetInPages, map.NumberOfPages, map.MdlOffset) = (1, offset, count, from);
        map.pMdl = (&raw mut *self).cast();
        DXGKARG_BUILDPAGINGBUFFER_Union { MapApertureSegment: map }
    }
}

const MAP: Operation = Operation::DXGK_OPERATION_MAP_APERTURE_SEGMENT;

/// Points pages of the aperture segment at these.
pub(crate) fn map_aperture<const COUNT: usize>(system: &System, offset: usize, frames: [usize; COUNT]) -> NTSTATUS {
    at_once(system, MAP, Pages::new(frames).map(offset, COUNT, 0))
}

fn pages_of_the_aperture_segment_show_what_a_list_names_until_they_are_unmapped(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    let mut pages = Pages::new([0x10, 0x20, 0x30, 0x40]);
    ensure_eq!(at_once(&system, MAP, pages.map(7, 2, 1)), STATUS_SUCCESS);
    let shown = |system: &System| {
        let (mut memory, mut entries) = (table(), [frame(1, 7), frame(1, 8)]);
        let status = apply(system, update(&mut memory, 0, &mut entries));
        (status, [0, 1].map(|index: usize| Pte::from_bits(memory[index]).address() >> 12))
    };
    ensure_eq!(shown(&system), (STATUS_SUCCESS, [0x20, 0x30]));
    for (what, bad) in [
        ("more than the list has", pages.map(7, 4, 1)),
        ("an offset that wraps", pages.map(7, 2, u32::MAX)),
        ("beyond the segment", pages.map(usize::MAX, 2, 0)),
    ] {
        ensure_eq!(at_once(&system, MAP, bad), STATUS_INVALID_PARAMETER, "{what}");
    }
    ensure_eq!(shown(&system), (STATUS_SUCCESS, [0x20, 0x30]), "what was refused changed something");
    let mut unmap = DXGKARG_BUILDPAGINGBUFFER_UnmapApertureSegment::zeroed();
    (unmap.SegmentId, unmap.OffsetInPages, unmap.NumberOfPages) = (1, 7, 2);
    unmap.DummyPage.QuadPart = 0x99 << 12;
    let u = DXGKARG_BUILDPAGINGBUFFER_Union { UnmapApertureSegment: unmap };
    ensure_eq!(at_once(&system, Operation::DXGK_OPERATION_UNMAP_APERTURE_SEGMENT, u), STATUS_SUCCESS);
    ensure_eq!(shown(&system).1, [0x99, 0x99]);
    system.remove();
    Ok(())
}

fn notices_are_taken_and_what_the_driver_never_claimed_is_refused_for_good(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut system = System::started(case, ALL, 1);
    let known = [
        Operation::DXGK_OPERATION_NOTIFY_RESIDENCY,
        Operation::DXGK_OPERATION_NOTIFY_FENCE_RESIDENCY,
        Operation::DXGK_OPERATION_INIT_CONTEXT_RESOURCE,
        Operation::DXGK_OPERATION_DISCARD_CONTENT,
        Operation::DXGK_OPERATION_READ_PHYSICAL,
        Operation::DXGK_OPERATION_WRITE_PHYSICAL,
        // Of no bytes, as evictions are after an adapter reset.
        Operation::DXGK_OPERATION_TRANSFER,
    ];
    let unknown = [
        Operation::DXGK_OPERATION_FILL,
        Operation::DXGK_OPERATION_SPECIAL_LOCK_TRANSFER,
        Operation::DXGK_OPERATION_MAP_APERTURE_SEGMENT2,
        Operation::DXGK_OPERATION_MAP_MMU,
        Operation::DXGK_OPERATION_UNMAP_MMU,
        Operation::DXGK_OPERATION_NOTIFY_RESIDENCY2,
        Operation::DXGK_OPERATION_NOTIFY_ALLOC,
        DXGK_BUILDPAGINGBUFFER_OPERATION(23),
        DXGK_BUILDPAGINGBUFFER_OPERATION(-1),
        DXGK_BUILDPAGINGBUFFER_OPERATION(i32::MAX),
    ];
    printed(case);
    let answers = [(known.as_slice(), STATUS_SUCCESS), (unknown.as_slice(), STATUS_INVALID_PARAMETER)];
    for (operations, answer) in answers {
        for operation in operations.iter().chain(operations) {
            let mut buffer = Buffer::new(4096);
            let nothing = DXGKARG_BUILDPAGINGBUFFER::zeroed().u;
            ensure_eq!(buffer.build(&system, *operation, nothing, 0), (answer, 0), "{operation:?}");
            ensure_eq!(buffer.used, 0, "{operation:?}");
        }
    }
    let mut transfer = DXGKARG_BUILDPAGINGBUFFER_Transfer::zeroed();
    transfer.TransferSize = 1;
    let u = DXGKARG_BUILDPAGINGBUFFER_Union { Transfer: transfer };
    let status = Buffer::new(4096).build(&system, Operation::DXGK_OPERATION_TRANSFER, u, 0);
    ensure_eq!(status, (STATUS_INVALID_PARAMETER, 0), "a physical transfer of a byte");
    let lines = printed(case);
    // The last two are one kind, for they are far from any operation; the transfer is one more.
    ensure_eq!(lines.len(), unknown.len(), "one report for each kind of operation, not {lines:?}");
    for report in [" 0x0: hAllocation=0x0 TransferOffset=0x0 TransferSize=0x1 ", " 0x1: hAllocation=0x0 FillSize=0x0 "]
    {
        ensure!(lines.iter().any(|line| line.contains(report)), "{report} is not in {lines:?}");
    }
    system.remove();
    Ok(())
}
