//! `campanile timeline`: a trace as one HTML page that loads nothing from outside.

mod data;
mod page;
mod thin;

use std::fs;
use std::io;
use std::path::PathBuf;

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
}

/// Options of `campanile timeline`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Source of the events.
    pub source: Source,
    /// The page to write.
    pub out: PathBuf,
}

/// Most bytes of a trace that is drawn: the whole trace is in memory, several times as large.
const TRACE_MAX: usize = 1 << 30;
/// Most events made up at once.
const SYNTHETIC_MAX: usize = 20_000_000;

fn load(source: &Source) -> Result<(Trace, String), String> {
    match source {
        Source::File(path) => {
            let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let bytes = image_file::read(path, TRACE_MAX).map_err(|error| named(&error))?;
            let trace = perfetto::read(&bytes).map_err(|error| named(&error))?;
            let name = path.file_name().unwrap_or(path.as_os_str());
            Ok((trace, name.to_string_lossy().into_owned()))
        }
        Source::Synthetic(count) if *count > SYNTHETIC_MAX => Err(format!("at most {SYNTHETIC_MAX} synthetic events")),
        Source::Synthetic(count) => Ok((synthetic(*count), format!("{} synthetic events", grouped(*count as u64)))),
    }
}

/// Runs the command, prints, and returns the exit code.
pub fn command(options: &Options) -> u8 {
    let (trace, name) = match load(&options.source) {
        Ok(loaded) => loaded,
        Err(error) => {
            testbed::complain!("campanile: {error}");
            return EXIT_INPUT;
        }
    };
    let page = render(&trace, &name);
    if let Err(error) = write(&options.out, &page) {
        testbed::complain!("campanile: {}: {error}", options.out.display());
        return EXIT_INPUT;
    }
    let left_out = match page.left_out {
        0 => String::new(),
        count => format!(", {} too small to see left out", grouped(count)),
    };
    let (events, bytes) = (grouped(trace.events.len() as u64), grouped(page.html.len() as u64));
    print(&format!("{}: {events} events{left_out}, {bytes} bytes", options.out.display()));
    EXIT_OK
}

fn write(path: &PathBuf, page: &Page) -> io::Result<()> {
    fs::write(path, &page.html)
}
