// UNSAFETY: registers are saved and loaded by hand.
//! Registers of a thread as drivers know them (CONTEXT), taken where a service was called, and given back.

use std::mem::offset_of;

/// Numbers of registers in unwind codes and in [`Context::general`]. [learn: x64 exception handling, operation info]
pub(crate) const RAX: usize = 0;
pub(crate) const RBX: usize = 3;
pub(crate) const RSP: usize = 4;
pub(crate) const RBP: usize = 5;
pub(crate) const RSI: usize = 6;
pub(crate) const RDI: usize = 7;

/// Control, integer and floating-point registers are valid, of an x64 processor. [winnt: CONTEXT_FULL]
const CONTEXT_FULL: u32 = 0x10_000b;

/// Registers of a thread, as the C interface has them. [winnt: CONTEXT of x64]
#[repr(C, align(16))]
#[derive(Clone)]
pub(crate) struct Context {
    home: [u64; 6],
    flags: u32,
    mxcsr: u32,
    segments: [u16; 6],
    pub(crate) eflags: u32,
    debug: [u64; 6],
    /// In the order of [`RAX`] and its like.
    pub(crate) general: [u64; 16],
    pub(crate) instruction: u64,
    legacy: [u8; 0xa0],
    pub(crate) vector: [[u64; 2]; 16],
    rest: [u8; 0x60 + 26 * 16 + 6 * 8],
}

const _: () = assert!(size_of::<Context>() == 0x4d0);
const _: () = assert!(offset_of!(Context, eflags) == 0x44 && offset_of!(Context, general) == 0x78);
const _: () = assert!(offset_of!(Context, instruction) == 0xf8 && offset_of!(Context, vector) == 0x1a0);

impl Context {
    /// General registers, flags and instruction of an interrupted thread; its vector registers are those of whoever calls [`nt_raise`].
    pub(crate) fn new(general: [u64; 16], instruction: u64, eflags: u32) -> Self {
        Self {
            home: [0; 6],
            flags: CONTEXT_FULL,
            mxcsr: 0x1f80,
            segments: [0x10, 0x2b, 0x2b, 0x53, 0x2b, 0x18],
            eflags,
            debug: [0; 6],
            general,
            instruction,
            legacy: [0; 0xa0],
            vector: [[0; 2]; 16],
            rest: [0; 0x60 + 26 * 16 + 6 * 8],
        }
    }
}

/// What a called function preserves, as it was where a service was called; with the address that the service returns to and the stack pointer there.
#[repr(C, align(16))]
pub(crate) struct CallSite {
    rbx: u64,
    rbp: u64,
    rsi: u64,
    rdi: u64,
    upper: [u64; 4],
    stack: u64,
    instruction: u64,
    function: u64,
    padding: u64,
    vector: [[u64; 2]; 10],
}

const _: () = assert!(size_of::<CallSite>() == 256 && offset_of!(CallSite, vector) == 96);

impl CallSite {
    /// An address inside the calling instruction, and that of the service.
    pub(crate) fn call(&self) -> (usize, usize) {
        ((self.instruction as usize).wrapping_sub(1), self.function as usize)
    }

    /// The caller's registers, as if the call had returned. Those that a called function need not preserve are 0.
    pub(crate) fn context(&self) -> Context {
        let mut general = [0; 16];
        (general[RBX], general[RBP], general[RSI], general[RDI]) = (self.rbx, self.rbp, self.rsi, self.rdi);
        general[12..].copy_from_slice(&self.upper);
        general[RSP] = self.stack;
        let mut context = Context::new(general, self.instruction, 0x202);
        context.vector[6..].copy_from_slice(&self.vector);
        context
    }
}

/// A function that images call: `$inner` with the arguments, which are three at most, and as the fourth one a pointer to the [`CallSite`].
macro_rules! with_call_site {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident $(($($argument:ident: $kind:ty),*) -> $answer:ty)? => $inner:path) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        $visibility unsafe extern "win64" fn $name($($($argument: $kind),*)?) $(-> $answer)? {
            core::arch::naked_asm!(
                // The host's unwinder finds the calling instruction behind this frame.
                ".cfi_startproc",
                "sub rsp, 296",
                ".cfi_adjust_cfa_offset 296",
                "mov [rsp + 32], rbx",
                "mov [rsp + 40], rbp",
                "mov [rsp + 48], rsi",
                "mov [rsp + 56], rdi",
                "mov [rsp + 64], r12",
                "mov [rsp + 72], r13",
                "mov [rsp + 80], r14",
                "mov [rsp + 88], r15",
                "lea rax, [rsp + 304]",
                "mov [rsp + 96], rax",
                "mov rax, [rsp + 296]",
                "mov [rsp + 104], rax",
                "lea rax, [rip + {itself}]",
                "mov [rsp + 112], rax",
                "movaps [rsp + 128], xmm6",
                "movaps [rsp + 144], xmm7",
                "movaps [rsp + 160], xmm8",
                "movaps [rsp + 176], xmm9",
                "movaps [rsp + 192], xmm10",
                "movaps [rsp + 208], xmm11",
                "movaps [rsp + 224], xmm12",
                "movaps [rsp + 240], xmm13",
                "movaps [rsp + 256], xmm14",
                "movaps [rsp + 272], xmm15",
                "lea r9, [rsp + 32]",
                "call {inner}",
                "add rsp, 296",
                ".cfi_adjust_cfa_offset -296",
                "ret",
                ".cfi_endproc",
                itself = sym $name,
                inner = sym $inner,
            )
        }
    };
}
pub(crate) use with_call_site;

/// Adds the thread's vector registers to a context that is on its stack, and calls `function` with it, which does not return. A signal handler sends
/// the thread here, with the context's address in RDI and `function` in RSI.
///
/// # Safety
/// RSP is 16-aligned, below the context.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn nt_raise(context: *mut Context, function: extern "sysv64" fn(*mut Context) -> !) {
    core::arch::naked_asm!(
        "stmxcsr [rdi + 0x34]",
        "movaps [rdi + 0x1a0], xmm0",
        "movaps [rdi + 0x1b0], xmm1",
        "movaps [rdi + 0x1c0], xmm2",
        "movaps [rdi + 0x1d0], xmm3",
        "movaps [rdi + 0x1e0], xmm4",
        "movaps [rdi + 0x1f0], xmm5",
        "movaps [rdi + 0x200], xmm6",
        "movaps [rdi + 0x210], xmm7",
        "movaps [rdi + 0x220], xmm8",
        "movaps [rdi + 0x230], xmm9",
        "movaps [rdi + 0x240], xmm10",
        "movaps [rdi + 0x250], xmm11",
        "movaps [rdi + 0x260], xmm12",
        "movaps [rdi + 0x270], xmm13",
        "movaps [rdi + 0x280], xmm14",
        "movaps [rdi + 0x290], xmm15",
        "call rsi",
        "ud2",
    )
}

/// Gives the thread these registers, and so goes on at their instruction.
///
/// # Safety
/// They are those of code of an image on this thread's stack, which may go on there; the context does not lie in the 64 bytes below their stack pointer.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn go_on(context: *const Context) -> ! {
    core::arch::naked_asm!(
        "movaps xmm0, [rdi + 0x1a0]",
        "movaps xmm1, [rdi + 0x1b0]",
        "movaps xmm2, [rdi + 0x1c0]",
        "movaps xmm3, [rdi + 0x1d0]",
        "movaps xmm4, [rdi + 0x1e0]",
        "movaps xmm5, [rdi + 0x1f0]",
        "movaps xmm6, [rdi + 0x200]",
        "movaps xmm7, [rdi + 0x210]",
        "movaps xmm8, [rdi + 0x220]",
        "movaps xmm9, [rdi + 0x230]",
        "movaps xmm10, [rdi + 0x240]",
        "movaps xmm11, [rdi + 0x250]",
        "movaps xmm12, [rdi + 0x260]",
        "movaps xmm13, [rdi + 0x270]",
        "movaps xmm14, [rdi + 0x280]",
        "movaps xmm15, [rdi + 0x290]",
        "ldmxcsr [rdi + 0x34]",
        // Where the thread goes on: the last four registers are taken from its own stack.
        "mov rdx, [rdi + 0x98]",
        "mov rcx, [rdi + 0xf8]",
        "mov [rdx - 8], rcx",
        "mov ecx, [rdi + 0x44]",
        "mov [rdx - 16], rcx",
        "mov rcx, [rdi + 0xb0]",
        "mov [rdx - 24], rcx",
        "mov rcx, [rdi + 0x88]",
        "mov [rdx - 32], rcx",
        "mov rax, [rdi + 0x78]",
        "mov rcx, [rdi + 0x80]",
        "mov rbx, [rdi + 0x90]",
        "mov rbp, [rdi + 0xa0]",
        "mov rsi, [rdi + 0xa8]",
        "mov r8, [rdi + 0xb8]",
        "mov r9, [rdi + 0xc0]",
        "mov r10, [rdi + 0xc8]",
        "mov r11, [rdi + 0xd0]",
        "mov r12, [rdi + 0xd8]",
        "mov r13, [rdi + 0xe0]",
        "mov r14, [rdi + 0xe8]",
        "mov r15, [rdi + 0xf0]",
        "lea rsp, [rdx - 32]",
        "pop rdx",
        "pop rdi",
        "popfq",
        "ret",
    )
}
