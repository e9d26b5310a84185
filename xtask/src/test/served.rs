//! Conformance cases as programs of a machine that another process serves.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use serde_json::Value;

use super::output::Tally;

/// Time that the machine has to boot, and to end.
const LIMIT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What came of the cases with one driver: their number, and what is to be told if they did not all pass or the machine did not end as it should.
pub(super) type Outcome = (Tally, Option<String>);

/// The cases with each driver, on machines of their own at the same time: they mostly wait.
pub(super) fn run(root: &Path, program: &Path, drivers: &[&'static str]) -> Vec<(&'static str, Outcome)> {
    thread::scope(|scope| {
        let started: Vec<_> =
            drivers.iter().map(|driver| (*driver, scope.spawn(|| cases(root, program, driver)))).collect();
        let ended = started.into_iter().map(|(driver, thread)| {
            let outcome = thread.join().unwrap_or_else(|_| Err("panicked".to_owned()));
            (driver, outcome.unwrap_or_else(|note| (Tally::one(false), Some(note))))
        });
        ended.collect()
    })
}

/// A machine that is killed if nobody has ended it.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // Fails if it has ended, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Machine {
    fn serve(root: &Path, program: &Path, driver: &str, socket: &Path) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.current_dir(root).args(["machine", "--quiet", "--driver", driver, "--socket"]).arg(socket);
        let mut machine =
            Self(command.stdin(Stdio::null()).spawn().map_err(|error| format!("does not start: {error}"))?);
        // The socket is there before the machine has booted; who connects meanwhile waits.
        let end = Instant::now() + LIMIT;
        while !socket.exists() {
            if let Some(status) = machine.0.try_wait().map_err(|error| error.to_string())? {
                return Err(format!("the machine ended with {status}"));
            }
            if Instant::now() > end {
                return Err("the machine has no socket".to_owned());
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(machine)
    }

    /// Ends it by the signal for it; it must say that all is well.
    fn end(mut self) -> Result<(), String> {
        let signal = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.0.id())]).status();
        signal.map_err(|error| format!("sh: {error}"))?;
        let end = Instant::now() + LIMIT;
        loop {
            match self.0.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the machine ended with {status}")),
                None if Instant::now() > end => return Err("the machine does not end".to_owned()),
                None => thread::sleep(POLL_INTERVAL),
            }
        }
    }
}

fn cases(root: &Path, program: &Path, driver: &str) -> Result<Outcome, String> {
    let socket = env::temp_dir().join(format!("campanile-served-{}-{driver}.sock", process::id()));
    let machine = Machine::serve(root, program, driver, &socket)?;
    let mut command = Command::new(program);
    command.current_dir(root).args(["hlk", "--json", "--machine"]).arg(&socket).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("does not start: {error}"))?;
    let ended = machine.end();
    let _ = fs::remove_file(&socket);
    let (tally, note) = judged(&output);
    Ok((tally, note.or(ended.err())))
}

/// The cases that need thunks alone are more than this; with fewer, something has skipped them.
const LEAST: u64 = 400;

/// The numbers of a report, and each failure. Cases that look behind the thunks are in it as skipped, and count nowhere.
fn judged(output: &Output) -> Outcome {
    let told = || format!("{}; {}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    let Ok(report) = serde_json::from_slice::<Value>(&output.stdout) else {
        return (Tally::one(false), Some(format!("no report: {}", told())));
    };
    let count = |name: &str| report[name].as_u64().unwrap_or(0);
    let tally = Tally { passed: count("passed"), failed: count("failed"), skipped: 0 };
    let failed = report["cases"].as_array().into_iter().flatten().filter(|case| case["status"] == "failed");
    let failed: Vec<String> = failed.map(|case| format!("{}: {}", case["name"], case["reason"])).collect();
    match (output.status.success(), tally) {
        (true, Tally { passed: LEAST.., failed: 0, .. }) => (tally, None),
        (_, Tally { failed: 0, .. }) => (Tally { failed: 1, ..tally }, Some(told())),
        _ => (tally, Some(failed.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn output(code: i32, text: &str) -> Output {
        let status = process::ExitStatus::from_raw(code << 8);
        Output { status, stdout: text.as_bytes().to_vec(), stderr: b"told".to_vec() }
    }

    #[test]
    fn what_was_skipped_counts_nowhere_and_what_failed_is_told() {
        let good = r#"{"passed": 437, "failed": 0, "skipped": 600, "cases": []}"#;
        let (tally, note) = judged(&output(0, good));
        assert_eq!((tally, note), (Tally { passed: 437, failed: 0, skipped: 0 }, None));
        let bad = r#"{"passed": 3, "failed": 1, "cases": [{"name": "b", "status": "failed", "reason": "why"}, {"name": "c", "status": "passed"}]}"#;
        let (tally, note) = judged(&output(1, bad));
        assert_eq!((tally.passed, tally.failed, note.as_deref()), (3, 1, Some(r#""b": "why""#)));
        for (code, text) in [(101, ""), (0, ""), (0, r#"{"passed": 399, "failed": 0}"#), (2, good)] {
            let (tally, note) = judged(&output(code, text));
            assert!(tally.failed == 1 && note.unwrap().contains("told"), "{code}: {text}");
        }
    }

    #[test]
    fn a_machine_that_does_not_start_is_told() {
        let outcomes = run(Path::new("/"), Path::new("/no/such/program"), &["linked", "pe"]);
        for (_, (tally, note)) in outcomes {
            assert!(tally.failed == 1 && note.unwrap().contains("does not start"));
        }
    }
}
