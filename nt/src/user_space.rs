// UNSAFETY: mappings of a process, and functions that it registered.
//! The user-mode side of a process, as the kernel reaches it: its memory, its descriptors, the addresses that are mapped for it, and its functions.
//!
//! A process of the machine is this very process, or one that reaches the machine from elsewhere. What both have to offer is [`UserSpace`]; for this
//! one it is [`ThisProcess`].

use std::cell::Cell;
use std::ffi::c_void;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, mpsc};

use crate::bus::trap;
use crate::fault::frozen;

/// Words of the structure that a function of user mode is called with, at most.
pub const ARGUMENT_WORDS: usize = 3;

mod maps;

/// A file of the host, by which it is known again where it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// Number of the device that the file is on.
    pub device: u64,
    /// Number of the file there.
    pub inode: u64,
}

impl FileId {
    /// That of an open file.
    ///
    /// # Errors
    /// The host does not tell.
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// Whoever has to know that a thread waits for a process, and for nothing else.
pub trait Waiting: Send + Sync {
    /// The thread begins to wait.
    fn begins(&self);

    /// It goes on.
    fn ends(&self);
}

/// Does what waits for a process, of which `told` is told.
pub fn while_waiting<T>(told: Option<&dyn Waiting>, wait: impl FnOnce() -> T) -> T {
    /// Goes on also by a panic.
    struct Waits<'a>(Option<&'a dyn Waiting>);

    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            self.0.inspect(|told| told.ends());
        }
    }

    told.inspect(|told| told.begins());
    let _waits = Waits(told);
    wait()
}

/// Of the host's headers, from Linux 6.16 on: whether descriptors may be sent to a socket.
pub const SO_PASSRIGHTS: libc::c_int = 83;

/// Has the host let nobody send descriptors to a socket, nor to those that connect to it, if it can (from Linux 6.16 on): closing one may take as long as its file system or its
/// peer likes, in whoever receives the message or closes the socket.
pub fn refuse_descriptors(socket: impl AsFd) {
    let (number, no) = (socket.as_fd().as_raw_fd(), 0i32);
    let len = size_of_val(&no) as libc::socklen_t;
    // An older host passes them on: whoever receives makes the best of it.
    // SAFETY: a number of this frame and its size.
    unsafe { libc::setsockopt(number, libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw const no).cast(), len) };
}

/// Called once with a descriptor that it owns.
pub type TakeDescriptor = Box<dyn FnOnce(OwnedFd) + Send>;

impl dyn UserSpace + '_ {
    /// What `take` makes of a descriptor of the kernel's own for what the process has open by a number. It is called by [`UserSpace::hand_descriptor`], and its answer may be dropped by anybody: it has no
    /// descriptor that is not known to be closed at once.
    ///
    /// # Errors
    /// Those of [`UserSpace::hand_descriptor`].
    pub fn descriptor<T: Send + 'static>(
        &self,
        number: RawFd,
        take: impl FnOnce(OwnedFd) -> T + Send + 'static,
    ) -> io::Result<T> {
        let (of_taker, taken) = mpsc::sync_channel(1);
        let hand = move |descriptor| {
            // Nobody wants the answer of one that was given up.
            let _ = of_taker.send(take(descriptor));
        };
        self.hand_descriptor(number, Box::new(hand))?;
        taken.recv().map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))
    }
}

/// The operations of the kernel in the user-mode side of a process.
///
/// Ranges are whole pages of one reservation. A range that was reserved belongs to the kernel until it is released: user mode uses the addresses, and
/// nobody else maps anything there.
pub trait UserSpace: Send + Sync {
    /// True if the process itself does what is asked here, and may take its time: nobody asks who holds a lock that other processes need. False for one that
    /// is gone, or whose operations end by themselves.
    fn waits(&self) -> bool {
        false
    }

    /// Whoever waits for the process does so by [`while_waiting`] of this, from now on. Called once, before anything is asked.
    fn wait_by(&self, _told: Arc<dyn Waiting>) {}

    /// All that is asked of the process from now on, until [`UserSpace::end_joint_limit`], has together the time that one answer has: everybody waits for it. These
    /// calls nest.
    fn begin_joint_limit(&self) {}

    /// Each answer has its own time limit again.
    fn end_joint_limit(&self) {}

    /// Copies bytes of the process' memory in.
    ///
    /// # Errors
    /// Not all of them can be read.
    fn read(&self, address: usize, bytes: &mut [u8]) -> io::Result<()>;

    /// Copies bytes out to the process' memory.
    ///
    /// # Errors
    /// Not all of them can be written.
    fn write(&self, address: usize, bytes: &[u8]) -> io::Result<()>;

    /// Hands `take` a descriptor of the kernel's own for what the process has open by a number. It may be of anything, also of a file of somebody who is asked before it is closed and does not
    /// answer: `take` closes what is not wanted, on a thread that can be given up.
    ///
    /// # Errors
    /// EBADF if the process has nothing open by that number; the kernel may open no more descriptors; EFAULT if the process is gone, or `take` was given up.
    fn hand_descriptor(&self, number: RawFd, take: TakeDescriptor) -> io::Result<()>;

    /// Opens what a descriptor of the kernel's own stands for in the process, where it is closed on exec; the answer is its number there.
    ///
    /// # Errors
    /// The process is gone, or may open no more descriptors.
    fn give(&self, descriptor: OwnedFd) -> io::Result<RawFd>;

    /// Takes `len` bytes of addresses that show nothing: any access faults.
    ///
    /// # Errors
    /// The process has no free range of addresses.
    fn reserve(&self, len: usize) -> io::Result<usize>;

    /// Makes a range show `file` from `offset`, in one step for those who access it.
    ///
    /// # Errors
    /// The host refuses; the range then still shows what it did.
    fn show(&self, range: Range<usize>, file: &File, offset: u64, writable: bool) -> io::Result<()>;

    /// Makes a range show nothing again.
    ///
    /// # Errors
    /// The host refuses.
    fn hide(&self, range: Range<usize>) -> io::Result<()>;

    /// Lets a range, which must show something, be read but not written: whoever stores there waits until [`UserSpace::thaw`]. The kernel
    /// allows stores before that, or replaces what the range shows with what may be written.
    ///
    /// # Errors
    /// The host refuses; nobody waits then.
    fn freeze(&self, range: Range<usize>) -> io::Result<()>;

    /// Whoever waits for the range that begins at `start` goes on.
    fn thaw(&self, start: usize);

    /// Lets a range be written that shows what it did when it was frozen.
    ///
    /// # Errors
    /// The host refuses.
    fn allow_stores(&self, range: Range<usize>) -> io::Result<()>;

    /// Makes a range, which must be readable, show a copy of what it shows, in memory of its own. In one step for those who read it; a store is
    /// lost that is made meanwhile, unless the range is frozen.
    ///
    /// # Errors
    /// The host has no memory; the range then still shows what it did.
    fn detach(&self, range: Range<usize>, writable: bool) -> io::Result<()>;

    /// Makes a range show zeros that can be overwritten, in memory of its own. In one step for those who use it.
    ///
    /// # Errors
    /// The host has no memory; the range then still shows what it did.
    fn blank(&self, range: Range<usize>) -> io::Result<()>;

    /// Accesses to a range that shows memory of a function, and which the function does not answer, read as ones and are dropped, until the range
    /// is released.
    ///
    /// # Errors
    /// The process cannot be told of faults.
    fn answer_for_function(&self, range: Range<usize>) -> io::Result<()>;

    /// Gives a reservation back.
    fn release(&self, range: Range<usize>);

    /// Asks whether the kernel may put memory of the machine into the place of memory that user mode has at a range, as [`UserSpace::freeze`] and
    /// [`UserSpace::show`] do it. The addresses stay user mode's, until [`UserSpace::give_back`] and afterwards.
    ///
    /// # Errors
    /// EFAULT unless user mode may read and write all of it; EOPNOTSUPP if others see some of it, the calling thread has its stack there, or it
    /// belongs to the kernel.
    fn adopt(&self, range: Range<usize>) -> io::Result<()>;

    /// Makes what still shows `file` of a range show a copy of that, in memory of user mode's own, without losing a store. What user mode has mapped
    /// there meanwhile stays.
    ///
    /// # Errors
    /// The host has no memory; some of the range may show the file.
    fn give_back(&self, range: Range<usize>, file: FileId) -> io::Result<()>;

    /// The process has refused what the kernel cannot do without, for this reason: ends it. When the answer is true, it uses no memory any more that it was shown, or nobody can have it stop.
    /// False for this process, which is the kernel's too.
    fn end_after(&self, _refused: &io::Error) -> bool {
        false
    }

    /// Calls a function of the process, which takes a pointer to a structure of 64-bit words, and returns when it has returned. While it runs, the
    /// thunks that it calls run [on behalf of](acting_for) `caller`. False if the process is gone.
    fn call(&self, function: usize, argument: [u64; ARGUMENT_WORDS], caller: u64) -> bool;
}

thread_local! {
    static ACTING_FOR: Cell<u64> = const { Cell::new(0) };
}

/// Who has called the function of user mode that the calling thread works for, as [`UserSpace::call`] was told; 0 for nobody.
pub fn acting_for() -> u64 {
    ACTING_FOR.get()
}

/// Does `act` on behalf of `caller`.
pub fn act_for<T>(caller: u64, act: impl FnOnce() -> T) -> T {
    struct Restore(u64);
    impl Drop for Restore {
        fn drop(&mut self) {
            ACTING_FOR.set(self.0);
        }
    }
    let _restore = Restore(ACTING_FOR.replace(caller));
    act()
}

/// This process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisProcess;

/// Arguments of `mmap`.
struct Request {
    at: usize,
    len: usize,
    protection: i32,
    flags: i32,
    file: RawFd,
    offset: libc::off_t,
}

const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Maps as asked.
///
/// # Safety
/// With MAP_FIXED the addresses belong to a reservation of the caller.
unsafe fn map(request: &Request) -> io::Result<usize> {
    let at = std::ptr::with_exposed_provenance_mut::<c_void>(request.at);
    let Request { len, protection, flags, file, offset, .. } = *request;
    // SAFETY: without MAP_FIXED the addresses are of the host's choice and touch no existing memory; with it they are the caller's.
    let mapped = unsafe { libc::mmap(at, len, protection, flags, file, offset) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(mapped.expose_provenance())
}

fn protect(range: &Range<usize>, protection: i32) -> io::Result<()> {
    let at = std::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the range belongs to a reservation of the kernel, and nothing in this program refers to its bytes.
    let done = unsafe { libc::mprotect(at, range.len(), protection) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn protection_of(writable: bool) -> i32 {
    if writable { READ_WRITE } else { libc::PROT_READ }
}

/// Puts memory of its own, which `prepare` fills, in the place of what a range shows.
fn replace(range: &Range<usize>, writable: bool, prepare: impl FnOnce(*mut u8)) -> io::Result<()> {
    let len = range.len();
    // SAFETY: not MAP_FIXED.
    let own = unsafe { map(&Request { at: 0, len, protection: READ_WRITE, flags: PRIVATE, file: -1, offset: 0 }) }?;
    prepare(std::ptr::with_exposed_provenance_mut(own));
    let protected = protect(&(own..own + len), protection_of(writable));
    let (from, to) =
        (std::ptr::with_exposed_provenance_mut(own), std::ptr::with_exposed_provenance_mut::<c_void>(range.start));
    let moved = protected.and_then(|()| {
        // SAFETY: the pages replaced belong to a reservation of the kernel, and those that replace them were made above and have no other owner.
        let moved = unsafe { libc::mremap(from, len, len, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, to) };
        if moved == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    });
    if moved.is_err() {
        // SAFETY: the pages made above, which did not move.
        unsafe { libc::munmap(from, len) };
    }
    moved
}

impl ThisProcess {
    /// Gives a reservation back.
    ///
    /// # Errors
    /// The host refuses; the range then still shows what it did.
    pub fn unmap(&self, range: Range<usize>) -> io::Result<()> {
        frozen::forget(range.start);
        trap::answer_no_more(range.start);
        // SAFETY: the reservation was mapped with this address and size and belongs to the kernel.
        let done = unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(range.start), range.len()) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Copies between this process and itself by the host's kernel, which answers with an error where a load or store would fault.
    fn transfer(local: libc::iovec, address: usize, write: bool) -> io::Result<()> {
        let len = local.iov_len;
        if address.checked_add(len).is_none() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let remote = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(address), iov_len: len };
        // The process by its calling thread: the host finds no memory by the number of a main thread that has ended.
        // SAFETY: gettid has no preconditions.
        let this = unsafe { libc::gettid() };
        let moved = if write {
            // SAFETY: `local` names `len` readable bytes of the caller; the other side is checked by the host's kernel.
            unsafe { libc::process_vm_writev(this, &local, 1, &remote, 1, 0) }
        } else {
            // SAFETY: `local` names `len` writable bytes of the caller; the other side is checked by the host's kernel.
            unsafe { libc::process_vm_readv(this, &local, 1, &remote, 1, 0) }
        };
        if usize::try_from(moved) == Ok(len) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
    }
}

impl UserSpace for ThisProcess {
    fn read(&self, address: usize, bytes: &mut [u8]) -> io::Result<()> {
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        Self::transfer(local, address, false)
    }

    fn write(&self, address: usize, bytes: &[u8]) -> io::Result<()> {
        let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        Self::transfer(local, address, true)
    }

    fn hand_descriptor(&self, number: RawFd, take: TakeDescriptor) -> io::Result<()> {
        if number < 0 {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        // SAFETY: duplicating a descriptor touches no memory; a number that is not open is answered with an error.
        let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created and is owned by nobody else.
        take(unsafe { OwnedFd::from_raw_fd(copy) });
        Ok(())
    }

    fn give(&self, descriptor: OwnedFd) -> io::Result<RawFd> {
        Ok(descriptor.into_raw_fd())
    }

    fn reserve(&self, len: usize) -> io::Result<usize> {
        let flags = PRIVATE | libc::MAP_NORESERVE;
        // SAFETY: not MAP_FIXED.
        unsafe { map(&Request { at: 0, len, protection: libc::PROT_NONE, flags, file: -1, offset: 0 }) }
    }

    fn show(&self, range: Range<usize>, file: &File, offset: u64, writable: bool) -> io::Result<()> {
        show_descriptor(range, file.as_fd(), offset, writable)
    }

    fn hide(&self, range: Range<usize>) -> io::Result<()> {
        let flags = PRIVATE | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let (at, len) = (range.start, range.len());
        // SAFETY: the pages replaced belong to a reservation of the kernel.
        unsafe { map(&Request { at, len, protection: libc::PROT_NONE, flags, file: -1, offset: 0 }) }.map(drop)
    }

    fn freeze(&self, range: Range<usize>) -> io::Result<()> {
        frozen::freeze(range.start, range.len());
        protect(&range, libc::PROT_READ).inspect_err(|_| frozen::thaw(range.start))
    }

    fn thaw(&self, start: usize) {
        frozen::thaw(start);
    }

    fn allow_stores(&self, range: Range<usize>) -> io::Result<()> {
        protect(&range, READ_WRITE)
    }

    fn detach(&self, range: Range<usize>, writable: bool) -> io::Result<()> {
        let shown = std::ptr::with_exposed_provenance::<u8>(range.start);
        // SAFETY: two different mappings of this length, of which nothing in this program refers to the bytes.
        replace(&range, writable, |copy| unsafe { copy.copy_from_nonoverlapping(shown, range.len()) })
    }

    fn blank(&self, range: Range<usize>) -> io::Result<()> {
        replace(&range, true, |_| ())
    }

    fn answer_for_function(&self, range: Range<usize>) -> io::Result<()> {
        trap::answer_for(range.start, range.len())
    }

    fn release(&self, range: Range<usize>) {
        // A range that the host does not take back goes on showing this process its own memory.
        let _ = self.unmap(range);
    }

    fn adopt(&self, range: Range<usize>) -> io::Result<()> {
        let here = 0u8;
        if range.contains(&(&raw const here).addr()) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        maps::of_this_process()?.are_its_own(&range)
    }

    fn give_back(&self, range: Range<usize>, file: FileId) -> io::Result<()> {
        for part in maps::of_this_process()?.that_show(&range, file) {
            self.freeze(part.clone())?;
            // Without it a store ends the program, which is what the host does when it has no memory.
            let given = self.detach(part.clone(), true).inspect_err(|_| drop(self.allow_stores(part.clone())));
            self.thaw(part.start);
            given?;
        }
        Ok(())
    }

    fn call(&self, function: usize, argument: [u64; ARGUMENT_WORDS], caller: u64) -> bool {
        let mut argument = argument;
        let function = std::ptr::with_exposed_provenance::<()>(function);
        // SAFETY: user mode registered the address as that of such a function.
        let function: unsafe extern "win64" fn(*mut u64) = unsafe { std::mem::transmute(function) };
        // SAFETY: user mode registered the function for such calls and keeps it until it has unregistered it.
        act_for(caller, || unsafe { function(argument.as_mut_ptr()) });
        true
    }
}

/// True if a descriptor is of an event of the host (eventfd), which the host closes at once, and into which nobody can be kept writing.
///
/// # Errors
/// The host does not tell.
pub fn is_event(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    let kind = fs::read_link(format!("/proc/thread-self/fd/{}", descriptor.as_raw_fd()))?;
    // A file may have such a name in a folder.
    Ok(kind.as_os_str() == "anon_inode:[eventfd]")
}

/// As [`UserSpace::show`] of this process, for a file of which only the descriptor is known.
///
/// # Errors
/// As there.
pub fn show_descriptor(range: Range<usize>, file: BorrowedFd<'_>, offset: u64, writable: bool) -> io::Result<()> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let (protection, file) = (protection_of(writable), file.as_raw_fd());
    let (at, len) = (range.start, range.len());
    // SAFETY: the pages replaced belong to a reservation of the kernel, and nothing in this program refers to their bytes.
    unsafe { map(&Request { at, len, protection, flags, file, offset }) }.map(drop)
}
