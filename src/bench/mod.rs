//! Measurements, each beside what it is to be compared with.
//!
//! A row names what is measured, its peers (the first is the one the ratio refers to) and its aim. All of a row's measurements
//! alternate in rounds of one run, so that whatever else the machine does falls on all of them alike; ratios are taken
//! within a round. A new row is a file with a [`Row`] in it and an entry in [`ROWS`].

mod c1_matmul;
mod c2_kernels;
mod c5_compile;
mod compare;
mod compute;
mod kernel;
mod log_cost;
mod p1_submit;
mod p2_fence;
mod p3_engines;
mod p4_interrupts;
mod p5_memory;
mod p6_idle_queues;
mod power;
mod report;
mod row_report;
mod served;
mod stopwatch;
mod vulkan;
mod vulkan_client;
mod vulkan_kernel;
mod vulkan_rows;
mod worker;

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;

use crate::clock::Latencies;
use crate::print::print;
pub use compare::{Change, Comparison, Earlier, Verdict};
pub use report::Report;
pub use row_report::{AimReport, Figures, PeerReport, Ratio, RowReport};
use served::Served;
use testbed::exit::{EXIT_FAILED, EXIT_INPUT, EXIT_MACHINE, EXIT_OK};
use testbed::setup::{Drivers, MachineOptions, SetupError, System};
use testbed::user;
pub use vulkan_client::serve as vulkan_client;

/// Options of `campanile bench`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Print JSON instead of a table.
    pub json: bool,
    /// Few rounds and samples.
    pub quick: bool,
    /// Take only rows whose id or description contains this.
    pub filter: Option<String>,
    /// The GPU to build.
    pub machine: MachineOptions,
    /// Socket of a machine in another process: only the rows about such a machine are measured.
    pub machine_at: Option<PathBuf>,
    /// An earlier report, beside which this one is put.
    pub compare: Option<PathBuf>,
}

/// The machines that rows are measured on: one inside this process, which every row may use, and one in another process.
pub struct Place<'a> {
    system: &'a System,
    served: &'a Served,
}

impl Deref for Place<'_> {
    type Target = System;

    fn deref(&self) -> &System {
        self.system
    }
}

/// Number of rounds and samples of a row.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds, in each of which every measurement is made once.
    pub rounds: usize,
    /// Samples of one measurement in a round.
    pub samples: usize,
}

impl Effort {
    fn of(quick: bool) -> Self {
        if quick { Self { rounds: 5, samples: 400 } } else { Self { rounds: 21, samples: 2_000 } }
    }
}

/// One row of the bench.
pub struct Row {
    /// Short identifier, for example `P1`.
    pub id: &'static str,
    /// Description of the measured operation.
    pub what: &'static str,
    /// Unit of the figures.
    pub unit: &'static str,
    /// What is measured beside it; the ratio refers to the first.
    pub peers: &'static [&'static str],
    /// The aim in words, for the report.
    pub aim: &'static str,
    /// True if the figures meet the aim.
    pub met: fn(&Figures, &Ratio) -> bool,
    /// Aims against other peers, judged each on its own where the host has the peer.
    pub further: &'static [PeerAim],
    /// Prepares the measurement on a freshly booted system.
    pub prepare: Prepare,
}

/// What is aimed at beside one peer of a row, whichever the row's ratio refers to.
pub struct PeerAim {
    /// Index of the peer.
    pub peer: usize,
    /// The aim in words, for the report.
    pub aim: &'static str,
    /// True if our median over the peer's meets the aim.
    pub met: fn(&Ratio) -> bool,
}

/// Prepares a row's measurement on a system.
pub type Prepare = fn(&Place<'_>, Effort) -> Result<Box<dyn Measurement>, BenchError>;

/// A prepared row.
pub trait Measurement {
    /// Measures our side once: a round's samples.
    ///
    /// # Errors
    /// The GPU or the host failed.
    fn ours(&mut self) -> Result<Latencies, BenchError>;

    /// Measures peer `index` of the row once. No samples: the host has no such peer.
    ///
    /// # Errors
    /// The GPU or the host failed.
    fn peer(&mut self, index: usize) -> Result<Latencies, BenchError>;

    /// What the host did not allow of what the row says; its aim is not judged then.
    fn shortfall(&self) -> Option<String> {
        None
    }
}

/// Rows in the order they are shown.
pub const ROWS: &[&Row] = &[
    &p1_submit::ROW,
    &log_cost::SUBMIT,
    &log_cost::TRACED,
    &p2_fence::ROW,
    &p3_engines::ENGINES,
    &log_cost::ENGINES,
    &p3_engines::WAKE,
    &p4_interrupts::ROW,
    &p5_memory::COPY_4K,
    &p5_memory::COPY_1M,
    &p5_memory::COPY_16M,
    &p5_memory::COPY_256M,
    &p5_memory::SHUFFLED_1M,
    &p5_memory::SHUFFLED_16M,
    &p5_memory::FILL_4K,
    &p5_memory::FILL_1M,
    &p5_memory::FILL_16M,
    &p5_memory::FILL_256M,
    &p6_idle_queues::ONE,
    &p6_idle_queues::HUNDRED,
    &p6_idle_queues::THOUSAND,
    &p6_idle_queues::TEN_THOUSAND,
    &c1_matmul::ROW,
    &c2_kernels::ALL,
    &c2_kernels::SAXPY,
    &c2_kernels::REDUCTION,
    &c2_kernels::SCAN,
    &c2_kernels::HISTOGRAM,
    &c2_kernels::STENCIL,
    &c2_kernels::N_BODY,
    &c2_kernels::MANDELBROT,
    &c2_kernels::CHACHA20,
    &c2_kernels::BLAKE3,
    &c2_kernels::SORT,
    &compute::EMPTY,
    &compute::LEAVE,
    &c5_compile::ROW,
    &power::F1,
    &power::D3,
    &power::IDLE,
    &served::SUBMIT,
    &served::FENCE,
    &served::IDLE_QUEUES,
    &vulkan_rows::V1,
    &vulkan_rows::V2,
    &vulkan_rows::V3,
    &vulkan_rows::V4,
    &vulkan_rows::V5,
    &vulkan_rows::V6,
    &vulkan_rows::V7,
];

/// The reason why a row could not be measured.
#[derive(Debug)]
pub enum BenchError {
    /// The machine could not be booted, or ended badly.
    Setup(SetupError),
    /// The user-mode driver gave up.
    Driver(user::Error),
    /// The host refused something the comparison needs.
    Host(std::io::Error),
    /// There is no machine at the socket that was named, or it refuses.
    NoMachine(String),
    /// A machine that was started for the comparison, or what one computes, is not as it should be.
    Machine(String),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(error) => error.fmt(f),
            Self::Driver(error) => write!(f, "the GPU could not do the work: {error}"),
            Self::Host(error) => write!(f, "the host refused what the comparison needs: {error}"),
            Self::NoMachine(error) | Self::Machine(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<SetupError> for BenchError {
    fn from(error: SetupError) -> Self {
        Self::Setup(error)
    }
}

impl From<user::Error> for BenchError {
    fn from(error: user::Error) -> Self {
        Self::Driver(error)
    }
}

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    let mut rows = select(options.filter.as_deref());
    rows.retain(|row| options.machine_at.is_none() || served::is_served(row));
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

/// Why no row is measured: the filter matches none of all, or none of those that a machine of another process is asked for.
fn none_matches(is_at_machine: bool) -> String {
    let known = ROWS.iter().filter(|row| !is_at_machine || served::is_served(row));
    let known: Vec<&str> = known.map(|row| row.id).collect();
    let which = if is_at_machine { "those that --machine measures" } else { "known" };
    format!("no row matches the filter; {which} are {}", known.join(", "))
}

fn select(filter: Option<&str>) -> Vec<&'static Row> {
    let wanted = filter.unwrap_or_default().to_lowercase();
    let hit = |row: &Row| row.id.to_lowercase().contains(&wanted) || row.what.to_lowercase().contains(&wanted);
    ROWS.iter().copied().filter(|row| hit(row)).collect()
}

/// Measures rows, each on a system of its own.
///
/// # Errors
/// The first row that could not be measured.
pub fn measure(options: &Options, rows: &[&'static Row]) -> Result<Report, BenchError> {
    let effort = Effort::of(options.quick);
    let mut reports = Vec::with_capacity(rows.len());
    let served = Served::new(options.machine_at.clone());
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
    Ok(Report { drivers: Drivers::selected(), rows: reports, comparison: None })
}

/// Figures of one round.
#[derive(Clone, Debug)]
pub struct Round {
    /// Our side.
    pub ours: Figures,
    /// The peers in the row's order, `None` for those that the host lacks.
    pub peers: Vec<Option<Figures>>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_every_row_has_a_peer() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(!row.peers.is_empty(), "{}", row.id);
            // The first peer has the row's own aim.
            assert!(row.further.iter().all(|aim| (1..row.peers.len()).contains(&aim.peer)), "{}", row.id);
            assert!(ROWS[index + 1..].iter().all(|other| other.id != row.id), "{}", row.id);
        }
    }

    #[test]
    fn the_filter_takes_ids_and_words() {
        assert_eq!(select(None).len(), ROWS.len());
        assert_eq!(select(Some("p1")).len(), 4);
        assert_eq!(select(Some("no such row")).len(), 0);
    }
}
