//! Checks of the PCI function that a guest has found: its configuration space and resources against those of the GPU, one case for each statement.

use campanile_device::Gpu;
use campanile_hw::pci;

use super::protocol::Found;

const STATUS_CAPABILITIES: u32 = 1 << 4;
const CAPABILITY_POWER: u32 = 0x01;
const CAPABILITY_MSIX: u32 = 0x11;
const CAPABILITY_EXPRESS: u32 = 0x10;
/// What is to be found of a PCI Express function. [PCIe base specification, 7.5.3]
const EXPRESS_FLR: u32 = 1 << 28;
const LINK_X16_16GT: u32 = 16 << 4 | 4;
/// A prefetchable range, as Linux marks it in `resource`. [linux/ioport.h: IORESOURCE_PREFETCH, IORESOURCE_MEM_64]
const PREFETCHABLE: u64 = 0x2000;
const WIDE: u64 = 0x0010_0000;

/// The function that a server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// Bytes of each BAR.
    pub(super) bars: [Option<u64>; 6],
}

impl Expected {
    pub(super) fn of(gpu: &Gpu) -> Self {
        Self { bars: [0, 1, 2, 3, 4, 5].map(|bar| gpu.bar_size(bar)) }
    }
}

/// A statement, and why it does not hold.
pub(super) type Check = (&'static str, Result<(), String>);

/// Configuration space as bytes.
struct Config(Vec<u8>);

impl Config {
    fn parse(text: &str) -> Option<Self> {
        let digit = |at: usize| text.get(at..at + 2).and_then(|byte| u8::from_str_radix(byte, 16).ok());
        (0..text.len()).step_by(2).map(digit).collect::<Option<_>>().map(Self)
    }

    /// `size` bytes; all ones beyond the end.
    fn read(&self, offset: u32, size: u32) -> u32 {
        let byte = |at: u32| u32::from(self.0.get(at as usize).copied().unwrap_or(0xff));
        (0..size).map(|index| byte(offset + index) << (8 * index)).fold(0, |all, byte| all | byte)
    }

    /// Offset of the capability with this id.
    fn capability(&self, id: u32) -> Result<u32, String> {
        if self.read(0x06, 2) & STATUS_CAPABILITIES == 0 {
            return Err("the function says that it has no capabilities".to_owned());
        }
        let mut at = self.read(0x34, 1) & !3;
        // More do not fit behind the header.
        for _ in 0..48 {
            if at < 0x40 {
                break;
            }
            if self.read(at, 1) == id {
                return Ok(at);
            }
            at = self.read(at + 1, 1) & !3;
        }
        Err(format!("there is no capability {id:#04x}"))
    }
}

fn same(what: &str, found: impl Into<u64>, expected: impl Into<u64>) -> Result<(), String> {
    let (found, expected) = (found.into(), expected.into());
    if found == expected { Ok(()) } else { Err(format!("{what} is {found:#x}, {expected:#x} expected")) }
}

/// Every statement about a function.
pub(super) fn checks(found: &Found, expected: &Expected) -> Vec<Check> {
    let Some(config) = Config::parse(&found.config) else {
        return vec![("IsDescribed", Err("its configuration space is not bytes in hexadecimal".to_owned()))];
    };
    vec![
        ("HasItsIdentity", identity(&config)),
        ("HasExtendedConfigurationSpace", same("its size", config.0.len() as u64, 4096_u64)),
        ("HasBarsOfItsKindsAndSizes", bars(&config, found, expected)),
        ("HasBarsAtPlacesOfTheirOwn", places(found, expected)),
        ("HasPowerManagement", power(&config)),
        ("HasMessageInterrupts", messages(&config)),
        ("IsAnExpressEndpointWithFunctionLevelReset", express(&config)),
        ("IsAloneInItsIommuGroup", alone(found)),
    ]
}

fn identity(config: &Config) -> Result<(), String> {
    same("the vendor", config.read(0x00, 2), pci::VENDOR_ID)?;
    same("the device", config.read(0x02, 2), pci::DEVICE_ID)?;
    same("the revision", config.read(0x08, 1), pci::REVISION_ID)?;
    same("the class", config.read(0x08, 4) >> 8, pci::CLASS_CODE)?;
    same("the header type", config.read(0x0e, 1), 0_u8)?;
    same("the subsystem's vendor", config.read(0x2c, 2), pci::SUBSYSTEM_VENDOR_ID)?;
    same("the subsystem", config.read(0x2e, 2), pci::SUBSYSTEM_ID)
}

fn bars(config: &Config, found: &Found, expected: &Expected) -> Result<(), String> {
    for (bar, size) in (0_u32..).zip(expected.bars) {
        let (start, end, flags) = found.resources.get(bar as usize).copied().unwrap_or_default();
        let Some(size) = size else {
            same(&format!("the end of range {bar}, which is no BAR,"), end, 0_u64)?;
            continue;
        };
        let prefetchable = u32::from(bar == u32::from(pci::BAR_VRAM));
        same(&format!("the size of BAR{bar}"), (end - start).wrapping_add(1), size)?;
        same(&format!("the kind of BAR{bar}"), config.read(0x10 + 4 * bar, 4) & 0xf, 0b100 | prefetchable << 3)?;
        same(&format!("BAR{bar} being prefetchable"), u8::from(flags & PREFETCHABLE != 0), prefetchable)?;
        same(&format!("BAR{bar} having 64 bits"), u8::from(flags & WIDE != 0), 1_u8)?;
    }
    Ok(())
}

fn places(found: &Found, expected: &Expected) -> Result<(), String> {
    let is_bar = |(_, size): &(&(u64, u64, u64), Option<u64>)| size.is_some();
    let mut ranges: Vec<_> = found.resources.iter().zip(expected.bars).filter(is_bar).collect();
    ranges.sort_by_key(|((start, _, _), _)| *start);
    let mut last = 0;
    for ((start, end, _), size) in ranges {
        let size = size.unwrap_or(1).max(1);
        if *start <= last || start % size != 0 {
            return Err(format!("a BAR of {size:#x} bytes is at {start:#x}, the one before ends at {last:#x}"));
        }
        last = *end;
    }
    Ok(())
}

fn power(config: &Config) -> Result<(), String> {
    let at = config.capability(CAPABILITY_POWER)?;
    same("the version of power management", config.read(at + 2, 2) & 7, 3_u8)?;
    same("the bit that says that D3hot keeps state", config.read(at + 4, 2) & 8, 0_u8)
}

fn messages(config: &Config) -> Result<(), String> {
    let at = config.capability(CAPABILITY_MSIX)?;
    let bar = u32::from(pci::BAR_REGISTERS);
    same("the number of vectors", (config.read(at + 2, 2) & 0x7ff) + 1, pci::MSIX_VECTORS)?;
    same("the place of the table", config.read(at + 4, 4), pci::MSIX_TABLE_OFFSET as u32 | bar)?;
    same("the place of the pending bits", config.read(at + 8, 4), pci::MSIX_PBA_OFFSET as u32 | bar)
}

fn express(config: &Config) -> Result<(), String> {
    let at = config.capability(CAPABILITY_EXPRESS)?;
    same("version and type", config.read(at + 2, 2) & 0xff, 2_u8)?;
    same("the bit of function-level reset", config.read(at + 4, 4) & EXPRESS_FLR, EXPRESS_FLR)?;
    same("the link", config.read(at + 0x0c, 4) & 0x3ff, LINK_X16_16GT)
}

fn alone(found: &Found) -> Result<(), String> {
    if found.group == [found.name.clone()] {
        return Ok(());
    }
    Err(format!("its group has {}", found.group.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_device::Variant;

    /// The function that a guest finds if the virtual-machine monitor changes nothing of the GPU, and the function that is expected.
    fn found() -> (Found, Expected) {
        let gpu = Gpu::new(&Variant { vram_size: 16 << 20, vram_window: 16 << 20, ..Variant::default() }).unwrap();
        let expected = Expected::of(&gpu);
        let mut resources = vec![(0, 0, 0); 13];
        for (index, size) in expected.bars.iter().enumerate() {
            let Some(size) = size else { continue };
            let start = (index as u64 + 1) << 32;
            let flags = WIDE | if index == 4 { PREFETCHABLE } else { 0 };
            resources[index] = (start, start + size - 1, flags);
        }
        let config = (0..4096).map(|at| format!("{:02x}", gpu.config_read(at, 1))).collect();
        let name = "0000:01:00.0".to_owned();
        (Found { group: vec![name.clone()], name, config, resources }, expected)
    }

    fn broken(change: impl Fn(&mut Found)) -> Vec<&'static str> {
        let (mut found, expected) = found();
        change(&mut found);
        let checks = checks(&found, &expected);
        checks.into_iter().filter(|(_, outcome)| outcome.is_err()).map(|(name, _)| name).collect()
    }

    fn patch(found: &mut Found, at: usize, byte: &str) {
        found.config.replace_range(2 * at..2 * at + 2, byte);
    }

    #[test]
    fn the_gpu_itself_is_as_expected() {
        assert_eq!(broken(|_| {}), [""; 0]);
    }

    #[test]
    fn each_difference_is_found_by_the_statement_about_it() {
        assert_eq!(broken(|found| patch(found, 0x0b, "03")), ["HasItsIdentity"]);
        assert_eq!(broken(|found| patch(found, 0x18, "0c")), ["HasBarsOfItsKindsAndSizes"]);
        assert_eq!(broken(|found| found.resources[0].1 += 4096), ["HasBarsOfItsKindsAndSizes"]);
        assert_eq!(broken(|found| found.resources[1].1 = 4096), ["HasBarsOfItsKindsAndSizes"]);
        assert_eq!(broken(|found| found.resources[4].2 = WIDE), ["HasBarsOfItsKindsAndSizes"]);
        assert_eq!(broken(|found| found.config.truncate(512)), ["HasExtendedConfigurationSpace"]);
        assert_eq!(broken(|found| found.group.push("0000:00:01.0".to_owned())), ["IsAloneInItsIommuGroup"]);
        let moved = |found: &mut Found| {
            let (start, end, flags) = found.resources[2];
            let to = found.resources[0].0;
            found.resources[2] = (to, to + (end - start), flags);
        };
        assert_eq!(broken(moved), ["HasBarsAtPlacesOfTheirOwn"]);
        assert_eq!(broken(|found| found.config = "0g".to_owned()), ["IsDescribed"]);
        // Without the list, none of what is in it.
        let listed = broken(|found| patch(found, 0x06, "00"));
        assert_eq!(listed, ["HasPowerManagement", "HasMessageInterrupts", "IsAnExpressEndpointWithFunctionLevelReset"]);
    }
}
