//! Runs a case to its end, whatever it does.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use campanile_conformance::report::{CaseReport, Status};
use campanile_conformance::{Case, CaseInfo, Failure, RunThunks};
use wddm_ddi::kmt::{Absent, NotFound};
use wddm_ddi::types::NTSTATUS;

/// What stands in the tables for a thunk that this Windows lacks: the case that calls it is told as skipped.
#[derive(Clone, Copy, Debug)]
pub struct Skipped;

/// Thunks that the running case has called in vain. Cases run one after the other.
static CALLED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

impl Absent for Skipped {
    fn called(name: &'static str) -> NTSTATUS {
        CALLED.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        NotFound::called(name)
    }
}

/// Runs a case, as a thread of its process, for at most `limit`; one that hangs keeps its thread. Whatever comes of a case that called a thunk which this Windows
/// lacks, it is skipped, with the name of the thunk.
pub fn run(case: &'static CaseInfo, of: RunThunks, taken: Case, limit: Duration) -> CaseReport {
    let started = Instant::now();
    CALLED.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name("case".to_owned()).spawn(move || {
        let _entered = taken.enter();
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
    let called = std::mem::take(&mut *CALLED.lock().unwrap_or_else(PoisonError::into_inner));
    let (status, reason) = match outcome {
        _ if !called.is_empty() => {
            let names = called.into_iter().collect::<Vec<_>>().join(" and ");
            (Status::Skipped, Some(format!("this Windows does not export {names}, which the case calls")))
        }
        Ok(()) => (Status::Passed, None),
        Err(Failure::Unmet(text)) => (Status::Failed, Some(text)),
        Err(Failure::NotApplicable(text)) => (Status::Skipped, Some(text)),
    };
    CaseReport::new(&case.about(), status, started.elapsed(), reason)
}
