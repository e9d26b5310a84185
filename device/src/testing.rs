//! The other side of the function for tests: a machine with one file as its memory, page tables built by hand, and queues.
//!
//! VRAM and system memory are read and written through their files, never through a mapping, so the tests hold no pointer.

use crate::memory::shared_file;
use crate::{Gpu, Interrupts, Variant};
use campanile_hw::event::{self, Event, EventKind, FaultInfo};
use campanile_hw::packet::Packet;
use campanile_hw::page_table::{PAGE_2M, PAGE_4K, PAGE_64K, Pte, TABLE_SIZE, index, index_64k};
use campanile_hw::queue::{
    CONTROL_READ_POINTER, CONTROL_WRITE_POINTER, Location, QueueDescriptor, QueueFlags, RingEntry, RingGeometry,
};
use campanile_hw::registers::{self as reg, Command, CommandStatus};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bus address of the first byte of system memory.
pub const RAM_BASE: u64 = 0x1_0000_0000;
/// Bytes of system memory.
pub const RAM_SIZE: u64 = 32 << 20;
/// Bytes of VRAM.
pub const VRAM_SIZE: u64 = 32 << 20;
/// Queue descriptors.
pub const QUEUES: u32 = 2048;
/// Records of the event ring.
pub const EVENTS: u32 = 64;
/// Where the helper maps rings, control pages and command buffers of queue 0; every queue has 16 MiB of its own.
const QUEUE_SPACE: u64 = 0x10_0000_0000;
const QUEUE_STRIDE: u64 = 16 << 20;
/// Bytes of command buffers a queue helper has.
const COMMANDS: u64 = 64 << 10;
/// Bytes of its save area.
pub const SAVE_AREA: u64 = 32 << 10;

pub fn ram(address: u64) -> Location {
    Location::new().with_address(address).with_system(true)
}

pub fn vram(address: u64) -> Location {
    Location::new().with_address(address)
}

/// An anonymous file that stands for memory.
pub fn memory_file(size: u64) -> File {
    shared_file(c"test-ram", size).expect("memory")
}

#[derive(Default)]
pub struct Messages(pub AtomicU64);

impl Interrupts for Messages {
    fn message(&self, vector: u16) {
        assert_eq!(vector, 0);
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub struct Host {
    pub gpu: Arc<Gpu>,
    pub vram: Arc<File>,
    pub ram: File,
    pub messages: Arc<Messages>,
    doorbells: Arc<File>,
    next_vram: u64,
    next_ram: u64,
    event_ring: u64,
    events_read: u64,
}

/// An address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub root: Location,
}

/// A queue and the submitter's side of it.
#[derive(Clone, Debug)]
pub struct TestQueue {
    pub number: u32,
    pub space: Space,
    /// Virtual address of the ring.
    pub ring: u64,
    pub ring_location: Location,
    /// Virtual address of the control page.
    pub control: u64,
    pub control_location: Location,
    pub commands: u64,
    pub commands_location: Location,
    pub commands_used: u64,
    /// Where the state of a dispatch goes that is left, where it can be.
    pub save_area: Option<Location>,
    pub write: u64,
    pub geometry: RingGeometry,
    pub doorbell: Option<u32>,
}

pub fn small_variant() -> Variant {
    Variant { vram_size: VRAM_SIZE, vram_window: VRAM_SIZE, ..Variant::default() }
}

impl Host {
    /// A started function.
    #[allow(clippy::new_without_default)] // a function that runs is not what a default value is expected to be
    pub fn new() -> Self {
        Self::with(&small_variant())
    }

    pub fn with(variant: &Variant) -> Self {
        let mut host = Self::powered_off(variant);
        host.enable();
        host.start();
        host
    }

    /// A function that was plugged in and not touched.
    pub fn powered_off(variant: &Variant) -> Self {
        let gpu = Gpu::new(variant).expect("a function");
        let ram = memory_file(RAM_SIZE);
        gpu.map_dma(RAM_BASE, &ram, 0, RAM_SIZE, true).expect("system memory");
        let messages = Arc::new(Messages::default());
        gpu.set_interrupts(Some(messages.clone()));
        Self {
            vram: gpu.bar_file(4).expect("VRAM"),
            doorbells: gpu.bar_file(2).expect("doorbells"),
            gpu,
            ram,
            messages,
            // The first megabyte holds the queue table.
            next_vram: 1 << 20,
            next_ram: RAM_BASE,
            event_ring: 0,
            events_read: 0,
        }
    }

    /// What a PCI bus driver does: memory decoding, bus mastering, MSI-X.
    pub fn enable(&self) {
        self.gpu.config_write(0x04, 2, 0x6);
        self.gpu.config_write(0x4a, 2, 0x8000);
        self.gpu.register_write(0x8000 + 12, 4, 0);
    }

    /// What the kernel-mode driver does: queue table, event ring, RUN.
    pub fn start(&mut self) {
        let size = event::HEADER_SIZE + u64::from(EVENTS) * Event::SIZE as u64;
        self.event_ring = self.take_ram(size.next_multiple_of(4096));
        self.events_read = 0;
        self.write64(ram(self.event_ring + event::READ_POINTER), 0);
        self.set(reg::QUEUE_TABLE_BASE, 8, 0);
        self.set(reg::QUEUE_TABLE_COUNT, 4, u64::from(QUEUES));
        self.set(reg::EVENT_RING_BASE, 8, self.event_ring);
        self.set(reg::EVENT_RING_ENTRIES, 4, u64::from(EVENTS));
        self.set(reg::CONTROL, 4, 1);
        assert_eq!(self.get(reg::CONTROL, 4), 1, "the scheduler did not start");
    }

    pub fn get(&self, offset: u64, size: u8) -> u64 {
        self.gpu.register_read(offset, size)
    }

    pub fn set(&self, offset: u64, size: u8, value: u64) {
        self.gpu.register_write(offset, size, value);
    }

    pub fn try_command(&self, command: Command, a0: u64, a1: u64, a2: u64) -> (CommandStatus, u64) {
        self.set(reg::CMP_ARG0, 8, a0);
        self.set(reg::CMP_ARG1, 8, a1);
        self.set(reg::CMP_ARG2, 8, a2);
        self.set(reg::CMP_COMMAND, 4, u64::from(command as u32));
        let status = CommandStatus::from_number(self.get(reg::CMP_STATUS, 4) as u32).expect("a status");
        (status, self.get(reg::CMP_RESULT, 8))
    }

    /// As [`Host::try_command`], with all five arguments.
    pub fn try_long_command(&self, command: Command, [a0, a1, a2, a3, a4]: [u64; 5]) -> (CommandStatus, u64) {
        self.set(reg::CMP_ARG3, 8, a3);
        self.set(reg::CMP_ARG4, 8, a4);
        self.try_command(command, a0, a1, a2)
    }

    pub fn long_command(&self, command: Command, arguments: [u64; 5]) -> u64 {
        let (status, result) = self.try_long_command(command, arguments);
        assert_eq!(status, CommandStatus::Done, "{command:?}({arguments:x?})");
        result
    }

    /// MapFence: the fence at these addresses of a process lies at those of the paging process.
    pub fn try_map_fence(&self, space: Space, process: (u64, u64), system: (u64, u64)) -> CommandStatus {
        self.set(reg::CMP_ARG3, 8, system.0);
        self.set(reg::CMP_ARG4, 8, system.1);
        self.try_command(Command::MapFence, space.root.into_bits(), process.0, process.1).0
    }

    /// Runs a command that must succeed.
    pub fn command(&self, command: Command, a0: u64, a1: u64, a2: u64) -> u64 {
        let (status, result) = self.try_command(command, a0, a1, a2);
        assert_eq!(status, CommandStatus::Done, "{command:?}({a0:#x}, {a1:#x}, {a2:#x})");
        result
    }

    /// Location of a mapped 4-KiB page, by a walk of the page tables.
    pub fn locate(&self, space: Space, va: u64) -> Location {
        let mut table = space.root;
        for level in (0..=3).rev() {
            let entry = Pte::from_bits(self.read64(vram(table.address() + index(va, level) * 8)));
            table = if entry.system() { ram(entry.address()) } else { vram(entry.address()) };
        }
        table
    }

    pub fn take_vram(&mut self, size: u64, align: u64) -> u64 {
        let at = self.next_vram.next_multiple_of(align);
        self.next_vram = at + size;
        assert!(self.next_vram <= VRAM_SIZE, "out of VRAM");
        at
    }

    pub fn take_ram(&mut self, size: u64) -> u64 {
        let at = self.next_ram;
        self.next_ram += size.next_multiple_of(4096);
        assert!(self.next_ram <= RAM_BASE + RAM_SIZE, "out of system memory");
        at
    }

    /// System memory aligned to its size.
    pub fn take_ram_aligned(&mut self, size: u64, align: u64) -> u64 {
        self.next_ram = self.next_ram.next_multiple_of(align);
        self.take_ram(size)
    }

    pub fn write(&self, at: Location, bytes: &[u8]) {
        let (file, offset): (&File, u64) =
            if at.system() { (&self.ram, at.address() - RAM_BASE) } else { (&*self.vram, at.address()) };
        file.write_all_at(bytes, offset).expect("write to memory");
    }

    pub fn read(&self, at: Location, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let (file, offset): (&File, u64) =
            if at.system() { (&self.ram, at.address() - RAM_BASE) } else { (&*self.vram, at.address()) };
        file.read_exact_at(&mut bytes, offset).expect("read from memory");
        bytes
    }

    pub fn write64(&self, at: Location, value: u64) {
        self.write(at, &value.to_le_bytes());
    }

    pub fn read64(&self, at: Location) -> u64 {
        u64::from_le_bytes(self.read(at, 8).try_into().expect("8 bytes"))
    }

    pub fn space(&mut self) -> Space {
        Space { root: vram(self.take_vram(TABLE_SIZE, TABLE_SIZE)) }
    }

    pub fn table_below(&mut self, table: Location, slot: u64, leaf_64k: bool) -> Location {
        let at = vram(table.address() + slot * 8);
        let entry = Pte::from_bits(self.read64(at));
        if entry.valid() {
            return vram(entry.address());
        }
        let below = self.take_vram(TABLE_SIZE, TABLE_SIZE);
        let entry = Pte::new().with_valid(true).with_leaf_64k(leaf_64k).with_address(below);
        self.write64(at, entry.into_bits());
        vram(below)
    }

    /// Where the leaf entry for `va` lies, for a page of `page_size`; tables above it are made.
    pub fn leaf(&mut self, space: Space, va: u64, page_size: u64) -> Location {
        let mut table = space.root;
        for level in [3, 2] {
            table = self.table_below(table, index(va, level), false);
        }
        if page_size == PAGE_2M {
            return vram(table.address() + index(va, 1) * 8);
        }
        table = self.table_below(table, index(va, 1), page_size == PAGE_64K);
        let slot = if page_size == PAGE_64K { index_64k(va) } else { index(va, 0) };
        vram(table.address() + slot * 8)
    }

    /// Maps `len` bytes in pages of `page_size`.
    pub fn map_pages(&mut self, space: Space, va: u64, at: Location, len: u64, page_size: u64, flags: Pte) {
        for offset in (0..len).step_by(page_size as usize) {
            let entry = flags
                .with_valid(true)
                .with_system(at.system())
                .with_large(page_size == PAGE_2M)
                .with_address(at.address() + offset);
            let leaf = self.leaf(space, va + offset, page_size);
            self.write64(leaf, entry.into_bits());
        }
    }

    pub fn map(&mut self, space: Space, va: u64, at: Location, len: u64) {
        self.map_pages(space, va, at, len.next_multiple_of(PAGE_4K), PAGE_4K, Pte::new());
    }

    /// System memory at `va`.
    pub fn map_new_ram(&mut self, space: Space, va: u64, len: u64) -> Location {
        let at = ram(self.take_ram(len));
        self.map(space, va, at, len);
        at
    }

    pub fn write_descriptor(&self, number: u32, descriptor: &QueueDescriptor) {
        self.write(vram(u64::from(number) * QueueDescriptor::SIZE as u64), &descriptor.to_bytes());
    }

    /// Ring, control page and command buffers for an ordinary queue, and its descriptor, not mapped yet.
    pub fn prepare_queue(&mut self, number: u32, space: Space) -> (TestQueue, QueueDescriptor) {
        let base = QUEUE_SPACE + u64::from(number) * QUEUE_STRIDE;
        let entries = 64;
        let (ring, control, commands) = (base, base + 0x10_0000, base + 0x20_0000);
        let mut queue = TestQueue {
            number,
            space,
            ring,
            ring_location: self.map_new_ram(space, ring, u64::from(entries) * RingEntry::SIZE as u64),
            control,
            control_location: self.map_new_ram(space, control, 4096),
            commands,
            commands_location: self.map_new_ram(space, commands, COMMANDS),
            commands_used: 0,
            save_area: None,
            write: 0,
            geometry: RingGeometry::new(entries).expect("a legal ring"),
            doorbell: None,
        };
        if self.get(reg::SAVE_SIZE, 4) != 0 {
            queue.save_area = Some(ram(self.take_ram(SAVE_AREA)));
        }
        let descriptor = QueueDescriptor {
            ring,
            control,
            root: space.root.into_bits(),
            ring_entries: entries,
            flags: QueueFlags::new().into_bits(),
            node: reg::NODE_COMPUTE,
            rank: 1,
            save_area: queue.save_area.map_or(0, Location::into_bits),
            save_size: queue.save_area.map_or(0, |_| SAVE_AREA as u32),
            ..QueueDescriptor::ZERO
        };
        (queue, descriptor)
    }

    /// A mapped queue on `node`.
    pub fn queue(&mut self, number: u32, space: Space, node: u32) -> TestQueue {
        self.queue_with(number, space, |descriptor| descriptor.node = node)
    }

    pub fn queue_with(&mut self, number: u32, space: Space, change: impl FnOnce(&mut QueueDescriptor)) -> TestQueue {
        let (queue, mut descriptor) = self.prepare_queue(number, space);
        change(&mut descriptor);
        self.write_descriptor(number, &descriptor);
        self.command(Command::MapQueue, u64::from(number), 0, 0);
        queue
    }

    /// Connects a doorbell.
    pub fn connect(&self, queue: &mut TestQueue, doorbell: u32) {
        self.command(Command::ConnectDoorbell, u64::from(doorbell), u64::from(queue.number), 0);
        queue.doorbell = Some(doorbell);
    }

    /// Writes a ring entry and the write pointer, and tells nobody.
    pub fn write_entry(&self, queue: &mut TestQueue, entry: &RingEntry) {
        let slot = queue.geometry.slot(queue.write);
        self.write(ram(queue.ring_location.address() + slot), &entry.to_bytes());
        queue.write += 1;
        self.set_write_pointer(queue, queue.write);
    }

    pub fn set_write_pointer(&self, queue: &TestQueue, write: u64) {
        self.write64(ram(queue.control_location.address() + CONTROL_WRITE_POINTER), write);
    }

    pub fn read_pointer(&self, queue: &TestQueue) -> u64 {
        self.read64(ram(queue.control_location.address() + CONTROL_READ_POINTER))
    }

    /// Puts raw bytes into the command area. Returns their address.
    pub fn write_commands(&self, queue: &mut TestQueue, bytes: &[u8]) -> u64 {
        if queue.commands_used + bytes.len() as u64 > COMMANDS {
            queue.commands_used = 0;
        }
        let at = queue.commands_used;
        self.write(ram(queue.commands_location.address() + at), bytes);
        queue.commands_used += bytes.len().next_multiple_of(16) as u64;
        queue.commands + at
    }

    pub fn write_raw(&self, queue: &mut TestQueue, bytes: &[u8]) {
        let commands = self.write_commands(queue, bytes);
        let entry = RingEntry { commands, size: bytes.len() as u32, flags: 0, tag: 0, root: 0 };
        self.write_entry(queue, &entry);
    }

    pub fn write_packets(&self, queue: &mut TestQueue, packets: &[Packet]) {
        self.write_raw(queue, &encode(packets));
    }

    pub fn store_doorbell(&self, doorbell: u32, value: u64) {
        self.doorbells.write_all_at(&value.to_le_bytes(), u64::from(doorbell) * 4096).expect("doorbell");
    }

    pub fn load_doorbell(&self, doorbell: u32) -> u64 {
        let mut bytes = [0; 8];
        self.doorbells.read_exact_at(&mut bytes, u64::from(doorbell) * 4096).expect("doorbell");
        u64::from_le_bytes(bytes)
    }

    /// Rings the doorbell, or kicks the queue when it has none.
    pub fn ring(&self, queue: &TestQueue) {
        match queue.doorbell {
            Some(doorbell) => self.store_doorbell(doorbell, queue.write),
            None => {
                self.command(Command::KickQueue, u64::from(queue.number), 0, 0);
            }
        }
    }

    /// Writes, rings, and runs until nothing is left to do.
    pub fn submit(&self, queue: &mut TestQueue, packets: &[Packet]) {
        self.write_packets(queue, packets);
        self.ring(queue);
        self.run();
    }

    /// Steps until there is nothing to do. Returns the steps.
    pub fn run(&self) -> u64 {
        for steps in 0..1_000_000 {
            if !self.gpu.step() {
                return steps;
            }
        }
        panic!("the function does not come to rest");
    }

    /// Records that the function has written since RUN.
    pub fn events_written(&self) -> u64 {
        self.read64(ram(self.event_ring + event::WRITE_POINTER))
    }

    /// New events, consumed.
    pub fn events(&mut self) -> Vec<Event> {
        let written = self.events_written();
        let mut events = Vec::new();
        while self.events_read < written {
            let slot = self.events_read % u64::from(EVENTS) * Event::SIZE as u64;
            let bytes = self.read(ram(self.event_ring + event::HEADER_SIZE + slot), Event::SIZE);
            events.push(Event::from_bytes(&bytes.try_into().expect("a record")));
            self.events_read += 1;
        }
        self.write64(ram(self.event_ring + event::READ_POINTER), self.events_read);
        events
    }

    pub fn overflows(&self) -> u64 {
        self.read64(ram(self.event_ring + event::OVERFLOWS))
    }

    /// The only new event, which must be a fault of this queue.
    pub fn fault_of(&mut self, queue: &TestQueue) -> (u64, FaultInfo) {
        let events = self.events();
        let [event] = events.as_slice() else { panic!("expected one fault, got {events:?}") };
        assert_eq!(EventKind::from_number(event.kind), Some(EventKind::Fault));
        assert_eq!(event.queue, queue.number);
        assert_eq!(self.state(queue), 5);
        (event.data0, FaultInfo::from_bits(event.data1))
    }

    /// State of a queue as QueryQueue says.
    pub fn state(&self, queue: &TestQueue) -> u64 {
        self.command(Command::QueryQueue, u64::from(queue.number), 0, 0) & 0xff
    }

    pub fn interrupts(&self) -> u64 {
        self.messages.0.load(Ordering::SeqCst)
    }
}

/// The bytes of a command buffer.
pub fn encode(packets: &[Packet]) -> Vec<u8> {
    packets.iter().flat_map(|packet| packet.encode()[..packet.size()].to_vec()).collect()
}
