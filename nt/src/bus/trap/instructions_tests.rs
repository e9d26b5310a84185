// UNSAFETY: executes instructions on device memory.
//! Instructions that drivers and compilers reach device memory with, each executed by the processor on a trapped range: what the device sees of it.
//! [wdm: READ_REGISTER_BUFFER_ULONG, WRITE_REGISTER_BUFFER_UCHAR and their kin]

use std::arch::asm;

use super::tests::{Device, device};
use super::*;

fn accesses(device: &Device) -> Vec<(char, u64, u8, u64)> {
    std::mem::take(&mut *lock(&device.accesses))
}

#[test]
fn buffers_are_read_from_registers_and_written_to_them_in_elements_in_order() {
    let (device, range) = device();
    let mut buffer = [0_u32; 4];
    // READ_REGISTER_BUFFER_ULONG.
    // SAFETY: the buffer has four words, and the range that many registers.
    unsafe {
        asm!("rep movsd", inout("rcx") 4_u64 => _, inout("rsi") range.address() => _, inout("rdi") buffer.as_mut_ptr() => _)
    };
    assert_eq!(buffer, [0x7654_3210; 4]);
    assert_eq!(accesses(&device), [('r', 0, 4, 0), ('r', 4, 4, 0), ('r', 8, 4, 0), ('r', 12, 4, 0)]);
    // WRITE_REGISTER_BUFFER_UCHAR.
    let bytes = [1_u8, 2, 3];
    // SAFETY: as above, with three bytes.
    unsafe {
        asm!("rep movsb", inout("rcx") 3_u64 => _, inout("rsi") bytes.as_ptr() => _, inout("rdi") range.address() => _)
    };
    assert_eq!(accesses(&device), [('w', 0, 1, 1), ('w', 1, 1, 2), ('w', 2, 1, 3)]);
    // SAFETY: the range has two such registers.
    unsafe { asm!("rep stosq", inout("rcx") 2_u64 => _, in("rax") 9_u64, inout("rdi") range.address() => _) };
    assert_eq!(accesses(&device), [('w', 0, 8, 9), ('w', 8, 8, 9)]);
    let (rest, at): (u64, usize);
    // SAFETY: as above; nothing is read for a count of 0, and one element without a prefix.
    unsafe {
        asm!("rep movsw", "mov ecx, 5", "lodsd", inout("rcx") 0_u64 => rest, inout("rsi") range.address() => at, out("rdi") _, out("rax") _);
    }
    assert_eq!((rest, at - range.address().addr()), (5, 4));
    assert_eq!(accesses(&device), [('r', 0, 4, 0)]);
}

#[test]
fn registers_are_copied_to_registers_and_downwards_with_the_direction_flag() {
    let (device, range) = device();
    let to = range.address().wrapping_byte_add(0x100);
    // SAFETY: the range has the registers; the flag is cleared again.
    unsafe {
        asm!("std", "rep movsd", "cld", inout("rcx") 2_u64 => _, inout("rsi") range.address().wrapping_byte_add(4) => _, inout("rdi") to => _);
    }
    let value = 0x7654_3210;
    assert_eq!(accesses(&device), [('r', 4, 4, 0), ('w', 0x100, 4, value), ('r', 0, 4, 0), ('w', 0xfc, 4, value)]);
}

#[test]
fn moves_of_vector_registers_are_accesses_of_eight_bytes_in_order() {
    let (device, range) = device();
    let mut buffer = [0_u64; 2];
    // SAFETY: range and buffer have 16 bytes.
    unsafe {
        asm!("movups xmm3, [{from}]", "movups [{to}], xmm3", "movdqu [{from} + 16], xmm3", from = in(reg) range.address(), to = in(reg) buffer.as_mut_ptr(), out("xmm3") _);
    }
    let value = 0xfedc_ba98_7654_3210;
    assert_eq!(buffer, [value; 2]);
    assert_eq!(accesses(&device), [('r', 0, 8, 0), ('r', 8, 8, 0), ('w', 16, 8, value), ('w', 24, 8, value)]);
    let zero: u64;
    // SAFETY: as above.
    unsafe {
        asm!("xorps xmm3, xmm3", "movaps [{to} + 48], xmm3", "movq xmm3, [{to}]", "punpckhqdq xmm3, xmm3", "movq {zero}, xmm3", to = in(reg) range.address(), zero = out(reg) zero, out("xmm3") _);
    }
    assert_eq!((zero, accesses(&device)), (0, vec![('w', 48, 8, 0), ('w', 56, 8, 0), ('r', 0, 8, 0)]));
}

#[test]
fn moves_of_wide_vector_registers_reach_all_of_their_bytes() {
    if !std::is_x86_feature_detected!("avx") {
        eprintln!("not tested: this processor has no vector registers of 32 bytes");
        return;
    }
    let (device, range) = device();
    let mut buffer = [0_u64; 4];
    // SAFETY: the processor has the instructions; range and buffer have 32 bytes.
    unsafe {
        asm!("vmovdqu ymm9, [{from}]", "vmovdqu [{to}], ymm9", "vmovups [{from} + 64], ymm9", "vzeroupper", from = in(reg) range.address(), to = in(reg) buffer.as_mut_ptr(), out("ymm9") _);
    }
    let value = 0xfedc_ba98_7654_3210;
    assert_eq!(buffer, [value; 4]);
    let read = (0..4).map(|at| ('r', 8 * at, 8, 0));
    let written = (0..4).map(|at| ('w', 64 + 8 * at, 8, value));
    assert_eq!(accesses(&device), read.chain(written).collect::<Vec<_>>());
}

#[test]
fn registers_are_read_changed_and_written_by_one_instruction() {
    let (device, range) = device();
    let at = range.address();
    lock(&device.registers).insert(0, 7);
    let (added, exchanged, seen): (u32, u32, u32);
    // SAFETY: the range has the register.
    unsafe {
        asm!("inc dword ptr [{at}]", "dec dword ptr [{at}]", "not dword ptr [{at}]", "neg dword ptr [{at}]", at = in(reg) at)
    };
    assert_eq!(lock(&device.registers)[&0], 8);
    // SAFETY: as above.
    unsafe { asm!("lock xadd dword ptr [{at}], {one:e}", at = in(reg) at, one = inout(reg) 1_u32 => added) };
    // SAFETY: as above.
    unsafe { asm!("xchg dword ptr [{at}], {two:e}", at = in(reg) at, two = inout(reg) 2_u32 => exchanged) };
    assert_eq!((added, exchanged, lock(&device.registers)[&0]), (8, 9, 2));
    let equal: u8;
    // SAFETY: as above.
    unsafe {
        asm!("lock cmpxchg dword ptr [{at}], {new:e}", "sete {equal}", at = in(reg) at, new = in(reg) 5_u32, equal = out(reg_byte) equal, inout("eax") 2_u32 => seen)
    };
    assert_eq!((equal, seen, lock(&device.registers)[&0]), (1, 2, 5));
    // SAFETY: as above.
    unsafe {
        asm!("lock cmpxchg dword ptr [{at}], {new:e}", "sete {equal}", at = in(reg) at, new = in(reg) 6_u32, equal = out(reg_byte) _, inout("eax") 2_u32 => _)
    };
    assert_eq!(lock(&device.registers)[&0], 5);
    // SAFETY: as above.
    unsafe {
        asm!("lock or dword ptr [{at}], 8", "stc", "adc dword ptr [{at}], 1", "sbb dword ptr [{at}], 1", at = in(reg) at)
    };
    assert_eq!(lock(&device.registers)[&0], 14);
}
