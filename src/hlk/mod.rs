//! Conformance cases: each holds the stack against one requirement of a published page.
//!
//! Cases live in files by area, each with a table [`CaseInfo`] by [`CaseInfo`]; [`cases`] is the registry. They speak to the
//! stack the way user mode does: through the thunks, raw where order and hostile values matter (`rig`), and through the
//! user-mode driver where they do not.

#[macro_use]
mod case;
mod kmt;
mod probe;
mod report;
mod rig;
mod runner;

mod adapter;
#[cfg(test)]
mod address_model;
mod budget;
mod caps;
mod coherency;
mod destruction;
mod doorbell;
mod doorbell_churn;
mod doorbell_resize;
mod exit;
mod fault;
mod fence;
mod fence_backwards;
mod fence_batches;
mod fence_cross_adapter;
mod fence_cross_rules;
mod fence_features;
mod fence_hostile;
mod fence_interrupts;
mod fence_log;
mod fence_monitored;
mod fence_narrow;
mod fence_optimised;
mod fence_rights;
mod fence_sharing;
mod fence_sharing_umd;
mod fence_storage;
mod fence_system_process;
mod fence_waits;
mod gpu_address;
mod hostile;
mod lifecycle;
mod lock;
mod lock_moves;
mod lock_removal;
mod memory;
mod offer;
mod packet;
mod packet_power;
mod power;
mod power_device;
mod power_idle;
mod power_loss;
mod queue;
mod residency;
mod residency_pressure;
mod scale;
mod scheduling;
mod scheduling_priorities;
mod submission;
mod surprise;
mod suspension;
mod table_pressure;
mod tdr;
mod tdr_packet;
mod tdr_storm;
mod testing;

use crate::cli::{EXIT_FAILED, EXIT_INPUT, EXIT_OK, exit_code, print};
use crate::setup::{self, Drivers, MachineOptions};
pub use case::{Boot, Case, CaseInfo, Failure};
pub(crate) use probe::DoorbellProbe;
pub use report::{CaseLine, CaseReport, Report, Status};
pub(crate) use rig::PagedMemory;
pub use runner::{release_shared, run};
pub use tdr_storm::{Storm, set_storm};

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
    /// The machine of the cases that do not bring their own.
    pub machine: MachineOptions,
}

const TABLES: &[&[CaseInfo]] = &[
    adapter::CASES,
    caps::CASES,
    memory::CASES,
    lock::CASES,
    lock_moves::CASES,
    lock_removal::CASES,
    destruction::CASES,
    coherency::CASES,
    gpu_address::CASES,
    residency::CASES,
    residency_pressure::CASES,
    table_pressure::CASES,
    budget::CASES,
    offer::CASES,
    queue::CASES,
    doorbell::CASES,
    doorbell_resize::CASES,
    submission::CASES,
    suspension::CASES,
    scale::CASES,
    scheduling::CASES,
    scheduling_priorities::CASES,
    packet::CASES,
    packet_power::CASES,
    doorbell_churn::CASES,
    fence::CASES,
    fence_hostile::CASES,
    fence_log::CASES,
    fence_sharing::CASES,
    fence_sharing_umd::CASES,
    fence_rights::CASES,
    fence_waits::CASES,
    fence_backwards::CASES,
    fence_batches::CASES,
    fence_monitored::CASES,
    fence_narrow::CASES,
    fence_cross_adapter::CASES,
    fence_cross_rules::CASES,
    fence_interrupts::CASES,
    fence_optimised::CASES,
    fence_features::CASES,
    fence_storage::CASES,
    fence_system_process::CASES,
    fault::CASES,
    hostile::CASES,
    lifecycle::CASES,
    surprise::CASES,
    power::CASES,
    power_device::CASES,
    power_idle::CASES,
    power_loss::CASES,
    exit::CASES,
    tdr::CASES,
    tdr_packet::CASES,
    tdr_storm::CASES,
    testing::CASES,
];

/// Every case, by area.
pub fn cases() -> impl Iterator<Item = &'static CaseInfo> {
    TABLES.iter().copied().flatten()
}

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    let wanted = options.filter.as_deref().unwrap_or_default().to_lowercase();
    let selected: Vec<&'static CaseInfo> = cases().filter(|case| case.matches(&wanted)).collect();
    if selected.is_empty() {
        eprintln!("campanile: no case matches the filter; `campanile hlk --list` shows all {}", cases().count());
        return EXIT_INPUT;
    }
    if options.list {
        print(&if options.json { report::list_json(&selected) } else { report::list_text(&selected) });
        return EXIT_OK;
    }
    // Drivers that cannot be loaded say nothing about the cases.
    if let Err(error) = setup::check_drivers() {
        eprintln!("campanile: {error}");
        return exit_code(&error);
    }
    let mut done = Report { drivers: Drivers::selected(), ..Report::default() };
    for case in selected {
        let outcome = run(case, &options.machine);
        tell(options, &outcome);
        done.add(outcome);
    }
    if let Err(error) = release_shared() {
        let outcome = CaseReport::of_shared(error);
        tell(options, &outcome);
        done.add(outcome);
    }
    if !options.json_lines {
        print(&if options.json { done.to_json() } else { done.summary() });
    }
    if done.failed == 0 { EXIT_OK } else { EXIT_FAILED }
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
