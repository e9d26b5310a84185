// UNSAFETY: follows addresses that drivers passed, which may be anything.
//! Memory that a driver named by its address, read and written so that a bad address is an error and not the end of the process.
//!
//! Each access is one instruction that the signal handler knows: when it faults the thread goes on behind it, and the fault is the
//! result. Everything that the kernel reads or writes through a driver's pointer goes through here.

#![expect(clippy::not_unsafe_ptr_arg_deref, reason = "a bad address is an error here")]

use std::cell::Cell;
use std::mem::MaybeUninit;

use super::Fault;
use super::signal::{self, Claim, Registers, Site};
use crate::page::PAGE;

core::arch::global_asm!(
    ".pushsection .text.nt_guarded,\"ax\",@progbits",
    ".hidden nt_guarded_copy",
    ".globl nt_guarded_copy",
    ".type nt_guarded_copy,@function",
    "nt_guarded_copy:",
    ".cfi_startproc",
    "cld",
    "mov rcx, rdx",
    ".hidden nt_guarded_copy_access",
    ".globl nt_guarded_copy_access",
    "nt_guarded_copy_access:",
    "rep movsb",
    ".hidden nt_guarded_copy_after",
    ".globl nt_guarded_copy_after",
    "nt_guarded_copy_after:",
    "mov rax, rcx",
    "ret",
    ".cfi_endproc",
    ".size nt_guarded_copy, . - nt_guarded_copy",
    ".hidden nt_guarded_touch",
    ".globl nt_guarded_touch",
    ".type nt_guarded_touch,@function",
    "nt_guarded_touch:",
    ".cfi_startproc",
    "mov eax, 1",
    ".hidden nt_guarded_touch_access",
    ".globl nt_guarded_touch_access",
    "nt_guarded_touch_access:",
    "lock or qword ptr [rdi], 0",
    "xor eax, eax",
    ".hidden nt_guarded_touch_after",
    ".globl nt_guarded_touch_after",
    "nt_guarded_touch_after:",
    "ret",
    ".cfi_endproc",
    ".size nt_guarded_touch, . - nt_guarded_touch",
    ".popsection",
);

unsafe extern "sysv64" {
    /// Copies bytes and answers how many were not, because an access faulted.
    fn nt_guarded_copy(to: *mut u8, from: *const u8, bytes: usize) -> usize;
    /// Writes the value of a word back to it, atomically; 1 if that faulted.
    fn nt_guarded_touch(word: *mut usize) -> usize;
    static nt_guarded_copy_access: u8;
    static nt_guarded_copy_after: u8;
    static nt_guarded_touch_access: u8;
    static nt_guarded_touch_after: u8;
}

thread_local! {
    /// The fault that ended the last guarded access of this thread.
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Where the thread goes on whose instruction at this address faulted, if that is one of a guarded access.
fn behind(instruction: usize) -> Option<usize> {
    let places = [
        (&raw const nt_guarded_copy_access, &raw const nt_guarded_copy_after),
        (&raw const nt_guarded_touch_access, &raw const nt_guarded_touch_after),
    ];
    places.into_iter().find(|(access, _)| access.addr() == instruction).map(|(_, after)| after.addr())
}

/// True for the instruction of a guarded access. May be asked in the signal handler.
pub fn is_access(instruction: usize) -> bool {
    behind(instruction).is_some()
}

/// In the signal handler: lets a guarded access that faulted go on with an error.
fn recover(site: &Site, registers: &mut Registers) -> bool {
    let Some(behind) = behind(site.instruction) else { return false };
    FAULT.set(Some(Fault { cause: site.cause(), instruction: site.instruction }));
    signal::set(registers, libc::REG_RIP, behind);
    true
}

/// Has faults of guarded accesses recovered from.
fn prepare() {
    signal::claim(Claim::GuardedAccess, recover);
    signal::ensure_installed();
}

/// The fault of the last access of this thread if it failed.
fn outcome(failed: bool) -> Result<(), Fault> {
    let fault = FAULT.take();
    if failed { Err(fault.unwrap_or_else(Fault::unknown)) } else { Ok(()) }
}

/// # Safety
/// Each of the two addresses is mapped for `bytes` bytes, or comes from a driver and is no memory of a Rust object unless the driver was
/// given that object.
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> Result<(), Fault> {
    prepare();
    // SAFETY: the function touches nothing else, and an access that faults ends it.
    let left = unsafe { nt_guarded_copy(to, from, bytes) };
    outcome(left != 0)
}

/// Reads a structure at an address that a driver passed; it need not be aligned.
///
/// # Safety
/// Any bytes are a `T`, as for structures of the C interface.
pub unsafe fn read<T: Copy>(address: *const T) -> Result<T, Fault> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the target is a local of this size; the source is the driver's.
    unsafe { copy(value.as_mut_ptr().cast(), address.cast(), size_of::<T>()) }?;
    // SAFETY: every byte was written, and the caller says that any bytes will do.
    Ok(unsafe { value.assume_init() })
}

/// Writes a structure to an address that a driver passed; it need not be aligned.
///
/// # Safety
/// The driver passed the address as a place for a `T`.
pub unsafe fn write<T: Copy>(address: *mut T, value: T) -> Result<(), Fault> {
    // SAFETY: the source is a local of this size; the target is the driver's.
    unsafe { copy(address.cast(), (&raw const value).cast(), size_of::<T>()) }
}

/// Reads bytes into a slice.
pub fn read_bytes(from: *const u8, to: &mut [u8]) -> Result<(), Fault> {
    // SAFETY: the target is the slice; the source is the driver's.
    unsafe { copy(to.as_mut_ptr(), from, to.len()) }
}

/// Writes bytes.
///
/// # Safety
/// The driver passed the address as a place for so many bytes.
pub unsafe fn write_bytes(to: *mut u8, from: &[u8]) -> Result<(), Fault> {
    // SAFETY: the source is the slice; the target is the driver's.
    unsafe { copy(to, from.as_ptr(), from.len()) }
}

/// The bytes of a NUL-terminated text, at most `limit` of them.
pub fn read_text(from: *const u8, limit: usize) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    while text.len() < limit {
        let at = from.wrapping_add(text.len());
        // Not beyond the page, because the text may end there.
        let piece = (PAGE - at.addr() % PAGE).min(limit - text.len());
        let old = text.len();
        text.resize(old + piece, 0);
        let new = text.get_mut(old..).unwrap_or_default();
        read_bytes(at, new)?;
        if let Some(end) = new.iter().position(|byte| *byte == 0) {
            text.truncate(old + end);
            break;
        }
    }
    Ok(text)
}

/// Checks that `bytes` bytes can be read.
pub fn probe(from: *const u8, bytes: usize) -> Result<(), Fault> {
    let mut byte = [0];
    let mut at = 0;
    while at < bytes {
        read_bytes(from.wrapping_add(at), &mut byte)?;
        at += PAGE - from.wrapping_add(at).addr() % PAGE;
    }
    if bytes > 0 { read_bytes(from.wrapping_add(bytes - 1), &mut byte) } else { Ok(()) }
}

/// Checks that an aligned word can be read and written.
pub fn probe_word(word: *mut usize) -> Result<(), Fault> {
    prepare();
    // SAFETY: the word keeps its value, and an access that faults ends the function.
    let failed = unsafe { nt_guarded_touch(word) };
    outcome(failed != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Access, Cause};

    #[test]
    fn good_addresses_are_read_and_written() {
        let mut word = 7_usize;
        // SAFETY: a number.
        assert_eq!(unsafe { read(&raw const word) }, Ok(7));
        // SAFETY: a place for a number.
        assert_eq!(unsafe { write(&raw mut word, 8) }, Ok(()));
        assert_eq!((word, probe_word(&raw mut word), word), (8, Ok(()), 8));
        assert_eq!(read_text(c"text".as_ptr().cast(), 100), Ok(b"text".to_vec()));
        assert_eq!(read_text(c"text".as_ptr().cast(), 2), Ok(b"te".to_vec()));
        assert_eq!(probe([0; 10_000].as_ptr(), 10_000), Ok(()));
    }

    #[test]
    fn a_bad_address_is_an_error_that_names_it() {
        let wild = std::ptr::without_provenance_mut::<u64>(0x7fff_ffff_f123);
        let memory = |address: usize, access| Cause::Memory { address, access, mapped: false };
        // SAFETY: a number, if it were there.
        let fault = unsafe { read(wild) }.unwrap_err();
        assert_eq!(fault.cause, memory(wild.addr(), Access::Read));
        // SAFETY: a place for a number, if it were there.
        let fault = unsafe { write(wild, 1) }.unwrap_err();
        assert_eq!(fault.cause, memory(wild.addr(), Access::Write));
        assert_eq!(probe_word(wild.cast()).unwrap_err().cause, memory(wild.addr(), Access::Write));
        assert_eq!(read_text(wild.cast(), 10).unwrap_err().cause, memory(wild.addr(), Access::Read));
        assert!(probe(wild.cast(), 1).is_err());
        let beyond = std::ptr::without_provenance::<u64>(0x8000_0000_0000_0000);
        // SAFETY: as above.
        assert_eq!(unsafe { read(beyond) }.unwrap_err().cause, Cause::General);
    }

    #[test]
    fn a_write_to_memory_that_may_only_be_read_is_told_apart() {
        static TEXT: [u8; 16] = [1; 16];
        let place = std::ptr::from_ref(std::hint::black_box(&TEXT)).cast_mut().cast::<u8>();
        // The page is there.
        // SAFETY: a number.
        assert_eq!(unsafe { read(place) }, Ok(1));
        // SAFETY: a place that faults.
        let fault = unsafe { write_bytes(place, &[2]) }.unwrap_err();
        assert!(matches!(fault.cause, Cause::Memory { access: Access::Write, mapped: true, .. }));
    }
}
