//! Scheduling logs of nodes: the hardware writes which context has the engine, in the entries' layout of the operating system. The driver only says
//! where. [d3dkmddi: DXGKARG_SETSCHEDULINGLOGBUFFER]

use campanile_hw::scheduling_log::{SCHEDULING_LOG_ENTRIES_MAX, SchedulingLogEntry, SchedulingLogHeader};
use wddm_ddi::km::*;

use crate::refusal::{Reason, Refused, refused};

const _: () = assert!(size_of::<DXGK_SCHEDULING_LOG_HEADER>() == SchedulingLogHeader::SIZE);
const _: () = assert!(size_of::<DXGK_SCHEDULING_LOG_ENTRY>() == SchedulingLogEntry::SIZE);

/// One log: its address in the paging process, its capacity, and the entry whose writing raises an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SchedulingLog {
    pub(crate) gpu: u64,
    pub(crate) entries: u32,
    pub(crate) interrupt: u32,
}

impl SchedulingLog {
    /// The log that the arguments describe.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER without a buffer, for one without entries or with more than the hardware counts, or for an address that the
    /// hardware cannot write.
    pub(crate) fn read(args: &DXGKARG_SETSCHEDULINGLOGBUFFER) -> Result<Self, Refused> {
        if args.LogBufferCpuVa.is_null() {
            return Err(refused(Reason::NullPointer));
        }
        let log = Self { gpu: args.LogBufferGpuVa, entries: args.NumberOfEntries, interrupt: args.InterruptEntry };
        let aligned = log.gpu != 0 && log.gpu.is_multiple_of(SchedulingLogHeader::SIZE as u64);
        let legal = aligned && (1..=SCHEDULING_LOG_ENTRIES_MAX).contains(&log.entries);
        if legal { Ok(log) } else { Err(refused(Reason::LogBuffer)) }
    }

    /// Arguments of the scheduler's command for `node`.
    pub(crate) fn arguments(self, node: u32) -> [u64; 4] {
        [node.into(), self.gpu, self.entries.into(), self.interrupt.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_hw::scheduling_log::ContextState;
    use core::mem::offset_of;
    use wddm_ddi::Zeroed;

    #[test]
    fn a_log_that_the_hardware_could_not_write_is_refused() {
        let mut memory = DXGK_SCHEDULING_LOG_BUFFER::zeroed();
        for (entries, address, buffer, expected) in [
            (8, 0x1000, true, None),
            (SCHEDULING_LOG_ENTRIES_MAX, 0x1020, true, None),
            (8, 0x1000, false, Some(Reason::NullPointer)),
            (0, 0x1000, true, Some(Reason::LogBuffer)),
            (SCHEDULING_LOG_ENTRIES_MAX + 1, 0x1000, true, Some(Reason::LogBuffer)),
            (8, 0, true, Some(Reason::LogBuffer)),
            (8, 0x1010, true, Some(Reason::LogBuffer)),
        ] {
            let mut args = DXGKARG_SETSCHEDULINGLOGBUFFER::zeroed();
            (args.NumberOfEntries, args.LogBufferGpuVa, args.InterruptEntry) = (entries, address, 3);
            if buffer {
                args.LogBufferCpuVa = &raw mut memory;
            }
            let read = SchedulingLog::read(&args);
            assert_eq!(read.err(), expected.map(refused), "{entries} {address:#x}");
            if let Ok(log) = read {
                assert_eq!(log.arguments(2), [2, address, entries.into(), 3]);
            }
        }
    }

    #[test]
    fn the_hardware_writes_what_the_operating_system_reads() {
        let offset =
            |name| SchedulingLogEntry::FIELDS.iter().find(|field| field.name == name).map(|field| field.offset);
        type Entry = DXGK_SCHEDULING_LOG_ENTRY;
        type Change = DXGK_SCHEDULING_LOG_CONTEXT_STATE_CHANGE;
        let change = offset_of!(Entry, u2);
        for (name, expected) in [
            ("timestamp", offset_of!(Entry, GpuTimeStamp)),
            ("operation", offset_of!(Entry, Bits)),
            ("context", change + offset_of!(Change, hKmdContext)),
            ("state", change + offset_of!(Change, newContextState)),
        ] {
            assert_eq!(offset(name), Some(expected), "{name}");
        }
        type State = DXGK_SCHEDULING_LOG_CONTEXT_STATE;
        for (ours, theirs) in [
            (ContextState::Idle, State::DXGK_SCHEDULING_LOG_CONTEXT_STATE_IDLE),
            (ContextState::Running, State::DXGK_SCHEDULING_LOG_CONTEXT_STATE_RUNNING),
            (ContextState::Ready, State::DXGK_SCHEDULING_LOG_CONTEXT_STATE_READY),
        ] {
            assert_eq!(ours as i32, theirs.0);
        }
    }
}
