//! Recovery of an engine that runs packets, and drivers that break its rules, on a miniport whose engine does what each test says.
//! [tdr-changes-in-windows-8; debugger: 0x116, 0x119]

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
mod minimal;
#[allow(dead_code)]
mod packet_engine;

use std::time::Duration;

use dxgkrnl::{Rescue, TdrFate, TdrOutcome, TdrReason, TdrReport, TdrSettings};
use packet_engine::app::App;
use packet_engine::{MACHINES, Machine, Submitted, completed, faulted, hung, preempted};
use wddm_ddi::kmt::*;
use wddm_ddi::status::*;
use wddm_ddi::types::NTSTATUS;

const ACTIVE: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;
const HUNG: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_HUNG;
const RESET: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_RESET;
/// FENCE_INVALID with the reset that is needed: of the adapter, of the engine.
const ADAPTER_RESET_REQUIRED: i32 = 0x6;
const ENGINE_RESET_REQUIRED: i32 = 0xa;

/// Time enough for a packet without progress to be noticed, preempted, and reset.
fn time_out(machine: &Machine) {
    (0..3).for_each(|_| machine.bench.machine.advance(TdrSettings::default().delay));
}

fn reports(machine: &Machine) -> Vec<TdrReport> {
    machine.bench.machine.tdr_reports(machine.luid)
}

/// The first report, as soon as there is one.
fn first_report(machine: &Machine) -> TdrReport {
    loop {
        if let Some(report) = reports(machine).into_iter().next() {
            return report;
        }
        std::thread::yield_now();
    }
}

/// Guilty and innocent each have a packet on the hardware, in this order.
fn two(machine: &Machine) -> (App, App, Vec<Submitted>) {
    let (guilty, innocent) = (App::new(machine), App::new(machine));
    guilty.submit(guilty.context(), 1 << 16);
    machine.engine.rendered(1);
    innocent.submit(innocent.context(), 2 << 16);
    let packets = machine.engine.rendered(2);
    (guilty, innocent, packets)
}

fn finish(machine: Machine, guilty: App, innocent: App) {
    guilty.process.exit();
    machine.end(&innocent.process);
}

/// Packets of `address`, as handed over.
fn of(packets: &[Submitted], address: u64) -> Vec<Submitted> {
    packets.iter().filter(|packet| packet.address == address).copied().collect()
}

/// A packet that the driver took and never reports as complete costs nobody a call that does not return: it is a timeout.
#[test]
fn the_reset_follows_the_page_and_what_it_did_not_hit_runs_under_new_ids() {
    let machine = Machine::start(&MACHINES[0]);
    let (guilty, innocent, first) = two(&machine);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, first[0].fence)]);
    machine.bench.machine.start_ddi_log(machine.luid);
    let half = TdrSettings::default().delay / 2;
    let advance = |time| machine.bench.machine.advance(time);
    // Seen first, and nothing is asked for before it has stood for TdrDelay.
    advance(Duration::ZERO);
    advance(half);
    assert_eq!(machine.engine.preemptions(0).len(), 0);
    advance(half);
    assert_eq!(machine.engine.preemptions(1).len(), 1);
    // The preemption has as long.
    advance(half);
    assert_eq!((machine.engine.preemptions(1).len(), guilty.state(), reports(&machine).len()), (1, ACTIVE, 0));
    advance(half);
    assert_eq!((guilty.state(), innocent.state()), (HUNG, ACTIVE));
    let again = machine.engine.rendered(3)[2];
    assert!(again.address == 2 << 16 && again.again && again.fence > first[1].fence, "{again:?}");
    let wanted = ["PreemptCommand", "QueryEngineStatus", "QueryDependentEngineGroup", "CollectDbgInfo", "ResetEngine"];
    let wanted = wanted.map(|name| format!("DxgkDdi{name}"));
    let log = machine.bench.machine.take_ddi_log(machine.luid);
    let order: Vec<_> = log.iter().filter(|name| wanted.contains(name)).collect();
    assert_eq!(order, wanted.iter().collect::<Vec<_>>());
    let reports = reports(&machine);
    let [report] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!(
        (report.node, report.reason, report.outcome, report.live_dump, report.responsive),
        (Some(0), TdrReason::EngineTimeout, TdrOutcome::EngineReset, Some(0x141), Some(false))
    );
    assert_eq!((report.with(TdrFate::Guilty).count(), report.with(TdrFate::Innocent).count()), (1, 1), "{report}");
    machine.engine.complete(again.fence);
    finish(machine, guilty, innocent);
}

#[test]
fn paging_packets_behind_it_come_again_first_in_their_order_and_under_their_ids() {
    let machine = Machine::start(&MACHINES[1]);
    let (guilty, innocent, first) = two(&machine);
    machine.engine.hold_paging();
    packet_engine::page(innocent.device, &innocent.process);
    let paging = machine.engine.paged(1);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, first[0].fence)]);
    time_out(&machine);
    machine.engine.rendered(3);
    let all = machine.engine.everything();
    let position = |wanted: &dyn Fn(&Submitted) -> bool| all.iter().rposition(wanted).unwrap();
    let render = position(&|packet| packet.address == 2 << 16);
    for packet in &paging {
        let again = position(&|other| other.paging && other.fence == packet.fence);
        assert!(all[again].again && again < render, "{packet:?} in {all:?}");
    }
    let ids: Vec<u32> = all.iter().filter(|packet| packet.paging && packet.again).map(|packet| packet.fence).collect();
    assert!(ids.is_sorted() && ids.len() == paging.len(), "{ids:?}");
    machine.engine.release_paging();
    machine.engine.complete(all.iter().map(|packet| packet.fence).max().unwrap());
    finish(machine, guilty, innocent);
}

/// A driver that calls this id the last aborted one, when `first` is on the hardware. What the machine stops with.
fn calls_aborted(machine: usize, choose: impl FnOnce(&[Submitted]) -> u32) -> ([u64; 4], Vec<Submitted>) {
    let machine = Machine::start(&MACHINES[machine]);
    let (guilty, innocent, first) = two(&machine);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, choose(&first))]);
    time_out(&machine);
    let parameters = machine.scheduler_bugcheck();
    guilty.process.exit();
    innocent.process.exit();
    (parameters, first)
}

#[test]
fn an_aborted_id_before_the_last_completed_or_behind_the_last_submitted_is_0x119_a() {
    let (parameters, first) = calls_aborted(2, |first| first[0].fence.wrapping_sub(2));
    let [reported, completed, submitted] = [first[0].fence.wrapping_sub(2), first[0].fence - 1, first[1].fence];
    assert_eq!(parameters, [0xa, reported.into(), completed.into(), submitted.into()]);
    let (parameters, first) = calls_aborted(3, |first| first[1].fence + 1);
    let submitted = u64::from(first[1].fence);
    assert_eq!((parameters[0], parameters[1], parameters[3]), (0xa, submitted + 1, submitted));
    let (parameters, _) = calls_aborted(4, |first| first[0].fence.wrapping_add(1 << 31));
    assert_eq!(parameters[0], 0xa);
}

#[test]
fn an_aborted_id_between_them_that_no_packet_has_is_0x119_a() {
    let machine = Machine::start(&MACHINES[5]);
    let (guilty, innocent, first) = two(&machine);
    // Both come again under new ids.
    innocent.submit(
        {
            let high = innocent.context();
            innocent.prioritise(high, 1);
            high
        },
        3 << 16,
    );
    machine.engine.preempted(machine.engine.preemptions(1)[0], first[0].fence - 1);
    machine.engine.rendered(4);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, first[1].fence)]);
    time_out(&machine);
    let parameters = machine.scheduler_bugcheck();
    assert_eq!((parameters[0], parameters[1], parameters[2]), (0xa, parameters[2] + 2, u64::from(first[0].fence) - 1));
    guilty.process.exit();
    innocent.process.exit();
}

#[test]
fn what_the_engine_says_of_packets_between_snapshot_and_reset_is_not_heard() {
    let machine = Machine::start(&MACHINES[7]);
    let (guilty, innocent, first) = two(&machine);
    machine.bench.machine.advance(TdrSettings::default().delay);
    machine.bench.machine.advance(TdrSettings::default().delay);
    let preemption = machine.engine.preemptions(1)[0];
    // Any of these would count, or be a bugcheck.
    machine.engine.report_late([
        completed(0, first[0].fence),
        completed(0, first[1].fence + 7),
        preempted(preemption, first[0].fence),
        faulted(first[1].fence, 0x4000, 0),
        hung(),
    ]);
    // Nothing is on the hardware any more, says the driver: the last one completed is what it names, and that one's device pays.
    machine.engine.answer_resets(&[(STATUS_SUCCESS, first[0].fence)]);
    machine.bench.machine.advance(TdrSettings::default().delay);
    assert_eq!((guilty.state(), innocent.state()), (HUNG, ACTIVE));
    let again = machine.engine.rendered(3)[2];
    assert_eq!((again.address, again.again, reports(&machine).len()), (2 << 16, true, 1));
    machine.engine.complete(again.fence);
    finish(machine, guilty, innocent);
}

#[test]
fn the_last_completed_id_as_the_aborted_one_costs_nobody_and_everything_comes_again() {
    let machine = Machine::start(&MACHINES[8]);
    let (guilty, innocent, first) = two(&machine);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, first[0].fence - 1)]);
    time_out(&machine);
    assert_eq!((guilty.state(), innocent.state()), (ACTIVE, ACTIVE));
    let all = machine.engine.rendered(4);
    assert_eq!((of(&all, 1 << 16).len(), of(&all, 2 << 16).len()), (2, 2));
    assert!(all[2..].iter().all(|packet| packet.again && packet.fence > first[1].fence), "{all:?}");
    machine.engine.complete(all[3].fence);
    finish(machine, guilty, innocent);
}

#[test]
fn a_completion_after_the_timeout_and_before_the_snapshot_ends_the_recovery() {
    let machine = Machine::start_with(&MACHINES[9], |caps| caps.GpuEngineTopology.NbAsymetricProcessingNodes = 2);
    let (guilty, innocent) = (App::new(&machine), App::new(&machine));
    guilty.submit(guilty.context(), 1 << 16);
    machine.engine.rendered(1);
    let other = innocent.try_context(|args| args.NodeOrdinal = 1).unwrap();
    innocent.submit(other, 2 << 16);
    let packets = machine.engine.rendered(2);
    assert_eq!(packets[1].node, 1);
    // Both hang at one look. While the first engine is being reset, the second one ends its work.
    machine.engine.answer_resets(&[(STATUS_SUCCESS, packets[0].fence)]);
    machine.engine.report_late([completed(1, packets[1].fence)]);
    time_out(&machine);
    let seen: Vec<_> = reports(&machine).iter().map(|report| (report.node, report.outcome)).collect();
    assert_eq!(seen, [(Some(0), TdrOutcome::EngineReset), (Some(1), TdrOutcome::NothingToReset)]);
    assert_eq!((guilty.state(), innocent.state(), machine.engine.reset_nodes()), (HUNG, ACTIVE, vec![0]));
    finish(machine, guilty, innocent);
}

/// Looks for hangs until one was reset: another look would find what was submitted again as old as what hung.
fn look_until_reset(machine: &Machine) {
    for _ in 0..2 {
        if machine.engine.reset_nodes().is_empty() {
            machine.bench.machine.advance(TdrSettings::default().delay);
        }
    }
}

#[test]
fn engines_that_hang_together_are_preempted_first_and_reset_in_the_order_of_their_numbers() {
    let two_nodes = |machine: usize| {
        let machine = Machine::start_with(&MACHINES[machine], |caps| {
            caps.GpuEngineTopology.NbAsymetricProcessingNodes = 2;
        });
        let (guilty, innocent) = (App::new(&machine), App::new(&machine));
        let first = innocent.context();
        let second = guilty.try_context(|args| args.NodeOrdinal = 1).unwrap();
        guilty.submit(second, 2 << 16);
        machine.engine.rendered(1);
        machine.bench.machine.advance(TdrSettings::default().delay);
        innocent.submit(first, 1 << 16);
        let packets = machine.engine.rendered(2);
        machine.engine.answer_dependents(0b11);
        (machine, guilty, innocent, packets)
    };
    let (machine, guilty, innocent, packets) = two_nodes(10);
    // The first node does not let go in time, so it is reset too, and before the second. Nothing of it was aborted.
    machine.engine.answer_resets(&[(STATUS_SUCCESS, packets[1].fence - 1), (STATUS_SUCCESS, packets[0].fence)]);
    look_until_reset(&machine);
    let again = machine.engine.rendered(3)[2];
    assert!(again.address == 1 << 16 && again.again, "{again:?}");
    assert_eq!((machine.engine.reset_nodes(), guilty.state(), innocent.state()), (vec![0, 1], HUNG, ACTIVE));
    machine.engine.complete(again.fence);
    finish(machine, guilty, innocent);
    let (machine, guilty, innocent, packets) = two_nodes(11);
    // It lets go, and is not reset.
    machine.engine.answer_resets(&[(STATUS_SUCCESS, packets[0].fence)]);
    machine.engine.let_go_of(0, packets[1].fence - 1);
    look_until_reset(&machine);
    first_report(&machine);
    // It is asked once or twice: as one that seemed to hang, and again if it let go and went on before the other was reset.
    let asked = machine.engine.preemptions(2).len() - 1;
    let again = machine.engine.rendered(2 + asked)[1 + asked];
    assert!((1..=2).contains(&asked) && again.address == 1 << 16 && again.again, "{asked} times, {again:?}");
    assert_eq!((machine.engine.reset_nodes(), guilty.state(), innocent.state()), (vec![1], HUNG, ACTIVE));
    machine.engine.complete(again.fence);
    finish(machine, guilty, innocent);
}

#[test]
fn an_engine_that_a_later_one_hangs_together_with_is_still_reset_first() {
    let machine = Machine::start_with(&MACHINES[19], |caps| caps.GpuEngineTopology.NbAsymetricProcessingNodes = 2);
    let (guilty, innocent) = (App::new(&machine), App::new(&machine));
    guilty.submit(guilty.context(), 1 << 16);
    machine.engine.rendered(1);
    machine.bench.machine.advance(TdrSettings::default().delay);
    let second = innocent.try_context(|args| args.NodeOrdinal = 1).unwrap();
    innocent.submit(second, 2 << 16);
    let packets = machine.engine.rendered(2);
    machine.engine.answer_dependents(0b11);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, packets[0].fence), (STATUS_SUCCESS, packets[1].fence - 1)]);
    (0..2).for_each(|_| machine.bench.machine.advance(TdrSettings::default().delay));
    assert_eq!((machine.engine.reset_nodes(), guilty.state(), innocent.state()), (vec![0, 1], HUNG, ACTIVE));
    machine.engine.report(completed(1, machine.engine.rendered(3)[2].fence));
    finish(machine, guilty, innocent);
}

#[test]
fn a_packet_behind_one_that_completes_before_the_snapshot_is_not_taken_for_it() {
    let machine = Machine::start_with(&MACHINES[20], |caps| caps.GpuEngineTopology.NbAsymetricProcessingNodes = 2);
    let (guilty, innocent) = (App::new(&machine), App::new(&machine));
    guilty.submit(guilty.context(), 1 << 16);
    machine.engine.rendered(1);
    let other = innocent.try_context(|args| args.NodeOrdinal = 1).unwrap();
    innocent.submit(other, 2 << 16);
    innocent.submit(other, 3 << 16);
    let packets = machine.engine.rendered(3);
    // Both engines hang at one look. While the first one is being reset, the second one goes on to the packet behind.
    machine.engine.answer_resets(&[(STATUS_SUCCESS, packets[0].fence), (STATUS_SUCCESS, packets[2].fence)]);
    machine.engine.report_late([completed(1, packets[1].fence)]);
    time_out(&machine);
    assert_eq!((machine.engine.reset_nodes(), guilty.state(), innocent.state()), (vec![0], HUNG, ACTIVE));
    machine.engine.report(completed(1, packets[2].fence));
    finish(machine, guilty, innocent);
}

#[test]
fn the_last_completed_id_goes_on_to_the_aborted_one_and_to_the_last_submitted_one_with_the_adapter() {
    let machine = Machine::start(&MACHINES[21]);
    let hang = |count: usize, answer: &dyn Fn(&Submitted) -> (NTSTATUS, u32)| {
        let app = App::new(&machine);
        app.submit(app.context(), 1 << 16);
        let packet = machine.engine.rendered(count)[count - 1];
        machine.engine.answer_resets(&[answer(&packet)]);
        time_out(&machine);
        assert_eq!(machine.bench.machine.bugcheck(), None);
        (app, packet)
    };
    let (aborted, packet) = hang(1, &|packet| (STATUS_SUCCESS, packet.fence));
    // What was aborted is now the last one completed, which may be named if nothing is aborted.
    let (first, _) = hang(2, &|_| (STATUS_SUCCESS, packet.fence));
    assert_eq!((aborted.state(), first.state()), (HUNG, ACTIVE));
    let again = machine.engine.rendered(3)[2];
    machine.engine.complete(again.fence);
    let (reset, packet) = hang(4, &|_| (STATUS_UNSUCCESSFUL, 0));
    assert_eq!((reset.state(), first.state()), (RESET, RESET));
    let (last, _) = hang(5, &|_| (STATUS_SUCCESS, packet.fence));
    assert_eq!(last.state(), ACTIVE);
    let again = machine.engine.rendered(6)[5];
    machine.engine.complete(again.fence);
    for app in [aborted, first, reset] {
        app.process.exit();
    }
    machine.end(&last.process);
}

#[test]
fn a_hang_that_is_reported_twice_is_recovered_from_once() {
    let machine = Machine::start(&MACHINES[22]);
    let (guilty, innocent, first) = two(&machine);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, first[0].fence)]);
    machine.engine.report_all([hung(), hung()]);
    let again = machine.engine.rendered(3)[2];
    assert_eq!(first_report(&machine).outcome, TdrOutcome::EngineReset);
    // Work is done in order: with the loss of this device the second report is dealt with too.
    let later = App::new(&machine);
    later.submit(later.context(), 3 << 16);
    let packet = machine.engine.rendered(4)[3];
    machine.engine.complete(again.fence);
    machine.engine.faulted(packet.fence, 0x6000);
    while later.state() == ACTIVE {
        std::thread::yield_now();
    }
    assert_eq!((guilty.state(), innocent.state(), machine.engine.reset_nodes()), (HUNG, ACTIVE, vec![0]));
    later.process.exit();
    finish(machine, guilty, innocent);
}

#[test]
fn what_the_guilty_context_has_behind_the_aborted_packet_does_not_come_again() {
    let machine = Machine::start(&MACHINES[23]);
    let (guilty, innocent) = (App::new(&machine), App::new(&machine));
    let context = guilty.context();
    guilty.submit(context, 1 << 16);
    guilty.submit(context, 2 << 16);
    let packets = machine.engine.rendered(2);
    innocent.submit(innocent.context(), 3 << 16);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, packets[0].fence)]);
    time_out(&machine);
    let all = machine.engine.rendered(3);
    assert_eq!(all.iter().map(|packet| packet.address >> 16).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((guilty.state(), innocent.state()), (HUNG, ACTIVE));
    machine.engine.complete(all[2].fence);
    finish(machine, guilty, innocent);
}

#[test]
fn a_wait_of_the_processor_ends_with_the_reset_of_the_adapter() {
    let machine = Machine::start(&MACHINES[24]);
    let (guilty, innocent, _) = two(&machine);
    let fence = innocent.fence();
    machine.engine.answer_resets(&[(STATUS_UNSUCCESSFUL, 0)]);
    let released = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| innocent.cpu_wait(fence, 1));
        time_out(&machine);
        waiter.join().unwrap()
    });
    assert_eq!((released, innocent.state()), (Err(STATUS_DEVICE_REMOVED), RESET));
    finish(machine, guilty, innocent);
}

#[test]
fn an_engine_that_is_not_reset_costs_the_adapter_a_reset_for_reason_9() {
    let machine = Machine::start(&MACHINES[12]);
    let (guilty, innocent, _) = two(&machine);
    machine.engine.answer_resets(&[(STATUS_UNSUCCESSFUL, 0)]);
    time_out(&machine);
    let reports = reports(&machine);
    let seen: Vec<_> = reports.iter().map(|report| (report.node, report.outcome, report.reason.number())).collect();
    let expected = [(Some(0), TdrOutcome::EngineResetFailed, None), (None, TdrOutcome::AdapterReset, Some(9))];
    assert_eq!((seen.as_slice(), machine.engine.reasons().as_slice()), (&expected[..], &[0x141, 0x117][..]));
    assert_eq!((guilty.state(), innocent.state()), (RESET, RESET));
    // The system goes on with new devices; ids of before are complete.
    let later = App::new(&machine);
    later.submit(later.context(), 3 << 16);
    let packet = machine.engine.rendered(3)[2];
    machine.engine.complete(packet.fence);
    later.process.exit();
    finish(machine, guilty, innocent);
}

#[test]
fn allocations_leave_between_reset_and_restart_with_nothing_to_move() {
    const EVICTION: &str = "DxgkDdiBuildPagingBuffer(eviction of 0 bytes)";
    let machine = Machine::start(&MACHINES[6]);
    let (guilty, innocent, first) = two(&machine);
    machine.engine.complete(first[1].fence);
    packet_engine::page(innocent.device, &innocent.process);
    guilty.submit(guilty.context(), 3 << 16);
    machine.engine.rendered(3);
    machine.engine.answer_resets(&[(STATUS_UNSUCCESSFUL, 0)]);
    machine.bench.machine.start_ddi_log(machine.luid);
    time_out(&machine);
    let log = machine.bench.machine.take_ddi_log(machine.luid);
    let named = |name: &str| ["DxgkDdiResetFromTimeout", EVICTION, "DxgkDdiRestartFromTimeout"].contains(&name);
    let order: Vec<&str> = log.iter().map(String::as_str).filter(|name| named(name)).collect();
    assert_eq!(order, ["DxgkDdiResetFromTimeout", EVICTION, "DxgkDdiRestartFromTimeout"]);
    // It has left: there is no second time.
    let later = App::new(&machine);
    later.submit(later.context(), 4 << 16);
    machine.engine.rendered(4);
    machine.engine.answer_resets(&[(STATUS_UNSUCCESSFUL, 0)]);
    machine.bench.machine.start_ddi_log(machine.luid);
    time_out(&machine);
    let log = machine.bench.machine.take_ddi_log(machine.luid);
    assert!(log.iter().any(|name| name == "DxgkDdiRestartFromTimeout") && !log.iter().any(|name| name == EVICTION));
    later.process.exit();
    finish(machine, guilty, innocent);
}

#[test]
fn a_paging_packet_that_is_hit_costs_the_adapter_a_reset_and_the_system_goes_on() {
    let machine = Machine::start(&MACHINES[13]);
    let (owner, other) = (App::new(&machine), App::new(&machine));
    machine.engine.hold_paging();
    packet_engine::page(owner.device, &owner.process);
    let paging = machine.engine.paged(1);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, paging[0].fence)]);
    time_out(&machine);
    let reports = reports(&machine);
    let seen: Vec<_> = reports.iter().map(|report| (report.node, report.reason.number())).collect();
    assert_eq!(seen, [(Some(0), None), (None, Some(9))]);
    assert_eq!((owner.state(), other.state()), (RESET, RESET));
    // The system's device is in no error: memory is paged for others.
    machine.engine.release_paging();
    let later = App::new(&machine);
    let before = machine.engine.paged(1).len();
    packet_engine::page(later.device, &later.process);
    assert!(machine.engine.paged(before + 1).len() > before);
    later.process.exit();
    finish(machine, owner, other);
}

#[test]
fn a_reset_that_lasts_longer_than_tdrddidelay_is_0x116() {
    let machine = Machine::start(&MACHINES[14]);
    let (guilty, innocent, first) = two(&machine);
    machine.engine.hold_resets(true);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, first[0].fence)]);
    std::thread::scope(|scope| {
        let recovery = scope.spawn(|| time_out(&machine));
        while machine.engine.reset_nodes().is_empty() && !recovery.is_finished() {
            std::thread::yield_now();
        }
        machine.bench.machine.advance(TdrSettings::default().ddi_delay);
        assert_eq!(machine.bench.machine.bugcheck(), None, "TdrDdiDelay is not over");
        machine.bench.machine.advance(Duration::from_millis(1));
        machine.engine.hold_resets(false);
    });
    let bugcheck = machine.bugcheck();
    assert!(bugcheck.code == 0x116 && bugcheck.reason.contains("DxgkDdiResetEngine"), "{bugcheck}");
    guilty.process.exit();
    innocent.process.exit();
}

#[test]
fn packets_of_a_context_without_timeouts_run_as_long_as_they_like() {
    let machine = Machine::start(&MACHINES[15]);
    let app = App::new(&machine);
    let context = app.try_context(|args| args.Flags = args.Flags.with_DisableGpuTimeout(true)).unwrap();
    app.submit(context, 1 << 16);
    let packet = machine.engine.rendered(1)[0];
    (0..5).for_each(|_| time_out(&machine));
    assert_eq!((app.state(), reports(&machine).len(), machine.engine.preemptions(0).len()), (ACTIVE, 0, 0));
    machine.engine.complete(packet.fence);
    machine.end(&app.process);
}

#[test]
fn a_packet_that_is_found_done_when_it_is_asked_off_counts_as_one_that_was_not_reported() {
    let machine = Machine::start(&MACHINES[25]);
    let app = App::new(&machine);
    app.submit(app.context(), 1 << 16);
    let packet = machine.engine.rendered(1)[0];
    while machine.engine.preemptions(0).is_empty() {
        machine.bench.machine.advance(TdrSettings::default().delay);
    }
    machine.engine.preempted(machine.engine.preemptions(0)[0], packet.fence);
    // The node takes packets again when the report was heard.
    app.submit(app.context(), 1 << 16);
    let next = machine.engine.rendered(2)[1];
    assert_eq!(machine.bench.machine.take_rescues(), [(Rescue::UnreportedCompletion, 1)]);
    assert_eq!((app.state(), reports(&machine).len(), next.again), (ACTIVE, 0, false));
    machine.engine.complete(next.fence);
    machine.end(&app.process);
}

#[test]
fn a_packet_that_lets_itself_be_preempted_is_no_hang() {
    let machine = Machine::start_with(&MACHINES[16], packet_engine::stops_packets_that_run);
    let app = App::new(&machine);
    app.submit(app.context(), 1 << 16);
    let completed = machine.engine.rendered(1)[0].fence - 1;
    for round in 1..=4 {
        machine.engine.rendered(round);
        let asked = machine.engine.preemptions(0).len();
        while machine.engine.preemptions(0).len() == asked {
            machine.bench.machine.advance(TdrSettings::default().delay);
        }
        machine.engine.preempted(machine.engine.preemptions(0)[asked], completed);
    }
    let last = machine.engine.rendered(5)[4];
    assert_eq!((app.state(), reports(&machine).len(), last.again), (ACTIVE, 0, true));
    machine.engine.complete(last.fence);
    machine.end(&app.process);
}

#[test]
fn a_hang_that_the_driver_reports_needs_no_time_but_a_preemption() {
    let machine = Machine::start(&MACHINES[17]);
    let (guilty, innocent, first) = two(&machine);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, first[0].fence)]);
    machine.engine.report(hung());
    let again = machine.engine.rendered(3)[2];
    assert_eq!((again.address, machine.engine.preemptions(1).len()), (2 << 16, 1));
    assert_eq!((guilty.state(), innocent.state()), (HUNG, ACTIVE));
    // What was taken back is handed over before the report is kept.
    assert_eq!(first_report(&machine).reason, TdrReason::ReportedHung);
    machine.engine.complete(again.fence);
    finish(machine, guilty, innocent);
}

#[test]
fn a_fault_without_an_id_resets_the_engine_or_the_adapter_once() {
    let machine = Machine::start(&MACHINES[18]);
    let (guilty, innocent, first) = two(&machine);
    machine.engine.answer_resets(&[(STATUS_SUCCESS, first[0].fence)]);
    machine.engine.report(faulted(0, 0x4000, ENGINE_RESET_REQUIRED));
    let again = machine.engine.rendered(3)[2];
    assert_eq!((guilty.state(), innocent.state(), first_report(&machine).reason), (HUNG, ACTIVE, TdrReason::PageFault));
    // Both ask for the same thing, before it is done.
    machine.engine.report_all([faulted(0, 0x4000, ADAPTER_RESET_REQUIRED), faulted(0, 0x5000, ADAPTER_RESET_REQUIRED)]);
    while reports(&machine).len() < 2 {
        std::thread::yield_now();
    }
    // Work is done in order, so that with the loss of this device a second reset would be done too.
    let later = App::new(&machine);
    later.submit(later.context(), 3 << 16);
    let packet = machine.engine.rendered(4)[3];
    machine.engine.faulted(packet.fence, 0x6000);
    while later.state() == ACTIVE {
        std::thread::yield_now();
    }
    let last = App::new(&machine);
    last.submit(last.context(), 4 << 16);
    let packet = machine.engine.rendered(5)[4];
    machine.engine.complete(packet.fence);
    assert!(again.again);
    let adapter = reports(&machine).iter().filter(|report| report.node.is_none()).count();
    assert_eq!((adapter, innocent.state(), last.state()), (1, RESET, ACTIVE));
    later.process.exit();
    last.process.exit();
    finish(machine, guilty, innocent);
}
