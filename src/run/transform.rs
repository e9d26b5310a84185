//! What the GPU does to a chunk, and the same on the CPU.
//!
//! A chunk is read as a square matrix of 64-byte blocks and transposed; a footer derived from the chunk's number follows it.

use testbed::user::{CopyRows, Recorder, Result};

/// Bytes of a chunk.
pub const CHUNK: usize = 1 << 20;
/// Bytes of a block, the element of the matrix.
pub(crate) const BLOCK: usize = 64;
/// Rows and columns of the matrix.
pub(crate) const SIDE: usize = 128;
/// Bytes of a row of the matrix.
const ROW: usize = SIDE * BLOCK;
/// Bytes of the footer.
pub(crate) const FOOTER: usize = 64;
/// Bytes of a chunk with its footer.
pub(crate) const STAMPED: usize = CHUNK + FOOTER;

const _: () = assert!(SIDE * ROW == CHUNK);

/// The CPU's own copy of a chunk.
pub(crate) struct Chunk(Box<[u8]>);

impl Chunk {
    /// A chunk of zeros.
    pub(crate) fn new() -> Self {
        Self(vec![0; CHUNK].into_boxed_slice())
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// All bytes, to be filled.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Makes everything from `length` on zero.
    pub(crate) fn pad_from(&mut self, length: usize) {
        if let Some(rest) = self.0.get_mut(length..) {
            rest.fill(0);
        }
    }
}

/// The word that the footer of chunk `number` repeats: never the one of a neighbour, never zero.
pub(crate) fn footer_pattern(number: u64) -> u32 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 | 1
}

/// Records the transform of the chunk at `source` into `destination`: one COPY for each row, then the footer.
pub(crate) fn record(commands: &mut Recorder<'_, '_>, destination: u64, source: u64, number: u64) -> Result<()> {
    for row in 0..SIDE as u64 {
        commands.copy_rows(&CopyRows {
            source: source + row * ROW as u64,
            source_pitch: BLOCK as u32,
            destination: destination + row * BLOCK as u64,
            destination_pitch: ROW as u32,
            row_bytes: BLOCK as u32,
            rows: SIDE as u32,
        })?;
    }
    commands.fill(destination + CHUNK as u64, FOOTER as u64, footer_pattern(number))
}

/// Holds what came back against the transform done here; in words what is wrong, if anything.
///
/// Walks the result in order and compares block by block, so nothing is materialised.
pub(crate) fn mismatch(original: &[u8], returned: &[u8], number: u64) -> Option<String> {
    if original.len() != CHUNK || returned.len() != STAMPED {
        return Some(format!("{} bytes came back, {STAMPED} expected", returned.len()));
    }
    let (matrix, footer) = returned.split_at(CHUNK);
    // Arrays instead of slices, so that a comparison is a few wide instructions and no call.
    let (originals, blocks) = (original.as_chunks::<BLOCK>().0, matrix.as_chunks::<BLOCK>().0);
    for (column, row) in blocks.chunks_exact(SIDE).enumerate() {
        let transposed = originals.iter().skip(column).step_by(SIDE);
        for (index, (block, expected)) in row.iter().zip(transposed).enumerate() {
            if block != expected {
                return Some(describe(expected, block, column * ROW + index * BLOCK));
            }
        }
    }
    let pattern = footer_pattern(number).to_le_bytes();
    if footer.chunks_exact(4).any(|word| word != pattern) {
        return Some(format!("the footer of chunk {number} is not {:#010x} repeated", footer_pattern(number)));
    }
    None
}

fn describe(expected: &[u8], found: &[u8], at: usize) -> String {
    let index = expected.iter().zip(found).position(|(a, b)| a != b).unwrap_or(0);
    format!(
        "byte {} of the transposed chunk is {:#04x}, {:#04x} expected",
        at + index,
        found.get(index).copied().unwrap_or(0),
        expected.get(index).copied().unwrap_or(0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original() -> Vec<u8> {
        (0..CHUNK as u64).map(|index| (index.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
    }

    /// The transform written the plain way: element (row, column) goes to (column, row).
    fn transformed(original: &[u8], number: u64) -> Vec<u8> {
        let mut result = vec![0; STAMPED];
        for row in 0..SIDE {
            for column in 0..SIDE {
                let from = (row * SIDE + column) * BLOCK;
                let to = (column * SIDE + row) * BLOCK;
                result[to..to + BLOCK].copy_from_slice(&original[from..from + BLOCK]);
            }
        }
        for word in result[CHUNK..].chunks_exact_mut(4) {
            word.copy_from_slice(&footer_pattern(number).to_le_bytes());
        }
        result
    }

    #[test]
    fn the_right_result_has_no_mismatch() {
        let original = original();
        assert_eq!(mismatch(&original, &transformed(&original, 7), 7), None);
    }

    #[test]
    fn every_kind_of_wrong_byte_is_found() {
        let original = original();
        let right = transformed(&original, 7);
        for at in [0, 63, 64, ROW - 1, ROW, CHUNK / 2 + 17, CHUNK - 1, CHUNK, STAMPED - 1] {
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            let text = mismatch(&original, &wrong, 7).expect("the change is seen");
            assert!(at >= CHUNK || text.contains(&format!("byte {at} ")), "{at}: {text}");
        }
        assert!(mismatch(&original, &original, 7).is_some());
        assert!(mismatch(&original, &right, 8).is_some());
        assert!(mismatch(&original, &right[..CHUNK], 7).is_some());
    }

    #[test]
    fn footers_of_neighbours_differ() {
        for number in 0..10_000 {
            assert_ne!(footer_pattern(number), footer_pattern(number + 1));
            assert_ne!(footer_pattern(number), 0);
        }
    }

    #[test]
    fn padding_clears_the_rest_only() {
        let mut chunk = Chunk::new();
        chunk.bytes_mut().fill(0xff);
        chunk.pad_from(10);
        assert!(chunk.bytes()[..10].iter().all(|byte| *byte == 0xff));
        assert!(chunk.bytes()[10..].iter().all(|byte| *byte == 0));
        chunk.pad_from(CHUNK);
    }
}
