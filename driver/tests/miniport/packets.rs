//! Packet scheduling by the driver: what completes, what a preemption drops, and what it gives up half way.

use campanile_hw::event::{EventKind, FaultInfo, FaultKind};
use campanile_hw::registers::{self, Command};
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::rig::{Rig, VA, completed};
use crate::system::{ALL, Report, reports};

#[test]
fn packets_complete_in_order_with_one_report_for_several() {
    let rig = Rig::new(ALL, 4);
    let context = rig.context(2);
    for fence in 1..=10 {
        assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    for fence in 1..=3 {
        rig.system.retire(2, fence, 1);
    }
    rig.system.interrupt();
    assert_eq!(reports(), [completed(2, 3)]);
    for fence in 4..=10 {
        rig.system.retire(2, fence, 1);
        rig.system.interrupt();
    }
    assert_eq!(reports(), (4..=10).map(|fence| completed(2, fence)).collect::<Vec<_>>());
}

#[test]
fn late_and_invented_completions_are_not_reported() {
    let rig = Rig::new(ALL, 4);
    let context = rig.context(0);
    assert_eq!(rig.submit(context, 7, 16), STATUS_SUCCESS);
    for (fence, epoch) in [(6, 1), (8, 1), (7, 0), (7, 2)] {
        rig.system.retire(0, fence, epoch);
        rig.system.interrupt();
    }
    assert_eq!(reports(), []);
    rig.system.retire(0, 7, 1);
    rig.system.retire(0, 7, 1);
    rig.system.interrupt();
    assert_eq!(reports(), [completed(0, 7)]);
}

#[test]
fn a_refused_packet_keeps_its_place_and_is_not_reported() {
    let rig = Rig::new(ALL, 4);
    let context = rig.context(1);
    assert_eq!(rig.submit(context, 1, 16), STATUS_SUCCESS);
    assert_eq!(rig.submit(context, 2, 17), STATUS_INVALID_PARAMETER);
    assert_eq!(rig.submit(context, 3, 16), STATUS_SUCCESS);
    for fence in 1..=2 {
        rig.system.retire(1, fence, 1);
        rig.system.interrupt();
    }
    assert_eq!(reports(), [completed(1, 1)]);
    rig.preempt(1, 100);
    rig.system.retire(1, 3, 1);
    rig.system.event(EventKind::Preempted, 1, 1, [100 | 1 << 32, 0]);
    rig.system.interrupt();
    assert_eq!(reports(), [completed(1, 3), Report::Preempted { node: 1, preemption: 100, completed: 3 }]);
}

/// The device says that a node's queue is preempted, with the buffer in progress given up at `offset`.
fn stopped(rig: &Rig, node: u32, preemption: u64, epoch: u64, offset: u64) {
    rig.system.event(EventKind::Preempted, node as u8, node, [preemption | epoch << 32, offset]);
    rig.system.interrupt();
}

#[test]
fn a_preemption_drops_what_did_not_start_and_follows_what_runs() {
    let rig = Rig::new(ALL, 4);
    let context = rig.context(2);
    for fence in 1..=8 {
        assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    rig.preempt(2, 50);
    assert_eq!(rig.system.get(registers::CMP_COMMAND), Command::PreemptQueue as u64);
    assert_eq!((rig.system.get(registers::CMP_ARG0), rig.system.get(registers::CMP_ARG1)), (2, 50 | 1 << 32));
    assert_eq!(reports(), []);
    for fence in 1..=2 {
        rig.system.retire(2, fence, 1);
    }
    rig.system.interrupt();
    assert_eq!(reports(), [completed(2, 2)], "the ring may still run something");
    for (preemption, epoch) in [(49, 1), (50, 0), (50, 2)] {
        stopped(&rig, 2, preemption, epoch, 0);
    }
    assert_eq!(reports(), [], "answers to other questions");
    stopped(&rig, 2, 50, 1, 0);
    assert_eq!(reports(), [Report::Preempted { node: 2, preemption: 50, completed: 2 }]);
    // What was dropped comes again under the same ids.
    for fence in 3..=8 {
        assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
        rig.system.retire(2, fence, 1);
        rig.system.interrupt();
        assert_eq!(reports(), [completed(2, fence)]);
    }
    rig.preempt(2, 51);
    assert_eq!(reports(), [Report::Preempted { node: 2, preemption: 51, completed: 8 }], "an empty node at once");
}

#[test]
fn a_buffer_given_up_at_a_wait_goes_on_there_when_it_is_submitted_again() {
    let rig = Rig::new(ALL, 4);
    let again = DXGK_SUBMITCOMMANDFLAGS::new().with_Resubmission(true);
    let (context, other) = (rig.context(0), rig.context(0));
    assert_eq!(rig.submit(context, 1, 160), STATUS_SUCCESS);
    assert_eq!(rig.system.entry(0, 0), (VA, 160));
    rig.preempt(0, 1);
    stopped(&rig, 0, 1, 1, 48);
    assert_eq!(reports(), [Report::Preempted { node: 0, preemption: 1, completed: 0 }]);
    // Another context is not concerned.
    assert_eq!(rig.submit_flagged(other, 2, 160, again), STATUS_SUCCESS);
    assert_eq!(rig.submit_flagged(context, 3, 160, again), STATUS_SUCCESS);
    assert_eq!((rig.system.entry(0, 1), rig.system.entry(0, 2)), ((VA, 160), (VA + 48, 112)));
    rig.system.retire(0, 2, 1);
    rig.system.interrupt();
    // Given up a second time, further on.
    rig.preempt(0, 2);
    stopped(&rig, 0, 2, 1, 16);
    assert_eq!(reports(), [completed(0, 2), Report::Preempted { node: 0, preemption: 2, completed: 2 }]);
    assert_eq!(rig.submit_flagged(context, 4, 160, again), STATUS_SUCCESS);
    assert_eq!(rig.system.entry(0, 3), (VA + 64, 96));
    // A submission that is no second one starts at the beginning, and nothing is left of the first.
    rig.preempt(0, 3);
    stopped(&rig, 0, 3, 1, 16);
    assert_eq!(rig.submit(context, 5, 160), STATUS_SUCCESS);
    assert_eq!(rig.submit_flagged(context, 6, 160, again), STATUS_SUCCESS);
    assert_eq!((rig.system.entry(0, 4), rig.system.entry(0, 5)), ((VA, 160), (VA, 160)));
    // Behind another that did not begin, in the ring or waiting for it, it keeps what ran.
    rig.preempt(0, 5);
    stopped(&rig, 0, 5, 1, 16);
    for fence in [7, 12] {
        for other_fence in fence..fence + 4 {
            assert_eq!(rig.submit(other, other_fence, 16), STATUS_SUCCESS);
        }
        assert_eq!(rig.submit_flagged(context, fence + 4, 160, again), STATUS_SUCCESS);
        rig.preempt(0, fence + 4);
        stopped(&rig, 0, u64::from(fence + 4), 1, 0);
    }
    assert_eq!(rig.submit_flagged(context, 17, 160, again), STATUS_SUCCESS);
    assert_eq!(rig.system.entry(0, 14), (VA + 16, 144));
    // An offset that cannot be is the device's mistake.
    rig.system.retire(0, 17, 1);
    rig.system.interrupt();
    assert_eq!(rig.submit(context, 18, 160), STATUS_SUCCESS);
    rig.preempt(0, 40);
    stopped(&rig, 0, 40, 1, u64::MAX);
    assert_eq!(rig.submit_flagged(context, 19, 160, again), STATUS_SUCCESS);
    assert_eq!(rig.system.entry(0, 16), (VA, 160));
}

#[test]
fn a_fault_while_a_node_is_preempted_is_reported_first_and_ends_the_preemption() {
    let rig = Rig::new(ALL, 4);
    let context = rig.context(0);
    for fence in 1..=3 {
        assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    rig.preempt(0, 9);
    let info = FaultInfo::new().with_kind(FaultKind::PageFault as u8).into_bits();
    rig.system.event(EventKind::Fault, 0, 0, [0xdead_0000, info]);
    rig.system.interrupt();
    let expected = [
        Report::Faulted { node: 0, fence: 1, address: 0xdead_0000 },
        Report::Preempted { node: 0, preemption: 9, completed: 1 },
    ];
    assert_eq!(reports(), expected);
    for fence in 4..=5 {
        assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
        rig.system.retire(0, fence, 1);
        rig.system.interrupt();
        assert_eq!(reports(), [completed(0, fence)], "what was dropped does not come back by itself");
    }
}

#[test]
fn a_fault_is_reported_after_what_ran_before_it_and_the_rest_runs_on() {
    let rig = Rig::new(ALL, 4);
    let context = rig.context(0);
    for fence in 1..=3 {
        assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
    }
    rig.system.retire(0, 1, 1);
    let info = FaultInfo::new().with_kind(FaultKind::PageFault as u8).into_bits();
    rig.system.event(EventKind::Fault, 0, 0, [0xdead_0000, info]);
    rig.system.interrupt();
    assert_eq!(reports(), [completed(0, 1), Report::Faulted { node: 0, fence: 2, address: 0xdead_0000 }]);
    rig.system.retire(0, 3, 1);
    rig.system.interrupt();
    assert_eq!(reports(), [completed(0, 3)]);
}
