//! Timeouts that a program forces, and drivers that fail in the reset of the adapter. [d3dkmthk: D3DKMT_ESCAPE, D3DKMT_TDRDBGCTRLTYPE;
//! d3dkmddi: DXGKDDI_RESETFROMTIMEOUT, DXGKDDI_RESTARTFROMTIMEOUT, DXGKDDI_COLLECTDBGINFO; debugger: 0x116, 0x117]

use std::sync::Mutex;

use dxgkrnl::{
    MachineConfig, Process, TdrLevel, TdrOutcome, TdrReason, TdrReport, TdrSettings, further_thunks, thunks,
};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{HANDLE, NTSTATUS};

use super::Given;
use super::minimal::queue::call;
use super::minimal::{Bench, Mutant, SOUND};

type Control = D3DKMT_TDRDBGCTRLTYPE;

const FORCE: Control = Control::D3DKMT_TDRDBGCTRLTYPE_FORCETDR;
const RESET: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_RESET;
const IN_TESTS: fn(&mut TdrSettings) = |tdr| tdr.test_mode = true;

/// The escape with data of `size` bytes.
fn ask(given: Given, mut data: [i32; 2], size: u32) -> NTSTATUS {
    let mut args = D3DKMT_ESCAPE { hAdapter: given.adapter, ..Zeroed::zeroed() };
    args.Type = D3DKMT_ESCAPETYPE::D3DKMT_ESCAPE_TDRDBGCTRL;
    args.PrivateDriverDataSize = size;
    args.pPrivateDriverData = if size == 0 { std::ptr::null_mut() } else { data.as_mut_ptr().cast() };
    // SAFETY: the structure lives across the call, and so does its data, of which the system reads at most eight bytes.
    unsafe { (further_thunks().D3DKMTEscape)(&raw const args) }
}

fn force(given: Given, control: Control) -> NTSTATUS {
    ask(given, [control.0, 0], 4)
}

/// A machine of a driver, a process attached to it, and what it has opened.
fn with(mutant: Mutant, settings: fn(&mut TdrSettings), test: impl FnOnce(&Bench, Given)) -> Bench {
    let mut config = MachineConfig { ram: 64 << 20, ..MachineConfig::default() };
    settings(&mut config.tdr);
    let bench = Bench::with_config(mutant, config).unwrap();
    let luid = bench.start().unwrap();
    let process = Process::new(&bench.machine, "user");
    let attached = process.attach();
    test(&bench, Given::new(luid));
    drop(attached);
    process.exit();
    if bench.machine.bugcheck().is_none() {
        bench.machine.remove(luid).unwrap();
    }
    bench
}

fn state(given: Given) -> D3DKMT_DEVICEEXECUTION_STATE {
    let mut args = D3DKMT_GETDEVICESTATE { hDevice: given.device, ..Zeroed::zeroed() };
    args.StateType = D3DKMT_DEVICESTATE_TYPE::D3DKMT_DEVICESTATE_EXECUTION;
    let answer = call(thunks().D3DKMTGetDeviceState, args).unwrap();
    // SAFETY: this arm was asked for.
    unsafe { answer.u.ExecutionState }
}

fn last(bench: &Bench, given: Given) -> TdrReport {
    bench.machine.tdr_reports(given.luid).pop().expect("a report")
}

/// Status of a request, and the lines that it adds to the log.
fn told(bench: &Bench, request: impl FnOnce() -> NTSTATUS) -> (NTSTATUS, String) {
    let before = bench.machine.debug_log().len();
    let status = request();
    (status, bench.machine.debug_log().split_off(before).join("\n"))
}

#[test]
fn a_forced_timeout_resets_the_adapter_in_the_order_of_the_pages() {
    let forms: [([i32; 2], u32); 4] =
        [([-1, -1], 0), ([FORCE.0, -1], 4), ([FORCE.0, -1], 8), ([Control::D3DKMT_TDRDBGCTRLTYPE_GPUTDR.0, 0], 4)];
    for (data, size) in forms {
        let bench = with(SOUND, IN_TESTS, |bench, given| {
            bench.machine.start_ddi_log(given.luid);
            assert_eq!(ask(given, data, size), STATUS_SUCCESS, "{data:?}, {size} bytes");
            let log = bench.machine.take_ddi_log(given.luid);
            let of_reset = ["DxgkDdiCollectDbgInfo", "DxgkDdiResetFromTimeout", "DxgkDdiRestartFromTimeout"];
            let order: Vec<&str> = log.iter().map(String::as_str).filter(|name| of_reset.contains(name)).collect();
            assert_eq!(order, of_reset);
            let report = last(bench, given);
            assert_eq!((report.reason, report.reason.number(), report.node), (TdrReason::Forced, Some(1), None));
            assert_eq!((report.outcome, report.live_dump), (TdrOutcome::AdapterReset, Some(0x117)));
            assert_eq!(state(given), RESET, "the device is lost");
            Given::new(given.luid);
        });
        assert_eq!(bench.machine.bugcheck(), None);
    }
}

#[test]
fn without_tdrtestmode_no_timeout_is_forced() {
    with(
        SOUND,
        |_| (),
        |bench, given| {
            let (status, log) = told(bench, || force(given, FORCE));
            assert_eq!(status, STATUS_NOT_SUPPORTED);
            assert!(log.contains("D3DKMTEscape fails") && log.contains("TdrTestMode is not 1"), "{log}");
            assert_eq!(bench.machine.tdr_reports(given.luid), []);
        },
    );
}

#[test]
fn controls_that_are_none_or_that_mean_a_display_are_refused_and_reset_nothing() {
    const ENGINE: i32 = Control::D3DKMT_TDRDBGCTRLTYPE_ENGINETDR.0;
    let rows: [([i32; 2], u32, NTSTATUS, &str); 10] = [
        ([0, 0], 3, STATUS_INVALID_PARAMETER, "PrivateDriverDataSize is 3"),
        ([0, 0], 7, STATUS_INVALID_PARAMETER, "PrivateDriverDataSize is 7"),
        ([0, 0], 9, STATUS_INVALID_PARAMETER, "PrivateDriverDataSize is 9"),
        ([9, 0], 4, STATUS_INVALID_PARAMETER, "TdrControl is 9"),
        ([-1, 0], 8, STATUS_INVALID_PARAMETER, "TdrControl is -1"),
        ([4, 0], 4, STATUS_NOT_SUPPORTED, "no display"),
        ([6, 0], 4, STATUS_NOT_SUPPORTED, "no display"),
        ([7, 0], 8, STATUS_NOT_SUPPORTED, "no display"),
        ([ENGINE, 0], 4, STATUS_INVALID_PARAMETER, "NodeOrdinal"),
        ([ENGINE, 64], 8, STATUS_INVALID_PARAMETER, "NodeOrdinal is 64"),
    ];
    let bench = with(SOUND, IN_TESTS, |bench, given| {
        for (data, size, status, part) in rows {
            let (answered, log) = told(bench, || ask(given, data, size));
            assert_eq!(answered, status, "{part}: {log}");
            assert!(log.contains("D3DKMTEscape fails") && log.contains(part), "{part}: {log}");
        }
        let mut args = D3DKMT_ESCAPE { hAdapter: given.adapter, ..Zeroed::zeroed() };
        args.Type = D3DKMT_ESCAPETYPE::D3DKMT_ESCAPE_TDRDBGCTRL;
        args.Flags = D3DDDI_ESCAPEFLAGS::new().with_DriverKnownEscape(true);
        // SAFETY: the structure lives across the call and has no data.
        let (answered, log) = told(bench, || unsafe { (further_thunks().D3DKMTEscape)(&raw const args) });
        assert!(answered == STATUS_INVALID_PARAMETER && log.contains("Flags is 0x"), "{answered}: {log}");
        assert_eq!(bench.machine.tdr_reports(given.luid), []);
    });
    assert_eq!(bench.machine.bugcheck(), None);
}

#[test]
fn a_forced_timeout_of_an_engine_resets_that_engine_and_costs_a_device_without_work_nothing() {
    with(SOUND, IN_TESTS, |bench, given| {
        assert_eq!(ask(given, [Control::D3DKMT_TDRDBGCTRLTYPE_ENGINETDR.0, 0], 8), STATUS_SUCCESS);
        let report = last(bench, given);
        let seen = (report.node, report.reason, report.outcome);
        assert_eq!(seen, (Some(0), TdrReason::Forced, TdrOutcome::EngineReset));
        assert_eq!(report.live_dump, Some(0x141));
        assert_ne!(state(given), RESET);
    });
}

#[test]
fn forced_timeouts_count_toward_tdrlimitcount_unless_recovery_is_unconditional() {
    let limit = TdrSettings::default().limit_count;
    let bench = with(SOUND, IN_TESTS, |bench, given| {
        assert_eq!(force(given, Control::D3DKMT_TDRDBGCTRLTYPE_UNCONDITIONAL), STATUS_SUCCESS);
        (0..=limit).for_each(|round| assert_eq!(force(given, FORCE), STATUS_SUCCESS, "{round}"));
        assert_eq!(bench.machine.bugcheck(), None, "consecutive recoveries are not checked");
        for control in [Control::D3DKMT_TDRDBGCTRLTYPE_ENABLEBREAK, Control::D3DKMT_TDRDBGCTRLTYPE_DISABLEBREAK] {
            assert_eq!(force(given, control), STATUS_SUCCESS);
        }
        assert_eq!(bench.machine.bugcheck(), None);
        let _ = force(given, FORCE);
    });
    let bugcheck = bench.machine.bugcheck().expect("more than TdrLimitCount");
    assert!(bugcheck.code == 0x116 && bugcheck.reason.contains("TdrLimitCount"), "{bugcheck}");
    assert!(bugcheck.reason.contains("D3DKMT_ESCAPE_TDRDBGCTRL"), "{bugcheck}");
}

#[test]
fn tdrlevel_decides_what_becomes_of_a_forced_timeout() {
    let off: fn(&mut TdrSettings) = |tdr| (tdr.test_mode, tdr.level) = (true, TdrLevel::Off);
    with(SOUND, off, |bench, given| {
        let (status, log) = told(bench, || force(given, FORCE));
        assert!(status == STATUS_NOT_SUPPORTED && log.contains("TdrLevel is 0"), "{status}: {log}");
    });
    let stops: fn(&mut TdrSettings) = |tdr| (tdr.test_mode, tdr.level) = (true, TdrLevel::BugCheck);
    let bench = with(SOUND, stops, |_, given| _ = force(given, FORCE));
    let bugcheck = bench.machine.bugcheck().expect("TdrLevel 1");
    assert!(bugcheck.code == 0x116 && bugcheck.reason.contains("TdrLevel asks for a bugcheck"), "{bugcheck}");
}

macro_rules! answering {
    ($($name:ident: $status:expr;)*) => {
        $(unsafe extern "win64" fn $name(_: HANDLE) -> NTSTATUS {
            $status
        })*
    };
}

answering! {
    without_memory: STATUS_NO_MEMORY;
    later: STATUS_PENDING;
    // STATUS_WAIT_1, which NT_SUCCESS is true of.
    with_another_success: NTSTATUS(1);
}

#[test]
fn a_driver_that_answers_a_reset_with_anything_but_success_is_0x116_with_function_and_status() {
    type Slot = fn(&mut DRIVER_INITIALIZATION_DATA);
    let rows: [(Slot, &str, NTSTATUS); 6] = [
        (|table| table.DxgkDdiResetFromTimeout = Some(without_memory), "DxgkDdiResetFromTimeout", STATUS_NO_MEMORY),
        (|table| table.DxgkDdiResetFromTimeout = Some(later), "DxgkDdiResetFromTimeout", STATUS_PENDING),
        (|table| table.DxgkDdiResetFromTimeout = Some(with_another_success), "DxgkDdiResetFromTimeout", NTSTATUS(1)),
        (|table| table.DxgkDdiRestartFromTimeout = Some(without_memory), "DxgkDdiRestartFromTimeout", STATUS_NO_MEMORY),
        (|table| table.DxgkDdiRestartFromTimeout = Some(later), "DxgkDdiRestartFromTimeout", STATUS_PENDING),
        (
            |table| table.DxgkDdiRestartFromTimeout = Some(with_another_success),
            "DxgkDdiRestartFromTimeout",
            NTSTATUS(1),
        ),
    ];
    for (table, ddi, status) in rows {
        let bench = with(Mutant { table, ..SOUND }, IN_TESTS, |_, given| _ = force(given, FORCE));
        let bugcheck = bench.machine.bugcheck().expect("the machine stops");
        assert_eq!((bugcheck.code, bugcheck.parameters[2]), (0x116, u64::from(status.0 as u32)), "{bugcheck}");
        let text = format!("{ddi} answered {status}, and expected was STATUS_SUCCESS");
        assert!(bugcheck.reason.contains(&text), "{text}: {bugcheck}");
    }
}

/// Reason, TdrType, TdrPayloadSize, and node and engine of the payload.
type Told = (u32, i32, u32, Option<(u32, u32)>);

/// The calls of DxgkDdiCollectDbgInfo2 in the one test that has it.
static TOLD: Mutex<Vec<Told>> = Mutex::new(Vec::new());

/// Notes what it is told, writes a word, and takes nobody's handle for the context that has timed out.
unsafe extern "win64" fn collects_of_timeouts(_: HANDLE, args: *mut DXGKARG_COLLECTDBGINFO2) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let args = unsafe { &*args };
    let payload = args.TdrPayload.cast::<DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT>();
    // SAFETY: where there is a payload, it is the one of a time-out of an engine.
    let payload = unsafe { payload.as_mut() }.map(|payload| {
        payload.hContext = std::ptr::without_provenance_mut(0x4321);
        (payload.NodeOrdinal, payload.EngineOrdinal)
    });
    // SAFETY: the buffer has 64 KiB.
    unsafe { args.pBuffer.cast::<u64>().write(0x1122_3344_5566_7788) };
    TOLD.lock().unwrap().push((args.Reason, args.TdrType.0, args.TdrPayloadSize, payload));
    STATUS_SUCCESS
}

unsafe extern "win64" fn refuses_timeouts(_: HANDLE, _: *mut DXGKARG_COLLECTDBGINFO2) -> NTSTATUS {
    STATUS_NO_MEMORY
}

/// The function is called in the place of DxgkDdiCollectDbgInfo where the driver has it. [d3dkmddi: DXGKDDI_COLLECTDBGINFO2, DXGK_TDR_TYPE, DXGK_TDR_PAYLOAD_ENGINE_TIMEOUT]
#[test]
fn a_driver_with_collectdbginfo2_is_told_of_the_timeout_and_an_unknown_context_is_named() {
    type Slot = fn(&mut DRIVER_INITIALIZATION_DATA);
    let table: Slot = |table| {
        table.DxgkDdiCollectDbgInfo = Some(nothing_collected);
        table.DxgkDdiCollectDbgInfo2 = Some(collects_of_timeouts);
    };
    let engine = Control::D3DKMT_TDRDBGCTRLTYPE_ENGINETDR;
    for (control, expected) in [(FORCE, (0x117, 1, 0, None)), (engine, (0x141, 6, 40, Some((0, 0))))] {
        with(Mutant { table, ..SOUND }, IN_TESTS, |bench, given| {
            let (status, log) = told(bench, || ask(given, [control.0, 0], 8));
            let heard = std::mem::take(&mut *TOLD.lock().unwrap());
            assert_eq!((status, heard), (STATUS_SUCCESS, vec![expected]), "{log}");
            let named =
                "DxgkDdiCollectDbgInfo2 named 0x4321 as hContext of TdrPayload, which is no context of the adapter";
            assert_eq!(log.contains(named), control == engine, "{log}");
            assert_eq!(last(bench, given).debug_information, 0x1122_3344_5566_7788_u64.to_ne_bytes());
        });
    }
    let table: Slot = |table| table.DxgkDdiCollectDbgInfo2 = Some(refuses_timeouts);
    with(Mutant { table, ..SOUND }, IN_TESTS, |bench, given| {
        assert_eq!(force(given, FORCE), STATUS_SUCCESS);
        let report = last(bench, given);
        assert_eq!(report.collection_failed, Some(("DxgkDdiCollectDbgInfo2", STATUS_NO_MEMORY)), "{report}");
    });
}

unsafe extern "win64" fn nothing_collected(_: HANDLE, _: *const DXGKARG_COLLECTDBGINFO) -> NTSTATUS {
    STATUS_NO_MEMORY
}

unsafe extern "win64" fn collected_wrongly(_: HANDLE, _: *const DXGKARG_COLLECTDBGINFO) -> NTSTATUS {
    STATUS_INVALID_PARAMETER
}

#[test]
fn a_driver_that_collects_no_information_is_recovered_and_the_report_names_what_it_answered() {
    type Slot = fn(&mut DRIVER_INITIALIZATION_DATA);
    let rows: [(Slot, NTSTATUS, &str); 2] = [
        (
            |table| table.DxgkDdiCollectDbgInfo = Some(nothing_collected),
            STATUS_NO_MEMORY,
            "the report has nothing of the driver",
        ),
        (
            |table| table.DxgkDdiCollectDbgInfo = Some(collected_wrongly),
            STATUS_INVALID_PARAMETER,
            "expected was STATUS_SUCCESS, STATUS_NO_MEMORY or STATUS_UNSUCCESSFUL",
        ),
    ];
    for (table, status, part) in rows {
        let bench = with(Mutant { table, ..SOUND }, IN_TESTS, |bench, given| {
            let (answered, log) = told(bench, || force(given, FORCE));
            assert_eq!(answered, STATUS_SUCCESS);
            let text = format!("DxgkDdiCollectDbgInfo answered {status}");
            assert!(log.contains(&format!("{text} for Reason 0x117: {part}")), "{log}");
            let report = last(bench, given);
            let failed = Some(("DxgkDdiCollectDbgInfo", status));
            assert_eq!((report.outcome, report.collection_failed), (TdrOutcome::AdapterReset, failed));
            assert!(report.to_string().contains(&text), "{report}");
        });
        assert_eq!(bench.machine.bugcheck(), None);
    }
}
