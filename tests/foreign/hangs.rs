//! Cases that do not end before their machine is there.

use serde_json::Value;

use crate::Toy;

/// The machine of a case that did not end keeps its function.
#[test]
fn a_start_that_does_not_end_is_named_and_so_is_what_the_next_case_waits_for() {
    let old = "    /* The table itself goes away";
    let wait = "    LARGE_INTEGER due = { .QuadPart = -3000000000LL };\n    KeDelayExecutionThread(KernelMode, FALSE, &due);\n";
    let Some(toy) = Toy::new("never-starts", old, &format!("{wait}{old}")) else { return };
    let limits = ["--timeout", "12", "--driver-limit", "200"];
    let output = toy.command("hlk", &[&["--json", "--filter", "AnyDriver.Adapter"], &limits[..]].concat());
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let reasons: Vec<String> = report["cases"].as_array().expect("cases").iter().map(Value::to_string).collect();
    let told = [["DxgkDdiStartDevice", "KeDelayExecutionThread"], ["did not end", "waits for its GPU to be attached"]];
    for (reason, parts) in reasons.iter().zip(told) {
        assert!(parts.iter().all(|part| reason.contains(part)), "{parts:?}: {reason}");
    }
    assert!(reasons.len() >= 2, "{report}");
}
