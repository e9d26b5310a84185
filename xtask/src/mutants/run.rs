//! Runs conformance cases on a mutant, in a process of its own that ends with the first case that notices.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::schemata::{CHOICE, REACHED};

/// Common start of all cases' names.
const PREFIX: &str = "Device.Graphics.WDDM32.";
/// Longest time a case may take; the command itself makes it fail then.
const CASE: Duration = Duration::from_secs(60);
/// What the command may take beside its cases: start, and the end of its shared systems.
const AROUND: Duration = Duration::from_secs(30);
/// Pages of memory that a program with a mutant may take: 4 GiB, many times what it takes without one.
const PAGES: u64 = 1 << 20;
/// Time between two looks at the memory of a program that says nothing.
const LOOK: Duration = Duration::from_millis(200);

/// Arguments of a run of cases on a mutant.
pub(super) struct Order<'a> {
    pub(super) program: &'a Path,
    /// Number of the mutant, 0 for none.
    pub(super) number: u32,
    /// Text that picks cases, all with an empty one.
    pub(super) filter: &'a str,
    pub(super) options: &'a [String],
    pub(super) repeat: u32,
}

/// Outcome of a run of cases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub(super) enum Ended {
    /// All cases passed or were skipped; how many passed, and how often what the mutant changes ran.
    Passed { passed: u32, reached: u64 },
    /// A case failed.
    Failed { case: String, reason: String },
    /// The process ended before its cases had; the last one that was told.
    Crashed { status: String, after: String },
    /// Neither a case nor the process ended.
    Stuck,
    /// The command did not run a case.
    Refused { reason: String },
}

/// A line of `campanile hlk --json-lines`.
#[derive(Deserialize)]
struct ReportedCase {
    name: String,
    status: String,
    reason: Option<String>,
}

/// Carries `order` out.
pub(super) fn run(order: &Order) -> Ended {
    let mut command = Command::new(order.program);
    command.arg("hlk").args(order.options).args(["--json-lines", "--timeout", &CASE.as_secs().to_string()]);
    command.args(["--repeat", &order.repeat.to_string()]).env(CHOICE, order.number.to_string());
    if !order.filter.is_empty() {
        command.args(["--filter", order.filter]);
    }
    watch(command, CASE + AROUND)
}

/// Follows the process of `command`, which is ended when a case failed, when nothing was heard for `time_limit`, or when it takes too much memory.
fn watch(mut command: Command, time_limit: Duration) -> Ended {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Ended::Refused { reason: format!("it does not start: {error}") },
    };
    let lines = follow(child.stdout.take());
    let errors = child.stderr.take().map(|mut errors| {
        thread::spawn(move || {
            let mut text = Vec::new();
            // What cannot be read is missing in a message only.
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    });
    let (mut passed, mut last) = (0, "the start".to_owned());
    let mut heard = Instant::now();
    loop {
        match lines.recv_timeout(LOOK.min(time_limit)) {
            Ok(text) => {
                heard = Instant::now();
                let Ok(line) = serde_json::from_str::<ReportedCase>(&text) else { continue };
                last = line.name.strip_prefix(PREFIX).unwrap_or(&line.name).to_owned();
                if line.status == "failed" {
                    end(&mut child);
                    return Ended::Failed { case: last, reason: line.reason.unwrap_or_default() };
                }
                passed += u32::from(line.status == "passed");
            }
            Err(RecvTimeoutError::Timeout) if takes_too_much(child.id()) => {
                end(&mut child);
                return Ended::Crashed { status: "ended because it took too much memory".into(), after: last };
            }
            Err(RecvTimeoutError::Timeout) if heard.elapsed() < time_limit => {}
            Err(RecvTimeoutError::Timeout) => {
                end(&mut child);
                return Ended::Stuck;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = match child.wait() {
        Ok(status) => status,
        Err(error) => return Ended::Refused { reason: error.to_string() },
    };
    let errors = errors.and_then(|errors| errors.join().ok()).unwrap_or_default();
    match status.code() {
        Some(0) => {
            let reached = errors.lines().rev().find_map(|line| line.strip_prefix(REACHED)?.parse().ok());
            Ended::Passed { passed, reached: reached.unwrap_or(0) }
        }
        Some(2) => Ended::Refused { reason: errors },
        _ => Ended::Crashed { status: status.to_string(), after: last },
    }
}

/// True if a process has more memory than a program with a mutant may take; false where the system does not say.
pub(super) fn takes_too_much(process: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let resident: Option<u64> = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    resident.is_some_and(|pages| pages >= PAGES)
}

/// Ends the process. Killing one that has just ended fails, which is as good.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The lines of `output` as they come.
fn follow(output: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, lines) = channel();
    if let Some(output) = output {
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        watch(command, Duration::from_millis(500))
    }

    fn line(case: &str, status: &str) -> String {
        format!(
            "echo '{{\"name\":\"{PREFIX}{case}\",\"area\":\"A\",\"status\":\"{status}\",\"ms\":1,\"reason\":\"why\"}}'"
        )
    }

    #[test]
    fn cases_that_pass_and_are_skipped_are_no_kill() {
        let script = format!("{}; {}; echo '{REACHED}3' >&2", line("A.B", "passed"), line("A.C", "skipped"));
        assert_eq!(shell(&script), Ended::Passed { passed: 1, reached: 3 });
    }

    #[test]
    fn the_first_case_that_fails_is_the_end() {
        let script = format!("{}; {}; exec sleep 1000", line("A.B", "passed"), line("A.C", "failed"));
        assert_eq!(shell(&script), Ended::Failed { case: "A.C".into(), reason: "why".into() });
    }

    #[test]
    fn a_process_that_dies_hangs_or_refuses_is_told_apart() {
        assert!(matches!(shell("kill -9 $$"), Ended::Crashed { after, .. } if after == "the start"));
        assert!(
            matches!(shell(&format!("{}; exit 101", line("A.B", "passed"))), Ended::Crashed { after, .. } if after == "A.B")
        );
        assert_eq!(shell("exec sleep 1000"), Ended::Stuck);
        assert_eq!(shell("echo no case >&2; exit 2"), Ended::Refused { reason: "no case\n".into() });
    }
}
