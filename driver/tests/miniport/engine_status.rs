//! What the driver says of a node's progress.

use campanile_hw::registers::{self, Control};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::rig::Rig;
use crate::system::{ALL, ddi};

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

#[test]
fn a_busy_node_responds_as_long_as_its_work_goes_on() {
    let mut rig = Rig::new(ALL, 4);
    shows(&mut rig, 0, 5);
    assert!(responds(&rig) && responds(&rig), "an idle node");
    shows(&mut rig, 1 << NODE, 5);
    assert!(responds(&rig), "its work came since the last look");
    assert!(!responds(&rig), "nothing was done since the last look");
    shows(&mut rig, 1 << NODE, 6);
    assert!(responds(&rig));
    assert!(!responds(&rig));
    shows(&mut rig, 1 << (NODE - 1), 6);
    assert!(responds(&rig) && responds(&rig), "the busy node is another");
}

#[test]
fn progress_counts_from_the_preemption_or_suspension_that_was_asked_for() {
    let mut rig = Rig::new(ALL, 4);
    let packets = rig.context(NODE);
    assert_eq!(rig.submit(packets, 1, 16), STATUS_SUCCESS);
    shows(&mut rig, 1 << NODE, 7);
    rig.preempt(NODE, 100);
    assert!(!responds(&rig), "nothing was done since the preemption");
    shows(&mut rig, 1 << NODE, 8);
    let context = rig.hw_context(0x4000, NODE);
    assert_eq!(rig.suspend(context, 11), STATUS_PENDING);
    assert!(!responds(&rig), "nothing was done since the suspension");
    shows(&mut rig, 1 << NODE, 9);
    assert!(responds(&rig));
}

#[test]
fn a_node_that_owes_a_preemption_does_not_respond() {
    let mut rig = Rig::new(ALL, 4);
    let packets = rig.context(NODE);
    assert_eq!(rig.submit(packets, 1, 16), STATUS_SUCCESS);
    // The packet waits for a fence: that is no work.
    shows(&mut rig, 0, 7);
    assert!(responds(&rig) && responds(&rig));
    rig.preempt(NODE, 100);
    assert!(!responds(&rig));
}
