//! Registers in BAR0.
//!
//! Accesses are 4 or 8 bytes wide and naturally aligned; an 8-byte register may be accessed as two halves. Other accesses read as
//! all ones and write nothing.

/// Access mode of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only; writes are dropped.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
    /// Writes have an effect; reads as zero.
    Command,
}

/// One register.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// Name as in the code.
    pub name: &'static str,
    /// Offset in BAR0.
    pub offset: u64,
    /// Width in bytes, 4 or 8.
    pub width: u8,
    /// Access.
    pub access: Access,
    /// Meaning.
    pub doc: &'static str,
}

macro_rules! registers {
    ($( $(#[doc = $doc:literal])* $name:ident = $offset:literal, $width:literal, $access:ident; )*) => {
        $( $(#[doc = $doc])* pub const $name: u64 = $offset; )*
        /// Every register in order of offset.
        pub const REGISTERS: &[Register] = &[
            $( Register {
                name: stringify!($name),
                offset: $offset,
                width: $width,
                access: Access::$access,
                doc: concat!($($doc),*),
            }, )*
        ];
    };
}

registers! {
    /// Magic number [`ID_VALUE`]; all ones when the function is gone.
    ID = 0x000, 4, ReadOnly;
    /// Version of this register interface, [`INTERFACE_VERSION`].
    VERSION = 0x004, 4, ReadOnly;
    /// Capabilities of this variant, a `Caps` word.
    CAPS = 0x008, 4, ReadOnly;
    /// Number of nodes; node numbers are 0 compute, 1 copy, 2 paging.
    NODE_COUNT = 0x00c, 4, ReadOnly;
    /// Size of VRAM in bytes.
    VRAM_SIZE = 0x010, 8, ReadOnly;
    /// Size of the part of VRAM that BAR4 shows, from VRAM offset 0.
    VRAM_WINDOW_SIZE = 0x018, 8, ReadOnly;
    /// Number of doorbell pages in BAR2.
    DOORBELL_COUNT = 0x020, 4, ReadOnly;
    /// Largest number of queues the scheduler can hold.
    QUEUE_LIMIT = 0x024, 4, ReadOnly;
    /// Frequency of the GPU clock in hertz.
    CLOCK_HZ = 0x028, 8, ReadOnly;
    /// The GPU clock: ticks since reset, or since CLOCK_SET from the value set; never backwards otherwise.
    TIMESTAMP = 0x030, 8, ReadOnly;
    /// Ticks after which a node in F0 without work sends a NodeIdle event; 0: it never does.
    IDLE_TICKS = 0x038, 8, ReadOnly;
    /// Run control of the function, a `Control` word. A change is done when BUSY reads as zero.
    CONTROL = 0x040, 4, ReadWrite;
    /// One bit a node: work in progress, which may stand still, or runnable work queued. Work that waits for a fence is neither.
    NODE_BUSY = 0x044, 4, ReadOnly;
    /// One bit a node: it is in F1.
    NODE_ASLEEP = 0x048, 4, ReadOnly;
    /// VRAM offset of the queue descriptor table, a multiple of 4096; latched when RUN is set.
    QUEUE_TABLE_BASE = 0x050, 8, ReadWrite;
    /// Number of descriptors in the table, at most QUEUE_LIMIT.
    QUEUE_TABLE_COUNT = 0x058, 4, ReadWrite;
    /// System-memory address of the event ring, a multiple of 4096; latched when RUN is set.
    EVENT_RING_BASE = 0x060, 8, ReadWrite;
    /// Number of records in the event ring: a power of two, 16 to 65536.
    EVENT_RING_ENTRIES = 0x068, 4, ReadWrite;
    /// Page-table root of the paging process, a location: the address space of fence values that MapFence names, and of fence logs that SetFenceLog or a descriptor names, from then on, both only with CAPS.SYSTEM_PROCESS_FENCES; and of the logs of SetSchedulingLog.
    PAGING_ROOT = 0x070, 8, ReadWrite;
    /// Largest number of fences that can be mapped; 0 without CAPS.SYSTEM_PROCESS_FENCES.
    FENCE_LIMIT = 0x078, 4, ReadOnly;
    /// First argument of a scheduler command.
    CMP_ARG0 = 0x080, 8, ReadWrite;
    /// Second argument of a scheduler command.
    CMP_ARG1 = 0x088, 8, ReadWrite;
    /// Third argument of a scheduler command.
    CMP_ARG2 = 0x090, 8, ReadWrite;
    /// Writing a `Command` number runs it. CMP_STATUS says when it is done; until then writes to this register and to the arguments are dropped.
    CMP_COMMAND = 0x098, 4, Command;
    /// Outcome of the last command, a `CommandStatus`; Busy while it is in progress.
    CMP_STATUS = 0x09c, 4, ReadOnly;
    /// Value returned by the last command, as the command says.
    CMP_RESULT = 0x0a0, 8, ReadOnly;
    /// Fourth argument of a scheduler command.
    CMP_ARG3 = 0x0a8, 8, ReadWrite;
    /// Fifth argument of a scheduler command.
    CMP_ARG4 = 0x0b0, 8, ReadWrite;
    /// Sets the GPU clock: TIMESTAMP counts on from the value written. Reads as zero.
    CLOCK_SET = 0x0b8, 8, Command;
    /// Number of 4-KiB pages of the host aperture: the part of BAR4 behind VRAM_WINDOW_SIZE, each page of which shows any page of VRAM. 0 without one.
    HOST_APERTURE_PAGES = 0x0c0, 4, ReadOnly;
    /// Page of the host aperture that the next write of HOST_APERTURE_TARGET concerns.
    HOST_APERTURE_INDEX = 0x0c4, 4, ReadWrite;
    /// Number of the VRAM page that page HOST_APERTURE_INDEX shows from now on, all ones for none; the index then counts up. A page beyond VRAM counts as none, and an index beyond the aperture changes nothing. A page that shows none reads as all ones and takes no writes; after reset all pages are so.
    HOST_APERTURE_TARGET = 0x0c8, 4, Command;
    /// Distance in bytes that neighbouring current values, and neighbouring monitored values, of fences are to have: a multiple of 8, at most 4096. 0 leaves it to software. Closer ones are right too, and may cost accesses to each other's lines.
    FENCE_STRIDE = 0x0cc, 4, ReadOnly;
    /// The most bytes that the state of a DISPATCH takes in the save area of its queue, which a program's header says exactly (section 15.4). 0 if CAPS.PREEMPTION lets no queue leave the node in a DISPATCH: then no queue has a save area.
    SAVE_SIZE = 0x0d0, 4, ReadOnly;
    /// Doorbell stores that the scheduler has seen, since reset.
    COUNT_DOORBELLS = 0x100, 8, ReadOnly;
    /// WAIT packets satisfied, since reset.
    COUNT_WAITS = 0x108, 8, ReadOnly;
    /// SIGNAL packets executed, since reset.
    COUNT_SIGNALS = 0x110, 8, ReadOnly;
    /// Interrupt messages sent, since reset.
    COUNT_INTERRUPTS = 0x118, 8, ReadOnly;
    /// Command buffers retired, since reset.
    COUNT_RETIRED = 0x120, 8, ReadOnly;
    /// Times that a queue left the compute node in a DISPATCH, its state written to the save area, since reset.
    COUNT_PREEMPTIONS = 0x128, 8, ReadOnly;
    /// Progress of node 0 since reset: packets executed, and each further part of at most 2 MiB of a packet that moves more. A node whose NODE_BUSY stays set while this stands still makes no progress.
    PROGRESS_COMPUTE = 0x140, 8, ReadOnly;
    /// Progress of node 1, as PROGRESS_COMPUTE.
    PROGRESS_COPY = 0x148, 8, ReadOnly;
    /// Progress of node 2, as PROGRESS_COMPUTE.
    PROGRESS_PAGING = 0x150, 8, ReadOnly;
}

/// Value of [`ID`]: "CAMP" in memory order.
pub const ID_VALUE: u32 = u32::from_le_bytes(*b"CAMP");
/// Value of [`VERSION`].
pub const INTERFACE_VERSION: u32 = 1;
/// Bytes of a VRAM page: the unit in which VRAM is counted, and in which the host aperture in BAR4 shows it.
pub const VRAM_PAGE_SIZE: u64 = 4096;
/// Number of nodes of the function.
pub const NODES: u32 = 3;
/// Progress of each node.
pub const NODE_PROGRESS: [u64; NODES as usize] = [PROGRESS_COMPUTE, PROGRESS_COPY, PROGRESS_PAGING];
/// The node for general work; user-mode submission is allowed.
pub const NODE_COMPUTE: u32 = 0;
/// The node for transfers of applications; user-mode submission is allowed.
pub const NODE_COPY: u32 = 1;
/// The node for the memory manager; kernel submission only.
pub const NODE_PAGING: u32 = 2;

word! {
    /// Features of this variant of the function (register CAPS).
    pub struct Caps: u32 {
        /// One doorbell page for all queues; the value written names the queue. Clear: one page a connection.
        1 global_doorbell: bool,
        /// Fence values are written as single 64-bit stores. Clear: only the low 32 bits are written, and NATIVE_FENCE is clear.
        1 atomics64: bool,
        /// WAIT, and SIGNAL with a monitored value, are implemented.
        1 native_fence: bool,
        /// The scheduler reaches fence values and fence logs by addresses in the paging process (PAGING_ROOT). A fence is known to it from MapFence to UnmapFence; WAIT, SIGNAL with a monitored value and PROGRESS on a native progress fence fault on any other.
        1 system_process_fences: bool,
        /// DMA does not snoop CPU caches, whatever page-table entries ask for.
        1 non_coherent: bool,
        /// Entries of fence logs may reach memory after the position that counts them; FlushFenceLogs is the barrier between reading the one and the other.
        1 log_flush: bool,
        /// FenceSignaled events name the queue and not the fence: which fences it signalled stands in its log of signals.
        1 optimised_fence_interrupt: bool,
        /// VRAM keeps its contents in D3hot. Clear: they are lost there. Without power they are lost in any case.
        1 vram_kept_in_d3: bool,
        /// How the memory manager should have page tables written: 0 by the processor, 1 by WRITE, 2 by WRITEPHYSICAL. The function can do
        /// all three; other values are reserved.
        2 page_table_updates: u8,
        /// The scheduler does not poll doorbell pages: a store to one has no effect until a command looks at the queue, such as KickQueue.
        1 notify_doorbells: bool,
        /// FenceSignaled events tell neither the fence nor its kind: a PROGRESS on a queue without native progress fence sends one too, and no Progress event.
        1 one_fence_event: bool,
        /// Where a queue of the compute node can be stopped that has begun a DISPATCH: 0 at the end of the command buffer, 1 between two packets, 2 also between two workgroups of the DISPATCH, 3 also between two instructions.
        2 preemption: u8,
        reserved 18 as u32,
    }
}

/// [`Caps::preemption`]: at the end of the command buffer.
pub const PREEMPTION_BUFFER: u8 = 0;
/// [`Caps::preemption`]: between two packets.
pub const PREEMPTION_DISPATCH: u8 = 1;
/// [`Caps::preemption`]: between two workgroups.
pub const PREEMPTION_WORKGROUP: u8 = 2;
/// [`Caps::preemption`]: between two instructions.
pub const PREEMPTION_INSTRUCTION: u8 = 3;

/// [`Caps::page_table_updates`]: by WRITE.
pub const PAGE_TABLES_BY_WRITE: u8 = 1;
/// [`Caps::page_table_updates`]: by WRITEPHYSICAL.
pub const PAGE_TABLES_BY_WRITE_PHYSICAL: u8 = 2;

word! {
    /// Run control (register CONTROL).
    pub struct Control: u32 {
        /// The scheduler runs. Needs a valid queue table and event ring, otherwise the bit stays clear.
        1 run: bool,
        /// Writing one resets the function: queues, doorbells, waits, TLBs and counters are forgotten, VRAM keeps its contents. Reads as zero.
        1 reset: bool,
        /// A write of this register is not carried out yet; RUN is what it was. Written as anything.
        1 busy: bool,
        reserved 29 as u32,
    }
}

numbers! {
    /// Scheduler commands (register CMP_COMMAND). ARG0 to ARG4 are the argument registers.
    pub enum Command: u32 {
        /// Loads descriptor ARG0, puts the queue on the run list and looks at its write pointer.
        MapQueue = 1,
        /// Takes queue ARG0 off the run list and disconnects its doorbell. Afterwards the GPU touches nothing on its behalf.
        UnmapQueue = 2,
        /// Stops queue ARG0 at the next packet boundary, or in a DISPATCH where CAPS.PREEMPTION allows it, then sends a Suspended event with cookie ARG1. A suspended queue is told at once.
        SuspendQueue = 3,
        /// Lets queue ARG0 run again, or go on if it has not answered SuspendQueue because of CAPS.PREEMPTION, which it then does, and looks at its write pointer; one that cannot be read any more faults the queue.
        ResumeQueue = 4,
        /// Looks at the write pointer of queue ARG0; one that cannot be read faults the queue. A suspended queue is looked at when it is resumed.
        KickQueue = 5,
        /// Connects doorbell ARG0 to queue ARG1, clears the doorbell page and looks at the write pointer. With a global doorbell, ARG0 is 0, the queue may be rung from then on, and the page is cleared for the first queue only. TableFull if the function has no doorbell to give.
        ConnectDoorbell = 6,
        /// Disconnects doorbell ARG0 from queue ARG1, looking at the queue's write pointer a last time as KickQueue does, so that a store made before this command counts. Later stores to the page are ignored.
        DisconnectDoorbell = 7,
        /// Re-evaluates the queues that wait on the fence at address ARG1 of the address space with root ARG0.
        FenceChanged = 8,
        /// Re-evaluates every waiting queue.
        RescanWaits = 9,
        /// Invalidates the translations of the address space with root ARG0 from ARG1 to ARG2 (exclusive, at most 2^48), those of every page that the range touches; ARG1 = ARG2 = 0 invalidates all of them.
        InvalidateTlb = 10,
        /// Stops node ARG0 with everything it does to memory. RESULT: number of the queue that was running, or all ones. If none was running but one has not answered SuspendQueue, it is that one. That queue is left faulted, others keep their place.
        ResetNode = 11,
        /// RESULT: state of queue ARG0 in bits 7:0 (0 idle, 1 runnable, 2 running, 3 waiting, 4 suspended, 5 faulted), bit 8 doorbell connected.
        QueryQueue = 12,
        /// Drops what queue ARG0 has not started: its read position becomes its write pointer. Only while suspended. RESULT: entries dropped.
        DiscardQueue = 13,
        /// Gives the queue of the `LogTarget` word ARG0 the log of the word's kind: header at ARG1 (8-aligned, in the queue's address space, or with CAPS.SYSTEM_PROCESS_FENCES in the paging process), ARG2 entries (1 to 2^20). ARG1 = ARG2 = 0 takes the log away. Writing goes on from the position in the header; an index beyond the last entry counts as 0. Whether or not the queue runs, nothing is written to the old log when the command has completed, and the old log is complete. Unmapping a queue takes its logs away.
        SetFenceLog = 14,
        /// Completes what queue ARG0 has logged: every entry before the positions that the headers show is in memory. Needed where CAPS.LOG_FLUSH says so.
        FlushFenceLogs = 15,
        /// Adds a fence to the scheduler's table: its current value is at ARG1 and its monitored value at ARG2 in the address space with root ARG0, at ARG3 and ARG4 in the paging process. Addresses are 8-aligned and not 0. BadState if PAGING_ROOT is 0 or the table has the fence already, TableFull if FENCE_LIMIT is reached. Only with CAPS.SYSTEM_PROCESS_FENCES.
        MapFence = 16,
        /// Removes from the table the fence with its current value at ARG1 in the address space with root ARG0. Afterwards the GPU accesses neither of its values. BadArgument if the table does not have it. Only with CAPS.SYSTEM_PROCESS_FENCES.
        UnmapFence = 17,
        /// Puts node ARG0 into the power state ARG1: 0 for F0, 1 for F1. In F1 a node runs nothing and the doorbells of its queues are not polled; commands about its queues are carried out, and work waits for F0. RESULT: the state before. After reset every node is in F0.
        SetNodePower = 18,
        /// Gives queue ARG0 the rank ARG1 (a `QueueRank` word), the quantum ARG2 and the grace ARG3 for queues of the same and ARG4 for those of a lower rank, in the place of those of its descriptor, from the next slice on. A queue that waits for the node goes to the end of the queues of its new rank; nothing else of it changes. ARG2 to ARG4 are at most 2^32 - 1; a quantum of 0 means 64.
        SetQueuePriority = 19,
        /// Gives the normal band ARG0 percent (0 to 50) of each node while queues of the focus band are runnable too. After reset it is 0.
        SetBandShare = 20,
        /// Writes how far queue ARG0 has come as a `QueueState` to the location ARG1, a multiple of 64. BadState unless the queue is suspended or faulted.
        SaveQueue = 21,
        /// Lets queue ARG0, which was mapped suspended and has fetched nothing since, go on from the `QueueState` at the location ARG1, a multiple of 64. Its ring and its command buffer must be what they were. BadState for any other queue, BadArgument for a record that cannot be true. A queue that had faulted is faulted then.
        RestoreQueue = 22,
        /// Preempts queue ARG0. What it has not started is dropped. The buffer in progress goes on to its end, or to the first WAIT that is not satisfied, where it is given up. Then the queue is empty, takes new entries, and a Preempted event with cookie ARG1 says where the buffer was given up. BadState for a queue that is suspended, faulted, or being preempted already.
        PreemptQueue = 23,
        /// Sets the times of band ARG0 on every node, in packets: the time slice of a process ARG1, at most 2^32 - 1 and 0 meaning 64; the grace ARG2 of lower bands when this one gets the node; and the grace ARG3 between processes of the band. After reset these are 64, 0 and 0.
        SetBandTimes = 24,
        /// Gives queue ARG0 the page-table root ARG1, a location, in the place of its own, or none with 0. Its ring, its control page, its progress fence, its fence logs (if they are in its address space) and a command buffer in progress whose entry named no root are reached through the new root from then on; what it has logged is complete before. A queue without a root translates nothing. BadState unless the queue is suspended or faulted, BadArgument for a root that no descriptor could name.
        SetQueueRoot = 25,
        /// Gives node ARG0 the scheduling log with its header at ARG1 (32-aligned, in the paging process, PAGING_ROOT) and ARG2 entries (1 to 2^20), and has a SchedulingLog event sent each time entry ARG3 is written; no entry has a number of ARG2 or more. ARG1 = ARG2 = 0 takes the log away. Writing goes on from the position that the header has at the first entry; an index beyond the last entry counts as 0. When the command has completed, nothing more is written to the old log. The pages may come and go: an entry is dropped, without a trace in the position, while its page or that of the header is not mapped. BadState if PAGING_ROOT is 0.
        SetSchedulingLog = 26,
        /// Writes where the DISPATCH in progress of queue ARG0 stands, as a `DispatchPosition`, to the location ARG1, a multiple of 64: that of the subgroup that runs, between two instructions. Nothing is stopped for longer than a step. BadState if no DISPATCH is in progress.
        QueryDispatch = 27,
    }
}

/// Longest time in microseconds from the arrival of a command, or of a change of CONTROL, until it is done.
pub const COMMAND_LONGEST: u32 = 100_000;

numbers! {
    /// Outcome of a scheduler command (register CMP_STATUS).
    pub enum CommandStatus: u32 {
        /// Done.
        Done = 0,
        /// No such command, or CAPS lacks what it needs.
        UnknownCommand = 1,
        /// The scheduler does not run.
        NotRunning = 2,
        /// The queue number is beyond the table, or the queue is not mapped (already mapped, for MapQueue).
        BadQueue = 3,
        /// The descriptor breaks a rule of section 5, or has a byte that its table does not name and that is not zero.
        BadDescriptor = 4,
        /// No such doorbell, it belongs to another queue, or the queue has one.
        BadDoorbell = 5,
        /// Another argument is out of range.
        BadArgument = 6,
        /// An address does not translate.
        PageFault = 7,
        /// The queue, or what else the command concerns, is not in the state that it needs.
        BadState = 8,
        /// A table of the function is full.
        TableFull = 9,
        /// The command is not done yet.
        Busy = 10,
    }
}

/// Statuses that every command may answer. The others that it may are its [`Command::refusals`].
pub const ANY_COMMAND: [CommandStatus; 3] = [CommandStatus::Done, CommandStatus::NotRunning, CommandStatus::Busy];

impl Command {
    /// The statuses with which this command may be refused while the scheduler runs. A number that is no command is refused as `UnknownCommand`.
    pub const fn refusals(self) -> &'static [CommandStatus] {
        use CommandStatus::{
            BadArgument, BadDescriptor, BadDoorbell, BadQueue, BadState, PageFault, TableFull, UnknownCommand,
        };
        match self {
            Self::MapQueue => &[BadQueue, BadDescriptor, PageFault, BadState],
            Self::SuspendQueue | Self::ResumeQueue | Self::KickQueue => &[BadQueue, BadState],
            Self::UnmapQueue | Self::QueryQueue | Self::FlushFenceLogs => &[BadQueue],
            Self::PreemptQueue => &[BadQueue, PageFault, BadState],
            Self::ConnectDoorbell => &[BadQueue, BadDoorbell, PageFault, BadState, TableFull],
            Self::DisconnectDoorbell => &[BadQueue, BadDoorbell],
            Self::FenceChanged => &[BadArgument, PageFault],
            Self::RescanWaits => &[],
            Self::InvalidateTlb | Self::SetNodePower | Self::SetBandShare | Self::SetBandTimes => &[BadArgument],
            Self::ResetNode => &[BadArgument, BadState],
            Self::DiscardQueue | Self::SetFenceLog | Self::SaveQueue | Self::RestoreQueue | Self::QueryDispatch => {
                &[BadQueue, BadArgument, PageFault, BadState]
            }
            Self::MapFence => &[UnknownCommand, BadArgument, BadState, TableFull],
            Self::UnmapFence => &[UnknownCommand, BadArgument],
            Self::SetQueuePriority => &[BadQueue, BadArgument],
            Self::SetQueueRoot => &[BadQueue, BadArgument, BadState],
            Self::SetSchedulingLog => &[BadArgument, BadState],
        }
    }

    /// True if `status` is one that this command may answer.
    pub fn may_answer(self, status: CommandStatus) -> bool {
        ANY_COMMAND.contains(&status) || self.refusals().contains(&status)
    }
}
