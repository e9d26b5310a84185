//! Walks of the GPU's page tables, against the manual's rules written down plainly.

use campanile_device::Variant;
use campanile_device::testing::{Host, RAM_BASE, RAM_SIZE, TestQueue, ram, vram};
use campanile_hw::event::{EventKind, FaultInfo, FaultKind};
use campanile_hw::packet::{Copy, Fill, Packet, Signal, Write};
use campanile_hw::page_table::{
    PAGE_2M, PAGE_4K, PAGE_64K, Pte, coverage, directory_bits, index, index_64k, leaf_bits,
};
use campanile_hw::queue::{CONTROL_READ_POINTER, Location};
use campanile_hw::registers::{Command, NODE_COPY};

use super::rings::{DATA, tables};
use crate::input::Input;

/// Bytes of VRAM; the upper half is the data that entries of the input name.
const VRAM: u64 = 4 << 20;
/// Pages of the data in system memory.
const PAGES: u64 = 32;
/// Address of what reads give back, in the process, and of what is copied by writes.
const OUT: u64 = 1 << 38;
/// Operations of an input, at most.
const OPERATIONS: usize = 100;

/// What the manual says of an access: the location of its bytes, none in a page that reads as zero, or the fault.
type Walked = Result<Option<Location>, Fault>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault {
    kind: FaultKind,
    address: u64,
    write: bool,
    level: u8,
}

struct Arena {
    host: Host,
    queue: TestQueue,
    out: Location,
    tables: [Vec<u64>; 4],
    frames: Location,
}

/// There is memory behind an aligned word.
fn is_memory(at: Location) -> bool {
    if at.system() { (RAM_BASE..RAM_BASE + RAM_SIZE).contains(&at.address()) } else { at.address() < VRAM }
}

fn location(entry: Pte) -> Location {
    Location::new().with_address(entry.address()).with_system(entry.system())
}

/// The entry is the leaf of a page of that size.
fn is_leaf(entry: Pte, level: u32, size: u64) -> bool {
    let placed = entry.zero() || entry.address().is_multiple_of(size);
    entry.valid() && entry.large() == (level > 0) && placed && entry.into_bits() & !leaf_bits(level.min(1)) == 0
}

impl Arena {
    fn new() -> Self {
        let variant = Variant { vram_size: VRAM, vram_window: VRAM, interpreter: true, ..Variant::default() };
        let mut host = Host::with(&variant);
        let space = host.space();
        let queue = host.queue(0, space, NODE_COPY);
        let out = host.map_new_ram(space, OUT, PAGE_4K);
        let tables = tables(&mut host, space);
        let frames = ram(host.take_ram_aligned(PAGES * PAGE_4K, PAGE_64K));
        Self { host, queue, out, tables, frames }
    }

    /// Walks as section 4 of the manual says, one entry after the other.
    fn walk(&self, va: u64, write: bool) -> Walked {
        let page_fault = |level: u32| Fault { kind: FaultKind::PageFault, address: va, write, level: level as u8 };
        let nowhere =
            |at: Location, write| Fault { kind: FaultKind::BadPhysical, address: at.address(), write, level: 0 };
        let (mut table, mut medium) = (self.queue.space.root, false);
        for level in (0..4).rev() {
            let (size, slot) = match (level, medium) {
                (0, true) => (PAGE_64K, index_64k(va)),
                _ => (coverage(level), index(va, level)),
            };
            let at = table.with_address(table.address() + slot * 8);
            if !is_memory(at) {
                return Err(nowhere(at, false));
            }
            let entry = Pte::from_bits(self.host.read64(at));
            if level > 0 && entry.valid() && !entry.large() && entry.into_bits() & !directory_bits(level) == 0 {
                (table, medium) = (location(entry), entry.leaf_64k());
                continue;
            }
            if !is_leaf(entry, level, size) {
                return Err(page_fault(level));
            }
            if write && entry.read_only() {
                return Err(Fault { kind: FaultKind::ReadOnly, address: va, write, level: 0 });
            }
            if entry.zero() {
                return Ok(None);
            }
            let at = location(entry).with_address(entry.address() + va % size);
            return if is_memory(at) { Ok(Some(at)) } else { Err(nowhere(at, write)) };
        }
        Err(page_fault(0))
    }

    /// An entry of the input. Its page is data of the input, all of system memory, or a place where there is no memory.
    fn entry(&mut self, input: &mut Input<'_>) {
        let level = usize::from(input.u8() % 4);
        let table = input.pick(&self.tables[level]);
        let slot = u64::from(input.u8() % 40);
        // The entries of the root below the second one are those of the ring.
        let slot = if level == 3 { 1 + slot % 3 } else { slot };
        let (kind, bits) = (input.u8(), Pte::from_bits(u64::from(input.u16())));
        let page = u64::from(kind >> 3) * PAGE_4K;
        let valid = bits.with_valid(kind & 4 == 0 || bits.valid());
        let entry = match kind % 4 {
            0 if level == 0 || bits.large() => valid.with_system(false).with_address(PAGE_2M + page),
            1 if level == 0 => valid.with_system(true).with_address(self.frames.address() + page),
            1 if bits.large() => valid.with_system(true).with_address(RAM_BASE),
            0..=2 if level > 0 => valid.with_system(false).with_address(input.pick(&self.tables[level - 1])),
            2 => Pte::from_bits(input.u64()).with_address(PAGE_2M + page),
            _ => valid.with_address(page | 1 << 51),
        };
        self.host.write64(vram(table + slot * 8), entry.into_bits());
        let root = self.queue.space.root.into_bits();
        self.host.command(Command::InvalidateTlb, root, 0, 0);
    }

    /// Only data of the input may change.
    fn is_data(&self, at: Location) -> bool {
        let (start, len) =
            if at.system() { (self.frames.address(), PAGES * PAGE_4K) } else { (PAGE_2M, VRAM - PAGE_2M) };
        (start..start + len).contains(&at.address())
    }

    /// One access to a word, and what came of it.
    fn access(&mut self, input: &mut Input<'_>, value: u64) {
        let kind = input.u8() % 6;
        let base = input.pick(&[0, 0, 0, 1 << 21, 2 << 21, 3 << 21, 1 << 30, 1 << 39]);
        let size = input.pick(&[PAGE_4K, PAGE_64K]);
        let va = DATA + base + u64::from(input.u8() % 40) * size + u64::from(input.u8() % 0x80) * 8;
        let write = kind >= 2;
        let walked = self.walk(va, write);
        if let Ok(Some(at)) = walked
            && write
            && !self.is_data(at)
        {
            return;
        }
        self.host.write64(self.out, !value);
        self.host.write64(self.out.with_address(self.out.address() + 8), value);
        let copy = |source, destination| {
            let pitches = (8, 8);
            let (source_pitch, destination_pitch) = pitches;
            Packet::Copy(Copy { source, destination, row_bytes: 8, rows: 1, source_pitch, destination_pitch })
        };
        let pattern = value as u32;
        let packet = match kind {
            0 | 1 => copy(va, OUT),
            2 => copy(OUT + 8, va),
            3 => Packet::Fill(Fill { destination: va, size: 8, pattern }),
            4 => Packet::Signal(Signal { handle: 0, current: va, monitored: 0, value }),
            _ => Packet::Write(Write::of(va, &[value], 1)),
        };
        let before = walked.ok().flatten().map(|at| (at, self.host.read64(at)));
        self.host.submit(&mut self.queue, &[packet]);
        let expected = if kind == 3 { u64::from(pattern) << 32 | u64::from(pattern) } else { value };
        match (self.fault(), walked) {
            (Some(fault), Err(foreseen)) => assert_eq!(fault, foreseen, "the fault of an access to {va:#x}"),
            (None, Ok(_)) => match before {
                Some((at, _)) if write => assert_eq!(self.host.read64(at), expected, "the word at {va:#x}"),
                // The page may be one of the queue's own, which the submission has changed.
                Some((at, word)) => {
                    let read = self.host.read64(self.out);
                    assert!(
                        read == word || read == self.host.read64(at),
                        "{read:#x} was read at {va:#x}, not {word:#x}"
                    );
                }
                None if write => {}
                None => assert_eq!(self.host.read64(self.out), 0, "what was read of a zero page at {va:#x}"),
            },
            (fault, walked) => panic!("an access to {va:#x}: {fault:?}, not {walked:?}"),
        }
    }

    /// The fault of the queue, if it has one; the queue is mapped anew then.
    fn fault(&mut self) -> Option<Fault> {
        let event = self
            .host
            .events()
            .into_iter()
            .find(|event| EventKind::from_number(event.kind) == Some(EventKind::Fault))?;
        let info = FaultInfo::from_bits(event.data1);
        let number = u64::from(self.queue.number);
        self.host.command(Command::UnmapQueue, number, 0, 0);
        self.queue.write = 0;
        self.host.set_write_pointer(&self.queue, 0);
        let read = self.queue.control_location.address() + CONTROL_READ_POINTER;
        self.host.write64(ram(read), 0);
        self.host.command(Command::MapQueue, number, 0, 0);
        let kind = FaultKind::from_number(info.kind()).expect("a kind of fault");
        Some(Fault { kind, address: event.data0, write: info.write(), level: info.level() })
    }
}

/// An access to a word reaches the location, or has the fault with kind, address and level, that a plain walk of the same tables finds.
pub(crate) fn walks(data: &[u8]) {
    let mut input = Input::new(data);
    let mut arena = Arena::new();
    for value in 0..OPERATIONS as u64 {
        if input.is_empty() {
            break;
        }
        match input.u8() % 4 {
            0 => arena.entry(&mut input),
            _ => arena.access(&mut input, 0x1234_5678_9abc_0000 | value),
        }
    }
}
