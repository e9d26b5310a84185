//! Contexts that the system itself puts on a node and takes off it.

use campanile_hw::event::EventKind;
use campanile_hw::queue::QueueFlags;
use campanile_hw::registers::{self, Command};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::HANDLE;

use super::rig::Rig;
use super::system::*;
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.ListOfContextsIsWhatTheNodeRuns" on Boot::Shared, "dxgkddi_switchtohwcontextlist":
        "After DxgkDdiSwitchToHwContextList the contexts that it names may run and no other of the node; those of other nodes are left alone. A list with a context of another node, or for a node that there is not, is refused and changes nothing."
        => a_node_runs_the_contexts_of_the_list_and_no_other;
    "Miniport.SwitchIsReportedWhereItIsAskedFor" on Boot::Shared, "dxgkddi_updatehwcontextstate":
        "DxgkDdiUpdateHwContextState takes a context off its node or lets it run, and reports the end of the switch with its fence if InterruptOnSwitchCompletion asks for it: each time, and after every queue has stopped."
        => a_switch_is_reported_where_it_is_asked_for_and_only_there;
}

/// The contexts of a node, or of two, each with a queue that the hardware has.
struct Contexts {
    rig: Rig,
    contexts: Vec<HANDLE>,
    /// Handle of the system for the next queue.
    next: usize,
}

impl Contexts {
    fn new(case: &Case<'_>, nodes: &[u32]) -> Self {
        let rig = Rig::new(case, ALL, 4);
        rig.fence(0xf1, 0x8000);
        let contexts = (0x4000..).zip(nodes).map(|(dxgk, node)| rig.hw_context(dxgk, *node)).collect();
        let mut new = Self { rig, contexts, next: 0x6000 };
        for context in 0..nodes.len() {
            new.queue(context);
        }
        new
    }

    /// Another queue of a context: the number by which the hardware knows it.
    fn queue(&mut self, context: usize) -> u32 {
        self.next += 1;
        let (status, _) = self.rig.hw_queue(self.contexts[context], self.next, 0x8000, false);
        assert_eq!(status, STATUS_SUCCESS);
        self.rig.system.get(registers::CMP_ARG0) as u32
    }

    /// True for each context that runs; a queue that another one is given now begins suspended.
    fn run(&mut self) -> Vec<bool> {
        let runs = |new: &mut Self, context| {
            let number = new.queue(context);
            !QueueFlags::from_bits(new.rig.descriptor(number).flags).suspended()
        };
        (0..self.contexts.len()).map(|context| runs(self, context)).collect()
    }

    /// The last command, with its first two arguments.
    fn told(&self) -> [u64; 3] {
        [registers::CMP_COMMAND, registers::CMP_ARG0, registers::CMP_ARG1].map(|at| self.rig.system.get(at))
    }

    fn switch(&self, node: u32, [first, second]: [Option<usize>; 2]) -> NTSTATUS {
        let handle = |context: Option<usize>| context.map_or(std::ptr::null_mut(), |context| self.contexts[context]);
        let mut args = DXGKARG_SWITCHTOHWCONTEXTLIST::zeroed();
        (args.hHwContextFirst, args.hHwContextSecond, args.NodeOrdinal) = (handle(first), handle(second), node);
        ddi!(self.rig.system, DxgkDdiSwitchToHwContextList, self.rig.system.adapter, &raw const args)
    }

    fn update(&self, suspended: bool, interrupt: bool, fence: u64) {
        let mut args = DXGKARG_UPDATEHWCONTEXTSTATE::zeroed();
        (args.hHwContext, args.ContextSwitchFence) = (self.contexts[0], fence);
        args.Flags.set_Suspended(suspended);
        args.Flags.set_InterruptOnSwitchCompletion(interrupt);
        let status = ddi!(self.rig.system, DxgkDdiUpdateHwContextState, self.rig.system.adapter, &raw const args);
        assert_eq!(status, STATUS_SUCCESS);
    }
}

fn a_node_runs_the_contexts_of_the_list_and_no_other(case: &mut Case<'_>) -> Result<(), Failure> {
    const SUSPEND: u64 = Command::SuspendQueue as u64;
    const RESUME: u64 = Command::ResumeQueue as u64;
    // Three contexts of one node, whose first queues are 3 to 5, and one of another.
    for (named, runs, last) in [
        ([Some(1), None], [false, true, false, true], [SUSPEND, 5]),
        ([None, Some(2)], [false, false, true, true], [RESUME, 5]),
        ([Some(0), Some(2)], [true, false, true, true], [RESUME, 5]),
        ([Some(1), Some(0)], [true, true, false, true], [SUSPEND, 5]),
        ([None, None], [false, false, false, true], [SUSPEND, 5]),
    ] {
        let mut contexts = Contexts::new(case, &[0, 0, 0, 1]);
        ensure_eq!(contexts.switch(0, named), STATUS_SUCCESS);
        ensure_eq!(contexts.told()[..2], last, "the last command, {named:?} are named");
        for (node, list) in [(1, named), (0, [named[0], Some(3)]), (0, [Some(3), named[1]]), (9, [None, None])] {
            // A list without a name is for any node that there is.
            if list != [None, None] || node == 9 {
                ensure_eq!(contexts.switch(node, list), STATUS_INVALID_PARAMETER, "{list:?} for node {node}");
            }
        }
        ensure_eq!(contexts.run(), runs, "contexts that run, {named:?} are named");
        // Contexts that were stopped run again when a list names them.
        ensure_eq!(contexts.switch(0, [Some(0), Some(1)]), STATUS_SUCCESS);
        ensure_eq!(contexts.run(), [true, true, false, true], "contexts that run at the end");
    }
    Ok(())
}

fn a_switch_is_reported_where_it_is_asked_for_and_only_there(case: &mut Case<'_>) -> Result<(), Failure> {
    const QUEUE: u32 = 3;
    let mut contexts = Contexts::new(case, &[0]);
    let switched = |fence| vec![Report::Switched { node: 0, fence }];
    let suspend = Command::SuspendQueue as u64;
    // Whether it is suspended and the report is asked for, and the cookie of the suspension, of which the queue's answer is reported.
    for (fence, (suspended, interrupt, cookie)) in
        (11..).zip([(true, true, 1), (true, true, 2), (true, false, 0), (false, true, 0), (false, false, 0)])
    {
        contexts.update(suspended, interrupt, fence);
        let told =
            if suspended { [suspend, QUEUE.into(), cookie] } else { [Command::ResumeQueue as u64, QUEUE.into(), 0] };
        ensure_eq!(contexts.told(), told, "the command for fence {fence}");
        if suspended {
            ensure_eq!(reports(), [], "fence {fence}, before the queue has stopped");
            contexts.rig.system.event(EventKind::Suspended, 0, QUEUE, [cookie, 0]);
            contexts.rig.system.interrupt();
        }
        contexts.rig.system.run_dpc();
        let expected = if interrupt { switched(fence) } else { vec![] };
        ensure_eq!(reports(), expected, "reports of fence {fence}");
    }
    ensure_eq!(contexts.run(), [true]);
    contexts.update(true, false, 20);
    ensure_eq!(contexts.run(), [false]);
    Ok(())
}
