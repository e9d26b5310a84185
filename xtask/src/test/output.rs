//! What a test executable prints, in numbers.

use std::fmt;
use std::ops::Add;

/// Numbers of tests by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Tally {
    /// One test.
    pub(crate) fn one(passed: bool) -> Self {
        Self { passed: u64::from(passed), failed: u64::from(!passed), skipped: 0 }
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Failed tests that are named with what they printed.
const MAX_FAILURES: usize = 12;
/// Lines that are kept of what a failed test printed.
const MAX_LINES: usize = 8;

/// Follows the output of one process line by line.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Sum of the summary lines.
    summed: Tally,
    /// Outcomes seen since the last summary line: what is left when the process dies before it sums up.
    loose: Tally,
    summaries: u64,
    failures: Vec<Failure>,
    /// Index of the failed test whose output is being printed.
    printing: Option<usize>,
}

/// A failed test and the first lines that it printed.
#[derive(Debug)]
struct Failure {
    name: String,
    lines: Vec<String>,
}

impl Reader {
    /// Takes one line of output.
    pub(crate) fn line(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(tally) = summary(line) {
            self.summed = self.summed + tally;
            self.loose = Tally::default();
            self.summaries += 1;
            self.printing = None;
        } else if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" ----")) {
            self.printing = self.failure(name.trim_end_matches(" stdout"));
        } else if line == "failures:" {
            self.printing = None;
        } else if let Some(failure) = self.printing.and_then(|index| self.failures.get_mut(index)) {
            if !line.is_empty() && failure.lines.len() < MAX_LINES {
                failure.lines.push(line.to_owned());
            }
        } else if let Some(rest) = line.strip_prefix("test ") {
            if rest.ends_with("... ok") {
                self.loose.passed += 1;
            } else if let Some(name) = rest.strip_suffix("... FAILED") {
                self.loose.failed += 1;
                // Cases stand behind their area in brackets.
                let name = name.split_once(']').filter(|_| name.starts_with('[')).map_or(name, |(_, name)| name);
                self.failure(name.trim());
            } else if rest.contains("... ignored") {
                self.loose.skipped += 1;
            }
        }
    }

    /// Index of the failed test of that name; nothing if it is one too many.
    fn failure(&mut self, name: &str) -> Option<usize> {
        let known = self.failures.iter().position(|failure| failure.name == name);
        if known.is_none() && self.failures.len() < MAX_FAILURES {
            self.failures.push(Failure { name: name.to_owned(), lines: Vec::new() });
            return Some(self.failures.len() - 1);
        }
        known
    }

    /// The numbers, once the process has ended, and what went wrong: with the process as a whole, then each failed test with what it printed.
    pub(crate) fn finish(self, ended_well: bool) -> (Tally, Option<String>) {
        let tally = self.summed + self.loose;
        let (tally, whole) = match (ended_well, self.summaries, tally.failed) {
            _ if self.loose != Tally::default() => (tally + Tally::one(false), Some("ended before it summed up")),
            // A test without harness: it passes or fails as one.
            (true, 0, _) => (Tally::one(true), None),
            (true, _, _) => (tally, None),
            (false, _, 0) => (tally + Tally::one(false), Some("failed without naming a test")),
            (false, _, _) => (tally, None),
        };
        let failures = self.failures.iter().map(|Failure { name, lines }| {
            let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
            format!("{name}{lines}")
        });
        let notes: Vec<String> = whole.map(str::to_owned).into_iter().chain(failures).collect();
        (tally, (!notes.is_empty()).then(|| notes.join("\n")))
    }
}

/// The numbers of `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
fn summary(line: &str) -> Option<Tally> {
    if let Some(counts) = line.strip_prefix("guest: ") {
        return guest_summary(counts);
    }
    let rest = line.strip_prefix("test result: ")?;
    let (_, counts) = rest.split_once(". ")?;
    let mut tally = Tally::default();
    let mut found = 0;
    for part in counts.split(';') {
        let Some((count, what)) = part.trim().split_once(' ') else { continue };
        let Ok(count) = count.parse::<u64>() else { continue };
        match what {
            "passed" => tally.passed = count,
            "failed" => tally.failed = count,
            "ignored" => tally.skipped = count,
            _ => continue,
        }
        found += 1;
    }
    (found == 3).then_some(tally)
}

/// The last line of `campanile qemu`, behind its first word.
fn guest_summary(counts: &str) -> Option<Tally> {
    let mut parts = counts.split(", ").map(|part| part.split_once(' '));
    let mut count = |what: &str| parts.next().flatten().filter(|(_, word)| *word == what)?.0.parse().ok();
    Some(Tally { passed: count("passed")?, failed: count("failed")?, skipped: count("skipped")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, ended_well: bool) -> (Tally, Option<String>) {
        let mut reader = Reader::default();
        text.lines().for_each(|line| reader.line(line));
        reader.finish(ended_well)
    }

    fn tally(passed: u64, failed: u64, skipped: u64) -> Tally {
        Tally { passed, failed, skipped }
    }

    #[test]
    fn the_summary_line_counts_and_not_the_lines_above_it() {
        let text = "running 3 tests\ntest a ... ok\ntest b ... ok\ntest c ... ignored, slow\n\n\
                    test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
        assert_eq!(read(text, true), (tally(2, 0, 1), None));
    }

    #[test]
    fn several_summaries_add_up() {
        let one = "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
        assert_eq!(read(&one.repeat(3), false), (tally(6, 3, 0), None));
    }

    #[test]
    fn a_process_that_dies_in_the_middle_has_failed_and_keeps_what_it_did() {
        let (sum, note) = read("running 9 tests\ntest a ... ok\ntest b ... ok\n", false);
        assert_eq!(sum, tally(2, 1, 0));
        assert_eq!(note.as_deref(), Some("ended before it summed up"));
    }

    #[test]
    fn a_failure_that_names_no_test_still_fails() {
        let unnamed = Some("failed without naming a test".to_owned());
        assert_eq!(read("error: no such file\n", false), (tally(0, 1, 0), unnamed.clone()));
        let good = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
        assert_eq!(read(good, false), (tally(2, 1, 0), unnamed));
    }

    #[test]
    fn a_failed_test_is_named_with_what_it_printed() {
        let text = "running 2 tests\ntest a ... ok\ntest [Fence]    Fence.Wait        ... FAILED\n\nfailures:\n\n---- Fence.Wait stdout ----\n\nfound 2,\nexpected 1\n\n\n\
                    failures:\n    Fence.Wait\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
        assert_eq!(read(text, false), (tally(1, 1, 0), Some("Fence.Wait\n  found 2,\n  expected 1".to_owned())));
        // Without the colours of a terminal, and without an end of what many tests print.
        let many: String = (0..40)
            .map(|test| format!("test t{test} ... FAILED\n---- t{test} ----\n{}", "line\n".repeat(99)))
            .collect();
        let (_, note) = read(&many, false);
        let note = note.unwrap();
        assert!(note.starts_with("ended before it summed up\nt0\n  line"), "{note}");
        assert_eq!(note.lines().count(), 1 + MAX_FAILURES * (1 + MAX_LINES));
    }

    #[test]
    fn a_test_without_harness_counts_as_one() {
        assert_eq!(read("all fine\n", true), (tally(1, 0, 0), None));
    }

    #[test]
    fn a_line_that_only_resembles_a_summary_is_none() {
        assert_eq!(summary("test result: unknown"), None);
        assert_eq!(summary("test result: ok. many passed; 0 failed"), None);
        assert_eq!(summary("  test result: ok. 1 passed; 0 failed; 0 ignored"), None);
    }

    #[test]
    fn the_sum_reads_as_promised() {
        assert_eq!((tally(1, 2, 3) + tally(10, 0, 0)).to_string(), "11 passed, 2 failed, 3 skipped");
    }

    #[test]
    fn what_a_guest_did_counts_as_its_last_line_says() {
        let (tally, note) = read("pass  a  (1 ms)\nguest: 40 passed, 2 failed, 1 skipped\n", false);
        assert_eq!((tally, note), (Tally { passed: 40, failed: 2, skipped: 1 }, None));
        assert_eq!(guest_summary("40 passed, 2 failed"), None);
    }
}
