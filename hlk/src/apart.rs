//! Cases in processes of their own: this program again, for one case.
//!
//! A case may count on a process that has nothing yet: no mapping, no figure, no device in error. `campanile hlk` gives each one a simulated process; on Windows, and
//! on a machine that another process serves, it takes a process of the system. So neither a crash nor a hang of one case touches the others.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use campanile_conformance::report::{CaseReport, Status};
use campanile_conformance::{About, Failure};

/// Time beside a case's own limit that its process has to start and end.
const AROUND: Duration = Duration::from_secs(30);
/// The interval at which the end of the process is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Bytes of standard error that go into a report.
const TOLD: usize = 2000;

/// This program, and the words that have it run the case whose name follows.
#[derive(Clone, Debug)]
pub struct Again {
    pub program: PathBuf,
    pub words: Vec<OsString>,
}

/// Runs one case in a process of its own, which has `limit` for the case.
pub(crate) fn run(about: &About, again: &Again, limit: Duration) -> CaseReport {
    let started = Instant::now();
    report(about, again, limit + AROUND)
        .unwrap_or_else(|failure| CaseReport::new(about, Status::Failed, started.elapsed(), Some(failure.to_string())))
}

fn report(about: &About, again: &Again, limit: Duration) -> Result<CaseReport, Failure> {
    let mut command = Command::new(&again.program);
    command.args(&again.words).arg(about.name);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = |error| Failure::new(format!("a process for the case: {error}"));
    let mut child = command.spawn().map_err(started)?;
    let (out, told) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = end(&mut child, limit)?;
    // Both pipes end with the process.
    let (out, told) = (out.join().unwrap_or_default(), told.join().unwrap_or_default());
    serde_json::from_slice(&out).map_err(|_| {
        let told =
            String::from_utf8_lossy(told.get(told.len().saturating_sub(TOLD)..).unwrap_or_default()).into_owned();
        Failure::new(format!("the process of the case ended with {status}: {}", told.trim_end()))
    })
}

/// Reads a pipe to its end while the process runs, so that it never waits for its reader.
fn reader(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // An error ends the output early; what came before it is told.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        bytes
    })
}

fn end(child: &mut Child, limit: Duration) -> Result<ExitStatus, Failure> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| Failure::new(error.to_string()))? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::new(format!("its process did not end within {} s", limit.as_secs())));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
