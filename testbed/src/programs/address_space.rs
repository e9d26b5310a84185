//! The address space of a program, by which the machine knows that the program has become another one: its socket may be open in a child by fork.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::process::Pid;

/// No address of any program, which a file can be read at all the same.
const NO_ADDRESS: u64 = 1 << 62;

/// The address space that a process had at a moment.
#[derive(Debug)]
pub(super) struct AddressSpace(File);

impl AddressSpace {
    /// The one that a process has now.
    ///
    /// # Errors
    /// There is no such process, its memory cannot be reached, or no more descriptors can be opened.
    pub(super) fn of(pid: Pid) -> io::Result<Self> {
        Ok(Self(File::open(format!("/proc/{}/mem", pid.as_raw_nonzero()))?))
    }

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
        !matches!(self.0.read_at(&mut [0], NO_ADDRESS), Ok(0))
    }
}

#[cfg(test)]
mod tests {
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
        let first = AddressSpace::of(Pid::from_child(&child)).unwrap();
        assert!(first.is_there());
        to.write_all(b"\n").unwrap();
        from.read_exact(&mut line).unwrap();
        let second = AddressSpace::of(Pid::from_child(&child)).unwrap();
        assert!(!first.is_there() && second.is_there());
        drop(to);
        child.wait().unwrap();
        assert!(!second.is_there() && AddressSpace::of(rustix::process::getpid()).unwrap().is_there());
    }
}
