// UNSAFETY: every block here is wrong, which is the purpose; each says what it violates.
//! The mistakes.

use core::arch::asm;
use core::hint::black_box;
use core::ptr::{null_mut, with_exposed_provenance_mut};

use wddm_ddi::nt::POOL_FLAG_NON_PAGED;

use crate::{DbgPrintEx, ExAllocatePool2, ExFreePoolWithTag, KeAcquireSpinLockRaiseToDpc, KeBugCheckEx};

/// Name of the service and what its driver does.
pub(crate) const MISTAKES: &[(&str, fn())] = &[
    ("read-null", read_null),
    ("write-null", write_null),
    ("call-null", call_null),
    ("null-at-dispatch", null_at_dispatch),
    ("wild-pointer", wild_pointer),
    ("non-canonical", non_canonical),
    ("null-in-service", null_in_service),
    ("write-code", write_code),
    ("run-data", run_data),
    ("divide", divide),
    ("breakpoint", breakpoint),
    ("undefined", undefined),
    ("privileged", privileged),
    ("stack", stack),
    ("bugcheck", bugcheck),
    ("free-twice", free_twice),
    ("wrong-tag", wrong_tag),
    ("underrun", underrun),
    ("overrun", overrun),
    ("overrun-page", overrun_page),
    ("use-freed", use_freed),
    ("read-freed", read_freed),
    ("kernel-address", kernel_address),
    ("write-constant", write_constant),
    ("misaligned", misaligned),
    ("lock-twice", lock_twice),
    ("push-lock-held", push_lock_held),
    ("print", print),
    ("raise-irql", raise_irql),
    ("leak", leak),
    ("loop-in-entry", loop_in_entry),
    ("loop-at-dispatch", loop_at_dispatch),
    ("loop-in-service", loop_in_service),
];

pub(crate) const TAG: u32 = u32::from_le_bytes(*b"Flty");

pub(crate) fn block(bytes: usize) -> *mut u8 {
    // SAFETY: PASSIVE_LEVEL, a size and a tag.
    unsafe { ExAllocatePool2(POOL_FLAG_NON_PAGED, bytes, TAG) }.cast()
}

#[inline(never)]
fn read_null() {
    let place = black_box(null_mut::<u32>());
    // SAFETY: none, NULL is not readable.
    let value = unsafe { place.wrapping_add(2).read_volatile() }; // read-null
    black_box(value);
}

#[inline(never)]
fn write_null() {
    let place = black_box(null_mut::<u32>());
    // SAFETY: none, NULL is not writable.
    unsafe { place.write_volatile(1) }; // write-null
}

#[inline(never)]
fn call_null() {
    let place = black_box(0_usize);
    // SAFETY: none, there is no function at NULL.
    let function = unsafe { core::mem::transmute_copy::<usize, extern "win64" fn()>(&place) };
    function(); // call-null
    black_box(place);
}

#[inline(never)]
fn null_at_dispatch() {
    let mut lock = 0;
    // SAFETY: the lock word is a local that nobody else knows.
    unsafe { KeAcquireSpinLockRaiseToDpc(&raw mut lock) };
    let place = black_box(null_mut::<u32>());
    // SAFETY: none, NULL is not writable.
    unsafe { place.write_volatile(1) }; // null-at-dispatch
}

#[inline(never)]
fn wild_pointer() {
    // The top of what user mode may have, where nothing is mapped.
    let place = black_box(with_exposed_provenance_mut::<u8>(0x7fff_ffff_f123));
    // SAFETY: none, nothing is there.
    unsafe { place.write_volatile(1) }; // wild-pointer
}

#[inline(never)]
fn non_canonical() {
    let place = black_box(with_exposed_provenance_mut::<u8>(0x8000_0000_0000_0000));
    // SAFETY: none, the address is none.
    let value = unsafe { place.read_volatile() }; // non-canonical
    black_box(value);
}

#[inline(never)]
fn null_in_service() {
    let place = black_box(null_mut::<u8>());
    // SAFETY: none, NULL is not writable.
    unsafe { crate::memset(place, 0, black_box(100)) }; // null-in-service
    black_box(place);
}

#[inline(never)]
fn write_code() {
    let place = black_box(write_code as fn() as *mut u8);
    // SAFETY: none, code is not writable.
    unsafe { place.write_volatile(0xc3) }; // write-code
}

#[inline(never)]
fn run_data() {
    static DATA: [u8; 16] = [0xc3; 16];
    let place = black_box(&raw const DATA as usize);
    // SAFETY: none, data is not executable.
    let function = unsafe { core::mem::transmute_copy::<usize, extern "win64" fn()>(&place) };
    function(); // run-data
    black_box(place);
}

#[inline(never)]
fn divide() {
    let zero = black_box(0_u64);
    // SAFETY: the registers are declared; that the division faults is the purpose.
    unsafe { core::arch::asm!("div {0}", in(reg) zero, inout("rax") 1_u64 => _, inout("rdx") 0_u64 => _) }; // divide
}

#[inline(never)]
fn breakpoint() {
    // SAFETY: changes nothing.
    unsafe { core::arch::asm!("int3") }; // breakpoint
}

#[inline(never)]
fn undefined() {
    // SAFETY: changes nothing.
    unsafe { core::arch::asm!("ud2") }; // undefined
}

#[inline(never)]
fn privileged() {
    // SAFETY: changes nothing here, where it may not be run.
    unsafe { core::arch::asm!("mov {0}, cr0", out(reg) _) }; // privileged
}

#[inline(never)]
fn stack() {
    black_box(dig(black_box(0)));
}

#[allow(unconditional_recursion)] // until the stack is used up
#[inline(never)]
fn dig(depth: u64) -> u64 {
    let frame = black_box([depth; 100]);
    dig(depth + 1) + frame[50]
} // dig

#[inline(never)]
fn bugcheck() {
    // SAFETY: may be called at any level.
    unsafe { KeBugCheckEx(0xdead_beef, 1, 2, 3, 4) } // bugcheck
}

#[inline(never)]
fn free_twice() {
    let block = block(100).cast();
    // SAFETY: the block came from the pool with this tag.
    unsafe { ExFreePoolWithTag(block, TAG) };
    // SAFETY: none, the block is gone.
    unsafe { ExFreePoolWithTag(block, TAG) }; // free-twice
    black_box(block);
}

#[inline(never)]
fn wrong_tag() {
    let block = block(100);
    // SAFETY: none, the block has another tag.
    unsafe { ExFreePoolWithTag(block.cast(), TAG + 1) }; // wrong-tag
    black_box(block);
}

/// Writes right before a block.
#[inline(never)]
fn underrun() {
    let block = block(100);
    // SAFETY: none, the block begins behind.
    unsafe { block.wrapping_sub(1).write_volatile(1) }; // underrun
    // SAFETY: the block came from the pool with this tag.
    unsafe { ExFreePoolWithTag(block.cast(), TAG) }; // underrun, found late
    black_box(block);
}

/// Writes right behind a block whose size is no multiple of 16.
#[inline(never)]
fn overrun() {
    let block = block(100);
    // SAFETY: none, the block ends before.
    unsafe { block.wrapping_add(100).write_volatile(1) };
    // SAFETY: the block came from the pool with this tag.
    unsafe { ExFreePoolWithTag(block.cast(), TAG) }; // overrun
    black_box(block);
}

/// Writes 16 bytes behind a block.
#[inline(never)]
fn overrun_page() {
    let block = block(112);
    // SAFETY: none, the block ends before.
    unsafe { block.wrapping_add(112 + 15).write_volatile(1) }; // overrun-page
    // SAFETY: the block came from the pool with this tag.
    unsafe { ExFreePoolWithTag(block.cast(), TAG) }; // overrun-page, found late
    black_box(block);
}

#[inline(never)]
fn use_freed() {
    let block = block(100);
    // SAFETY: the block came from the pool with this tag.
    unsafe { ExFreePoolWithTag(block.cast(), TAG) };
    // SAFETY: none, the block is gone.
    unsafe { block.wrapping_add(8).write_volatile(1) }; // use-freed
}

#[inline(never)]
fn read_freed() {
    let block = block(100);
    // SAFETY: the block came from the pool with this tag.
    unsafe { ExFreePoolWithTag(block.cast(), TAG) };
    // SAFETY: none, the block is gone.
    black_box(unsafe { block.wrapping_add(8).read_volatile() }); // read-freed
}

#[inline(never)]
fn kernel_address() {
    // Where Windows keeps its kernel, and nothing is mapped here.
    let place = black_box(with_exposed_provenance_mut::<u8>(0xffff_8000_0000_1000));
    // SAFETY: none, nothing is there.
    black_box(unsafe { place.read_volatile() }); // kernel-address
}

#[inline(never)]
fn write_constant() {
    static CONSTANT: [u8; 16] = [7; 16];
    let place = black_box((&raw const CONSTANT).cast::<u8>().cast_mut());
    // SAFETY: none, constants are not writable.
    unsafe { place.write_volatile(1) }; // write-constant
}

#[inline(never)]
fn misaligned() {
    let words = black_box([0_u64; 4]);
    let place = black_box((&raw const words).wrapping_byte_add(1));
    // SAFETY: none, the operand must be aligned to 16 bytes.
    unsafe { core::arch::asm!("movaps xmm0, [{0}]", "movaps xmm0, [{0} + 8]", in(reg) place, out("xmm0") _) }; // misaligned
}

#[inline(never)]
fn lock_twice() {
    let mut lock = 0;
    // SAFETY: the lock word is a local that nobody else knows.
    unsafe { KeAcquireSpinLockRaiseToDpc(&raw mut lock) };
    // SAFETY: none, this thread holds the lock.
    unsafe { KeAcquireSpinLockRaiseToDpc(&raw mut lock) }; // lock-twice
    black_box(lock);
}

#[inline(never)]
fn push_lock_held() {
    static mut LOCK: usize = 0;
    // SAFETY: PASSIVE_LEVEL. It is never left.
    unsafe { crate::KeEnterCriticalRegion() };
    // SAFETY: nobody else knows the lock. It stays acquired.
    unsafe { crate::ExAcquirePushLockExclusiveEx(&raw mut LOCK, 0) };
}

/// No mistake: says something.
#[inline(never)]
fn print() {
    // SAFETY: both texts are terminated.
    unsafe { DbgPrintEx(27, 3, c"%s".as_ptr().cast(), c"the driver says this\n".as_ptr().cast()) };
}

#[inline(never)]
fn raise_irql() {
    static mut LOCK: usize = 0;
    // SAFETY: nobody else knows the lock. It stays acquired.
    unsafe { KeAcquireSpinLockRaiseToDpc(&raw mut LOCK) };
}

#[inline(never)]
fn leak() {
    black_box(block(1000));
    black_box(block(24));
}

#[inline(never)]
fn loop_in_entry() {
    // SAFETY: a jump to itself.
    unsafe { asm!("2: jmp 2b", options(nomem, nostack)) }; // loop-in-entry
}

#[inline(never)]
fn loop_at_dispatch() {
    let mut lock = 0;
    // SAFETY: the lock word is a local that nobody else knows.
    unsafe { KeAcquireSpinLockRaiseToDpc(&raw mut lock) };
    // SAFETY: a jump to itself.
    unsafe { asm!("2: jmp 2b", options(nomem, nostack)) }; // loop-at-dispatch
}

/// Is in the kernel nearly all the time.
#[inline(never)]
fn loop_in_service() {
    while black_box(true) {
        // SAFETY: both texts are terminated.
        unsafe { DbgPrintEx(0, 0, c"%s".as_ptr().cast(), c"again".as_ptr().cast()) };
    }
}
