//! Config space: a type 0 header with three 64-bit BARs, and the capabilities power management, MSI-X and PCI Express.
//!
//! Every byte has a value and a mask of the bits that software may write; what a write means beyond that is told to the function as
//! [`Effects`].

use campanile_hw::pci;

const SIZE: usize = 256;
/// Bytes of PCI Express config space; beyond the header's 256 there is no extended capability.
const EXTENDED_SIZE: u16 = 4096;

const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const HEADER_TYPE: usize = 0x0e;
/// The device has more functions.
const MULTI_FUNCTION: u8 = 1 << 7;
const BARS: usize = 0x10;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;
const POWER: usize = 0x40;
const POWER_CONTROL: usize = POWER + 4;
const MSIX: usize = 0x48;
const MSIX_CONTROL: usize = MSIX + 2;
const EXPRESS: usize = 0x60;
const DEVICE_CONTROL: usize = EXPRESS + 0x08;
const DEVICE_CONTROL_2: usize = EXPRESS + 0x28;

const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_BUS_MASTER: u16 = 1 << 2;
/// Memory, bus master, parity error response, SERR# enable, INTx disable.
const COMMAND_WRITABLE: u16 = COMMAND_MEMORY | COMMAND_BUS_MASTER | 1 << 6 | 1 << 8 | 1 << 10;
const STATUS_CAPABILITIES: u16 = 1 << 4;
const MSIX_ENABLE: u16 = 1 << 15;
const MSIX_FUNCTION_MASK: u16 = 1 << 14;
const POWER_STATE: u8 = 3;
const D0: u8 = 0;
const D3HOT: u8 = 3;
/// AtomicOp Requester Enable, in device control 2.
const ATOMICS_ENABLE: u16 = 1 << 6;
/// Initiate Function Level Reset, in the upper byte of device control.
const FLR: u8 = 1 << 7;

/// Effects of a config write on the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effects {
    /// True if the function was reset, config space included.
    pub(crate) reset: bool,
    /// True if the function went to D3hot.
    pub(crate) slept: bool,
    /// True if the BARs answer.
    pub(crate) memory: bool,
    /// True if the function may start DMA and send messages.
    pub(crate) bus_master: bool,
    /// True if MSI-X is enabled.
    pub(crate) msix: bool,
    /// True if all vectors are masked.
    pub(crate) msix_mask: bool,
}

/// Config space of the function.
#[derive(Debug)]
pub(crate) struct ConfigSpace {
    values: [u8; SIZE],
    writable: [u8; SIZE],
    bar_sizes: [u64; 6],
    /// True for one of several functions of a device, see [`pci::SUBSYSTEM_ID_LINKED`].
    linked: bool,
    /// True if the function can send atomic requests.
    atomics: bool,
}

impl ConfigSpace {
    /// Config space after reset, with these BAR sizes (0 for a BAR that is not there), of a function that is alone or `linked`, and
    /// sends atomic requests or none.
    pub(crate) fn new(bar_sizes: [u64; 6], linked: bool, atomics: bool) -> Self {
        let mut config = Self { values: [0; SIZE], writable: [0; SIZE], bar_sizes, linked, atomics };
        config.reset();
        config
    }

    fn set<const N: usize>(&mut self, at: usize, value: [u8; N], writable: [u8; N]) {
        if let Some(bytes) = self.values.get_mut(at..at + N) {
            bytes.copy_from_slice(&value);
        }
        if let Some(bytes) = self.writable.get_mut(at..at + N) {
            bytes.copy_from_slice(&writable);
        }
    }

    fn set16(&mut self, at: usize, value: u16, writable: u16) {
        self.set(at, value.to_le_bytes(), writable.to_le_bytes());
    }

    fn set32(&mut self, at: usize, value: u32, writable: u32) {
        self.set(at, value.to_le_bytes(), writable.to_le_bytes());
    }

    /// Everything as after power-on.
    pub(crate) fn reset(&mut self) {
        (self.values, self.writable) = ([0; SIZE], [0; SIZE]);
        self.set16(0x00, pci::VENDOR_ID, 0);
        self.set16(0x02, pci::DEVICE_ID, 0);
        self.set16(COMMAND, 0, COMMAND_WRITABLE);
        self.set16(STATUS, STATUS_CAPABILITIES, 0);
        self.set32(0x08, pci::CLASS_CODE << 8 | u32::from(pci::REVISION_ID), 0);
        self.set(0x0c, [0], [0xff]);
        self.set16(0x2c, pci::SUBSYSTEM_VENDOR_ID, 0);
        self.set(HEADER_TYPE, [if self.linked { MULTI_FUNCTION } else { 0 }], [0]);
        self.set16(0x2e, if self.linked { pci::SUBSYSTEM_ID_LINKED } else { pci::SUBSYSTEM_ID }, 0);
        self.set(CAPABILITIES, [POWER as u8], [0]);
        self.set(INTERRUPT_LINE, [0], [0xff]);
        for bar in [pci::BAR_REGISTERS, pci::BAR_DOORBELLS, pci::BAR_VRAM] {
            self.reset_bar(usize::from(bar), bar == pci::BAR_VRAM);
        }
        self.reset_power();
        self.reset_msix();
        self.reset_express();
    }

    fn reset_bar(&mut self, bar: usize, prefetchable: bool) {
        let size = self.bar_sizes.get(bar).copied().unwrap_or(0);
        let kind = 0b100 | u32::from(prefetchable) << 3;
        let mask = !(size.wrapping_sub(1)) & !0xf;
        self.set32(BARS + bar * 4, kind, mask as u32);
        self.set32(BARS + bar * 4 + 4, 0, (mask >> 32) as u32);
    }

    /// Power management, version 3: D0 and D3hot, state lost on the return to D0.
    fn reset_power(&mut self) {
        self.set(POWER, [0x01, MSIX as u8], [0; 2]);
        self.set16(POWER + 2, 3, 0);
        self.set16(POWER_CONTROL, 0, u16::from(POWER_STATE));
    }

    fn reset_msix(&mut self) {
        self.set(MSIX, [0x11, EXPRESS as u8], [0; 2]);
        self.set16(MSIX_CONTROL, pci::MSIX_VECTORS - 1, MSIX_ENABLE | MSIX_FUNCTION_MASK);
        self.set32(MSIX + 4, pci::MSIX_TABLE_OFFSET as u32 | u32::from(pci::BAR_REGISTERS), 0);
        self.set32(MSIX + 8, pci::MSIX_PBA_OFFSET as u32 | u32::from(pci::BAR_REGISTERS), 0);
    }

    /// PCI Express endpoint, version 2: function-level reset, a x16 link at 16 GT/s.
    fn reset_express(&mut self) {
        const ROLE_BASED_ERRORS: u32 = 1 << 15;
        const FLR_CAPABLE: u32 = 1 << 28;
        const LINK: u32 = 16 << 4 | 4;
        self.set(EXPRESS, [0x10, 0x00], [0; 2]);
        self.set16(EXPRESS + 2, 2, 0);
        self.set32(EXPRESS + 0x04, FLR_CAPABLE | ROLE_BASED_ERRORS | 1, 0);
        // Error reporting, relaxed ordering, payload and read request sizes, no snoop, and the reset bit that reads as zero.
        self.set16(DEVICE_CONTROL, 0x2810, 0x78ff | 0x8000);
        self.set16(DEVICE_CONTROL_2, 0, if self.atomics { ATOMICS_ENABLE } else { 0 });
        self.set32(EXPRESS + 0x0c, LINK, 0);
        self.set16(EXPRESS + 0x10, 0, 0x00c3);
        self.set16(EXPRESS + 0x12, LINK as u16, 0);
        self.set32(EXPRESS + 0x2c, 0b1_1110, 0);
        self.set16(EXPRESS + 0x30, 4, 0);
    }

    fn get16(&self, at: usize) -> u16 {
        self.values.get(at..at + 2).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    /// Reads 1, 2 or 4 bytes. Accesses of other sizes or beyond the space read as all ones.
    pub(crate) fn read(&self, offset: u16, size: u8) -> u32 {
        let inside = offset.checked_add(u16::from(size)).is_some_and(|end| end <= EXTENDED_SIZE);
        if !matches!(size, 1 | 2 | 4) || !inside {
            return u32::MAX;
        }
        let byte = |index: usize| u32::from(self.values.get(index).copied().unwrap_or(0));
        (0..usize::from(size)).map(|index| byte(usize::from(offset) + index) << (8 * index)).sum()
    }

    /// Writes 1, 2 or 4 bytes; bits that are not writable keep their value.
    pub(crate) fn write(&mut self, offset: u16, size: u8, value: u32) -> Effects {
        let before = self.power_state();
        if matches!(size, 1 | 2 | 4) {
            for (index, byte) in value.to_le_bytes().into_iter().take(usize::from(size)).enumerate() {
                self.write_byte(usize::from(offset) + index, byte);
            }
        }
        let flr = self.values.get(DEVICE_CONTROL + 1).is_some_and(|byte| byte & FLR != 0);
        let woken = before == D3HOT && self.power_state() == D0;
        if flr || woken {
            self.reset();
        }
        let slept = before == D0 && self.power_state() == D3HOT;
        Effects { slept, ..self.effects(flr || woken) }
    }

    fn write_byte(&mut self, at: usize, byte: u8) {
        // D1 and D2 are not implemented: a write that asks for them is dropped.
        let state = byte & POWER_STATE;
        if at == POWER_CONTROL && state != D0 && state != D3HOT {
            return;
        }
        if let (Some(value), Some(mask)) = (self.values.get_mut(at), self.writable.get(at)) {
            *value = (*value & !mask) | (byte & mask);
        }
    }

    fn power_state(&self) -> u8 {
        self.values.get(POWER_CONTROL).map_or(D0, |byte| byte & POWER_STATE)
    }

    /// The current state of the enable bits.
    pub(crate) fn effects(&self, reset: bool) -> Effects {
        let (command, msix) = (self.get16(COMMAND), self.get16(MSIX_CONTROL));
        let awake = self.power_state() == D0;
        Effects {
            reset,
            slept: false,
            memory: awake && command & COMMAND_MEMORY != 0,
            bus_master: awake && command & COMMAND_BUS_MASTER != 0,
            msix: msix & MSIX_ENABLE != 0,
            msix_mask: msix & MSIX_FUNCTION_MASK != 0,
        }
    }
}
