//! `campanile timeline`: a trace as one HTML page that loads nothing from outside.

mod data;
mod page;
mod thin;

use std::fs;
use std::path::{Path, PathBuf};

use crate::control::{self, Connection, ControlError};
use crate::print::print;
use crate::table::grouped;
use crate::trace::{Trace, perfetto, synthetic};
pub use page::{PAGE_BYTES_MAX, Page, render};
use testbed::exit::{EXIT_INPUT, EXIT_OK};
use testbed::image_file;

/// Source of the events.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file of `campanile run --trace`.
    File(PathBuf),
    /// Made up, this many.
    Synthetic(usize),
    /// The last seconds of a machine that is served; that of CAMPANILE_MACHINE if none is named.
    Live {
        /// The machine.
        machine: Option<PathBuf>,
        /// Seconds, 1 to 60.
        seconds: u32,
    },
}

/// Options of `campanile timeline`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Source of the events.
    pub source: Source,
    /// The page to write.
    pub out: PathBuf,
    /// Where to write the trace itself, too, in Perfetto's format.
    pub trace: Option<PathBuf>,
}

/// Most bytes of a trace that is drawn: the whole trace is in memory, several times as large.
const TRACE_MAX: usize = 1 << 30;
/// Most events made up at once.
const SYNTHETIC_MAX: usize = 20_000_000;

/// The reason why there is no trace, and the exit code for it.
struct NoTrace {
    why: String,
    exit_code: u8,
}

impl From<String> for NoTrace {
    fn from(why: String) -> Self {
        Self { why, exit_code: EXIT_INPUT }
    }
}

impl From<ControlError> for NoTrace {
    fn from(error: ControlError) -> Self {
        Self { why: error.to_string(), exit_code: error.exit_code() }
    }
}

fn load(source: &Source) -> Result<(Trace, String), NoTrace> {
    match source {
        Source::File(path) => {
            let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let bytes = image_file::read(path, TRACE_MAX).map_err(|error| named(&error))?;
            let trace = perfetto::read(&bytes).map_err(|error| named(&error))?;
            let name = path.file_name().unwrap_or(path.as_os_str());
            Ok((trace, name.to_string_lossy().into_owned()))
        }
        Source::Live { machine, seconds } => {
            let machine = control::machine_path(machine.clone())?;
            let recorded = Connection::open(&machine).and_then(|mut connection| connection.record(*seconds));
            let trace = perfetto::read(&recorded?);
            let name = format!("the last {seconds} s of {}", machine.display());
            Ok((trace.map_err(|error| format!("{}: {error}", machine.display()))?, name))
        }
        Source::Synthetic(count) if *count > SYNTHETIC_MAX => {
            Err(format!("at most {SYNTHETIC_MAX} synthetic events").into())
        }
        Source::Synthetic(count) => Ok((synthetic(*count), format!("{} synthetic events", grouped(*count as u64)))),
    }
}

/// Checks that no file is written over another one.
///
/// # Errors
/// Two of the files are the same one.
fn check_files(options: &Options) -> Result<(), String> {
    let whole = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let named = folder.canonicalize().ok().zip(path.file_name()).map(|(folder, name)| folder.join(name));
        path.canonicalize().ok().or(named)
    };
    let read = match &options.source {
        Source::File(path) => Some((path, "is read")),
        _ => None,
    };
    let kept = options.trace.as_ref().map(|path| (path, "is where the trace goes (--save)"));
    for (path, what) in read.into_iter().chain(kept) {
        let same =
            *path == options.out || whole(path).is_some_and(|whole_path| whole(&options.out) == Some(whole_path));
        if same {
            return Err(format!(
                "{}: the page cannot go there, it {what}; name another file with --out",
                path.display()
            ));
        }
    }
    Ok(())
}

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    if let Err(why) = check_files(options) {
        testbed::complain!("campanile timeline: {why}");
        return EXIT_INPUT;
    }
    let (trace, name) = match load(&options.source) {
        Ok(loaded) => loaded,
        Err(NoTrace { why, exit_code }) => {
            testbed::complain!("campanile: {why}");
            return exit_code;
        }
    };
    let page = render(&trace, &name);
    let kept = options.trace.as_ref().map(|path| (path, perfetto::write(&trace)));
    let files = [(&options.out, page.html.as_bytes())];
    for (path, bytes) in files.into_iter().chain(kept.iter().map(|(path, bytes)| (*path, bytes.as_slice()))) {
        if let Err(error) = fs::write(path, bytes) {
            testbed::complain!("campanile: {}: {error}", path.display());
            return EXIT_INPUT;
        }
    }
    let left_out = match page.left_out {
        0 => String::new(),
        count => format!(", {} too small to see left out", grouped(count)),
    };
    let (events, bytes) = (grouped(trace.events.len() as u64), grouped(page.html.len() as u64));
    print(&format!("{}: {events} events{left_out}, {bytes} bytes", options.out.display()));
    EXIT_OK
}
