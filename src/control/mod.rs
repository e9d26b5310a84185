//! The control connection of a machine that is served: people look on and interfere by it.
//!
//! It is a stream socket beside that of the programs, at the same path with `.control` behind it, for the same user only. A question is a line of JSON,
//! and so is its answer; a trace follows its answer as the bytes that the answer counts.

mod askers;
mod desk;
mod question;
mod recorder;

pub use desk::{Desk, listen, serve};
pub use question::{
    Answer, Engine, FaultState, Look, LookAt, PowerState, Process, Question, Segment, WAITED_TITLES, WaitedFence,
};

use campanile_conformance::report::Counts;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testbed::exit::{EXIT_INPUT, EXIT_MACHINE};

/// Longest time that an answer is waited for, beside that of a trace.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Longest line of an answer, in bytes.
const LINE_MAX: u64 = 64 << 20;

/// Bytes of the path of a machine: an address of the host has 108 with the zero at its end, and the path of the control socket is the longer one.
pub const MACHINE_PATH_MAX: usize = 107 - SUFFIX.len();

/// Follows the path of a machine in that of its control socket.
const SUFFIX: &str = ".control";

/// The path of the socket by which a machine is controlled that serves programs at another one.
pub fn path_of(machine: &Path) -> PathBuf {
    let mut path = machine.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

/// Path of the machine: the one that was named, or that of CAMPANILE_MACHINE.
///
/// # Errors
/// A text for people, if neither names one.
pub fn machine_path(named: Option<PathBuf>) -> Result<PathBuf, String> {
    named.or_else(remote::client::named).ok_or_else(|| {
        "no machine is named: name the socket of one that `campanile machine --socket PATH` serves, with --machine PATH or CAMPANILE_MACHINE".to_owned()
    })
}

/// Counts of the machine that serves programs at `machine`, since it was asked last.
///
/// # Errors
/// A text for people: as for [`Connection::ask`].
pub fn counts(machine: &Path) -> Result<Counts, String> {
    counts_by(machine, &Question::TakeCounts)
}

/// Says whether the machine that served programs at `machine` has gone, or has no adapter any more; `None` if it is there with one.
pub fn what_is_missing(machine: &Path) -> Option<String> {
    let look = Connection::open(machine).and_then(|mut connection| connection.ask(&Question::Look));
    let path = machine.display();
    match look {
        Err(ControlError::Lost(_, error)) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(_) => Some(format!("the machine at {path} has gone")),
        Ok(Answer::Look(Look { bugcheck: Some(bugcheck), .. })) => {
            Some(format!("the machine at {path} has stopped: {bugcheck}"))
        }
        Ok(Answer::Look(look)) if look.adapters.is_empty() => {
            Some(format!("the machine at {path} has no adapter any more"))
        }
        Ok(_) => None,
    }
}

/// What the machine is that serves programs at `machine`, without counts.
///
/// # Errors
/// As there.
pub fn description(machine: &Path) -> Result<Counts, String> {
    counts_by(machine, &Question::Describe)
}

fn counts_by(machine: &Path, question: &Question) -> Result<Counts, String> {
    let answer = Connection::open(machine).and_then(|mut machine| machine.ask(question));
    match answer.map_err(|error| error.to_string())? {
        Answer::Counts(counts) => Ok(counts),
        _ => Err("the machine answered with something other than its counts".to_owned()),
    }
}

/// The reason why a machine did not answer.
#[derive(Debug)]
pub enum ControlError {
    /// Nobody serves at the path.
    Connection(PathBuf, io::Error),
    /// The machine was there, and has gone since, or answers no more.
    Lost(PathBuf, io::Error),
    /// The machine says why not.
    Refused(String),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(path, error) if error.kind() == io::ErrorKind::WouldBlock => {
                write!(
                    f,
                    "{}: the machine does not answer; it may be stopped, see `ps`, and may do what it was asked for when it goes on",
                    path.display()
                )
            }
            Self::Lost(path, error) => write!(f, "{}: the machine has gone meanwhile: {error}", path.display()),
            Self::Connection(path, error) if error.kind() == io::ErrorKind::PermissionDenied => write!(
                f,
                "{}: {error}; start a machine of your own with `campanile machine --socket PATH`",
                path_of(path).display()
            ),
            Self::Connection(path, error) => write!(
                f,
                "{}: {error}; start a machine there with `campanile machine --socket {}`",
                path_of(path).display(),
                path.display()
            ),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ControlError {}

impl ControlError {
    /// The exit code of a command that ends by this.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Connection(..) | Self::Refused(_) => EXIT_INPUT,
            Self::Lost(..) => EXIT_MACHINE,
        }
    }
}

/// A connection to a machine.
pub struct Connection {
    machine: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Connects to the machine that serves programs at `machine`.
    ///
    /// # Errors
    /// Nobody is there.
    pub fn open(machine: &Path) -> Result<Self, ControlError> {
        let stream = UnixStream::connect(path_of(machine));
        let failed = |error| ControlError::Connection(machine.to_path_buf(), error);
        let stream = stream.map_err(failed)?;
        if !remote::channel::peer(&stream).map_err(failed)?.is_of_this_user {
            return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user")));
        }
        Ok(Self { machine: machine.to_path_buf(), stream: BufReader::new(stream) })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The machine is gone, does not answer, or refuses.
    pub fn ask(&mut self, question: &Question) -> Result<Answer, ControlError> {
        let limit = ANSWER_LIMIT + question.takes();
        match self.exchange(question, limit) {
            Ok(Answer::Refused(why)) => Err(ControlError::Refused(why)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(ControlError::Lost(self.machine.clone(), error)),
        }
    }

    fn exchange(&mut self, question: &Question, limit: Duration) -> io::Result<Answer> {
        self.stream.get_ref().set_read_timeout(Some(limit))?;
        let mut line = serde_json::to_vec(question)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)?;
        let mut answer = String::new();
        if (&mut self.stream).take(LINE_MAX).read_line(&mut answer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&answer)?)
    }

    /// What the machine has seen in the last `seconds`, as a trace in Perfetto's format.
    ///
    /// # Errors
    /// As for [`Connection::ask`].
    pub fn record(&mut self, seconds: u32) -> Result<Vec<u8>, ControlError> {
        let Answer::Trace { bytes } = self.ask(&Question::Record { seconds })? else {
            return Err(ControlError::Refused("the machine answered with something other than a trace".to_owned()));
        };
        let mut trace = Vec::new();
        let read = (&mut self.stream).take(bytes).read_to_end(&mut trace);
        match read {
            Ok(read) if read as u64 == bytes => Ok(trace),
            Ok(_) => Err(ControlError::Lost(self.machine.clone(), io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(ControlError::Lost(self.machine.clone(), error)),
        }
    }
}
