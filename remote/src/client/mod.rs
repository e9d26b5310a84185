//! The program's end of a connection to a machine.
//!
//! A call is sent by the thread that makes it, which then sleeps until the answer is there; any number of threads may call at once. A thread of the
//! library receives: it hands answers to the threads that wait, and does what the machine asks for in this program (`perform`). It takes no lock that a
//! thread holds while it waits for the machine, so the machine never waits for itself.

mod events;
mod perform;
mod signals;
mod spare;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io, thread};

use nt::user_space;
use wddm_ddi::status::{NTSTATUS, STATUS_DEVICE_REMOVED};

use crate::channel::{Channel, Received};
use crate::thunks::{DECLARATIONS, NAMES};
use crate::wire::{ARGUMENTS, Call, FromMachine, FromProgram, Hello, Refusal, VERSION, name_bytes};

use events::Events;
pub use signals::SignalsHeld;
use spare::{Sent, Spare};

/// Environment variable that names the socket of a machine.
pub const VARIABLE: &str = "CAMPANILE_MACHINE";

/// The socket of the machine that the environment names; `None` if [`VARIABLE`] is not set, or empty.
pub fn named() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The reason why a program is not connected to a machine.
#[derive(Debug)]
pub enum ConnectError {
    /// The socket cannot be connected to.
    Socket(PathBuf, io::Error),
    /// The machine does not serve the program.
    Refused(PathBuf, Refusal),
    /// The machine has not answered within a minute: it may be stopped.
    Silent(PathBuf),
    /// What answered is no machine, or it ended meanwhile.
    NoMachine(PathBuf),
    /// The process that listens is of another user: a machine of a stranger could have the program do anything.
    Stranger(PathBuf),
    /// The program has no thread left.
    Thread(io::Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path, error) => {
                write!(f, "no machine at {}: {error}; `campanile machine --socket PATH` serves one", path.display())
            }
            Self::Refused(path, why) => {
                write!(f, "the machine at {} does not serve this program: {}", path.display(), why.text())
            }
            Self::Silent(path) => {
                write!(f, "the machine at {} does not answer; it may be stopped, see `ps`", path.display())
            }
            Self::NoMachine(path) => write!(f, "what listens at {} is no machine", path.display()),
            Self::Stranger(path) => write!(
                f,
                "what listens at {} belongs to another user and is not trusted; start a machine of your own with `campanile machine --socket PATH`",
                path.display()
            ),
            Self::Thread(error) => write!(f, "no thread for the machine's requests: {error}"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// A call that waits for its answer.
#[derive(Default)]
struct Waiter {
    status: Mutex<Option<NTSTATUS>>,
    changed: Condvar,
}

impl Waiter {
    fn wake(&self, status: NTSTATUS) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        self.changed.notify_one();
    }

    fn wait(&self) -> NTSTATUS {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(status) = *status {
                return status;
            }
            status = self.changed.wait(status).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A connection to a machine.
struct Connection {
    channel: Channel,
    next: AtomicU64,
    waiters: Mutex<HashMap<u64, Arc<Waiter>>>,
    /// Events that the machine is to set.
    events: Events,
    /// The machine is gone. Written with `waiters` locked, so that nobody waits after that.
    lost: AtomicBool,
}

/// The connection of this program, if it has one.
static CONNECTION: Mutex<Option<Arc<Connection>>> = Mutex::new(None);

/// Where the program was connected, by which name, and how often. Held while it is being connected.
static PLACE: Mutex<Option<Place>> = Mutex::new(None);

#[derive(Clone)]
struct Place {
    path: PathBuf,
    name: String,
    connections: u64,
}

/// The word that the machine knows this program by, as long as it is the same program.
static MARK: AtomicU64 = AtomicU64::new(0);

/// Longest time until a machine takes the connection of a program, and until it has answered its hello.
const HELLO_LIMIT: Duration = Duration::from_secs(60);

/// Connects this program to the machine at a socket. Threads may call thunks from then on. A connection that the program had to another machine is given up; the same one
/// refuses a second connection.
///
/// # Errors
/// See [`ConnectError`].
pub fn connect(path: &Path, name: &str) -> Result<(), ConnectError> {
    let mut place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    connect_at(&mut place, path, name)
}

/// Connects, with the place locked, so that no two threads do so at a time.
fn connect_at(place: &mut Option<Place>, path: &Path, name: &str) -> Result<(), ConnectError> {
    let earlier = place.as_ref().map_or(0, |place| place.connections);
    let connection = connected_by(|| connected(path, name, earlier, HELLO_LIMIT), thread::sleep)?;
    // The program may go to another directory before it connects again.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    *place = Some(Place { path, name: name.to_owned(), connections: earlier + 1 });
    *CONNECTION.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    Ok(())
}

/// The machine is gone: connects to the next one at its place, if there is one, unless another thread has done so.
fn reconnect() {
    let mut place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Place { path, name, .. }) = place.clone() else { return };
    if !is_connected() {
        // Without a machine the thunk says so.
        let _ = connect_at(&mut place, &path, &name);
    }
}

/// True for the thunks by which a program finds adapters: with them it goes on after a machine has ended.
fn finds_adapters(thunk: u32) -> bool {
    let name = NAMES.get(thunk as usize).copied().unwrap_or_default();
    name.starts_with("D3DKMTEnumAdapters") || name.starts_with("D3DKMTOpenAdapterFrom")
}

/// How often a program tries that comes at a time when too many others do, and how long it pauses first: twice as long each time.
const TRIES: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Connects by `connected`, and tries again while too many others connect. Pauses by `pause`.
///
/// # Errors
/// Those of `connected`.
fn connected_by<T>(
    mut connected: impl FnMut() -> Result<T, ConnectError>,
    mut pause: impl FnMut(Duration),
) -> Result<T, ConnectError> {
    for earlier in 0..TRIES - 1 {
        match connected() {
            Err(ConnectError::Refused(_, Refusal::Crowded)) => pause(FIRST_PAUSE * (1 << earlier)),
            done => return done,
        }
    }
    connected()
}

fn connected(path: &Path, name: &str, earlier: u64, limit: Duration) -> Result<Arc<Connection>, ConnectError> {
    let socket = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock => ConnectError::Silent(path.to_path_buf()),
        _ => ConnectError::Socket(path.to_path_buf(), error),
    };
    let channel = Channel::connect_within(path, limit).map_err(socket)?;
    if !channel.is_of_this_user().map_err(socket)? {
        return Err(ConnectError::Stranger(path.to_path_buf()));
    }
    perform::let_reach(&channel);
    let mark = RandomState::new().hash_one(std::process::id()) | 1;
    MARK.store(mark, Ordering::SeqCst);
    let mark_address = MARK.as_ptr().expose_provenance() as u64;
    let name = name_bytes(name);
    let hello = Hello { version: VERSION, declarations: DECLARATIONS, mark_address, mark, name, earlier };
    // A machine that refuses at once has closed already, and its answer is there all the same.
    let sent = channel.send(&FromProgram::Hello(hello).to_words(), None);
    match (channel.receive().map(message), sent) {
        (Ok(Some((FromMachine::Refused(why), _))), _) => return Err(ConnectError::Refused(path.to_path_buf(), why)),
        (_, Err(error)) => return Err(socket(error)),
        (Ok(Some((FromMachine::Welcome, _))), Ok(())) => {}
        (Err(error), Ok(())) if error.kind() == io::ErrorKind::WouldBlock => return Err(socket(error)),
        _ => return Err(ConnectError::NoMachine(path.to_path_buf())),
    }
    channel.wait_without_limit().map_err(socket)?;
    let connection = Arc::new(Connection::new(channel));
    let of_thread = Arc::clone(&connection);
    let held = SignalsHeld::new(&[]);
    let thread = thread::Builder::new().name("campanile machine".to_owned()).spawn(move || of_thread.serve());
    drop(held);
    thread.map_err(ConnectError::Thread)?;
    Ok(connection)
}

/// True while the machine that this program is connected to is there.
pub fn is_connected() -> bool {
    connection().is_some_and(|connection| !connection.lost.load(Ordering::Acquire))
}

fn connection() -> Option<Arc<Connection>> {
    CONNECTION.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Calls a thunk of the machine by its number.
///
/// Errors: STATUS_DEVICE_REMOVED if the machine is gone, also while the thunk runs, or if there never was one. A thunk that finds adapters goes to the next machine
/// at the same place.
pub(crate) fn call(thunk: u32, given: &[u64]) -> NTSTATUS {
    if finds_adapters(thunk) && !is_connected() {
        reconnect();
    }
    let Some(connection) = connection() else { return STATUS_DEVICE_REMOVED };
    let mut arguments = [0; ARGUMENTS];
    arguments.iter_mut().zip(given).for_each(|(to, from)| *to = *from);
    connection.call(thunk, arguments)
}

/// The next message of the machine; `None` once it is gone or says what is no message.
fn receive(channel: &Channel) -> Option<(FromMachine, Sent)> {
    message(channel.receive().ok()?)
}

/// What was received, if it is a message of a machine.
fn message(received: Received) -> Option<(FromMachine, Sent)> {
    let (words, descriptor) = match received {
        Received::Message(words, descriptor) => (words, descriptor.ok_or_else(|| io::ErrorKind::InvalidInput.into())),
        Received::WithoutDescriptor(words) => (words, Err(io::Error::from_raw_os_error(libc::EMFILE))),
        Received::Malformed | Received::Closed => return None,
    };
    Some((FromMachine::from_words(&words).ok()?, descriptor))
}

impl Connection {
    /// Nothing is sent or received yet.
    fn new(channel: Channel) -> Self {
        Self {
            channel,
            next: AtomicU64::new(1),
            waiters: Mutex::default(),
            events: Events::default(),
            lost: AtomicBool::new(false),
        }
    }

    fn call(&self, thunk: u32, arguments: [u64; ARGUMENTS]) -> NTSTATUS {
        if let Err(status) = self.events.keep(thunk, arguments[0]) {
            return status;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let waiter = Arc::new(Waiter::default());
        {
            let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            if self.lost.load(Ordering::Acquire) {
                return STATUS_DEVICE_REMOVED;
            }
            waiters.insert(id, Arc::clone(&waiter));
        }
        let call = FromProgram::Call(Call { id, thunk, caller: user_space::acting_for(), arguments });
        if self.channel.send(&call.to_words(), None).is_err() {
            self.waiters.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            return STATUS_DEVICE_REMOVED;
        }
        waiter.wait()
    }

    /// Receives until the machine is gone.
    fn serve(self: &Arc<Self>) {
        let (mut frozen, mut spare) = (perform::FrozenRanges::default(), Spare::default());
        while let Some((message, descriptor)) = spare.receive(&self.channel) {
            match message {
                FromMachine::Returned { id, status } => {
                    let waiter = self.waiters.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                    waiter.inspect(|waiter| waiter.wake(status));
                }
                FromMachine::Operate { number, operation } => {
                    let descriptor = spare.left_beside(&self.channel, descriptor, &operation);
                    self.operate(number, operation, descriptor, &mut frozen);
                }
                FromMachine::Welcome | FromMachine::Refused(_) => break,
            }
        }
        frozen.thaw();
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        self.lost.store(true, Ordering::Release);
        waiters.drain().for_each(|(_, waiter)| waiter.wake(STATUS_DEVICE_REMOVED));
        drop(waiters);
        // A call that has given the machine an event since then is told that the machine is gone.
        self.events.set();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It may have taken the connection or not.
    #[test]
    fn a_machine_that_does_not_answer_is_not_waited_for_without_end() {
        let path = std::env::temp_dir().join(format!("campanile-silent-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = crate::channel::socket().unwrap();
        rustix::net::bind(&listener, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let silent = || connected(&path, "test", 0, Duration::from_millis(20)).map(drop);
        assert!(matches!(silent(), Err(ConnectError::Silent(_))), "nobody says anything");
        let _waiting = Channel::connect_within(&path, Duration::from_millis(20));
        let said = silent().unwrap_err().to_string();
        assert!(said.contains("does not answer"), "nobody takes it: {said}");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_program_that_comes_in_a_crowd_tries_again_a_few_times_and_one_that_is_refused_does_not() {
        let refused = |why| Err(ConnectError::Refused(PathBuf::new(), why));
        let tried = |served_at: u32, why: Refusal| {
            let (mut tries, mut paused) = (0, Duration::ZERO);
            let connected = || {
                tries += 1;
                if tries == served_at { Ok(()) } else { refused(why) }
            };
            let served = connected_by(connected, |pause| paused += pause).is_ok();
            (served, tries, paused.as_millis())
        };
        assert_eq!(tried(1, Refusal::Crowded), (true, 1, 0));
        assert_eq!(tried(3, Refusal::Crowded), (true, 3, 10 + 20));
        assert_eq!(tried(0, Refusal::Crowded), (false, 8, 1270));
        assert_eq!(tried(2, Refusal::Full), (false, 1, 0));
    }
}
