//! The main job of programs that a machine serves.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::served::{Machine, README, campanile};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run_at(socket: &Path) -> Command {
    let mut command = campanile();
    command.args(["run", "--json", "--machine"]).arg(socket).arg(README);
    command
}

#[test]
fn main_jobs_of_several_programs_share_a_machine() {
    let machine = Machine::serve("jobs", &[]);
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

/// Each row asks for the machine, and a process is one program.
#[test]
fn every_row_about_a_machine_of_another_process_is_measured_on_one_that_is_served() {
    let machine = Machine::serve("bench", &[]);
    let mut command = campanile();
    let output = command.args(["bench", "--quick", "--machine"]).arg(&machine.socket).output().expect("a start");
    let (out, told) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{told}");
    for row in ["P1M", "P2M", "P6M"] {
        assert!(out.contains(row), "{row}: {out}");
    }
    let (code, said) = machine.stop();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("campanile bench").count(), 2, "it came and left: {said}");
}

/// Both are to differ by the process alone.
#[test]
fn a_machine_that_is_not_like_the_one_beside_which_it_is_measured_is_refused() {
    let machine = Machine::serve("bench-other", &["--quiet", "--device-variant", "doorbells=3"]);
    let bench = |options: &[&str]| machine.tool(&[&["bench", "--quick", "--filter", "P1M"], options].concat());
    let refused = bench(&[]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("its variant doorbells is 3, and here") && said.contains("give `bench` the options of that"),
        "{said}"
    );
    let measured = bench(&["--device-variant", "doorbells=3"]);
    assert_eq!(measured.status.code(), Some(0), "{}", text(&measured.stderr));
}

#[test]
fn a_run_of_cases_ends_with_the_machine_and_says_how_many_were_not_run() {
    let machine = Machine::serve("cases-end", &["--quiet"]);
    let mut command = campanile();
    command.args(["hlk", "--filter", "Fence", "--machine"]).arg(&machine.socket);
    let mut cases = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a start");
    let mut first = [0];
    cases.stdout.as_mut().expect("piped").read_exact(&mut first).expect("an outcome");
    machine.kill();
    let output = cases.wait_with_output().expect("an end");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("has gone, or has no adapter") && said.contains("cases were not run"), "{said}");
}

/// Before the machine is looked for.
#[test]
fn a_row_that_is_not_about_a_machine_of_another_process_is_refused_with_those_that_are() {
    let output = campanile().args(["bench", "--machine", "/nowhere/at.sock", "--filter", "C2"]).output();
    let output = output.expect("a start");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("P1M, P2M, P6M") && !said.contains("C2"), "{said}");
}

#[test]
fn a_job_without_a_machine_says_how_to_start_one_and_what_a_machine_decides_is_not_chosen() {
    let nowhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-machine.sock");
    let output = run_at(&nowhere).output().expect("a start");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("no machine at") && told.contains("campanile machine"), "{told}");
    // What is said of a file that is not there is said of a machine that is not there by every command.
    for command in [
        &["hlk", "--filter", "Capabilities."][..],
        &["bench", "--quick"],
        &["top"],
        &["ctl", "look"],
        &["timeline", "--live"],
    ] {
        let output = campanile().args(command).arg("--machine").arg(&nowhere).output().expect("a start");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {told}");
        assert!(told.contains("campanile machine --socket"), "{command:?}: {told}");
    }
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
