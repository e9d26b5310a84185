//! Native fences on a miniport whose GPU the test plays. [native-gpu-fence-objects]

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use crate::minimal::{Adapter, Mutant};
use crate::user_mode::app::*;
use crate::user_mode::{DRIVER, Report, get_os_caps};
use dxgkrnl::{Rescue, StartError, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

#[test]
fn an_unwatched_fence_raises_no_interrupt_and_a_watched_one_exactly_when_its_value_comes() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 0);
    let current = as_gpu(fence.user);
    for value in 1..=1000 {
        assert!(!bench.world.signal(&bench.bus, fence.system, current, value));
    }
    assert_eq!((native_reports(&bench), bench.world.updates.load(Ordering::Relaxed)), (0, 0));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| app.wait(&[(fence.handle, 1003)], false, None));
        eventually("the wait is monitored", || bench.world.monitored(fence.system) == 1002);
        assert!(!bench.world.signal(&bench.bus, fence.system, current, 1002));
        assert!(bench.world.signal(&bench.bus, fence.system, current, 1003));
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
    eventually("nobody waits any more", || bench.world.monitored(fence.system) == u64::MAX);
    assert_eq!((native_reports(&bench), bench.world.updates.load(Ordering::Relaxed)), (1, 2));
    app.destroy_fence(fence.handle).unwrap();
    bench.end();
}

#[test]
fn monitored_value_follows_the_least_of_several_waiters() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 41);
    let current = as_gpu(fence.user);
    let events: Vec<OwnedFd> = [50, 42, 45]
        .map(|value| {
            let event = event();
            app.wait(&[(fence.handle, value)], false, Some(&event)).unwrap();
            event
        })
        .into();
    assert_eq!(bench.world.monitored(fence.system), 41);
    bench.world.signal(&bench.bus, fence.system, current, 42);
    eventually("the next waiter counts", || bench.world.monitored(fence.system) == 44);
    eventually("its waiter is woken", || is_signaled(&events[1]));
    assert_eq!([0, 2].map(|index| is_signaled(&events[index])), [false, false]);
    bench.world.signal(&bench.bus, fence.system, current, 60);
    eventually("nobody waits any more", || bench.world.monitored(fence.system) == u64::MAX);
    eventually("the others are woken", || is_signaled(&events[0]));
    eventually("the others are woken", || is_signaled(&events[2]));
    assert!(!is_signaled(&events[1]), "nobody is woken twice");
    assert_eq!(app.wait(&[(fence.handle, 60)], false, None), Ok(()), "a value that is passed needs no wait");
    bench.end();
}

#[test]
fn a_report_without_names_is_a_look_at_every_fence_that_is_waited_for() {
    let bench = bench();
    let app = App::new(&bench);
    let fences = [app.fence(&bench, 0), app.fence(&bench, 0)];
    let currents = [0, 1].map(|index| as_gpu(fences[index].user));
    let all = event();
    app.wait(&[(fences[0].handle, 1), (fences[1].handle, 1)], false, Some(&all)).unwrap();
    currents[0].store(1, Ordering::SeqCst);
    bench.world.report(&bench.bus, Report::Scan);
    eventually("one condition came true", || bench.world.monitored(fences[0].system) == u64::MAX);
    assert!(!is_signaled(&all), "one of two is not all");
    currents[1].store(1, Ordering::SeqCst);
    bench.world.report(&bench.bus, Report::Scan);
    eventually("all conditions came true", || is_signaled(&all));
    // A report too many is allowed.
    bench.world.report(&bench.bus, Report::Fences(fences.iter().map(|fence| fence.system).collect()));
    eventually("the report was read", || native_reports(&bench) == 3);
    bench.end();
}

#[test]
fn a_wait_for_any_ends_once_and_leaves_no_fence_monitored() {
    let bench = bench();
    let app = App::new(&bench);
    let fences = [app.fence(&bench, 0), app.fence(&bench, 0)];
    let any = event();
    app.wait(&[(fences[0].handle, 7), (fences[1].handle, 9)], true, Some(&any)).unwrap();
    assert_eq!(fences.each_ref().map(|fence| bench.world.monitored(fence.system)), [6, 8]);
    bench.world.signal(&bench.bus, fences[1].system, as_gpu(fences[1].user), 9);
    eventually("the other fence is let go", || {
        fences.iter().all(|fence| bench.world.monitored(fence.system) == u64::MAX)
    });
    eventually("the event is signalled", || is_signaled(&any));
    assert!(!is_signaled(&any));
    bench.end();
}

#[test]
fn a_signal_of_the_cpu_goes_through_the_driver_and_wakes() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 5);
    let woken = event();
    app.wait(&[(fence.handle, 6)], false, Some(&woken)).unwrap();
    app.signal(fence.handle, 6, D3DDDICB_SIGNALFLAGS::new()).unwrap();
    assert!(is_signaled(&woken), "without any interrupt");
    assert_eq!(*bench.world.currents.lock().unwrap(), [(6, 0)]);
    assert_eq!(word(fence.user).load(Ordering::SeqCst), 6);
    assert_eq!(app.signal(fence.handle, 5, D3DDDICB_SIGNALFLAGS::new()), Err(STATUS_INVALID_PARAMETER));
    let event_flag = D3DDDICB_SIGNALFLAGS::new().with_EnqueueCpuEvent(true);
    assert_eq!(app.signal(fence.handle, 9, event_flag), Err(STATUS_INVALID_PARAMETER));
    app.signal(fence.handle, 1, D3DDDICB_SIGNALFLAGS::new().with_AllowFenceRewind(true)).unwrap();
    assert_eq!(word(fence.user).load(Ordering::SeqCst), 1);
    assert_eq!(native_reports(&bench), 0);
    bench.end();
}

#[test]
fn private_fences_share_a_page_that_user_mode_reads_and_never_writes() {
    let bench = bench();
    let app = App::new(&bench);
    let made = [app.try_fence(1).unwrap(), app.try_fence(2).unwrap()];
    let [a, b] = made.each_ref().map(|made| made.Info.NativeFenceMapping);
    assert_eq!(a.CurrentValueCpuVa.addr() >> 12, b.CurrentValueCpuVa.addr() >> 12);
    assert_eq!(a.CurrentValueGpuVa >> 12, b.CurrentValueGpuVa >> 12);
    assert_ne!(a.CurrentValueGpuVa >> 12, a.MonitoredValueGpuVa >> 12, "apart from the monitored ones");
    assert!(!is_writable(a.CurrentValueCpuVa));
    assert_eq!(
        (word(a.CurrentValueCpuVa).load(Ordering::SeqCst), word(b.CurrentValueCpuVa).load(Ordering::SeqCst)),
        (1, 2)
    );
    let mut many: Vec<_> = (0..200).map(|value| app.try_fence(value).unwrap()).collect();
    let mut places: Vec<_> = many.iter().map(|made| made.Info.NativeFenceMapping.CurrentValueGpuVa).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 200, "each has its own place");
    many.drain(..).for_each(|made| app.destroy_fence(made.hSyncObject).unwrap());
    bench.end();
}

#[test]
fn a_fence_is_closed_before_it_is_destroyed_and_who_waits_is_released() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 0);
    let (woken, _) = (event(), bench.world.take_calls());
    app.wait(&[(fence.handle, 1)], false, Some(&woken)).unwrap();
    app.destroy_fence(fence.handle).unwrap();
    assert!(is_signaled(&woken));
    assert_eq!(bench.world.take_calls(), ["CloseNativeFence", "DestroyNativeFence"]);
    assert_eq!(app.destroy_fence(fence.handle), Err(STATUS_INVALID_HANDLE));
    assert_eq!(app.wait(&[(fence.handle, 1)], false, None), Err(STATUS_INVALID_HANDLE));
    bench.end();
}

#[test]
fn a_destroyed_fence_in_a_report_stops_the_machine() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 0);
    app.destroy_fence(fence.handle).unwrap();
    bench.world.report(&bench.bus, Report::Fences(vec![fence.system]));
    let bugcheck = bench.stop();
    assert!(bugcheck.reason.contains("NATIVE_FENCE_SIGNALED"), "{bugcheck}");
}

#[test]
fn failing_updates_of_fence_values_have_their_documented_subcodes() {
    for (name, subcode) in [("UpdateMonitoredValues", 0x12), ("UpdateCurrentValuesFromCpu", 0x13)] {
        let bench = bench();
        let app = App::new(&bench);
        let fence = app.fence(&bench, 0);
        bench.world.failing.lock().unwrap().insert(name, STATUS_UNSUCCESSFUL);
        let _ = match subcode {
            0x12 => app.wait(&[(fence.handle, 1)], false, Some(&event())),
            _ => app.signal(fence.handle, 1, D3DDDICB_SIGNALFLAGS::new()),
        };
        let bugcheck = bench.stop();
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x119, subcode), "{bugcheck}");
        assert_eq!(bugcheck.parameters[1], u64::from(STATUS_UNSUCCESSFUL.0 as u32));
        assert_eq!(app.try_fence(0).err(), Some(STATUS_DEVICE_REMOVED), "nothing goes on after a stop");
    }
}

/// [d3dkmddi: DXGKCB_FEATURE_NATIVEFENCE_GETOSCAPS_1]
#[test]
fn a_question_for_the_capabilities_of_the_system_without_a_place_for_them_is_a_misuse_of_the_callback() {
    fn in_start(adapter: &mut Adapter) {
        (DRIVER.in_start)(adapter);
        let ask = get_os_caps(adapter).expect("native fences are enabled");
        // SAFETY: NULL is refused.
        assert_eq!(unsafe { ask(std::ptr::null_mut()) }, STATUS_INVALID_PARAMETER);
    }
    let bench = bench_of(Mutant { in_start, ..DRIVER });
    assert_eq!(bench.machine.take_rescues(), [(Rescue::MisusedCallback, 1)]);
    let log = bench.machine.debug_log();
    let told = "GetOSCaps answers STATUS_INVALID_PARAMETER";
    assert!(log.iter().any(|line| line.contains(told) && line.contains("is 0x0")), "{log:#?}");
}

unsafe extern "win64" fn writes_no_monitored_value(_: *const DXGKARG_UPDATEMONITOREDVALUES) -> NTSTATUS {
    STATUS_SUCCESS
}

unsafe extern "win64" fn writes_no_current_value(_: *const DXGKARG_UPDATECURRENTVALUESFROMCPU) -> NTSTATUS {
    STATUS_SUCCESS
}

/// Both functions are to write the values of UpdatedValueArray. [d3dkmddi: DXGKDDI_UPDATEMONITOREDVALUES, DXGKDDI_UPDATECURRENTVALUESFROMCPU]
#[test]
fn values_of_fences_that_a_driver_calls_written_and_has_not_written_are_named_with_function_and_value() {
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| {
        (DRIVER.table)(table);
        table.DxgkDdiUpdateMonitoredValues = Some(writes_no_monitored_value);
        table.DxgkDdiUpdateCurrentValuesFromCpu = Some(writes_no_current_value);
    };
    let bench = bench_of(Mutant { table, ..DRIVER });
    let app = App::new(&bench);
    let fence = app.fence(&bench, 3);
    // A program's own commands reach the current value, too: it is a finding, and no bug check.
    let _ = app.signal(fence.handle, 8, D3DDDICB_SIGNALFLAGS::new());
    assert_eq!(bench.machine.take_rescues(), [(Rescue::UnwrittenValue, 1)]);
    let told = "DxgkDdiUpdateCurrentValuesFromCpu answered STATUS_SUCCESS (0x00000000), and CurrentValueKernelCpuVa[0] points to 0x3: expected is 0x8, which is UpdatedValueArray[0]";
    let log = bench.machine.debug_log();
    assert!(log.iter().any(|line| line.contains(told)), "{log:?}");
    // Nobody but the driver writes the monitored value.
    let _ = app.wait(&[(fence.handle, 9)], false, Some(&event()));
    let bugcheck = bench.stop();
    let told =
        "DxgkDdiUpdateMonitoredValues answered STATUS_SUCCESS (0x00000000), and MonitoredValueKernelCpuVa[0] points to";
    assert!(bugcheck.code == 0x113 && bugcheck.reason.starts_with(told), "{bugcheck}");
    let expected = "expected is 0x8, which is UpdatedValueArray[0] [d3dkmddi: DXGKDDI_UPDATEMONITOREDVALUES]";
    assert!(bugcheck.reason.contains(expected), "{bugcheck}");
}

#[test]
fn an_adapter_that_claims_native_fences_has_every_function_for_them() {
    macro_rules! without {
        ($($slot:ident)*) => {
            [$((stringify!($slot), (|table| {
                (DRIVER.table)(table);
                table.$slot = None;
            }) as fn(&mut DRIVER_INITIALIZATION_DATA))),*]
        };
    }
    for (slot, table) in without!(
        DxgkDdiCreateNativeFence DxgkDdiDestroyNativeFence DxgkDdiOpenNativeFence DxgkDdiCloseNativeFence
        DxgkDdiUpdateMonitoredValues DxgkDdiUpdateCurrentValuesFromCpu
    ) {
        let bench = crate::minimal::Bench::new(Mutant { table, ..DRIVER }).unwrap();
        assert_eq!(bench.start().err(), Some(StartError::MissingDdi { slot, rule: "NativeGpuFence" }));
    }
}

#[test]
fn waits_and_signals_with_bad_arguments_are_refused_by_name() {
    let bench = bench();
    let (app, other) = (App::new(&bench), App::new(&bench));
    let (fence, foreign) = (app.fence(&bench, 0), other.fence(&bench, 0));
    assert_eq!(app.wait(&[], false, None), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(app.wait(&[(fence.handle, 0); 65], false, None), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(app.wait(&[(app.device, 0)], false, None), Err(STATUS_INVALID_HANDLE), "a device is no fence");
    let stranger = foreign.handle.wrapping_add(0x1000);
    assert_eq!(app.wait(&[(stranger, 0)], false, None), Err(STATUS_INVALID_HANDLE));
    let file = std::fs::File::open("/proc/self/status").unwrap().into();
    assert_eq!(app.wait(&[(fence.handle, 1)], false, Some(&file)), Err(STATUS_OBJECT_TYPE_MISMATCH));
    assert_eq!(bench.world.monitored(fence.system), u64::MAX, "a refused wait leaves nothing behind");
    let intra = D3DKMT_CREATENATIVEFENCE { hDevice: app.device, ..Zeroed::zeroed() };
    let _attached = app.process.attach();
    let refused = |change: fn(&mut D3DKMT_CREATENATIVEFENCE)| {
        let mut args = intra;
        change(&mut args);
        call(thunks().D3DKMTCreateNativeFence, args).err()
    };
    assert_eq!(refused(|args| args.Info.Type = D3DDDI_NATIVEFENCE_TYPE(1)), Some(STATUS_NOT_SUPPORTED));
    assert_eq!(refused(|args| args.Info.Type = D3DDDI_NATIVEFENCE_TYPE(7)), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(refused(|args| args.Reserved[3] = 1), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(refused(|args| args.Info.EngineAffinity = 2), Some(STATUS_INVALID_PARAMETER));
    drop(_attached);
    bench.end();
}
