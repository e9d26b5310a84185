//! The address space of a program, by which the machine knows that the program has become another one: its socket may be open in a child by fork.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::process::Pid;

use super::copies::Copies;
use super::limits::ANSWER_LIMIT;
use super::threads::by_living;

/// No address of any program, which a file can be read at all the same.
const NO_ADDRESS: u64 = 1 << 62;

/// The address space that a process had at a moment.
///
/// The host has whoever asks for it wait: while its process becomes another program, and while that changes what it has mapped. Either may wait for a file of somebody who does not
/// answer. So it is asked for by threads that can be given up.
pub(super) struct AddressSpace {
    memory: Arc<File>,
    copies: Arc<Copies>,
    /// Held by a look at it that was waited for in vain, until that is at an end.
    late: Mutex<Weak<()>>,
    /// The same of one that was begun without waiting for it.
    begun: Mutex<Weak<()>>,
    /// Set by a look that has not found it.
    gone: Arc<AtomicBool>,
}

impl fmt::Debug for AddressSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.memory.fmt(f)
    }
}

impl AddressSpace {
    /// The one that a process has now.
    ///
    /// # Errors
    /// There is no such process, its memory cannot be reached, or no more descriptors can be opened; TimedOut if the host does not say for [`ANSWER_LIMIT`]; OutOfMemory if it has
    /// no thread for the question.
    pub(super) fn of(pid: Pid, copies: Arc<Copies>) -> io::Result<Self> {
        Self::opened(copies, move || by_living(pid, |thread| opened_by(pid, thread)))
    }

    fn opened(copies: Arc<Copies>, open: impl FnOnce() -> io::Result<File> + Send + 'static) -> io::Result<Self> {
        let memory = copies.make(ANSWER_LIMIT, open).unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(Self {
            memory: Arc::new(memory),
            copies,
            late: Mutex::default(),
            begun: Mutex::default(),
            gone: Arc::default(),
        })
    }

    /// Its memory, for a thread that can be given up.
    pub(super) fn memory(&self) -> Memory {
        Memory(Arc::clone(&self.memory))
    }

    /// False once nobody has it any more, or nobody asks for it any more; true where the host does not say for [`ANSWER_LIMIT`].
    pub(super) fn is_there(&self) -> bool {
        let memory = self.memory();
        self.look(ANSWER_LIMIT, move || memory.is_there())
    }

    /// As [`AddressSpace::is_there`], without waiting for the host: the answer is what the looks have found that are at an end, and another look is begun.
    pub(super) fn was_there(&self) -> bool {
        let memory = self.memory();
        self.look(Duration::ZERO, move || memory.is_there())
    }

    /// Looks once more, and waits so long at most for what it finds; unless a look is under way that was waited for in vain, or, where this one is not waited for, another one.
    fn look(&self, limit: Duration, is_there: impl FnOnce() -> bool + Send + 'static) -> bool {
        let is_under_way = |of: &Mutex<Weak<()>>| of.lock().unwrap_or_else(PoisonError::into_inner).strong_count() > 0;
        let enough = is_under_way(&self.late) || limit.is_zero() && is_under_way(&self.begun);
        if enough || self.gone.load(Ordering::Acquire) {
            return !self.gone.load(Ordering::Acquire);
        }
        let (look, gone) = (Arc::new(()), Arc::clone(&self.gone));
        let under_way = Arc::downgrade(&look);
        let looked = self.copies.make(limit, move || {
            let _look = look;
            gone.fetch_or(!is_there(), Ordering::AcqRel);
            Ok(())
        });
        match looked {
            Some(Err(error)) if error.kind() != io::ErrorKind::OutOfMemory => return false,
            None => {
                let place = if limit.is_zero() { &self.begun } else { &self.late };
                *place.lock().unwrap_or_else(PoisonError::into_inner) = under_way;
            }
            _ => {}
        }
        !self.gone.load(Ordering::Acquire)
    }
}

/// The memory of a process, by the number of a thread of it.
///
/// # Errors
/// ESRCH if the thread has ended, and has none.
fn opened_by(process: Pid, thread: Pid) -> io::Result<File> {
    let path = format!("/proc/{}/task/{}/mem", process.as_raw_nonzero(), thread.as_raw_nonzero());
    let memory = File::open(path)?;
    if is_there(&memory) { Ok(memory) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

/// False if nobody has a memory any more.
fn is_there(memory: &File) -> bool {
    !matches!(memory.read_at(&mut [0], NO_ADDRESS), Ok(0))
}

/// Memory of a process. The host may have whoever uses it wait.
pub(super) struct Memory(Arc<File>);

impl Memory {
    /// Reads bytes of it, all of them.
    ///
    /// # Errors
    /// Nobody has it any more, or not all of the bytes can be read.
    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, address)
    }

    /// False once nobody has it any more: neither the process, which has ended or has become another program by exec, nor somebody whom it has let have it. Of one that is gone the
    /// host reads nothing, without an error, and of one that is there it refuses an address that is none. What the program has mapped is not read: it may have a file there
    /// that never answers.
    pub(super) fn is_there(&self) -> bool {
        is_there(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::workers::GivenUp;
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    /// A shell tells that it is there before it becomes another program.
    #[test]
    fn the_address_space_of_a_program_is_gone_when_it_has_become_another_one_and_when_it_has_ended() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo; read line; exec sh -c 'echo; read line'"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut line = [0];
        from.read_exact(&mut line).unwrap();
        let copies = Arc::new(Copies::new(GivenUp::default()));
        let of = |pid| AddressSpace::of(pid, Arc::clone(&copies));
        let first = of(Pid::from_child(&child)).unwrap();
        assert!(first.is_there());
        to.write_all(b"\n").unwrap();
        from.read_exact(&mut line).unwrap();
        let second = of(Pid::from_child(&child)).unwrap();
        assert!(!first.is_there() && !first.was_there() && second.is_there());
        drop(to);
        child.wait().unwrap();
        assert!(!second.is_there() && of(rustix::process::getpid()).unwrap().is_there());
    }

    /// Whoever hears a program hears its answers, for which others wait, and does not wait for the host.
    #[test]
    fn a_look_that_the_host_has_wait_keeps_nobody_and_is_begun_once() {
        let copies = Arc::new(Copies::new(GivenUp::default()));
        let space = AddressSpace::of(rustix::process::getpid(), Arc::clone(&copies)).unwrap();
        let (answer, answered) = std::sync::mpsc::channel();
        assert!(space.look(Duration::ZERO, move || answered.recv().unwrap()), "nothing is found yet");
        assert!(space.was_there(), "the first one is under way, which nobody waits for");
        assert_eq!(copies.left_after(Duration::ZERO), 1);
        assert!(space.is_there(), "whoever waits has a look of its own");
        answer.send(false).unwrap();
        assert_eq!(copies.left_after(Duration::from_secs(60)), 0);
        assert!(!space.was_there() && !space.is_there(), "it was found gone");
    }

    /// A program that has become another one is found gone at once by whoever asks, although a look was begun before.
    #[test]
    fn a_look_that_is_waited_for_does_not_trust_one_that_has_just_begun() {
        let copies = Arc::new(Copies::new(GivenUp::default()));
        let space = AddressSpace::of(rustix::process::getpid(), Arc::clone(&copies)).unwrap();
        let (answer, answered) = std::sync::mpsc::channel();
        assert!(space.look(Duration::ZERO, move || answered.recv().unwrap()), "nothing is found yet");
        assert!(!space.look(ANSWER_LIMIT, || false), "it was looked for again, and found gone");
        answer.send(true).unwrap();
        assert_eq!(copies.left_after(Duration::from_secs(60)), 0);
        assert!(!space.was_there());
    }

    /// A process that becomes another program, and waits for a file to be closed meanwhile, keeps whoever asks for its memory waiting.
    #[test]
    fn an_address_space_that_the_host_does_not_give_is_given_up() {
        let given_up = GivenUp::default();
        let copies = Arc::new(Copies::new(given_up.clone()));
        let (answer, answered) = std::sync::mpsc::channel::<()>();
        let opened = AddressSpace::opened(Arc::clone(&copies), move || {
            let _ = answered.recv();
            Err(io::ErrorKind::NotFound.into())
        });
        assert_eq!(opened.expect_err("nobody answers").kind(), io::ErrorKind::TimedOut);
        copies.give_up();
        assert_eq!(given_up.count(), 1, "the thread waits still");
        drop(answer);
        assert_eq!((copies.left_after(Duration::from_secs(60)), given_up.count()), (0, 0));
    }
}
