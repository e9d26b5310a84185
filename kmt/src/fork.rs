// UNSAFETY: memory that the kernel wipes in children.
//! Tells the process that booted the machine from its children by `fork`.
//!
//! A child of `fork` has a copy of everything but the machine's threads: a lock that one of them held stays locked, and nothing moves. So
//! a thunk has to know that it runs in a child before it touches any state of the machine, by whatever function the child was made.

use std::ffi::c_int;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// A page with a mark, which the kernel wipes in a child of `fork`. Null before the first call.
static PAGE: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut());
const MARK: u8 = 1;
/// Bytes of a system page, the length of the mapping with the mark.
const PAGE_SIZE: usize = 4096;

/// True in the process that called this first, which is the one that boots the machine; false in its children by `fork`.
///
/// # Errors
/// The system has no memory for the mark, or cannot wipe it.
pub(crate) fn is_first_process() -> io::Result<bool> {
    let page = match NonNull::new(PAGE.load(Ordering::Acquire)) {
        Some(page) => page,
        None => mark_process()?,
    };
    // SAFETY: the page is mapped for as long as the process lives, and is only looked at as this.
    let mark = unsafe { page.as_ref() };
    Ok(mark.load(Ordering::Acquire) == MARK)
}

/// Marks this process as the first one. Of several threads that call this at once, one does it and the others use its page.
fn mark_process() -> io::Result<NonNull<AtomicU8>> {
    let page = marked_page()?;
    match PAGE.compare_exchange(null_mut(), page.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(page),
        Err(first) => {
            // SAFETY: no other thread knows the address of this page.
            unsafe { libc::munmap(page.as_ptr().cast(), PAGE_SIZE) };
            NonNull::new(first).ok_or_else(|| io::Error::other("a page was taken back"))
        }
    }
}

/// A new page with the mark, which the kernel wipes in children. The mark is set before [`PAGE`] names the page, so that it is missing in a
/// child only.
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
        // SAFETY: the page was just mapped, and no other thread knows its address.
        unsafe { libc::munmap(at, PAGE_SIZE) };
        return Err(error);
    }
    let page = NonNull::new(at.cast::<AtomicU8>()).ok_or_else(|| io::Error::other("a page at address 0"))?;
    // SAFETY: as above.
    unsafe { page.as_ref() }.store(MARK, Ordering::Release);
    Ok(page)
}
