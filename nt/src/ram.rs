//! Physical memory of the machine: one linear space, mapped once for the kernel and page by page for user mode.
//!
//! The memory lies in a file for the kernel and one for each [`Owner`]: a process, or what several processes have opened. Each is as long as all
//! memory, and the offset of a page in it is its physical address, but it has contents only where its owner has memory. So a process that
//! is given the file of one of its pages finds nothing of others in it, whatever it maps. What the kernel and devices of this process see at a physical
//! address is the file of whoever has the memory at the moment: when it changes hands, the mapping is replaced there.

mod files;
mod owner;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::lock::{Innermost, Mutex};
use crate::page::PAGE_SIZE;
use crate::range::RangeAllocator;

use files::Mapping;
pub use files::{map_shared, new_file, punch, replace_shared};
pub use owner::Owner;
use owner::Owners;

/// Bytes of the page at address 0. Whoever means no page at all and names this one does not find zeros.
const NOBODYS: u8 = 0xd0;

/// Physical memory. Bus addresses equal physical addresses; address 0 is never handed out.
pub struct Ram {
    /// The kernel's, which shows wherever no owner has memory.
    kernel: Arc<File>,
    mapping: Mapping,
    /// Owners have their memory in the kernel's file.
    in_one_file: bool,
    state: Mutex<State, Innermost>,
}

struct State {
    /// Memory that neither the kernel nor an owner has.
    free: RangeAllocator,
    owners: Owners,
    /// Bytes of all pages.
    used: u64,
}

/// Contiguous physical pages, given back when dropped. Contents are undefined at first.
pub struct Pages {
    ram: Arc<Ram>,
    /// `None` for the kernel.
    owner: Option<Arc<Owner>>,
    address: u64,
    len: u64,
}

impl Ram {
    /// Sparse memory of `size` bytes, with a file for each owner.
    ///
    /// # Errors
    /// The host has no memory.
    pub fn new(size: u64) -> io::Result<Arc<Self>> {
        Self::with_files(size, false)
    }

    /// The same in one file, for devices that are given a file once: those of other processes, and of the host. Whoever gets the file of a page can
    /// map all memory.
    ///
    /// # Errors
    /// The host has no memory.
    pub fn in_one_file(size: u64) -> io::Result<Arc<Self>> {
        Self::with_files(size, true)
    }

    fn with_files(size: u64, in_one_file: bool) -> io::Result<Arc<Self>> {
        let kernel = Arc::new(new_file(c"campanile-ram", size)?);
        let mapping = Mapping::new(&kernel, size)?;
        if let Some(page) = mapping.at(0, PAGE_SIZE.min(size)) {
            // SAFETY: the page is mapped, and nobody knows it yet.
            unsafe { page.as_ptr().write_bytes(NOBODYS, PAGE_SIZE.min(size) as usize) };
        }
        let free = RangeAllocator::new(PAGE_SIZE, size);
        let state = Mutex::new(State { free, owners: Owners::default(), used: 0 });
        Ok(Arc::new(Self { kernel, mapping, in_one_file, state }))
    }

    /// The file behind all memory, in which the offset is the physical address; `None` if owners have files of their own.
    pub fn file(&self) -> Option<&File> {
        self.in_one_file.then_some(&*self.kernel)
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.mapping.len()
    }

    /// Bytes that are free, in whatever pieces.
    pub fn free_bytes(&self) -> u64 {
        self.size().saturating_sub(PAGE_SIZE).saturating_sub(self.state.lock().used)
    }

    /// Takes `len` contiguous bytes (rounded up to pages) aligned to `align` (a power of two, at least a page) for the kernel, which shows them to no
    /// process.
    pub fn allocate(self: &Arc<Self>, len: u64, align: u64) -> Option<Pages> {
        let len = whole_pages(len)?;
        let mut state = self.state.lock();
        let address = state.take_free(self, &[(len, align.max(PAGE_SIZE))])?.0;
        state.used += len;
        Some(Pages { ram: Arc::clone(self), owner: None, address, len })
    }

    /// The machine is about to end: what owners give back stays in their files from now on, for a process that is asked for nothing any more may show it still.
    pub fn keep_for_owners(&self) {
        self.state.lock().owners.keep();
    }

    /// The machine is at its end: what owners have stays in their files as it is, whatever the kernel and devices of this process store or free from now on. Memory of one file is not left.
    pub fn leave_to_owners(&self) {
        self.state.lock().owners.leave(self);
    }

    /// Kernel address of physical `address`, if `len` bytes from there exist. The mapping stays as long as this object.
    pub fn kernel_address(&self, address: u64, len: u64) -> Option<NonNull<u8>> {
        self.mapping.at(address, len)
    }

    /// Physical address of a kernel address in this memory.
    pub fn physical_address(&self, kernel_address: usize) -> Option<u64> {
        let offset = kernel_address.checked_sub(self.mapping.base().as_ptr().addr())? as u64;
        (offset < self.size()).then_some(offset)
    }

    /// Puts a second kernel mapping of the page at physical `address` at `at`.
    ///
    /// # Errors
    /// No such page, or the host refuses.
    ///
    /// # Safety
    /// The page at `at` belongs to a reservation of the caller, and nothing refers to its bytes.
    pub unsafe fn show_page_again(&self, address: u64, at: NonNull<u8>) -> io::Result<()> {
        let from = self.kernel_address(address, PAGE_SIZE).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the source is memory of the kernel's mapping, and the caller answers for the target.
        unsafe { files::show_again(from, PAGE_SIZE, at) }
    }
}

impl State {
    /// Takes free memory of the first length and alignment that fits, with what owners have free only if nothing else is left. The answer is its address
    /// and length.
    fn take_free(&mut self, ram: &Ram, wanted: &[(u64, u64)]) -> Option<(u64, u64)> {
        let Self { free, owners, .. } = self;
        let find = |free: &mut RangeAllocator| {
            wanted.iter().find_map(|&(len, align)| free.allocate(len, align).map(|address| (address, len)))
        };
        find(free).or_else(|| {
            owners.give_back_unused(ram, free);
            find(free)
        })
    }
}

/// `len` rounded up to pages, at least one.
fn whole_pages(len: u64) -> Option<u64> {
    len.max(1).checked_next_multiple_of(PAGE_SIZE)
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

    /// Puts a second kernel mapping of the pages at `at`.
    ///
    /// # Errors
    /// The host refuses, or the pages are not the kernel's.
    ///
    /// # Safety
    /// As many bytes at `at` belong to a reservation of the caller, and nothing refers to them.
    pub unsafe fn show_again(&self, at: NonNull<u8>) -> io::Result<()> {
        if self.owner.is_some() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // SAFETY: the caller answers for the target, which has as many bytes as the pages.
        unsafe { replace_shared(at, self.len, &self.ram.kernel, self.address) }
    }

    /// Fills the pages with zero.
    pub fn zero(&self) {
        // SAFETY: the pages are mapped, belong to this object, and no reference to their bytes exists.
        unsafe { self.kernel_address().as_ptr().write_bytes(0, self.len as usize) };
    }

    /// Takes more memory of the same owner, as [`Ram::allocate`].
    pub fn allocate_beside(&self, len: u64, align: u64) -> Option<Self> {
        match &self.owner {
            None => self.ram.allocate(len, align),
            Some(owner) => owner.allocate(len, align),
        }
    }

    /// The file that user mode maps to see the pages, at the offset of their address.
    ///
    /// # Errors
    /// PermissionDenied for pages of the kernel, which no process is to see.
    pub fn file(&self) -> io::Result<&Arc<File>> {
        let owner = self.owner.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
        Ok(owner.file())
    }

    /// True if user mode may read the pages and not write them.
    pub fn only_read(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.only_reads())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let mut state = self.ram.state.lock();
        state.used -= self.len;
        match &self.owner {
            None => state.free.release(self.address, self.len),
            Some(owner) => owner.release(&mut state, self.address, self.len),
        }
    }
}
