//! `cargo xtask fuzz`: a fuzz target under libFuzzer. docs/fuzzing.md is about it.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::str::FromStr;

use clap::Args;
use serde::Deserialize;

/// Nothing was found.
const EXIT_OK: u8 = 0;
/// An input does not hold.
const EXIT_FINDING: u8 = 1;
/// Nothing can be said: no such target, no C++ compiler, or the engine does not run.
const EXIT_INPUT: u8 = 2;

/// The host; naming it keeps the flags from build scripts and procedural macros.
const HOST: &str = "x86_64-unknown-linux-gnu";
/// What each target reads, by its name: the package's own table, because asking the package itself would compile the GPU and the compiler of programs here.
const TARGETS: &str = include_str!("../../fuzz/targets.toml");
/// The compiler's instrumentation, as cargo-fuzz asks for it, without what takes a nightly toolchain.
const FLAGS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

#[derive(Args)]
pub(crate) struct Options {
    /// The target; `--list` names all
    #[arg(required_unless_present = "list")]
    target: Option<String>,
    /// How long each process works: a number with s, m or h behind it
    #[arg(long, value_name = "TIME", default_value = "10m")]
    time: Duration,
    /// Processes that work at a time, on one corpus
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u32,
    /// Gives the target this one file, and says whether it holds
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "jobs"])]
    replay: Option<PathBuf>,
    /// Lists the targets and builds nothing
    #[arg(long, conflicts_with_all = ["target", "replay"])]
    list: bool,
}

/// Seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Duration(u64);

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [('s', 1), ('m', 60), ('h', 3600)];
        let found =
            units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?.parse::<u64>().ok()?, seconds)));
        let seconds = found.and_then(|(number, unit)| number.checked_mul(*unit)).filter(|seconds| *seconds > 0);
        seconds.map(Self).ok_or_else(|| format!("{text} is no time such as 90s, 10m or 2h"))
    }
}

/// The folders of one target, of which those below `target` are made when it runs.
struct Folders {
    committed: PathBuf,
    working: PathBuf,
    findings: PathBuf,
    regressions: PathBuf,
}

impl Folders {
    fn new(root: &Path, target: &str) -> Self {
        Self {
            committed: root.join("fuzz/corpus").join(target),
            working: root.join("target/fuzz/corpus").join(target),
            findings: root.join("target/fuzz/findings").join(target),
            regressions: root.join("fuzz/regressions").join(target),
        }
    }
}

/// Runs the command, and returns its exit code.
pub(crate) fn fuzz(root: &Path, options: &Options) -> u8 {
    let outcome = run(root, options);
    outcome.unwrap_or_else(|message| {
        eprintln!("xtask: {message}");
        EXIT_INPUT
    })
}

/// The targets, by what they need, with what they read.
#[derive(Deserialize)]
struct Targets {
    alone: BTreeMap<String, String>,
    machine: BTreeMap<String, String>,
}

fn run(root: &Path, options: &Options) -> Result<u8, String> {
    let targets: Targets = toml::from_str(TARGETS).map_err(|error| format!("the targets: {error}"))?;
    let all: BTreeMap<_, _> = targets.alone.iter().chain(&targets.machine).collect();
    let Some(name) = &options.target else {
        for (name, reads) in all {
            println!("{name:<16} {reads}");
        }
        return Ok(EXIT_OK);
    };
    if !all.contains_key(name) {
        let known: Vec<&str> = all.keys().map(|name| name.as_str()).collect();
        return Err(format!("there is no fuzz target {name}; there are {}", known.join(", ")));
    }
    let engine = build(root, targets.alone.contains_key(name))?;
    work(root, &engine, name, options)
}

/// Has the engine work on a target, and returns the exit code.
fn work(root: &Path, engine: &Path, name: &str, options: &Options) -> Result<u8, String> {
    let folders = Folders::new(root, name);
    for folder in [&folders.working, &folders.findings] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut command = Command::new(engine);
    command.env("CAMPANILE_FUZZ_TARGET", name).env("RUST_BACKTRACE", "1");
    command.arg(format!("-artifact_prefix={}/", folders.findings.display()));
    match &options.replay {
        Some(file) => command.arg(file.canonicalize().map_err(|error| format!("{}: {error}", file.display()))?),
        None => command.args(arguments(options)).args([&folders.working, &folders.committed]),
    };
    // With several jobs libFuzzer writes their logs to the folder in which it works.
    let status = command.current_dir(root.join("target/fuzz")).status();
    let status = status.map_err(|error| format!("the engine does not start: {error}"))?;
    conclude(name, &folders, options, status)
}

/// The options of libFuzzer: time in seconds, inputs of at most 4 KiB, 20 seconds for each.
fn arguments(options: &Options) -> Vec<String> {
    let mut arguments = vec![
        format!("-max_total_time={}", options.time.0),
        "-max_len=4096".to_owned(),
        "-timeout=20".to_owned(),
        "-print_final_stats=1".to_owned(),
    ];
    if options.jobs > 1 {
        arguments.extend([format!("-jobs={}", options.jobs), format!("-workers={}", options.jobs)]);
    }
    arguments
}

/// Builds the engine with the compiler's instrumentation, with the machine or without it.
fn build(root: &Path, alone: bool) -> Result<PathBuf, String> {
    let compiler = env::var_os("CXX").unwrap_or_else(|| "c++".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        return Err(format!(
            "there is no C++ compiler {}, with which libFuzzer is compiled; install g++",
            compiler.display()
        ));
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let folder = root.join(if alone { "target/fuzz/alone" } else { "target/fuzz" });
    let mut command = Command::new(cargo);
    command.args(["build", "--profile", "fuzz", "--locked", "--target", HOST]);
    command.args(["--package", "campanile-fuzz", "--bin", "campanile-fuzz-engine", "--features", "engine"]);
    if alone {
        command.arg("--no-default-features");
    }
    command.current_dir(root);
    command.env("CARGO_TARGET_DIR", &folder).env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    let status = command.status().map_err(|error| format!("cargo does not start: {error}"))?;
    if !status.success() {
        return Err(format!("the engine does not compile: {status}"));
    }
    Ok(folder.join(HOST).join("fuzz/campanile-fuzz-engine"))
}

/// Says what was found, and where a finding goes.
fn conclude(name: &str, folders: &Folders, options: &Options, status: ExitStatus) -> Result<u8, String> {
    // The engine ends with 2 where it was told no target, which is no finding.
    if status.code() == Some(2) {
        return Err(format!("the engine did not run: {status}"));
    }
    match (&options.replay, status.success()) {
        (Some(file), true) => println!("{name}: {} holds", file.display()),
        (Some(file), false) => println!("{name}: {} does not hold ({status})", file.display()),
        (None, true) => {
            let inputs = fs::read_dir(&folders.working).map(Iterator::count).unwrap_or_default();
            println!("{name}: nothing found; {inputs} inputs in the working corpus {}", folders.working.display());
        }
        (None, false) => {
            println!("{name}: an input does not hold ({status}); what was found is in {}", folders.findings.display());
            println!("run one again with: cargo xtask fuzz {name} --replay FILE");
            println!("when it is mended, keep it as a regression in {}", folders.regressions.display());
        }
    }
    Ok(if status.success() { EXIT_OK } else { EXIT_FINDING })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        for (text, seconds) in
            [("90s", Some(90)), ("10m", Some(600)), ("2h", Some(7200)), ("0m", None), ("10", None), ("m", None)]
        {
            assert_eq!(text.parse::<Duration>().ok(), seconds.map(Duration), "{text}");
        }
    }

    fn options(target: &str, jobs: u32, replay: Option<PathBuf>) -> Options {
        Options { target: Some(target.into()), time: Duration(7), jobs, replay, list: false }
    }

    #[test]
    fn an_unknown_target_is_refused_before_anything_is_built() {
        let refusal = run(Path::new("."), &options("nothing", 1, None)).expect_err("refused");
        assert!(refusal.starts_with("there is no fuzz target nothing; there are assembly, "), "{refusal}");
    }

    /// The exit code with an engine that ends as the target's name says, and the arguments that the engine got.
    fn worked(target: &str, jobs: u32, replay: Option<&str>) -> (Result<u8, String>, String) {
        let root = env::temp_dir().join(format!("xtask-fuzz-{target}-{jobs}-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder");
        fs::write(root.join("file"), "FAIL").expect("a file");
        let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine.sh");
        let code = work(&root, &engine, target, &options(target, jobs, replay.map(|file| root.join(file))));
        let arguments = fs::read_to_string(root.join("target/fuzz/ran")).unwrap_or_default();
        fs::remove_dir_all(&root).expect("removed");
        (code, arguments.replace(&format!("{}/", root.display()), "").trim_end().to_owned())
    }

    #[test]
    fn an_engine_that_finds_nothing_is_the_exit_code_0_and_gets_time_and_both_corpora() {
        let (code, arguments) = worked("exit-0", 1, None);
        assert_eq!(code, Ok(EXIT_OK));
        assert_eq!(
            arguments,
            "-artifact_prefix=target/fuzz/findings/exit-0/ -max_total_time=7 -max_len=4096 -timeout=20 -print_final_stats=1 \
             target/fuzz/corpus/exit-0 fuzz/corpus/exit-0"
        );
    }

    #[test]
    fn jobs_are_processes_and_what_one_of_them_finds_is_the_exit_code_1() {
        let (code, arguments) = worked("exit-1", 3, None);
        assert_eq!(code, Ok(EXIT_FINDING));
        assert!(arguments.contains(" -jobs=3 -workers=3 "), "{arguments}");
    }

    #[test]
    fn a_replayed_file_that_does_not_hold_is_the_exit_code_1_and_no_file_none_at_all() {
        let (code, arguments) = worked("exit-77", 1, Some("file"));
        assert_eq!(code, Ok(EXIT_FINDING));
        assert_eq!(arguments, "-artifact_prefix=target/fuzz/findings/exit-77/ file");
        let (refusal, arguments) = worked("exit-77", 1, Some("nothing"));
        assert!(refusal.expect_err("no file").contains("/nothing: "));
        assert_eq!(arguments, "", "the engine ran");
    }

    #[test]
    fn an_engine_that_is_killed_is_a_finding_and_one_that_knows_no_target_is_none() {
        assert_eq!(worked("killed", 1, None).0, Ok(EXIT_FINDING));
        let (refusal, _) = worked("exit-2", 1, None);
        assert!(refusal.expect_err("nothing can be said").starts_with("the engine did not run"));
    }
}
