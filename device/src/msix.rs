//! MSI-X: the table and pending bits in BAR0, and when a message may be sent.

use campanile_hw::pci::MSIX_VECTORS;

/// Bytes of a table entry: address, data, vector control.
const ENTRY_SIZE: u64 = 16;
/// Offset of the vector control word in an entry.
const CONTROL: u64 = 12;
/// Mask bit of the vector control word.
const MASKED: u32 = 1;

#[derive(Clone, Copy, Debug)]
struct Vector {
    /// Address low, address high, data, vector control.
    words: [u32; 4],
    pending: bool,
}

impl Vector {
    const RESET: Self = Self { words: [0, 0, 0, MASKED], pending: false };
}

/// State of MSI-X.
#[derive(Debug)]
pub(crate) struct MsiX {
    vectors: [Vector; MSIX_VECTORS as usize],
    enabled: bool,
    function_mask: bool,
    bus_master: bool,
}

impl MsiX {
    /// As after reset: every vector masked, nothing enabled.
    pub(crate) const fn new() -> Self {
        Self {
            vectors: [Vector::RESET; MSIX_VECTORS as usize],
            enabled: false,
            function_mask: false,
            bus_master: false,
        }
    }

    /// Bytes of the table.
    pub(crate) const fn table_size() -> u64 {
        MSIX_VECTORS as u64 * ENTRY_SIZE
    }

    /// Bytes of the pending bits.
    pub(crate) const fn pending_size() -> u64 {
        (MSIX_VECTORS as u64).div_ceil(64) * 8
    }

    /// The aligned 32-bit word of the table at `offset`.
    pub(crate) fn table_word(&self, offset: u64) -> u32 {
        let vector = usize::try_from(offset / ENTRY_SIZE).ok().and_then(|index| self.vectors.get(index));
        vector.and_then(|vector| vector.words.get((offset % ENTRY_SIZE / 4) as usize)).copied().unwrap_or(0)
    }

    /// Writes the aligned 32-bit word of the table at `offset`.
    pub(crate) fn set_table_word(&mut self, offset: u64, value: u32) {
        // Bits of vector control other than the mask are reserved, and message addresses are 4-aligned.
        let value = match offset % ENTRY_SIZE {
            CONTROL => value & MASKED,
            0 => value & !3,
            _ => value,
        };
        let vector = usize::try_from(offset / ENTRY_SIZE).ok().and_then(|index| self.vectors.get_mut(index));
        if let Some(word) = vector.and_then(|vector| vector.words.get_mut((offset % ENTRY_SIZE / 4) as usize)) {
            *word = value;
        }
    }

    /// Sets the mask bit of a vector.
    pub(crate) fn mask(&mut self, vector: u16, masked: bool) {
        if let Some([.., control]) = self.vectors.get_mut(usize::from(vector)).map(|vector| &mut vector.words) {
            *control = if masked { MASKED } else { 0 };
        }
    }

    /// The 64 pending bits at `offset`.
    pub(crate) fn pending_bits(&self, offset: u64) -> u64 {
        let first = usize::try_from(offset * 8).unwrap_or(usize::MAX);
        let bits = self.vectors.iter().enumerate().skip(first).take(64);
        bits.map(|(index, vector)| u64::from(vector.pending) << (index - first)).sum()
    }

    /// Takes over the switches in config space.
    pub(crate) fn configure(&mut self, enabled: bool, function_mask: bool, bus_master: bool) {
        (self.enabled, self.function_mask, self.bus_master) = (enabled, function_mask, bus_master);
        if !enabled {
            self.vectors.iter_mut().for_each(|vector| vector.pending = false);
        }
    }

    fn open(&self, vector: &Vector) -> bool {
        self.enabled && self.bus_master && !self.function_mask && vector.words[3] & MASKED == 0
    }

    /// Wants to send the message of a vector. True if it is to be sent now; otherwise it is pending, or dropped while MSI-X is off.
    pub(crate) fn raise(&mut self, vector: u16) -> bool {
        let Some(&found) = self.vectors.get(usize::from(vector)) else { return false };
        let open = self.open(&found);
        if let Some(slot) = self.vectors.get_mut(usize::from(vector)).filter(|_| !open && self.enabled) {
            slot.pending = true;
        }
        open
    }

    /// Takes one vector whose pending message may be sent now.
    pub(crate) fn take_pending(&mut self) -> Option<u16> {
        let index = self.vectors.iter().position(|vector| vector.pending && self.open(vector))?;
        self.vectors.get_mut(index)?.pending = false;
        u16::try_from(index).ok()
    }

    /// True if messages are enabled, then the vectors that are not masked and those that are pending, a bit each.
    pub(crate) fn held(&self) -> (bool, u64, u64) {
        let bits = |is: fn(&Vector) -> bool| {
            (0_u32..)
                .zip(&self.vectors)
                .map(|(index, vector)| u64::from(is(vector)) << (index % 64))
                .fold(0, |all, bit| all | bit)
        };
        (self.enabled, bits(|vector| vector.words[3] & MASKED == 0), bits(|vector| vector.pending))
    }

    /// Forgets the table and everything pending.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }
}
