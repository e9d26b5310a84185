//! Processes whose user-mode side takes its time, as a test wants it. What they are asked for this program does.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};

use nt::user_space::{ARGUMENT_WORDS, FileId, TakeDescriptor, ThisProcess, UserSpace, Waiting, while_waiting};

/// Called before each operation of the user-mode side of a process, on the thread that waits for it.
pub(crate) trait Before: Send + Sync {
    /// Bytes at an address are about to be copied.
    fn copy(&self, _address: usize) {}

    /// The process is about to be asked for something.
    fn ask(&self) {}
}

/// A process somewhere else.
#[derive(Default)]
pub(crate) struct Elsewhere<B> {
    before: B,
    told: OnceLock<Arc<dyn Waiting>>,
}

impl<B: Before> Elsewhere<B> {
    pub(crate) fn new(before: B) -> Arc<Self> {
        Arc::new(Self { before, told: OnceLock::new() })
    }

    fn waiting(&self, wait: impl FnOnce(&B)) {
        while_waiting(self.told.get().map(|told| &**told), || wait(&self.before));
    }

    fn asked(&self) -> ThisProcess {
        self.waiting(|before| before.ask());
        ThisProcess
    }
}

impl<B> Deref for Elsewhere<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.before
    }
}

impl<B: Before> UserSpace for Elsewhere<B> {
    fn waits(&self) -> bool {
        true
    }

    fn wait_by(&self, told: Arc<dyn Waiting>) {
        assert!(self.told.set(told).is_ok(), "once");
    }

    fn read(&self, address: usize, bytes: &mut [u8]) -> io::Result<()> {
        self.waiting(|before| before.copy(address));
        ThisProcess.read(address, bytes)
    }

    fn write(&self, address: usize, bytes: &[u8]) -> io::Result<()> {
        self.waiting(|before| before.copy(address));
        ThisProcess.write(address, bytes)
    }

    fn hand_descriptor(&self, number: RawFd, take: TakeDescriptor) -> io::Result<()> {
        ThisProcess.hand_descriptor(number, take)
    }

    fn give(&self, descriptor: OwnedFd) -> io::Result<RawFd> {
        self.asked().give(descriptor)
    }

    fn reserve(&self, len: usize) -> io::Result<usize> {
        self.asked().reserve(len)
    }

    fn show(&self, range: Range<usize>, file: &File, offset: u64, writable: bool) -> io::Result<()> {
        self.asked().show(range, file, offset, writable)
    }

    fn hide(&self, range: Range<usize>) -> io::Result<()> {
        self.asked().hide(range)
    }

    fn freeze(&self, range: Range<usize>) -> io::Result<()> {
        self.asked().freeze(range)
    }

    fn thaw(&self, start: usize) {
        self.asked().thaw(start);
    }

    fn allow_stores(&self, range: Range<usize>) -> io::Result<()> {
        self.asked().allow_stores(range)
    }

    fn detach(&self, range: Range<usize>, writable: bool) -> io::Result<()> {
        self.asked().detach(range, writable)
    }

    fn blank(&self, range: Range<usize>) -> io::Result<()> {
        self.asked().blank(range)
    }

    fn answer_for_function(&self, range: Range<usize>) -> io::Result<()> {
        self.asked().answer_for_function(range)
    }

    fn release(&self, range: Range<usize>) {
        self.asked().release(range);
    }

    fn adopt(&self, range: Range<usize>) -> io::Result<()> {
        self.asked().adopt(range)
    }

    fn give_back(&self, range: Range<usize>, file: FileId) -> io::Result<()> {
        self.asked().give_back(range, file)
    }

    fn call(&self, function: usize, argument: [u64; ARGUMENT_WORDS], caller: u64) -> bool {
        self.asked().call(function, argument, caller)
    }
}
