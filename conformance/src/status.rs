//! Outcome of a case: passed, failed or skipped.

use serde::{Deserialize, Serialize};

/// Outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The requirement is met.
    Passed,
    /// It is not, or the case could not find out.
    Failed,
    /// The case cannot say anything here; the reason is told.
    Skipped,
}

impl Status {
    /// As it stands in lines for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Passed => "pass",
            Self::Failed => "FAIL",
            Self::Skipped => "skip",
        }
    }
}
