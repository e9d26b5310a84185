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
    /// The cases that run, each with the command that runs it alone.
    cases: Vec<(About, String)>,
}

impl Run {
    /// The report where the process ends inside the cases that run, because of a driver.
    fn broken_off(self, reason: &str) -> (Options, Report) {
        let Self { options, mut done, cases } = self;
        let where_it_ended = if cases.len() > 1 { "this case or another one that ran beside it" } else { "the case" };
        for (case, again) in cases {
            let reason = format!("the process ended inside {where_it_ended}, and no case after it has run: {reason}");
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
        *run() = Some(Run { options: options.clone(), done: empty, cases: Vec::new() });
        dxgkrnl::before_the_process_ends(|reason| {
            let Some(run) = run().take() else { return };
            let before = run.done.cases.len();
            let (options, done) = run.broken_off(reason);
            done.cases.iter().skip(before).for_each(|case| tell(&options, case));
            conclude(&options, &done);
        });
        Self
    }

    /// A further case runs from now on.
    pub(super) fn next(&self, case: About, again: String) {
        if let Some(run) = run().as_mut() {
            run.cases.push((case, again));
        }
    }

    /// An outcome is there.
    pub(super) fn add(&self, outcome: CaseReport) {
        if let Some(run) = run().as_mut() {
            if let Some(place) = run.cases.iter().position(|(case, _)| case.name == outcome.name) {
                run.cases.swap_remove(place);
            }
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
        let run = Run { options: Options::default(), done, cases: vec![(second, "again".to_owned())] };
        let (_, report) = run.broken_off("DxgkDdiEscape has not returned");
        assert_eq!((report.total, report.passed, report.failed), (2, 1, 1));
        let last = report.cases.last().unwrap();
        assert_eq!((&*last.name, last.replay.as_deref()), (second.name, Some("again")));
        assert!(last.reason.as_deref().is_some_and(|reason| reason.contains("DxgkDdiEscape has not returned")));
    }
}
