//! File descriptors that user mode has of objects of the system.
//!
//! Such a descriptor is one end of a pair of sockets, of which the system keeps the other. Copies of it, also those that were sent to other processes, are
//! the same file; when the last one is closed, the system's end sees it.

use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nt::user_space::refuse_descriptors;
use wddm_ddi::status::*;

/// A number that identifies a descriptor and its copies on this host while any of them is open.
pub(crate) type DescriptorId = u64;

/// The system's end.
pub(crate) struct Descriptor(UnixStream);

impl Descriptor {
    /// The system's end, and that of user mode.
    ///
    /// # Errors
    /// STATUS_INSUFFICIENT_RESOURCES if the host has no descriptors left.
    pub(crate) fn new() -> Result<(Self, OwnedFd), NTSTATUS> {
        let (end, others) = UnixStream::pair().map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
        // What user mode sends is never received, and would be closed with this end.
        refuse_descriptors(&end);
        Ok((Self(end), others.into()))
    }

    /// From now on the end of user mode is readable, and a read finds the end of the file. Nobody can take that back.
    pub(crate) fn make_ready(&self) {
        // It fails only if user mode has closed its end, which nobody reads any more.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// True once every descriptor of user mode is closed, or was shut down by somebody who has it.
    pub(crate) fn is_closed(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one valid pollfd, and a timeout of zero.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready == 1 && poll.revents & libc::POLLHUP != 0
    }
}

/// The identity that a descriptor has if it is one of an object.
///
/// # Errors
/// STATUS_OBJECT_TYPE_MISMATCH if it is no socket.
pub(crate) fn id_of(descriptor: &OwnedFd) -> Result<DescriptorId, NTSTATUS> {
    let mut id: DescriptorId = 0;
    let mut len = size_of::<DescriptorId>() as libc::socklen_t;
    let number = descriptor.as_raw_fd();
    // SAFETY: there is space for the `len` bytes of the answer.
    let known =
        unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_COOKIE, (&raw mut id).cast(), &raw mut len) };
    if known == 0 { Ok(id) } else { Err(STATUS_OBJECT_TYPE_MISMATCH) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nt::user_space::SO_PASSRIGHTS;

    fn is_readable(end: &OwnedFd) -> bool {
        let mut poll = libc::pollfd { fd: end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd, and a timeout of zero.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready == 1 && poll.revents & libc::POLLIN != 0
    }

    #[test]
    fn an_end_that_was_made_ready_is_readable_for_good_and_copies_are_the_same_file() {
        let (end, others) = Descriptor::new().unwrap();
        let copy = others.try_clone().unwrap();
        assert_eq!(id_of(&others), id_of(&copy));
        assert_ne!(id_of(&others), id_of(&end.0.try_clone().unwrap().into()));
        assert!(!is_readable(&others));
        end.make_ready();
        let mut byte = [0u8];
        // SAFETY: there is space for the byte that is read.
        let read = unsafe { libc::read(copy.as_raw_fd(), byte.as_mut_ptr().cast(), 1) };
        assert_eq!(read, 0);
        assert!(is_readable(&others) && is_readable(&copy));
    }

    #[test]
    fn a_descriptor_is_closed_with_its_last_copy() {
        let (end, others) = Descriptor::new().unwrap();
        let copy = others.try_clone().unwrap();
        drop(others);
        assert!(!end.is_closed());
        drop(copy);
        assert!(end.is_closed());
    }

    /// Closing the system's end closes what was sent to it, which may take as long as its owner likes.
    #[test]
    fn user_mode_sends_the_system_no_descriptors_where_the_host_can_refuse_them() {
        let send = |to: &OwnedFd| {
            let mut byte = 0u8;
            let mut data = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
            // A header of the host's, the number of a descriptor, and what aligns them.
            let mut control = [0u64; 3];
            let number = to.as_raw_fd();
            control[0] = 16 + 4;
            control[1] =
                u64::from(libc::SOL_SOCKET.cast_unsigned()) | u64::from(libc::SCM_RIGHTS.cast_unsigned()) << 32;
            control[2] = number.cast_unsigned().into();
            // SAFETY: a structure of numbers and addresses, which may all be zero.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            (message.msg_iov, message.msg_iovlen) = (&raw mut data, 1);
            (message.msg_control, message.msg_controllen) = ((&raw mut control).cast(), size_of_val(&control) as _);
            // SAFETY: the message names memory of this frame.
            unsafe { libc::sendmsg(number, &raw const message, 0) }
        };
        let (one, other) = UnixStream::pair().unwrap();
        assert_eq!(send(&one.into()), 1, "of another socket it is");
        // A host that cannot refuse them does not know the option.
        let (mut known, mut len) = (0i32, 4 as libc::socklen_t);
        let number = other.as_raw_fd();
        // SAFETY: there is space for the four bytes of the answer.
        let asked =
            unsafe { libc::getsockopt(number, libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw mut known).cast(), &raw mut len) };
        let (_end, others) = Descriptor::new().unwrap();
        assert_eq!(send(&others), if asked == 0 { -1 } else { 1 });
    }

    #[test]
    fn what_is_no_socket_has_no_identity() {
        let null = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert_eq!(id_of(&null), Err(STATUS_OBJECT_TYPE_MISMATCH));
    }
}
