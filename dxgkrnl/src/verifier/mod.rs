//! The verifier: notices a broken contract and records it as a bugcheck.

mod bugcheck;
pub(crate) mod pool;

pub use bugcheck::{Bugcheck, Place};
pub use pool::SpecialPool;

use std::sync::{Arc, Mutex, OnceLock};

use crate::driver_call;

/// What the verifier of one machine has seen.
#[derive(Default)]
pub(crate) struct Verifier {
    first: OnceLock<Bugcheck>,
    log: Mutex<Vec<String>>,
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
        let mut log = self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if log.len() == LOG_LINES {
            log.remove(0);
        }
        log.push(line);
    }

    /// The debug log.
    pub(crate) fn log_lines(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// The verifier of the driver call that this thread is in.
    pub(crate) fn current() -> Option<Arc<Self>> {
        driver_call::current().map(|driver| Arc::clone(driver.verifier()))
    }
}
