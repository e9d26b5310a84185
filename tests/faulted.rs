//! The conformance cases notice a GPU whose interrupts, logs or doorbells go wrong: what the system makes good is counted and fails a case.

use std::process::Command;

use serde_json::Value;

/// A hundred events, each of which needs an interrupt.
const EVENTS: &str = "NativeFence.EventIsSetWhenTheValueComes";

/// Runs the race between a signal and a CPU that begins to wait, on a GPU with a fault.
fn race(fault: &[&str]) -> Value {
    case("NativeFence.EveryWatchedSignalWakes", fault)
}

fn case(name: &str, fault: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    command.args(["hlk", "--json", "--filter", name]).args(fault);
    let output = command.output().expect("the command starts");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn lost_interrupts_turn_a_case_red_although_the_watchdog_wakes_the_waiters() {
    let report = case(EVENTS, &["--fault", "lost-interrupts=5%"]);
    let case = &report["cases"][0];
    assert_eq!((&report["failed"], &case["status"]), (&1.into(), &"failed".into()), "{case}");
    assert!(case["rescues"]["unreported-signal"].as_u64() > Some(0), "{case}");
    assert!(case["reason"].as_str().is_some_and(|reason| reason.contains("unreported-signal")), "{case}");
}

#[test]
fn lost_log_entries_turn_a_case_red_where_interrupts_name_queues() {
    let optimised = ["--fault", "lost-log-entries=5%", "--device-variant", "optimised-fence-interrupt"];
    let report = case(EVENTS, &optimised);
    let case = &report["cases"][0];
    assert_eq!((&report["failed"], &case["status"]), (&1.into(), &"failed".into()), "{case}");
    assert!(case["rescues"]["unreported-signal"].as_u64() > Some(0), "{case}");
}

#[test]
fn missed_rings_turn_the_race_red_although_the_watchdog_revives_the_queues() {
    let report = race(&["--fault", "missed-rings=0.1%"]);
    let case = &report["cases"][0];
    assert_eq!((&report["failed"], &case["status"]), (&1.into(), &"failed".into()), "{case}");
    assert!(case["rescues"]["missed-wake-up"].as_u64() > Some(0), "{case}");
}

/// Time is moved by hand there, so that the system asks a second time as soon as it has asked once.
#[test]
fn a_lost_report_of_a_suspension_turns_a_case_red_although_the_driver_answers_when_it_is_asked_again() {
    let report = case("Tdr.BlockedWorkIsNoHang", &["--fault", "lost-suspension"]);
    let case = &report["cases"][0];
    assert_eq!((&report["failed"], &case["status"]), (&1.into(), &"failed".into()), "{case}");
    assert_eq!(case["rescues"], serde_json::json!({ "unreported-suspension": 1 }), "{case}");
}

/// The contract allows these: a fence has its value before the message is sent, and a thread that gets one reads the value. Only a loss needs a rescue.
#[test]
fn late_doubled_and_reordered_interrupts_lose_nobody() {
    for fault in ["late-interrupts=5%", "doubled-interrupts=20%", "reordered-interrupts=5%"] {
        let report = race(&["--fault", fault]);
        let case = &report["cases"][0];
        assert_eq!((&report["passed"], &case["rescues"]), (&1.into(), &Value::Null), "{fault}: {case}");
    }
}

#[test]
fn threads_that_are_delayed_at_locks_lose_nobody_and_the_report_counts_the_delays() {
    let report = race(&["--lock-delays", "5%"]);
    let case = &report["cases"][0];
    assert_eq!((&report["passed"], &case["rescues"]), (&1.into(), &Value::Null), "{case}");
    assert!(report["lock_delays"].as_u64() > Some(100), "{report}");
}

#[test]
fn without_a_fault_nothing_is_made_good() {
    let report = race(&[]);
    assert_eq!((&report["passed"], &report["cases"][0]["rescues"]), (&1.into(), &Value::Null), "{report}");
    assert_eq!(report["lock_delays"], Value::Null, "{report}");
}

#[test]
fn a_report_says_of_each_case_what_it_ran_on_and_what_it_called() {
    let report = race(&["--fault", "late-interrupts=1%", "--device-variant", "doorbells=3", "--seed", "9"]);
    let (machine, calls) = (&report["cases"][0]["machine"], &report["cases"][0]["calls"]);
    assert_eq!((&machine["variant"]["doorbells"], &machine["seed"]), (&3.into(), &9.into()), "{machine}");
    assert_eq!((&machine["faults"][0], &machine["scheduling"]), (&"late-interrupts=1%".into(), &"hardware".into()));
    assert!(machine["driver"].is_string() && machine["bus"].is_string(), "{machine}");
    assert!(calls["DxgkDdiCreateNativeFence"].as_u64() > Some(0), "{calls}");
    assert!(machine["interrupts"].as_u64() > Some(0) && machine["interrupts"] == calls["DxgkDdiInterruptRoutine"]);
}

#[test]
fn a_report_tells_machines_apart_that_withhold_features_and_of_skipped_cases_too() {
    let machine = |options: &[&str]| case("NativeFence.EveryWatchedSignalWakes", options)["cases"][0].clone();
    let local = machine(&["--fence-storage", "local", "--without", "user-mode-submission"]);
    let told = |machine: &Value| (machine["fence_storage"].clone(), machine["without"].clone());
    assert_eq!(told(&local["machine"]), ("local".into(), "user-mode-submission".into()), "{local}");
    let skipped = machine(&["--without", "native-fence,user-mode-submission"]);
    assert_eq!(skipped["status"], "skipped", "{skipped}");
    assert_eq!(told(&skipped["machine"]), ("system".into(), "native-fence,user-mode-submission".into()), "{skipped}");
    assert_eq!(told(&machine(&[])["machine"]), ("system".into(), "".into()));
}
