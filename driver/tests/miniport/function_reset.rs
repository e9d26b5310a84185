//! A function that was reset behind the driver, with its addresses as before: it is not waited for, and not taken for one that is gone.

use campanile_hw::event::{EventKind, FaultInfo, FaultKind};
use campanile_hw::registers::{self, CommandStatus, Control};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use crate::rig::{Rig, completed};
use crate::system::{ALL, Report, ddi, reports};

/// What commands answer from now on, and what is read of run control.
fn answers(rig: &mut Rig, status: u32, control: Control) {
    rig.system.set(registers::CMP_COMMAND, u64::from(status) << 32);
    rig.system.set(registers::CONTROL, u64::from(control.into_bits()));
}

/// The function is reset: it runs no more.
fn reset_beneath(rig: &mut Rig) {
    answers(rig, CommandStatus::NotRunning as u32, Control::new());
}

fn responds(rig: &Rig) -> bool {
    let mut args = DXGKARG_QUERYENGINESTATUS::zeroed();
    assert_eq!(ddi!(rig.system, DxgkDdiQueryEngineStatus, rig.system.adapter, &raw mut args), STATUS_SUCCESS);
    args.EngineStatus.Responsive()
}

#[test]
fn a_context_on_a_function_that_was_reset_does_not_leave_its_engine_which_cannot_be_reset() {
    let mut rig = Rig::new(ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    let (_, doorbell) = rig.user_queue(context, 1);
    assert_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
    assert!(responds(&rig));
    reset_beneath(&mut rig);
    assert_eq!(rig.suspend(context, 11), STATUS_PENDING);
    rig.system.run_dpc();
    rig.system.interrupt();
    assert_eq!(reports(), [], "it was lost, and has not left");
    assert!(!responds(&rig));
    let mut packets = DXGKARG_RESETENGINE::zeroed();
    let status = ddi!(rig.system, DxgkDdiResetEngine, rig.system.adapter, &raw mut packets);
    assert_eq!(status, STATUS_UNSUCCESSFUL);
    let mut queues = DXGKARG_RESETHWENGINE::zeroed();
    let status = ddi!(rig.system, DxgkDdiResetHwEngine, rig.system.adapter, &raw mut queues);
    assert_eq!(status, STATUS_UNSUCCESSFUL);
    assert_eq!(ddi!(rig.system, DxgkDdiResetFromTimeout, rig.system.adapter), STATUS_SUCCESS);
    answers(&mut rig, CommandStatus::Done as u32, Control::new());
    assert_eq!(ddi!(rig.system, DxgkDdiRestartFromTimeout, rig.system.adapter), STATUS_SUCCESS);
    assert!(responds(&rig));
    assert_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
    let other = rig.hw_context(0x4100, 0);
    rig.user_queue(other, 2);
    assert_eq!(rig.suspend(other, 12), STATUS_PENDING);
    rig.system.remove();
}

#[test]
fn a_context_on_a_function_that_is_gone_has_left_its_engine() {
    let mut rig = Rig::new(ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    rig.user_queue(context, 1);
    answers(&mut rig, u32::MAX, Control::from_bits(u32::MAX));
    assert_eq!(rig.suspend(context, 11), STATUS_PENDING);
    assert_eq!(reports(), [Report::Suspended { context: 0x4000, fence: 11 }]);
    rig.system.remove();
}

#[test]
fn packets_on_a_function_that_was_reset_are_not_preempted() {
    for fault in [false, true] {
        let mut rig = Rig::new(ALL, 4);
        let context = rig.context(1);
        rig.preempt(1, 99);
        assert_eq!(reports(), [Report::Preempted { node: 1, preemption: 99, completed: 0 }]);
        for fence in 1..=6 {
            assert_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
        }
        rig.system.retire(1, 1, 1);
        rig.system.interrupt();
        assert_eq!(reports(), [completed(1, 1)]);
        if fault {
            let info = FaultInfo::new().with_kind(FaultKind::Reset as u8).into_bits();
            rig.system.event(EventKind::Fault, 1, 1, [0, info]);
        }
        reset_beneath(&mut rig);
        rig.system.interrupt();
        reports();
        rig.preempt(1, 100);
        rig.system.interrupt();
        let made = reports();
        assert!(!made.iter().any(|report| matches!(report, Report::Preempted { .. })), "{fault}: {made:?}");
        rig.preempt(0, 101);
        let made = reports();
        assert_eq!(made, [Report::Preempted { node: 0, preemption: 101, completed: 0 }], "one without packets");
        rig.system.remove();
    }
}
