//! The verifier: notices a broken contract and records it as a bugcheck.

mod bugcheck;
pub(crate) mod pool;

pub use bugcheck::{Bugcheck, Place};
pub use pool::SpecialPool;

use std::sync::{Arc, OnceLock};

use nt::lock::{Innermost, Mutex};

use crate::ddi_calls::DdiCalls;
use crate::driver_call;
use crate::rescue::{Rescue, Rescues};
use crate::watchdog::Calls;

/// What the verifier of one machine has seen.
#[derive(Default)]
pub(crate) struct Verifier {
    first: OnceLock<Bugcheck>,
    log: Mutex<Vec<String>, Innermost>,
    rescues: Rescues,
    ddi_calls: DdiCalls,
    calls: Calls,
}

/// Lines of `DbgPrintEx` and of the verifier that are kept, newest last.
const LOG_LINES: usize = 4096;

impl Verifier {
    /// Records a bugcheck; the first one counts, later ones are only logged.
    pub(crate) fn raise(&self, bugcheck: Bugcheck) {
        self.log(format!("*** STOP {bugcheck}"));
        let _ = self.first.set(bugcheck);
    }

    /// The bugcheck that stopped this machine, if any.
    pub(crate) fn bugcheck(&self) -> Option<Bugcheck> {
        self.first.get().cloned()
    }

    /// Whether this machine has stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.first.get().is_some()
    }

    /// Appends a line to the machine's debug log.
    pub(crate) fn log(&self, line: String) {
        let mut log = self.log.lock();
        if log.len() == LOG_LINES {
            log.remove(0);
        }
        log.push(line);
    }

    /// Counts something that was made good although it should have been reported.
    pub(crate) fn rescued(&self, rescue: Rescue, count: u64) {
        self.rescues.add(rescue, count);
        self.log(format!("made good: {rescue}, {count} times"));
    }

    /// The number of calls of each DDI on this machine.
    pub(crate) fn ddi_calls(&self) -> &DdiCalls {
        &self.ddi_calls
    }

    /// Takes the counts of what was made good.
    pub(crate) fn take_rescues(&self) -> Vec<(Rescue, u64)> {
        self.rescues.take()
    }

    /// The debug log.
    pub(crate) fn log_lines(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    /// The calls into drivers that have not returned.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The verifier of the driver call that this thread is in.
    pub(crate) fn current() -> Option<Arc<Self>> {
        driver_call::current().map(|driver| Arc::clone(driver.verifier()))
    }
}
