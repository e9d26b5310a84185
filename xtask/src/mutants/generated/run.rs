//! Runs test programs on a mutant until one notices, and conformance cases where none does.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::mutants::run::{self, Order, takes_too_much};
use crate::mutants::schemata::CHOICE;
use crate::mutants::{Verdict, verdict_of};

/// Longest time a test program may take: many times what the slowest takes.
const LIMIT: Duration = Duration::from_secs(60);
/// Areas of the conformance cases, in the order in which they are asked. The first two work the driver without a GPU, and the GPU without the driver, with
/// hardly a wait; the others work both together, by what of the contract these files write down.
const AREAS: [&str; 23] = [
    "Miniport.",
    "Gpu.",
    "NativeFence.",
    "FenceInterrupts.",
    "HardwareQueue.",
    "Doorbell.",
    "FenceLog.",
    "Scheduling.",
    "Suspension.",
    "Submission.",
    "OptimisedFenceInterrupt.",
    "FenceSystemProcess.",
    "FenceFeatures.",
    "FenceBatches.",
    "Fault.",
    "Linked.",
    "Power.",
    "Tdr.",
    "Inside.",
    "Destruction.",
    "FenceStorage.",
    "SharedFence.",
    "SurpriseRemoval.",
];
/// End of the line that a test program prints for a test that failed.
const FAILED: &str = " ... FAILED";
/// Time between two looks at a running program.
const LOOK: Duration = Duration::from_millis(5);

/// End of a test program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Passed,
    Failed,
    TimedOut,
}

/// Test programs.
pub(super) struct Tests(pub(super) Vec<Program>);

/// One test program.
pub(super) struct Program {
    pub(super) package: String,
    /// Folder in which cargo runs it.
    pub(super) folder: PathBuf,
    pub(super) path: PathBuf,
}

impl Tests {
    /// Runs the programs of `packages` on a mutant, 0 for none, until one does not pass.
    ///
    /// # Errors
    /// One cannot be run, which says nothing about the mutant.
    pub(super) fn run(&self, choice: usize, packages: &[&str]) -> Result<Ended, String> {
        for program in self.0.iter().filter(|program| packages.contains(&program.package.as_str())) {
            let ended = program.run(choice)?;
            if ended != Ended::Passed {
                return Ok(ended);
            }
        }
        Ok(Ended::Passed)
    }

    /// Runs every program without a mutant, and puts those first that take the least time.
    ///
    /// # Errors
    /// One cannot be run or does not pass: what it says about mutants means nothing.
    pub(super) fn baseline(&mut self) -> Result<(), String> {
        let mut times = Vec::new();
        for program in self.0.drain(..) {
            let start = Instant::now();
            if program.run(0)? != Ended::Passed {
                return Err(format!("without a mutant, {} does not pass", program.path.display()));
            }
            times.push((start.elapsed(), program));
        }
        times.sort_by_key(|(time, _)| *time);
        self.0 = times.into_iter().map(|(_, program)| program).collect();
        Ok(())
    }
}

impl Program {
    /// Runs the program until its first test fails: what the others say changes nothing.
    fn run(&self, choice: usize) -> Result<Ended, String> {
        let cannot = |error: std::io::Error| format!("{} cannot be run: {error}", self.path.display());
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).env(CHOICE, choice.to_string());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(cannot)?;
        let failed = Arc::new(AtomicBool::new(false));
        if let Some(output) = child.stdout.take() {
            let failed = Arc::clone(&failed);
            // Ends with the program, and with what that has started.
            thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                lines.filter(|line| line.ends_with(FAILED)).for_each(|_| failed.store(true, Ordering::Relaxed));
            });
        }
        let start = Instant::now();
        let ended = loop {
            match child.try_wait().map_err(cannot)? {
                Some(status) => return Ok(if status.success() { Ended::Passed } else { Ended::Failed }),
                None if failed.load(Ordering::Relaxed) => break Ended::Failed,
                None if start.elapsed() < LIMIT && !takes_too_much(child.id()) => thread::sleep(LOOK),
                None => break Ended::TimedOut,
            }
        };
        // Killing one that has just ended fails, which is as good.
        let _ = child.kill();
        let _ = child.wait();
        Ok(ended)
    }
}

/// Conformance cases, as the second judge.
pub(super) struct Cases(pub(super) PathBuf);

impl Cases {
    fn run(&self, number: u32, filter: &str) -> run::Ended {
        run::run(&Order { program: &self.0, number, filter, options: &[], repeat: 1 })
    }

    /// What the cases say about a mutant, 0 for none.
    ///
    /// # Errors
    /// They cannot be run, which says nothing about the mutant.
    pub(super) fn verdict(&self, choice: usize) -> Result<Verdict, String> {
        let number = u32::try_from(choice).map_err(|error| error.to_string())?;
        match verdict_of(AREAS.into_iter(), |filter| self.run(number, filter)) {
            Verdict::Broken { reason } => Err(format!("{} cannot be run: {reason}", self.0.display())),
            verdict => Ok(verdict),
        }
    }

    /// Runs the cases without a mutant.
    ///
    /// # Errors
    /// One does not pass, or there is none: what they say about mutants means nothing.
    pub(super) fn baseline(&self) -> Result<(), String> {
        for area in AREAS {
            match self.run(0, area) {
                run::Ended::Passed { passed: 1.., .. } => {}
                other => return Err(format!("without a mutant, {area}: {other:?}")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_that_cannot_be_run_says_nothing_about_a_mutant() {
        let program = |path: &str| Program { package: "p".into(), folder: "/".into(), path: path.into() };
        let run = |path: &str| Tests(vec![program(path)]).run(1, &["p"]);
        assert_eq!((run("/bin/true"), run("/bin/false")), (Ok(Ended::Passed), Ok(Ended::Failed)));
        let error = run("/nowhere/program").unwrap_err();
        assert!(error.contains("/nowhere/program"), "{error}");
        assert!(Cases("/nowhere/campanile".into()).verdict(1).unwrap_err().contains("/nowhere/campanile"));
    }

    #[test]
    fn a_program_is_ended_at_its_first_test_that_fails() {
        let path = std::env::temp_dir().join(format!("campanile-first-failure-{}.sh", std::process::id()));
        fs::write(&path, "#!/bin/sh\necho 'test a ... ok'\necho 'test b ... FAILED'\nexec sleep 1000\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program { package: "p".into(), folder: "/".into(), path: path.clone() };
        let ended = program.run(1);
        fs::remove_file(&path).unwrap();
        assert_eq!(ended, Ok(Ended::Failed));
    }

    #[test]
    fn a_program_that_fails_without_a_mutant_judges_nothing() {
        let program = |path: &str| Program { package: "p".into(), folder: "/".into(), path: path.into() };
        assert!(Tests(vec![program("/bin/true")]).baseline().is_ok());
        assert!(Tests(vec![program("/bin/true"), program("/bin/false")]).baseline().is_err());
        // Neither runs a case.
        assert!(["/bin/true", "/bin/false"].iter().all(|path| Cases(path.into()).baseline().is_err()));
    }
}
