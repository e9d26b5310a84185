//! Those who look on at a machine until they do not want to any more.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::served::{Machine, README, campanile, ends};

#[test]
fn top_ends_with_whoever_takes_its_lines() {
    let machine = Machine::serve("top-ends", &["--quiet"]);
    let top = |out: Stdio, json: &[&str]| {
        let mut command = campanile();
        command.args(["top", "--interval", "0.02"]).args(json).arg("--machine").arg(&machine.socket);
        command.stdout(out).stderr(Stdio::null()).spawn().expect("a start")
    };
    for json in [&[][..], &["--json"]] {
        let mut gone = top(Stdio::piped(), json);
        let mut line = String::new();
        BufReader::new(gone.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert_eq!(ends(&mut gone), Some(0), "a reader that went away has seen what it wanted");
        let full = OpenOptions::new().write(true).open("/dev/full").expect("a device of the host");
        assert_eq!(ends(&mut top(full.into(), json)), Some(2), "what it prints cannot be written");
    }
}

/// Scripts find who a fence is waited for by, and which engine and segment is meant, by numbers.
#[test]
fn lines_of_top_name_processes_engines_and_segments_as_looks_do() {
    let machine = Machine::serve("top-names", &["--quiet"]);
    let mut job = machine.job(README.as_ref()).spawn().expect("a start");
    machine.until("the program works", |machine| machine.look()["adapters"][0]["processes"][0]["id"].is_u64());
    let look = machine.look();
    let top: Value = serde_json::from_str(&machine.printed(&["top", "--json", "--count", "1"])).expect("JSON");
    for (list, name) in [("engines", "node"), ("engines", "physical_adapter"), ("segments", "segment")] {
        assert!(top["adapters"][0][list][0][name].is_u64(), "{list}, {name}: {top}");
        assert_eq!(top["adapters"][0][list][0][name], look["adapters"][0][list][0][name], "{list}, {name}");
    }
    let ids = |told: &Value| {
        told["adapters"][0]["processes"].as_array().expect("a list").iter().all(|one| one["id"].is_u64())
    };
    assert!(ids(&look) && ids(&top), "{top}");
    job.wait().expect("an end");
}

/// In tables and tree alike, as `ctl sleep-engine --physical-adapter` takes them.
#[test]
fn nodes_of_linked_adapters_are_named_with_the_adapter_in_front() {
    let machine = Machine::serve("linked", &["--quiet", "--device-variant", "linked"]);
    let (look, tree) = (machine.printed(&["ctl", "look"]), machine.printed(&["ctl", "tree"]));
    for node in ["0.0", "0.2", "1.0", "1.2"] {
        assert!(look.lines().any(|line| line.starts_with(&format!("{node} "))), "{node}: {look}");
        assert!(tree.contains(&format!("node {node}: packets submitted")), "{node}: {tree}");
    }
}

/// As `nohup` has it.
#[test]
fn a_machine_that_was_started_with_hangups_ignored_serves_on_after_one() {
    let machine = Machine::serve_without_hangup("nohup", &["--quiet"]);
    // SAFETY: a signal to a child that was not waited for yet.
    assert_eq!(unsafe { libc::kill(machine.pid(), libc::SIGHUP) }, 0, "it runs");
    assert_eq!(machine.job(std::path::Path::new(README)).status().expect("a start").code(), Some(0));
    assert_eq!(machine.stop(), (Some(0), String::new()));
}

#[test]
fn a_timeline_is_not_written_over_its_own_trace() {
    let machine = Machine::serve("same-file", &["--quiet", "--record", "1"]);
    let path = crate::served::scratch("same-file.html");
    let named = path.to_str().expect("text");
    let again = path.with_file_name(format!("./{}", path.file_name().expect("a name").to_str().expect("text")));
    for other in [named, again.to_str().expect("text")] {
        let output = machine.tool(&["timeline", "--live", "--seconds", "1", "--out", named, "--save", other]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("name another file with --out"), "{said}");
        assert!(!path.exists(), "nothing is written");
    }
    std::fs::write(&path, "a trace").expect("a file");
    let output = campanile().args(["timeline", named, "--out", named]).output().expect("a start");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "a trace");
    std::fs::remove_file(&path).expect("it is there");
}
