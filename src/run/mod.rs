//! The main job: streams files through the GPU and checks every byte that comes back.

mod pipeline;
mod progress;
mod report;
mod stages;
mod tracing;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::{self, Clock};
use crate::control;
use crate::memory_image::MemoryImage;
use crate::print::print;
use crate::trace::{Trace, perfetto};
use campanile_conformance::cases::any_driver_lab::is_campanile;
use campanile_conformance::installed::describe;
use campanile_conformance::rig::Rig;
use dxgkrnl::bus::Bus;
use pipeline::{Finished, Pipeline};
use progress::Progress;
pub use report::{FileReport, KernelReport, Report, SubmitReport, Totals};
use stages::Stage;
pub use stages::{Roofline, StageReport};
pub use testbed::cipher::CHUNK;
use testbed::cipher::Chunk;
use testbed::digest::Sha256;
use testbed::exit::{EXIT_FAILED, EXIT_INPUT, EXIT_MACHINE, EXIT_OK};
use testbed::setup::{DriverChoice, Drivers, FaultOption, MachineOptions, SetupError, System, shows_log};
use testbed::user::{self, Adapter};
use tracing::Tracing;

/// Options of `campanile run`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Files; none means [`default_files`].
    pub files: Vec<PathBuf>,
    /// Print JSON instead of a table.
    pub json: bool,
    /// Show a progress bar if there is a terminal.
    pub progress: bool,
    /// Faults that are injected into the GPU once the work has begun.
    pub faults: Vec<FaultOption>,
    /// Where to keep what the driver told at the last timeout, if anywhere.
    pub debug_information: Option<PathBuf>,
    /// Where to keep the driver's memory as it is when the last byte has come back, if anywhere.
    pub memory_image: Option<PathBuf>,
    /// File for a Perfetto trace; `None` for no trace.
    pub trace: Option<PathBuf>,
    /// The GPU to build.
    pub machine: MachineOptions,
    /// Socket of a machine in another process that does the work instead.
    pub machine_at: Option<PathBuf>,
}

/// The reason why a whole run ended early.
#[derive(Debug)]
pub enum RunError {
    /// The machine could not be booted, or ended badly.
    Setup(SetupError),
    /// The user-mode driver gave up.
    Driver(user::Error),
    /// There is no machine at the socket that was named, or it refuses.
    NoMachine(String),
    /// The same, by a machine of another process that has gone, or has no adapter any more: says which.
    Lost(user::Error, String),
    /// The driver's memory cannot be kept.
    MemoryImage(String),
    /// The driver is started, and is another one than this project's: what the adapter tells of itself.
    AnotherDriver(Vec<String>),
    /// A function of this name went away while its driver was started.
    FunctionGone { name: String, fault: Option<String> },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(error) => error.fmt(f),
            Self::Driver(error) => write!(f, "the GPU could not do the work: {error}"),
            Self::NoMachine(error) => f.write_str(error),
            Self::Lost(error, why) => write!(f, "{why}, and its GPU could not do the work: {error}"),
            Self::MemoryImage(error) => write!(f, "no memory image: {error}"),
            Self::FunctionGone { name, fault: Some(fault) } => {
                write!(f, "the function {name} is gone, and its adapter was removed by surprise: {fault}")
            }
            Self::FunctionGone { name, fault: None } => write!(
                f,
                "the function {name} is gone: what serves it has ended the connection, and its adapter was removed by surprise. The output of the server says why; \
                 `--log` (CAMPANILE_LOG=1) prints what driver and system said before"
            ),
            Self::AnotherDriver(lines) => {
                writeln!(f, "the driver {} is started:", DriverChoice::selected())?;
                lines.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
                f.write_str(
                    "`run` cannot do more with it: its packets are those of Campanile's GPU. For the driver of any GPU there are `campanile hlk --filter \
                     AnyDriver --private-data FILE` and programs with libcampanile_kmt.so, see docs/porting.md",
                )
            }
        }
    }
}

impl std::error::Error for RunError {}

impl From<SetupError> for RunError {
    fn from(error: SetupError) -> Self {
        Self::Setup(error)
    }
}

impl From<user::Error> for RunError {
    fn from(error: user::Error) -> Self {
        Self::Driver(error)
    }
}

/// Everything that a run found out.
#[derive(Debug)]
pub struct Outcome {
    /// Figures and the files that were read to their end.
    pub report: Report,
    /// Files that could not be read, with the reason.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// Differences from the expected bytes, a sentence each.
    pub mismatches: Vec<String>,
    /// Events of the run, if it was traced.
    pub trace: Option<Trace>,
}

impl Outcome {
    /// The exit code that stands for this outcome.
    pub fn exit_code(&self) -> u8 {
        if !self.mismatches.is_empty() {
            EXIT_FAILED
        } else if !self.unreadable.is_empty() {
            EXIT_INPUT
        } else {
            EXIT_OK
        }
    }
}

/// Files streamed when none are named: the repository's README, if this executable still lies beside its sources, and the executable.
pub fn default_files() -> Vec<PathBuf> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let executable = std::env::current_exe().ok();
    [readme.is_file().then_some(readme), executable].into_iter().flatten().collect()
}

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    // Opened first: nobody likes to hear at the end that the trace cannot be kept.
    let mut trace_file = match options.trace.as_ref().map(File::create).transpose() {
        Ok(file) => file,
        Err(error) => return refuse_trace(options, &error),
    };
    let mut told = Vec::new();
    let outcome = stream_and_tell(options, &mut told);
    for text in &told {
        testbed::complain!("{text}");
    }
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            testbed::complain!("campanile: {error}");
            return match &error {
                RunError::Setup(error) => {
                    // With `--log` it is there already, and of a file that is no driver nothing was heard.
                    let heard = if shows_log() || error.is_input() { &[][..] } else { error.log() };
                    heard.iter().for_each(|line| testbed::complain!("  {line}"));
                    error.exit_code()
                }
                RunError::Driver(_) | RunError::Lost(..) | RunError::FunctionGone { .. } => EXIT_MACHINE,
                // It was asked for the driver alone, which is started.
                RunError::AnotherDriver(_) if options.files.is_empty() => EXIT_OK,
                RunError::NoMachine(_) | RunError::MemoryImage(_) | RunError::AnotherDriver(_) => EXIT_INPUT,
            };
        }
    };
    for (path, error) in &outcome.unreadable {
        testbed::complain!("campanile: {}: {error}; check the path and its permissions", path.display());
    }
    for mismatch in &outcome.mismatches {
        testbed::complain!("campanile: {mismatch}");
    }
    if let (Some(file), Some(trace)) = (&mut trace_file, &outcome.trace)
        && let Err(error) = file.write_all(&perfetto::write(trace))
    {
        return refuse_trace(options, &error);
    }
    print(&if options.json { outcome.report.to_json() } else { outcome.report.to_table() });
    outcome.exit_code()
}

fn refuse_trace(options: &Options, error: &io::Error) -> u8 {
    let path = options.trace.as_deref().unwrap_or(Path::new(""));
    testbed::complain!("campanile: {}: {error}; name a file that can be written", path.display());
    EXIT_INPUT
}

/// Boots a machine, streams the files through its GPU, and takes it down again.
///
/// # Errors
/// The machine or the driver failed as a whole. Files that cannot be read and bytes that come back wrong are part of the outcome.
pub fn stream(options: &Options) -> Result<Outcome, RunError> {
    stream_and_tell(options, &mut Vec::new())
}

/// As [`stream`]; `told` gets what faults and timeouts have to say, however it ends.
fn stream_and_tell(options: &Options, told: &mut Vec<String>) -> Result<Outcome, RunError> {
    let files = if options.files.is_empty() { default_files() } else { options.files.clone() };
    if let Some(socket) = &options.machine_at {
        return stream_at(socket, &files, options);
    }
    let system = System::boot(&options.machine.system())?;
    let process = dxgkrnl::Process::new(system.machine(), "campanile run");
    let tracing = options.trace.as_ref().map(|_| Tracing::start(&system, &process, "campanile run")).transpose()?;
    let outcome = {
        let _attached = process.attach();
        stream_attached(&system, &files, options, tracing.as_ref())
    };
    process.exit();
    tell(options, &system, told);
    let trace = tracing.map(Tracing::finish);
    match outcome {
        Ok(outcome) => {
            system.shutdown()?;
            Ok(Outcome { trace, ..outcome })
        }
        // That it is started is not all that is asked for: it must stop as well.
        Err(started @ RunError::AnotherDriver(_)) => {
            let buses = buses(&system);
            system.shutdown()?;
            Err(gone(&buses).unwrap_or(started))
        }
        // A failure of the work explains more than what it leaves behind.
        Err(failed) => Err(failed),
    }
}

/// Streams the files as a program of the machine that another process serves at a socket.
fn stream_at(socket: &Path, files: &[PathBuf], options: &Options) -> Result<Outcome, RunError> {
    remote::client::connect(socket, "campanile run").map_err(|error| RunError::NoMachine(error.to_string()))?;
    let streamed = || {
        let adapter = Adapter::open_by(remote::sending::thunks())?;
        let streamer = Streamer::new(Pipeline::new(&adapter, None)?, files, options);
        streamer.stream(files)?.outcome(Drivers::of_machine(socket), None)
    };
    streamed().map_err(|error| match error {
        RunError::Driver(error) => match control::what_is_missing(socket) {
            Some(why) => RunError::Lost(error, why),
            None => RunError::Driver(error),
        },
        error => error,
    })
}

fn stream_attached(
    system: &System,
    files: &[PathBuf],
    options: &Options,
    tracing: Option<&Tracing>,
) -> Result<Outcome, RunError> {
    let adapter = match Adapter::open_luid(system.luid()) {
        Ok(adapter) => adapter,
        Err(error) => {
            return Err(another_driver(system).or_else(|| gone(&buses(system))).unwrap_or_else(|| error.into()));
        }
    };
    let pipeline = Pipeline::new(&adapter, tracing)?;
    for fault in &options.faults {
        fault.arm(system.faulty_gpu()?.faults(), campanile_conformance::seed::get());
    }
    // Counted from here, so that the memory manager's own work is not.
    let before = system.counters();
    let streamer = Streamer::new(pipeline, files, options).stream(files)?;
    if let Some(path) = &options.memory_image {
        keep_memory(system, path).map_err(RunError::MemoryImage)?;
    }
    let gpu = system.counters().since(&before);
    streamer.outcome(Drivers::selected(), Some(gpu))
}

fn buses(system: &System) -> Vec<Arc<dyn Bus>> {
    system.adapters().iter().map(|part| Arc::clone(part.bus())).collect()
}

/// The error of the first function that has gone away.
fn gone(buses: &[Arc<dyn Bus>]) -> Option<RunError> {
    let bus = buses.iter().find(|bus| bus.is_gone())?;
    Some(RunError::FunctionGone { name: bus.name(), fault: bus.fault() })
}

/// What the adapter tells of itself, if its driver is not this project's.
fn another_driver(system: &System) -> Option<RunError> {
    let rig = Rig::open(system.luid()).ok().filter(|rig| !is_campanile(rig))?;
    Some(RunError::AnotherDriver(describe(rig.kmt, system.luid()).ok()?))
}

fn keep_memory(system: &System, path: &Path) -> Result<(), String> {
    let memory = system.driver_memory().map_err(|error| error.to_string())?;
    MemoryImage::new(&memory)?.write(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What the machine recovered from, for a person, and for a file if one is named.
fn tell(options: &Options, system: &System, told: &mut Vec<String>) {
    let reports = system.machine().tdr_reports(system.luid());
    told.extend(reports.iter().map(ToString::to_string));
    if !options.faults.is_empty()
        && let Ok(gpu) = system.faulty_gpu()
    {
        let applied = gpu.faults().total_fired();
        let wanted: Vec<String> = options.faults.iter().map(ToString::to_string).collect();
        told.push(format!("faults asked for: {}; applied {applied} times", wanted.join(", ")));
    }
    let Some(path) = &options.debug_information else { return };
    let written = match reports.last() {
        Some(report) => std::fs::write(path, &report.debug_information).map_err(|error| error.to_string()),
        None => Err("there was no timeout, so there is nothing to keep".to_owned()),
    };
    if let Err(error) = written {
        told.push(format!("campanile: {}: {error}", path.display()));
    }
}

/// One file on its way through the GPU.
struct Passing {
    path: PathBuf,
    bytes: u64,
    sha256: Sha256,
    mismatch: Option<String>,
}

struct Streamer {
    pipeline: Pipeline,
    progress: Progress,
    files: Vec<FileReport>,
    unreadable: Vec<(PathBuf, io::Error)>,
    clock: Clock,
    seconds: f64,
}

impl Streamer {
    fn new(pipeline: Pipeline, files: &[PathBuf], options: &Options) -> Self {
        let progress = Progress::new(files, options.progress && !options.json);
        let (files, unreadable) = (Vec::new(), Vec::new());
        Self { pipeline, progress, files, unreadable, clock: Clock::get(), seconds: 0.0 }
    }

    /// Streams all files.
    fn stream(mut self, files: &[PathBuf]) -> Result<Self, RunError> {
        files.iter().try_for_each(|path| self.file(path))?;
        self.progress.finish();
        Ok(self)
    }

    /// Streams one file to its end, or to where it cannot be read any further.
    fn file(&mut self, path: &Path) -> Result<(), RunError> {
        self.progress.start(path);
        let mut file = match open(path) {
            Ok(file) => file,
            Err(error) => {
                self.unreadable.push((path.to_owned(), error));
                return Ok(());
            }
        };
        let started = clock::now();
        let mut passing = Passing { path: path.to_owned(), bytes: 0, sha256: Sha256::default(), mismatch: None };
        let read = self.chunks(&mut file, &mut passing)?;
        while let Some(finished) = self.pipeline.finish_oldest()? {
            passing.check(&finished);
        }
        self.seconds += self.clock.nanoseconds(started, clock::now()) / 1e9;
        match read {
            Ok(()) => self.files.push(passing.report()),
            Err(error) => self.unreadable.push((path.to_owned(), error)),
        }
        Ok(())
    }

    /// Sends chunks until the file ends; the inner result is that of reading it.
    fn chunks(&mut self, file: &mut File, passing: &mut Passing) -> Result<io::Result<()>, RunError> {
        loop {
            if let Some(finished) = self.pipeline.finish_if_full()? {
                passing.check(&finished);
            }
            let (chunk, stages) = self.pipeline.next_chunk();
            let started = clock::now();
            let length = match fill(file, chunk) {
                Ok(0) => return Ok(Ok(())),
                Ok(length) => length,
                Err(error) => return Ok(Err(error)),
            };
            stages.ended(Stage::Read, started, length);
            let started = clock::now();
            passing.sha256.update(&chunk.bytes()[..length]);
            stages.ended(Stage::Hash, started, length);
            chunk.pad_from(length);
            self.pipeline.send(passing.bytes)?;
            passing.bytes += length as u64;
            self.progress.advance(length as u64);
            if length < CHUNK {
                return Ok(Ok(()));
            }
        }
    }

    fn outcome(self, drivers: Drivers, gpu: Option<testbed::setup::GpuCounters>) -> Result<Outcome, RunError> {
        let bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        let mismatches = self.files.iter().filter_map(|file| file.mismatch.clone()).collect();
        let totals = self.pipeline.totals(bytes, self.seconds, gpu)?;
        let submission = self.pipeline.submission()?;
        Ok(Outcome {
            report: Report {
                drivers,
                files: self.files,
                submission,
                roofline: self.pipeline.roofline(self.seconds),
                totals,
            },
            unreadable: self.unreadable,
            mismatches,
            trace: None,
        })
    }
}

impl Passing {
    fn check(&mut self, finished: &Finished) {
        if let (None, Some(mismatch)) = (&self.mismatch, &finished.mismatch) {
            self.mismatch =
                Some(format!("{}: chunk at byte {}: {mismatch}", self.path.display(), finished.file_offset));
        }
    }

    fn report(self) -> FileReport {
        FileReport {
            path: self.path.display().to_string(),
            bytes: self.bytes,
            sha256: self.sha256.hex(),
            verified: self.mismatch.is_none(),
            mismatch: self.mismatch,
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // Said before: a pipe is opened only when somebody writes to it.
    if let Some(notice) = unending(path) {
        testbed::complain!("campanile: {}: {notice}", path.display());
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory, not a file"));
    }
    Ok(file)
}

/// A warning about a file that may never end, for the user; `None` for an ordinary file.
fn unending(path: &Path) -> Option<&'static str> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    if kind.is_fifo() {
        Some("is a pipe; waiting for a program that writes to it and closes it")
    } else if kind.is_char_device() {
        Some("is a device; reading it until it ends, which it may never do")
    } else {
        None
    }
}

/// Reads until the chunk is full or the file ends; the number of bytes read.
fn fill(file: &mut File, chunk: &mut Chunk) -> io::Result<usize> {
    let bytes = chunk.bytes_mut();
    let mut length = 0;
    while length < bytes.len() {
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
