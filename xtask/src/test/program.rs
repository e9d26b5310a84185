//! The commands of the release program, as its users run them: main job, cases, guest, bench.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::Outcome;
use super::served;
use super::task::{Done, Task};

/// Every subset of the features that Windows may refuse, but for the empty one.
const PROFILES: [&str; 7] = [
    "native-fence",
    "user-mode-submission",
    "hardware-scheduling",
    "native-fence,user-mode-submission",
    "native-fence,hardware-scheduling",
    "user-mode-submission,hardware-scheduling",
    "native-fence,user-mode-submission,hardware-scheduling",
];

/// Cases that run on the images without special pool: two that end processes many times, which would take as long as all others together, and one whose ten
/// thousand queues need more guarded pages than a process of the host may map.
pub(super) const PLAIN_POOL: [&str; 3] = [
    "Lifecycle.ProcessExitReleasesEverything",
    "Lifecycle.ExitWithRunningWorkDisturbsNobody",
    "Scale.ThousandsOfQueuesOnSixteenDoorbells",
];

/// Every command, those that take longest first. Of conformance cases `jobs` run at a time.
pub(super) fn tasks<'a>(root: &'a Path, program: &'a Path, jobs: usize, limit: Duration) -> Vec<Task<'a>> {
    let jobs = jobs.to_string();
    let mut tasks = vec![guest(root, program, limit)];
    let mut job = |name: &str, arguments: &[&str]| tasks.push(Task::whole(name, command(root, program, arguments)));
    // It passes when every row can be measured; whether the figures meet their aims is for a quiet machine to say.
    for driver in ["pe", "linked"] {
        job(&format!("bench on the {driver} driver"), &["bench", "--quick", "--driver", driver]);
    }
    let matrix = ["hlk", "--jobs", &jobs, "--matrix", "--shard", "1/16"];
    job("a sixteenth of the cases on the matrix of GPUs", &matrix);
    for case in PLAIN_POOL {
        job(&format!("{case} on the Windows images"), &["hlk", "--driver", "pe", "--filter", case]);
    }
    for area in ["Submission.", "Packet"] {
        let cases = ["hlk", "--jobs", &jobs, "--driver", "pe", "--profiles", "--filter", area];
        job(&format!("cases of {area} on the Windows images, every subset of features"), &cases);
    }
    job("main job", &[]);
    job("main job on the Windows images", &["run", "--driver", "pe"]);
    for withheld in PROFILES {
        let run = ["run", "--driver", "pe", "--without", withheld];
        job(&format!("main job on the Windows images without {withheld}"), &run);
    }
    for mode in ["gpu-virtual", "gpu-physical"] {
        let variant = format!("page-tables={mode}");
        job(&format!("main job, page tables {mode}"), &["run", "--device-variant", &variant]);
        for area in ["GpuAddress", "Lock2.", "Memory."] {
            let cases = ["hlk", "--jobs", &jobs, "--filter", area, "--device-variant", &variant];
            job(&format!("cases of {area}, page tables {mode}"), &cases);
        }
    }
    tasks.insert(1, cases_of_other_processes(root, program));
    tasks
}

fn command(root: &Path, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).args(arguments);
    command
}

/// The main job and the core of the cases in a virtual machine, on the GPU as a PCI function. Fetches QEMU where there is none.
fn guest<'a>(root: &Path, program: &Path, limit: Duration) -> Task<'a> {
    let arguments = ["qemu", "--accelerator", "tcg", "--timeout", "600", "--junit", "target/qemu/report.xml"];
    Task::tests("guest in QEMU".to_owned(), command(root, program, &arguments), limit)
}

/// The cases that need thunks alone, each as a program of a machine that another process serves.
fn cases_of_other_processes<'a>(root: &'a Path, program: &'a Path) -> Task<'a> {
    let name = "cases from programs of other processes";
    Task::new(name, move || {
        let start = Instant::now();
        let each = served::run(root, program, &["linked", "pe"]).into_iter().map(|(driver, (tally, note))| Outcome {
            name: format!("{name}, {driver} driver"),
            tally,
            took: start.elapsed(),
            note,
        });
        Done { outcomes: each.collect(), output: format!("== {name}: campanile machine, campanile hlk --machine\n") }
    })
}
