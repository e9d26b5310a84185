//! A machine that is served by the command.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A file for jobs.
pub(crate) const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

const LIMIT: Duration = Duration::from_secs(60);

/// The command, without a machine in its environment.
pub(crate) fn campanile() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    command.env_remove("CAMPANILE_MACHINE");
    command
}

/// A path for this test run.
pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

/// The exit code of a command that has to end by itself. One that does not is killed.
pub(crate) fn ends(child: &mut Child) -> Option<i32> {
    let began = Instant::now();
    loop {
        match child.try_wait().expect("a child") {
            Some(status) => return status.code(),
            None if began.elapsed() > LIMIT => {
                child.kill().expect("it runs");
                child.wait().expect("an end");
                panic!("a command that has to end goes on");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// A machine that is served, and ended with the test.
pub(crate) struct Machine {
    child: Child,
    pub(crate) socket: PathBuf,
}

impl Machine {
    /// Serves, with further arguments of the command.
    pub(crate) fn serve(name: &str, arguments: &[&str]) -> Self {
        Self::serve_by(campanile(), scratch(name), arguments)
    }

    /// As [`Machine::serve`], at this path.
    pub(crate) fn serve_at(socket: &Path, arguments: &[&str]) -> Self {
        Self::serve_by(campanile(), socket.to_path_buf(), arguments)
    }

    /// As [`Machine::serve`], by a process that may open so many descriptors.
    pub(crate) fn serve_with_descriptors(limit: usize, name: &str, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\"")]).arg(campanile().get_program());
        Self::serve_by(shell, scratch(name), arguments)
    }

    /// As [`Machine::serve`], by a process that ignores SIGHUP.
    pub(crate) fn serve_without_hangup(name: &str, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' HUP && exec \"$0\" \"$@\""]).arg(campanile().get_program());
        Self::serve_by(shell, scratch(name), arguments)
    }

    fn serve_by(mut command: Command, socket: PathBuf, arguments: &[&str]) -> Self {
        command.args(["machine", "--socket"]).arg(&socket).args(arguments).stdin(Stdio::null());
        let child = command.stderr(Stdio::piped()).spawn().expect("the command starts");
        let mut machine = Self { child, socket };
        let began = Instant::now();
        while !machine.tool(&["ctl", "look"]).status.success() {
            if !machine.is_running() {
                panic!("a machine that does not serve: {:?}", machine.stop());
            }
            assert!(began.elapsed() < LIMIT, "a machine that runs and does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        machine
    }

    /// Waits until something holds.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(began.elapsed() < LIMIT, "never: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the command has ended by itself.
    pub(crate) fn ends(&mut self) {
        let began = Instant::now();
        while self.is_running() {
            assert!(began.elapsed() < LIMIT, "the machine goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Runs a tool on the machine.
    pub(crate) fn tool(&self, arguments: &[&str]) -> Output {
        campanile().args(arguments).arg("--machine").arg(&self.socket).output().expect("the command starts")
    }

    /// Standard output of a tool, which must succeed and say nothing else.
    pub(crate) fn printed(&self, arguments: &[&str]) -> String {
        let output = self.tool(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{arguments:?}: {}: {said}", output.status);
        String::from_utf8(output.stdout).expect("text")
    }

    /// The answer of `ctl look`.
    pub(crate) fn look(&self) -> Value {
        let mut look: Value = serde_json::from_str(&self.printed(&["ctl", "look", "--json"])).expect("JSON");
        look["look"].take()
    }

    /// The main job, as a program of the machine.
    pub(crate) fn job(&self, file: &Path) -> Command {
        let mut command = campanile();
        command.args(["run", "--no-progress", "--machine"]).arg(&self.socket).arg(file);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Number of its process on the host.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Stops every thread of the machine by SIGSTOP: from here on its GPU does nothing that a program submits.
    pub(crate) fn suspend(&self) {
        let pid = self.pid();
        // SAFETY: a signal to a child that was not waited for yet.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0, "the machine takes no signal");
        let mut status = 0;
        // SAFETY: the status lies on the stack, and a child that has stopped remains a child to be waited for.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED) }, pid, "the machine has no state");
        assert!(libc::WIFSTOPPED(status), "the machine ended instead of stopping: {status:#x}");
    }

    /// Kills it, and leaves it to be waited for.
    pub(crate) fn kill(&self) {
        // SAFETY: a signal to a child that was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.pid(), libc::SIGKILL) }, 0, "it runs");
    }

    /// The pipe that is its standard error, until it is stopped.
    pub(crate) fn said(&self) -> &ChildStderr {
        self.child.stderr.as_ref().expect("piped")
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) {
        // SAFETY: a signal to a child that was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.pid(), libc::SIGTERM) }, 0, "it runs");
    }

    /// Asks it to stop, if it goes on. The answer is its exit code and what it has said.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        if self.is_running() {
            self.terminate();
        }
        let mut said = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        (self.child.wait().expect("an end").code(), said)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
