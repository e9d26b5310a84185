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
fn only_a_vga_compatible_function_is_taken_for_the_boot_display_device() {
    const VGA: u32 = 0x03_0000;
    const XGA: u32 = 0x03_0100;
    const CONTROLLER_3D: u32 = 0x03_0200;
    const OTHER: u32 = 0x03_8000;
    for mutant in [SOUND, RENDERS] {
        assert_eq!(start(Mutant { class: VGA, ..mutant }), Err(StartError::RenderOnlyOnPostDevice));
        for class in [XGA, CONTROLLER_3D, OTHER] {
            assert_eq!(start(Mutant { class, ..mutant }), Ok(()), "class {class:06x}");
        }
    }
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
