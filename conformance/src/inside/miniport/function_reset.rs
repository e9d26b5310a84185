//! A function that was reset behind the driver, with its addresses as before: it is not waited for, and not taken for one that is gone.

use campanile_hw::event::{EventKind, FaultInfo, FaultKind};
use campanile_hw::registers::{self, CommandStatus, Control};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::status::*;

use super::rig::{Rig, completed};
use super::system::{ALL, Report, ddi, reports};
use crate::simulated::Case;
use crate::{Boot, Failure};

cases! { inside "Miniport", behind "it calls the entry points of the driver itself";
    "Miniport.ContextStaysOnAFunctionThatWasReset" on Boot::Shared, "tdr-changes-in-windows-8":
        "A context on a function that was reset behind the driver does not leave its engine, which does not respond and cannot be reset; after the reset of the adapter engine, doorbells and new contexts work."
        holds [Tdr 42]
        => a_context_on_a_function_that_was_reset_does_not_leave_its_engine_which_cannot_be_reset;
    "Miniport.ContextHasLeftAFunctionThatIsGone" on Boot::Shared, "tdr-changes-in-windows-8":
        "A context on a function that is gone from the bus has left its engine, and its suspension is reported."
        holds [Tdr 42]
        => a_context_on_a_function_that_is_gone_has_left_its_engine;
    "Miniport.PacketsOnALostFunctionAreNotPreempted" on Boot::Shared, "tdr-changes-in-windows-8":
        "No preemption of packets on a function that was reset behind the driver is reported; of an engine without packets it is."
        holds [Tdr 42]
        => packets_on_a_function_that_was_reset_are_not_preempted;
}

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

fn a_context_on_a_function_that_was_reset_does_not_leave_its_engine_which_cannot_be_reset(
    case: &mut Case<'_>,
) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    let (_, doorbell) = rig.user_queue(context, 1);
    ensure_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
    ensure!(responds(&rig));
    reset_beneath(&mut rig);
    ensure_eq!(rig.suspend(context, 11), STATUS_PENDING);
    rig.system.run_dpc();
    rig.system.interrupt();
    ensure_eq!(reports(), [], "it was lost, and has not left");
    ensure!(!responds(&rig));
    let mut packets = DXGKARG_RESETENGINE::zeroed();
    let status = ddi!(rig.system, DxgkDdiResetEngine, rig.system.adapter, &raw mut packets);
    ensure_eq!(status, STATUS_UNSUCCESSFUL);
    let mut queues = DXGKARG_RESETHWENGINE::zeroed();
    let status = ddi!(rig.system, DxgkDdiResetHwEngine, rig.system.adapter, &raw mut queues);
    ensure_eq!(status, STATUS_UNSUCCESSFUL);
    ensure_eq!(ddi!(rig.system, DxgkDdiResetFromTimeout, rig.system.adapter), STATUS_SUCCESS);
    answers(&mut rig, CommandStatus::Done as u32, Control::new());
    ensure_eq!(ddi!(rig.system, DxgkDdiRestartFromTimeout, rig.system.adapter), STATUS_SUCCESS);
    ensure!(responds(&rig));
    ensure_eq!(rig.connect(doorbell).0, STATUS_SUCCESS);
    let other = rig.hw_context(0x4100, 0);
    rig.user_queue(other, 2);
    ensure_eq!(rig.suspend(other, 12), STATUS_PENDING);
    rig.system.remove();
    Ok(())
}

fn a_context_on_a_function_that_is_gone_has_left_its_engine(case: &mut Case<'_>) -> Result<(), Failure> {
    let mut rig = Rig::new(case, ALL, 4);
    let context = rig.hw_context(0x4000, 0);
    rig.user_queue(context, 1);
    answers(&mut rig, u32::MAX, Control::from_bits(u32::MAX));
    ensure_eq!(rig.suspend(context, 11), STATUS_PENDING);
    ensure_eq!(reports(), [Report::Suspended { context: 0x4000, fence: 11 }]);
    rig.system.remove();
    Ok(())
}

fn packets_on_a_function_that_was_reset_are_not_preempted(case: &mut Case<'_>) -> Result<(), Failure> {
    for fault in [false, true] {
        let mut rig = Rig::new(case, ALL, 4);
        let context = rig.context(1);
        rig.preempt(1, 99);
        ensure_eq!(reports(), [Report::Preempted { node: 1, preemption: 99, completed: 0 }]);
        for fence in 1..=6 {
            ensure_eq!(rig.submit(context, fence, 16), STATUS_SUCCESS);
        }
        rig.system.retire(1, 1, 1);
        rig.system.interrupt();
        ensure_eq!(reports(), [completed(1, 1)]);
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
        ensure!(!made.iter().any(|report| matches!(report, Report::Preempted { .. })), "{fault}: {made:?}");
        rig.preempt(0, 101);
        let made = reports();
        ensure_eq!(made, [Report::Preempted { node: 0, preemption: 101, completed: 0 }], "one without packets");
        rig.system.remove();
    }
    Ok(())
}
