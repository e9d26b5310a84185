//! What all threads of a soak share: the machine, what disturbs it, and what was found.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::{Duration, Instant};

use campanile_hw::registers::NODES;
use dxgkrnl::{Machine, Process, Remains};
use testbed::setup::{FaultOption, SetupError, System};
use testbed::user::Adapter;
use wddm_ddi::types::LUID;

use super::Options;
use super::counts::{Counts, count, get};
use super::delay::Delay;
use super::gate::Gate;
use super::live::{Held, Units};
use super::report::Report;

/// Findings that are kept; a fault of the machine shows in all programs.
const FINDINGS_MAX: usize = 20;

/// Lines of the log that are told beside what the system has made good.
const LOG_LINES: usize = 8;
/// Longest time that the report of work that is done may take on a busy host.
const REPORT_LIMIT: Duration = Duration::from_secs(5);
/// Pool blocks that the driver makes at need and keeps: one for each node, in which packets wait for which the ring of the node has no free entry.
const KEPT_BLOCKS: u64 = NODES as u64;

/// State of a soak.
pub(super) struct World {
    system: RwLock<System>,
    pub(super) programs: u32,
    pub(super) interval: Duration,
    pub(super) seed: u64,
    pub(super) calm: bool,
    pub(super) units: Units,
    /// Objects that the machine holds without any program.
    idle: Held,
    /// Pool blocks of the driver and bytes of the machine's memory then.
    idle_memory: (u64, u64),
    pub(super) gate: Gate,
    stop: AtomicBool,
    pub(super) counts: Counts,
    pub(super) delay: Delay,
    findings: Mutex<Vec<String>>,
    /// Adapters that were pulled out.
    gone: Mutex<Vec<Remains>>,
}

impl World {
    /// Measures what objects take on a machine that does nothing else.
    pub(super) fn new(system: System, options: &Options) -> Result<Self, SetupError> {
        let (machine, luid) = (system.machine().clone(), system.luid());
        let held = || machine.holdings(luid).map(Held::from).unwrap_or_default();
        let measure = || {
            let process = Process::new(&machine, "soak: measuring");
            let units = {
                let _attached = process.attach();
                Adapter::open_luid(luid).and_then(|adapter| Units::measure(&adapter, held))
            };
            process.exit();
            units
        };
        // Once more than needed: the first process has the driver prepare what it keeps.
        let units = measure().and_then(|_| measure());
        let units = units.map_err(|error| {
            SetupError::new(
                "The objects of a program could not be measured",
                error,
                "`campanile run` says whether the machine works at all",
            )
        })?;
        let memory = machine.holdings(luid).map_or((0, 0), |all| (all.pool_blocks, all.memory));
        let idle = held();
        machine.take_rescues();
        Ok(Self {
            system: RwLock::new(system),
            programs: options.programs,
            interval: options.interval,
            seed: options.seed,
            calm: options.calm,
            units,
            idle,
            idle_memory: memory,
            gate: Gate::default(),
            stop: AtomicBool::new(false),
            counts: Counts::default(),
            delay: Delay::default(),
            findings: Mutex::default(),
            gone: Mutex::default(),
        })
    }

    /// Injects faults that last for the whole soak.
    pub(super) fn inject(&self, faults: &[FaultOption]) -> Result<(), SetupError> {
        if !faults.is_empty() {
            let system = self.system();
            let gpu = system.faulty_gpu()?;
            faults.iter().for_each(|fault| {
                fault.arm(gpu.faults(), self.seed);
            });
        }
        Ok(())
    }

    fn system(&self) -> RwLockReadGuard<'_, System> {
        self.system.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine, and its adapter.
    pub(super) fn adapter(&self) -> (Machine, LUID) {
        let system = self.system();
        (system.machine().clone(), system.luid())
    }

    /// Works with the system, whose GPU stays in its slot meanwhile.
    pub(super) fn with_system<T>(&self, work: impl FnOnce(&System) -> T) -> T {
        work(&self.system())
    }

    /// Pulls the GPU out, and plugs another one in.
    pub(super) fn replace_gpu(&self) -> Result<(), SetupError> {
        let mut system = self.system.write().unwrap_or_else(PoisonError::into_inner);
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).push(system.machine().remains());
        system.pull_out(0)?;
        system.notice_removal(0)?;
        system.start()
    }

    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Has every program end its work.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Notes what is wrong.
    pub(super) fn find(&self, finding: String) {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        if findings.len() < FINDINGS_MAX {
            findings.push(finding);
        }
    }

    /// Compares what the machine holds with what the programs have, which all stand still.
    pub(super) fn compare(&self, programs: &[(u32, Held)]) {
        count(&self.counts.comparisons);
        let (machine, luid) = self.adapter();
        let expected = self.idle + programs.iter().map(|(_, held)| *held).sum();
        let held = || machine.holdings(luid).map(Held::from);
        let began = Instant::now();
        // What was destroyed right behind its last use may be freed once the report of that use has come.
        while held() != Some(expected) && began.elapsed() < REPORT_LIMIT {
            thread::sleep(Duration::from_millis(1));
        }
        match held() {
            Some(found) if found == expected => {}
            found => {
                let tree = machine.inspect(luid).map_or_else(String::new, |tree| tree.to_string());
                self.find(format!("the adapter holds {found:?}, the programs have {expected:?}\n{tree}"));
            }
        }
        self.look_for_faults(&machine);
    }

    /// Looks for rescues, a bug check, and devices that were lost without a cause.
    fn look_for_faults(&self, machine: &Machine) {
        let (rescues, late) = (machine.take_rescues(), self.delay.take());
        if !rescues.is_empty() {
            let log = machine.debug_log();
            let end = log.get(log.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n  ");
            self.find(format!(
                "made good by the system without a report of driver or device: {rescues:?}; the host ran a thread up to {late} ms late meanwhile, and the log ends with\n  {end}"
            ));
        }
        if let Some(bugcheck) = machine.bugcheck() {
            self.find(format!("the machine stopped: {bugcheck}"));
            self.stop();
        }
        let (lost, hangs) = (get(&self.counts.lost_by_reset), get(&self.counts.hangs));
        if lost > hangs {
            self.find(format!("{lost} programs lost their devices to {hangs} hangs"));
        }
    }

    /// True if pool and memory are those of the beginning, but for what the driver keeps.
    fn is_idle_memory(&self, pool_blocks: u64, memory: u64) -> bool {
        let (idle_blocks, idle_memory) = self.idle_memory;
        memory == idle_memory && (idle_blocks..=idle_blocks + KEPT_BLOCKS).contains(&pool_blocks)
    }

    /// What is left when all programs have ended, and the machine, to be taken down.
    pub(super) fn end(self, took: Duration) -> (Report, System) {
        let (machine, luid) = self.adapter();
        self.look_for_faults(&machine);
        match machine.holdings(luid) {
            Some(all) if Held::from(all) == self.idle && self.is_idle_memory(all.pool_blocks, all.memory) => {}
            found => self.find(format!(
                "at the end the adapter holds {found:?}, at the beginning it held {:?}, {} pool blocks and {} bytes",
                self.idle, self.idle_memory.0, self.idle_memory.1
            )),
        }
        let gone: usize = self.gone.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Remains::count).sum();
        if gone != 0 {
            self.find(format!("{gone} adapters that were pulled out are still referred to"));
        }
        let findings = self.findings.into_inner().unwrap_or_else(PoisonError::into_inner);
        let report = Report::new(self.seed, self.programs, took, &self.counts, self.delay.longest(), findings);
        (report, self.system.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}
