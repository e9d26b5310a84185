//! Waiting for clients at a path, one after the other.

use std::fmt;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::event::PollFlags;

use crate::channel::Channel;
use crate::event::{Event, Observer};
use crate::session::{self, End, Function};
use crate::wait::{Stopper, Waiter, Woken};

/// The reason why a server cannot listen at a path.
#[derive(Debug)]
pub enum BindError {
    /// Something other than a socket is there.
    NotASocket(PathBuf),
    /// A server listens there.
    InUse(PathBuf),
    /// The path has more bytes than a socket's name may have.
    TooLong(PathBuf),
    /// The socket cannot be bound: its path, and the system's error.
    System(PathBuf, io::Error),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASocket(path) => write!(f, "{} exists and is no socket", path.display()),
            Self::InUse(path) => write!(f, "{} is the socket of a server that is running", path.display()),
            Self::TooLong(path) => {
                write!(f, "{} is too long: the path of a socket has at most 107 bytes", path.display())
            }
            Self::System(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for BindError {}

/// A socket at a path, removed when the server is dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Device and number of the socket's file.
    identity: (u64, u64),
    stop: Stopper,
}

impl Server {
    /// Listens at a path until `stop`. A socket that a server left behind there is replaced.
    ///
    /// # Errors
    /// Somebody or something else is there, or the system refuses.
    pub fn bind(path: &Path, stop: Stopper) -> Result<Self, BindError> {
        let system = |error| BindError::System(path.to_owned(), error);
        // The name of a socket, with the zero behind it, has 108 bytes. [unix(7)]
        if path.as_os_str().len() > 107 {
            return Err(BindError::TooLong(path.to_owned()));
        }
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(BindError::NotASocket(path.to_owned())),
            Ok(_) => match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path).map_err(system)?;
                }
                Ok(_) => return Err(BindError::InUse(path.to_owned())),
                Err(error) => return Err(system(error)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(system(error)),
        }
        let listener = UnixListener::bind(path).map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        let made = std::fs::symlink_metadata(path).map_err(system)?;
        Ok(Self { listener, path: path.to_owned(), identity: (made.dev(), made.ino()), stop })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves one client after the other until the server is stopped, each with a function of its own from `make`.
    ///
    /// # Errors
    /// The system lets nobody be waited for any more.
    pub fn run(
        &self,
        make: &mut dyn FnMut() -> io::Result<Box<dyn Function>>,
        observe: Observer<'_>,
    ) -> io::Result<()> {
        let waiter = Waiter { stop: &self.stop, listener: None, observe };
        loop {
            match waiter.wait(&self.listener, PollFlags::IN, None)? {
                Woken::Stopped => return Ok(()),
                Woken::Ready | Woken::TimedOut => {}
            }
            // One that has left again meanwhile is no matter, and neither is a shortage that may end.
            let Ok((stream, _)) = self.listener.accept() else { continue };
            let others = Waiter { listener: Some(&self.listener), ..waiter };
            if told(session::run(Channel::new(stream), &others, make, observe), observe) {
                return Ok(());
            }
        }
    }
}

/// Says how a session ended; whether the server was stopped.
fn told(end: End, observe: Observer<'_>) -> bool {
    let stopped = matches!(end, End::Stopped);
    observe(&Event::Left(match end {
        End::Broken(error) => Some(error),
        End::Left | End::Stopped => None,
    }));
    stopped
}

/// Serves the client at the other end of `stream`, and nobody else.
pub fn serve(
    stream: UnixStream,
    stop: &Stopper,
    make: &mut dyn FnMut() -> io::Result<Box<dyn Function>>,
    observe: Observer<'_>,
) {
    let waiter = Waiter { stop, listener: None, observe };
    told(session::run(Channel::new(stream), &waiter, make, observe), observe);
}

impl Drop for Server {
    fn drop(&mut self) {
        // Somebody may have put another file there.
        let same = std::fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if same {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
