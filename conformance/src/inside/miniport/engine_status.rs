//! Answers of DxgkDdiQueryEngineStatus about the progress of a node.

use campanile_hw::event::EventKind;
use campanile_hw::registers::{self, Control};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use super::rig::Rig;
use super::system::{ALL, ddi};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.BusyEngineRespondsWhileItsWorkGoesOn" on Boot::Shared, "tdr-changes-in-windows-8":
        "DxgkDdiQueryEngineStatus says responsive of an idle engine, and of a busy one if its work went on since the last question."
        holds [Tdr 8]
        => a_busy_node_responds_as_long_as_its_work_goes_on;
    "Miniport.ProgressCountsFromTheRequest" on Boot::Shared, "tdr-changes-in-windows-8":
        "After a preemption or suspension was asked for, an engine is responsive if its work went on since then."
        holds [Tdr 8]
        => progress_counts_from_the_preemption_or_suspension_that_was_asked_for;
    "Miniport.EngineThatOwesAPreemptionDoesNotRespond" on Boot::Shared, "tdr-changes-in-windows-8":
        "An engine whose packet waits for a fence is responsive, and is not while a preemption, or the suspension of a queue of its own, is outstanding."
        holds [Tdr 8]
        => a_node_that_owes_a_preemption_does_not_respond;
}

const NODE: u32 = 1;

/// What the registers say of nodes with work, and of the work that NODE has done.
fn shows(rig: &mut Rig, busy: u64, progress: u64) {
    // NODE_BUSY is the upper half of the word at CONTROL.
    rig.system.set(registers::CONTROL, busy << 32 | u64::from(Control::new().with_run(true).into_bits()));
    rig.system.set(registers::NODE_PROGRESS[NODE as usize], progress);
}

fn responds(rig: &Rig) -> bool {
    let mut args = DXGKARG_QUERYENGINESTATUS::zeroed();
    args.NodeOrdinal = NODE;
    assert_eq!(ddi!(rig.system, DxgkDdiQueryEngineStatus, rig.system.adapter, &raw mut args), STATUS_SUCCESS);
    args.EngineStatus.Responsive()
}

fn a_busy_node_responds_as_long_as_its_work_goes_on(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    shows(&mut rig, 0, 5);
    ensure!(responds(&rig) && responds(&rig), "an idle node");
    shows(&mut rig, 1 << NODE, 5);
    ensure!(responds(&rig), "its work came since the last look");
    ensure!(!responds(&rig), "nothing was done since the last look");
    shows(&mut rig, 1 << NODE, 6);
    ensure!(responds(&rig));
    ensure!(!responds(&rig));
    shows(&mut rig, 1 << (NODE - 1), 6);
    ensure!(responds(&rig) && responds(&rig), "the busy node is another");
    Ok(())
}

fn progress_counts_from_the_preemption_or_suspension_that_was_asked_for(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let packets = rig.context(NODE);
    ensure_eq!(rig.submit(packets, 1, 16), STATUS_SUCCESS);
    shows(&mut rig, 1 << NODE, 7);
    rig.preempt(NODE, 100);
    ensure!(!responds(&rig), "nothing was done since the preemption");
    shows(&mut rig, 1 << NODE, 8);
    let context = rig.hw_context(0x4000, NODE);
    ensure_eq!(rig.suspend(context, 11), STATUS_PENDING);
    ensure!(!responds(&rig), "nothing was done since the suspension");
    shows(&mut rig, 1 << NODE, 9);
    ensure!(responds(&rig));
    Ok(())
}

fn a_node_that_owes_a_preemption_does_not_respond(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let packets = rig.context(NODE);
    ensure_eq!(rig.submit(packets, 1, 16), STATUS_SUCCESS);
    // The packet waits for a fence: that is no work.
    shows(&mut rig, 0, 7);
    ensure!(responds(&rig) && responds(&rig));
    let [own, other] = [NODE, NODE - 1].map(|node| rig.hw_context(0x4000 + node as usize, node));
    rig.user_queue(own, 1);
    rig.user_queue(other, 2);
    ensure_eq!(rig.suspend(other, 10), STATUS_PENDING);
    ensure!(responds(&rig), "a queue of another node was suspended");
    ensure_eq!(rig.suspend(own, 11), STATUS_PENDING);
    ensure!(!responds(&rig), "a queue has not answered its suspension");
    rig.system.event(EventKind::Suspended, NODE as u8, 3, [1, 0]);
    rig.system.interrupt();
    ensure!(responds(&rig), "it has answered");
    rig.preempt(NODE, 100);
    ensure!(!responds(&rig));
    Ok(())
}
