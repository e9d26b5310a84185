// UNSAFETY: maps files of physical memory, replaces what such a mapping shows, and duplicates parts of it.
//! Files of physical memory, and mappings of them.

use std::ffi::{CStr, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;

const SHARED: c_int = libc::MAP_SHARED | libc::MAP_NORESERVE;
const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

fn seal(file: &File, seals: c_int) -> io::Result<()> {
    // SAFETY: F_ADD_SEALS takes an integer and touches no memory.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Fails where this process would be ended by SIGXFSZ if it set the length of a file to this.
///
/// # Errors
/// EFBIG.
fn may_be_so_long(size: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a structure of this frame.
    let told = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    if told && limit.rlim_cur < size { Err(io::Error::from_raw_os_error(libc::EFBIG)) } else { Ok(()) }
}

fn sparse_file(name: &CStr, size: u64) -> io::Result<File> {
    // SAFETY: the name is a valid C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and is not owned elsewhere.
    let file = unsafe { File::from_raw_fd(fd) };
    may_be_so_long(size)?;
    file.set_len(size)?;
    // Devices of other processes take memory only if it stays as long as it is.
    seal(&file, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW)?;
    Ok(file)
}

/// A sparse file of `size` bytes that stays as long as it is, and writable.
///
/// # Errors
/// The host refuses.
pub fn new_file(name: &CStr, size: u64) -> io::Result<File> {
    let file = sparse_file(name, size)?;
    seal(&file, libc::F_SEAL_SEAL)?;
    Ok(file)
}

/// A sparse file of `size` bytes that nobody can write, or map to be written, but through the mapping that comes with it. A descriptor that was opened to
/// read only would not do: whoever has it opens the file again, in /proc/self/fd.
pub(super) fn new_sealed_file(size: u64) -> io::Result<(File, Mapping)> {
    let file = sparse_file(c"campanile-ram", size)?;
    let mapping = Mapping::new(&file, size)?;
    seal(&file, libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL)?;
    Ok((file, mapping))
}

/// Gives the host the memory of a range of a file, which reads as zero from then on. A refusal costs memory and nothing else.
pub fn punch(file: &File, offset: u64, len: u64) {
    let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the call touches no memory of this process but by the contents of the file.
    unsafe { libc::fallocate(file.as_raw_fd(), flags, offset as libc::off_t, len as libc::off_t) };
}

/// Maps `len` bytes of a file, readable and, if asked, writable.
///
/// # Errors
/// The host refuses.
pub fn map_shared(file: &File, offset: u64, len: u64, writable: bool) -> io::Result<NonNull<u8>> {
    let protection = if writable { READ_WRITE } else { libc::PROT_READ };
    // SAFETY: a new shared mapping at an address of the kernel's choice touches no existing memory.
    unsafe { map(std::ptr::null_mut(), len, (protection, SHARED), (file, offset)) }
}

/// # Safety
/// With MAP_FIXED the range at `at` belongs to the caller, who answers for those that refer to its bytes.
unsafe fn map(
    at: *mut u8,
    len: u64,
    (protection, flags): (c_int, c_int),
    (file, offset): (&File, u64),
) -> io::Result<NonNull<u8>> {
    // SAFETY: without MAP_FIXED no existing memory is touched; with it the caller answers for what is replaced.
    let base =
        unsafe { libc::mmap(at.cast(), len as usize, protection, flags, file.as_raw_fd(), offset as libc::off_t) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Contents stay as they are, and a refusal is of no importance.
    // SAFETY: the range is the mapping just made.
    unsafe { libc::madvise(base, len as usize, libc::MADV_HUGEPAGE) };
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))
}

/// Has `len` bytes at `at` show a file from `offset` on, readable and writable, in one step for those who look.
///
/// # Errors
/// The host refuses; the range shows what it did.
///
/// # Safety
/// The range belongs to a shared mapping of the caller, whose bytes nothing refers to but raw pointers.
pub unsafe fn replace_shared(at: NonNull<u8>, len: u64, file: &File, offset: u64) -> io::Result<()> {
    // SAFETY: as the caller promises.
    unsafe { map(at.as_ptr(), len, (READ_WRITE, SHARED | libc::MAP_FIXED), (file, offset)) }.map(drop)
}

/// Has `len` bytes at `to` show the same memory as those at `from`.
///
/// # Errors
/// The host refuses.
///
/// # Safety
/// The bytes at `from` are a shared mapping of one file. Those at `to` belong to the caller, who answers for those that refer to them.
pub(super) unsafe fn show_again(from: NonNull<u8>, len: u64, to: NonNull<u8>) -> io::Result<()> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: an old size of zero makes a second mapping of shared memory, and leaves the first; the caller answers for what is replaced.
    let shown =
        unsafe { libc::mremap(from.as_ptr().cast(), 0, len as usize, flags, to.as_ptr().cast::<libc::c_void>()) };
    if shown == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// All of a file, mapped to be read and written.
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: u64,
}

// SAFETY: a shared mapping that lives as long as this object; access through it goes by raw pointers only.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn new(file: &File, len: u64) -> io::Result<Self> {
        Ok(Self { base: map_shared(file, 0, len, true)?, len })
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Address of byte `offset`, if `len` bytes from there exist.
    pub(super) fn at(&self, offset: u64, len: u64) -> Option<NonNull<u8>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: the offset lies within the mapping, as just checked.
        Some(unsafe { self.base.add(usize::try_from(offset).ok()?) })
    }

    /// Has a range, which nobody uses, show the same range of another file, in one step for those who look all the same.
    pub(super) fn replace(&self, offset: u64, len: u64, file: &File) -> io::Result<()> {
        let at = self.at(offset, len).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range belongs to this mapping, and bytes of memory that nobody has are referred to by nobody.
        unsafe { replace_shared(at, len, file, offset) }
    }

    /// Has a range show what it does, in a file, but as a copy of which the file sees no store.
    pub(super) fn detach(&self, offset: u64, len: u64, file: &File) -> io::Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let at = self.at(offset, len).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range belongs to this mapping, whose bytes are reached by raw pointers only, and they are the same before and after.
        unsafe { map(at.as_ptr(), len, (READ_WRITE, flags), (file, offset)) }.map(drop)
    }

    /// As [`Mapping::replace`], with the same range of another mapping.
    pub(super) fn replace_by(&self, offset: u64, len: u64, other: &Self) -> io::Result<()> {
        let (Some(to), Some(from)) = (self.at(offset, len), other.at(offset, len)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // SAFETY: both belong to the mappings, of which the other one shows one file; bytes of memory that nobody has are referred to by nobody.
        unsafe { show_again(from, len, to) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and size and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len as usize) };
    }
}
