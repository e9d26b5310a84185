//! A PCI function as the system enumerates it: identity, BAR sizes, message interrupts, and the addresses it is given.
//!
//! Everything in configuration space comes from the device and is checked.

mod error;
mod interrupt;

use std::fmt;
use std::sync::{Arc, OnceLock};

use wddm_ddi::Zeroed;
use wddm_ddi::types::*;

use crate::bus::removable::Removable;
use crate::bus::{Bar, Bus};
use crate::irql::DEVICE_LEVEL;
use crate::range::RangeAllocator;
pub use error::PciError;
pub use interrupt::Interrupt;

/// Translated addresses of device memory start here, far above any physical memory.
pub const TRANSLATED_BASE: u64 = 1 << 40;
const TRANSLATED_END: u64 = 1 << 46;
/// Address range that 32-bit BARs are assigned in: start and end.
const LOW_WINDOW: (u64, u64) = (0xe000_0000, 0xfec0_0000);

const VENDOR: u16 = 0x00;
const DEVICE: u16 = 0x02;
const COMMAND: u16 = 0x04;
const STATUS: u16 = 0x06;
const REVISION: u16 = 0x08;
const CLASS: u16 = 0x08;
const HEADER_TYPE: u16 = 0x0e;
const BARS: u16 = 0x10;
const SUBSYSTEM: u16 = 0x2c;
const CAPABILITIES: u16 = 0x34;

const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_MASTER: u32 = 1 << 2;
const COMMAND_NO_INTX: u32 = 1 << 10;
const STATUS_CAPABILITIES: u32 = 1 << 4;
const CAPABILITY_POWER: u32 = 0x01;
/// Power management control and status, and the states in it. [PCI power management, 3.2.4]
const POWER_CONTROL: u16 = 4;
const POWER_STATE: u32 = 3;
const POWER_D0: u32 = 0;
const POWER_D3HOT: u32 = 3;
/// No more capabilities fit between the header and offset 256.
const MOST_CAPABILITIES: usize = 48;
/// Vectors that a function may be given: the resource list has eight descriptors at most.
const DESCRIPTORS: usize = 8;

/// Address space of the bus that BARs are placed in.
pub struct BusAddresses {
    low: RangeAllocator,
    high: RangeAllocator,
}

impl Default for BusAddresses {
    fn default() -> Self {
        Self {
            low: RangeAllocator::new(LOW_WINDOW.0, LOW_WINDOW.1),
            high: RangeAllocator::new(TRANSLATED_BASE + (1 << 32), TRANSLATED_END),
        }
    }
}

/// One memory BAR at its translated address.
pub struct BarWindow {
    pub index: u8,
    /// Translated address, which drivers see.
    pub address: u64,
    pub size: u64,
    pub bar: Bar,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vendor, device, class, .. } = self;
        write!(f, "{vendor:04x}:{device:04x} class {class:06x}, {}", self.interrupt)?;
        self.bars.iter().try_for_each(|bar| write!(f, ", BAR{} at 0x{:x} (0x{:x})", bar.index, bar.address, bar.size))
    }
}

/// The state to which a function that left D0 is restored.
pub struct Sleeping {
    bars: [u32; 6],
    command: u32,
}

/// An enumerated function.
pub struct Function {
    pub bus: Arc<dyn Bus>,
    pub vendor: u16,
    pub device: u16,
    /// Class, subclass and interface.
    pub class: u32,
    pub revision: u8,
    /// Vendor of the subsystem below, subsystem above.
    pub subsystem: u32,
    pub bars: Vec<BarWindow>,
    /// Interrupts that the function gets.
    pub interrupt: Interrupt,
    /// The slot that it is in.
    slot: Arc<Removable>,
    /// The contents of configuration space once the function was enabled.
    enabled: OnceLock<Sleeping>,
}

impl Function {
    /// Reads a function's configuration space and places its BARs.
    pub fn enumerate(bus: Arc<dyn Bus>, addresses: &mut BusAddresses) -> Result<Self, PciError> {
        let slot = Removable::new(bus);
        let bus: Arc<dyn Bus> = Arc::<Removable>::clone(&slot);
        let vendor = bus.config_read(VENDOR, 2) as u16;
        if vendor == u16::MAX || vendor == 0 {
            return Err(PciError::Absent);
        }
        let header = bus.config_read(HEADER_TYPE, 1) as u8;
        if header & 0x7f != 0 {
            return Err(PciError::Header(header));
        }
        // Where it forgets its addresses on the way to D0, that is before they are given.
        set_power(&*bus, POWER_D0);
        let command = bus.config_read(COMMAND, 2) & !(COMMAND_MEMORY | COMMAND_MASTER);
        bus.config_write(COMMAND, 2, command);
        let bars = place_bars(&*bus, addresses)?;
        interrupt::check_messages(&*bus, &bars)?;
        let capacity = DESCRIPTORS.saturating_sub(bars.len()) as u16;
        Ok(Self {
            vendor,
            device: bus.config_read(DEVICE, 2) as u16,
            class: bus.config_read(CLASS, 4) >> 8,
            revision: bus.config_read(REVISION, 1) as u8,
            subsystem: bus.config_read(SUBSYSTEM, 4),
            interrupt: Interrupt::of(&*bus, capacity),
            bars,
            bus,
            slot,
            enabled: OnceLock::new(),
        })
    }

    /// How plug and play names the function, most specific first.
    pub fn hardware_ids(&self) -> [String; 2] {
        let Self { vendor, device, subsystem, revision, .. } = self;
        let whole = format!(
            r"PCI\VEN_{vendor:04X}&DEV_{device:04X}&SUBSYS_{:04X}{:04X}&REV_{revision:02X}",
            subsystem >> 16,
            subsystem & 0xffff
        );
        [whole, format!(r"PCI\VEN_{vendor:04X}&DEV_{device:04X}")]
    }

    /// The function is gone: what is there still does not master the bus any more, reads are all ones, and writes go nowhere.
    pub fn pull_out(&self) {
        self.disable();
        self.slot.pull_out();
    }

    /// What its server did against its protocol, in a sentence, if the server was given up for that.
    pub fn fault(&self) -> Option<String> {
        self.bus.fault().map(|fault| format!("{} was given up: {fault}", self.bus.name()))
    }

    /// True while configuration space answers.
    pub fn is_there(&self) -> bool {
        self.bus.config_read(VENDOR, 2) as u16 == self.vendor
    }

    /// Class 0300, a VGA-compatible controller: firmware uses one for its console. The other display controllers, such as 3D controllers (0302), have
    /// no display of their own, or none that firmware knows.
    pub fn is_vga_compatible(&self) -> bool {
        self.class >> 8 == 0x0300
    }

    /// Lets the function answer at its BARs and master the bus. A driver finds it in D0, also one that starts after another that has left it
    /// in D3, such as that of an adapter of which another function was pulled out. [wdm: IRP_MN_START_DEVICE]
    ///
    /// # Errors
    /// A bit of the Command register that it needs does not stick: that of its BARs, if it has any, or that of its messages.
    pub fn enable(&self) -> Result<(), PciError> {
        set_power(&*self.bus, POWER_D0);
        self.restore();
        let line = matches!(self.interrupt, Interrupt::Line(_));
        let command = self.bus.config_read(COMMAND, 2) & !COMMAND_NO_INTX;
        let command = command | COMMAND_MEMORY | COMMAND_MASTER | if line { 0 } else { COMMAND_NO_INTX };
        self.bus.config_write(COMMAND, 2, command);
        let (messages, read) = (matches!(self.interrupt, Interrupt::Messages(_)), self.bus.config_read(COMMAND, 2));
        let needed = if self.bars.is_empty() { 0 } else { COMMAND_MEMORY } | if messages { COMMAND_MASTER } else { 0 };
        if needed & !read != 0 {
            return Err(PciError::Command { written: command, read });
        }
        // The addresses stay as long as the function does.
        self.enabled.get_or_init(|| self.placed());
        Ok(())
    }

    /// True if the function was reset since it was enabled: configuration space answers, and the BARs do not any more.
    pub fn was_reset(&self) -> bool {
        let present = self.bus.config_read(VENDOR, 2) == u32::from(self.vendor);
        present && self.enabled.get().is_some() && self.bus.config_read(COMMAND, 2) & COMMAND_MEMORY == 0
    }

    /// Gives a function that was reset its addresses back.
    pub fn restore(&self) {
        if let Some(enabled) = self.enabled.get() {
            self.place(enabled);
        }
    }

    /// Undoes [`Function::enable`].
    pub fn disable(&self) {
        let command = self.bus.config_read(COMMAND, 2) & !(COMMAND_MEMORY | COMMAND_MASTER);
        self.bus.config_write(COMMAND, 2, command);
    }

    /// Puts the function into D3hot, if it manages power. The answer brings it back.
    pub fn sleep(&self) -> Sleeping {
        let sleeping = self.placed();
        set_power(&*self.bus, POWER_D3HOT);
        sleeping
    }

    fn placed(&self) -> Sleeping {
        let bars = std::array::from_fn(|index| self.bus.config_read(BARS + 4 * index as u16, 4));
        Sleeping { bars, command: self.bus.config_read(COMMAND, 2) }
    }

    /// Brings the function back to D0, where it may be as after reset, and lets it answer at its addresses again.
    pub fn wake(&self, sleeping: &Sleeping) {
        set_power(&*self.bus, POWER_D0);
        self.place(sleeping);
    }

    fn place(&self, placed: &Sleeping) {
        for (index, word) in (0u16..).zip(placed.bars) {
            self.bus.config_write(BARS + 4 * index, 4, word);
        }
        self.bus.config_write(COMMAND, 2, placed.command);
    }

    /// The BAR that has `len` bytes at a translated address, and the offset in it.
    pub fn bar_at(&self, address: u64, len: u64) -> Option<(&BarWindow, u64)> {
        self.bars.iter().find_map(|bar| {
            let offset = address.checked_sub(bar.address)?;
            (offset < bar.size && offset.checked_add(len)? <= bar.size).then_some((bar, offset))
        })
    }

    /// The translated resources that a driver is told.
    pub fn resources(&self) -> CM_RESOURCE_LIST {
        const PCI_BUS: u32 = 5;
        /// CmResourceShareDeviceExclusive and CmResourceShareShared.
        const DEVICE_EXCLUSIVE: u8 = 1;
        const SHARED: u8 = 3;
        let mut list = CM_RESOURCE_LIST::zeroed();
        list.Count = 1;
        list.InterfaceType = PCI_BUS;
        list.Version = 1;
        list.Revision = 1;
        let memory = self.bars.iter().map(|bar| {
            let mut descriptor = CM_PARTIAL_RESOURCE_DESCRIPTOR::zeroed();
            let start = PHYSICAL_ADDRESS { QuadPart: bar.address as i64 };
            let length = match u32::try_from(bar.size) {
                Ok(length) => {
                    descriptor.Type = CM_PARTIAL_RESOURCE_DESCRIPTOR::MEMORY;
                    length
                }
                Err(_) => {
                    descriptor.Type = CM_PARTIAL_RESOURCE_DESCRIPTOR::MEMORY_LARGE;
                    descriptor.Flags = CM_PARTIAL_RESOURCE_DESCRIPTOR::FLAG_MEMORY_LARGE_40;
                    (bar.size >> 8) as u32
                }
            };
            descriptor.ShareDisposition = DEVICE_EXCLUSIVE;
            descriptor.u.Memory = CM_MEMORY_RESOURCE { Start: start, Length: length };
            descriptor
        });
        let (flags, share) = match self.interrupt {
            Interrupt::Messages(_) => (CM_PARTIAL_RESOURCE_DESCRIPTOR::FLAG_INTERRUPT_MESSAGE, DEVICE_EXCLUSIVE),
            _ => (CM_PARTIAL_RESOURCE_DESCRIPTOR::FLAG_INTERRUPT_LEVEL_SENSITIVE, SHARED),
        };
        // Level, vector and affinity of a line lie where those of a message do.
        let interrupts = (0..u32::from(self.interrupt.count())).map(|vector| {
            let mut descriptor = CM_PARTIAL_RESOURCE_DESCRIPTOR::zeroed();
            descriptor.Type = CM_PARTIAL_RESOURCE_DESCRIPTOR::INTERRUPT;
            (descriptor.Flags, descriptor.ShareDisposition) = (flags, share);
            let interrupt =
                CM_MESSAGE_INTERRUPT_RESOURCE { Level: DEVICE_LEVEL.into(), Vector: 0x50 + vector, Affinity: 1 };
            descriptor.u.MessageInterrupt = interrupt;
            descriptor
        });
        for (slot, descriptor) in list.PartialDescriptors.iter_mut().zip(memory.chain(interrupts)) {
            *slot = descriptor;
            list.PartialCount += 1;
        }
        list
    }
}

/// Nothing happens to a function that does not manage power.
fn set_power(bus: &dyn Bus, state: u32) {
    let Some((at, _)) = capabilities(bus).find(|(_, id)| *id == CAPABILITY_POWER) else { return };
    let control = bus.config_read(at + POWER_CONTROL, 2) & !POWER_STATE;
    bus.config_write(at + POWER_CONTROL, 2, control | state);
}

fn place_bars(bus: &dyn Bus, addresses: &mut BusAddresses) -> Result<Vec<BarWindow>, PciError> {
    let mut windows = Vec::new();
    let mut index = 0_u8;
    while index < 6 {
        let register = BARS + 4 * u16::from(index);
        let original = bus.config_read(register, 4);
        let low = size_mask(bus, register, original);
        if low == 0 || low & 1 != 0 {
            index += 1;
            continue;
        }
        let wide = low & 0b110 == 0b100;
        let mask = if wide && index < 5 {
            let high = size_mask(bus, register + 4, bus.config_read(register + 4, 4));
            u64::from(high) << 32 | u64::from(low & !0xf)
        } else {
            u64::from(u32::MAX) << 32 | u64::from(low & !0xf)
        };
        let size = mask.wrapping_neg();
        if !size.is_power_of_two() || (wide && index == 5) {
            return Err(PciError::BarMask { bar: index, mask });
        }
        let Some(bar) = bus.bar(index).filter(|bar| bar.size() == size) else {
            let adaptor = bus.bar(index).map(|bar| bar.size());
            return Err(PciError::BarSize { bar: index, configured: size, adaptor });
        };
        let space = if wide { &mut addresses.high } else { &mut addresses.low };
        let address = space.allocate(size, size.max(4096)).ok_or(PciError::NoAddressSpace(index))?;
        bus.config_write(register, 4, address as u32);
        if wide {
            bus.config_write(register + 4, 4, (address >> 32) as u32);
        }
        let address = if wide { address } else { TRANSLATED_BASE + address };
        windows.push(BarWindow { index, address, size, bar });
        index += 1 + u8::from(wide);
    }
    Ok(windows)
}

/// Writes ones to a BAR register and reads what sticks.
fn size_mask(bus: &dyn Bus, register: u16, original: u32) -> u32 {
    bus.config_write(register, 4, u32::MAX);
    let mask = bus.config_read(register, 4);
    bus.config_write(register, 4, original);
    mask
}

/// Capabilities of the function: offset and identifier. A list that is a loop ends.
fn capabilities(bus: &dyn Bus) -> impl Iterator<Item = (u16, u32)> {
    let listed = bus.config_read(STATUS, 2) & STATUS_CAPABILITIES != 0;
    let first = if listed { bus.config_read(CAPABILITIES, 1) as u16 & !3 } else { 0 };
    let next = |at: &u16| Some((bus.config_read(*at, 2) >> 8) as u16 & !3);
    let places = std::iter::successors(Some(first), next).take(MOST_CAPABILITIES).take_while(|at| *at >= 0x40);
    places.map(|at| (at, bus.config_read(at, 2) & 0xff))
}

#[cfg(test)]
mod tests;
