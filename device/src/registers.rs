//! The register BAR: decoding of accesses, and the registers that keep a value.

use campanile_hw::registers as reg;
use campanile_hw::registers::{Access, REGISTERS, Register};

/// An access that names a register, or one half of a 64-bit register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    pub(crate) register: &'static Register,
    shift: u32,
    bits: u32,
}

impl Selection {
    /// What an access of `size` bytes at `offset` selects; `None` for every access that is not one of the legal kinds.
    pub(crate) fn decode(offset: u64, size: u8) -> Option<Self> {
        let covers =
            |register: &&Register| (register.offset..register.offset + u64::from(register.width)).contains(&offset);
        let register = REGISTERS.iter().find(covers)?;
        let inner = offset - register.offset;
        let legal =
            (size == register.width && inner == 0) || (size == 4 && register.width == 8 && inner.is_multiple_of(4));
        legal.then_some(Self { register, shift: inner as u32 * 8, bits: u32::from(size) * 8 })
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The selected part of the register's value.
    pub(crate) fn extract(self, value: u64) -> u64 {
        (value >> self.shift) & self.mask()
    }

    /// The register's value with the selected part replaced.
    pub(crate) fn replace(self, old: u64, part: u64) -> u64 {
        (old & !(self.mask() << self.shift)) | ((part & self.mask()) << self.shift)
    }

    /// True if the register may be written.
    pub(crate) fn writable(self) -> bool {
        self.register.access != Access::ReadOnly
    }
}

/// Registers that keep what was written.
#[derive(Debug, Default)]
pub(crate) struct RegisterFile {
    pub(crate) queue_table_base: u64,
    pub(crate) queue_table_count: u64,
    pub(crate) event_ring_base: u64,
    pub(crate) event_ring_entries: u64,
    pub(crate) paging_root: u64,
    pub(crate) arguments: [u64; 5],
    pub(crate) status: u32,
    pub(crate) result: u64,
    pub(crate) aperture_index: u64,
}

impl RegisterFile {
    /// The number of registers that are not zero.
    pub(crate) fn kept(&self) -> usize {
        let Self {
            queue_table_base,
            queue_table_count,
            event_ring_base,
            event_ring_entries,
            paging_root,
            arguments,
            ..
        } = self;
        let all = [
            queue_table_base,
            queue_table_count,
            event_ring_base,
            event_ring_entries,
            paging_root,
            &self.aperture_index,
        ];
        all.into_iter().chain(arguments).filter(|value| **value != 0).count()
    }

    /// A register that reads as it was written.
    pub(crate) fn stored(&mut self, offset: u64) -> Option<&mut u64> {
        match offset {
            reg::QUEUE_TABLE_BASE => Some(&mut self.queue_table_base),
            reg::QUEUE_TABLE_COUNT => Some(&mut self.queue_table_count),
            reg::EVENT_RING_BASE => Some(&mut self.event_ring_base),
            reg::EVENT_RING_ENTRIES => Some(&mut self.event_ring_entries),
            reg::PAGING_ROOT => Some(&mut self.paging_root),
            reg::CMP_ARG0 => self.arguments.first_mut(),
            reg::CMP_ARG1 => self.arguments.get_mut(1),
            reg::CMP_ARG2 => self.arguments.get_mut(2),
            reg::CMP_ARG3 => self.arguments.get_mut(3),
            reg::CMP_ARG4 => self.arguments.get_mut(4),
            reg::HOST_APERTURE_INDEX => Some(&mut self.aperture_index),
            _ => None,
        }
    }
}
