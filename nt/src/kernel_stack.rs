// UNSAFETY: maps stacks with a guard, and the alternate stack of signal handlers.
//! The stack of a kernel thread: 24 KiB with an inaccessible range below, so that a driver that needs more faults as on Windows.

use std::cell::Cell;
use std::ptr::NonNull;

/// Usable stack of a kernel thread on x64, in bytes.
const SIZE: usize = 24 << 10;
/// Inaccessible bytes below it.
const GUARD: usize = 64 << 10;
/// Stack on which faults are handled: a register access may run a long way into a device.
const SIGNAL_STACK: usize = 512 << 10;

/// A kernel stack, unmapped when dropped.
pub(crate) struct KernelStack {
    base: NonNull<u8>,
}

thread_local! {
    /// The thread's alternate signal stack, once it has entered a driver.
    static SIGNAL: Cell<Option<SignalStack>> = const { Cell::new(None) };
}

struct SignalStack {
    base: NonNull<u8>,
}

fn map(size: usize, protection: i32) -> NonNull<u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
    assert!(base != libc::MAP_FAILED, "no address space for a stack: {}", std::io::Error::last_os_error());
    NonNull::new(base.cast()).expect("mmap answers no NULL")
}

impl KernelStack {
    /// A fresh stack. Ends the process when there is no address space, as a kernel without stacks would.
    pub(crate) fn new() -> Self {
        let base = map(GUARD + SIZE, libc::PROT_NONE);
        // SAFETY: the usable part lies inside the mapping, above the guard.
        let usable = unsafe { base.as_ptr().add(GUARD) };
        // SAFETY: the range is part of the mapping just made.
        let result = unsafe { libc::mprotect(usable.cast(), SIZE, libc::PROT_READ | libc::PROT_WRITE) };
        assert!(result == 0, "no memory for a stack: {}", std::io::Error::last_os_error());
        Self { base }
    }

    /// Its end, where the first frame goes; a multiple of 16.
    pub(crate) fn top(&self) -> usize {
        self.base.as_ptr().addr() + GUARD + SIZE
    }

    /// Its inaccessible range, and the range that is used.
    pub(crate) fn layout(&self) -> Layout {
        let base = self.base.as_ptr().addr();
        Layout { guard: base, bottom: base + GUARD, top: self.top() }
    }
}

/// Addresses of a kernel stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    guard: usize,
    bottom: usize,
    top: usize,
}

impl Layout {
    /// True if an access to `address` ran off the end of the stack.
    pub(crate) fn guards(&self, address: usize) -> bool {
        (self.guard..self.bottom).contains(&address)
    }

    /// True if a word is on the stack.
    pub(crate) fn holds(&self, address: usize) -> bool {
        address.is_multiple_of(8) && address >= self.bottom && address.checked_add(8).is_some_and(|end| end <= self.top)
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and size, and no call runs on it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), GUARD + SIZE) };
    }
}

/// Gives this thread a signal stack that is large enough for the handlers here, in place of a smaller one.
pub(crate) fn ensure_signal_stack() {
    let present = SIGNAL.take();
    if present.is_some() {
        SIGNAL.set(present);
        return;
    }
    let base = map(SIGNAL_STACK, libc::PROT_READ | libc::PROT_WRITE);
    let stack = libc::stack_t { ss_sp: base.as_ptr().cast(), ss_flags: 0, ss_size: SIGNAL_STACK };
    // SAFETY: the stack is mapped and stays so until the thread ends.
    let result = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
    assert!(result == 0, "no signal stack: {}", std::io::Error::last_os_error());
    SIGNAL.set(Some(SignalStack { base }));
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: takes the stack away from this thread, which runs on its own.
        unsafe { libc::sigaltstack(&raw const none, std::ptr::null_mut()) };
        // SAFETY: the mapping was made with this address and size and is no signal stack any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), SIGNAL_STACK) };
    }
}
