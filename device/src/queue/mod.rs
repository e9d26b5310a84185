//! A mapped queue: what its descriptor says, and which entries and packets of it are done.

pub(crate) mod run_list;

mod linked_list;
pub(crate) mod share;

use self::run_list::{Rank, Terms};
use crate::compute::{self, Running};
use crate::context::Features;
use crate::log::QueueLogs;
use crate::memory::{Access, Span};
use crate::mmu::{Fault, Intent, Tlb};
use crate::save_area::SaveArea;
use crate::transfer::Progress;
use crate::variant::Preemption;
use campanile_hw::isa::{DispatchPosition, SAVE_SIZE_MAX};
use campanile_hw::page_table::VA_BITS;
use campanile_hw::queue::{
    BadWritePointer, CONTROL_READ_POINTER, CONTROL_SIZE, CONTROL_WRITE_POINTER, Location, QueueDescriptor, QueueFlags,
    RingEntry, RingFlags, RingGeometry,
};
use campanile_hw::registers::{NODE_PAGING, NODES};
use campanile_hw::scheduling_log::ContextState;

/// The scheduling state of a queue. A queue that runs is a runnable one that the run list has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunState {
    /// Everything written is consumed.
    Idle,
    /// There is work, and the queue is on the run list, has the node, or waits for a free entry of the event ring.
    Runnable,
    /// The queue waits in a WAIT; it is in the wait list of this fence.
    Waiting {
        /// The wait list, see [`crate::context::waits`].
        key: u64,
    },
    /// Stopped by SuspendQueue.
    Suspended,
    /// Stopped by its own mistake or a reset; only UnmapQueue helps.
    Faulted,
}

/// An address that a queue's owner gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueAddress {
    /// GPU virtual address in the space with this root.
    Virtual {
        /// Page-table root; nothing translates without one.
        root: Option<Location>,
        /// Address.
        va: u64,
    },
    /// A location.
    Physical(Location),
}

impl QueueAddress {
    /// The place `offset` bytes further on.
    pub(crate) fn after(self, offset: u64) -> Self {
        match self {
            Self::Virtual { root, va } => Self::Virtual { root, va: va + offset },
            Self::Physical(location) => Self::Physical(location.with_address(location.address() + offset)),
        }
    }

    /// The address as events report it.
    pub(crate) fn address(self) -> u64 {
        match self {
            Self::Virtual { va, .. } => va,
            Self::Physical(location) => location.into_bits(),
        }
    }

    /// Up to `len` bytes there; `None` means a page that reads as zero and drops writes.
    pub(crate) fn reach<'a>(
        self,
        tlb: &mut Tlb,
        memory: &'a Access<'_>,
        len: u64,
        intent: Intent,
    ) -> Result<Option<Span<'a>>, Fault> {
        let (location, len) = match self {
            Self::Physical(location) => (Some(location), len),
            Self::Virtual { root, va } => {
                let translation = tlb.translate(memory, root.ok_or(Fault::rootless(va, intent))?, va, intent)?;
                (translation.location, len.min(translation.run))
            }
        };
        let Some(location) = location else { return Ok(None) };
        let span = memory.resolve(location, len, intent == Intent::Write);
        span.map(Some).ok_or(Fault::nowhere(location, intent))
    }
}

/// The fence that PROGRESS writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgressFence {
    /// Virtual address of the current value.
    pub(crate) current: u64,
    /// Virtual address of the monitored value, 0 for none.
    pub(crate) monitored: u64,
    /// True if a PROGRESS compares with the monitored value, false if it raises an event every time.
    pub(crate) native: bool,
}

/// The command buffer in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    /// Virtual address.
    pub(crate) commands: u64,
    /// Bytes.
    pub(crate) size: u32,
    /// Bytes of packets done.
    pub(crate) offset: u32,
    /// Bytes of the current packet's effect done: a long COPY or FILL is cut into slices.
    pub(crate) partial: u64,
    /// True if a DISPATCH of the buffer has begun since the queue last waited in it.
    pub(crate) dispatched: bool,
    /// Address space of the buffer and its packets where that is not the queue's.
    pub(crate) own_root: Option<Location>,
    /// Tag of the RETIRED event, if one is wanted.
    pub(crate) retire: Option<u64>,
    /// Value that the progress fence gets at the end, if it is wanted.
    pub(crate) progress: Option<u64>,
    /// True if its packets may be privileged.
    pub(crate) privileged: bool,
}

/// A mapped queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) number: u32,
    pub(crate) node: u32,
    privileged: bool,
    root: Option<Location>,
    ring: QueueAddress,
    control: QueueAddress,
    geometry: RingGeometry,
    progress: Option<ProgressFence>,
    /// The scheduling state.
    pub(crate) state: RunState,
    /// Write pointer last believed.
    pub(crate) write: u64,
    /// Entries fetched. A slot is free as soon as its entry was copied out.
    pub(crate) fetched: u64,
    /// The buffer in progress.
    pub(crate) buffer: Option<Buffer>,
    /// Number of the latest WAIT in which the queue waited.
    pub(crate) ticket: u64,
    /// Cookie of a preemption that waits for the buffer in progress.
    pub(crate) preemption: Option<u64>,
    /// Its fence logs, if it has any.
    pub(crate) logs: QueueLogs,
    /// The dispatch in progress, which the buffer in progress is at. Its state is in the save area instead while the queue has left the node in it.
    pub(crate) dispatch: Option<Box<Running>>,
    /// The save area; one of 0 bytes if the queue has none.
    pub(crate) save_area: SaveArea,
    /// Where the dispatch stands whose state is in the save area, for debuggers.
    pub(crate) saved_at: Option<Box<DispatchPosition>>,
    /// The number of its context in the scheduling log of its node; 0 for a queue that the log leaves out.
    pub(crate) context: u64,
    /// True if another queue of the node had the same context.
    pub(crate) shares_context: bool,
    /// State of the context that the last entry of the scheduling log gives for this queue.
    pub(crate) logged: ContextState,
}

/// A location a descriptor may name: no reserved bits, aligned, inside VRAM if it lies there.
pub(crate) fn legal_location(bits: u64, size: u64, vram: u64) -> Option<Location> {
    let location = Location::from_bits(bits);
    let end = location.address().checked_add(size)?;
    let inside = if location.system() { end <= 1 << 52 } else { end <= vram };
    (bits >> 53 == 0 && location.address().is_multiple_of(4096) && inside).then_some(location)
}

impl Queue {
    /// The queue a descriptor asks for; `None` if it breaks a rule.
    pub(crate) fn new(number: u32, descriptor: &QueueDescriptor, features: Features) -> Option<Self> {
        let vram = features.vram;
        let flags = QueueFlags::from_bits(descriptor.flags);
        let geometry = RingGeometry::new(descriptor.ring_entries)?;
        let node_legal = descriptor.node < NODES && (descriptor.node != NODE_PAGING || flags.privileged());
        let native_legal = !flags.native_progress() || features.native_fence;
        // Locations lead past the page tables that keep processes apart.
        let ring_legal = !flags.physical_ring() || flags.privileged();
        if descriptor.flags >> 4 != 0 || !node_legal || !native_legal || !ring_legal {
            return None;
        }
        let root = match descriptor.root {
            0 if flags.privileged() => None,
            0 => return None,
            bits => Some(legal_location(bits, 4096, vram)?),
        };
        let ring_size = u64::from(geometry.entries()) * RingEntry::SIZE as u64;
        let place = |address: u64, size: u64| {
            if flags.physical_ring() {
                return legal_location(address, size, vram).map(QueueAddress::Physical);
            }
            let inside = address.checked_add(size).is_some_and(|end| end <= 1 << VA_BITS);
            (address.is_multiple_of(4096) && inside).then_some(QueueAddress::Virtual { root: Some(root?), va: address })
        };
        Some(Self {
            number,
            node: descriptor.node,
            privileged: flags.privileged(),
            root,
            ring: place(descriptor.ring, ring_size)?,
            control: place(descriptor.control, CONTROL_SIZE)?,
            geometry,
            progress: progress_of(descriptor, flags, root)?,
            state: if flags.suspended() { RunState::Suspended } else { RunState::Idle },
            write: 0,
            fetched: 0,
            buffer: None,
            ticket: 0,
            preemption: None,
            logs: None,
            dispatch: None,
            save_area: save_area_of(descriptor, features)?,
            saved_at: None,
            context: descriptor.context,
            shares_context: false,
            logged: ContextState::Idle,
        })
    }

    /// True if no entry was fetched and no write pointer seen since the queue was mapped.
    pub(crate) fn is_fresh(&self) -> bool {
        self.buffer.is_none() && (self.write, self.fetched) == (0, 0)
    }

    /// True if the entries between the two pointers fit into the ring.
    pub(crate) fn believes(&self, write: u64, fetched: u64) -> bool {
        self.geometry.pending(write, fetched).is_ok()
    }

    /// Reads the write pointer that the submitter stored.
    pub(crate) fn read_write_pointer(&self, tlb: &mut Tlb, memory: &Access<'_>) -> Result<u64, Fault> {
        let place = self.control.after(CONTROL_WRITE_POINTER);
        match place.reach(tlb, memory, 8, Intent::Read)? {
            None => Ok(0),
            Some(span) => {
                span.load(0).ok_or(Fault::plain(campanile_hw::event::FaultKind::BadPhysical, place.address()))
            }
        }
    }

    /// Publishes that `consumed` entries are.
    pub(crate) fn write_read_pointer(&self, tlb: &mut Tlb, memory: &Access<'_>, consumed: u64) -> Result<(), Fault> {
        let place = self.control.after(CONTROL_READ_POINTER);
        if let Some(span) = place.reach(tlb, memory, 8, Intent::Write)? {
            span.store(0, consumed);
        }
        Ok(())
    }

    /// Takes in a write pointer that is ahead of the known one.
    pub(crate) fn advance(&mut self, write: u64) -> Result<(), BadWritePointer> {
        self.geometry.pending(write, self.fetched)?;
        self.write = write;
        Ok(())
    }

    /// Entries written and not fetched.
    pub(crate) fn pending(&self) -> u64 {
        self.write.saturating_sub(self.fetched)
    }

    /// True if a command buffer is in progress or an entry was not fetched yet.
    pub(crate) fn has_work(&self) -> bool {
        self.buffer.is_some() || self.pending() != 0
    }

    /// Location of the ring entry that is fetched next.
    pub(crate) fn next_entry(&self) -> QueueAddress {
        self.ring.after(self.geometry.slot(self.fetched))
    }

    /// True while the queue has the node and cannot leave it, because of a DISPATCH that it has begun.
    pub(crate) fn holds_node(&self, preemption: Preemption) -> bool {
        let dispatch = self.dispatch.as_deref();
        let inside = match preemption {
            Preemption::Instruction => false,
            Preemption::Workgroup => dispatch.is_some_and(|running| !running.is_between_workgroups()),
            Preemption::Dispatch => dispatch.is_some(),
            Preemption::Buffer => self.buffer.is_some_and(|buffer| buffer.dispatched),
        };
        inside && self.state == RunState::Runnable
    }

    /// What the engine begins a DISPATCH with, or goes on with.
    pub(crate) fn dispatch_state<'a>(&'a mut self, progress: Progress<'a>, leaves: bool) -> compute::State<'a> {
        self.saved_at = None;
        compute::State { running: &mut self.dispatch, progress, save_area: self.save_area, leaves }
    }

    /// True if the queue belongs to the kernel. Only buffers of such a queue may end in RETIRED events.
    pub(crate) fn is_privileged(&self) -> bool {
        self.privileged
    }

    /// Root page table of the queue's own address space; `None` if it has none.
    pub(crate) fn root(&self) -> Option<Location> {
        self.root
    }

    /// The address space of a buffer and its packets.
    #[inline]
    pub(crate) fn root_of(&self, buffer: &Buffer) -> Option<Location> {
        buffer.own_root.or(self.root)
    }

    /// Gives the queue another address space, or none. The caller does the same for its fence logs, if they are in that address space.
    pub(crate) fn set_root(&mut self, new: Option<Location>) {
        self.root = new;
        for place in [&mut self.ring, &mut self.control] {
            if let QueueAddress::Virtual { root, .. } = place {
                *root = new;
            }
        }
    }

    /// The fence of PROGRESS and its address space, if the queue has one.
    pub(crate) fn progress(&self) -> Option<(Location, ProgressFence)> {
        Some((self.root?, self.progress?))
    }

    /// The buffer that a ring entry asks for; `None` if the entry breaks a rule.
    pub(crate) fn buffer_of(&self, entry: &RingEntry, vram: u64) -> Option<Buffer> {
        let flags = RingFlags::from_bits(entry.flags);
        let end = entry.commands.checked_add(u64::from(entry.size))?;
        let shape = entry.commands.is_multiple_of(16)
            && entry.size.is_multiple_of(16)
            && entry.size <= campanile_hw::queue::COMMANDS_SIZE_MAX
            && end <= 1 << VA_BITS;
        if !shape || entry.flags >> 4 != 0 || (entry.flags != 0 && !self.privileged) {
            return None;
        }
        if flags.write_progress() && self.progress().is_none() {
            return None;
        }
        let own_root = match flags.own_root() {
            true if entry.root == 0 => return None,
            true => Some(legal_location(entry.root, 4096, vram)?),
            false => None,
        };
        if entry.size != 0 && own_root.or(self.root).is_none() {
            return None;
        }
        Some(Buffer {
            commands: entry.commands,
            size: entry.size,
            offset: 0,
            partial: 0,
            dispatched: false,
            own_root,
            retire: flags.retire_event().then_some(entry.tag),
            progress: flags.write_progress().then_some(entry.tag),
            privileged: flags.privileged(),
        })
    }
}

/// The time slice, grace and rank that a descriptor asks for; `None` if they are not legal.
pub(crate) fn terms_of(descriptor: &QueueDescriptor) -> Option<Terms> {
    Some(Terms {
        rank: Rank::of(descriptor.rank)?,
        quantum: descriptor.quantum,
        grace_same: descriptor.grace_same,
        grace_lower: descriptor.grace_lower,
    })
}

/// The save area of a descriptor; `None` if it breaks a rule.
fn save_area_of(descriptor: &QueueDescriptor, features: Features) -> Option<SaveArea> {
    let (bits, size) = (descriptor.save_area, descriptor.save_size);
    if size == 0 {
        return (bits == 0).then(SaveArea::default);
    }
    let legal = features.preemption.leaves_dispatches() && size <= SAVE_SIZE_MAX.next_multiple_of(4096);
    let location = legal_location(bits, size.into(), features.vram)?;
    legal.then(|| SaveArea::new(location, size))
}

/// The progress fence of a descriptor: `Some(None)` when it has none, `None` when it breaks a rule.
fn progress_of(
    descriptor: &QueueDescriptor,
    flags: QueueFlags,
    root: Option<Location>,
) -> Option<Option<ProgressFence>> {
    let (current, monitored) = (descriptor.progress_current, descriptor.progress_monitored);
    let legal = |address: u64| address.is_multiple_of(8) && address >> VA_BITS == 0;
    if !legal(current) || !legal(monitored) || (monitored != 0 && !flags.native_progress()) {
        return None;
    }
    if current == 0 {
        return (monitored == 0).then_some(None);
    }
    root?;
    Some(Some(ProgressFence { current, monitored, native: flags.native_progress() }))
}
