//! The fence logs of a queue, whose entries user mode picks and the GPU writes.

use campanile_hw::{
    log::{LOG_ENTRIES_MAX, LogOperation},
    packet,
};
use wddm_ddi::{kmt::D3DKMT_GETNATIVEFENCELOGDETAIL, types::D3DKMT_HANDLE};

use crate::error::{Error, Result};

/// A fence log, and the entry of it that comes next.
#[derive(Clone, Copy, Default)]
pub(super) struct LogCursor {
    /// GPU virtual address of the log.
    address: u64,
    /// Entries of it; 0 without log.
    entries: u32,
    next: u32,
}

impl LogCursor {
    /// The command that logs an operation in the next free entry. The log may overrun, so that this overwrites an older entry; the reader
    /// notices that.
    #[inline(always)]
    pub(super) fn pick(&mut self, operation: LogOperation, handle: D3DKMT_HANDLE, value: u64) -> Option<packet::Log> {
        let Self { address: log, entries, next: entry } = *self;
        if entries == 0 {
            return None;
        }
        self.next = if entry + 1 < entries { entry + 1 } else { 0 };
        Some(packet::Log { handle, log, value, entry, operation: operation as u32 })
    }
}

/// The fence logs of a queue. User mode picks the entries, the GPU writes them. [native-gpu-fence-objects: log buffer mechanism]
#[derive(Clone, Copy, Default)]
pub(crate) struct Logs {
    pub(super) waits: LogCursor,
    pub(super) signals: LogCursor,
}

impl Logs {
    /// The logs that the operating system has just given a queue.
    ///
    /// # Errors
    /// [`Error::BadAnswer`] for logs that the GPU could not write.
    pub(crate) fn new(detail: &D3DKMT_GETNATIVEFENCELOGDETAIL) -> Result<Self> {
        let cursor = |address: u64, entries: u32| {
            let legal = address.is_multiple_of(8) && entries <= LOG_ENTRIES_MAX && (address != 0 || entries == 0);
            let cursor = legal.then_some(LogCursor { address, entries, next: 0 });
            cursor.ok_or(Error::BadAnswer("a fence log lies where the GPU cannot write it"))
        };
        Ok(Self {
            waits: cursor(detail.WaitLogGpuBaseAddress, detail.WaitLogNumberOfEntries)?,
            signals: cursor(detail.SignalLogGpuBaseAddress, detail.SignalLogNumberOfEntries)?,
        })
    }
}
