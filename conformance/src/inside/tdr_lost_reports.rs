//! Reports about contexts that leave their engine, and are lost on the way.

use std::time::Duration;

use campanile_device::FaultRule;
use campanile_hw::registers::NODE_COMPUTE;
use dxgkrnl::{Rescue, TdrSettings};

use super::hang::{ACTIVE, Guest, by_hand, reports, state, works};
use crate::rig::wait_until;
use crate::simulated::Case;
use crate::{Boot, Failure, granted};

cases! { inside "TDR", needs UserModeSubmission, behind "it loses interrupts of the GPU, moves the clock on, and reads the reports of resets";
    "Tdr.LostSuspensionReportCostsNobody" on Boot::With(by_hand), "tdr-changes-in-windows-8":
        "A context that is to leave its engine, because its process is terminated, leaves it, and the report of that is lost: the driver is asked again before the engine counts as hung, and says that the context is off it. No engine is reset, and the lost report is counted. That it is asked again is this system's rule."
        holds [Tdr 18]
        => lost_suspension;
}

fn lost_suspension(case: &mut Case<'_>) -> Result<(), Failure> {
    let beside = case.rig()?;
    let (gate, mut waiting) = (beside.fence(0)?, beside.queue(NODE_COMPUTE)?);
    let guest = Guest::new(case.system, "ending")?;
    guest.inside(|rig| {
        let (never, mut queue) = (rig.fence(0)?, rig.queue(NODE_COMPUTE)?);
        rig.execute(&mut queue, &[])?;
        rig.submit(&mut queue, &[never.wait(1)])
    })?;
    beside.execute(&mut waiting, &[])?;
    let value = beside.submit(&mut waiting, &[gate.wait(1)])?;
    let machine = case.system.machine();
    let began = machine.clock().now();
    let lost = case.system.gpu().faults().inject_times(FaultRule::LostInterrupt, u64::MAX);
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| guest.process.terminate());
        while !ending.is_finished() {
            // Time goes on only to the moments that somebody waits for.
            if let Some(next) = machine.clock().next_deadline() {
                machine.advance(next.saturating_sub(machine.clock().now()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let (fired, took) = (case.system.gpu().faults().fired(lost), machine.clock().now() - began);
    case.system.gpu().faults().remove(lost);
    ensure!(fired != 0 && took == TdrSettings::default().delay, "{fired} interrupts lost, {took:?} waited");
    ensure_eq!((reports(case.system).len(), state(&beside)?), (0, ACTIVE), "recoveries and the device beside it");
    ensure_eq!(machine.take_rescues(), [(Rescue::UnreportedSuspension, 1)], "what was made good");
    granted(beside.signal(&[gate.handle], &[1]), "the signal")?;
    wait_until("the work beside it", || waiting.progress.load() == value)?;
    works(&case.rig()?)
}
