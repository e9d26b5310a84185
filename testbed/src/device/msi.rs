//! Messages by MSI, for clients that cannot do without: QEMU up to 11.1.3 ends with a failed assertion when it lets go of a vfio-user function that
//! has MSI-X, which includes every hot-unplug.
//!
//! The GPU itself sends messages by MSI-X. The capability that its client sees is here, in the place of that one; enabling it enables MSI-X, of which a
//! client with an eventfd for each message sees nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use campanile_device::Gpu;
use campanile_hw::pci::MSIX_VECTORS;

const CAPABILITIES: u16 = 0x34;
const CAPABILITY_MSI: u8 = 0x05;
const CAPABILITY_MSIX: u8 = 0x11;
/// Capabilities that fit behind the header.
const CAPABILITIES_MAX: usize = 48;
/// Control words behind identifier and link. [PCIe base specification, 7.7.1 and 7.7.2]
const CONTROL: u16 = 2;
const MSIX_ENABLE: u32 = 1 << 15;
const MSI_ENABLE: u8 = 1;
const MSI_64_BIT: u8 = 1 << 7;
/// The capability with 64-bit addresses and without mask bits: identifier, link, control, address, data.
const SIZE: u16 = 14;
/// Bits of it that software may write: enable, how many messages it grants, address, data.
const WRITABLE: [u8; SIZE as usize] = [0, 0, 0x71, 0, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];

/// The capability in configuration space.
#[derive(Debug)]
pub(super) struct Msi {
    /// Offset in configuration space.
    at: u16,
    reset: [u8; SIZE as usize],
    values: Mutex<[u8; SIZE as usize]>,
}

impl Msi {
    /// Takes the place of a GPU's MSI-X; `None` if that has none.
    pub(super) fn in_place_of_msix(gpu: &Gpu) -> Option<Self> {
        let mut at = gpu.config_read(CAPABILITIES, 1) as u16;
        for _ in 0..CAPABILITIES_MAX {
            let [id, next] = [at, at + 1].map(|offset| gpu.config_read(offset, 1) as u8);
            if at != 0 && id == CAPABILITY_MSIX {
                let mut reset = [0; SIZE as usize];
                // As many messages as vectors, as a power of two.
                let messages = MSIX_VECTORS.next_power_of_two().trailing_zeros() as u8;
                reset[..3].copy_from_slice(&[CAPABILITY_MSI, next, MSI_64_BIT | messages << 1]);
                return Some(Self { at, reset, values: Mutex::new(reset) });
            }
            at = u16::from(next & 0xfc);
        }
        None
    }

    fn values(&self) -> MutexGuard<'_, [u8; SIZE as usize]> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, offset: u16) -> Option<usize> {
        offset.checked_sub(self.at).filter(|place| *place < SIZE).map(usize::from)
    }

    /// The byte at an offset of configuration space, if it is the capability's.
    pub(super) fn read(&self, gpu: &Gpu, offset: u16) -> Option<u8> {
        let byte = self.values().get(self.place(offset)?).copied()?;
        // Nobody answers for a function that was pulled out.
        Some(if gpu.config_read(0, 4) == u32::MAX { u8::MAX } else { byte })
    }

    /// Writes bytes at an offset; false if that is not the capability's.
    pub(super) fn write(&self, gpu: &Gpu, offset: u16, bytes: &[u8]) -> bool {
        if self.place(offset).is_none() {
            return false;
        }
        let mut values = self.values();
        for (at, byte) in (offset..).zip(bytes) {
            let Some(place) = self.place(at) else { break };
            let (Some(value), Some(mask)) = (values.get_mut(place), WRITABLE.get(place)) else { break };
            *value = *value & !mask | byte & mask;
        }
        let enabled = values[usize::from(CONTROL)] & MSI_ENABLE != 0;
        gpu.config_write(self.at + CONTROL, 2, if enabled { MSIX_ENABLE } else { 0 });
        true
    }

    /// The GPU was reset, if its MSI-X is off though this is on: then this is as after power-on too.
    pub(super) fn follow_reset(&self, gpu: &Gpu) {
        let mut values = self.values();
        let enabled = values[usize::from(CONTROL)] & MSI_ENABLE != 0;
        if enabled && gpu.config_read(self.at + CONTROL, 2) & MSIX_ENABLE == 0 {
            *values = self.reset;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_device::Variant;

    fn read(msi: &Msi, gpu: &Gpu, offset: u16, size: u16) -> u64 {
        (0..size).rev().fold(0, |value, at| value << 8 | u64::from(msi.read(gpu, msi.at + offset + at).unwrap()))
    }

    #[test]
    fn it_stands_where_msix_was_and_switches_it() {
        let gpu = Gpu::new(&Variant { vram_size: 16 << 20, vram_window: 16 << 20, ..Variant::default() }).unwrap();
        let msi = Msi::in_place_of_msix(&gpu).unwrap();
        let next = gpu.config_read(msi.at + 1, 1);
        assert_eq!(read(&msi, &gpu, 0, 4), u64::from(CAPABILITY_MSI) | u64::from(next) << 8 | 0x80 << 16);
        assert!(msi.read(&gpu, msi.at - 1).is_none() && msi.read(&gpu, msi.at + SIZE).is_none());
        assert!(!msi.write(&gpu, msi.at - 1, &[1]) && !msi.write(&gpu, msi.at + SIZE, &[1]));
        // All ones reach what can be written, and nothing behind it.
        assert!([0, 4, 8, 12].into_iter().all(|at| msi.write(&gpu, msi.at + at, &[0xff; 4])));
        assert_eq!(read(&msi, &gpu, 0, 4) >> 16, 0xf1);
        assert_eq!((read(&msi, &gpu, 4, 8), read(&msi, &gpu, 12, 2)), (!3, 0xffff));
        assert!(gpu.held().messages);
        msi.follow_reset(&gpu);
        assert!(gpu.held().messages);
        gpu.reset();
        msi.follow_reset(&gpu);
        assert_eq!((read(&msi, &gpu, 2, 2), read(&msi, &gpu, 4, 8)), (0x80, 0));
        gpu.pull_out();
        assert_eq!(read(&msi, &gpu, 0, 8), u64::MAX);
    }
}
