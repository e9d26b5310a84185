//! A place among the descriptors of the program, in which one arrives that the machine sends.
//!
//! What a message shows comes as a descriptor, which is closed as soon as it is mapped. A program that has as many open as it may would lose it, and with it memory that it
//! uses. So one is kept open that nobody uses, and is closed when another one is about to come.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::channel::Channel;
use crate::wire::{FromMachine, Operation};

/// The descriptor of a message: an error if there is none, EMFILE if it was lost.
pub(super) type Sent = io::Result<OwnedFd>;

/// The descriptor that nobody uses; `None` while the program may open no more.
#[derive(Default)]
pub(super) struct Spare(Option<OwnedFd>);

impl Spare {
    /// Takes the place again. False if the program may open no more.
    fn fill(&mut self, channel: &Channel) -> bool {
        if self.0.is_none() {
            self.0 = channel.as_fd().try_clone_to_owned().ok();
        }
        self.0.is_some()
    }

    /// The next message, as of [`super::receive`].
    pub(super) fn receive(&mut self, channel: &Channel) -> Option<(FromMachine, Sent)> {
        self.fill(channel);
        // Where the host does not tell, receiving will say why.
        if channel.brings_descriptor().unwrap_or(false) {
            self.0 = None;
        }
        super::receive(channel)
    }

    /// What was sent for an operation. A descriptor that the program is to keep does not take the place for good.
    pub(super) fn left_beside(&mut self, channel: &Channel, descriptor: Sent, operation: &Operation) -> Sent {
        let descriptor = descriptor?;
        if matches!(operation, Operation::Give) && !self.fill(channel) {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        Ok(descriptor)
    }
}
