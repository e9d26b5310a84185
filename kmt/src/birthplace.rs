// UNSAFETY: memory that the kernel empties for children.
//! Whether this is the process that booted the machine.
//!
//! A child of `fork` has a copy of everything but the machine's threads: a lock that one of them held stays locked, and nothing moves. So
//! a child must be told from its parent before anything is touched, however it was made.

use std::ffi::c_int;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// A page with a mark, which the kernel wipes in a child of `fork`. Null before the first call.
static PAGE: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut());
const MARK: u8 = 1;
const PAGE_SIZE: usize = 4096;

/// Says whether the caller's process is the one that called first.
///
/// # Errors
/// The system has no memory for the mark, or cannot wipe it.
pub(crate) fn is_here() -> io::Result<bool> {
    let page = match NonNull::new(PAGE.load(Ordering::Acquire)) {
        Some(page) => page,
        None => settle()?,
    };
    // SAFETY: the page is mapped for as long as the process lives, and is only looked at as this.
    let mark = unsafe { page.as_ref() };
    Ok(mark.load(Ordering::Acquire) == MARK)
}

/// Marks this process; one of several threads that come here together does.
fn settle() -> io::Result<NonNull<AtomicU8>> {
    let page = marked_page()?;
    match PAGE.compare_exchange(null_mut(), page.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(page),
        Err(first) => {
            // SAFETY: nobody else knows our page.
            unsafe { libc::munmap(page.as_ptr().cast(), PAGE_SIZE) };
            NonNull::new(first).ok_or_else(|| io::Error::other("a page was taken back"))
        }
    }
}

/// A page that is wiped in children, with the mark: a page that is known always has it, but in a child.
fn marked_page() -> io::Result<NonNull<AtomicU8>> {
    const FLAGS: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping touches no existing memory.
    let at = unsafe { libc::mmap(null_mut(), PAGE_SIZE, libc::PROT_READ | libc::PROT_WRITE, FLAGS, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the page was just mapped.
    if unsafe { libc::madvise(at, PAGE_SIZE, libc::MADV_WIPEONFORK) } != 0 {
        let error = io::Error::last_os_error();
        // SAFETY: the page was just mapped, and nobody knows it.
        unsafe { libc::munmap(at, PAGE_SIZE) };
        return Err(error);
    }
    let page = NonNull::new(at.cast::<AtomicU8>()).ok_or_else(|| io::Error::other("a page at address 0"))?;
    // SAFETY: as above.
    unsafe { page.as_ref() }.store(MARK, Ordering::Release);
    Ok(page)
}
