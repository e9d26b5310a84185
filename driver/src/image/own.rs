//! What the image brings itself where no kit does: memory functions from the kernel, the panic handler, and symbols that compiled code
//! names.

use core::panic::PanicInfo;

use super::KeBugCheckEx;

/// Bugcheck code of a panic in this driver: "CAMP", with bits 31:28 set as private codes have them.
const BUGCHECK_PANIC: u32 = 0xe000_0000 | (u32::from_be_bytes(*b"CAMP") & 0x0fff_ffff);

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "win64" {
    // The compiler calls these by name; the kernel exports them.
    fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8;
    fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32;
}

type Move = unsafe extern "win64" fn(*mut u8, *const u8, usize) -> *mut u8;
type Set = unsafe extern "win64" fn(*mut u8, i32, usize) -> *mut u8;
type Compare = unsafe extern "win64" fn(*const u8, *const u8, usize) -> i32;

/// Keeps the imports that only the compiler calls.
#[used]
static COMPILER_CALLS: (Move, Move, Set, Compare) = (memcpy, memmove, memset, memcmp);

/// A panic is a defect of this driver; the machine stops with the place of it, as no state can be trusted any more.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let (file, line) = info.location().map_or((0, 0), |place| (place.file().as_ptr().addr(), place.line() as usize));
    // SAFETY: KeBugCheckEx may be called at any level.
    unsafe { KeBugCheckEx(BUGCHECK_PANIC, file, line, 0, 0) }
}

// The precompiled core library names the C++ frame handler in its unwind tables. Nothing in this image unwinds; when the kernel
// dispatches an exception over these frames, the handler lets the search go on (ExceptionContinueSearch).
core::arch::global_asm!(".globl __CxxFrameHandler3", "__CxxFrameHandler3:", "mov eax, 1", "ret");

/// Named by the compiler wherever a module holds floating-point types.
#[unsafe(no_mangle)]
#[used]
static _fltused: i32 = 0x9875;
