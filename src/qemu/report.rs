//! What came of a guest, as lines for people and for build servers.

use std::path::Path;

use campanile_conformance::junit;

use campanile_conformance::report::{CaseLine, Status};

/// All outcomes, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub(super) entries: Vec<CaseLine>,
}

impl Report {
    /// Number of entries with this status.
    pub(super) fn count(&self, status: Status) -> usize {
        self.entries.iter().filter(|entry| entry.status == status).count()
    }

    /// True if something passed and nothing failed.
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
        junit::write(path, "campanile qemu", self.entries.iter().map(CaseLine::outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_without_a_pass_is_no_success() {
        let mut report = Report::default();
        assert!(!report.is_good());
        report.entries.push(CaseLine { status: Status::Skipped, ..CaseLine::of("a", "b", Ok(())) });
        assert!(!report.is_good());
        report.entries.push(CaseLine::of("a", "c", Ok(())));
        assert!(report.is_good());
        report.entries.push(CaseLine::of("a", "d", Err("no".to_owned())));
        assert!(!report.is_good());
        assert_eq!(report.summary(), "guest: 1 passed, 1 failed, 1 skipped");
    }
}
