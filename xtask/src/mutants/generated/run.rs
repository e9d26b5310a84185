//! Runs test programs on a mutant until one notices.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Variable of the environment that chooses, see `build::chooser`.
pub(super) const CHOICE: &str = "CAMPANILE_MUTANT";
/// Longest time a test program may take: many times what the slowest takes.
const LIMIT: Duration = Duration::from_secs(60);
/// Pages of memory that a test program may take.
const PAGES: u64 = 1 << 20;
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
    pub(super) fn run(&self, choice: usize, packages: &[&str]) -> Ended {
        let mut programs = self.0.iter().filter(|program| packages.contains(&program.package.as_str()));
        programs
            .find_map(|program| Some(program.run(choice)).filter(|ended| *ended != Ended::Passed))
            .unwrap_or(Ended::Passed)
    }

    /// Runs every program without a mutant, and puts those first that take the least time.
    ///
    /// # Errors
    /// One does not pass: what it says about mutants means nothing.
    pub(super) fn baseline(&mut self) -> Result<(), String> {
        let mut times = Vec::new();
        for program in self.0.drain(..) {
            let start = Instant::now();
            if program.run(0) != Ended::Passed {
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
    fn run(&self, choice: usize) -> Ended {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).env(CHOICE, choice.to_string());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = child else { return Ended::Failed };
        let start = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return if status.success() { Ended::Passed } else { Ended::Failed },
                Ok(None) if start.elapsed() < LIMIT && resident(child.id()) < PAGES => thread::sleep(LOOK),
                _ => {
                    // Killing one that has just ended fails, which is as good.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Ended::TimedOut;
                }
            }
        }
    }
}

/// Pages of memory that a process has; none where the system does not say.
fn resident(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}
