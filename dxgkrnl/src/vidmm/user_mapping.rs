//! Ranges of a process's CPU addresses that show memory of the machine.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use nt::lock::{Mutex, lock};

use crate::port::BarOwner;
use crate::vidmm::ids::AllocationId;
use crate::vidmm::system_memory::SystemMemory;
use crate::vidmm::user_memory::UserMemory;
use nt::page::PAGE_SIZE;
use nt::ram::Pages;
use nt::user_space::{FileId, ThisProcess, UserSpace};
use wddm_ddi::status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY};

/// A range of user addresses of a process. What it shows can be replaced page by page while user mode holds the address.
pub(crate) struct UserMapping {
    user: Arc<dyn UserSpace>,
    base: usize,
    len: usize,
    /// The addresses are the program's own, which has memory of its own there when they show this file no more.
    of_program: Option<FileId>,
}

/// What some pages of a range are to show. It can be shown after the locks were given back under which it was found.
pub(crate) struct Part {
    /// Byte of the range at which it begins.
    pub(crate) at: u64,
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) writable: bool,
}

impl Part {
    /// Pages from a byte of the range on, with the rights of their owner. It has their file and no descriptor of its own.
    ///
    /// # Errors
    /// The pages are the kernel's.
    pub(crate) fn of_pages(at: u64, pages: &Pages) -> io::Result<Self> {
        let file = Arc::clone(pages.file()?);
        Ok(Self { at, file, offset: pages.address(), len: pages.len(), writable: !pages.only_read() })
    }

    /// All of some system memory.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY.
    pub(crate) fn of_memory(memory: &SystemMemory) -> Result<Vec<Self>, NTSTATUS> {
        let part = |(first, pages)| Self::of_pages(first * PAGE_SIZE, pages).map_err(|_| STATUS_NO_MEMORY);
        memory.chunks().map(part).collect()
    }
}

/// Nobody stores to a mapping while this exists: a thread that does waits.
pub(crate) struct Frozen {
    user: Arc<dyn UserSpace>,
    start: usize,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.user.thaw(self.start);
    }
}

impl UserMapping {
    /// Takes `len` bytes (rounded up to pages) of addresses of a process that show nothing: any access faults.
    ///
    /// # Errors
    /// The process has no free range of addresses.
    pub(crate) fn reserve(user: &Arc<dyn UserSpace>, len: u64) -> io::Result<Self> {
        let len = len.max(1).checked_next_multiple_of(PAGE_SIZE).ok_or(io::ErrorKind::OutOfMemory)?;
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { user: Arc::clone(user), base: user.reserve(len)?, len, of_program: None })
    }

    /// The addresses at which a program has memory already, whole pages, so that they can show memory of `file`. When the answer is dropped, the program has
    /// memory of its own there again, with the contents that it saw last.
    ///
    /// # Errors
    /// EFAULT unless the program may read and write all of it; EOPNOTSUPP if that memory cannot be replaced: see [`UserSpace::adopt`].
    pub(crate) fn of_program(user: &Arc<dyn UserSpace>, base: usize, len: u64, file: &File) -> io::Result<Self> {
        let fault = || io::Error::from_raw_os_error(libc::EFAULT);
        let len = usize::try_from(len).map_err(|_| fault())?;
        let end = base.checked_add(len).filter(|_| (base as u64 | len as u64).is_multiple_of(PAGE_SIZE));
        let range = base..end.filter(|end| *end > base && base != 0).ok_or_else(fault)?;
        let of_program = Some(FileId::of(file)?);
        user.adopt(range)?;
        Ok(Self { user: Arc::clone(user), base, len, of_program })
    }

    /// Addresses that show `pages`, with the rights of their owner.
    ///
    /// # Errors
    /// As [`UserMapping::reserve`]; the pages are the kernel's.
    pub(crate) fn of_pages(user: &Arc<dyn UserSpace>, pages: &Pages) -> io::Result<Self> {
        let mapping = Self::reserve(user, pages.len())?;
        mapping.show_pages(0, pages)?;
        Ok(mapping)
    }

    /// The addresses of `len` bytes from `at`.
    ///
    /// # Errors
    /// The part is not inside the range or not page-aligned.
    fn part(&self, at: u64, len: u64) -> io::Result<Range<usize>> {
        let end = at.checked_add(len).filter(|end| *end <= self.len()).ok_or(io::ErrorKind::InvalidInput)?;
        if !(at | len).is_multiple_of(PAGE_SIZE) || len == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(self.base + at as usize..self.base + end as usize)
    }

    fn whole(&self) -> Range<usize> {
        self.base..self.base + self.len
    }

    /// Makes `len` bytes from `at` show `file` from `offset`, in one step for those who access them (page rotation).
    ///
    /// # Errors
    /// The part is not inside the range or not page-aligned, or the host refuses; the range then still shows what it did.
    pub(crate) fn show(&self, at: u64, file: &File, offset: u64, len: u64, writable: bool) -> io::Result<()> {
        let part = self.part(at, len)?;
        if !offset.is_multiple_of(PAGE_SIZE) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.user.show(part, file, offset, writable)
    }

    /// Makes the range show pages from `at` on, as [`UserMapping::show`] does.
    ///
    /// # Errors
    /// As there; the pages are the kernel's.
    pub(crate) fn show_pages(&self, at: u64, pages: &Pages) -> io::Result<()> {
        self.show(at, pages.file()?, pages.address(), pages.len(), !pages.only_read())
    }

    /// Makes the range show several parts, as [`UserMapping::show`] does.
    ///
    /// # Errors
    /// As there, for the first that fails; those before it are shown.
    pub(crate) fn show_parts(&self, parts: &[Part]) -> io::Result<()> {
        parts.iter().try_for_each(|part| self.show(part.at, &part.file, part.offset, part.len, part.writable))
    }

    /// The user-mode side of the process.
    pub(crate) fn user(&self) -> &Arc<dyn UserSpace> {
        &self.user
    }

    /// True if the process does what is asked of the mapping, and may take its time: it is asked without any lock that other processes need.
    pub(crate) fn waits(&self) -> bool {
        self.user.waits()
    }

    /// Makes `len` bytes from `at` show nothing again: any access faults.
    ///
    /// # Errors
    /// The part is not inside the range or not page-aligned, or the host refuses.
    pub(crate) fn hide(&self, at: u64, len: u64) -> io::Result<()> {
        self.user.hide(self.part(at, len)?)
    }

    /// Does what the process may not refuse, because others have what it shows next: one that refuses is ended.
    ///
    /// # Errors
    /// It is this process, which cannot be ended.
    pub(crate) fn must(&self, act: impl FnOnce(&Self) -> io::Result<()>) -> io::Result<()> {
        act(self).or_else(|refused| if self.user.end_after(&refused) { Ok(()) } else { Err(refused) })
    }

    /// Makes the whole range show nothing again, or memory of the process' own. What it shows is somebody else's next: better a fault than their bytes.
    ///
    /// # Errors
    /// As [`UserMapping::must`].
    pub(crate) fn hide_all(&self) -> io::Result<()> {
        self.must(|mapping| mapping.hide(0, mapping.len()).or_else(|_| mapping.blank()))
    }

    /// Makes the range show system memory of its length.
    ///
    /// # Errors
    /// STATUS_NO_MEMORY when the host refuses.
    pub(crate) fn show_memory(&self, memory: &SystemMemory) -> Result<(), NTSTATUS> {
        memory
            .chunks()
            .try_for_each(|(first, pages)| self.show_pages(first * PAGE_SIZE, pages).map_err(|_| STATUS_NO_MEMORY))
    }

    /// Lets the range, which must show something, be read but not written: whoever stores there waits until the answer is dropped. So
    /// what it shows can be copied and replaced without losing a store. The owner replaces it before, with what may be written.
    ///
    /// # Errors
    /// The host refuses.
    pub(crate) fn freeze(&self) -> io::Result<Frozen> {
        self.user.freeze(self.whole())?;
        Ok(Frozen { user: Arc::clone(&self.user), start: self.base })
    }

    /// As [`UserMapping::freeze`], for what moves because others need it: a process that refuses is ended. Memory at a program's own addresses does not move, and the program may have taken
    /// them back.
    ///
    /// # Errors
    /// As [`UserMapping::must`].
    pub(crate) fn must_freeze(&self) -> io::Result<Frozen> {
        if self.of_program.is_some() {
            return self.freeze();
        }
        self.must(|mapping| mapping.user.freeze(mapping.whole()))?;
        Ok(Frozen { user: Arc::clone(&self.user), start: self.base })
    }

    /// Ends what [`UserMapping::freeze`] began, with the range showing what it did.
    ///
    /// # Errors
    /// The host refuses.
    pub(crate) fn allow_stores(&self) -> io::Result<()> {
        self.user.allow_stores(self.whole())
    }

    /// Makes the whole range show `file` from `offset`.
    ///
    /// # Errors
    /// As [`UserMapping::show`].
    pub(crate) fn rotate(&self, file: &File, offset: u64, writable: bool) -> io::Result<()> {
        self.show(0, file, offset, self.len(), writable)
    }

    /// Makes the range show a copy of what it shows, in memory of its own; see [`UserSpace::detach`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn detach(&self, writable: bool) -> io::Result<()> {
        self.user.detach(self.whole(), writable)
    }

    /// Makes the range show zeros that can be overwritten, in memory of its own. In one step for those who use it.
    ///
    /// # Errors
    /// The host has no memory; the range then still shows what it did.
    pub(crate) fn blank(&self) -> io::Result<()> {
        self.user.blank(self.whole())
    }

    /// Has accesses answered that a function does not answer whose memory the range shows; see [`UserSpace::answer_for_function`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn answer_for_function(&self) -> io::Result<()> {
        self.user.answer_for_function(self.whole())
    }

    /// Takes the range from the machine for whoever uses it further. What it showed of the machine's memory stays in it, without losing a store;
    /// what it showed of the device is gone, and zeros are there instead.
    ///
    /// # Errors
    /// The host has no memory; nobody may keep the range then.
    pub(crate) fn leave(&self, of_machine: bool) -> io::Result<()> {
        if let Some(file) = self.of_program {
            return self.user.give_back(self.whole(), file);
        }
        match of_machine.then(|| self.freeze()) {
            None => self.blank(),
            Some(Ok(_frozen)) => self.detach(true),
            Some(Err(error)) => Err(error),
        }
    }

    /// First address, in the process.
    pub(crate) fn address(&self) -> usize {
        self.base
    }

    /// Bytes, a multiple of the page size.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }
}

impl Drop for UserMapping {
    fn drop(&mut self) {
        let Some(file) = self.of_program else { return self.user.release(self.whole()) };
        if self.user.give_back(self.whole(), file).is_err() {
            // A program that refuses even that is ended. Only the one that this machine is in cannot be, and what it sees is memory of its own.
            let _ = self.hide_all();
        }
    }
}

/// Addresses that a process got on an adapter and may use although the adapter stopped. They end with the process, or when it gives them
/// back.
pub(crate) struct Kept {
    user: Arc<dyn UserSpace>,
    memory: UserMemory,
    bar_owner: BarOwner,
    mappings: Mutex<Vec<KeptMapping>>,
}

/// A locked allocation; of a shared one which of its users has locked it, otherwise 0.
pub(crate) type LockedBy = (AllocationId, u64);

struct KeptMapping {
    /// Unmapped when the last process that keeps it has given it back.
    mapping: Arc<UserMapping>,
    /// The handle that has locked it, and how often that one may still unlock it.
    locked: Option<(LockedBy, u32)>,
}

impl Default for Kept {
    /// Nothing of what no process has.
    fn default() -> Self {
        Self::with_memory(Arc::new(ThisProcess), UserMemory::default())
    }
}

impl Kept {
    /// Nothing yet of the process whose user-mode side this is.
    pub(crate) fn new(user: Arc<dyn UserSpace>) -> Self {
        Self::with_memory(user, UserMemory::of_process())
    }

    fn with_memory(user: Arc<dyn UserSpace>, memory: UserMemory) -> Self {
        Self { user, memory, bar_owner: BarOwner::new(), mappings: Mutex::default() }
    }

    /// Owner of the pages of BARs that the process sees.
    pub(crate) fn bar_owner(&self) -> &BarOwner {
        &self.bar_owner
    }

    /// The memory that the process sees.
    pub(crate) fn memory(&self) -> &UserMemory {
        &self.memory
    }

    /// The user-mode side of the process.
    pub(crate) fn user(&self) -> &Arc<dyn UserSpace> {
        &self.user
    }

    /// Leaves a mapping that only the device and the kernel write: it shows from now on what it showed last, and nobody else sees it.
    pub(crate) fn keep(&self, mapping: UserMapping) {
        // The host refuses only when it has no memory; the addresses are gone then.
        if mapping.detach(false).is_ok() {
            lock(&self.mappings).push(KeptMapping { mapping: Arc::new(mapping), locked: None });
        }
    }

    /// Hands over the address of an allocation that was locked `count` times, and that [`UserMapping::leave`] takes from the machine.
    pub(crate) fn keep_locked(&self, mapping: Arc<UserMapping>, by: LockedBy, count: u32) {
        lock(&self.mappings).push(KeptMapping { mapping, locked: Some((by, count)) });
    }

    /// Gives up an address that could not be left to the process.
    pub(crate) fn give_up(&self, mapping: &Arc<UserMapping>) {
        let given_up =
            lock(&self.mappings).extract_if(.., |kept| Arc::ptr_eq(&kept.mapping, mapping)).collect::<Vec<_>>();
        drop(given_up);
    }

    /// Locks of an allocation that are left to the process.
    pub(crate) fn locks(&self, by: LockedBy) -> u32 {
        let kept = lock(&self.mappings);
        let mut locks = kept.iter().filter_map(|kept| kept.locked);
        locks.find(|(other, _)| *other == by).map_or(0, |(_, count)| count)
    }

    /// One lock of an allocation is given back.
    ///
    /// # Errors
    /// STATUS_INVALID_PARAMETER if it is not locked.
    pub(crate) fn unlock(&self, by: LockedBy) -> Result<(), NTSTATUS> {
        let mut kept = lock(&self.mappings);
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
        lock(&self.mappings).retain(|kept| kept.locked.is_none_or(|(other, _)| other != by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nt::ram::{Owner, Ram};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    fn this() -> Arc<dyn UserSpace> {
        Arc::new(ThisProcess)
    }

    fn byte(mapping: &UserMapping, at: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(mapping.address() + at)
    }

    fn read(mapping: &UserMapping, at: usize) -> u8 {
        // SAFETY: the byte is mapped readable.
        unsafe { byte(mapping, at).read_volatile() }
    }

    #[test]
    fn rotation_keeps_the_address_and_changes_what_it_shows() {
        let owner = Owner::process(&Ram::new(1 << 20).unwrap()).unwrap();
        let (a, b) = (owner.allocate(4096, 4096).unwrap(), owner.allocate(4096, 4096).unwrap());
        // SAFETY: the page belongs to the test.
        unsafe { a.kernel_address().as_ptr().write(1) };
        // SAFETY: the page belongs to the test.
        unsafe { b.kernel_address().as_ptr().write(2) };
        let mapping = UserMapping::of_pages(&this(), &a).unwrap();
        let address = mapping.address();
        assert_eq!(read(&mapping, 0), 1);
        mapping.show_pages(0, &b).unwrap();
        assert_eq!((read(&mapping, 0), mapping.address()), (2, address));
    }

    #[test]
    fn what_is_detached_keeps_its_bytes_and_is_nobody_elses() {
        let owner = Owner::process(&Ram::new(1 << 20).unwrap()).unwrap();
        let page = owner.allocate(4096, 4096).unwrap();
        // SAFETY: the page belongs to the test.
        unsafe { page.kernel_address().as_ptr().write(7) };
        let mapping = UserMapping::of_pages(&this(), &page).unwrap();
        mapping.detach(false).unwrap();
        // SAFETY: the page belongs to the test.
        unsafe { page.kernel_address().as_ptr().write(8) };
        assert_eq!((read(&mapping, 0), read(&mapping, 1)), (7, 0));
    }

    #[test]
    fn what_is_blanked_holds_zeros_and_takes_stores_that_nobody_else_sees() {
        let owner = Owner::process(&Ram::new(1 << 20).unwrap()).unwrap();
        let page = owner.allocate(4096, 4096).unwrap();
        // SAFETY: the page belongs to the test.
        unsafe { page.kernel_address().as_ptr().write(7) };
        let mapping = UserMapping::of_pages(&this(), &page).unwrap();
        mapping.blank().unwrap();
        assert_eq!(read(&mapping, 0), 0);
        // SAFETY: the byte is mapped writable.
        unsafe { byte(&mapping, 0).write(8) };
        // SAFETY: the page belongs to the test.
        assert_eq!((read(&mapping, 0), unsafe { page.kernel_address().as_ptr().read() }), (8, 7));
    }

    #[test]
    fn a_part_of_pages_takes_no_descriptor_of_its_own() {
        let owner = Owner::process(&Ram::new(1 << 20).unwrap()).unwrap();
        let page = owner.allocate(4096, 4096).unwrap();
        let part = Part::of_pages(0, &page).unwrap();
        assert!(Arc::ptr_eq(&part.file, page.file().unwrap()));
    }

    #[test]
    fn parts_outside_the_range_or_unaligned_are_refused() {
        let owner = Owner::process(&Ram::new(1 << 20).unwrap()).unwrap();
        let page = owner.allocate(4096, 4096).unwrap();
        let file = page.file().unwrap();
        let mapping = UserMapping::reserve(&this(), 8192).unwrap();
        for (at, offset, len) in
            [(0, 0, 12288), (4096, 0, 8192), (1, 0, 4096), (0, 1, 4096), (0, 0, 0), (u64::MAX, 0, 4096)]
        {
            assert!(mapping.show(at, file, offset, len, true).is_err(), "{at:#x} {offset:#x} {len:#x}");
        }
        assert!(mapping.show(4096, file, 0, 4096, true).is_ok());
    }

    #[test]
    fn no_store_is_lost_while_memory_moves_underneath() {
        const MOVES: usize = 200;
        let owner = Owner::process(&Ram::new(1 << 20).unwrap()).unwrap();
        let places = [owner.allocate(4096, 4096).unwrap(), owner.allocate(4096, 4096).unwrap()];
        let mapping = UserMapping::of_pages(&this(), &places[0]).unwrap();
        let address = mapping.address();
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
                mapping.show_pages(0, to).unwrap();
                drop(frozen);
                std::thread::yield_now();
            }
            end.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        assert!(counted > 0);
    }
}
