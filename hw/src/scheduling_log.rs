//! The scheduling log of a node: which context had the engine, and when.
//!
//! A log is a header and an array of entries, written as a ring that overruns, as a fence log is. The scheduler writes an entry whenever the state of
//! a context changes on the node, and then the position as one 64-bit word. A context is named by the number that the descriptors of its queues give.

record! {
    /// Start of a scheduling log. The scheduler reads the position when it is given the log, and only writes it from then on.
    pub struct SchedulingLogHeader[32] {
        /// A `LogPosition` word, written whole.
        0x00 position: u64,
        /// Entries that fit; written by software for readers.
        0x08 entries: u64,
    }
}

record! {
    /// A context changed its state.
    pub struct SchedulingLogEntry[32] {
        /// GPU clock at the change.
        0x00 timestamp: u64,
        /// Kind of the entry; 0, a change of a context's state, is the only one.
        0x08 operation: u32,
        /// The context, as the descriptors of its queues name it.
        0x10 context: u64,
        /// A [`ContextState`] number.
        0x18 state: u32,
    }
}

numbers! {
    /// State of a context in the scheduling log.
    pub enum ContextState: u32 {
        /// No queue of it has work that could run: it is done, waits for a fence, is suspended or has faulted.
        Idle = 0,
        /// A queue of it has the node.
        Running = 1,
        /// A queue of it has work, and another context has the node.
        Ready = 2,
    }
}

/// Most entries of a scheduling log.
pub const SCHEDULING_LOG_ENTRIES_MAX: u32 = 1 << 20;

/// Offset of entry `index` in its log.
#[inline]
pub const fn entry_offset(index: u32) -> u64 {
    SchedulingLogHeader::SIZE as u64 + index as u64 * SchedulingLogEntry::SIZE as u64
}

/// Bytes of a log of `entries`.
#[inline]
pub const fn bytes_of(entries: u32) -> u64 {
    entry_offset(entries)
}
