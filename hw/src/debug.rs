//! Debug information of the kernel-mode driver (DxgkDdiCollectDbgInfo): 64-bit words.
//!
//! Word 0 is [`MAGIC`], which ends in the version. Word 1 is the number of words in all, without those that did not fit into the buffer. Word 2
//! has the reason (a bug-check code) in its low half, and above it the flags [`RUNNING`], [`POWERED`] and [`CUT`]. Word 3 is the driver's handle
//! of the adapter. Sections follow, and behind the last one [`END`]. A section begins with a word: its [`Section`] in bits 15:0, the words of an
//! item in bits 31:16, and the number of items, which follow, in bits 63:32. A reader skips sections that it does not know, and words at the end
//! of an item that it does not know. Nodes of linked GPUs follow each other, GPU by GPU, and are numbered so; everything else about the device is
//! of the first GPU.

/// First word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CPDBG003");

/// The word behind the last one, if it fits into the buffer.
pub const END: u64 = u64::from_le_bytes(*b"CPDBGEND");

/// Index of the word that counts the words.
pub const WORDS_AT: usize = 1;

/// Words before the sections.
pub const HEADER_WORDS: usize = 4;

/// Bit of word 2: the device takes commands and sends events.
pub const RUNNING: u64 = 1 << 32;
/// Bit of word 2: the device is in D0.
pub const POWERED: u64 = 1 << 33;
/// Bit of word 2: the buffer was too small, so that words are missing.
pub const CUT: u64 = 1 << 34;

/// Type of a section's items; each section of the report holds items of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Section {
    /// The device: bytes of VRAM; CAPS; number of doorbell pages, and in the high half of queues; performance counter, and its ticks a
    /// second.
    Device = 1,
    /// A node: packets submitted, and in the high half completed; bit 0 set between its reset and its resumption, F-state in the high
    /// half.
    Nodes = 2,
    /// A reason of refusal: its number; calls refused with it; events and values ignored because of it.
    Reasons = 3,
    /// A ring: number of its component; events ever written; events dropped.
    Rings = 4,
    /// A hardware queue: handle; handle of the operating system; context; number, node in bits 39:32, bit 40 set if user mode writes it,
    /// submissions that wait in the high 16 bits; doorbell, 0 for none; address of its progress value.
    Queues = 5,
    /// A doorbell: handle; handle of the operating system; queue; its page, all ones for none.
    Doorbells = 6,
    /// A native fence: handle; handle of the operating system; bit 0 set if every wait for it is satisfied from now on.
    Fences = 7,
    /// A native fence in a process: handle; fence; process; addresses of current and monitored value.
    OpenFences = 8,
    /// A dispatch in progress when a timeout was found: handle of its hardware queue, 0 for the packets of the node; number of the queue, node in bits 39:32, bit 40 set while its state is in
    /// the save area, bit 41 if a workgroup is in progress; place of the workgroup, x and in the high half y; z, and in the high half the number of the subgroup that runs; its next instruction,
    /// and in the high half the line of the source, 0 for none; lanes that execute, and in the high half those that have not ended; address of the program; the instruction, two words; workgroups
    /// that have ended; instructions of subgroups; GPU clock when it began.
    Dispatches = 9,
    /// The last events of a ring, oldest first: the words of [`crate::trace::entry::TraceEntry`]. The component's number is added to this.
    Events = 0x100,
}

impl Section {
    /// Words of an item.
    pub const fn words(self) -> usize {
        match self {
            Self::Nodes => 2,
            Self::Reasons | Self::Rings | Self::Fences => 3,
            Self::Doorbells => 4,
            Self::Device | Self::OpenFences => 5,
            Self::Queues | Self::Events => 6,
            Self::Dispatches => 12,
        }
    }
}

/// The page of a doorbell that is not connected.
pub const NO_PAGE: u64 = u64::MAX;
