//! Functions of user mode that the memory manager calls.
//!
//! A function that was registered for a device runs on a thread of its own in its process, never inside a thunk or a lock, so it may
//! call thunks itself. What was not told yet when there is more to tell is told in one call.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::vidmm::ids::SpaceId;
use crate::vidmm::scheduler::MemoryOwner;
use nt::lock::{Condvar, Mutex, lock};
use nt::user_space::{ARGUMENT_WORDS, acting_for};
use wddm_ddi::status::*;

/// Contents of a notification.
pub(crate) trait Notice: Copy + Send + 'static {
    /// Both in one.
    fn merge(self, later: Self) -> Self;

    /// The structure that the function gets which was registered with `context`, as 64-bit words.
    fn argument(self, context: u64) -> [u64; ARGUMENT_WORDS];
}

/// The process in which a function is called.
pub(crate) trait InProcess: Send + 'static {
    /// Calls a function of the process; see [`UserSpace::call`](nt::user_space::UserSpace::call).
    fn call(&self, function: usize, argument: [u64; ARGUMENT_WORDS], caller: u64) -> bool;
}

/// Numbers of registrations so far; each has its own, which is not 0.
static REGISTRATIONS: AtomicU64 = AtomicU64::new(1);

struct Mailbox<N> {
    next: Option<N>,
    ended: bool,
}

/// A function that was registered for a device.
pub(crate) struct Registration<N: Notice> {
    number: u64,
    process: SpaceId,
    /// Address of the function.
    callback: usize,
    mailbox: Mutex<Mailbox<N>>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<N: Notice> Registration<N> {
    /// Registers `callback` for `device` and starts its thread, which runs in `process`.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when the host has no thread left.
    pub(crate) fn new(
        process: impl InProcess,
        device: &dyn MemoryOwner,
        callback: usize,
        context: *mut c_void,
    ) -> Result<Arc<Self>, NTSTATUS> {
        let registration = Arc::new(Self {
            number: REGISTRATIONS.fetch_add(1, Ordering::Relaxed),
            process: device.space().id(),
            callback,
            mailbox: Mutex::new(Mailbox { next: None, ended: false }),
            changed: Condvar::new(),
            thread: Mutex::default(),
        });
        let (of_thread, context) = (Arc::clone(&registration), context.expose_provenance() as u64);
        let thread = std::thread::Builder::new()
            .name("notify".to_owned())
            .spawn(move || of_thread.run(&process, context))
            .map_err(|_| STATUS_NO_MEMORY)?;
        *lock(&registration.thread) = Some(thread);
        Ok(registration)
    }

    /// The process that is told.
    pub(crate) fn process(&self) -> SpaceId {
        self.process
    }

    /// True if it is a registration of this function.
    pub(crate) fn is_of(&self, callback: usize) -> bool {
        self.callback == callback
    }

    /// Has the function called with this, or with what it and what was not told yet come to.
    pub(crate) fn tell(&self, notice: N) {
        let mut mailbox = lock(&self.mailbox);
        mailbox.next = Some(mailbox.next.map_or(notice, |earlier| earlier.merge(notice)));
        drop(mailbox);
        self.changed.notify_all();
    }

    /// Nothing is told any more, and the function is not running when the call returns; unless it is the one that calls.
    pub(crate) fn end(&self) {
        lock(&self.mailbox).ended = true;
        self.changed.notify_all();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread.filter(|_| acting_for() != self.number) {
            // The function cannot unwind out of its thread.
            let _ = thread.join();
        }
    }

    fn next(&self) -> Option<N> {
        let mut mailbox = lock(&self.mailbox);
        loop {
            if mailbox.ended {
                return None;
            }
            if let Some(notice) = mailbox.next.take() {
                return Some(notice);
            }
            mailbox = self.changed.wait(mailbox);
        }
    }

    fn run(&self, process: &impl InProcess, context: u64) {
        while let Some(notice) = self.next() {
            if !process.call(self.callback, notice.argument(context), self.number) {
                return;
            }
        }
    }
}
