// UNSAFETY: makes files without names, and asks for limits of this process.
//! Files that hold memory.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// An anonymous shared file of `size` bytes that cannot shrink or grow any more.
pub(crate) fn shared_file(name: &CStr, size: u64) -> io::Result<File> {
    // SAFETY: `name` is a terminated string that outlives the call.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and not known elsewhere.
    let file = unsafe { File::from_raw_fd(fd) };
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a structure of this frame.
    let told = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    if told && limit.rlim_cur < size {
        // Whoever sets a longer length is ended by SIGXFSZ.
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    file.set_len(size)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: F_ADD_SEALS takes an integer and touches no memory.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}
