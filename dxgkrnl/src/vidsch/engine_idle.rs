//! Engines that are idle enter F1. [user-mode-work-submission: engine state transitions]

use std::sync::Arc;

use nt::lock::lock;

use crate::port::IdleEngines;

use super::objects::hardware::HwQueue;
use super::objects::worker::Work;
use super::scheduler::VidSch;

impl VidSch {
    /// An engine is idle: its doorbells are disconnected, then its power component goes from F0 to F1. The next submission
    /// connects a doorbell again, which brings F0 back. If one came meanwhile, the engine stays in F0 and says so again when
    /// it is idle again. [user-mode-work-submission: engine state transitions]
    /// False if it stays as it is.
    pub(crate) fn engine_idle(&self, node: u32) -> bool {
        let Ok(adapter) = self.adapter() else { return false };
        let queues = self.active_queues();
        for doorbell in
            queues.iter().filter(|queue| queue.context().node() == node).filter_map(|queue| queue.doorbell())
        {
            doorbell.disconnect();
        }
        adapter.power().enter_f1_if_idle(&adapter, node, || self.is_engine_idle(node))
    }

    /// The driver says that an engine is idle. A report about an engine in F1, and a repeated one about an engine whose unfinished work has not moved since
    /// the first, are logged and change nothing; a submission that came after the report is no fault of the driver.
    pub(super) fn engine_reported_idle(&self, node: u32) {
        let Ok(adapter) = self.adapter() else { return };
        let below_f0 = adapter.power().is_below_f0(node);
        self.engine_idle(node);
        let unfinished = self.trace_of_work(node);
        let before = match unfinished {
            Some(trace) => lock(&self.claims).insert(node, trace),
            None => lock(&self.claims).remove(&node),
        };
        if below_f0 {
            self.verifier.log(format!("the driver reported engine {node} to be in transition to F1, where it is"));
        } else if unfinished.is_some() && unfinished == before {
            self.verifier.log(format!(
                "the driver reported engine {node} to be in transition to F1 twice, with the same work unfinished"
            ));
        }
    }

    /// What is unfinished on a node, as a number that changes with everything that is done or submitted; `None` if nothing is.
    fn trace_of_work(&self, node: u32) -> Option<u64> {
        let mut trace = None;
        let mut add = |name: u64, value: u64| trace = Some(mix(trace.unwrap_or_default(), name, value));
        if let Some(state) = self.nodes.get(node as usize).map(|node| node.state()).filter(|state| !state.is_idle()) {
            let (flying, queued) = state.counts();
            add(0, u64::from(state.fences.last_completed()));
            add(flying as u64 + 1, queued as u64);
        }
        // The engine knows nothing of the work of processes that are suspended.
        let works =
            |queue: &HwQueue| !queue.context().device().process.space.suspension.is_suspended() && !queue.is_done();
        for queue in self.active_queues().iter().filter(|queue| queue.context().node() == node && works(queue)) {
            let key = queue.handles().0.raw().addr() as u64;
            add(key, queue.last_queued());
            add(key + 1, queue.progress().current());
        }
        trace
    }

    /// True if nothing is under way on a node and no doorbell of it can be rung. User mode announces a submission before it
    /// becomes visible to the engine, so what the engine may have found is known here.
    fn is_engine_idle(&self, node: u32) -> bool {
        let packets = self.nodes.get(node as usize).is_none_or(|node| node.state().is_idle());
        let quiet = |queue: &Arc<HwQueue>| {
            queue.context().node() != node
                || queue.is_idle() && queue.doorbell().is_none_or(|doorbell| doorbell.is_disconnected())
        };
        packets && self.active_queues().iter().all(quiet)
    }

    /// What was submitted to a node, or to all, as a number that changes with everything that is; `None` unless all of it is done.
    /// Packets that wait are not, wherever they wait. Devices in error have nothing to do any more.
    pub(crate) fn trace_of_idle(&self, node: Option<u32>) -> Option<u64> {
        let concerned = |other: u32| node.is_none_or(|node| node == other);
        let mut trace = 0_u64;
        for (number, node) in (0_u32..).zip(&self.nodes).filter(|(number, _)| concerned(*number)) {
            let state = node.state();
            if !state.is_idle() {
                return None;
            }
            trace = mix(trace, u64::from(number), u64::from(state.fences.last_completed()));
        }
        if self.packet_contexts.all().iter().any(|context| concerned(context.node()) && context.held() != 0) {
            return None;
        }
        for queue in self.active_queues().iter().filter(|queue| concerned(queue.context().node())) {
            if queue.context().device().error().is_some() {
                continue;
            }
            if !queue.is_idle() {
                return None;
            }
            trace = mix(trace, queue.handles().0.raw().addr() as u64, queue.last_queued());
        }
        Some(trace)
    }
}

/// Adds a name and a value to a sum, in whichever order they come.
fn mix(sum: u64, name: u64, value: u64) -> u64 {
    let word = (name ^ value.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    sum.wrapping_add((word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9))
}

impl IdleEngines for VidSch {
    /// The driver reported the engine idle: the worker thread decides whether it enters F1.
    fn note_idle(&self, node: u32) {
        self.worker.add(Work::EngineIdle(node));
    }
}
