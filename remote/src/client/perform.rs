// UNSAFETY: what the host is told about this process.
//! What the machine has done in this program: addresses that it maps, and functions that it calls.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::{io, thread};

use nt::user_space::{FileId, ThisProcess, UserSpace, show_descriptor};

use super::Connection;
use super::spare::Sent;
use crate::channel::{Channel, peer};
use crate::wire::{FromProgram, Operation};

/// Lets the machine's process reach the memory of this one, where the host asks for leave.
pub(super) fn let_reach(channel: &Channel) {
    if let Some(pid) = peer(channel.as_fd()).ok().and_then(|peer| peer.pid) {
        let pid: libc::c_long = pid.as_raw_nonzero().get().into();
        // SAFETY: this option reads its argument only. A host without Yama does not know it, and needs no leave.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, pid) };
    }
}

/// Ranges that nobody may store to, by their first address.
#[derive(Default)]
pub(super) struct FrozenRanges(BTreeMap<u64, Range<u64>>);

impl FrozenRanges {
    /// The machine is gone, and nobody else thaws them: a thread that waits to store goes on.
    pub(super) fn thaw(self) {
        for (start, range) in self.0 {
            // Without it a store ends the program, which is what the host does when it has no memory.
            let _ = ThisProcess.allow_stores(here(&range));
            ThisProcess.thaw(start as usize);
        }
    }
}

fn here(range: &Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// A child of fork gets none of what was mapped for the machine: its copy would stay when the machine has given the memory to somebody else.
fn keep_from_children(range: &Range<usize>) -> io::Result<()> {
    let at = std::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the advice changes nothing in this process.
    let done = unsafe { libc::madvise(at, range.len(), libc::MADV_DONTFORK) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Connection {
    /// Does what the machine asks for, and tells it.
    pub(super) fn operate(
        self: &Arc<Self>,
        number: u64,
        operation: Operation,
        descriptor: Sent,
        frozen: &mut FrozenRanges,
    ) {
        if let Operation::Call { function, argument, caller } = operation {
            // The function may call thunks, and take its time.
            let this = Arc::clone(self);
            let called = thread::Builder::new().name("notify".to_owned()).spawn(move || {
                ThisProcess.call(function as usize, argument, caller);
                this.tell(number, Ok(0));
            });
            if let Err(error) = called {
                self.tell(number, Err(error));
            }
            return;
        }
        let result = perform(operation, descriptor, frozen);
        self.tell(number, result);
    }

    /// Tells the machine what an operation came to. The thread that receives does not wait until the machine has read that: the machine may be waiting, with refusals of calls,
    /// until this thread has received.
    fn tell(self: &Arc<Self>, operation: u64, result: io::Result<u64>) {
        let result = result.map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL));
        let words = FromProgram::Done { operation, result }.to_words();
        // A machine that is gone asks for nothing.
        let full = matches!(self.channel.try_send(&words), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        if !full {
            return;
        }
        let this = Arc::clone(self);
        let later = thread::Builder::new().name("answer".to_owned()).spawn(move || this.channel.send(&words, None));
        if later.is_err() {
            let _ = self.channel.send(&words, None);
        }
    }
}

fn perform(operation: Operation, descriptor: Sent, frozen: &mut FrozenRanges) -> io::Result<u64> {
    let this = ThisProcess;
    match operation {
        Operation::Reserve { len } => {
            let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
            let start = this.reserve(len)?;
            keep_from_children(&(start..start + len)).inspect_err(|_| this.release(start..start + len))?;
            return Ok(start as u64);
        }
        Operation::Show { range, offset, writable } => {
            let shown = descriptor?;
            show_descriptor(here(&range), shown.as_fd(), offset, writable)?;
            keep_from_children(&here(&range))?;
        }
        Operation::Hide { range } => this.hide(here(&range))?,
        Operation::Freeze { range } => {
            this.freeze(here(&range))?;
            frozen.0.insert(range.start, range);
        }
        Operation::Thaw { start } => {
            frozen.0.remove(&start);
            this.thaw(start as usize);
        }
        Operation::AllowStores { range } => this.allow_stores(here(&range))?,
        Operation::Detach { range, writable } => this.detach(here(&range), writable)?,
        Operation::Blank { range } => this.blank(here(&range))?,
        Operation::AnswerForFunction { range } => this.answer_for_function(here(&range))?,
        Operation::Release { range } => this.unmap(here(&range))?,
        Operation::Adopt { range } => this.adopt(here(&range))?,
        Operation::GiveBack { range, device, inode } => this.give_back(here(&range), FileId { device, inode })?,
        Operation::Give => {
            let given = this.give(descriptor?)?;
            return u64::try_from(given).map_err(|_| io::ErrorKind::InvalidInput.into());
        }
        Operation::Call { .. } => return Err(io::ErrorKind::InvalidInput.into()),
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::channel::Received;
    use crate::wire::WORDS;

    /// The machine may be sending this thread refusals, and reads no answer before it has sent them: were the thread to wait with the answer, each would wait for the other.
    #[test]
    fn the_thread_that_receives_does_not_wait_for_a_machine_that_reads_no_answer_yet() {
        let flags = SocketFlags::CLOEXEC;
        let (program, machine) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("two sockets");
        let (connection, machine) = (Arc::new(Connection::new(Channel::new(program))), Channel::new(machine));
        let mut filled = 0;
        while connection.channel.try_send(&[0; WORDS]).is_ok() {
            filled += 1;
        }
        let (tell, told) = mpsc::channel();
        let receives = thread::spawn(move || {
            for operation in 1..=3 {
                connection.tell(operation, Ok(operation));
            }
            let _ = tell.send(());
        });
        let goes_on = told.recv_timeout(Duration::from_secs(30)).is_ok();
        let next = || match machine.receive() {
            Ok(Received::Message(words, None)) => words,
            other => panic!("no message: {other:?}"),
        };
        assert!((0..filled).all(|_| next() == [0; WORDS]));
        let mut answers: Vec<_> = (0..3).map(|_| next()).collect();
        answers.sort_unstable();
        let mut expected =
            [1, 2, 3].map(|number| FromProgram::Done { operation: number, result: Ok(number) }.to_words());
        expected.sort_unstable();
        assert_eq!(answers, expected, "each answer arrives once the machine reads");
        receives.join().expect("no panic");
        assert!(goes_on, "the thread waited until the machine read its answer");
    }
}
