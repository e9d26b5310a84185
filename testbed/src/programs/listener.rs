//! Sockets for the processes of one user.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nt::user_space::refuse_descriptors;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, shutdown,
    socket_with,
};
use rustix::process::Pid;

use super::stop::Stop;

/// The next thing that happens at a socket.
pub(super) enum Turn {
    Stop,
    Connected(OwnedFd),
    /// Somebody who is connected has said something, or has gone: its place among them.
    Said(usize),
    /// Nothing, for as long as it was to be waited.
    Late,
    /// Somebody wants to connect, and the host has no descriptor for that.
    NoDescriptor,
}

/// The reason why a path could not be listened on.
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
    path: BoundPath,
    listener: OwnedFd,
}

/// The path of a socket that listens. Clones are of the same socket.
#[derive(Clone, Debug)]
pub struct BoundPath {
    path: PathBuf,
    /// Device and number of the file at the path.
    file: Option<(u64, u64)>,
}

impl BoundPath {
    /// Removes the socket from its path, unless that has been done.
    pub fn remove(&self) {
        // Somebody may have removed it meanwhile, and another machine may listen there.
        if self.file.is_some() && file_at(&self.path) == self.file {
            let _ = fs::remove_file(&self.path);
        }
    }
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
        Ok(Self { listener: bound?, path: BoundPath { path: path.to_path_buf(), file: file_at(path) } })
    }

    /// Checks that the processes of this host are found by the numbers that the host gives them here.
    ///
    /// # Errors
    /// /proc is not there, or of another PID namespace.
    pub(super) fn check_processes(path: &Path) -> Result<(), BindError> {
        let this = fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
        if this == Some(std::process::id()) {
            return Ok(());
        }
        let why = "/proc is not there, or of another PID namespace, and programs would not be found in it: mount that of this one (unshare --mount-proc)";
        Err(BindError { path: path.to_path_buf(), error: io::Error::other(why) })
    }

    /// Lets nobody connect any more, and takes all those who have and were not taken yet.
    pub(super) fn close(&self) -> impl Iterator<Item = OwnedFd> {
        // Whoever connects from now on finds nobody who listens. It cannot fail: this is a socket.
        let _ = shutdown(&self.listener, Shutdown::Both);
        std::iter::from_fn(|| {
            loop {
                match accept_with(&self.listener, SocketFlags::CLOEXEC) {
                    Ok(socket) => return Some(socket),
                    Err(Errno::CONNABORTED | Errno::INTR) => {}
                    // None is left; or the host has no descriptor for the rest, which are told when the socket is closed.
                    Err(_) => return None,
                }
            }
        })
    }

    /// Its path, for whoever ends the process without dropping it.
    pub fn path(&self) -> &BoundPath {
        &self.path
    }

    /// Waits for the next connection; `None` once `stop` is set.
    ///
    /// # Errors
    /// The host cannot wait.
    pub fn next(&self, stop: &Stop) -> io::Result<Option<OwnedFd>> {
        loop {
            match self.turn(stop, &[], None)? {
                Turn::Stop => return Ok(None),
                Turn::Connected(socket) => return Ok(Some(socket)),
                Turn::Said(_) | Turn::Late | Turn::NoDescriptor => {}
            }
        }
    }

    /// Waits for the next connection, and not longer than `time_limit` for those who have.
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
                Err(Errno::INTR) => continue,
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
                // The process that wanted to connect has gone.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    // It waits, and so does this thread: without a descriptor the next look would find the same at once.
                    std::thread::sleep(Duration::from_millis(50));
                    let is_late = until.is_some_and(|until| until <= Instant::now());
                    return Ok(if is_late { Turn::Late } else { Turn::NoDescriptor });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for PrivateListener {
    fn drop(&mut self) {
        self.path.remove();
    }
}

/// Device and number of the file at a path.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// How long others may take that listen, or try to, in the same folder.
const TURN_LIMIT: Duration = Duration::from_secs(5);

/// The folder of a path.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The lock of this process among those that make sockets in a folder, until it is dropped. A socket at which nobody listens may be one that another is about to listen at.
///
/// # Errors
/// The folder is none, or another process has the lock for [`TURN_LIMIT`].
fn turn_in(folder: &Path) -> io::Result<OwnedFd> {
    let folder = open(folder, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let until = Instant::now() + TURN_LIMIT;
    loop {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(folder),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Err(Errno::WOULDBLOCK) => return Err(io::Error::other("another process has its folder locked (flock)")),
            Err(error) => return Err(error.into()),
        }
    }
}

/// True for a process that is being killed, is exiting, or has exited. Its descriptors are closed one after the other: a program may have been told that a
/// machine is gone while the socket of that machine still listens.
fn is_ending(pid: Pid) -> bool {
    const PF_EXITING: u64 = 4;
    const SIGKILL_PENDING: u64 = 1 << (libc::SIGKILL - 1);
    let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) else { return true };
    // The name of the command, which stands in parentheses, may have spaces. Fields are numbered from one, and that name is the second.
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let number = |field: usize| fields.get(field - 3).and_then(|text| text.parse().ok()).unwrap_or(0u64);
    matches!(fields.first(), Some(&("Z" | "X"))) || number(9) & PF_EXITING != 0 || number(31) & SIGKILL_PENDING != 0
}

/// Frees a path for a socket: one at which nobody listens is removed. A process that listens and is ending is waited for, up to [`TURN_LIMIT`].
///
/// # Errors
/// Somebody listens at the path, or something else is there.
fn free_path(path: &Path, address: &SocketAddrUnix, socket: impl Fn() -> io::Result<OwnedFd>) -> io::Result<()> {
    let until = Instant::now() + TURN_LIMIT;
    while let Ok(there) = fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(io::Error::other("something else is there, which is no socket"));
        }
        let asking = socket()?;
        // A process that listens and takes nobody would be waited for.
        ioctl_fionbio(&asking, true)?;
        match connect(&asking, address) {
            Err(Errno::CONNREFUSED) => fs::remove_file(path)?,
            Ok(()) if Instant::now() < until && socket_peercred(&asking).is_ok_and(|peer| is_ending(peer.pid)) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => return Err(io::Error::other("somebody listens there already")),
        }
    }
    Ok(())
}

/// Binds a socket to a name in a folder that nobody has, and returns that. Nobody connects there: it does not listen yet.
///
/// # Errors
/// The folder cannot be written, or has all the names.
fn bound_unseen(listener: &OwnedFd, folder: &OwnedFd) -> io::Result<String> {
    let names = (0..64).map(|number| format!(".campanile-{}-{number}", std::process::id()));
    for name in names {
        // By the descriptor of the folder: a path with this name could be too long for an address.
        match bind(listener, &SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))?) {
            Ok(()) => return Ok(name),
            // A process with this number was killed before it had removed it, or somebody wants to be in the way.
            Err(Errno::ADDRINUSE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let why = "files whose names begin with `.campanile-` are in the way of the one that is made before it listens";
    Err(io::Error::other(why))
}

/// A socket of this user's that listens at a path. It has listened by the time that it is seen there: a process that connects as soon as there is a path is not refused.
fn bound(path: &Path, socket: impl Fn() -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let folder = folder_of(path);
    let turn = turn_in(folder)?;
    free_path(path, &address, &socket)?;
    let listener = socket()?;
    // Nobody here is sent any.
    refuse_descriptors(&listener);
    let unseen = folder.join(bound_unseen(&listener, &turn)?);
    let listens = fs::set_permissions(&unseen, Permissions::from_mode(0o600))
        .and_then(|()| Ok(listen(&listener, 64)?))
        // Unlike a rename, it replaces nothing that somebody has put there meanwhile.
        .and_then(|()| fs::hard_link(&unseen, path));
    let removed = fs::remove_file(&unseen);
    listens.and(removed).map(|()| listener)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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

    #[test]
    fn one_that_closes_hands_over_who_has_connected_and_nobody_connects_any_more() {
        let path = std::env::temp_dir().join(format!("campanile-listener-closes-{}", std::process::id()));
        let listener = PrivateListener::bind(&path).unwrap();
        let connect = || std::os::unix::net::UnixStream::connect(&path);
        let _waiting: Vec<_> = (0..3).map(|_| connect().unwrap()).collect();
        assert_eq!(listener.close().count(), 3);
        assert_eq!(connect().unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(PrivateListener::bind(&path).is_ok(), "the path is another one's to take");
    }

    #[test]
    fn a_path_that_was_removed_is_not_removed_from_under_another_one() {
        let path = std::env::temp_dir().join(format!("campanile-listener-removed-{}", std::process::id()));
        let first = PrivateListener::bind(&path).unwrap();
        first.path().clone().remove();
        assert!(file_at(&path).is_none());
        let _second = PrivateListener::bind(&path).unwrap();
        first.path().remove();
        drop(first);
        assert!(file_at(&path).is_some(), "the socket of the second listener");
    }

    /// In a process of its own, which has no descriptor left.
    #[test]
    fn without_a_descriptor_for_one_more_those_who_are_late_are_told_of_all_the_same() {
        const ALONE: &str = "CAMPANILE_TEST_WITHOUT_DESCRIPTORS";
        if std::env::var_os(ALONE).is_none() {
            let (thread, mut alone) =
                (std::thread::current(), std::process::Command::new(std::env::current_exe().unwrap()));
            let output = alone.args(["--exact", thread.name().unwrap()]).env(ALONE, "").output().unwrap();
            let told = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && told.contains("1 passed"), "{told}");
            return;
        }
        let path = std::env::temp_dir().join(format!("campanile-listener-descriptors-{}", std::process::id()));
        let (listener, stop) = (PrivateListener::bind(&path).unwrap(), Stop::new().unwrap());
        let _asking = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let allowed = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..allowed }).unwrap();
        let all: Vec<_> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
        let turn = |time_limit| listener.turn(&stop, &[], time_limit).unwrap();
        assert!(matches!(turn(None), Turn::NoDescriptor));
        assert!(matches!(turn(Some(Duration::from_secs(60))), Turn::NoDescriptor), "nobody is late yet");
        assert!(matches!(turn(Some(Duration::ZERO)), Turn::Late));
        drop(all);
        assert!(matches!(turn(Some(Duration::ZERO)), Turn::Connected(_)));
    }

    #[test]
    fn who_finds_the_socket_at_its_path_can_connect() {
        let path = std::env::temp_dir().join(format!("campanile-listener-found-{}", std::process::id()));
        let connected = |_: &_| loop {
            match std::os::unix::net::UnixStream::connect(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                connected => return connected,
            }
        };
        for _ in 0..500 {
            let start = std::sync::Barrier::new(2);
            let listener = std::thread::scope(|scope| {
                let asker = scope.spawn(|| connected(&start.wait()));
                start.wait();
                let listener = PrivateListener::bind(&path).unwrap();
                asker.join().unwrap().expect("who finds it finds one who listens");
                listener
            });
            drop(listener);
        }
    }

    #[test]
    fn what_has_the_name_of_the_socket_before_it_listens_is_left_alone() {
        let folder = std::env::temp_dir().join(format!("campanile-listener-names-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let name = |number: u32| folder.join(format!(".campanile-{}-{number}", std::process::id()));
        (0..63).for_each(|number| fs::write(name(number), "").unwrap());
        let path = folder.join("machine");
        drop(PrivateListener::bind(&path).expect("one name is free"));
        fs::create_dir(name(63)).unwrap();
        let refused = PrivateListener::bind(&path).map(drop).expect_err("no name is free");
        assert!(refused.to_string().contains("begin with `.campanile-`"), "{refused}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 64, "nothing else is left, and nothing of those is gone");
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Each finds the socket of one that was killed, and may take the one that another has just made for such a socket.
    #[test]
    fn of_many_who_begin_at_the_path_of_a_dead_one_exactly_one_listens_and_is_found() {
        let path = std::env::temp_dir().join(format!("campanile-listener-race-{}", std::process::id()));
        for _ in 0..50 {
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            let start = std::sync::Barrier::new(8);
            let listeners: Vec<_> = std::thread::scope(|scope| {
                let begin = || {
                    start.wait();
                    PrivateListener::bind(&path)
                };
                let all: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
                all.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let (served, refused): (Vec<_>, Vec<_>) = listeners.into_iter().partition(Result::is_ok);
            assert_eq!(served.len(), 1);
            assert!(
                refused.iter().all(|error| error.as_ref().is_err_and(|error| error.to_string().contains("already")))
            );
            std::os::unix::net::UnixStream::connect(&path).expect("the one that listens is at the path");
        }
    }

    /// The socket is this process's too, so it is closed when this test says so; the kernel names the process that has called listen as the one who listens.
    #[test]
    fn one_that_has_been_killed_and_whose_socket_is_not_closed_yet_is_waited_for() {
        let path = std::env::temp_dir().join(format!("campanile-listener-ending-{}", std::process::id()));
        let ending = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&ending, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        let theirs = ending.try_clone().unwrap();
        let mut command = std::process::Command::new("true");
        // SAFETY: listen is a system call; it takes no lock and no memory of the process that was forked.
        unsafe { command.pre_exec(move || Ok(listen(&theirs, 64)?)) };
        let mut killed = command.spawn().unwrap();
        let pid = Pid::from_child(&killed);
        let until = Instant::now() + Duration::from_secs(60);
        while !is_ending(pid) {
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(command);
        assert!(!is_ending(rustix::process::getpid()));
        std::thread::scope(|scope| {
            let next = scope.spawn(|| PrivateListener::bind(&path));
            std::thread::sleep(Duration::from_millis(50));
            drop(ending);
            next.join().unwrap().expect("the path is free once the socket is closed");
        });
        killed.wait().unwrap();
    }

    /// It would block whoever asks whether it is there.
    #[test]
    fn who_listens_and_takes_nobody_has_the_path_all_the_same() {
        let path = std::env::temp_dir().join(format!("campanile-listener-full-{}", std::process::id()));
        let first = PrivateListener::bind(&path).unwrap();
        let connect = || {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
            connect(&socket, &SocketAddrUnix::new(&path).unwrap()).map(|()| socket)
        };
        let waiting: Vec<_> = std::iter::from_fn(|| connect().ok()).take(1000).collect();
        assert!(waiting.len() < 1000, "as many wait as may");
        let refused = PrivateListener::bind(&path).map(drop).expect_err("it is there");
        assert!(refused.to_string().contains("somebody listens there already"), "{refused}");
        drop(first);
    }
}
