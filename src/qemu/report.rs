//! What came of a guest, as lines for people and as JUnit's XML.

use std::path::Path;
use std::time::Duration;

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use crate::hlk::Status;

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

    /// JUnit's XML.
    pub(super) fn to_junit(&self) -> Result<String, String> {
        let mut report = quick_junit::Report::new("campanile qemu");
        let mut suites: Vec<TestSuite> = Vec::new();
        for entry in &self.entries {
            let mut status = match entry.status {
                Status::Passed => TestCaseStatus::success(),
                Status::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
                Status::Skipped => TestCaseStatus::skipped(),
            };
            if let Some(reason) = &entry.reason {
                status.set_message(reason.as_str());
            }
            let mut case = TestCase::new(entry.name.as_str(), status);
            case.set_classname(entry.suite.as_str()).set_time(Duration::from_millis(entry.ms));
            match suites.iter_mut().find(|suite| suite.name.as_str() == entry.suite) {
                Some(suite) => {
                    suite.add_test_case(case);
                }
                None => {
                    let mut suite = TestSuite::new(entry.suite.as_str());
                    suite.add_test_case(case);
                    suites.push(suite);
                }
            }
        }
        report.add_test_suites(suites);
        report.to_string().map_err(|error| error.to_string())
    }

    /// Writes JUnit's XML.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        std::fs::write(path, self.to_junit()?).map_err(|error| format!("{}: {error}", path.display()))
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

    #[test]
    fn junit_has_every_case_once_with_its_reason() {
        let mut report = Report::default();
        report.entries.push(Entry::of("a", "one", Ok(())));
        report.entries.push(Entry::of("b", "two", Err("1 < 2 & \"x\"".to_owned())));
        report.entries.push(Entry { status: Status::Skipped, ..Entry::of("a", "three", Ok(())) });
        let xml = report.to_junit().unwrap();
        assert_eq!(xml.matches("<testcase ").count(), 3, "{xml}");
        assert_eq!(xml.matches("<testsuite ").count(), 2, "{xml}");
        assert!(xml.contains(r#"tests="3" skipped="1" failures="1" errors="0""#), "{xml}");
        assert!(xml.contains("1 &lt; 2 &amp; &quot;x&quot;"), "{xml}");
    }
}
