//! Fence log buffers as a miniport is told of them and as its GPU fills them; the test plays the GPU.
//! [native-gpu-fence-objects: log buffer mechanism]

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

use crate::user_mode::app::*;
use crate::user_mode::{LogBuffer, Report};
use dxgkrnl::{Counters, FenceOperation, QueueFenceLog, TraceKind, TraceLog, thunks};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

/// Entries of a buffer of 4 KiB.
const ENTRIES: u32 = 84;

/// Buffers of a queue in the order in which the driver was told of them.
fn buffers(bench: &Bench, queue: &Queue) -> Vec<LogBuffer> {
    bench.world.logs.lock().unwrap().iter().filter(|log| log.queue == queue.system).copied().collect()
}

/// The waits and the signals buffer that a queue has now.
fn latest(bench: &Bench, queue: &Queue) -> [LogBuffer; 2] {
    let all = buffers(bench, queue);
    let [.., waits, signals] = all.as_slice() else { panic!("a queue without two buffers: {all:?}") };
    [*waits, *signals]
}

fn log_of(bench: &Bench, queue: &Queue) -> QueueFenceLog {
    let logs = bench.machine.fence_log(bench.luid).expect("an adapter");
    logs.into_iter().find(|log| log.queue == queue.system as u64).expect("the queue has logs")
}

#[test]
fn a_user_mode_queue_is_given_a_log_of_waits_and_one_of_signals_of_a_page_each() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let calls: Vec<&str> = bench.world.take_calls();
    let of_interest = |name: &&&str| ["CreateHwQueue", "SetNativeFenceLogBuffer", "CreateDoorbell"].contains(*name);
    let order: Vec<&str> = calls.iter().filter(of_interest).copied().collect();
    assert_eq!(order, ["CreateHwQueue", "SetNativeFenceLogBuffer", "SetNativeFenceLogBuffer", "CreateDoorbell"]);
    let logs = buffers(&bench, &queue);
    assert_eq!(logs.iter().map(|log| log.kind).collect::<Vec<_>>(), [1, 2], "waits, then signals");
    for log in &logs {
        assert_eq!((log.entries, log.header_entries), (ENTRIES, u64::from(ENTRIES)));
        assert!(log.gpu != 0 && log.gpu % 4096 == 0 && log.address % 4096 == 0, "{log:?}");
    }
    assert_ne!(logs[0].gpu, logs[1].gpu);
    app.close_queue(&queue);
    bench.end();
}

#[test]
fn a_kernel_mode_queue_is_given_none_and_neither_is_a_queue_while_logging_is_off() {
    let bench = bench();
    let app = App::new(&bench);
    {
        let _attached = app.process.attach();
        for native in [false, true] {
            let flags = D3DDDI_CREATEHWQUEUEFLAGS::new().with_NativeProgressFence(native);
            let args = D3DKMT_CREATEHWQUEUE { hHwContext: app.context(), Flags: flags, ..Zeroed::zeroed() };
            call(thunks().D3DKMTCreateHwQueue, args).unwrap();
        }
    }
    assert!(bench.world.logs.lock().unwrap().is_empty());
    assert_eq!(bench.machine.fence_log(bench.luid).map(|logs| logs.len()), Some(0));
    bench.machine.log_fences(bench.luid, false).unwrap();
    let unlogged = app.queue(&bench);
    assert!(bench.world.logs.lock().unwrap().is_empty());
    bench.machine.log_fences(bench.luid, true).unwrap();
    let logged = app.queue(&bench);
    assert_eq!((buffers(&bench, &unlogged).len(), buffers(&bench, &logged).len()), (0, 2));
    app.close_queue(&unlogged);
    app.close_queue(&logged);
    app.destroy_device();
    bench.end();
}

#[test]
fn a_driver_that_refuses_its_log_buffers_gets_no_queue() {
    let bench = bench();
    let app = App::new(&bench);
    let _attached = app.process.attach();
    let context = app.context();
    bench.world.failing.lock().unwrap().insert("SetNativeFenceLogBuffer", STATUS_NO_MEMORY);
    let flags = D3DDDI_CREATEHWQUEUEFLAGS::new().with_UserModeSubmission(true).with_NativeProgressFence(true);
    let args = D3DKMT_CREATEHWQUEUE { hHwContext: context, Flags: flags, ..Zeroed::zeroed() };
    assert_eq!(call(thunks().D3DKMTCreateHwQueue, args).err(), Some(STATUS_NO_MEMORY));
    let calls = bench.world.take_calls();
    assert!(calls.contains(&"DestroyHwQueue"), "{calls:?}");
    bench.world.failing.lock().unwrap().clear();
    assert_eq!(bench.machine.fence_log(bench.luid).map(|logs| logs.len()), Some(0));
    drop(_attached);
    app.destroy_device();
    bench.end();
}

#[test]
fn enlarging_gives_every_queue_two_more_buffers_and_loses_no_entry() {
    let bench = bench();
    let app = App::new(&bench);
    let queues = [app.queue(&bench), app.queue(&bench)];
    for (queue, value) in queues.iter().zip(1..) {
        latest(&bench, queue)[1].write(7, value, value);
    }
    bench.machine.trace_fences(bench.luid, Some(5000)).unwrap();
    for (queue, value) in queues.iter().zip(1..) {
        let all = buffers(&bench, queue);
        assert_eq!(
            all.iter().map(|log| (log.kind, log.entries)).collect::<Vec<_>>(),
            [(1, ENTRIES), (2, ENTRIES), (1, 5000), (2, 5000)]
        );
        assert_eq!(all.iter().map(|log| log.gpu).collect::<HashSet<_>>().len(), 4);
        latest(&bench, queue)[1].write(7, value + 10, value + 10);
    }
    let logs = bench.machine.fence_log(bench.luid).unwrap();
    for (queue, value) in queues.iter().zip(1..) {
        let log = logs.iter().find(|log| log.queue == queue.system as u64).expect("the queue has logs");
        let values: Vec<u64> = log.signals.entries.iter().map(|entry| entry.value).collect();
        assert_eq!((values, log.signals.lost), (vec![value, value + 10], 0));
        assert_eq!(log.handle, queue.queue, "the log names its queue as the process does");
    }
    bench.machine.trace_fences(bench.luid, None).unwrap();
    assert_eq!(latest(&bench, &queues[0])[0].entries, ENTRIES);
    queues.iter().for_each(|queue| app.close_queue(queue));
    bench.end();
}

/// A trace is begun again and again while processes with queues come and end.
#[test]
fn a_trace_begins_although_processes_end_meanwhile() {
    let bench = bench();
    let stays = App::new(&bench);
    let queue = stays.queue(&bench);
    let traced = std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            for _ in 0..200 {
                let app = App::new(&bench);
                let _queues = [app.queue(&bench), app.queue(&bench), app.queue(&bench)];
                app.process.terminate();
            }
        });
        let mut traced = 0;
        while !churn.is_finished() {
            traced += 1;
            bench.machine.trace_fences(bench.luid, Some(100 + traced % 2)).expect("a trace");
        }
        traced
    });
    assert_eq!(latest(&bench, &queue)[0].entries, 100 + traced % 2);
    stays.close_queue(&queue);
    bench.end();
}

#[test]
fn buffers_are_replaced_while_the_gpu_logs_and_each_entry_comes_once_and_in_order() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    const LAST: u64 = 4000;
    // Each buffer holds everything, however far the GPU gets before it is read: a log that is full keeps one entry less than it has, because the GPU
    // may be writing the next one.
    bench.machine.trace_fences(bench.luid, Some(3 * LAST as u32)).unwrap();
    // The GPU of the test stands still while it is told of another buffer, as hardware must: it looks up its buffer under the
    // same lock that the driver holds when it is told.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for value in 1..=LAST {
                let logs = bench.world.logs.lock().unwrap();
                let signals = logs.iter().rev().find(|log| log.kind == 2).expect("a signals buffer");
                signals.write(9, value, value);
                drop(logs);
                if value % 16 == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let mut seen = 0;
        for round in 0.. {
            bench.machine.trace_fences(bench.luid, Some(LAST as u32 + 1 + round)).unwrap();
            let log = log_of(&bench, &queue);
            assert_eq!((log.signals.lost, log.signals.violations), (0, 0));
            for entry in &log.signals.entries {
                seen += 1;
                assert_eq!((entry.value, entry.operation), (seen, FenceOperation::SignalExecuted));
            }
            if seen == LAST {
                break;
            }
        }
    });
    app.close_queue(&queue);
    bench.end();
}

#[test]
fn a_gpu_that_writes_to_the_old_buffer_after_the_call_breaks_the_contract() {
    for replaced_again in [true, false] {
        let bench = bench();
        let app = App::new(&bench);
        let queue = app.queue(&bench);
        let [_, old] = latest(&bench, &queue);
        bench.machine.trace_fences(bench.luid, Some(100)).unwrap();
        assert_eq!(bench.machine.bugcheck(), None);
        old.stray(ENTRIES - 1);
        match replaced_again {
            true => bench.machine.trace_fences(bench.luid, Some(200)).unwrap(),
            false => {
                let _attached = app.process.attach();
                let doorbell = D3DKMT_DESTROY_DOORBELL { hDoorbell: queue.doorbell };
                call(thunks().D3DKMTDestroyDoorbell, doorbell).unwrap();
                // The machine stops in the middle of this.
                let _ = call(thunks().D3DKMTDestroyHwQueue, D3DKMT_DESTROYHWQUEUE { hHwQueue: queue.queue });
            }
        }
        let bugcheck = bench.machine.bugcheck().expect("the write was seen");
        assert!(bugcheck.to_string().contains("after DxgkDdiSetNativeFenceLogBuffer"), "{bugcheck}");
    }
}

#[test]
fn the_dpc_flushes_the_logs_of_exactly_the_queues_with_news_before_it_reads_them() {
    let bench = bench();
    let app = App::new(&bench);
    let queues = [app.queue(&bench), app.queue(&bench), app.queue(&bench)];
    for queue in [&queues[0], &queues[2]] {
        latest(&bench, queue)[0].write(5, 1, 1);
    }
    bench.world.report(&bench.bus, Report::Scan);
    eventually("the DPC", || !bench.world.flushes.lock().unwrap().is_empty());
    let flushed: Vec<HashSet<usize>> =
        bench.world.flushes.lock().unwrap().iter().map(|queues| queues.iter().copied().collect()).collect();
    assert_eq!(flushed, [HashSet::from([queues[0].system, queues[2].system])]);
    queues.iter().for_each(|queue| app.close_queue(queue));
    bench.end();
}

#[test]
fn an_overrun_is_told_by_the_wraparound_count_and_wakes_a_waiter_whose_signal_nobody_reported() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let (told, forgotten) = (app.fence(&bench, 0), app.fence(&bench, 0));
    let woken = event();
    app.wait(&[(forgotten.handle, 3)], false, Some(&woken)).unwrap();
    let [_, signals] = latest(&bench, &queue);
    // The value is there, and its entry is gone before anybody looks.
    as_gpu(forgotten.user).store(3, Ordering::SeqCst);
    signals.write(forgotten.handle, 3, 1);
    for value in 0..u64::from(ENTRIES) + 5 {
        signals.write(told.handle, value + 1, value + 2);
    }
    assert!(!is_signaled(&woken));
    bench.world.report(&bench.bus, Report::Fences(vec![told.system]));
    eventually("the waiter of the other fence", || is_signaled(&woken));
    eventually("the log", || !bench.world.flushes.lock().unwrap().is_empty());
    let log = log_of(&bench, &queue);
    assert!(log.signals.lost >= 6 && log.signals.lost + log.signals.entries.len() as u64 == u64::from(ENTRIES) + 6);
    app.close_queue(&queue);
    app.destroy_device();
    bench.end();
}

#[test]
fn time_that_goes_back_is_reported_once_and_zero_and_equal_times_are_not() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let [_, signals] = latest(&bench, &queue);
    [50, 50, 0, 51].iter().for_each(|end| signals.write(1, 1, *end));
    assert_eq!(log_of(&bench, &queue).signals.violations, 0);
    let reported = || bench.machine.debug_log().iter().filter(|line| line.contains("time went back")).count();
    assert_eq!(reported(), 0);
    signals.write(1, 2, 49);
    assert_eq!((log_of(&bench, &queue).signals.violations, reported()), (1, 1));
    signals.write(1, 2, 48);
    assert_eq!((log_of(&bench, &queue).signals.violations, reported()), (1, 1));
    app.close_queue(&queue);
    bench.end();
}

#[test]
fn a_trace_tells_of_interrupts_reports_paging_doorbells_and_is_bounded() {
    let bench = bench();
    let app = App::new(&bench);
    assert_eq!(bench.machine.trace(bench.luid, Some(0)), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(bench.machine.trace(bench.luid, Some(u32::MAX)), Err(STATUS_INVALID_PARAMETER));
    let counters = || bench.machine.counters(bench.luid).unwrap();
    let before = counters();
    bench.machine.trace(bench.luid, Some(1000)).unwrap();
    let queue = app.queue(&bench);
    app.connect(&queue).unwrap();
    bench.world.report(&bench.bus, Report::Fences(vec![queue.progress.system]));
    eventually("the DPC", || bench.machine.counters(bench.luid).is_some_and(|counters| counters.dpc_notifications > 0));
    bench.world.report(&bench.bus, Report::Idle);
    eventually("the doorbell is taken", || queue.status() == RETRY);
    app.connect(&queue).unwrap();
    app.close_queue(&queue);
    let log = RefCell::new(TraceLog::default());
    // Each interrupt, DPC and report is there, once, as soon as it is over.
    eventually("as many events as were counted", || {
        let more = bench.machine.take_trace(bench.luid).unwrap();
        let mut log = log.borrow_mut();
        log.lost += more.lost;
        log.events.extend(more.events);
        let now = counters();
        let seen =
            |wanted: fn(&TraceKind) -> bool| log.events.iter().filter(|event| wanted(&event.kind)).count() as u64;
        let reports = |counters: &Counters| counters.notifications.iter().sum::<u64>();
        let (interrupts, dpcs) = (now.interrupts - before.interrupts, now.dpcs - before.dpcs);
        seen(|kind| matches!(kind, TraceKind::Interrupt { .. })) == interrupts
            && seen(|kind| matches!(kind, TraceKind::Dpc)) == dpcs
            && seen(|kind| matches!(kind, TraceKind::Report { .. })) == reports(&now) - reports(&before)
    });
    let log = log.into_inner();
    assert_eq!(log.lost, 0);
    assert!(log.events.iter().all(|event| event.adapter == Some(bench.luid)), "{:?}", log.events);
    let kinds: Vec<TraceKind> = log.events.iter().map(|event| event.kind).collect();
    let id = queue.system as u64;
    let mut doorbells = kinds
        .iter()
        .filter(|kind| matches!(kind, TraceKind::DoorbellConnected { .. } | TraceKind::DoorbellDisconnected { .. }));
    assert_eq!(doorbells.next(), Some(&TraceKind::DoorbellConnected { queue: id }));
    assert_eq!(doorbells.next(), Some(&TraceKind::DoorbellDisconnected { queue: id, status: 2 }));
    assert_eq!(doorbells.next(), Some(&TraceKind::DoorbellConnected { queue: id }));
    let has = |wanted: &dyn Fn(&TraceKind) -> bool| kinds.iter().any(wanted);
    assert!(has(&|kind| matches!(kind, TraceKind::Interrupt { claimed: true, .. })), "{kinds:?}");
    assert!(has(&|kind| *kind == TraceKind::Dpc));
    assert!(has(&|kind| *kind == TraceKind::Report { kind: 19, node: Some(0), fences: 1, value: 0 }));
    assert!(has(&|kind| *kind == TraceKind::Report { kind: 20, node: Some(0), fences: 0, value: 1 }));
    assert!(has(&|kind| matches!(kind, TraceKind::PagingOperation { .. })), "{kinds:?}");
    assert!(has(&|kind| matches!(kind, TraceKind::Resident { bytes } if *bytes > 0)), "{kinds:?}");
    // A small ring keeps the latest and says how many it gave up.
    bench.machine.trace(bench.luid, Some(2)).unwrap();
    let queue = app.queue(&bench);
    app.close_queue(&queue);
    let log = bench.machine.take_trace(bench.luid).unwrap();
    assert!(log.events.len() == 2 && log.lost > 0, "{log:?}");
    bench.machine.trace(bench.luid, None).unwrap();
    let queue = app.queue(&bench);
    app.close_queue(&queue);
    assert_eq!(bench.machine.take_trace(bench.luid).unwrap(), TraceLog::default());
    bench.end();
}
