//! Whole messages over a stream socket, with the descriptors that came with them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::message::{HEADER_SIZE, Header, MAX_FDS, MAX_MESSAGE};

/// A message as it came.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
    /// More descriptors came than a message may have.
    pub(crate) too_many_fds: bool,
}

/// Received part of a message that is not complete.
#[derive(Debug, Default)]
struct Partial {
    header: [u8; HEADER_SIZE],
    have: usize,
    body: Vec<u8>,
    fds: Vec<OwnedFd>,
    too_many_fds: bool,
}

/// One end of a connection. Nothing here waits: a caller that has to is told.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: UnixStream,
    partial: Partial,
}

/// Result of reading the socket without waiting.
#[derive(Debug)]
pub(crate) enum Received {
    Message(Message),
    /// The rest has not come yet.
    Nothing,
    /// The peer has closed its end.
    Closed,
}

fn out_of_step(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Channel {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, partial: Partial::default() }
    }

    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Takes what there is, at most to the end of a message: descriptors that come then belong to it.
    ///
    /// # Errors
    /// The size of a message is impossible, so that nobody knows where the next one starts; or what the system says.
    pub(crate) fn receive(&mut self) -> io::Result<Received> {
        loop {
            let partial = &mut self.partial;
            let came = if partial.have < HEADER_SIZE {
                read_into(&self.stream, &mut partial.header[partial.have..], &mut partial.fds)
            } else {
                let done = partial.have - HEADER_SIZE;
                read_into(&self.stream, &mut partial.body[done..], &mut partial.fds)
            };
            match came {
                Ok((0, _)) => return Ok(Received::Closed),
                Ok((bytes, truncated)) => {
                    partial.have += bytes;
                    partial.too_many_fds |= truncated || partial.fds.len() > MAX_FDS;
                    partial.fds.truncate(MAX_FDS);
                }
                Err(Errno::WOULDBLOCK) => return Ok(Received::Nothing),
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET) => return Ok(Received::Closed),
                Err(error) => return Err(error.into()),
            }
            if partial.have < HEADER_SIZE {
                continue;
            }
            let header = Header::parse(partial.header);
            let size = usize::try_from(header.size).unwrap_or(usize::MAX);
            if !(HEADER_SIZE..=MAX_MESSAGE).contains(&size) {
                return Err(out_of_step(format!("a message of {size} bytes")));
            }
            if partial.have == HEADER_SIZE {
                partial.body = vec![0; size - HEADER_SIZE];
            }
            if partial.have == size {
                let Partial { body, fds, too_many_fds, .. } = std::mem::take(partial);
                return Ok(Received::Message(Message { header, body, fds, too_many_fds }));
            }
        }
    }

    /// Sends a message, with `wait` called while the socket takes no more.
    ///
    /// # Errors
    /// What `wait` or the system says; the peer may have seen a part of the message then.
    pub(crate) fn send(
        &self,
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
        wait: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if done == 0 && !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
            }
            match sendmsg(&self.stream, &[IoSlice::new(rest)], &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            {
                Ok(sent) => done += sent,
                Err(Errno::WOULDBLOCK) => wait()?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Reads what there is, and takes descriptors; whether there were more than fit.
fn read_into(stream: &UnixStream, bytes: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<(usize, bool), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let came = recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok((came.bytes, came.flags.contains(ReturnFlags::CTRUNC)))
}
