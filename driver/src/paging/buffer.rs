//! The DMA buffer that paging operations put their packets into, one behind the other.

use campanile_hw::packet;
use campanile_hw::queue::Location;

/// The reason why an operation was not built completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PagingError {
    /// The DMA buffer is full.
    InsufficientDmaBuffer,
    /// The operation, or a field of it, contradicts what this adapter reported, so that it can be carried out neither now nor later.
    Impossible,
}

/// The part of the DMA buffer that is left.
pub(super) struct Buffer {
    pub(super) next: *mut u8,
    pub(super) left: usize,
}

impl Buffer {
    pub(super) fn push<const WORDS: usize>(&mut self, words: [u64; WORDS]) -> Result<(), PagingError> {
        let size = WORDS * 8;
        if self.next.is_null() || self.left < size {
            return Err(PagingError::InsufficientDmaBuffer);
        }
        // SAFETY: `left` bytes from `next` are the caller's DMA buffer; the words need no alignment.
        unsafe { self.next.cast::<[u64; WORDS]>().write_unaligned(words) };
        self.next = self.next.wrapping_add(size);
        self.left -= size;
        Ok(())
    }

    /// A COPY of one run of bytes.
    pub(super) fn push_copy(&mut self, source: u64, destination: u64, size: u32) -> Result<(), PagingError> {
        let copy =
            packet::Copy { source, destination, row_bytes: size, rows: 1, source_pitch: 0, destination_pitch: 0 };
        packet::Packet::Copy(copy).validate().map_err(|_| PagingError::Impossible)?;
        self.push(copy.to_words())
    }

    /// A FILL.
    pub(super) fn push_fill(&mut self, destination: u64, size: u64, pattern: u32) -> Result<(), PagingError> {
        let fill = packet::Fill { destination, size, pattern };
        packet::Packet::Fill(fill).validate().map_err(|_| PagingError::Impossible)?;
        self.push(fill.to_words())
    }
}

/// The address by which packets of the paging node reach a page table.
#[derive(Clone, Copy)]
pub(super) enum TablePlace {
    /// An address of the paging process.
    Virtual(u64),
    /// A location.
    Physical(Location),
}

impl TablePlace {
    /// Pushes a packet that writes entries from `index` on.
    pub(super) fn push(self, buffer: &mut Buffer, index: u32, entries: &[u64], repeat: u16) -> Result<(), PagingError> {
        let at = u64::from(index) * 8;
        match self {
            Self::Virtual(table) => {
                let write = packet::Write::of(table.wrapping_add(at), entries, repeat);
                packet::Packet::Write(write).validate().map_err(|_| PagingError::Impossible)?;
                buffer.push(write.to_words())
            }
            Self::Physical(table) => {
                let place = table.with_address(table.address() + at).into_bits();
                let write = packet::WritePhysical::of(place, entries, repeat);
                packet::Packet::WritePhysical(write).validate().map_err(|_| PagingError::Impossible)?;
                buffer.push(write.to_words())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_buffer_nothing_is_written() {
        let mut nothing = Buffer { next: core::ptr::null_mut(), left: 4096 };
        assert_eq!(nothing.push([0; 2]), Err(PagingError::InsufficientDmaBuffer));
    }
}
