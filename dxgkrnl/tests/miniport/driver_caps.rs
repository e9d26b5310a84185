//! Capabilities of a driver that depend on each other, and on the function that it drives. [d3dkmddi: DXGK_DRIVERCAPS, DXGK_VIDSCHCAPS]

use crate::minimal::{Bench, Mutant, SOUND, table};
use dxgkrnl::StartError;

/// The driver of an adapter that renders and is not compute-only.
const RENDERS: Mutant =
    Mutant { caps: |caps| caps.MiscCaps.set_ComputeOnly(false), table: table::fill_for_displays, ..SOUND };

/// Starts an adapter of a driver that has a user-mode driver, and removes it again.
fn start(mutant: Mutant) -> Result<(), StartError> {
    let bench = Bench::new(mutant).unwrap();
    bench.machine.set_user_mode_driver(bench.driver, "minimal_umd.dll").unwrap();
    let luid = bench.start()?;
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
    Ok(())
}

#[test]
fn a_driver_without_dma_patching_needs_the_preemption_of_windows_8() {
    let with = |caps: fn(&mut wddm_ddi::km::DXGK_DRIVERCAPS)| start(Mutant { caps, ..RENDERS });
    let without_preemption = with(|caps| {
        (RENDERS.caps)(caps);
        caps.SchedulingCaps.set_NoDmaPatching(true);
        caps.SchedulingCaps.set_PreemptionAware(false);
    });
    assert_eq!(without_preemption, Err(StartError::NoDmaPatchingWithoutPreemption));
    let with_preemption = with(|caps| {
        (RENDERS.caps)(caps);
        caps.SchedulingCaps.set_NoDmaPatching(true);
    });
    assert_eq!(with_preemption, Ok(()));
}
