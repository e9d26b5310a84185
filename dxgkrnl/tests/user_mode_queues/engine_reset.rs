//! Recovery of an engine whose queues the hardware schedules, and drivers that break its rules.
//! [tdr-changes-in-windows-8; debugger: 0x116, 0x119]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::minimal::Mutant;
use crate::minimal::driver::{adapter, imports};
use crate::user_mode::app::*;
use crate::user_mode::{DRIVER, Report, world};
use dxgkrnl::irql::HIGH_LEVEL;
use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{Clock, MachineConfig, TdrOutcome, TdrReason};
use wddm_ddi::km::*;
use wddm_ddi::kmt::D3DKMT_DEVICEEXECUTION_STATE;
use wddm_ddi::nt::POOL_FLAG_NON_PAGED;
use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, NTSTATUS};

fn bench_of(table: fn(&mut DRIVER_INITIALIZATION_DATA)) -> Bench {
    bench_with(Mutant { table, ..DRIVER }, MachineConfig { clock: Clock::manual(), ..MachineConfig::default() })
}

/// A hang that the driver reports; returns what the machine stops with.
fn stops(table: fn(&mut DRIVER_INITIALIZATION_DATA)) -> Bugcheck {
    let bench = bench_of(table);
    let app = App::new(&bench);
    let _queue = app.queue(&bench);
    bench.world.report(&bench.bus, Report::Hung);
    let bugcheck = bench.stop();
    app.process.exit();
    bugcheck
}

/// The context that was created last loses its state, by the system's handle.
fn invalidate(context: *mut c_void, collateral: bool) {
    let (adapter, world) = (adapter(context), world(context));
    let args = DXGKARGCB_INVALIDATEHWCONTEXT {
        hAdapter: adapter.handle,
        hHwContext: core::ptr::without_provenance_mut(world.contexts.lock().unwrap().last().copied().unwrap_or(0)),
        Flags: DXGK_INVALIDATEHWCONTEXTFLAGS::new().with_CollateralDamage(collateral),
    };
    // SAFETY: the arguments live during the call.
    let status = unsafe { adapter.interface.DxgkCbInvalidateHwContext.unwrap()(&raw const args) };
    assert_eq!(status, STATUS_SUCCESS);
}

unsafe extern "win64" fn names_the_last_context(context: HANDLE, _: *mut DXGKARG_RESETHWENGINE) -> NTSTATUS {
    invalidate(context, false);
    STATUS_SUCCESS
}

unsafe extern "win64" fn reports_when_resumed(context: HANDLE, _: *mut DXGKARG_RESUMEHWENGINE) -> NTSTATUS {
    world(context).report_from(adapter(context), Report::Idle);
    STATUS_SUCCESS
}

unsafe extern "win64" fn refuses_to_reset(_: HANDLE, _: *mut DXGKARG_RESETHWENGINE) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

unsafe extern "win64" fn refuses_to_resume(_: HANDLE, _: *mut DXGKARG_RESUMEHWENGINE) -> NTSTATUS {
    STATUS_UNSUCCESSFUL
}

unsafe extern "win64" fn fails(_: HANDLE) -> NTSTATUS {
    STATUS_NO_MEMORY
}

#[test]
fn a_hang_that_is_reported_costs_the_context_that_the_driver_names_its_device() {
    let bench = bench_of(|table| {
        (DRIVER.table)(table);
        table.DxgkDdiResetHwEngine = Some(names_the_last_context);
        table.DxgkDdiResumeHwEngine = Some(reports_when_resumed);
    });
    let (other, app) = (App::new(&bench), App::new(&bench));
    let (bystander, queue) = (other.queue(&bench), app.queue(&bench));
    app.connect(&queue).unwrap();
    bench.world.report(&bench.bus, Report::Hung);
    eventually("the doorbell says so", || queue.status() == ABORT);
    eventually("the report", || !bench.machine.tdr_reports(bench.luid).is_empty());
    assert_eq!(app.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_HUNG);
    assert_eq!(other.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE);
    let reports = bench.machine.tdr_reports(bench.luid);
    let seen: Vec<_> = reports.iter().map(|report| (report.reason, report.outcome)).collect();
    assert_eq!(seen, [(TdrReason::ReportedHung, TdrOutcome::EngineReset)]);
    other.connect(&bystander).unwrap();
    app.process.exit();
    other.process.exit();
    bench.end();
}

#[test]
fn an_engine_that_is_not_reset_or_not_resumed_costs_the_adapter_a_reset() {
    let tables: [fn(&mut DRIVER_INITIALIZATION_DATA); 2] = [
        |table| {
            (DRIVER.table)(table);
            table.DxgkDdiResetHwEngine = Some(refuses_to_reset);
        },
        |table| {
            (DRIVER.table)(table);
            table.DxgkDdiResumeHwEngine = Some(refuses_to_resume);
        },
    ];
    for table in tables {
        let bench = bench_of(table);
        let app = App::new(&bench);
        let queue = app.queue(&bench);
        bench.world.report(&bench.bus, Report::Hung);
        eventually("both resets", || bench.machine.tdr_reports(bench.luid).len() == 2);
        let reports = bench.machine.tdr_reports(bench.luid);
        let seen: Vec<_> = reports.iter().map(|report| (report.node, report.outcome)).collect();
        assert_eq!(seen, [(Some(0), TdrOutcome::EngineResetFailed), (None, TdrOutcome::AdapterReset)]);
        assert_eq!((reports[1].reason.number(), reports[1].live_dump), (Some(9), Some(0x117)));
        eventually("the doorbell says so", || queue.status() == ABORT);
        assert_eq!(app.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_RESET);
        app.process.exit();
        bench.end();
    }
}

#[test]
fn an_adapter_that_does_not_stop_or_does_not_restart_is_0x116() {
    let bugcheck = stops(|table| {
        (DRIVER.table)(table);
        table.DxgkDdiResetHwEngine = Some(refuses_to_reset);
        table.DxgkDdiResetFromTimeout = Some(fails);
    });
    assert_eq!((bugcheck.code, bugcheck.parameters[2]), (0x116, u64::from(STATUS_NO_MEMORY.0 as u32)), "{bugcheck}");
    assert!(bugcheck.reason.contains("DxgkDdiResetFromTimeout"), "{bugcheck}");
    let bugcheck = stops(|table| {
        (DRIVER.table)(table);
        table.DxgkDdiResetHwEngine = Some(refuses_to_reset);
        table.DxgkDdiRestartFromTimeout = Some(fails);
    });
    assert_eq!(bugcheck.code, 0x116, "{bugcheck}");
    assert!(bugcheck.reason.contains("DxgkDdiRestartFromTimeout"), "{bugcheck}");
}

type Table = fn(&mut DRIVER_INITIALIZATION_DATA);

/// Where DxgkDdiResetDevice was called, one bit for each level.
static LEVELS: AtomicU32 = AtomicU32::new(0);

unsafe extern "win64" fn notes_its_level(_: *mut c_void) {
    // SAFETY: no arguments.
    let level = unsafe { (imports().KeGetCurrentIrql)() };
    LEVELS.fetch_or(1 << level, Ordering::Relaxed);
}

unsafe extern "win64" fn takes_memory(_: *mut c_void) {
    // SAFETY: a plain request.
    let _ = unsafe { (imports().ExAllocatePool2)(POOL_FLAG_NON_PAGED, 16, 1) };
}

unsafe extern "win64" fn calls_back(context: *mut c_void) {
    let adapter = adapter(context);
    // SAFETY: the handle is good.
    unsafe { adapter.interface.DxgkCbQueueDpc.unwrap()(adapter.handle) };
}

#[test]
fn a_stopped_machine_resets_its_devices_at_the_highest_level() {
    let mutants: [(Table, bool); 3] = [
        (
            |table| {
                (DRIVER.table)(table);
                table.DxgkDdiResetDevice = Some(notes_its_level);
            },
            true,
        ),
        (
            |table| {
                (DRIVER.table)(table);
                table.DxgkDdiResetDevice = Some(takes_memory);
            },
            false,
        ),
        (
            |table| {
                (DRIVER.table)(table);
                table.DxgkDdiResetDevice = Some(calls_back);
            },
            false,
        ),
    ];
    for (number, (table, sound)) in mutants.into_iter().enumerate() {
        let bench = bench_with(Mutant { table, ..DRIVER }, MachineConfig::default());
        assert!(!bench.machine.reset_devices(), "the machine runs");
        assert_eq!(LEVELS.load(Ordering::Relaxed), if number == 0 { 0 } else { 1 << HIGH_LEVEL }, "called once");
        bench.world.report(&bench.bus, Report::Suspended { context: 1, fence: 1 });
        let stopped = bench.stop();
        assert_eq!(bench.machine.reset_devices(), sound, "driver {number}");
        assert_eq!(bench.machine.bugcheck(), Some(stopped), "what stopped the machine first counts");
    }
}
