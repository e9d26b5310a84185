// UNSAFETY: system calls that libc has no functions for.
//! Signals an event of user mode without ever waiting for user mode.
//!
//! The process that gave the event has the same open file: it can fill the counter and make the file block at any moment, so a look before a write(2) proves nothing, and
//! an eventfd takes no RWF_NOWAIT and cannot be opened a second time. The kernel signals an eventfd itself when a request of its asynchronous I/O is done
//! (IOCB_FLAG_RESFD), and never waits for that: a counter that is full stays full. The request is one that is done at once, a read behind the end of an
//! empty memory file.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;

use nt::lock::{Innermost, Mutex};

/// IOCB_CMD_PREAD and IOCB_FLAG_RESFD of linux/aio_abi.h.
const PREAD: u16 = 0;
const RESFD: u32 = 1;

/// `struct io_event` of linux/aio_abi.h.
type Completion = [u64; 4];

/// A context of asynchronous I/O, which has at most one request at a time.
struct Signaller {
    context: usize,
    empty: OwnedFd,
}

/// That of this process, or the number of the host's error.
static SIGNALLER: OnceLock<Result<Mutex<Signaller, Innermost>, i32>> = OnceLock::new();

fn signaller() -> io::Result<&'static Mutex<Signaller, Innermost>> {
    let made =
        SIGNALLER.get_or_init(|| Signaller::new().map(Mutex::new).map_err(|error| error.raw_os_error().unwrap_or(0)));
    made.as_ref().map_err(|error| io::Error::from_raw_os_error(*error))
}

/// Makes sure that events can be signalled.
///
/// # Errors
/// The host has no asynchronous I/O, or no resources for it.
pub(super) fn prepare() -> io::Result<()> {
    signaller().map(drop)
}

/// Adds 1 to an eventfd, and returns at once whatever its other owners do. One whose counter is at its end stays there.
///
/// # Errors
/// The host has no memory for the request.
pub(super) fn signal(event: BorrowedFd<'_>) -> io::Result<()> {
    signaller()?.lock().signal(event)
}

fn checked(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Signaller {
    fn new() -> io::Result<Self> {
        // SAFETY: the name is a string of this program.
        let number = unsafe { libc::memfd_create(c"nothing".as_ptr(), libc::MFD_CLOEXEC) };
        checked(number.into())?;
        // SAFETY: the descriptor is new, and nobody else knows it.
        let empty = unsafe { OwnedFd::from_raw_fd(number) };
        let mut context = 0usize;
        // SAFETY: the kernel writes the number of the context to a word of this frame.
        checked(unsafe { libc::syscall(libc::SYS_io_setup, 1 as c_long, &raw mut context) })?;
        Ok(Self { context, empty })
    }

    fn signal(&mut self, event: BorrowedFd<'_>) -> io::Result<()> {
        let (mut byte, mut done, no_time) = (0u8, Completion::default(), libc::timespec { tv_sec: 0, tv_nsec: 0 });
        // SAFETY: a request is plain numbers.
        let mut request: libc::iocb = unsafe { std::mem::zeroed() };
        (request.aio_lio_opcode, request.aio_fildes) = (PREAD, self.empty.as_raw_fd().cast_unsigned());
        (request.aio_buf, request.aio_nbytes) = ((&raw mut byte).expose_provenance() as u64, 1);
        (request.aio_flags, request.aio_resfd) = (RESFD, event.as_raw_fd().cast_unsigned());
        let mut requests = [&raw mut request];
        // SAFETY: one request of this frame, which reads into a byte of it. It is done when the call returns: the file has no page to wait for.
        checked(unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1 as c_long, requests.as_mut_ptr()) })?;
        // SAFETY: space for the one completion that there is, and a time of this frame.
        checked(unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                1 as c_long,
                1 as c_long,
                ptr::from_mut(&mut done),
                &raw const no_time,
            )
        })?;
        Ok(())
    }
}
