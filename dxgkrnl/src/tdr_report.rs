//! What a recovery did, for a person and for tests.

use std::fmt;
use std::time::Duration;

use wddm_ddi::types::{D3DKMT_HANDLE, NTSTATUS};

/// The reason why a recovery began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TdrReason {
    /// Work made no progress for TdrDelay, and its context did not leave the engine in another TdrDelay.
    EngineTimeout,
    /// A context that was to leave its engine for another reason (exit, a lost device) did not within TdrDelay.
    SuspensionTimeout,
    /// The driver reported the engine as hung.
    ReportedHung,
    /// A page fault asked for the reset.
    PageFault,
    /// Work made no progress for TdrDelay on a function that somebody had reset: nothing of it is left.
    FunctionReset,
    /// A program asked for it with D3DKMTEscape. [d3dkmthk: D3DKMT_ESCAPE_TDRDBGCTRL]
    Forced,
    /// The reset of an engine was refused, failed, or changed nothing. [tdr-changes-in-windows-8:
    /// TdrEngineTimeoutPromotedToAdapterReset]
    EngineTimeoutPromotedToAdapterReset,
}

impl TdrReason {
    /// TdrReason of the recovery context, where its number is documented. [d3dkmddi: DXGK_TDR_TYPE]
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Forced => Some(1),
            Self::EngineTimeoutPromotedToAdapterReset => Some(9),
            _ => None,
        }
    }
}

impl fmt::Display for TdrReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EngineTimeout => "work made no progress and could not be preempted",
            Self::SuspensionTimeout => "a context did not leave its engine",
            Self::ReportedHung => "the driver reported the engine as hung",
            Self::PageFault => "a page fault asked for it",
            Self::FunctionReset => "the function was reset while it was in use",
            Self::Forced => "a program asked for it with D3DKMT_ESCAPE_TDRDBGCTRL (DXGK_TDR_TYPE_FORCED = 1)",
            Self::EngineTimeoutPromotedToAdapterReset => {
                "the reset of an engine did not help (TdrEngineTimeoutPromotedToAdapterReset = 9)"
            }
        })
    }
}

/// Recovery that was performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TdrOutcome {
    /// One engine was reset.
    EngineReset,
    /// The reset of the engine did not succeed; the adapter is reset next.
    EngineResetFailed,
    /// The whole adapter was reset.
    AdapterReset,
    /// The work had ended by itself; nothing was reset.
    NothingToReset,
    /// TdrDebugMode says that timeouts are ignored.
    Ignored,
}

/// Effect of a timeout on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TdrFate {
    /// A context of the device caused the timeout.
    Guilty,
    /// A context of the device lost its state, though another one caused the timeout.
    Collateral,
    /// It goes on.
    Innocent,
}

/// Through what work comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TdrKind {
    /// A hardware queue whose ring user mode writes.
    UserQueue,
    /// A hardware queue whose ring the driver writes.
    KernelQueue,
    /// A context that is scheduled packet by packet.
    Packets,
}

impl fmt::Display for TdrKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UserQueue => "user-mode queue",
            Self::KernelQueue => "kernel-mode queue",
            Self::Packets => "context of packets",
        })
    }
}

/// A hardware queue, or a context of packets, at the time of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TdrQueue {
    /// The process it belongs to.
    pub process: String,
    /// Handle of the device in its process.
    pub handle: D3DKMT_HANDLE,
    /// Node ordinal.
    pub node: u32,
    /// The kind of queue.
    pub kind: TdrKind,
    /// How far it had come: a value of its progress fence, or the number of its packets.
    pub progress: u64,
    /// Progress value that was queued last.
    pub last_queued: u64,
    /// Effect of the timeout on the queue.
    pub fate: TdrFate,
}

impl TdrQueue {
    /// True if it had work when the recovery began.
    pub fn is_busy(&self) -> bool {
        self.progress < self.last_queued
    }
}

/// Calls and reports of the driver of an adapter in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TdrInterrupts {
    /// The time.
    pub time: Duration,
    /// Calls of DxgkDdiInterruptRoutine: messages of the function that arrived.
    pub calls: u64,
    /// Of those, the ones that it answered FALSE.
    pub unclaimed: u64,
    /// Calls of DxgkDdiDpcRoutine.
    pub dpcs: u64,
    /// Calls of DxgkCbNotifyInterrupt.
    pub reports: u64,
    /// Calls of DxgkCbNotifyDpc.
    pub dpc_notifications: u64,
}

impl fmt::Display for TdrInterrupts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, calls, unclaimed, dpcs, reports, dpc_notifications } = self;
        write!(
            f,
            "in the {:.1} s before: {calls} interrupts, of which DxgkDdiInterruptRoutine claimed {}, {dpcs} calls of DxgkDdiDpcRoutine, {reports} of DxgkCbNotifyInterrupt, \
             {dpc_notifications} of DxgkCbNotifyDpc",
            time.as_secs_f64(),
            calls.saturating_sub(*unclaimed)
        )?;
        f.write_str(match (calls, calls.saturating_sub(*unclaimed), reports, dpc_notifications) {
            (0, ..) => ": if the function has done the work, its interrupt did not arrive [pcie: MSI-X Enable and Bus Master Enable, or Interrupt Disable]",
            (_, 0, ..) => ": the interrupt routine took none for its own [dispmprt: DXGKDDI_INTERRUPT_ROUTINE]",
            (_, _, 0, _) => ": the driver told of nothing that is done [d3dkmddi: DXGKCB_NOTIFY_INTERRUPT]",
            (_, _, _, 0) => ": what the driver told is looked at when it calls DxgkCbNotifyDpc [d3dkmddi: DXGKCB_NOTIFY_DPC]",
            _ => "",
        })
    }
}

/// One recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TdrReport {
    /// Recoveries of the adapter count from 1.
    pub number: u64,
    /// When it began, by the machine's clock.
    pub time: Duration,
    /// The engine; `None` for the whole adapter.
    pub node: Option<u32>,
    /// Why.
    pub reason: TdrReason,
    /// Recovery that was performed.
    pub outcome: TdrOutcome,
    /// True if the driver said that the engine makes progress, where it was asked. [d3dkmddi: DXGK_ENGINESTATUS]
    pub responsive: Option<bool>,
    /// Code of the live dump that Windows writes: 0x141 for an engine, 0x117 for the adapter.
    pub live_dump: Option<u32>,
    /// Queues on the engine or adapter.
    pub queues: Vec<TdrQueue>,
    /// What came from the driver before it began; `None` where nobody had looked before.
    pub interrupts: Option<TdrInterrupts>,
    /// Processes that may not use the adapter any more, each with a live dump 0x142.
    pub blocked: Vec<String>,
    /// Data that DxgkDdiCollectDbgInfo or DxgkDdiCollectDbgInfo2 wrote.
    pub debug_information: Vec<u8>,
    /// The function that was to write it and what it answered instead, where it failed.
    pub collection_failed: Option<(&'static str, NTSTATUS)>,
}

impl TdrReport {
    /// Writes down what became of the queue or context of `process` that user mode knows by `handle`.
    pub(crate) fn set_fate(&mut self, process: &str, handle: D3DKMT_HANDLE, fate: TdrFate) {
        for queue in self.queues.iter_mut().filter(|queue| queue.process == process && queue.handle == handle) {
            queue.fate = fate;
        }
    }

    /// The queues with one fate.
    pub fn with(&self, fate: TdrFate) -> impl Iterator<Item = &TdrQueue> {
        self.queues.iter().filter(move |queue| queue.fate == fate)
    }

    fn list(&self, f: &mut fmt::Formatter<'_>, name: &str, fate: TdrFate) -> fmt::Result {
        for queue in self.with(fate) {
            let state = if queue.is_busy() { "busy" } else { "idle" };
            writeln!(
                f,
                "  {name:<10} {}: {} {:#x} on node {}, {state}, {} of {} done",
                queue.process, queue.kind, queue.handle, queue.node, queue.progress, queue.last_queued
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for TdrReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = self.node.map_or_else(|| "the adapter".to_owned(), |node| format!("node {node}"));
        writeln!(f, "TDR {} at {:.3} s: {scope}: {}", self.number, self.time.as_secs_f64(), self.reason)?;
        let done = match self.outcome {
            TdrOutcome::EngineReset => "the engine was reset; other engines went on",
            TdrOutcome::EngineResetFailed => "the engine could not be reset; the adapter is reset instead",
            TdrOutcome::AdapterReset => "the adapter was reset",
            TdrOutcome::NothingToReset => "the work had ended by itself; nothing was reset",
            TdrOutcome::Ignored => "TdrDebugMode ignores timeouts; nothing was done",
        };
        match self.live_dump {
            Some(code) => writeln!(f, "  {done} (live dump {code:#x})")?,
            None => writeln!(f, "  {done}")?,
        }
        self.list(f, "guilty", TdrFate::Guilty)?;
        self.list(f, "collateral", TdrFate::Collateral)?;
        self.list(f, "innocent", TdrFate::Innocent)?;
        if let Some(interrupts) = self.interrupts.filter(|_| self.reason == TdrReason::EngineTimeout) {
            writeln!(f, "  interrupts {interrupts}")?;
        }
        for process in &self.blocked {
            writeln!(f, "  blocked    {process} caused too many timeouts (live dump 0x142)")?;
        }
        write!(f, "  {} bytes of debug information from the driver", self.debug_information.len())?;
        match self.collection_failed {
            Some((ddi, status)) => write!(f, ": {ddi} answered {status}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use wddm_ddi::status::STATUS_NO_MEMORY;

    use super::*;

    #[test]
    fn a_report_reads_as_sentences() {
        let queue = |process: &str, fate, progress| TdrQueue {
            process: process.to_owned(),
            handle: 0x40,
            node: 1,
            kind: TdrKind::UserQueue,
            progress,
            last_queued: 7,
            fate,
        };
        let report = TdrReport {
            number: 3,
            time: Duration::from_millis(4500),
            node: Some(1),
            reason: TdrReason::EngineTimeout,
            outcome: TdrOutcome::EngineReset,
            responsive: None,
            live_dump: Some(0x141),
            queues: vec![queue("process 4 (a)", TdrFate::Guilty, 5), queue("process 8 (b)", TdrFate::Innocent, 7)],
            interrupts: Some(TdrInterrupts {
                time: Duration::from_secs(4),
                calls: 3,
                unclaimed: 3,
                ..TdrInterrupts::default()
            }),
            blocked: vec!["process 4 (a)".to_owned()],
            debug_information: vec![0; 64],
            collection_failed: Some(("DxgkDdiCollectDbgInfo", STATUS_NO_MEMORY)),
        };
        let text = report.to_string();
        for part in [
            "TDR 3 at 4.500 s: node 1: work made no progress and could not be preempted",
            "the engine was reset; other engines went on (live dump 0x141)",
            "guilty     process 4 (a): user-mode queue 0x40 on node 1, busy, 5 of 7 done",
            "innocent   process 8 (b): user-mode queue 0x40 on node 1, idle, 7 of 7 done",
            "interrupts in the 4.0 s before: 3 interrupts, of which DxgkDdiInterruptRoutine claimed 0, 0 calls of DxgkDdiDpcRoutine",
            "the interrupt routine took none for its own",
            "blocked    process 4 (a)",
            "64 bytes of debug information from the driver: DxgkDdiCollectDbgInfo answered STATUS_NO_MEMORY",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert_eq!(TdrReason::EngineTimeoutPromotedToAdapterReset.number(), Some(9));
    }
}
