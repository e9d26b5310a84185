//! Access to memory that user mode named.
//!
//! A pointer in a thunk's arguments is a claim. It is never followed: bytes are copied by the user-mode side of the calling process
//! ([`UserSpace`](nt::user_space::UserSpace)), which answers with an error where a load or store would have faulted, and which respects page
//! protection. A copy is taken once, checked, and used; user mode may change its own bytes meanwhile without effect.

use std::io;

use wddm_ddi::Zeroed;
use wddm_ddi::status::{STATUS_ACCESS_DENIED, STATUS_ACCESS_VIOLATION, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY};

use crate::process::Process;
use crate::refusal::{Failure, refused};

/// Most elements of an array argument, and most bytes of private data.
pub(crate) const COUNT_MAX: u32 = 1 << 16;

fn transfer(local: *mut u8, user: *mut u8, len: usize, write: bool) -> Result<(), Failure> {
    if len == 0 {
        return Ok(());
    }
    if user.is_null() {
        return Err(refused(STATUS_INVALID_PARAMETER, format!("a pointer to {len} bytes is NULL")));
    }
    let moved = Process::in_user_space(|process| {
        if write {
            // SAFETY: `local` names `len` readable bytes of the caller.
            process.write(user.addr(), unsafe { std::slice::from_raw_parts(local, len) })
        } else {
            // SAFETY: `local` names `len` bytes of the caller, any of which are a value.
            process.read(user.addr(), unsafe { std::slice::from_raw_parts_mut(local, len) })
        }
    });
    moved.ok_or(STATUS_ACCESS_DENIED)?.map_err(|error| {
        if error.kind() == io::ErrorKind::OutOfMemory {
            return refused(STATUS_NO_MEMORY, "the host has no thread or no memory for a copy of the arguments");
        }
        let way = if write { "written" } else { "read" };
        refused(STATUS_ACCESS_VIOLATION, format!("{len} bytes at {user:p} cannot be {way}"))
    })
}

/// Copies a structure in. Interface structures hold integers and raw pointers only, so that any bytes are a value.
///
/// # Errors
/// `STATUS_INVALID_PARAMETER` for NULL, `STATUS_ACCESS_VIOLATION` for memory that cannot be read.
pub(crate) fn read<T: Copy + Zeroed>(user: *const T) -> Result<T, Failure> {
    let mut value = T::zeroed();
    transfer((&raw mut value).cast(), user.cast_mut().cast(), size_of::<T>(), false)?;
    Ok(value)
}

/// Copies a structure out.
///
/// # Errors
/// As [`read`], for memory that cannot be written.
pub(crate) fn write<T: Copy + Zeroed>(user: *mut T, value: &T) -> Result<(), Failure> {
    transfer((&raw const *value).cast_mut().cast(), user.cast(), size_of::<T>(), true)
}

/// Element types of arrays that thunks take: any bytes are a value.
pub(crate) trait Element: Copy {
    /// A value to be overwritten.
    const BLANK: Self;
}

impl Element for u8 {
    const BLANK: Self = 0;
}

impl Element for u32 {
    const BLANK: Self = 0;
}

impl Element for u64 {
    const BLANK: Self = 0;
}

/// Copies `count` elements in.
///
/// # Errors
/// `STATUS_INVALID_PARAMETER` for NULL or more than [`COUNT_MAX`] elements, `STATUS_ACCESS_VIOLATION` for memory that cannot
/// be read.
pub(crate) fn read_array<T: Element>(user: *const T, count: u32) -> Result<Vec<T>, Failure> {
    if count > COUNT_MAX {
        let why = format!("an array has {count:#x} elements, and at most {COUNT_MAX:#x} are taken");
        return Err(refused(STATUS_INVALID_PARAMETER, why));
    }
    let mut values = vec![T::BLANK; count as usize];
    transfer(values.as_mut_ptr().cast(), user.cast_mut().cast(), count as usize * size_of::<T>(), false)?;
    Ok(values)
}

/// Copies elements out.
///
/// # Errors
/// As [`read_array`], for memory that cannot be written.
pub(crate) fn write_array<T: Element>(user: *mut T, values: &[T]) -> Result<(), Failure> {
    transfer(values.as_ptr().cast_mut().cast(), user.cast(), size_of_val(values), true)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::MachineConfig;
    use crate::machine::Machine;
    use crate::process::Attached;
    use wddm_ddi::types::LUID;

    /// The thread is one of a process while both exist.
    pub(crate) fn attached() -> (Machine, Attached) {
        let machine = Machine::new(MachineConfig { ram: 1 << 20, ..MachineConfig::default() }).unwrap();
        let attached = Process::new(&machine, "test").attach();
        (machine, attached)
    }

    fn page(protection: i32) -> *mut u8 {
        // SAFETY: a new anonymous mapping touches no existing memory.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), 4096, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        at.cast()
    }

    #[test]
    fn a_thread_without_a_process_is_denied() {
        let word = 7u32;
        assert_eq!(read_array(&raw const word, 1), Err(STATUS_ACCESS_DENIED.into()));
    }

    #[test]
    fn null_and_unmapped_and_wrapping_pointers_are_refused() {
        let _attached = attached();
        assert_eq!(read::<LUID>(std::ptr::null()), Err(STATUS_INVALID_PARAMETER.into()));
        assert_eq!(read::<LUID>(std::ptr::without_provenance(8)), Err(STATUS_ACCESS_VIOLATION.into()));
        assert_eq!(read::<LUID>(std::ptr::without_provenance(usize::MAX - 3)), Err(STATUS_ACCESS_VIOLATION.into()));
        assert_eq!(read_array::<u64>(page(libc::PROT_NONE).cast(), 1), Err(STATUS_ACCESS_VIOLATION.into()));
    }

    #[test]
    fn a_read_only_page_can_be_read_and_not_written() {
        let _attached = attached();
        let page = page(libc::PROT_READ);
        assert_eq!(read_array::<u8>(page, 4), Ok(vec![0; 4]));
        assert_eq!(write_array::<u8>(page, &[1]), Err(STATUS_ACCESS_VIOLATION.into()));
    }

    #[test]
    fn a_structure_that_crosses_into_unmapped_memory_is_refused_whole() {
        let _attached = attached();
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let open = libc::PROT_READ | libc::PROT_WRITE;
        // Two pages of one mapping, so that nobody else's memory lies behind the first.
        // SAFETY: a new anonymous mapping touches no existing memory.
        let pages = unsafe { libc::mmap(std::ptr::null_mut(), 8192, open, anonymous, -1, 0) };
        assert_ne!(pages, libc::MAP_FAILED);
        let second = pages.wrapping_byte_add(4096);
        // SAFETY: the second page was just mapped and nobody refers to it.
        assert_eq!(unsafe { libc::mprotect(second, 4096, libc::PROT_NONE) }, 0);
        let last = second.wrapping_byte_sub(4).cast::<u8>();
        assert!(read_array::<u8>(last, 4).is_ok());
        assert!(read::<LUID>(last.cast_const().cast()).is_err());
    }

    #[test]
    fn arrays_are_bounded_and_empty_ones_need_no_pointer() {
        let _attached = attached();
        assert_eq!(read_array::<u32>(std::ptr::null(), 0), Ok(vec![]));
        assert_eq!(read_array::<u32>(std::ptr::null(), 1), Err(STATUS_INVALID_PARAMETER.into()));
        let word = 7u32;
        assert_eq!(read_array(&raw const word, u32::MAX), Err(STATUS_INVALID_PARAMETER.into()));
        assert_eq!(read_array(&raw const word, 1), Ok(vec![7]));
    }
}
