//! Command line of `campanile`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind as UsageKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

mod page;
mod qemu;
mod served;
mod soak;
mod system;
mod vulkan_program;
mod words;

use crate::{assembly, bench, ctl, debug, hlk, machine, print, run, serve, timeline, top, vulkan};
use page::TimelineArguments;
use qemu::QemuArguments;
use served::{CtlArguments, DeviceArguments, TopArguments};
use soak::SoakArguments;
use system::{MachineArguments, SystemArguments};
use testbed::device::{ChildOptions, child_command};
use testbed::exit::EXIT_INPUT;
use testbed::setup::{FaultOption, LockDelays, MachineOptions, fault_help};
use vulkan_program::VulkanArguments;
use words::{how_cases_run, what_is_measured};

const EXIT_CODES: &str = "\
Exit codes:
  0  everything done
  1  bytes came back wrong, a conformance case failed, or a soak found something
  2  a file is missing or unreadable (the others are still done), the file given as driver cannot be loaded as one, no machine or
     GPU is at the socket or bus that was named, a result could not be written, or the command line is wrong
  3  the machine could not be booted, or stopped while in use";

/// A GPU that takes its work straight from user mode: driver, operating-system side and emulated PCIe device.
///
/// Without a command, `run` is done on the repository's README and on this executable.
#[derive(Debug, Parser)]
#[command(name = "campanile", version, after_help = EXIT_CODES, subcommand_precedence_over_arg = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
    #[command(flatten)]
    system: SystemArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Streams files through the GPU by user-mode submission and checks every byte.
    ///
    /// Each file goes in chunks of 1 MiB through three hardware queues: copied up to VRAM, enciphered there with ChaCha20 by a
    /// program of the compute engine, copied down again. The stages are linked by native fences on the GPU; the CPU waits once a chunk.
    #[command(after_help = EXIT_CODES)]
    Run(RunArguments),
    /// Measures submission, fences, interrupts and transfers, and beside each what the host does for the same purpose.
    ///
    /// All measurements of a row are interleaved in rounds of one run, so that ratios hold on a busy machine too.
    #[command(after_help = EXIT_CODES)]
    Bench(BenchArguments),
    /// Runs the conformance cases over the thunks and the user-mode driver.
    #[command(after_help = EXIT_CODES)]
    Hlk(HlkArguments),
    /// Has many programs work at random on one machine whose engines hang and whose GPU sleeps and is pulled out, and looks for what goes wrong or is left.
    ///
    /// Every step of a program is checked, or leaves contents that a later one checks. At intervals all stand still, and the objects that the adapter holds are
    /// compared with those that the programs have. Processes end tidily, with work under way, or are terminated; at the end no object, pool block, page,
    /// descriptor or thread may be left. A process that loses its device without a cause is a finding, as is anything that the system had to make good.
    #[command(after_help = EXIT_CODES)]
    Soak(SoakArguments),
    /// Serves GPUs to other processes as PCI functions, over vfio-user, until it is interrupted.
    ///
    /// A virtual machine monitor with a vfio-user client plugs one in by its socket, and so does `--bus vfio-user=SOCKET`. A socket serves
    /// one client at a time; each gets a GPU as after power-on.
    #[command(after_help = EXIT_CODES)]
    Device(DeviceArguments),
    /// Boots a machine and serves it to the programs of this user, until it is interrupted.
    ///
    /// With CAMPANILE_MACHINE=PATH a program that loads libcampanile_kmt.so is a process of this machine instead of having one of its own, and so
    /// are the cases of `campanile hlk --machine PATH`. Programs share adapters and can share fences and allocations; a program that ends, however it
    /// does, leaves nothing behind. docs/machine.md says what is shared and what is guaranteed.
    #[command(after_help = EXIT_CODES)]
    Machine(ServeArguments),
    /// Shows what a machine does that `campanile machine` serves: engines, memory, processes, once a second.
    ///
    /// On a terminal as a screen that `q` ends, elsewhere as text. Rates are of the time since the look before.
    #[command(after_help = EXIT_CODES)]
    Top(TopArguments),
    /// Interferes with a machine that `campanile machine` serves, and prints its state: faults, power, removal.
    #[command(after_help = EXIT_CODES)]
    Ctl(CtlArguments),
    /// Plugs the GPU into a virtual machine, and runs the main job and conformance cases there.
    ///
    /// The guest is a small Linux whose only program is this one. In it the Windows images of `cargo xtask pe` drive the GPU as a PCI function,
    /// through Linux' vfio (`--bus vfio=FUNCTION`) and a virtual IOMMU, without which Linux maps no memory for it. Then the GPU is reset, put to sleep and
    /// unplugged, and the guest restarted, under load. Where the machine has no QEMU with vfio-user-pci, and for kernel and lspci, packages of
    /// Debian are unpacked into target/qemu; nothing is installed, and no root is needed.
    #[command(after_help = EXIT_CODES)]
    Qemu(QemuArguments),
    /// The first process of a guest of `campanile qemu`.
    #[command(hide = true)]
    Guest,
    /// Measures the doorbells of two GPUs, in a guest of `campanile qemu --bench`.
    #[command(hide = true)]
    Doorbells,
    /// Keeps the GPU busy until it is killed or its GPU goes, in a guest of `campanile qemu`.
    #[command(hide = true)]
    Load {
        /// What the process does to its own GPU, or waits for, when work is in progress.
        #[arg(long, value_enum, default_value_t)]
        then: crate::qemu::Then,
    },
    /// The program that the Vulkan rows of `bench` measure.
    #[command(hide = true)]
    VulkanClient,
    /// Serves one GPU of `--bus vfio-user-process`, which starts this with two sockets.
    #[command(hide = true)]
    DeviceChild {
        /// The GPU, as JSON.
        variant: String,
        /// The GPU executes only when a step is requested.
        #[arg(long)]
        stepped: bool,
    },
    /// Assembles a program of the compute engine.
    ///
    /// The form of the text is in docs/hardware.md, "Programs". Nothing is written if a line is not understood or the program breaks a rule.
    #[command(after_help = EXIT_CODES)]
    Asm {
        /// Text of the program.
        file: PathBuf,
        /// File that the program is written to
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Prints a program of the compute engine as text that `asm` reads.
    #[command(after_help = EXIT_CODES)]
    Disasm {
        /// The program.
        file: PathBuf,
    },
    /// Decodes the data that DxgkDdiCollectDbgInfo wrote, as it is in a report of a timeout or a live dump.
    #[command(after_help = EXIT_CODES, subcommand)]
    Debug(DebugCommand),
    /// Draws a trace of `run --trace` as a page for the browser.
    ///
    /// The page needs nothing else: lanes for every process, queue and engine, signals and waits from queued to executed,
    /// and what released what. Press ? in it for its keys.
    #[command(after_help = EXIT_CODES)]
    Timeline(TimelineArguments),
    /// Runs a program with the GPU's Vulkan driver as the only one.
    ///
    /// The program is unmodified: the Vulkan loader of the system finds the driver by VK_DRIVER_FILES, which is set for it, and the machine is booted in the
    /// program or, with --machine or --trace, is in another process. docs/vulkan.md says what the driver has and what it lacks.
    #[command(after_help = vulkan_program::EXIT_CODES)]
    Vulkan(VulkanArguments),
}

#[derive(Args, Debug, Default, PartialEq)]
struct RunArguments {
    /// Files to stream [default: the repository's README.md and this executable].
    files: Vec<PathBuf>,
    /// Prints the result as JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Also writes what GPU and queues did, as a Perfetto trace for ui.perfetto.dev or `campanile timeline`.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Injects a fault into the GPU, such as `hang:node=1,after=100`. May be given several times.
    #[arg(long, value_name = "FAULT", long_help = fault_help("Injects a fault into the GPU once the work has begun, and reports at the end how the machine recovered. May be given several times."))]
    fault: Vec<FaultOption>,
    /// Writes what DxgkDdiCollectDbgInfo returned at the last timeout to a file, for `campanile debug decode`.
    #[arg(long, value_name = "FILE")]
    debug_information: Option<PathBuf>,
    /// Writes the memory of the driver's image and pool to a file when all bytes have come back, for `node debug/linux.js`. Needs
    /// `--driver pe` or another image.
    #[arg(long, value_name = "FILE")]
    memory_image: Option<PathBuf>,
    /// Shows no progress bar (it is only shown on a terminal).
    #[arg(long)]
    no_progress: bool,
    /// Does the work as a program of the machine that `campanile machine` serves at this socket. Its GPU, driver and features are that machine's.
    #[arg(long = "machine", value_name = "PATH", conflicts_with_all = ["fault", "trace", "debug_information", "memory_image", "device_variant", "fence_storage", "without", "idle_time"])]
    machine_at: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArguments,
}

#[derive(Args, Debug)]
struct BenchArguments {
    /// Prints the rows as JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Takes few rounds and few samples, for a first look.
    #[arg(long)]
    quick: bool,
    /// Measures only the rows whose id or description contains this, for example `P1`.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Measures the rows about a machine in another process (P1M, P2M, P6M) on the one that `campanile machine` serves at this socket, instead of on one that is started for
    /// them, and no others.
    #[arg(long = "machine", value_name = "PATH")]
    machine_at: Option<PathBuf>,
    /// Says which ratios are worse than in this earlier output of `bench --json`, beyond what the rounds of both runs differ by; exit code 1 if one is.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArguments,
}

#[derive(Args, Debug)]
struct HlkArguments {
    /// Lists the cases with what they require, and runs none.
    #[arg(long)]
    list: bool,
    /// Takes only the cases whose name, area or page contains this.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Prints the result (or the list) as JSON.
    #[arg(long)]
    json: bool,
    /// Prints each outcome as a line of JSON as soon as it is there, and no summary.
    #[arg(long, conflicts_with_all = ["json", "list"])]
    json_lines: bool,
    /// Number of hangs that the case Tdr.StormCostsOnlyTheGuilty causes, instead of a few.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    hangs: Option<u64>,
    /// Seed of the random cases and of faults that come by chance; the same seed draws the same.
    #[arg(long, value_name = "SEED", default_value_t = campanile_conformance::seed::DEFAULT)]
    seed: u64,
    /// Also writes the outcomes to a file, as JUnit's XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Runs the cases N times, one round after the other.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Runs N cases at a time. Most of their time is waiting, so that two for each processor are three times as fast as one. With `--machine` several run beside each other on
    /// one machine, as programs do; what that has made good is then told of all of them together, and no report says which functions of the driver a case called.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// Runs only part K of N of the cases, so that several machines share a run; put the parts' `--json` reports together with `--merge`.
    #[arg(long, value_name = "K/N")]
    shard: Option<campanile_conformance::shard::Shard>,
    /// Runs nothing, and merges the `--json` reports of all parts of a run: summary, `--json` and `--junit` are of the whole.
    #[arg(long, value_name = "REPORT", num_args = 1.., conflicts_with_all = ["list", "filter", "json_lines", "hangs", "repeat", "jobs", "shard", "timeout"])]
    merge: Vec<PathBuf>,
    /// Runs the cases on about twenty GPUs instead of one, so that every two properties which `--device-variant` and `--fence-storage` can choose
    /// are combined on at least one of them (pairwise testing). The GPUs are drawn from the seed.
    #[arg(long, conflicts_with_all = ["device_variant", "fence_storage", "list", "merge"])]
    matrix: bool,
    /// Runs the cases eight times, once with each subset of the three features that `--without` knows; cases that choose the features themselves
    /// run once. A case that needs a feature which is not enabled is skipped and says so.
    #[arg(long, conflicts_with_all = ["matrix", "without"])]
    profiles: bool,
    /// Longest time one case may take [default: a minute, more for a long storm].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Private data and commands of another GPU, which the cases of the area AnyDriver pass to its driver; docs/porting.md has the format.
    #[arg(long, value_name = "FILE")]
    private_data: Option<PathBuf>,
    /// Runs the cases that need thunks alone as a program of the machine that `campanile machine` serves at this socket. Its GPU, driver and features
    /// are that machine's.
    #[arg(long = "machine", value_name = "PATH", conflicts_with_all = ["matrix", "profiles", "merge", "list", "shard", "hangs", "json_lines", "device_variant", "fence_storage", "without", "idle_time", "fault"])]
    machine_at: Option<PathBuf>,
    /// Runs the case of this name alone, in this process, on the machine at the socket, and prints its report.
    #[arg(long, value_name = "NAME", hide = true, requires = "machine_at")]
    case: Option<String>,
    /// Injects a fault into the first GPU of each case's machine; `campanile run --help` lists the faults. A case that lost, late or doubled
    /// reports must not disturb fails if the operating-system side had to rescue it.
    #[arg(long, value_name = "FAULT")]
    fault: Vec<FaultOption>,
    /// Has threads wait with this chance, such as 1%, before they take a lock of the operating-system side or give one back, so that they meet in orders which
    /// are rare otherwise. Drawn from the seed; the report says how many delays there were.
    #[arg(long, value_name = "CHANCE", conflicts_with_all = ["machine_at", "merge", "list"])]
    lock_delays: Option<LockDelays>,
    /// The machine on which cases run. Cases about one kind of GPU boot their own.
    #[command(flatten)]
    machine: MachineArguments,
}

#[derive(Debug, Subcommand)]
enum DebugCommand {
    /// Decodes debug information that was saved to a file.
    Decode {
        /// The bytes that DxgkDdiCollectDbgInfo wrote.
        file: PathBuf,
        /// Prints JSON instead of text.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
struct ServeArguments {
    /// Path of the socket, of at most 99 bytes: the one of `ctl` and `top` stands beside it, with `.control` behind the name.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Programs that are served at a time, at most, 1 to 65536.
    #[arg(long, value_name = "N", default_value_t = testbed::programs::PROGRAMS, value_parser = RangedU64ValueParser::<usize>::new().range(1..=65536))]
    programs: usize,
    /// Says nothing but what goes wrong.
    #[arg(long)]
    quiet: bool,
    /// Keeps what a machine does not need: programs, network, the host's administration.
    #[arg(long)]
    no_sandbox: bool,
    /// Keeps a trace of the last seconds (1 to 60) all the time, for `campanile timeline --live`. Each submission takes longer then.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=60))]
    record: Option<u32>,
    #[command(flatten)]
    machine: MachineArguments,
}

/// Commands that have no machine of their own, so that options of one mean nothing to them.
const BOOT_NOTHING: [&str; 7] = ["top", "ctl", "device", "timeline", "debug", "asm", "disasm"];

impl Cli {
    /// The command line for clap: the help of commands that boot nothing is without options of a machine.
    fn line() -> clap::Command {
        let mut line = Self::command();
        // Passes the options that every command has on to the commands.
        line.build();
        line.mut_subcommands(|command| match BOOT_NOTHING.contains(&command.get_name()) {
            true => system::without_help(command),
            false => command,
        })
    }

    fn parse_from_words(words: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, clap::Error> {
        let mut line = Self::line();
        let mut matches = line.try_get_matches_from_mut(words)?;
        let boots_nothing = matches.subcommand_name().is_some_and(|name| BOOT_NOTHING.contains(&name));
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut line))?.checked(boots_nothing)
    }

    /// Before a command stand only the options that every command has; those of `run` would be lost there.
    fn checked(self, boots_nothing: bool) -> Result<Self, clap::Error> {
        let machine_at = match &self.command {
            None => &self.run.machine_at,
            Some(Command::Run(arguments)) => &arguments.machine_at,
            Some(Command::Hlk(arguments)) => &arguments.machine_at,
            Some(Command::Vulkan(arguments)) => &arguments.machine_at,
            _ => &None,
        };
        let looks_on = match &self.command {
            Some(Command::Top(_) | Command::Ctl(_)) => true,
            Some(Command::Timeline(arguments)) => arguments.live,
            _ => false,
        };
        let refused = |rule: &str| Err(Self::command().error(UsageKind::ArgumentConflict, rule));
        let names_anything = self.system != SystemArguments::default();
        if machine_at.is_some() && self.system.names_what_is_booted() || looks_on && names_anything {
            return refused(
                "options of a machine, such as --driver, --bus and --tdr, cannot be used with --machine, nor with `top`, `ctl` and `timeline --live`: give them to the `campanile machine` at that socket",
            );
        }
        if names_anything && boots_nothing {
            return refused(
                "options of a machine, such as --driver, --bus and --log, cannot be used with this command: it boots none",
            );
        }
        if self.system.tdr.is_some() && matches!(self.command, Some(Command::Hlk(_))) {
            return refused(
                "--tdr cannot be used with `hlk`: each conformance case has settings of timeouts that belong to it",
            );
        }
        if self.command.is_none() || self.run == RunArguments::default() {
            return Ok(self);
        }
        refused(
            "files and the options of a command come after its name; a file with the name of a command is given as ./NAME",
        )
    }
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let cli = match Cli::parse_from_words(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(print::usage(&error)),
    };
    let log = cli.system.log;
    cli.system.select();
    let code = match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Run(arguments) => run::command(&run::Options {
            files: arguments.files,
            json: arguments.json,
            progress: !arguments.no_progress,
            trace: arguments.trace,
            faults: arguments.fault,
            debug_information: arguments.debug_information,
            memory_image: arguments.memory_image,
            machine_at: arguments.machine_at,
            machine: MachineOptions::from(arguments.machine).in_use(),
        }),
        Command::Bench(arguments) => bench::command(&bench::Options {
            json: arguments.json,
            quick: arguments.quick,
            filter: arguments.filter,
            machine_at: arguments.machine_at,
            compare: arguments.compare,
            machine_words: what_is_measured(std::env::args().skip(1)),
            machine: MachineOptions::from(arguments.machine).in_use(),
        }),
        Command::Hlk(arguments) => hlk_command(arguments),
        Command::Soak(arguments) => crate::soak::command(&arguments.into()),
        Command::Device(arguments) => serve::command(&arguments.into()),
        Command::Machine(arguments) => machine::command(&machine::Options {
            socket: arguments.socket,
            programs: arguments.programs,
            quiet: arguments.quiet,
            record: arguments.record.map(|seconds| Duration::from_secs(seconds.into())),
            sandbox: !arguments.no_sandbox,
            machine: MachineOptions::from(arguments.machine).in_use(),
        }),
        Command::Top(arguments) => top::command(&arguments.into()),
        Command::Ctl(arguments) => ctl::command(&arguments.into()),
        Command::DeviceChild { variant, stepped } => match serde_json::from_str(&variant) {
            Ok(variant) => child_command(&ChildOptions { variant, stepped }),
            Err(error) => {
                testbed::complain!(
                    "campanile: this command is for `--bus vfio-user-process`, which gives it a GPU: {error}"
                );
                EXIT_INPUT
            }
        },
        Command::Qemu(arguments) => crate::qemu::command(&arguments.into()),
        Command::Guest => crate::qemu::guest_command(),
        Command::Doorbells => crate::qemu::doorbells_command(),
        Command::VulkanClient => bench::vulkan_client(),
        Command::Load { then } => crate::qemu::load_command(then),
        Command::Debug(DebugCommand::Decode { file, json }) => debug::decode_file(&file, json),
        Command::Asm { file, out } => assembly::assemble_file(&file, &out),
        Command::Disasm { file } => assembly::disassemble_file(&file),
        Command::Timeline(arguments) => timeline::command(&arguments.into()),
        Command::Vulkan(arguments) => vulkan::command(&arguments.options(log)),
    };
    ExitCode::from(print::exit_code(code))
}

fn hlk_command(arguments: HlkArguments) -> u8 {
    let (list, filter, json) = (arguments.list, arguments.filter, arguments.json);
    let json_lines = arguments.json_lines;
    campanile_conformance::seed::set(arguments.seed);
    if let Some(socket) = arguments.machine_at {
        let timeout = arguments.timeout.unwrap_or(campanile_hlk::command::TIMEOUT);
        let (junit, repeat, seed, jobs) = (arguments.junit, arguments.repeat, arguments.seed, arguments.jobs);
        let selection = campanile_hlk::command::Selection { filter, json, junit, repeat, timeout, seed, jobs };
        let counting = || crate::control::counts(&socket);
        return campanile_hlk::command::on_machine(&socket, &selection, arguments.case.as_deref(), &counting);
    }
    hlk::command(&hlk::Options {
        list,
        filter,
        json,
        json_lines,
        junit: arguments.junit,
        repeat: arguments.repeat,
        jobs: arguments.jobs,
        shard: arguments.shard,
        merge: arguments.merge,
        matrix: arguments.matrix,
        profiles: arguments.profiles,
        hangs: arguments.hangs,
        private_data: arguments.private_data,
        lock_delays: arguments.lock_delays,
        timeout: arguments.timeout.map(Duration::from_secs),
        command_line: how_cases_run(std::env::args().skip(2)),
        machine: MachineOptions { faults: arguments.fault, ..arguments.machine.into() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_arguments_mean_run() {
        let cli = Cli::try_parse_from(["campanile"]).unwrap();
        assert!(cli.command.is_none());
        assert!(cli.run.files.is_empty());
    }

    #[test]
    fn files_without_a_command_are_for_run() {
        let cli = Cli::try_parse_from(["campanile", "--json", "a", "b"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.run.files, ["a", "b"].map(PathBuf::from));
        assert!(cli.run.json);
    }

    fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::parse_from_words([&["campanile"], arguments].concat().into_iter().map(Into::into))
    }

    #[test]
    fn the_driver_may_be_named_before_the_command_and_after_it() {
        let pe = testbed::setup::DriverChoice::from(std::ffi::OsString::from("pe"));
        for arguments in
            [&["--driver", "pe", "run", "a"][..], &["run", "--driver", "pe", "a"], &["--driver=pe", "run", "a"]]
        {
            let cli = parse(arguments).unwrap();
            assert_eq!(cli.system.driver.as_ref(), Some(&pe), "{arguments:?}");
            let Some(Command::Run(run)) = cli.command else { panic!("{arguments:?} are not for run") };
            assert_eq!(run.files, [PathBuf::from("a")], "{arguments:?}");
        }
        assert!(matches!(parse(&["--driver", "pe", "hlk"]).unwrap().command, Some(Command::Hlk(_))));
        assert!(matches!(parse(&["--driver", "pe", "bench"]).unwrap().command, Some(Command::Bench(_))));
        let cli = parse(&["--driver", "pe", "a"]).unwrap();
        assert!(cli.command.is_none() && cli.run.files == [PathBuf::from("a")]);
    }

    #[test]
    fn options_of_a_live_timeline_mean_nothing_beside_a_file() {
        for option in [["--seconds", "3"], ["--machine", "a"], ["--save", "b"]] {
            let error = parse(&[&["timeline", "trace"], &option[..]].concat()).unwrap_err();
            assert_eq!(error.kind(), UsageKind::ArgumentConflict, "{option:?}");
        }
        assert!(parse(&["timeline", "trace", "--out", "a"]).is_ok());
        assert!(parse(&["timeline", "--live", "--seconds", "3", "--machine", "a", "--save", "b"]).is_ok());
    }

    #[test]
    fn what_would_be_lost_before_a_command_is_refused() {
        for arguments in [&["--json", "run", "a"][..], &["a", "run"], &["--device-variant", "vram=64M", "bench"]] {
            let error = parse(arguments).unwrap_err();
            assert_eq!(error.kind(), UsageKind::ArgumentConflict, "{arguments:?}");
            assert_eq!(error.exit_code(), i32::from(EXIT_INPUT));
        }
        assert_eq!(parse(&["./run"]).unwrap().run.files, [PathBuf::from("./run")]);
    }

    #[test]
    fn help_tells_of_every_key_of_a_variant_and_of_every_fault() {
        let mut command = Cli::command();
        let help = command.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        // The table that is read is the one that is printed.
        assert!(help.contains("host-aperture=SIZE") && help.contains("no-64bit-atomics"), "{help}");
        let text = format!("{}\n{}", testbed::setup::variant_help(), fault_help("Injects a fault into the GPU"));
        let lines = text.lines().filter(|line| !help.contains(line.trim())).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines, Vec::<String>::new());
    }

    #[test]
    fn an_unknown_variant_key_is_refused_by_name() {
        let error = Cli::try_parse_from(["campanile", "run", "--device-variant", "colour=red"]).unwrap_err();
        assert!(error.to_string().contains("colour"), "{error}");
    }

    #[test]
    fn special_pool_is_a_switch_of_every_command_and_its_value_needs_an_equals_sign() {
        let pool = |arguments: &[&str]| {
            Cli::try_parse_from(arguments).map(|cli| cli.system.special_pool.map(|pool| pool.to_string()))
        };
        assert_eq!(pool(&["campanile"]).unwrap(), None);
        assert_eq!(pool(&["campanile", "--special-pool", "file"]).unwrap().as_deref(), Some("end"));
        for command in ["run", "bench", "hlk"] {
            assert_eq!(pool(&["campanile", command, "--special-pool=start"]).unwrap().as_deref(), Some("start"));
        }
        assert!(pool(&["campanile", "hlk", "--special-pool=both"]).unwrap_err().to_string().contains("both"));
    }

    #[test]
    fn the_limit_of_driver_calls_may_stand_before_the_command_and_after_it() {
        for arguments in [["--driver-limit", "7", "hlk"], ["hlk", "--driver-limit", "7"]] {
            assert_eq!(parse(&arguments).unwrap().system.driver_limit, Some("7".parse().unwrap()), "{arguments:?}");
        }
        let error = parse(&["run", "--driver-limit", "0"]).unwrap_err();
        assert!(error.to_string().contains("a number of seconds from 1 on, not `0`"), "{error}");
    }

    #[test]
    fn who_looks_on_at_a_machine_chooses_nothing_of_it() {
        for arguments in [
            ["--driver", "pe", "top"],
            ["top", "--bus", "vfio-user"],
            ["ctl", "--driver=linked", "look"],
            ["timeline", "--live", "--tdr=TdrDelay=1"],
            ["ctl", "look", "--driver-limit=5"],
            ["top", "--count=1", "--log"],
            ["run", "--machine=a", "--user-mode-driver-name=b"],
        ] {
            let error = parse(&arguments).unwrap_err();
            assert!(error.to_string().contains("to the `campanile machine`"), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn commands_that_boot_no_machine_neither_take_its_options_nor_name_them_in_their_help() {
        for arguments in [
            ["--driver=pe", "asm", "a", "--out=b"],
            ["disasm", "a", "--bus", "direct"],
            ["device", "--socket=a", "--tdr", "TdrDelay=1"],
            ["timeline", "a", "--driver-limit", "5"],
            ["debug", "decode", "a", "--log"],
        ] {
            let error = parse(&arguments).unwrap_err();
            assert!(error.to_string().contains("it boots none"), "{arguments:?}: {error}");
        }
        let help = |words: &[&str]| {
            let shown = parse(&[words, &["--help"]].concat()).unwrap_err();
            assert_eq!(shown.kind(), UsageKind::DisplayHelp, "{words:?}");
            shown.to_string()
        };
        for words in [
            &["top"][..],
            &["ctl"],
            &["ctl", "fault"],
            &["device"],
            &["timeline"],
            &["debug", "decode"],
            &["asm"],
            &["disasm"],
        ] {
            let text = help(words);
            let shown = |name: &&str| text.lines().any(|line| line.trim().starts_with(*name));
            let told: Vec<_> = ["--driver", "--bus", "--special-pool", "--user-mode", "--tdr", "--log"]
                .into_iter()
                .filter(shown)
                .collect();
            assert_eq!(told, [""; 0], "{words:?}: {text}");
        }
        assert!(help(&["machine"]).contains("--driver-limit") && help(&["ctl"]).contains("--machine"));
    }

    #[test]
    fn help_of_every_command_names_the_exit_codes() {
        for name in ["run", "bench", "hlk", "device", "timeline"] {
            let mut command = Cli::command();
            let help = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            assert!(help.contains("Exit codes:"), "{name}");
        }
    }
}
