//! What the GPU does to a chunk, and the same on the CPU: ChaCha20 of RFC 8439, by a program of the compute node and by a crate of others.
//!
//! The key is that of the RFC's examples, so nothing is secret afterwards. The nonce is the number of the chunk, so no two results are alike, and one that
//! was left behind by another chunk is found.

use crate::user::{Device, Dispatch, Program, Result};
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};

/// Bytes of a chunk.
pub const CHUNK: usize = 1 << 20;
/// Bytes of a block of the cipher, of which a lane does one.
const BLOCK: usize = 64;
/// Blocks of a chunk.
const BLOCKS: u32 = (CHUNK / BLOCK) as u32;
/// Lanes of a workgroup, as the program has it.
const WORKGROUP: u32 = 64;
/// Bytes of the program's arguments.
pub const ARGUMENTS: usize = 60;
/// Key of the examples of RFC 8439.
const KEY: [u8; 32] = {
    let mut key = [0; 32];
    let mut index = 0;
    while index < key.len() {
        key[index] = index as u8;
        index += 1;
    }
    key
};

const _: () = assert!(CHUNK.is_multiple_of(BLOCK) && BLOCKS.is_multiple_of(WORKGROUP));

/// The CPU's own copy of a chunk.
pub struct Chunk(Box<[u8]>);

/// A chunk of zeros.
impl Default for Chunk {
    fn default() -> Self {
        Self(vec![0; CHUNK].into_boxed_slice())
    }
}

impl Chunk {
    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// All bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Makes everything from `length` on zero.
    pub fn pad_from(&mut self, length: usize) {
        if let Some(rest) = self.0.get_mut(length..) {
            rest.fill(0);
        }
    }
}

/// The nonce of chunk `number`.
fn nonce(number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    for (to, from) in nonce.iter_mut().zip(number.to_le_bytes()) {
        *to = from;
    }
    nonce
}

/// The program of the GPU in memory that it executes.
pub fn program(device: &Device) -> Result<Program> {
    let program = campanile_isa::assemble(campanile_isa::programs::CHACHA20);
    device.create_program(&program.expect("the program is one of this repository, which a test assembles"))
}

/// Arguments for the program: to encipher chunk `number`, which lies at the GPU address `data`.
pub fn arguments(data: u64, number: u64) -> [u8; ARGUMENTS] {
    let mut arguments = [0; ARGUMENTS];
    let parts = [&data.to_le_bytes()[..], &0u32.to_le_bytes(), &BLOCKS.to_le_bytes(), &KEY, &nonce(number)];
    for (to, from) in arguments.iter_mut().zip(parts.into_iter().flatten()) {
        *to = *from;
    }
    arguments
}

/// A run of the program over a whole chunk. The GPU writes what became of it to `report`.
pub fn dispatch(program: &Program, arguments: u64, report: u64) -> Dispatch {
    Dispatch { report, ..program.dispatch([BLOCKS / WORKGROUP, 1, 1], arguments) }
}

/// Holds what came back against the cipher of the CPU; in words what is wrong, if anything. Deciphers `returned` in place, which is the same comparison.
pub fn mismatch(original: &[u8], returned: &mut [u8], number: u64) -> Option<String> {
    if original.len() != CHUNK || returned.len() != CHUNK {
        return Some(format!("{} bytes came back, {CHUNK} expected", returned.len()));
    }
    ChaCha20::new(&KEY.into(), &nonce(number).into()).apply_keystream(returned);
    if original == returned {
        return None;
    }
    let at = original.iter().zip(&*returned).position(|(a, b)| a != b)?;
    let (expected, found) = (original.get(at)?, returned.get(at)?);
    Some(format!("byte {at} of the chunk deciphers to {found:#04x}, {expected:#04x} expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original() -> Vec<u8> {
        (0..CHUNK as u64).map(|index| (index.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
    }

    fn enciphered(original: &[u8], number: u64) -> Vec<u8> {
        let mut bytes = original.to_vec();
        ChaCha20::new(&KEY.into(), &nonce(number).into()).apply_keystream(&mut bytes);
        bytes
    }

    #[test]
    fn the_program_is_one() {
        campanile_isa::assemble(campanile_isa::programs::CHACHA20).unwrap();
    }

    #[test]
    fn the_right_result_has_no_mismatch() {
        let original = original();
        assert_eq!(mismatch(&original, &mut enciphered(&original, 7), 7), None);
    }

    #[test]
    fn every_wrong_byte_is_found() {
        let original = original();
        let right = enciphered(&original, 7);
        for at in [0, 63, 64, CHUNK / 2 + 17, CHUNK - 1] {
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            let text = mismatch(&original, &mut wrong, 7).expect("the change is seen");
            assert!(text.contains(&format!("byte {at} ")), "{at}: {text}");
        }
        assert!(mismatch(&original, &mut original.clone(), 7).is_some());
        assert!(mismatch(&original, &mut right.clone(), 8).is_some());
        assert!(mismatch(&original, &mut right[..CHUNK - 1].to_vec(), 7).is_some());
    }

    #[test]
    fn padding_clears_the_rest_only() {
        let mut chunk = Chunk::default();
        chunk.bytes_mut().fill(0xff);
        chunk.pad_from(10);
        assert!(chunk.bytes()[..10].iter().all(|byte| *byte == 0xff));
        assert!(chunk.bytes()[10..].iter().all(|byte| *byte == 0));
        chunk.pad_from(CHUNK);
    }
}
