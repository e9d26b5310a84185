//! Command line of the soak.

use std::time::Duration;

use clap::Args;

use super::system::MachineArguments;
use crate::soak::Options;
use testbed::setup::{FaultOption, MachineOptions, fault_help};

#[derive(Args, Debug)]
pub(super) struct SoakArguments {
    /// How long the programs work: seconds, or with `m` or `h` behind the number minutes or hours.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60")]
    time: Duration,
    /// Programs at a time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    programs: u32,
    /// Time between two comparisons of what the machine holds with what the programs have.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10")]
    interval: Duration,
    /// Seed of what is chosen at random. The order in which the host runs threads does not follow from it.
    #[arg(long, value_name = "N", default_value_t = 24301)]
    seed: u64,
    /// Neither hangs engines nor puts anything to sleep, nor pulls out the GPU.
    #[arg(long)]
    calm: bool,
    /// Injects a fault from the beginning on, besides what the command itself does. May be given several times.
    #[arg(long, value_name = "FAULT", long_help = fault_help("Injects a fault from the beginning on, besides what the command itself does. May be given several times."))]
    fault: Vec<FaultOption>,
    /// Prints the report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: MachineArguments,
}

/// A length of time, at most a week.
fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.ends_with('m') => (number, 60),
        Some(number) if text.ends_with('h') => (number, 3600),
        Some(number) => (number, 1),
        None => (text, 1),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match seconds {
        Some(seconds) if (1..=7 * 86_400).contains(&seconds) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("`{text}` is no length of time; name seconds, minutes or hours, such as 90, 10m or 1h")),
    }
}

impl From<SoakArguments> for Options {
    fn from(arguments: SoakArguments) -> Self {
        Self {
            time: arguments.time,
            programs: arguments.programs,
            interval: arguments.interval,
            seed: arguments.seed,
            json: arguments.json,
            calm: arguments.calm,
            machine: MachineOptions { faults: arguments.fault, ..arguments.machine.into() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let seconds = |text: &str| time(text).map(|time| time.as_secs());
        assert_eq!([seconds("90"), seconds("90s"), seconds("10m"), seconds("1h")], [Ok(90), Ok(90), Ok(600), Ok(3600)]);
        for text in ["", "0", "m", "-1", "1d", "99999999999999999999", "18446744073709551615h", "169h"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
