//! Log buffers of native fences.
//!
//! A queue has one buffer for waits and one for signals. This version of the hardware writes no log entries, so the driver keeps
//! the addresses it is told, and everything the queues wrote, which is nothing, is always visible to the processor.

use core::ptr::NonNull;

use wddm_ddi::km::*;
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER};

/// Where one log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogBuffer {
    pub(crate) entries: u32,
    pub(crate) cpu: usize,
    pub(crate) gpu: u64,
    pub(crate) system_gpu: u64,
}

/// The logs of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogBuffers {
    pub(crate) waits: Option<LogBuffer>,
    pub(crate) signals: Option<LogBuffer>,
}

impl LogBuffers {
    pub(crate) const fn new() -> Self {
        Self { waits: None, signals: None }
    }

    /// Remembers a buffer, in place of the one of its type.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER without a buffer, or for one whose header names no type.
    pub(crate) fn set(&mut self, args: &DXGKARG_SETNATIVEFENCELOGBUFFER) -> Result<(), NTSTATUS> {
        let header = NonNull::new(args.LogBufferCpuVa.cast::<DXGK_NATIVE_FENCE_LOG_HEADER>());
        // SAFETY: the buffer is a kernel mapping that starts with its header.
        let header = unsafe { header.ok_or(STATUS_INVALID_PARAMETER)?.read_volatile() };
        let buffer = LogBuffer {
            entries: args.NumberOfEntries,
            cpu: args.LogBufferCpuVa.addr(),
            gpu: args.LogBufferGpuVa,
            system_gpu: args.LogBufferSystemProcessGpuVa,
        };
        match header.Type {
            DXGK_NATIVE_FENCE_LOG_TYPE::DXGK_NATIVE_FENCE_LOG_TYPE_WAITS => self.waits = Some(buffer),
            DXGK_NATIVE_FENCE_LOG_TYPE::DXGK_NATIVE_FENCE_LOG_TYPE_SIGNALS => self.signals = Some(buffer),
            _ => return Err(STATUS_INVALID_PARAMETER),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_ddi::Zeroed;

    #[test]
    fn each_type_has_its_buffer_and_a_new_one_replaces_it() {
        let mut logs = LogBuffers::new();
        let mut memory = DXGK_NATIVE_FENCE_LOG_BUFFER::zeroed();
        let mut args = DXGKARG_SETNATIVEFENCELOGBUFFER::zeroed();
        assert_eq!(logs.set(&args), Err(STATUS_INVALID_PARAMETER));
        args.LogBufferCpuVa = &raw mut memory;
        assert_eq!(logs.set(&args), Err(STATUS_INVALID_PARAMETER));
        for (kind, entries) in [(1, 84), (2, 85), (1, 1000)] {
            memory.Header.Type = DXGK_NATIVE_FENCE_LOG_TYPE(kind);
            args.NumberOfEntries = entries;
            args.LogBufferCpuVa = &raw mut memory;
            assert_eq!(logs.set(&args), Ok(()));
        }
        assert_eq!(logs.waits.map(|log| log.entries), Some(1000));
        assert_eq!(logs.signals.map(|log| log.entries), Some(85));
    }
}
