//! `campanile machine`, and the main job of programs that it serves.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

fn campanile() -> Command {
    Command::new(env!("CARGO_BIN_EXE_campanile"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A machine that is served, and ended with the test.
struct Machine {
    child: Child,
    socket: PathBuf,
}

impl Machine {
    fn serve(name: &str) -> Self {
        let socket = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.sock", std::process::id()));
        let mut command = campanile();
        command.args(["machine", "--socket"]).arg(&socket).stdin(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("the command starts");
        let began = Instant::now();
        while !socket.exists() {
            assert!(began.elapsed() < LIMIT, "the machine has no socket");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, socket }
    }

    /// Asks it to stop. The answer is its exit code and what it has said.
    fn stop(mut self) -> (Option<i32>, String) {
        // SAFETY: a signal to a child that was not waited for yet.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let output = self.child.stderr.take().expect("piped");
        let said = std::io::read_to_string(output).expect("text");
        (self.child.wait().expect("an end").code(), said)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run_at(socket: &Path) -> Command {
    let mut command = campanile();
    command.args(["run", "--json", "--machine"]).arg(socket).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
    command
}

#[test]
fn main_jobs_of_several_programs_share_a_machine() {
    let machine = Machine::serve("jobs");
    let start = || run_at(&machine.socket).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start");
    for child in [start(), start(), start()] {
        let Output { status, stdout, stderr } = child.wait_with_output().expect("an end");
        assert_eq!(status.code(), Some(0), "{}", text(&stderr));
        let report: Value = serde_json::from_slice(&stdout).expect("JSON");
        assert_eq!(report["files"][0]["verified"], true);
        assert!(report["driver"].as_str().is_some_and(|driver| driver.starts_with("that of the machine at")));
        let totals = &report["totals"];
        assert!(totals["doorbell_rings"].as_u64() >= totals["submissions"].as_u64(), "{totals}");
        for figure in ["gpu_waits", "fence_signals", "interrupts"] {
            assert!(totals[figure].is_null(), "{figure} counts for all programs of the machine: {totals}");
        }
    }
    let (code, said) = machine.stop();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("campanile run").count() % 3, 0, "each came and left: {said}");
}

#[test]
fn a_job_without_a_machine_says_how_to_start_one_and_what_a_machine_decides_is_not_chosen() {
    let nowhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-machine.sock");
    let output = run_at(&nowhere).output().expect("a start");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("no machine at") && told.contains("campanile machine"), "{told}");
    for option in [
        &["--trace", "t"][..],
        &["--device-variant", "doorbells=1"],
        &["--without", "native-fence"],
        &["--driver", "pe"],
        &["--bus", "vfio-user"],
    ] {
        let output = run_at(&nowhere).args(option).output().expect("a start");
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains("cannot be used with"), "{option:?}: {told}");
    }
}
