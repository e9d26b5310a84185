//! Records of image views, views of texel buffers and samplers, in memory that programs read.

use std::sync::{Arc, Mutex, PoisonError};

use campanile_umd::{Device, Mapping, Placement};

use crate::failure::{Answer, result};

/// Bytes of a piece of memory.
const PIECE: usize = 64 << 10;

/// Memory for records of one size.
pub(crate) struct Records {
    device: Device,
    size: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pieces: Vec<Mapping>,
    /// Places that are free, and the first one that was never used.
    free: Vec<usize>,
    next: usize,
}

/// A record. Its place is free when this is dropped.
pub(crate) struct Record {
    home: Arc<Records>,
    place: usize,
    address: u64,
}

impl Records {
    pub(crate) fn new(device: &Device, size: usize) -> Arc<Self> {
        Arc::new(Self { device: device.clone(), size: size.next_multiple_of(8), state: Mutex::default() })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// VK_ERROR_OUT_OF_DEVICE_MEMORY and what else the operating system refuses.
    pub(crate) fn put(self: &Arc<Self>, bytes: &[u8]) -> Answer<Record> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let place = state.free.last().copied().unwrap_or(state.next);
        let in_piece = PIECE / self.size;
        if place / in_piece == state.pieces.len() {
            let memory = self.device.create_buffer(PIECE as u64, Placement::SystemUncached).map_err(result)?;
            state.pieces.push(memory.map().map_err(result)?);
        }
        let piece = state.pieces.get(place / in_piece).ok_or(ash::vk::Result::ERROR_UNKNOWN)?;
        let offset = place % in_piece * self.size;
        piece.write(offset, bytes.get(..self.size).unwrap_or(bytes)).map_err(result)?;
        let address = piece.buffer().gpu_address() + offset as u64;
        if state.free.pop().is_none() {
            state.next += 1;
        }
        Ok(Record { home: self.clone(), place, address })
    }
}

impl Record {
    /// Copies what is in the record now.
    ///
    /// # Errors
    /// VK_ERROR_DEVICE_LOST on an adapter that does not snoop the processor's caches.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> Answer<()> {
        let state = self.home.state.lock().unwrap_or_else(PoisonError::into_inner);
        let in_piece = PIECE / self.home.size;
        let piece = state.pieces.get(self.place / in_piece).ok_or(ash::vk::Result::ERROR_UNKNOWN)?;
        piece.read(self.place % in_piece * self.home.size, bytes).map_err(result)
    }

    /// GPU virtual address of the record.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.home.state.lock().unwrap_or_else(PoisonError::into_inner).free.push(self.place);
    }
}
