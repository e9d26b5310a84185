//! Rules about packets that only a driver breaks, and what the system owes contexts that share an engine, on a miniport whose engine
//! does what each test says.

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
mod minimal;
#[allow(dead_code)]
mod packet_engine;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dxgkrnl::TdrSettings;
use minimal::{Mutant, SOUND, driver, table};
use packet_engine::app::App;
use packet_engine::{Kind, MACHINES, Machine, Submitted, fill, preempt, submit};
use wddm_ddi::Zeroed;
use wddm_ddi::km::*;
use wddm_ddi::kmt::D3DKMT_SCHEDULINGPRIORITYCLASS;
use wddm_ddi::nt::{DISPATCH_LEVEL, PASSIVE_LEVEL};
use wddm_ddi::status::*;
use wddm_ddi::types::*;

/// Time limit of each wait for something that must happen, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A fault whose packet is not known, after which the adapter has to be reset: FENCE_INVALID and ADAPTER_RESET_REQUIRED.
const ADAPTER_RESET_REQUIRED: i32 = 0x6;

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < TIMEOUT, "{what}");
        std::thread::yield_now();
    }
}

/// Lets the scheduler check time slices a few times, which it does by the host's clock.
fn let_it_check() {
    std::thread::sleep(Duration::from_millis(40));
}

fn is_empty(machine: &Machine) -> bool {
    machine
        .bench
        .machine
        .inspect(machine.luid)
        .is_some_and(|tree| tree.to_string().contains("on the hardware 0, waiting 0"))
}

/// A word that the system shows user mode to read, for a test that plays the GPU.
fn as_gpu<'a>(address: *mut std::ffi::c_void) -> &'a AtomicU64 {
    let page = address.map_addr(|address| address & !0xfff);
    // SAFETY: the page is a mapping of this process that stays.
    assert_eq!(unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE) }, 0);
    // SAFETY: the system maps 8 aligned bytes, which outlive the test's use of them.
    unsafe { &*address.cast::<AtomicU64>() }
}

/// A low context on the hardware, and a preemption under way for a high one; the packet, the high context, the preemption.
fn preempting(machine: &Machine, app: &App) -> (Submitted, D3DKMT_HANDLE, u32) {
    let (low, high) = (app.context(), app.context());
    app.prioritise(high, 1);
    app.submit(low, 1 << 16);
    let first = machine.engine.rendered(1)[0];
    app.submit(high, 2 << 16);
    (first, high, machine.engine.preemptions(1)[0])
}

/// Whatever was asked off the node has ended, and still the driver owes the answer: the node hands nothing over before it.
#[test]
fn a_preemption_that_is_never_answered_is_a_timeout_also_on_a_node_that_has_nothing_left() {
    let machine = Machine::start(&MACHINES[20]);
    let app = App::new(&machine);
    let (first, _, _) = preempting(&machine, &app);
    machine.engine.complete(first.fence);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, first.fence)]);
    (0..3).for_each(|_| machine.bench.machine.advance(TdrSettings::default().delay));
    let next = machine.engine.rendered(2)[1];
    assert_eq!((next.address, machine.engine.reset_nodes()), (2 << 16, vec![0]));
    machine.engine.complete(next.fence);
    machine.end(&app.process);
}

#[test]
fn a_refused_packet_is_done_with_the_one_in_front_of_it_and_its_device_is_lost() {
    let machine = Machine::start(&MACHINES[0]);
    let (app, other) = (App::new(&machine), App::new(&machine));
    let (context, innocent) = (app.context(), other.context());
    let value = as_gpu(app.fence_with_value().1);
    other.submit(innocent, 1 << 16);
    let first = machine.engine.rendered(1)[0];
    machine.engine.answer(STATUS_INVALID_PARAMETER);
    app.submit(context, 2 << 16);
    machine.engine.rendered(2);
    machine.engine.answer(STATUS_SUCCESS);
    machine.engine.complete(first.fence);
    until("the refused packet to be done", || is_empty(&machine));
    until("the loss of its device", || value.load(Ordering::SeqCst) == u64::MAX);
    drop(app);
    machine.end(&other.process);
}

/// "The last completed command before preemption" is not the one that faulted. [d3dkmddi: DXGKARGCB_NOTIFY_INTERRUPT_DATA]
#[test]
fn a_preemption_behind_a_fault_names_the_packet_before_it_or_the_one_that_faulted() {
    for (place, completed) in [(9, 0), (10, 1)] {
        let machine = Machine::start(&MACHINES[place]);
        let (app, other) = (App::new(&machine), App::new(&machine));
        other.submit(other.context(), 3 << 16);
        let innocent = machine.engine.rendered(1)[0];
        machine.engine.complete(innocent.fence);
        let (low, high) = (app.context(), other.context());
        other.prioritise(high, 1);
        app.submit(low, 1 << 16);
        let first = machine.engine.rendered(2)[1];
        other.submit(high, 2 << 16);
        let preemption = machine.engine.preemptions(1)[0];
        machine.engine.faulted(first.fence, 0xdead_0000);
        machine.engine.preempted(preemption, first.fence - 1 + completed);
        let next = machine.engine.rendered(3)[2];
        assert_eq!(next.address, 2 << 16);
        machine.engine.complete(next.fence);
        drop(app);
        machine.end(&other.process);
    }
}

#[test]
fn a_preemption_is_reported_by_the_id_that_it_was_asked_for_with() {
    let machine = Machine::start(&MACHINES[1]);
    let app = App::new(&machine);
    let (first, _, preemption) = preempting(&machine, &app);
    machine.engine.preempted(preemption + 1, first.fence - 1);
    let parameters = machine.scheduler_bugcheck();
    assert_eq!(parameters[..2], [1, u64::from(preemption) + 1]);
}

#[test]
fn a_packet_that_was_not_handed_over_cannot_be_complete() {
    let machine = Machine::start(&MACHINES[2]);
    let app = App::new(&machine);
    let (first, _, _) = preempting(&machine, &app);
    machine.engine.hold_paging();
    // It has an id, and waits for the preemption.
    packet_engine::page(app.device, &app.process);
    machine.engine.complete(first.fence + 1);
    let parameters = machine.scheduler_bugcheck();
    assert_eq!(parameters[..2], [1, u64::from(first.fence) + 1]);
}

#[test]
fn a_packet_on_the_hardware_behind_another_context_gets_its_turn_and_so_does_one_behind_more_of_it() {
    let machine = Machine::start(&MACHINES[4]);
    let (app, other) = (App::new(&machine), App::new(&machine));
    let (context, behind) = (app.context(), other.context());
    app.submit(context, 1 << 16);
    other.submit(behind, 2 << 16);
    let first = machine.engine.rendered(2);
    // Long before anything is taken to hang.
    let end_of_slice = |count: usize| {
        let mut passed = Duration::ZERO;
        until("the end of the time slice", || {
            if passed < Duration::from_secs(1) {
                passed += Duration::from_millis(11);
                machine.bench.machine.advance(Duration::from_millis(11));
            }
            let_it_check();
            machine.engine.preemptions(0).len() >= count
        });
        machine.engine.preemptions(count)[count - 1]
    };
    machine.engine.preempted(end_of_slice(1), first[0].fence - 1);
    let all = machine.engine.rendered(4);
    assert_eq!([all[2].address, all[3].address], [2 << 16, 1 << 16]);
    machine.engine.complete(all[3].fence);
    // The same with a context of the same process that has more queued than the hardware takes.
    let second = app.context();
    for address in 3..=5 {
        app.submit(context, address << 16);
    }
    let all = machine.engine.rendered(6);
    app.submit(second, 9 << 16);
    machine.engine.preempted(end_of_slice(2), all[4].fence - 1);
    let all = machine.engine.rendered(8);
    assert_eq!([all[6].address, all[7].address], [9 << 16, 3 << 16], "whoever had the engine goes behind");
    machine.engine.complete(all[7].fence);
    let all = machine.engine.rendered(10);
    machine.engine.complete(all[9].fence);
    drop(other);
    machine.end(&app.process);
}

#[test]
fn work_of_lower_priority_ends_no_turn_and_a_turn_begins_when_somebody_waits() {
    let machine = Machine::start(&MACHINES[5]);
    let (app, gone, late) = (App::new(&machine), App::new(&machine), App::new(&machine));
    let (context, lower) = (app.context(), app.context());
    app.prioritise(lower, -1);
    app.submit(context, 1 << 16);
    app.submit(context, 2 << 16);
    let first = machine.engine.rendered(2);
    app.submit(lower, 3 << 16);
    for _ in 0..10 {
        machine.bench.machine.advance(Duration::from_millis(11));
        let_it_check();
    }
    assert_eq!(machine.engine.preemptions(0), [], "for work of lower priority");
    // Somebody waits, and goes away.
    gone.submit(gone.context(), 4 << 16);
    let_it_check();
    gone.process.terminate();
    machine.bench.machine.advance(Duration::from_millis(100));
    let_it_check();
    let waits = late.context();
    late.submit(waits, 5 << 16);
    let_it_check();
    assert_eq!(machine.engine.preemptions(0), [], "the time before somebody waited");
    machine.engine.complete(first[1].fence);
    let all = machine.engine.rendered(4);
    assert_eq!([all[2].address, all[3].address], [5 << 16, 3 << 16]);
    machine.engine.complete(all[3].fence);
    late.process.exit();
    machine.end(&app.process);
}

#[test]
fn a_new_priority_or_class_counts_at_once_for_what_is_queued_and_on_the_hardware() {
    let machine = Machine::start(&MACHINES[8]);
    let (app, other) = (App::new(&machine), App::new(&machine));
    let (one, two, theirs) = (app.context(), app.context(), other.context());
    app.submit(one, 1 << 16);
    app.submit(one, 2 << 16);
    let first = machine.engine.rendered(2);
    app.submit(two, 3 << 16);
    app.prioritise(two, 1);
    machine.engine.preempted(machine.engine.preemptions(1)[0], first[0].fence - 1);
    let all = machine.engine.rendered(4);
    assert_eq!([all[2].address, all[3].address], [3 << 16, 1 << 16]);
    machine.engine.complete(all[2].fence);
    let all = machine.engine.rendered(5);
    other.submit(theirs, 4 << 16);
    app.set_class(D3DKMT_SCHEDULINGPRIORITYCLASS::D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE);
    machine.engine.preempted(machine.engine.preemptions(2)[1], all[3].fence - 1);
    let all = machine.engine.rendered(7);
    assert_eq!([all[5].address, all[6].address], [4 << 16, 1 << 16]);
    machine.engine.complete(all[5].fence);
    let all = machine.engine.rendered(8);
    machine.engine.complete(all[7].fence);
    drop(other);
    machine.end(&app.process);
}

#[test]
fn a_preemption_has_one_good_answer() {
    for (number, status) in [(12, STATUS_PENDING), (13, STATUS_TIMEOUT), (14, STATUS_UNSUCCESSFUL)] {
        let machine = Machine::start(&MACHINES[number]);
        let app = App::new(&machine);
        machine.engine.answer_preemptions(status);
        preempting(&machine, &app);
        assert_eq!(machine.scheduler_bugcheck()[..2], [2, u64::from(status.0 as u32)]);
    }
}

/// Level of the last call of DxgkDdiPreemptCommand.
static PREEMPTED_AT: AtomicU8 = AtomicU8::new(u8::MAX);

unsafe extern "win64" fn preempt_and_note_level<const N: usize>(
    context: HANDLE,
    args: *const DXGKARG_PREEMPTCOMMAND,
) -> NTSTATUS {
    // SAFETY: no arguments.
    PREEMPTED_AT.store(unsafe { (driver::imports().KeGetCurrentIrql)() }, Ordering::SeqCst);
    // SAFETY: the arguments are the system's.
    unsafe { preempt::<N>(context, args) }
}

fn fill_noting_level<const N: usize>(driver: &mut DRIVER_INITIALIZATION_DATA) {
    fill::<N>(driver);
    table::fill_for_displays(driver);
    driver.DxgkDdiPreemptCommand = Some(preempt_and_note_level::<N>);
}

#[test]
fn a_preemption_is_asked_for_at_low_irql_where_the_driver_says_so_and_at_dispatch_level_elsewhere() {
    let low = Mutant { caps: |caps| caps.MiscCaps.set_ComputeOnly(false), ..SOUND };
    let high = Mutant {
        caps: |caps| {
            caps.MiscCaps.set_ComputeOnly(false);
            caps.SchedulingCaps.set_LowIrqlPreemptCommand(false);
        },
        ..SOUND
    };
    let kinds = [
        (Kind { number: 22, table: fill_noting_level::<22> }, low, PASSIVE_LEVEL),
        (Kind { number: 23, table: fill_noting_level::<23> }, high, DISPATCH_LEVEL),
    ];
    for (kind, mutant, level) in kinds {
        let machine = Machine::start_as(&kind, mutant);
        let app = App::new(&machine);
        let (first, _, preemption) = preempting(&machine, &app);
        assert_eq!(PREEMPTED_AT.load(Ordering::SeqCst), level);
        machine.engine.preempted(preemption, first.fence - 1);
        let last = machine.engine.rendered(3)[2].fence;
        machine.engine.complete(last);
        machine.end(&app.process);
    }
}

/// A context whose packets have private data.
unsafe extern "win64" fn create_context_with_private_data(
    device: HANDLE,
    args: *mut DXGKARG_CREATECONTEXT,
) -> NTSTATUS {
    // SAFETY: the arguments are the system's.
    let status = unsafe { driver::create_context(device, args) };
    // SAFETY: the system passes the structure.
    unsafe { (*args).ContextInfo.DmaBufferPrivateDataSize = 8 };
    status
}

/// The first byte of the private data is the number of the packet from now on.
unsafe extern "win64" fn submit_and_mark<const N: usize>(
    context: HANDLE,
    args: *const DXGKARG_SUBMITCOMMANDVIRTUAL,
) -> NTSTATUS {
    // SAFETY: the system passes the structure.
    let given = unsafe { &*args };
    if !given.Flags.Paging() {
        // SAFETY: the private data have eight bytes.
        unsafe { given.pDmaBufferPrivateData.cast::<u8>().write((given.DmaBufferVirtualAddress >> 16) as u8) };
    }
    // SAFETY: the arguments are the system's.
    unsafe { submit::<N>(context, args) }
}

fn fill_marking<const N: usize>(table: &mut DRIVER_INITIALIZATION_DATA) {
    fill::<N>(table);
    table.DxgkDdiCreateContext = Some(create_context_with_private_data);
    table.DxgkDdiSubmitCommandVirtual = Some(submit_and_mark::<N>);
}

/// Two packets are on the hardware and one waits when their device gets into error. What the driver is told of: context as at the submission, address, first
/// byte of the private data and level.
fn cancelled_of_a_lost_device(kind: &Kind, caps: fn(&mut DXGK_DRIVERCAPS)) -> Vec<(bool, u64, u8, KIRQL)> {
    let machine = Machine::start_with(kind, caps);
    let (lost, other) = (App::new(&machine), App::new(&machine));
    let context = lost.context();
    for number in 1..=3 {
        lost.submit(context, number << 16);
    }
    let first = machine.engine.rendered(2);
    other.submit(other.context(), 4 << 16);
    machine.engine.let_go_of(0, first[0].fence - 1);
    lost.mark_as_error();
    // The driver still has the context, of which it was told before the call returned.
    let cancelled = machine.engine.cancelled().0;
    lost.destroy_context(context).unwrap();
    let last = machine.engine.rendered(3)[2];
    assert_eq!(last.address, 4 << 16, "what is of another device runs");
    machine.engine.complete(last.fence);
    lost.process.exit();
    machine.end(&other.process);
    cancelled
        .into_iter()
        .map(|packet| (packet.context == first[0].context, packet.address, packet.mark, packet.level))
        .collect()
}

#[test]
fn the_driver_is_told_of_packets_that_are_dropped_because_their_device_is_in_error() {
    let kind = Kind { number: 24, table: fill_marking::<24> };
    let mut told = cancelled_of_a_lost_device(&kind, |caps| caps.SchedulingCaps.set_CancelCommandAware(true));
    told.sort_by_key(|told| told.1);
    // The third was never handed over, so that the driver has left no mark on it.
    let of = |number: u64, mark| (true, number << 16, mark, PASSIVE_LEVEL);
    assert_eq!(told, [of(1, 1), of(2, 2), of(3, 0)]);
    let kind = Kind { number: 25, table: fill_marking::<25> };
    assert_eq!(cancelled_of_a_lost_device(&kind, |_| ()), [], "a driver that is not aware of it is not called");
}

/// "a direct memory access (DMA) packet that was in the GPU scheduler's software queue but never reached the hardware queue because the device went into an error state"
/// [d3dkmddi: DXGKDDI_CANCELCOMMAND]
#[test]
fn the_driver_is_told_of_packets_that_wait_for_a_fence_when_their_device_gets_into_error() {
    let kind = Kind { number: 21, table: fill_marking::<21> };
    let told_of = |caps: fn(&mut DXGK_DRIVERCAPS), kind: &Kind| {
        let machine = Machine::start_with(kind, caps);
        let (lost, other) = (App::new(&machine), App::new(&machine));
        let context = lost.context();
        lost.submit(context, 1 << 16);
        let first = machine.engine.rendered(1)[0];
        let fence = lost.fence();
        lost.gpu_wait(context, fence, 1);
        (2..=3).for_each(|number| lost.submit(context, number << 16));
        machine.engine.let_go_of(0, first.fence - 1);
        lost.mark_as_error();
        let mut cancelled = machine.engine.cancelled().0;
        cancelled.sort_by_key(|packet| packet.address);
        lost.destroy_context(context).unwrap();
        assert_eq!(machine.engine.cancelled().0.len(), cancelled.len(), "each is told once");
        lost.process.exit();
        machine.end(&other.process);
        let told = |packet: &packet_engine::Cancelled| {
            (packet.context == first.context, packet.address, packet.mark, packet.level)
        };
        cancelled.iter().map(told).collect::<Vec<_>>()
    };
    let of = |number: u64, mark| (true, number << 16, mark, PASSIVE_LEVEL);
    let told = told_of(|caps| caps.SchedulingCaps.set_CancelCommandAware(true), &kind);
    assert_eq!(told, [of(1, 1), of(2, 0), of(3, 0)]);
    let kind = Kind { number: 19, table: fill_marking::<19> };
    assert_eq!(told_of(|_| (), &kind), [], "a driver that is not aware of it is not called");
}

/// Packets of a context that ends without an error are run, or are none: nothing is cancelled.
#[test]
fn the_driver_is_told_of_no_packet_of_a_context_that_ends_with_its_work_done() {
    let machine = Machine::start_with(&MACHINES[18], |caps| caps.SchedulingCaps.set_CancelCommandAware(true));
    let app = App::new(&machine);
    let (context, fence) = (app.context(), app.fence());
    app.gpu_wait(context, fence, 1);
    app.submit(context, 1 << 16);
    app.cpu_signal(fence, 1);
    machine.engine.complete(machine.engine.rendered(1)[0].fence);
    app.destroy_context(context).unwrap();
    assert_eq!(machine.engine.cancelled().0, []);
    machine.end(&app.process);
}

#[test]
fn the_driver_is_told_of_packets_that_waited_when_the_adapter_was_reset() {
    let machine = Machine::start_with(&MACHINES[26], |caps| caps.SchedulingCaps.set_CancelCommandAware(true));
    let app = App::new(&machine);
    let context = app.context();
    for number in 1..=3 {
        app.submit(context, number << 16);
    }
    let first = machine.engine.rendered(2);
    app.gpu_wait(context, app.fence(), 1);
    app.submit(context, 4 << 16);
    machine.engine.report(packet_engine::faulted(first[0].fence, 0x4000, ADAPTER_RESET_REQUIRED));
    let addresses = || {
        let mut addresses: Vec<_> = machine.engine.cancelled().0.iter().map(|packet| packet.address).collect();
        addresses.sort_unstable();
        addresses
    };
    until("the packets that waited are cancelled", || addresses().len() >= 2);
    assert_eq!(addresses(), [3 << 16, 4 << 16], "those that the hardware had were thrown away by the reset");
    machine.end(&app.process);
}

#[test]
fn an_interrupt_of_a_monitored_fence_alone_ends_the_waits_for_it() {
    let machine = Machine::start(&MACHINES[6]);
    let app = App::new(&machine);
    let held = app.context();
    let (fence, address) = app.fence_with_value();
    app.gpu_wait(held, fence, 1);
    app.submit(held, 9 << 16);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| app.cpu_wait(fence, 1));
        as_gpu(address).store(1, Ordering::SeqCst);
        let mut data = DXGKARGCB_NOTIFY_INTERRUPT_DATA::zeroed();
        data.InterruptType = DXGK_INTERRUPT_TYPE::DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED;
        machine.engine.report(data);
        assert_eq!(waiter.join().unwrap(), Ok(()));
    });
    let packet = machine.engine.rendered(1)[0];
    assert_eq!(packet.address, 9 << 16, "what a context holds behind a wait runs");
    machine.engine.complete(packet.fence);
    machine.end(&app.process);
}

/// Answer of the test's driver to DxgkDdiCreateContext for contexts of user mode.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Null,
    OurHandle,
    Patching,
    PrivateData,
}

static ANSWER: Mutex<Answer> = Mutex::new(Answer::PrivateData);

unsafe extern "win64" fn create_context(device: HANDLE, args: *mut DXGKARG_CREATECONTEXT) -> NTSTATUS {
    let (given, system) = {
        // SAFETY: the system passes the structure.
        let args = unsafe { &*args };
        (args.hContext, args.Flags.SystemContext())
    };
    // SAFETY: as the system calls it.
    let status = unsafe { driver::create_context(device, args) };
    if system {
        return status;
    }
    // SAFETY: the system passes the structure.
    let args = unsafe { &mut *args };
    match *ANSWER.lock().unwrap_or_else(PoisonError::into_inner) {
        Answer::Null => args.hContext = std::ptr::null_mut(),
        Answer::OurHandle => args.hContext = given,
        Answer::Patching => args.ContextInfo.Caps.set_NoPatchingRequired(false),
        Answer::PrivateData => args.ContextInfo.DmaBufferPrivateDataSize = 8,
    }
    status
}

static DESTROYED: AtomicU64 = AtomicU64::new(0);

unsafe extern "win64" fn destroy_context(context: HANDLE) -> NTSTATUS {
    DESTROYED.fetch_add(1, Ordering::SeqCst);
    // SAFETY: as the system calls it.
    unsafe { driver::destroy(context) }
}

/// Private data of the last render packet, and how much of it the system called the user-mode driver's.
static PRIVATE: Mutex<(Vec<u8>, u32)> = Mutex::new((Vec::new(), 0));

unsafe extern "win64" fn submit_with_data(context: HANDLE, args: *const DXGKARG_SUBMITCOMMANDVIRTUAL) -> NTSTATUS {
    {
        // SAFETY: the system passes the structure.
        let args = unsafe { &*args };
        if !args.Flags.Paging() {
            let (data, size) = (args.pDmaBufferPrivateData.cast::<u8>(), args.DmaBufferPrivateDataSize as usize);
            // SAFETY: the system says how much there is.
            let data = unsafe { std::slice::from_raw_parts(data, size) };
            *PRIVATE.lock().unwrap_or_else(PoisonError::into_inner) = (data.to_vec(), args.DmaBufferUmdPrivateDataSize);
        }
    }
    // SAFETY: as the system calls it.
    unsafe { submit::<7>(context, args) }
}

#[test]
fn what_a_driver_says_of_a_new_context_is_checked_and_packets_have_the_private_data_it_asked_for() {
    let table: fn(&mut DRIVER_INITIALIZATION_DATA) = |table| {
        fill::<7>(table);
        table.DxgkDdiCreateContext = Some(create_context);
        table.DxgkDdiDestroyContext = Some(destroy_context);
        table.DxgkDdiSubmitCommandVirtual = Some(submit_with_data);
    };
    let machine = Machine::start(&Kind { number: 7, table });
    let app = App::new(&machine);
    for (answer, status, destroyed) in [
        (Answer::Null, STATUS_DRIVER_INTERNAL_ERROR, 0),
        (Answer::OurHandle, STATUS_DRIVER_INTERNAL_ERROR, 0),
        (Answer::Patching, STATUS_INVALID_PARAMETER, 1),
    ] {
        *ANSWER.lock().unwrap() = answer;
        let before = DESTROYED.load(Ordering::SeqCst);
        assert_eq!(app.try_context(|_| ()), Err(status));
        assert_eq!(DESTROYED.load(Ordering::SeqCst) - before, destroyed, "what the driver made is taken back");
    }
    *ANSWER.lock().unwrap() = Answer::PrivateData;
    let context = app.context();
    let mut bytes = [1u8, 2, 3, 4, 5, 6, 7, 8, 9];
    let mut submit = |count: u32| {
        app.try_submit(|args| {
            args.BroadcastContext[0] = context;
            (args.Commands, args.CommandLength) = (1 << 16, 64);
            (args.pPrivateDriverData, args.PrivateDriverDataSize) = (bytes.as_mut_ptr().cast(), count);
        })
    };
    for (number, (count, data)) in
        [(3, vec![1, 2, 3, 0, 0, 0, 0, 0]), (8, vec![1, 2, 3, 4, 5, 6, 7, 8])].into_iter().enumerate()
    {
        submit(count).unwrap();
        let packet = machine.engine.rendered(number + 1)[number];
        assert_eq!(*PRIVATE.lock().unwrap(), (data, count));
        machine.engine.complete(packet.fence);
    }
    assert_eq!(submit(9), Err(STATUS_INVALID_PARAMETER), "more than the packets have");
    machine.end(&app.process);
}
