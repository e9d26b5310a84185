//! DxgkDdiBuildPagingBuffer.
//!
//! Page tables are written as the operation says: at once with the processor, or by packets of the paging node where the adapter claims
//! that. Translations are forgotten at once by a scheduler command, or where packets write the tables by one behind those. Everything
//! else becomes packets for the paging node, which runs them in the paging process. Work that does not fit into the DMA buffer continues
//! where `MultipassOffset`, the number of packets built so far, says.
//!
//! No operation is answered with STATUS_GRAPHICS_ALLOCATION_BUSY: the memory manager would wait until the allocation is idle and ask
//! again, and what cannot be carried out now cannot be carried out then. Page-table updates, copies of entries and flushes never fail,
//! because the memory manager cannot go back: an entry that the hardware cannot express is left invalid, so that an access through it faults. Any other
//! operation that contradicts what the adapter reported is refused with a status that the memory manager answers with bug check 0x10E
//! (0xB), because going on would lose content in silence. Either is printed with its fields, once for each kind of operation.

pub(crate) mod buffer;
mod copy_entries;
pub(crate) mod root;

use core::ptr::NonNull;

use campanile_hw::packet;
use campanile_hw::page_table::{PAGE_4K, Pte};
use campanile_hw::queue::{Location, SYSTEM_PAGE_SIZE};
use campanile_hw::registers::Command;
use campanile_hw::trace::Component;
use campanile_hw::trace::event::Event;
use wddm_ddi::km::*;
use wddm_ddi::types::MDL;

use crate::adapter::Adapter;
use crate::caps::page_table_update_mode;
use crate::gpu::Gpu;
use crate::handle::{Handle, Object};
use crate::irql::Passive;
use crate::memory::allocation;
use crate::memory::page_table::{self, BadEntry, LeafPages};
use crate::mmio::full_barrier;
use crate::paging_report;
use crate::queue::context::Context;
use crate::refusal::{Reason, Refused, refused};
use crate::vram::segments;
use buffer::{Buffer, PagingError, TablePlace};

/// Bytes that one packet of a transfer or fill covers; packets are what the engine switches queues between.
const CHUNK: u64 = 4 << 20;

/// Part `index` of a range of `total` bytes: (offset, size).
fn chunk(total: u64, index: u32) -> Option<(u64, u64)> {
    let offset = u64::from(index).checked_mul(CHUNK)?;
    let size = total.checked_sub(offset)?.min(CHUNK);
    (size != 0).then_some((offset, size))
}

/// DxgkDdiBuildPagingBuffer. The system context names the engine; without one it is the first.
///
/// An adapter that is not started has lost the contents of its memory and all translations, so that there is nothing to do.
///
/// # Errors
/// STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER if the operation goes on in another buffer; STATUS_INVALID_PARAMETER if it can never be carried
/// out, which no page-table update, copy of entries or flush answers. [d3dkmddi: DXGKDDI_BUILDPAGINGBUFFER]
pub(crate) fn build(irql: &Passive, adapter: &Adapter, args: &mut DXGKARG_BUILDPAGINGBUFFER) -> Result<(), Refused> {
    let context = adapter.objects.get::<Context>(Handle::of(args.hSystemContext));
    let Ok(gpu) = adapter.started_engine(context.map_or(0, Context::engine)) else {
        adapter.trace.passed_over(Component::Memory, Reason::NotStarted, args.Operation.0.cast_unsigned().into());
        return Ok(());
    };
    let mut buffer = Buffer { next: args.pDmaBuffer.cast(), left: args.DmaSize as usize };
    let mut multipass = args.MultipassOffset;
    let result = operation(irql, adapter, gpu, args, &mut multipass, &mut buffer);
    args.MultipassOffset = multipass;
    if !buffer.next.is_null() {
        args.pDmaBuffer = buffer.next.cast();
    }
    adapter.trace.note(
        Component::Memory,
        &Event::Paging {
            operation: args.Operation.0.cast_unsigned(),
            bytes: (args.DmaSize as usize).saturating_sub(buffer.left) as u32,
            more: (result == Err(PagingError::InsufficientDmaBuffer)).into(),
        },
    );
    match result {
        Ok(()) => Ok(()),
        Err(PagingError::InsufficientDmaBuffer) => Err(refused(Reason::PagingBufferFull)),
        Err(PagingError::Impossible) if never_fails(args.Operation) => {
            ignore(adapter, args);
            Ok(())
        }
        Err(PagingError::Impossible) => {
            paging_report::print(&adapter.printed_paging, args);
            Err(refused(Reason::PagingOperation))
        }
    }
}

/// True for page-table updates, copies of their entries and flushes, which the memory manager does not take back.
const fn never_fails(operation: DXGK_BUILDPAGINGBUFFER_OPERATION) -> bool {
    use DXGK_BUILDPAGINGBUFFER_OPERATION as Op;
    matches!(
        operation,
        Op::DXGK_OPERATION_UPDATE_PAGE_TABLE
            | Op::DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES
            | Op::DXGK_OPERATION_FLUSH_TLB
    )
}

/// Counts and prints an operation of which a part, or all, cannot be carried out and is left out.
fn ignore(adapter: &Adapter, args: &DXGKARG_BUILDPAGINGBUFFER) {
    paging_report::print(&adapter.printed_paging, args);
    let operation = u64::from(args.Operation.0.cast_unsigned());
    adapter.trace.passed_over(Component::Memory, Reason::PagingOperation, operation);
}

fn operation(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    args: &DXGKARG_BUILDPAGINGBUFFER,
    multipass: &mut u32,
    buffer: &mut Buffer,
) -> Result<(), PagingError> {
    use DXGK_BUILDPAGINGBUFFER_OPERATION as Op;
    macro_rules! arm {
        ($name:ident) => {{
            // SAFETY: Operation selects the arm that the operating system filled; every arm is plain data.
            unsafe { &args.u.$name }
        }};
    }
    match args.Operation {
        Op::DXGK_OPERATION_UPDATE_PAGE_TABLE => update_page_table(irql, adapter, gpu, args, multipass, buffer),
        Op::DXGK_OPERATION_FLUSH_TLB => flush_tlb(irql, gpu, arm!(FlushTlb), buffer),
        Op::DXGK_OPERATION_VIRTUAL_TRANSFER => transfer(arm!(TransferVirtual), multipass, buffer),
        Op::DXGK_OPERATION_VIRTUAL_FILL => fill(arm!(FillVirtual), multipass, buffer),
        Op::DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES => {
            copy_entries::build(arm!(CopyPageTableEntries), multipass, buffer, || ignore(adapter, args))
        }
        Op::DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION => {
            update_context_allocation(arm!(UpdateContextAllocation), multipass, buffer)
        }
        Op::DXGK_OPERATION_SIGNAL_MONITORED_FENCE => signal(gpu, arm!(SignalMonitoredFence), buffer),
        Op::DXGK_OPERATION_MAP_APERTURE_SEGMENT => map_aperture(gpu, arm!(MapApertureSegment)),
        Op::DXGK_OPERATION_UNMAP_APERTURE_SEGMENT => unmap_aperture(gpu, arm!(UnmapApertureSegment)),
        // No allocation asks to hear of its residency, and no context has an allocation of the driver's: nothing depends on these.
        Op::DXGK_OPERATION_NOTIFY_RESIDENCY
        | Op::DXGK_OPERATION_NOTIFY_FENCE_RESIDENCY
        | Op::DXGK_OPERATION_INIT_CONTEXT_RESOURCE
        | Op::DXGK_OPERATION_DISCARD_CONTENT => Ok(()),
        // The device is coherent with the processor's caches, which is all that these accesses of 1 to 8 bytes are for.
        Op::DXGK_OPERATION_READ_PHYSICAL | Op::DXGK_OPERATION_WRITE_PHYSICAL => Ok(()),
        // Evictions after an adapter reset move nothing.
        Op::DXGK_OPERATION_TRANSFER if arm!(Transfer).TransferSize == 0 => Ok(()),
        _ => Err(PagingError::Impossible),
    }
}

/// The entries of an update as the hardware has them.
struct NewEntries<'a> {
    adapter: &'a Adapter,
    gpu: &'a Gpu,
    args: &'a DXGKARG_BUILDPAGINGBUFFER,
    level: u32,
    leaf: LeafPages,
    elements: NonNull<DXGK_PTE>,
}

impl NewEntries<'_> {
    /// The entry for an element of the array, which is below its length. One that the hardware cannot express is left invalid, so that an
    /// access through it faults instead of reaching a wrong page; it is counted. A GPU reaches no memory of another one, so that an entry
    /// for that is one of those. To which GPU a table belongs the system context tells; directories may be written before there is one.
    fn entry(&self, element: u32) -> Pte {
        let (adapter, gpu) = (self.adapter, self.gpu);
        // SAFETY: the array has NumPageTableEntries elements, one with Repeat; `element` is below that.
        let element = unsafe { self.elements.add(element as usize) };
        // SAFETY: as above; the operating system does not write it during the call.
        let element = unsafe { element.read() };
        let owner = u32::from(element.Bits.PhysicalAdapterIndex());
        let is_page = self.level == 0 || element.Bits.LargePage();
        let is_local = element.Bits.Segment() == 0 || element.Bits.Zero() || owner == gpu.dxgk.engine();
        if element.Bits.Valid() && is_page && !is_local {
            adapter.trace.passed_over(Component::Memory, Reason::PeerMemory, owner.into());
            return Pte::new();
        }
        let locate = |segment, offset, size| {
            let there = if segment == 0 { Some(gpu) } else { adapter.engine(owner).ok() }?;
            there.layout.locate(&there.aperture, segment, offset, size)
        };
        page_table::entry(&element, self.level, self.leaf, locate).unwrap_or_else(|BadEntry| {
            ignore(adapter, self.args);
            Pte::new()
        })
    }
}

fn update_page_table(
    irql: &Passive,
    adapter: &Adapter,
    gpu: &Gpu,
    args: &DXGKARG_BUILDPAGINGBUFFER,
    multipass: &mut u32,
    buffer: &mut Buffer,
) -> Result<(), PagingError> {
    // SAFETY: the operating system filled the arm of this operation.
    let update = unsafe { &args.u.UpdatePageTable };
    let medium = update.PageTableLevel == 0 && update.Flags.Use64KBPages();
    let leaf = if medium { LeafPages::Medium } else { LeafPages::Small };
    if update.PageTableLevel >= campanile_hw::page_table::LEVELS
        || !page_table::fits(update.StartIndex, update.NumPageTableEntries, leaf)
    {
        return Err(PagingError::Impossible);
    }
    let place = match update.UpdateMode {
        DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL => None,
        mode if mode != page_table_update_mode(&gpu.hardware) || buffer.next.is_null() => {
            return Err(PagingError::Impossible);
        }
        DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL => {
            // SAFETY: the update mode says that the address is one of the paging process.
            Some(TablePlace::Virtual(unsafe { update.PageTableAddress.GpuVirtual }))
        }
        _ => {
            // SAFETY: the update mode says that the address is one of a segment.
            let address = unsafe { update.PageTableAddress.GpuPhysical };
            Some(TablePlace::Physical(root_location(gpu, &address).ok_or(PagingError::Impossible)?))
        }
    };
    if update.Flags.NotifyEviction() && update.PageTableLevel == campanile_hw::page_table::ROOT_LEVEL && *multipass == 0
    {
        // Before the table changes: the hardware may still have fence values and log entries to write through it.
        root::forget(irql, adapter, gpu, Handle::of(update.hProcess));
    }
    if update.NumPageTableEntries == 0 {
        return Ok(());
    }
    let elements = NonNull::new(update.pPageTableEntries).ok_or(PagingError::Impossible)?;
    let entries = NewEntries { adapter, gpu, args, level: update.PageTableLevel, leaf, elements };
    note_mapping(irql, adapter, update, elements);
    match place {
        None => write_entries(&entries, update),
        Some(place) => push_entries(&entries, update, place, multipass, buffer),
    }
}

/// Notes the address of the allocation whose pages the entries show.
fn note_mapping(
    irql: &Passive,
    adapter: &Adapter,
    update: &DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE,
    elements: NonNull<DXGK_PTE>,
) {
    // SAFETY: the array has an element at least.
    let first = unsafe { elements.read() };
    if !update.hAllocation.is_null() && first.Bits.Valid() {
        let begin = update.FirstPteVirtualAddress.wrapping_sub(update.AllocationOffsetInBytes);
        allocation::note_mapping(irql, adapter, update.hAllocation, Handle::of(update.hProcess), begin);
    }
}

/// Writes entries with the processor.
fn write_entries(entries: &NewEntries<'_>, update: &DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE) -> Result<(), PagingError> {
    // SAFETY: the update mode says that the address is a kernel address.
    let table = unsafe { update.PageTableAddress.CpuVirtual };
    let table = NonNull::new(table.cast::<u64>()).filter(|table| table.is_aligned()).ok_or(PagingError::Impossible)?;
    for step in page_table::steps(update.StartIndex, update.NumPageTableEntries, update.Flags.Repeat()) {
        let entry = entries.entry(step.element);
        // SAFETY: `index` is below the entries of a table, which the address maps whole.
        let place = unsafe { table.add(step.index as usize) };
        // SAFETY: an aligned word of the table; the device may read it meanwhile, which a volatile store allows.
        unsafe { place.write_volatile(entry.into_bits()) };
    }
    full_barrier();
    Ok(())
}

/// Has the paging node write entries: all that are the same with one packet, others with one for each few.
fn push_entries(
    entries: &NewEntries<'_>,
    update: &DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE,
    place: TablePlace,
    multipass: &mut u32,
    buffer: &mut Buffer,
) -> Result<(), PagingError> {
    let repeat = update.Flags.Repeat();
    let mut steps = page_table::steps(update.StartIndex, update.NumPageTableEntries, repeat).peekable();
    if repeat {
        let first = steps.peek().copied().filter(|_| *multipass == 0);
        if let Some(first) = first {
            let entry = entries.entry(first.element);
            place.push(buffer, first.index, &[entry.into_bits()], steps.count() as u16)?;
            *multipass = 1;
        }
        return Ok(());
    }
    let mut rest = steps.skip((*multipass as usize).saturating_mul(packet::WRITE_WORDS)).peekable();
    while let Some(first) = rest.peek().map(|step| step.index) {
        let (mut words, mut count) = ([0; packet::WRITE_WORDS], 0);
        for (word, step) in words.iter_mut().zip(rest.by_ref().take(packet::WRITE_WORDS)) {
            *word = entries.entry(step.element).into_bits();
            count += 1;
        }
        place.push(buffer, first, words.get(..count).unwrap_or(&words), 1)?;
        *multipass += 1;
    }
    Ok(())
}

fn flush_tlb(
    irql: &Passive,
    gpu: &Gpu,
    flush: &DXGK_BUILDPAGINGBUFFER_FLUSHTLB,
    buffer: &mut Buffer,
) -> Result<(), PagingError> {
    let root = root_location(gpu, &flush.RootPageTableAddress).ok_or(PagingError::Impossible)?;
    // The end is taken as inclusive: forgetting one page more is harmless, one less is not.
    let (start, end) = match (flush.StartVirtualAddress, flush.EndVirtualAddress) {
        (0, 0) => (0, 0),
        (start, end) => (start / PAGE_4K * PAGE_4K, (end / PAGE_4K).saturating_add(1).saturating_mul(PAGE_4K)),
    };
    let end = end.min(1 << campanile_hw::page_table::VA_BITS);
    let by_cpu = DXGK_PAGETABLEUPDATEMODE::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
    if !buffer.next.is_null() && page_table_update_mode(&gpu.hardware) != by_cpu {
        // Behind the packets that change the entries.
        let invalidate = packet::InvalidateTlb { root: root.into_bits(), start, end };
        packet::Packet::InvalidateTlb(invalidate).validate().map_err(|_| PagingError::Impossible)?;
        return buffer.push(invalidate.to_words());
    }
    if gpu.is_running() {
        let args = [root.into_bits(), start, end];
        // A scheduler that does not run any more has no translations.
        let _ = gpu.cmp.run(irql, Command::InvalidateTlb, &args);
    }
    Ok(())
}

/// The location of the root page table at a segment address.
pub(crate) fn root_location(gpu: &Gpu, address: &D3DGPU_PHYSICAL_ADDRESS) -> Option<Location> {
    let table = campanile_hw::page_table::TABLE_SIZE;
    let root = gpu.layout.locate(&gpu.aperture, address.SegmentId, address.SegmentOffset, table)?;
    (root.address() % table == 0).then_some(root)
}

fn transfer(
    transfer: &DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL,
    multipass: &mut u32,
    buffer: &mut Buffer,
) -> Result<(), PagingError> {
    while let Some((offset, size)) = chunk(transfer.TransferSizeInBytes, *multipass) {
        let source = transfer.SourceVirtualAddress.wrapping_add(offset);
        buffer.push_copy(source, transfer.DestinationVirtualAddress.wrapping_add(offset), size as u32)?;
        *multipass += 1;
    }
    Ok(())
}

fn fill(
    fill: &DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL,
    multipass: &mut u32,
    buffer: &mut Buffer,
) -> Result<(), PagingError> {
    while let Some((offset, size)) = chunk(fill.FillSizeInBytes, *multipass) {
        buffer.push_fill(fill.DestinationVirtualAddress.wrapping_add(offset), size, fill.FillPattern)?;
        *multipass += 1;
    }
    Ok(())
}

/// Writes the driver's bytes into a context allocation, one 32-bit fill a word. This driver asks for no such update; the
/// operation is complete all the same.
fn update_context_allocation(
    update: &DXGK_BUILDPAGINGBUFFER_UPDATECONTEXTALLOCATION,
    multipass: &mut u32,
    buffer: &mut Buffer,
) -> Result<(), PagingError> {
    let words = update.DriverPrivateDataSize / 4;
    if !update.DriverPrivateDataSize.is_multiple_of(4)
        || u64::from(update.DriverPrivateDataSize) > update.ContextAllocationSize
    {
        return Err(PagingError::Impossible);
    }
    let data = NonNull::new(update.pDriverPrivateData.cast::<u32>());
    while *multipass < words {
        let data = data.ok_or(PagingError::Impossible)?;
        // SAFETY: the data has DriverPrivateDataSize bytes.
        let word = unsafe { data.add(*multipass as usize) };
        // SAFETY: as above.
        let pattern = unsafe { word.read_unaligned() };
        let destination = update.ContextAllocation.wrapping_add(u64::from(*multipass) * 4);
        buffer.push_fill(destination, 4, pattern)?;
        *multipass += 1;
    }
    Ok(())
}

fn signal(
    gpu: &Gpu,
    signal: &DXGK_BUILDPAGINGBUFFER_SIGNALMONITOREDFENCE,
    buffer: &mut Buffer,
) -> Result<(), PagingError> {
    buffer.push(monitored_fence_signal(signal.MonitoredFenceGpuVa, signal.MonitoredFenceValue)?)?;
    gpu.note_monitored_signal();
    Ok(())
}

/// The packet that writes a monitored fence.
pub(crate) fn monitored_fence_signal(fence: u64, value: u64) -> Result<[u64; 4], PagingError> {
    let signal = packet::Signal { handle: 0, current: fence, monitored: 0, value };
    packet::Packet::Signal(signal).validate().map_err(|_| PagingError::Impossible)?;
    Ok(signal.to_words())
}

/// DxgkDdiSignalMonitoredFence: appends the packet to a buffer that the kernel builds.
pub(crate) fn append_signal(gpu: &Gpu, args: &mut DXGKARG_SIGNALMONITOREDFENCE) -> Result<(), PagingError> {
    let mut buffer = Buffer { next: args.pDmaBuffer.cast(), left: args.DmaSize as usize };
    buffer.push(monitored_fence_signal(args.MonitoredFenceGpuVa, args.MonitoredFenceValue)?)?;
    args.pDmaBuffer = buffer.next.cast();
    gpu.note_monitored_signal();
    Ok(())
}

fn map_aperture(gpu: &Gpu, map: &DXGKARG_BUILDPAGINGBUFFER_MapApertureSegment) -> Result<(), PagingError> {
    let (first, count) = (map.OffsetInPages as u64, map.NumberOfPages as u64);
    if map.SegmentId != segments::APERTURE || !gpu.aperture.contains(first, count) {
        return Err(PagingError::Impossible);
    }
    let mdl = NonNull::new(map.pMdl).ok_or(PagingError::Impossible)?;
    // SAFETY: the operating system passes an MDL with locked pages.
    let header = unsafe { mdl.read() };
    let pages = (u64::from(header.ByteOffset) + u64::from(header.ByteCount)).div_ceil(SYSTEM_PAGE_SIZE);
    let offset = u64::from(map.MdlOffset);
    if offset.checked_add(count).is_none_or(|end| end > pages) {
        return Err(PagingError::Impossible);
    }
    // SAFETY: the page numbers follow the header.
    let frames = unsafe { mdl.add(1) }.cast::<usize>();
    const { assert!(size_of::<MDL>().is_multiple_of(size_of::<usize>())) };
    for index in 0..count {
        // SAFETY: the MDL describes `pages` pages and has a number for each.
        let frame = unsafe { frames.add((offset + index) as usize) };
        // SAFETY: as above.
        let frame = unsafe { frame.read() };
        gpu.aperture.map(first + index, (frame as u64).wrapping_mul(SYSTEM_PAGE_SIZE));
    }
    Ok(())
}

fn unmap_aperture(gpu: &Gpu, unmap: &DXGKARG_BUILDPAGINGBUFFER_UnmapApertureSegment) -> Result<(), PagingError> {
    let (first, count) = (unmap.OffsetInPages as u64, unmap.NumberOfPages as u64);
    if unmap.SegmentId != segments::APERTURE || !gpu.aperture.contains(first, count) {
        return Err(PagingError::Impossible);
    }
    for page in first..first + count {
        gpu.aperture.map(page, unmap.DummyPage.QuadPart.cast_unsigned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::Zeroed;

    fn buffer(memory: &mut [u64]) -> Buffer {
        Buffer { next: memory.as_mut_ptr().cast(), left: size_of_val(memory) }
    }

    fn decode(memory: &[u64]) -> Vec<packet::Packet> {
        let bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut rest = &bytes[..];
        let mut packets = Vec::new();
        while !rest.is_empty() && rest[0] != 0 {
            let packet = packet::Packet::decode(rest).unwrap();
            rest = &rest[packet.size()..];
            packets.push(packet);
        }
        packets
    }

    #[test]
    fn chunks_cover_a_range_once_and_end() {
        for total in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let parts: Vec<_> = (0..).map_while(|index| chunk(total, index)).collect();
            assert_eq!(parts.iter().map(|(_, size)| size).sum::<u64>(), total);
            let mut next = 0;
            for (offset, size) in parts {
                assert_eq!(offset, next);
                next += size;
            }
        }
        assert_eq!(chunk(u64::MAX, u32::MAX), Some((u64::from(u32::MAX) * CHUNK, CHUNK)));
    }

    #[test]
    fn a_transfer_continues_where_the_buffer_ended() {
        let mut operation = DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL::zeroed();
        operation.TransferSizeInBytes = 2 * CHUNK + 4096;
        operation.SourceVirtualAddress = 0x1_0000_0000;
        operation.DestinationVirtualAddress = 0x2_0000_0000;
        let (mut first, mut second) = ([0u64; 13], [0u64; 12]);
        let mut multipass = 0;
        assert_eq!(
            transfer(&operation, &mut multipass, &mut buffer(&mut first)),
            Err(PagingError::InsufficientDmaBuffer)
        );
        assert_eq!(multipass, 2);
        assert_eq!(transfer(&operation, &mut multipass, &mut buffer(&mut second)), Ok(()));
        let packets: Vec<_> = decode(&first).into_iter().chain(decode(&second)).collect();
        let sizes: Vec<_> = packets
            .iter()
            .map(|packet| match packet {
                packet::Packet::Copy(copy) => {
                    (copy.source - 0x1_0000_0000, copy.destination - 0x2_0000_0000, copy.row_bytes)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let chunk = CHUNK as u32;
        assert_eq!(sizes, [(0, 0, chunk), (CHUNK, CHUNK, chunk), (2 * CHUNK, 2 * CHUNK, 4096)]);
    }

    #[test]
    fn a_fill_writes_its_pattern_and_refuses_what_the_packet_cannot_say() {
        let mut operation = DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL::zeroed();
        operation.FillSizeInBytes = CHUNK + 4096;
        operation.FillPattern = 0xdead_beef;
        operation.DestinationVirtualAddress = 0x4000;
        let mut memory = [0u64; 8];
        let mut multipass = 0;
        assert_eq!(fill(&operation, &mut multipass, &mut buffer(&mut memory)), Ok(()));
        let total: u64 = decode(&memory)
            .iter()
            .map(|packet| match packet {
                packet::Packet::Fill(fill) if fill.pattern == 0xdead_beef => fill.size,
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!(total, CHUNK + 4096);
        operation.DestinationVirtualAddress = 0x4001;
        let mut multipass = 0;
        assert_eq!(fill(&operation, &mut multipass, &mut buffer(&mut memory)), Err(PagingError::Impossible));
        assert_eq!(multipass, 0);
    }
}
