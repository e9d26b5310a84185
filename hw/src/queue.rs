//! Queues: descriptors in VRAM, rings and ring-control pages in memory of the submitter.
//!
//! A ring has a power of two of 32-byte entries, each naming one command buffer. Write pointers count entries since the queue was mapped
//! and never wrap in practice (2^48); the slot of entry `n` is [`RingGeometry::slot`].

word! {
    /// A physical address as the GPU sees it.
    pub struct Location: u64 {
        /// Offset in VRAM, or bus address in system memory.
        52 address: u64,
        /// System memory; clear for VRAM.
        1 system: bool,
        reserved 11 as u64,
    }
}

word! {
    /// Properties of a queue (descriptor field `flags`).
    pub struct QueueFlags: u32 {
        /// Ring entries may name their own page-table root and ask for a Retired event, and let the packets of a buffer be privileged. Set for queues that only the kernel writes.
        1 privileged: bool,
        /// `ring` and `control` are locations, not GPU virtual addresses. Privileged queues only.
        1 physical_ring: bool,
        /// A PROGRESS packet compares with the monitored value at `progress_monitored`. Clear: it raises an event every time.
        1 native_progress: bool,
        /// The queue is suspended from the start; ResumeQueue lets it run.
        1 suspended: bool,
        reserved 28 as u32,
    }
}

word! {
    /// Order of a queue on its node (descriptor field `rank`, and ARG1 of SetQueuePriority). Other values than these are refused.
    pub struct QueueRank: u32 {
        /// Priority band: 0 idle, 1 normal, 2 focus, 3 realtime. A higher band runs first.
        8 band: u8,
        /// Level within the realtime band, 0 to 31: a higher level runs first. 0 in every other band.
        8 level: u8,
        /// Priority among the queues of one process in one band and level, -7 to 7 in two's complement: a higher one runs first.
        8 in_process: i8,
        reserved 8 as u8,
    }
}

record! {
    /// Queue descriptor: entry of the table at QUEUE_TABLE_BASE, read when the queue is mapped.
    pub struct QueueDescriptor[128] {
        /// Address of the ring, a multiple of 4096.
        0x00 ring: u64,
        /// Address of the ring-control page, a multiple of 4096.
        0x08 control: u64,
        /// Page-table root of the queue's address space, a location; 0 only for privileged queues.
        0x10 root: u64,
        /// GPU virtual address of the progress fence's current value, 8-aligned, 0 for none.
        0x18 progress_current: u64,
        /// GPU virtual address of the progress fence's monitored value, 8-aligned, 0 unless native.
        0x20 progress_monitored: u64,
        /// Entries in the ring: a power of two, 2 to 65536.
        0x28 ring_entries: u32,
        /// A `QueueFlags` word.
        0x2c flags: u32,
        /// Node that runs the queue.
        0x30 node: u32,
        /// A `QueueRank` word.
        0x34 rank: u32,
        /// Packets a queue may run while another one of its process and rank is runnable; 0 means 64. 2 MiB of a COPY or FILL count as a packet, as does a part of a DISPATCH (section 14.2).
        0x38 quantum: u32,
        /// GPU virtual address of the log of waits, 8-aligned, 0 for none; in the address space that SetFenceLog says.
        0x40 wait_log: u64,
        /// GPU virtual address of the log of signals, 8-aligned, 0 for none.
        0x48 signal_log: u64,
        /// Entries in the log of waits, 0 without one.
        0x50 wait_log_entries: u32,
        /// Entries in the log of signals, 0 without one.
        0x54 signal_log_entries: u32,
        /// Number of the process that the queue belongs to; queues with the same number share the time slices of one process.
        0x58 process: u32,
        /// Packets that a queue of the same process and rank, whose time slice is over, may go on for to end its command buffer before this one gets the node.
        0x5c grace_same: u32,
        /// Packets that a queue of the same process and lower rank may go on for to end its command buffer before this one gets the node.
        0x60 grace_lower: u32,
        /// The number by which the scheduling log of the node names the queue's context; 0 for a queue that the log leaves out.
        0x68 context: u64,
        /// Location of the save area, a multiple of 4096: memory into which the state of a DISPATCH goes when the queue leaves the node in it. 0 without one.
        0x70 save_area: u64,
        /// Bytes of the save area, at most SAVE_SIZE rounded up to a multiple of 4096; 0 without one.
        0x78 save_size: u32,
    }
}

word! {
    /// Flags of a saved queue (field `flags` of its `QueueState`).
    pub struct QueueStateFlags: u32 {
        /// A command buffer was in progress: the fields from `commands` to `offset` describe it.
        1 buffer: bool,
        /// The buffer ends in a Retired event with `tag`.
        1 retire_event: bool,
        /// The queue had faulted.
        1 faulted: bool,
        /// The buffer ends by raising the progress fence to `tag`.
        1 write_progress: bool,
        /// Packets of the buffer may be privileged.
        1 privileged: bool,
        reserved 27 as u32,
    }
}

record! {
    /// The record that SaveQueue writes and RestoreQueue reads: the position of a queue in its ring and in its command buffer.
    pub struct QueueState[72] {
        /// Entries fetched from the ring.
        0x00 fetched: u64,
        /// Write pointer seen last.
        0x08 written: u64,
        /// GPU virtual address of the command buffer in progress.
        0x10 commands: u64,
        /// Page-table root of the buffer, a location, if its ring entry named one; 0 for that of the queue.
        0x18 root: u64,
        /// Bytes of the current packet's effect that are done. Of a DISPATCH that has begun the workgroups that have ended and one more; the rest of its state is in the save area.
        0x20 partial: u64,
        /// Tag of the buffer's ring entry, if it ends in a Retired event or raises the progress fence.
        0x28 tag: u64,
        /// GPU time at which the queue began to wait in the WAIT in progress, 0 if it does not wait.
        0x30 observed: u64,
        /// Size of the buffer.
        0x38 size: u32,
        /// Bytes of packets done.
        0x3c offset: u32,
        /// A `QueueStateFlags` word.
        0x40 flags: u32,
    }
}

/// Bytes of a ring entry.
pub const RING_ENTRY_SIZE: u64 = RingEntry::SIZE as u64;
/// Smallest ring, in entries.
pub const RING_ENTRIES_MIN: u32 = 2;
/// Largest ring, in entries.
pub const RING_ENTRIES_MAX: u32 = 65536;
/// Bytes of a system page: the unit in which memory of the host is mapped, for the function by the IOMMU and for processes.
pub const SYSTEM_PAGE_SIZE: u64 = 4096;
/// Size of the ring-control allocation.
pub const CONTROL_SIZE: u64 = 4096;
/// Offset of the write pointer (u64, written by the submitter) in the ring-control page.
pub const CONTROL_WRITE_POINTER: u64 = 0x00;
/// Offset of the read pointer (u64, written by the GPU, for information only) in the ring-control page.
pub const CONTROL_READ_POINTER: u64 = 0x40;
/// Largest command buffer, in bytes.
pub const COMMANDS_SIZE_MAX: u32 = 1 << 20;

word! {
    /// Properties of one submission (ring entry field `flags`).
    pub struct RingFlags: u32 {
        /// Send a Retired event with the entry's tag when the buffer is done. Privileged queues only.
        1 retire_event: bool,
        /// Run in the address space with the entry's root. Privileged queues only.
        1 own_root: bool,
        /// Raise the queue's progress fence to the entry's tag when the buffer is done, as PROGRESS does. Privileged queues with a progress
        /// fence only.
        1 write_progress: bool,
        /// Packets of the buffer may be privileged: it is one that the memory manager wrote. Privileged queues only.
        1 privileged: bool,
        reserved 28 as u32,
    }
}

record! {
    /// Ring entry: one command buffer.
    pub struct RingEntry[32] {
        /// GPU virtual address of the command buffer, a multiple of 16.
        0x00 commands: u64,
        /// Size of the command buffer, a multiple of 16, at most 1 MiB. Zero is a buffer without packets.
        0x08 size: u32,
        /// A `RingFlags` word.
        0x0c flags: u32,
        /// Reported in the Retired event; the value of the progress fence with WRITE_PROGRESS.
        0x10 tag: u64,
        /// Page-table root, a location, when OWN_ROOT is set.
        0x18 root: u64,
    }
}

/// Size of a ring, and the only code that maps a pointer to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingGeometry {
    entries: u32,
}

/// A write pointer that is behind the read pointer, or more than a ring ahead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadWritePointer;

impl RingGeometry {
    /// A ring of `entries`, if that is a legal size.
    pub const fn new(entries: u32) -> Option<Self> {
        if entries.is_power_of_two() && entries >= RING_ENTRIES_MIN && entries <= RING_ENTRIES_MAX {
            Some(Self { entries })
        } else {
            None
        }
    }

    /// The largest legal ring that fits in `bytes`, if `bytes` is exactly such a ring.
    pub const fn of_bytes(bytes: u64) -> Option<Self> {
        let entries = bytes / RING_ENTRY_SIZE;
        if !bytes.is_multiple_of(RING_ENTRY_SIZE) || entries > RING_ENTRIES_MAX as u64 {
            return None;
        }
        Self::new(entries as u32)
    }

    /// Entries in the ring.
    pub const fn entries(self) -> u32 {
        self.entries
    }

    /// Byte offset of entry number `pointer` in the ring.
    #[inline]
    pub const fn slot(self, pointer: u64) -> u64 {
        (pointer & (self.entries as u64 - 1)) * RING_ENTRY_SIZE
    }

    /// Entries that can still be written when `write` have been written and `read` consumed; 0 when the ring is full or the
    /// pair is not believable.
    pub const fn free(self, write: u64, read: u64) -> u32 {
        match self.pending(write, read) {
            Ok(pending) => self.entries - pending,
            Err(BadWritePointer) => 0,
        }
    }

    /// Entries written and not consumed.
    ///
    /// # Errors
    /// [`BadWritePointer`] if `write` lies behind `read` or more than a ring ahead of it.
    pub const fn pending(self, write: u64, read: u64) -> Result<u32, BadWritePointer> {
        if write < read || write - read > self.entries as u64 {
            Err(BadWritePointer)
        } else {
            Ok((write - read) as u32)
        }
    }
}
