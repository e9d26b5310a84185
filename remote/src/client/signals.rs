// UNSAFETY: signal masks.
//! Threads of a library in somebody else's program leave the program's signals to the program's threads.

/// While it lives, threads that this one starts get none of the process' signals: those are for the threads of the program, as without the library.
pub struct SignalsHeld {
    before: libc::sigset_t,
}

impl SignalsHeld {
    /// Blocks the signals of this thread too, until it is dropped. Those of `own` and those that faults arrive as are not blocked.
    #[allow(clippy::new_without_default)] // it does something
    pub fn new(own: &[libc::c_int]) -> Self {
        // SAFETY: a set of signals is a plain number of bits, which the next call fills.
        let mut held: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: a set of this frame.
        unsafe { libc::sigfillset(&raw mut held) };
        // Faults are of the instruction that makes them, and must arrive.
        let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];
        for signal in faults.iter().chain(own) {
            // SAFETY: as above.
            unsafe { libc::sigdelset(&raw mut held, *signal) };
        }
        let mut before = held;
        // SAFETY: two sets of this frame.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, &raw mut before) };
        Self { before }
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        // SAFETY: a set of ours, and nothing to be given back.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}
