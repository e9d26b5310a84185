//! Fence logs: what the signals and waits of a queue did, and when.
//!
//! A log is a header and an array of entries, written as a ring that overruns. A queue has one log of its waits and one of its signals. For
//! each operation the device writes the fence value (a signal), then the entry, then the position as one 64-bit word, and after a barrier
//! compares with the monitored value: when a signal interrupts the kernel, its entry is in the log.

record! {
    /// Start of a log. The device reads the position when it is given the log, and only writes it from then on; software writes all other fields.
    pub struct LogHeader[40] {
        /// A [`LogPosition`] word, written whole.
        0x00 position: u64,
        /// A [`LogKind`] number; written by software for readers.
        0x08 kind: u32,
        /// Entries that fit; written by software for readers.
        0x10 entries: u64,
    }
}

record! {
    /// One operation.
    pub struct LogEntry[48] {
        /// Value signalled or waited for.
        0x00 value: u64,
        /// Handle of the fence in user mode, from the packet.
        0x08 handle: u32,
        /// A [`LogOperation`] number.
        0x0c operation: u32,
        /// GPU clock when the queue began to wait; 0 for a wait that was satisfied at once, and for signals.
        0x18 observed: u64,
        /// GPU clock when the operation was done.
        0x28 end: u64,
    }
}

word! {
    /// Position of a fence log's writer.
    pub struct LogPosition: u64 {
        /// Entry that is written next.
        32 index: u32,
        /// How often the index went back to 0, modulo 2^32.
        32 wraps: u32,
    }
}

numbers! {
    /// Kind of operation that a fence log records; a queue has one log of each.
    pub enum LogKind: u32 {
        /// Waits that were satisfied, at once or after the queue had waited.
        Waits = 1,
        /// Signals that were executed, and each PROGRESS on a native progress fence.
        Signals = 2,
    }
}

numbers! {
    /// Operation that a log entry records.
    pub enum LogOperation: u32 {
        /// A SIGNAL or PROGRESS was executed.
        SignalExecuted = 0,
        /// A WAIT was satisfied.
        WaitUnblocked = 1,
    }
}

word! {
    /// The log that a SetFenceLog command is for (its ARG0).
    pub struct LogTarget: u64 {
        /// Queue number.
        32 queue: u32,
        /// A [`LogKind`] number.
        8 kind: u8,
        reserved 24 as u32,
    }
}

/// Most entries of a log.
pub const LOG_ENTRIES_MAX: u32 = 1 << 20;

impl LogPosition {
    /// The position after one more entry in a log of `entries`.
    #[inline]
    pub const fn next(self, entries: u32) -> Self {
        let index = self.index().wrapping_add(1);
        // The wraps are the upper half of the word and grow modulo 2^32 by themselves.
        let wraps = self.into_bits() >> 32;
        Self::from_bits(if index < entries { (wraps << 32) | index as u64 } else { (wraps + 1) << 32 })
    }

    /// Entries written from `earlier` to this position of a log of `entries`: more than `entries` when some were overrun.
    /// `None` for positions that no log of that size has, or that lie behind `earlier`.
    pub const fn since(self, earlier: Self, entries: u32) -> Option<u64> {
        if self.index() >= entries || earlier.index() >= entries {
            return None;
        }
        let wraps = self.wraps().wrapping_sub(earlier.wraps()) as u64;
        let written = wraps * entries as u64 + self.index() as u64;
        // Half of all wraps is as far ahead as can be told from behind.
        if wraps > u32::MAX as u64 / 2 { None } else { written.checked_sub(earlier.index() as u64) }
    }
}

/// A log's memory as its writer reaches it: the device, or a test.
pub trait LogWriter {
    /// Writes an entry. Hardware may delay that until it is asked to complete its logs.
    fn entry(&mut self, index: u32, entry: &LogEntry);
    /// Writes the position, after every write before.
    fn position(&mut self, position: LogPosition);
}

/// Writes an entry at `position` of a log of `entries`, and then the position behind it, which is the answer. A reader that sees that
/// position, and has delayed entries completed, finds the entry.
#[inline(always)]
pub fn append(writer: &mut impl LogWriter, position: LogPosition, entries: u32, entry: &LogEntry) -> LogPosition {
    writer.entry(position.index(), entry);
    let next = position.next(entries);
    writer.position(next);
    next
}

/// Entries that fit into a log of `bytes`, at most [`LOG_ENTRIES_MAX`].
pub const fn entries_in(bytes: u64) -> u32 {
    let entries = bytes.saturating_sub(LogHeader::SIZE as u64) / LogEntry::SIZE as u64;
    if entries < LOG_ENTRIES_MAX as u64 { entries as u32 } else { LOG_ENTRIES_MAX }
}

/// Bytes of a log of `entries`.
#[inline]
pub const fn bytes_of(entries: u32) -> u64 {
    LogHeader::SIZE as u64 + entries as u64 * LogEntry::SIZE as u64
}

/// Offset of entry `index` in its log.
#[inline]
pub const fn entry_offset(index: u32) -> u64 {
    bytes_of(index)
}

const _: () = assert!(entries_in(4096) == 84);
