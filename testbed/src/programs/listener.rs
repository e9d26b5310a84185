//! Sockets for the processes of one user.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};

use super::Stop;

/// The next thing that happens at a socket.
pub(super) enum Turn {
    Stop,
    Connected(OwnedFd),
    /// Somebody who is connected has said something, or has gone: its place among them.
    Said(usize),
    /// Nothing, for as long as it was to be waited.
    Late,
}

/// Why nobody listens at a path.
#[derive(Debug)]
pub struct BindError {
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, error } = self;
        write!(f, "no socket at {}: {error}", path.display())
    }
}

impl std::error::Error for BindError {}

/// A socket of the host for processes of this user only. The path goes with it.
pub struct PrivateListener {
    path: PathBuf,
    /// Device and number of the file at the path.
    file: Option<(u64, u64)>,
    listener: OwnedFd,
}

impl PrivateListener {
    /// Listens for byte streams at a path. A socket that somebody left there, and at which nobody listens, is replaced.
    ///
    /// # Errors
    /// Somebody listens at the path, something else is there, or it cannot be made.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let stream = || Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?);
        Self::bind_with(path, stream)
    }

    /// As [`PrivateListener::bind`], with sockets of another type.
    pub(super) fn bind_with(path: &Path, socket: impl Fn() -> io::Result<OwnedFd>) -> Result<Self, BindError> {
        let bound = bound(path, socket).map_err(|error| BindError { path: path.to_path_buf(), error });
        Ok(Self { listener: bound?, file: file_at(path), path: path.to_path_buf() })
    }

    /// Waits for the next who connects; `None` once `stop` is set.
    ///
    /// # Errors
    /// The host cannot wait.
    pub fn next(&self, stop: &Stop) -> io::Result<Option<OwnedFd>> {
        loop {
            match self.turn(stop, &[], None)? {
                Turn::Stop => return Ok(None),
                Turn::Connected(socket) => return Ok(Some(socket)),
                Turn::Said(_) | Turn::Late => {}
            }
        }
    }

    /// Waits for the next who connects, and not longer than `time_limit` for those who have.
    ///
    /// # Errors
    /// The host cannot wait.
    pub(super) fn turn(
        &self,
        stop: &Stop,
        connected: &[BorrowedFd<'_>],
        time_limit: Option<Duration>,
    ) -> io::Result<Turn> {
        let until = time_limit.map(|time_limit| Instant::now() + time_limit);
        loop {
            let own = [self.listener.as_fd(), stop.descriptor().as_fd()];
            let all = own.iter().chain(connected);
            let mut fds: Vec<_> = all.map(|end| PollFd::from_borrowed_fd(*end, PollFlags::IN)).collect();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
            match poll(&mut fds, left.as_ref()) {
                Ok(0) => return Ok(Turn::Late),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let mut ready = fds.iter().map(|end| !end.revents().is_empty());
            let (_, stops) = (ready.next(), ready.next());
            if stops == Some(true) {
                return Ok(Turn::Stop);
            }
            // Those who are here first: nobody is sent away for one more while what it said waits to be heard.
            if let Some(place) = ready.position(|said| said) {
                return Ok(Turn::Said(place));
            }
            match accept_with(&self.listener, SocketFlags::CLOEXEC) {
                Ok(socket) => return Ok(Turn::Connected(socket)),
                // Who wanted to connect has gone, or has to wait for a descriptor.
                Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                    std::thread::sleep(Duration::from_millis(50))
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for PrivateListener {
    fn drop(&mut self) {
        // Somebody may have removed it meanwhile, and another machine may listen there.
        if self.file.is_some() && file_at(&self.path) == self.file {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Device and number of the file at a path.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// A socket of this user's that listens at a path.
fn bound(path: &Path, socket: impl Fn() -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    if let Ok(there) = fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        match connect(&socket()?, &address) {
            Err(rustix::io::Errno::CONNREFUSED) => fs::remove_file(path)?,
            _ => return Err(io::ErrorKind::AddrInUse.into()),
        }
    }
    let listener = socket()?;
    bind(&listener, &address)?;
    // Nobody connects before this: it does not listen yet.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listen(&listener, 64)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_another_has_put_in_its_place_stays() {
        let path = std::env::temp_dir().join(format!("campanile-listener-{}", std::process::id()));
        let first = PrivateListener::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = PrivateListener::bind(&path).unwrap();
        drop(first);
        assert!(file_at(&path).is_some(), "the socket of the second listener");
        drop(second);
        assert!(file_at(&path).is_none());
    }
}
