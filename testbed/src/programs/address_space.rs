//! The address space of a program, by which the machine knows that the program has become another one: its socket may be open in a child by fork.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::process::Pid;

use super::ANSWER_LIMIT;
use super::copies::Copies;
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
    /// Held by a look at it that has taken longer than [`ANSWER_LIMIT`], until that is at an end.
    late: Mutex<Weak<()>>,
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
        Ok(Self { memory: Arc::new(memory), copies, late: Mutex::default() })
    }

    /// Its memory, for a thread that can be given up.
    pub(super) fn memory(&self) -> Memory {
        Memory(Arc::clone(&self.memory))
    }

    /// False once nobody has it any more, or nobody asks for it any more; true where the host does not say.
    pub(super) fn is_there(&self) -> bool {
        let late = || self.late.lock().unwrap_or_else(PoisonError::into_inner);
        if late().strong_count() > 0 {
            return true;
        }
        let (memory, look) = (self.memory(), Arc::new(()));
        let under_way = Arc::downgrade(&look);
        let found = self.copies.make(ANSWER_LIMIT, move || {
            let _look = look;
            Ok(memory.is_there())
        });
        match found {
            Some(Ok(is_there)) => is_there,
            Some(Err(error)) => error.kind() == io::ErrorKind::OutOfMemory,
            None => {
                *late() = under_way;
                true
            }
        }
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
        assert!(!first.is_there() && second.is_there());
        drop(to);
        child.wait().unwrap();
        assert!(!second.is_there() && of(rustix::process::getpid()).unwrap().is_there());
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
        assert_eq!((copies.left_after(std::time::Duration::from_secs(60)), given_up.count()), (0, 0));
    }
}
