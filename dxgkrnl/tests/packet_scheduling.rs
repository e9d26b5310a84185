//! Contexts that are scheduled packet by packet, on a miniport whose engine does what each test says: what the scheduler hands over
//! and in which order, and what it makes of every report and answer.

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
mod minimal;
#[allow(dead_code)]
mod packet_engine;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use packet_engine::app::App;
use packet_engine::{MACHINES, Machine, Submitted};
use wddm_ddi::Zeroed;
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;

/// Addresses of what was handed over, in order.
fn addresses(submitted: &[Submitted]) -> Vec<u64> {
    submitted.iter().map(|packet| packet.address).collect()
}

#[test]
fn the_hardware_has_two_packets_at_a_time_with_ids_that_count_up() {
    let machine = Machine::start(&MACHINES[0]);
    let app = App::new(&machine);
    let context = app.context();
    for address in 1..=5 {
        app.submit(context, address << 16);
    }
    let first = machine.engine.rendered(2);
    assert_eq!(addresses(&first), [1 << 16, 2 << 16]);
    assert_eq!(first[1].fence, first[0].fence + 1);
    assert!(first.iter().all(|packet| !packet.again && packet.context == first[0].context));
    machine.engine.complete(first[0].fence);
    assert_eq!(addresses(&machine.engine.rendered(3)), [1 << 16, 2 << 16, 3 << 16]);
    // One report stands for everything before it.
    let third = machine.engine.rendered(3)[2].fence;
    machine.engine.complete(third);
    let all = machine.engine.rendered(5);
    machine.engine.complete(all[4].fence);
    app.destroy_context(context).unwrap();
    assert_eq!(app.destroy_context(context), Err(STATUS_INVALID_HANDLE));
    assert_eq!(machine.engine.preemptions(0), []);
    machine.end(&app.process);
}

#[test]
fn a_higher_priority_preempts_and_what_was_preempted_comes_again_in_its_order_under_new_ids() {
    let machine = Machine::start(&MACHINES[1]);
    let app = App::new(&machine);
    let (low, high) = (app.context(), app.context());
    app.prioritise(high, 5);
    for address in 1..=3 {
        app.submit(low, address << 16);
    }
    let first = machine.engine.rendered(2);
    app.submit(high, 9 << 16);
    let preemption = machine.engine.preemptions(1)[0];
    assert_eq!(machine.engine.rendered(2).len(), 2, "nothing is handed over while a preemption is under way");
    // The first one ran to its end, the second had not begun.
    machine.engine.complete(first[0].fence);
    machine.engine.preempted(preemption, first[0].fence);
    let all = machine.engine.rendered(4);
    assert_eq!(addresses(&all), [1 << 16, 2 << 16, 9 << 16, 2 << 16], "what outranks goes first");
    assert_eq!((all[2].again, all[3].again), (false, true));
    assert!(all.windows(2).all(|pair| pair[0].fence < pair[1].fence), "a preempted packet has a new id");
    machine.engine.complete(all[3].fence);
    let all = machine.engine.rendered(5);
    assert_eq!((all[4].address, all[4].again), (3 << 16, false), "nothing twice, nothing lost");
    machine.engine.complete(all[4].fence);
    machine.end(&app.process);
}

#[test]
fn a_report_of_a_preemption_may_be_the_first_to_tell_what_completed() {
    let machine = Machine::start(&MACHINES[2]);
    let app = App::new(&machine);
    let (low, high) = (app.context(), app.context());
    app.prioritise(high, 1);
    app.submit(low, 1 << 16);
    app.submit(low, 2 << 16);
    app.submit(high, 3 << 16);
    let first = machine.engine.rendered(2);
    machine.engine.preempted(machine.engine.preemptions(1)[0], first[1].fence);
    let all = machine.engine.rendered(3);
    assert_eq!(addresses(&all), [1 << 16, 2 << 16, 3 << 16]);
    machine.engine.complete(all[2].fence);
    machine.end(&app.process);
}

#[test]
fn contexts_of_one_priority_alternate_and_a_change_of_priority_counts_for_what_is_queued() {
    let machine = Machine::start(&MACHINES[3]);
    let app = App::new(&machine);
    let (one, two) = (app.context(), app.context());
    for address in 1..=3 {
        app.submit(one, address << 16);
    }
    for address in 4..=6 {
        app.submit(two, address << 16);
    }
    for number in 0..2 {
        machine.engine.complete(machine.engine.rendered(number + 2)[number].fence);
    }
    assert_eq!(addresses(&machine.engine.rendered(4)), [1 << 16, 2 << 16, 3 << 16, 4 << 16]);
    machine.engine.complete(machine.engine.rendered(4)[3].fence);
    let all = machine.engine.rendered(6);
    assert_eq!(addresses(&all[4..]), [5 << 16, 6 << 16]);
    machine.engine.complete(all[5].fence);
    machine.end(&app.process);
}

/// Completes every packet as it comes, until so many were handed over; their addresses.
fn run_through(machine: &Machine, count: usize) -> Vec<u64> {
    for number in 0..count {
        machine.engine.complete(machine.engine.rendered(number + 1)[number].fence);
    }
    addresses(&machine.engine.rendered(count)).into_iter().map(|address| address >> 16).collect()
}

#[test]
fn priorities_within_a_process_order_its_own_contexts_only_and_processes_run_in_turn() {
    let machine = Machine::start(&MACHINES[22]);
    let (app, other_app) = (App::new(&machine), App::new(&machine));
    let (first, low, high) = (app.context(), app.context(), app.context());
    let other = other_app.context();
    app.prioritise(first, 7);
    app.prioritise_in_process(low, -7);
    app.prioritise_in_process(high, 7);
    // These keep the engine until everything is queued.
    app.submit(first, 10 << 16);
    app.submit(first, 11 << 16);
    machine.engine.rendered(2);
    for address in [1, 2] {
        app.submit(low, address << 16);
        other_app.submit(other, (address + 3) << 16);
        app.submit(high, (address + 6) << 16);
    }
    assert_eq!(run_through(&machine, 8), [10, 11, 7, 4, 8, 5, 1, 2]);
    other_app.process.exit();
    machine.end(&app.process);
}

#[test]
fn the_class_of_a_process_moves_its_contexts_among_those_of_others() {
    let machine = Machine::start(&MACHINES[23]);
    let (app, idle_app) = (App::new(&machine), App::new(&machine));
    let (first, normal, idle) = (app.context(), app.context(), idle_app.context());
    app.prioritise(first, 7);
    idle_app.prioritise(idle, 5);
    app.submit(first, 10 << 16);
    app.submit(first, 11 << 16);
    machine.engine.rendered(2);
    idle_app.submit(idle, 1 << 16);
    app.submit(normal, 2 << 16);
    idle_app.submit(idle, 3 << 16);
    idle_app.set_class(D3DKMT_SCHEDULINGPRIORITYCLASS::D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE);
    assert_eq!(run_through(&machine, 5), [10, 11, 2, 1, 3]);
    idle_app.process.exit();
    machine.end(&app.process);
}

#[test]
fn waits_and_signals_keep_their_place_among_the_packets() {
    let machine = Machine::start(&MACHINES[4]);
    let app = App::new(&machine);
    let context = app.context();
    let (gate, done) = (app.fence(), app.fence());
    app.submit(context, 1 << 16);
    app.gpu_signal(context, done, 1);
    app.gpu_wait(context, gate, 7);
    app.submit(context, 2 << 16);
    app.gpu_signal(context, done, 2);
    let first = machine.engine.rendered(1);
    // The signal waits for the packet, the wait for the fence, whoever comes first.
    machine.engine.complete(first[0].fence);
    app.cpu_wait(done, 1).unwrap();
    assert_eq!(machine.engine.rendered(1).len(), 1, "a wait holds what is behind it");
    app.cpu_signal(gate, 7);
    let all = machine.engine.rendered(2);
    assert_eq!(all[1].address, 2 << 16);
    machine.engine.complete(all[1].fence);
    app.cpu_wait(done, 2).unwrap();
    // Work of another context is not blocked.
    let other = app.context();
    app.gpu_wait(context, gate, 8);
    app.submit(context, 3 << 16);
    app.submit(other, 4 << 16);
    let all = machine.engine.rendered(3);
    assert_eq!(all[2].address, 4 << 16);
    machine.engine.complete(all[2].fence);
    machine.end(&app.process);
}

/// Makes the page of a read-only word writable, for a test that plays the GPU.
fn as_gpu<'a>(address: *mut std::ffi::c_void) -> &'a AtomicU64 {
    let page = address.map_addr(|address| address & !0xfff);
    // SAFETY: the page is a mapping of this process that stays.
    assert_eq!(unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE) }, 0);
    // SAFETY: the system maps 8 aligned bytes, which outlive the test's use of them.
    unsafe { &*address.cast::<AtomicU64>() }
}

#[test]
fn a_completed_packet_alone_ends_the_waits_for_what_it_has_written() {
    let machine = Machine::start(&MACHINES[16]);
    let app = App::new(&machine);
    let (context, other) = (app.context(), app.context());
    let (fence, address) = app.fence_with_value();
    app.gpu_wait(other, fence, 1);
    app.submit(other, 9 << 16);
    app.submit(context, 1 << 16);
    let written = machine.engine.rendered(1)[0];
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| app.cpu_wait(fence, 1));
        // The packet writes the fence, and nothing but its completion is reported.
        as_gpu(address).store(1, Ordering::SeqCst);
        machine.engine.complete(written.fence);
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
    let held = machine.engine.rendered(2)[1];
    assert_eq!(held.address, 9 << 16, "what another context holds behind a wait runs");
    machine.engine.complete(held.fence);
    machine.end(&app.process);
}

#[test]
fn a_packet_that_the_driver_refuses_costs_its_device_and_completes_in_its_turn() {
    let machine = Machine::start(&MACHINES[5]);
    let (app, other) = (App::new(&machine), App::new(&machine));
    let (context, innocent) = (app.context(), other.context());
    other.submit(innocent, 1 << 16);
    let first = machine.engine.rendered(1);
    machine.engine.answer(STATUS_INVALID_PARAMETER);
    app.submit(context, 2 << 16);
    machine.engine.rendered(2);
    machine.engine.answer(STATUS_SUCCESS);
    assert_eq!(app.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
    other.submit(innocent, 3 << 16);
    machine.engine.complete(first[0].fence);
    let all = machine.engine.rendered(3);
    machine.engine.complete(all[2].fence);
    assert_eq!(other.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE);
    // With nothing in front of it, and nothing behind it whose completion would stand for both, it completes at once.
    let last = App::new(&machine);
    let context = last.context();
    machine.engine.answer(STATUS_INVALID_PARAMETER);
    last.submit(context, 4 << 16);
    machine.engine.rendered(4);
    machine.engine.answer(STATUS_SUCCESS);
    let tree = machine.bench.machine.inspect(machine.luid).unwrap().to_string();
    assert!(tree.contains("node 0:") && !tree.contains("on the hardware 1"), "{tree}");
    drop((app, last));
    machine.end(&other.process);
}

#[test]
fn a_faulted_packet_costs_its_device_and_no_other() {
    let machine = Machine::start(&MACHINES[6]);
    let (app, other) = (App::new(&machine), App::new(&machine));
    let (context, innocent) = (app.context(), other.context());
    app.submit(context, 1 << 16);
    other.submit(innocent, 2 << 16);
    let first = machine.engine.rendered(2);
    app.submit(context, 3 << 16);
    other.submit(innocent, 4 << 16);
    machine.engine.faulted(first[0].fence, 0xdead_0000);
    machine.engine.complete(first[1].fence);
    let all = machine.engine.rendered(3);
    assert_eq!(all[2].address, 4 << 16, "what a lost device has queued is dropped");
    machine.engine.complete(all[2].fence);
    assert_eq!(app.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    assert_eq!(other.state(), D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE);
    drop(app);
    machine.end(&other.process);
}

#[test]
fn packets_of_a_terminated_process_are_taken_off_the_hardware_and_those_of_others_come_again() {
    let machine = Machine::start(&MACHINES[7]);
    let (app, other) = (App::new(&machine), App::new(&machine));
    let (context, innocent) = (app.context(), other.context());
    app.submit(context, 1 << 16);
    other.submit(innocent, 2 << 16);
    let first = machine.engine.rendered(2);
    std::thread::scope(|scope| {
        scope.spawn(|| app.process.terminate());
        let preemption = machine.engine.preemptions(1)[0];
        machine.engine.preempted(preemption, first[0].fence - 1);
    });
    let all = machine.engine.rendered(3);
    assert_eq!((all[2].address, all[2].again), (2 << 16, true));
    machine.engine.complete(all[2].fence);
    machine.end(&other.process);
}

/// The preemption with this number, for which time passes.
fn preemption_by_time(machine: &Machine, number: usize) -> u32 {
    let asked = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The scheduler looks at the clock when it likes, twice: when the time slice begins, and when it is over.
        scope.spawn(|| {
            while !asked.load(Ordering::Acquire) {
                machine.bench.machine.advance(Duration::from_millis(5));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let preemption = machine.engine.preemptions(number + 1)[number];
        asked.store(true, Ordering::Release);
        preemption
    })
}

/// Packets that wait for what another context does leave the node after their quantum. Each context must then get it, whatever was on the hardware with it.
#[test]
fn every_context_has_the_node_for_a_quantum_however_many_packets_the_others_have() {
    const QUANTA: usize = 16;
    let machine = Machine::start(&MACHINES[26]);
    let (app, other) = (App::new(&machine), App::new(&machine));
    let contexts = [(&app, 3), (&app, 3), (&other, 2), (&other, 1)].map(|(app, packets)| (app, app.context(), packets));
    for ((app, context, packets), number) in contexts.iter().zip(1u64..) {
        (0..*packets).for_each(|_| app.submit(*context, number << 16));
    }
    let before = machine.engine.rendered(2)[0].fence - 1;
    let mut had = std::collections::BTreeSet::new();
    for quantum in 0..QUANTA {
        let on_hardware = &machine.engine.rendered(2 * quantum + 2)[2 * quantum..];
        assert_eq!(on_hardware.len(), 2);
        had.insert(on_hardware[0].address >> 16);
        let preemption = preemption_by_time(&machine, quantum);
        machine.engine.preempted(preemption, before);
    }
    assert_eq!(Vec::from_iter(had), [1, 2, 3, 4], "contexts whose packet was the first on the hardware for a quantum");
    for number in (2 * QUANTA..).take(3 + 3 + 2 + 1) {
        machine.engine.complete(machine.engine.rendered(number + 1)[number].fence);
    }
    drop(app);
    machine.end(&other.process);
}

#[test]
fn arguments_are_checked_and_a_refusal_changes_nothing() {
    let machine = Machine::start(&MACHINES[8]);
    let app = App::new(&machine);
    let context = app.context();
    type Change = fn(&mut D3DKMT_CREATECONTEXTVIRTUAL);
    let creations: [(Change, NTSTATUS); 5] = [
        (|args| args.hDevice = 0x77, STATUS_INVALID_HANDLE),
        (|args| args.NodeOrdinal = 1, STATUS_INVALID_PARAMETER),
        (|args| args.EngineAffinity = 2, STATUS_INVALID_PARAMETER),
        (|args| args.Flags.set_TestContext(true), STATUS_NOT_SUPPORTED),
        (|args| args.PrivateDriverDataSize = u32::MAX, STATUS_INVALID_PARAMETER),
    ];
    for (number, (change, status)) in creations.into_iter().enumerate() {
        assert_eq!(app.try_context(change), Err(status), "creation {number}");
    }
    let silent = app.try_context(|args| args.Flags.set_SynchronizationOnly(true)).unwrap();
    type Submission = fn(&mut D3DKMT_SUBMITCOMMAND);
    let submissions: [(Submission, NTSTATUS); 9] = [
        (|args| args.BroadcastContextCount = 0, STATUS_INVALID_PARAMETER),
        (|args| args.BroadcastContextCount = 2, STATUS_INVALID_HANDLE),
        (|args| args.BroadcastContextCount = 65, STATUS_INVALID_PARAMETER),
        (|args| args.BroadcastContext[0] = 0x77, STATUS_INVALID_HANDLE),
        (|args| args.NumPrimaries = 1, STATUS_INVALID_PARAMETER),
        (|args| args.NumHistoryBuffers = 1, STATUS_INVALID_PARAMETER),
        (|args| args.PresentHistoryToken = 1, STATUS_INVALID_PARAMETER),
        (|args| args.Flags.set_PresentRedirected(true), STATUS_INVALID_PARAMETER),
        (|args| args.PrivateDriverDataSize = u32::MAX, STATUS_INVALID_PARAMETER),
    ];
    for (number, (change, status)) in submissions.into_iter().enumerate() {
        let refused = app.try_submit(|args| {
            args.BroadcastContext[0] = context;
            change(args);
        });
        assert_eq!(refused, Err(status), "submission {number}");
    }
    let mut byte = 0u8;
    let private = app.try_submit(|args| {
        args.BroadcastContext[0] = context;
        (args.pPrivateDriverData, args.PrivateDriverDataSize) = ((&raw mut byte).cast(), 1);
    });
    assert_eq!(private, Err(STATUS_INVALID_PARAMETER), "the driver's packets have no private data");
    assert_eq!(app.try_submit(|args| args.BroadcastContext[0] = silent), Err(STATUS_INVALID_PARAMETER));
    app.submit(context, 1 << 16);
    machine.engine.complete(machine.engine.rendered(1)[0].fence);
    machine.end(&app.process);
}

/// One mistake of the driver with a packet of a user's on the hardware.
fn mistake(machine: usize, make: impl FnOnce(&Machine, &App, &[Submitted])) -> [u64; 4] {
    let machine = Machine::start(&MACHINES[machine]);
    let app = App::new(&machine);
    let context = app.context();
    app.submit(context, 1 << 16);
    let first = machine.engine.rendered(1);
    make(&machine, &app, &first);
    machine.scheduler_bugcheck()
}

#[test]
fn completions_of_packets_that_are_not_under_way_are_0x119_1() {
    let [code, reported, completed, submitted] = mistake(9, |machine, _, first| {
        machine.engine.complete(first[0].fence + 1);
    });
    assert_eq!((code, reported, completed, submitted), (1, submitted + 1, submitted - 1, submitted), "a later id");
    let parameters = mistake(10, |machine, _, first| machine.engine.complete(first[0].fence - 1));
    assert_eq!((parameters[0], parameters[1]), (1, parameters[2]), "an id that is complete already");
}

#[test]
fn preemptions_that_nobody_asked_for_or_with_packets_that_are_not_under_way_are_0x119_1() {
    let parameters = mistake(11, |machine, _, first| machine.engine.preempted(1, first[0].fence - 1));
    assert_eq!(&parameters[..2], [1, 1], "nobody asked");
    let parameters = mistake(12, |machine, app, first| {
        let high = app.context();
        app.prioritise(high, 1);
        app.submit(high, 2 << 16);
        machine.engine.preempted(machine.engine.preemptions(1)[0], first[0].fence + 1);
    });
    assert_eq!((parameters[0], parameters[1]), (1, parameters[3] + 1), "a packet that does not exist");
}

#[test]
fn answers_other_than_the_documented_ones_are_0x119_2() {
    let failure = u64::from(STATUS_UNSUCCESSFUL.0 as u32);
    let parameters = mistake(13, |machine, app, _| {
        machine.engine.answer(STATUS_UNSUCCESSFUL);
        app.submit(app.context(), 2 << 16);
    });
    assert_eq!(&parameters[..2], [2, failure], "DxgkDdiSubmitCommandVirtual");
    let pending = u64::from(STATUS_PENDING.0 as u32);
    let parameters = mistake(14, |machine, app, _| {
        machine.engine.answer(STATUS_PENDING);
        app.submit(app.context(), 2 << 16);
    });
    assert_eq!(&parameters[..2], [2, pending], "a success that the DDI does not know");
    let parameters = mistake(15, |machine, app, _| {
        machine.engine.answer_preemptions(STATUS_INVALID_PARAMETER);
        let high = app.context();
        app.prioritise(high, 1);
        app.submit(high, 2 << 16);
    });
    assert_eq!(&parameters[..2], [2, u64::from(STATUS_INVALID_PARAMETER.0 as u32)], "DxgkDdiPreemptCommand");
}

#[test]
fn preempted_paging_packets_come_again_first_in_their_order_and_under_their_ids() {
    let machine = Machine::start(&MACHINES[17]);
    let app = App::new(&machine);
    let (low, high) = (app.context(), app.context());
    app.prioritise(high, 1);
    app.submit(low, 1 << 16);
    let first = machine.engine.rendered(1);
    machine.engine.hold_paging();
    packet_engine::page(app.device, &app.process);
    let paging = machine.engine.paged(1);
    app.submit(high, 2 << 16);
    machine.engine.preempted(machine.engine.preemptions(1)[0], first[0].fence - 1);
    machine.engine.rendered(3);
    let all = machine.engine.everything();
    let again: Vec<_> = all.iter().filter(|packet| packet.again).collect();
    let (paged, rendered): (Vec<_>, Vec<_>) = again.iter().partition(|packet| packet.paging);
    let ids = |packets: &[&Submitted]| packets.iter().map(|packet| packet.fence).collect::<Vec<_>>();
    assert_eq!(ids(&paged), ids(&paging.iter().collect::<Vec<_>>()), "the same ids in the same order");
    assert_eq!(rendered.iter().map(|packet| packet.address).collect::<Vec<_>>(), [1 << 16]);
    let position = |wanted: &Submitted| all.iter().rposition(|packet| packet == wanted).unwrap();
    let high = all.iter().find(|packet| packet.address == 2 << 16 && !packet.paging).unwrap();
    assert!(paged.iter().all(|packet| position(packet) < position(high)), "before all others");
    machine.engine.release_paging();
    machine.engine.complete(all.iter().map(|packet| packet.fence).max().unwrap());
    machine.end(&app.process);
}

#[test]
fn an_engine_that_is_said_to_be_idle_twice_with_the_same_work_is_named_and_keeps_its_work() {
    let machine = Machine::start(&MACHINES[24]);
    let app = App::new(&machine);
    let context = app.context();
    app.submit(context, 0x1000);
    let packet = machine.engine.rendered(1)[0];
    let named = || machine.bench.machine.debug_log().iter().filter(|line| line.contains("twice")).count();
    // Work may have come since it was said.
    machine.engine.idle(0);
    machine.engine.idle(0);
    let started = std::time::Instant::now();
    while named() == 0 {
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", machine.bench.machine.debug_log());
        std::thread::yield_now();
    }
    machine.engine.complete(packet.fence);
    app.submit(context, 0x2000);
    let packets = machine.engine.rendered(2);
    machine.engine.complete(packets[1].fence);
    assert_eq!(named(), 1);
    machine.end(&app.process);
}

#[test]
fn an_engine_that_does_not_exist_is_not_idle() {
    let machine = Machine::start(&MACHINES[25]);
    machine.engine.idle(7);
    let bugcheck = machine.bugcheck();
    assert!(bugcheck.reason.contains('7'), "{bugcheck:?}");
}

/// Context switches of the process on node 0, and of the node altogether.
fn switches(machine: &Machine, app: &App) -> (u32, u32) {
    let _attached = app.process.attach();
    let ask = |kind| {
        let mut args = D3DKMT_QUERYSTATISTICS::zeroed();
        (args.Type, args.AdapterLuid) = (kind, machine.luid);
        args.hProcess = std::ptr::without_provenance_mut(usize::MAX);
        let told = packet_engine::call(dxgkrnl::further_thunks().D3DKMTQueryStatistics, args);
        told.unwrap().QueryResult
    };
    let own = ask(D3DKMT_QUERYSTATISTICS_TYPE::D3DKMT_QUERYSTATISTICS_PROCESS_NODE);
    let all = ask(D3DKMT_QUERYSTATISTICS_TYPE::D3DKMT_QUERYSTATISTICS_NODE);
    // SAFETY: every arm of the union is plain numbers.
    let own = unsafe { own.ProcessNodeInformation.ContextSwitch };
    // SAFETY: as above.
    (own, unsafe { all.NodeInformation.GlobalInformation.ContextSwitch })
}

#[test]
fn a_switch_is_counted_when_a_packet_of_another_context_gets_the_node() {
    let machine = Machine::start(&MACHINES[26]);
    let app = App::new(&machine);
    let (one, other) = (app.context(), app.context());
    let (_, before) = switches(&machine, &app);
    for (context, address) in [(one, 1), (one, 2), (other, 3), (one, 4)] {
        app.submit(context, address << 16);
    }
    let first = machine.engine.rendered(2);
    let count = || {
        let (own, all) = switches(&machine, &app);
        assert_eq!(own, all - before, "nobody else has the node");
        own
    };
    assert_eq!(count(), 1, "the second packet has not got the node yet, and is of the same context");
    machine.engine.complete(first[0].fence);
    let third = machine.engine.rendered(3)[2].fence;
    assert_eq!(count(), 1);
    machine.engine.complete(first[1].fence);
    let fourth = machine.engine.rendered(4)[3].fence;
    assert_eq!(count(), 2, "the other context has the node");
    assert!(third < fourth);
    machine.engine.complete(fourth);
    // The context is gone when the report has been dealt with.
    app.destroy_context(one).unwrap();
    assert_eq!(count(), 3, "of the two that one report completes the second had the node, too");
    machine.end(&app.process);
}
