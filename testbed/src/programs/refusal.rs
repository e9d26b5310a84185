//! The answer to somebody who is not served.

use remote::channel::Channel;
use remote::wire::{FromMachine, Refusal};
use rustix::process::Pid;

use super::event::{Event, Observer};

/// Tells somebody why it is not served.
pub(super) fn refuse(channel: &Channel, pid: impl Into<Option<Pid>>, why: Refusal, observer: &Observer) {
    // An answer to somebody who is gone is lost.
    let _ = channel.send(&FromMachine::Refused(why).to_words(), None);
    observer(&Event::Refused { pid: pid.into().map_or(0, |pid| pid.as_raw_nonzero().get()), why });
}
