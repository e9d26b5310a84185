//! Threads of a program, by which the host finds its memory and descriptors: by the number of the process it finds none once the main thread has ended, while others go on.

use std::fs;
use std::io;

use rustix::process::Pid;

/// What `act` comes to with the number of a process, or, where the host finds nothing by that, with the number of the first other thread of it that has not ended.
///
/// # Errors
/// Those of `act`, the first one if there is no other thread.
pub(super) fn by_living<T>(process: Pid, mut act: impl FnMut(Pid) -> io::Result<T>) -> io::Result<T> {
    let ended = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT));
    match act(process) {
        Err(error) if ended(&error) => {
            let mut others = others(process).map(act);
            others.find(|done| !done.as_ref().is_err_and(ended)).unwrap_or(Err(error))
        }
        done => done,
    }
}

/// The threads of a process but its first one.
pub(super) fn others(process: Pid) -> impl Iterator<Item = Pid> {
    let folder = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    let numbers = folder.into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).filter(move |thread| *thread != process)
}
