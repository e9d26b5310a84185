//! Runs a case: boots, attaches, watches the clock, takes down and looks for what was left behind.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use dxgkrnl::verifier::Bugcheck;
use dxgkrnl::{DRIVER_LIMIT, Machine, Remains, Rescue, TraceEvent};
use serde_json::Value;
use wddm_ddi::types::LUID;

use super::did;
use crate::report::{CaseReport, Status, made_good};
use crate::simulated::Case;
use crate::{Boot, CaseInfo, Failure, Need, Run, seed, wait};
use testbed::setup::{
    BusChoice, Drivers, Feature, FenceStorage, GpuElsewhere, MachineOptions, SetupError, System, SystemOptions,
};

/// Events of the driver that are kept of a case, and the last of them, which the state of a failed case shows.
const EVENTS: u32 = 100;
const SHOWN_EVENTS: usize = 30;
/// A case takes milliseconds, the longest a few seconds; this is for those that hang.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How often a manual clock is moved on for a case that failed, and how far: TdrDelay passes within seconds.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Systems for the cases that take one over from each other: as many as such cases ever ran at a time. A case owns its system
/// while it runs; one that fails or hangs does not give it back.
static SHARED: Mutex<Vec<(MachineOptions, System)>> = Mutex::new(Vec::new());

fn shared() -> MutexGuard<'static, Vec<(MachineOptions, System)>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_shared(machine: &MachineOptions) -> Option<System> {
    let mut systems = shared();
    let found = systems.iter().position(|(its, _)| its == machine)?;
    Some(systems.swap_remove(found).1)
}

/// The counts that a machine kept while a case ran on it.
#[derive(Default)]
struct Counted {
    /// Rescues that the system counted, by kind.
    rescues: Vec<(Rescue, u64)>,
    /// DDIs that were called.
    calls: Vec<(&'static str, u64)>,
    /// Rescues that the case has announced.
    announced: Vec<Rescue>,
}

/// Why a case did not pass, and what its adapter looked like then.
struct Ended {
    failure: Failure,
    state: Option<String>,
    counted: Box<Counted>,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self { failure, state: None, counted: Box::default() }
    }
}

impl From<SetupError> for Ended {
    fn from(error: SetupError) -> Self {
        let state = with_log(None, error.log());
        Self { state, ..Failure::from(error).into() }
    }
}

/// Races meet thousands of times, with several threads each, and cases of scale have ten thousand queues; all share the processors with whatever else runs.
fn time_limit_of(case: &CaseInfo) -> Duration {
    if ["Races", "Scale"].contains(&case.area) { 4 * TIMEOUT } else { TIMEOUT }
}

/// Runs a case to its end, on `machine` unless it brings its own. Panics and cases that never end are failures.
pub fn run(case: &'static CaseInfo, machine: &MachineOptions) -> CaseReport {
    run_within(case, machine, None)
}

/// As [`run`], but for at most `timeout`.
pub fn run_within(case: &'static CaseInfo, machine: &MachineOptions, timeout: Option<Duration>) -> CaseReport {
    let started = Instant::now();
    let (sender, receiver) = mpsc::channel();
    let its_machine = machine.clone();
    let limit = timeout.unwrap_or_else(|| time_limit_of(case));
    let thread = std::thread::Builder::new().name("case".to_owned()).spawn(move || {
        let outcome = guarded(case, &its_machine, driver_limit(limit), &sender);
        let _ = sender.send(Told::Outcome(outcome));
    });
    let outcome = match thread {
        Err(error) => Err(Failure::new(format!("host: no thread for the case: {error}")).into()),
        Ok(thread) => {
            let (outcome, ended) = listen(&receiver, thread.thread().id(), started + limit, limit);
            if ended {
                let _ = thread.join();
            }
            outcome
        }
    };
    let (status, reason, state, counted) = match outcome {
        Ok(counted) => (Status::Passed, None, None, counted),
        Err(Ended { failure: Failure::Unmet(text), state, counted }) => (Status::Failed, Some(text), state, *counted),
        Err(Ended { failure: Failure::NotApplicable(text), counted, .. }) => {
            (Status::Skipped, Some(text), None, *counted)
        }
    };
    let report = CaseReport::new(&case.about(), status, started.elapsed(), reason);
    let rescues = counted.rescues.into_iter().map(|(rescue, count)| (rescue.name().into(), count)).collect();
    let calls = counted.calls.into_iter().map(|(ddi, count)| (ddi.into(), count)).collect();
    let machine = ran_on(case, machine, &calls);
    CaseReport { state, rescues, calls, machine, ..report }
}

/// Names a mutant of this program, if it was built with some; see docs/mutation.md.
const MUTANT: &str = "CAMPANILE_MUTANT";

/// Configuration of the machine that a case ran on or was for, and how often it interrupted, for its report.
fn ran_on(
    case: &CaseInfo,
    machine: &MachineOptions,
    calls: &BTreeMap<Cow<'static, str>, u64>,
) -> BTreeMap<Cow<'static, str>, Value> {
    let mut ran_on = describe(&case.boot.options(machine), machine);
    ran_on.insert("seed".into(), seed::get().into());
    ran_on.extend(calls.get("DxgkDdiInterruptRoutine").map(|count| ("interrupts".into(), (*count).into())));
    ran_on
}

/// Configuration of a machine that is booted with `options`, which were chosen as `machine`.
pub fn describe(options: &SystemOptions, machine: &MachineOptions) -> BTreeMap<Cow<'static, str>, Value> {
    let bus = options.bus.as_ref().map_or_else(|| BusChoice::selected(), Ok);
    // Of a function that others serve nothing is known.
    let is_foreign = bus.as_ref().is_ok_and(|bus| bus.is_elsewhere());
    let variant = (!is_foreign).then_some(&options.variant);
    let bus = bus.map_or_else(|error| error, ToString::to_string);
    let scheduling = if options.features.hardware_scheduling { "hardware" } else { "packet" };
    let without = Feature::names(&Feature::withheld(options.features));
    let fences = FenceStorage::of(options.features).name();
    let faults: Vec<String> = machine.faults.iter().map(ToString::to_string).collect();
    let drivers = Drivers::selected();
    let mut ran_on = BTreeMap::from([
        ("variant", serde_json::to_value(variant).unwrap_or_default()),
        ("driver", drivers.driver.into()),
        ("driver_sha256", drivers.driver_sha256.into()),
        ("special_pool", drivers.special_pool.into()),
        ("scheduling", scheduling.into()),
        ("without", without.into()),
        ("fence_storage", fences.into()),
        ("bus", bus.into()),
        ("faults", faults.into()),
        ("mutant", std::env::var(MUTANT).ok().filter(|number| number != "0").into()),
    ]);
    ran_on.retain(|_, value| !value.is_null());
    ran_on.into_iter().map(|(key, value)| (key.into(), value)).collect()
}

/// How long a case that did not end may take to be looked at, and how long its machine has for timeouts before.
const INSPECTION: Duration = Duration::from_secs(10);

/// What is left of a case that did not end: the bug check that timeouts led to, and what stands still. The clock of its machine, which only the case moves, goes on for a
/// while, for a driver whose packets never complete is found by timeouts. Nobody waits for long: what the case waits for may stop whoever looks at it, too.
fn standing(machine: &Machine, luid: Option<LUID>) -> Standing {
    let calls = machine.slow_calls();
    let (sender, receiver) = mpsc::channel();
    let looked_at = machine.clone();
    let look = move || {
        let end = Instant::now() + INSPECTION / 2;
        while looked_at.bugcheck().is_none() && Instant::now() < end {
            looked_at.advance(10 * POLL_INTERVAL);
            std::thread::sleep(POLL_INTERVAL);
        }
        let tree = luid.and_then(|luid| looked_at.inspect(luid)).map(|tree| tree.to_string());
        let _ = sender.send((tree, luid.map(|luid| looked_at.standing_work(luid)).unwrap_or_default()));
    };
    let started = std::thread::Builder::new().name("standing".to_owned()).spawn(look);
    let (tree, work) = started.ok().and_then(|_| receiver.recv_timeout(INSPECTION).ok()).unwrap_or_default();
    let waits = calls.into_iter().chain(work).collect();
    Standing { bugcheck: machine.bugcheck(), waits, state: with_log(tree, &machine.debug_log()) }
}

/// What a case waits for whose machine is not built when its time is over, most of the time.
const UNBUILT: &str = "it waits for its GPU to be attached: a server of one client at a time answers when the machine before is gone, which that of a case that did not end is not";

/// The machine of a case that did not end, as it was found then.
#[derive(Default)]
struct Standing {
    /// The bug check that timeouts led to.
    bugcheck: Option<Bugcheck>,
    /// Calls into the driver that do not return, and work that the driver does not end, in words.
    waits: Vec<String>,
    /// State and log of the machine.
    state: Option<String>,
}

/// Message of a case's thread to the one that waits for it.
enum Told {
    /// The machine of the case is there, without an adapter so far.
    Built(Machine),
    /// The adapter of that machine has started, so that there is a state to look at.
    Booted(Machine, LUID),
    /// What the case found; its process has still to end.
    Found(String),
    /// The result, after which the thread ends.
    Outcome(Result<Counted, Ended>),
}

/// Why a case failed whose machine stopped: what a case finds on a machine that has stopped follows from that.
fn stopped(bugcheck: &Bugcheck, found: &str) -> String {
    format!("the machine stopped: {bugcheck}; the case found: {found}")
}

/// The outcome of a case, and whether its thread has come to its end.
fn listen(
    receiver: &Receiver<Told>,
    thread: ThreadId,
    end: Instant,
    limit: Duration,
) -> (Result<Counted, Ended>, bool) {
    let (mut found, mut built) = (None, None);
    loop {
        let text = match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Told::Outcome(outcome)) => return (outcome, true),
            Ok(Told::Found(text)) => {
                found = Some(text);
                continue;
            }
            Ok(Told::Built(machine)) => {
                built = Some((machine, None));
                continue;
            }
            Ok(Told::Booted(machine, luid)) => {
                built = Some((machine, Some(luid)));
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {
                let wait = wait::awaited_by(thread).map_or_else(String::new, |what| format!("; it waits for {what}"));
                format!("did not end within {} s{wait}", limit.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => "its thread ended without an outcome".to_owned(),
        };
        // What the case found explains more than that its end was not the last.
        let mut text = found.map_or_else(|| text.clone(), |found| format!("{found}; then it {text}"));
        let Standing { bugcheck, waits, state } = match built {
            Some((machine, luid)) => standing(&machine, luid),
            None => Standing { waits: vec![UNBUILT.to_owned()], ..Standing::default() },
        };
        for wait in waits {
            text = format!("{text}; {wait}");
        }
        if let Some(bugcheck) = bugcheck {
            text = stopped(&bugcheck, &text);
        }
        return (Err(Ended { failure: Failure::new(text), state, counted: Box::default() }), false);
    }
}

/// Takes the shared systems down.
///
/// # Errors
/// One left something behind or had stopped with a bugcheck.
pub fn release_shared() -> Result<(), SetupError> {
    let systems = std::mem::take(&mut *shared());
    systems.into_iter().map(|(_, system)| system.shutdown()).fold(Ok(()), Result::and)
}

/// How long a call into the driver may take in a case that may take `limit`: the bug check says more than that the case did not end.
fn driver_limit(limit: Duration) -> Duration {
    const LEAST: Duration = Duration::from_secs(10);
    (limit * 5 / 6).clamp(LEAST, DRIVER_LIMIT)
}

fn guarded(
    case: &CaseInfo,
    machine: &MachineOptions,
    driver_limit: Duration,
    told: &Sender<Told>,
) -> Result<Counted, Ended> {
    let boot_and_run = || boot_and_run(case, machine, driver_limit, told);
    catch_unwind(AssertUnwindSafe(boot_and_run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Failure::new(format!("panicked: {text}")).into())
    })
}

/// The driver of this process is not this project's, which one case found out for all.
static ANOTHER_DRIVER: AtomicBool = AtomicBool::new(false);

/// Asks the adapter for what the case needs.
fn check_needs(case: &CaseInfo, taken: &crate::Case) -> Result<(), Failure> {
    case.needs.concat().into_iter().try_for_each(|need| {
        let checked = need.check(taken);
        if need == Need::Campanile && matches!(checked, Err(Failure::NotApplicable(_))) {
            ANOTHER_DRIVER.store(true, Ordering::Relaxed);
        }
        checked
    })
}

fn boot_and_run(
    case: &CaseInfo,
    machine: &MachineOptions,
    driver_limit: Duration,
    told: &Sender<Told>,
) -> Result<Counted, Ended> {
    if ANOTHER_DRIVER.load(Ordering::Relaxed) && case.needs.concat().contains(&Need::Campanile) {
        return Err(Failure::NotApplicable(format!("the adapter is without {}", Need::Campanile)).into());
    }
    let options = SystemOptions { driver_limit, ..case.boot.options(machine) };
    let bus = match &options.bus {
        Some(bus) => bus,
        None => BusChoice::selected().map_err(Failure::new)?,
    };
    // A server elsewhere has a GPU of its own choice, and serves one machine at a time, which therefore cannot wait for the next case.
    let elsewhere = bus.is_elsewhere();
    if elsewhere && !case.boot.takes_any_machine() {
        return Err(Failure::NotApplicable("it brings its own GPU, and there is one already".to_owned()).into());
    }
    if let (Boot::Shared, false) = (case.boot, elsewhere) {
        let mut system = match take_shared(machine) {
            Some(system) => system,
            None => boot(&options, machine, told)?,
        };
        let counted = in_process(case, &mut system, told)?;
        shared().push((machine.clone(), system));
        return Ok(counted);
    }
    let mut system = boot(&options, machine, told)?;
    let remains = system.machine().remains();
    let outcome = in_process(case, &mut system, told);
    // What the case found explains more than what it leaves behind.
    let announced = outcome.as_ref().map(|counted| counted.announced.clone()).unwrap_or_default();
    let left = system.shutdown_with(&announced).map_err(Ended::from);
    let counted = outcome.and_then(|counted| left.map(|()| counted))?;
    if is_all_gone(&remains) { Ok(counted) } else { Err(Failure::new("an adapter outlives its machine").into()) }
}

/// True once nothing refers to the adapters any more; threads of the machine that are about to end have a moment for it.
fn is_all_gone(remains: &Remains) -> bool {
    let end = Instant::now() + TIMEOUT / 6;
    while remains.count() != 0 {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    true
}

/// A system whose GPUs have the faults of the command line from its start on.
fn boot(options: &SystemOptions, machine: &MachineOptions, told: &Sender<Told>) -> Result<System, SetupError> {
    let system = System::boot_seen(options, |machine| _ = told.send(Told::Built(machine.clone())))?;
    for fault in &machine.faults {
        fault.arm(system.faulty_gpu()?.faults(), seed::get());
    }
    Ok(system)
}

/// The last events of the adapter's driver, each with the microseconds from its end to that of the last.
fn last_events(system: &System) -> String {
    let events = system.machine().take_trace(system.luid()).unwrap_or_default().events;
    let end = |event: &TraceEvent| event.began + event.took;
    let last = events.last().map_or(0, end);
    let left_out = events.len().saturating_sub(SHOWN_EVENTS);
    let shown = events.iter().skip(left_out);
    let mut lines = vec![format!(
        "last {} events, without {left_out} earlier ones, with the microseconds before the last of them",
        shown.len()
    )];
    lines.extend(shown.map(|event| {
        let before = last.saturating_sub(end(event));
        format!("  {:>10}.{:03}  {}", before / 1000, before % 1000, event.kind)
    }));
    lines.join("\n")
}

fn in_process(case: &CaseInfo, system: &mut System, told: &Sender<Told>) -> Result<Counted, Ended> {
    // DDI calls of the machine's start are not counted for the case.
    system.machine().take_ddi_calls();
    let _ = told.send(Told::Booted(system.machine().clone(), system.luid()));
    let process = dxgkrnl::Process::new(system.machine(), "case");
    // A case may also run untraced: only readers of its failure would miss the events.
    let _ = system.machine().trace(system.luid(), Some(EVENTS));
    let (outcome, announced) = {
        let _attached = process.attach();
        let mut taken = Case::new(system, &process);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            check_needs(case, &taken)?;
            let machine = taken.system.machine().clone();
            wait::on_machine(
                move || machine.bugcheck().is_some(),
                || match case.run {
                    Run::Thunks(run) => run(&taken),
                    Run::Inside(run) => run(&mut taken),
                },
            )
        }));
        let outcome = ended.unwrap_or_else(|payload| match payload.is::<GpuElsewhere>() {
            true => Err(Failure::NotApplicable("it looks into the GPU, which is in another process".to_owned())),
            false => resume_unwind(payload),
        });
        (outcome, taken.announced().to_vec())
    };
    let mut state = None;
    if let Err(Failure::Unmet(text)) = &outcome {
        let _ = told.send(Told::Found(text.clone()));
        // Before the process takes everything along.
        state = system.machine().inspect(system.luid()).map(|tree| format!("{tree}\n{}", last_events(system)));
        // Work that a case leaves behind in the middle may need time to pass, and nobody moves a manual clock any more.
        std::thread::scope(|scope| {
            let exit = scope.spawn(|| process.exit());
            while !exit.is_finished() {
                system.machine().advance(POLL_INTERVAL);
                std::thread::sleep(POLL_INTERVAL);
            }
        });
    }
    process.exit();
    let (rescues, calls) = (system.machine().take_rescues(), system.machine().take_ddi_calls());
    let counted = Counted { rescues, calls, announced };
    let failure = match (system.machine().bugcheck(), outcome) {
        (None, Ok(())) => {
            let wrong = unannounced(&counted.rescues, &counted.announced);
            match wrong.or_else(|| did::nothing(case, &counted.calls).map(Failure::new)) {
                None => return Ok(counted),
                Some(failure) => failure,
            }
        }
        (Some(bugcheck), Ok(())) => Failure::new(format!("the machine stopped: {bugcheck}")),
        (Some(bugcheck), Err(failure)) => Failure::new(stopped(&bugcheck, &failure.to_string())),
        (None, Err(failure)) => failure,
    };
    let state = with_log(state, &system.machine().debug_log());
    Err(Ended { failure, state, counted: Box::new(counted) })
}

/// The state of a failed case, and what driver and system said last.
fn with_log(state: Option<String>, log: &[String]) -> Option<String> {
    /// Lines that are shown.
    const LINES: usize = 40;
    if log.is_empty() {
        return state;
    }
    let mut lines: Vec<(&String, u32)> = Vec::new();
    for line in log {
        match lines.last_mut() {
            Some((last, times)) if *last == line => *times += 1,
            _ => lines.push((line, 1)),
        }
    }
    let told =
        |(line, times): (&String, u32)| if times == 1 { line.clone() } else { format!("{line} ({times} times)") };
    let lines: Vec<String> = lines.into_iter().map(told).collect();
    let (hidden, shown) = lines.split_at(lines.len().saturating_sub(LINES));
    let earlier = if hidden.is_empty() { String::new() } else { format!(", without {} earlier lines", hidden.len()) };
    Some(format!("{}debug log{earlier}\n  {}", state.map(|state| state + "\n").unwrap_or_default(), shown.join("\n  ")))
}

/// A failure if the system made something good that the case did not announce.
fn unannounced(rescues: &[(Rescue, u64)], announced: &[Rescue]) -> Option<Failure> {
    let silent = rescues.iter().filter(|(rescue, _)| !announced.contains(rescue));
    made_good(silent.map(|(rescue, count)| (rescue.name(), *count))).map(Failure::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_the_debug_log_stand_behind_the_state() {
        assert_eq!(with_log(Some("node 0".into()), &[]), Some("node 0".into()));
        let log: Vec<String> = (0..41).map(|line| line.to_string()).collect();
        let shown = with_log(Some("node 0".into()), &log).unwrap();
        assert!(shown.starts_with("node 0\ndebug log, without 1 earlier lines\n  1\n"), "{shown}");
        assert_eq!(with_log(None, &log[..1]), Some("debug log\n  0".into()));
        let again = ["a", "a", "b", "a"].map(str::to_owned);
        assert_eq!(with_log(None, &again), Some("debug log\n  a (2 times)\n  b\n  a".into()));
    }

    #[test]
    fn a_call_into_the_driver_is_late_before_its_case_is_given_up() {
        let seconds = |limit| driver_limit(Duration::from_secs(limit)).as_secs();
        assert_eq!([60, 5, 18, 3600].map(seconds), [50, 10, 15, 300]);
    }
}
