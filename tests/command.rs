//! The command as its users meet it: output, exit codes, messages.

#[path = "command/vulkan.rs"]
mod vulkan;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest, Sha256};

const CHUNK: usize = 1 << 20;

fn campanile(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_campanile")).args(arguments).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", text(&output.stdout), text(&output.stderr)))
}

/// A directory of its own for one test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A file with bytes that no run of zeros or repetition could imitate.
    fn file(&self, name: &str, len: usize) -> String {
        let mut state = len as u64 ^ 0x9e37_79b9_7f4a_7c15;
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .collect();
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sha256(path: &str) -> String {
    Sha256::digest(fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn files_of_every_length_come_back_verified() {
    let scratch = Scratch::new("lengths");
    let lengths = [0, 1, 63, CHUNK - 1, CHUNK, CHUNK + 1, 4 * CHUNK, 7 * CHUNK + 12_345];
    let files: Vec<String> = lengths.iter().map(|len| scratch.file(&format!("{len}"), *len)).collect();
    let mut arguments = vec!["run", "--json"];
    arguments.extend(files.iter().map(String::as_str));
    let output = campanile(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = json(&output);
    for (index, (len, file)) in lengths.iter().zip(&files).enumerate() {
        let entry = &report["files"][index];
        assert_eq!(entry["path"], **file);
        assert_eq!(entry["bytes"], *len as u64);
        assert_eq!(entry["sha256"], sha256(file));
        assert_eq!(entry["verified"], true);
    }
    let totals = &report["totals"];
    let chunks: u64 = lengths.iter().map(|len| len.div_ceil(CHUNK) as u64).sum();
    assert_eq!(totals["bytes"], lengths.iter().sum::<usize>() as u64);
    assert_eq!(totals["submissions"], 3 * chunks);
    assert_eq!(totals["fence_signals"], 3 * chunks);
    assert_eq!(totals["gpu_waits"], 3 * chunks - 3, "every stage waits, but for the first three copies up");
    assert!(totals["doorbell_rings"].as_u64() >= Some(3 * chunks));
    assert!(totals["interrupts"].as_u64() <= Some(2 * chunks), "the CPU waits once a chunk");
    for figure in [&totals["mb_s"], &totals["memcpy_mb_s"], &totals["submit_ns"]["p50"], &totals["submit_ns"]["p99"]] {
        assert!(figure.as_f64() > Some(0.0), "{totals}");
    }
}

#[test]
fn whatever_features_are_withheld_files_come_back_and_the_report_says_how_queues_submit() {
    let scratch = Scratch::new("withheld");
    let file = scratch.file("file", 2 * CHUNK + 1);
    let user = "user mode writes the ring and rings the doorbell";
    let call = "each submission is a call that the GPU schedules";
    let packet = "each submission is a call that the operating system schedules";
    let no_scheduling = "because hardware scheduling is not enabled";
    let no_fences = "because the driver was not granted native fences";
    let no_user = "because the driver was not granted user-mode submission";
    for (without, how, why) in [
        ("", user, ": hardware scheduling, native fences and user-mode submission are enabled"),
        ("user-mode-submission", call, no_user),
        ("native-fence", call, no_fences),
        ("native-fence,user-mode-submission", call, no_fences),
        ("hardware-scheduling", packet, no_scheduling),
        ("hardware-scheduling,user-mode-submission", packet, no_scheduling),
        ("hardware-scheduling,native-fence", packet, no_scheduling),
        ("hardware-scheduling,native-fence,user-mode-submission", packet, no_scheduling),
    ] {
        let options = ["--without", without];
        let withheld = if without.is_empty() { &[][..] } else { &options };
        let output = campanile(&[&["run", "--json", &file][..], withheld].concat());
        assert_eq!(output.status.code(), Some(0), "{without}: {}", text(&output.stderr));
        let report = json(&output);
        assert_eq!(report["files"][0]["verified"], true, "{without}");
        let [reason] = &report["submission"].as_array().expect("reasons")[..] else { panic!("{without}: {report}") };
        let reason = reason.as_str().unwrap_or_default();
        assert!(reason.starts_with(how) && reason.contains(why), "{without}: {reason}");
    }
}

#[test]
fn a_missing_file_is_named_and_the_others_are_done() {
    let scratch = Scratch::new("missing");
    let good = scratch.file("good", 100_000);
    let missing = scratch.0.join("missing").to_string_lossy().into_owned();
    let directory = scratch.0.to_string_lossy().into_owned();
    let output = campanile(&["run", "--json", &missing, &directory, &good]);
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(errors.contains(&missing) && errors.contains("is a directory"), "{errors}");
    let report = json(&output);
    assert_eq!(report["files"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["files"][0]["path"], *good);
    assert_eq!(report["files"][0]["verified"], true);
}

#[test]
fn without_arguments_the_executable_and_the_readme_are_streamed() {
    let output = campanile(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("every byte verified") && table.contains("campanile"), "{table}");
    assert!(table.contains("MB/s") && table.contains("doorbells rung"), "{table}");
    assert!(!text(&output.stderr).contains('\u{1b}'), "no progress bar without a terminal");
}

#[test]
fn a_gpu_with_two_doorbells_shares_them_among_three_queues() {
    let scratch = Scratch::new("doorbells");
    let file = scratch.file("file", 6 * CHUNK);
    let output = campanile(&["run", "--json", "--device-variant", "doorbells=2,vram=32M", &file]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = json(&output);
    assert_eq!(report["files"][0]["verified"], true);
    assert!(report["totals"]["doorbell_reconnects"].as_u64() > Some(0), "{report}");
}

#[test]
fn a_variant_that_cannot_be_is_refused_by_name() {
    let output = campanile(&["run", "--device-variant", "vram=0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("vram=0") || text(&output.stderr).contains("not a size"));
    let output = campanile(&["run", "--device-variant", "vram=4K"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(!text(&output.stderr).is_empty());
}

/// A file of `target/pe`, where `cargo xtask pe` builds the Windows images.
fn image(name: &str) -> PathBuf {
    let path = testbed::setup::shipped(name);
    assert!(path.is_file(), "{} is missing; run `cargo xtask pe` first", path.display());
    path
}

/// Files that are no driver, and what must be said about each.
fn strangers(scratch: &Scratch) -> Vec<(PathBuf, &'static str)> {
    let file = |name: &str, bytes: &[u8]| {
        let path = scratch.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let driver = fs::read(image("campanile_kmd.sys")).unwrap();
    let mut for_32_bits = driver.clone();
    // The magic number of the optional header, behind the PE signature and the file header.
    let header = u32::from_le_bytes(driver[0x3c..0x40].try_into().unwrap()) as usize;
    for_32_bits[header + 24..header + 26].copy_from_slice(&0x10b_u16.to_le_bytes());
    // As much of this program as may be a driver.
    let mut elf = vec![0; 1 << 20];
    fs::File::open(std::env::current_exe().unwrap()).unwrap().read_exact(&mut elf).unwrap();
    vec![
        (scratch.0.join("missing.sys"), "No such file"),
        (scratch.0.clone(), "is a directory"),
        ("/dev/zero".into(), "is a device"),
        (file("text.sys", b"a text with the name of a driver\n"), "not a PE image"),
        (file("empty.sys", b""), "not a PE image"),
        (file("program", &elf), "not a PE image"),
        (file("old.sys", &for_32_bits), "32-bit"),
        (file("cut.sys", &driver[..driver.len() / 2]), "cut off"),
        (file("header.sys", &driver[..0x100]), "not a PE image"),
        (image("campanile_umd.dll"), "not a driver: subsystem 2"),
        // Its DriverEntry knows no mistake named after this service, and does not register.
        (image("test/faulty.sys"), "DriverEntry failed with STATUS_OBJECT_NAME_NOT_FOUND"),
    ]
}

#[test]
fn a_file_that_is_no_driver_is_refused_by_every_command_with_the_reason_and_what_to_do() {
    let scratch = Scratch::new("drivers");
    let file = scratch.file("file", 1000);
    for (path, reason) in strangers(&scratch) {
        let path = path.to_str().unwrap();
        for arguments in [
            &["run", "--driver", path, &file][..],
            &["hlk", "--driver", path, "--filter", "Capabilities."],
            &["--driver", path, "bench", "--quick", "--filter", "P4"],
        ] {
            let output = campanile(arguments);
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
            let advice = if reason.starts_with("DriverEntry") { "`--log`" } else { "--driver" };
            assert!([path, reason, advice].iter().all(|part| errors.contains(part)), "{arguments:?}: {errors}");
            assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
            assert!(output.stdout.is_empty(), "{arguments:?}: {}", text(&output.stdout));
        }
    }
}

#[test]
fn a_driver_image_of_ours_without_its_dll_is_refused() {
    let scratch = Scratch::new("alone");
    let alone = scratch.0.join("campanile_kmd.sys");
    fs::copy(image("campanile_kmd.sys"), &alone).unwrap();
    let output = campanile(&["run", "--driver", alone.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(errors.contains("user-mode driver") && errors.contains("campanile_umd.dll: No such file"), "{errors}");
    // Something else by that name.
    fs::copy(&alone, scratch.0.join("campanile_umd.dll")).unwrap();
    let errors = text(&campanile(&["hlk", "--driver", alone.to_str().unwrap()]).stderr);
    assert!(errors.contains("campanile_umd.dll: not a DLL"), "{errors}");
}

#[test]
fn the_images_do_the_main_job_wherever_the_option_stands_and_reports_say_so() {
    let scratch = Scratch::new("images");
    let file = scratch.file("file", 3 * CHUNK + 17);
    image("campanile_kmd.sys");
    for arguments in [&["--driver", "pe", "run", "--json", &file][..], &["run", "--driver", "pe", "--json", &file]] {
        let output = campanile(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        let report = json(&output);
        assert_eq!(report["files"][0]["verified"], true);
        for (key, name) in [("driver", "campanile_kmd.sys"), ("user_mode_driver", "campanile_umd.dll")] {
            let found = report[key].as_str().unwrap();
            assert!(found.contains(&format!("{name} (PDB ")), "{key}: {found}");
        }
    }
}

#[test]
fn help_and_version_are_there_for_every_command() {
    for arguments in [&["--help"][..], &["run", "--help"], &["bench", "--help"], &["hlk", "--help"]] {
        let output = campanile(arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("Exit codes:"), "{arguments:?}");
    }
    let version = campanile(&["--version"]);
    assert_eq!(text(&version.stdout).trim(), format!("campanile {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn cases_are_listed_and_filtered() {
    let output = campanile(&["hlk", "--list", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let all = json(&output).as_array().map(Vec::len);
    assert!(all >= Some(40));
    let output = campanile(&["hlk", "--list", "--json", "--filter", "NativeFence."]);
    let some = json(&output).as_array().map(Vec::len);
    assert!(some > Some(0) && some < all);
    let output = campanile(&["hlk", "--filter", "no such case"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn passing_cases_are_reported_as_json() {
    let output = campanile(&["hlk", "--json", "--driver", "linked", "--filter", "Capabilities.AdapterIsComputeOnly"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let report = json(&output);
    assert_eq!((&report["total"], &report["passed"], &report["failed"]), (&1.into(), &1.into(), &0.into()));
    assert_eq!(report["cases"][0]["status"], "passed");
    assert_eq!((&report["driver"], &report["user_mode_driver"]), (&"linked".into(), &"linked".into()));
    image("campanile_kmd.sys");
    let output = campanile(&["hlk", "--driver", "pe", "--filter", "Capabilities.AdapterIsComputeOnly"]);
    let lines = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{lines}");
    let wanted = ["\ndriver: ", "campanile_kmd.sys (PDB ", "\nuser-mode driver: ", "campanile_umd.dll (PDB "];
    assert!(wanted.iter().all(|wanted| lines.contains(wanted)), "{lines}");
    assert!(lines.trim_end().ends_with("1 passed, 0 failed, 0 skipped"), "{lines}");
}

#[test]
fn cases_are_repeated_and_written_for_build_servers() {
    let scratch = Scratch::new("junit");
    let file = scratch.0.join("report.xml");
    let path = file.to_str().unwrap();
    let filter = "Capabilities.AdapterIsComputeOnly";
    let output = campanile(&["hlk", "--filter", filter, "--repeat", "3", "--timeout", "60", "--junit", path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).trim_end().ends_with("3 passed, 0 failed, 0 skipped"));
    let xml = fs::read_to_string(&file).unwrap();
    assert_eq!(xml.matches("<testcase ").count(), 3, "{xml}");
    assert!(xml.contains(r#"tests="3" skipped="0" failures="0""#), "{xml}");
    let nowhere = campanile(&["hlk", "--filter", filter, "--junit", "/nowhere/report.xml"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(text(&nowhere.stderr).contains("/nowhere/report.xml: No such file"));
    assert_eq!(campanile(&["hlk", "--repeat", "0"]).status.code(), Some(2));
}

#[test]
fn a_run_is_shared_by_parts_and_put_together_again() {
    let scratch = Scratch::new("shards");
    let filter = "Capabilities.";
    let part = |shard: &str, seed: &str| {
        let output = campanile(&["hlk", "--filter", filter, "--json", "--shard", shard, "--seed", seed]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let file = scratch.0.join(format!("{}-{seed}.json", shard.replace('/', "-")));
        fs::write(&file, &output.stdout).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let parts = ["1/2", "2/2"].map(|shard| part(shard, "7"));
    let names = |report: &Value| -> Vec<String> {
        report["cases"].as_array().unwrap().iter().map(|case| case["name"].as_str().unwrap().to_owned()).collect()
    };
    let merged = json(&campanile(&["hlk", "--json", "--merge", &parts[1], &parts[0]]));
    let listed = json(&campanile(&["hlk", "--list", "--json", "--filter", filter]));
    let mut wanted: Vec<String> =
        listed.as_array().unwrap().iter().map(|case| case["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names(&merged), wanted, "every case once, in the order of a whole run");
    wanted.sort();
    assert_eq!((&merged["seed"], &merged["shard"]), (&7.into(), &Value::Null));
    let missing = campanile(&["hlk", "--merge", &parts[0]]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("part 2 of 2 is missing"), "{}", text(&missing.stderr));
    let other = campanile(&["hlk", "--merge", &parts[0], &part("2/2", "8")]);
    assert!(text(&other.stderr).contains("not of one run"), "{}", text(&other.stderr));
    assert_eq!(campanile(&["hlk", "--shard", "3/2"]).status.code(), Some(2));
    let mut renamed: Value = serde_json::from_slice(&fs::read(&parts[0]).unwrap()).unwrap();
    renamed["cases"][0]["name"] = "Device.Graphics.WDDM32.Capabilities.NoSuchCase".into();
    let changed = scratch.0.join("changed.json");
    fs::write(&changed, renamed.to_string()).unwrap();
    let refused = campanile(&["hlk", "--merge", changed.to_str().unwrap(), &parts[1]]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("has the case Device.Graphics.WDDM32.Capabilities.NoSuchCase"));
    let at_once = json(&campanile(&["hlk", "--filter", filter, "--json", "--jobs", "3", "--repeat", "2"]));
    let mut found = names(&at_once);
    found.sort();
    let twice: Vec<String> = wanted.iter().flat_map(|name| [name.clone(), name.clone()]).collect();
    assert_eq!((found, &at_once["failed"]), (twice, &0.into()), "every case twice, whichever ran beside it");
    assert_eq!(campanile(&["hlk", "--jobs", "0"]).status.code(), Some(2));
}

#[test]
fn a_failed_case_of_a_part_fails_the_whole() {
    let scratch = Scratch::new("failed-shard");
    let name = "Device.Graphics.WDDM32.NativeFence.EventIsSetWhenTheValueComes";
    let about = r#""area": "A", "page": "p", "status": "failed", "ms": 1, "reason": "found 0, expected 1""#;
    let case = format!(r#"{{"name": "{name}", {about}}}"#);
    let drivers = r#""driver": "linked", "user_mode_driver": "linked", "special_pool": "off""#;
    let run = format!(r#""seed": 1, "filter": "{name}", "rounds": 1, "shard": {{"index": 1, "of": 1}}"#);
    let sums = r#""total": 1, "passed": 0, "failed": 1, "skipped": 0"#;
    let file = scratch.0.join("part.json");
    fs::write(&file, format!("{{{drivers}, {run}, {sums}, \"cases\": [{case}]}}")).unwrap();
    let output = campanile(&["hlk", "--merge", file.to_str().unwrap()]);
    let lines = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(lines.contains(&format!("FAIL  {name}")) && lines.contains("found 0, expected 1"), "{lines}");
    assert!(lines.trim_end().ends_with("0 passed, 1 failed, 0 skipped"), "{lines}");
}

#[test]
fn special_pool_of_a_driver_image_is_asked_for_and_reported() {
    image("campanile_kmd.sys");
    let scratch = Scratch::new("special-pool");
    let file = scratch.file("a", 100_000);
    for (option, name) in [("--special-pool", "end"), ("--special-pool=start", "start")] {
        let output = campanile(&["run", "--json", "--driver", "pe", option, &file]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report = json(&output);
        assert_eq!((&report["special_pool"], &report["files"][0]["verified"]), (&name.into(), &true.into()));
    }
    assert_eq!(campanile(&["run", "--special-pool=both", &file]).status.code(), Some(2));
}

/// A copy of the image that makes the mistake that its service is named after.
fn mistaken(scratch: &Scratch, mistake: &str) -> String {
    let path = scratch.0.join(mistake).with_extension("sys");
    fs::copy(image("test/faulty.sys"), &path).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_driver_image_that_loops_ends_the_run_with_the_name_of_the_call() {
    let scratch = Scratch::new("loops");
    let file = scratch.file("a", 1000);
    const STUCK: &str = "THREAD_STUCK_IN_DEVICE_DRIVER 0xEA";
    const IN_DPC: &str = "DPC_WATCHDOG_VIOLATION 0x133";
    for (mistake, call) in [("loop-in-entry", STUCK), ("loop-at-dispatch", IN_DPC), ("loop-in-start", STUCK)] {
        let driver = mistaken(&scratch, mistake);
        let output = campanile(&["run", "--driver-limit", "2", "--driver", &driver, &file]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{told}");
        let name = if mistake == "loop-in-start" { "DxgkDdiStartDevice" } else { "DriverEntry" };
        assert!(told.contains(&format!("{name} of driver {mistake} has not returned ")), "{told}");
        assert!(told.contains(&format!(" stopped: {call} (")), "{told}");
    }
    let refused = campanile(&["run", "--driver-limit", "0", &file]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_driver_image_that_overwrites_the_stack_it_has_to_return_to_ends_the_run_with_the_name_of_the_call() {
    let scratch = Scratch::new("overwrites");
    for mistake in ["overwrite-and-fault", "overwrite-and-call"] {
        let output = campanile(&["run", "--driver", &mistaken(&scratch, mistake), &scratch.file("a", 1000)]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{told}");
        let reason = format!("DxgkDdiQueryAdapterInfo of driver {mistake} has overwritten the stack of the kernel");
        assert!(told.contains(&reason), "{told}");
    }
}

#[test]
fn conformance_cases_fail_with_the_name_of_the_call_that_loops_and_the_next_ones_are_run() {
    let scratch = Scratch::new("looping-cases");
    let driver = mistaken(&scratch, "loop-in-start");
    let output =
        campanile(&["hlk", "--json", "--driver-limit", "2", "--driver", &driver, "--filter", "Capabilities.Node"]);
    let report = json(&output);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let cases = report["cases"].as_array().expect("cases");
    assert!(cases.len() > 1, "{report}");
    for case in cases {
        let reason = case["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("DxgkDdiStartDevice of driver loop-in-start has not returned for 2.0 s"), "{case}");
    }
}

#[test]
fn the_bench_reports_every_row_it_was_asked_for() {
    let output = campanile(&["bench", "--quick", "--json", "--filter", "P4"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = json(&output);
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["rows"][0]["id"], "P4");
    assert_eq!(report["rows"][0]["met"], true, "{report}");
    assert_eq!(campanile(&["bench", "--filter", "P99"]).status.code(), Some(2));
}

/// By a factor of a thousand, which no noise of a machine explains.
#[test]
fn the_bench_beside_an_earlier_report_says_what_got_slower_and_ends_with_1() {
    let scratch = Scratch::new("compare");
    let rows = ["bench", "--quick", "--json", "--filter", "P1L"];
    let report = json(&campanile(&rows));
    for (factor, verdict, code) in [(1000.0, "faster", 0), (0.001, "slower", 1)] {
        let mut earlier = report.clone();
        let ratio = &mut earlier["rows"][0]["ratio"];
        for number in ["/p50", "/interval/0", "/interval/1"] {
            let value = ratio.pointer_mut(number).expect("it is in the report");
            *value = (value.as_f64().expect("a number") * factor).into();
        }
        let file = scratch.0.join("earlier.json");
        fs::write(&file, earlier.to_string()).expect("it can be written");
        let output = campanile(&[&rows[..], &["--compare", file.to_str().expect("a path of this test")]].concat());
        let told = &json(&output)["comparison"];
        assert_eq!((&told["changes"][0]["verdict"], output.status.code()), (&verdict.into(), Some(code)), "{told}");
    }
    for file in ["/no/such/report.json", "README.md"] {
        let output = campanile(&["bench", "--compare", file]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(file) && output.stdout.is_empty(), "{}", text(&output.stderr));
    }
}

#[test]
fn a_hang_is_reported_and_what_the_driver_told_is_decoded() {
    let scratch = Scratch::new("fault");
    let data = scratch.file("data", 3 * CHUNK);
    let information = scratch.0.join("debug.bin").display().to_string();
    let fault = ["--fault", "hang:node=0,after=1,reported", "--debug-information", &information];
    let output = campanile(&["run", "--no-progress", fault[0], fault[1], fault[2], fault[3], &data]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    for part in ["node 0: the driver reported the engine as hung", "guilty", "campanile run", "applied 1 times"] {
        assert!(told.contains(part), "{part:?} is not in\n{told}");
    }
    let decoded = campanile(&["debug", "decode", &information]);
    assert_eq!(decoded.status.code(), Some(0), "{}", text(&decoded.stderr));
    assert!(text(&decoded.stdout).contains("Debug information for bug check 0x141: the device is running"));
    let data_of = json(&campanile(&["debug", "decode", "--json", &information]));
    assert_eq!((&data_of["reason"], &data_of["cut"]), (&0x141.into(), &false.into()), "{data_of}");
    let rings = data_of["rings"].as_array().expect("rings");
    let queue = rings.iter().find(|ring| ring["component"] == "queue").expect("the ring of queues");
    let events = queue["events"].as_array().expect("events");
    assert!(events.iter().any(|event| event["event"] == "DoorbellConnected"), "{queue}");
    let other = campanile(&["debug", "decode", &data]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("no debug information"), "{}", text(&other.stderr));
    let unknown = campanile(&["run", "--fault", "explode"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("unknown fault `explode`"), "{}", text(&unknown.stderr));
}

/// TdrLevelBugcheck: "Bug check on detected timeout". [tdr-registry-keys: TdrLevel]
#[test]
fn timeouts_follow_the_values_of_the_registry_that_the_command_line_has() {
    let scratch = Scratch::new("tdr");
    let data = scratch.file("data", 3 * CHUNK);
    let fault = ["--fault", "hang:node=0,after=1"];
    let output = campanile(&["run", "--no-progress", "--tdr", "TdrLevel=1,TdrDelay=1", fault[0], fault[1], &data]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("0x117") || told.contains("0x116"), "{told}");
    let mut by_variable = Command::new(env!("CARGO_BIN_EXE_campanile"));
    by_variable.args(["run", "--no-progress", &data]).env("CAMPANILE_TDR", "TdrWait=1");
    for output in [campanile(&["run", "--tdr", "TdrWait=1"]), by_variable.output().expect("the command runs")] {
        assert!(matches!(output.status.code(), Some(2 | 3)));
        assert!(text(&output.stderr).contains("there is no setting `TdrWait`"), "{}", text(&output.stderr));
    }
    let cases = campanile(&["hlk", "--tdr", "TdrDelay=1", "--list"]);
    assert_eq!(cases.status.code(), Some(2));
    assert!(text(&cases.stderr).contains("--tdr cannot be used with `hlk`"), "{}", text(&cases.stderr));
}

#[test]
fn the_command_line_of_a_guest_with_a_disk_is_printed_and_nothing_is_started() {
    let output = campanile(&["qemu", "--disk", "w.qcow2", "--qemu", "/nonexistent/qemu", "--dry-run"]);
    let line = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(line.starts_with("/nonexistent/qemu \\\n"), "{line}");
    for part in ["vfio-user-pci", "file=w.qcow2,format=qcow2", "-device VGA", "file=w.qcow2.uefi", "port=5510"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn a_guest_without_its_disk_or_of_a_qemu_that_is_none_is_refused() {
    let output = campanile(&["qemu", "--disk", "/nonexistent/w.img", "--firmware", "/nonexistent/OVMF_CODE.fd"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/nonexistent/w.img is no file"), "{}", text(&output.stderr));
    let output = campanile(&["qemu", "--disk", "w.img", "--debugger", "nowhere", "--dry-run"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no address of a debugger"), "{}", text(&output.stderr));
    let output = campanile(&["guest"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("first process"), "{}", text(&output.stderr));
}
