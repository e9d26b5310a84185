//! A driver and a GPU for tests of the memory manager: page tables in real memory, a TLB that forgets only what it is told to, and a
//! paging node that runs packets as late as it may.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::os::fd::FromRawFd;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use nt::lock::{Innermost, Mutex, lock};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use crate::bar_place::BarPlace;
use crate::caps::Segment;
use crate::kmd_handle::KmdHandle;
use crate::miniport::Miniport;
use crate::registration::Registered;
use crate::table_shape::Shape;
use crate::vidmm::driver::Driver;
use crate::vidmm::memory::Memory;
use crate::vidmm::paging_work::{Paging, PagingFence, PagingNode};
use crate::vidmm::segment::Segments;
use nt::driver::Driver as LoadedDriver;
use nt::page::PAGE_SIZE;
use nt::ram::{Ram, map_shared};

nt::ranks! {
    pub(super) from 0x9000;
    /// The fake GPU as a whole.
    FakeGpu,
    /// The id of the next packet of a node, which is handed out with its place in the queue.
    FakeNext,
}

/// Bus address of the VRAM that the CPU sees.
const BUS: u64 = 1 << 40;
/// Bus address of the host aperture.
const APERTURE_BUS: u64 = 1 << 41;
/// Pages of the host aperture.
pub(super) const APERTURE_PAGES: usize = 24;
/// Index bits of the levels.
const BITS: [u32; 3] = [9, 4, 4];
/// Pages of a large page.
pub(super) const LARGE: u64 = 1 << BITS[0];
/// Pages of a 64-KiB page.
const MEDIUM: u64 = 16;
/// Bytes that one packet of the fake node covers.
const CHUNK: u64 = 5 * PAGE_SIZE;
/// Bytes of a packet.
const PACKET: usize = 32;

/// The device and what its driver knows.
pub(super) struct Fake {
    ram: Arc<Ram>,
    vram: NonNull<u8>,
    vram_size: u64,
    /// By root, first page and pages: what that many pages translate to.
    tlb: HashMap<((u32, u64), u64, u64), u64>,
    /// Writer of the page tables of all processes except the paging process: GPU or CPU.
    mode: Mode,
    /// Root table of the paging process.
    paging_root: (u32, u64),
    /// Page of segment 3 that each page of the host aperture shows.
    aperture: Arc<Mutex<[Option<u64>; APERTURE_PAGES], Innermost>>,
    /// Answers that replace the next ones to MapCpuHostAperture.
    pub(super) refuse_aperture: VecDeque<NTSTATUS>,
    /// Answers that replace the next ones to operations with a buffer.
    pub(super) refuse: VecDeque<NTSTATUS>,
    /// Answers that replace the next ones to operations without.
    pub(super) refuse_at_once: VecDeque<NTSTATUS>,
    /// The driver forgets the next so many updates of leaf entries of processes other than the paging process.
    pub(super) forget: usize,
    /// The driver takes every page for a small one.
    pub(super) missizes: bool,
    /// Tables of which the driver was told that they go, by address.
    gone: HashSet<usize>,
    /// The driver writes beyond its buffer at the next fill or update of a page table.
    pub(super) overrun: bool,
    /// It says that it has written beyond its private data.
    pub(super) private_overrun: bool,
    /// It wants another buffer for a fill for ever, and counts MultipassOffset up; it writes commands, or none.
    pub(super) never_ends: Option<bool>,
    /// Fills and transfers in the order in which they were begun: direction, allocation, offset in it, and bytes.
    pub(super) moves: Vec<(Option<DXGK_MEMORY_TRANSFER_DIRECTION>, HANDLE, u64, u64)>,
    /// What updates of leaf tables say, other than the first of a table: allocation, offset in it, first address, and protection.
    pub(super) leaves: Vec<(HANDLE, u64, u64, u64)>,
    /// Tables whose first update said that it is.
    pub(super) initial: u64,
    /// Operations that copied entries.
    pub(super) copies: u64,
}

// SAFETY: the mapping of VRAM lives as long as the test process and is accessed under the lock around the fake.
unsafe impl Send for Fake {}

/// Runs packets when somebody waits for them, in order.
pub(super) struct FakeNode {
    fake: Arc<Mutex<Fake, FakeGpu>>,
    root: (u32, u64),
    queue: Mutex<VecDeque<(u32, u64, u32)>, Innermost>,
    next: Mutex<u32, FakeNext>,
    done: Mutex<u32, Innermost>,
}

/// Whether the processor writes page tables, or the GPU, and by which addresses.
pub(super) type Mode = DXGK_PAGETABLEUPDATEMODE;

/// All of them.
pub(super) const MODES: [Mode; 3] = [
    Mode::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL,
    Mode::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL,
    Mode::DXGK_PAGETABLEUPDATE_GPU_PHYSICAL,
];

/// The driver's handle of the paging process.
pub(super) const PAGING_PROCESS: usize = 1;

/// Segment and offset in one word of a packet.
fn packed((segment, offset): (u32, u64)) -> u64 {
    u64::from(segment) << 48 | offset
}

fn unpacked(word: u64) -> (u32, u64) {
    ((word >> 48) as u32, word & ((1 << 48) - 1))
}

/// An access that does not translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault;

impl Fake {
    fn address(&self, segment: u32, offset: u64) -> NonNull<u8> {
        match segment {
            0 => self.ram.kernel_address(offset, PAGE_SIZE).expect("system memory exists"),
            _ => {
                let inside = matches!(segment, 2 | 3) && offset + PAGE_SIZE <= self.vram_size;
                assert!(inside, "outside VRAM: {segment} {offset:#x}");
                // SAFETY: the mapping holds both segments, and the offset lies in the one, as just checked.
                unsafe { self.vram.add((u64::from(segment - 2) * self.vram_size + offset) as usize) }
            }
        }
    }

    fn entry(&self, table: (u32, u64), index: u64) -> u64 {
        // SAFETY: the index is below the entries of a table.
        let at = unsafe { self.address(table.0, table.1).cast::<u64>().add(index as usize) };
        // SAFETY: tables are mapped and aligned.
        unsafe { at.as_ptr().read_volatile() }
    }

    /// The entry that translates a page, and the pages that it translates.
    fn walk(&self, root: (u32, u64), page: u64) -> (u64, u64) {
        let (mut table, mut medium) = (root, false);
        for level in (0..BITS.len()).rev() {
            let shift: u32 = BITS[..level].iter().sum();
            let (covered, mask) = (if medium { MEDIUM } else { 1 << shift }, (1 << BITS[level]) - 1);
            let index = (page >> shift) & mask;
            let entry = self.entry(table, if medium { index / MEDIUM } else { index });
            if level == 0 || entry & 1 == 0 || entry >> 8 & 1 != 0 {
                return (entry, covered);
            }
            table = ((entry >> 3 & 0x1f) as u32, entry >> 12 << 12);
            medium = entry >> 9 & 1 != 0;
        }
        (0, 1)
    }

    /// The size in pages of the page that translates an address.
    pub(super) fn page_size(&self, root: (u32, u64), address: u64) -> u64 {
        self.walk(root, address / PAGE_SIZE).1
    }

    /// Translates an address as the GPU does, and checks that the TLB holds nothing that the tables do not say.
    pub(super) fn translate(&mut self, root: (u32, u64), address: u64, write: bool) -> Result<NonNull<u8>, Fault> {
        let page = address / PAGE_SIZE;
        let (walked, pages) = self.walk(root, page);
        let known = [1, MEDIUM, LARGE].into_iter().filter_map(|pages| {
            let entry = self.tlb.get(&(root, page / pages * pages, pages))?;
            Some((*entry, pages))
        });
        for known in known {
            assert_eq!(known, (walked, pages), "the TLB was not flushed for {address:#x}");
        }
        if walked & 1 == 0 {
            // Invalid entries are not cached by this GPU.
            return Err(Fault);
        }
        self.tlb.insert((root, page / pages * pages, pages), walked);
        if write && walked & 4 != 0 {
            return Err(Fault);
        }
        let first = walked >> 12;
        assert!(walked & 2 != 0 || first.is_multiple_of(pages), "{pages} pages at page {first:#x}");
        let at = self.address((walked >> 3 & 0x1f) as u32, (first + page % pages) * PAGE_SIZE);
        // SAFETY: the offset lies in the page.
        Ok(unsafe { at.add((address % PAGE_SIZE) as usize) })
    }

    /// True if anything is remembered of an address space.
    pub(super) fn has_translations_of(&self, root: (u32, u64)) -> bool {
        self.tlb.keys().any(|(of, ..)| *of == root)
    }

    /// Where the tables as they are lead, whatever is under way; `None` if nowhere. A page that reads as zero is in no segment.
    pub(super) fn leads_to(&self, root: (u32, u64), address: u64) -> Option<(u32, u64)> {
        let (entry, pages) = self.walk(root, address / PAGE_SIZE);
        let offset = ((entry >> 12) + address / PAGE_SIZE % pages) * PAGE_SIZE;
        (entry & 3 == 1).then_some(((entry >> 3 & 0x1f) as u32, offset))
    }

    fn forget_translations(&mut self, root: (u32, u64), pages: std::ops::Range<u64>) {
        let all = pages == (0..0);
        let touched = |first: u64, len: u64| all || (first < pages.end && pages.start < first + len);
        self.tlb.retain(|(other, first, len), _| *other != root || !touched(*first, *len));
    }

    /// The GPU was out of D0: VRAM, translations and the host aperture are lost.
    pub(super) fn lose_everything(&mut self) {
        // SAFETY: the mapping holds both segments.
        unsafe { self.vram.as_ptr().write_bytes(0xd3, 2 * self.vram_size as usize) };
        self.tlb.clear();
        lock(&self.aperture).fill(None);
    }

    /// True if the GPU may write what the address translates to.
    pub(super) fn is_zero_page(&self, root: (u32, u64), address: u64) -> bool {
        self.walk(root, address / PAGE_SIZE).0 & 3 == 3
    }

    fn bytes(&mut self, root: (u32, u64), address: u64, len: u64, write: bool) -> Vec<NonNull<u8>> {
        (0..len / PAGE_SIZE)
            .map(|page| self.translate(root, address + page * PAGE_SIZE, write).expect("paging memory is mapped"))
            .collect()
    }

    fn run(&mut self, root: (u32, u64), packet: [u64; 4]) {
        let [operation, source, destination, len] = packet;
        match operation {
            1 => {
                for page in self.bytes(root, destination, len, true) {
                    // SAFETY: the page is mapped and belongs to the machine.
                    unsafe { page.as_ptr().write_bytes(0, PAGE_SIZE as usize) };
                }
            }
            2 => {
                let from = self.bytes(root, source, len, false);
                for (from, to) in from.into_iter().zip(self.bytes(root, destination, len, true)) {
                    // SAFETY: both pages are mapped and belong to the machine; a page moved onto itself would be a bug of the test.
                    unsafe { to.as_ptr().copy_from_nonoverlapping(from.as_ptr(), PAGE_SIZE as usize) };
                }
            }
            7 => {
                for byte in (0..len).step_by(8) {
                    let from = self.translate(root, source + byte, false).expect("the table is mapped");
                    // SAFETY: entries are aligned words.
                    let entry = unsafe { from.cast::<u64>().as_ptr().read_volatile() };
                    let to = self.translate(root, destination + byte, true).expect("the table is mapped");
                    // SAFETY: as above.
                    unsafe { to.cast::<u64>().as_ptr().write_volatile(entry) };
                }
            }
            3 => {
                let at = self.translate(root, destination, true).expect("the fence is mapped");
                // SAFETY: fences are aligned words.
                unsafe { at.cast::<u64>().as_ptr().write_volatile(source) };
            }
            4 => (0..len).for_each(|entry| {
                let at = self.translate(root, destination + entry * 8, true).expect("the table is mapped");
                // SAFETY: entries are aligned words of a mapped page.
                unsafe { at.cast::<u64>().as_ptr().write_volatile(source) };
            }),
            5 => (0..len).for_each(|entry| {
                let (segment, offset) = unpacked(destination + entry * 8);
                let page = self.address(segment, offset / PAGE_SIZE * PAGE_SIZE);
                // SAFETY: the offset lies in the page.
                let at = unsafe { page.add((offset % PAGE_SIZE) as usize) };
                // SAFETY: entries are aligned words of a mapped page.
                unsafe { at.cast::<u64>().as_ptr().write_volatile(source) };
            }),
            6 => self.forget_translations(unpacked(destination), source..len),
            _ => panic!("no such packet: {operation}"),
        }
    }
}

impl Fake {
    /// Kernel address of the table that an update names, whatever way it does. The mode is the one that was claimed, but for tables of
    /// the paging process; and what the GPU is to write comes with a buffer, nothing else.
    fn table_of(&mut self, update: &DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE, has_buffer: bool) -> usize {
        let by_cpu = Mode::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
        let of_paging_process = update.hProcess.addr() == PAGING_PROCESS;
        assert_eq!(update.UpdateMode, if of_paging_process { by_cpu } else { self.mode });
        assert_eq!(has_buffer, update.UpdateMode != by_cpu);
        let address = &update.PageTableAddress;
        match update.UpdateMode {
            // SAFETY: the mode names the arm.
            Mode::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL => unsafe { address.CpuVirtual }.addr(),
            Mode::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL => {
                // SAFETY: the mode names the arm.
                let at = unsafe { address.GpuVirtual };
                self.translate(self.paging_root, at, true).expect("the table is mapped").addr().get()
            }
            _ => {
                // SAFETY: the mode names the arm.
                let at = unsafe { address.GpuPhysical };
                self.address(at.SegmentId, at.SegmentOffset).addr().get()
            }
        }
    }

    fn update(&mut self, args: &mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS {
        // SAFETY: the caller has seen that the operation is an update.
        let update = unsafe { args.u.UpdatePageTable };
        let table = self.table_of(&update, !args.pDmaBuffer.is_null());
        if args.MultipassOffset == 0 {
            if update.Flags.InitialUpdate() {
                self.gone.remove(&table);
                self.initial += 1;
            } else if update.PageTableLevel == 0 || is_large(&update) {
                let of = (update.hAllocation, update.AllocationOffsetInBytes);
                self.leaves.push((of.0, of.1, update.FirstPteVirtualAddress, update.DriverProtection));
            }
            assert!(!self.gone.contains(&table), "a table is written of which the driver was told that it goes");
            if update.Flags.NotifyEviction() {
                self.gone.insert(table);
            }
            let ordinary = update.hProcess.addr() != PAGING_PROCESS
                && update.PageTableLevel == 0
                && !update.Flags.InitialUpdate()
                && !update.Flags.NotifyEviction();
            if ordinary && self.forget > 0 {
                self.forget -= 1;
                return STATUS_SUCCESS;
            }
        }
        let values = values(&update, self.missizes);
        let count = u64::from(update.NumPageTableEntries);
        match update.UpdateMode {
            Mode::DXGK_PAGETABLEUPDATE_CPU_VIRTUAL => {
                write_entries(&update, &values);
                STATUS_SUCCESS
            }
            mode => {
                let (number, first) = match mode {
                    // SAFETY: the mode names the arm.
                    Mode::DXGK_PAGETABLEUPDATE_GPU_VIRTUAL => (4, unsafe { update.PageTableAddress.GpuVirtual }),
                    _ => {
                        // SAFETY: the mode names the arm.
                        let at = unsafe { update.PageTableAddress.GpuPhysical };
                        (5, packed((at.SegmentId, at.SegmentOffset)))
                    }
                };
                let first = first + u64::from(update.StartIndex) * 8;
                if update.Flags.Repeat() {
                    return push(args, 1, |_, _| [number, values[0], first, count]);
                }
                // One packet an entry.
                push(args, count * CHUNK, |at, _| {
                    let entry = at / CHUNK;
                    [number, values[entry as usize], first + entry * 8, 1]
                })
            }
        }
    }
}

impl PagingNode for FakeNode {
    fn submit(&self, _engine: u32, address: u64, size: u32, _private: &mut [u8]) -> Result<u32, NTSTATUS> {
        assert!(size > 0 && (size as usize).is_multiple_of(PACKET));
        let mut next = lock(&self.next);
        *next += 1;
        lock(&self.queue).push_back((*next, address, size));
        Ok(*next)
    }

    fn is_complete(&self, packet: PagingFence) -> bool {
        packet.fence <= *lock(&self.done)
    }

    fn wait(&self, packet: PagingFence) -> Result<(), NTSTATUS> {
        while !self.is_complete(packet) {
            assert!(self.run_one(), "nobody waits for what was not submitted");
        }
        Ok(())
    }
}

impl FakeNode {
    /// The GPU was reset: whatever was submitted counts as complete, and none of it runs.
    pub(super) fn drop_all(&self) {
        lock(&self.queue).clear();
        let next = *lock(&self.next);
        *lock(&self.done) = next;
    }

    /// Runs the oldest packet; false if there is none.
    pub(super) fn run_one(&self) -> bool {
        let Some((id, address, size)) = lock(&self.queue).pop_front() else { return false };
        {
            let mut fake = lock(&self.fake);
            for at in (0..u64::from(size)).step_by(PACKET) {
                let mut packet = [0u64; 4];
                for (word, place) in packet.iter_mut().zip(0..) {
                    let at = fake.translate(self.root, address + at + place * 8, false).expect("buffers are mapped");
                    // SAFETY: packets are words within a page, and mapped.
                    *word = unsafe { at.cast::<u64>().as_ptr().read_volatile() };
                }
                fake.run(self.root, packet);
            }
        }
        *lock(&self.done) = id;
        true
    }
}

/// True if an update writes a large page.
fn is_large(update: &DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE) -> bool {
    // SAFETY: the array has one element at least.
    let first = unsafe { &*update.pPageTableEntries };
    first.Bits.LargePage()
}

fn encode(pte: &DXGK_PTE) -> u64 {
    let bits = pte.Bits;
    // SAFETY: both arms of the union are page numbers.
    let page = unsafe { pte.u1.PageAddress };
    u64::from(bits.Valid())
        | u64::from(bits.Zero()) << 1
        | u64::from(bits.ReadOnly()) << 2
        | u64::from(bits.Segment()) << 3
        | u64::from(bits.LargePage()) << 8
        | u64::from(bits.PageTablePageSize() == 1) << 9
        | page << 12
}

/// The entries of an update as this GPU has them: one if all are the same.
fn values(update: &DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE, missizes: bool) -> Vec<u64> {
    let medium = update.Flags.Use64KBPages();
    assert!(!medium || update.PageTableLevel == 0, "64-KiB pages at level {}", update.PageTableLevel);
    let entries = (1u32 << BITS[update.PageTableLevel as usize]) / if medium { MEDIUM as u32 } else { 1 };
    let sizes = if missizes { 3 << 8 } else { 0 };
    assert!(!update.hProcess.is_null() && update.NumPageTableEntries > 0);
    assert!(update.StartIndex + update.NumPageTableEntries <= entries);
    let count = if update.Flags.Repeat() { 1 } else { update.NumPageTableEntries };
    let elements = 0..count as usize;
    elements
        .map(|element| {
            // SAFETY: the array has as many elements, one with Repeat.
            let pte = unsafe { update.pPageTableEntries.add(element) };
            // SAFETY: as above.
            let pte = unsafe { &*pte };
            let bits = pte.Bits;
            let large = bits.LargePage();
            assert!(!large || update.PageTableLevel == 1, "a large page at level {}", update.PageTableLevel);
            if (update.PageTableLevel == 0 || large) && bits.Valid() && !bits.Zero() {
                // The caches are coherent with system memory, which this GPU can snoop, and with nothing else.
                let segment = bits.Segment();
                assert_eq!(bits.CacheCoherent(), segment == 0, "coherence of a page of segment {segment}");
            }
            encode(pte) & !sizes
        })
        .collect()
}

fn write_entries(update: &DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE, values: &[u64]) {
    // SAFETY: the mode says that it is a kernel address.
    let table = unsafe { update.PageTableAddress.CpuVirtual }.cast::<u64>();
    for (entry, value) in (0..update.NumPageTableEntries).zip(values.iter().cycle()) {
        let at = table.wrapping_add((update.StartIndex + entry) as usize);
        // SAFETY: the entry lies in the table, which is mapped.
        unsafe { at.write_volatile(*value) };
    }
}

/// Writes the packets of an operation of `len` bytes, going on where MultipassOffset says.
fn push(args: &mut DXGKARG_BUILDPAGINGBUFFER, len: u64, packet: impl Fn(u64, u64) -> [u64; 4]) -> NTSTATUS {
    let mut capacity = args.DmaSize as usize;
    loop {
        let at = u64::from(args.MultipassOffset) * CHUNK;
        if at >= len {
            return STATUS_SUCCESS;
        }
        if capacity < PACKET {
            return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        }
        let words = packet(at, CHUNK.min(len - at));
        // SAFETY: the buffer has space for it, as just checked.
        unsafe { args.pDmaBuffer.cast::<[u64; 4]>().write_unaligned(words) };
        args.pDmaBuffer = args.pDmaBuffer.wrapping_byte_add(PACKET);
        args.MultipassOffset += 1;
        capacity -= PACKET;
    }
}

/// Wants another buffer for a fill; the first part of it is filled again, or nothing.
fn go_on_for_ever(
    args: &mut DXGKARG_BUILDPAGINGBUFFER,
    fill: &DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL,
    with_commands: bool,
) -> NTSTATUS {
    args.MultipassOffset += 1;
    if with_commands {
        let words = [1, 0, fill.DestinationVirtualAddress, CHUNK.min(fill.FillSizeInBytes)];
        // SAFETY: the buffer has space for a packet.
        unsafe { args.pDmaBuffer.cast::<[u64; 4]>().write_unaligned(words) };
        args.pDmaBuffer = args.pDmaBuffer.wrapping_byte_add(PACKET);
    }
    STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER
}

fn write_beyond(args: &DXGKARG_BUILDPAGINGBUFFER) {
    let beyond = args.pDmaBuffer.wrapping_byte_add(args.DmaSize as usize).cast::<u8>();
    // SAFETY: a page of the system follows the buffer.
    unsafe { beyond.write(0) };
}

unsafe extern "win64" fn build(adapter: HANDLE, args: *mut DXGKARG_BUILDPAGINGBUFFER) -> NTSTATUS {
    // SAFETY: hAdapter is the fake that the miniport was made for, which outlives it.
    let fake = unsafe { &*adapter.cast::<Mutex<Fake, FakeGpu>>() };
    // SAFETY: the system passes one structure for the length of the call.
    let args = unsafe { &mut *args };
    let mut fake = lock(fake);
    let refused = if args.pDmaBuffer.is_null() { fake.refuse_at_once.pop_front() } else { fake.refuse.pop_front() };
    if let Some(status) = refused {
        return status;
    }
    use DXGK_BUILDPAGINGBUFFER_OPERATION as Op;
    match args.Operation {
        Op::DXGK_OPERATION_UPDATE_PAGE_TABLE => {
            if fake.overrun && !args.pDmaBuffer.is_null() {
                write_beyond(args);
            }
            fake.update(args)
        }
        Op::DXGK_OPERATION_FLUSH_TLB => {
            // SAFETY: Operation names the arm that is filled.
            let flush = unsafe { args.u.FlushTlb };
            let root = (flush.RootPageTableAddress.SegmentId, flush.RootPageTableAddress.SegmentOffset);
            let pages = flush.StartVirtualAddress / PAGE_SIZE..flush.EndVirtualAddress.div_ceil(PAGE_SIZE);
            if args.pDmaBuffer.is_null() {
                fake.forget_translations(root, pages);
                return STATUS_SUCCESS;
            }
            push(args, 1, |_, _| [6, pages.start, packed(root), pages.end])
        }
        Op::DXGK_OPERATION_VIRTUAL_FILL => {
            // SAFETY: Operation names the arm that is filled.
            let fill = unsafe { args.u.FillVirtual };
            if fake.overrun {
                write_beyond(args);
            }
            if fake.private_overrun {
                let private = args.pDmaBufferPrivateData;
                args.pDmaBufferPrivateData = private.wrapping_byte_add(args.DmaBufferPrivateDataSize as usize + 1);
            }
            if let Some(with_commands) = fake.never_ends {
                return go_on_for_ever(args, &fill, with_commands);
            }
            if args.MultipassOffset == 0 {
                fake.moves.push((None, fill.hAllocation, fill.AllocationOffsetInBytes, fill.FillSizeInBytes));
            }
            push(args, fill.FillSizeInBytes, |at, len| [1, 0, fill.DestinationVirtualAddress + at, len])
        }
        Op::DXGK_OPERATION_VIRTUAL_TRANSFER => {
            // SAFETY: Operation names the arm that is filled.
            let copy = unsafe { args.u.TransferVirtual };
            if args.MultipassOffset == 0 {
                let (of, at, len) = (copy.hAllocation, copy.AllocationOffsetInBytes, copy.TransferSizeInBytes);
                fake.moves.push((Some(copy.TransferDirection), of, at, len));
            }
            push(args, copy.TransferSizeInBytes, |at, len| {
                [2, copy.SourceVirtualAddress + at, copy.DestinationVirtualAddress + at, len]
            })
        }
        Op::DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES => {
            // SAFETY: Operation names the arm that is filled.
            let copies = unsafe { args.u.CopyPageTableEntries };
            // SAFETY: the array has NumRanges elements.
            let ranges = unsafe { std::slice::from_raw_parts(copies.pRanges, copies.NumRanges as usize) };
            fake.copies += u64::from(args.MultipassOffset == 0);
            // One packet a range.
            push(args, u64::from(copies.NumRanges) * CHUNK, |at, _| {
                let range = ranges[(at / CHUNK) as usize];
                let place = |table: u64, index: u32| {
                    assert!(table.is_multiple_of(64 << 10), "a table at {table:#x}");
                    assert!(index + range.NumPageTableEntries <= 1 << BITS[0], "entries beyond the table");
                    table + u64::from(index) * 8
                };
                let source = place(range.SrcPageTableAddress, range.SrcStartPteIndex);
                let destination = place(range.DstPageTableAddress, range.DstStartPteIndex);
                [7, source, destination, u64::from(range.NumPageTableEntries) * 8]
            })
        }
        Op::DXGK_OPERATION_SIGNAL_MONITORED_FENCE => {
            // SAFETY: Operation names the arm that is filled.
            let signal = unsafe { args.u.SignalMonitoredFence };
            push(args, 1, |_, _| [3, signal.MonitoredFenceValue, signal.MonitoredFenceGpuVa, 0])
        }
        other => panic!("operation {other:?} is not for a WDDM 2 driver"),
    }
}

unsafe extern "win64" fn map_aperture(adapter: HANDLE, args: *const DXGKARG_MAPCPUHOSTAPERTURE) -> NTSTATUS {
    // SAFETY: hAdapter is the fake that the miniport was made for, which outlives it.
    let fake = unsafe { &*adapter.cast::<Mutex<Fake, FakeGpu>>() };
    // SAFETY: the system passes one structure for the length of the call.
    let args = unsafe { &*args };
    let mut fake = lock(fake);
    if let Some(status) = fake.refuse_aperture.pop_front() {
        return status;
    }
    assert!(args.SegmentId == 3 && !args.hAllocation.is_null());
    let count = args.NumberOfPages as usize;
    // SAFETY: the array has NumberOfPages elements.
    let places = unsafe { std::slice::from_raw_parts(args.pCpuHostAperturePages, count) };
    // SAFETY: the array has NumberOfPages elements.
    let shown = unsafe { std::slice::from_raw_parts(args.pMemorySegmentPages, count) };
    let mut aperture = lock(&fake.aperture);
    for (place, shown) in places.iter().zip(shown) {
        assert!(aperture[*place as usize].replace(*shown).is_none(), "page {place} of the aperture is in use");
    }
    STATUS_SUCCESS
}

unsafe extern "win64" fn unmap_aperture(adapter: HANDLE, args: *const DXGKARG_UNMAPCPUHOSTAPERTURE) -> NTSTATUS {
    // SAFETY: hAdapter is the fake that the miniport was made for, which outlives it.
    let fake = unsafe { &*adapter.cast::<Mutex<Fake, FakeGpu>>() };
    // SAFETY: the system passes one structure for the length of the call.
    let args = unsafe { &*args };
    // SAFETY: the array has NumberOfPages elements.
    let places = unsafe { std::slice::from_raw_parts(args.pCpuHostAperturePages, args.NumberOfPages as usize) };
    let fake = lock(fake);
    let mut aperture = lock(&fake.aperture);
    for place in places {
        assert!(aperture[*place as usize].take().is_some(), "page {place} of the aperture is not in use");
    }
    STATUS_SUCCESS
}

impl Fake {
    /// Pages of the host aperture that show something.
    pub(super) fn aperture_in_use(&self) -> usize {
        lock(&self.aperture).iter().flatten().count()
    }
}

/// A memory manager on a fake GPU with `vram` bytes of VRAM that the CPU sees (segment 2, behind an aperture), as many that it sees
/// through a host aperture (segment 3), and `ram` bytes of system memory.
pub(super) fn memory(mode: Mode, ram: u64, vram: u64, tables: u32) -> (Memory, Arc<Mutex<Fake, FakeGpu>>) {
    let ram = Ram::new(ram).unwrap();
    // SAFETY: the name is a valid C string.
    let fd = unsafe { libc::memfd_create(c"vram".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: the descriptor was just created and is owned by nobody else.
    let file = Arc::new(unsafe { File::from_raw_fd(fd) });
    file.set_len(2 * vram).unwrap();
    let base = map_shared(&file, 0, 2 * vram, true).unwrap();
    // SAFETY: the mapping is new and belongs to the test. Nothing may rely on fresh VRAM being zero.
    unsafe { base.as_ptr().write_bytes(0xaa, 2 * vram as usize) };
    let aperture = Arc::new(Mutex::new([None; APERTURE_PAGES]));
    let fake = Arc::new(Mutex::new(Fake {
        ram: Arc::clone(&ram),
        vram: base,
        vram_size: vram,
        tlb: HashMap::new(),
        mode,
        paging_root: (0, 0),
        aperture: Arc::clone(&aperture),
        refuse_aperture: VecDeque::new(),
        refuse: VecDeque::new(),
        refuse_at_once: VecDeque::new(),
        forget: 0,
        missizes: false,
        gone: HashSet::new(),
        overrun: false,
        private_overrun: false,
        never_ends: None,
        moves: Vec::new(),
        leaves: Vec::new(),
        initial: 0,
        copies: 0,
    }));
    let loaded = LoadedDriver::for_tests("fake");
    let verifier = Arc::clone(loaded.verifier());
    let mut table = DRIVER_INITIALIZATION_DATA::zeroed();
    table.DxgkDdiBuildPagingBuffer = Some(build);
    table.DxgkDdiMapCpuHostAperture = Some(map_aperture);
    table.DxgkDdiUnmapCpuHostAperture = Some(unmap_aperture);
    let mut mmu = DXGK_GPUMMUCAPS::zeroed();
    mmu.Bits = mmu
        .Bits
        .with_CacheCoherentMemorySupported(true)
        .with_ReadOnlyMemorySupported(true)
        .with_ZeroInPteSupported(true)
        .with_InvalidTlbEntriesNotCached(true)
        .with_LargePageSupported(true)
        .with_SysMem64KBPageSupported(true)
        .with_SysMemLargePageSupported(true);
    mmu.LeafPageTableSizeFor64KPagesInBytes = PAGE_SIZE as u32;
    mmu.PageTableUpdateMode = mode;
    let level = DXGK_PAGE_TABLE_LEVEL_DESC {
        PageTableIndexBitCount: 0,
        PageTableSegmentId: tables,
        // The CPU, which writes these in any mode, does not reach segment 3.
        PagingProcessPageTableSegmentId: tables.min(2),
        PageTableSizeInBytes: PAGE_SIZE as u32,
        PageTableAlignmentInBytes: PAGE_SIZE as u32,
    };
    let driver = Driver {
        miniport: Arc::new(Miniport::new(Registered::newest(table), loaded, Arc::default(), Arc::default())),
        // The fake lives at least as long as the memory manager: the test holds both.
        context: KmdHandle::new(Arc::as_ptr(&fake).cast_mut().cast()),
        verifier,
        mmu,
        levels: vec![level; BITS.len()],
        shape: Shape::new(BITS.to_vec()).unwrap(),
        engines: 1,
        segments_of_engine: 3,
        paging_contexts: OnceLock::new(),
        scheduler: OnceLock::new(),
        map_aperture2: false,
        rescues: Arc::default(),
    };
    let segment = |id, aperture: bool| Segment {
        id,
        size: vram,
        flags: DXGK_SEGMENTFLAGS::new().with_Aperture(aperture).with_CpuVisible(!aperture),
        cpu_address: (!aperture).then_some(BUS),
        kernel: (!aperture).then_some(base),
        ..Segment::default()
    };
    let windowed = Segment {
        flags: DXGK_SEGMENTFLAGS::new().with_SupportsCpuHostAperture(true).with_Use64KBPages(true),
        cpu_address: None,
        kernel: None,
        host_aperture: Some((APERTURE_BUS, APERTURE_PAGES as u32)),
        ..segment(3, false)
    };
    let segments = Segments::new(ram, &[segment(1, true), segment(2, false), windowed]);
    let segments = segments.with_large_pages(Some(LARGE * PAGE_SIZE));
    let bars = Arc::new(move |address: u64| {
        if let Some(offset) = address.checked_sub(APERTURE_BUS) {
            let shown = (*lock(&aperture).get((offset / PAGE_SIZE) as usize)?)?;
            return Some(BarPlace { file: Arc::clone(&file), offset: vram + shown * PAGE_SIZE, len: PAGE_SIZE });
        }
        let offset = address.checked_sub(BUS).filter(|offset| *offset < vram)?;
        Some(BarPlace { file: Arc::clone(&file), offset, len: vram - offset })
    });
    (Memory::new(Arc::new(driver), segments, Paging::new(PAGE_SIZE as u32, 0), bars), fake)
}

/// The paging node of a fake GPU, for the paging process with this root.
pub(super) fn node(fake: &Arc<Mutex<Fake, FakeGpu>>, root: (u32, u64)) -> Arc<FakeNode> {
    lock(fake).paging_root = root;
    Arc::new(FakeNode {
        fake: Arc::clone(fake),
        root,
        queue: Mutex::new(VecDeque::new()),
        next: Mutex::new(0),
        done: Mutex::new(0),
    })
}
