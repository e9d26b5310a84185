// UNSAFETY: asynchronous I/O of the kernel has no safe binding.
//! Counts eventfds up without ever waiting for their other owners.
//!
//! A write to an eventfd waits while its counter is full, if another holder of the descriptor has made it block. The kernel itself never
//! waits when it counts one up to report an end of asynchronous I/O: so an operation is submitted that ends at once.

use std::ffi::{c_long, c_ulong};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};

/// Reports that the kernel keeps until they are taken.
const REPORTS: c_long = 64;
/// Looks for a free place among the reports, which other threads fill too; one look mostly does.
const TRIES: u32 = 64;
/// `IOCB_CMD_PREAD`. [aio_abi.h]
const READ: u16 = 0;
/// `IOCB_FLAG_RESFD`: the eventfd is counted up at the end. [aio_abi.h]
const COUNT_EVENTFD: u32 = 1;

/// [aio_abi.h: iocb]
#[repr(C)]
#[derive(Default)]
struct Operation {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

const _: () = assert!(size_of::<Operation>() == 64);

/// [aio_abi.h: io_event]
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Report {
    data: u64,
    operation: u64,
    results: [i64; 2],
}

/// A context of asynchronous I/O, used by any number of threads.
#[derive(Debug)]
pub(crate) struct Announcer {
    context: c_ulong,
    /// An empty file, of which nothing is read.
    nothing: OwnedFd,
}

impl Announcer {
    /// # Errors
    /// The kernel has no asynchronous I/O, or none left.
    pub(crate) fn new() -> io::Result<Self> {
        let nothing = memfd_create("nothing", MemfdFlags::CLOEXEC)?;
        let mut context: c_ulong = 0;
        // SAFETY: the number goes to a word of this frame.
        match unsafe { libc::syscall(libc::SYS_io_setup, REPORTS, &raw mut context) } {
            0 => Ok(Self { context, nothing }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Counts `eventfd` up by one, or leaves it if it is full.
    pub(crate) fn signal(&self, eventfd: BorrowedFd<'_>) {
        let number = |fd: BorrowedFd<'_>| fd.as_raw_fd().cast_unsigned();
        let mut operation = Operation {
            opcode: READ,
            descriptor: number(self.nothing.as_fd()),
            flags: COUNT_EVENTFD,
            eventfd: number(eventfd),
            ..Operation::default()
        };
        for _ in 0..TRIES {
            let mut operations = [&raw mut operation];
            let one: c_long = 1;
            // SAFETY: a list of one operation, which names no memory; both are read before the call returns.
            let submitted = unsafe { libc::syscall(libc::SYS_io_submit, self.context, one, operations.as_mut_ptr()) };
            if submitted == 1 || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
                return;
            }
            self.take_reports();
        }
    }

    /// Takes the reports that are complete, so that there is space for further ones.
    fn take_reports(&self) {
        let mut reports = [Report::default(); REPORTS as usize];
        let none: c_long = 0;
        let mut at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: space for as many reports as are asked for and a time, both of this frame.
        unsafe {
            libc::syscall(libc::SYS_io_getevents, self.context, none, REPORTS, reports.as_mut_ptr(), &raw mut at_once)
        };
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and nobody uses it any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
