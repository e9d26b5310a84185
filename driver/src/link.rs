//! Boards with two GPUs: which functions belong together, and the adapter that speaks for all of them.
//!
//! The functions of such a board are devices of their own for plug and play, and one linked adapter for the graphics kernel. The operating
//! system asks for the chain right after DxgkDdiAddDevice, before any hardware may be touched, so the answer is what plug and play knows:
//! the subsystem of the board, and the place of the function on its bus. Function 0 leads: it starts last, when it finds the others
//! started, and stops first; every DDI but those of plug and play, power and interrupts comes with its handle. [dispmprt:
//! DXGKDDI_LINK_DEVICE]

use core::ffi::c_void;

use campanile_hw::pci::{LINKED_FUNCTIONS, SUBSYSTEM_ID_LINKED, SUBSYSTEM_VENDOR_ID};
use wddm_ddi::Zeroed;
use wddm_ddi::km::LINKED_DEVICE;
use wddm_ddi::nt::{DEVICE_PROPERTY_ADDRESS, DEVICE_PROPERTY_BUS_NUMBER, DEVICE_PROPERTY_HARDWARE_ID};
use wddm_ddi::types::BOOLEAN;

use crate::irql::Passive;
use crate::nt;

/// Most GPUs of an adapter.
pub(crate) const ENGINES: usize = LINKED_FUNCTIONS as usize;

/// Bytes of the first hardware identifiers: two of at most 64 characters.
const IDENTIFIERS: usize = 256;

/// Place of a function on a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The same for functions of one board, and for no others.
    pub(crate) chain: u32,
    /// Number of the function, and of its engine: 0 leads.
    pub(crate) position: u32,
    /// Functions of the board.
    pub(crate) count: u32,
}

impl Link {
    /// A function that plug and play knows nothing of is alone.
    pub(crate) const ALONE: Self = Self { chain: 0, position: 0, count: 1 };

    /// The link of a device, by its hardware ids and its bus address; [`Self::ALONE`] if plug and play does not tell the address.
    ///
    /// # Safety
    /// `device` is a physical device object of the operating system.
    pub(crate) unsafe fn of(_irql: &Passive, device: *mut c_void) -> Self {
        let word = |property| {
            let mut bytes = [0; 4];
            // SAFETY: the caller vouches for the device.
            let got = unsafe { nt::device_property(device, property, &mut bytes) };
            (got == Some(bytes.len())).then_some(u32::from_le_bytes(bytes))
        };
        let mut identifiers = [0; IDENTIFIERS];
        // SAFETY: the caller vouches for the device.
        let got = unsafe { nt::device_property(device, DEVICE_PROPERTY_HARDWARE_ID, &mut identifiers) };
        let linked = got.and_then(|got| subsystem(identifiers.get(..got)?));
        let linked = linked == Some((SUBSYSTEM_ID_LINKED, SUBSYSTEM_VENDOR_ID));
        match (word(DEVICE_PROPERTY_BUS_NUMBER), word(DEVICE_PROPERTY_ADDRESS)) {
            (Some(bus), Some(address)) => Self::at(bus, address, linked),
            _ => Self::ALONE,
        }
    }

    /// The link of the function at `address` of a bus: device number in the upper half, function number in the lower.
    fn at(bus: u32, address: u32, linked: bool) -> Self {
        let (device, function) = (address >> 16, address & 0xffff);
        // A bus number has the segment in its upper bits, a device number has 5 bits; a chain is not 0.
        let chain = 1 | bus << 6 | (device & 0x1f) << 1;
        match linked && function < LINKED_FUNCTIONS {
            true => Self { chain, position: function, count: LINKED_FUNCTIONS },
            false => Self { chain, ..Self::ALONE },
        }
    }

    /// DxgkDdiLinkDevice. A function that is alone is part of no chain, and says so as drivers do that know of none: all of it is 0.
    pub(crate) fn answer(self) -> LINKED_DEVICE {
        if self.count == 1 {
            return LINKED_DEVICE::zeroed();
        }
        LINKED_DEVICE { ChainUid: self.chain, NumberOfLinksInChain: self.count, LeadLink: BOOLEAN::from(self.leads()) }
    }

    /// True if the adapter's DDIs come with this function's handle.
    pub(crate) fn leads(self) -> bool {
        self.position == 0
    }

    /// In one word, and back.
    pub(crate) fn into_bits(self) -> u64 {
        u64::from(self.chain) | u64::from(self.position) << 32 | u64::from(self.count) << 48
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { chain: bits as u32, position: (bits >> 32) as u32 & 0xffff, count: (bits >> 48) as u32 }
    }
}

/// Subsystem and its vendor in a hardware identifier of 16-bit characters, such as `PCI\VEN_v&DEV_d&SUBSYS_ssssvvvv&REV_r`.
fn subsystem(identifiers: &[u8]) -> Option<(u16, u16)> {
    const MARK: &[u8] = b"SUBSYS_";
    const DIGITS: usize = 8;
    let (units, _) = identifiers.as_chunks::<2>();
    let unit = |at: usize| units.get(at).copied().map(u16::from_le_bytes);
    let is_mark = |start: &usize| MARK.iter().zip(*start..).all(|(mark, at)| unit(at) == Some(u16::from(*mark)));
    // The first identifier is the most specific; what follows its NUL says less.
    let end = units.iter().position(|unit| *unit == [0; 2]).unwrap_or(units.len());
    let start = (0..end).find(is_mark)? + MARK.len();
    let digits = (start..start + DIGITS).map(|at| char::from_u32(unit(at)?.into())?.to_digit(16));
    let value = digits.reduce(|value, digit| Some(value? << 4 | digit?))??;
    Some(((value >> 16) as u16, value as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn the_subsystem_is_read_from_the_first_identifier_only() {
        let first = r"PCI\VEN_CA3E&DEV_0032&SUBSYS_0002CA3E&REV_01";
        assert_eq!(subsystem(&wide(first)), Some((2, 0xca3e)));
        for without in [
            "",
            r"PCI\VEN_CA3E&DEV_0032&REV_01",
            "PCI\\VEN_CA3E&DEV_0032\0PCI\\VEN_CA3E&SUBSYS_0002CA3E\0",
            "SUBSYS_0002CA3",
            "SUBSYS_0002CAXE",
            "SUBSYS_",
        ] {
            assert_eq!(subsystem(&wide(without)), None, "{without}");
        }
        // A buffer that ends in the middle of a character: after the last digit, and before it.
        let cut = |bytes| subsystem(&wide(first)[..wide(first).len() - bytes]);
        assert_eq!([cut(13), cut(15)], [Some((2, 0xca3e)), None]);
    }

    #[test]
    fn functions_of_one_board_are_one_chain_and_function_0_leads() {
        let [first, second] = [0x3_0000, 0x3_0001].map(|address| Link::at(7, address, true));
        assert_eq!((first.chain, first.count), (second.chain, 2));
        assert_eq!([first, second].map(|link| (link.position, link.leads())), [(0, true), (1, false)]);
        assert_eq!(second.answer(), LINKED_DEVICE { ChainUid: second.chain, NumberOfLinksInChain: 2, LeadLink: 0 });
        let chains: Vec<u32> =
            [(7, 0x4_0000), (6, 0x3_0000), (0, 0)].map(|(bus, at)| Link::at(bus, at, true).chain).into();
        assert!(chains.iter().all(|chain| *chain != first.chain && *chain != 0));
        assert_eq!(Link::from_bits(second.into_bits()), second);
    }

    #[test]
    fn other_boards_and_functions_beyond_the_board_are_alone() {
        for link in [Link::at(7, 0x3_0001, false), Link::at(7, 0x3_0002, true), Link::ALONE] {
            assert_eq!((link.position, link.count), (0, 1), "{link:?}");
            let alone = LINKED_DEVICE { ChainUid: 0, NumberOfLinksInChain: 0, LeadLink: 0 };
            assert_eq!(link.answer(), alone);
        }
    }
}
