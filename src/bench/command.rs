//! The command: which rows are measured, each on a system of its own, and what is printed of them.

use testbed::exit::{EXIT_FAILED, EXIT_INPUT, EXIT_MACHINE, EXIT_OK};
use testbed::setup::{Drivers, Feature, System};

use super::compare::{Comparison, Earlier};
use super::error::BenchError;
use super::figures::{Figures, Round};
use super::options::Options;
use super::report::Report;
use super::row::{Effort, Measurement, Place, Row};
use super::row_report::RowReport;
use super::rows::{none_matches, select};
use super::served::Served;
use super::{served_rows, vulkan_rows};
use crate::print::print;

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    let mut rows = select(options.filter.as_deref());
    rows.retain(|row| options.machine_at.is_none() || served_rows::is_served(row));
    if let Some(absence) = vulkan_rows::absence()
        && rows.iter().any(|row| vulkan_rows::is_vulkan(row))
    {
        testbed::complain!("campanile: THE ROWS V1 TO V7 ARE LEFT OUT: {absence}");
        rows.retain(|row| !vulkan_rows::is_vulkan(row));
    }
    if rows.is_empty() {
        testbed::complain!("campanile: {}", none_matches(options.machine_at.is_some()));
        return EXIT_INPUT;
    }
    let earlier = match options.compare.as_deref().map(Earlier::read).transpose() {
        Ok(earlier) => earlier,
        Err(error) => {
            testbed::complain!("campanile: {error}");
            return EXIT_INPUT;
        }
    };
    match measure(options, &rows) {
        Ok(mut report) => {
            report.comparison = earlier.map(|earlier| Comparison::new(&earlier, &report.rows));
            print(&if options.json { report.to_json() } else { report.to_table() });
            if report.comparison.is_some_and(|comparison| comparison.is_slower()) { EXIT_FAILED } else { EXIT_OK }
        }
        Err(error) => {
            testbed::complain!("campanile: {error}");
            match &error {
                BenchError::Setup(error) => error.exit_code(),
                BenchError::NoMachine(_) => EXIT_INPUT,
                _ => EXIT_MACHINE,
            }
        }
    }
}

/// Measures rows, each on a system of its own.
///
/// # Errors
/// The first row that could not be measured.
pub fn measure(options: &Options, rows: &[&'static Row]) -> Result<Report, BenchError> {
    let effort = Effort::of(options.quick);
    let mut reports = Vec::with_capacity(rows.len());
    let served = Served::new(options);
    for row in rows {
        let system = System::boot(&options.machine.system())?;
        let process = dxgkrnl::Process::new(system.machine(), "campanile bench");
        let measured = {
            let _attached = process.attach();
            rounds(row, &Place { system: &system, served: &served }, effort)
        };
        process.exit();
        let measured = measured?;
        system.shutdown()?;
        reports.push(RowReport::new(row, &measured.0, measured.1));
    }
    let without = Feature::names(&Feature::withheld(options.machine.system().features));
    Ok(Report { drivers: Drivers::selected(), without, rows: reports, comparison: None })
}

/// All rounds, and what the host did not allow of the row.
fn rounds(row: &Row, place: &Place<'_>, effort: Effort) -> Result<(Vec<Round>, Option<String>), BenchError> {
    let mut measurement = (row.prepare)(place, effort)?;
    // The first turn of each warms caches, page tables and the doorbell, and is not counted.
    one_round(row, measurement.as_mut(), 0)?;
    let rounds =
        (0..effort.rounds).map(|round| one_round(row, measurement.as_mut(), round)).collect::<Result<_, _>>()?;
    Ok((rounds, measurement.shortfall()))
}

/// One round; the order rotates, so that nobody is always first after the other's mess.
fn one_round(row: &Row, measurement: &mut dyn Measurement, round: usize) -> Result<Round, BenchError> {
    let parties = row.peers.len() + 1;
    let mut ours = Figures::default();
    let mut peers = vec![None; row.peers.len()];
    for turn in 0..parties {
        let party = (round + turn) % parties;
        match party.checked_sub(1) {
            None => ours = Figures::of(&measurement.ours()?),
            Some(peer) => {
                let latencies = measurement.peer(peer)?;
                peers[peer] = (!latencies.is_empty()).then(|| Figures::of(&latencies));
            }
        }
    }
    Ok(Round { ours, peers })
}
