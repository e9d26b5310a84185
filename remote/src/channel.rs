// UNSAFETY: who is at the other end of a socket.
//! The socket between a program and a machine, which keeps messages apart and carries descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_linger, set_socket_passcred, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};
use rustix::process::Pid;

use crate::wire::{WORDS, Words};

const BYTES: usize = WORDS * 8;
/// Descriptors that the host takes with a message: SCM_MAX_FD of its headers.
const DESCRIPTORS_MAX: usize = 253;

/// Result of receiving.
#[derive(Debug)]
pub enum Received {
    /// A message, and the descriptor in it.
    Message(Words, Option<OwnedFd>),
    /// A message whose descriptor was lost: this process may open no more.
    WithoutDescriptor(Words),
    /// Something that has not the size of a message, or more than one descriptor.
    Malformed,
    /// The other end has closed the connection or is gone.
    Closed,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A socket of the kind that both ends use.
///
/// # Errors
/// No more descriptors can be opened.
pub fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// The process at the other end of a Unix socket.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its number; `None` if it has none here, because it is outside the PID namespace of this process.
    pub pid: Option<Pid>,
    /// True if it runs as the user of this process: nobody else is trusted with what a machine may have its programs do.
    pub is_of_this_user: bool,
}

/// The process at the other end of a Unix socket at the time of the connection.
///
/// # Errors
/// The host does not tell.
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
    let mut told = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let number = socket.as_fd().as_raw_fd();
    // SAFETY: a structure of this frame and its size. The function of rustix cannot be used: its number of a process is never 0, and the host's may be.
    let done =
        unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut told).cast(), &raw mut len) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_of_this_user = told.uid == rustix::process::geteuid().as_raw();
    Ok(Peer { pid: Pid::from_raw(told.pid), is_of_this_user })
}

impl Channel {
    /// The end that a connected socket is.
    pub fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Connects to a machine.
    ///
    /// # Errors
    /// Nobody listens at the path, or this user may not connect.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Self::connect_by(socket()?, path)
    }

    /// As [`Channel::connect`]. The connection, and from then on each message, is waited for so long at most.
    ///
    /// # Errors
    /// As there; EAGAIN if the machine takes no connection in this time.
    pub fn connect_within(path: &Path, limit: Duration) -> io::Result<Self> {
        let socket = socket()?;
        set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(limit))?;
        Self::connect_by(socket, path)
    }

    /// Waits without a limit from now on.
    ///
    /// # Errors
    /// The errors of the host.
    pub fn wait_without_limit(&self) -> io::Result<()> {
        set_socket_timeout(&self.0, Timeout::Send, None)?;
        Ok(set_socket_timeout(&self.0, Timeout::Recv, None)?)
    }

    fn connect_by(socket: OwnedFd, path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        loop {
            match connect(&socket, &address) {
                // It waited for its place among those who want to connect.
                Err(Errno::INTR) => {}
                connected => {
                    connected?;
                    return Ok(Self(socket));
                }
            }
        }
    }

    /// True if the process at the other end runs as the user of this one.
    ///
    /// # Errors
    /// The host does not tell.
    pub fn is_of_this_user(&self) -> io::Result<bool> {
        Ok(peer(&self.0)?.is_of_this_user)
    }

    /// True if the other end has closed the connection, or is gone.
    pub fn is_closed(&self) -> bool {
        let mut end = [PollFd::new(&self.0, PollFlags::empty())];
        let told = poll(&mut end, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        told.is_ok() && end[0].revents().contains(PollFlags::HUP)
    }

    /// True if the other end has closed the connection, or is gone, and nothing lies in it to be received.
    pub fn has_ended(&self) -> bool {
        self.is_closed() && self.is_empty()
    }

    /// True if no message lies in it, not even one without bytes. With credentials asked for, and no space for them, the host says of every message that something was left out.
    fn is_empty(&self) -> bool {
        let asked = set_socket_passcred(&self.0, true);
        let said = asked.is_ok().then(|| self.brings_descriptor());
        // Where messages are received there is space for a descriptor alone.
        let restored = set_socket_passcred(&self.0, false);
        restored.is_ok() && matches!(said, Some(Ok(false)))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The connection is closed, or has taken nothing for as long as the socket allows.
    pub fn send(&self, words: &Words, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.send_with(words, descriptor, SendFlags::NOSIGNAL)
    }

    /// As [`Channel::send`], without waiting for space in the connection.
    ///
    /// # Errors
    /// As there; EAGAIN if there is no space.
    pub fn try_send(&self, words: &Words) -> io::Result<()> {
        self.send_with(words, None, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    fn send_with(&self, words: &Words, descriptor: Option<BorrowedFd<'_>>, flags: SendFlags) -> io::Result<()> {
        let mut bytes = [0; BYTES];
        let (chunks, _) = bytes.as_chunks_mut();
        chunks.iter_mut().zip(words).for_each(|(to, from)| *to = from.to_le_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: &[BorrowedFd<'_>] = descriptor.as_slice();
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        loop {
            match sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// What the host says; EAGAIN if the socket does not wait and nothing has come.
    pub fn receive(&self) -> io::Result<Received> {
        // One byte more than a message, and all descriptors that the host lets anybody send: what is too long is seen, and nothing is closed by the host.
        let mut bytes = [0; BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                // The other end has closed without having read everything, which is told once: what it sent before comes behind that.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                other => break other?,
            }
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        // One that waits for its peer when it is closed would keep whoever closes it. What is no socket does not know this.
        for descriptor in &descriptors {
            let _ = set_socket_linger(descriptor, None);
        }
        if received.bytes == 0 && descriptors.is_empty() {
            return Ok(Received::Closed);
        }
        let is_cut = received.flags.contains(ReturnFlags::CTRUNC);
        if received.bytes != BYTES || descriptors.len() > 1 || is_cut && !descriptors.is_empty() {
            return Ok(Received::Malformed);
        }
        let mut words = [0; WORDS];
        let (chunks, _) = bytes.as_chunks();
        words.iter_mut().zip(chunks).for_each(|(to, from)| *to = u64::from_le_bytes(*from));
        Ok(if is_cut { Received::WithoutDescriptor(words) } else { Received::Message(words, descriptors.pop()) })
    }

    /// Waits for a message, and leaves it where it is. True if a descriptor comes along.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn brings_descriptor(&self) -> io::Result<bool> {
        let (mut byte, mut nothing) = ([0], RecvAncillaryBuffer::default());
        loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut nothing, RecvFlags::PEEK) {
                Err(Errno::INTR) => {}
                // Without space for it the host says that something was left out.
                peeked => return Ok(peeked?.flags.contains(ReturnFlags::CTRUNC)),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::socketpair;
    use rustix::net::sockopt::socket_linger;

    fn pair() -> (Channel, Channel) {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        (Channel::new(one), Channel::new(other))
    }

    #[test]
    fn what_was_sent_arrives_although_the_sender_has_closed_with_something_unread() {
        let (program, machine) = pair();
        program.send(&[1; WORDS], None).unwrap();
        machine.send(&[2; WORDS], None).unwrap();
        drop(machine);
        assert!(matches!(program.receive(), Ok(Received::Message(words, None)) if words == [2; WORDS]));
        assert!(matches!(program.receive(), Ok(Received::Closed)));
        assert!(program.send(&[3; WORDS], None).is_err());
    }

    #[test]
    fn no_descriptor_that_arrives_keeps_whoever_closes_it_waiting() {
        let (program, machine) = pair();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let waits = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for count in [1, 2, 3, DESCRIPTORS_MAX] {
            set_socket_linger(&waits, Some(Duration::from_secs(30_000))).unwrap();
            let sent = vec![waits.as_fd(); count];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&sent)));
            sendmsg(&program, &[IoSlice::new(&[0; BYTES])], &mut ancillary, SendFlags::empty()).unwrap();
            let received = machine.receive().unwrap();
            assert!(matches!(&received, Received::Message(_, Some(_))) == (count == 1), "{received:?}");
            assert_eq!(socket_linger(&waits).unwrap(), None, "{count} descriptors");
        }
    }

    extern "C" fn interrupted(_: libc::c_int) {}

    /// As a program has them that is profiled, or has timers: the host does not restart what waits.
    #[test]
    fn a_program_with_signals_connects_while_many_others_wait_to() {
        let path = std::env::temp_dir().join(format!("campanile-interrupted-{}", std::process::id()));
        let listener = socket().unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let signal = libc::SIGRTMIN() + 7;
        // SAFETY: a structure of numbers, of which zeros are a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = (interrupted as extern "C" fn(libc::c_int)) as usize;
        // SAFETY: a structure of this frame, with a function that lives on.
        assert_eq!(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }, 0);
        let mut waiting = Vec::with_capacity(2);
        // The host lets one more wait than it was told.
        waiting.extend((0..2).map(|_| Channel::connect(&path).unwrap()));
        let (tell, told) = std::sync::mpsc::channel();
        let connects = std::thread::spawn(move || {
            // SAFETY: takes nothing.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
            Channel::connect(&path).map(|channel| (channel, std::fs::remove_file(&path)))
        });
        let thread = told.recv().unwrap();
        for _ in 0..50 {
            // SAFETY: the thread is not joined before the last signal.
            unsafe { libc::pthread_kill(thread, signal) };
            std::thread::sleep(Duration::from_millis(1));
        }
        rustix::net::accept(&listener).unwrap();
        connects.join().unwrap().expect("it is connected").1.unwrap();
    }

    #[test]
    fn a_connection_that_is_closed_with_something_in_it_has_not_ended() {
        let (program, machine) = pair();
        assert!(!machine.has_ended());
        // Nor has one with messages that have no bytes, of which only the last brings something.
        sendmsg(&program, &[], &mut SendAncillaryBuffer::default(), SendFlags::empty()).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        // Not one of these two ends, which would be open while it is under way.
        let (mut ancillary, other) = (SendAncillaryBuffer::new(&mut space), socket().unwrap());
        let sent = [other.as_fd()];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&sent)));
        sendmsg(&program, &[], &mut ancillary, SendFlags::empty()).unwrap();
        drop(program);
        for _ in 0..2 {
            assert!(machine.is_closed() && !machine.has_ended());
            machine.receive().unwrap();
        }
        assert!(machine.is_closed() && machine.has_ended());
    }

    #[test]
    fn a_process_is_known_by_its_number_and_user() {
        let (program, _machine) = pair();
        let peer = peer(&program).unwrap();
        assert!(peer.is_of_this_user && peer.pid == Some(rustix::process::getpid()));
    }

    #[test]
    fn a_message_says_before_it_is_received_whether_a_descriptor_comes_along() {
        let (program, machine) = pair();
        machine.send(&[1; WORDS], None).unwrap();
        machine.send(&[2; WORDS], Some(program.as_fd())).unwrap();
        drop(machine);
        for expected in [false, true] {
            assert_eq!(program.brings_descriptor().ok(), Some(expected));
            assert!(
                matches!(program.receive(), Ok(Received::Message(_, descriptor)) if descriptor.is_some() == expected)
            );
        }
        assert_eq!(program.brings_descriptor().ok(), Some(false), "closed");
    }

    #[test]
    fn a_message_carries_one_descriptor_and_none_but_whole_ones_arrive() {
        let (program, machine) = pair();
        machine.send(&[1; WORDS], Some(program.as_fd())).unwrap();
        assert!(matches!(program.receive(), Ok(Received::Message(_, Some(_)))));
        for bytes in [&[0; BYTES - 1][..], &[0; BYTES + 1]] {
            rustix::net::send(&machine, bytes, SendFlags::empty()).unwrap();
            assert!(matches!(program.receive(), Ok(Received::Malformed)));
        }
    }
}
