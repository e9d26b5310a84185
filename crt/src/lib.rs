// UNSAFETY: symbols that the compiler and the loader look for, in assembler.
//! What a C run-time library gives an image with a standard library, for a link without the Windows SDK: thread-local storage, and the symbols that
//! the compiler expects. The rest, memory functions and exceptions among it, comes from Windows' own ucrtbase.dll. The entry point is the image's own.
//!
//! Elsewhere than on x86-64 Windows the crate is empty.

#![no_std]
#![cfg(all(windows, target_env = "msvc"))]

// The directory of thread-local storage: the bytes between the first and the last part of `.tls` are copied for each thread, and the functions
// between the parts of `.CRT$XL` are called when threads come and go. [pecoff: IMAGE_TLS_DIRECTORY64]
// `__chkstk` touches each page that a frame of rax bytes will take, in order; all registers but the flags are as before.
// The type of C++ exceptions is only compared by address.
core::arch::global_asm!(
    ".section .tls,\"dw\"",
    ".globl _tls_start",
    "_tls_start: .quad 0",
    ".section .tls$ZZZ,\"dw\"",
    "_tls_end: .quad 0",
    ".section .CRT$XLA,\"dr\"",
    ".p2align 3",
    "_tls_functions: .quad 0",
    ".section .CRT$XLZ,\"dr\"",
    ".p2align 3",
    ".quad 0",
    ".section .rdata,\"dr\"",
    ".p2align 3",
    ".globl _tls_used",
    "_tls_used: .quad _tls_start, _tls_end, _tls_index, _tls_functions + 8",
    ".long 0, 0x00400000",
    ".globl _fltused",
    "_fltused: .long 0x9875",
    ".p2align 3",
    ".globl \"??_7type_info@@6B@\"",
    "\"??_7type_info@@6B@\": .quad 0",
    ".data",
    ".globl _tls_index",
    "_tls_index: .long 0",
    ".text",
    ".globl __chkstk",
    "__chkstk:",
    "push rcx",
    "push rax",
    "lea rcx, [rsp + 24]",
    "cmp rax, 4096",
    "jb 3f",
    "2:",
    "sub rcx, 4096",
    "test [rcx], rcx",
    "sub rax, 4096",
    "cmp rax, 4096",
    "ja 2b",
    "3:",
    "sub rcx, rax",
    "test [rcx], rcx",
    "pop rax",
    "pop rcx",
    "ret",
);
