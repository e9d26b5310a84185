//! `campanile vulkan`: runs a program with the GPU's Vulkan driver as the only one, and with a trace if one is asked for.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use testbed::exit::{EXIT_INPUT, EXIT_MACHINE};
use testbed::setup::{
    BUS_VARIABLE, BusChoice, DRIVER_VARIABLE, DriverChoice, DriverLimit, LIMIT_VARIABLE, LOG_VARIABLE, POOL_VARIABLE,
    PoolChoice, TDR_VARIABLE, TdrChoice,
};

use crate::control::Connection;

/// Longest trace, in seconds: what `campanile machine --record` keeps at most.
const TRACE_SECONDS: u32 = 60;
/// The interval at which the machine of a traced program is looked for.
const LOOK: Duration = Duration::from_millis(5);
/// Environment variable of the Vulkan driver for programs that take no device without VK_QUEUE_GRAPHICS_BIT.
const GRAPHICS_VARIABLE: &str = "CAMPANILE_VULKAN_GRAPHICS_BIT";
/// Environment variable of `libcampanile_kmt.so` that names the variant of the GPU.
const VARIANT_VARIABLE: &str = "CAMPANILE_DEVICE_VARIANT";

/// Options of `campanile vulkan`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The driver's manifest; `None`: the one that `cargo xtask vulkan` made.
    pub manifest: Option<PathBuf>,
    /// The machine whose GPU the program uses; `None`: one of its own.
    pub machine_at: Option<PathBuf>,
    /// Variant of the GPU of a machine of its own.
    pub device_variant: Option<String>,
    /// The trace's file; `None`: nothing is traced.
    pub trace: Option<PathBuf>,
    /// True if the driver is to say VK_QUEUE_GRAPHICS_BIT.
    pub graphics_bit: bool,
    /// True if the log of drivers and system is printed.
    pub log: bool,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

/// An error: what is told, and the exit code.
struct Refusal(String, u8);

/// Runs the program and returns its exit code, or 128 and the number of the signal that ended it.
pub fn command(options: &Options) -> u8 {
    let code = prepare(options).and_then(|program| match &options.trace {
        None => run(program).map(|never| match never {}),
        Some(file) => run_traced(program, file),
    });
    code.unwrap_or_else(|Refusal(text, code)| {
        testbed::complain!("campanile vulkan: {text}");
        code
    })
}

/// What `cargo xtask vulkan` makes, in the repository that this program was built in.
pub(crate) fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vulkan/campanile_icd.x86_64.json")
}

/// The program with its variables.
fn prepare(options: &Options) -> Result<Command, Refusal> {
    let wrong = |text: String| Refusal(text, EXIT_INPUT);
    let manifest = options.manifest.clone().unwrap_or_else(shipped);
    // The loader takes relative paths from the folder in which the program happens to be.
    let manifest = fs::canonicalize(&manifest).map_err(|error| {
        wrong(format!("{}: {error}; `cargo xtask vulkan` makes the driver and its manifest", manifest.display()))
    })?;
    let (name, arguments) = options.program.split_first().ok_or_else(|| wrong("no program is named".to_owned()))?;
    let mut program = Command::new(name);
    program.args(arguments).env("VK_DRIVER_FILES", &manifest).env("VK_ICD_FILENAMES", &manifest);
    program.env(DRIVER_VARIABLE, DriverChoice::selected().to_string());
    program.env(BUS_VARIABLE, BusChoice::selected().map_err(wrong)?.to_string());
    program.env(POOL_VARIABLE, PoolChoice::selected().map_err(wrong)?.to_string());
    if let Some(limit) = DriverLimit::selected().map_err(wrong)? {
        program.env(LIMIT_VARIABLE, limit.to_string());
    }
    let timeouts = TdrChoice::selected().map_err(wrong)?;
    if !timeouts.is_empty() {
        program.env(TDR_VARIABLE, timeouts.to_string());
    }
    if let Some(variant) = &options.device_variant {
        program.env(VARIANT_VARIABLE, variant);
    }
    if options.log {
        program.env(LOG_VARIABLE, "1");
    }
    if options.graphics_bit {
        program.env(GRAPHICS_VARIABLE, "1");
    }
    if let Some(machine) = &options.machine_at {
        program.env(remote::client::VARIABLE, machine);
    }
    Ok(program)
}

fn not_started(program: &Command, error: &std::io::Error) -> Refusal {
    Refusal(format!("{} does not start: {error}", program.get_program().display()), EXIT_INPUT)
}

/// Becomes the program, so that signals and exit code are its own.
fn run(mut program: Command) -> Result<Infallible, Refusal> {
    let error = program.exec();
    Err(not_started(&program, &error))
}

/// A machine that records, in a process of its own, and the folder with its socket.
struct Recorded {
    child: Child,
    folder: PathBuf,
}

impl Recorded {
    /// Starts the machine that these variables describe.
    fn start(like: &Command) -> Result<Self, Refusal> {
        let failed = |what: &str, error: &dyn std::fmt::Display| Refusal(format!("{what}: {error}"), EXIT_MACHINE);
        let folder = std::env::temp_dir().join(format!("campanile-vulkan-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| failed(&folder.display().to_string(), &error))?;
        let own = std::env::current_exe().map_err(|error| failed("this program is not found", &error))?;
        let mut command = Command::new(own);
        command.args(["machine", "--quiet", "--record", &TRACE_SECONDS.to_string(), "--socket"]);
        command.arg(folder.join("machine")).stdin(Stdio::null());
        for (name, value) in like.get_envs().filter_map(|(name, value)| Some((name, value?))) {
            if name == VARIANT_VARIABLE {
                command.arg("--device-variant").arg(value);
            }
            command.env(name, value);
        }
        let child = command.spawn().map_err(|error| failed("the machine does not start", &error));
        let child = child.inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
        let mut recorded = Self { child, folder };
        while Connection::open(&recorded.socket()).is_err() {
            if let Ok(Some(status)) = recorded.child.try_wait() {
                return Err(Refusal("the machine was not booted, see above".to_owned(), code(status)));
            }
            std::thread::sleep(LOOK);
        }
        Ok(recorded)
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("machine")
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // It holds nothing that outlives it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs the program on a machine that records, and writes what that has seen.
fn run_traced(mut program: Command, file: &Path) -> Result<u8, Refusal> {
    let machine = Recorded::start(&program)?;
    program.env(remote::client::VARIABLE, machine.socket());
    let status = program.status().map_err(|error| not_started(&program, &error))?;
    let trace = Connection::open(&machine.socket()).and_then(|mut connection| connection.record(TRACE_SECONDS));
    let trace = trace.map_err(|error| Refusal(error.to_string(), EXIT_MACHINE))?;
    fs::write(file, trace).map_err(|error| Refusal(format!("{}: {error}", file.display()), EXIT_INPUT))?;
    Ok(code(status))
}

/// The exit code of a program as shells have it.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_MACHINE)
}
