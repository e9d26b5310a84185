//! Options of a new queue: its node, the sizes of its ring, command memory and save area, its submission model and its priority; and which values are allowed.

use campanile_hw::{
    isa::SAVE_SIZE_MAX,
    queue::{CONTROL_SIZE, RING_ENTRIES_MAX, RING_ENTRY_SIZE},
    registers::{NODE_COMPUTE, NODE_COPY},
};

use super::SubmissionModel;
use crate::error::{Error, Result};

/// Fewest ring entries: the ring then fills a page, and the size of its allocation is exactly its own.
pub const RING_ENTRIES_MIN: u32 = (CONTROL_SIZE / RING_ENTRY_SIZE) as u32;
/// Most bytes of command memory.
pub const COMMAND_BYTES_MAX: u32 = 1 << 28;
/// Most bytes of the save area of a queue: the state of every program fits.
pub const SAVE_BYTES_MAX: u32 = SAVE_SIZE_MAX;

/// Engine that runs a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// General work.
    Compute,
    /// Transfers.
    Copy,
}

impl Node {
    pub(super) fn ordinal(self) -> u32 {
        match self {
            Self::Compute => NODE_COMPUTE,
            Self::Copy => NODE_COPY,
        }
    }
}

/// Properties of a new queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Most submissions in flight: a power of two, 128 to 65536.
    pub ring_entries: u32,
    /// Bytes of command memory that the submissions in flight share: a multiple of 4096, up to 256 MiB.
    pub command_bytes: u32,
    /// `None` takes user-mode submission where it is enabled and works, the kernel's otherwise, and packets where the operating
    /// system does not schedule in hardware; `Some` insists.
    pub model: Option<SubmissionModel>,
    /// Bytes of the kernel's memory that keep the state of a program while the queue is off the compute node: at least [`crate::Program::save_bytes`] of each, at most [`SAVE_BYTES_MAX`].
    /// A program that needs more is a fault. Without effect on other nodes and for packets.
    pub save_bytes: u32,
    /// Priority of the context among all contexts: -7 to -1 idle, 0 normal, 1 to 7 focus, 8 to 31 realtime. See [`super::Queue::new`].
    pub priority: i32,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { ring_entries: 256, command_bytes: 1 << 20, model: None, save_bytes: 256 << 10, priority: 0 }
    }
}

impl QueueOptions {
    pub(super) fn check(&self) -> Result<()> {
        check_entries(self.ring_entries)?;
        if self.command_bytes == 0 || !self.command_bytes.is_multiple_of(4096) || self.command_bytes > COMMAND_BYTES_MAX
        {
            return Err(Error::BadArgument("command memory has a multiple of 4096 bytes, up to 256 MiB"));
        }
        if self.save_bytes == 0 || self.save_bytes > SAVE_BYTES_MAX {
            return Err(Error::BadArgument("a save area has bytes, and no more than the state of any program"));
        }
        Ok(())
    }
}

pub(super) fn check_entries(entries: u32) -> Result<()> {
    match entries.is_power_of_two() && (RING_ENTRIES_MIN..=RING_ENTRIES_MAX).contains(&entries) {
        true => Ok(()),
        false => Err(Error::BadArgument("a ring has a power of two of entries, 128 to 65536")),
    }
}
