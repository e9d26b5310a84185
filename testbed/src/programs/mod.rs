//! Programs of other processes on a machine of this one.
//!
//! Each program that connects to the socket is a process of the machine: its handles, address spaces and budgets are its own, and end with it. What it
//! sends is not trusted: a message that is none ends it, calls under way are bounded, and the machine waits for it no longer than [`ANSWER_LIMIT`].
//! [`remote`] has the messages.
//!
//! Layers, each of which uses only those after it: the socket ([`MachineServer`]), one program with the threads that make its calls (`program`, `calls`), its
//! memory and addresses (`user_space`).

mod calls;
mod listener;
mod program;
mod user_space;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dxgkrnl::Machine;
use remote::channel::{self, Channel};
use remote::wire::{FromMachine, Refusal};
use rustix::event::{EventfdFlags, eventfd};

pub use listener::{BindError, PrivateListener};
use program::Program;

/// How long a program may take to do what the machine asks of it, such as mapping an address, and to take what the machine sends.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Programs that a machine serves at a time, unless it is told otherwise.
pub const PROGRAMS: usize = 64;

/// Things that happen at the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A program is served from now on.
    Connected { name: String, pid: i32 },
    /// A program has ended.
    Left { name: String, pid: i32 },
    /// A program was ended by the machine.
    Ended { name: String, pid: i32, why: Fault },
    /// Somebody who connected is not served.
    Refused { pid: i32, why: Refusal },
}

/// Why the machine ended a program. It cannot take back the memory that such a program has mapped, so the program is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It sent what is no message.
    Malformed,
    /// It did not do for [`ANSWER_LIMIT`] what it was asked for, or did not take what was sent.
    Silent,
    /// It closed its connection and went on.
    Closed,
    /// It said that it had taken addresses that it cannot have taken.
    Lied,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it sent what is no message",
            Self::Silent => "it did not answer in time",
            Self::Lied => "it gave the machine addresses that it cannot have taken",
            Self::Closed => "it closed its connection and kept memory of the machine",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { name, pid } => write!(f, "{name} ({pid}) has connected"),
            Self::Left { name, pid } => write!(f, "{name} ({pid}) has ended"),
            Self::Ended { name, pid, why } => write!(f, "{name} ({pid}) was killed: {why}"),
            Self::Refused { pid, why } => write!(f, "process {pid} is not served: {}", why.text()),
        }
    }
}

/// Told of events, on any thread.
pub type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// Ends a [`MachineServer`]; clones end the same one.
#[derive(Clone)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    /// For a server that is to be made.
    ///
    /// # Errors
    /// No more descriptors can be opened.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// The server takes no more programs, and lets go of those that it has.
    pub fn stop(&self) {
        // Fails only if the counter is full, which stops as well.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }
}

/// Host process of each process of a machine that is a program at a socket. Clones are the same.
#[derive(Clone, Default)]
pub struct Pids(Arc<Mutex<HashMap<u64, i32>>>);

impl Pids {
    /// Number on the host of the program that is process `process` of the machine; `None` if it is no program at the socket, or has ended.
    pub fn of(&self, process: u64) -> Option<i32> {
        self.lock().get(&process).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket at which a machine serves programs. The path goes with it.
pub struct MachineServer {
    listener: PrivateListener,
    stop: Stop,
    programs: usize,
    pids: Pids,
}

impl MachineServer {
    /// Listens at a path, for programs of this user only. A socket that somebody left there, and at which nobody listens, is replaced.
    ///
    /// # Errors
    /// Somebody listens at the path, something else is there, or it cannot be made.
    pub fn bind(path: &Path, programs: usize, stop: Stop) -> Result<Self, BindError> {
        let listener = PrivateListener::bind_with(path, channel::socket)?;
        Ok(Self { listener, stop, programs, pids: Pids::default() })
    }

    /// Host processes of the programs that are served.
    pub fn pids(&self) -> Pids {
        self.pids.clone()
    }

    /// Serves programs until it is stopped. When the call returns no program is served any more.
    ///
    /// # Errors
    /// The host cannot wait, or has no descriptor left.
    pub fn serve(&self, machine: &Machine, observer: &Observer) -> io::Result<()> {
        let served = Arc::new(Served::default());
        let outcome = loop {
            match self.listener.next(&self.stop) {
                Ok(Some(socket)) => self.admit(machine, socket, &served, observer),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.stop.stop();
        served.wait_for_all();
        outcome
    }

    /// Serves who has connected on a thread of its own, if it may be served.
    fn admit(&self, machine: &Machine, socket: OwnedFd, served: &Arc<Served>, observer: &Observer) {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&socket) else { return };
        let pid = peer.pid.as_raw_nonzero().get();
        let channel = Channel::new(socket);
        let refuse = |why| {
            // An answer to somebody who is gone is lost.
            let _ = channel.send(&FromMachine::Refused(why).to_words(), None);
            observer(&Event::Refused { pid, why });
        };
        if peer.uid != rustix::process::geteuid() {
            return refuse(Refusal::User);
        }
        if !served.enter(self.programs) {
            return refuse(Refusal::Full);
        }
        let (machine, stop) = (machine.clone(), self.stop.clone());
        let (leaves, observer, pids) = (Arc::clone(served), Arc::clone(observer), self.pids.clone());
        let run = move || {
            Program::run(&machine, channel, peer.pid, &stop, (&observer, &pids));
            leaves.leave();
        };
        if std::thread::Builder::new().name(format!("program {pid}")).spawn(run).is_err() {
            served.leave();
        }
    }
}

/// Number of programs that are served.
#[derive(Default)]
struct Served {
    count: Mutex<usize>,
    fewer: Condvar,
}

impl Served {
    fn enter(&self, limit: usize) -> bool {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let enters = *count < limit;
        *count += usize::from(enters);
        enters
    }

    fn leave(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.fewer.notify_all();
    }

    fn wait_for_all(&self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            count = self.fewer.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
