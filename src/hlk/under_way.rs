//! The report of a run of cases that is cut short, because a driver's call does not return and the process has to end.

use std::sync::{Mutex, MutexGuard, PoisonError};

use campanile_conformance::report::{About, CaseReport, Status};

use super::{Options, Report, conclude, tell};

/// The run of this process: there is one at a time.
static RUN: Mutex<Option<Run>> = Mutex::new(None);

fn run() -> MutexGuard<'static, Option<Run>> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Run {
    options: Options,
    done: Report,
    /// The case that runs, and the command that runs it alone.
    case: Option<(About, String)>,
}

impl Run {
    /// The report where the process ends inside the case that runs, because of a driver.
    fn broken_off(self, reason: &str) -> (Options, Report) {
        let Self { options, mut done, case } = self;
        if let Some((case, again)) = case {
            let reason = format!("the process ended inside the case, and no case after it has run: {reason}");
            let outcome = CaseReport::named(case.name, case.area, case.page, Status::Failed);
            done.add(CaseReport { reason: Some(reason), replay: Some(again), ..outcome });
        }
        (options, done)
    }
}

/// A run of cases in progress. If the process has to end because a call into a driver does not return, the outcomes so far are reported as at the
/// end of a run.
pub(super) struct UnderWay;

impl UnderWay {
    pub(super) fn begin(options: &Options, empty: Report) -> Self {
        *run() = Some(Run { options: options.clone(), done: empty, case: None });
        dxgkrnl::before_the_process_ends(|reason| {
            let Some((options, done)) = run().take().map(|run| run.broken_off(reason)) else { return };
            if let Some(last) = done.cases.last() {
                tell(&options, last);
            }
            conclude(&options, &done);
        });
        Self
    }

    /// The next case runs from now on.
    pub(super) fn next(&self, case: About, again: String) {
        if let Some(run) = run().as_mut() {
            run.case = Some((case, again));
        }
    }

    /// An outcome is there.
    pub(super) fn add(&self, outcome: CaseReport) {
        if let Some(run) = run().as_mut() {
            run.case = None;
            run.done.add(outcome);
        }
    }

    /// All cases have run. Whoever has broken the run off in the meantime ends the process.
    pub(super) fn end(self) -> Report {
        loop {
            match run().take() {
                Some(run) => return run.done,
                None => std::thread::park(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_conformance::CaseInfo;
    use campanile_conformance::registry::cases;
    use campanile_conformance::report::RunInfo;
    use testbed::setup::Drivers;

    #[test]
    fn the_case_in_which_the_process_ends_has_failed_and_those_before_it_are_told() {
        let mut all = cases().map(CaseInfo::about);
        let (first, second) = (all.next().unwrap(), all.next().unwrap());
        let mut done = Report::new(Drivers::selected(), RunInfo::default());
        done.add(CaseReport::named(first.name, first.area, first.page, Status::Passed));
        let run = Run { options: Options::default(), done, case: Some((second, "again".to_owned())) };
        let (_, report) = run.broken_off("DxgkDdiEscape has not returned");
        assert_eq!((report.total, report.passed, report.failed), (2, 1, 1));
        let last = report.cases.last().unwrap();
        assert_eq!((&*last.name, last.replay.as_deref()), (second.name, Some("again")));
        assert!(last.reason.as_deref().is_some_and(|reason| reason.contains("DxgkDdiEscape has not returned")));
    }
}
