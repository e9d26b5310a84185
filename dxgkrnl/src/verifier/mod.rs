//! The verifier: notices a broken contract and records it as a bugcheck.

mod bugcheck;

pub use bugcheck::Bugcheck;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock};

/// What the verifier of one machine has seen.
#[derive(Default)]
pub(crate) struct Verifier {
    first: OnceLock<Bugcheck>,
    log: Mutex<Vec<String>>,
}

/// Lines of `DbgPrintEx` and of the verifier that are kept, newest last.
const LOG_LINES: usize = 4096;

thread_local! {
    static CURRENT: RefCell<Vec<Arc<Verifier>>> = const { RefCell::new(Vec::new()) };
}

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

    /// Makes this the verifier that kernel services without a device argument report to on this thread.
    pub(crate) fn enter(self: &Arc<Self>) -> Entered {
        CURRENT.with_borrow_mut(|stack| stack.push(Arc::clone(self)));
        Entered(())
    }

    /// The verifier entered last on this thread.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(|stack| stack.last().cloned())
    }
}

/// Leaves the verifier of [`Verifier::enter`] when dropped.
pub(crate) struct Entered(());

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|stack| stack.pop());
    }
}
