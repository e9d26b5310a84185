//! A packet that is taken off its node again and again and never done: lost, of a driver that cannot stop a packet that runs; long or lost, of one that can.
//! [d3dkmdt: D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY; gpu-preemption; debugger: 0x116]

// Each test program uses its part of the shared miniport.
#[allow(dead_code)]
mod minimal;
#[allow(dead_code)]
mod packet_engine;

use std::time::{Duration, Instant};

use dxgkrnl::{Rescue, TdrSettings};
use minimal::{Mutant, SOUND};
use packet_engine::app::App;
use packet_engine::{MACHINES, Machine, Submitted};
use wddm_ddi::km::*;
use wddm_ddi::kmt::D3DKMT_DEVICEEXECUTION_STATE;
use wddm_ddi::status::*;

const ACTIVE: D3DKMT_DEVICEEXECUTION_STATE = D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE;

/// Packets in which an allocation is made resident.
const PAGING: usize = 2;

/// Timeouts that a driver may have before the machine stops.
fn limit() -> usize {
    TdrSettings::default().limit_count as usize
}

/// Lets time pass until the watchdog asks for the packet that is on the hardware, and has the driver answer that nothing was done. The packet as it comes again;
/// `None` if the machine has stopped instead.
fn taken_off(machine: &Machine, completed: u32) -> Option<Submitted> {
    let (asked, packets) = (machine.engine.preemptions(0).len(), machine.engine.everything().len());
    while machine.engine.preemptions(0).len() == asked {
        machine.bench.machine.advance(TdrSettings::default().delay);
    }
    machine.engine.preempted(machine.engine.preemptions(0)[asked], completed);
    let started = Instant::now();
    loop {
        if machine.bench.machine.bugcheck().is_some() {
            return None;
        }
        if let Some(packet) = machine.engine.everything().get(packets) {
            return Some(*packet);
        }
        assert!(started.elapsed() < Duration::from_secs(20), "the packet does not come again");
        std::thread::yield_now();
    }
}

/// Lines of the log about packets that were taken off.
fn remarks(machine: &Machine) -> Vec<String> {
    let log = machine.bench.machine.debug_log();
    log.iter().map(ToString::to_string).filter(|line| line.contains("DXGK_INTERRUPT_DMA_PREEMPTED")).collect()
}

#[test]
fn a_packet_that_was_not_begun_within_tdrdelay_counts_as_lost_and_lost_too_often_is_0x116() {
    let machine = Machine::start(&MACHINES[0]);
    let app = App::new(&machine);
    app.submit(app.context(), 1 << 16);
    let mut packet = machine.engine.rendered(1)[0];
    let last_completed = packet.fence - 1;
    for round in 1..=limit() {
        let lost = packet.fence;
        packet = taken_off(&machine, last_completed).expect("it is handed over again");
        assert_eq!((packet.address, packet.again), (1 << 16, true), "{round}");
        assert_eq!(machine.bench.machine.take_rescues(), [(Rescue::LostPacket, 1)], "{round}");
        let remarks = remarks(&machine);
        assert_eq!(remarks.len(), round, "{remarks:?}");
        for part in [
            format!("packet {lost:#x} of node 0"),
            format!("last completed {last_completed:#x}"),
            "D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY".to_owned(),
        ] {
            assert!(remarks[round - 1].contains(&part), "{part:?}: {remarks:?}");
        }
    }
    assert_eq!(app.state(), ACTIVE);
    assert_eq!(taken_off(&machine, last_completed), None);
    let bugcheck = machine.bugcheck();
    assert_eq!((bugcheck.code, bugcheck.parameters[2]), (0x116, u64::from(STATUS_TIMEOUT.0 as u32)), "{bugcheck}");
    for part in [
        format!("packet {:#x} of node 0", packet.fence),
        format!("DXGK_INTERRUPT_DMA_COMPLETED with {:#x}", packet.fence),
        format!("last completed {last_completed:#x}"),
        format!("{} times", limit() + 1),
    ] {
        assert!(bugcheck.reason.contains(&part), "{part:?}: {bugcheck}");
    }
    app.process.exit();
}

#[test]
fn a_packet_that_is_done_after_it_was_lost_once_is_a_finding_and_no_more() {
    let machine = Machine::start(&MACHINES[1]);
    let app = App::new(&machine);
    let context = app.context();
    app.submit(context, 1 << 16);
    let completed = machine.engine.rendered(1)[0].fence - 1;
    let again = taken_off(&machine, completed).unwrap();
    machine.engine.complete(again.fence);
    assert_eq!(machine.bench.machine.take_rescues(), [(Rescue::LostPacket, 1)]);
    // Another one begins at nothing.
    app.submit(context, 2 << 16);
    let mut packet = machine.engine.rendered(3)[2];
    for _ in 0..limit() {
        packet = taken_off(&machine, again.fence).expect("what was done before does not count");
    }
    machine.engine.complete(packet.fence);
    machine.end(&app.process);
}

#[test]
fn a_packet_of_the_memory_manager_that_is_lost_counts_as_well() {
    let machine = Machine::start(&MACHINES[2]);
    let app = App::new(&machine);
    machine.engine.hold_paging();
    packet_engine::page(app.device, &app.process);
    let paging = machine.engine.paged(PAGING);
    let again = taken_off(&machine, paging[0].fence - 1).unwrap();
    assert_eq!((again.fence, again.again), (paging[0].fence, true));
    assert_eq!(machine.bench.machine.take_rescues(), [(Rescue::LostPacket, 1)]);
    // The others come again behind it, under their ids.
    let all = machine.engine.paged(2 * PAGING);
    machine.engine.release_paging();
    machine.engine.complete(all.iter().map(|packet| packet.fence).max().unwrap());
    machine.end(&app.process);
}

/// What the memory manager has an engine do is never long: such packets count on nodes that copy and of drivers that stop packets that run.
#[test]
fn a_packet_of_the_memory_manager_is_lost_on_any_node_and_lost_too_often_is_0x116() {
    let copies = |metadata: &mut DXGK_NODEMETADATA| metadata.EngineType = DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_COPY;
    let caps = packet_engine::stops_packets_that_run;
    let machine = Machine::start_as(&MACHINES[6], Mutant { node: copies, caps, ..SOUND });
    let app = App::new(&machine);
    machine.engine.hold_paging();
    packet_engine::page(app.device, &app.process);
    let paging = machine.engine.paged(PAGING)[0];
    for round in 1..=limit() {
        machine.engine.paged(round * PAGING);
        let again = taken_off(&machine, paging.fence - 1).expect("it is handed over again");
        assert_eq!((again.fence, again.again), (paging.fence, true), "{round}");
        assert_eq!(machine.bench.machine.take_rescues(), [(Rescue::LostPacket, 1)], "{round}");
    }
    assert!(remarks(&machine).iter().all(|remark| !remark.contains("PreemptionCaps")), "{:?}", remarks(&machine));
    machine.engine.paged((limit() + 1) * PAGING);
    assert_eq!(taken_off(&machine, paging.fence - 1), None);
    let bugcheck = machine.bugcheck();
    assert_eq!((bugcheck.code, bugcheck.parameters[2]), (0x116, u64::from(STATUS_TIMEOUT.0 as u32)), "{bugcheck}");
    for part in [
        format!("paging packet {:#x} of node 0", paging.fence),
        "DxgkDdiBuildPagingBuffer".to_owned(),
        format!("DXGK_INTERRUPT_DMA_COMPLETED with {:#x}", paging.fence),
    ] {
        assert!(bugcheck.reason.contains(&part), "{part:?}: {bugcheck}");
    }
    app.process.exit();
}

/// A driver that may stop a packet while it runs may do so for ever: long work is not lost work, and nothing that it reports tells one from the other.
#[test]
fn a_packet_of_a_driver_that_stops_packets_while_they_run_is_remarked_once_and_runs_for_ever() {
    runs_for_ever(Machine::start_with(&MACHINES[3], packet_engine::stops_packets_that_run));
}

/// What PreemptionCaps says is said of engines that compute: of a node that copies nobody knows.
#[test]
fn a_packet_of_a_node_that_copies_is_not_taken_for_lost() {
    let copies = |metadata: &mut DXGK_NODEMETADATA| metadata.EngineType = DXGK_ENGINE_TYPE::DXGK_ENGINE_TYPE_COPY;
    runs_for_ever(Machine::start_as(&MACHINES[4], Mutant { node: copies, ..SOUND }));
}

fn runs_for_ever(machine: Machine) {
    let app = App::new(&machine);
    app.submit(app.context(), 1 << 16);
    let mut packet = machine.engine.rendered(1)[0];
    let completed = packet.fence - 1;
    for _ in 0..2 * limit() {
        packet = taken_off(&machine, completed).expect("it runs as long as it likes");
    }
    let repeated = (Rescue::RepeatedPacket, 2 * limit() as u64);
    assert_eq!((app.state(), machine.bench.machine.take_rescues()), (ACTIVE, vec![repeated]));
    let remarks = remarks(&machine);
    let [remark] = remarks.as_slice() else { panic!("{remarks:?}") };
    assert!(remark.contains("long or lost"), "{remark}");
    assert!(remark.contains("PreemptionCaps do not say that a packet of this node runs to its end"), "{remark}");
    machine.engine.complete(packet.fence);
    machine.end(&app.process);
}

/// Time counts while the packet is the oldest on its node, however short the slices are in which it has that.
#[test]
fn a_packet_that_is_lost_beside_work_of_others_is_found_by_the_time_that_it_had_in_all() {
    let machine = Machine::start(&MACHINES[5]);
    let (app, other) = (App::new(&machine), App::new(&machine));
    app.submit(app.context(), 1 << 16);
    let busy = other.context();
    other.submit(busy, 2 << 16);
    machine.engine.rendered(2);
    let slice = TdrSettings::default().delay / 8;
    let mut seen = 0;
    // The lost packet gives its slice back each time; the other context's packet is done each time, and another one follows.
    for _ in 0..16 {
        let all = machine.engine.everything();
        let oldest = *all.get(seen).expect("a packet");
        if oldest.address == 2 << 16 {
            other.submit(busy, 2 << 16);
            machine.engine.complete(oldest.fence);
            seen += 1;
            wait_for(&machine, seen + 2);
            continue;
        }
        let asked = machine.engine.preemptions(0).len();
        let started = Instant::now();
        while machine.engine.preemptions(0).len() == asked {
            machine.bench.machine.advance(slice);
            std::thread::sleep(Duration::from_millis(2));
            assert!(started.elapsed() < Duration::from_secs(20), "no end of the slice");
        }
        machine.engine.preempted(machine.engine.preemptions(0)[asked], oldest.fence - 1);
        seen += 2;
        wait_for(&machine, seen + 2);
    }
    let found: u64 = machine.bench.machine.take_rescues().iter().map(|(_, count)| count).sum();
    assert!(found >= 1, "{:?}", remarks(&machine));
    assert_eq!((app.state(), other.state()), (ACTIVE, ACTIVE));
    let all = machine.engine.everything();
    machine.engine.complete(all[all.len() - 1].fence);
    app.process.exit();
    machine.end(&other.process);
}

fn wait_for(machine: &Machine, packets: usize) {
    machine.engine.rendered(packets);
}

/// DDIs of the GPU scheduler's class are called one at a time, so that one which does not return keeps those of a recovery from being called.
/// [threading-and-synchronization: first level; debugger: 0x116]
#[test]
fn a_recovery_that_another_ddi_of_the_scheduler_keeps_waiting_is_0x116_with_the_name_of_that_one() {
    let two_nodes: fn(&mut DXGK_DRIVERCAPS) = |caps| caps.GpuEngineTopology.NbAsymetricProcessingNodes = 2;
    let machine = Machine::start_with(&MACHINES[7], two_nodes);
    let (guilty, other) = (App::new(&machine), App::new(&machine));
    guilty.submit(guilty.context(), 1 << 16);
    machine.engine.rendered(1);
    let delay = TdrSettings::default().delay;
    [Duration::ZERO, delay].into_iter().for_each(|time| machine.bench.machine.advance(time));
    let asked = machine.engine.preemptions(1).len();
    // Another engine is asked for its packet, by the thread of the program that submits what outranks it.
    let on_second = || other.try_context(|args| args.NodeOrdinal = 1).unwrap();
    let (low, high) = (on_second(), on_second());
    other.prioritise(high, 5);
    other.submit(low, 2 << 16);
    machine.engine.rendered(2);
    machine.engine.hold_preemptions(true);
    let started = Instant::now();
    let goes_on = || machine.bench.machine.bugcheck().is_none() && started.elapsed() < Duration::from_secs(15);
    std::thread::scope(|scope| {
        scope.spawn(|| other.submit(high, 3 << 16));
        machine.engine.preemptions(asked + 1);
        // One of them recovers, and time goes on by the other.
        for _ in 0..2 {
            scope.spawn(|| {
                while goes_on() {
                    machine.bench.machine.advance(delay);
                }
            });
        }
        while goes_on() {
            std::thread::yield_now();
        }
        machine.engine.hold_preemptions(false);
    });
    let bugcheck = machine.bugcheck();
    assert_eq!(bugcheck.code, 0x116, "{bugcheck}");
    let told = "DxgkDdiPreemptCommand did not return in time: DxgkDdiQueryEngineStatus of a recovery waited for it longer than TdrDdiDelay";
    assert!(bugcheck.reason.starts_with(told), "{bugcheck}");
    guilty.process.exit();
    other.process.exit();
}
