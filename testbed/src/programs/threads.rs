//! Threads of a program, by which the host finds its memory and descriptors: by the number of the process it finds none once the main thread has ended, while others go on.
//!
//! The number of a thread that has ended may be that of a thread of another process. So a thread is opened, where the host knows of threads (from Linux 6.9 on), and what was done by its number
//! counts only if the thread has lived on.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// What `act` comes to with the number of a process, or, where the host finds nothing by that, with the number of the first other thread of it that has not ended. It may be called for several
/// threads, the last of which is the one whose answer counts.
///
/// # Errors
/// Those of `act`, the first one if there is no other thread.
pub(super) fn by_living<T>(process: Pid, mut act: impl FnMut(Pid) -> io::Result<T>) -> io::Result<T> {
    let ended = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT));
    match act(process) {
        Err(error) if ended(&error) => {
            let mut others = others(process).map(|thread| while_living(process, thread, || act(thread)));
            others.find(|done| !done.as_ref().is_err_and(ended)).unwrap_or(Err(error))
        }
        done => done,
    }
}

/// Does `act`, which goes by the number of a thread of a process, and answers what it came to.
///
/// # Errors
/// Those of `act`; ESRCH if the thread has ended meanwhile, when `act` may have found another one by its number.
fn while_living<T>(process: Pid, thread: Pid, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let opened = open(process, thread)?;
    let done = act()?;
    if opened.is_none_or(|thread| !ends_within(&thread, Duration::ZERO)) {
        Ok(done)
    } else {
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }
}

/// The thread that a process has by a number; `None` where the host opens no threads.
///
/// # Errors
/// ESRCH if the process has none by that number; no more descriptors can be opened.
pub(super) fn open(process: Pid, thread: Pid) -> io::Result<Option<OwnedFd>> {
    // PIDFD_THREAD of the host's headers.
    let flags = PidfdFlags::from_bits_retain(libc::O_EXCL.cast_unsigned());
    let opened = match pidfd_open(thread, flags) {
        Err(Errno::INVAL) => return Ok(None),
        opened => opened?,
    };
    // Before it was opened, the thread may have ended, and its number be that of another process.
    let is_of_process = threads_of(process).join(thread.as_raw_nonzero().to_string()).exists();
    if is_of_process { Ok(Some(opened)) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

/// True if a process or thread ends within `limit`. Until then nobody else has its number.
pub(super) fn ends_within(process: &OwnedFd, limit: Duration) -> bool {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    loop {
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)) {
            Err(Errno::INTR) => {}
            outcome => return outcome.is_ok_and(|ready| ready > 0),
        }
    }
}

fn threads_of(process: Pid) -> PathBuf {
    format!("/proc/{}/task", process.as_raw_nonzero()).into()
}

/// The number of the calling thread.
pub(super) fn this() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// True if a thread of this process runs, or waits for nothing but a processor.
pub(super) fn runs(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    // The name, which stands in parentheses, may have spaces; the state comes behind it.
    stat.rsplit(") ").next().is_some_and(|behind| behind.starts_with('R'))
}

/// The threads of a process but its first one.
pub(super) fn others(process: Pid) -> impl Iterator<Item = Pid> {
    let folder = fs::read_dir(threads_of(process));
    let numbers = folder.into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).filter(move |thread| *thread != process)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;
    use std::thread;

    use rustix::process::getpid;

    use super::*;

    /// The number of the calling thread.
    fn this_thread() -> Pid {
        let link = fs::read_link("/proc/thread-self").unwrap();
        Pid::from_raw(link.file_name().unwrap().to_str().unwrap().parse().unwrap()).unwrap()
    }

    fn error_of<T>(done: io::Result<T>) -> Option<i32> {
        done.err().and_then(|error| error.raw_os_error())
    }

    #[test]
    fn what_was_done_by_the_number_of_a_thread_counts_only_if_the_thread_has_lived_on() {
        let (tell, told) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let other = thread::spawn(move || {
            tell.send(this_thread()).unwrap();
            let _ = ends.recv();
        });
        let number = told.recv().unwrap();
        if open(getpid(), number).unwrap().is_none() {
            eprintln!(
                "threads whose numbers others get were not tried: this host opens no threads (PIDFD_THREAD, from Linux 6.9 on)"
            );
            return;
        }
        assert_eq!(while_living(getpid(), number, || Ok(7)).unwrap(), 7);
        let outlived = while_living(getpid(), number, || {
            drop(end);
            while threads_of(getpid()).join(number.as_raw_nonzero().to_string()).exists() {
                thread::yield_now();
            }
            Ok(7)
        });
        assert_eq!(error_of(outlived), Some(libc::ESRCH));
        assert_eq!(error_of(while_living(getpid(), number, || Ok(7))), Some(libc::ESRCH));
        other.join().unwrap();
    }

    #[test]
    fn a_thread_that_waits_for_somebody_does_not_run_and_one_that_only_wants_a_processor_does() {
        assert!(runs(this()) && !runs(-1));
        let (tell, told) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let waits = thread::spawn(move || {
            tell.send(this()).unwrap();
            let _ = ends.recv();
        });
        let number = told.recv().unwrap();
        while runs(number) {
            thread::yield_now();
        }
        drop(end);
        waits.join().unwrap();
    }

    #[test]
    fn a_thread_of_another_process_is_not_looked_into() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let foreign = Pid::from_child(&child);
        let mut looked = false;
        let done = while_living(getpid(), foreign, || {
            looked = true;
            Ok(())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        if done.is_ok() {
            eprintln!(
                "a thread of another process was not tried: this host opens no threads (PIDFD_THREAD, from Linux 6.9 on)"
            );
            return;
        }
        assert!(error_of(done) == Some(libc::ESRCH) && !looked);
    }
}
