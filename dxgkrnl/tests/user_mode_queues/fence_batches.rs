//! Values of many fences in one DDI call, what a driver may report, and where it finds fences. [native-gpu-fence-objects]

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use crate::minimal::Mutant;
use crate::user_mode::app::*;
use crate::user_mode::{Batch, DRIVER, Report};
use dxgkrnl::MachineConfig;
use dxgkrnl::bus::Bus;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::D3DKMT_HANDLE;

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

/// A monitored fence, and where its value is.
fn monitored_fence(app: &App) -> (D3DKMT_HANDLE, *mut c_void) {
    let _attached = app.process.attach();
    let mut args = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { hDevice: app.device, ..wddm_ddi::Zeroed::zeroed() };
    args.Info.Type = D3DDDI_SYNCHRONIZATIONOBJECT_TYPE::D3DDDI_MONITORED_FENCE;
    let made = call(dxgkrnl::D3DKMTCreateSynchronizationObject2, args).unwrap();
    // SAFETY: every arm is plain numbers.
    (made.hSyncObject, unsafe { made.Info.u.MonitoredFence }.FenceValueCPUVirtualAddress)
}

#[test]
fn only_a_report_for_all_kinds_looks_at_monitored_fences() {
    let bench = bench();
    let app = App::new(&bench);
    let native = app.fence(&bench, 0);
    let (monitored, value) = monitored_fence(&app);
    let woken = event();
    app.wait(&[(monitored, 1)], false, Some(&woken)).unwrap();
    // The GPU writes the monitored fence and is silent about it.
    as_gpu(value).store(1, Ordering::SeqCst);
    let reported = |value, report| {
        let native_woken = event();
        app.wait(&[(native.handle, value)], false, Some(&native_woken)).unwrap();
        as_gpu(native.user).store(value, Ordering::SeqCst);
        bench.world.report(&bench.bus, report);
        eventually("the native waiter is woken", || is_signaled(&native_woken));
    };
    reported(1, Report::Scan);
    reported(2, Report::Fences(vec![native.system]));
    // Deferred calls run one after the other: those of the first two reports are over when a third one's has begun.
    reported(3, Report::Scan);
    assert!(!is_signaled(&woken), "a look at native fences is no look at monitored ones");
    reported(4, Report::ScanAll);
    eventually("the monitored waiter is woken", || is_signaled(&woken));
    bench.end();
}

#[test]
fn no_interrupt_is_served_while_monitored_values_are_updated() {
    let bench = bench();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 0);
    let (bus, woken) = (std::sync::Arc::clone(&bench.bus), event());
    let (sender, interrupted) = std::sync::mpsc::channel();
    *bench.world.during_update.lock().unwrap() = Some(Box::new(move || {
        let thread = std::thread::spawn(move || bus.register_write(0, crate::minimal::bus::REPORT, 4, 0));
        sender.send(thread).unwrap();
        // Time in which an interrupt routine that nothing delays runs.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }));
    app.wait(&[(fence.handle, 1)], false, Some(&woken)).unwrap();
    interrupted.recv().unwrap().join().unwrap();
    eventually("the interrupt is served after all", || bench.world.interrupts.load(Ordering::SeqCst) != 0);
    assert_eq!(bench.world.overlaps.load(Ordering::SeqCst), 0, "interrupt routines during an update");
    bench.end();
}

#[test]
fn a_value_that_comes_while_the_monitored_one_is_updated_ends_its_wait_without_an_interrupt() {
    let bench = bench();
    let app = App::new(&bench);
    let fences = [app.fence(&bench, 0), app.fence(&bench, 0)];
    for (value, watched) in [(1, &fences[..1]), (2, &fences[..])] {
        let (current, woken) = (as_gpu(watched[0].user), event());
        let current = std::ptr::from_ref(current).expose_provenance();
        *bench.world.during_update.lock().unwrap() = Some(Box::new(move || {
            // It has not seen the new monitored value, so it raises no interrupt.
            word(std::ptr::with_exposed_provenance_mut(current)).store(value, Ordering::SeqCst);
        }));
        let conditions: Vec<_> = watched.iter().map(|fence| (fence.handle, value)).collect();
        app.wait(&conditions, true, Some(&woken)).unwrap();
        assert!(is_signaled(&woken), "the current value is read again after the update");
        assert_eq!(bench.world.monitored(watched[0].system), NONE);
    }
    assert_eq!(native_reports(&bench), 0);
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
