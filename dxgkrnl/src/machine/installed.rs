//! The registry values that setup has written for the drivers of a machine.

use nt::lock::lock;

use super::{Machine, PnpError};
use crate::config::{CLASS, CLASS_NAME, Installation, RegistryKey, RegistryValue, SERVICES, USER_MODE_DRIVER_NAME};
use crate::registration::DriverId;

/// The key of a service with what setup writes of every driver, if it is not there: path and type of the image, and when and how it is started.
/// [install: HKLM\SYSTEM\CurrentControlSet\Services registry tree]
fn complete(service: &RegistryKey, name: &str) {
    const REG_EXPAND_SZ: u32 = 2;
    const KERNEL_DRIVER: u32 = 1;
    const DEMAND_START: u32 = 3;
    const ERROR_IGNORE: u32 = 0;
    let path = format!("\\SystemRoot\\System32\\drivers\\{name}.sys\0");
    let path = path.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let values = [
        ("ImagePath", RegistryValue::Other { kind: REG_EXPAND_SZ, bytes: path }),
        ("Type", RegistryValue::Number(KERNEL_DRIVER)),
        ("Start", RegistryValue::Number(DEMAND_START)),
        ("ErrorControl", RegistryValue::Number(ERROR_IGNORE)),
    ];
    for (value, usual) in values {
        if service.get(value).is_none() {
            let set = service.set(value, usual);
            debug_assert_eq!(set, Ok(()), "a short value of a new key");
        }
    }
}

/// Puts the keys of a driver in their places. A name that is no path in the registry has its service nowhere.
fn link(root: &RegistryKey, driver: DriverId, name: &str, installation: &Installation) {
    complete(&installation.service, name);
    let class = root.link(&format!("{CLASS}\\{:04}", driver.0), &installation.software);
    debug_assert_eq!(class, Ok(()), "a fixed path");
    if let Some(class) = installation.software.parent() {
        let named = class.set("Class", RegistryValue::Text(CLASS_NAME.to_owned()));
        debug_assert_eq!(named, Ok(()), "a short value");
    }
    let _ = root.link(&format!("{SERVICES}\\{name}"), &installation.service);
}

/// The keys of a driver that nobody has installed yet, in their places.
pub(super) fn not_installed(root: &RegistryKey, driver: DriverId, name: &str) -> Installation {
    let installation = Installation::default();
    link(root, driver, name, &installation);
    installation
}

impl Machine {
    /// Sets the registry keys of a driver, for the adapters that are started from now on.
    ///
    /// # Errors
    /// [`PnpError::NoSuchDriver`]
    pub fn set_installation(&self, driver: DriverId, installation: Installation) -> Result<(), PnpError> {
        let root = &self.0.registry;
        self.change_installation(driver, |name, installed| {
            *installed = installation;
            link(root, driver, name, installed);
        })
    }

    /// Sets UserModeDriverName in the driver's software key, which adapters that are not compute-only must have when they are started.
    ///
    /// # Errors
    /// [`PnpError::NoSuchDriver`]
    pub fn set_user_mode_driver(&self, driver: DriverId, path: &str) -> Result<(), PnpError> {
        let names = RegistryValue::Texts(vec![path.to_owned()]);
        self.change_installation(driver, |_, installed| {
            installed.software = installed.software.clone().with(USER_MODE_DRIVER_NAME, names);
        })
    }

    /// The root of the registry.
    pub fn registry(&self) -> &RegistryKey {
        &self.0.registry
    }

    fn change_installation(
        &self,
        driver: DriverId,
        change: impl FnOnce(&str, &mut Installation),
    ) -> Result<(), PnpError> {
        let mut pnp = lock(&self.0.pnp);
        let loaded = pnp.drivers.get_mut(driver.0).and_then(Option::as_mut).ok_or(PnpError::NoSuchDriver)?;
        change(loaded.miniport.driver().name(), &mut loaded.installation);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_the_values_that_setup_always_writes_and_keeps_those_of_its_inf_file() {
        let root = RegistryKey::default();
        let service = RegistryKey::default().with("Start", RegistryValue::Number(4));
        let installation = Installation { service, ..Installation::default() };
        link(&root, DriverId(7), "toy", &installation);
        let service = root.open(&format!("{SERVICES}\\toy")).expect("the key of the service");
        let numbers = ["Type", "Start", "ErrorControl"].map(|name| service.get(name));
        assert_eq!(numbers, [1, 4, 0].map(|number| Some(RegistryValue::Number(number))));
        let path = service.get("ImagePath").expect("a path");
        let text: Vec<u8> =
            "\\SystemRoot\\System32\\drivers\\toy.sys\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!((path.kind(), path.bytes()), (2, text), "REG_EXPAND_SZ");
        let class = root.open(CLASS).expect("the key of the class");
        assert_eq!(class.text("Class").as_deref(), Some(CLASS_NAME));
        assert_eq!(class.open("0007").map(|key| key.path()), Ok(format!("\\{CLASS}\\0007")));
    }
}
