//! `campanile soak`, for seconds: nothing is found where nothing is wrong, and what is wrong is found.

use std::process::{Command, Output};

use serde_json::Value;

fn soak(arguments: &[&str]) -> (Output, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    command.args(["soak", "--json"]).args(arguments).env("CAMPANILE_DRIVER", "linked").env_remove("CAMPANILE_BUS");
    let output = command.output().expect("a start");
    let report = serde_json::from_slice(&output.stdout).expect("a report");
    (output, report)
}

/// The findings of a report, a line each.
fn findings(report: &Value) -> Vec<&str> {
    report["findings"].as_array().expect("an array").iter().filter_map(Value::as_str).collect()
}

#[test]
fn programs_that_come_and_go_under_hangs_sleep_and_removal_leave_nothing() {
    let (output, report) = soak(&["--time", "30", "--interval", "4", "--programs", "8"]);
    assert_eq!(findings(&report), Vec::<&str>::new());
    assert_eq!(output.status.code(), Some(0));
    for did in ["steps", "processes", "terminated", "sleeps", "comparisons"] {
        assert!(report[did].as_u64() > Some(0), "no {did}: {report}");
    }
}

/// Queues of several processes wait for each other on nodes that the system hands packets to, one context after the other.
#[test]
fn packets_of_programs_that_wait_for_each_other_get_on() {
    let arguments = ["--without", "hardware-scheduling", "--time", "15", "--interval", "3", "--programs", "8"];
    let (output, report) = soak(&arguments);
    assert_eq!(findings(&report), Vec::<&str>::new());
    assert_eq!(output.status.code(), Some(0));
    assert!(report["steps"].as_u64() > Some(0), "{report}");
}

#[test]
fn interrupts_that_are_lost_are_found_though_the_system_makes_them_good() {
    let arguments = ["--calm", "--time", "10", "--interval", "3", "--programs", "4", "--fault", "lost-interrupts=50%"];
    let (output, report) = soak(&arguments);
    let told = findings(&report);
    let made_good = told.iter().find(|finding| finding.starts_with("made good by the system"));
    let made_good = made_good.unwrap_or_else(|| panic!("{report}"));
    assert!(made_good.contains(" ms late meanwhile, and the log ends with\n"), "{made_good}");
    assert!(report["longest_delay_ms"].is_u64(), "{report}");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("campanile soak: made good by the system"));
}
