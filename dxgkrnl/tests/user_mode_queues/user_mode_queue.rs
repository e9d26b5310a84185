//! Queues of user-mode submission, their doorbells and how they end, on a miniport whose GPU the test plays.
//! [user-mode-work-submission]

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use crate::minimal::Mutant;
use crate::user_mode::app::*;
use crate::user_mode::{DRIVER, Report};
use dxgkrnl::{MachineConfig, Process, Share, TdrLevel, TdrSettings, thunks};
use nt::user_space::ThisProcess;
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::{D3DKMT_HANDLE, HANDLE, NTSTATUS};

#[test]
fn a_suspend_fence_that_was_never_issued_is_0x119_11() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    bench.world.report(&bench.bus, Report::Suspended { context: queue.system, fence: 1 });
    assert_eq!(bench.stop().parameters[0], 0x11, "a queue is no context");
    let bench = crate::user_mode::app::bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    bench.world.ignore_suspend.store(true, Ordering::Relaxed);
    bench.world.report(&bench.bus, Report::Fault { queue: queue.system, address: 0 });
    eventually("the context is being suspended", || bench.world.calls.lock().unwrap().contains(&"SuspendContext"));
    let context = bench.machine.inspect(bench.luid).expect("an adapter").to_string();
    assert!(context.contains("suspended 0 of 1"), "{context}");
}

#[test]
fn a_doorbell_shows_the_dummy_page_until_it_is_connected() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    assert_eq!(queue.status(), RETRY);
    queue.ring(11);
    assert_eq!(bench.world.rung(), 0, "nothing reaches the hardware");
    app.connect(&queue).unwrap();
    assert_eq!((queue.status(), bench.world.connected()), (CONNECTED, Some(queue.system)));
    queue.ring(12);
    assert_eq!(bench.world.rung(), 12);
    assert!(is_writable(queue.last_queued) && !is_writable(queue.status) && !is_writable(queue.progress.user));
    app.connect(&queue).unwrap();
    let connects = bench.world.take_calls().iter().filter(|name| **name == "ConnectDoorbell").count();
    assert_eq!(connects, 1, "a connected doorbell needs no driver");
    app.close_queue(&queue);
    bench.end();
}

#[test]
fn the_driver_takes_a_doorbell_away_for_another_queue_and_its_owner_gets_it_back() {
    let bench = bench();
    let app = App::new(&bench);
    let (first, second) = (app.queue(&bench), app.queue(&bench));
    app.connect(&first).unwrap();
    app.connect(&second).unwrap();
    assert_eq!((first.status(), second.status()), (RETRY, CONNECTED));
    second.ring(2);
    first.ring(1);
    assert_eq!(bench.world.rung(), 2, "the victim rings its dummy page");
    app.connect(&first).unwrap();
    assert_eq!((first.status(), second.status()), (CONNECTED, RETRY));
    first.ring(3);
    assert_eq!(bench.world.rung(), 3);
    app.close_queue(&first);
    app.close_queue(&second);
    bench.end();
}

#[test]
fn an_idle_engine_gives_up_its_doorbells() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    app.connect(&queue).unwrap();
    bench.world.report(&bench.bus, Report::Idle);
    eventually("the doorbell is taken", || queue.status() == RETRY);
    eventually("the driver is told", || bench.world.connected().is_none());
    app.connect(&queue).unwrap();
    assert_eq!(queue.status(), CONNECTED);
    app.close_queue(&queue);
    bench.end();
}

#[test]
fn two_threads_that_take_the_doorbell_from_each_other_never_stop_and_never_ring_the_wrong_page() {
    let bench = bench();
    let apps = [App::new(&bench), App::new(&bench)];
    let queues = apps.each_ref().map(|app| app.queue(&bench));
    std::thread::scope(|scope| {
        for (app, queue) in apps.iter().zip(&queues) {
            scope.spawn(move || {
                for _ in 0..2000 {
                    app.connect(queue).unwrap();
                    assert!(matches!(queue.status(), CONNECTED | RETRY));
                }
            });
        }
    });
    let shown = queues.each_ref().map(|queue| queue.status() == CONNECTED);
    let owner = queues.each_ref().map(|queue| bench.world.connected() == Some(queue.system));
    for (index, shown) in shown.into_iter().enumerate() {
        assert!(!shown || owner[index], "a queue is shown a page that the driver gave to another");
    }
    apps.iter().zip(&queues).for_each(|(app, queue)| app.close_queue(queue));
    bench.end();
}

#[test]
fn each_model_of_submission_refuses_the_other() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let _attached = app.process.attach();
    let submit = |queue| {
        let args = D3DKMT_SUBMITCOMMANDTOHWQUEUE { hHwQueue: queue, HwQueueProgressFenceId: 1, ..Zeroed::zeroed() };
        call(thunks().D3DKMTSubmitCommandToHwQueue, args).err()
    };
    assert_eq!(submit(queue.queue), Some(STATUS_INVALID_PARAMETER));
    let kernel = D3DKMT_CREATEHWQUEUE { hHwContext: queue.context, ..Zeroed::zeroed() };
    let kernel = call(thunks().D3DKMTCreateHwQueue, kernel).unwrap().hHwQueue;
    let rings = app.allocations();
    app.make_resident(rings);
    assert_eq!(app.create_doorbell(kernel, rings).err(), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(app.create_doorbell(queue.queue, rings).err(), Some(STATUS_INVALID_PARAMETER), "it has one");
    let monitored = D3DDDI_CREATEHWQUEUEFLAGS::new().with_UserModeSubmission(true);
    let args = D3DKMT_CREATEHWQUEUE { hHwContext: queue.context, Flags: monitored, ..Zeroed::zeroed() };
    assert_eq!(call(thunks().D3DKMTCreateHwQueue, args).err(), Some(STATUS_INVALID_PARAMETER), "progress is native");
    let destroy = D3DKMT_DESTROYHWQUEUE { hHwQueue: queue.queue };
    assert_eq!(call(thunks().D3DKMTDestroyHwQueue, destroy).err(), Some(STATUS_INVALID_PARAMETER), "doorbell first");
    let destroy = D3DKMT_DESTROYHWCONTEXT { hHwContext: queue.context };
    assert_eq!(call(thunks().D3DKMTDestroyHwContext, destroy).err(), Some(STATUS_INVALID_PARAMETER), "queues first");
    assert_eq!(app.destroy_fence(queue.progress.handle), Err(STATUS_INVALID_PARAMETER), "it goes with the queue");
    let flags = D3DDDICB_SIGNALFLAGS::new();
    assert_eq!(app.signal(queue.progress.handle, 9, flags), Err(STATUS_INVALID_PARAMETER), "only the GPU signals it");
    drop(_attached);
    bench.end();
}

#[test]
fn a_device_that_is_closed_lets_its_queued_work_finish() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    app.connect(&queue).unwrap();
    word(queue.last_queued).store(3, Ordering::SeqCst);
    bench.world.take_calls();
    let progress = as_gpu(queue.progress.user);
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| app.destroy_device());
        eventually("the end of the work is waited for", || bench.world.monitored(queue.progress.system) == 2);
        assert_eq!(queue.status(), RETRY, "disconnected, not aborted");
        bench.world.signal(&bench.bus, queue.progress.system, progress, 3);
        closing.join().unwrap();
    });
    assert_eq!(
        bench.world.take_calls(),
        [
            "DisconnectDoorbell",
            "DestroyDoorbell",
            "DestroyHwQueue",
            "CloseNativeFence",
            "DestroyNativeFence",
            "DestroyHwContext"
        ]
    );
    bench.end();
}

#[test]
fn a_ring_that_ends_is_looked_at_although_its_doorbell_was_taken_away_before() {
    let bench = bench();
    let app = App::new(&bench);
    let (taken, _never_connected) = (app.queue(&bench), app.queue(&bench));
    app.connect(&taken).unwrap();
    bench.world.report(&bench.bus, Report::Idle);
    eventually("the driver is told that the doorbell is taken", || bench.world.connected().is_none());
    bench.world.take_calls();
    word(taken.last_queued).store(3, Ordering::SeqCst);
    let progress = as_gpu(taken.progress.user);
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| app.destroy_device());
        eventually("the end of the work is waited for", || bench.world.monitored(taken.progress.system) == 2);
        bench.world.signal(&bench.bus, taken.progress.system, progress, 3);
        closing.join().unwrap();
    });
    let calls = bench.world.take_calls();
    let doorbells: Vec<_> = calls.iter().filter(|name| name.ends_with("Doorbell")).copied().collect();
    assert_eq!(doorbells, ["DisconnectDoorbell", "DisconnectDoorbell", "DestroyDoorbell", "DestroyDoorbell"]);
    bench.end();
}

#[test]
fn work_that_never_ends_is_cut_off_when_its_process_exits() {
    // Nothing looks for timeouts meanwhile, which would ask the context off its engine too.
    let tdr = TdrSettings { level: TdrLevel::Off, ..TdrSettings::default() };
    let bench = bench_with(DRIVER, MachineConfig { tdr, ..MachineConfig::default() });
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    app.connect(&queue).unwrap();
    word(queue.last_queued).store(1, Ordering::SeqCst);
    bench.world.take_calls();
    app.process.exit();
    assert_eq!(
        bench.world.take_calls(),
        [
            "DisconnectDoorbell",
            "SuspendContext",
            "DestroyDoorbell",
            "DestroyHwQueue",
            "CloseNativeFence",
            "DestroyNativeFence",
            "DestroyHwContext"
        ]
    );
    bench.end();
}

#[test]
fn a_queue_that_faults_loses_its_device_and_nobody_elses() {
    let bench = bench();
    let (app, other) = (App::new(&bench), App::new(&bench));
    let (queue, bystander) = (app.queue(&bench), other.queue(&bench));
    let fence = app.fence(&bench, 0);
    app.connect(&queue).unwrap();
    bench.world.take_calls();
    let released = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| app.wait(&[(fence.handle, 1)], false, None));
        eventually("the wait is monitored", || bench.world.monitored(fence.system) == 0);
        bench.world.report(&bench.bus, Report::Fault { queue: queue.system, address: 0xdead_0000 });
        waiter.join().unwrap()
    });
    assert_eq!(released, Err(STATUS_DEVICE_REMOVED));
    eventually("the doorbell says so", || queue.status() == ABORT);
    eventually("the driver is told", || bench.world.calls.lock().unwrap().contains(&"DisconnectDoorbell"));
    let calls = bench.world.take_calls();
    let order = ["SuspendContext", "DisconnectDoorbell"].map(|name| calls.iter().position(|call| *call == name));
    assert!(order[0].is_some() && order[0] < order[1], "suspended first: {calls:?}");
    assert_eq!(app.connect(&queue), Err(STATUS_DEVICE_REMOVED));
    assert_eq!(app.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    let always = DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS::new().with_AlwaysSignaled(true).into_bits();
    eventually("waits of the GPU fall through", || bench.world.currents.lock().unwrap().contains(&(u64::MAX, always)));
    other.connect(&bystander).unwrap();
    assert_eq!(bystander.status(), CONNECTED);
    assert_eq!(other.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE);
    app.process.exit();
    other.close_queue(&bystander);
    bench.end();
}

#[test]
fn a_fault_of_a_queue_that_does_not_exist_stops_the_machine() {
    let bench = bench();
    bench.world.report(&bench.bus, Report::Fault { queue: 0x1234, address: 0 });
    assert!(bench.stop().reason.contains("HWQUEUE_PAGE_FAULTED"));
}

#[test]
fn an_adapter_that_stops_under_a_waiting_process_releases_it() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let fence = app.fence(&bench, 0);
    app.connect(&queue).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| app.wait(&[(fence.handle, 1)], false, None));
        eventually("the wait is monitored", || bench.world.monitored(fence.system) == 0);
        bench.machine.remove(bench.luid).unwrap();
        assert_eq!(waiter.join().unwrap(), Err(STATUS_DEVICE_REMOVED));
    });
    assert_eq!(queue.status(), ABORT);
    assert!(app.connect(&queue).is_err());
    assert!(app.try_fence(0).is_err());
    app.process.exit();
    assert_eq!(bench.machine.bugcheck(), None);
}

/// Destroys allocations of an attached process.
fn destroy_allocations(app: &App, mut handles: Vec<D3DKMT_HANDLE>) -> Result<(), NTSTATUS> {
    let args = D3DKMT_DESTROYALLOCATION2 {
        hDevice: app.device,
        phAllocationList: handles.as_mut_ptr(),
        AllocationCount: handles.len() as u32,
        ..Zeroed::zeroed()
    };
    call(thunks().D3DKMTDestroyAllocation2, args).map(|_| ())
}

#[test]
fn a_ring_is_kept_while_a_doorbell_uses_it() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    let _attached = app.process.attach();
    assert!(destroy_allocations(&app, vec![queue.ring]).is_err(), "the doorbell refers to it");
    app.close_queue(&queue);
    destroy_allocations(&app, vec![queue.ring]).unwrap();
    drop(_attached);
    bench.end();
}

/// A queue without a doorbell, and allocations for its ring.
fn queue_without_doorbell(app: &App, bench: &Bench) -> (Queue, [D3DKMT_HANDLE; 2]) {
    let queue = app.queue(bench);
    let _attached = app.process.attach();
    call(thunks().D3DKMTDestroyDoorbell, D3DKMT_DESTROY_DOORBELL { hDoorbell: queue.doorbell }).unwrap();
    let rings = app.allocations();
    app.make_resident(rings);
    bench.world.take_calls();
    (queue, rings)
}

/// Creates a doorbell, and does `beside` on another thread while the driver creates it.
fn create_doorbell_while(
    app: &App,
    bench: &Bench,
    (queue, rings): (&Queue, [D3DKMT_HANDLE; 2]),
    beside: impl FnOnce(),
) -> Result<D3DKMT_HANDLE, NTSTATUS> {
    let (inside, is_inside) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    *bench.world.during_creation.lock().unwrap() = Some(Box::new(move || {
        inside.send(()).unwrap();
        // Answered, or the test has failed and nobody is there to answer.
        let _ = may_go_on.recv();
    }));
    std::thread::scope(|scope| {
        let creator = scope.spawn(|| {
            let _attached = app.process.attach();
            app.create_doorbell(queue.queue, rings).map(|made| made.hDoorbell)
        });
        is_inside.recv().unwrap();
        beside();
        drop(go_on);
        creator.join().unwrap()
    })
}

#[test]
fn the_ring_of_a_doorbell_that_is_being_created_is_kept() {
    let bench = bench();
    let app = App::new(&bench);
    let (queue, rings) = queue_without_doorbell(&app, &bench);
    let made = create_doorbell_while(&app, &bench, (&queue, rings), || {
        let _attached = app.process.attach();
        for ring in rings {
            assert!(destroy_allocations(&app, vec![ring]).is_err(), "the driver is told of it at the moment");
        }
    });
    let queue = Queue { doorbell: made.unwrap(), ..queue };
    app.close_queue(&queue);
    bench.end();
}

/// The page takes hRingBuffer and hRingBufferControl as allocations of the queue's device; the status for others is this system's rule.
#[test]
fn rings_on_another_adapter_make_no_doorbell() {
    let bench = bench();
    let beside = bench.beside_with(DRIVER);
    let app = App::new(&bench);
    let elsewhere = App::of(Arc::clone(&app.process), &beside);
    let (queue, _) = queue_without_doorbell(&app, &bench);
    let attached = app.process.attach();
    // Later numbers than any allocation of the queue's adapter has.
    let rings = [(); 8].map(|()| elsewhere.allocations())[7];
    elsewhere.make_resident(rings);
    assert_eq!(app.create_doorbell(queue.queue, rings).err(), Some(STATUS_INVALID_PARAMETER));
    assert!(!bench.world.take_calls().contains(&"CreateDoorbell"), "the driver is not asked");
    drop(attached);
    drop((app, elsewhere));
    beside.end();
    bench.end();
}

#[test]
fn a_queue_that_is_destroyed_while_a_doorbell_of_it_is_created_takes_the_doorbell_along() {
    let bench = bench();
    let app = App::new(&bench);
    let (queue, rings) = queue_without_doorbell(&app, &bench);
    let destroyed = std::thread::scope(|scope| {
        let mut destroyer = None;
        let made = create_doorbell_while(&app, &bench, (&queue, rings), || {
            destroyer = Some(scope.spawn(|| {
                let _attached = app.process.attach();
                call(thunks().D3DKMTDestroyHwQueue, D3DKMT_DESTROYHWQUEUE { hHwQueue: queue.queue })
            }));
            let _attached = app.process.attach();
            // Flags that do not exist: refused, whether the queue is there or not, with another status.
            let flags = D3DKMT_CREATE_DOORBELL_FLAGS::from_bits(1 << 31);
            let question = D3DKMT_CREATE_DOORBELL { hHwQueue: queue.queue, Flags: flags, ..Zeroed::zeroed() };
            eventually("the queue takes no more calls", || {
                call(thunks().D3DKMTCreateDoorbell, question).err() == Some(STATUS_INVALID_HANDLE)
            });
            // The destruction has looked for doorbells by then, or finds the one that is being created.
            std::thread::sleep(std::time::Duration::from_millis(20));
        });
        assert_eq!(made.err(), Some(STATUS_INVALID_HANDLE));
        destroyer.unwrap().join().unwrap()
    });
    assert!(destroyed.is_ok());
    let calls = bench.world.take_calls();
    let ends: Vec<_> = calls.iter().filter(|name| name.starts_with("Destroy")).take(2).copied().collect();
    assert_eq!(ends, ["DestroyDoorbell", "DestroyHwQueue"], "{calls:?}");
    let _attached = app.process.attach();
    destroy_allocations(&app, rings.to_vec()).unwrap();
    call(thunks().D3DKMTDestroyHwContext, D3DKMT_DESTROYHWCONTEXT { hHwContext: queue.context }).unwrap();
    drop(_attached);
    bench.end();
}

#[test]
fn memory_is_freed_and_engines_rest_without_a_look_at_queues_that_are_idle() {
    const QUEUES: u64 = 60;
    let bench = bench();
    let app = App::new(&bench);
    let queues: Vec<_> = (0..QUEUES).map(|_| app.queue(&bench)).collect();
    for queue in &queues {
        app.connect(queue).unwrap();
        word(queue.last_queued).store(1, Ordering::SeqCst);
        bench.world.signal(&bench.bus, queue.progress.system, as_gpu(queue.progress.user), 1);
    }
    let last = &queues[queues.len() - 1];
    let rest = || {
        let before = bench.machine.queue_looks(bench.luid);
        app.connect(last).unwrap();
        bench.world.report(&bench.bus, Report::Idle);
        eventually("the doorbell is taken", || last.status() == RETRY);
        bench.machine.queue_looks(bench.luid) - before
    };
    // Each queue is found idle once, and only the one that has the doorbell may get work without a call.
    assert!(rest() <= QUEUES + 1);
    let looks = rest();
    assert!(looks <= 4, "{looks} looks for an engine that is idle");
    let before = bench.machine.queue_looks(bench.luid);
    for queue in &queues {
        let attached = app.process.attach();
        destroy_allocations(&app, app.allocations().to_vec()).unwrap();
        drop(attached);
        app.close_queue(queue);
        let _attached = app.process.attach();
        destroy_allocations(&app, vec![queue.ring]).unwrap();
    }
    let looks = bench.machine.queue_looks(bench.luid) - before;
    assert!(looks <= 4, "{looks} looks at queues for {} destructions", 2 * QUEUES);
    bench.end();
}

#[test]
fn memory_waits_for_work_of_a_queue_that_lost_its_doorbell_or_is_looked_at_without_one() {
    let bench = bench();
    let app = App::new(&bench);
    let (first, second) = (app.queue(&bench), app.queue(&bench));
    let progress = as_gpu(first.progress.user);
    bench.machine.start_ddi_log(bench.luid);
    let freed = || {
        let log = bench.machine.take_ddi_log(bench.luid);
        bench.machine.start_ddi_log(bench.luid);
        log.iter().any(|call| call.contains("DxgkDdiDestroyAllocation"))
    };
    let end = |value| {
        bench.world.signal(&bench.bus, first.progress.system, progress, value);
        let _attached = app.process.attach();
        destroy_allocations(&app, app.allocations().to_vec()).unwrap();
    };
    type Begin<'a> = (&'a str, &'a dyn Fn());
    let begins: [Begin<'_>; 4] = [
        ("its doorbell is connected", &|| app.connect(&first).unwrap()),
        ("its doorbell went to another queue", &|| {
            app.connect(&first).unwrap();
            app.connect(&second).unwrap();
        }),
        ("the hardware was told to look", &|| {
            app.connect(&second).unwrap();
            let args = D3DKMT_NOTIFY_WORK_SUBMISSION { hDoorbell: first.doorbell, ..Zeroed::zeroed() };
            call(thunks().D3DKMTNotifyWorkSubmission, args).unwrap();
        }),
        ("it was connected again after it was idle", &|| app.connect(&first).unwrap()),
    ];
    for ((what, begin), value) in begins.into_iter().zip(1..) {
        let attached = app.process.attach();
        begin();
        word(first.last_queued).store(value, Ordering::SeqCst);
        freed();
        destroy_allocations(&app, app.allocations().to_vec()).unwrap();
        drop(attached);
        assert!(!freed(), "{what}: memory was freed under its work");
        end(value);
        assert!(freed(), "{what}: memory was not freed after its work");
    }
    app.close_queue(&first);
    app.close_queue(&second);
    bench.end();
}

#[test]
fn a_doorbell_may_ask_to_be_told_of_work() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    bench.world.connect_status.store(1, Ordering::Relaxed);
    app.connect(&queue).unwrap();
    assert_eq!(queue.status(), 1, "CONNECTED_NOTIFY_KMD");
    let _attached = app.process.attach();
    let notify = D3DKMT_NOTIFY_WORK_SUBMISSION { hDoorbell: queue.doorbell, ..Zeroed::zeroed() };
    call(thunks().D3DKMTNotifyWorkSubmission, notify).unwrap();
    assert!(bench.world.take_calls().contains(&"NotifyWorkSubmission"));
    app.close_queue(&queue);
    assert_eq!(call(thunks().D3DKMTNotifyWorkSubmission, notify).err(), Some(STATUS_INVALID_HANDLE));
    drop(_attached);
    bench.end();
}

#[test]
fn a_driver_connects_doorbells_or_fails_but_never_answers_disconnected() {
    let bench = bench();
    let app = App::new(&bench);
    let queue = app.queue(&bench);
    bench.world.failing.lock().unwrap().insert("ConnectDoorbell", STATUS_DEVICE_REMOVED);
    assert_eq!(app.connect(&queue), Err(STATUS_DEVICE_REMOVED));
    assert_eq!((queue.status(), bench.machine.bugcheck()), (RETRY, None));
    bench.world.failing.lock().unwrap().clear();
    bench.world.connect_status.store(RETRY, Ordering::Relaxed);
    assert!(app.connect(&queue).is_err());
    assert!(bench.stop().reason.contains("DxgkDdiConnectDoorbell"));
}

#[test]
fn a_submission_that_the_driver_refuses_is_0x119_2() {
    unsafe extern "win64" fn refuse(_: HANDLE, _: *const DXGKARG_SUBMITCOMMANDTOHWQUEUE) -> NTSTATUS {
        STATUS_INVALID_PARAMETER
    }
    let bench = bench_of(Mutant {
        table: |table| {
            (DRIVER.table)(table);
            table.DxgkDdiSubmitCommandToHwQueue = Some(refuse);
        },
        ..DRIVER
    });
    let app = App::new(&bench);
    let _attached = app.process.attach();
    let args = D3DKMT_CREATEHWQUEUE { hHwContext: app.context(), ..Zeroed::zeroed() };
    let queue = call(thunks().D3DKMTCreateHwQueue, args).unwrap().hHwQueue;
    let args = D3DKMT_SUBMITCOMMANDTOHWQUEUE { hHwQueue: queue, HwQueueProgressFenceId: 1, ..Zeroed::zeroed() };
    assert_eq!(call(thunks().D3DKMTSubmitCommandToHwQueue, args).err(), Some(STATUS_DEVICE_REMOVED));
    let bugcheck = bench.stop();
    assert_eq!((bugcheck.code, bugcheck.parameters[0]), (0x119, 0x2));
    assert_eq!(bugcheck.parameters[1], u64::from(STATUS_INVALID_PARAMETER.0 as u32));
}

/// A process has as many as it likes where it has the machine for itself.
#[test]
fn a_program_has_its_share_of_hardware_queues_and_contexts_and_another_one_as_many() {
    let bench = bench();
    let share = Share { hardware_queues: 2, ..Share::default() };
    let program = |number| {
        App::of(Process::elsewhere(&bench.machine, "program", number, Arc::new(ThisProcess), 0, share), &bench)
    };
    let context = |app: &App| {
        let args = D3DKMT_CREATEHWCONTEXT { hDevice: app.device, EngineAffinity: 1, ..Zeroed::zeroed() };
        call(thunks().D3DKMTCreateHwContext, args).map(|made| made.hHwContext)
    };
    let queue = |context| {
        let args = D3DKMT_CREATEHWQUEUE { hHwContext: context, ..Zeroed::zeroed() };
        call(thunks().D3DKMTCreateHwQueue, args).map(|made| made.hHwQueue)
    };
    let (one, other, alone) = (program(70), program(71), App::new(&bench));
    for app in [&one, &other] {
        let _attached = app.process.attach();
        let contexts = [context(app).unwrap(), context(app).unwrap()];
        assert_eq!(context(app), Err(STATUS_INSUFFICIENT_RESOURCES));
        let queues = contexts.map(|context| queue(context).unwrap());
        assert_eq!(queue(contexts[0]), Err(STATUS_INSUFFICIENT_RESOURCES));
        call(thunks().D3DKMTDestroyHwQueue, D3DKMT_DESTROYHWQUEUE { hHwQueue: queues[0] }).unwrap();
        queue(contexts[1]).expect("in the place of one that is gone");
        call(thunks().D3DKMTDestroyHwContext, D3DKMT_DESTROYHWCONTEXT { hHwContext: contexts[0] }).unwrap();
        context(app).expect("in the place of one that is gone");
    }
    let attached = alone.process.attach();
    assert!((0..3).all(|_| context(&alone).and_then(queue).is_ok()));
    drop(attached);
    [one, other, alone].iter().for_each(|app| app.process.exit());
    bench.end();
}
