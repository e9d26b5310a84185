//! Surprise removal: DxgkDdiNotifySurpriseRemoval, the driver that has no such entry point, and a device that does not answer any more.

use std::ffi::c_void;

use crate::minimal::{Adapter, Bench, Mutant, SOUND};
use dxgkrnl::bus::Bus;
use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{PnpError, StartError};
use wddm_ddi::km::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

unsafe extern "win64" fn takes_note(_: *mut c_void, removal: DXGK_SURPRISE_REMOVAL_TYPE) -> NTSTATUS {
    match removal {
        DXGK_SURPRISE_REMOVAL_TYPE::DxgkRemovalPnPNotify => STATUS_SUCCESS,
        _ => STATUS_INVALID_PARAMETER,
    }
}

unsafe extern "win64" fn cannot(_: *mut c_void, _: DXGK_SURPRISE_REMOVAL_TYPE) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

const PREPARED: Mutant = Mutant {
    caps: |caps| caps.SupportSurpriseRemoval = 1,
    table: |table| table.DxgkDdiNotifySurpriseRemoval = Some(takes_note),
    ..SOUND
};

#[test]
fn the_claim_needs_the_entry_point() {
    for caps in [(|caps| caps.SupportSurpriseRemoval = 1) as fn(&mut DXGK_DRIVERCAPS), |caps| {
        caps.SupportSurpriseRemovalInHibernation = 1
    }] {
        let bench = Bench::new(Mutant { caps, ..SOUND }).expect("the driver loads");
        let missing = StartError::MissingDdi { slot: "DxgkDdiNotifySurpriseRemoval", rule: "SupportSurpriseRemoval" };
        assert_eq!(bench.start(), Err(missing));
    }
}

#[test]
fn a_driver_that_is_prepared_is_told_stopped_and_removed_and_another_device_goes_on() {
    let bench = Bench::new(PREPARED).expect("the driver loads");
    let luid = bench.start().expect("it starts");
    let another = bench.machine.plug_in(crate::minimal::FakeBus::new(PREPARED.class));
    let other = bench.machine.start(another, bench.driver).expect("another one starts");
    bench.machine.start_ddi_log(other);
    assert_eq!(bench.machine.surprise_remove(luid), Ok(()));
    let log = bench.machine.take_ddi_log(other);
    assert_eq!(bench.machine.surprise_remove(luid), Err(PnpError::NoSuchAdapter), "it is gone");
    assert!(matches!(bench.start(), Err(StartError::Pci(_))), "and does not come back");
    let place = |name: &str| log.iter().position(|called| called == name).unwrap_or_else(|| panic!("{name}: {log:?}"));
    let order = ["DxgkDdiNotifySurpriseRemoval", "DxgkDdiStopDevice", "DxgkDdiRemoveDevice"].map(place);
    assert!(order.is_sorted() && order[0] == 0, "{log:?}");
    bench.machine.remove(other).expect("the other one goes on, and is removed");
    assert_eq!(bench.machine.unload(bench.driver), Ok(()));
}

/// Reads and writes a register of the function, and a word of its configuration space.
unsafe extern "win64" fn touches(context: *mut c_void, _: DXGK_SURPRISE_REMOVAL_TYPE) -> NTSTATUS {
    // SAFETY: the context of the driver.
    let adapter = unsafe { &mut *context.cast::<Adapter>() };
    let registers = adapter.registers.cast::<u32>();
    // SAFETY: the registers are mapped.
    let read = unsafe { registers.read_volatile() };
    // SAFETY: as above.
    unsafe { registers.write_volatile(0x1234) };
    let (mut identity, mut bytes) = (0_u32, 0);
    // SAFETY: handle and places are good.
    let status = unsafe {
        let place = (&raw mut identity).cast();
        adapter.interface.DxgkCbReadDeviceSpace.unwrap()(adapter.handle, 0, place, 0, 4, &raw mut bytes)
    };
    let gone = (read, identity, status) == (u32::MAX, u32::MAX, STATUS_SUCCESS);
    if gone { STATUS_SUCCESS } else { STATUS_UNSUCCESSFUL }
}

#[test]
fn a_function_that_still_answers_is_out_of_reach_when_the_driver_is_told() {
    // "the graphics hardware has been physically removed or has disappeared from system" [dispmprt: DXGKDDI_NOTIFY_SURPRISE_REMOVAL]
    let touching = Mutant { table: |table| table.DxgkDdiNotifySurpriseRemoval = Some(touches), ..PREPARED };
    let bench = Bench::new(touching).expect("the driver loads");
    let luid = bench.start().expect("it starts");
    assert_eq!(bench.machine.surprise_remove(luid), Ok(()));
    assert_eq!(bench.bus.register_read(0, crate::minimal::bus::REPORT, 4), 0, "nothing was written to the function");
}

#[test]
fn a_driver_that_is_not_prepared_stops_the_machine() {
    let refuses = Mutant { table: |table| table.DxgkDdiNotifySurpriseRemoval = Some(cannot), ..PREPARED };
    for (mutant, reason) in [(SOUND, "SupportSurpriseRemoval"), (refuses, "DxgkDdiNotifySurpriseRemoval")] {
        let bench = Bench::new(mutant).expect("the driver loads");
        let luid = bench.start().expect("it starts");
        let stopped = bench.machine.surprise_remove(luid);
        let Err(PnpError::Stopped(bugcheck)) = stopped else { panic!("{stopped:?}") };
        assert_eq!(bugcheck.code, Bugcheck::VIDEO_DXGKRNL_FATAL_ERROR);
        assert!(bugcheck.to_string().contains(reason), "{bugcheck}");
    }
}
