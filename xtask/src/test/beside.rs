//! What is built beside the debug build, into folders of its own: the Windows images, the package, and the program in release mode. One build alone leaves
//! processors idle where its crates wait for each other.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::build::{self, Built};
use super::output::Tally;
use super::task::captured;

/// A build that ended.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) took: Duration,
    /// What it printed, kept until nothing else prints.
    pub(super) output: String,
    /// The reason why the part failed.
    pub(super) note: Option<String>,
}

impl Step {
    pub(super) fn tally(&self) -> Tally {
        Tally::one(self.note.is_none())
    }
}

/// Builds that ended, in their order.
pub(super) struct Beside {
    pub(super) steps: Vec<Step>,
    /// The suite of the conformance cases and the program, in release mode, if that was asked for and built.
    pub(super) release: Option<Built>,
}

/// Builds images and package, and with `cargo` given, which is a command of cargo in the repository, the program in release mode. With `quick` the
/// images are not built a second time in another folder.
pub(super) fn build(root: &Path, quick: bool, cargo: Option<Command>) -> Beside {
    let images = if quick {
        task(root, "Windows images", &["pe"])
    } else {
        task(root, "Windows images, and the same in another folder", &["pe", "--again"])
    };
    let mut steps = vec![images, task(root, "driver package", &["package"])];
    let release = cargo.and_then(|command| {
        let (step, built) = release(command);
        steps.push(step);
        built
    });
    Beside { steps, release }
}

/// Runs another task of this program.
fn task(root: &Path, name: &'static str, words: &[&str]) -> Step {
    let start = Instant::now();
    // By the link of the kernel and not by its path, where the build of the tests may have put another file meanwhile.
    let mut command = Command::new("/proc/self/exe");
    let (output, note) = captured(command.current_dir(root).args(words).stdin(Stdio::null()));
    Step { name, took: start.elapsed(), output, note }
}

/// Messages of the compiler are shown as they come: they are errors, and rare.
fn release(mut command: Command) -> (Step, Option<Built>) {
    let start = Instant::now();
    command.args(["build", "--release", "-p", "campanile", "--test", "hlk", "--quiet", "--message-format=json"]);
    let (built, note) = match build::build(command) {
        Ok(built) if built.finished => (Some(built), None),
        Ok(_) => (None, Some("does not compile".into())),
        Err(message) => (None, Some(message)),
    };
    (Step { name: "build in release mode", took: start.elapsed(), output: String::new(), note }, built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_fails_is_a_failure_with_what_it_printed() {
        // The program of these tests knows no such option.
        let step = task(Path::new("."), "nothing", &["--no-such-option"]);
        assert_eq!(step.tally().failed, 1);
        assert!(step.output.contains("no-such-option"), "{}", step.output);
    }

    #[test]
    fn a_release_build_that_does_not_start_is_a_failure() {
        let (step, built) = release(Command::new("./no-such-cargo"));
        assert!(built.is_none());
        assert!(step.note.is_some_and(|note| note.starts_with("cargo does not start")));
    }
}
