//! Programs of other processes on a machine of this one.
//!
//! Each program that connects to the socket is a process of the machine: its handles, address spaces and budgets are its own, and end with it. What it
//! sends is not trusted: a message that is none ends it, calls under way are bounded, and the machine waits for it no longer than [`ANSWER_LIMIT`].
//! [`remote`] has the messages.
//!
//! Layers, each of which uses only those after it: the socket ([`MachineServer`]) with those who have connected (`arrivals`) and the places of those who are
//! served (`seats`), one program (`program`) with its share of the machine (`shares`), its memory and addresses (`user_space`, `asked`, `copies`, `address_space`, `threads`), the threads that make its calls and copies (`workers`).

mod address_space;
mod arrivals;
mod asked;
mod copies;
mod listener;
mod program;
mod seats;
mod shares;
mod threads;
mod user_space;
mod workers;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dxgkrnl::Machine;
use remote::channel::{self, Channel, Received};
use remote::thunks::DECLARATIONS;
use remote::wire::{FromMachine, FromProgram, Hello, Refusal, VERSION, version};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::Pid;

use arrivals::{ARRIVALS, Arrival, Arrivals};
use listener::Turn;
pub use listener::{BindError, BoundPath, PrivateListener};
use program::{Program, Server};
use seats::Seats;
pub use shares::TooFewDescriptors;
use user_space::Reached;

/// How long a program may take to do what the machine asks of it, such as mapping an address, to take what the machine sends, and to let a page of its memory be read or written.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Time between two looks of a thread that waits for a program. Limits of programs are counted in looks, each as so much at most: a host with more work than processors has the
/// threads of the machine wait as it has the program's, and the time in which the machine could not have seen an answer is not the program's.
const LOOK: Duration = Duration::from_millis(50);

/// The looks of a limit.
const fn looks_of(limit: Duration) -> u32 {
    limit.as_millis().div_ceil(LOOK.as_millis()) as u32
}

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

/// Ends a [`MachineServer`]; clones end the same one.
#[derive(Clone)]
pub struct Stop(Arc<StopState>);

struct StopState {
    set: AtomicBool,
    /// Readable once it is set.
    event: OwnedFd,
}

impl Stop {
    /// For a server that is to be made.
    ///
    /// # Errors
    /// No more descriptors can be opened.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(StopState { set: AtomicBool::new(false), event })))
    }

    /// The server takes no more programs, and lets go of those that it has.
    pub fn stop(&self) {
        self.0.set.store(true, Ordering::SeqCst);
        // Fails only if the counter is full, which stops as well.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
    }

    /// True once it is set, which it is before anybody is woken by it.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::SeqCst)
    }

    /// Waits until it is set.
    ///
    /// # Errors
    /// The host cannot wait.
    pub fn wait(&self) -> io::Result<()> {
        self.wait_until(None).map(drop)
    }

    /// Waits until it is set, and not longer than `limit`. True if it is set.
    ///
    /// # Errors
    /// The host cannot wait.
    pub fn wait_for(&self, limit: Duration) -> io::Result<bool> {
        self.wait_until(Some(Instant::now() + limit))
    }

    fn wait_until(&self, until: Option<Instant>) -> io::Result<bool> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            match poll(&mut [PollFd::new(&self.0.event, PollFlags::IN)], left.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0.event
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
    /// Somebody listens at the path, something else is there, or it cannot be made; or the host does not show the processes of this PID namespace.
    pub fn bind(path: &Path, programs: usize, stop: Stop) -> Result<Self, BindError> {
        PrivateListener::check_processes(path)?;
        let listener = PrivateListener::bind_with(path, channel::socket)?;
        Ok(Self { listener, stop, programs, pids: Pids::default() })
    }

    /// The path of its socket.
    pub fn path(&self) -> &BoundPath {
        self.listener.path()
    }

    /// Host processes of the programs that are served.
    pub fn pids(&self) -> Pids {
        self.pids.clone()
    }

    /// Serves programs until it is stopped, or a bugcheck stops the machine. When the call returns no program is served any more. The answer is the number of threads of calls that have not ended:
    /// they may be anywhere in the machine, and in its driver.
    ///
    /// # Errors
    /// The host cannot wait.
    pub fn serve(&self, machine: &Machine, observer: &Observer) -> io::Result<usize> {
        let (seats, mut arrivals, stop) = (Places::default(), Arrivals::default(), self.stop.clone());
        machine.watch_for_bugcheck(move || stop.stop());
        let outcome = loop {
            let turn = {
                let connected: Vec<_> = arrivals.descriptors().collect();
                self.listener.turn(&self.stop, &connected, arrivals.time_limit())
            };
            match turn {
                Ok(Turn::Stop) => break Ok(()),
                Ok(Turn::Connected(socket)) => {
                    if let Some((gone, why)) = arrived(socket, observer).and_then(|arrival| arrivals.add(arrival)) {
                        refuse(&gone.channel, gone.pid, why, observer);
                    }
                }
                Ok(Turn::Said(place)) => {
                    if let Some(arrival) = arrivals.take(place) {
                        self.admit(machine, arrival, &seats, observer);
                    }
                }
                Ok(Turn::NoDescriptor) => {
                    if let Some(longest) = arrivals.take(0) {
                        refuse(&longest.channel, longest.pid, Refusal::Descriptors, observer);
                    }
                }
                Ok(Turn::Late) => {
                    while let Some(late) = arrivals.take_late() {
                        refuse(&late.channel, late.pid, Refusal::NoHello, observer);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        self.stop.stop();
        // Those who have connected are told, and not left waiting until the machine is taken down.
        while let Some(arrival) = arrivals.take(0) {
            refuse(&arrival.channel, arrival.pid, Refusal::Stopping, observer);
        }
        for arrival in self.listener.close().filter_map(|socket| arrived(socket, observer)) {
            refuse(&arrival.channel, arrival.pid, Refusal::Stopping, observer);
        }
        // Every call of every program has been answered with the end since the stop was set, so that no program mistakes what fences and memory hold from now on for work that was done.
        seats.served.leave_memory_to_all(|| machine.leave_memory());
        // Who has not been admitted has nothing of the machine, and may be one that the host has others wait for.
        seats.heard.wait_for_all(Some(ANSWER_LIMIT));
        seats.served.wait_for_all(None);
        outcome.map(|()| seats.served.calls_given_up().count())
    }

    /// Serves a program that has said something on a thread of its own, if it may be served. That hears what was said, too: a descriptor that comes along is closed there, which
    /// may take as long as its file system likes.
    fn admit(&self, machine: &Machine, arrival: Arrival, seats: &Places, observer: &Observer) {
        let Arrival { channel, pid, .. } = arrival;
        // One that has gone without a word needs no thread: there is nothing of it to close that may take its time.
        if channel.has_ended() {
            return;
        }
        let (channel, number) = (Arc::new(channel), pid.as_raw_nonzero().get());
        let heard = match seats.heard.take(ARRIVALS, pid, &channel, None) {
            Ok(heard) => heard,
            // The places of those who are heard, and not of those who are served.
            Err(Refusal::Full) => return refuse(&channel, pid, Refusal::Crowded, observer),
            Err(why) => return refuse(&channel, pid, why, observer),
        };
        let (machine, stop, limit) = (machine.clone(), self.stop.clone(), self.programs);
        let share = shares::of(limit);
        let (told, pids, of_thread) = (Arc::clone(observer), self.pids.clone(), Arc::clone(&channel));
        let served = Arc::clone(&seats.served);
        let run = move || {
            // A program that has ended before it began is told nothing.
            let Some(said) = hello(&of_thread) else { return };
            let admitted = said.and_then(|hello| {
                let reached = Reached::of(pid, served.given_up());
                let space = reached.memory.as_ref().ok().map(Arc::clone);
                let seat = served.take(limit, pid, &of_thread, space)?;
                // Looked at with the place taken: whoever has one by the stop is waited for.
                if stop.is_set() { Err(Refusal::Stopping) } else { Ok((hello, seat, reached)) }
            });
            drop(heard);
            match admitted {
                Ok((hello, seat, reached)) => {
                    let server = Server { machine: &machine, share, stop: &stop, observer: &told, pids: &pids };
                    Program::run(server, pid, &hello, &seat, reached);
                }
                Err(why) => refuse(&of_thread, pid, why, &told),
            }
        };
        if std::thread::Builder::new().name(format!("program {number}")).spawn(run).is_err() {
            refuse(&channel, pid, Refusal::Threads, observer);
        }
    }
}

/// The places of those who have said something and of those who are served.
#[derive(Default)]
struct Places {
    heard: Arc<Seats>,
    served: Arc<Seats>,
}

/// Somebody who has connected, unless it is of another user.
fn arrived(socket: OwnedFd, observer: &Observer) -> Option<Arrival> {
    let peer = channel::peer(&socket).ok()?;
    set_socket_timeout(&socket, Timeout::Send, Some(LOOK)).ok()?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_LIMIT)).ok()?;
    let channel = Channel::new(socket);
    if !peer.is_of_this_user {
        refuse(&channel, peer.pid, Refusal::User, observer);
        return None;
    }
    let Some(pid) = peer.pid else {
        // Nor can its memory be reached.
        refuse(&channel, None, Refusal::Namespace, observer);
        return None;
    };
    Some(Arrival::new(channel, pid))
}

/// What somebody said who has connected; `None` if it is gone.
fn hello(channel: &Channel) -> Option<Result<Hello, Refusal>> {
    let words = match channel.receive() {
        Ok(Received::Message(words, None)) => words,
        Ok(Received::Closed) => return None,
        _ => return Some(Err(Refusal::NoHello)),
    };
    // The version first: what else the words of another one mean is not known.
    Some(match version(&words) {
        None => Err(Refusal::NoHello),
        Some(VERSION) => match FromProgram::from_words(&words) {
            Ok(FromProgram::Hello(hello)) if hello.declarations == DECLARATIONS => Ok(hello),
            Ok(FromProgram::Hello(_)) => Err(Refusal::Declarations),
            _ => Err(Refusal::NoHello),
        },
        Some(_) => Err(Refusal::Version),
    })
}

/// Tells somebody why it is not served.
fn refuse(channel: &Channel, pid: impl Into<Option<Pid>>, why: Refusal, observer: &Observer) {
    // An answer to somebody who is gone is lost.
    let _ = channel.send(&FromMachine::Refused(why).to_words(), None);
    observer(&Event::Refused { pid: pid.into().map_or(0, |pid| pid.as_raw_nonzero().get()), why });
}
