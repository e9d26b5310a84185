// UNSAFETY: a function that is found by its name, and the one that it calls.
//! `bcryptprimitives.dll` for tests under Wine, of which Debian's does not have it: Rust's standard library takes the seeds of its hash maps from there.
//! Every Windows has its own, so no package carries this one.

#![no_std]
#![cfg(windows)]

use core::panic::PanicInfo;

#[link(name = "advapi32", kind = "raw-dylib")]
unsafe extern "system" {
    /// [ntsecapi: RtlGenRandom, exported as SystemFunction036]
    fn SystemFunction036(bytes: *mut u8, length: u32) -> u8;
}

/// Fills `length` bytes at `bytes` with random ones; 1 if that was done. [processprng: ProcessPrng]
///
/// # Safety
/// `length` bytes at `bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn ProcessPrng(bytes: *mut u8, length: usize) -> i32 {
    let Ok(length) = u32::try_from(length) else { return 0 };
    // SAFETY: as this function asks for.
    i32::from(unsafe { SystemFunction036(bytes, length) } != 0)
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // Nothing above panics.
    loop {}
}
