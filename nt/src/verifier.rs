//! The verifier: notices a broken contract and records it as a bugcheck.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::bugcheck::Bugcheck;
use crate::calls::Calls;
use crate::lock::{Innermost, Mutex};
use crate::say;

/// Violations and messages of one machine.
#[derive(Default)]
pub struct Verifier {
    first: OnceLock<Bugcheck>,
    log: Mutex<Kept, Innermost>,
    /// What drivers have said without an end of line, by driver.
    unfinished: Mutex<BTreeMap<String, String>, Innermost>,
    calls: Calls,
    watcher: Mutex<Option<Watcher>, Innermost>,
    /// Drivers that have something to do when the machine stops.
    listeners: Mutex<Vec<Weak<Listener>>, Innermost>,
    /// Those who may know what went before a stop.
    witnesses: Mutex<Vec<Weak<Witness>>, Innermost>,
}

/// Asked at a stop for what went before it and is its cause perhaps, such as a function that was pulled out; on whatever thread the machine stops, with whatever that holds, so that it
/// waits for nothing.
pub type Witness = dyn Fn() -> Option<String> + Send + Sync;

/// Called by the thread that stops a machine, with whatever that holds, before anybody else hears of the stop.
pub type Listener = dyn Fn() + Send + Sync;

/// Told of the stop of a machine, on whatever thread it stops, with whatever that holds.
type Watcher = Arc<dyn Fn() + Send + Sync>;

/// Bytes of a line that has no end.
const LINE_LENGTH: usize = 4096;
/// Lines of `DbgPrintEx` and of the verifier that are kept, newest last.
const LOG_LINES: usize = 4096;

/// The newest lines of a log, and how many were there before them.
#[derive(Default)]
struct Kept {
    lines: VecDeque<String>,
    dropped: u64,
}

/// True once what machines log is to be printed as it comes.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Has every line that is logged from now on printed to standard error too, of all machines of the process.
pub fn show_log() {
    SHOWN.store(true, Ordering::Relaxed);
}

impl Verifier {
    /// Records a bugcheck; the first one counts, later ones are only logged.
    pub fn raise(&self, mut bugcheck: Bugcheck) {
        let witnesses = self.witnesses.lock().clone();
        if let Some(before) = witnesses.iter().filter_map(Weak::upgrade).find_map(|witness| witness()) {
            bugcheck.reason = format!("{before}; after that {}", bugcheck.reason);
        }
        self.log(format!("*** STOP {bugcheck}"));
        if self.first.set(bugcheck).is_ok() {
            let listeners = std::mem::take(&mut *self.listeners.lock());
            listeners.iter().filter_map(Weak::upgrade).for_each(|listener| listener());
            self.tell_watcher();
        }
    }

    /// Has `witness` asked when this machine stops, as long as it is there; what it knows stands in front of the reason.
    pub fn hear(&self, witness: &Arc<Witness>) {
        let mut witnesses = self.witnesses.lock();
        witnesses.retain(|witness| witness.strong_count() != 0);
        witnesses.push(Arc::downgrade(witness));
    }

    /// Has `listener` called when this machine stops, as long as it is there.
    pub fn listen(&self, listener: &Arc<Listener>) {
        let mut listeners = self.listeners.lock();
        listeners.retain(|listener| listener.strong_count() != 0);
        listeners.push(Arc::downgrade(listener));
    }

    /// Has `watcher` called when this machine stops, at once if it has. It must not wait for anything; the latest one counts, and may be called twice.
    pub fn watch(&self, watcher: impl Fn() + Send + Sync + 'static) {
        *self.watcher.lock() = Some(Arc::new(watcher));
        if self.is_stopped() {
            self.tell_watcher();
        }
    }

    fn tell_watcher(&self) {
        let watcher = self.watcher.lock().clone();
        if let Some(watcher) = watcher {
            watcher();
        }
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
        if SHOWN.load(Ordering::Relaxed) {
            say::say(&line);
        }
        let mut log = self.log.lock();
        if log.lines.len() == LOG_LINES {
            log.lines.pop_front();
            log.dropped += 1;
        }
        log.lines.push_back(line);
    }

    /// Appends what a driver says, which may be part of a line or several lines.
    pub fn said(&self, driver: &str, text: &str) {
        let whole = {
            let mut unfinished = self.unfinished.lock();
            let line = unfinished.entry(driver.to_owned()).or_default();
            line.push_str(text);
            match line.rfind('\n') {
                Some(end) => line.drain(..=end).collect(),
                None if line.len() >= LINE_LENGTH => std::mem::take(line),
                None => String::new(),
            }
        };
        whole.lines().for_each(|line| self.log(format!("{driver}: {}", line.trim_end())));
    }

    /// The debug log, with what drivers have begun to say at its end.
    pub fn log_lines(&self) -> Vec<String> {
        let mut lines = Vec::from(self.log.lock().lines.clone());
        let unfinished = self.unfinished.lock();
        let begun = unfinished.iter().filter(|(_, line)| !line.is_empty());
        lines.extend(begun.map(|(driver, line)| format!("{driver}: {}", line.trim_end())));
        lines
    }

    /// The whole lines that were logged behind the first `position` ones and are still kept, and how many there have been in all: the position for the next time.
    pub fn log_lines_since(&self, position: u64) -> (Vec<String>, u64) {
        let log = self.log.lock();
        let seen = usize::try_from(position.saturating_sub(log.dropped)).unwrap_or(usize::MAX);
        (log.lines.iter().skip(seen).cloned().collect(), log.dropped + log.lines.len() as u64)
    }

    /// The calls into drivers that have not returned.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_is_asked_as_long_as_it_is_there() {
        let witness: Arc<Witness> = Arc::new(|| Some("a function was pulled out".to_owned()));
        let (asked, alone) = (Verifier::default(), Verifier::default());
        asked.hear(&witness);
        alone.hear(&(Arc::new(|| Some("another one".to_owned())) as Arc<Witness>));
        for (verifier, reason) in [(asked, "a function was pulled out; after that a rule"), (alone, "a rule")] {
            verifier.raise(Bugcheck::fatal("a rule".to_owned()));
            assert_eq!(verifier.bugcheck().expect("stopped").reason, reason);
        }
    }

    #[test]
    fn a_stop_is_told_also_to_who_asks_afterwards_and_later_ones_are_not() {
        let told = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let watcher = |told: &Arc<std::sync::atomic::AtomicU32>| {
            let told = Arc::clone(told);
            move || {
                told.fetch_add(1, Ordering::SeqCst);
            }
        };
        let verifier = Verifier::default();
        verifier.watch(watcher(&told));
        assert_eq!(told.load(Ordering::SeqCst), 0);
        verifier.raise(Bugcheck::fatal("first".to_owned()));
        verifier.raise(Bugcheck::fatal("second".to_owned()));
        assert_eq!(told.load(Ordering::SeqCst), 1);
        verifier.watch(watcher(&told));
        assert_eq!(told.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn lines_behind_a_position_are_found_also_when_old_ones_are_no_longer_kept() {
        let verifier = Verifier::default();
        let said = |numbers: std::ops::Range<usize>| numbers.for_each(|number| verifier.log(number.to_string()));
        said(0..3);
        let (lines, position) = verifier.log_lines_since(1);
        assert_eq!((lines, position), (vec!["1".to_owned(), "2".to_owned()], 3));
        said(3..LOG_LINES);
        let (_, position) = verifier.log_lines_since(position);
        said(LOG_LINES..LOG_LINES + 2);
        let (lines, next) = verifier.log_lines_since(position);
        assert_eq!((lines, next), (vec![LOG_LINES.to_string(), (LOG_LINES + 1).to_string()], position + 2));
        assert_eq!(verifier.log_lines_since(0).0.len(), LOG_LINES, "those that are kept");
        assert_eq!(verifier.log_lines_since(next + 9), (Vec::new(), next), "of a position of another log");
    }

    #[test]
    fn lines_are_put_together_and_shown_when_that_is_asked_for() {
        const CHILD: &str = "CAMPANILE_TEST_OF_THE_LOG";
        let verifier = Verifier::default();
        if std::env::var_os(CHILD).is_some() {
            show_log();
            verifier.said("talker", "heard\n");
            return;
        }
        verifier.said("talker", "one, ");
        assert_eq!(verifier.log_lines(), ["talker: one,"], "also what is not finished");
        verifier.said("other", "its own\n");
        verifier.said("talker", "line\nand ano");
        assert_eq!(verifier.log_lines(), ["other: its own", "talker: one, line", "talker: and ano"]);
        let program = std::env::current_exe().expect("a test has a path");
        let test = "verifier::tests::lines_are_put_together_and_shown_when_that_is_asked_for";
        let output =
            std::process::Command::new(program).args([test, "--exact", "--nocapture"]).env(CHILD, "1").output();
        let said = String::from_utf8_lossy(&output.expect("the test starts").stderr).into_owned();
        assert!(said.contains("talker: heard\n"), "{said}");
    }
}
