//! Running one test executable: its output is passed on, and counted.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::output::{Reader, Tally};

/// Runs `command` for at most `time_limit`, and prints its output as it comes.
pub(super) fn run(command: Command, time_limit: Duration) -> (Tally, Option<String>) {
    run_into(command, time_limit, |line| print!("{line}"))
}

/// Runs `command` for at most `time_limit`. Each line of its output goes to `show` as it comes.
pub(super) fn run_into(
    mut command: Command,
    time_limit: Duration,
    mut show: impl FnMut(&str),
) -> (Tally, Option<String>) {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return (Tally::one(false), Some(format!("does not start: {error}"))),
    };
    let Some(stdout) = child.stdout.take() else {
        return (Tally::one(false), Some("has no output".into()));
    };
    let (sender, lines) = channel();
    thread::spawn(move || {
        let mut input = BufReader::new(stdout);
        let mut bytes = Vec::new();
        while matches!(input.read_until(b'\n', &mut bytes), Ok(1..)) {
            if sender.send(String::from_utf8_lossy(&bytes).into_owned()).is_err() {
                break;
            }
            bytes.clear();
        }
    });
    let mut reader = Reader::default();
    let deadline = Instant::now() + time_limit;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                show(&line);
                reader.line(&line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                // Killing a process that has just ended fails, which is as good.
                let _ = child.kill();
                let _ = child.wait();
                let (tally, _) = reader.finish(false);
                return (tally, Some(format!("stopped after {} s", time_limit.as_secs())));
            }
        }
    }
    match child.wait() {
        Ok(status) => {
            let (tally, note) = reader.finish(status.success());
            // An exit code says no more than what the process printed; a signal does.
            let said = note.map(|note| if status.code().is_some() { note } else { format!("{status}\n{note}") });
            (tally, said)
        }
        Err(error) => (reader.finish(false).0, Some(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const GOOD: &str = "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";

    #[test]
    fn a_suite_that_passes_is_counted() {
        let (tally, note) = run(shell(&format!("echo '{GOOD}'")), Duration::from_secs(60));
        assert_eq!((tally, note), (Tally { passed: 2, failed: 0, skipped: 1 }, None));
    }

    #[test]
    fn a_suite_killed_by_a_signal_has_failed() {
        let (tally, note) = run(shell("echo 'test a ... ok'; kill -9 $$"), Duration::from_secs(60));
        assert_eq!(tally, Tally { passed: 1, failed: 1, skipped: 0 });
        assert!(note.is_some_and(|note| note.contains("signal")));
    }

    #[test]
    fn a_suite_that_hangs_is_stopped_and_has_failed() {
        let (tally, note) = run(shell("echo 'test a ... ok'; exec sleep 1000"), Duration::from_millis(300));
        assert_eq!(tally, Tally { passed: 1, failed: 1, skipped: 0 });
        assert_eq!(note.as_deref(), Some("stopped after 0 s"));
    }

    #[test]
    fn a_suite_that_is_not_there_has_failed() {
        let (tally, note) = run(Command::new("./no-such-suite"), Duration::from_secs(60));
        assert_eq!(tally.failed, 1);
        assert!(note.is_some_and(|note| note.starts_with("does not start")));
    }
}
