//! The option `--driver-limit`: how long a call into the driver of this process may take.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::choice::Choice;

/// Seconds after which a call into the driver stops the machine, see [`dxgkrnl::MachineConfig::driver_limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverLimit(u32);

/// Environment variable that names the seconds when the command line does not.
pub const LIMIT_VARIABLE: &str = "CAMPANILE_DRIVER_LIMIT";

static CHOICE: Choice<DriverLimit> = Choice::new(LIMIT_VARIABLE);

impl FromStr for DriverLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(seconds) if seconds > 0 => Ok(Self(seconds)),
            _ => Err(format!("the limit of calls into the driver is a number of seconds from 1 on, not `{text}`")),
        }
    }
}

impl fmt::Display for DriverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl DriverLimit {
    /// Makes this the limit of every machine that this process boots; the first choice counts.
    pub fn select(self) {
        CHOICE.select(self);
    }

    /// The selected limit, or what the environment names, if any.
    ///
    /// # Errors
    /// The environment variable is no such number; the message has its value.
    pub fn selected() -> Result<Option<Self>, String> {
        CHOICE.selected()
    }

    /// [`DriverLimit::selected`], or this time if nothing is.
    ///
    /// # Errors
    /// As [`DriverLimit::selected`].
    pub fn selected_or(otherwise: Duration) -> Result<Duration, String> {
        Ok(Self::selected()?.map_or(otherwise, |limit| Duration::from_secs(limit.0.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_of_seconds_that_is_not_zero() {
        for text in ["1", "300", "4294967295"] {
            assert_eq!(text.parse::<DriverLimit>().map(|limit| limit.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "0", "-1", "1.5", "soon", "4294967296"] {
            assert!(text.parse::<DriverLimit>().unwrap_err().contains(&format!("not `{text}`")), "{text}");
        }
    }
}
