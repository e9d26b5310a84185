//! Conformance cases: each holds the stack against one requirement of a published page.
//!
//! Cases live in files by area, each with a table [`CaseInfo`] by [`CaseInfo`]; [`cases`] is the registry. They speak to the
//! stack the way user mode does: through the thunks, raw where order and hostile values matter (`rig`), and through the
//! user-mode driver where they do not.

#[macro_use]
mod case;
mod did;
mod matrix;
mod probe;
mod runner;
mod under_way;

mod adapter;
#[cfg(test)]
mod address_model;
mod budget;
mod budget_change;
mod caps;
mod coherency;
mod destruction;
mod doorbell;
mod doorbell_churn;
mod doorbell_fallback;
mod doorbell_resize;
mod driver_queue;
mod event_ring;
mod exit;
mod fault;
mod fault_kinds;
mod fence;
mod fence_32_bits;
mod fence_backwards;
mod fence_batches;
mod fence_cross_adapter;
mod fence_cross_rules;
mod fence_features;
mod fence_hostile;
mod fence_interrupts;
mod fence_log;
mod fence_log_picked;
mod fence_monitored;
mod fence_monitored_umd;
mod fence_optimised;
mod fence_rights;
mod fence_sharing;
mod fence_sharing_umd;
mod fence_storage;
mod fence_stride;
mod fence_system_process;
mod fence_waits;
mod gpu_address;
mod gpu_update;
mod host_aperture;
mod hostile;
mod inside;
mod lifecycle;
mod linked;
mod lock;
mod lock_moves;
mod lock_removal;
mod lost_doorbell;
mod memory;
mod notified_doorbell;
mod offer;
mod packet;
mod packet_power;
mod page_sizes;
mod page_table_updates;
mod posted;
mod power;
mod power_device;
mod power_idle;
mod power_loss;
mod queue;
mod races;
mod residency;
mod residency_pressure;
mod residency_slices;
mod residency_slices_trouble;
mod scale;
mod scheduling;
mod scheduling_priorities;
mod submission;
mod surprise;
mod suspended_process;
mod suspended_process_model;
mod suspension;
mod table_pressure;
mod tdr;
mod tdr_engine_status;
mod tdr_function_reset;
mod tdr_ids;
mod tdr_lost_reports;
mod tdr_packet;
mod tdr_storm;
mod testing;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::print::print;
use campanile_hlk::merge::merge;
use campanile_hlk::report::RunInfo;
use campanile_hlk::report::{self, About};
pub use campanile_hlk::report::{CaseLine, CaseReport, Status};
use campanile_hlk::shard::Shard;
use campanile_hlk::{junit, kmt, rig};
pub use case::{Boot, Case, CaseInfo, Failure, Run};
use matrix::Machine;
pub(crate) use probe::DoorbellProbe;
pub(crate) use rig::PagedMemory;
pub use runner::{release_shared, run, run_within};
pub use tdr_storm::{Storm, set_storm};
use testbed::exit::{EXIT_FAILED, EXIT_INPUT, EXIT_OK};
use testbed::setup::{self, Drivers, MachineOptions};
use under_way::UnderWay;

/// All outcomes, and what the cases ran on.
pub type Report = report::Report<Drivers>;

/// What to run, and how to say it.
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
    /// Run only this part of the cases, where several machines share them.
    pub shard: Option<Shard>,
    /// Run nothing, and put these reports of parts together.
    pub merge: Vec<PathBuf>,
    /// Run the cases on each machine of the matrix instead of on `machine` alone.
    pub matrix: bool,
    /// Longest time a case may take, instead of its own.
    pub timeout: Option<Duration>,
    /// The command line without what picks cases and reports, for the command that runs a case again.
    pub command_line: Vec<String>,
    /// The machine of the cases that do not bring their own.
    pub machine: MachineOptions,
}

const TABLES: &[&[CaseInfo]] = &[
    adapter::CASES,
    caps::CASES,
    memory::CASES,
    lock::CASES,
    host_aperture::CASES,
    lock_moves::CASES,
    lock_removal::CASES,
    destruction::CASES,
    coherency::CASES,
    gpu_address::CASES,
    gpu_update::CASES,
    residency::CASES,
    residency_pressure::CASES,
    page_sizes::CASES,
    page_table_updates::CASES,
    suspended_process::CASES,
    suspended_process_model::CASES,
    residency_slices::CASES,
    residency_slices_trouble::CASES,
    table_pressure::CASES,
    budget::CASES,
    budget_change::CASES,
    offer::CASES,
    queue::CASES,
    doorbell::CASES,
    doorbell_resize::CASES,
    driver_queue::CASES,
    submission::CASES,
    suspension::CASES,
    scale::CASES,
    scheduling::CASES,
    scheduling_priorities::CASES,
    packet::CASES,
    packet_power::CASES,
    doorbell_churn::CASES,
    doorbell_fallback::CASES,
    fence::CASES,
    fence_hostile::CASES,
    fence_log::CASES,
    fence_log_picked::CASES,
    fence_sharing::CASES,
    fence_sharing_umd::CASES,
    fence_rights::CASES,
    fence_waits::CASES,
    fence_backwards::CASES,
    fence_batches::CASES,
    fence_monitored::CASES,
    fence_monitored_umd::CASES,
    fence_32_bits::CASES,
    fence_cross_adapter::CASES,
    fence_cross_rules::CASES,
    event_ring::CASES,
    fence_interrupts::CASES,
    fence_optimised::CASES,
    fence_features::CASES,
    fence_storage::CASES,
    fence_stride::CASES,
    fence_system_process::CASES,
    fault::CASES,
    hostile::CASES,
    inside::CASES,
    lifecycle::CASES,
    races::CASES,
    surprise::CASES,
    posted::CASES,
    power::CASES,
    power_device::CASES,
    power_idle::CASES,
    power_loss::CASES,
    exit::CASES,
    lost_doorbell::CASES,
    notified_doorbell::CASES,
    tdr::CASES,
    tdr_engine_status::CASES,
    tdr_function_reset::CASES,
    tdr_ids::CASES,
    tdr_lost_reports::CASES,
    tdr_packet::CASES,
    tdr_storm::CASES,
    fault_kinds::CASES,
    linked::CASES,
    testing::CASES,
];

/// Every case, by area: those of the thunks first, then those that look behind them.
pub fn cases() -> impl Iterator<Item = &'static CaseInfo> {
    static CASES: LazyLock<Vec<CaseInfo>> = LazyLock::new(|| {
        let thunks = campanile_hlk::cases().map(CaseInfo::of_thunks);
        let mut cases: Vec<CaseInfo> = thunks.chain(TABLES.iter().copied().flatten().cloned()).collect();
        let mut areas: Vec<&str> = Vec::new();
        for case in &cases {
            if !areas.contains(&case.area) {
                areas.push(case.area);
            }
        }
        cases.sort_by_key(|case| areas.iter().position(|area| *area == case.area));
        cases
    });
    CASES.iter()
}

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    if !options.merge.is_empty() {
        return match merged(&options.merge) {
            Ok(report) => {
                report.cases.iter().filter(|case| case.status == Status::Failed).for_each(|case| tell(options, case));
                conclude(options, &report)
            }
            Err(error) => {
                eprintln!("campanile: {error}");
                EXIT_INPUT
            }
        };
    }
    let wanted = options.filter.as_deref().unwrap_or_default().to_lowercase();
    let selected: Vec<&'static CaseInfo> = cases().filter(|case| case.matches(&wanted)).collect();
    if selected.is_empty() {
        eprintln!("campanile: no case matches the filter; `campanile hlk --list` shows all {}", cases().count());
        return EXIT_INPUT;
    }
    if options.list {
        let selected: Vec<About> = selected.iter().map(|case| case.about()).collect();
        print(&if options.json { report::list_json(&selected) } else { report::list_text(&selected) });
        return EXIT_OK;
    }
    // Drivers that cannot be loaded say nothing about the cases.
    if let Err(error) = setup::check_drivers() {
        eprintln!("campanile: {error}");
        return error.exit_code();
    }
    let alone = || vec![Machine { options: options.machine.clone(), words: Vec::new() }];
    let machines = match options.matrix {
        false => Ok(alone()),
        true => matrix::machines(&options.machine, campanile_hlk::seed::get()),
    };
    match machines {
        Ok(machines) => conclude(options, &run_all(options, &machines, &selected)),
        Err(error) => {
            eprintln!("campanile: the matrix: {error}");
            EXIT_INPUT
        }
    }
}

/// Runs the cases of this part of the run on each machine, one after the other, and tells each outcome as soon as it is there. Of several machines
/// the first has the cases that bring their own.
fn run_all(options: &Options, machines: &[Machine], selected: &[&'static CaseInfo]) -> Report {
    let rounds = options.repeat.max(1);
    let run_info = RunInfo {
        filter: options.filter.clone(),
        options: options.command_line.clone(),
        rounds,
        shard: options.shard,
        ..RunInfo::default()
    };
    let run_there = |number: usize, case: &CaseInfo| number == 0 || case.boot.takes_any_machine();
    let on = |(number, machine)| {
        let mut cases: Vec<_> = selected.iter().filter(|case| run_there(number, case)).copied().collect();
        // So that a shard has other cases on each machine.
        let first = number % cases.len().max(1);
        cases.rotate_left(first);
        cases.into_iter().map(move |case| (machine, case))
    };
    let all = (0..rounds).flat_map(|_| machines.iter().enumerate().flat_map(on)).enumerate();
    let mine: Vec<_> = all.filter(|(position, _)| options.shard.is_none_or(|shard| shard.takes(*position))).collect();
    let progress = progress(options, mine.len());
    let under_way = UnderWay::begin(options, Report::new(Drivers::selected(), run_info));
    let add = |outcome: CaseReport| {
        progress.suspend(|| tell(options, &outcome));
        under_way.add(outcome);
    };
    for part in mine.chunk_by(|(_, (one, _)), (_, (other, _))| std::ptr::eq(*one, *other)) {
        for (_, (machine, case)) in part {
            progress.set_message(case.name);
            let again = replay(&[&machine.words[..], &options.command_line].concat(), case);
            under_way.next(case.about(), again.clone());
            let mut outcome = run_within(case, &machine.options, options.timeout);
            if outcome.status == Status::Failed {
                outcome.replay = Some(again);
            }
            add(outcome);
            progress.inc(1);
        }
        if let Err(error) = release_shared() {
            add(CaseReport::of_shared(error.to_string()));
        }
    }
    progress.finish_and_clear();
    under_way.end()
}

/// Prints the sum or the report, writes JUnit's XML, and says by the exit code whether anything failed.
fn conclude(options: &Options, done: &Report) -> u8 {
    if !options.json_lines {
        print(&if options.json { done.to_json() } else { done.summary() });
    }
    if let Some(path) = &options.junit
        && let Err(error) = junit::write(path, "campanile hlk", done.cases.iter().map(CaseReport::outcome))
    {
        eprintln!("campanile: {error}");
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
    merge(files.iter().map(|file| read(file)).collect::<Result<_, _>>()?)
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
        words.push(format!("--seed={}", campanile_hlk::seed::get()));
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
    use std::collections::HashSet;

    #[test]
    fn the_command_that_runs_a_case_again_has_the_seed() {
        let case = cases().next().unwrap();
        let line = |words: &[&str]| replay(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), case);
        let plain = format!("campanile hlk --filter {}", case.name);
        assert_eq!(line(&["--driver", "pe"]), format!("{plain} --driver pe --seed={}", campanile_hlk::seed::DEFAULT));
        assert_eq!(line(&["--seed", "7"]), format!("{plain} --seed 7"));
        assert_eq!(line(&["--seed=7"]), format!("{plain} --seed=7"));
    }

    #[test]
    fn names_are_unique_and_read_like_the_kit() {
        let mut seen = HashSet::new();
        for case in cases() {
            assert!(seen.insert(case.name), "{} is there twice", case.name);
            assert!(case.name.starts_with("Device.Graphics.WDDM32."), "{}", case.name);
            assert_eq!(case.name.split('.').count(), 5, "{}", case.name);
            assert!(case.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.'), "{}", case.name);
        }
    }

    #[test]
    fn every_case_cites_a_page_and_states_a_requirement() {
        for case in cases() {
            assert!(!case.page.is_empty() && !case.page.contains(' '), "{}", case.name);
            assert!(case.requirement.ends_with('.') && case.requirement.len() > 30, "{}", case.name);
        }
    }

    #[test]
    fn the_first_set_is_large_enough() {
        assert!(cases().count() >= 40);
    }
}
