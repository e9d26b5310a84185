//! The GPU, given a queue whose page tables, ring, command buffers and write pointer are the input's.

use campanile_device::Variant;
use campanile_device::testing::{Host, Space, TestQueue, VRAM_SIZE, ram, vram};
use campanile_hw::event::{EventKind, FaultInfo, FaultKind};
use campanile_hw::packet::{Copy, Dispatch, Fill, Header, PACKETS, Packet, Signal};
use campanile_hw::page_table::{PAGE_2M, PAGE_4K, PAGE_64K, Pte, TABLE_SIZE, index, index_64k};
use campanile_hw::queue::{Location, RingEntry};
use campanile_hw::registers::{Command, NODE_COMPUTE, NODE_COPY};

use crate::input::Input;

/// Address that the tables of the input begin at, in the second entry of the root.
pub(super) const DATA: u64 = 1 << 39;
/// Pages of the memory that entries of the input may name, and as many behind them that no 4-KiB or 64-KiB page reaches.
const PAGES: u64 = 16;
/// Address of the program that dispatches run.
const PROGRAM: u64 = DATA + 7 * PAGE_4K;
/// Steps in which the other queue's work is done, whatever the first queue does.
const STEPS: u32 = 100_000;
/// Steps after each operation.
const SLICE: u32 = 2_000;
/// Address of the data of the other queue.
const OTHER: u64 = 1 << 38;

/// Memory that only changes where entries of the input allow it.
struct Watched {
    at: Location,
    before: Vec<u8>,
    /// Pages that may differ.
    written: Vec<bool>,
}

impl Watched {
    fn new(host: &Host, at: Location, len: u64) -> Self {
        let before = host.read(at, len as usize);
        Self { at, before, written: vec![false; (len / PAGE_4K) as usize] }
    }

    /// Lets the `len` bytes from `address` differ.
    fn allow(&mut self, location: Location, len: u64) {
        for (page, written) in (0..).zip(&mut self.written) {
            let start = self.at.address() + page * PAGE_4K;
            let inside = (location.address()..location.address() + len).contains(&start);
            *written |= inside && location.system() == self.at.system();
        }
    }

    fn check(&self, host: &Host) {
        let now = host.read(self.at, self.before.len());
        let pages = now.chunks(PAGE_4K as usize).zip(self.before.chunks(PAGE_4K as usize));
        for ((page, (now, before)), written) in (0u64..).zip(pages).zip(&self.written) {
            let at = self.at.address() + page * PAGE_4K;
            assert!(*written || now == before, "memory at {at:#x} changed, which nothing maps for writing");
        }
    }
}

struct Arena {
    host: Host,
    queue: TestQueue,
    other: TestQueue,
    other_data: Location,
    /// Tables of the input by their levels 0 to 3; a table of a level names those of the next one only.
    tables: [Vec<u64>; 4],
    /// Memory for pages: VRAM, aligned to 2 MiB, and system memory, aligned to 64 KiB.
    memory: [Location; 2],
    watched: Vec<Watched>,
    commands: Vec<u8>,
}

impl Arena {
    fn new(input: &mut Input<'_>) -> Self {
        let node = input.pick(&[NODE_COMPUTE, NODE_COPY]);
        let variant = Variant {
            vram_size: 4 << 20,
            vram_window: 4 << 20,
            interpreter: true,
            seed: u64::from(input.u8()) + 1,
            ..Variant::default()
        };
        let mut host = Host::with(&variant);
        let space = host.space();
        let queue = host.queue(0, space, node);
        let other_space = host.space();
        let other = host.queue(1, other_space, node);
        let other_data = host.map_new_ram(other_space, OTHER, 2 * PAGE_4K);
        let tables = tables(&mut host, space);
        let frames = ram(host.take_ram_aligned(2 * PAGES * PAGE_4K, PAGE_64K));
        assert!(!frames.address().is_multiple_of(PAGE_2M) && VRAM_SIZE > PAGE_2M);
        let program = campanile_isa::assemble(include_str!("rings.asm")).expect("a program");
        host.write(vram(PAGE_2M + (PROGRAM - DATA)), &program);
        let mut arena = Self {
            memory: [vram(PAGE_2M), frames],
            watched: Vec::new(),
            commands: Vec::new(),
            host,
            queue,
            other,
            other_data,
            tables,
        };
        for at in [arena.memory[0], arena.memory[1]] {
            let guard = Location::from_bits(at.into_bits() + PAGES * PAGE_4K);
            arena.host.write(guard, &[0xc5; (PAGES * PAGE_4K) as usize]);
            arena.watch(at, 2 * PAGES * PAGE_4K);
        }
        arena.watch(vram(0), 64 << 10);
        let other = [arena.other.ring_location, arena.other.control_location, arena.other.commands_location];
        for at in other.into_iter().chain([arena.other_data]) {
            arena.watch(at, PAGE_4K);
        }
        arena.first_entries();
        arena
    }

    fn watch(&mut self, at: Location, len: u64) {
        self.watched.push(Watched::new(&self.host, at, len));
    }

    /// Pages of each size that an input may use or change.
    fn first_entries(&mut self) {
        let entry = |address| Pte::new().with_valid(true).with_address(address);
        for page in 0..8 {
            self.set_entry(self.tables[0][0], page, entry(PAGE_2M + page * PAGE_4K), 0);
        }
        self.set_entry(self.tables[0][0], 8, entry(self.memory[1].address()).with_system(true), 0);
        // The last page that may be written, and no address behind it.
        self.set_entry(self.tables[0][0], 12, entry(PAGE_2M + (PAGES - 1) * PAGE_4K), 0);
        // Their memory is no page's that may be written, so that it must never change.
        for page in 9..12 {
            let behind = PAGE_2M + (PAGES + page) * PAGE_4K;
            self.set_entry(self.tables[0][0], page, entry(behind).with_read_only(true), 0);
        }
        self.set_entry(self.tables[0][1], 1, entry(self.memory[1].address()).with_system(true), 0);
        self.set_entry(self.tables[1][0], 2, Pte::new().with_valid(true).with_large(true).with_zero(true), 1);
    }

    /// Writes an entry; from now on memory may change that it names, however the GPU gets to it.
    fn set_entry(&mut self, table: u64, slot: u64, entry: Pte, level: u32) {
        self.host.write64(vram(table + slot * 8), entry.into_bits());
        let writable = entry.valid() && !entry.read_only() && !entry.zero();
        if !writable || (level > 0 && !entry.large()) {
            return;
        }
        let medium = slot < 32 && entry.address().is_multiple_of(PAGE_64K);
        let len = if level > 0 {
            PAGE_2M
        } else if medium {
            PAGE_64K
        } else {
            PAGE_4K
        };
        let location = Location::new().with_address(entry.address()).with_system(entry.system());
        self.watched.iter_mut().for_each(|watched| watched.allow(location, len));
    }

    /// An entry of the input. It names memory for pages, a table of the next level, or a place where there is no memory.
    fn entry(&mut self, input: &mut Input<'_>) {
        let level = usize::from(input.u8() % 4);
        let table = input.pick(&self.tables[level]);
        let slot = u64::from(input.u8() % 40);
        // The entries of the root below the second one are those of the ring.
        let slot = if level == 3 { 1 + slot % 3 } else { slot };
        let (kind, bits) = (input.u8(), Pte::from_bits(input.u64()));
        let page = u64::from(kind >> 4) * PAGE_4K;
        let entry = match kind % 4 {
            0 if level == 0 || bits.large() => bits.with_system(false).with_address(PAGE_2M + page),
            1 if level == 0 => bits.with_system(true).with_address(self.memory[1].address() + page),
            0..=2 if level > 0 => {
                bits.with_system(false).with_large(false).with_address(input.pick(&self.tables[level - 1]))
            }
            _ => bits.with_address(bits.address() | 1 << 51),
        };
        self.set_entry(table, slot, entry, level as u32);
    }

    /// Runs the GPU for a while. True if it came to rest.
    fn run(&self, steps: u32) -> bool {
        (0..steps).any(|_| !self.host.gpu.step())
    }

    fn operation(&mut self, input: &mut Input<'_>) {
        let queue = u64::from(self.queue.number);
        match input.u8() % 16 {
            0..=5 => {
                let packet = packet(input);
                self.commands.extend(packet);
            }
            6 | 7 => {
                let commands = std::mem::take(&mut self.commands);
                self.host.write_raw(&mut self.queue, &commands);
                self.host.try_command(Command::KickQueue, queue, 0, 0);
            }
            8 | 9 => self.entry(input),
            10 => self.host.write_entry(&mut self.queue, &ring_entry(input)),
            11 => self.host.set_write_pointer(&self.queue, number(input)),
            12 => {
                self.host.try_command(Command::ConnectDoorbell, 0, queue, 0);
                self.host.store_doorbell(u32::from(input.u8() % 4), number(input));
            }
            13 => {
                let (start, end) = (address(input), address(input));
                self.host.try_command(Command::InvalidateTlb, self.queue.space.root.into_bits(), start, end);
            }
            _ => {
                let command = input.pick(&[
                    Command::KickQueue,
                    Command::SuspendQueue,
                    Command::ResumeQueue,
                    Command::PreemptQueue,
                    Command::DiscardQueue,
                    Command::UnmapQueue,
                    Command::MapQueue,
                ]);
                self.host.try_command(command, queue, number(input), 0);
            }
        }
    }

    /// The queue has ended, waits, is suspended or has faulted; unless a program of it runs still.
    fn check_queue(&mut self, rest: bool) {
        for event in self.host.events() {
            let kind = EventKind::from_number(event.kind).expect("a kind of event");
            if kind == EventKind::Fault {
                let info = FaultInfo::from_bits(event.data1);
                assert!(FaultKind::from_number(info.kind()).is_some(), "a fault without a name: {info:?}");
                assert_eq!(event.queue, self.queue.number, "another queue faulted");
            }
        }
        let (_, state) = self.host.try_command(Command::QueryQueue, u64::from(self.queue.number), 0, 0);
        let state = state & 0xff;
        assert!(state <= 5 && (!rest || !matches!(state, 1 | 2)), "state {state} where there is nothing to do");
    }

    /// The other queue does work of its own, all of it and nothing else.
    fn check_other(&mut self) {
        let data = Signal { handle: 0, current: OTHER + 8000, monitored: 0, value: 7 };
        let copy = Copy {
            source: OTHER,
            destination: OTHER + 0x1001,
            row_bytes: 100,
            rows: 2,
            source_pitch: 100,
            destination_pitch: 150,
        };
        let fill = Fill { destination: OTHER, size: 200, pattern: 0x0403_0201 };
        let before = self.host.read_pointer(&self.other);
        self.host.write_packets(&mut self.other, &[Packet::Fill(fill), Packet::Copy(copy), Packet::Signal(data)]);
        self.host.ring(&self.other);
        let done = |host: &Host| host.read_pointer(&self.other) == before + 1;
        let _ = (0..STEPS).find(|_| done(&self.host) || !self.host.gpu.step());
        assert!(done(&self.host), "the other queue's work is not done");
        let mut expected = vec![0; 2 * PAGE_4K as usize];
        let source: Vec<u8> = (1..=4).cycle().take(200).collect();
        expected[..200].copy_from_slice(&source);
        expected[0x1001..][..100].copy_from_slice(&source[..100]);
        expected[0x1001 + 150..][..100].copy_from_slice(&source[100..]);
        expected[8000] = 7;
        assert!(
            self.host.read(self.other_data, expected.len()) == expected,
            "the other queue's work has other results"
        );
    }
}

/// Tables for the input, reached from the second entry of the root.
pub(super) fn tables(host: &mut Host, space: Space) -> [Vec<u64>; 4] {
    let small = host.leaf(space, DATA, PAGE_4K).address();
    let medium = host.leaf(space, DATA + PAGE_2M, PAGE_64K).address();
    let large = host.leaf(space, DATA, PAGE_2M).address();
    let second = host.table_below(space.root, index(DATA, 3), false).address();
    let more = [(); 4].map(|()| host.take_vram(TABLE_SIZE, TABLE_SIZE));
    let table = |entry: u64| entry & !(TABLE_SIZE - 1);
    assert!(index_64k(DATA) == 0 && index(DATA, 0) == 0);
    [
        vec![table(small), table(medium), more[0], more[1]],
        vec![table(large), more[2]],
        vec![second, more[3]],
        vec![space.root.address()],
    ]
}

/// An address of a page that an entry may map, one of the queue itself, or any.
fn address(input: &mut Input<'_>) -> u64 {
    let (kind, offset) = (input.u8(), u64::from(input.u16()));
    let tables = [0, 0, 0, 1 << 21, 2 << 21, 3 << 21, 1 << 30, 1 << 39];
    let base = DATA + tables[usize::from(kind >> 4) % 8];
    match kind % 8 {
        0..=3 => (base + offset) & !15,
        4 => base + offset,
        5 => base + offset * 128,
        6 => (0x10 << 32) + offset * 256,
        _ => input.u64(),
    }
}

fn number(input: &mut Input<'_>) -> u64 {
    let small = u64::from(input.u8());
    match small {
        0..200 => small,
        200..230 => u64::from(input.u16()),
        _ => input.u64(),
    }
}

/// A packet whose fields are the input's, or one behind whose header there are any bytes.
fn packet(input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.u8();
    if kind == 255 {
        return input.bytes::<16>().to_vec();
    }
    let format = &PACKETS[usize::from(kind) % PACKETS.len()];
    if format.opcode == Dispatch::OPCODE && kind < 128 {
        let program_size = campanile_isa::assemble(include_str!("rings.asm")).expect("a program").len() as u32;
        let grid = |input: &mut Input<'_>| u32::from(input.u8() % 4);
        let dispatch = Packet::Dispatch(Dispatch {
            program_size,
            program: PROGRAM,
            arguments: address(input),
            indirect: 0,
            grid_x: grid(input),
            grid_y: grid(input),
            grid_z: grid(input),
            report: address(input) & !7,
        });
        return dispatch.encode()[..dispatch.size()].to_vec();
    }
    let header = Header::new().with_opcode(format.opcode).with_length((format.size / 16) as u8);
    let mut bytes = vec![0; format.size];
    bytes[..8].copy_from_slice(&header.into_bits().to_le_bytes());
    for field in format.fields {
        let is_number = field.name.starts_with("word") || matches!(field.name, "value" | "size");
        let value = if field.size == 8 && !is_number { address(input) } else { number(input) };
        bytes[field.offset..][..field.size].copy_from_slice(&value.to_le_bytes()[..field.size]);
    }
    bytes
}

fn ring_entry(input: &mut Input<'_>) -> RingEntry {
    let bits = input.u8();
    let raw = |input: &mut Input<'_>, bit: u8| if bits & 1 << bit == 0 { 0 } else { input.u64() };
    RingEntry {
        commands: address(input),
        size: number(input) as u32,
        flags: raw(input, 0) as u32,
        tag: raw(input, 1),
        root: raw(input, 2),
    }
}

/// A queue completes, waits or faults with a named fault; memory that no entry of its page tables names for writing stays as it was; another queue does its work with exact results.
pub(crate) fn rings(data: &[u8]) {
    let mut input = Input::new(data);
    let mut arena = Arena::new(&mut input);
    let mut rest = true;
    for _ in 0..64 {
        if input.is_empty() {
            break;
        }
        arena.operation(&mut input);
        rest = arena.run(SLICE);
    }
    arena.watched.iter().for_each(|watched| watched.check(&arena.host));
    arena.check_queue(rest);
    arena.check_other();
}
