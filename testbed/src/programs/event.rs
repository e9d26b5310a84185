//! Events at the socket of a machine: programs that come and go, faults for which the machine ends one, and its end then.

use std::fmt;
use std::io;
use std::sync::Arc;

use remote::wire::Refusal;

#[cfg(doc)]
use super::limits::ANSWER_LIMIT;

/// Things that happen at the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A program is served from now on.
    Connected { name: String, pid: i32 },
    /// A program has ended.
    Left { name: String, pid: i32 },
    /// A program was ended by the machine.
    Ended { name: String, pid: i32, why: Fault, end: End },
    /// A program is gone, and the host waits still for pages of its memory, for so many copies that nobody wants any more; or so many threads of its calls have not ended in time. Told before its
    /// end is.
    GivenUp { name: String, pid: i32, copies: usize, calls: usize },
    /// Somebody who connected is not served; 0 for a process that has no number here.
    Refused { pid: i32, why: Refusal },
}

/// Why the machine ended a program. It cannot take back the memory that such a program has mapped, so the program is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It sent what is no message.
    Malformed,
    /// It did not do for [`ANSWER_LIMIT`] what it was asked for, or did not take what was sent.
    Silent,
    /// It closed its connection, which an empty message looks like, and went on.
    Closed,
    /// It said that it had taken addresses that it cannot have taken.
    Lied,
    /// A page of its memory, or a descriptor that it named, did not come for [`ANSWER_LIMIT`], for which somebody else has to answer: another process, or a file.
    Withheld,
    /// Its host refused, with this number, to let go of memory of the machine: it has sealed that, has limited itself, or has as many mappings as it may have.
    Refused(i32),
}

/// What became of a program that the machine ended. In any case its work is aborted, its connection is closed, and what it had is another program's to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// It was killed.
    #[default]
    Killed,
    /// The host lets the machine not kill it: it has taken credentials that it did not have when it connected.
    NotAllowed,
    /// It was killed, and a thread of it waits in the host's kernel for somebody else before it ends.
    Lingers,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it sent what is no message",
            Self::Silent => "it did not answer in time",
            Self::Lied => "it gave the machine addresses that it cannot have taken",
            Self::Withheld => "memory or a descriptor of it that the machine needed did not come in time; another process, or a file, has to answer for it",
            Self::Refused(code) => {
                let error = io::Error::from_raw_os_error(*code);
                return write!(f, "it could not let go of memory of the machine, of which its host said: {error}");
            }
            Self::Closed => {
                "it closed its connection, or sent an empty message, and lived on, perhaps with memory of the machine"
            }
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "was killed",
            Self::NotAllowed => {
                "is served no more, and goes on without its connection, for it has taken other credentials and may not be killed"
            }
            Self::Lingers => "was killed and is served no more, though its end waits for somebody else",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { name, pid } => write!(f, "{name} ({pid}) has connected"),
            Self::Left { name, pid } => write!(f, "{name} ({pid}) has ended"),
            Self::Ended { name, pid, why, end } => write!(f, "{name} ({pid}) {end}: {why}"),
            Self::GivenUp { name, pid, copies, calls } => write!(
                f,
                "{name} ({pid}) is served no more, but threads of the machine wait for what it has left: {calls} of its calls, and {copies} that ask for its memory, descriptors or address space"
            ),
            Self::Refused { pid, why } => write!(f, "process {pid} is not served: {}", why.text()),
        }
    }
}

/// Told of events, on any thread.
pub type Observer = Arc<dyn Fn(&Event) + Send + Sync>;
