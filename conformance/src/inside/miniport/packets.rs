//! Packet scheduling by the driver: what completes, what a preemption drops, and what it gives up half way.

use campanile_hw::event::{EventKind, FaultInfo, FaultKind};
use campanile_hw::registers::{self, Command};
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use super::rig::{Rig, VA, completed};
use super::system::{ALL, Report, reports};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.PacketsCompleteInOrder" on Boot::Shared, "gpu-preemption":
        "Packets that are handed over at a time, more than the ring takes, run in their order; a completion stands for those before it."
        => packets_complete_in_order_with_one_report_for_several;
    "Miniport.InventedCompletionsAreNotReported" on Boot::Shared, "gpu-preemption":
        "A completion of a packet that is complete, was never submitted or was submitted before a reset is not reported."
        => late_and_invented_completions_are_not_reported;
    "Miniport.RefusedPacketIsNotReported" on Boot::Shared, "tdr-changes-in-windows-8":
        "A packet whose submission is refused is never reported, and those around it complete in their order."
        holds [Tdr 29]
        => a_refused_packet_keeps_its_place_and_is_not_reported;
    "Miniport.PreemptionDropsWhatDidNotStart" on Boot::Shared, "gpu-preemption":
        "A preemption takes back every packet that did not begin and is reported, with the last completed id, when what ran has left the engine; it answers one question only, and an idle engine at once."
        => a_preemption_drops_what_did_not_start_and_follows_what_runs;
    "Miniport.ResubmissionGoesOnWhereItWasGivenUp" on Boot::Shared, "gpu-preemption":
        "A packet that was preempted within its buffer goes on at that place when it is submitted again with Resubmission, and at the beginning otherwise; the place is kept behind other packets that did not begin."
        => a_buffer_given_up_at_a_wait_goes_on_there_when_it_is_submitted_again;
    "Miniport.FaultEndsAPreemption" on Boot::Shared, "gpu-preemption":
        "A fault while a preemption is outstanding is reported before it and ends it, and what was dropped does not come back by itself."
        => a_fault_while_a_node_is_preempted_is_reported_first_and_ends_the_preemption;
    "Miniport.FaultIsReportedInOrder" on Boot::Shared, "gpu-preemption":
        "A fault of a packet is reported behind what ran before it, with its process, and what is behind it is in the ring again and runs on."
        => a_fault_is_reported_after_what_ran_before_it_and_the_rest_runs_on;
}

fn packets_complete_in_order_with_one_report_for_several(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.context(2);
    for fence in 1..=10 {
        ensure_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    for fence in 1..=3 {
        rig.system.retire(2, fence, 1);
    }
    rig.system.interrupt();
    ensure_eq!(reports(), [completed(2, 3)]);
    for fence in 4..=10 {
        rig.system.retire(2, fence, 1);
        rig.system.interrupt();
    }
    ensure_eq!(reports(), (4..=10).map(|fence| completed(2, fence)).collect::<Vec<_>>());
    Ok(())
}

fn late_and_invented_completions_are_not_reported(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.context(0);
    ensure_eq!(rig.submit(context, 7, 16), STATUS_SUCCESS);
    for (fence, epoch) in [(6, 1), (8, 1), (7, 0), (7, 2)] {
        rig.system.retire(0, fence, epoch);
        rig.system.interrupt();
    }
    ensure_eq!(reports(), []);
    rig.system.retire(0, 7, 1);
    rig.system.retire(0, 7, 1);
    rig.system.interrupt();
    ensure_eq!(reports(), [completed(0, 7)]);
    Ok(())
}

fn a_refused_packet_keeps_its_place_and_is_not_reported(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.context(1);
    ensure_eq!(rig.submit(context, 1, 16), STATUS_SUCCESS);
    ensure_eq!(rig.submit(context, 2, 17), STATUS_INVALID_PARAMETER);
    ensure_eq!(rig.submit(context, 3, 16), STATUS_SUCCESS);
    for fence in 1..=2 {
        rig.system.retire(1, fence, 1);
        rig.system.interrupt();
    }
    ensure_eq!(reports(), [completed(1, 1)]);
    rig.preempt(1, 100);
    rig.system.retire(1, 3, 1);
    rig.system.event(EventKind::Preempted, 1, 1, [100 | 1 << 32, 0]);
    rig.system.interrupt();
    ensure_eq!(reports(), [completed(1, 3), Report::Preempted { node: 1, preemption: 100, completed: 3 }]);
    Ok(())
}

/// The device says that a node's queue is preempted, with the buffer in progress given up at `offset`.
fn stopped(rig: &Rig, node: u32, preemption: u64, epoch: u64, offset: u64) {
    rig.system.event(EventKind::Preempted, node as u8, node, [preemption | epoch << 32, offset]);
    rig.system.interrupt();
}

fn a_preemption_drops_what_did_not_start_and_follows_what_runs(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.context(2);
    for fence in 1..=8 {
        ensure_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    rig.preempt(2, 50);
    ensure_eq!(rig.system.get(registers::CMP_COMMAND), Command::PreemptQueue as u64);
    ensure_eq!((rig.system.get(registers::CMP_ARG0), rig.system.get(registers::CMP_ARG1)), (2, 50 | 1 << 32));
    ensure_eq!(reports(), []);
    for fence in 1..=2 {
        rig.system.retire(2, fence, 1);
    }
    rig.system.interrupt();
    ensure_eq!(reports(), [completed(2, 2)], "the ring may still run something");
    for (preemption, epoch) in [(49, 1), (50, 0), (50, 2)] {
        stopped(&rig, 2, preemption, epoch, 0);
    }
    ensure_eq!(reports(), [], "answers to other questions");
    stopped(&rig, 2, 50, 1, 0);
    ensure_eq!(reports(), [Report::Preempted { node: 2, preemption: 50, completed: 2 }]);
    // What was dropped comes again under the same ids.
    for fence in 3..=8 {
        ensure_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
        rig.system.retire(2, fence, 1);
        rig.system.interrupt();
        ensure_eq!(reports(), [completed(2, fence)]);
    }
    rig.preempt(2, 51);
    ensure_eq!(reports(), [Report::Preempted { node: 2, preemption: 51, completed: 8 }], "an empty node at once");
    Ok(())
}

fn a_buffer_given_up_at_a_wait_goes_on_there_when_it_is_submitted_again(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let again = DXGK_SUBMITCOMMANDFLAGS::new().with_Resubmission(true);
    let (context, other) = (rig.context(0), rig.context(0));
    ensure_eq!(rig.submit(context, 1, 160), STATUS_SUCCESS);
    ensure_eq!(rig.system.entry(0, 0), (VA, 160));
    rig.preempt(0, 1);
    stopped(&rig, 0, 1, 1, 48);
    ensure_eq!(reports(), [Report::Preempted { node: 0, preemption: 1, completed: 0 }]);
    // Another context is not concerned.
    ensure_eq!(rig.submit_flagged(other, 2, 160, again), STATUS_SUCCESS);
    ensure_eq!(rig.submit_flagged(context, 3, 160, again), STATUS_SUCCESS);
    ensure_eq!((rig.system.entry(0, 1), rig.system.entry(0, 2)), ((VA, 160), (VA + 48, 112)));
    rig.system.retire(0, 2, 1);
    rig.system.interrupt();
    // Given up a second time, further on.
    rig.preempt(0, 2);
    stopped(&rig, 0, 2, 1, 16);
    ensure_eq!(reports(), [completed(0, 2), Report::Preempted { node: 0, preemption: 2, completed: 2 }]);
    ensure_eq!(rig.submit_flagged(context, 4, 160, again), STATUS_SUCCESS);
    ensure_eq!(rig.system.entry(0, 3), (VA + 64, 96));
    // A submission that is no second one starts at the beginning, and nothing is left of the first.
    rig.preempt(0, 3);
    stopped(&rig, 0, 3, 1, 16);
    ensure_eq!(rig.submit(context, 5, 160), STATUS_SUCCESS);
    ensure_eq!(rig.submit_flagged(context, 6, 160, again), STATUS_SUCCESS);
    ensure_eq!((rig.system.entry(0, 4), rig.system.entry(0, 5)), ((VA, 160), (VA, 160)));
    // Behind another that did not begin, in the ring or waiting for it, it keeps what ran.
    rig.preempt(0, 5);
    stopped(&rig, 0, 5, 1, 16);
    for fence in [7, 12] {
        for other_fence in fence..fence + 4 {
            ensure_eq!(rig.submit(other, other_fence, 16), STATUS_SUCCESS);
        }
        ensure_eq!(rig.submit_flagged(context, fence + 4, 160, again), STATUS_SUCCESS);
        rig.preempt(0, fence + 4);
        stopped(&rig, 0, u64::from(fence + 4), 1, 0);
    }
    ensure_eq!(rig.submit_flagged(context, 17, 160, again), STATUS_SUCCESS);
    ensure_eq!(rig.system.entry(0, 14), (VA + 16, 144));
    // An offset that cannot be is the device's mistake.
    rig.system.retire(0, 17, 1);
    rig.system.interrupt();
    ensure_eq!(rig.submit(context, 18, 160), STATUS_SUCCESS);
    rig.preempt(0, 40);
    stopped(&rig, 0, 40, 1, u64::MAX);
    ensure_eq!(rig.submit_flagged(context, 19, 160, again), STATUS_SUCCESS);
    ensure_eq!(rig.system.entry(0, 16), (VA, 160));
    Ok(())
}

fn a_fault_while_a_node_is_preempted_is_reported_first_and_ends_the_preemption(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.context(0);
    for fence in 1..=3 {
        ensure_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    rig.preempt(0, 9);
    let info = FaultInfo::new().with_kind(FaultKind::PageFault as u8).into_bits();
    rig.system.event(EventKind::Fault, 0, 0, [0xdead_0000, info]);
    rig.system.interrupt();
    let expected = [
        Report::Faulted { node: 0, fence: 1, address: 0xdead_0000, process: 0x9000 },
        Report::Preempted { node: 0, preemption: 9, completed: 1 },
    ];
    ensure_eq!(reports(), expected);
    for fence in 4..=5 {
        ensure_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
        rig.system.retire(0, fence, 1);
        rig.system.interrupt();
        ensure_eq!(reports(), [completed(0, fence)], "what was dropped does not come back by itself");
    }
    Ok(())
}

fn a_fault_is_reported_after_what_ran_before_it_and_the_rest_runs_on(case: &mut Case<'_>) -> Result<(), Failure> {
    let rig = Rig::new(case, ALL, 4);
    let context = rig.context(0);
    for fence in 1..=4 {
        ensure_eq!(rig.submit(context, fence, 16 * fence), STATUS_SUCCESS);
    }
    rig.system.retire(0, 1, 1);
    let info = FaultInfo::new().with_kind(FaultKind::PageFault as u8).into_bits();
    rig.system.event(EventKind::Fault, 0, 0, [0xdead_0000, info]);
    rig.system.interrupt();
    ensure_eq!(
        reports(),
        [completed(0, 1), Report::Faulted { node: 0, fence: 2, address: 0xdead_0000, process: 0x9000 }]
    );
    // The queue is mapped anew, so its ring begins with the packet behind the one that faulted.
    ensure_eq!([0, 1].map(|number| rig.system.entry(0, number)), [(VA, 48), (VA, 64)]);
    rig.system.retire(0, 3, 1);
    rig.system.interrupt();
    ensure_eq!(reports(), [completed(0, 3)]);
    Ok(())
}
