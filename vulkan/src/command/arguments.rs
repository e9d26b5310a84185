//! Memory for argument blocks and for the data of updates.

use campanile_umd::{Device, Mapping, Placement};

use crate::failure::{Answer, result};

/// Bytes of a piece of memory, unless more are asked for at once.
const PIECE: usize = 64 << 10;
/// Alignment of what is written.
const ALIGNMENT: usize = 16;

/// Memory that a command buffer writes when it is recorded and the GPU reads when it runs. It stays mapped for both.
pub(crate) struct Arguments {
    device: Device,
    pieces: Vec<Mapping>,
    /// The piece that is written, and the first free byte of it.
    piece: usize,
    used: usize,
}

impl Arguments {
    pub(crate) fn new(device: &Device) -> Self {
        Self { device: device.clone(), pieces: Vec::new(), piece: 0, used: 0 }
    }

    /// Begins anew, with the memory that there is.
    pub(crate) fn reset(&mut self) {
        (self.piece, self.used) = (0, 0);
    }

    /// Gives the memory back.
    pub(crate) fn trim(&mut self) {
        self.reset();
        self.pieces.clear();
    }

    /// Writes bytes; returns their GPU virtual address, a multiple of 16.
    ///
    /// # Errors
    /// VK_ERROR_OUT_OF_DEVICE_MEMORY and what else the operating system refuses.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Answer<u64> {
        loop {
            let Some(piece) = self.pieces.get(self.piece) else {
                let size = bytes.len().max(PIECE) as u64;
                let memory = self.device.create_buffer(size, Placement::SystemUncached).map_err(result)?;
                self.pieces.push(memory.map().map_err(result)?);
                continue;
            };
            if piece.len() - self.used >= bytes.len() {
                piece.write(self.used, bytes).map_err(result)?;
                let address = piece.buffer().gpu_address() + self.used as u64;
                self.used = (self.used + bytes.len()).next_multiple_of(ALIGNMENT).min(piece.len());
                return Ok(address);
            }
            (self.piece, self.used) = (self.piece + 1, 0);
        }
    }
}
