//! The command `campanile hlk`: picks cases, runs them on the machines that were asked for, and prints what they found.

mod matrix;
mod under_way;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::print::print;
use campanile_conformance::inside::{Storm, set_storm};
use campanile_conformance::merge::merge;
use campanile_conformance::registry::cases;
use campanile_conformance::report::{self, About, CaseReport, RunInfo, Status};
use campanile_conformance::shard::Shard;
use campanile_conformance::simulated::{release_shared, run_within};
use campanile_conformance::{CaseInfo, junit, opaque, seed};
use matrix::Machine;
use testbed::exit::{EXIT_FAILED, EXIT_INPUT, EXIT_OK};
use testbed::setup::{self, Drivers, LockDelays, MachineOptions, TdrChoice};
use under_way::UnderWay;

/// All outcomes, and what the cases ran on.
pub type Report = report::Report<Drivers>;

/// What a storm of hangs may take, beside the time of the hangs.
const STORM_LIMIT: Duration = Duration::from_secs(60);

/// Options of `campanile hlk`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// List the cases instead of running them.
    pub list: bool,
    /// Take only cases whose name, area or page contains this.
    pub filter: Option<String>,
    /// Print JSON.
    pub json: bool,
    /// Print each outcome as a line of JSON as soon as it is there, and no sum.
    pub json_lines: bool,
    /// Also write the outcomes to this file, as JUnit's XML.
    pub junit: Option<PathBuf>,
    /// Run the cases so often; 0 counts as 1.
    pub repeat: u32,
    /// Cases that run at a time; 0 counts as 1.
    pub jobs: u32,
    /// Run only this part of the cases, where several machines share them.
    pub shard: Option<Shard>,
    /// Run nothing, and put these reports of parts together.
    pub merge: Vec<PathBuf>,
    /// Run the cases on each machine of the matrix instead of on `machine` alone.
    pub matrix: bool,
    /// Run the cases with each subset of the features that the operating system may enable.
    pub profiles: bool,
    /// Hangs of the case Tdr.StormCostsOnlyTheGuilty, instead of a few. Where no time is given, each lets every case take a second longer.
    pub hangs: Option<u64>,
    /// Private data and commands for the driver of another GPU, see [`campanile_conformance::opaque`].
    pub private_data: Option<PathBuf>,
    /// Delays of threads at locks, if the run has any.
    pub lock_delays: Option<LockDelays>,
    /// Longest time a case may take, instead of its own.
    pub timeout: Option<Duration>,
    /// The command line without what picks cases and reports, for the command that runs a case again.
    pub command_line: Vec<String>,
    /// The machine of the cases that do not bring their own.
    pub machine: MachineOptions,
}

impl Options {
    /// Sets what holds for all cases of the process.
    fn set_for_the_process(&self) {
        if let Some(delays) = self.lock_delays {
            delays.begin(seed::get());
        }
        if let Some(hangs) = self.hangs {
            set_storm(Storm { hangs });
        }
    }
}

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    // Each case has settings of timeouts that belong to it.
    TdrChoice::default().select();
    if !options.merge.is_empty() {
        return match merged(&options.merge) {
            Ok(report) => {
                report.cases.iter().filter(|case| case.status == Status::Failed).for_each(|case| tell(options, case));
                conclude(options, &report)
            }
            Err(error) => {
                testbed::complain!("campanile: {error}");
                EXIT_INPUT
            }
        };
    }
    let selected = selected(options.filter.as_deref());
    if selected.is_empty() {
        testbed::complain!(
            "campanile: no case matches the filter; `campanile hlk --list` shows all {}",
            cases().count()
        );
        return EXIT_INPUT;
    }
    if options.list {
        let selected: Vec<About> = selected.iter().map(|case| case.about()).collect();
        print(&if options.json { report::list_json(&selected) } else { report::list_text(&selected) });
        return EXIT_OK;
    }
    if let Some(Err(error)) = options.private_data.as_deref().map(opaque::read) {
        testbed::complain!("campanile: {error}");
        return EXIT_INPUT;
    }
    // Drivers that cannot be loaded, and GPUs that nobody serves, say nothing about the cases.
    if let Err(error) = setup::check_drivers().and_then(|()| setup::check_bus(&options.machine.system())) {
        testbed::complain!("campanile: {error}");
        return error.exit_code();
    }
    let alone = || vec![Machine { options: options.machine.clone(), words: Vec::new() }];
    let machines = match (options.matrix, options.profiles) {
        (true, _) => matrix::machines(&options.machine, seed::get()),
        (false, true) => Ok(matrix::profiles(&options.machine)),
        (false, false) => Ok(alone()),
    };
    match machines {
        Ok(machines) => conclude(options, &run_all(options, &machines, &selected)),
        Err(error) => {
            testbed::complain!("campanile: the matrix: {error}");
            EXIT_INPUT
        }
    }
}

fn selected(filter: Option<&str>) -> Vec<&'static CaseInfo> {
    let wanted = filter.unwrap_or_default().to_lowercase();
    cases().filter(|case| case.matches(&wanted)).collect()
}

/// The cases of a whole run in their order, each with the number of its machine. Of several machines the first has the cases that bring their own; with
/// `--profiles`, where machines differ by features alone, only those that choose the features are there alone.
fn whole_run(run: &RunInfo, selected: &[&'static CaseInfo]) -> Vec<(usize, &'static CaseInfo)> {
    let run_there = |number: usize, case: &CaseInfo| {
        let boot = case.boot;
        number == 0 || boot.takes_any_machine() || run.profiles && !boot.chooses_features()
    };
    let on = |number: usize| {
        let mut cases: Vec<_> = selected.iter().filter(|case| run_there(number, case)).copied().collect();
        // So that a shard has other cases on each machine.
        let first = number % cases.len().max(1);
        cases.rotate_left(first);
        cases.into_iter().map(move |case| (number, case))
    };
    (0..run.rounds).flat_map(|_| (0..run.machines).flat_map(on)).collect()
}

/// Runs the cases of this part of the run on each machine, and tells each outcome as soon as it is there.
fn run_all(options: &Options, machines: &[Machine], selected: &[&'static CaseInfo]) -> Report {
    let limit = options.timeout.or_else(|| options.hangs.map(|hangs| STORM_LIMIT + Duration::from_secs(hangs)));
    options.set_for_the_process();
    let run_info = RunInfo {
        filter: options.filter.clone(),
        options: options.command_line.clone(),
        rounds: options.repeat.max(1),
        machines: machines.len(),
        profiles: options.profiles,
        shard: options.shard,
        ..RunInfo::default()
    };
    let all = whole_run(&run_info, selected).into_iter().enumerate();
    let mine = all.filter(|(position, _)| options.shard.is_none_or(|shard| shard.takes(*position)));
    let mine: Vec<_> = mine.filter_map(|(_, (number, case))| Some((machines.get(number)?, case))).collect();
    let progress = progress(options, mine.len());
    let under_way = UnderWay::begin(options, Report::new(Drivers::selected(), run_info));
    let add = |outcome: CaseReport| {
        progress.suspend(|| tell(options, &outcome));
        under_way.add(outcome);
    };
    for part in mine.chunk_by(|(one, _), (other, _)| std::ptr::eq(*one, *other)) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some((machine, case)) = part.get(next.fetch_add(1, Ordering::Relaxed)) {
                progress.set_message(case.name);
                let again = replay(&[&machine.words[..], &options.command_line].concat(), case);
                under_way.next(case.about(), again.clone());
                let mut outcome = run_within(case, &machine.options, limit);
                if outcome.status == Status::Failed {
                    outcome.replay = Some(again);
                }
                add(outcome);
                progress.inc(1);
            }
        };
        std::thread::scope(|scope| {
            // A host without a thread for it has fewer at a time.
            (1..options.jobs).for_each(|_| drop(std::thread::Builder::new().spawn_scoped(scope, work)));
            work();
        });
        if let Err(error) = release_shared() {
            add(CaseReport::of_shared(error.to_string()));
        }
    }
    progress.finish_and_clear();
    let report = under_way.end();
    Report { lock_delays: options.lock_delays.map(|_| LockDelays::count()), ..report }
}

/// Prints the summary or the report, writes JUnit's XML, and returns the exit code.
fn conclude(options: &Options, done: &Report) -> u8 {
    if !options.json_lines {
        print(&if options.json { done.to_json() } else { done.summary() });
    }
    if let Some(path) = &options.junit
        && let Err(error) = junit::write(path, "campanile hlk", done.cases.iter().map(CaseReport::outcome))
    {
        testbed::complain!("campanile: {error}");
        return EXIT_INPUT;
    }
    if done.failed == 0 { EXIT_OK } else { EXIT_FAILED }
}

/// The reports of all parts of one run as one.
fn merged(files: &[PathBuf]) -> Result<Report, String> {
    let read = |file: &Path| -> Result<(String, Report), String> {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
        let report = serde_json::from_str(&text)
            .map_err(|error| format!("{name} is not a report of `campanile hlk --json`: {error}"))?;
        Ok((name, report))
    };
    let names = |run: &RunInfo| {
        let whole = whole_run(run, &selected(run.filter.as_deref()));
        whole.into_iter().map(|(_, case)| case.name).collect()
    };
    merge(files.iter().map(|file| read(file)).collect::<Result<_, _>>()?, names)
}

/// A line of progress on a terminal, nothing elsewhere.
fn progress(options: &Options, cases: usize) -> ProgressBar {
    if options.json_lines || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(cases as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:32} {pos} of {len}  {elapsed}  {msg}") {
        bar.set_style(style);
    }
    bar
}

/// The command that runs a case alone.
fn replay(command_line: &[String], case: &CaseInfo) -> String {
    let mut words = ["campanile", "hlk", "--filter", case.name].map(str::to_owned).to_vec();
    words.extend_from_slice(command_line);
    if !words.iter().any(|word| word == "--seed" || word.starts_with("--seed=")) {
        words.push(format!("--seed={}", seed::get()));
    }
    words.join(" ")
}

/// Prints an outcome as soon as it is there.
fn tell(options: &Options, outcome: &CaseReport) {
    if options.json_lines {
        print(&outcome.json_line());
    } else if !options.json {
        print(&outcome.line());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_runs_a_case_again_has_the_seed() {
        let case = cases().next().unwrap();
        let line = |words: &[&str]| replay(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), case);
        let plain = format!("campanile hlk --filter {}", case.name);
        assert_eq!(line(&["--driver", "pe"]), format!("{plain} --driver pe --seed={}", seed::DEFAULT));
        assert_eq!(line(&["--seed", "7"]), format!("{plain} --seed 7"));
        assert_eq!(line(&["--seed=7"]), format!("{plain} --seed=7"));
    }
}
