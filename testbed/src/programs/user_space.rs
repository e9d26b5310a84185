// UNSAFETY: memory of another process.
//! The user-mode side of a program in another process.
//!
//! Its memory is read and written by the host's kernel, its descriptors are duplicated by the host's kernel, and addresses are mapped by the program's own
//! end of the connection, which answers each request. A program that is gone has no addresses: what is asked of them is done then, and copies that are under way are given up.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nt::user_space::{ARGUMENT_WORDS, FileId, TakeDescriptor, UserSpace, Waiting, while_waiting};
use remote::channel::Channel;
use remote::wire::{FromMachine, Hello, Operation, Refusal};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open, pidfd_send_signal};

use super::address_space::AddressSpace;
use super::asked::Asked;
use super::copies::Copies;
use super::event::{End, Fault};
use super::limits::{ANSWER_LIMIT, LOOK, looks_of};
use super::threads::{self, by_living, ends_within, others};
use super::workers::GivenUp;

/// Time in which a program ends that has lost its memory already.
const END_LIMIT: Duration = Duration::from_millis(500);
/// As [`ANSWER_LIMIT`], while the thread that hears the program does not look at all, for something other than a processor: what it was sent keeps it.
const UNHEARD_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of one copy at most: what is given up keeps no more.
const STEP: usize = 1 << 16;

/// The refusal of a program that said hello and whose memory cannot be reached.
#[derive(Default)]
pub(super) struct Unreachable {
    /// `None` if the program has ended.
    pub(super) why: Option<Refusal>,
    /// Copies that were given up and are under way still.
    pub(super) copies: usize,
}

/// The memory of a program that has said hello, as far as it can be reached.
pub(super) struct Reached {
    copies: Arc<Copies>,
    pub(super) memory: Result<Arc<AddressSpace>, Refusal>,
}

impl Reached {
    /// That of the process with this number, which may be another one than the one that said hello. The copies of it that are left behind are counted.
    pub(super) fn of(pid: Pid, given_up: GivenUp) -> Self {
        let copies = Arc::new(Copies::new(given_up));
        let memory = AddressSpace::of(pid, Arc::clone(&copies)).map(Arc::new).map_err(|error| refusal(&error));
        Self { copies, memory }
    }
}

/// The refusal for memory that the host does not let be reached.
fn refusal(error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        _ if error.kind() == io::ErrorKind::OutOfMemory => Refusal::Threads,
        Some(libc::EMFILE | libc::ENFILE) => Refusal::Descriptors,
        _ => Refusal::Memory,
    }
}

/// A program's memory, descriptors and addresses.
pub(super) struct RemoteProgram {
    channel: Arc<Channel>,
    pid: Pid,
    process: Arc<OwnedFd>,
    /// The address space that it had when it said hello: not that of a program that it becomes by exec, and gone with the last who has it.
    memory: Arc<AddressSpace>,
    copies: Arc<Copies>,
    asked: Mutex<Asked>,
    answered: Condvar,
    /// Told of threads that wait for it.
    waiting: OnceLock<Arc<dyn Waiting>>,
}

impl RemoteProgram {
    /// The program that said hello.
    ///
    /// # Errors
    /// Its memory cannot be reached.
    pub(super) fn new(
        channel: Arc<Channel>,
        pid: Pid,
        hello: &Hello,
        Reached { copies, memory }: Reached,
    ) -> Result<Self, Unreachable> {
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| {
            let why = matches!(error, Errno::MFILE | Errno::NFILE).then_some(Refusal::Descriptors);
            Unreachable { why, ..Unreachable::default() }
        })?;
        let process = Arc::new(process);
        let memory = match memory.and_then(|memory| check_mark(&memory, &copies, hello).map(|()| memory)) {
            Ok(memory) => memory,
            Err(why) => {
                // One that is being killed loses its memory first.
                let ends = ends_within(&process, END_LIMIT);
                copies.give_up();
                return Err(Unreachable { why: (!ends).then_some(why), copies: copies.left_after(Duration::ZERO) });
            }
        };
        let asked = Mutex::default();
        let (answered, waiting) = (Condvar::new(), OnceLock::new());
        Ok(Self { channel, pid, process, memory, copies, asked, answered, waiting })
    }

    /// Readable once the process has ended.
    pub(super) fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Why the machine wants it to end, if it does, and what became of that.
    pub(super) fn fault(&self) -> Option<(Fault, End)> {
        let asked = self.lock();
        asked.fault.map(|fault| (fault, asked.end))
    }

    /// Copies from and to its memory that were given up and are under way still: somebody else has to answer for a page. The program is gone.
    pub(super) fn copies_given_up(&self) -> usize {
        self.copies.left_after(END_LIMIT)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the program killed, for it may use memory that the machine is about to give to others. The answer comes when its memory is gone, and at the latest after the time
    /// that an answer may take: one that the host lets nobody kill, or whose end waits for somebody else, is served no more and asked for nothing.
    pub(super) fn kill(&self, why: Fault) {
        self.lock().fault.get_or_insert(why);
        let end = self.end_within(ANSWER_LIMIT);
        self.lock().end = end;
        self.set_gone();
    }

    fn end_within(&self, limit: Duration) -> End {
        let mut looks = looks_of(limit);
        // One that has become another program, or has ended, has nothing of the machine any more. The host may take its time to say so.
        while self.memory.is_there() && !ends_within(&self.process, Duration::ZERO) {
            if let Err(Errno::PERM) = pidfd_send_signal(&self.process, Signal::KILL) {
                return End::NotAllowed;
            }
            if looks == 0 {
                return End::Lingers;
            }
            looks -= 1;
            ends_within(&self.process, LOOK);
        }
        End::Killed
    }

    /// Sends a message. One that takes nothing is waited for, until so many looks have found no space.
    ///
    /// # Errors
    /// The connection is closed; the host refuses; WouldBlock if the program has taken nothing for [`ANSWER_LIMIT`].
    pub(super) fn send(&self, message: &FromMachine, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let (words, mut looks) = (message.to_words(), looks_of(ANSWER_LIMIT));
        loop {
            match self.channel.send(&words, descriptor) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && looks > 1 && !self.is_gone() => {
                    looks -= 1;
                    self.look_from_sending();
                }
                sent => return sent,
            }
        }
    }

    /// Something could not be sent: ends a program that takes nothing. Of one whose connection is closed the one who receives takes care.
    pub(super) fn send_failed(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::WouldBlock {
            self.kill(Fault::Silent);
        }
    }

    /// The connection is closed: either the process is about to end, or it is at fault.
    pub(super) fn wait_for_end(&self) {
        let ends = || (0..looks_of(ANSWER_LIMIT)).any(|_| ends_within(&self.process, LOOK));
        if self.memory.is_there() && !ends() {
            return self.kill(Fault::Closed);
        }
        self.set_gone();
    }

    /// True once nothing is asked of the program any more: it has ended, or the machine stops.
    pub(super) fn is_gone(&self) -> bool {
        self.lock().gone
    }

    /// The process is gone, with all addresses.
    fn set_gone(&self) {
        self.leave();
        self.copies.give_up();
    }

    /// The machine stops, and asks the program for nothing any more. What it has mapped stays its own, and copies under way are made: it may use what is written later.
    pub(super) fn leave(&self) {
        self.lock().gone = true;
        self.answered.notify_all();
    }

    /// True while answers are waited for that have a time limit.
    pub(super) fn is_waited_for(&self) -> bool {
        self.lock().waited > 0
    }

    /// The thread that hears the program looks for answers; see [`Asked::look`].
    pub(super) fn look(&self, most: Duration) {
        self.lock().look(Instant::now(), most);
    }

    /// The thread that hears the program looks for nothing while it sends. That the program takes no message keeps it from that, and counts as a look.
    fn look_from_sending(&self) {
        let mut asked = self.lock();
        if asked.waited > 0 && asked.hears == threads::this() {
            asked.look(Instant::now(), LOOK);
        }
    }

    /// An operation was answered. False if nobody asked for it.
    pub(super) fn answer(&self, operation: u64, result: Result<u64, i32>) -> bool {
        let mut asked = self.lock();
        let Some(answer @ None) = asked.answers.get_mut(&operation) else { return false };
        *answer = Some(result);
        drop(asked);
        self.answered.notify_all();
        true
    }

    /// Has the program do something, and waits until it is done; `None` if the program is gone.
    fn ask(
        &self,
        operation: Operation,
        descriptor: Option<BorrowedFd<'_>>,
        limit: Option<Duration>,
    ) -> Option<io::Result<u64>> {
        while_waiting(self.waiting.get().map(|told| &**told), || self.exchange(operation, descriptor, limit))
    }

    fn exchange(
        &self,
        operation: Operation,
        descriptor: Option<BorrowedFd<'_>>,
        limit: Option<Duration>,
    ) -> Option<io::Result<u64>> {
        let (number, late_at) = {
            let mut asked = self.lock();
            if asked.gone {
                return None;
            }
            asked.next += 1;
            let number = asked.next;
            asked.answers.insert(number, None);
            (number, limit.map(|limit| asked.begin(limit)))
        };
        let answer = self.send_and_wait(number, operation, descriptor, late_at);
        let mut asked = self.lock();
        asked.answers.remove(&number);
        if limit.is_some() {
            asked.end();
        }
        answer
    }

    fn send_and_wait(
        &self,
        number: u64,
        operation: Operation,
        descriptor: Option<BorrowedFd<'_>>,
        late_at: Option<Duration>,
    ) -> Option<io::Result<u64>> {
        if let Err(error) = self.send(&FromMachine::Operate { number, operation }, descriptor) {
            if descriptor.is_some() && is_of_host(&error) {
                return Some(Err(error));
            }
            self.send_failed(&error);
        }
        let mut asked = self.lock();
        // Waits of this thread in which the one that hears the program has not looked once.
        let (mut looks, mut unheard) = (asked.looks, 0);
        loop {
            if let Some(Some(answer)) = asked.answers.get(&number) {
                return Some(answer.map_err(io::Error::from_raw_os_error));
            }
            if asked.gone {
                return None;
            }
            let Some(late_at) = late_at else {
                asked = self.answered.wait(asked).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if asked.heard >= late_at || unheard >= looks_of(UNHEARD_LIMIT) {
                drop(asked);
                self.kill(Fault::Silent);
                asked = self.lock();
                continue;
            }
            asked = self.answered.wait_timeout(asked, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            let is_kept = asked.looks == looks && !threads::runs(asked.hears);
            unheard = if asked.looks == looks { unheard + u32::from(is_kept) } else { 0 };
            looks = asked.looks;
        }
    }

    /// As [`RemoteProgram::ask`], for what needs not be done in a program that is gone.
    fn request(&self, operation: Operation) -> io::Result<()> {
        self.ask(operation, None, Some(ANSWER_LIMIT)).unwrap_or(Ok(0)).map(drop)
    }

    /// Makes a copy from or to its memory, or of a descriptor of it, which ends the program if it takes too long.
    fn copy<T: Send + 'static>(&self, act: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        // Arguments of calls are copied for the program's own threads, and nobody waits for them together: their time is no part of a joint limit.
        while_waiting(self.waiting.get().map(|told| &**told), || {
            self.copies.make(ANSWER_LIMIT, act).unwrap_or_else(|| {
                self.kill(Fault::Withheld);
                Err(io::Error::from_raw_os_error(libc::EFAULT))
            })
        })
    }
}

/// Copies all of `local` from or to the memory of a process, by the number of a thread of it.
fn transfer(pid: Pid, address: usize, local: libc::iovec, write: bool) -> io::Result<()> {
    let pid = pid.as_raw_nonzero().get();
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: local.iov_len };
    let moved = if write {
        // SAFETY: `local` names readable bytes of the caller; the other side is checked by the host's kernel.
        unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) }
    } else {
        // SAFETY: `local` names writable bytes of the caller; the other side is checked by the host's kernel.
        unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) }
    };
    match usize::try_from(moved) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(all) if all == local.iov_len => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}

/// The descriptor that a thread has by a number.
///
/// # Errors
/// EBADF if it has none, or the host knows of no threads (before Linux 6.9); ESRCH if it has ended; no more descriptors can be opened.
fn of_thread(process: Pid, thread: Pid, number: RawFd) -> io::Result<OwnedFd> {
    let opened = threads::open(process, thread)?.ok_or(Errno::BADF)?;
    Ok(pidfd_getfd(&opened, number, PidfdGetfdFlags::empty())?)
}

/// The addresses of the steps of a copy.
fn steps(address: usize) -> impl Iterator<Item = usize> {
    // What lies behind the last address is refused by the host.
    (0..).map(move |step: usize| address.saturating_add(step.saturating_mul(STEP)))
}

/// True if the host has no more memory for a message, or lets no more descriptors be under way, which is not the program's fault.
fn is_of_host(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETOOMANYREFS | libc::ENOBUFS | libc::ENOMEM))
}

/// Checks that this is the memory of the program that said hello: not of another one by the same number, and not of one that it became by exec.
///
/// # Errors
/// [`Refusal::Memory`]; [`Refusal::Threads`] if the host has no thread for the look.
fn check_mark(memory: &Arc<AddressSpace>, copies: &Copies, hello: &Hello) -> Result<(), Refusal> {
    let (memory, address) = (memory.memory(), hello.mark_address);
    let word = copies.make(ANSWER_LIMIT, move || {
        let mut word = [0; 8];
        memory.read(address, &mut word).map(|()| word)
    });
    match word {
        Some(Ok(word)) if word == hello.mark.to_le_bytes() => Ok(()),
        Some(Err(error)) => Err(refusal(&error)),
        _ => Err(Refusal::Memory),
    }
}

fn there(range: &Range<usize>) -> Range<u64> {
    range.start as u64..range.end as u64
}

impl UserSpace for RemoteProgram {
    fn waits(&self) -> bool {
        !self.is_gone()
    }

    fn wait_by(&self, told: Arc<dyn Waiting>) {
        // Once.
        let _ = self.waiting.set(told);
    }

    fn begin_joint_limit(&self) {
        self.lock().begin_joint_limit();
    }

    fn end_joint_limit(&self) {
        self.lock().joint.take_if(|(_, count)| {
            *count = count.saturating_sub(1);
            *count == 0
        });
    }

    fn read(&self, address: usize, bytes: &mut [u8]) -> io::Result<()> {
        for (part, at) in bytes.chunks_mut(STEP).zip(steps(address)) {
            let (pid, mut own) = (self.pid, vec![0; part.len()]);
            let copied = self.copy(move || {
                let local = libc::iovec { iov_base: own.as_mut_ptr().cast(), iov_len: own.len() };
                by_living(pid, |thread| transfer(thread, at, local, false)).map(|()| own)
            })?;
            part.copy_from_slice(&copied);
        }
        Ok(())
    }

    fn write(&self, address: usize, bytes: &[u8]) -> io::Result<()> {
        for (part, at) in bytes.chunks(STEP).zip(steps(address)) {
            let (pid, memory, own) = (self.pid, self.memory.memory(), part.to_vec());
            self.copy(move || {
                // By the number of the process, which has become another program by exec, or is another process, once this memory is gone.
                if !memory.is_there() {
                    return Err(io::Error::from_raw_os_error(libc::EFAULT));
                }
                // A copy that is given up keeps no descriptor.
                drop(memory);
                let local = libc::iovec { iov_base: own.as_ptr().cast_mut().cast(), iov_len: own.len() };
                by_living(pid, |thread| transfer(thread, at, local, true))
            })?;
        }
        Ok(())
    }

    fn hand_descriptor(&self, number: RawFd, take: TakeDescriptor) -> io::Result<()> {
        if number < 0 {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let (process, pid, memory) = (Arc::clone(&self.process), self.pid, self.memory.memory());
        self.copy(move || {
            let taken = match pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
                // A main thread that has ended has none.
                Err(error @ (Errno::BADF | Errno::SRCH)) => {
                    let ended = |error: &io::Error| error.raw_os_error() == Some(libc::ESRCH);
                    let mut taken = others(pid).map(|thread| of_thread(pid, thread, number));
                    taken.find(|taken| !taken.as_ref().is_err_and(ended)).unwrap_or(Err(error.into()))
                }
                taken => Ok(taken?),
            }?;
            // It may be of the program that this one has become by exec, or of a process that has its number.
            if !memory.is_there() || ends_within(&process, Duration::ZERO) {
                return Err(io::Error::from_raw_os_error(libc::EFAULT));
            }
            // One that is given up keeps no other descriptor.
            drop((process, memory));
            take(taken);
            Ok(())
        })
    }

    fn give(&self, descriptor: OwnedFd) -> io::Result<RawFd> {
        let given = self.ask(Operation::Give, Some(descriptor.as_fd()), Some(ANSWER_LIMIT));
        let number = given.unwrap_or_else(|| Err(io::Error::from_raw_os_error(libc::ESRCH)))?;
        RawFd::try_from(number).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn reserve(&self, len: usize) -> io::Result<usize> {
        let reserved = self.ask(Operation::Reserve { len: len as u64 }, None, Some(ANSWER_LIMIT));
        let start = reserved.unwrap_or_else(|| Err(io::Error::from_raw_os_error(libc::ESRCH)))?;
        let start = usize::try_from(start).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if self.lock().take(start, len) {
            return Ok(start);
        }
        self.kill(Fault::Lied);
        Err(io::Error::from_raw_os_error(libc::ESRCH))
    }

    fn show(&self, range: Range<usize>, file: &File, offset: u64, writable: bool) -> io::Result<()> {
        let operation = Operation::Show { range: there(&range), offset, writable };
        self.ask(operation, Some(file.as_fd()), Some(ANSWER_LIMIT)).unwrap_or(Ok(0)).map(drop)
    }

    fn hide(&self, range: Range<usize>) -> io::Result<()> {
        self.request(Operation::Hide { range: there(&range) })
    }

    fn freeze(&self, range: Range<usize>) -> io::Result<()> {
        self.request(Operation::Freeze { range: there(&range) })
    }

    fn thaw(&self, start: usize) {
        // Its end of the connection does this without fail.
        let _ = self.request(Operation::Thaw { start: start as u64 });
    }

    fn allow_stores(&self, range: Range<usize>) -> io::Result<()> {
        self.request(Operation::AllowStores { range: there(&range) })
    }

    fn detach(&self, range: Range<usize>, writable: bool) -> io::Result<()> {
        self.request(Operation::Detach { range: there(&range), writable })
    }

    fn blank(&self, range: Range<usize>) -> io::Result<()> {
        self.request(Operation::Blank { range: there(&range) })
    }

    fn answer_for_function(&self, range: Range<usize>) -> io::Result<()> {
        self.request(Operation::AnswerForFunction { range: there(&range) })
    }

    fn release(&self, range: Range<usize>) {
        // Before it is asked: as soon as it is done, the program may take the addresses again.
        self.lock().reserved.remove(&range.start);
        if let Err(refused) = self.request(Operation::Release { range: there(&range) }) {
            self.end_after(&refused);
        }
    }

    fn adopt(&self, range: Range<usize>) -> io::Result<()> {
        if !self.lock().is_free(&range) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        self.request(Operation::Adopt { range: there(&range) })
    }

    fn give_back(&self, range: Range<usize>, FileId { device, inode }: FileId) -> io::Result<()> {
        self.request(Operation::GiveBack { range: there(&range), device, inode })
    }

    fn end_after(&self, refused: &io::Error) -> bool {
        let why = Fault::Refused(refused.raw_os_error().unwrap_or(libc::EINVAL));
        while_waiting(self.waiting.get().map(|told| &**told), || self.kill(why));
        true
    }

    fn call(&self, function: usize, argument: [u64; ARGUMENT_WORDS], caller: u64) -> bool {
        let operation = Operation::Call { function: function as u64, argument, caller };
        self.ask(operation, None, None).is_some()
    }
}

#[cfg(test)]
mod tests;
