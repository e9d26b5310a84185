//! Reasons why a row of the bench could not be measured.

use std::fmt;

use testbed::setup::SetupError;
use testbed::user;

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
