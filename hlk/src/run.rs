//! Runs a case to its end, whatever it does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use campanile_conformance::report::{CaseReport, Status};
use campanile_conformance::{Case, CaseInfo, Failure, RunThunks};
use wddm_ddi::types::LUID;

/// Runs a case on a thread of its own for at most `limit`; one that hangs keeps its thread.
pub(crate) fn run(case: &'static CaseInfo, of: RunThunks, luid: LUID, limit: Duration) -> CaseReport {
    let started = Instant::now();
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name("case".to_owned()).spawn(move || {
        // Every thread of a program on Windows belongs to its process.
        let taken = Case::new(luid, Arc::new(|| Box::new(())));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            case.needs.concat().into_iter().try_for_each(|need| need.check(&taken))?;
            of(&taken)
        }));
        let _ = sender.send(outcome.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(Failure::new(format!("panicked: {text}")))
        }));
    });
    let outcome = match thread {
        Err(error) => Err(Failure::new(format!("no thread for the case: {error}"))),
        Ok(_) => receiver
            .recv_timeout(limit)
            .unwrap_or_else(|_| Err(Failure::new(format!("did not end within {} s", limit.as_secs())))),
    };
    let (status, reason) = match outcome {
        Ok(()) => (Status::Passed, None),
        Err(Failure::Unmet(text)) => (Status::Failed, Some(text)),
        Err(Failure::NotApplicable(text)) => (Status::Skipped, Some(text)),
    };
    CaseReport::new(&case.about(), status, started.elapsed(), reason)
}
