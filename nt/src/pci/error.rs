//! Reasons for which a function of PCI cannot be used.

use std::fmt;

use super::interrupt::STRUCTURE_BAR;
use super::{COMMAND_MASTER, COMMAND_MEMORY};

/// A function cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PciError {
    /// Nothing answers.
    Absent,
    /// Not an ordinary function: header type.
    Header(u8),
    /// The size mask of a BAR makes no sense.
    BarMask {
        /// BAR number.
        bar: u8,
        /// Value that the BAR read as after ones were written.
        mask: u64,
    },
    /// Configuration space and what serves the function disagree about a BAR.
    BarSize {
        /// BAR number.
        bar: u8,
        /// Bytes according to configuration space.
        configured: u64,
        /// Bytes according to what serves the function, if it knows the BAR.
        adaptor: Option<u64>,
    },
    /// No address range is free for a BAR.
    NoAddressSpace(u8),
    /// A structure of MSI-X lies outside of the BAR that configuration space names for it.
    MessageStructure {
        /// Which one.
        what: &'static str,
        /// Offset in configuration space of the register that says where it lies, and its value.
        register: (u16, u32),
        /// Bytes of the structure.
        bytes: u64,
        /// Bytes of the BAR, if there is one.
        bar: Option<u64>,
    },
    /// Configuration space offers more message interrupts than what serves the function has.
    MessageCount {
        /// MSI-X or MSI.
        capability: &'static str,
        /// Offset in configuration space of Message Control, and its value.
        register: (u16, u32),
        /// Messages according to it.
        configured: u32,
        /// Messages according to what serves the function.
        adaptor: u32,
    },
    /// Bits of the Command register that the function must have do not stick.
    Command {
        /// Value that was written.
        written: u32,
        /// Value that was read afterwards.
        read: u32,
    },
}

impl fmt::Display for PciError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("no function answers configuration reads"),
            Self::Header(header) => write!(f, "header type 0x{header:02x} is not that of an ordinary function"),
            Self::BarMask { bar, mask } => write!(f, "BAR{bar} has the impossible size mask 0x{mask:x}"),
            Self::BarSize { bar, configured, adaptor } => {
                write!(f, "BAR{bar} has 0x{configured:x} bytes in configuration space")?;
                match adaptor {
                    Some(bytes) => write!(f, " and 0x{bytes:x} bytes in what serves the function"),
                    None => f.write_str(", and what serves the function has no such BAR"),
                }
            }
            Self::NoAddressSpace(bar) => write!(f, "no address space left for BAR{bar}"),
            Self::MessageStructure { what, register: (at, value), bytes, bar } => {
                let (index, offset) = (value & STRUCTURE_BAR, value & !STRUCTURE_BAR);
                write!(
                    f,
                    "the register at 0x{at:02x} of configuration space reads 0x{value:08x}, so that the MSI-X {what}"
                )?;
                write!(f, " of 0x{bytes:x} bytes lies at 0x{offset:x} of BAR{index}, ")?;
                match bar {
                    Some(size) => write!(f, "which has 0x{size:x} bytes")?,
                    None => f.write_str("which is no memory BAR of the function")?,
                }
                f.write_str("; it must lie in a memory BAR of the function as a whole [PCIe base specification, MSI-X capability structure]")
            }
            Self::MessageCount { capability, register: (at, value), configured, adaptor } => write!(
                f,
                "Message Control of {capability} at 0x{at:02x} of configuration space reads 0x{value:04x}, which is {configured} message interrupts, and what serves the function has {adaptor} (DEVICE_GET_IRQ_INFO); configuration space may not offer more"
            ),
            Self::Command { written, read } => {
                write!(
                    f,
                    "the Command register at 0x04 of configuration space reads 0x{read:04x} after 0x{written:04x} was written: "
                )?;
                let missing = written & !read;
                let memory = (
                    COMMAND_MEMORY,
                    "Memory Space Enable (bit 1), without which the function does not answer at its BARs,",
                );
                let master = (
                    COMMAND_MASTER,
                    "Bus Master Enable (bit 2), without which it sends no message interrupts and reaches no memory,",
                );
                let names: Vec<_> =
                    [memory, master].iter().filter(|(bit, _)| missing & bit != 0).map(|(_, name)| *name).collect();
                write!(f, "{} must be writable [PCIe base specification, Command register]", names.join(" and "))
            }
        }
    }
}

impl std::error::Error for PciError {}
