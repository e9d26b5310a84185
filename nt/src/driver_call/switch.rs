// UNSAFETY: switches the stack pointer.
//! From one stack to another and back.

use std::ffi::c_void;

/// The answer of [`enter`] for a call that left the direction flag set.
pub(super) const DOWNWARDS: u32 = 2;
/// The answer of [`enter`] for a call that was left.
pub(super) const LEFT: u32 = 1;

/// Saves the registers that a callee preserves, stores the stack pointer in `slot` and calls `function(data)`, on the stack that
/// ends at `top` unless that is 0. Answers 0 when that returns, 1 when [`leave`] was called, 2 if that returned with the direction flag set, which is cleared.
///
/// # Safety
/// `slot` is writable until the function is left; `function` may be called with `data`; `top` is 0 or the 16-aligned end of a stack
/// that nothing else uses meanwhile.
#[unsafe(naked)]
pub(super) unsafe extern "sysv64" fn enter(
    slot: *mut usize,
    function: unsafe extern "sysv64" fn(*mut c_void),
    data: *mut c_void,
    top: usize,
) -> u32 {
    core::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rdi], rsp",
        "mov rbx, rsp",
        "test rcx, rcx",
        "cmovnz rsp, rcx",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbx",
        "pushfq",
        "pop rax",
        "cld",
        // Bit 10 is the flag.
        "shr eax, 9",
        "and eax, 2",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Returns from the [`enter`] that stored `stack`, with 1.
///
/// # Safety
/// That call of `enter` is still on this thread's stack, and no frame above it needs to run again.
#[unsafe(naked)]
pub(super) unsafe extern "sysv64" fn leave(stack: usize) -> ! {
    core::arch::naked_asm!(
        "mov rsp, rdi",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "cld",
        "mov eax, 1",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Clears the direction flag of this thread; true if it was set. "The direction flag must be clear on function entry and return." [learn: x64 calling convention]
pub(super) fn clear_direction() -> bool {
    const DIRECTION: u64 = 1 << 10;
    let flags: u64;
    // SAFETY: reads the flags by way of the stack, and clears the one that code of this process wants clear.
    unsafe { core::arch::asm!("pushfq", "pop {flags}", "cld", flags = out(reg) flags) };
    flags & DIRECTION != 0
}
