//! The verifier: notices a broken contract and records it as a bugcheck.

use std::sync::OnceLock;

use crate::bugcheck::Bugcheck;
use crate::calls::Calls;
use crate::lock::{Innermost, Mutex};

/// What the verifier of one machine has seen.
#[derive(Default)]
pub struct Verifier {
    first: OnceLock<Bugcheck>,
    log: Mutex<Vec<String>, Innermost>,
    calls: Calls,
}

/// Lines of `DbgPrintEx` and of the verifier that are kept, newest last.
const LOG_LINES: usize = 4096;

impl Verifier {
    /// Records a bugcheck; the first one counts, later ones are only logged.
    pub fn raise(&self, bugcheck: Bugcheck) {
        self.log(format!("*** STOP {bugcheck}"));
        let _ = self.first.set(bugcheck);
    }

    /// The bugcheck that stopped this machine, if any.
    pub fn bugcheck(&self) -> Option<Bugcheck> {
        self.first.get().cloned()
    }

    /// True if this machine has stopped.
    pub fn is_stopped(&self) -> bool {
        self.first.get().is_some()
    }

    /// Appends a line to the machine's debug log.
    pub fn log(&self, line: String) {
        let mut log = self.log.lock();
        if log.len() == LOG_LINES {
            log.remove(0);
        }
        log.push(line);
    }

    /// The debug log.
    pub fn log_lines(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    /// The calls into drivers that have not returned.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }
}
