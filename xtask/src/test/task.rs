//! Work that goes on beside other work: what it prints is kept until it has ended.

use std::process::Command;
use std::time::{Duration, Instant};

use super::Outcome;
use super::output::Tally;
use super::run;

/// Outcomes of a task that has ended, and what it printed.
pub(super) struct Done {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) output: String,
}

/// Suites or commands that nothing but this is to wait for.
pub(super) struct Task<'a> {
    pub(super) name: String,
    pub(super) work: Box<dyn FnOnce() -> Done + Send + 'a>,
}

impl<'a> Task<'a> {
    pub(super) fn new(name: impl Into<String>, work: impl FnOnce() -> Done + Send + 'a) -> Self {
        Self { name: name.into(), work: Box::new(work) }
    }

    /// A command that prints what came of each of its tests.
    pub(super) fn tests(name: String, command: Command, limit: Duration) -> Self {
        let heading = format!("== {name}\n");
        let of_name = name.clone();
        Self::new(name, move || {
            let start = Instant::now();
            let mut output = heading;
            let (tally, note) = run::run_into(command, limit, |line| output.push_str(line));
            Done { outcomes: vec![Outcome { name: of_name, tally, took: start.elapsed(), note }], output }
        })
    }

    /// A command that passes or fails as one.
    pub(super) fn whole(name: &str, mut command: Command) -> Self {
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let heading = format!("== {name}: campanile {}\n", arguments.join(" "));
        let of_name = name.to_owned();
        Self::new(name, move || {
            let start = Instant::now();
            let (output, note) = captured(&mut command);
            let tally = Tally::one(note.is_none());
            let outcome = Outcome { name: of_name, tally, took: start.elapsed(), note };
            Done { outcomes: vec![outcome], output: heading + &output }
        })
    }
}

/// Runs a command: what it printed, on standard output first, and why it failed if it did.
pub(super) fn captured(command: &mut Command) -> (String, Option<String>) {
    match command.output() {
        Ok(output) => {
            let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            (printed.concat(), (!output.status.success()).then(|| output.status.to_string()))
        }
        Err(error) => (String::new(), Some(format!("does not start: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(script: &str) -> Done {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        (Task::whole("a command", command).work)()
    }

    #[test]
    fn a_command_passes_or_fails_as_one_and_what_it_printed_is_kept() {
        let good = done("echo told; echo warned >&2");
        let outcome = &good.outcomes[0];
        assert_eq!((outcome.tally, outcome.note.as_deref()), (Tally::one(true), None));
        assert!(good.output.starts_with("== a command: campanile -c ") && good.output.ends_with("told\nwarned\n"));
        let bad = done("echo why; exit 3");
        let outcome = &bad.outcomes[0];
        assert_eq!((outcome.tally, outcome.note.as_deref()), (Tally::one(false), Some("exit status: 3")));
        assert!(bad.output.ends_with("why\n"));
    }

    #[test]
    fn a_command_that_is_not_there_has_failed() {
        let done = (Task::whole("nothing", Command::new("./no-such-program")).work)();
        assert_eq!(done.outcomes[0].tally.failed, 1);
        assert!(done.outcomes[0].note.as_ref().is_some_and(|note| note.starts_with("does not start")));
    }

    #[test]
    fn tests_are_counted_and_shown_under_the_name_of_their_suite() {
        let mut command = Command::new("echo");
        command.arg("test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        let done = (Task::tests("a suite".to_owned(), command, Duration::from_secs(60)).work)();
        assert_eq!(done.outcomes[0].tally, Tally { passed: 2, failed: 0, skipped: 1 });
        assert!(done.output.starts_with("== a suite\ntest result: ok."));
    }
}
