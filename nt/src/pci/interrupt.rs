//! How a function interrupts: by messages, by a line, or not at all.

use std::fmt;

use super::{BarWindow, PciError, capabilities};
use crate::bus::Bus;

/// In configuration space.
const INTERRUPT_PIN: u16 = 0x3d;
const CAPABILITY_MSI: u32 = 0x05;
pub(super) const CAPABILITY_MSIX: u32 = 0x11;
/// Offsets of a capability of MSI-X: Message Control, also of MSI, and where table and pending bits lie. [PCIe base specification, MSI-X capability structure]
const MESSAGE_CONTROL: u16 = 2;
const TABLE: u16 = 4;
const PENDING_BITS: u16 = 8;
/// In the two registers, the BAR; the other bits are the offset in it.
pub(super) const STRUCTURE_BAR: u32 = 7;
/// Bytes of an entry of the table.
const ENTRY: u64 = 16;

/// How a function interrupts, as its driver is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// So many messages: MSI-X, or else MSI.
    Messages(u16),
    /// An interrupt pin, from 1 for INTA#, and neither MSI-X nor MSI. [PCI local bus specification, 6.2.4]
    Line(u8),
    /// By a pin that is none, or for which the bus has no line: the driver gets no interrupt resource.
    NoLine(u8),
    /// Not at all.
    None,
}

impl Interrupt {
    /// Interrupts of a function, of which there may be so many.
    pub(super) fn of(bus: &dyn Bus, capacity: u16) -> Self {
        match (message_count(bus, capacity), bus.config_read(INTERRUPT_PIN, 1)) {
            (0, pin @ 1..=4) if bus.has_line() => Self::Line(pin as u8),
            (0, 0) => Self::None,
            (0, pin) => Self::NoLine(pin as u8),
            (messages, _) => Self::Messages(messages),
        }
    }

    /// Numbers that the interrupt routine is called with: one for each message, and 0 for a line.
    pub fn count(self) -> u16 {
        match self {
            Self::Messages(count) => count,
            Self::Line(_) => 1,
            Self::NoLine(_) | Self::None => 0,
        }
    }
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |pin: u8| char::from(b'@'.saturating_add(pin));
        match *self {
            Self::Messages(count) => return write!(f, "{count} message interrupts"),
            Self::Line(pin) => return write!(f, "no message interrupts, line-based interrupt INT{}#", name(pin)),
            Self::NoLine(pin @ 1..=4) => write!(
                f,
                "no message interrupts, and Interrupt Pin at 0x3d of configuration space reads {pin} (INT{}#), for which what serves the function has no line: expected is count 1 in \
                 the answer to DEVICE_GET_IRQ_INFO of index 0 (INTx)",
                name(pin)
            )?,
            Self::NoLine(pin) => write!(
                f,
                "no message interrupts, and Interrupt Pin at 0x3d of configuration space reads {pin}: expected is 1 to 4 for INTA# to INTD#, or 0 for none"
            )?,
            Self::None => f.write_str("neither message interrupts nor an interrupt pin with a line of the bus")?,
        }
        f.write_str(": no interrupt resource, and DxgkDdiInterruptRoutine is never called")
    }
}

/// The capability by which a function sends messages: MSI-X, or else MSI.
struct Messages {
    at: u16,
    is_msix: bool,
    control: u32,
}

impl Messages {
    fn find(bus: &dyn Bus) -> Option<Self> {
        let of = |wanted| capabilities(bus).find(|(_, id)| *id == wanted).map(|(at, _)| at);
        let (at, is_msix) = of(CAPABILITY_MSIX).map(|at| (at, true)).or_else(|| Some((of(CAPABILITY_MSI)?, false)))?;
        Some(Self { at, is_msix, control: bus.config_read(at + MESSAGE_CONTROL, 2) })
    }

    fn count(&self) -> u16 {
        match self.is_msix {
            true => (self.control & 0x7ff) as u16 + 1,
            false => 1 << (self.control >> 1 & 0b111).min(5),
        }
    }
}

/// Message interrupts that the function gets: MSI-X, or else MSI, of which it gets a power of two, that may be less than it asks for.
/// [PCIe base specification, Multiple Message Enable]
fn message_count(bus: &dyn Bus, capacity: u16) -> u16 {
    let Some(messages) = Messages::find(bus) else { return 0 };
    let served = bus.messages(messages.is_msix).map_or(capacity, |served| u16::try_from(served).unwrap_or(u16::MAX));
    let count = messages.count().min(capacity).min(served);
    match count.checked_ilog2() {
        Some(power) if !messages.is_msix => 1 << power,
        _ => count,
    }
}

/// Compares what configuration space says of message interrupts with the BARs, and with what serves the function.
pub(super) fn check_messages(bus: &dyn Bus, bars: &[BarWindow]) -> Result<(), PciError> {
    let Some(messages) = Messages::find(bus) else { return Ok(()) };
    let Messages { at, is_msix, control } = messages;
    let count = u64::from(messages.count());
    let structures = [("table", TABLE, count * ENTRY), ("pending bit array", PENDING_BITS, count.div_ceil(64) * 8)];
    for (what, register, bytes) in structures.into_iter().filter(|_| is_msix) {
        let register = (at + register, bus.config_read(at + register, 4));
        let (index, offset) = (register.1 & STRUCTURE_BAR, u64::from(register.1 & !STRUCTURE_BAR));
        let bar = bars.iter().find(|bar| u32::from(bar.index) == index).map(|bar| bar.size);
        if bar.is_none_or(|size| offset + bytes > size) {
            return Err(PciError::MessageStructure { what, register, bytes, bar });
        }
    }
    // Of MSI a function may get fewer than it asks for, which what serves it may count in its own way before they are enabled.
    match bus.messages(is_msix) {
        Some(adaptor) if adaptor == 0 || is_msix && u64::from(adaptor) < count => Err(PciError::MessageCount {
            capability: if is_msix { "MSI-X" } else { "MSI" },
            register: (at + MESSAGE_CONTROL, control),
            configured: messages.count().into(),
            adaptor,
        }),
        _ => Ok(()),
    }
}
