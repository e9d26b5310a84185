//! Why a case did not pass, and the ways to say so.

use std::fmt;

use wddm_ddi::types::NTSTATUS;

/// The reason why a case failed or was skipped.
#[derive(Debug)]
pub enum Failure {
    /// The requirement is not met.
    Unmet(String),
    /// The case cannot say anything here, and why.
    NotApplicable(String),
}

impl Failure {
    /// The requirement is not met.
    pub fn new(text: impl Into<String>) -> Self {
        Self::Unmet(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmet(text) | Self::NotApplicable(text) => f.write_str(text),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Unmet(format!("host: {error}"))
    }
}

#[cfg(feature = "inside")]
impl From<testbed::user::Error> for Failure {
    fn from(error: testbed::user::Error) -> Self {
        Self::Unmet(format!("user-mode driver: {error}"))
    }
}

#[cfg(feature = "inside")]
impl From<testbed::setup::SetupError> for Failure {
    fn from(error: testbed::setup::SetupError) -> Self {
        Self::Unmet(error.to_string())
    }
}

/// Ends the case unless a condition holds; shows the condition where no text is given.
#[macro_export]
macro_rules! ensure {
    ($condition:expr $(,)?) => {
        $crate::ensure!($condition, "{}", stringify!($condition))
    };
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($text)+)));
        }
    };
}

/// Ends the case unless two values are equal; shows both, and the first as it stands there where no text is given.
#[macro_export]
macro_rules! ensure_eq {
    ($found:expr, $expected:expr $(,)?) => {
        $crate::ensure_eq!($found, $expected, "{}", stringify!($found))
    };
    ($found:expr, $expected:expr, $($text:tt)+) => {{
        match (&$found, &$expected) {
            (found, expected) => {
                if *found != *expected {
                    let text = format!($($text)+);
                    return Err($crate::Failure::new(format!("{text}: found {found:?}, expected {expected:?}")));
                }
            }
        }
    }};
}

/// Ends the case unless a status is one of those that the contract names for this refusal.
///
/// # Errors
/// It is another one.
pub fn refused(status: NTSTATUS, allowed: &[NTSTATUS], what: &str) -> Result<(), Failure> {
    if allowed.contains(&status) {
        return Ok(());
    }
    Err(Failure::new(format!("{what} answered {status:?}, one of {allowed:?} expected")))
}

/// Ends the case unless a status is a success.
///
/// # Errors
/// It is a failure.
pub fn granted(status: NTSTATUS, what: &str) -> Result<(), Failure> {
    if status.is_success() { Ok(()) } else { Err(Failure::new(format!("{what} failed with {status}"))) }
}
