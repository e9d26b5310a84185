//! Commands about fence logs.

use super::processor::Cmp;
use crate::log::{BadLog, Log};
use crate::memory::Memory;
use campanile_hw::log::{LogKind, LogTarget};
use campanile_hw::registers::CommandStatus;
use std::sync::atomic::{Ordering, fence};

impl From<BadLog> for CommandStatus {
    fn from(bad: BadLog) -> Self {
        match bad {
            BadLog::Argument => Self::BadArgument,
            BadLog::Unreachable => Self::PageFault,
        }
    }
}

impl Cmp {
    /// SetFenceLog. The engine runs no slice meanwhile, so that an entry goes to one log or the other.
    pub(super) fn set_fence_log(
        &self,
        memory: &Memory,
        target: u64,
        header: u64,
        entries: u64,
    ) -> Result<u64, CommandStatus> {
        let bits = target;
        let target = LogTarget::from_bits(target);
        if LogTarget::new().with_queue(target.queue()).with_kind(target.kind()).into_bits() != bits {
            return Err(CommandStatus::BadArgument);
        }
        let kind = LogKind::from_number(u32::from(target.kind())).ok_or(CommandStatus::BadArgument)?;
        self.with_queue(memory, target.queue(), |state, context| {
            let (queue, engine) = state.queue_and_engine(target.queue()).ok_or(CommandStatus::BadQueue)?;
            let log = match (header, entries) {
                (0, 0) => None,
                _ => {
                    let root = context.log_root(queue.root()).ok_or(CommandStatus::BadState)?;
                    Some(Log::open(&mut engine.tlb, context, root, header, entries)?)
                }
            };
            let mut logs = queue.logs.take().unwrap_or_default();
            logs.replace(kind, log, &mut engine.tlb, context);
            queue.logs = (!logs.is_empty()).then_some(logs);
            Ok(0)
        })
    }

    /// FlushFenceLogs.
    pub(super) fn flush_fence_logs(&self, memory: &Memory, number: u32) -> Result<u64, CommandStatus> {
        if !self.features.log_flush {
            self.node_of(number)?;
            fence(Ordering::SeqCst);
            return Ok(0);
        }
        self.with_queue(memory, number, |state, context| {
            let (queue, engine) = state.queue_and_engine(number).ok_or(CommandStatus::BadQueue)?;
            if let Some(logs) = &mut queue.logs {
                logs.flush(&mut engine.tlb, context);
            }
            Ok(0)
        })
    }
}
