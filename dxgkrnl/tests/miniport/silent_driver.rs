//! A driver that keeps to itself what it has to tell: the machine stops at once, and names the DDI, the event, what was expected and what was seen.
//! [d3dkmddi: DXGKCB_NOTIFY_INTERRUPT, DXGKCB_NOTIFY_DPC; dispmprt: DXGKCB_QUEUE_DPC]

use std::ffi::c_void;
use std::time::{Duration, Instant};

use crate::minimal::bus::MONITORED;
use crate::minimal::{Adapter, Bench, Mutant, SOUND, driver};
use dxgkrnl::verifier::Bugcheck;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::types::BOOLEAN;

/// Reports that fences were signalled, and requests no DPC.
unsafe extern "win64" fn no_dpc(context: *mut c_void, _message: u32) -> BOOLEAN {
    let adapter = driver::adapter(context);
    let mut any = 0;
    loop {
        // SAFETY: the registers are mapped.
        if unsafe { adapter.registers.read_volatile() } == 0 {
            return any;
        }
        any = 1;
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
        data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED;
        // SAFETY: handle and data are good.
        unsafe { adapter.interface.DxgkCbNotifyInterrupt.unwrap()(adapter.handle, &raw const data) };
    }
}

unsafe extern "win64" fn no_notification(_context: *mut c_void) {}

/// Starts a driver that is silent, on a device that sends a message at once.
fn stops(table: fn(&mut DRIVER_INITIALIZATION_DATA)) -> Bugcheck {
    // SAFETY: the registers are mapped.
    let in_start = |adapter: &mut Adapter| unsafe { adapter.registers.write_volatile(MONITORED) };
    let bench = Bench::new(Mutant { table, in_start, ..SOUND }).unwrap();
    let _ = bench.start();
    let started = Instant::now();
    loop {
        if let Some(bugcheck) = bench.machine.bugcheck() {
            return bugcheck;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "the machine waits for ever");
        std::thread::yield_now();
    }
}

#[test]
fn a_report_without_a_dpc_stops_the_machine() {
    let bugcheck = stops(|table| table.DxgkDdiInterruptRoutine = Some(no_dpc));
    assert_eq!(bugcheck.code, 0x113, "{bugcheck}");
    for part in
        ["DxgkDdiInterruptRoutine for message 0", "DxgkCbQueueDpc", "DxgkCbNotifyInterrupt", "type 11 about node 0"]
    {
        assert!(bugcheck.reason.contains(part), "{part:?}: {bugcheck}");
    }
}

#[test]
fn a_dpc_that_tells_the_scheduler_nothing_stops_the_machine() {
    let bugcheck = stops(|table| table.DxgkDdiDpcRoutine = Some(no_notification));
    assert_eq!(bugcheck.code, 0x113, "{bugcheck}");
    for part in ["DxgkDdiDpcRoutine", "DxgkCbNotifyDpc", "DxgkCbNotifyInterrupt", "type 11 about node 0"] {
        assert!(bugcheck.reason.contains(part), "{part:?}: {bugcheck}");
    }
}
