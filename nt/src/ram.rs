//! Physical memory of the machine: one shared file, mapped once for the kernel and page by page for user mode.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::lock::{Innermost, Mutex};
use crate::page::PAGE_SIZE;
use crate::range::RangeAllocator;

/// Physical memory. Bus addresses equal physical addresses; address 0 is never handed out.
pub struct Ram {
    file: File,
    base: NonNull<u8>,
    size: u64,
    free: Mutex<RangeAllocator, Innermost>,
}

// SAFETY: `base` is a shared mapping that lives as long as `Ram`; access through it goes by raw pointers only.
unsafe impl Send for Ram {}
// SAFETY: as for Send; the allocator is behind a lock.
unsafe impl Sync for Ram {}

/// Contiguous physical pages, given back when dropped. Contents are undefined at first.
pub struct Pages {
    ram: Arc<Ram>,
    address: u64,
    len: u64,
}

impl Ram {
    /// Sparse memory of `size` bytes.
    pub fn new(size: u64) -> io::Result<Arc<Self>> {
        // SAFETY: the name is a valid C string.
        let fd = unsafe { libc::memfd_create(c"campanile-ram".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created and is not owned elsewhere.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(size)?;
        // Devices of other processes take memory only if it stays as long as it is.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: F_ADD_SEALS takes an integer and touches no memory.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let base = map_shared(&file, 0, size, true)?;
        let free = Mutex::new(RangeAllocator::new(PAGE_SIZE, size));
        Ok(Arc::new(Self { file, base, size, free }))
    }

    /// The file behind the memory; physical address = file offset.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that are free, in whatever pieces.
    pub fn free_bytes(&self) -> u64 {
        self.free.lock().free_bytes()
    }

    /// Takes `len` contiguous bytes (rounded up to pages) aligned to `align` (a power of two, at least a page).
    pub fn allocate(self: &Arc<Self>, len: u64, align: u64) -> Option<Pages> {
        let len = len.max(1).checked_next_multiple_of(PAGE_SIZE)?;
        let address = self.free.lock().allocate(len, align.max(PAGE_SIZE))?;
        Some(Pages { ram: Arc::clone(self), address, len })
    }

    /// Kernel address of physical `address`, if `len` bytes from there exist.
    pub fn kernel_address(&self, address: u64, len: u64) -> Option<NonNull<u8>> {
        if address.checked_add(len)? > self.size {
            return None;
        }
        // SAFETY: the offset lies within the mapping, as just checked.
        Some(unsafe { self.base.add(usize::try_from(address).ok()?) })
    }
}

impl Ram {
    /// Physical address of a kernel address in this memory.
    pub fn physical_address(&self, kernel_address: usize) -> Option<u64> {
        let offset = kernel_address.checked_sub(self.base.as_ptr().addr())? as u64;
        (offset < self.size).then_some(offset)
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and size and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.size as usize) };
    }
}

#[expect(clippy::len_without_is_empty, reason = "none is empty")]
impl Pages {
    /// Physical address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes, a multiple of the page size.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Kernel address of the first byte.
    pub fn kernel_address(&self) -> NonNull<u8> {
        self.ram.kernel_address(self.address, self.len).expect("pages lie inside physical memory")
    }

    /// Fills the pages with zero.
    pub fn zero(&self) {
        // SAFETY: the pages are mapped, belong to this object, and no reference to their bytes exists.
        unsafe { self.kernel_address().as_ptr().write_bytes(0, self.len as usize) };
    }

    /// The memory they come from.
    pub fn ram(&self) -> &Arc<Ram> {
        &self.ram
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.ram.free.lock().release(self.address, self.len);
    }
}

/// Maps `len` bytes of a file, readable and, if asked, writable.
pub fn map_shared(file: &File, offset: u64, len: u64, writable: bool) -> io::Result<NonNull<u8>> {
    let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    // SAFETY: a new shared mapping at an address of the kernel's choice touches no existing memory.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len as usize,
            protection,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if base == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))
    }
}
