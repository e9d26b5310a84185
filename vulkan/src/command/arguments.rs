//! Memory for argument blocks and for the data of updates.

use std::sync::Arc;

use campanile_umd::{Device, Mapping, Placement};

use crate::failure::{Answer, result};

/// Bytes of a piece of memory, unless more are asked for at once.
const PIECE: usize = 64 << 10;
/// Alignment of what is written.
const ALIGNMENT: usize = 16;

/// Memory that a command buffer writes when it is recorded and the GPU reads when it runs. It stays mapped for both.
pub(crate) struct Arguments {
    device: Device,
    pieces: Vec<Arc<Mapping>>,
    /// The piece that is written, and the first free byte of it.
    piece: usize,
    used: usize,
}

/// Bytes that were written, and may be written anew before the GPU reads them.
#[derive(Clone)]
pub(crate) struct Written {
    piece: Arc<Mapping>,
    at: usize,
}

impl Written {
    /// Their GPU virtual address.
    pub(crate) fn address(&self) -> u64 {
        self.piece.buffer().gpu_address() + self.at as u64
    }

    /// Writes bytes from `offset` on.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Answer<()> {
        self.piece.write(self.at.saturating_add(offset), bytes).map_err(result)
    }
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

    /// Writes bytes, at a GPU virtual address that is a multiple of 16.
    ///
    /// # Errors
    /// As [`Arguments::place`].
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Answer<Written> {
        let written = self.place(bytes.len())?;
        written.write(0, bytes)?;
        Ok(written)
    }

    /// A place for so many bytes, at a GPU virtual address that is a multiple of 16, which are then to be written.
    ///
    /// # Errors
    /// VK_ERROR_OUT_OF_DEVICE_MEMORY and what else the operating system refuses.
    pub(crate) fn place(&mut self, bytes: usize) -> Answer<Written> {
        loop {
            let Some(piece) = self.pieces.get(self.piece) else {
                let size = bytes.max(PIECE) as u64;
                let memory = self.device.create_buffer(size, Placement::SystemUncached).map_err(result)?;
                self.pieces.push(Arc::new(memory.map().map_err(result)?));
                continue;
            };
            if piece.len() - self.used >= bytes {
                let place = Written { piece: piece.clone(), at: self.used };
                self.used = (self.used + bytes).next_multiple_of(ALIGNMENT).min(piece.len());
                return Ok(place);
            }
            (self.piece, self.used) = (self.piece + 1, 0);
        }
    }
}
