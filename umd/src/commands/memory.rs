//! The ring of command memory.

use alloc::{boxed::Box, vec};

use crate::shared::SharedRange;

/// The command memory of a queue.
///
/// `head` and `tail` count bytes since the start and never wrap: `tail..head` belongs to submissions in flight.
pub(crate) struct CommandMemory {
    pub(super) range: SharedRange,
    /// GPU virtual address of the range.
    pub(crate) gpu: u64,
    pub(super) head: u64,
    pub(super) tail: u64,
    /// Where the next submission starts: `head` as an offset in the range.
    pub(super) start: usize,
    /// First offset past `start` that is in use or past the range.
    pub(super) limit: usize,
    /// `head` after each submission in flight, by ring slot.
    pub(super) ends: Box<[u64]>,
}

impl CommandMemory {
    /// Command memory of a queue with `entries` (a power of two) submissions in flight at most.
    pub(crate) fn new(range: SharedRange, gpu: u64, entries: u32) -> Self {
        let ends = vec![0; entries as usize].into_boxed_slice();
        Self { range, gpu, head: 0, tail: 0, start: 0, limit: range.bytes(), ends }
    }

    #[inline(always)]
    fn slot(&mut self, submission: u64) -> Option<&mut u64> {
        let mask = self.ends.len() - 1;
        self.ends.get_mut(submission as usize & mask)
    }

    /// Nothing is in flight any more, and submissions are counted from 1 again, for a ring of `entries`.
    pub(super) fn restart(&mut self, entries: u32) {
        self.ends = vec![0; entries as usize].into_boxed_slice();
        self.release(0, true);
    }

    /// Offset where the next submission starts.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn in_use(&self) -> u64 {
        self.head - self.tail
    }

    /// Frees the command memory and log entries of submissions up to number `completed`; `idle` if none is left.
    pub(super) fn release(&mut self, completed: u64, idle: bool) {
        if idle {
            // Also what was skipped at the end of the range for the recording that is open.
            self.tail = self.head;
        } else if completed != 0 {
            let end = self.slot(completed).map_or(0, |end| *end);
            self.tail = self.tail.max(end);
        }
        self.set_limit();
    }

    pub(super) fn set_limit(&mut self) {
        let free = self.range.bytes() as u64 - self.in_use();
        self.limit = self.range.bytes().min(self.start + free as usize);
    }

    /// Takes the piece up to `cursor` for submission number `submission`; returns its GPU address and size.
    #[inline(always)]
    pub(crate) fn take(&mut self, submission: u64, cursor: usize) -> (u64, u32) {
        let piece = (self.gpu + self.start as u64, (cursor - self.start) as u32);
        self.head += (cursor - self.start) as u64;
        self.start = cursor;
        let head = self.head;
        if let Some(end) = self.slot(submission) {
            *end = head;
        }
        piece
    }
}
