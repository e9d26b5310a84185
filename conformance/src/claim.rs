//! Sentences of the specification pages, which cases hold.

use std::fmt;

use serde::{Serialize, Serializer};

/// A sentence of a page, by its number in `tests/claims/PAGE.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// Of native-gpu-fence-objects.
    NativeFence(u16),
    /// Of user-mode-work-submission.
    UserModeSubmission(u16),
    /// Of tdr-changes-in-windows-8.
    Tdr(u16),
    /// Of allocation-usage-tracking.
    AllocationUsage(u16),
    /// Of context-monitoring.
    ContextMonitoring(u16),
}

impl Claim {
    /// The page, and the number of the sentence.
    pub fn place(self) -> (&'static str, u16) {
        match self {
            Self::NativeFence(number) => ("native-gpu-fence-objects", number),
            Self::UserModeSubmission(number) => ("user-mode-work-submission", number),
            Self::Tdr(number) => ("tdr-changes-in-windows-8", number),
            Self::AllocationUsage(number) => ("allocation-usage-tracking", number),
            Self::ContextMonitoring(number) => ("context-monitoring", number),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (page, number) = self.place();
        write!(f, "{page}/{number}")
    }
}

impl Serialize for Claim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
