//! The entry point of a program that is linked without the Windows SDK.

// Brings thread-local storage and what the compiler expects of a C run-time library.
use campanile_crt as _;

#[link(name = "kernel32", kind = "raw-dylib")]
unsafe extern "system" {
    fn ExitProcess(code: u32) -> !;
}

/// Ends the program with what its `main` returned.
extern "C" fn leave(code: u32) -> ! {
    // SAFETY: takes any number.
    unsafe { ExitProcess(code) }
}

// Where Windows enters the program, with a stack that is aligned as at the start of any function: calls what the compiler makes of the program's
// `main`, which looks at no arguments but the system's.
core::arch::global_asm!(
    ".globl mainCRTStartup",
    "mainCRTStartup:",
    "sub rsp, 40",
    "xor ecx, ecx",
    "xor edx, edx",
    "call main",
    "mov ecx, eax",
    "call {leave}",
    "int3",
    leave = sym leave,
);
