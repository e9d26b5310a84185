//! Interrupt messages that are being sent. Any thread may send a message that is due; the thread that caused it returns only when it has been
//! sent, also if another thread sends it.

use crate::lock::lock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::ThreadId;

/// Threads that send messages at the moment.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    senders: Mutex<Senders>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Senders {
    /// Number of the next one.
    next: u64,
    active: Vec<(u64, ThreadId)>,
}

impl Sending {
    /// Runs `send`, which takes what is due and sends it, without a lock. What another thread took before is sent as well when this
    /// returns.
    pub(crate) fn during(&self, send: impl FnOnce()) {
        let me = std::thread::current().id();
        let number = {
            let mut senders = lock(&self.senders);
            senders.next += 1;
            let number = senders.next;
            senders.active.push((number, me));
            number
        };
        send();
        {
            let mut senders = lock(&self.senders);
            senders.active.retain(|(other, _)| *other != number);
        }
        self.ended.notify_all();
        self.settle();
    }

    /// Waits until all threads that are sending now are done. A receiver that calls this from a message does not wait, because the others
    /// may be waiting for it.
    pub(crate) fn settle(&self) {
        let me = std::thread::current().id();
        let mut senders = lock(&self.senders);
        if senders.active.iter().any(|(_, thread)| *thread == me) {
            return;
        }
        let last = senders.next;
        while senders.active.iter().any(|(number, _)| *number <= last) {
            senders = self.ended.wait(senders).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn whoever_finds_nothing_to_send_waits_for_who_took_it() {
        let (sending, sent) = (Sending::default(), AtomicBool::new(false));
        let ((taken, is_taken), (go, may_go)) = (channel(), channel());
        std::thread::scope(|scope| {
            let (sending, sent) = (&sending, &sent);
            scope.spawn(move || {
                sending.during(|| {
                    taken.send(()).unwrap();
                    may_go.recv().unwrap();
                    sent.store(true, Ordering::SeqCst);
                });
            });
            is_taken.recv().unwrap();
            let waiter = scope.spawn(|| {
                sending.during(|| {});
                assert!(sent.load(Ordering::SeqCst));
            });
            for _ in 0..100 {
                std::thread::yield_now();
                assert!(!waiter.is_finished());
            }
            go.send(()).unwrap();
        });
    }

    #[test]
    fn receivers_that_come_back_wait_for_nobody() {
        let (sending, both) = (Sending::default(), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    sending.during(|| {
                        both.wait();
                        sending.during(|| {});
                        both.wait();
                    });
                });
            }
        });
    }
}
