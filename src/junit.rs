//! Outcomes as JUnit's XML, which build servers read.

use std::path::Path;
use std::time::Duration;

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use crate::hlk::Status;

/// One outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome<'a> {
    /// What it belongs to, such as an area.
    pub(crate) suite: &'a str,
    pub(crate) name: &'a str,
    pub(crate) status: Status,
    /// Milliseconds.
    pub(crate) ms: u64,
    /// Why it did not pass.
    pub(crate) reason: Option<&'a str>,
}

/// The outcomes as XML, by suites in the order in which they first come.
///
/// # Errors
/// A text that XML cannot hold.
pub(crate) fn xml<'a>(title: &str, outcomes: impl IntoIterator<Item = Outcome<'a>>) -> Result<String, String> {
    let mut report = quick_junit::Report::new(title);
    let mut suites: Vec<TestSuite> = Vec::new();
    for outcome in outcomes {
        let mut status = match outcome.status {
            Status::Passed => TestCaseStatus::success(),
            Status::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
            Status::Skipped => TestCaseStatus::skipped(),
        };
        if let Some(reason) = outcome.reason {
            status.set_message(reason);
        }
        let mut case = TestCase::new(outcome.name, status);
        case.set_classname(outcome.suite).set_time(Duration::from_millis(outcome.ms));
        match suites.iter_mut().find(|suite| suite.name.as_str() == outcome.suite) {
            Some(suite) => {
                suite.add_test_case(case);
            }
            None => {
                let mut suite = TestSuite::new(outcome.suite);
                suite.add_test_case(case);
                suites.push(suite);
            }
        }
    }
    report.add_test_suites(suites);
    report.to_string().map_err(|error| error.to_string())
}

/// Writes [`xml`] to a file.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write<'a>(
    path: &Path,
    title: &str,
    outcomes: impl IntoIterator<Item = Outcome<'a>>,
) -> Result<(), String> {
    std::fs::write(path, xml(title, outcomes)?).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_there_once_with_its_reason() {
        let passed = Outcome { suite: "a", name: "one", status: Status::Passed, ms: 1, reason: None };
        let failed = Outcome { suite: "b", status: Status::Failed, reason: Some("1 < 2 & \"x\""), ..passed };
        let skipped = Outcome { name: "three", status: Status::Skipped, ..passed };
        let xml = xml("all", [passed, failed, skipped]).unwrap();
        assert_eq!(xml.matches("<testcase ").count(), 3, "{xml}");
        assert_eq!(xml.matches("<testsuite ").count(), 2, "{xml}");
        assert!(xml.contains(r#"tests="3" skipped="1" failures="1" errors="0""#), "{xml}");
        assert!(xml.contains("1 &lt; 2 &amp; &quot;x&quot;"), "{xml}");
    }
}
