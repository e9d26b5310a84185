//! Ranges of a process's CPU addresses that show memory of the machine.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nt::lock::{Mutex, lock};

use crate::vidmm::allocation::AllocationId;
use crate::vidmm::segment::SystemMemory;
use nt::fault::Frozen;
use nt::ram::{PAGE_SIZE, Pages};
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY};

/// A range of user addresses. What it shows can be replaced page by page while user mode holds the address.
#[derive(Debug)]
pub(crate) struct UserMapping {
    base: NonNull<u8>,
    len: u64,
    /// It was frozen once.
    frozen: AtomicBool,
}

// SAFETY: the range is owned by this object and only ever handed to the host's kernel, never dereferenced here.
unsafe impl Send for UserMapping {}
// SAFETY: as for Send; replacing what the range shows is atomic for those who access it.
unsafe impl Sync for UserMapping {}

impl UserMapping {
    /// Takes `len` bytes (rounded up to pages) of addresses that show nothing: any access faults.
    ///
    /// # Errors
    /// The host has no room.
    pub(crate) fn reserve(len: u64) -> io::Result<Self> {
        let len = len.max(1).checked_next_multiple_of(PAGE_SIZE).ok_or(io::ErrorKind::OutOfMemory)?;
        let size = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { base, len, frozen: AtomicBool::new(false) })
    }

    /// Addresses that show `pages`.
    ///
    /// # Errors
    /// As [`UserMapping::reserve`].
    pub(crate) fn of_pages(pages: &Pages, writable: bool) -> io::Result<Self> {
        Self::of_file(pages.ram().file(), pages.address(), pages.len(), writable)
    }

    /// Addresses that show `len` bytes of `file` from `offset`.
    ///
    /// # Errors
    /// As [`UserMapping::reserve`]; the file cannot be mapped so.
    pub(crate) fn of_file(file: &File, offset: u64, len: u64, writable: bool) -> io::Result<Self> {
        let mapping = Self::reserve(len)?;
        mapping.show(0, file, offset, mapping.len, writable)?;
        Ok(mapping)
    }

    /// Makes `len` bytes from `at` show `file` from `offset`, in one step for those who access them (page rotation).
    ///
    /// # Errors
    /// The part is not inside the range or not page-aligned, or the host refuses; the range then still shows what it did.
    pub(crate) fn show(&self, at: u64, file: &File, offset: u64, len: u64, writable: bool) -> io::Result<()> {
        let end = at.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
        if end > self.len || !(at | len | offset).is_multiple_of(PAGE_SIZE) || len == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: `at` lies within the range, as just checked.
        let target = unsafe { self.base.add(at as usize) };
        // SAFETY: the pages replaced belong to this object, and nothing in this program refers to their bytes.
        let mapped = unsafe {
            libc::mmap(
                target.as_ptr().cast(),
                len as usize,
                protection,
                libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                offset,
            )
        };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Makes `len` bytes from `at` show nothing again: any access faults.
    ///
    /// # Errors
    /// The part is not inside the range or not page-aligned, or the host refuses.
    pub(crate) fn hide(&self, at: u64, len: u64) -> io::Result<()> {
        let end = at.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
        if end > self.len || !(at | len).is_multiple_of(PAGE_SIZE) || len == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: `at` lies within the range, as just checked.
        let target = unsafe { self.base.add(at as usize) };
        // SAFETY: the pages replaced belong to this object, and nothing in this program refers to their bytes.
        let hidden = unsafe { libc::mmap(target.as_ptr().cast(), len as usize, libc::PROT_NONE, flags, -1, 0) };
        if hidden == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Makes the range show system memory of its length.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when the host refuses.
    pub(crate) fn show_memory(&self, memory: &SystemMemory) -> Result<(), NTSTATUS> {
        memory.chunks().try_for_each(|(first, pages)| {
            let shown = self.show(first * PAGE_SIZE, pages.ram().file(), pages.address(), pages.len(), true);
            shown.map_err(|_| STATUS_NO_MEMORY)
        })
    }

    /// Lets the range, which must show something, be read but not written: whoever stores there waits until the answer is dropped. So
    /// what it shows can be copied and replaced without losing a store. The owner replaces it before, with what may be written.
    ///
    /// # Errors
    /// The host refuses.
    pub(crate) fn freeze(&self) -> io::Result<Frozen> {
        self.frozen.store(true, Ordering::Relaxed);
        let frozen = Frozen::new(self.base.as_ptr().addr(), self.len as usize);
        // SAFETY: the range belongs to this object, and nothing in this program refers to its bytes.
        let done = unsafe { libc::mprotect(self.base.as_ptr().cast(), self.len as usize, libc::PROT_READ) };
        if done != 0 { Err(io::Error::last_os_error()) } else { Ok(frozen) }
    }

    /// Ends what [`UserMapping::freeze`] began, with the range showing what it did.
    ///
    /// # Errors
    /// The host refuses.
    pub(crate) fn allow_stores(&self) -> io::Result<()> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range belongs to this object, and nothing in this program refers to its bytes.
        let done = unsafe { libc::mprotect(self.base.as_ptr().cast(), self.len as usize, protection) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Makes the whole range show `file` from `offset`.
    ///
    /// # Errors
    /// As [`UserMapping::show`].
    pub(crate) fn rotate(&self, file: &File, offset: u64, writable: bool) -> io::Result<()> {
        self.show(0, file, offset, self.len, writable)
    }

    /// Makes the range, which must be readable, show a copy of what it shows, in memory of its own. In one step for those who read it; a
    /// store is lost that is made meanwhile, unless the range is frozen.
    ///
    /// # Errors
    /// The host has no memory; the range then still shows what it did.
    pub(crate) fn detach(&self, writable: bool) -> io::Result<()> {
        self.replace(writable, |copy| {
            // SAFETY: two different mappings of this length, of which nothing in this program refers to the bytes.
            unsafe { copy.copy_from_nonoverlapping(self.base.as_ptr(), self.len as usize) };
        })
    }

    /// Makes the range show zeros that can be overwritten, in memory of its own. In one step for those who use it.
    ///
    /// # Errors
    /// The host has no memory; the range then still shows what it did.
    pub(crate) fn blank(&self) -> io::Result<()> {
        self.replace(true, |_| ())
    }

    /// Takes the range from the machine for whoever uses it further. What it showed of the machine's memory stays in it, without losing a store;
    /// what it showed of the device is gone, and zeros are there instead.
    ///
    /// # Errors
    /// The host has no memory; nobody may keep the range then.
    pub(crate) fn leave(&self, of_machine: bool) -> io::Result<()> {
        match of_machine.then(|| self.freeze()) {
            None => self.blank(),
            Some(Ok(_frozen)) => self.detach(true),
            Some(Err(error)) => Err(error),
        }
    }

    /// Puts memory of its own, which `prepare` fills, in the place of what the range shows.
    fn replace(&self, writable: bool, prepare: impl FnOnce(*mut u8)) -> io::Result<()> {
        let (len, flags) = (self.len as usize, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, wherever the host likes.
        let own = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if own == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        prepare(own.cast());
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: the mapping made above.
        let protected = unsafe { libc::mprotect(own, len, protection) };
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the pages replaced belong to this object, and those that replace them were made above and have no other owner.
        let moved = unsafe { libc::mremap(own, len, len, flags, self.base.as_ptr()) };
        if moved == libc::MAP_FAILED || protected != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// First address.
    pub(crate) fn address(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes, a multiple of the page size.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// Addresses that a process got on an adapter and may use although the adapter stopped. They end with the process, or when it gives them
/// back.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Vec<KeptMapping>>);

/// A locked allocation; of a shared one which of its users has locked it, otherwise 0.
pub(crate) type LockedBy = (AllocationId, u64);

struct KeptMapping {
    /// Unmapped when the last process that keeps it has given it back.
    _mapping: Arc<UserMapping>,
    /// Who has locked it, and how often that one may still unlock it.
    locked: Option<(LockedBy, u32)>,
}

impl Kept {
    /// Leaves a mapping that only the device and the kernel write: it shows from now on what it showed last, and nobody else sees it.
    pub(crate) fn keep(&self, mapping: UserMapping) {
        // The host refuses only when it has no memory; the addresses are gone then.
        if mapping.detach(false).is_ok() {
            lock(&self.0).push(KeptMapping { _mapping: Arc::new(mapping), locked: None });
        }
    }

    /// Leaves the address of an allocation that was locked `count` times, and that [`UserMapping::leave`] has taken from the machine.
    pub(crate) fn keep_locked(&self, mapping: Arc<UserMapping>, by: LockedBy, count: u32) {
        lock(&self.0).push(KeptMapping { _mapping: mapping, locked: Some((by, count)) });
    }

    /// One lock of an allocation is given back.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if it is not locked.
    pub(crate) fn unlock(&self, by: LockedBy) -> Result<(), NTSTATUS> {
        let mut kept = lock(&self.0);
        let mut locks = kept.iter_mut().filter_map(|kept| kept.locked.as_mut());
        let (_, count) = locks.find(|(other, _)| *other == by).ok_or(STATUS_INVALID_PARAMETER)?;
        *count -= 1;
        if *count == 0 {
            kept.retain(|kept| kept.locked.is_none_or(|(other, _)| other != by));
        }
        Ok(())
    }

    /// All locks of an allocation end.
    pub(crate) fn end(&self, by: LockedBy) {
        lock(&self.0).retain(|kept| kept.locked.is_none_or(|(other, _)| other != by));
    }
}

impl Drop for UserMapping {
    fn drop(&mut self) {
        if *self.frozen.get_mut() {
            Frozen::forget(self.base.as_ptr().addr());
        }
        // SAFETY: the range was mapped with this address and size and belongs to this object.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nt::ram::Ram;
    use std::sync::atomic::AtomicU64;

    fn read(mapping: &UserMapping, at: usize) -> u8 {
        // SAFETY: the tests read inside the range only.
        let address = unsafe { mapping.address().add(at) };
        // SAFETY: the byte is mapped readable.
        unsafe { address.as_ptr().read_volatile() }
    }

    #[test]
    fn rotation_keeps_the_address_and_changes_what_it_shows() {
        let ram = Ram::new(1 << 20).unwrap();
        let (a, b) = (ram.allocate(4096, 4096).unwrap(), ram.allocate(4096, 4096).unwrap());
        // SAFETY: the page belongs to the test.
        unsafe { a.kernel_address().as_ptr().write(1) };
        // SAFETY: the page belongs to the test.
        unsafe { b.kernel_address().as_ptr().write(2) };
        let mapping = UserMapping::of_pages(&a, false).unwrap();
        let address = mapping.address();
        assert_eq!(read(&mapping, 0), 1);
        mapping.rotate(ram.file(), b.address(), true).unwrap();
        assert_eq!((read(&mapping, 0), mapping.address()), (2, address));
    }

    #[test]
    fn what_is_detached_keeps_its_bytes_and_is_nobody_elses() {
        let ram = Ram::new(1 << 20).unwrap();
        let page = ram.allocate(4096, 4096).unwrap();
        // SAFETY: the page belongs to the test.
        unsafe { page.kernel_address().as_ptr().write(7) };
        let mapping = UserMapping::of_pages(&page, false).unwrap();
        mapping.detach(false).unwrap();
        // SAFETY: the page belongs to the test.
        unsafe { page.kernel_address().as_ptr().write(8) };
        assert_eq!((read(&mapping, 0), read(&mapping, 1)), (7, 0));
    }

    #[test]
    fn what_is_blanked_holds_zeros_and_takes_stores_that_nobody_else_sees() {
        let ram = Ram::new(1 << 20).unwrap();
        let page = ram.allocate(4096, 4096).unwrap();
        // SAFETY: the page belongs to the test.
        unsafe { page.kernel_address().as_ptr().write(7) };
        let mapping = UserMapping::of_pages(&page, true).unwrap();
        mapping.blank().unwrap();
        assert_eq!(read(&mapping, 0), 0);
        // SAFETY: the byte is mapped writable.
        unsafe { mapping.address().as_ptr().write(8) };
        // SAFETY: the page belongs to the test.
        assert_eq!((read(&mapping, 0), unsafe { page.kernel_address().as_ptr().read() }), (8, 7));
    }

    #[test]
    fn parts_outside_the_range_or_unaligned_are_refused() {
        let ram = Ram::new(1 << 20).unwrap();
        let mapping = UserMapping::reserve(8192).unwrap();
        for (at, offset, len) in
            [(0, 0, 12288), (4096, 0, 8192), (1, 0, 4096), (0, 1, 4096), (0, 0, 0), (u64::MAX, 0, 4096)]
        {
            assert!(mapping.show(at, ram.file(), offset, len, true).is_err(), "{at:#x} {offset:#x} {len:#x}");
        }
        assert!(mapping.show(4096, ram.file(), 0, 4096, true).is_ok());
    }

    #[test]
    fn no_store_is_lost_while_memory_moves_underneath() {
        const MOVES: usize = 200;
        let ram = Ram::new(1 << 20).unwrap();
        let places = [ram.allocate(4096, 4096).unwrap(), ram.allocate(4096, 4096).unwrap()];
        let mapping = UserMapping::of_pages(&places[0], true).unwrap();
        let address = mapping.address().as_ptr().expose_provenance();
        let (begun, end) = (AtomicBool::new(false), AtomicBool::new(false));
        let counted = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                // SAFETY: mapped as long as the test runs, and accessed as 64 bits at once.
                let word = unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(address)) };
                let mut count = 0;
                while !end.load(Ordering::Relaxed) {
                    count += 1;
                    word.store(count, Ordering::Relaxed);
                    assert_eq!(word.load(Ordering::Relaxed), count, "a store was lost");
                    begun.store(true, Ordering::Relaxed);
                }
                count
            });
            // A writer that has not begun is no test.
            while !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            for turn in 0..MOVES {
                let (from, to) = (&places[turn % 2], &places[(turn + 1) % 2]);
                let frozen = mapping.freeze().unwrap();
                let (from, target) = (from.kernel_address().as_ptr(), to.kernel_address().as_ptr());
                // SAFETY: two pages of the test.
                unsafe { std::ptr::copy_nonoverlapping(from, target, 4096) };
                mapping.rotate(ram.file(), to.address(), true).unwrap();
                drop(frozen);
                std::thread::yield_now();
            }
            end.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        assert!(counted > 0);
    }
}
