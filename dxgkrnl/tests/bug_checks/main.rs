//! Violations of a driver that stop the machine, as documented: one row for each value of parameter 1, with the driver that commits it or
//! the reason why none can. [debugger: 0x119, 0x10e, 0x133, 0xea]
//!
//! Each test runs its scenario twice: with the mistake, after which the machine has stopped with exactly these parameters, and without,
//! which goes through. `docs/bug-checks.md` is printed from the same table; `cargo xtask docs` writes it.

#[allow(dead_code)] // Each test program uses its part of the shared miniport.
#[path = "../minimal/mod.rs"]
mod minimal;
#[allow(dead_code)]
#[path = "../packet_engine/mod.rs"]
mod packet_engine;
#[allow(dead_code)]
#[path = "../user_mode/mod.rs"]
mod user_mode;

mod documented;
mod kernel;
mod memory;
mod scheduler;
mod watchdog;

use std::fmt::Write as _;
use std::path::Path;

use dxgkrnl::verifier::Bugcheck;

use documented::{DOCUMENTED, OUT_OF_REACH, THREAD};

/// Runs with a driver that breaks the rule, or with one that keeps it. What the machine stopped with, and the parameters 2 to 4 that the
/// mistake earns; `None` if it went through.
type Scenario = fn(breaks: bool) -> Option<(Bugcheck, [u64; 3])>;

/// A violation that some driver here commits.
struct Violation {
    code: u32,
    parameter: u64,
    /// Description of the driver's mistake, for the table in docs/bug-checks.md.
    commits: &'static str,
    /// Parameters 2 to 4 here.
    parameters: &'static str,
    test: &'static str,
}

fn prove(code: u32, parameter: u64, scenario: Scenario) {
    let (bugcheck, [second, third, fourth]) = scenario(true).expect("the machine goes on");
    let parameter = if parameter == THREAD { bugcheck.parameters[0] } else { parameter };
    assert_eq!((bugcheck.code, bugcheck.parameters), (code, [parameter, second, third, fourth]), "{bugcheck}");
    assert!(scenario(false).is_none(), "the scenario stops the machine without the mistake");
}

macro_rules! violations {
    ($($code:literal, $parameter:tt: $commits:literal, $parameters:literal => $test:ident by $scenario:path;)*) => {
        const VIOLATIONS: &[Violation] = &[$(Violation {
            code: $code,
            parameter: $parameter,
            commits: $commits,
            parameters: $parameters,
            test: stringify!($test),
        }),*];
        $(
            #[test]
            fn $test() {
                prove($code, $parameter, $scenario);
            }
        )*
    };
}

violations! {
    0x119, 0x1: "reports a packet as complete that was never submitted", "the id, the last completed id, the last submitted id"
        => a_fence_id_that_is_not_under_way by scheduler::invalid_fence;
    0x119, 0x2: "answers DxgkDdiSubmitCommandVirtual with an error that the function does not know",
        "the answer, address of the arguments, 0"
        => a_packet_that_is_refused by scheduler::refused_packet;
    0x119, 0x5: "reports a page fault of a paging packet", "the packet's id, the address, the node"
        => a_paging_packet_that_faults by scheduler::faulted_paging;
    0x119, 0x7: "reports a vertical sync", "the interrupt type, 0, 0"
        => a_vertical_sync_without_a_display by scheduler::vertical_sync;
    0x119, 0x8: "answers DxgkDdiQueryDependentEngineGroup without the node itself", "the mask, the node, 0"
        => a_group_of_engines_without_the_engine by scheduler::dependent_engines;
    0x119, 0x9: "answers DxgkDdiCancelCommand with an error", "the answer, address of the arguments, 0"
        => a_packet_that_is_not_cancelled by scheduler::uncancelled_packet;
    0x119, 0xa: "calls an id in DxgkDdiResetEngine the last aborted one that lies behind all that was submitted",
        "the id, the last completed id, the last submitted id"
        => an_aborted_id_behind_the_last_submitted by scheduler::aborted_fence;
    0x119, 0xc: "reports a page fault with FATAL_HARDWARE_ERROR", "the flags, the address, 0"
        => a_fault_of_broken_hardware by scheduler::fatal_fault;
    0x119, 0xd: "reports a page fault without an id that asks for no reset", "the flags, 0, 0"
        => fault_flags_that_contradict_each_other by scheduler::inconsistent_flags;
    0x119, 0x10: "reports a state of the engine before DxgkDdiResumeHwEngine", "the node, the interrupt type, 0"
        => a_report_between_reset_and_resumption by scheduler::early_report;
    0x119, 0x11: "reports a suspension that nobody asked for", "the context, the fence value, 0"
        => a_suspension_that_was_never_issued by scheduler::unknown_suspension;
    0x119, 0x12: "answers DxgkDdiUpdateMonitoredValues with an error", "the answer, 0, 0"
        => monitored_values_that_are_not_updated by scheduler::monitored_values;
    0x119, 0x13: "answers DxgkDdiUpdateCurrentValuesFromCpu with an error", "the answer, 0, 0"
        => current_values_that_are_not_updated by scheduler::current_values;
    0x10e, 0x9: "calls an allocation busy that leaves its segment when nothing is under way any more",
        "the operation, the answer, 0"
        => an_allocation_that_does_not_leave by memory::busy_eviction;
    0x10e, 0xb: "answers DxgkDdiBuildPagingBuffer with an error that the function does not know", "the operation, the answer, 0"
        => a_paging_buffer_that_is_not_built by memory::illegal_answer;
    0x10e, 0x12: "moves pDmaBuffer behind the end of the buffer", "bytes used, bytes of the buffer, 0"
        => a_paging_buffer_that_overflows by memory::buffer_overflow;
    0x10e, 0x13: "moves pDmaBufferPrivateData behind the end of the private data", "bytes used, bytes of the private data, 0"
        => private_data_that_overflow by memory::private_overflow;
    0x10e, 0x17: "leaves out the value of a paging queue's fence that somebody waits for", "the value, the fence's value, the engine"
        => a_paging_fence_that_is_never_written by memory::unwritten_fence;
    0x10e, 0x2d: "answers DxgkDdiMapCpuHostAperture with an error other than STATUS_NO_MEMORY", "the answer, 0, 0"
        => a_window_that_does_not_open by memory::window_not_opened;
    0x10e, 0x2e: "answers DxgkDdiUnmapCpuHostAperture with an error", "the answer, 0, 0"
        => a_window_that_does_not_close by memory::window_not_closed;
    0x10e, 0x30: "answers DxgkDdiBuildPagingBuffer for page-table entries, which it writes by the CPU and without a buffer, with STATUS_GRAPHICS_ALLOCATION_BUSY", "the operation, the answer, 0"
        => page_table_entries_that_are_refused by memory::table_refused;
    0x133, 0x0: "loops in DxgkDdiDpcRoutine", "looks of the watchdog that found it there, looks that may, 0"
        => a_dpc_that_does_not_return by watchdog::dpc_routine;
    0x133, 0x1: "loops in DxgkDdiStartDevice with a spin lock", "looks of the watchdog that may find it so, 0, 0"
        => a_spin_lock_that_is_not_released by watchdog::spin_lock;
    0xea, THREAD: "loops in DxgkDdiStartDevice", "0, 0, 1"
        => a_start_that_does_not_return by watchdog::start_device;
}

/// What holds a documented row: a violation, or the reason for none.
fn holder(code: u32, parameter: u64) -> Vec<Result<&'static Violation, &'static str>> {
    let committed = VIOLATIONS.iter().filter(|row| (row.code, row.parameter) == (code, parameter)).map(Ok);
    let groups = OUT_OF_REACH.iter().filter(|(of, parameters, _)| *of == code && parameters.contains(&parameter));
    committed.chain(groups.map(|(.., reason)| Err(*reason))).collect()
}

#[test]
fn every_documented_row_has_a_driver_that_commits_it_or_a_reason_and_nothing_else_has() {
    for (code, _, rows) in DOCUMENTED {
        for (parameter, _) in *rows {
            let holders = holder(*code, *parameter);
            assert_eq!(holders.len(), 1, "0x{code:X}, parameter 1 0x{parameter:X}");
            let words = holders[0].map_or_else(|reason| reason, |violation| violation.commits);
            assert!(words.len() > 15, "0x{code:X}, 0x{parameter:X}: {words}");
        }
    }
    let documented = |code: u32, parameter: u64| {
        DOCUMENTED.iter().any(|(of, _, rows)| *of == code && rows.iter().any(|(value, _)| *value == parameter))
    };
    assert!(VIOLATIONS.iter().all(|row| documented(row.code, row.parameter)), "a violation of no documented row");
    for (code, parameters, _) in OUT_OF_REACH {
        assert!(parameters.iter().all(|parameter| documented(*code, *parameter)), "a reason for no documented row");
    }
    let count = |code| VIOLATIONS.iter().filter(|row| row.code == code).count();
    let counts = [0x119, 0x10e, 0x133, 0xea].map(count);
    assert_eq!(counts, [13, 8, 2, 1], "violations that are committed");
}

fn document() -> String {
    let mut out = "# Bug checks that a driver earns\n\n\
         Written from `dxgkrnl/tests/bug_checks` by `cargo xtask docs`. What Microsoft's pages list for parameter 1, in our own words, and for each \
         row the test\n(`cargo test -p dxgkrnl --test bug_checks NAME`) in which a driver commits it: the machine stops with exactly this \
         code and these parameters, and the same\nscenario without the mistake goes through. Only parameter 1 is documented, and those of 0xA and 0xEA; \
         the others are ours. The last column says why a row is out of\nreach where no driver can commit it here. Below are those of the kernel, which has \
         tables of all four parameters.\n"
        .to_owned();
    for (code, name, rows) in DOCUMENTED {
        let _ = write!(
            out,
            "\n## 0x{code:X} {name}\n\n| parameter 1 | violation | parameters 2 to 4 | committed by |\n| --- | --- | --- | --- |\n"
        );
        for (parameter, meaning) in *rows {
            let first = if *parameter == THREAD { "the thread".to_owned() } else { format!("0x{parameter:X}") };
            let _ = match holder(*code, *parameter).first() {
                Some(Ok(row)) => {
                    writeln!(out, "| {first} | {meaning} | {} | `{}`: {} |", row.parameters, row.test, row.commits)
                }
                Some(Err(reason)) => writeln!(out, "| {first} | {meaning} | | nobody: {reason} |"),
                None => writeln!(out, "| {first} | {meaning} | | |"),
            };
        }
    }
    out.push_str(&kernel::document());
    out
}

#[test]
fn the_document_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/bug-checks.md");
    let fresh = document();
    if std::env::var_os("CAMPANILE_WRITE_DOCS").is_some() {
        std::fs::write(&path, fresh).expect("the document can be written");
        return;
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == fresh, "docs/bug-checks.md is stale: run `cargo xtask docs`");
}
