//! Hardware queues of drivers of each version that has them, WDDM 2.7 to 3.2, at work: submissions, hangs, and what a driver gets wrong; and of those that do not.
//! [d3dkmddi: DXGKARG_CREATEHWQUEUE, DXGKARG_SUBMITCOMMANDTOHWQUEUE, DXGKARG_RESETHWENGINE; debugger: 0x119]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::minimal::queue::{Queue, call, open};
use crate::minimal::{Adapter, Bench, Mutant, SOUND, driver, table};
use dxgkrnl::{Clock, MachineConfig, Rescue, TdrOutcome, TdrSettings, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{BOOLEAN, HANDLE, LUID, NTSTATUS};

/// A started driver of this version, whose table `change` has changed. Time is moved by hand.
fn started(version: &'static InterfaceVersion, change: fn(&mut DRIVER_INITIALIZATION_DATA)) -> (Bench, LUID) {
    started_with(version, change, offers_scheduling)
}

/// As [`started`], with what the driver does in DxgkDdiStartDevice.
fn started_with(
    version: &'static InterfaceVersion,
    change: fn(&mut DRIVER_INITIALIZATION_DATA),
    in_start: fn(&mut Adapter),
) -> (Bench, LUID) {
    let config = MachineConfig { ram: 64 << 20, clock: Clock::manual(), ..MachineConfig::default() };
    let mutant = Mutant { version, table: change, in_start, ..SOUND };
    let bench = Bench::with_config(mutant, config).unwrap_or_else(|error| panic!("{}: {error}", version.name));
    bench.machine.set_user_mode_driver(bench.driver, "minimal_umd.dll").unwrap();
    let luid = bench.start().unwrap_or_else(|error| panic!("{}: {error}", version.name));
    (bench, luid)
}

/// A driver of WDDM 2.9 to 3.1 says by a callback that it supports hardware scheduling; one of 3.2 has its feature interface for it, and one of 2.7 or 2.8 its entry points.
fn offers_scheduling(adapter: &mut Adapter) {
    offers(adapter, DXGK_FEATURE_SUPPORT_STABLE, STATUS_SUCCESS);
}

fn offers(adapter: &mut Adapter, state: u32, expected: NTSTATUS) {
    let Some(offer) = adapter.interface.DxgkCbQueryFeatureSupport else { return };
    let mut args = DXGKARGCB_QUERYFEATURESUPPORT::zeroed();
    (args.DeviceHandle, args.FeatureId, args.DriverSupportState) =
        (adapter.handle, DXGK_FEATURE_ID::DXGK_FEATURE_HWSCH, state);
    // SAFETY: the argument lives across the call.
    assert_eq!(unsafe { offer(&raw mut args) }, expected);
}

/// Versions whose drivers may have hardware queues.
fn scheduling() -> impl Iterator<Item = &'static InterfaceVersion> {
    INTERFACE_VERSIONS.iter().filter(|version| version.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_7)
}

fn end(bench: &Bench, luid: LUID, queue: Queue) {
    queue.close().unwrap();
    bench.machine.remove(luid).unwrap();
    bench.machine.unload(bench.driver).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

#[test]
fn queues_of_every_version_that_has_them_run_submissions_in_order() {
    assert_eq!(scheduling().count(), 6, "WDDM 2.7, 2.8, 2.9, 3.0, 3.1, 3.2");
    for version in scheduling() {
        let (bench, luid) = started(version, |_| ());
        bench.machine.start_ddi_log(luid);
        let queue = open(&bench, luid).unwrap_or_else(|status| panic!("{}: {status}", version.name));
        for value in 1..=10 {
            queue.submit(value).unwrap();
        }
        queue.wait(10).unwrap();
        assert_eq!(queue.submit(10), Err(STATUS_INVALID_PARAMETER), "{}: values only grow", version.name);
        let log = bench.machine.take_ddi_log(luid);
        let calls = |name: &str| log.iter().filter(|entry| *entry == name).count();
        for (name, count) in [
            ("DxgkDdiCreateHwContext", 1),
            ("DxgkDdiCreateHwQueue", 1),
            ("DxgkDdiSubmitCommandToHwQueue", 10),
            ("DxgkDdiSubmitCommand", 0),
        ] {
            assert_eq!(calls(name), count, "{}: {name}", version.name);
        }
        end(&bench, luid, queue);
    }
}

#[test]
fn a_driver_of_an_older_version_has_none_whatever_its_table_holds() {
    for version in INTERFACE_VERSIONS.iter().filter(|version| version.version < DXGKDDI_INTERFACE_VERSION_WDDM2_7) {
        let render_only = version.version < DXGKDDI_INTERFACE_VERSION_WDDM2_6;
        let (bench, luid) = started(version, if render_only { table::fill_for_displays } else { |_| () });
        assert_eq!(open(&bench, luid).err(), Some(STATUS_NOT_SUPPORTED), "{}", version.name);
        bench.machine.remove(luid).unwrap();
        assert_eq!(bench.machine.bugcheck(), None, "{}", version.name);
    }
}

/// [d3dkmddi: DXGKARGCB_QUERYFEATURESUPPORT]
#[test]
fn a_driver_that_does_not_offer_its_queues_has_none_and_the_log_says_why() {
    let by_callback = |version: &InterfaceVersion| {
        (DXGKDDI_INTERFACE_VERSION_WDDM2_9..DXGKDDI_INTERFACE_VERSION_WDDM3_2).contains(&version.version)
    };
    fn never(_: &mut Adapter) {}
    fn off(adapter: &mut Adapter) {
        offers(adapter, 0, STATUS_SUCCESS);
    }
    fn wrong(adapter: &mut Adapter) {
        offers(adapter, 77, STATUS_INVALID_PARAMETER);
    }
    type Start = fn(&mut Adapter);
    let starts: [(Start, &str); 3] = [
        (never, "a driver offers it by DxgkCbQueryFeatureSupport"),
        (off, "with DriverSupportState 0, and only 2 and 3 offer it"),
        (wrong, "DriverSupportState is 77, and 0 to 3 are allowed"),
    ];
    for version in INTERFACE_VERSIONS.iter().filter(|version| by_callback(version)) {
        for (in_start, told) in starts {
            let (bench, luid) = started_with(version, |_| (), in_start);
            assert!(open(&bench, luid).is_err(), "{}: {told}", version.name);
            let log = bench.machine.debug_log();
            assert!(log.iter().any(|line| line.to_string().contains(told)), "{}: {told}: {log:?}", version.name);
            bench.machine.remove(luid).unwrap();
            bench.machine.unload(bench.driver).unwrap();
        }
    }
}

/// What WDDM 3.2 brought is refused to a queue of an older driver, which would not know what to do about it.
#[test]
fn a_queue_of_an_older_version_takes_no_submissions_from_user_mode_and_its_adapter_has_no_native_fences() {
    for version in scheduling().filter(|version| version.version < DXGKDDI_INTERFACE_VERSION_WDDM3_2) {
        let (bench, luid) = started(version, |_| ());
        bench.machine.start_ddi_log(luid);
        let queue = open(&bench, luid).unwrap();
        let attached = queue.process.attach();
        let mut args = D3DKMT_CREATEHWQUEUE { hHwContext: queue.context, ..Zeroed::zeroed() };
        args.Flags = args.Flags.with_UserModeSubmission(true);
        let refused = call(thunks().D3DKMTCreateHwQueue, args).err();
        assert!(refused.is_some_and(|status| !status.is_success()), "{}: {refused:?}", version.name);
        let mut args = D3DKMT_CREATENATIVEFENCE::zeroed();
        args.hDevice = queue.device;
        let refused = call(thunks().D3DKMTCreateNativeFence, args).err();
        assert!(refused.is_some_and(|status| !status.is_success()), "{}: {refused:?}", version.name);
        drop(attached);
        let queues = bench.machine.take_ddi_log(luid);
        assert_eq!(queues.iter().filter(|name| *name == "DxgkDdiCreateHwQueue").count(), 1, "{}", version.name);
        end(&bench, luid, queue);
    }
}

/// The system's handle of the context that was made last.
static CONTEXT: AtomicUsize = AtomicUsize::new(0);

unsafe extern "win64" fn notes_its_context(device: HANDLE, args: *mut DXGKARG_CREATEHWCONTEXT) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    CONTEXT.store(unsafe { (*args).hHwContext }.addr(), Ordering::Release);
    // SAFETY: the arguments are the system's.
    unsafe { driver::create_hw_context(device, args) }
}

/// The engine hangs until it is reset.
static HANGS: AtomicBool = AtomicBool::new(false);

unsafe extern "win64" fn never_done(_: HANDLE, _: *const DXGKARG_SUBMITCOMMANDTOHWQUEUE) -> NTSTATUS {
    HANGS.store(true, Ordering::Release);
    STATUS_SUCCESS
}

unsafe extern "win64" fn names_the_context(context: HANDLE, _: *mut DXGKARG_RESETHWENGINE) -> NTSTATUS {
    HANGS.store(false, Ordering::Release);
    let adapter = driver::adapter(context);
    let args = DXGKARGCB_INVALIDATEHWCONTEXT {
        hAdapter: adapter.handle,
        hHwContext: std::ptr::without_provenance_mut(CONTEXT.load(Ordering::Acquire)),
        Flags: DXGK_INVALIDATEHWCONTEXTFLAGS::new(),
    };
    // SAFETY: the arguments live during the call.
    assert_eq!(unsafe { adapter.interface.DxgkCbInvalidateHwContext.unwrap()(&raw const args) }, STATUS_SUCCESS);
    STATUS_SUCCESS
}

unsafe extern "win64" fn never_off(_: HANDLE, _: *const DXGKARG_SUSPENDCONTEXT) -> NTSTATUS {
    if HANGS.load(Ordering::Acquire) { STATUS_PENDING } else { STATUS_SUCCESS }
}

/// Nothing is done, and no context leaves its engine before that is reset.
fn hangs(table: &mut DRIVER_INITIALIZATION_DATA) {
    table.DxgkDdiCreateHwContext = Some(notes_its_context);
    table.DxgkDdiSubmitCommandToHwQueue = Some(never_done);
    table.DxgkDdiSuspendContext = Some(never_off);
    table.DxgkDdiResetHwEngine = Some(names_the_context);
}

unsafe extern "win64" fn off_at_once(_: HANDLE, _: *const DXGKARG_SUSPENDCONTEXT) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "win64" fn takes_long(_: HANDLE, _: *const DXGKARG_SUBMITCOMMANDTOHWQUEUE) -> NTSTATUS {
    STATUS_SUCCESS
}

/// "STATUS_SUCCESS: the context is already suspended": nobody else suspended it, so that it is resumed like one whose suspension is reported later.
/// [d3dkmddi: DXGKDDI_SUSPENDCONTEXT]
#[test]
fn a_context_that_is_off_its_engine_when_the_call_returns_is_resumed() {
    for version in scheduling() {
        let (bench, luid) = started(version, |table| {
            table.DxgkDdiSubmitCommandToHwQueue = Some(takes_long);
            table.DxgkDdiSuspendContext = Some(off_at_once);
        });
        let queue = open(&bench, luid).unwrap();
        queue.submit(1).unwrap();
        bench.machine.start_ddi_log(luid);
        (0..6).for_each(|_| bench.machine.advance(TdrSettings::default().delay));
        let log = bench.machine.take_ddi_log(luid);
        let mut calls: Vec<_> = log.iter().filter(|name| name.ends_with("Context")).map(String::as_str).collect();
        assert!(calls.len() >= 4, "{}: {calls:?}", version.name);
        while let [rest @ .., "DxgkDdiSuspendContext", "DxgkDdiResumeContext"] = calls.as_slice() {
            calls.truncate(rest.len());
        }
        assert_eq!(calls, [""; 0], "{}: each suspension is followed by its resumption", version.name);
        // The driver said of a context that runs that it was suspended already.
        let early = bench.machine.take_rescues();
        assert!(matches!(early.as_slice(), [(Rescue::EarlySuspension, 2..)]), "{}: {early:?}", version.name);
        let told = "DxgkDdiSuspendContext answered STATUS_SUCCESS for a context of node 0 that was not suspended";
        assert!(bench.machine.debug_log().iter().any(|line| line.contains(told)), "{}", version.name);
        assert_eq!(bench.machine.tdr_reports(luid).len(), 0, "{}", version.name);
        queue.process.terminate();
        bench.machine.remove(luid).unwrap();
        assert_eq!(bench.machine.bugcheck(), None, "{}", version.name);
    }
}

/// The node takes one buffer at a time, and does nothing with it.
/// [d3dkmdt: DXGK_NODEMETADATA]
#[test]
fn a_submission_that_waits_for_a_full_queue_longer_than_the_timeout_is_told_by_name() {
    let config = MachineConfig { ram: 64 << 20, clock: Clock::manual(), ..MachineConfig::default() };
    let mutant = Mutant {
        table: |table| table.DxgkDdiSubmitCommandToHwQueue = Some(takes_long),
        node: |node| node.Flags = { node.Flags }.with_MaxInFlightHwQueueBuffers(1),
        in_start: offers_scheduling,
        ..SOUND
    };
    let bench = Bench::with_config(mutant, config).unwrap();
    bench.machine.set_user_mode_driver(bench.driver, "minimal_umd.dll").unwrap();
    let luid = bench.start().unwrap();
    let queue = open(&bench, luid).unwrap();
    queue.submit(1).unwrap();
    let told = || {
        let log = bench.machine.debug_log();
        log.iter().filter(|line| line.contains("MaxInFlightHwQueueBuffers 1 for node 0")).count()
    };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| queue.submit(2));
        let is_waiting = || bench.machine.inspect(luid).unwrap().to_string().contains(" 1 waiters");
        while !is_waiting() && !waits.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(told(), 0, "no time has passed");
        while told() == 0 && !waits.is_finished() {
            bench.machine.advance(TdrSettings::default().delay);
            std::thread::yield_now();
        }
        (0..4).for_each(|_| bench.machine.advance(TdrSettings::default().delay));
        assert_eq!(told(), 1, "it is told once: {:?}", bench.machine.debug_log());
        queue.process.terminate();
        assert!(waits.join().unwrap().is_err(), "nobody waits for a process that is gone");
    });
    bench.machine.remove(luid).unwrap();
    assert_eq!(bench.machine.bugcheck(), None);
}

unsafe extern "win64" fn another_fence(context: *mut c_void) -> BOOLEAN {
    let adapter = driver::adapter(context);
    let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
    data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED;
    let mut arm = DXGKARGCB_NOTIFY_INTERRUPT_DATA_SuspendContextCompleted::zeroed();
    arm.hContext = std::ptr::without_provenance_mut(CONTEXT.load(Ordering::Acquire));
    arm.ContextSuspendFence = 0x7777;
    data.u.SuspendContextCompleted = arm;
    // SAFETY: handle and data are good.
    unsafe { adapter.interface.DxgkCbNotifyInterrupt.unwrap()(adapter.handle, &raw const data) };
    1
}

unsafe extern "win64" fn reports_another_suspension(context: HANDLE, _: *const DXGKARG_SUSPENDCONTEXT) -> NTSTATUS {
    let adapter = driver::adapter(context);
    let mut result = 0;
    let synchronize = adapter.interface.DxgkCbSynchronizeExecution.unwrap();
    // SAFETY: all arguments are good.
    let _ = unsafe { synchronize(adapter.handle, Some(another_fence), context, 0, &raw mut result) };
    STATUS_PENDING
}

/// One after the other, for the context is known by one place.
#[test]
fn an_engine_that_hangs_is_reset_and_a_driver_that_reports_what_nobody_asked_for_stops_the_machine() {
    for version in scheduling() {
        let (bench, luid) = started(version, hangs);
        let queue = open(&bench, luid).unwrap();
        queue.submit(1).unwrap();
        // Seen, then asked off its engine, then reset.
        (0..4).for_each(|_| bench.machine.advance(TdrSettings::default().delay));
        let reports = bench.machine.tdr_reports(luid);
        let outcomes: Vec<_> = reports.iter().map(|report| report.outcome).collect();
        assert_eq!(outcomes, [TdrOutcome::EngineReset], "{}", version.name);
        assert_eq!(queue.submit(2), Err(STATUS_DEVICE_REMOVED), "{}: the device is lost", version.name);
        // Another process has its queue.
        let other = open(&bench, luid).unwrap_or_else(|status| panic!("{}: {status}", version.name));
        queue.process.exit();
        end(&bench, luid, other);
    }
    for version in scheduling() {
        let (bench, luid) = started(version, |table| {
            hangs(table);
            table.DxgkDdiSuspendContext = Some(reports_another_suspension);
        });
        let queue = open(&bench, luid).unwrap();
        queue.submit(1).unwrap();
        for _ in 0..4 {
            if bench.machine.bugcheck().is_none() {
                bench.machine.advance(TdrSettings::default().delay);
            }
        }
        let bugcheck = bench.machine.bugcheck().expect(version.name);
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x119, 0x11), "{}: {bugcheck}", version.name);
        queue.process.exit();
    }
}

/// A driver that refuses a queue answers for it, by name, and the process keeps what it had.
#[test]
fn a_queue_that_the_driver_refuses_is_refused_by_its_status() {
    unsafe extern "win64" fn refuses(_: HANDLE, _: *mut DXGKARG_CREATEHWQUEUE) -> NTSTATUS {
        STATUS_INSUFFICIENT_RESOURCES
    }
    for version in scheduling() {
        let (bench, luid) = started(version, |table| table.DxgkDdiCreateHwQueue = Some(refuses));
        let before = bench.machine.debug_log().len();
        assert_eq!(open(&bench, luid).err(), Some(STATUS_INSUFFICIENT_RESOURCES), "{}", version.name);
        let log = bench.machine.debug_log().split_off(before);
        let told = log.iter().any(|line| line.to_string().contains("DxgkDdiCreateHwQueue answered"));
        assert!(told, "{}: {log:?}", version.name);
        bench.machine.remove(luid).unwrap();
        assert_eq!(bench.machine.bugcheck(), None, "{}", version.name);
    }
}
