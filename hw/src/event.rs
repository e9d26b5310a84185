//! The event ring: how the device tells the kernel-mode driver what happened.
//!
//! The ring lies in system memory: a 64-byte header, then records. The device appends a record, advances the write pointer with
//! release order, then sends the interrupt message. The driver consumes with acquire order and stores the read pointer. When
//! the ring is full, fence events collapse into the header's overflow count and every other event waits inside the device.

/// Bytes of the header.
pub const HEADER_SIZE: u64 = 64;
/// Offset of the write pointer (u64, records since RUN, written by the device).
pub const WRITE_POINTER: u64 = 0x00;
/// Offset of the read pointer (u64, written by the driver).
pub const READ_POINTER: u64 = 0x08;
/// Offset of the count of collapsed fence events (u64, written by the device).
pub const OVERFLOWS: u64 = 0x10;
/// Fewest records.
pub const ENTRIES_MIN: u32 = 16;
/// Most records.
pub const ENTRIES_MAX: u32 = 65536;
/// Number of events that wait for a free entry of the event ring, from which on a command buffer that ends in an event or raises the progress fence is not begun.
pub const WAITING_STALLS: usize = 1024;
/// Number of events that wait for a free entry of the event ring, from which on commands that may cause another one are refused.
pub const WAITING_MAX: usize = 65536;

record! {
    /// Event record.
    pub struct Event[32] {
        /// An `EventKind` number.
        0x00 kind: u8,
        /// Node concerned.
        0x01 node: u8,
        /// Queue concerned, all ones for none.
        0x04 queue: u32,
        /// First datum, by kind.
        0x08 data0: u64,
        /// Second datum, by kind.
        0x10 data1: u64,
        /// GPU clock when it happened.
        0x18 timestamp: u64,
    }
}

/// `queue` of an event that concerns none.
pub const NO_QUEUE: u32 = u32::MAX;

numbers! {
    /// Kind of an event.
    pub enum EventKind: u8 {
        /// A SIGNAL, or a PROGRESS on a native progress fence, passed the monitored value. data0: address of the current value; data1: new value; both 0 with CAPS.OPTIMISED_FENCE_INTERRUPT or CAPS.ONE_FENCE_EVENT.
        FenceSignaled = 1,
        /// A PROGRESS on a queue without native progress fence. data0: address of the current value; data1: new value.
        Progress = 2,
        /// A command buffer with RETIRE_EVENT is done. data0: tag.
        Retired = 3,
        /// The queue is suspended. data0: cookie.
        Suspended = 4,
        /// The queue faulted and runs no more. data0: address; data1: a `FaultInfo` word.
        Fault = 5,
        /// The node is in F0 and had nothing to do, and nothing that waits, for IDLE_TICKS. Sent once; work, a command about one of its queues or a return to F0 makes the time start over.
        NodeIdle = 6,
        /// The node hangs: it is busy, makes no progress any more, and needs a reset.
        NodeHung = 7,
        /// A preemption of the queue is done. data0: cookie; data1: offset in the preempted buffer of the WAIT that was not satisfied; 0 if the buffer was done, which its Retired event has said before, or if there was none.
        Preempted = 8,
        /// The scheduler has written the entry of the node's scheduling log for which SetSchedulingLog asked for this event.
        SchedulingLog = 9,
    }
}

word! {
    /// Description of a queue's fault (second datum of a Fault event).
    pub struct FaultInfo: u64 {
        /// A `FaultKind` number.
        8 kind: u8,
        /// The access was a write.
        1 write: bool,
        /// Page-table level whose entry stopped the walk; for a leaf that forbids writing, 0.
        3 level: u8,
        /// For BadPacket the rule broken, a `BadPacket` number; for BadProgram a `ProgramRule` number.
        8 rule: u8,
        /// Low 32 bits of the ring entry's number.
        32 entry: u32,
        reserved 12 as u16,
    }
}

numbers! {
    /// Kind of a fault.
    pub enum FaultKind: u8 {
        /// An address does not translate. Address: the GPU virtual address.
        PageFault = 1,
        /// A write to a read-only page. Address: the GPU virtual address.
        ReadOnly = 2,
        /// A packet breaks a rule. Address: of the packet.
        BadPacket = 3,
        /// A ring entry breaks a rule. Address: of the entry.
        BadRingEntry = 4,
        /// The write pointer jumped backwards or past the ring. Address: the pointer.
        BadWritePointer = 5,
        /// Translation led outside VRAM or mapped system memory. Address: the physical address.
        BadPhysical = 6,
        /// The engine was reset while this queue ran.
        Reset = 7,
        /// A program lies on a page that forbids execution. Address: the GPU virtual address.
        NoExecute = 8,
        /// A program breaks a rule of the instruction set; `rule` is a `ProgramRule` number. Address: of the instruction, or of the program if no single one breaks it.
        BadProgram = 9,
        /// A program accesses memory at an address that is not aligned to the element. Address: the address, which may be one of workgroup or scratch memory.
        Misaligned = 10,
        /// A program leaves its workgroup memory. Address: the byte in it.
        WorkgroupMemory = 11,
        /// A lane leaves its scratch memory. Address: the byte in it.
        ScratchMemory = 12,
        /// The grid of an indirect dispatch is too large. Address: of the numbers.
        BadGrid = 13,
        /// The save area is missing or too small for the program of a DISPATCH (address: the bytes that it has), cannot be reached (address: its location), or does not hold the state of the DISPATCH that is to go on (address: its location).
        SaveArea = 14,
    }
}
