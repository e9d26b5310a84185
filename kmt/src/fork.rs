// UNSAFETY: memory that the kernel wipes in children, and a function that is called in them.
//! Tells the process that booted the machine from its children.
//!
//! A child of `fork` has a copy of everything but the machine's threads: a lock that one of them held stays locked, and nothing moves. So
//! a thunk has to know that it runs in a child before it touches any state of the machine, by whatever function the child was made.
//!
//! A child of `vfork`, or of `clone` with CLONE_VM, has the memory of its parent and not a copy. Threads and descriptors of a machine that it made would be its own, and end with it, while what knows
//! of them stays in the memory: such a child makes none. One whose parent has called before calls as its parent. It is known by its number, so that one is not known in a PID namespace of its own where both numbers are 1, nor one of
//! a child that was made without the handlers of `fork` (`_Fork`, `clone` by its number) before anybody has called.

use std::ffi::c_int;
use std::io;
use std::process;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// A page with the number of the process whose memory this is, which the kernel wipes in a child that gets a copy. Null before it is made, when the library is loaded.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// Bytes of a system page, the length of the mapping with the mark.
const PAGE_SIZE: usize = campanile_hw::queue::SYSTEM_PAGE_SIZE as usize;
/// True in a process that has called, and in its children.
static CALLED: AtomicBool = AtomicBool::new(false);

/// A process that calls.
pub(crate) enum Caller {
    /// The one that called first, which is the one that boots the machine.
    First,
    /// A child, which has a copy of its memory.
    Child,
    /// One that has the memory of another one, which has not called yet.
    Sharing,
}

/// The process that calls.
///
/// # Errors
/// The system has no memory for the mark, or cannot wipe it.
pub(crate) fn caller() -> io::Result<Caller> {
    let mark = mark()?;
    let marked = mark.load(Ordering::Acquire);
    if CALLED.load(Ordering::Acquire) {
        return Ok(if marked == 0 { Caller::Child } else { Caller::First });
    }
    let this = process::id();
    if marked == 0 {
        mark.store(this, Ordering::Release);
    } else if marked != this {
        return Ok(Caller::Sharing);
    }
    CALLED.store(true, Ordering::Release);
    Ok(Caller::First)
}

/// The mark of this process, which is made if there is none. Of several threads that ask for it at once, one makes it and the others use its page.
fn mark() -> io::Result<&'static AtomicU32> {
    let page = match NonNull::new(PAGE.load(Ordering::Acquire)) {
        Some(page) => page,
        None => make_mark()?,
    };
    // SAFETY: the page is mapped for as long as the process lives, and is only looked at as this.
    Ok(unsafe { page.as_ref() })
}

fn make_mark() -> io::Result<NonNull<AtomicU32>> {
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
fn marked_page() -> io::Result<NonNull<AtomicU32>> {
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
    let page = NonNull::new(at.cast::<AtomicU32>()).ok_or_else(|| io::Error::other("a page at address 0"))?;
    // SAFETY: as above.
    unsafe { page.as_ref() }.store(process::id(), Ordering::Release);
    Ok(page)
}

/// Called when the library is loaded, before any child can call.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    // Without a mark the first call makes one, or says why there is none.
    let _ = mark();
    // SAFETY: the function lives as long as the library, whose end takes it off the list of the C library.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// A child of `fork` may call first, and have such children of its own.
extern "C" fn in_child() {
    if !CALLED.load(Ordering::Acquire)
        && let Ok(mark) = mark()
    {
        mark.store(process::id(), Ordering::Release);
    }
}
