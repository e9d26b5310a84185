//! How a function interrupts: by messages, by a line, or not at all.

use std::fmt;

use super::message_count;
use crate::bus::Bus;

/// In configuration space.
const INTERRUPT_PIN: u16 = 0x3d;

/// How a function interrupts, as its driver is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// So many messages: MSI-X, or else MSI.
    Messages(u16),
    /// An interrupt pin, from 1 for INTA#, and neither MSI-X nor MSI. [PCI local bus specification, 6.2.4]
    Line(u8),
    /// Not at all, or by a pin for which the bus has no line: the driver gets no interrupt resource.
    None,
}

impl Interrupt {
    /// Interrupts of a function, of which there may be so many.
    pub(super) fn of(bus: &dyn Bus, capacity: u16) -> Self {
        match (message_count(bus).min(capacity), bus.config_read(INTERRUPT_PIN, 1)) {
            (0, pin @ 1..=4) if bus.has_line() => Self::Line(pin as u8),
            (0, _) => Self::None,
            (messages, _) => Self::Messages(messages),
        }
    }

    /// Numbers that the interrupt routine is called with: one for each message, and 0 for a line.
    pub fn count(self) -> u16 {
        match self {
            Self::Messages(count) => count,
            Self::Line(_) => 1,
            Self::None => 0,
        }
    }
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Messages(count) => write!(f, "{count} message interrupts"),
            Self::Line(pin) => {
                write!(f, "no message interrupts, line-based interrupt INT{}#", char::from(b'@'.saturating_add(pin)))
            }
            Self::None => f.write_str(
                "neither message interrupts nor an interrupt pin with a line of the bus: no interrupt resource, and DxgkDdiInterruptRoutine is never called",
            ),
        }
    }
}
