//! The command line: as that of `campanile hlk`, without the machine that Windows brings.

use std::ffi::OsString;
use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use campanile_conformance::kmt::Kmt;
use campanile_conformance::report::{self, CaseReport, Counts, Report, RunInfo, Status};
use campanile_conformance::{About, Case, CaseInfo, RunThunks, installed, junit};
use clap::Parser;
use serde::Serialize;

use crate::apart::{self, Again};
use crate::exit::{EXIT_FAILED, EXIT_INPUT, EXIT_NO_ADAPTER, EXIT_OK, EXIT_SYSTEM};
use crate::inside::Inside;
use crate::inside_table::INSIDE;
use crate::run::run;
use crate::system::{self, Found, Missing};

const EXIT_CODES: &str = "\
Exit codes:
  0  everything done
  1  a conformance case failed
  2  the command line is wrong, a result cannot be written, or no machine with an adapter is at the socket that was named
  3  this system is no Windows, or the machine has gone meanwhile
  4  there is no adapter of this driver";

/// A case takes milliseconds, the longest a few seconds; this is for those that hang.
pub const TIMEOUT: u64 = 60;

/// Runs the conformance cases on the installed driver, over the thunks of gdi32.dll.
///
/// The cases are those of `campanile hlk`. Those that look behind the thunks need the simulated machine; they are listed and told as not applicable.
#[derive(Debug, Parser)]
#[command(name = "hlk", version, after_help = EXIT_CODES)]
struct Cli {
    /// Lists the cases with what they require, and runs none.
    #[arg(long)]
    list: bool,
    /// Prints what the adapter tells of itself, with its nodes and the features granted, and runs no case.
    #[arg(long, conflicts_with_all = ["list", "filter", "json", "junit"])]
    adapter: bool,
    /// Prints how queues submit on each node, and why not from user mode where they do not, and runs no case.
    #[arg(long, conflicts_with_all = ["adapter", "list", "filter", "json", "junit"])]
    why: bool,
    /// Runs the case of this name alone, in this process, and prints its report.
    #[arg(long, value_name = "NAME", hide = true)]
    case: Option<String>,
    #[command(flatten)]
    selection: Selection,
}

/// Which cases run, and where their outcomes go.
#[derive(clap::Args, Clone, Debug)]
pub struct Selection {
    /// Takes only the cases whose name, area or page contains this.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Prints the result (or the list) as JSON.
    #[arg(long)]
    pub json: bool,
    /// Also writes the outcomes to a file, as JUnit's XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Runs the cases so often, one round after the other.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Longest time one case may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// What random cases are drawn from; the same seed draws the same.
    #[arg(long, value_name = "SEED", default_value_t = campanile_conformance::seed::DEFAULT)]
    pub seed: u64,
    /// Runs so many cases at a time, each in a process of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: u32,
}

/// The driver under test, for the report.
#[derive(Serialize)]
struct Driver {
    driver: String,
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "driver: {}", self.driver)
    }
}

/// A case here.
enum Listed {
    Thunks(&'static CaseInfo, RunThunks),
    Inside(&'static Inside),
}

impl Listed {
    fn about(&self) -> About {
        match self {
            Self::Thunks(case, _) => case.about(),
            Self::Inside(case) => case.about(),
        }
    }
}

/// The case, if it needs the thunks alone. A build for the tests of this crate may have the others, too.
fn thunks(case: &'static CaseInfo) -> Option<Listed> {
    case.over_thunks_alone().map(|run| Listed::Thunks(case, run))
}

/// Every case of `campanile hlk`, those that run here first.
fn all() -> impl Iterator<Item = Listed> {
    campanile_conformance::registry::cases().filter_map(thunks).chain(INSIDE.iter().map(Listed::Inside))
}

/// Parses the command line, does what it says, and returns the exit code.
pub fn main() -> u8 {
    let code = match Cli::try_parse() {
        Ok(cli) => command(&cli),
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            EXIT_INPUT
        }
        // Help and version are results, too.
        Err(text) => {
            print(text.render().to_string().trim_end());
            EXIT_OK
        }
    };
    exit_code(code)
}

fn command(cli: &Cli) -> u8 {
    if let Some(name) = &cli.case {
        campanile_conformance::seed::set(cli.selection.seed);
        return system::find().map_or_else(|missing| told(&missing), |found| run_one(name, &cli.selection, &found));
    }
    let Some(selected) = selected(&cli.selection) else { return EXIT_INPUT };
    if cli.list {
        print(&list(&selected, cli.selection.json));
        return EXIT_OK;
    }
    campanile_conformance::seed::set(cli.selection.seed);
    match system::find() {
        Ok(found) if cli.adapter => {
            let lines = installed::describe(Kmt::new(), found.luid);
            tell(&found, lines.map_err(|status| format!("opening it failed with {status}")))
        }
        Ok(found) if cli.why => {
            let lines = installed::submission(Kmt::new(), found.luid);
            tell(&found, lines.map_err(|failure| format!("it cannot be used: {failure}")))
        }
        Ok(found) => again(&cli.selection, &[])
            .map_or_else(|code| code, |again| run_all(&cli.selection, &selected, &found, (&again, None))),
        Err(missing) => told(&missing),
    }
}

/// This program, for one case: with the words that name a command of it, then those that the case runs with.
fn again(selection: &Selection, command: &[OsString]) -> Result<Again, u8> {
    let program = std::env::current_exe().map_err(|error| {
        let _ = writeln!(std::io::stderr(), "hlk: the path of this program, which runs each case again: {error}");
        EXIT_SYSTEM
    })?;
    let (timeout, seed) = (selection.timeout.to_string(), selection.seed.to_string());
    let of_case = ["--timeout", &timeout, "--seed", &seed, "--case"];
    let words = command.iter().cloned().chain(of_case.map(OsString::from)).collect();
    Ok(Again { program, words })
}

/// Runs the case of a name in this process, and prints its report as a line of JSON.
fn run_one(name: &str, selection: &Selection, found: &Found) -> u8 {
    let named = campanile_conformance::registry::cases().filter_map(thunks).find(|case| case.about().name == name);
    let Some(Listed::Thunks(case, of)) = named else {
        let _ = writeln!(std::io::stderr(), "hlk: no case is called {name}");
        return EXIT_INPUT;
    };
    // Every thread of a program on Windows belongs to its process.
    let taken = Case::new(found.luid, Arc::new(|| Box::new(())));
    let outcome = run(case, of, taken, Duration::from_secs(selection.timeout));
    match serde_json::to_string(&outcome) {
        Ok(line) => print(&line),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "hlk: {error}");
            return EXIT_FAILED;
        }
    }
    EXIT_OK
}

/// Asks a machine what it has counted since it was asked last.
pub type Counting<'c> = &'c (dyn Fn() -> Result<Counts, String> + Sync);

/// A machine that another process serves.
#[derive(Clone, Copy)]
struct Served<'s> {
    path: &'s Path,
    counting: Counting<'s>,
    /// True while it runs and has an adapter.
    is_there: fn() -> bool,
}

/// Cases that take most of the GPU's memory: nothing runs beside them, for it would be refused memory, or they would.
const GREEDY: [&str; 3] = [
    "AnyDriver.EvictedMemoryComesBack",
    "AnyDriver.MemoryThatRunsOutIsRefusedAndNothingElse",
    "AnyDriver.ProcessesEndWithEverythingOpen",
];

fn is_greedy(name: &str) -> bool {
    GREEDY.iter().any(|greedy| name.ends_with(greedy))
}

/// Runs the cases as programs of the machine that is served at a socket and asked by `counting` after each, or the one of a name in this process; returns the
/// exit code.
#[cfg(unix)]
pub fn on_machine(machine: &Path, selection: &Selection, case: Option<&str>, counting: Counting<'_>) -> u8 {
    let found = match system::find_at(machine) {
        Ok(found) => found,
        Err(missing) => return told(&missing),
    };
    if let Some(name) = case {
        return exit_code(run_one(name, selection, &found));
    }
    let Some(selected) = selected(selection) else { return EXIT_INPUT };
    // What was counted before is not of these cases.
    if let Err(error) = counting() {
        let _ = writeln!(std::io::stderr(), "hlk: the machine does not tell what it made good: {error}");
        return EXIT_INPUT;
    }
    let command = ["hlk".into(), "--machine".into(), machine.into()];
    let served = Served { path: machine, counting, is_there: system::has_adapter };
    let code = again(selection, &command)
        .map_or_else(|code| code, |again| run_all(selection, &selected, &found, (&again, Some(served))));
    exit_code(code)
}

fn told(missing: &Missing) -> u8 {
    let _ = writeln!(std::io::stderr(), "hlk: {missing}");
    missing.exit_code()
}

/// The cases that are wanted; `None` if there are none, which is said.
fn selected(selection: &Selection) -> Option<Vec<Listed>> {
    let wanted = selection.filter.as_deref().unwrap_or_default().to_lowercase();
    let selected: Vec<Listed> = all().filter(|case| case.about().matches(&wanted)).collect();
    if selected.is_empty() {
        let _ =
            writeln!(std::io::stderr(), "hlk: no case matches the filter; `hlk --list` shows all {}", all().count());
        return None;
    }
    Some(selected)
}

/// The cases with what they require; in words, those that do not run here with the reason.
fn list(selected: &[Listed], json: bool) -> String {
    if json {
        return report::list_json(&selected.iter().map(Listed::about).collect::<Vec<_>>());
    }
    let here: Vec<About> =
        selected.iter().filter(|case| matches!(case, Listed::Thunks(..))).map(Listed::about).collect();
    let inside = selected.iter().filter_map(|case| match case {
        Listed::Inside(case) => Some(*case),
        Listed::Thunks(..) => None,
    });
    let mut lines = vec![report::list_text(&here)];
    let mut count = 0;
    for case in inside {
        if count == 0 {
            lines.push("not applicable here:".to_owned());
        }
        count += 1;
        lines.push(format!("  {}  [{}]\n      {}", case.name, case.page, case.why()));
    }
    lines.push(format!("{count} cases are not applicable"));
    lines.join("\n")
}

/// Prints what was asked of the adapter, or why it could not be asked.
fn tell(found: &Found, lines: Result<Vec<String>, String>) -> u8 {
    print(&format!("driver: {found}"));
    match lines {
        Ok(lines) => {
            print(&lines.join("\n"));
            EXIT_OK
        }
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "hlk: no adapter: it was listed, and {why}");
            EXIT_NO_ADAPTER
        }
    }
}

/// A run of cases in processes of their own.
struct Run<'r> {
    selection: &'r Selection,
    again: &'r Again,
    /// The machine, which is asked what it has counted after each case or, if several run at a time, after all of them; `None` where nobody counts.
    served: Option<Served<'r>>,
    /// True once the machine is not there any more, with which no further case runs.
    is_gone: AtomicBool,
    /// Held alone by a case that takes most of the memory.
    memory: RwLock<()>,
    /// Outcomes that there will be: the cases, each as often as it is repeated.
    outcomes: u64,
    next: AtomicU64,
    /// Held while an outcome is told.
    done: Mutex<Report<Driver>>,
}

impl Run<'_> {
    fn is_beside_others(&self) -> bool {
        self.selection.jobs > 1
    }

    /// Runs cases that no other thread runs, until there are none.
    fn work(&self, cases: &[Listed]) {
        let next = || Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < self.outcomes);
        while !self.is_gone.load(Ordering::Relaxed)
            && let Some(number) = next()
        {
            let Some(case) = cases.get((number % cases.len().max(1) as u64) as usize) else { return };
            let about = case.about();
            if std::io::stderr().is_terminal() {
                eprint!(
                    "\r\x1b[K{} of {}  {}",
                    self.next.load(Ordering::Relaxed).min(self.outcomes),
                    self.outcomes,
                    about.name
                );
            }
            self.add(self.outcome(case, &about));
        }
    }

    fn outcome(&self, case: &Listed, about: &About) -> CaseReport {
        match case {
            Listed::Thunks(..) => {
                let mut outcome = self.run_beside_others(about);
                if let Some(served) = self.served.filter(|_| !self.is_beside_others()) {
                    outcome = advised(outcome.counted((served.counting)()));
                }
                if outcome.status == Status::Failed {
                    let machine = |served: &Served<'_>| format!("campanile hlk --machine {}", served.path.display());
                    let command = self.served.as_ref().map_or_else(|| "hlk".to_owned(), machine);
                    outcome.replay = Some(format!("{command} --filter {} --seed {}", about.name, self.selection.seed));
                    if self.served.is_some_and(|served| !(served.is_there)()) {
                        self.is_gone.store(true, Ordering::Relaxed);
                    }
                }
                outcome
            }
            Listed::Inside(case) => CaseReport::new(about, Status::Skipped, Duration::ZERO, Some(case.why())),
        }
    }

    /// Runs a case in a process of its own, alone if it is greedy.
    fn run_beside_others(&self, about: &About) -> CaseReport {
        let run = || apart::run(about, self.again, Duration::from_secs(self.selection.timeout));
        if is_greedy(about.name) {
            let _alone = self.memory.write().unwrap_or_else(PoisonError::into_inner);
            run()
        } else {
            let _beside = self.memory.read().unwrap_or_else(PoisonError::into_inner);
            run()
        }
    }

    fn add(&self, outcome: CaseReport) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
        if !self.selection.json {
            print(&outcome.line());
        }
        done.add(outcome);
    }

    /// What the machine made good while several cases ran at a time is of all of them, and fails the run.
    fn add_counts(&self) {
        let is_there = !self.is_gone.load(Ordering::Relaxed);
        let Some(served) = self.served.filter(|_| is_there && self.is_beside_others()) else { return };
        let together = advised(CaseReport::of_all((served.counting)()));
        if together.status == Status::Failed {
            self.add(together);
        }
    }
}

fn run_all(
    selection: &Selection,
    selected: &[Listed],
    found: &Found,
    (again, served): (&Again, Option<Served<'_>>),
) -> u8 {
    let run_info = RunInfo { filter: selection.filter.clone(), rounds: selection.repeat, ..RunInfo::default() };
    let run = Run {
        selection,
        again,
        served,
        is_gone: AtomicBool::new(false),
        memory: RwLock::default(),
        outcomes: u64::from(selection.repeat) * selected.len() as u64,
        next: AtomicU64::new(0),
        done: Mutex::new(Report::new(Driver { driver: found.to_string() }, run_info)),
    };
    std::thread::scope(|scope| {
        let work = || run.work(selected);
        // A host without a thread for it has fewer at a time.
        (1..selection.jobs).for_each(|_| drop(std::thread::Builder::new().spawn_scoped(scope, work)));
        work();
    });
    run.add_counts();
    let is_gone = run.is_gone.load(Ordering::Relaxed);
    let done = run.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    print(&if selection.json { done.to_json() } else { done.summary() });
    if let Some(path) = &selection.junit
        && let Err(error) = junit::write(path, "hlk", done.cases.iter().map(CaseReport::outcome))
    {
        let _ = writeln!(std::io::stderr(), "hlk: {error}");
        return EXIT_INPUT;
    }
    match served.filter(|_| is_gone) {
        Some(Served { path, .. }) => {
            let left = run.outcomes.saturating_sub(done.total as u64);
            let _ = writeln!(
                std::io::stderr(),
                "hlk: the machine at {} has gone, or has no adapter any more; {left} cases were not run",
                path.display()
            );
            EXIT_SYSTEM
        }
        None if done.failed == 0 => EXIT_OK,
        None => EXIT_FAILED,
    }
}

/// Prints a line; a reader that has gone is no error of ours.
/// True once something could not be written to standard output.
static NOT_WRITTEN: AtomicBool = AtomicBool::new(false);

/// Writes text and a line end to standard output. A reader that went away has seen what it wanted; any other failure is reported once, and
/// [`exit_code`] tells the caller of the program.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
        && !NOT_WRITTEN.swap(true, Ordering::Relaxed)
    {
        let _ =
            writeln!(std::io::stderr(), "hlk: cannot write to standard output: {error}; the result is not complete");
    }
}

/// The exit code of the program whose command ended with `code`: a result that could not be written is [`EXIT_INPUT`], whatever it was.
fn exit_code(code: u8) -> u8 {
    if NOT_WRITTEN.load(Ordering::Relaxed) { EXIT_INPUT } else { code }
}

/// A case that failed by what a machine of another process made good, with what else than a driver does that: its time limits go by the host's clock, also while the host gives it no processor.
fn advised(mut outcome: CaseReport) -> CaseReport {
    let by_time = outcome.rescues.contains_key("repeated-packet");
    if let Some(reason) = outcome.reason.as_mut().filter(|_| outcome.status == Status::Failed && by_time) {
        reason.push_str(
            "; a host with more work than processors makes a packet take TdrDelay, too: start the machine with `--tdr TdrDelay=60` there",
        );
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn no_case_is_listed_twice_and_each_that_does_not_run_says_why() {
        let mut names: Vec<&str> = all().map(|case| case.about().name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(campanile_conformance::registry::cases().filter_map(thunks).count() > 150);
        for case in INSIDE {
            assert!(case.why().starts_with("only on the simulated machine: "), "{}", case.name);
        }
    }

    #[test]
    fn those_that_run_alone_are_cases() {
        for greedy in GREEDY {
            let named = all().filter(|case| case.about().name.ends_with(greedy) && is_greedy(case.about().name));
            assert_eq!(named.count(), 1, "{greedy}");
        }
    }

    #[test]
    fn the_list_says_what_does_not_run_here() {
        let text = list(&all().collect::<Vec<_>>(), false);
        assert!(text.ends_with(&format!("{} cases are not applicable", INSIDE.len())), "{text}");
        for case in all() {
            assert!(text.contains(&format!("  {}  [", case.about().name)), "{}", case.about().name);
        }
    }

    #[test]
    fn a_packet_that_took_too_long_is_told_with_what_a_busy_host_has_to_do_with_it() {
        let told = |rescue: &'static str| {
            let counts = Counts { rescues: [(rescue.into(), 1)].into(), ..Counts::default() };
            advised(CaseReport::of_all(Ok(counts))).reason.expect("it fails")
        };
        assert!(told("repeated-packet").contains("`--tdr TdrDelay=60`"));
        assert!(!told("unreported-signal").contains("TdrDelay"));
    }
}
