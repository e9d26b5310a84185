//! A GPU in a process of its own, started for one machine.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use campanile_device::Variant;

use crate::device::ChildOptions;
use crate::device::control::Control;

/// Environment variable that names the bus when the command line does not: `direct`, `vfio-user`, `vfio-user-process`, `vfio-user=SOCKET` or
/// `vfio=FUNCTION`.
pub const BUS_VARIABLE: &str = "CAMPANILE_BUS";

/// Longest time until the process ends once nobody uses its GPU any more.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Time between two looks for the end of the process.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A program that serves a GPU to the process that starts it: this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(PathBuf);

impl Program {
    /// The executable `campanile` at a path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The program of this process.
    ///
    /// # Errors
    /// It is another one: a program that does not know what it is asked for would start itself without end.
    pub(super) fn current() -> Result<Self, String> {
        let path = std::env::current_exe()
            .map_err(|error| format!("cannot find the path of the running executable: {error}"))?;
        match path.file_stem().is_some_and(|name| name == "campanile") {
            true => Ok(Self(path)),
            false => Err("only `campanile` can start itself; name it, as in `vfio-user-process=PROGRAM`".to_owned()),
        }
    }

    /// Path of the executable.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

/// The process, until it is dropped.
pub(super) struct Process {
    child: Child,
    control: Arc<Control>,
}

/// An end of a GPU's process that is an error.
#[derive(Debug)]
pub(super) enum BadEnd {
    /// It did not end in order.
    Status(ExitStatus),
    /// It did not end, and was killed.
    Killed,
    /// The system does not say.
    Unknown(io::Error),
}

impl fmt::Display for BadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "its process ended with {status}"),
            Self::Killed => write!(f, "its process did not end within {} s and was killed", TIMEOUT.as_secs()),
            Self::Unknown(error) => write!(f, "its process cannot be waited for: {error}"),
        }
    }
}

impl Process {
    /// Starts `program` with a GPU, and returns the vfio-user connection to it.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn start(program: &Program, variant: &Variant, threads: bool) -> io::Result<(Self, UnixStream)> {
        let (ours, connection) = UnixStream::pair()?;
        let (asking, answering) = UnixStream::pair()?;
        let options = ChildOptions { variant: variant.clone(), stepped: !threads };
        let started = Command::new(program.path())
            .arg("device-child")
            .arg(serde_json::to_string(&options.variant)?)
            .args(options.stepped.then_some("--stepped"))
            // It has a GPU of its own.
            .env_remove(BUS_VARIABLE)
            .stdin(Stdio::from(OwnedFd::from(connection)))
            .stdout(Stdio::from(OwnedFd::from(answering)))
            .spawn();
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", program.path().display()));
        let child = started.map_err(named)?;
        Ok((Self { child, control: Arc::new(Control::new(asking)?) }, ours))
    }

    /// Control connection to the GPU in the process.
    pub(super) fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Ends it.
    ///
    /// # Errors
    /// It did not end in order, now or before.
    pub(super) fn end(mut self) -> Result<(), BadEnd> {
        self.wait()
    }

    fn wait(&mut self) -> Result<(), BadEnd> {
        self.control.close();
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(BadEnd::Status(status)),
                Ok(None) if Instant::now() < until => std::thread::sleep(POLL_INTERVAL),
                Ok(None) => break,
                Err(error) => return Err(BadEnd::Unknown(error)),
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        Err(BadEnd::Killed)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that was waited for is not waited for again.
        let _ = self.wait();
    }
}
