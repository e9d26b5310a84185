//! What setup has written to the registry for a driver, and where.

pub use nt::registry::{RegistryKey, RegistryValue};

/// Where the drivers of a machine have their services; CurrentControlSet is a link to this one.
pub(crate) const SERVICES: &str = "Registry\\Machine\\System\\ControlSet001\\Services";
/// Where compute accelerators have their software keys, by number. [system-defined-device-setup-classes: ComputeAccelerator]
pub(crate) const CLASS: &str =
    "Registry\\Machine\\System\\ControlSet001\\Control\\Class\\{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}";
/// The name of that class.
pub(crate) const CLASS_NAME: &str = "ComputeAccelerator";

/// The keys of an installed driver. A driver that nobody has installed has empty ones. Copies have the same keys, and what a driver writes to them is in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installation {
    /// The software key of its devices: DriverDesc, DriverVersion, and what the AddReg directives of its INF file write.
    pub software: RegistryKey,
    /// The key of its service.
    pub service: RegistryKey,
}

/// The value that names the user-mode drivers.
pub(crate) const USER_MODE_DRIVER_NAME: &str = "UserModeDriverName";

impl Installation {
    /// Four numbers of 16 bits, the first uppermost, of DriverVersion.
    pub(crate) fn driver_version(&self) -> Option<u64> {
        let text = self.software.text("DriverVersion")?;
        let mut numbers = text.split('.').map(str::parse::<u16>);
        let mut version = 0;
        for _ in 0..4 {
            version = version << 16 | u64::from(numbers.next()?.ok()?);
        }
        numbers.next().is_none().then_some(version)
    }

    /// The user-mode driver with this place in the list.
    pub(crate) fn user_mode_driver(&self, place: usize) -> Option<String> {
        match self.software.get(USER_MODE_DRIVER_NAME)? {
            RegistryValue::Texts(mut names) => (place < names.len()).then(|| names.swap_remove(place)),
            RegistryValue::Text(name) => (place == 0).then_some(name),
            RegistryValue::Number(_) | RegistryValue::Other { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Option<u64> {
        let software = RegistryKey::default().with_text("DRIVERVERSION", text);
        Installation { software, ..Installation::default() }.driver_version()
    }

    #[test]
    fn versions_have_four_numbers_of_sixteen_bits() {
        assert_eq!(version("1.2.3.65535"), Some(0x0001_0002_0003_ffff));
        assert_eq!(
            ["", "1.2.3", "1.2.3.4.5", "1.2.3.65536", "1.2.3.x", "1..2.3"].map(version),
            [const { None }; 6],
            "no version"
        );
    }
}
