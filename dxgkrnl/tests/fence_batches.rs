//! Values of many fences in one DDI call, what a driver may report, and where it finds fences. [native-gpu-fence-objects]

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
mod minimal;
#[allow(dead_code)]
mod user_mode;

use std::sync::atomic::Ordering;

use dxgkrnl::MachineConfig;
use minimal::Mutant;
use user_mode::app::*;
use user_mode::{Batch, DRIVER, Report};
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

const NONE: u64 = u64::MAX;

fn take_batches(bench: &Bench) -> Vec<Batch> {
    std::mem::take(&mut *bench.world.batches.lock().unwrap())
}

/// Values of the batches: monitored or current, and how many fences each names.
fn shapes(batches: &[Batch]) -> Vec<(bool, usize)> {
    batches.iter().map(|batch| (batch.monitored, batch.values.len())).collect()
}

#[test]
fn a_wait_for_many_fences_is_one_update_and_so_is_its_end() {
    let bench = bench();
    let app = App::new(&bench);
    let fences: Vec<Fence> = (0..64).map(|_| app.fence(&bench, 0)).collect();
    let conditions: Vec<_> = fences.iter().zip(10..).map(|(fence, value)| (fence.handle, value)).collect();
    let all = event();
    app.wait(&conditions, false, Some(&all)).unwrap();
    let batches = take_batches(&bench);
    assert_eq!(shapes(&batches), [(true, 64)]);
    assert!(fences.iter().zip(9..).all(|(fence, value)| bench.world.monitored(fence.system) == value));
    app.signal_all(&conditions).unwrap();
    assert!(is_signaled(&all));
    assert_eq!(shapes(&take_batches(&bench)), [(false, 64), (true, 64)]);
    assert!(fences.iter().all(|fence| bench.world.monitored(fence.system) == NONE));
    bench.end();
}

#[test]
fn a_signal_of_many_fences_is_all_or_nothing() {
    let bench = bench();
    let app = App::new(&bench);
    let (a, b) = (app.fence(&bench, 5), app.fence(&bench, 5));
    assert_eq!(app.signal_all(&[(a.handle, 6), (b.handle, 4)]), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(app.signal_all(&[(a.handle, 8), (a.handle, 7)]), Err(STATUS_INVALID_PARAMETER));
    assert!(take_batches(&bench).is_empty());
    assert_eq!([&a, &b].map(|fence| word(fence.user).load(Ordering::SeqCst)), [5, 5]);
    app.signal_all(&[(a.handle, 6), (b.handle, 9), (a.handle, 7)]).unwrap();
    assert_eq!(take_batches(&bench)[0].values, [(a.system, 7), (b.system, 9)], "the last value of each counts");
    bench.end();
}

#[test]
fn a_fence_named_twice_in_a_wait_needs_both_values() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 0);
    let both = event();
    app.wait(&[(fence.handle, 4), (fence.handle, 2)], false, Some(&both)).unwrap();
    assert_eq!(bench.world.monitored(fence.system), 1);
    app.signal(fence.handle, 2, D3DDDICB_SIGNALFLAGS::new()).unwrap();
    assert!(!is_signaled(&both));
    assert_eq!(bench.world.monitored(fence.system), 3);
    app.signal(fence.handle, 4, D3DDDICB_SIGNALFLAGS::new()).unwrap();
    assert!(is_signaled(&both));
    bench.end();
}

#[test]
fn fences_reported_together_are_updated_together() {
    let bench = bench();
    let app = App::new(&bench);
    let fences: Vec<Fence> = (0..8).map(|_| app.fence(&bench, 0)).collect();
    let waits: Vec<_> = fences
        .iter()
        .map(|fence| {
            let wait = event();
            app.wait(&[(fence.handle, 1)], false, Some(&wait)).unwrap();
            wait
        })
        .collect();
    take_batches(&bench);
    fences.iter().for_each(|fence| as_gpu(fence.user).store(1, Ordering::SeqCst));
    bench.world.report(&bench.bus, Report::Fences(fences.iter().map(|fence| fence.system).collect()));
    eventually("everybody is woken", || fences.iter().all(|fence| bench.world.monitored(fence.system) == NONE));
    eventually("the last is woken", || is_signaled(&waits[7]));
    assert_eq!(shapes(&take_batches(&bench)), [(true, 8)]);
    bench.end();
}

#[test]
fn kernel_addresses_are_gone_after_the_call() {
    let config = MachineConfig { short_lived_addresses: true, ..MachineConfig::default() };
    let bench = bench_with(DRIVER, config);
    let app = App::new(&bench);
    let fences = [app.fence(&bench, 0), app.fence(&bench, 0)];
    let conditions = fences.each_ref().map(|fence| (fence.handle, 3));
    let woken = event();
    app.wait(&conditions, false, Some(&woken)).unwrap();
    app.signal_all(&conditions).unwrap();
    assert!(is_signaled(&woken));
    assert_eq!(fences.each_ref().map(|fence| word(fence.user).load(Ordering::SeqCst)), [3, 3]);
    let mut addresses: Vec<usize> = take_batches(&bench).into_iter().flat_map(|batch| batch.addresses).collect();
    assert_eq!(addresses.len(), 6);
    assert!(addresses.iter().all(|address| !is_mapped(*address)));
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 6, "no call sees the address of another");
    bench.end();
}

#[test]
fn a_report_for_all_kinds_looks_at_monitored_fences_too() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 0);
    let woken = event();
    app.wait(&[(fence.handle, 1)], false, Some(&woken)).unwrap();
    as_gpu(fence.user).store(1, Ordering::SeqCst);
    bench.world.report(&bench.bus, Report::ScanAll);
    eventually("the native waiter is woken", || is_signaled(&woken));
    bench.end();
}

#[test]
fn reports_too_many_and_reports_of_several_signals_are_fine() {
    let bench = bench();
    let app = App::new(&bench);
    let (watched, quiet) = (app.fence(&bench, 0), app.fence(&bench, 0));
    let woken = event();
    app.wait(&[(watched.handle, 10)], false, Some(&woken)).unwrap();
    // Nobody waits for one, and the other has not come far enough.
    bench.world.report(&bench.bus, Report::Fences(vec![quiet.system, watched.system, watched.system]));
    bench.world.report(&bench.bus, Report::Scan);
    bench.world.report(&bench.bus, Report::Fences(Vec::new()));
    eventually("all reports are read", || native_reports(&bench) == 3);
    assert!(!is_signaled(&woken));
    assert_eq!(bench.world.monitored(watched.system), 9, "the wait still counts");
    // Three signals, one interrupt.
    for value in [11, 12, 13] {
        as_gpu(watched.user).store(value, Ordering::SeqCst);
    }
    bench.world.report(&bench.bus, Report::Scan);
    eventually("the waiter is woken once", || is_signaled(&woken));
    bench.end();
}

#[test]
fn a_queue_is_named_only_by_drivers_that_claim_the_optimised_interrupt() {
    let bench = bench();
    bench.world.report(&bench.bus, Report::OfQueue(0x1000));
    assert!(bench.stop().reason.contains("hHWQueue"));
}

fn caps(change: fn(&mut DXGK_NATIVE_FENCE_CAPS)) -> Mutant {
    let mut caps = DRIVER.native_fence_caps.unwrap();
    change(&mut caps);
    Mutant { native_fence_caps: Some(caps), ..DRIVER }
}

#[test]
fn a_driver_that_needs_it_has_every_fence_in_the_paging_process_too() {
    let bench = bench();
    App::new(&bench).fence(&bench, 0);
    assert_eq!(*bench.world.system_addresses.lock().unwrap(), [(0, 0)], "not unless it asks");
    bench.end();
    let bench = bench_of(caps(|caps| caps.MapToGpuSystemProcess = 1));
    let app = App::new(&bench);
    let fences: Vec<Fence> = (0..3).map(|_| app.fence(&bench, 0)).collect();
    let mut addresses: Vec<u64> = bench
        .world
        .system_addresses
        .lock()
        .unwrap()
        .iter()
        .flat_map(|(current, monitored)| [*current, *monitored])
        .collect();
    assert!(addresses.iter().all(|address| *address != 0 && address % 8 == 0), "{addresses:x?}");
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 2 * fences.len());
    bench.end();
}

#[test]
fn private_fences_are_packed_by_the_drivers_stride() {
    for (stride, change) in [
        (8, (|caps| caps.MonitoredValueStride = 8) as fn(&mut DXGK_NATIVE_FENCE_CAPS)),
        (64, |caps| caps.MonitoredValueStride = 64),
        (256, |caps| caps.MonitoredValueStride = 256),
    ] {
        let bench = bench_of(caps(change));
        let app = App::new(&bench);
        let mut places: Vec<u64> =
            (0..8).map(|_| app.try_fence(0).unwrap().Info.NativeFenceMapping.MonitoredValueGpuVa).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] == stride), "stride {stride}: {places:x?}");
        bench.end();
    }
}

#[test]
fn failing_batches_stop_the_machine_with_their_subcodes() {
    for (name, subcode) in [("UpdateMonitoredValues", 0x12), ("UpdateCurrentValuesFromCpu", 0x13)] {
        let bench = bench();
        let app = App::new(&bench);
        let fences = [app.fence(&bench, 0), app.fence(&bench, 0)];
        let conditions = fences.each_ref().map(|fence| (fence.handle, 3));
        bench.world.failing.lock().unwrap().insert(name, STATUS_UNSUCCESSFUL);
        let _ =
            if subcode == 0x12 { app.wait(&conditions, false, Some(&event())) } else { app.signal_all(&conditions) };
        let bugcheck = bench.stop();
        assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x119, subcode), "{bugcheck}");
    }
}

#[test]
fn types_that_the_system_has_no_storage_for_are_refused() {
    let bench = bench();
    let app = App::new(&bench);
    let _attached = app.process.attach();
    let mut args = D3DKMT_CREATENATIVEFENCE { hDevice: app.device, ..wddm_ddi::Zeroed::zeroed() };
    args.Info.Type = D3DDDI_NATIVEFENCE_TYPE::D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU;
    bench.world.take_calls();
    assert_eq!(call(dxgkrnl::thunks().D3DKMTCreateNativeFence, args).err(), Some(STATUS_NOT_SUPPORTED));
    assert!(bench.world.take_calls().is_empty(), "the driver is not asked");
    drop(_attached);
    bench.end();
}
