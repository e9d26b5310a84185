//! The scheduler's state as a tree, for reports of failed tests and for people.

use std::fmt;
use std::sync::atomic::Ordering;

use super::objects::fence::SyncObject;
use super::objects::hardware::HwQueue;
use super::objects::running::NodeFigures;
use super::scheduler::VidSch;
use crate::caps::AdapterCaps;

/// A software queue and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The software queue.
    pub text: String,
    /// Parts, in the order of their creation.
    pub parts: Vec<Tree>,
}

impl Tree {
    fn new(text: impl Into<String>, parts: Vec<Self>) -> Self {
        Self { text: text.into(), parts }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        writeln!(f, "{:width$}{}", "", self.text, width = 2 * depth)?;
        self.parts.iter().try_for_each(|part| part.write(f, depth + 1))
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

/// How much of everything an adapter, its driver and the machine hold at the moment: what a leak would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Contexts of either kind, the system's included.
    pub contexts: usize,
    /// Hardware queues.
    pub queues: usize,
    /// Doorbells.
    pub doorbells: usize,
    /// Fences, native and monitored.
    pub fences: usize,
    /// Allocations.
    pub allocations: usize,
    /// Mappings in the address spaces of the GPU.
    pub mappings: usize,
    /// Blocks that the driver has from pools.
    pub pool_blocks: u64,
    /// Bytes of the machine's memory that are in use.
    pub memory: u64,
}

impl VidSch {
    /// Number of the scheduler's objects, by type; other fields are 0.
    pub(crate) fn holdings(&self) -> Holdings {
        Holdings {
            contexts: self.contexts.all().len() + self.packet_contexts.all().len() + self.system_contexts.all().len(),
            queues: self.queues.all().len(),
            doorbells: self.doorbells.all().len(),
            fences: self.fences.all().len(),
            allocations: 0,
            mappings: 0,
            pool_blocks: 0,
            memory: 0,
        }
    }

    /// Preemptions that were asked for on a node, and packets handed over again after one; `None` without such a node.
    pub(crate) fn preemptions(&self, node: u32) -> Option<(u32, u64)> {
        Some(self.nodes.get(node as usize)?.state().preemptions())
    }

    /// What a node has done altogether, and of that for the paging process; `None` without such a node.
    pub(crate) fn node_figures(&self, node: u32) -> Option<(NodeFigures, NodeFigures)> {
        self.read_figures(node);
        Some(self.nodes.get(node as usize)?.state().figures().whole())
    }

    /// What a node has done for a process; `None` without such a node.
    pub(crate) fn node_figures_of(&self, node: u32, process: u64) -> Option<NodeFigures> {
        self.read_figures(node);
        Some(self.nodes.get(node as usize)?.state().figures().of_process(process))
    }

    /// Has counted what the hardware has done until now without telling: by the scheduling log of a node, and by the progress of its hardware queues.
    fn read_figures(&self, node: u32) {
        self.read_scheduling_log(node);
        for queue in self.queues.all().iter().filter(|queue| queue.context().node() == node) {
            queue.count_completed();
        }
    }

    /// What the driver answers to DxgkDdiQueryEngineStatus; `None` without such a node, or if it does not say.
    pub(crate) fn engine_responds(&self, node: u32) -> Option<bool> {
        self.nodes.get(node as usize)?;
        self.recovery().query_engine_status(node)
    }

    /// Progress, and the last queued value that user mode wrote, of each queue for user-mode submission, the progress read first.
    pub(crate) fn queued_work(&self) -> Vec<(u64, u64)> {
        let contexts = self.contexts.all();
        let queues = contexts.iter().flat_map(|context| context.queues());
        let of_user_mode = queues.filter(|queue| queue.flags().UserModeSubmission());
        of_user_mode.map(|queue| (queue.progress().current(), queue.last_queued())).collect()
    }

    /// Number of times that the scheduler has looked for the last submission of a queue. Cases compare it, because idle queues must not be looked at.
    pub(crate) fn queue_looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Nodes, contexts and fences of an adapter that has these caps.
    pub(crate) fn inspect(&self, caps: &AdapterCaps) -> Tree {
        let nodes = (0..).zip(&self.nodes).map(|(number, node)| {
            let state = node.state();
            let (flying, waiting) = state.counts();
            let (preemptions, again) = state.preemptions();
            Tree::new(
                format!(
                    "node {}: packets submitted by the system {:#x}, completed {:#x}, on the hardware {flying}, waiting {waiting}, \
                     preemptions {preemptions}, handed over again {again}",
                    caps.place(number),
                    state.fences.last_submitted(),
                    state.fences.last_completed(),
                ),
                Vec::new(),
            )
        });
        let contexts = self.contexts.all();
        let contexts = contexts.iter().map(|context| {
            let (issued, completed) = context.suspensions();
            let error = context.device().error().map_or_else(String::new, |error| format!(", device lost: {error}"));
            Tree::new(
                format!("context on node {}: suspended {completed} of {issued}{error}", caps.place(context.node())),
                context.queues().iter().map(|queue| inspect_queue(queue)).collect(),
            )
        });
        let packet_contexts = self.packet_contexts.all();
        let packet_contexts = packet_contexts.iter().map(|context| {
            let error = context.device().error().map_or_else(String::new, |error| format!(", device lost: {error}"));
            let (node, last, held) = (caps.place(context.node()), context.last_submitted(), context.held());
            Tree::new(format!("context of packets on node {node}: {last} submitted, {held} held{error}"), Vec::new())
        });
        let contexts: Vec<_> = contexts.chain(packet_contexts).collect();
        let fences = self.fences.all();
        let opened: Vec<_> =
            fences.iter().flat_map(|fence| fence.opened()).filter(|open| !open.is_of_queue()).collect();
        let fences = opened.iter().map(|open| Tree::new(describe(open), Vec::new())).collect();
        Tree::new(
            "scheduler",
            vec![Tree::new("nodes", nodes.collect()), Tree::new("contexts", contexts), Tree::new("fences", fences)],
        )
    }
}

fn inspect_queue(queue: &HwQueue) -> Tree {
    let mut parts = vec![Tree::new(describe(queue.progress()), Vec::new())];
    if let Some(doorbell) = queue.doorbell() {
        parts.push(Tree::new(format!("doorbell {:?}, status {}", doorbell.state(), doorbell.status()), Vec::new()));
    }
    let kind = if queue.flags().UserModeSubmission() { "user-mode" } else { "kernel-mode" };
    let state = if queue.is_idle() { "idle" } else { "busy" };
    let held = match queue.held.load(Ordering::Acquire) {
        0 => String::new(),
        count => format!(", {count} held"),
    };
    Tree::new(format!("{kind} queue, {state}: last queued {}{held}", queue.last_queued()), parts)
}

fn describe(fence: &SyncObject) -> String {
    let (kind, monitored) = match fence.fence().monitored() {
        u64::MAX => ("unmonitored", String::new()),
        value => ("monitored", format!(" above {value}")),
    };
    let storage = match fence.fence().is_local() {
        (false, false) => "system memory",
        (false, true) => "system and local memory",
        (true, false) => "local and system memory",
        (true, true) => "local memory",
    };
    format!(
        "fence at {:#x}: current {}, {kind}{monitored}, {} waiters, values in {storage}",
        fence.gpu_address(),
        fence.current(),
        fence.fence().waiters()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_prints_its_parts_indented() {
        let tree = Tree::new("a", vec![Tree::new("b", vec![Tree::new("c", Vec::new())]), Tree::new("d", Vec::new())]);
        assert_eq!(tree.to_string(), "a\n  b\n    c\n  d\n");
    }
}
