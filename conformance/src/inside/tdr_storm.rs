//! A storm of hangs: random work of random processes, of both models on every engine, while the others work and are counted.

use std::sync::Arc;
use std::sync::OnceLock;

use campanile_device::{FaultRule, HangAt};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY, NODE_PAGING};
use dxgkrnl::{Holdings, Process, Rescue, TdrFate, TdrOutcome};
use fastrand::Rng;

use super::hang::{ACTIVE, by_hand, time_out_packets, wait_watched};
use crate::rig::{PacketQueue, RawFence, RawQueue, Rig, wait_until};
use crate::simulated::Case;
use crate::{Boot, Failure, granted};
use testbed::setup::{System, SystemOptions};

cases! { inside "TDR", needs UserModeSubmission, behind "it lets the GPU hang again and again, and moves the clock on";
    "Tdr.StormCostsOnlyTheGuilty" on Boot::With(storm_system), "tdr-changes-in-windows-8":
        "In a storm of hangs of random hardware queues and contexts of packets, no innocent context is lost, no signal of an innocent is lost or executed twice, and nothing is left behind: no handle, allocation, mapping, object, or block of a pool."
        holds [Tdr 32, Tdr 37, Tdr 38]
        => storm;
}

/// Processes at a time.
const PROCESSES: usize = 8;
/// What each process has: the engine, and whether it is a hardware queue. The engine that pages runs packets only.
const LANES: [(u32, bool); 5] =
    [(NODE_COMPUTE, true), (NODE_COPY, true), (NODE_COMPUTE, false), (NODE_COPY, false), (NODE_PAGING, false)];
/// Hangs where nothing else is asked for.
const HANGS: u64 = 6;
/// The value whose signal hangs; no fence of the storm comes near it.
const FATAL: u64 = 1 << 60;

/// How many hangs; the seed of the run repeats them.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// Hangs.
    pub hangs: u64,
}

static STORM: OnceLock<Storm> = OnceLock::new();

/// Sets what the case does from now on; the first call counts.
pub fn set_storm(storm: Storm) {
    let _ = STORM.set(storm);
}

fn storm_system() -> SystemOptions {
    let mut options = by_hand();
    // A process that is guilty so often would otherwise be refused the adapter.
    options.tdr.limit_count = u32::MAX;
    options
}

/// One line of work, and the fence that it counts in.
struct Lane {
    node: u32,
    work: Work,
    fence: RawFence,
    /// Value that the fence has when all work is done.
    count: u64,
}

enum Work {
    Hardware(RawQueue),
    Packets(PacketQueue),
}

impl Lane {
    fn all(rig: &Rig) -> Result<Vec<Self>, Failure> {
        let lanes = LANES.map(|(node, hardware)| {
            let work = if hardware { Work::Hardware(rig.queue(node)?) } else { Work::Packets(rig.packet_queue(node)?) };
            Ok(Self { node, work, fence: rig.fence(0)?, count: 0 })
        });
        lanes.into_iter().collect()
    }

    /// Signals that the engine executes for each submission: packets count their progress by another one.
    fn signals_each(&self) -> u64 {
        if matches!(self.work, Work::Packets(_)) { 2 } else { 1 }
    }

    /// Submits a signal of the next value.
    fn submit(&mut self, rig: &Rig) -> Result<(), Failure> {
        self.count += 1;
        let signal = self.fence.signal(self.count);
        match &mut self.work {
            Work::Hardware(queue) => rig.submit(queue, &[signal]).map(drop),
            Work::Packets(queue) => rig.packet_submit(queue, &[signal]).map(drop),
        }
    }

    /// Submits what hangs.
    fn hang(&mut self, rig: &Rig, reported: bool) -> Result<(), Failure> {
        let signal = self.fence.signal(FATAL);
        match &mut self.work {
            // A hang that is reported may cost the device before this thread reads the status of its doorbell.
            Work::Hardware(queue) if reported => rig.submit_doomed(queue, &[signal]).map(drop),
            Work::Hardware(queue) => rig.submit(queue, &[signal]).map(drop),
            Work::Packets(queue) => rig.packet_submit(queue, &[signal]).map(drop),
        }
    }

    fn is_done(&self) -> bool {
        match &self.work {
            Work::Hardware(queue) => queue.progress.load() == queue.written(),
            Work::Packets(queue) => queue.progress.value.load() == queue.submitted,
        }
    }

    /// Everything that was submitted was executed.
    fn settle(&self, system: &System, process: &Process) -> Result<(), Failure> {
        wait_watched(system, "innocent work", || self.is_done())?;
        ensure_eq!(self.fence.value.load(), self.count, "fence of {} on engine {}", process.name(), self.node);
        Ok(())
    }
}

/// One process with a lane of each kind.
struct Worker {
    process: Arc<Process>,
    rig: Rig,
    lanes: Vec<Lane>,
}

impl Worker {
    fn new(system: &System, number: usize) -> Result<Self, Failure> {
        let process = Process::new(system.machine(), &format!("worker {number}"));
        let attached = process.attach();
        let rig = Rig::open(system.luid())?;
        let lanes = Lane::all(&rig)?;
        drop(attached);
        Ok(Self { process, rig, lanes })
    }

    /// Submits `count` times to each lane. Returns how many signals that makes.
    fn work(&mut self, count: u64) -> Result<u64, Failure> {
        let _attached = self.process.attach();
        let mut signals = 0;
        for lane in &mut self.lanes {
            signals += count * lane.signals_each();
            (0..count).try_for_each(|_| lane.submit(&self.rig))?;
        }
        Ok(signals)
    }

    /// Everything that was submitted was executed, and the device works.
    fn settle(&self, system: &System) -> Result<(), Failure> {
        self.lanes.iter().try_for_each(|lane| lane.settle(system, &self.process))?;
        let _attached = self.process.attach();
        ensure_eq!(self.rig.kmt.execution_state(self.rig.device)?, ACTIVE, "state of {}", self.process.name());
        Ok(())
    }

    /// Begins again with another device.
    fn replace(&mut self) -> Result<(), Failure> {
        let _attached = self.process.attach();
        granted(self.rig.destroy(), "destroying the lost device")?;
        self.rig = Rig::on_adapter(self.rig.kmt, self.rig.adapter)?;
        self.lanes = Lane::all(&self.rig)?;
        Ok(())
    }
}

fn workers(system: &System) -> Result<Vec<Worker>, Failure> {
    (0..PROCESSES).map(|number| Worker::new(system, number)).collect()
}

/// Ends the processes, and says what the machine still has then.
fn end(system: &System, workers: Vec<Worker>) -> Result<Option<Holdings>, Failure> {
    for worker in workers {
        worker.settle(system)?;
        worker.process.exit();
        ensure_eq!(worker.process.handle_count(), 0, "handles left by {}", worker.process.name());
    }
    Ok(system.machine().holdings(system.luid()))
}

fn storm(case: &mut Case<'_>) -> Result<(), Failure> {
    // A packet that waits, or that a stopped engine keeps, is long for the system, which cannot tell it from a lost one.
    case.announce(Rescue::RepeatedPacket);
    let Storm { hangs } = STORM.get().copied().unwrap_or(Storm { hangs: HANGS });
    let seed = crate::seed::get();
    let mut random = Rng::with_seed(seed);
    let system = &*case.system;
    // What the first processes leave for those that follow, and one hang of each kind, is no leak.
    let mut first = workers(system)?;
    for lane in 0..LANES.len() {
        let hang = Hang { guilty: lane, lane, reported: false, early: 1, late: 1 };
        one_hang(system, &mut first, &hang).map_err(|failure| give_up(system, &format!("{hang:?}: {failure}")))?;
    }
    let before = end(system, first)?;
    let mut workers = workers(system)?;
    for round in 0..hangs {
        let hang = Hang {
            guilty: random.usize(..PROCESSES),
            lane: random.usize(..LANES.len()),
            reported: random.u8(..4) == 0,
            early: random.u64(..3),
            late: 1 + random.u64(..4),
        };
        let outcome = one_hang(system, &mut workers, &hang);
        let told = |failure| give_up(system, &format!("hang {round} of seed {seed:#x}, {hang:?}: {failure}"));
        outcome.map_err(told)?;
    }
    let mut after = end(system, workers)?;
    // Memory of processes that ended is given back when the engines are done with it.
    let settled = wait_until("everything to be given back", || {
        after = system.machine().holdings(system.luid());
        after == before
    });
    settled.map_err(|_| Failure::new(format!("after {hangs} hangs {after:?} is left, before it was {before:?}")))
}

/// The storm is over. Nothing hangs any more, so that its processes can end though nobody moves their time on.
fn give_up(system: &System, why: &str) -> Failure {
    [NODE_COMPUTE, NODE_COPY, NODE_PAGING].into_iter().for_each(|node| system.gpu().let_go(node));
    Failure::new(why)
}

/// One hang of the storm.
#[derive(Debug)]
struct Hang {
    /// Whose work hangs, and which.
    guilty: usize,
    lane: usize,
    /// The hardware tells.
    reported: bool,
    /// Submissions of the others to each lane before and behind it.
    early: u64,
    late: u64,
}

fn one_hang(system: &System, workers: &mut [Worker], hang: &Hang) -> Result<(), Failure> {
    let before = system.counters();
    let &Hang { guilty, lane, reported, early, late } = hang;
    let (node, _) = LANES[lane];
    let mut expected = 0;
    let mut others = |workers: &mut [Worker], count| {
        let others = workers.iter_mut().enumerate().filter(|(number, _)| *number != guilty);
        for (_, worker) in others {
            expected += worker.work(count)?;
        }
        Ok::<(), Failure>(())
    };
    others(workers, early)?;
    let rule = FaultRule::Hang { node, queue: None, at: HangAt::Signal(FATAL), reported };
    let fault = system.gpu().faults().inject(rule);
    let seen = system.machine().tdr_reports(system.luid()).last().map_or(0, |report| report.number);
    {
        let Worker { process, rig, lanes } = &mut workers[guilty];
        let _attached = process.attach();
        lanes[lane].hang(rig, reported)?;
    }
    wait_until("the hang", || system.gpu().faults().fired(fault) == 1)?;
    others(workers, late)?;
    let recovered = || {
        let last = system.machine().tdr_reports(system.luid()).pop();
        last.filter(|report| report.number > seen)
    };
    if reported {
        wait_until("the recovery", || recovered().is_some())?;
    } else {
        // No time passes for engines that work while it is moved on.
        for worker in workers.iter() {
            worker
                .lanes
                .iter()
                .filter(|lane| lane.node != node)
                .try_for_each(|lane| lane.settle(system, &worker.process))?;
        }
        time_out_packets(system);
    }
    let report = recovered().ok_or_else(|| Failure::new("nothing was recovered from"))?;
    ensure_eq!((report.node, report.outcome), (Some(node), TdrOutcome::EngineReset), "{report}");
    ensure_eq!((report.with(TdrFate::Guilty).count(), report.with(TdrFate::Collateral).count()), (1, 0), "{report}");
    for (_, worker) in workers.iter().enumerate().filter(|(number, _)| *number != guilty) {
        worker.settle(system)?;
    }
    ensure_eq!(system.counters().since(&before).signals, expected, "signals of the innocent");
    system.gpu().faults().remove(fault);
    workers[guilty].replace()
}
