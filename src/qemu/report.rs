//! What came of a guest, as lines for people and for build servers.

use std::path::Path;

use crate::hlk::Status;
use crate::junit::{self, Outcome};

/// One outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// What it belongs to, such as an area.
    pub(super) suite: String,
    /// Its name.
    pub(super) name: String,
    /// How it ended.
    pub(super) status: Status,
    /// Milliseconds.
    pub(super) ms: u64,
    /// Why it did not pass.
    pub(super) reason: Option<String>,
}

impl Entry {
    pub(super) fn of(suite: &str, name: &str, outcome: Result<(), String>) -> Self {
        let status = if outcome.is_ok() { Status::Passed } else { Status::Failed };
        Self { suite: suite.to_owned(), name: name.to_owned(), status, ms: 0, reason: outcome.err() }
    }

    fn outcome(&self) -> Outcome<'_> {
        let Self { suite, name, status, ms, reason } = self;
        Outcome { suite, name, status: *status, ms: *ms, reason: reason.as_deref() }
    }

    /// One line, two when there is a reason.
    pub(super) fn line(&self) -> String {
        let word = match self.status {
            Status::Passed => "pass",
            Status::Failed => "FAIL",
            Status::Skipped => "skip",
        };
        let reason = self.reason.as_ref().map(|reason| format!("\n      {reason}")).unwrap_or_default();
        format!("{word}  {}  ({} ms){reason}", self.name, self.ms)
    }
}

/// All outcomes, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub(super) entries: Vec<Entry>,
}

impl Report {
    /// How many ended so.
    pub(super) fn count(&self, status: Status) -> usize {
        self.entries.iter().filter(|entry| entry.status == status).count()
    }

    /// Whether something passed and nothing failed.
    pub(super) fn is_good(&self) -> bool {
        self.count(Status::Failed) == 0 && self.count(Status::Passed) > 0
    }

    /// The sum.
    pub(super) fn summary(&self) -> String {
        let [passed, failed, skipped] =
            [Status::Passed, Status::Failed, Status::Skipped].map(|status| self.count(status));
        format!("guest: {passed} passed, {failed} failed, {skipped} skipped")
    }

    /// Writes JUnit's XML.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        junit::write(path, "campanile qemu", self.entries.iter().map(Entry::outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_without_a_pass_is_no_success() {
        let mut report = Report::default();
        assert!(!report.is_good());
        report.entries.push(Entry { status: Status::Skipped, ..Entry::of("a", "b", Ok(())) });
        assert!(!report.is_good());
        report.entries.push(Entry::of("a", "c", Ok(())));
        assert!(report.is_good());
        report.entries.push(Entry::of("a", "d", Err("no".to_owned())));
        assert!(!report.is_good());
        assert_eq!(report.summary(), "guest: 1 passed, 1 failed, 1 skipped");
    }
}
