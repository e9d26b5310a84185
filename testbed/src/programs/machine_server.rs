//! A machine at a socket: who has connected, who is served, and the end of both.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use dxgkrnl::Machine;
use remote::channel::{self, Channel, Received};
use remote::thunks::DECLARATIONS;
use remote::wire::{FromProgram, Hello, Refusal, VERSION, version};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::arrivals::{ARRIVALS, Arrival, Arrivals};
use super::event::Observer;
use super::limits::{ANSWER_LIMIT, LOOK};
use super::listener::{BindError, BoundPath, PrivateListener, Turn};
use super::pids::Pids;
use super::program::{Program, Server};
use super::refusal::refuse;
use super::seats::Seats;
use super::shares;
use super::stop::Stop;
use super::user_space::Reached;

/// Programs that a machine serves at a time, unless it is told otherwise.
pub const PROGRAMS: usize = 64;

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
