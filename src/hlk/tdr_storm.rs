//! A storm of hangs: random engines of random processes, while the others work and are counted.

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use campanile_device::{FaultRule, HangAt};
use campanile_hw::registers::{NODE_COMPUTE, NODE_COPY};
use dxgkrnl::{Process, TdrFate, TdrOutcome};
use wddm_ddi::kmt::D3DKMT_DEVICEEXECUTION_STATE;

use super::case::{Boot, Case, CaseInfo, Failure, granted};
use super::rig::{RawFence, RawQueue, Rig, wait_until};
use super::tdr::{by_hand, time_out, wait_watched};
use crate::setup::{System, SystemOptions};

cases! { "TDR";
    "Tdr.StormCostsOnlyTheGuilty" on Boot::With(storm_system), "tdr-changes-in-windows-8":
        "In a storm of hangs of random queues, no innocent context is lost, no signal of an innocent is lost or executed twice, and nothing is left behind."
        => storm;
}

/// Processes at a time.
const PROCESSES: usize = 8;
/// Engines that run queues of processes.
const ENGINES: [u32; 2] = [NODE_COMPUTE, NODE_COPY];
/// Hangs where nothing else is asked for.
const HANGS: u64 = 6;
/// The value whose signal hangs; no fence of the storm comes near it.
const FATAL: u64 = 1 << 60;

/// How many hangs, and the seed that repeats them.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// Hangs.
    pub hangs: u64,
    /// Seed, not 0.
    pub seed: u64,
}

static STORM: OnceLock<Storm> = OnceLock::new();

/// Sets what the case does from now on; the first call counts.
pub fn set_storm(storm: Storm) {
    let _ = STORM.set(storm);
}

/// How long the case may take with as many hangs as were asked for.
pub(super) fn patience(case: &CaseInfo) -> Option<Duration> {
    let storm = STORM.get().filter(|_| CASES.iter().any(|own| own.name == case.name))?;
    Some(Duration::from_secs(60 + storm.hangs))
}

fn storm_system() -> SystemOptions {
    let mut options = by_hand();
    // Who is guilty so often would otherwise be refused the adapter.
    options.tdr.limit_count = u32::MAX;
    options
}

/// A small generator, so that a storm repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// One process with a queue on each engine, and the fence that its work counts in.
struct Worker {
    process: Arc<Process>,
    rig: Rig,
    lanes: Vec<(RawQueue, RawFence)>,
    /// What each fence must come to.
    counts: Vec<u64>,
}

impl Worker {
    fn new(system: &System, number: usize) -> Result<Self, Failure> {
        let process = system.machine().create_process(&format!("worker {number}"));
        let attached = process.attach();
        let rig = Rig::open(system.luid())?;
        let lanes = ENGINES.map(|node| Ok((rig.queue(node)?, rig.fence(0)?)));
        let lanes = lanes.into_iter().collect::<Result<Vec<_>, Failure>>()?;
        drop(attached);
        Ok(Self { process, rig, lanes, counts: vec![0; ENGINES.len()] })
    }

    /// Submits `count` signals to each lane.
    fn work(&mut self, count: u64) -> Result<(), Failure> {
        let _attached = self.process.attach();
        for ((queue, fence), value) in self.lanes.iter_mut().zip(&mut self.counts) {
            for _ in 0..count {
                *value += 1;
                self.rig.submit(queue, &[fence.signal(*value)])?;
            }
        }
        Ok(())
    }

    /// Everything that was submitted was executed.
    fn settle(&self, system: &System) -> Result<(), Failure> {
        for ((queue, fence), count) in self.lanes.iter().zip(&self.counts) {
            wait_watched(system, "innocent work", || queue.progress.load() == queue.written())?;
            ensure_eq!(fence.value.load(), *count, "fence of {}", self.process.name());
        }
        let _attached = self.process.attach();
        let state = self.rig.kmt.execution_state(self.rig.device)?;
        ensure_eq!(state, D3DKMT_DEVICEEXECUTION_STATE::D3DKMT_DEVICEEXECUTION_ACTIVE, "{}", self.process.name());
        Ok(())
    }
}

fn storm(case: &mut Case<'_>) -> Result<(), Failure> {
    let Storm { hangs, seed } = STORM.get().copied().unwrap_or(Storm { hangs: HANGS, seed: 0x5eed });
    let mut random = Random(seed.max(1));
    let system = &*case.system;
    let mut workers = (0..PROCESSES).map(|number| Worker::new(system, number)).collect::<Result<Vec<_>, _>>()?;
    for round in 0..hangs {
        let outcome = one_hang(system, &mut workers, &mut random);
        outcome.map_err(|failure| Failure::new(format!("hang {round} of seed {seed:#x}: {failure}")))?;
    }
    for worker in workers {
        worker.settle(system)?;
        worker.process.exit();
        ensure_eq!(worker.process.handle_count(), 0, "handles left by {}", worker.process.name());
    }
    Ok(())
}

fn one_hang(system: &System, workers: &mut [Worker], random: &mut Random) -> Result<(), Failure> {
    let before = system.counters();
    let guilty = random.below(PROCESSES as u64) as usize;
    let lane = random.below(ENGINES.len() as u64) as usize;
    let reported = random.below(4) == 0;
    let (early, late) = (random.below(3), 1 + random.below(4));
    let mut expected = 0;
    for (number, worker) in workers.iter_mut().enumerate() {
        if number != guilty {
            worker.work(early)?;
            expected += early * ENGINES.len() as u64;
        }
    }
    let rule = FaultRule::Hang { node: ENGINES[lane], queue: None, at: HangAt::Signal(FATAL), reported };
    let fault = system.gpu().faults().inject(rule);
    let seen = system.machine().tdr_reports(system.luid()).last().map_or(0, |report| report.number);
    {
        let worker = &mut workers[guilty];
        let _attached = worker.process.attach();
        let (queue, fence) = &mut worker.lanes[lane];
        // A hang that is reported may cost the device before this thread reads the status of its doorbell.
        match reported {
            true => worker.rig.submit_doomed(queue, &[fence.signal(FATAL)]),
            false => worker.rig.submit(queue, &[fence.signal(FATAL)]),
        }?;
    }
    wait_until("the hang", || system.gpu().faults().fired(fault) == 1)?;
    for (number, worker) in workers.iter_mut().enumerate() {
        if number != guilty {
            worker.work(late)?;
            expected += late * ENGINES.len() as u64;
        }
    }
    let recovered = || {
        let last = system.machine().tdr_reports(system.luid()).pop();
        last.filter(|report| report.number > seen)
    };
    if reported {
        wait_until("the recovery", || recovered().is_some())?;
    } else {
        time_out(system);
    }
    let report = recovered().ok_or_else(|| Failure::new("nothing was recovered from"))?;
    ensure_eq!((report.node, report.outcome), (Some(ENGINES[lane]), TdrOutcome::EngineReset), "{report}");
    ensure_eq!((report.with(TdrFate::Guilty).count(), report.with(TdrFate::Collateral).count()), (1, 0), "{report}");
    for (_, worker) in workers.iter().enumerate().filter(|(number, _)| *number != guilty) {
        worker.settle(system)?;
    }
    ensure_eq!(system.counters().since(&before).signals, expected, "signals of the innocent");
    system.gpu().faults().remove(fault);
    // The guilty process begins again with another device.
    let place = &mut workers[guilty];
    let _attached = place.process.attach();
    granted(place.rig.destroy(), "destroying the lost device")?;
    let rig = Rig::on_adapter(place.rig.kmt, place.rig.adapter)?;
    let lanes = ENGINES.map(|node| Ok((rig.queue(node)?, rig.fence(0)?)));
    place.lanes = lanes.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    (place.rig, place.counts) = (rig, vec![0; ENGINES.len()]);
    Ok(())
}
