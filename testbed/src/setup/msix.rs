//! MSI-X of a function as its operating system finds and switches it. [PCIe base specification, MSI-X capability structure]

use std::io;

use dxgkrnl::bus::Bus;

/// Registers of configuration space that every PCI function has.
pub(super) mod config {
    pub(in crate::setup) const COMMAND: u16 = 0x04;
    pub(in crate::setup) const CLASS: u16 = 0x08;
    pub(in crate::setup) const COMMAND_MEMORY: u32 = 1 << 1;
    pub(super) const STATUS: u16 = 0x06;
    pub(super) const STATUS_CAPABILITIES: u32 = 1 << 4;
    pub(in crate::setup) const BAR0: u16 = 0x10;
    pub(in crate::setup) const BAR_PREFETCHABLE: u32 = 1 << 3;
    pub(super) const CAPABILITIES: u16 = 0x34;
    pub(super) const CAPABILITY_MSI: u32 = 0x05;
    pub(super) const CAPABILITY_MSIX: u32 = 0x11;
    /// Capabilities that a list can hold in the 192 bytes behind the header; a longer list is a loop.
    pub(super) const CAPABILITIES_MAX: usize = 48;
}

pub(super) const CONTROL: u16 = 2;
pub(super) const CONTROL_ENABLE: u32 = 1 << 15;
pub(super) const CONTROL_MASK_ALL: u32 = 1 << 14;
/// In the control word of MSI: whether messages are sent, and the power of two that says how many the function may use.
const MSI_ENABLE: u32 = 1;
const MSI_USED: u32 = 0b111 << 4;
pub(super) const CONTROL_SIZE: u32 = 0x7ff;
pub(super) const TABLE: u16 = 4;
pub(super) const TABLE_BAR: u32 = 7;
pub(super) const ENTRY_SIZE: u64 = 16;
pub(super) const ENTRY_ADDRESS_LOW: u64 = 0;
pub(super) const ENTRY_ADDRESS_HIGH: u64 = 4;
pub(super) const ENTRY_DATA: u64 = 8;
pub(super) const ENTRY_CONTROL: u64 = 12;
pub(super) const ENTRY_MASKED: u64 = 1;
/// Message address of the first processor's interrupt controller.
pub(super) const MESSAGE_ADDRESS: u64 = 0xfee0_0000;
/// First vector that a system hands out to devices.
pub(super) const MESSAGE_DATA: u64 = 0x20;

/// Positions of the MSI-X structures of a function.
pub(super) struct Msix {
    pub(super) capability: u16,
    pub(super) vectors: u32,
    /// Offset of the table in BAR0.
    pub(super) table: u64,
}

impl Msix {
    /// Looks for the capability.
    ///
    /// # Errors
    /// The function has none, or its table is elsewhere than in BAR0.
    pub(super) fn find(bus: &dyn Bus) -> io::Result<Self> {
        let capability = capability(bus, config::CAPABILITY_MSIX)?;
        let control = bus.config_read(capability + CONTROL, 2);
        let table = bus.config_read(capability + TABLE, 4);
        if table & TABLE_BAR != 0 {
            return Err(io::Error::other("the MSI-X table is not in BAR0"));
        }
        Ok(Self { capability, vectors: (control & CONTROL_SIZE) + 1, table: u64::from(table & !TABLE_BAR) })
    }

    /// The capability of a function that has `wanted` vectors.
    ///
    /// # Errors
    /// As [`Msix::find`]; the function has fewer.
    pub(super) fn with_vectors(bus: &dyn Bus, wanted: u16) -> io::Result<Self> {
        let msix = Self::find(bus)?;
        if u32::from(wanted) > msix.vectors {
            return Err(io::Error::other(format!("{wanted} vectors asked for, the function has {}", msix.vectors)));
        }
        Ok(msix)
    }

    /// Sets and clears bits of the control word.
    pub(super) fn set_control(&self, bus: &dyn Bus, set: u32, clear: u32) {
        let control = bus.config_read(self.capability + CONTROL, 2);
        bus.config_write(self.capability + CONTROL, 2, (control & !clear) | set);
    }
}

/// Switches the messages of a function whose MSI-X table, if it has one, is somebody else's business.
///
/// # Errors
/// It has neither MSI-X nor MSI, or fewer than `wanted` messages.
pub(super) fn switch_messages(bus: &dyn Bus, wanted: u16, on: bool) -> io::Result<()> {
    let (at, is_msix) = match capability(bus, config::CAPABILITY_MSIX) {
        Ok(msix) => (msix + CONTROL, true),
        Err(none) => (capability(bus, config::CAPABILITY_MSI).map_err(|_| none)? + CONTROL, false),
    };
    let control = bus.config_read(at, 2);
    let (name, enable, offered) = match is_msix {
        true => ("MSI-X", CONTROL_ENABLE, (control & CONTROL_SIZE) + 1),
        false => ("MSI", MSI_ENABLE, 1 << (control >> 1 & 0b111)),
    };
    if u32::from(wanted) > offered {
        return Err(io::Error::other(format!("{wanted} messages asked for, the function has {offered}")));
    }
    if !on {
        bus.config_write(at, 2, control & !enable);
        return Ok(());
    }
    let used = wanted.max(1).next_power_of_two().trailing_zeros() << MSI_USED.trailing_zeros();
    let settings = if is_msix { control & !CONTROL_MASK_ALL } else { control & !MSI_USED | used };
    bus.config_write(at, 2, settings | enable);
    has_stuck(bus, name, at, settings | enable, enable)
}

/// Fails if the enable bit that was written to the Message Control register at `at` is not read there. A function that is gone reads as ones.
fn has_stuck(bus: &dyn Bus, name: &str, at: u16, written: u32, enable: u32) -> io::Result<()> {
    let read = bus.config_read(at, 2);
    let told = || {
        io::Error::other(format!(
            "Message Control of {name} at {at:#04x} of configuration space reads {read:#06x} after {written:#06x} was written: {name} Enable (bit {}) must be writable, \
             or the function sends no messages [PCIe base specification, {name} capability structure]",
            enable.trailing_zeros()
        ))
    };
    if read & enable != 0 { Ok(()) } else { Err(told()) }
}

/// Offset in configuration space of the capability with this id.
///
/// # Errors
/// The function has none of this kind, or does not answer: then every byte reads as 0xff.
pub fn capability(bus: &dyn Bus, id: u32) -> io::Result<u16> {
    if bus.config_read(config::STATUS, 2) & config::STATUS_CAPABILITIES != 0 {
        let mut at = bus.config_read(config::CAPABILITIES, 1) as u16 & 0xfc;
        for _ in 0..config::CAPABILITIES_MAX {
            if at == 0 {
                break;
            }
            if bus.config_read(at, 1) == id {
                return Ok(at);
            }
            at = bus.config_read(at + 1, 1) as u16 & 0xfc;
        }
    }
    let (identity, status) = (bus.config_read(0, 4), bus.config_read(config::STATUS, 2));
    Err(io::Error::other(match identity {
        u32::MAX => "the function does not answer, so that its configuration space reads as 0xff: its server is gone or answers junk, or the function was removed".to_owned(),
        _ => format!("the function {:04x}:{:04x} has no capability {id:#04x}; its Status register reads {status:#06x}", identity & 0xffff, identity >> 16),
    }))
}
