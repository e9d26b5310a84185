//! Memory behind a BAR, page by page in whatever file the host has it.
//!
//! UNSAFETY: replaces what parts of a mapping show that the engines use.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};

use campanile_hw::queue::SYSTEM_PAGE_SIZE;

use crate::lock::lock;
use crate::memory::{self, LentMemory};

/// Memory of the function that the host reaches through a BAR.
#[derive(Debug)]
pub(crate) struct BarMemory {
    base: NonNull<u8>,
    len: usize,
    /// The file of every page until it is shown another one.
    file: Arc<File>,
    /// Others that pages have lain in.
    others: Mutex<Vec<Weak<File>>>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed through atomics and raw copies only.
unsafe impl Send for BarMemory {}
// SAFETY: as above; no method hands out a reference to the mapped bytes.
unsafe impl Sync for BarMemory {}

impl BarMemory {
    /// Memory of `len` bytes, all zero.
    pub(crate) fn new(name: &std::ffi::CStr, len: u64) -> io::Result<Arc<Self>> {
        let file = memory::shared_file(name, len)?;
        let (base, len) = memory::HostMapping::new(&file, 0, len, true)?.into_parts();
        Ok(Arc::new(Self { base, len, file: Arc::new(file), others: Mutex::default() }))
    }

    /// The file in which everything lies at first.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Has `count` pages from page `first` on lie in another file, at the same offset, in one step for the engines. What they held stays in the file before.
    pub(crate) fn show(&self, first: u64, count: u64, file: &Arc<File>) -> io::Result<()> {
        let bad = || io::Error::from(io::ErrorKind::InvalidInput);
        let start = first.checked_mul(SYSTEM_PAGE_SIZE).ok_or_else(bad)?;
        let len = count.checked_mul(SYSTEM_PAGE_SIZE).filter(|len| *len > 0).ok_or_else(bad)?;
        let end = start.checked_add(len).filter(|end| *end <= self.len as u64).ok_or_else(bad)?;
        if file.metadata()?.len() < end {
            return Err(bad());
        }
        let mut others = lock(&self.others);
        others.retain(|other| other.strong_count() > 0);
        if !Arc::ptr_eq(file, &self.file) && !others.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(file)))
        {
            others.push(Arc::downgrade(file));
        }
        // SAFETY: the range lies inside the mapping, as was just checked.
        let at = unsafe { self.base.add(start as usize) };
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        let offset = start as libc::off_t;
        // SAFETY: the pages replaced belong to this mapping, whose bytes are reached by raw pointers and atomics only, and stay there.
        let shown =
            unsafe { libc::mmap(at.as_ptr().cast(), len as usize, protection, flags, file.as_raw_fd(), offset) };
        if shown == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range is the mapping just made; advice changes no contents, and a refusal is of no importance.
        unsafe { libc::madvise(shown, len as usize, libc::MADV_HUGEPAGE) };
        Ok(())
    }

    /// Copies bytes out, as engines see them.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= self.len as u64);
        end.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range lies inside the mapping, as was just checked.
        let from = unsafe { self.base.add(offset as usize) };
        // SAFETY: `bytes` is elsewhere, and racing writers make the copy arbitrary, nothing else.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Writes `byte` over every page that was ever written, in all files.
    pub(crate) fn overwrite(&self, byte: u8) -> io::Result<()> {
        let others: Vec<Arc<File>> = lock(&self.others).iter().filter_map(Weak::upgrade).collect();
        others.iter().chain([&self.file]).try_for_each(|file| overwrite(file, byte))
    }
}

/// Writes `byte` over every page of a file of [`memory::shared_file`] that was ever written. Pages that were never touched have no contents to
/// lose.
fn overwrite(file: &File, byte: u8) -> io::Result<()> {
    let block = vec![byte; 1 << 16];
    let mut at = 0;
    while let Some((start, end)) = next_data(file, at)? {
        let mut offset = start;
        while offset < end {
            let len = (end - offset).min(block.len() as u64);
            file.write_all_at(block.get(..len as usize).unwrap_or(&block), offset)?;
            offset += len;
        }
        at = end;
    }
    Ok(())
}

/// The next stretch of a file, from `at` on, for which the system has memory.
fn next_data(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    let seek = |from: u64, whence: libc::c_int| {
        let from = libc::off_t::try_from(from).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: seeking touches no memory, and no code uses the position of the file.
        let found = unsafe { libc::lseek(file.as_raw_fd(), from, whence) };
        u64::try_from(found).map_err(|_| io::Error::last_os_error())
    };
    match seek(at, libc::SEEK_DATA) {
        Ok(start) => Ok(Some((start, seek(start, libc::SEEK_HOLE)?))),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Drop for BarMemory {
    fn drop(&mut self) {
        // SAFETY: base and len are what mmap returned, and who was lent the memory has let go of this.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

// SAFETY: the mapping stays as long as the object, readable and writable, and is reached by raw pointers and atomics only.
unsafe impl LentMemory for BarMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = SYSTEM_PAGE_SIZE;

    fn byte(memory: &BarMemory, page: u64) -> u8 {
        let mut byte = [0];
        memory.read(page * PAGE, &mut byte).unwrap();
        byte[0]
    }

    #[test]
    fn pages_lie_where_the_host_has_put_them_and_are_all_lost_together() {
        let memory = BarMemory::new(c"bar", 4 * PAGE).unwrap();
        let other = Arc::new(memory::shared_file(c"other", 4 * PAGE).unwrap());
        memory.file().write_all_at(&[1; 4 * PAGE as usize], 0).unwrap();
        other.write_all_at(&[2; PAGE as usize], PAGE).unwrap();
        memory.show(1, 2, &other).unwrap();
        assert_eq!([0, 1, 2, 3].map(|page| byte(&memory, page)), [1, 2, 0, 1]);
        memory.overwrite(9).unwrap();
        // Reading page 2 has given it memory in its file, though nobody wrote there.
        assert_eq!([0, 1, 2, 3].map(|page| byte(&memory, page)), [9; 4]);
        let file = Arc::clone(memory.file());
        memory.show(1, 1, &file).unwrap();
        assert_eq!(byte(&memory, 1), 9);
    }

    #[test]
    fn pages_that_are_not_there_are_refused() {
        let memory = BarMemory::new(c"bar", 2 * PAGE).unwrap();
        let [long, short] = [2, 1].map(|pages| Arc::new(memory::shared_file(c"other", pages * PAGE).unwrap()));
        for (first, count, file) in
            [(0, 0, &long), (0, 3, &long), (2, 1, &long), (1, 1, &short), (u64::MAX, 1, &long), (1, u64::MAX, &long)]
        {
            assert!(memory.show(first, count, file).is_err(), "{first} {count}");
        }
        assert!(memory.read(2 * PAGE - 1, &mut [0; 2]).is_err());
    }
}
