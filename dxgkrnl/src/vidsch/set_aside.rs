//! What an engine says while it is being reset. [tdr-changes-in-windows-8]
//!
//! From the snapshot of its fence ids until DxgkDdiResetEngine has returned, interrupts of an engine are ignored. What they say of packets
//! and of the state of the engine the reset settles, and it is dropped. The page is older than hardware queues: what is said of those
//! outlives the reset and is said once, so it is set aside, without any effect, until the engine is heard again.

use nt::bugcheck::Bugcheck;
use nt::lock::lock;

use super::objects::pending::{Said, SetAside};
use super::report::Report;
use super::scheduler::VidSch;

impl VidSch {
    /// True while the engine of a node is being reset.
    pub(super) fn is_being_reset(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|node| node.state().is_held())
    }

    /// A report of an engine that is being reset, at device level.
    ///
    /// # Errors
    /// The bugcheck of a fault that names nobody.
    pub(super) fn set_aside(&self, node: u32, report: &Report<'_>) -> Result<(), Bugcheck> {
        let said = match report {
            Report::Completed { .. }
            | Report::Preempted { .. }
            | Report::PacketFaulted(_)
            | Report::EngineIdle { .. }
            | Report::EngineHung { .. }
            | Report::Nothing => return Ok(()),
            Report::SchedulingLog { node } => return self.note_scheduling_log(*node),
            Report::NativeFences { .. }
            | Report::NativeScan { .. }
            | Report::NativeQueue { .. }
            | Report::NativeNode { .. }
            | Report::MonitoredScan => Said::Signalled,
            Report::Suspended { context, fence } => match self.find_context(*context) {
                Some(context) => Said::Suspended(context, *fence),
                None => return Ok(()),
            },
            Report::QueueFaulted(fault) => Said::Faulted(self.queues_fault(fault)?),
        };
        let mut aside = lock(&self.aside);
        aside.retain(|other| other.node != node || !other.said.is_covered_by(&said));
        aside.push(SetAside { node, said });
        Ok(())
    }

    /// Notes what engines said that are heard again.
    pub(super) fn note_set_aside(&self) {
        let heard: Vec<SetAside> = lock(&self.aside).extract_if(.., |aside| !self.is_being_reset(aside.node)).collect();
        for aside in heard {
            let noted = match aside.said {
                Said::Signalled => {
                    // Whatever it was: every fence that somebody waits for is looked at.
                    let mut pending = lock(&self.pending);
                    (pending.scan_native, pending.scan_monitored) = (true, true);
                    Ok(())
                }
                Said::Suspended(context, fence) => self.note_suspension(&context, fence),
                Said::Faulted(faulted) => {
                    self.note_fault(faulted);
                    Ok(())
                }
            };
            if let Err(bugcheck) = noted {
                self.verifier.raise(bugcheck);
            }
        }
    }
}
