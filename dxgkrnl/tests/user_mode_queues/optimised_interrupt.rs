//! Interrupts of native fences that name a queue instead of fences: its log of signals says which.
//! [native-gpu-fence-objects: optimised native fence signaled interrupt]

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use crate::minimal::Mutant;
use crate::user_mode::app::*;
use crate::user_mode::{DRIVER, Report};
use dxgkrnl::FenceReports;
use wddm_ddi::km::DXGK_DRIVERCAPS;
use wddm_ddi::kmt::D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS;

fn optimised() -> Bench {
    let claim = |caps: &mut DXGK_DRIVERCAPS| {
        caps.SchedulingCaps =
            caps.SchedulingCaps.with_NativeGpuFence(true).with_OptimizedNativeFenceSignaledInterrupt(true);
    };
    bench_of(Mutant { caps: claim, ..DRIVER })
}

fn counted(bench: &Bench) -> FenceReports {
    bench.machine.fence_reports(bench.luid).unwrap()
}

/// The GPU logs a signal of `queue` under the name that user mode gave.
fn log(bench: &Bench, queue: &Queue, name: u32, value: u64) {
    let logs = bench.world.logs.lock().unwrap();
    let signals = logs.iter().rfind(|log| (log.queue, log.kind) == (queue.system, 2));
    signals.expect("the queue has a log").write(name, value, 1);
}

/// The GPU signals a fence on `queue` and logs it.
fn signal(bench: &Bench, queue: &Queue, fence: &Fence, value: u64) {
    as_gpu(fence.user).store(value, Ordering::SeqCst);
    log(bench, queue, fence.handle, value);
}

/// Reports the queue, by the driver's handle, and waits until that was acted upon.
fn report(bench: &Bench, queue: Option<&Queue>) {
    let before = counted(bench);
    let handle = queue.map_or(0, |queue| bench.world.queues.lock().unwrap()[&queue.system]);
    bench.world.report(&bench.bus, Report::OfQueue(handle));
    let total = |counted: FenceReports| counted.of_queues + counted.of_nodes;
    eventually("the report is acted upon", || total(counted(bench)) > total(before));
}

fn watch(app: &App, fence: &Fence, value: u64) -> OwnedFd {
    let woken = event();
    app.wait(&[(fence.handle, value)], false, Some(&woken)).unwrap();
    woken
}

#[test]
fn entries_e1_to_e4_of_the_named_queue_wake_their_waiters_and_nobody_else() {
    const V: [u64; 3] = [11, 12, 13];
    let bench = optimised();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let [f1, f2, other] = std::array::from_fn(|_| app.fence(&bench, 0));
    let waits = [watch(&app, &f1, V[0]), watch(&app, &f1, V[1]), watch(&app, &f2, V[2])];
    let elsewhere = watch(&app, &other, 1);
    // Its value is there too, but nothing says so.
    as_gpu(other.user).store(1, Ordering::SeqCst);
    for (fence, value) in [(&f1, V[0]), (&f1, V[1]), (&f2, V[2]), (&f2, V[2])] {
        signal(&bench, &queue, fence, value);
    }
    report(&bench, Some(&queue));
    for wait in &waits {
        eventually("the waiter is woken", || is_signaled(wait));
    }
    let found = counted(&bench);
    assert_eq!(found, FenceReports { of_queues: 1, looked_at: 2, ..FenceReports::default() });
    assert!(!is_signaled(&elsewhere), "only what the log names is looked at");
    let log = bench.machine.fence_log(bench.luid).unwrap().remove(0).signals;
    let told: Vec<_> = log.entries.iter().map(|entry| (entry.fence, entry.value)).collect();
    assert_eq!(told, [(f1.handle, V[0]), (f1.handle, V[1]), (f2.handle, V[2]), (f2.handle, V[2])]);
    app.process.exit();
    bench.end();
}

#[test]
fn no_queue_means_the_logs_of_every_queue_of_the_engine() {
    let bench = optimised();
    let app = App::new(&bench);
    let queues = [app.queue(&bench), app.queue(&bench)];
    let fences: [Fence; 2] = std::array::from_fn(|_| app.fence(&bench, 0));
    let waits = fences.each_ref().map(|fence| watch(&app, fence, 5));
    let other = app.fence(&bench, 0);
    let elsewhere = watch(&app, &other, 1);
    as_gpu(other.user).store(1, Ordering::SeqCst);
    for (queue, fence) in queues.iter().zip(&fences) {
        signal(&bench, queue, fence, 5);
    }
    report(&bench, None);
    for wait in &waits {
        eventually("the waiter is woken", || is_signaled(wait));
    }
    assert_eq!(counted(&bench), FenceReports { of_nodes: 1, looked_at: 2, ..FenceReports::default() });
    assert!(!is_signaled(&elsewhere));
    app.process.exit();
    bench.end();
}

#[test]
fn progress_is_looked_at_when_the_log_of_the_named_queue_has_it() {
    let bench = optimised();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let woken = watch(&app, &queue.progress, 3);
    as_gpu(queue.progress.user).store(3, Ordering::SeqCst);
    report(&bench, Some(&queue));
    assert!(!is_signaled(&woken), "nothing says that the value is there");
    log(&bench, &queue, queue.progress.handle, 3);
    report(&bench, Some(&queue));
    eventually("the waiter is woken", || is_signaled(&woken));
    assert_eq!(counted(&bench), FenceReports { of_queues: 2, looked_at: 1, ..FenceReports::default() });
    app.process.exit();
    bench.end();
}

#[test]
fn an_overrun_log_leads_to_the_fences_of_its_process_and_no_others() {
    let bench = optimised();
    let (app, other) = (App::new(&bench), App::new(&bench));
    let queue = app.queue(&bench);
    let elsewhere = other.fence(&bench, 0);
    let unseen = watch(&other, &elsewhere, 1);
    as_gpu(elsewhere.user).store(1, Ordering::SeqCst);
    let [first, last] = std::array::from_fn(|_| app.fence(&bench, 0));
    let waits = [watch(&app, &first, 1), watch(&app, &last, 200)];
    signal(&bench, &queue, &first, 1);
    (1..=200).for_each(|value| signal(&bench, &queue, &last, value));
    report(&bench, Some(&queue));
    for wait in &waits {
        eventually("the waiter is woken", || is_signaled(wait));
    }
    let expected = FenceReports { of_queues: 1, looked_at: 2, of_processes: 1, ..FenceReports::default() };
    assert_eq!(counted(&bench), expected);
    assert!(!is_signaled(&unseen), "a fence of another process was looked at");
    app.process.exit();
    other.process.exit();
    bench.end();
}

#[test]
fn a_name_that_means_nothing_hides_no_signal() {
    let bench = optimised();
    let (signaller, waiter) = (App::new(&bench), App::new(&bench));
    let queue = signaller.queue(&bench);
    let flags = D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS::new().with_Shared(true).with_NtSecuritySharing(true);
    let made = signaller.try_shared(flags).unwrap();
    let shared = signaller.share(made.hSyncObject).unwrap();
    let opened = waiter.open(signaller.process.duplicate_handle(shared, &waiter.process).unwrap()).unwrap();
    let decoy = signaller.fence(&bench, 0);
    let value = as_gpu(opened.NativeFenceMapping.CurrentValueCpuVa);
    let deceived = watch(&signaller, &decoy, 1);
    // The fence's own handle, closed meanwhile; one that never was.
    for (round, name) in [(1, made.hSyncObject), (2, 0x7fff_fffc)] {
        let woken = event();
        waiter.wait(&[(opened.hSyncObject, round)], false, Some(&woken)).unwrap();
        if round == 1 {
            signaller.destroy_fence(made.hSyncObject).unwrap();
        }
        value.store(round, Ordering::SeqCst);
        log(&bench, &queue, name, round);
        report(&bench, Some(&queue));
        eventually("the waiter of the other process is woken", || is_signaled(&woken));
        assert_eq!(counted(&bench).scans, round);
    }
    log(&bench, &queue, decoy.handle, 1);
    report(&bench, Some(&queue));
    assert!(!is_signaled(&deceived), "a log says where to look, not what is true");
    assert_eq!(counted(&bench).scans, 2, "a name that means something is all that is looked at");
    signaller.process.exit();
    waiter.process.exit();
    bench.end();
}

#[test]
fn whoever_reads_the_logs_first_wakes_the_waiters() {
    let bench = optimised();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let fence = app.fence(&bench, 0);
    for (value, read) in [
        (1, (|bench| drop(bench.machine.fence_log(bench.luid))) as fn(&Bench)),
        (2, |bench| bench.machine.trace_fences(bench.luid, Some(500)).unwrap()),
    ] {
        let woken = watch(&app, &fence, value);
        signal(&bench, &queue, &fence, value);
        read(&bench);
        assert!(is_signaled(&woken));
    }
    let woken = watch(&app, &fence, 3);
    signal(&bench, &queue, &fence, 3);
    app.close_queue(&queue);
    assert!(is_signaled(&woken), "a queue that goes leaves its log to be read");
    app.process.exit();
    bench.end();
}

#[test]
fn a_destroyed_queue_in_a_report_stops_the_machine() {
    let bench = optimised();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let handle = bench.world.queues.lock().unwrap()[&queue.system];
    app.close_queue(&queue);
    bench.world.report(&bench.bus, Report::OfQueue(handle));
    assert!(bench.stop().reason.contains("no hardware queue"));
}

#[test]
fn fences_in_a_report_stop_the_machine() {
    let bench = optimised();
    let app = App::new(&bench);
    let fence = app.fence(&bench, 0);
    bench.world.report(&bench.bus, Report::Fences(vec![fence.system]));
    assert!(bench.stop().reason.contains("OptimizedNativeFenceSignaledInterrupt"));
}
