//! What setup has written for the drivers of a machine.

use nt::lock::lock;

use super::{Machine, PnpError};
use crate::config::{CLASS, Installation, RegistryKey, RegistryValue, SERVICES, USER_MODE_DRIVER_NAME};
use crate::registration::DriverId;

/// Puts the keys of a driver in their places. A name that is no path in the registry has its service nowhere.
fn link(root: &RegistryKey, driver: DriverId, name: &str, installation: &Installation) {
    let class = root.link(&format!("{CLASS}\\{:04}", driver.0), &installation.software);
    debug_assert_eq!(class, Ok(()), "a fixed path");
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
