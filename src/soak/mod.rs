//! `campanile soak`: programs that work at random on one machine for as long as one wants, while its engines hang, its adapter sleeps and is pulled out. At intervals
//! they stand still, and what the machine holds is compared with what they have; at the end nothing may be left.

mod counts;
mod delay;
mod disturb;
mod gate;
mod live;
mod program;
mod report;
mod world;

use std::thread;
use std::time::{Duration, Instant};

use crate::print::print;
use report::{HostUse, Report};
use testbed::exit::{EXIT_FAILED, EXIT_MACHINE, EXIT_OK};
use testbed::setup::{MachineOptions, SetupError, System};
use world::World;

/// Options of `campanile soak`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time for which the programs work.
    pub time: Duration,
    /// Programs at a time.
    pub programs: u32,
    /// Time between two comparisons.
    pub interval: Duration,
    /// Seed of everything that is chosen at random.
    pub seed: u64,
    /// Print JSON instead of a table.
    pub json: bool,
    /// Leave out what disturbs the programs: hangs, sleep, removal.
    pub calm: bool,
    /// The machine.
    pub machine: MachineOptions,
}

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    match soak(options) {
        Ok(report) => {
            report.findings.iter().for_each(|finding| testbed::complain!("campanile soak: {finding}"));
            print(&if options.json { report.to_json() } else { report.to_table() });
            if report.findings.is_empty() { EXIT_OK } else { EXIT_FAILED }
        }
        Err(error) => {
            testbed::complain!("campanile: {error}");
            error.exit_code().max(EXIT_MACHINE)
        }
    }
}

/// Boots a machine, lets programs work on it, and takes it down again.
///
/// # Errors
/// The machine could not be booted. What goes wrong later is a finding of the report.
pub fn soak(options: &Options) -> Result<Report, SetupError> {
    // What the process keeps for all machines after the first one that was used is there before the first count.
    let first = World::new(System::boot(&options.machine.system())?, options)?;
    program::once(&first);
    first.end(Duration::ZERO).1.shutdown()?;
    let host = HostUse::settled();
    let world = World::new(System::boot(&options.machine.system())?, options)?;
    world.inject(&options.machine.faults)?;
    let began = Instant::now();
    thread::scope(|scope| {
        for number in 0..options.programs {
            let world = &world;
            scope.spawn(move || program::run(world, number));
        }
        scope.spawn(|| world.delay.watch(|| world.is_over()));
        disturb::run(&world, began + options.time);
    });
    let (mut report, system) = world.end(began.elapsed());
    if let Err(error) = system.shutdown() {
        report.findings.push(format!("the machine does not end as it should: {error}"));
    }
    report.compare_host(host);
    Ok(report)
}
