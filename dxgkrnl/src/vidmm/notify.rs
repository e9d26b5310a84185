//! Functions of user mode that the memory manager calls.
//!
//! A function that was registered for a device runs on a thread of its own in its process, never inside a thunk or a lock, so it may
//! call thunks itself. What was not told yet when there is more to tell is told in one call.

use std::ffi::c_void;
use std::sync::Arc;
use std::thread::JoinHandle;

use nt::lock::{Condvar, Mutex, lock};
use wddm_ddi::status::*;

use crate::vidmm::memory::SpaceId;
use crate::vidmm::scheduler::MemoryOwner;

/// Contents of a notification.
pub(crate) trait Notice: Copy + Send + 'static {
    /// Argument of the registered function.
    type Arguments;

    /// Both in one.
    fn merge(self, later: Self) -> Self;

    /// As the function that was registered with `context` gets it.
    fn arguments(self, context: *mut c_void) -> Self::Arguments;
}

/// The process in which a function is called.
pub(crate) trait InProcess: Send + 'static {
    /// Runs something in the process; false if it is gone.
    fn run(&self, call: &mut dyn FnMut()) -> bool;
}

/// The function of user mode.
pub(crate) type Callback<N> = unsafe extern "win64" fn(*mut <N as Notice>::Arguments);

struct Mailbox<N> {
    next: Option<N>,
    ended: bool,
}

/// A function that was registered for a device.
pub(crate) struct Registration<N: Notice> {
    process: SpaceId,
    callback: Callback<N>,
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
        callback: Callback<N>,
        context: *mut c_void,
    ) -> Result<Arc<Self>, NTSTATUS> {
        let registration = Arc::new(Self {
            process: device.space().id(),
            callback,
            mailbox: Mutex::new(Mailbox { next: None, ended: false }),
            changed: Condvar::new(),
            thread: Mutex::default(),
        });
        let (of_thread, context) = (Arc::clone(&registration), context.expose_provenance());
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
    pub(crate) fn is_of(&self, callback: Callback<N>) -> bool {
        std::ptr::fn_addr_eq(self.callback, callback)
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
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
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

    fn run(&self, process: &impl InProcess, context: usize) {
        while let Some(notice) = self.next() {
            let called = process.run(&mut || {
                let context = std::ptr::with_exposed_provenance_mut(context);
                let mut arguments = notice.arguments(context);
                // SAFETY: user mode registered the function for such calls and keeps it until it has unregistered it.
                unsafe { (self.callback)(&raw mut arguments) };
            });
            if !called {
                return;
            }
        }
    }
}
