//! The user-mode side of a process somewhere else, which takes its time: a thread that waits for it uses no device meanwhile.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use nt::user_space::{ARGUMENT_WORDS, FileId, UserSpace};

use crate::platform::Platform;

/// A user-mode side that is waited for [away](crate::platform::PowerGate::away) from the devices.
pub(super) struct Elsewhere {
    pub(super) machine: Platform,
    pub(super) user: Arc<dyn UserSpace>,
}

impl Elsewhere {
    fn away<T>(&self, act: impl FnOnce(&dyn UserSpace) -> T) -> T {
        self.machine.gate().away(|| act(&*self.user))
    }
}

impl UserSpace for Elsewhere {
    fn waits(&self) -> bool {
        self.user.waits()
    }

    fn begin_joint_limit(&self) {
        self.user.begin_joint_limit();
    }

    fn end_joint_limit(&self) {
        self.user.end_joint_limit();
    }

    fn read(&self, address: usize, bytes: &mut [u8]) -> io::Result<()> {
        self.away(|user| user.read(address, bytes))
    }

    fn write(&self, address: usize, bytes: &[u8]) -> io::Result<()> {
        self.away(|user| user.write(address, bytes))
    }

    fn descriptor(&self, number: RawFd) -> io::Result<OwnedFd> {
        self.away(|user| user.descriptor(number))
    }

    fn give(&self, descriptor: OwnedFd) -> io::Result<RawFd> {
        self.away(|user| user.give(descriptor))
    }

    fn reserve(&self, len: usize) -> io::Result<usize> {
        self.away(|user| user.reserve(len))
    }

    fn show(&self, range: Range<usize>, file: &File, offset: u64, writable: bool) -> io::Result<()> {
        self.away(|user| user.show(range, file, offset, writable))
    }

    fn hide(&self, range: Range<usize>) -> io::Result<()> {
        self.away(|user| user.hide(range))
    }

    fn freeze(&self, range: Range<usize>) -> io::Result<()> {
        self.away(|user| user.freeze(range))
    }

    fn thaw(&self, start: usize) {
        self.away(|user| user.thaw(start));
    }

    fn allow_stores(&self, range: Range<usize>) -> io::Result<()> {
        self.away(|user| user.allow_stores(range))
    }

    fn detach(&self, range: Range<usize>, writable: bool) -> io::Result<()> {
        self.away(|user| user.detach(range, writable))
    }

    fn blank(&self, range: Range<usize>) -> io::Result<()> {
        self.away(|user| user.blank(range))
    }

    fn answer_for_function(&self, range: Range<usize>) -> io::Result<()> {
        self.away(|user| user.answer_for_function(range))
    }

    fn release(&self, range: Range<usize>) {
        self.away(|user| user.release(range));
    }

    fn adopt(&self, range: Range<usize>) -> io::Result<()> {
        self.away(|user| user.adopt(range))
    }

    fn give_back(&self, range: Range<usize>, file: FileId) -> io::Result<()> {
        self.away(|user| user.give_back(range, file))
    }

    fn call(&self, function: usize, argument: [u64; ARGUMENT_WORDS], caller: u64) -> bool {
        self.away(|user| user.call(function, argument, caller))
    }
}
