//! Log buffers of native fences.
//!
//! A queue that user mode writes has one buffer for waits and one for signals. The scheduler writes both, by addresses in the
//! queue's process; the driver only says where they are, and completes what is under way when the operating system wants to
//! read. The entries' layout is the hardware's own.

use core::ptr::NonNull;

use campanile_hw::log::{LOG_ENTRIES_MAX, LogEntry, LogHeader, LogKind};
use wddm_ddi::km::*;

use crate::refusal::{Reason, Refused, refused};

const _: () = assert!(size_of::<DXGK_NATIVE_FENCE_LOG_HEADER>() == LogHeader::SIZE);
const _: () = assert!(size_of::<DXGK_NATIVE_FENCE_LOG_ENTRY>() == LogEntry::SIZE);

/// One log of a queue: its capacity and its GPU virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogBuffer {
    /// Entries that fit.
    pub(crate) entries: u32,
    /// Address in the queue's process, or in the paging process where the scheduler reaches logs there.
    pub(crate) gpu: u64,
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

    /// The buffer that the arguments describe, in the paging process if `in_system`, and its kind, which stands in its header.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER without a buffer, for a header that names no kind, a buffer without entries or with more than
    /// the hardware counts, or an address that is none.
    pub(crate) fn read(
        args: &DXGKARG_SETNATIVEFENCELOGBUFFER,
        in_system: bool,
    ) -> Result<(LogKind, LogBuffer), Refused> {
        let header = NonNull::new(args.LogBufferCpuVa.cast::<DXGK_NATIVE_FENCE_LOG_HEADER>());
        // SAFETY: the buffer is a kernel mapping that starts with its header.
        let header = unsafe { header.ok_or(refused(Reason::NullPointer))?.read_volatile() };
        let kind = u32::try_from(header.Type.0).ok().and_then(LogKind::from_number);
        let gpu = if in_system { args.LogBufferSystemProcessGpuVa } else { args.LogBufferGpuVa };
        let buffer = LogBuffer { entries: args.NumberOfEntries, gpu };
        let legal =
            buffer.gpu != 0 && buffer.gpu.is_multiple_of(8) && buffer.entries != 0 && buffer.entries <= LOG_ENTRIES_MAX;
        match kind {
            Some(kind) if legal => Ok((kind, buffer)),
            _ => Err(refused(Reason::LogBuffer)),
        }
    }

    /// Remembers a buffer, in place of the one of its kind.
    pub(crate) fn put(&mut self, kind: LogKind, buffer: LogBuffer) {
        match kind {
            LogKind::Waits => self.waits = Some(buffer),
            LogKind::Signals => self.signals = Some(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_hw::log::{LogOperation, LogPosition};
    use core::mem::offset_of;
    use wddm_ddi::Zeroed;

    #[test]
    fn each_kind_has_its_buffer_and_a_new_one_replaces_it() {
        let mut logs = LogBuffers::new();
        let mut memory = DXGK_NATIVE_FENCE_LOG_BUFFER::zeroed();
        let mut args = DXGKARG_SETNATIVEFENCELOGBUFFER::zeroed();
        for (kind, entries) in [(1, 84), (2, 85), (1, 1000)] {
            memory.Header.Type = DXGK_NATIVE_FENCE_LOG_TYPE(kind);
            args.NumberOfEntries = entries;
            args.LogBufferCpuVa = &raw mut memory;
            args.LogBufferGpuVa = 0x1000;
            let (kind, buffer) = LogBuffers::read(&args, false).expect("a buffer");
            logs.put(kind, buffer);
        }
        assert_eq!(logs.waits.map(|log| log.entries), Some(1000));
        assert_eq!(logs.signals.map(|log| log.entries), Some(85));
    }

    #[test]
    fn a_buffer_that_the_hardware_could_not_write_is_refused() {
        let mut memory = DXGK_NATIVE_FENCE_LOG_BUFFER::zeroed();
        for (kind, entries, address, buffer) in [
            (1, 84, 0x1000, false),
            (0, 84, 0x1000, true),
            (3, 84, 0x1000, true),
            (-1, 84, 0x1000, true),
            (1, 0, 0x1000, true),
            (1, LOG_ENTRIES_MAX + 1, 0x1000, true),
            (2, 84, 0, true),
            (2, 84, 0x1004, true),
        ] {
            memory.Header.Type = DXGK_NATIVE_FENCE_LOG_TYPE(kind);
            let mut args = DXGKARG_SETNATIVEFENCELOGBUFFER::zeroed();
            (args.NumberOfEntries, args.LogBufferGpuVa) = (entries, address);
            if buffer {
                args.LogBufferCpuVa = &raw mut memory;
            }
            let reason = if buffer { Reason::LogBuffer } else { Reason::NullPointer };
            assert_eq!(LogBuffers::read(&args, false), Err(refused(reason)), "{kind} {entries} {address:#x}");
        }
    }

    #[test]
    fn the_hardware_writes_what_the_operating_system_reads() {
        let offset = |fields: &[campanile_hw::Field], name| {
            fields.iter().find(|field| field.name == name).map(|field| (field.offset, field.size))
        };
        type Header = DXGK_NATIVE_FENCE_LOG_HEADER;
        for (name, expected) in [
            ("position", offset_of!(Header, u)),
            ("kind", offset_of!(Header, Type)),
            ("entries", offset_of!(Header, NumberOfEntries)),
        ] {
            assert_eq!(offset(LogHeader::FIELDS, name).map(|(offset, _)| offset), Some(expected), "{name}");
        }
        type Entry = DXGK_NATIVE_FENCE_LOG_ENTRY;
        for (name, expected) in [
            ("value", (offset_of!(Entry, FenceValue), 8)),
            ("handle", (offset_of!(Entry, hNativeFence), 4)),
            ("operation", (offset_of!(Entry, OperationType), 4)),
            ("observed", (offset_of!(Entry, FenceObservedGpuTimestamp), 8)),
            ("end", (offset_of!(Entry, FenceEndGpuTimestamp), 8)),
        ] {
            assert_eq!(offset(LogEntry::FIELDS, name), Some(expected), "{name}");
        }
        assert_eq!(offset_of!(DXGK_NATIVE_FENCE_LOG_BUFFER, Entries), LogHeader::SIZE);
        type Operation = DXGK_NATIVE_FENCE_LOG_OPERATION;
        let signal = Operation::DXGK_NATIVE_FENCE_LOG_OPERATION_SIGNAL_EXECUTED;
        let wait = Operation::DXGK_NATIVE_FENCE_LOG_OPERATION_WAIT_UNBLOCKED;
        assert_eq!((signal.0, wait.0), (LogOperation::SignalExecuted as i32, LogOperation::WaitUnblocked as i32));
        let mut union = DXGK_NATIVE_FENCE_LOG_HEADER_Union { AtomicWraparoundAndEntryIndex: 0 };
        union.FirstFreeEntryIndexGroup =
            DXGK_NATIVE_FENCE_LOG_HEADER_FirstFreeEntryIndexGroup { FirstFreeEntryIndex: 5, WraparoundCount: 7 };
        // SAFETY: both arms are 64 bits of plain numbers.
        let position = LogPosition::from_bits(unsafe { union.AtomicWraparoundAndEntryIndex });
        assert_eq!((position.index(), position.wraps()), (5, 7));
    }
}
