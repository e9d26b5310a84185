//! Cases that do not end before their machine is there.

use serde_json::Value;

use crate::mistakes::Broken;
use crate::{Toy, is_named};

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

/// Each submission takes seconds in the driver, so that a case of many has no end within its time.
#[test]
fn a_case_that_does_not_end_says_in_which_entry_point_the_driver_spends_its_time() {
    let slow = Broken {
        name: "slow-submissions",
        old: "    write_register(adapter, TOY_SUBMIT, args->SubmissionFenceId);\n    KeReleaseSpinLock(&adapter->submission, irql);\n    return STATUS_SUCCESS;",
        new: "    write_register(adapter, TOY_SUBMIT, args->SubmissionFenceId);\n    KeReleaseSpinLock(&adapter->submission, irql);\n    KeStallExecutionProcessor(4000000);\n    return STATUS_SUCCESS;",
        case: "AnyDriver.CommandsRunInTheirOrder",
        told: &["did not end within 30 s", "DxgkDdiSubmitCommandVirtual", "KeStallExecutionProcessor"],
    };
    let Some(toy) = Toy::new(slow.name, slow.old, slow.new) else { return };
    is_named(&toy, &slow, "30");
}
