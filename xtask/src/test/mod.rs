//! `cargo xtask test`: builds once, runs every suite, sums up.

mod beside;
mod build;
mod host;
mod output;
mod pool;
mod program;
mod run;
mod served;
mod task;

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use crate::setup;
use beside::Beside;
use build::Built;
use program::PLAIN_POOL;
use task::Task;

pub(crate) use output::Tally;

/// Result of one suite.
struct Outcome {
    name: String,
    tally: Tally,
    took: Duration,
    /// What went wrong, a line each: why it failed as a whole, and the failed tests with what they printed.
    note: Option<String>,
}

impl Outcome {
    /// Of what did not come to count any tests.
    fn failed(name: impl Into<String>, took: Duration, note: impl Into<String>) -> Self {
        Self { name: name.into(), tally: Tally::one(false), took, note: Some(note.into()) }
    }
}

/// Selection of the suites and cases.
pub(crate) struct Extent {
    /// Leaves out what takes long.
    pub(crate) quick: bool,
    /// Runs every conformance case over two processes.
    pub(crate) two_processes: bool,
}

/// Runs everything and prints the sum as the last line. Whether nothing failed.
pub(crate) fn test(root: &Path, extent: &Extent) -> bool {
    let quick = extent.quick;
    // Set by the user, the variable decides.
    let incremental = env::var_os("CARGO_INCREMENTAL").is_some() || builds_incrementally(root);
    let mut session = Session { root, quick, incremental, outcomes: Vec::new() };
    host::warn(root, quick);
    host::warn_of_processor();
    session.prepare();
    session.tool("format", &["fmt", "--all", "--check"]);
    let release = (!quick).then(|| session.cargo());
    let (tests, beside) = thread::scope(|scope| {
        let beside = scope.spawn(|| {
            // Mostly waits for servers and disks; nothing that is compiled needs it, but for the package, which comes after it.
            install(root, quick);
            beside::build(root, quick, release)
        });
        session.lints();
        (session.tests(), beside.join())
    });
    let release = session.beside(beside.ok());
    session.suites(&tests);
    session.doc_tests();
    if quick {
        println!(
            "left out by --quick: the kernel driver under Wine, the soak, the conformance cases with features withheld, with one doorbell for all queues, with \
             interrupts that name queues, with fences in the paging process and with other variants over vfio-user, the main job over the executable, drivers in C of older versions, one whose start does not end, \
             7 of 8 broken drivers in C, the driver in C as a program's, cases and a live timeline on a served machine, the Vulkan driver's tests under the validation layer, programs of others on a GPU in another process and on the Windows images, the second build of these images, the guest in QEMU, \
             the build of the program alone, the conformance cases, the main job and the bench in release mode, on the Windows images and with special pool, \
             4 of 5 random cases a property, \
             499 of 500 schedules of each random model"
        );
    } else if let Some(release) = release {
        session.release(&release);
    }
    if extent.two_processes {
        session.two_processes();
    }
    session.summary()
}

/// What the machines of a suite load, and which of its tests run.
struct Setting {
    driver: &'static str,
    special_pool: &'static str,
    arguments: &'static [&'static str],
}

impl Setting {
    const LINKED: Self = Self { driver: "linked", special_pool: "off", arguments: &[] };
    /// The cases that run on many machines run on one kind of them only.
    const QUICK: Self = Self { driver: "linked", special_pool: "off", arguments: &QUICK_ARGUMENTS };
    /// The images, with a pool in which an overrun faults. Two cases run at a time, for a process of the host may map so many guarded pages.
    const IMAGES: Self = Self { driver: "pe", special_pool: "end", arguments: &IMAGES_ARGUMENTS };
}

/// What `--quick` leaves out: the suite that loads the kernel driver under a Wine of its own, which is downloaded for it alone, and random work
/// for a minute.
const LEFT_OUT_BY_QUICK: [&str; 2] = ["standin: test loading", "campanile: test soak"];

/// Leaves out features withheld, one doorbell for all queues, interrupts that name queues, fences that the paging process reaches, pairs of variants, the main job over a whole executable without optimisation,
/// drivers of older versions, each of which is compiled and has a machine of its own, one whose start is waited for until nobody waits any more, and the longest tests of other suites.
const QUICK_ARGUMENTS: [&str; 28] = [
    "--skip",
    " without ",
    "--skip",
    " one doorbell for all queues",
    "--skip",
    " interrupts that name queues",
    "--skip",
    " with fences in the paging process",
    "--skip",
    " with fences in local memory and in the paging process",
    "--skip",
    " that nobody polls, over vfio-user",
    "--skip",
    " with posted writes, over vfio-user",
    "--skip",
    "without_arguments_the_executable_and_the_readme_are_streamed",
    "--skip",
    "the_driver_in_c_of_every_older_version_passes_the_cases_for_any_driver",
    "--skip",
    "a_start_that_does_not_end_is_named_and_so_is_what_the_next_case_waits_for",
    "--skip",
    "conformance_cases_run_beside_each_other_on_one_machine",
    "--skip",
    "a_timeline_of_the_last_seconds_has_what_programs_did",
    "--skip",
    "a_driver_in_c_of_either_compiler_computes_on_its_own_function_and_survives_a_hang",
    "--skip",
    "the_validation_layer_has_nothing_to_say_about_these_tests",
];

/// Leaves them out, and says how many cases run at a time.
const IMAGES_ARGUMENTS: [&str; 8] =
    ["--test-threads", "2", "--skip", PLAIN_POOL[0], "--skip", PLAIN_POOL[1], "--skip", PLAIN_POOL[2]];

struct Session<'a> {
    root: &'a Path,
    quick: bool,
    /// Cargo keeps what it needs to compile a part of a crate again.
    incremental: bool,
    outcomes: Vec<Outcome>,
}

/// True unless this is the first build of the checkout: writing data for the next build takes a first one longer, and as much disk again as all it
/// builds. A person who works in the checkout has such data already, and not only of what this program is built from.
fn builds_incrementally(root: &Path) -> bool {
    let kept = fs::read_dir(root.join("target/debug/incremental")).into_iter().flatten().flatten();
    let of_the_system = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("dxgkrnl-");
    kept.into_iter().any(of_the_system)
}

/// Installs or downloads what suites need besides the compiler. What is missing afterwards is told, and again by each suite that needs it.
fn install(root: &Path, quick: bool) {
    // The timeline's tests need a browser; without one they fail and say so.
    if Command::new("chromium").arg("--version").output().is_err() {
        println!("installing chromium");
        let _ = Command::new("apt-get").args(["install", "--yes", "--quiet", "chromium"]).status();
    }
    // Without libclang the suite that runs bindgen fails and says so, as the one that reads traces does without Perfetto; without
    // lavapipe the bench's report says so, without Wine the suite of the Windows images, without actionlint the test of the workflows,
    // without headers of Debian's packages the test of programs in C, without clang and MinGW-w64 that of the driver in C, without pefile, lief and signify the one of
    // the package, without vulkaninfo, the validation layer and wgpu those of the Vulkan driver, without glslang and spirv-val the tests of the compiler, and without the newer Wine the suite that loads the kernel driver.
    let fetched = [
        setup::perfetto(root),
        setup::actionlint(root),
        setup::headers(root),
        setup::python(root),
        setup::vulkan_programs(root),
    ];
    let others = [setup::libclang(), setup::lavapipe(), setup::wine(), setup::shaders(), setup::drivers_in_c()];
    let newer_wine = if quick { Ok(()) } else { setup::wine_for_drivers(root) };
    for missing in others.into_iter().chain(fetched).chain([newer_wine]).filter_map(Result::err) {
        println!("{missing}");
    }
}

impl Session<'_> {
    /// Fetches the parts of the toolchain that rustup manages.
    fn prepare(&self) {
        for (probe, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
            let present = self.cargo().args([probe, "--version"]).output().is_ok_and(|output| output.status.success());
            if !present {
                println!("installing {component}");
                // Without rustup the suite that needs the component fails and says so.
                let _ = Command::new("rustup").args(["component", "add", component]).status();
            }
        }
    }

    fn cargo(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(self.root);
        if !self.incremental {
            command.env("CARGO_INCREMENTAL", "0");
        }
        command
    }

    fn record(&mut self, outcome: Outcome) {
        println!("{}", line(&outcome));
        self.outcomes.push(outcome);
    }

    /// A tool of cargo that passes or fails as one.
    fn tool(&mut self, name: &str, arguments: &[&str]) {
        println!("== {name}: cargo {}", arguments.join(" "));
        let start = Instant::now();
        let status = self.cargo().args(arguments).status();
        self.passed_or_failed(name, start, status);
    }

    fn passed_or_failed(&mut self, name: &str, start: Instant, status: io::Result<ExitStatus>) {
        let failed = |note| Outcome::failed(name, start.elapsed(), note);
        self.record(match status {
            Ok(status) if status.success() => {
                Outcome { name: name.to_owned(), tally: Tally::one(true), took: start.elapsed(), note: None }
            }
            Ok(status) => failed(status.to_string()),
            Err(error) => failed(format!("does not start: {error}")),
        });
    }

    /// Lints and the documentation.
    fn lints(&mut self) {
        let strict = ["--quiet", "--", "-D", "warnings"];
        self.tool("lints", &[&["clippy", "--workspace", "--all-targets"][..], &strict].concat());
        let strict = "build.rustdocflags=[\"-D\", \"warnings\"]";
        // Examples are built with the dependencies of tests, and with them all targets are: with the same features of each crate as the lints have checked.
        let targets = ["--lib", "--examples", "--bin", "xtask", "--bin", "wgpu_kernels"];
        let common = ["doc", "--workspace", "--no-deps", "--keep-going", "--quiet", "--config", strict];
        self.tool("documentation", &[&common[..], &targets].concat());
    }

    /// Builds every test executable of the workspace.
    fn tests(&mut self) -> Built {
        println!("== build of every test");
        let start = Instant::now();
        let mut command = self.cargo();
        command.args(["build", "--workspace", "--tests", "--keep-going", "--message-format=json"]);
        let built = match build::build(command) {
            Ok(built) => built,
            Err(message) => {
                self.record(Outcome::failed("build", start.elapsed(), message));
                return Built::default();
            }
        };
        for broken in &built.broken {
            self.record(Outcome::failed(format!("build of {broken}"), start.elapsed(), "does not compile"));
        }
        if !built.finished && built.broken.is_empty() {
            self.record(Outcome::failed("build", start.elapsed(), "cargo could not build the tests"));
        }
        built
    }

    /// Prints and counts what was built beside the tests, the images among it, which some suites read and load. The program in release mode.
    fn beside(&mut self, beside: Option<Beside>) -> Option<Built> {
        let Some(beside) = beside else {
            self.record(Outcome::failed("builds beside the tests", Duration::ZERO, "panicked"));
            return None;
        };
        for step in beside.steps {
            println!("== {}\n{}", step.name, step.output.trim_end());
            let tally = step.tally();
            self.record(Outcome { name: step.name.to_owned(), tally, took: step.took, note: step.note });
        }
        beside.release
    }

    /// Every test executable of the workspace, as many at a time as there are processors.
    fn suites(&mut self, built: &Built) {
        let left_out = if self.quick { &LEFT_OUT_BY_QUICK[..] } else { &[] };
        let order = pool::Order::of(built.suites.iter().filter(|suite| !left_out.contains(&suite.name.as_str())));
        let setting = if self.quick { Setting::QUICK } else { Setting::LINKED };
        for suite in order.alone {
            self.suite(suite, &setting);
        }
        // One more than processors, for all of them wait at times.
        let workers = (processors() + 1).min(4);
        let threads = test_threads().div_ceil(workers);
        let limit = self.time_limit();
        let task =
            |suite: &build::Suite| Task::tests(suite.name.clone(), self.command(suite, &setting, threads), limit);
        let tasks = order.shared.into_iter().map(task).collect();
        self.side_by_side(tasks, workers);
    }

    /// Runs tasks of which none prints before it has ended, `workers` at a time.
    fn side_by_side(&mut self, tasks: VecDeque<Task<'_>>, workers: usize) {
        let run = |task: Task<'_>| {
            println!("started {}", task.name);
            (task.work)()
        };
        pool::side_by_side(tasks, workers, run, |done| {
            print!("{}", done.output);
            for outcome in done.outcomes {
                self.record(outcome);
            }
        });
    }

    /// Runs one executable alone.
    fn suite(&mut self, suite: &build::Suite, setting: &Setting) {
        let name = suite.name.clone();
        println!("== {name}");
        let start = Instant::now();
        let (tally, note) = run::run(self.command(suite, setting, test_threads()), self.time_limit());
        self.record(Outcome { name, tally, took: start.elapsed(), note });
    }

    /// The command that runs an executable, `threads` of its tests at a time.
    fn command(&self, suite: &build::Suite, setting: &Setting, threads: usize) -> Command {
        let mut command = Command::new(&suite.executable);
        command.current_dir(&suite.folder).env("CARGO_MANIFEST_DIR", &suite.folder);
        command.env("CAMPANILE_DRIVER", setting.driver).env("CAMPANILE_SPECIAL_POOL", setting.special_pool);
        command.args(setting.arguments);
        command.env("PROPTEST_CASES", if self.quick { "64" } else { "320" });
        command.env("RUST_TEST_THREADS", threads.to_string());
        if self.quick {
            command.env("CAMPANILE_QUICK", "1");
        } else {
            command.env("CAMPANILE_SCHEDULES", "some");
        }
        command
    }

    fn doc_tests(&mut self) {
        println!("== examples in the documentation");
        let start = Instant::now();
        let mut command = self.cargo();
        command.args(["test", "--workspace", "--doc", "--no-fail-fast", "--quiet"]);
        let (tally, note) = run::run(command, self.time_limit());
        let name = "examples in the documentation".to_owned();
        self.record(Outcome { name, tally, took: start.elapsed(), note });
    }

    /// The conformance cases and everything that the program does for its users.
    fn release(&mut self, built: &Built) {
        let mut tasks = VecDeque::new();
        // Beside all others, most of which wait more than they compute. The suites in the first two tasks have taken less than half of their limit on two processors.
        for suite in &built.suites {
            let name = format!("{} (release, on the Windows images, special pool)", suite.name);
            tasks.push_back(Task::tests(
                name,
                self.command(suite, &Setting::IMAGES, test_threads()),
                self.time_limit(),
            ));
            tasks.push_back(Task::tests(
                format!("{} (release)", suite.name),
                self.command(suite, &Setting::LINKED, test_threads()),
                self.time_limit(),
            ));
        }
        // Cargo builds the program for the suite, whose tests run it.
        match built.programs.get("campanile") {
            Some(program) => {
                tasks.extend(program::tasks(self.root, program, test_threads().min(64), self.time_limit()))
            }
            None => self.record(Outcome::failed("program", Duration::ZERO, "cargo built no `campanile`")),
        }
        self.side_by_side(tasks, (processors() + 1).min(4));
    }

    /// Every conformance case with each GPU in a process of its own.
    fn two_processes(&mut self) {
        println!("== conformance over two processes");
        let start = Instant::now();
        let mut command = self.cargo();
        command.args(["run", "--release", "--quiet", "--", "hlk", "--bus", "vfio-user-process"]);
        let (tally, note) = run::run(command, self.time_limit());
        let name = "conformance over two processes".to_owned();
        self.record(Outcome { name, tally, took: start.elapsed(), note });
    }

    /// Longest time one suite may take; a hang is a failure, not a wait.
    fn time_limit(&self) -> Duration {
        Duration::from_secs(if self.quick { 300 } else { 900 })
    }

    fn summary(&self) -> bool {
        println!("\n== summary");
        // Targets without a single test say nothing.
        for outcome in self.outcomes.iter().filter(|outcome| outcome.tally != Tally::default()) {
            println!("{}", line(outcome));
        }
        let sum = self.outcomes.iter().fold(Tally::default(), |sum, outcome| sum + outcome.tally);
        println!("{sum}");
        sum.failed == 0
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Number of tests that run at a time: most wait more than they compute.
fn test_threads() -> usize {
    2 * processors()
}

fn line(outcome: &Outcome) -> String {
    let Outcome { name, tally, took, note } = outcome;
    let mark = if tally.failed == 0 { "ok  " } else { "FAIL" };
    let note: String = note.iter().flat_map(|note| note.lines()).map(|line| format!("\n       {line}")).collect();
    format!("{mark} {name}: {tally} in {:.1} s{note}", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_build_of_a_checkout_keeps_nothing_for_the_next() {
        let root = env::temp_dir().join(format!("campanile-first-build-{}", std::process::id()));
        let kept = root.join("target/debug/incremental");
        assert!(!builds_incrementally(&root));
        fs::create_dir_all(kept.join("xtask-1abc")).unwrap();
        assert!(!builds_incrementally(&root));
        fs::create_dir_all(kept.join("dxgkrnl-2def")).unwrap();
        assert!(builds_incrementally(&root));
        fs::remove_dir_all(&root).unwrap();
    }
}
